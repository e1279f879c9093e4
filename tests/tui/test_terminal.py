"""The live screen in real terminals: of every kind, resized, lost, without one, and while its file changes under it."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.growing import Growing
from tests.tmux import TUI, Tmux
from tests.tmux import tmux as tmux  # the fixture
from tests.waiting import until, until_ended

ON = {
    "job": "GPU saturation", "gpus": r"GPU. *(now|last)", "time": "phases and steps",
    "balance": "what evening out would give",
    "why": "what keeps it from being saturated", "compare": "was another run better",
}  # fmt: skip
"""What only this screen shows, by its name, in their order."""
COLOURS = re.compile(r"\x1b\[[\d;]*(?:3[0-7]|9[0-7]|38;5;\d+)m")


@pytest.mark.parametrize("plain", (False, True), ids=("utf8", "ascii"))
@pytest.mark.parametrize("colourless", (False, True), ids=("colour", "no_color"))
@pytest.mark.parametrize("term", ("xterm-256color", "screen", "linux", "vt100"))
def test_every_terminal_shows_every_screen(
    plants: dict[str, str], tmux: Tmux, term: str, colourless: bool, plain: bool
) -> None:
    variables = {"TERM": term} | ({"NO_COLOR": "1"} if colourless else {})
    tmux.start(plants["before"], plants["after"], *(["--ascii"] if plain else []), **variables)
    tmux.shows(ON["job"])
    for number, shown in enumerate(ON.values(), 1):
        tmux.press(str(number))
        text = tmux.shows(shown)
        assert text.isascii() == (plain or term == "linux"), text
        assert bool(COLOURS.search(tmux.text(styles=True))) != colourless
    tmux.press("?")
    tmux.shows(r"c compare with the")  # of the panel of keys, not of the footer
    tmux.press("q")
    until_ended(tmux.pid)


def test_the_locale_c_is_drawn_in_ascii(plants: dict[str, str], tmux: Tmux) -> None:
    tmux.start(plants["healthy"], LC_ALL="C")
    assert tmux.shows(ON["job"] + "(.*\n){10}").isascii()
    tmux.press("m")
    assert tmux.shows("a metric: a part of its name").isascii()


def test_a_resize_storm_ends_in_a_screen_of_the_last_size(plants: dict[str, str], tmux: Tmux) -> None:
    tmux.start(plants["late_start"], COLUMNS="80", LINES="24")  # as a shell may have exported
    tmux.shows(ON["job"])
    for number, size in enumerate([(20, 5), (300, 100), (41, 11), (160, 48), (1, 1), (79, 23), (2, 60)] * 3):
        tmux.resize(*size)
        tmux.press(str(number % 5 + 1))
    tmux.resize(100, 30)
    tmux.press("3")
    # The footer is in the last of 30 rows: a screen of a size before may be there for a moment.
    shown = r"(?=[^\n]*ended(.*\n){2,4}.*every GPU over time(.*\n)*.*phases and steps)"
    text = tmux.shows(r"\A" + shown + r"(.*\n){29}.*Commands\n")
    lines = text.strip("\n").split("\n")
    assert len(lines) == 30 and max(map(len, lines)) == 100


def test_a_file_replaced_under_it_is_shown_and_a_removed_one_stays(tmp_path: Path, tmux: Tmux) -> None:
    path = tmp_path / "a.sql"
    tmux.start(str(path))
    tmux.shows(r"waiting for\s+/")
    first = Growing(path, n_gpus=2)
    first.grow(40)
    tmux.shows("2 GPUs")
    for name in tmp_path.iterdir():
        name.unlink()
    tmux.shows("was remo")
    second = Growing(path, n_gpus=5, run_id="other")
    second.grow(40)
    text = tmux.shows("5 GPUs")
    assert "was remo" not in text
    second.end(7)
    tmux.shows(r"ended \(exit 7\)")
    path.write_bytes(b"something else altogether")
    tmux.press("2")
    tmux.shows(ON["gpus"])
    tmux.press("q")
    until_ended(tmux.pid)


def test_ctrl_z_gives_the_shell_back_and_fg_the_screen(plants: dict[str, str], tmux: Tmux) -> None:
    tmux.shell()
    tmux.press(" ".join([*TUI, plants["before"], plants["after"]]), "Enter")
    tmux.shows(ON["job"])
    for number, name in ((2, "gpus"), (3, "time")):
        tmux.press("C-z")
        tmux.shows(r"Stopped[^$]*\n\$ ?\n")
        tmux.press("fg", "Enter")
        tmux.shows(r"ended(.*\n){23}.*Commands")  # all of it is drawn anew
        tmux.press(str(number))
        tmux.shows(ON[name])
    tmux.press("q")
    tmux.shows(r"gssr tui [^$]*\n\$ ?\n")


def test_ctrl_z_without_a_shell_says_so(plants: dict[str, str], tmux: Tmux) -> None:
    tmux.start(plants["healthy"])
    tmux.shows(ON["job"])
    tmux.press("C-z")
    tmux.shows("no shell here to go back to")
    tmux.press("2")
    tmux.shows(ON["gpus"])


def test_what_is_pasted_into_the_screen_is_no_keys_and_into_the_prompt_is_typed(
    plants: dict[str, str], tmux: Tmux
) -> None:
    tmux.start(plants["straggler"])
    tmux.shows(ON["job"] + "(.*\n)*.*Commands")
    tmux.paste("2q\nsm<30\x03")
    tmux.press("2", "/")
    tmux.shows(r"Enter keeps")
    tmux.paste("nid000007\nq")
    tmux.shows("4 of 32 pass nid000007|nid000007 *\n")
    tmux.press("Enter")
    tmux.shows("nid000007:2(.*\n)*.* s Sort")  # the list has the focus again
    tmux.press("q")
    until_ended(tmux.pid)


def test_a_file_alone_opens_and_a_slip_in_its_name_does_not_wait(plants: dict[str, str], tmux: Tmux) -> None:
    tmux.shell()
    path = Path(plants["straggler"])
    tmux.press(f"cd {path.parent}; {sys.executable} -m gssr {path.name}", "Enter")
    tmux.shows(ON["job"])
    tmux.press("q")
    tmux.shows(r"straggler.sql\n\$ ?\n")
    tmux.press(f"{sys.executable} -m gssr tui stragler.sql", "Enter")
    tmux.shows(r"gssr: stragler.sql: no such file; did you mean straggler.sql\? --wait")
    tmux.press(f"clear; {sys.executable} -m gssr tui --wait stragler.sql", "Enter")
    tmux.shows(r"waiting for stragler.sql\n(.*\n)* *not there yet; here are \w")


class Pty:
    """``gssr tui`` on a terminal that can be taken away."""

    def __init__(self, *words: str, ignored: bool = False, term: str = "xterm") -> None:
        import fcntl
        import pty
        import struct
        import termios

        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if ignored:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            time.sleep(0.05)
            os.execve(TUI[0], [*TUI, *words], os.environ | {"TERM": term})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.written = b""

    def read_until(self, pattern: bytes) -> None:
        until(lambda: self._read() and pattern in self.written, repr(pattern))

    def _read(self) -> bool:
        if select.select([self.fd], [], [], 0.2)[0]:
            self.written += os.read(self.fd, 1 << 16)
        return True

    def take_away(self) -> None:
        os.close(self.fd)


def test_until_the_screen_comes_it_says_what_it_reads(plants: dict[str, str]) -> None:
    """Before the parts that draw are there; test_live_screen.py has what the screen says until there is a result."""
    terminal = Pty(plants["healthy"])
    try:
        terminal.read_until(b"score")
    finally:
        os.kill(terminal.pid, signal.SIGKILL)
        os.waitpid(terminal.pid, 0)
        terminal.take_away()
    before = terminal.written.partition(b"\x1b[?1049h")[0]
    said = f"reading {Path(plants['healthy']).name} ".encode()
    assert before.startswith(said) and before.endswith(b"\r\x1b[K")


@pytest.mark.parametrize("ignored", (False, True), ids=("as_usual", "where_hangups_are_ignored"))
def test_without_its_terminal_it_ends_and_does_not_spin(plants: dict[str, str], ignored: bool) -> None:
    terminal = Pty(plants["healthy"], ignored=ignored)
    try:
        terminal.read_until(b"score")
        terminal.take_away()
        until_ended(terminal.pid)
    finally:
        try:
            os.kill(terminal.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(terminal.pid, 0)


@pytest.mark.parametrize("how", (signal.SIGTERM, signal.SIGHUP), ids=("sigterm", "sighup"))
def test_ended_by_a_signal_it_leaves_the_terminal_as_it_was(plants: dict[str, str], how: signal.Signals) -> None:
    import termios

    terminal = Pty(plants["healthy"])
    try:
        modes = termios.tcgetattr(terminal.fd)
        terminal.read_until(b"score")
        assert termios.tcgetattr(terminal.fd) != modes
        os.kill(terminal.pid, how)
        terminal.read_until(b"\x1b[?1049l")
        until_ended(terminal.pid)
        assert termios.tcgetattr(terminal.fd) == modes
    finally:
        os.kill(terminal.pid, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(terminal.pid, 0)[1]) == how
        terminal.take_away()


def test_a_hangup_ends_it(plants: dict[str, str], tmux: Tmux) -> None:
    tmux.start(plants["healthy"])
    tmux.shows(ON["job"])
    pid = tmux.pid
    os.kill(pid, signal.SIGHUP)
    until_ended(pid)


@pytest.mark.parametrize("missing", ("stdin", "stderr", "both"))
def test_without_a_terminal_it_refuses_and_says_what_to_do(
    plants: dict[str, str], tmp_path: Path, missing: str, requires: Callable[..., None]
) -> None:
    requires("script", package="bsdutils")
    quoted = " ".join([*TUI, plants["healthy"]])
    redirected = {"stdin": "</dev/null 2>&1", "stderr": "2>err", "both": "</dev/null 2>err"}[missing]
    inner = f"{quoted} {redirected}; echo code $?; cat err 2>/dev/null"
    done = subprocess.run(
        [shutil.which("script") or "script", "-qec", inner, "/dev/null"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "code 2" in done.stdout
    assert "gssr analyze --terminal" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_file_that_is_no_recording_ends_in_a_sentence_before_any_screen(tmp_path: Path) -> None:
    (tmp_path / "junk.sql").write_bytes(b"junk\n")
    terminal = Pty(str(tmp_path / "junk.sql"))
    terminal.read_until(b"is not a recording")
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 2
    terminal.take_away()


def test_a_dumb_terminal_is_none(plants: dict[str, str]) -> None:
    terminal = Pty(plants["healthy"], term="dumb")
    terminal.read_until(b"gssr analyze --terminal prints a page instead")
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 2
    terminal.take_away()
    assert b"\x1b" not in terminal.written
