"""What of the recipes runs without a cluster is a manifest that holds together, or commands of gssr that exist; the jobs of
docs/ci.md fail when a run is worse."""

import re
import shlex
from pathlib import Path
from typing import Any

import fenced
import pytest
import small_yaml

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands import NAMES, profile

DOCS = fenced.ROOT / "docs"
PAGES = [DOCS / name for name in ("recipes.md", "sites.md", "start.md", "ci.md")]
MANIFESTS = fenced.blocks(DOCS / "recipes.md", "yaml")
*PIPELINES, JUBE = fenced.blocks(DOCS / "ci.md", "yaml")


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


def test_gssrs_environment_comes_after_the_readers_own_in_path() -> None:
    """Else ``python train.py`` would run with GSSR's Python, which lacks the program's packages."""
    pages = (DOCS / "start.md", DOCS / "install.md")
    set_to = [found for page in pages for found in re.findall(r"export PATH=(\S+)", page.read_text(encoding="utf-8"))]
    assert len(set_to) == 5 and all(found.startswith("$PATH:") for found in set_to)


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
    for text in ("a: b: c", "a:\n", "a:\n- b", "a: 1\na: 2", "a:\n  - x: 1\n   y: 2", "no pair", "- x: y: z", "a: >"):
        with pytest.raises(ValueError):
            small_yaml.parse(text)
    assert small_yaml.parse('a:\n  - b: 1\n    c: ["d"]\n  - b: 2\ne: x') == {
        "a": [{"b": 1, "c": ["d"]}, {"b": 2}],
        "e": "x",
    }
    assert small_yaml.parse("a:\n  - b c\n  - 'd': 1".replace("'d'", "d")) == {"a": ["b c", {"d": 1}]}
    assert small_yaml.parse("a: |\n  b: c\n  d\ne: 1") == {"a": "b: c\nd\n", "e": 1}


def lines_of(page: Path) -> list[str]:
    """The lines of a page's shell scripts and pipelines."""
    scripts = [block.text for block in fenced.blocks(page, "bash", "sh")]
    if page.name == "ci.md":
        scripts += [line for each in (*PIPELINES, JUBE) for line in shell_lines(small_yaml.parse(each.text))]
    return "\n".join(scripts).replace("\\\n", " ").splitlines()


def shell_lines(node: Any) -> list[str]:
    """What a workflow of GitHub (``run``), a job of GitLab (``script``) or a step of JUBE (``do``) runs."""
    found = []
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key in ("run", "script", "do"):
            found += value.splitlines() if isinstance(value, str) else value
        else:
            found += shell_lines(value)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_gssr_of_a_recipe_is_one_that_exists(page: Path) -> None:
    for line in lines_of(page):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="()")
        lexer.whitespace_split = True
        words = list(lexer)
        named = [at for at, word in enumerate(words[:-1]) if word in ("gssr", "/opt/gssr/tools/gssr")]
        for at in [at for at in named if words[at + 1] != "|" and words[at - 1] != "-qs"]:  # nor what is looked for
            assert words[at + 1] in NAMES, line
            flags = {flag for option in profile.OPTIONS for flag in option.flags} | {"--no-summary"}
            if words[at + 1] == "profile":
                used = [word for word in options_of(["gssr", *words[at + 1 :]]) if word.startswith("-")]
                assert set(used) <= flags, line


def test_the_small_report_of_nsight_systems_is_there_and_says_who_is_late(capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = {word for line in lines_of(DOCS / "start.md") for word in line.split() if word.startswith("tests/")}
    assert main(["analyze", str(fenced.ROOT / path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "is late: it spends 2.4 ms in communication, the other rank 22 ms" in told
    assert "one GPU is late: it spends 2.4 ms in communication, the other rank 22 ms" in " ".join(
        (DOCS / "start.md").read_text(encoding="utf-8").split()
    )


def test_pipelines_fail_when_the_second_run_is_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compared = set()
    for pipeline in PIPELINES:
        lines = shell_lines(small_yaml.parse(pipeline.text))
        recorded = {name for line in lines for name in re.findall(r"-o (?:\.\./)?(\w+\.sql)", line)}
        (line,) = [line for line in lines if "gssr compare" in line]
        assert recorded == {"before.sql", "after.sql"} == set(re.findall(r"\w+\.sql", line))
        compared.add(line)
    (line,) = compared
    for scenario, name in (("train", "before"), ("imbalanced", "after")):
        generate(str(tmp_path / f"{name}.sql"), scenario, 2, 0.01, 0.2)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)[1:]) == 3
    assert "B's score is lower" in capsys.readouterr().err
    assert main(shlex.split(line.replace("after.sql", "before.sql"))[1:]) == 0


def test_a_pipeline_fails_on_one_kind_of_loss(tmp_path: Path, requires) -> None:
    requires("jq", package="jq")
    _, _, below = (DOCS / "ci.md").read_text(encoding="utf-8").partition("\n## One kind of loss\n")
    against, alone = re.findall(r"```bash\n(.*?)```", below.partition("\n## ")[0], re.DOTALL)
    for scenario, name in (("train", "before"), ("imbalanced", "after")):
        generate(str(tmp_path / f"{name}.sql"), scenario, 4, 0.02, 0.2)
    codes = [fenced.run([script.replace("after.sql", name)], tmp_path)[0].exit_code
             for script in (against, alone) for name in ("after.sql", "before.sql")]  # fmt: skip
    assert codes == [3, 0, 1, 0]


def test_the_closing_line_is_what_the_frameworks_look_for() -> None:
    (reframe,) = fenced.blocks(DOCS / "ci.md", "python")
    compile(reframe.text, "saturation.py", "exec")
    patterns = re.findall(r'r"(\^GSSR .*?)"', reframe.text)
    patterns += [
        each["_"].replace("$jube_pat_fp", r"(\S+)") for each in small_yaml.parse(JUBE.text)["patternset"]["pattern"]
    ]
    assert len(patterns) == 5
    assert all(re.search(pattern, "GSSR score=0.633 imbalance=0.033 gpus=8 gaps=0") for pattern in patterns)
