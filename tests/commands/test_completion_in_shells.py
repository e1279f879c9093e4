"""What bash, zsh and fish make of a key in a real terminal, and what man and mandoc make of the manual."""

import os
import pty
import runpy
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.commands.completion import script

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
TAB, SHOW, CLEAR, LEFT, END = "\t", "\x18\x0c", "\x15", "\x02", "\x05"
LABELS = ["my run's $(touch ran)", "second `touch ran`", "new\nline; touch ran"]
SETTINGS = {
    "bash": r"""
bind 'set bell-style none'
bind -x '"\C-x\C-l": printf "%s\0" "$READLINE_LINE" >> "$SHOWN"'
source ./gssr.bash
""",
    "zsh": r"""
unsetopt automenu autolist beep
if [[ $INSTALLED == yes ]]; then fpath=($PWD/site $fpath); fi
autoload -Uz compinit && compinit -u -D
[[ $fpath[1] == $PWD/site ]] || source ./gssr.zsh
show() { print -rn -- "$BUFFER"$'\0' >> $SHOWN }
zle -N show && bindkey '^X^L' show && bindkey '^I' complete-word
""",
}
COMMANDS = {"bash": ["bash", "--noprofile", "--rcfile", "settings", "-i"], "zsh": ["zsh", "-d", "-i"]}

Line = Callable[[str], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings and other files, and the scripts of the shells."""
    folder = tmp_path_factory.mktemp("typed")
    generate(str(folder / "run.sql"), "idle", 9, 0.001, 1.0)
    with sqlite3.connect(folder / "run.sql") as connection:
        for place, label in enumerate(LABELS):
            connection.execute(
                "INSERT INTO runs (run_id, label, state, started_at) VALUES (?, ?, 'completed', 1.8e9)",
                (f"id-{place}", label),
            )
    connection.close()
    (folder / "deeper in").mkdir()
    (folder / "tools").mkdir()
    for name in ("notes.txt", "trace.json", "$(touch ran) it's.sql", "zz\n; touch ran;.sql"):
        (folder / name).write_bytes(b"")
    generate(str(folder / "deeper in" / "below.sql"), "idle", 17, 0.001, 1.0)
    tool = folder / "tools" / "gssr"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gssr "$@"\n')
    tool.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        (folder / f"gssr.{shell}").write_text(script(shell))
    (folder / "site").mkdir()
    (folder / "site" / "_gssr").write_text(script("zsh"))
    return folder


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {
        "PATH": f"{folder / 'tools'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8",
        "HOME": str(folder), "TERM": "xterm", "ZDOTDIR": str(folder / "tools"), "SHOWN": str(folder / "shown"), "PS1": "> ",
    }  # fmt: skip


@pytest.fixture(params=["bash", "zsh", "installed zsh"])
def line(request: pytest.FixtureRequest, folder: Path, requires) -> Iterator[Line]:
    """What stands on the line of a shell in a terminal after keys were typed. Nothing of it was run."""
    shell = request.param.split()[-1]
    requires(shell, package=shell)
    (folder / "settings").write_text(SETTINGS[shell])
    (folder / "tools" / ".zshrc").write_text(SETTINGS[shell])
    shown = folder / "shown"
    shown.write_bytes(b"")
    installed = "yes" if shell != request.param else "no"
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.execvpe(COMMANDS[shell][0], COMMANDS[shell], environment(folder) | {"INSTALLED": installed})
    said = b""
    n = 0

    def typed(keys: str) -> str:
        nonlocal said, n
        os.write(terminal, (keys + SHOW).encode())
        n += 1
        end = time.monotonic() + 60
        while shown.read_bytes().count(b"\0") < n:
            assert time.monotonic() < end, said.decode(errors="replace")
            if select.select([terminal], [], [], 0.02)[0]:
                said += os.read(terminal, 1 << 16)
        os.write(terminal, CLEAR.encode())
        return shown.read_text().split("\0")[n - 1]

    yield typed
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    assert not list(folder.rglob("ran")), said.decode(errors="replace")
    assert b"not found" not in said and b"rror" not in said, said.decode(errors="replace")


EXPECTED = {
    "gssr ana": "gssr analyze ",
    "gssr --debug fl": "gssr --debug fleet ",
    "gssr analyze ru": "gssr analyze run.sql ",
    "gssr analyze -v me": "gssr analyze -v medium ",
    "gssr run.sql --no-m": "gssr run.sql --no-mouse ",
}
"""What every shell makes of a key."""
BY_BASH = {
    "gssr ru": "gssr run.sql ",
    "gssr analyze deep": "gssr analyze deeper\\ in/",
    "gssr analyze 'deeper in/b": "gssr analyze 'deeper in/below.sql' ",
    "gssr analyze deeper\\ in/b": "gssr analyze deeper\\ in/below.sql ",
    "gssr analyze ~/r": "gssr analyze ~/run.sql ",
    "gssr analyze --verbosity=me": "gssr analyze --verbosity=medium ",
    "gssr compare run.sql@id-1": "gssr compare run.sql@id-1 ",
    "gssr analyze run.sql --run id-2": "gssr analyze run.sql --run id-2 ",
    "gssr analyze run.sql --run my": "gssr analyze run.sql --run my\\ run\\'s\\ \\$\\(touch\\ ran\\) ",
    "gssr analyze run.sql --run 'sec": "gssr analyze run.sql --run 'second `touch ran`' ",
    "gssr analyze run.sql --run new": "gssr analyze run.sql --run new",
    "gssr analyze \\$": "gssr analyze \\$\\(touch\\ ran\\)\\ it\\'s.sql ",
    "gssr profile --backend synthetic:imb": "gssr profile --backend synthetic:imbalanced ",
    "gssr profile --backend replay:ru": "gssr profile --backend replay:run.sql ",
    "gssr profile -- basenam": "gssr profile -- basename ",
    "gssr profile -t 100 -o a.sql cat not": "gssr profile -t 100 -o a.sql cat notes.txt ",
    "gssr analyze run.sql > not": "gssr analyze run.sql > notes.txt ",
    "gssr import not": "gssr import notes.txt ",
    "gssr analyze $(touch ran) ru": "gssr analyze $(touch ran) run.sql ",
    "gssr analyze --metrics sm_active,dram": "gssr analyze --metrics sm_active,dram_active ",
    "gssr analyze zz": "gssr analyze zz",  # of two lines: left out
}


def test_a_key_completes_the_line(line: Line, request: pytest.FixtureRequest) -> None:
    own = BY_BASH if request.node.callspec.params["line"] == "bash" else {}
    for keys, wanted in (EXPECTED | own).items():
        assert line(keys + TAB) == wanted


def completed_by_fish(folder: Path, *lines: str) -> list[list[str]]:
    """What fish finds for each line, as ``value`` or ``value<TAB>description``."""
    ask = "source ./gssr.fish; for each in $argv; complete -C $each; echo end; end"
    done = subprocess.run(
        ["fish", "--private", "--no-config", "-c", ask, *lines], cwd=folder, env=environment(folder), capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.stderr == "" and not list(folder.rglob("ran"))
    return [part.splitlines() for part in done.stdout.split("end\n")[:-1]]


def test_fish_finds_what_can_stand_there(folder: Path, requires) -> None:
    requires("fish", package="fish")
    expected = {keys: wanted.split()[-1] for keys, wanted in EXPECTED.items()}
    found = [[row.partition("\t")[0].strip() for row in rows] for rows in completed_by_fish(folder, *expected)]
    assert dict(zip(expected, found, strict=True)) == {keys: [wanted] for keys, wanted in expected.items()}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_are_scripts(folder: Path, shell: str, requires) -> None:
    requires(shell, package=shell)
    done = subprocess.run([shell, "-n", f"gssr.{shell}"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_manual_is_clean(tmp_path: Path, requires) -> None:
    requires("man", "mandoc", package="man-db mandoc")
    made = runpy.run_path(str(ROOT / "docs" / "make_man.py"))
    made["write"](tmp_path, made["pages"]())
    pages = sorted((tmp_path / "share" / "man" / "man1").iterdir())
    assert len(pages) > 10
    environ = os.environ | {"MANPATH": str(tmp_path / "share" / "man"), "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    for page in pages:
        done = subprocess.run(["man", "--warnings", "-l", str(page)], env=environ, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "") and f"{page.stem.upper()}(1)" in done.stdout
    found = subprocess.run(["man", "gssr-profile"], env=environ, capture_output=True, text=True).stdout
    assert "--sampling-time MS" in found and all(len(row) <= 120 for row in found.splitlines())
    done = subprocess.run(["mandoc", "-Tlint", "-Wstyle", *map(str, pages)], capture_output=True, text=True)
    assert done.stdout == ""
