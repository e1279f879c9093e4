"""Protocol buffers field by field, and the intervals that are made of them.

google.protobuf decodes what stands within events. The lists that hold these are gone through here: decoded at once, a file
of two bytes an event would take fifty times its size.
"""

import zlib
from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.traces.categories import operation_of
from gssr.traces.interval_columns import IntervalColumns, IntervalNames
from gssr.traces.timeline import NO_LINK, Category, Intervals, Kind, TraceError

LONGEST_MESSAGE = 4 << 20
"""Bytes of a message that is decoded at once; what it holds takes up to 40 times as much memory. Events have hundreds."""
_LEAST_EVENT, _NEVER_TOO_MANY = 8, 1_000_000
"""Bytes of a file that an event takes at least, beyond so many events: those of XLA take 15, and some 8 packed."""
LAST_NS = 1 << 62
"""Times are below it: 146 years."""
_COPIES = (Kind.MEMCPY, Kind.MEMSET)


class UnsoundError(Exception):
    """A message is cut off, or is none."""


def number_at(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the number (varint) at ``at``, and the position behind it. Raises UnsoundError."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise UnsoundError


def fields(data: bytes | memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message in data[at:end] as (number, value, begin, stop). A field of type 2 (bytes, a text, a
    message) is data[begin:stop], and its value 0; of a number begin and stop are the position behind it. Raises
    UnsoundError."""
    while at < end:
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = number_at(data, at - 1, end)
        kind = key & 7
        if kind == 2:
            length, begin = number_at(data, at, end)
            at = begin + length
            if at > end:
                raise UnsoundError
            yield key >> 3, 0, begin, at
        elif kind == 0:
            value, at = number_at(data, at, end)
            yield key >> 3, value, at, at
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if at + size > end:
                raise UnsoundError
            at += size
            yield key >> 3, int.from_bytes(data[at - size : at], "little"), at, at
        else:
            raise UnsoundError


def signed(value: int) -> int:
    """Return a number of type int64 by its varint."""
    return value - (1 << 64) if value >> 63 else value


def text_of(data: bytes | memoryview) -> str:
    """Return a text; bytes that are not UTF-8 are replaced."""
    return str(data, "utf-8", "replace")


def unpacked(data: bytes, most: int) -> bytes:
    """Return what was packed with zlib, at most ``most`` bytes. Raises UnsoundError."""
    unpack = zlib.decompressobj()
    try:
        found = unpack.decompress(data, most)
    except zlib.error:
        raise UnsoundError from None
    if not unpack.eof:
        raise UnsoundError
    return found


class IntervalRows:
    """Gathers intervals one after another. ``n_left_out`` counts those without sound times."""

    def __init__(self, path: str, size: int) -> None:
        """``path``: what errors name; ``size``: bytes of the file, by which the number of events is bounded."""
        self._path, self._most = path, max(_NEVER_TOO_MANY, size // _LEAST_EVENT)
        self._start, self._length, self._link, self._size = (array("q") for _ in range(4))
        self._track, self._key = array("i"), array("i")
        self._keys: dict[tuple[str, Kind, int, Category | None, int], int] = {}
        self.n_events = self.n_left_out = 0

    def count(self, n: int = 1) -> None:
        """Count records of the file. Raises TraceError for more than a file of this size can honestly hold."""
        self.n_events += n
        if self.n_events > self._most:
            raise TraceError(f"{self._path}: lists more than {self._most:,} events, more than a trace of its size has")

    def add(
        self, start: int, end: int, track: int, name: str, kind: Kind, link: int = NO_LINK, size: int = -1, op: int = -1,
        operation: int = -1, category: Category | None = None,
    ) -> None:  # fmt: skip
        """Append an interval, with times in ns. ``link``: what calls and their work have in common, NO_LINK for none;
        ``size``: bytes, -1 if unknown; ``op``: number of the operation of XLA, -1 for none; ``operation``: index in
        OPERATIONS of a copy, -1: as the name says; ``category``: None: as kind and name say."""
        if not 0 <= start <= end < LAST_NS:
            self.n_left_out += 1
            return
        self._start.append(start)
        self._length.append(end - start)
        self._track.append(track)
        self._key.append(self.key(name, kind, operation, category, op))
        self._link.append(link)
        self._size.append(size)

    def key(
        self, name: str, kind: Kind, operation: int = -1, category: Category | None = None, op: int = -1
    ) -> int:  # fmt: skip
        """Return the number of what ``add`` is told of an interval's name and ``op``."""
        return self._keys.setdefault((name, kind, operation, category, op), len(self._keys))

    def add_columns(self, start: Ints, end: Ints, track: Ints, key: Ints, link: Ints, size: Ints) -> None:
        """Append intervals [n] with sound times; ``key``: as ``key`` returns them."""
        for into, column in (
            (self._start, start), (self._length, end - start), (self._track, track.astype(np.int32)),
            (self._key, key.astype(np.int32)), (self._link, link), (self._size, size),
        ):  # fmt: skip
            into.frombytes(column.tobytes())

    def finish(self) -> tuple[Intervals, tuple[str, ...], NDArray[np.int32]]:
        """Return the intervals in order, their names, and the ``op`` of each, int32[n]."""
        names, columns = IntervalNames(), IntervalColumns(len(self._start))
        for name, kind, operation, category, _ in self._keys:
            is_unnamed = kind in _COPIES and operation < 0
            names.add(name, kind, operation_of(name) if is_unnamed else operation if kind in _COPIES else -1, category)
        wide, narrow = (self._start, self._length, self._link, self._size), (self._track, self._key)
        start, length, link, size = (np.frombuffer(column, np.int64) for column in wide)
        track, numbers = (np.frombuffer(column, np.int32) for column in narrow)
        columns.add(start, length, track, numbers, link, size)
        intervals, key = columns.finish(*names.columns())
        ops = np.array([op for *_, op in self._keys], np.int32)
        return intervals, tuple(names.texts), ops[key]
