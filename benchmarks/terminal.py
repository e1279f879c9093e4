"""A program on a terminal of its own: what it writes is read and counted, and what each of its threads costs."""

import contextlib
import fcntl
import math
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.processes import ENVIRONMENT

_TERMINAL = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
_NOT_PASSED_ON = ("COLUMNS", "LINES", "NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TMUX")
_ANSWERS = {b"\x1b[?2026$p": b"\x1b[?2026;2$y", b"\x1b[6n": b"\x1b[1;5R"}
"""It has synchronized output; its cursor is where it is after a character that was repeated three times, which matters only
there."""
_STEP = 0.02


class Terminal:
    """Runs ``command`` on a new terminal of ``columns`` x ``rows`` that answers as today's do; ``written`` is what came out
    of it so far. At the end of a line that carries ``rate`` bytes a second, and takes all at its beginning."""

    def __init__(
        self, command: Sequence[str | Path], columns: int, rows: int, environment: Mapping[str, str] | None = None,
        rate: float = math.inf,
    ) -> None:  # fmt: skip
        self.began = time.monotonic()
        self.written = bytearray()
        self.newest = 0.0
        """When something was written last, seconds since the start."""
        self._rate, self._carried = rate, time.monotonic()
        self._on_its_way = bytearray()
        self._open = True
        words = [os.fspath(word) for word in command]
        variables = ENVIRONMENT | _TERMINAL | dict(environment or {})
        for name in _NOT_PASSED_ON:
            variables.pop(name, None)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(OSError):
                time.sleep(0.05)  # until the size is set
                os.execvpe(words[0], words, variables)
            os._exit(127)
        self.resize(columns, rows)
        self.began = time.monotonic() + 0.05

    def resize(self, columns: int, rows: int) -> None:
        """The window gets another size."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._fd, keys.encode())

    def read_for(self, seconds: float) -> int:
        """Read for a while; the number of bytes."""
        before, deadline = len(self.written), time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.read_some(left)
        return len(self.written) - before

    def read_until(self, pattern: bytes, patience: float = 30.0) -> float:
        """Read until this (a regular expression) was written; seconds since the start. Raises RuntimeError when it never
        is."""
        deadline = time.monotonic() + patience
        while not re.search(pattern, self.written):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{pattern!r} never came; the end of what did: {bytes(self.written[-300:])!r}")
            self.read_some()
        return time.monotonic() - self.began

    def read_some(self, patience: float = 0.2) -> None:
        """Read what there is, or comes first. Raises RuntimeError when the program has ended."""
        if self._on_its_way:
            patience = min(patience, _STEP)
        if self._open and select.select([self._fd], [], [], patience)[0]:
            try:
                self._on_its_way += os.read(self._fd, 1 << 16)
            except OSError:
                self._open = False
        elif not self._open:
            time.sleep(min(patience, _STEP))
        if not (self._open or self._on_its_way):
            raise RuntimeError(f"it has ended: {bytes(self.written[-300:])!r}")
        self._arrive()

    def _arrive(self) -> None:
        now = time.monotonic()
        n = int(min(self._rate * (now - self._carried), len(self._on_its_way)))
        if not n and self._on_its_way:
            return
        self._carried = now
        if not n:
            return
        data, before = bytes(self._on_its_way[:n]), len(self.written)
        del self._on_its_way[:n]
        self.written += data
        self.newest = now - self.began
        if self._open:
            for asked, answer in _ANSWERS.items():
                n_asked = self.written.count(asked, max(before - len(asked) + 1, 0))
                os.write(self._fd, answer * n_asked)

    def leave(self) -> tuple[float, float]:
        """Press q and read until it has ended: seconds until all it wrote has come, and its CPU seconds from the start."""
        pressed = time.monotonic()
        self.press("q")
        try:
            while True:
                self.read_some()
        except RuntimeError:
            passed = self.began + self.newest - pressed
        _, _, used = os.wait4(self.pid, 0)
        self.pid = 0
        return passed, used.ru_utime + used.ru_stime

    def cpu(self) -> dict[str, float]:
        """CPU seconds of its threads so far, by their names."""
        found: dict[str, float] = {}
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            name = (thread / "comm").read_text().strip()
            used = int((thread / "schedstat").read_text().split()[0]) / 1e9
            found[name] = found.get(name, 0.0) + used
        return found

    def hang_up(self) -> None:
        """The terminal is gone, as when a connection is lost."""
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        """End it."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._fd >= 0:
            self.hang_up()


@contextlib.contextmanager
def on_terminal(
    command: Sequence[str | Path], columns: int, rows: int, environment: Mapping[str, str] | None = None,
    rate: float = math.inf,
) -> Iterator[Terminal]:  # fmt: skip
    """A Terminal that is closed in the end."""
    terminal = Terminal(command, columns, rows, environment, rate)
    try:
        yield terminal
    finally:
        terminal.close()
