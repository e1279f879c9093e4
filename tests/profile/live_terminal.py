"""Commands on terminals of their own, for tests, ``gssr profile --live`` among them: real ptys, processes and signals."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from pathlib import Path
from typing import Any

from supervised import ROOT

from tests.waiting import process_state, until

PYTHON = sys.executable
SCREEN, COPIER, SAMPLER = "gssr-screen", "gssr-output", "gssr-sampler"
ON_SCREEN = "\x1b[?1049h"
OFF_SCREEN = "\x1b[?1049l"


def gssr(*options: str) -> list[str]:
    """The start of a command line that records four synthetic GPUs into x.sql under the live screen."""
    own = ["--live", "--backend", "synthetic:train:4", "-t", "100", "-o", "x.sql"]
    return [PYTHON, "-m", "gssr", "profile", *own, *options, "--"]


def session_of(pid: int) -> list[int]:
    """All processes of the session, zombies left out."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == pid and fields[0] not in "ZX":
                found.append(int(name))
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class OwnTerminal:
    """A terminal with a command on it, in the folder ``folder``."""

    def __init__(self, folder: Path, command: list[str], size: tuple[int, int] = (80, 24), **environ: str) -> None:
        self.folder = folder
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
                os.chdir(folder)
                os.environ |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"} | environ
                os.execvp(command[0], command)
            finally:
                os._exit(99)
        os.set_blocking(self.master, False)
        self._data = b""
        self._seen = 0
        self._code: int | None = None

    def text(self) -> str:
        """Everything that came to the terminal."""
        try:
            while self.master >= 0:
                self._data += os.read(self.master, 1 << 16)
        except (BlockingIOError, OSError):
            pass
        return self._data.decode(errors="replace")

    def expect(self, wanted: str) -> str:
        """Wait for this text after what was expected before; what came in between."""
        try:
            until(lambda: wanted in self.text()[self._seen :], repr(wanted))
        except AssertionError as error:
            raise AssertionError(f"{error} in\n{self.text()[self._seen :][-3000:]!r}") from None
        text = self.text()
        end = text.index(wanted, self._seen)
        between, self._seen = text[self._seen : end], end + len(wanted)
        return between

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def resize(self, width: int, height: int) -> None:
        termios.tcsetwinsize(self.master, (height, width))

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.master)

    def hang_up(self) -> None:
        """The terminal is gone, as when a connection drops."""
        os.close(self.master)
        self.master = -1

    def ended(self) -> bool:
        return process_state(self.pid) in "ZX"

    def _ended(self) -> bool:
        self.text()  # a terminal that nobody reads from could hold it up
        return self.ended()

    def code(self) -> int:
        """The exit code of the command, when it has ended; -n for signal n."""
        if self._code is None:
            until(self._ended, "the end")
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def close(self) -> None:
        for pid in session_of(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.master >= 0:
            os.close(self.master)
        if self._code is None:
            os.waitpid(self.pid, 0)


class LiveTerminal(OwnTerminal):
    """A terminal with the live screen on it, of a recording that is called x.sql."""

    def on_screen(self) -> None:
        """Wait until the live screen shows something of the recording; what it says may be expected afterwards."""
        self.expect(ON_SCREEN)
        until(lambda: "4 GPUs" in self.text()[self._seen :], "'4 GPUs'")

    def named(self, name: str) -> int:
        """The process of this name (as ps -A shows it); 0 when there is none."""
        for pid in session_of(self.pid):
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    return pid
            except (FileNotFoundError, ProcessLookupError):
                pass
        return 0

    def log(self) -> str:
        path = self.folder / "x.log"
        return path.read_text() if path.exists() else ""

    def prints(self, wanted: str) -> None:
        """Wait until the log holds this."""
        until(lambda: wanted in self.log(), f"{wanted!r} in the log")

    def nothing_is_left(self) -> None:
        """Wait until every process of the session has ended."""
        until(lambda: not [pid for pid in session_of(self.pid) if pid != self.pid], "all processes to end")
