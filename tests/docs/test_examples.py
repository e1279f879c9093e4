"""The commands on the pages do what the pages show. ``pytest tests/docs --update-docs`` writes their output anew."""

import re
import subprocess
import tomllib
from pathlib import Path

import fenced
import pytest

TRIES = 3
"""The pages show what a machine does that does not stand still meanwhile: how long a run took, and that it has no gaps."""

EXTRAS = [
    re.split(r"[><=]", wanted)[0].replace("-", "_")
    for extra in tomllib.loads((fenced.ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ].values()
    for wanted in extra
]
"""What the examples of the README do without: ``make demo`` does not install it."""

WITH_COMMANDS = [page for page in fenced.PAGES if fenced.commands(page)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands_do_what_the_page_shows(page: Path, tmp_path: Path, request: pytest.FixtureRequest, requires) -> None:
    commands = fenced.commands(page)
    if any("sqlite3 " in command.text for command in commands):
        requires("sqlite3", package="sqlite3")
    if any("promtool " in command.text for command in commands):
        requires("promtool", package="prometheus")
    without = EXTRAS if page.name == "README.md" else ()
    for attempt in range(TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found = list(
            zip(commands, fenced.run([command.text for command in commands], folder, without=without), strict=True)
        )
        if not list(fenced.problems(page, found)):
            break
    if request.config.getoption("--update-docs", default=False):
        page.write_text(fenced.rewritten(page, found), encoding="utf-8")
        return
    problems = list(fenced.problems(page, found))
    assert not problems, "\n\n".join([*problems, "look at it, then pytest tests/docs --update-docs"])


def test_commands_to_paste_run(tmp_path: Path) -> None:
    """Those of the table, but for the live screen, which needs a terminal."""
    page = (fenced.ROOT / "docs" / "low-utilization.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    wanted = {each for row in rows for each in re.findall(r"`(gssr (?!tui)[^`]* run\.sql)`", row)}
    assert len(wanted) >= 4
    typed = ["python -m gssr.backends.synthetic train --gpus 2 --hours 0.01 -o run.sql", *sorted(wanted)]
    assert [outcome for outcome in fenced.run(typed, tmp_path) if outcome.exit_code] == []


@pytest.mark.parametrize("page", fenced.PAGES, ids=lambda page: page.stem)
def test_scripts_that_are_not_run_are_scripts(page: Path) -> None:
    for block in fenced.blocks(page, "bash", "sh"):
        done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, timeout=10)
        assert done.returncode == 0, f"{page.name}:{block.line}: {done.stderr}"


def test_shown_output_is_compared() -> None:
    assert fenced.matches("one\n...\nlast 0... x\n", "one\ntwo\nthree\nlast 0.25 x\n")
    assert fenced.matches("one\n...\nlast\n", "one\nlast\n")
    assert not fenced.matches("one\n", "one\ntwo\n")
    assert not fenced.matches("one ... three\n", "one two\nthree\n")
    assert not fenced.matches("a.c\n", "abc\n")
