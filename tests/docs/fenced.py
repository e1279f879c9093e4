"""The examples of a Markdown page: its fenced blocks, and the commands with their output in ``console`` blocks.

A ``console`` block holds commands after ``$ `` (continued after ``> ``), each followed by what it prints on stdout and
stderr. (The ``$ `` after the title of a page of ``gssr analyze`` is output.) All commands run in one shell, one after
another. Output that is shown must be printed; in it a line ``...`` stands for any lines and ``...`` within a line for any
text. Output that is not shown is not looked at. A command must succeed, unless the next one is ``echo $?``.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PAGE_TITLE = "GSSR  "
_SHOW_EXIT_CODE = "echo $?"
_END = "\x1e"


class Block(NamedTuple):
    """A fenced block: its language, its text, the heading above it, and where the text begins in the page: at a line
    (from 1) and a position."""

    language: str
    text: str
    section: str
    line: int
    position: int


class Command(NamedTuple):
    """A command of a console block: what to type, the output shown, and where that is in the page."""

    text: str
    output: str
    line: int
    position: int


class Outcome(NamedTuple):
    """What a command did."""

    output: str
    exit_code: int


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in these languages, or all of them."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        section = [heading[1] for heading in _HEADING.finditer(text, 0, match.start())][-1]
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(match[1], match[2], section, line, match.start(2)))
    return [block for block in found if not languages or block.language in languages]


def commands(page: Path) -> list[Command]:
    """The commands of a page's console blocks, in order."""
    return [command for block in blocks(page, "console") for command in _commands(block)]


def _commands(block: Block) -> Iterator[Command]:
    lines = block.text.splitlines(keepends=True)
    at, position = 0, block.position
    while at < len(lines):
        assert lines[at].startswith("$ "), f"line {block.line + at}: output before the first command"
        line, typed = block.line + at, [lines[at]]
        at += 1
        while at < len(lines) and lines[at].startswith("> "):
            typed.append(lines[at])
            at += 1
        printed: list[str] = []
        while at < len(lines) and (not lines[at].startswith("$ ") or lines[at - 1].startswith(_PAGE_TITLE)):
            printed.append(lines[at])
            at += 1
        position += sum(map(len, typed))
        yield Command("".join(word[2:] for word in typed).rstrip("\n"), "".join(printed), line, position)
        position += sum(map(len, printed))


def run(typed: Sequence[str], folder: Path, timeout: float = 180.0, without: Iterable[str] = ()) -> list[Outcome]:
    """Run commands in one shell in this folder; ``gssr`` and ``python`` are this checkout's, but ``without`` some
    packages."""
    script = "exec 2>&1\n" + "".join(
        f"{command}\n_code=$?; printf '{_END}%d{_END}' $_code; (exit $_code)\n" for command in typed
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment(folder, without), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=timeout,
    )  # fmt: skip
    pieces = done.stdout.split(_END)
    outcomes = [Outcome(*pair) for pair in zip(pieces[::2], map(int, pieces[1::2]), strict=False)]
    assert len(outcomes) == len(typed), f"the shell stopped after {len(outcomes)} commands: {done.stdout[-500:]}"
    return outcomes


def environment(folder: Path, without: Iterable[str] = ()) -> dict[str, str]:
    """The environment of the examples: the tools of this checkout in front, a fixed time zone and locale."""
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    for name, words in (("gssr", "-m gssr"), ("python", ""), ("sqlite-utils", "-m sqlite_utils")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        tool.chmod(0o755)
    missing = "".join(f"sys.modules[{name!r}] = None\n" for name in without)
    (tools / "sitecustomize.py").write_text(f"import sys\n{missing}")
    own = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT}:{tools}", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    return os.environ | own


def problems(page: Path, found: Iterable[tuple[Command, Outcome]]) -> Iterator[str]:
    """One sentence for each command that does not do what the page says."""
    pairs = list(found)
    for i, (command, outcome) in enumerate(pairs):
        where = f"{page.name}:{command.line}: {command.text}"
        checked = i + 1 < len(pairs) and pairs[i + 1][0].text == _SHOW_EXIT_CODE
        if outcome.exit_code and not checked:
            yield f"{where}\nends with {outcome.exit_code}:\n{outcome.output}"
        elif "Traceback" in outcome.output:
            yield f"{where}\nends in a traceback:\n{outcome.output}"
        elif command.output and not matches(command.output, outcome.output):
            yield f"{where}\nprints:\n{outcome.output}but the page shows:\n{command.output}"


def matches(shown: str, printed: str) -> bool:
    """Is ``printed`` what is ``shown``, where that may have ``...`` for some lines, or for something within a line?"""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "...\n" else ".*?".join(map(re.escape, line[:-1].split("..."))) + r" *\n"
        for line in shown.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None


def rewritten(page: Path, found: Iterable[tuple[Command, Outcome]]) -> str:
    """The page's text with the output of its commands as it is now. Output with elisions is left alone."""
    text = page.read_text(encoding="utf-8")
    for command, outcome in reversed(list(found)):
        if command.output and "..." not in command.output:
            end = command.position + len(command.output)
            text = text[: command.position] + outcome.output + text[end:]
    return text
