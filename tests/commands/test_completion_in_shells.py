"""What bash, zsh and fish make of a key in a real terminal, and what man and mandoc make of the manual."""

import os
import pty
import re
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
from gssr.commands.completion.scripts import script

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


def test_a_key_completes_the_line(line: Line) -> None:
    expected = {
        "gssr ana": "gssr analyze ",
        "gssr ru": "gssr run.sql ",
        "gssr --debug fl": "gssr --debug fleet ",
        "gssr analyze r": "gssr analyze run.sql ",
        "gssr analyze deep": "gssr analyze deeper\\ in/",
        "gssr analyze 'deeper in/b": "gssr analyze 'deeper in/below.sql' ",
        "gssr analyze deeper\\ in/b": "gssr analyze deeper\\ in/below.sql ",
        "gssr analyze ~/r": "gssr analyze ~/run.sql ",
        "gssr analyze -v me": "gssr analyze -v medium ",
        "gssr analyze --verbosity=me": "gssr analyze --verbosity=medium ",
        "gssr compare run.sql@id-1": "gssr compare run.sql@id-1 ",
        "gssr analyze run.sql --run id-2": "gssr analyze run.sql --run id-2 ",
        "gssr analyze run.sql --run my": "gssr analyze run.sql --run my\\ run\\'s\\ \\$\\(touch\\ ran\\) ",
        "gssr analyze run.sql --run 'sec": "gssr analyze run.sql --run 'second `touch ran`' ",
        'gssr analyze run.sql --run "sec': 'gssr analyze run.sql --run "second \\`touch ran\\`" ',
        "gssr analyze run.sql --run new": "gssr analyze run.sql --run new",
        "gssr compare run.sql@my": "gssr compare run.sql@my\\ run\\'s\\ \\$\\(touch\\ ran\\) ",
        "gssr analyze \\$": "gssr analyze \\$\\(touch\\ ran\\)\\ it\\'s.sql ",
        "gssr profile --backend synthetic:imb": "gssr profile --backend synthetic:imbalanced ",
        "gssr profile --backend replay:ru": "gssr profile --backend replay:run.sql ",
        "gssr profile -- basenam": "gssr profile -- basename ",
        "gssr profile -t 100 -o a.sql cat not": "gssr profile -t 100 -o a.sql cat notes.txt ",
        "gssr tui --attach trace.json --ascii --scr": None,
        "gssr analyze run.sql > not": "gssr analyze run.sql > notes.txt ",
        "gssr import not": "gssr import notes.txt ",
        "gssr run.sql --no-m": "gssr run.sql --no-mouse ",
        "gssr analyze $(touch ran) ru": "gssr analyze $(touch ran) run.sql ",
    }
    for keys, wanted in expected.items():
        found = line(keys + TAB)
        if wanted is None:
            wanted = next(each for each in (f"{keys}een ", f"{keys}een=") if each == found)
        assert found == wanted
    assert line(f"gssr analyze run.sql --gpus node0001:{TAB}").rstrip(", ") == "gssr analyze run.sql --gpus node0001:0"
    listed = line(f"gssr analyze --metrics sm_active,dram{TAB}")
    assert listed.rstrip() == "gssr analyze --metrics sm_active,dram_active"
    behind = " deeper\\ in/below.sql"
    found = line(f"gssr analyze --gpus node0002:{behind}{LEFT * len(behind)}{TAB}{END}")
    assert re.fullmatch(r"gssr analyze --gpus node0002:0[ ,]* deeper\\ in/below\.sql", found)
    again = line(f"gssr analyze run.sql --gpus node0001:0,node0001{TAB}")
    assert again.rstrip(", ") == "gssr analyze run.sql --gpus node0001:0,node0001"
    two_lines = line(f"gssr analyze zz{TAB}")
    assert two_lines.strip() in ("gssr analyze 'zz\n; touch ran;.sql'", "gssr analyze zz$'\\n'\\;\\ touch\\ ran\\;.sql")


def test_a_command_with_a_completion_of_its_own_keeps_it_behind_profile(line: Line, request) -> None:
    shell = request.node.callspec.params["line"].split()[-1]
    define = {
        "bash": '_own() { [[ $1 = mine && $3 = one ]] && COMPREPLY=("${2}found"); }; complete -F _own mine',
        "zsh": "_own() { [[ $words[1] = mine && $CURRENT = 3 ]] && compadd -- ${PREFIX}found }; compdef _own mine",
    }
    line(f"{define[shell]}\n")
    assert line(f"gssr profile --metrics=sm_active -o a:b.sql -- mine one be{TAB}").endswith(" -- mine one befound ")


def completed_by_fish(folder: Path, *lines: str, before: str = "") -> list[list[str]]:
    """What fish finds for each line, as ``value`` or ``value<TAB>description``; ``before``: what it runs first."""
    ask = f"{before}\nsource ./gssr.fish; complete -c mine -l own; for each in $argv; complete -C $each; echo end; end"
    done = subprocess.run(
        ["fish", "--private", "--no-config", "-c", ask, *lines], cwd=folder, env=environment(folder), capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.stderr == "" and not list(folder.rglob("ran"))
    return [part.splitlines() for part in done.stdout.split("end\n")[:-1]]


def test_fish_finds_what_can_stand_there(folder: Path, requires) -> None:
    requires("fish", package="fish")
    expected = {
        "gssr ana": ["analyze"],
        "gssr ru": ["run.sql"],
        "gssr --debug fl": ["fleet"],
        "gssr analyze ru": ["run.sql"],
        "gssr analyze deep": ["deeper in/"],
        "gssr analyze 'deeper in/b": ["deeper in/below.sql"],
        "gssr analyze deeper\\ in/b": ["deeper in/below.sql"],
        "gssr analyze ~/r": ["~/run.sql"],
        "gssr analyze -v me": ["medium"],
        "gssr analyze --verbosity=me": ["--verbosity=medium"],
        "gssr analyze --metrics sm_active,dram": ["sm_active,dram_active"],
        "gssr analyze run.sql --gpus node0001:": ["node0001:0"],
        "gssr analyze run.sql --gpus=node0000:1,node0001:": ["--gpus=node0000:1,node0001:0"],
        "gssr compare run.sql@id-1": ["run.sql@id-1"],
        "gssr analyze run.sql --run my": LABELS[:1],
        "gssr analyze run.sql --run 'sec": LABELS[1:2],
        "gssr compare run.sql@my": [f"run.sql@{LABELS[0]}"],
        "gssr analyze \\$": ["$(touch ran) it's.sql"],
        "gssr analyze run.sql --run new": ["id-2"],  # by what stands behind it
        "gssr profile --backend synthetic:imb": ["synthetic:imbalanced"],
        "gssr profile -- basenam": ["basename"],
        "gssr profile -t 100 -o a.sql cat not": ["notes.txt"],
        "gssr profile -o a:b.sql -- mine --ow": ["--own"],
        "gssr import not": ["notes.txt"],
        "gssr run.sql --no-m": ["--no-mouse"],
        "gssr analyze (touch ran) ru": ["run.sql"],
        "gssr analyze zz": [],  # one a line: what has two is left out
    }
    found = [[row.partition("\t")[0] for row in rows] for rows in completed_by_fish(folder, *expected)]
    assert dict(zip(expected, found, strict=True)) == expected


def test_fish_says_beside_a_value_what_is_known_of_it_and_not_the_help_of_its_option(folder: Path, requires) -> None:
    requires("fish", package="fish")
    expected = {
        "gssr analyze --metrics sm_active,sm_o": ["sm_active,sm_occupancy"],
        "gssr analyze -v me": ["medium"],
        "gssr analyze --rules not": ["notes.txt"],
        "gssr analyze --input ru": ["run.sql"],
        "gssr analyze run.sql --gpus node0001:0": ["node0001:0\tSynthetic H100"],
        "gssr analyze run.sql --gpus node0001:0,node0001": [
            "node0001:0,node0001\tall of its GPUs"
        ],  # the GPU stands there
    }
    assert dict(zip(expected, completed_by_fish(folder, *expected), strict=True)) == expected


def test_fish_offers_files_beside_the_commands(folder: Path, requires) -> None:
    requires("fish", package="fish")
    (found,) = completed_by_fish(folder, "gssr ")
    assert {"run.sql", "trace.json", "analyze\tsay what a recording shows"} <= set(found)


def test_fish_asks_the_recording_behind_the_cursor(folder: Path, requires) -> None:
    requires("fish", package="fish")
    words = "gssr analyze --gpus"
    line = (
        f"function commandline; string match -q -- -ct $argv; and return; string split ' ' '{words}'; "
        "contains -- -opc $argv; or echo 'deeper in/below.sql'; end"
    )
    (found,) = completed_by_fish(folder, f"{words} node0002:", before=line)
    assert found == ["node0002:0\tSynthetic H100"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_are_scripts(folder: Path, shell: str, requires) -> None:
    requires(shell, package=shell)
    done = subprocess.run([shell, "-n", f"gssr.{shell}"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_is_clean_for_shellcheck(folder: Path, requires) -> None:
    requires("shellcheck", package="shellcheck")
    done = subprocess.run(
        ["shellcheck", "--shell", "bash", "--exclude", "SC2088", "gssr.bash"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout  # 2088: a tilde is meant


def test_the_manual_is_clean(tmp_path: Path, requires) -> None:
    requires("man", "mandoc", package="man-db mandoc")
    runpy.run_path(str(ROOT / "docs" / "make_man.py"))["write"](tmp_path)
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
