"""Output that is printed when all of it is there: in memory while it is short, else in a file that nobody else sees.

How far a command is, for who waits at a terminal.
"""

import codecs
import contextlib
import sys
import tempfile
import time
from typing import IO

from gssr.commands import OK, put

_IN_MEMORY = 1 << 24
_AT_ONCE = 1 << 20


class Spool(contextlib.AbstractContextManager["Spool"]):
    """Takes text, and prints it in the end."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="gssr-")  # noqa: SIM115, __exit__ does

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, text: str) -> None:
        """Keep it. Raises OSError."""
        self._file.write(text.encode("utf-8", "surrogatepass"))

    def print(self) -> int:
        """The exit code to return, as gssr.commands.put."""
        self._file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        while data := self._file.read(_AT_ONCE):
            code = put(decoder.decode(data))
            if code != OK:
                return code
        return OK


_AFTER = 1.0  # s
_WIDTH = 40  # cells


class Bar:
    """A bar on a terminal's stderr, when what is ``doing`` takes longer than a second."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._begun = time.monotonic()
        self._shown = ""

    def show(self, share: float) -> None:
        """Draw the share done, 0-1."""
        if time.monotonic() - self._begun < _AFTER or sys.stderr is None or not sys.stderr.isatty():
            return
        done = round(share * _WIDTH)
        text = f"{self._doing} {'#' * done}{'.' * (_WIDTH - done)} {share:4.0%}"
        if text != self._shown:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = text

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
