"""What of docs/recipes.md runs without a cluster is a manifest that holds together, or commands of gssr that exist."""

import shlex
from typing import Any

import fenced
import pytest
import small_yaml

from gssr.cli import NAMES
from gssr.commands import profile

PAGE = fenced.ROOT / "docs" / "recipes.md"
MANIFESTS = fenced.blocks(PAGE, "yaml")


def containers_of(node: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(pod, container) for each container in a manifest."""
    found = []
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        found += containers_of(value)
    if isinstance(node, dict) and "containers" in node:
        found += [(node, container) for container in node["containers"]]
    return found


def options_of(command: list[str]) -> list[str]:
    """The words between ``gssr profile`` and the workload; the workload must follow."""
    at = command.index("gssr")
    assert command[at + 1] == "profile"
    own, workload = profile.split(command[at + 2 :])
    assert workload, command
    return own


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda block: str(block.line))
def test_manifests_record_into_a_volume_that_they_mount(manifest: fenced.Block) -> None:
    parsed = small_yaml.parse(manifest.text)
    assert {"apiVersion", "kind", "metadata", "spec"} <= set(parsed)
    mounted = set()
    for pod, container in containers_of(parsed):
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
        assert set(mounts) <= volumes
        mounted |= set(mounts.values())
    commands = [container["command"] for _, container in containers_of(parsed) if "command" in container]
    assert len(commands) == 1
    output = options_of(commands[0])
    assert output[:2] == ["-a", "-o"] and output[2].rpartition("/")[0] in mounted  # -a: pods are started again


def test_the_parser_of_manifests_refuses_what_is_none() -> None:
    for text in ("a: b: c", "a:\n", "a:\n- b", "a: 1\na: 2", "a:\n  - x: 1\n   y: 2", "no pair"):
        with pytest.raises(ValueError):
            small_yaml.parse(text)
    assert small_yaml.parse('a:\n  - b: 1\n    c: ["d"]\n  - b: 2\ne: x') == {
        "a": [{"b": 1, "c": ["d"]}, {"b": 2}],
        "e": "x",
    }


def test_every_gssr_of_a_recipe_is_one_that_exists() -> None:
    scripts = [block.text.replace("\\\n", " ") for block in fenced.blocks(PAGE, "bash", "sh")]
    for line in "\n".join(scripts).splitlines():
        words = shlex.split(line, comments=True)
        for at in [at for at, word in enumerate(words[:-1]) if word == "gssr" and words[at + 1] != "|"]:
            assert words[at + 1] in NAMES, line
            flags = {flag for option in profile.OPTIONS for flag in option.flags} | {"--no-summary"}
            if words[at + 1] == "profile":
                used = [word for word in options_of(words[at:]) if word.startswith("-")]
                assert set(used) <= flags, line
