"""Packing rollups and sketches into the blobs that gssr.store.layout describes, and back, in plain Python."""

import sqlite3
import sys
from array import array
from collections import Counter
from collections.abc import Sequence

from gssr.store.layout import HEAD
from gssr.store.rollup import Histogram, Vector


class MalformedError(sqlite3.DatabaseError):
    """A blob is not what it should be: to whoever reads the file it is as damaged as one that SQLite can't read."""


def _little_endian(values: array) -> bytes:  # type: ignore[type-arg]
    if sys.byteorder != "little":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _from_little_endian(typecode: str, data: bytes) -> array:  # type: ignore[type-arg]
    values: array = array(typecode)  # type: ignore[type-arg]
    values.frombytes(data)
    if sys.byteorder != "little":
        values.byteswap()
    return values


def pack_vector(vector: Sequence[float]) -> bytes:
    """A rollup's vector as its blob."""
    return _little_endian(array("d", vector))


def unpack_vector(data: bytes) -> Vector:
    """A rollup's blob as its vector. Raises MalformedError."""
    if not isinstance(data, bytes) or len(data) % 8 or len(data) < 8 * len(HEAD):
        raise MalformedError("a rollup is malformed")
    return list(_from_little_endian("d", data))


def pack_sketch(histograms: Sequence[Histogram]) -> bytes:
    """Histograms, in the order of Layout.sketched, as a sketch's blob."""
    keys = array("H")
    counts = array("I")
    for histogram in histograms:
        for key in sorted(histogram):
            keys.append(key)
            counts.append(histogram[key])
    head = array("H", [len(histograms), *(len(histogram) for histogram in histograms)])
    return _little_endian(head) + _little_endian(keys) + _little_endian(counts)


def unpack_sketch(data: bytes) -> list[Histogram]:
    """A sketch's blob as its histograms. Raises MalformedError."""
    n_metrics = int.from_bytes(data[:2], "little") if isinstance(data, bytes) else 0
    start = 2 + 2 * n_metrics
    if not isinstance(data, bytes) or len(data) < start:
        raise MalformedError("a sketch is malformed")
    sizes = _from_little_endian("H", data[2:start])
    total = sum(sizes)
    if len(data) != start + 6 * total:
        raise MalformedError("a sketch is malformed")
    keys = _from_little_endian("H", data[start : start + 2 * total])
    counts = _from_little_endian("I", data[start + 2 * total :])
    histograms, at = [], 0
    for size in sizes:
        histograms.append(Counter(dict(zip(keys[at : at + size], counts[at : at + size], strict=True))))
        at += size
    return histograms
