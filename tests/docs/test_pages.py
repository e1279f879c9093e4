"""The pages say all there is and nothing else: options, columns, keys, scenarios, links."""

import html
import json
import re
import runpy
from pathlib import Path
from typing import Any

import fenced
import pytest

from gssr.backends import BACKENDS
from gssr.backends.synthetic.scenarios import SCENARIOS
from gssr.commands import (
    Command,
    analyze,
    compare,
    completion,
    demo,
    doctor,
    export,
    fleet,
    import_,
    mark,
    mcp,
    merge,
    profile,
    top,
    tui,
)
from gssr.launch import LAUNCHERS
from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.traces.tables import TABLES
from gssr.profile.workload import FORWARDED
from gssr.store.format.schema import STATES

DOCS = fenced.ROOT / "docs"
PAGE_OF = {
    "profile": DOCS / "profile.md",
    "top": DOCS / "top.md",
    "tui": DOCS / "tui.md",
    "analyze": DOCS / "analyze.md",
    "compare": DOCS / "compare.md",
    "fleet": DOCS / "fleet.md",
    "export": DOCS / "export.md",
    "import": DOCS / "import.md",
    "mark": DOCS / "profile.md",
    "merge": DOCS / "profile.md",
    "demo": DOCS / "install.md",
    "doctor": DOCS / "install.md",
    "completion": DOCS / "install.md",
    "mcp": DOCS / "mcp.md",
}
COMMANDS = (
    profile.COMMAND, top.COMMAND, tui.COMMAND, analyze.COMMAND, compare.COMMAND, fleet.COMMAND, export.COMMAND,
    import_.COMMAND, mark.COMMAND, merge.COMMAND, demo.COMMAND, doctor.COMMAND,
    completion.COMMAND, mcp.COMMAND,
)  # fmt: skip
OF_OTHERS_IN_RECIPES = {
    "--signal", "-K", "--pty", "--no-python", "--nv", "--bind", "--contain", "--container-mounts", "--gpus", "--volume",
    "--ipc", "--env", "--network",
}  # fmt: skip
EVERYWHERE = {"-h", "--help", "--debug", "--version"}

_CODE = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<!\S)(--?[A-Za-z][\w-]*)")


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def options_in(page: Path) -> set[str]:
    """The options that the page's prose names in code that doesn't begin with another program's name."""
    spans = _CODE.findall(prose(page))
    own = [span for span in spans if span.startswith(("-", "gssr "))]
    return {option for span in own for option in _OPTION.findall(span.partition(" -- ")[0])}


def flags(command: Command) -> set[str]:
    found = {flag for option in command.options for flag in option.flags if flag.startswith("-")}
    return found | ({"--no-summary"} if "--summary" in found and command.name == "profile" else set())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_option_is_explained(command: Command) -> None:
    missing = flags(command) - options_in(PAGE_OF[command.name])
    assert not missing, f"{PAGE_OF[command.name].name} lacks {missing}"


def test_options_that_are_named_exist() -> None:
    all_flags = set().union(*(flags(command) for command in COMMANDS)) | EVERYWHERE
    known = {
        DOCS / "profile.md": flags(profile.COMMAND)
        | flags(merge.COMMAND)
        | EVERYWHERE
        | {"--volume", "--env"},  # podman's
        DOCS / "tui.md": flags(tui.COMMAND)
        | EVERYWHERE
        | {"--live", "--terminal", "-g", "-L"},  # of profile, analyze, tmux, ssh
        DOCS / "recipes.md": all_flags | OF_OTHERS_IN_RECIPES,
        DOCS / "analyze.md": flags(analyze.COMMAND) | EVERYWHERE | set(analyze.REPLACED),
        DOCS / "reliability.md": all_flags | {"--update-docs"},  # of the tests
        DOCS / "style.md": all_flags | {"--update-docs", "--update-golden"},
    }
    for page in fenced.PAGES:
        assert options_in(page) <= known.get(page, all_flags), f"{page.name} names options that don't exist"


def test_every_option_that_analyze_replaced_is_explained() -> None:
    assert set(analyze.REPLACED) <= options_in(DOCS / "analyze.md")


def test_the_tables_of_the_recording_are_those_of_the_schema() -> None:
    page = DOCS / "recording.md"
    made = runpy.run_path(str(DOCS / "make_recording.py"))["page"]
    text = page.read_text(encoding="utf-8")
    assert text == made(text), "run docs/make_recording.py"


def test_the_keys_and_the_screens_are_those_of_the_code() -> None:
    made = runpy.run_path(str(DOCS / "make_tui.py"))["page"]
    text = (DOCS / "tui.md").read_text(encoding="utf-8")
    assert text == made(text), "run docs/make_tui.py"


def test_the_rules_are_those_of_the_code() -> None:
    made = runpy.run_path(str(DOCS / "make_verdicts.py"))["page"]
    text = (DOCS / "verdicts.md").read_text(encoding="utf-8")
    assert text == made(text), "run docs/make_verdicts.py"


def test_the_colours_and_units_are_those_of_the_code() -> None:
    made = runpy.run_path(str(DOCS / "make_style.py"))["page"]
    text = (DOCS / "style.md").read_text(encoding="utf-8")
    assert text == made(text), "run docs/make_style.py"


def test_what_to_do_is_said_of_every_category_by_its_name_on_the_page() -> None:
    rows = re.findall(r"^\| (\*\*.*?) \|", prose(DOCS / "low-utilization.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\*\*(.*?)\*\*", row)}
    assert named == {each.label for each in CATEGORIES}


def test_the_tables_of_an_export_are_those_of_the_code() -> None:
    made = runpy.run_path(str(DOCS / "make_export.py"))["page"]
    text = (DOCS / "export.md").read_text(encoding="utf-8")
    assert text == made(text), "run docs/make_export.py"


def test_every_state_is_explained() -> None:
    text = prose(DOCS / "recording.md")
    assert all(f"| `{state}` |" in text for state in STATES)


def _keys(found: Any, under: str = "") -> set[str]:
    """Keys of the JSON object, at any depth; names of metrics and of reasons are not keys of ours."""
    if isinstance(found, list):
        return set().union(*(_keys(item, under) for item in found))
    if not isinstance(found, dict):
        return set()
    names = set(found)
    if under in ("metrics", "mean", "balance", "clock_event_reasons"):
        names -= {*BY_NAME, *(name for _, name, _ in CLOCK_EVENT_REASONS)}
    return names.union(*(_keys(value, key) for key, value in found.items()))


def test_every_key_of_the_json_object_is_explained(recording: Path) -> None:
    (outcome,) = fenced.run(["gssr analyze --json run.sql"], recording.parent)
    keys = _keys(json.loads(outcome.output))
    section = prose(DOCS / "analyze.md").partition("## The JSON object")[2].partition("\n## ")[0]
    explained = {word for row in re.findall(r"^\| `.*$", section, re.MULTILINE) for word in _CODE.findall(row)}
    assert keys <= explained, f"not explained: {keys - explained}"
    # "how" is a key of ranks that stopped; none did here.
    others = {'"gssr.analyze/1"', "null", "-d", *STATES, "lost", "how"}
    assert explained <= keys | others, f"no keys: {explained - keys - others}"


def test_every_key_of_a_traces_object_is_explained(tmp_path: Path) -> None:
    page = DOCS / "traces.md"
    make = [command.text for command in fenced.commands(page)][:2]
    *_, outcome = fenced.run([*make, "gssr analyze --json traces"], tmp_path)
    found = json.loads(outcome.output)
    section = prose(page).partition("## The JSON object")[2].partition("\n## ")[0]
    assert set(found) - set(TABLES) - {"schema"} <= set(_CODE.findall(section))
    assert set(found["launches"]) | set(found["sources"][0]) <= set(_CODE.findall(section))
    assert {name for row in re.findall(r"^\| `.*? \|", prose(page).partition("## Tables")[2], re.MULTILINE)
            for name in _CODE.findall(row)} >= set(TABLES)  # fmt: skip


def test_every_key_of_a_moment_is_explained(tmp_path: Path) -> None:
    (outcome,) = fenced.run(["gssr top --json --backend synthetic:train:1 -t 100"], tmp_path)
    section = prose(DOCS / "top.md").partition("## The JSON object")[2].partition("\n## ")[0]
    assert _keys(json.loads(outcome.output)) - set(BY_NAME) <= set(_CODE.findall(section))


def test_every_key_of_a_comparison_is_explained(recording: Path) -> None:
    (outcome,) = fenced.run(["gssr compare --json run.sql run.sql"], recording.parent)
    section = prose(DOCS / "compare.md").partition("## The JSON object")[2]
    found = json.loads(outcome.output)
    kinds = set(found["comparisons"][0]["phases"])
    assert _keys(found) - kinds <= set(_CODE.findall(section))


def test_scenarios_backends_launchers_and_signals_are_those_of_the_code() -> None:
    text = prose(DOCS / "profile.md")
    for name, scenario in SCENARIOS.items():
        assert f"| `{name}` | {scenario.description} | {scenario.features} |\n" in text
    for backend in BACKENDS:
        assert f"| `{backend.spec}` |" in text
    rows = re.findall(r"^\| `(\w+)`.*? \| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|.* \|$", text, re.MULTILINE)
    variables: dict[str, list[str]] = {}
    for launcher in LAUNCHERS:
        variables.setdefault(launcher.name, []).append(launcher.rank)
    assert [(name, _CODE.findall(shown)) for name, shown in rows] == list(variables.items())
    sentence = text.partition("**Signals.**")[2].partition(" Signals")[0]
    assert re.findall(r"SIG[A-Z0-9]+", sentence) == [signal.name for signal in FORWARDED]


@pytest.mark.parametrize("page", fenced.PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in _anchors(file), f"{page.name}: {target}"


def test_every_page_is_once_in_the_sites_navigation() -> None:
    navigation = runpy.run_path(str(DOCS / "conf.py"))["NAVIGATION"]
    listed = [page for pages in navigation.values() for page in pages]
    assert sorted(page.removeprefix("docs/") for page in listed if page.startswith("docs/")) == sorted(
        page.stem for pattern in ("*.md", "*.ipynb") for page in DOCS.glob(pattern)
    )
    assert [page for page in listed if not list(fenced.ROOT.glob(f"{page}.*"))] == []


def _anchors(page: Path) -> set[str]:
    """Names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


BESIDE = 60
"""Characters of panels beside a sentence that stand between two of its lines in a picture."""


def test_sentences_that_a_task_quotes_stand_in_its_pictures_or_pages() -> None:
    quoted = 0
    for task in (DOCS / "start.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        shown = "".join(re.findall(r"^```console\n(.*?)^```$", task, re.MULTILINE | re.DOTALL))
        for name in re.findall(r"\]\((\S+-80x24)\.png\)", task):
            shown += html.unescape(re.sub(r"<[^>]*>", "", (DOCS / f"{name}.svg").read_text(encoding="utf-8")))
        text = re.sub(r"^```.*?^```$", "", task, flags=re.MULTILINE | re.DOTALL)
        sentences = re.findall(r'"([^"]+ [^"]+ [^"]+)"', text)
        for sentence in sentences:
            words = f".{{0,{BESIDE}}}?".join(map(re.escape, sentence.split()))
            assert re.search(words, "".join(shown.split())), sentence
        quoted += len(sentences)
    assert quoted >= 4


def test_targets_of_make_exist() -> None:
    makefile = (fenced.ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        name for page in fenced.PAGES for name in re.findall(r"\bmake (\w+)\b +#", page.read_text(encoding="utf-8"))
    }
    assert {"demo", "test"} <= named
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in named)
