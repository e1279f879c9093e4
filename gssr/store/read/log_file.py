"""The log of what the workload prints: its end is read, again and again."""

import os

TAIL_BYTES = 32 << 10
"""This much of a log's end is read."""


class LogFile:
    """The log at ``path``, of which only what comes after its first ``start`` bytes counts."""

    def __init__(self, path: str, start: int = 0) -> None:
        self.path = path
        self._start = start
        self._size = -1
        self._tail: bytes | None = None

    def tail(self) -> bytes | None:
        """Return the last TAIL_BYTES, from the beginning of a line if possible, or None if there is no log. It is the
        same object while nothing was added."""
        try:
            with open(self.path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size != self._size:
                    begin = max(size - TAIL_BYTES, self._start)
                    stream.seek(begin)
                    self._tail = _from_a_line(stream.read(TAIL_BYTES), cut=begin > self._start)
                    self._size = size
        except OSError:
            self._size, self._tail = -1, None
        return self._tail


def _from_a_line(data: bytes, cut: bool) -> bytes:
    """Return the data after its first line end if it was ``cut`` out of a log, so that it begins with no part of a
    line, escape sequence or character; if there is no line end, or it was not cut, all of it."""
    if not cut:
        return data
    end = data.find(b"\n")
    if end < 0:
        end = data.find(b"\r")
    return data[end + 1 :]
