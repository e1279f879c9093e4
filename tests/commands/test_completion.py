"""The completions and the manual say all that the commands take, and run nothing of what they complete."""

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import pytest

from gssr.backends import check
from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands import NAMES, command_called
from gssr.commands.completion import SHELLS, completers, recorded, script
from gssr.commands.completion.completers import completer_of
from gssr.commands.completion.recorded import values
from gssr.convert.tables import EXPORTED
from gssr.model.traces.tables import NSYS, TABLES
from gssr.tui.view import ScreenName

ROOT = Path(__file__).parents[2]
BREAKS = " \t\n\"'@><=;|&(:"
"""Where bash breaks words by default."""
CURSOR = "‸"
HARMLESS = [
    "two words", "it's", 'say "it"', "$(touch ran)", "`touch ran`", "a;touch ran", "a&touch ran",
    "{a,b}", "back\\slash", "$HOME", "%s%n", "a=b:c@d", "ünïcode", "!!", "<in", "trailing\\",
]  # fmt: skip
CANT_BE_TYPED = ["new\nline", "tab\there", "\x1b[31mred", "‮reversed", "-x", " blank", "\x7f", "~root", "#1", "*", "[x]"]

Ask = Callable[..., list[list[str]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings: ``run.sql``, on two nodes, of a few runs by name only, and others that are only files."""
    folder = tmp_path_factory.mktemp("named")
    generate(str(folder / "run.sql"), "idle", 9, 0.001, 1.0)
    with sqlite3.connect(folder / "run.sql") as connection:
        for place, label in enumerate([*HARMLESS, *CANT_BE_TYPED]):
            connection.execute(
                "INSERT INTO runs (run_id, label, state, started_at) VALUES (?, ?, 'completed', ?)",
                (f"run-{place}", label, 1.8e9 + place),
            )
    connection.close()
    for name in ("other run.sql", "trace.json", "notes.txt", "$(touch ran).sql", "it's.sql"):
        (folder / name).write_bytes(b"")
    (folder / "deeper in").mkdir()
    generate(str(folder / "deeper in" / "below.sql"), "idle", 17, 0.001, 1.0)
    (folder / "tools").mkdir()
    tool = folder / "tools" / "gssr"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gssr "$@"\n')
    tool.chmod(0o755)
    return folder


@pytest.fixture
def ask(folder: Path) -> Ask:
    """What bash finds for each of some lines, as it would be typed. The cursor is at CURSOR, or the end. Nothing was run."""

    def asked(*lines: str, breaks: str = BREAKS) -> list[list[str]]:
        shell = (
            "source /dev/fd/3; compopt() { :; }; COMP_WORDBREAKS=$1 COMP_TYPE=9; shift; for COMP_LINE; do "
            f"before=${{COMP_LINE%%{CURSOR}*}} COMP_LINE=${{COMP_LINE/{CURSOR}/}}; "
            "COMP_POINT=${#before}; _python_argcomplete gssr; printf '%s\\0' \"${COMPREPLY[@]}\" end; done"
        )
        read, write = os.pipe()
        with os.fdopen(write, "w") as stream:
            stream.write(script("bash"))
        environ = os.environ | {"PATH": f"{folder / 'tools'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        command = ["bash", "--norc", "-c", f"exec 3<&{read}; {shell}", "bash", breaks, *lines]
        done = subprocess.run(
            command, cwd=folder, env=environ | {"LC_ALL": "C.UTF-8", "HOME": str(folder)}, pass_fds=[read],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        os.close(read)
        assert (done.returncode, done.stderr) == (0, "")
        assert not (folder / "ran").exists()
        found: list[list[str]] = [[]]
        for word in done.stdout.split("\0")[:-1]:
            if word == "end":
                found.append([])
            elif word:
                found[-1].append(word)
        return found[:-1]

    return asked


def words_of(typed_words: Sequence[str]) -> list[list[str]]:
    """What bash makes of each text when it is typed."""
    shell = "; ".join(f"set -- {text}; printf '%s\\0' \"$@\" end" for text in typed_words)
    done = subprocess.run(["bash", "--norc", "-c", shell], capture_output=True, text=True, check=True, cwd="/")
    return [text.split("\0")[:-1] for text in done.stdout.split("end\0")[:-1]]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_asks_gssr_itself(shell: str) -> None:
    assert "_ARGCOMPLETE" in script(shell) and "gssr" in script(shell)


def test_every_option_of_every_command_is_completed(ask: Ask) -> None:
    flags = {
        name: {flag for option in command_called(name).options for flag in option.flags if flag.startswith("--")}
        for name in NAMES
    }
    for name, found in zip(NAMES, ask(*(f"gssr {name} --" for name in NAMES)), strict=True):
        assert flags[name] | {"--help"} <= set(found)


def test_names_are_those_of_the_code() -> None:
    assert get_args(ScreenName) == completers.SCREENS
    assert tuple(EXPORTED) == completers.EXPORTED
    assert (*TABLES, *NSYS) == completers.TRACE_TABLES
    for spec in completers.offer_backends(prefix=""):
        if not spec.endswith(":"):
            check(spec)


def test_what_takes_no_known_words_is_free_text_or_a_number() -> None:
    free = {
        (name, option.flags[-1])
        for name in NAMES
        for option in command_called(name).options
        if completer_of(command_called(name), option) is completers.offer_nothing
    }
    assert not any(flag in ("--metrics", "--run", "--input", "--output", "--report", "--rules") for _, flag in free)
    assert {flag for name, flag in free if name == "analyze"} == {
        "--from", "--to", "--offset", "--ranks", "--steps", "--metric", "--memory-limit", "--max-size", "--width", "--dask",
    }, "say in completion/completers.py what the option takes, or here that any text will do"  # fmt: skip


def test_bash_goes_on_with_what_can_stand_there(ask: Ask) -> None:
    expected = {
        "gssr ana": ["analyze"],
        "gssr --debug fl": ["fleet"],
        "gssr ru": ["run.sql"],
        "gssr analyze --verb": ["--verbosity"],
        "gssr analyze -v me": ["medium"],
        "gssr analyze --verbosity=me": ["medium"],  # behind the equals sign
        "gssr analyze --png --js": ["--json"],
        "gssr analyze --attach trace.json --as": ["--ascii"],
        "gssr analyze --metrics sm_active,dram": ["sm_active,dram_active"],
        "gssr analyze --metrics=sm_active,dram": ["sm_active,dram_active"],
        "gssr analyze --report ": ["deeper\\ in/", "tools/"],
        "gssr analyze 'deeper in/": ["deeper in/below.sql"],
        "gssr analyze deeper\\ in/b": ["deeper\\ in/below.sql"],
        "gssr analyze ~/r": ["~/run.sql"],
        "gssr tui --attach tr": ["trace.json"],
        "gssr run.sql --scr": ["--screen"],
        "gssr compare run.sql@run-3": ["@run-3"],
        "gssr analyze run.sql --run run-3": ["run-3"],
        "gssr analyze run.sql --gpus node0001:": ["0"],
        "gssr analyze run.sql --gpus=node0001:0,node0001": ["0,node0001"],  # behind the last colon
        "gssr analyze --metrics sm_active,sm_": ["sm_active,sm_occupancy", "sm_active,sm_clock"],
        f"gssr analyze --gpus node0002:{CURSOR} 'deeper in/below.sql'": ["0"],  # which run.sql has not
        "gssr profile --backend synthetic:tr": ["train"],
        "gssr profile --backend replay:ru": ["run.sql"],
        "gssr profile --keep 10": ["10s"],
        "gssr profile -- basenam": ["basename"],
        "gssr profile -t 100 -o a.sql cat not": ["notes.txt"],
        "gssr profile --gpus=0 --append python tr": ["trace.json"],
        "gssr export --format perf": ["perfetto"],
        "gssr import not": ["notes.txt"],
        "gssr completion z": ["zsh"],
        "gssr mark --": ["--help"],
        "gssr nonsense --nons": [],
        "gssr top --gpus ": [],
        "gssr analyze --from ": [],
    }
    found = dict(zip(expected, ask(*expected), strict=True))
    found["gssr compare run.sql@run-3"] = found["gssr compare run.sql@run-3"][:1]
    found["gssr analyze run.sql --run run-3"] = found["gssr analyze run.sql --run run-3"][:1]
    assert found == expected


def test_bash_offers_files_beside_the_commands(ask: Ask) -> None:
    everything, some = ask("gssr ", "gssr --debug ")
    assert everything == some and set(everything) == {
        *NAMES, "\\$\\(touch\\ ran\\).sql", "deeper\\ in/", "it\\'s.sql", "other\\ run.sql", "run.sql", "tools/",
        "trace.json",
    }  # fmt: skip


def test_names_of_runs_are_typed_so_that_bash_takes_them_as_they_are(ask: Ask) -> None:
    begins = ("", '"', "'")
    for begin, found in zip(begins, ask(*(f"gssr analyze run.sql --run {begin}" for begin in begins)), strict=True):
        labels = [text for text in found if not re.fullmatch(r"run-\d+|synthetic-.*|synthetic.*idle", text)]
        typed = [begin + text + begin for text in labels if begin != '"' or "!" not in text]
        assert words_of(typed) == [[name] for name in HARMLESS if begin != '"' or "!" not in name]


def test_a_line_that_is_hostile_itself_is_only_read(ask: Ask) -> None:
    ask(
        "gssr analyze $(touch ran)", "gssr analyze `touch ran` --run ", "gssr analyze run.sql; touch ran --gpus ",
        "gssr analyze $(touch ran) --run $(touch ran", "gssr profile -- $(touch ran) ", "gssr '$(touch ran)' ",
        "gssr a[$(touch ran)] ",
        "gssr compare $(touch ran)@", "gssr --metrics=$(touch ran) ", "gssr analyze --$(touch ran)=", "gssr analyze \\",
    )  # fmt: skip


def test_values_are_what_run_and_gpus_take(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = values("run", ["no.sql", "notes.txt", "run.sql"])
    labels = [*HARMLESS, *(f"run-{len(HARMLESS) + place}" for place in range(len(CANT_BE_TYPED)))]
    assert [*found][2::2][: len(HARMLESS)] == HARMLESS and set(labels) < set(found)
    assert all(value.isprintable() for value in found)
    assert [*values("gpus", ["run.sql"])] == [
        "node0000", "node0001", *(f"node0000:{gpu}" for gpu in range(8)), "node0001:0",
    ]  # fmt: skip


def test_values_of_what_is_no_recording_are_none(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.sql").write_bytes((folder / "run.sql").read_bytes()[:5000])
    os.mkfifo(tmp_path / "pipe.sql")
    names = ["cut.sql", "pipe.sql", "gone.sql", ".", ""]
    for kind in ("run", "gpus", "nonsense"):
        assert values(kind, [str(tmp_path / name) for name in names]) == {}


def test_values_of_ranks_that_are_not_merged_are_those_of_all(tmp_path: Path) -> None:
    (tmp_path / "job.sql.d").mkdir()
    for rank in range(2):
        generate(str(tmp_path / "job.sql.d" / f"n{rank}.{rank}.x.sql"), "idle", 1 + rank, 0.001, 1.0)
    assert set(values("gpus", [str(tmp_path / "job.sql")])) == {"node0000:0", "node0000:1"}


def test_values_are_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(folder / "run.sql")]
    monkeypatch.setattr(recorded, "_read", lambda *_: time.sleep(60))
    begun = time.monotonic()
    assert values("run", names) == {} and time.monotonic() - begun < 30
    monkeypatch.undo()
    assert "two words" in values("run", names)


def test_a_shell_must_be_named(capsys) -> None:
    assert main(["completion"]) == 2
    assert capsys.readouterr().err == "gssr: name the shell: gssr completion bash|zsh|fish\n"


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manual, made without any package, as where gssr is built."""
    folder = tmp_path_factory.mktemp("manual")
    make = "import sys; sys.path[:0] = sys.argv[2:]; import make_man as m; m.write(m.Path(sys.argv[1]), m.pages())"
    command = [sys.executable, "-S", "-c", make, str(folder), str(ROOT), str(ROOT / "docs")]
    subprocess.run(command, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "1800000000"})
    return folder / "share" / "man" / "man1"


def test_the_manual_has_a_page_of_each_command_with_all_its_options(manual: Path) -> None:
    assert {page.name for page in manual.iterdir()} == {"gssr.1", *(f"gssr-{name}.1" for name in NAMES)}
    for name in NAMES:
        text = (manual / f"gssr-{name}.1").read_text()
        assert ' 1 2027-01-15 "GSSR' in text.splitlines()[0]
        plain = text.replace("\\-", "-")
        for option in command_called(name).options:
            assert all(f"\\fB{flag}\\fR" in plain for flag in option.flags if flag.startswith("-"))
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
            assert f"\n.SH {heading}\n" in text
    shown = re.findall(r"^\.nf\n(gssr .*)\n\.fi$", (manual / "gssr-profile.1").read_text(), re.MULTILINE)
    assert len(shown) == 6


def test_nothing_in_the_manual_is_a_request_but_those_meant(manual: Path) -> None:
    meant = {".TH", ".nh", ".ad", ".SH", ".PP", ".TP", ".nf", ".fi", ".br", ".BR"}
    for page in manual.iterdir():
        for line in page.read_text().splitlines():
            assert not line.startswith("'") and (not line.startswith(".") or line.split()[0] in meant), line
            assert not re.sub(r"\\(?:-|e|&|f[BIR]|\([a-z]{2})", "", line).count("\\"), line


def test_the_manual_names_every_variable_that_gssr_reads(manual: Path) -> None:
    read = {
        name for source in (ROOT / "gssr").rglob("*.py") for name in re.findall(r"\bGSSR_[A-Z_]+", source.read_text())
    }
    assert read == set(re.findall(r"\\fB(GSSR_[A-Z_]+)", (manual / "gssr.1").read_text()))
