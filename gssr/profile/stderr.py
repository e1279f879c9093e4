"""What is said to the user while a job runs: single lines on stderr, which may be closed, broken or stuck."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

_PATIENCE = 1000  # ms, for a stderr whose reader is stuck
_LONGEST_LINE = 1 << 16
_MOST_HELD = 1000

_held: list[bytes] | None = None
_listener: Callable[[bytes], None] | None = None


def say(text: str | bytes) -> None:
    """Print ``gssr: text`` on stderr, or keep it between ``hold_back`` and ``release``. Never raises, never waits
    longer than 1 s."""
    line = _harmless(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
    if _held is not None:
        del _held[_MOST_HELD:]
        _held.append(line)
        if _listener is not None:
            _listener(line)
        return
    put(b"gssr: " + line + b"\n")


def _harmless(text: str) -> bytes:
    """Encode a line of text without control characters."""
    if not (text.isascii() and text.isprintable()):
        from gssr.render.cells import clean  # here, because it is seldom needed

        text = clean(text)
    return text.encode()


def put(data: bytes) -> None:
    """Write bytes to stderr; they are lost where it is closed, broken or stuck. Never raises, never waits longer than
    1 s."""
    if sys.__stderr__ is None:
        return  # closed when we were started: descriptor 2 may be something else by now
    try:
        stderr = select.poll()
        stderr.register(2, select.POLLOUT)
        if stderr.poll(_PATIENCE):
            os.write(2, data)
    except OSError:
        pass


def hold_back(listener: Callable[[bytes], None] | None = None) -> None:
    """Keep what is said from now on, because something else is drawn on the terminal; ``listener``, if given, gets
    each line at once."""
    global _held, _listener
    _held, _listener = _held or [], listener


def release() -> None:
    """Say what was kept, and from now on everything at once."""
    global _held, _listener
    held, _held, _listener = _held or [], None, None
    for line in held:
        say(line)


class Relay:
    """Hands the lines that arrive at the non-blocking descriptor ``fd`` (-1: none; it becomes -1 at its end) to ``tell``."""

    def __init__(self, fd: int, tell: Callable[[bytes], None] = say) -> None:
        self.fd = fd
        self._tell = tell
        self._rest = b""  # not yet a whole line

    def pump(self) -> bool:
        """Hand on the lines that have arrived; True when something was read, False when there is nothing for now or
        any more.

        At the end ``fd`` becomes -1. Never raises, never waits.
        """
        if self.fd < 0:
            return False
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data:
            self.fd = -1
        if not data or len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if line:
                self._tell(line)
        return bool(data)
