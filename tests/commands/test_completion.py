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
from gssr.commands.completion import SHELLS, recorded
from gssr.commands.completion import typed as named
from gssr.commands.completion.recorded import values
from gssr.commands.completion.scripts import script
from gssr.commands.completion.typed import typed
from gssr.convert.tables import EXPORTED
from gssr.model.traces.tables import NSYS, TABLES
from gssr.tui.view import ScreenName

ROOT = Path(__file__).parents[2]
BREAKS = " \t\n\"'@><=;|&(:"
"""Where bash breaks words by default."""
CURSOR = "‸"
HARMLESS = [
    "two words", "it's", 'say "it"', "$(touch ran)", "`touch ran`", "a;touch ran", "a&touch ran", "*", "~root", "#1",
    "{a,b}", "back\\slash", "$HOME", "%s%n", "a=b:c@d", "ünïcode", "[x]", "!!", "<in", "trailing\\",
]  # fmt: skip
CANT_BE_TYPED = ["new\nline", "tab\there", "\x1b[31mred", "‮reversed", "-x", " blank", "\x7f"]

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
            "source /dev/fd/3; compopt() { :; }; COMP_WORDBREAKS=$1; shift; for COMP_LINE; do "
            f"before=${{COMP_LINE%%{CURSOR}*}} COMP_LINE=${{COMP_LINE/{CURSOR}/}}; "
            "COMP_POINT=${#before}; _gssr; printf '%s\\0' \"${COMPREPLY[@]}\" end; done"
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
def test_every_option_and_choice_of_every_command_is_in_the_script(shell: str) -> None:
    text = script(shell)
    assert not {"@COMMANDS@", "@NAMES@"} & set(text.split())
    for name in NAMES:
        options, _ = typed(command_called(name))
        assert name in text
        flags = {flag for option in command_called(name).options for flag in option.flags if flag.startswith("-")}
        assert flags - {"--values"} <= {flag for option in options for flag in option.flags}
        for option in options:
            for flag in option.flags:
                assert re.search(
                    rf"(?<![\w-]){re.escape(flag.lstrip('-') if shell == 'fish' else flag)}(?![\w-])", text
                )
            if option.value is not None and option.value.kind in ("words", "list"):
                shown = text.replace("\\:", ":")
                assert all(re.search(rf"(?<!\w){re.escape(word)}", shown) for word in option.value.words)


def test_names_are_those_of_the_code() -> None:
    assert get_args(ScreenName) == named.SCREENS
    assert tuple(EXPORTED) == named.EXPORTED
    assert (*TABLES, *NSYS) == named.TRACE_TABLES
    for spec in next(o for o in typed(command_called("profile"))[0] if "--backend" in o.flags).value.words:
        if not spec.endswith(":"):
            check(spec)


def test_what_takes_no_known_words_is_free_text_or_a_number() -> None:
    free = {
        (name, option.flags[-1])
        for name in NAMES
        for option in typed(command_called(name))[0]
        if option.value is not None and option.value.kind == "any"
    }
    assert not any(flag in ("--metrics", "--run", "--input", "--output", "--report", "--rules") for _, flag in free)
    assert {flag for name, flag in free if name == "analyze"} == {
        "--from", "--to", "--offset", "--ranks", "--steps", "--metric", "--max-size", "--width",
    }, "say in completion/typed.py what the option takes, or here that any text will do"  # fmt: skip


def test_bash_goes_on_with_what_can_stand_there(ask: Ask) -> None:
    expected = {
        "gssr ana": ["analyze"],
        "gssr --debug fl": ["fleet"],
        "gssr ru": ["run.sql"],
        "gssr analyze --verb": ["--verbosity"],
        "gssr analyze -v me": ["medium"],
        "gssr analyze --verbosity=me": ["medium"],
        "gssr analyze --png --js": ["--json"],
        "gssr analyze --attach trace.json --as": ["--ascii"],
        "gssr analyze --metrics sm_active,dram": ["sm_active,dram_active"],
        "gssr analyze --metrics=sm_active,dram": ["sm_active,dram_active"],
        "gssr analyze --report ": ["deeper in", "tools"],
        "gssr analyze 'deeper in/": ["deeper in/below.sql"],
        "gssr analyze deeper\\ in/b": ["deeper in/below.sql"],
        "gssr analyze ~/r": ["~/run.sql"],
        "gssr tui --attach tr": ["trace.json"],
        "gssr run.sql --scr": ["--screen"],
        "gssr compare run.sql@run-3": ["@run-3"],
        "gssr analyze run.sql --run run-3": ["run-3"],
        "gssr analyze run.sql --gpus node0000:": [],
        "gssr analyze run.sql --gpus node0001:": ["0"],
        "gssr analyze run.sql --gpus=node0001:0,node0001": ["0,node0001"],  # behind the last colon
        "gssr analyze --metrics sm_active,sm_": ["sm_active,sm_occupancy", "sm_active,sm_clock"],
        f"gssr analyze --gpus node0002:{CURSOR} 'deeper in/below.sql'": ["0"],  # which run.sql has not
        f"gssr analyze --run sy{CURSOR}nth 'deeper in/below.sql'": ["synthetic\\ idle", "synthetic-idle-17-0"],
        "gssr profile --backend synthetic:tr": ["train"],
        "gssr profile --keep 10": ["10s"],
        "gssr export --format perf": ["perfetto"],
        "gssr completion z": ["zsh"],
        "gssr mark --": ["--help"],
        "gssr nonsense --nons": [],
    }
    found = dict(zip(expected, ask(*expected), strict=True))
    found["gssr analyze run.sql --gpus node0000:"] = []  # eight of them
    found["gssr compare run.sql@run-3"] = found["gssr compare run.sql@run-3"][:1]
    assert found == expected


def test_bash_offers_files_beside_the_commands(ask: Ask) -> None:
    everything, some = ask("gssr ", "gssr --debug ")
    files = ["$(touch ran).sql", "deeper in", "it's.sql", "other run.sql", "run.sql", "tools", "trace.json"]
    assert everything == some == [*NAMES, "--help", "--version", *files]


def test_names_of_runs_are_typed_so_that_bash_takes_them_as_they_are(ask: Ask) -> None:
    starts = {"": "", '"': '"', "'": "'"}
    for begin, found in zip(starts, ask(*(f"gssr analyze run.sql --run {begin}" for begin in starts)), strict=True):
        wanted = [name for name in HARMLESS if begin != '"' or "!" not in name]
        labels = [text for text in found if not re.fullmatch(r"run-\d+|synthetic-.*|synthetic.*idle", text)]
        assert words_of([begin + text + begin for text in labels]) == [[name] for name in wanted]


def test_names_of_files_are_candidates_as_they_are(ask: Ask) -> None:
    found = ask(
        "gssr analyze ", "gssr analyze $", "gssr analyze '$(t", "gssr analyze it\\'", 'gssr analyze "it', "gssr tui \\$"
    )
    assert found[0] == ["$(touch ran).sql", "deeper in", "it's.sql", "other run.sql", "run.sql", "tools", "trace.json"]
    assert found[2:] == [["$(touch ran).sql"], ["it's.sql"], ["it's.sql"], ["$(touch ran).sql"]]


def test_a_line_that_is_hostile_itself_is_only_read(ask: Ask) -> None:
    ask(
        "gssr analyze $(touch ran)", "gssr analyze `touch ran` --run ", "gssr analyze run.sql; touch ran --gpus ",
        "gssr analyze $(touch ran) --run $(touch ran", "gssr profile -- $(touch ran) ", "gssr '$(touch ran)' ",
        "gssr a[$(touch ran)] ",
        "gssr compare $(touch ran)@", "gssr --metrics=$(touch ran) ", "gssr analyze --$(touch ran)=", "gssr analyze \\",
    )  # fmt: skip
    assert ask("gssr analyze run.sql --run run-3", breaks=" \t\n") == [["run-3"]]
    assert ask("gssr compare run.sql@run-3", breaks=" \t\n")[0][0] == "run.sql@run-3"
    assert ask("gssr analyze --verbosity=me", breaks=" \t\n") == [["--verbosity=medium"]]


def test_values_are_what_run_and_gpus_take_one_a_line(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    assert main(["completion", "--values", "run", "no.sql", "notes.txt", "run.sql"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [value for value, _ in lines[2::2]][: len(HARMLESS)] == HARMLESS
    assert [value for value, _ in lines[2 + 2 * len(HARMLESS) :]] == [
        f"run-{len(HARMLESS) + place}" for place in range(len(CANT_BE_TYPED))
    ]
    assert all(len(line) == 2 and line[1].isprintable() for line in lines)
    assert main(["completion", "--values", "gpus", "run.sql"]) == 0
    gpus = [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert gpus == ["node0000", "node0001", *(f"node0000:{gpu}" for gpu in range(8)), "node0001:0"]


def test_values_of_what_is_no_recording_are_none_and_nothing_is_said(folder: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "cut.sql").write_bytes((folder / "run.sql").read_bytes()[:5000])
    os.mkfifo(tmp_path / "pipe.sql")
    names = ["cut.sql", "pipe.sql", "gone.sql", ".", ""]
    for kind in ("run", "gpus", "nonsense"):
        assert main(["completion", "--values", kind, *(str(tmp_path / name) for name in names)]) == 0
    assert capsys.readouterr() == ("", "")


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
    make = "import sys; sys.path[:0] = sys.argv[2:]; import make_man; make_man.write(make_man.Path(sys.argv[1]))"
    command = [sys.executable, "-S", "-c", make, str(folder), str(ROOT), str(ROOT / "docs")]
    subprocess.run(command, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "1800000000"})
    return folder / "share" / "man" / "man1"


def test_the_manual_has_a_page_of_each_command_with_all_its_options(manual: Path) -> None:
    assert {page.name for page in manual.iterdir()} == {"gssr.1", *(f"gssr-{name}.1" for name in NAMES)}
    for name in NAMES:
        text = (manual / f"gssr-{name}.1").read_text()
        assert ' 1 2027-01-15 "GSSR' in text.splitlines()[0]
        plain = text.replace("\\-", "-")
        for option in typed(command_called(name))[0]:
            assert all(f"\\fB{flag}\\fR" in plain for flag in option.flags)
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
