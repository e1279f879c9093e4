"""Output that is printed when all of it is there: in memory while it is short, else in a file that nobody else sees."""

import codecs
import contextlib
import tempfile
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
        """Keep a text for ``print``. Raises OSError when the disk is full."""
        self._file.write(text.encode("utf-8", "surrogatepass"))

    def print(self) -> int:
        """Print what was kept on stdout; return the exit code as gssr.commands.put does."""
        self._file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        while data := self._file.read(_AT_ONCE):
            code = put(decoder.decode(data))
            if code != OK:
                return code
        return OK
