"""A command under the live screen: what it sees, what becomes of its output, who may die."""

import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from live_terminal import COPIER, OFF_SCREEN, PYTHON, SAMPLER, SCREEN, LiveTerminal, cpu_seconds, gssr
from supervised import ROOT

from gssr.render.output_pane import pane_height
from tests.waiting import process_state, until

Open = Callable[..., LiveTerminal]

WAITS = "echo ready; until [ -e go ]; do sleep 0.02; done; echo done; exit 7"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Open]:
    """Runs a shell command under the live screen, and leaves nothing of it behind."""
    opened: list[LiveTerminal] = []

    def start(script: str, *options: str, size: tuple[int, int] = (80, 24), **environ: str) -> LiveTerminal:
        opened.append(LiveTerminal(tmp_path, [*gssr(*options), "sh", "-c", script], size, **environ))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def state_of(folder: Path) -> tuple[str, int | None]:
    with closing(sqlite3.connect(folder / "x.sql")) as connection:
        return connection.execute("SELECT state, exit_code FROM runs").fetchone()  # type: ignore[no-any-return]


def events_of(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "x.sql")) as connection:
        return [message for (message,) in connection.execute("SELECT message FROM events WHERE kind = 'signal'")]


LOOK = """
import os, signal, sys
def look(*_):
    ttys = "".join("ny"[os.isatty(fd)] for fd in (0, 1, 2))
    print(ttys, *os.get_terminal_size(1), repr(sys.stdin.read()), flush=True)
signal.signal(signal.SIGWINCH, look)
look()
while True: signal.pause()
"""


def test_the_command_has_a_terminal_of_the_panes_size_and_no_input(live: Open, tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    terminal = live(f"exec {PYTHON} look.py", size=(100, 30))
    terminal.prints(f"nyy 100 {pane_height(30) - 1} ''\n")
    terminal.on_screen()
    terminal.resize(90, 40)
    terminal.prints(f"nyy 90 {pane_height(40) - 1} ''\n")
    terminal.type("q")
    terminal.expect("nyy 90 40 ''\r\n")
    terminal.resize(70, 20)
    terminal.expect("nyy 70 20 ''\r\n")


def test_the_result_stays_on_screen_until_its_user_leaves(live: Open, tmp_path: Path) -> None:
    terminal = live("echo out; echo err >&2; exit 7")
    before = terminal.modes()
    terminal.on_screen()
    terminal.expect("ended (exit 7)")
    time.sleep(0.3)
    assert not terminal.ended()
    assert f"gssr: recorded into {tmp_path}" not in terminal.text()  # which is printed when the screen has left
    terminal.type("q")
    terminal.expect(OFF_SCREEN)
    terminal.expect("out\r\nerr\r\n")
    terminal.expect("gssr: GSSR score=")
    terminal.expect(f"gssr: recorded into {tmp_path}/x.sql")
    assert terminal.code() == 7
    assert terminal.modes() == before
    assert terminal.log() == "out\nerr\n"
    assert state_of(tmp_path) == ("failed", 7)
    terminal.nothing_is_left()


def test_a_screen_that_nobody_uses_leaves_by_itself_and_the_page_takes_its_place(live: Open, tmp_path: Path) -> None:
    terminal = live("echo out; exit 7", "--linger", "3")
    before = terminal.modes()
    terminal.on_screen()
    terminal.expect("this screen leaves in ")
    terminal.expect(OFF_SCREEN)
    terminal.expect("out\r\n")
    terminal.expect(f"gssr: recorded into {tmp_path}/x.sql")
    terminal.expect("Notes")
    terminal.expect(f"gssr tui {tmp_path}/x.sql")
    assert terminal.code() == 7
    assert terminal.modes() == before
    terminal.nothing_is_left()


def test_a_screen_that_is_used_stays(live: Open) -> None:
    terminal = live("exit 0", "--linger", "2")
    terminal.on_screen()
    terminal.expect("this screen leaves in ")
    for key in "12345123":  # 3.2 s, longer than it lingers
        terminal.type(key)
        time.sleep(0.4)
        assert OFF_SCREEN not in terminal.text()
    terminal.expect("this screen leaves in ")
    terminal.expect(OFF_SCREEN)
    assert terminal.code() == 0


@pytest.mark.parametrize("linger", ["-1", "nan"])
def test_a_linger_that_is_no_time_is_refused(live: Open, linger: str, tmp_path: Path) -> None:
    terminal = live("touch ran", f"--linger={linger}")
    terminal.expect("--linger: ")
    assert terminal.code() == 2 and not (tmp_path / "ran").exists()


BROKEN = """
import sys
from gssr.cli import main
from gssr.model.live.watch import Watch
def look_at_nothing(*_): raise ValueError("made up")
Watch.look = look_at_nothing
sys.exit(main([*sys.argv[1:], "tui", "x.sql", "--wait"]))
"""


def test_debug_tells_where_the_reading_failed(tmp_path: Path) -> None:
    for options in ([], ["--debug"]):
        terminal = LiveTerminal(tmp_path, [PYTHON, "-c", BROKEN, *options])
        assert terminal.code() == 1
        assert "gssr: an error while reading: ValueError('made up')" in terminal.text()
        assert ("in look_at_nothing" in terminal.text()) == bool(options)
        terminal.close()


def test_status_lines_are_not_drawn_over_the_screen(live: Open) -> None:
    terminal = live("sleep 1.5", "--status-every", "1s")
    terminal.on_screen()
    terminal.expect("ended")
    assert "elapsed=" not in terminal.text()


def test_the_log_holds_every_byte(live: Open, tmp_path: Path) -> None:
    flood = os.urandom(1 << 20)
    (tmp_path / "flood").write_bytes(flood)
    terminal = live("cat flood flood; exit 3")
    terminal.expect("ended (exit 3)")
    until(lambda: (tmp_path / "x.log").stat().st_size >= 2 * len(flood), "all of the log")
    assert (tmp_path / "x.log").read_bytes() == flood + flood
    terminal.type("q")
    assert terminal.code() == 3


def test_leaving_gives_the_output_back_and_the_command_runs_on(live: Open, tmp_path: Path) -> None:
    terminal = live(WAITS)
    terminal.on_screen()
    terminal.expect("ready")
    terminal.type("q")
    terminal.expect(OFF_SCREEN)
    terminal.expect(f"gssr: the command runs on; all that it prints is in {tmp_path}/x.log as well")
    terminal.expect("ready\r\n")
    until(lambda: not terminal.named(SCREEN), "the screen to end")
    (tmp_path / "go").touch()
    terminal.expect("done\r\n")
    terminal.expect("recorded into")
    assert terminal.code() == 7
    assert terminal.log() == "ready\ndone\n"
    assert state_of(tmp_path) == ("failed", 7)
    terminal.nothing_is_left()


def test_all_of_a_flood_is_shown_to_whoever_has_left(live: Open, tmp_path: Path) -> None:
    flood = b"".join(b"line %06d of the flood\n" % n for n in range(40_000))
    (tmp_path / "flood").write_bytes(flood)
    terminal = live(f"{WAITS.removesuffix('; exit 7')}; cat flood; exit 7")
    terminal.on_screen()
    terminal.type("q")
    terminal.expect("as well\r\n")
    (tmp_path / "go").touch()
    assert terminal.code() == 7
    assert flood.decode().replace("\n", "\r\n") in terminal.text()


def test_a_terminal_that_takes_nothing_holds_up_nothing(live: Open, tmp_path: Path) -> None:
    terminal = live(f"{WAITS.removesuffix('; exit 7')}; seq 200000; touch over; exit 7")
    terminal.on_screen()
    terminal.type("q")
    terminal.expect("as well\r\n")
    (tmp_path / "go").touch()
    until((tmp_path / "over").exists, "the end of the command, while nobody reads the terminal")
    assert terminal.code() == 7
    terminal.expect("200000\r\n")


def test_what_was_redirected_stays_the_commands_own(tmp_path: Path) -> None:
    script = "exec {} profile --live --backend synthetic:train:4 -o x.sql -- sh -c 'echo out; echo err >&2' > out.txt"
    opened = LiveTerminal(tmp_path, ["sh", "-c", script.format(f"{PYTHON} -m gssr")])
    try:
        opened.expect("ended")
        opened.type("q")
        opened.expect(OFF_SCREEN)
        opened.expect("err\r\n")
        assert opened.code() == 0
        assert (tmp_path / "out.txt").read_text() == "out\n"
        assert opened.log() == "err\n"
    finally:
        opened.close()


def test_a_command_that_cannot_be_run_is_one_line(tmp_path: Path) -> None:
    terminal = LiveTerminal(tmp_path, [*gssr("--no-summary"), "no-such-command"])
    try:
        assert terminal.code() == 127
        assert terminal.text() == "gssr: no-such-command: command not found\r\n"
    finally:
        terminal.close()


# Ctrl-C


COUNT = """
import signal, sys
def got(sig, _):
    print("got", signal.Signals(sig).name, flush=True)
    if sig == signal.SIGTERM: sys.exit(5)
signal.signal(signal.SIGINT, got)
signal.signal(signal.SIGTERM, got)
print("ready", flush=True)
while True: signal.pause()
"""


def test_the_job_is_stopped_with_more_and_more_force(live: Open, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    terminal = live(f"exec {PYTHON} count.py")
    terminal.on_screen()
    terminal.prints("ready")
    terminal.type("\x03")
    terminal.expect("sends SIGINT")
    assert terminal.log() == "ready\n"
    terminal.type("s")
    terminal.prints("got SIGINT")
    assert terminal.named(SCREEN)
    terminal.type("\x03")
    terminal.expect("sends SIGTERM")
    terminal.type("s")
    terminal.prints("got SIGTERM")
    terminal.expect("ended (exit 5)")
    terminal.type("\x03")  # nothing is left to ask about
    assert terminal.code() == 5
    assert events_of(tmp_path) == ["SIGINT passed on", "SIGTERM passed on"]


def test_the_question_can_be_left_and_other_keys_are_no_answer(live: Open, tmp_path: Path) -> None:
    terminal = live(WAITS)
    terminal.on_screen()
    terminal.type("\x03")
    terminal.expect("the job is running")
    terminal.type("x2\x03\r")
    terminal.type("\x1b")
    seen = len(terminal.text())

    def goes_to_the_second_screen() -> bool:
        time.sleep(0.3)  # what comes at once with Escape is another key
        terminal.type("2")
        return "most time" in terminal.text()[seen:]

    until(goes_to_the_second_screen, "the second screen")
    (tmp_path / "go").touch()
    terminal.expect("ended (exit 7)")
    assert not events_of(tmp_path)
    assert not list(tmp_path.glob("*.txt"))


@pytest.mark.parametrize("key", ["d", "q"])
def test_the_job_is_left_running(live: Open, tmp_path: Path, key: str) -> None:
    terminal = live(WAITS)
    terminal.on_screen()
    terminal.type("\x03")
    terminal.expect("the job is running")
    terminal.type(key)
    terminal.expect(OFF_SCREEN)
    terminal.expect("ready\r\n")
    (tmp_path / "go").touch()
    assert terminal.code() == 7


def test_an_unfinished_last_line_is_ended_before_ours(live: Open) -> None:
    terminal = live("printf unfinished")
    terminal.expect("ended")
    terminal.type("q")
    terminal.expect("unfinished\r\ngssr: GSSR score=")


def test_after_leaving_ctrl_c_is_the_commands_again(live: Open, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    terminal = live(f"exec {PYTHON} count.py")
    terminal.on_screen()
    terminal.type("q")
    terminal.expect("ready\r\n")
    terminal.type("\x03")
    terminal.expect("got SIGINT")
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.expect("got SIGTERM")
    assert terminal.code() == 5


# Who dies


def test_a_killed_screen_leaves_the_terminal_as_it_was_and_the_command_running(live: Open, tmp_path: Path) -> None:
    terminal = live(WAITS)
    before = terminal.modes()
    terminal.on_screen()
    assert terminal.modes() != before
    os.kill(terminal.named(SCREEN), signal.SIGKILL)
    terminal.expect(OFF_SCREEN)
    terminal.expect("gssr: the live screen was killed by signal 9")
    terminal.expect("ready\r\n")
    assert terminal.modes() == before
    (tmp_path / "go").touch()
    terminal.expect("done\r\n")
    assert terminal.code() == 7
    terminal.nothing_is_left()


def test_a_stopped_screen_stops_nothing_else(live: Open, tmp_path: Path) -> None:
    terminal = live(WAITS)
    before = terminal.modes()
    terminal.on_screen()
    os.kill(terminal.named(SCREEN), signal.SIGSTOP)
    (tmp_path / "go").touch()
    until(lambda: (tmp_path / "x.sql").exists() and state_of(tmp_path) == ("failed", 7), "the recording's end")
    used = cpu_seconds(terminal.pid)
    time.sleep(0.5)
    assert cpu_seconds(terminal.pid) - used < 0.1
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.expect("done\r\n")
    assert terminal.code() == 7
    assert terminal.modes() == before
    terminal.nothing_is_left()


def test_a_killed_supervisor_costs_the_command_nothing(tmp_path: Path) -> None:
    script = " ".join([*gssr(), "sh", "-c", f"'{WAITS}'"]) + " & wait $!; echo script goes on; sleep 1; stty -a > modes"
    terminal = LiveTerminal(tmp_path, ["bash", "-c", f"stty -a > before; {script.replace(' & wait $!', '')}"])
    try:
        terminal.on_screen()
        screen, copier, sampler = terminal.named(SCREEN), terminal.named(COPIER), terminal.named(SAMPLER)
        (parent,) = {
            int(line.split()[3])
            for line in (
                Path(f"/proc/{pid}/stat").read_text().replace(") ", ")").replace(")", " ")
                for pid in (screen, copier, sampler)
            )
        }
        os.kill(parent, signal.SIGKILL)
        terminal.expect("script goes on")
        until(lambda: process_state(screen) == "X", "the screen to end")
        assert OFF_SCREEN in terminal.text()
        assert process_state(copier) != "X"
        assert terminal.code() == 0
        assert (tmp_path / "modes").read_text() == (tmp_path / "before").read_text()
        (tmp_path / "go").touch()
        terminal.prints("ready\ndone\n")
        for process in (copier, sampler):
            until(lambda process=process: process_state(process) == "X", "everything to end")  # type: ignore[misc]
        assert state_of(tmp_path) == ("killed", None)
    finally:
        terminal.close()


def test_a_killed_copier_is_replaced(live: Open, tmp_path: Path) -> None:
    terminal = live(WAITS)
    terminal.on_screen()
    terminal.prints("ready")
    first = terminal.named(COPIER)
    os.kill(first, signal.SIGKILL)
    until(lambda: terminal.named(COPIER) not in (0, first), "another one")
    (tmp_path / "go").touch()
    terminal.prints("ready\ndone\n")
    terminal.expect("ended (exit 7)")
    terminal.type("q")
    assert terminal.code() == 7
    terminal.nothing_is_left()


@pytest.mark.parametrize("left", [False, True], ids=["on screen", "after leaving"])
@pytest.mark.parametrize("how", ["hang up", "signal"])
def test_a_lost_terminal_harms_nothing(live: Open, tmp_path: Path, how: str, left: bool) -> None:
    terminal = live(f"{WAITS.removesuffix('; exit 7')}; seq 100000; exit 7")
    terminal.on_screen()
    if left:
        terminal.type("q")
        terminal.expect("ready\r\n")
    if how == "hang up":
        terminal.hang_up()
    else:
        os.kill(terminal.pid, signal.SIGHUP)
    until(lambda: not terminal.named(SCREEN), "the screen to end")
    used = cpu_seconds(terminal.pid)
    time.sleep(0.5)
    assert cpu_seconds(terminal.pid) - used < 0.1
    (tmp_path / "go").touch()
    assert terminal.code() == 7
    assert terminal.log().endswith("99999\n100000\n")
    assert state_of(tmp_path) == ("failed", 7)
    assert "not passed on: SIGHUP; the command runs on without a terminal" in events_of(tmp_path)
    assert "100000" not in terminal.text()
    terminal.nothing_is_left()


def test_a_signal_to_end_ends_the_screen_with_the_command(live: Open, tmp_path: Path) -> None:
    terminal = live("echo ready; exec sleep 30")
    terminal.on_screen()
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.expect(OFF_SCREEN)
    terminal.expect("recorded into")
    assert terminal.code() == 128 + 15
    assert state_of(tmp_path) == ("killed", 143)
    terminal.nothing_is_left()


@pytest.mark.parametrize("how", ["q", "hang up", signal.SIGHUP, signal.SIGTERM])
def test_who_leaves_while_the_recording_is_finished_has_left(live: Open, tmp_path: Path, how: str | int) -> None:
    terminal = live(WAITS)
    terminal.on_screen()
    sampler, workload = terminal.named(SAMPLER), terminal.named("sh")
    os.kill(sampler, signal.SIGSTOP)  # it takes a while
    (tmp_path / "go").touch()
    until(lambda: process_state(workload) == "X", "the workload's end to be seen")
    if isinstance(how, int):
        os.kill(terminal.pid, how)
    else:
        terminal.type("q") if how == "q" else terminal.hang_up()
        until(lambda: not terminal.named(SCREEN), "the screen to end")
    if (
        how == signal.SIGTERM
    ):  # who asks for the end is not kept waiting for the recording's, which comes a little later
        os.kill(sampler, signal.SIGCONT)
        assert terminal.code() == 7
        until(lambda: state_of(tmp_path) == ("failed", 7), "the recording's end")
    else:
        time.sleep(1.3 if how == "hang up" else 0.2)
        assert not terminal.ended()
        os.kill(sampler, signal.SIGCONT)
        assert terminal.code() == 7
        assert state_of(tmp_path) == ("failed", 7)
    terminal.nothing_is_left()


def test_processes_left_behind_can_print_on(live: Open, tmp_path: Path) -> None:
    terminal = live("(until [ -e go ]; do sleep 0.02; done; echo late) & echo early; exit 7")
    terminal.expect("ended (exit 7)")
    terminal.type("q")
    terminal.expect("early\r\n")
    assert terminal.code() == 7
    (tmp_path / "go").touch()
    terminal.prints("early\nlate\n")
    assert "late" not in terminal.text()
    terminal.nothing_is_left()


def test_what_the_log_has_no_room_for_is_shown_all_the_same(tmp_path: Path) -> None:
    script = "until [ -e go ]; do sleep 0.02; done; seq 300000; exit 7"
    terminal = LiveTerminal(tmp_path, ["bash", "-c", 'ulimit -f 1000; exec "$@"', "-", *gssr(), "sh", "-c", script])
    try:
        terminal.on_screen()
        terminal.type("q")
        terminal.expect("as well\r\n")
        (tmp_path / "go").touch()
        assert terminal.code() == 7
        told = "x.log: can't be written: File too large; until it can, what is printed is not kept\r\n"
        shown = terminal.text().partition("as well\r\n")[2]
        assert shown.count(told) == 1
        printed = re.sub(r"gssr: [^\n]*\n", "", shown)
        assert printed.rstrip() == "\r\n".join(str(n) for n in range(1, 300_001))
        assert (tmp_path / "x.log").stat().st_size == 1_024_000
    finally:
        terminal.close()


# The terminal as a keyboard


def test_who_opens_the_terminal_waits_until_the_screen_is_left(live: Open) -> None:
    terminal = live('echo ask; read answer < /dev/tty; echo "<$answer>"; exit 7')
    terminal.on_screen()
    terminal.expect("waits for the terminal")
    assert "<" not in terminal.log()
    terminal.type("q")
    terminal.expect("ask\r\n")
    until(lambda: os.tcgetpgrp(terminal.master) != terminal.pid, "the command to have the terminal")
    terminal.type("an answer\n")
    terminal.expect("<an answer>\r\n")
    assert terminal.code() == 7


def test_job_control_works_after_leaving(tmp_path: Path) -> None:
    # bash, as dash does not stop where Ctrl-Z stops its child between vfork and exec, which is one time in 300 here.
    command = " ".join([*gssr(), "bash", "-c", f"'{WAITS}'"])
    shell = LiveTerminal(tmp_path, ["bash", "--norc", "--noprofile", "--noediting", "-i"], PS1="ready> ")
    try:
        shell.expect("ready> ")
        shell.type(f"{command}; echo code $?\n")
        shell.on_screen()
        shell.type("q")
        shell.expect("as well\r\n")
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect("ready> ")
        (tmp_path / "go").touch()
        time.sleep(0.3)
        assert "done" not in shell.log()
        shell.type("fg; echo again $?\n")
        shell.expect("done\r\n")
        shell.expect("again 7")
    finally:
        shell.close()


# Where there is no screen


def without_terminal(folder: Path, *options: str, **popen: object) -> "subprocess.CompletedProcess[str]":
    command = [*gssr(*options), "sh", "-c", "echo out; exit 7"]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    given = {"stdin": subprocess.DEVNULL, "capture_output": True} | popen
    return subprocess.run(command, cwd=folder, env=environ, text=True, timeout=60, **given)  # type: ignore[call-overload,no-any-return]


def test_without_a_terminal_it_records_as_ever_and_says_so(tmp_path: Path) -> None:
    done = without_terminal(tmp_path, "--no-summary")
    assert (done.returncode, done.stdout, done.stderr) == (
        7,
        "out\n",
        "gssr: no terminal: recording without a screen\n",
    )
    assert not (tmp_path / "x.log").exists()
    assert state_of(tmp_path) == ("failed", 7)


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"TERM": "dumb"}, "no terminal"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "a"}, "several ranks"),
    ],
)
def test_where_a_screen_makes_no_sense_there_is_none(live: Open, environ: dict[str, str], why: str) -> None:
    terminal = live("echo out; exit 7", **environ)
    terminal.expect(f"gssr: {why}")
    terminal.expect("recording without a screen\r\n")
    terminal.expect("out\r\n")
    assert terminal.code() == 7
    assert "\x1b" not in terminal.text()


def test_in_the_background_there_is_no_screen(tmp_path: Path) -> None:
    command = " ".join([*gssr("--no-summary"), "sh", "-c", "'echo out; exit 7'"])
    shell = LiveTerminal(tmp_path, ["bash", "--norc", "--noprofile", "--noediting", "-i"], PS1="ready> ")
    try:
        shell.expect("ready> ")
        shell.type(f"{command} & wait $!; echo code $?\n")
        shell.expect("gssr: in the background: recording without a screen\r\n")
        shell.expect("out\r\n")
        shell.expect("code 7\r\n")
    finally:
        shell.close()


def test_a_reader_of_the_output_keeps_the_terminal(tmp_path: Path) -> None:
    command = " ".join([*gssr("--no-summary"), "sh", "-c", "'echo out; exit 7'"])
    terminal = LiveTerminal(tmp_path, ["sh", "-c", f"{command} | tr a-z A-Z"])
    try:
        terminal.expect("without a screen\r\n")
        terminal.expect("OUT\r\n")
        assert terminal.code() == 0
    finally:
        terminal.close()


# The log's file


def test_somebodys_own_file_is_never_written_to(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("mine")
    terminal = LiveTerminal(tmp_path, [*gssr(), "touch", "started"])
    try:
        terminal.expect(f"gssr: {tmp_path}/x.log: exists, and --live would keep the output there")
        assert terminal.code() == 2
        assert (tmp_path / "x.log").read_text() == "mine"
        assert not (tmp_path / "started").exists()
    finally:
        terminal.close()


def test_the_log_goes_with_its_recording_and_a_command_that_is_not_found_leaves_both(
    live: Open, tmp_path: Path
) -> None:
    for word, options, log in (
        ("first", (), "first\n"),
        ("second", ("-a",), "first\nsecond\n"),
        ("third", ("-f",), "third\n"),
    ):
        terminal = live(f"echo {word}", *options)
        terminal.expect("ended")
        terminal.type("q")
        before = terminal.expect("recorded into")
        assert terminal.code() == 0
        assert [each for each in ("first", "second", "third") if each in before] == [word]
        assert terminal.log() == log
    terminal = LiveTerminal(tmp_path, [*gssr("-f"), "no-such-command"])
    try:
        terminal.expect("gssr: no-such-command: command not found")
        assert terminal.code() == 127
    finally:
        terminal.close()
    assert terminal.log() == "third\n"
    assert state_of(tmp_path) == ("completed", 0)
    assert sorted(os.listdir(tmp_path)) == ["x.log", "x.sql"]


def test_a_log_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.log")
    terminal = LiveTerminal(tmp_path, [*gssr("-a"), "touch", "started"])
    try:
        assert terminal.code() == 2
        assert not (tmp_path / "started").exists()
    finally:
        terminal.close()
