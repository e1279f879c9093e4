"""The supervisor at a terminal: real ones (ptys), most of them with an interactive shell on them."""

import os
import re
import shlex
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from live_terminal import OwnTerminal
from supervised import Log, driver_command

from tests.waiting import process_state, until

PYTHON = shlex.quote(sys.executable)
PROMPT = "ready> "
ECHO_OFF = f"{PYTHON} -c '" + (
    "import os, sys, termios; m = termios.tcgetattr(0); m[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, m);"
    'print("echo", "off", flush=True); print("go" + "t", input(), flush=True)'
    "'"
)
IN_FRONT = f"""{PYTHON} -c 'import os; print("in front:", os.tcgetpgrp(0) == os.getpgrp())'"""


class Screen(OwnTerminal):
    """A command on a terminal of its own. ``gssr`` in its directory is the driver."""

    def __init__(self, folder: Path, command: list[str], options: dict[str, Any]) -> None:
        self.log = Log(folder / "calls.jsonl")
        wrapper = folder / "gssr"
        words = [shlex.quote(str(word)) for word in driver_command(self.log.path, options)]
        wrapper.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        wrapper.chmod(0o755)
        super().__init__(folder, command, TERM="dumb", PS1=PROMPT, PYTHONUNBUFFERED="1")

    def text(self) -> str:
        return super().text().replace("\r", "")

    def prompt(self) -> str:
        return self.expect(PROMPT)

    def enter(self, line: str) -> None:
        """Type a line at the shell's prompt and swallow its echo."""
        self.type(line + "\n")
        self.expect("\n")

    def foreground(self) -> int:
        return os.tcgetpgrp(self.master)

    def echoes(self) -> bool:
        return bool(self.modes()[3] & termios.ECHO)

    def supervisor(self) -> int:
        """Process id of the driver: the workload's parent."""
        status = Path(f"/proc/{self.log.workload()}/status").read_text()
        return int(re.findall(r"PPid:\s+(\d+)", status)[0])

    def stops(self) -> None:
        """Wait until workload and supervisor are both stopped."""
        supervisor, workload = self.supervisor(), self.log.workload()
        until(lambda: process_state(supervisor) == process_state(workload) == "T", "both to stop")

    def close(self) -> None:
        for group, _ in self.log.calls("started"):
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        super().close()


Open = Callable[..., Screen]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Open]:
    """Opens terminals with the given command on them."""
    opened: list[Screen] = []

    def open_screen(*command: str, **options: Any) -> Screen:
        opened.append(Screen(tmp_path, list(command), options))
        return opened[-1]

    yield open_screen
    for one in opened:
        one.close()


@pytest.fixture
def shell(screen: Open) -> Screen:
    """An interactive bash."""
    one = screen("bash", "--norc", "--noprofile", "--noediting", "-i")
    one.prompt()
    return one


def test_workload_is_in_the_foreground_from_its_start(shell: Screen) -> None:
    shell.enter(f"./gssr {IN_FRONT}; echo code $?")
    assert "in front: True" in shell.expect("code 0\n")
    shell.prompt()
    assert shell.foreground() == shell.pid


def test_workload_reads_the_terminal(shell: Screen) -> None:
    shell.enter("./gssr sh -c 'echo ask; read a; echo \"<$a>\"; exit 3'; echo code $?")
    shell.expect("ask\n")
    assert shell.foreground() == shell.log.workload()
    shell.type("an answer\n")
    shell.expect("<an answer>\ncode 3\n")


COUNT_INTERRUPTS = """
import signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print("waiting", flush=True)
while not count: time.sleep(0.01)
time.sleep(0.2)
print("interrupts:", count)
"""


@pytest.mark.parametrize(("pipe", "passed_on"), [("", []), (" | (trap '' INT; cat)", ["SIGINT passed on"])])
def test_interrupt_key_reaches_the_workload_once(
    shell: Screen, tmp_path: Path, pipe: str, passed_on: list[str]
) -> None:
    (tmp_path / "count.py").write_text(COUNT_INTERRUPTS)
    shell.enter(f"./gssr {PYTHON} count.py{pipe}")
    shell.expect("waiting\n")
    shell.type("\x03")
    shell.expect("interrupts: 1\n")
    shell.prompt()
    assert shell.log.events("signal") == passed_on
    assert shell.log.end() == (0, "completed")


def test_interrupt_key_ends_the_loop_around_it_as_without_us(shell: Screen) -> None:
    shell.enter("for i in 1 2 3; do ./gssr sh -c 'echo turn; exec sleep 20'; echo nex''t; done")
    shell.expect("turn\n")
    shell.type("\x03")
    assert "next" not in shell.prompt()
    shell.enter("echo code $?")
    shell.expect("code 130\n")


@pytest.mark.parametrize("pipe", ["", " | cat"])
def test_interrupt_key_ends_the_script_around_it_as_without_us(shell: Screen, tmp_path: Path, pipe: str) -> None:
    (tmp_path / "script").write_text(f"./gssr sh -c 'echo turn; exec sleep 20'{pipe}\necho after\n")
    shell.enter("bash script")
    shell.expect("turn\n")
    until(lambda: shell.log.calls("started"), "the start")
    shell.type("\x03")
    assert "after" not in shell.prompt()
    shell.enter("echo code $?")
    shell.expect("code 130\n")
    assert shell.log.end() == (130, "killed")


def test_stop_key_stops_both_and_fg_brings_back_the_workloads_modes(shell: Screen) -> None:
    before = shell.modes()
    shell.enter(f"./gssr {ECHO_OFF}")
    shell.expect("echo off\n")
    supervisor, workload = shell.supervisor(), shell.log.workload()
    for _ in range(2):
        assert not shell.echoes()
        shell.type("\x1a")
        shell.stops()
        assert "Stopped" in shell.prompt()
        assert shell.foreground() == shell.pid
        assert shell.modes() == before
        shell.enter("fg")
        until(lambda: shell.foreground() == workload and not shell.echoes(), "the workload in front")
        until(lambda: process_state(supervisor) == process_state(workload) == "S", "the continuation")
    shell.type("secret\n")
    assert shell.expect("got secret\n").count("secret") == 0  # not echoed
    shell.prompt()
    assert shell.modes() == before
    assert shell.log.events("signal") == ["SIGCONT passed on"] * 2


def test_stopped_job_goes_on_in_the_background(shell: Screen) -> None:
    shell.enter("mkfifo go; ./gssr sh -c 'echo begun; read a <go; exit 6'")
    shell.expect("begun\n")
    shell.type("\x1a")
    shell.stops()
    shell.prompt()
    shell.enter("bg")
    shell.prompt()
    workload = shell.log.workload()
    until(lambda: process_state(workload) != "T", "the continuation")
    assert shell.foreground() == shell.pid
    shell.enter("echo >go; wait %1; echo code $?")
    shell.expect("code 6\n")
    shell.prompt()
    assert shell.foreground() == shell.pid
    assert shell.echoes()


def test_background_job_that_reads_is_stopped_until_fg(shell: Screen) -> None:
    shell.enter("./gssr sh -c 'read a; echo \"<$a>\"' &")
    shell.prompt()
    shell.stops()
    assert shell.foreground() == shell.pid
    shell.enter("fg")
    workload = shell.log.workload()
    until(lambda: shell.foreground() == workload, "the workload in front")
    shell.type("late\n")
    shell.expect("<late>\n")
    shell.prompt()


def test_background_job_gets_the_terminal_when_it_first_needs_it_in_front(shell: Screen) -> None:
    """A shell tells a running job nothing when it brings it to the front."""
    shell.enter("mkfifo go; ./gssr sh -c 'read a <go; read a; echo \"<$a>\"' &")
    shell.prompt()
    shell.log.workload()
    shell.enter("fg; echo over")
    until(lambda: shell.foreground() != shell.pid, "fg")
    Path(shell.log.path.parent, "go").write_text("\n")
    shell.type("here\n")
    shell.expect("<here>\n")
    shell.expect("over\n")


def test_pipeline_keeps_the_terminal_until_the_workload_needs_it(shell: Screen) -> None:
    script = f"""{IN_FRONT}; read a; echo "<$a>"; {IN_FRONT}"""
    shell.enter(f"./gssr sh -c {shlex.quote(script)} | cat; echo over")
    shell.expect("in front: False\n")
    until(lambda: shell.foreground() == shell.log.workload(), "the workload in front")
    shell.type("needed\n")
    shell.expect("<needed>\nin front: True\n")
    shell.expect("over\n")


def test_stop_key_stops_a_pipeline_and_fg_goes_on(shell: Screen) -> None:
    shell.enter("mkfifo go; ./gssr sh -c 'echo begun; read a <go; echo ende''d' | cat")
    shell.expect("begun\n")
    shell.type("\x1a")
    shell.stops()
    shell.expect("Stopped")
    shell.prompt()
    shell.enter("fg")
    until(lambda: process_state(shell.log.workload()) == "S", "the continuation")
    Path(shell.log.path.parent, "go").write_text("\n")
    shell.expect("ended\n")
    shell.prompt()
    assert shell.log.events("signal") == ["SIGTSTP passed on", "SIGCONT passed on"]


def test_job_with_redirected_input_stops_and_gets_the_terminal_on_demand(shell: Screen) -> None:
    shell.enter("echo file >input; ./gssr sh -c 'read a; echo $a; read b </dev/tty; echo \"<$b>\"' <input; echo over")
    shell.expect("file\n")
    until(lambda: shell.foreground() == shell.log.workload(), "the workload in front")
    shell.type("\x1a")
    shell.stops()
    shell.expect("Stopped")
    shell.prompt()
    shell.enter("fg")
    until(lambda: shell.foreground() == shell.log.workload(), "the workload in front")
    shell.type("typed\n")
    shell.expect("<typed>\n")


def test_workload_that_stops_itself_gives_the_shell_back(shell: Screen) -> None:
    shell.enter("./gssr sh -c 'kill -STOP $$; echo back; exit 2'")
    assert "Stopped" in shell.prompt()
    shell.enter("fg; echo code $?")
    shell.expect("back\n")
    shell.expect("code 2\n")


def test_stop_signal_to_the_job_and_its_end_while_stopped(shell: Screen) -> None:
    shell.enter("./gssr sleep 60 &")
    shell.prompt()
    shell.log.workload()
    shell.enter("kill -TSTP %1")
    shell.prompt()
    shell.stops()
    shell.enter("kill %1")
    until(lambda: shell.log.calls("ended"), "the end")
    assert shell.log.end() == (143, "killed")


def test_terminal_that_a_shell_took_behind_our_back_stays_the_shells(shell: Screen) -> None:
    shell.enter("mkfifo go; ./gssr sh -c 'echo begun; read a <go'")
    shell.expect("begun\n")
    os.kill(shell.supervisor(), signal.SIGSTOP)
    assert "Stopped" in shell.prompt()
    shell.enter("bg")
    shell.prompt()
    shell.enter("echo >go")
    shell.prompt()
    until(lambda: shell.log.calls("ended"), "the end")
    assert shell.foreground() == shell.pid
    shell.enter("echo al''ive")
    shell.expect("alive\n")


def test_modes_left_behind_by_a_killed_workload_are_put_right(shell: Screen) -> None:
    before = shell.modes()
    shell.enter("bash -c './gssr sh -c \"stty raw -echo; kill -KILL \\$\\$\"; echo co''de $?; read a; echo \"<$a>\"'")
    shell.expect("code 137\n")
    assert shell.modes() == before
    shell.type("script\n")  # the script around it has the terminal again
    shell.expect("<script>\n")


def test_command_not_found_gives_the_terminal_back(shell: Screen) -> None:
    shell.enter("bash -c './gssr nosuch; read a; echo \"<$a>\"'")
    shell.expect("gssr: nosuch: command not found\n")
    shell.type("still\n")
    shell.expect("<still>\n")


def test_interactive_shell_as_the_workload(shell: Screen) -> None:
    shell.enter("PS1='inne''r> ' ./gssr bash --norc --noprofile --noediting -i; echo code $?")
    shell.expect("inner> ")
    shell.enter("sleep 60")
    inner = shell.log.workload()
    until(lambda: Path(f"/proc/{shell.foreground()}/comm").read_text() == "sleep\n", "the inner job in front")
    shell.type("\x1a")
    assert "Stopped" in shell.expect("inner> ")
    assert shell.foreground() == inner
    shell.enter("fg")
    until(lambda: shell.foreground() != inner, "the inner job in front")
    shell.type("\x03")
    shell.expect("inner> ")
    shell.enter("exit 3")
    shell.expect("code 3\n")
    shell.prompt()
    assert shell.foreground() == shell.pid


def test_session_leader_is_not_stopped_by_the_stop_key(screen: Open) -> None:
    """As with ``ssh -t host gssr profile ...``: no shell would ever continue it, so the terminal stops nothing there."""
    alone = screen("./gssr", "sh", "-c", 'echo begun; read a; echo "<$a>"; exit 4')
    alone.expect("begun\n")
    alone.type("\x1a")
    time.sleep(0.1)
    alone.type("on\n")
    alone.expect("<on>\n")
    assert alone.code() == 4


def test_hanging_up_ends_the_workload(screen: Open) -> None:
    alone = screen("./gssr", "sh", "-c", "echo begun; exec sleep 60")
    alone.expect("begun\n")
    workload = alone.log.workload()
    os.close(alone.master)
    alone.master = os.open(os.devnull, os.O_RDONLY)
    until(lambda: process_state(workload) == "X", "the workload's end")
    until(lambda: alone.log.calls("ended"), "the end of the supervisor")
    assert alone.log.end() == (129, "killed")
