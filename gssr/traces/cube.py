"""Profiles of Score-P and others in CUBE4 (.cubex): a tar, not packed, of one XML about metrics, call tree and places, and
an index and the values of each metric.

All of it is decoded here: the two binary parts are a head and an array each.
"""

import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.traces.cube_anchor import CubeMetric, read_anchor
from gssr.traces.timeline import Measured, Timeline, TraceError

_BLOCK = 512
_MOST_MEMBERS = 100_000
_MOST_VALUES = 1 << 27
"""Of one metric: a GiB."""
_NEVER_TOO_MANY, _LEAST_VALUE = 1 << 23, 2
"""Values of one metric, and bytes of the file for each of more: unpacked a value takes 8, and to look at them 40."""
_MOST_XML, _NEVER_TOO_LONG, _MOST_XML_RATIO = 1 << 30, 32 << 20, 2
"""Bytes of the XML; of a packed one so many, or twice those of the file: it is a small part of it."""
_MOST_UNPACKED, _MOST_RATIO = 64 << 20, 64
"""Bytes that all values together may unpack to, or sizes of the file: values that are mostly 0 pack to a twentieth."""
_TYPES: dict[str, str] = {
    "DOUBLE": "f8", "FLOAT": "f8", "MINDOUBLE": "f8", "MAXDOUBLE": "f8", "CHAR": "u1", "INT8": "i1", "UINT8": "u1",
    "INT16": "i2", "UINT16": "u2", "SHORT INT": "i2", "SIGNED SHORT INT": "i2", "UNSIGNED SHORT INT": "u2", "INT": "i4",
    "INT32": "i4", "UINT32": "u4", "SIGNED INT": "i4", "UNSIGNED INT": "u4", "INT64": "i8", "UINT64": "u8",
    "INTEGER": "i8", "SIGNED INTEGER": "i8", "UNSIGNED INTEGER": "u8",
}  # fmt: skip
"""Types of one number each; those of several (rates, histograms, statistics of TAU) are left out."""
_COMBINE: dict[str, Literal["min", "max"]] = {"MINDOUBLE": "min", "MAXDOUBLE": "max"}
_TOO_MUCH = 2.0**63
"""Never measured, of whatever it is: seconds longer than there has been time."""
_NO_COUNT = 0xFFFF_FFFF_FFFF_FBFF
"""A greater unsigned number is one below 0 that was kept as unsigned: it is not known."""
_INDEX, _DATA, _PACKED = b"CUBEX.INDEX", b"CUBEX.DATA", b"ZCUBEX.DATA"


def read_cube(path: str) -> Timeline:
    """Read a CUBE4 profile as a timeline without intervals, whose tracks are the threads and GPU streams that were
    measured. Values are read from the file when a metric's ``rows()`` is called. Raises TraceError if the file is
    damaged, holds no values, or is too large for memory; ``rows()`` raises it too."""
    try:
        with open(path, "rb") as stream:
            if stream.read(2) == b"\x1f\x8b":
                raise TraceError(f"{path}: is packed with gzip: unpack it first")
            members = _members(stream)
            if "anchor.xml" not in members:
                raise TraceError(f"{path}: holds no anchor.xml: it is cut, or still being written")
            size = os.fstat(stream.fileno()).st_size
            timeline, profile, declared = read_anchor(path, _text(path, stream, members["anchor.xml"], size))
            most = min(_MOST_VALUES, max(_NEVER_TOO_MANY, size // _LEAST_VALUE))
            if len(profile.parent) * len(timeline.tracks) > most:
                values = f"{len(profile.parent):,} call paths on {len(timeline.tracks):,} places"
                raise TraceError(
                    f"{path}: {values} are more than fit into memory: cube_remap2 or cube_cut make it less"
                )
            metrics, notes = _metrics(path, stream, members, declared, profile.parent, len(timeline.tracks))
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    if not metrics:
        raise TraceError(f"{path}: holds no values of any metric")
    sources = tuple(source._replace(notes=(*source.notes, *notes)) for source in timeline.sources)
    return replace(timeline, sources=sources, profile=replace(profile, metrics=tuple(metrics)))


def _members(stream: BinaryIO) -> dict[str, range]:
    """Find the bytes of the files in the tar archive, by name, as far as it is complete. Checksums are not verified:
    CubeWriter 4.8 writes wrong ones."""
    end, at = os.fstat(stream.fileno()).st_size, 0
    found: dict[str, range] = {}
    while len(found) < _MOST_MEMBERS and at + _BLOCK <= end:
        stream.seek(at)
        head = stream.read(_BLOCK)
        size = _size(head[124:136])
        if not head.strip(b"\0") or size is None:
            break
        at += _BLOCK
        if at + size <= end:
            found[head[:100].partition(b"\0")[0].decode("utf-8", "replace").removeprefix("./")] = range(at, at + size)
        at += -(-size // _BLOCK) * _BLOCK
    return found


def _size(field: bytes) -> int | None:
    """Parse the size field of a tar header, octal or (above 8 GB) binary. None if it is neither."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[4:], "big")
    digits = field.strip(b" \0")
    return int(digits, 8) if re.fullmatch(rb"[0-7]+", digits) else None


def _text(path: str, stream: BinaryIO, member: range, size: int) -> bytes:
    """Read the XML ``anchor.xml``, unpacked. ``size`` is the size of the whole file, which limits what it may unpack
    to. Raises TraceError if it is damaged or too long."""
    stream.seek(member.start)
    text = stream.read(min(len(member), _MOST_XML + 1))
    if text[:2] == b"\x1f\x8b":
        unpack = zlib.decompressobj(wbits=31)
        most = min(_MOST_XML, max(_NEVER_TOO_LONG, _MOST_XML_RATIO * size))
        try:
            text = unpack.decompress(text, most)
        except zlib.error:
            raise TraceError(f"{path}: its anchor.xml is packed, and damaged") from None
        if unpack.unconsumed_tail:
            raise TraceError(f"{path}: its anchor.xml unpacks to more than {most >> 20} MB")
    elif len(text) > _MOST_XML:
        raise TraceError(f"{path}: its anchor.xml has more than {_MOST_XML >> 20} MB")
    return text


def _metrics(
    path: str, stream: BinaryIO, members: dict[str, range], declared: Sequence[CubeMetric], parent: Ints, n_tracks: int
) -> tuple[list[Measured], list[str]]:
    """Prepare those of the ``declared`` metrics that have readable values, for each node of the call tree (``parent``: each
    node's caller) and each of ``n_tracks`` tracks.

    Returns them, and sentences on metrics whose values cannot be read. A metric without any file was not measured and
    is passed over in silence: every profile has some.
    """
    found: list[Measured] = []
    notes: list[str] = []
    unread: list[str] = []
    orders: dict[bool, Ints] = {}
    room = max(_MOST_UNPACKED, _MOST_RATIO * os.fstat(stream.fileno()).st_size)
    for metric in declared:
        index, data = members.get(f"{metric.number}.index"), members.get(f"{metric.number}.data")
        if index is None or data is None:
            if index is not None or data is not None:
                notes.append(f"{metric.name} left out: its values are cut")
            continue
        type_ = _TYPES.get(metric.type)
        if type_ is None or metric.kind not in ("INCLUSIVE", "EXCLUSIVE", "SIMPLE"):
            unread.append(metric.name)
            continue
        inclusive = metric.kind == "INCLUSIVE"
        if inclusive not in orders:
            orders[inclusive] = _in_blocks(parent) if inclusive else np.arange(len(parent))
        try:
            order, places = _index(stream, index, len(parent))
        except ValueError:
            notes.append(f"{metric.name} left out: its index is damaged")
            continue
        nodes, dtype = orders[inclusive][places], np.dtype(order + type_)
        rows: Callable[[], tuple[Ints, Floats]]
        rows = partial(_rows, path, metric, data, nodes, (len(nodes), n_tracks), dtype)
        stream.seek(data.start)
        try:
            is_packed = stream.read(len(_PACKED)) == _PACKED
            if is_packed:
                room -= len(nodes) * n_tracks * dtype.itemsize
                if room < 0:
                    notes.append(f"{metric.name} left out: the values unpack to {_MOST_RATIO} times the file's size")
                    continue
                rows()  # what is packed may be anything
            elif len(data) < len(_DATA) + len(nodes) * n_tracks * dtype.itemsize:
                raise TraceError
            if dtype.kind == "f" and metric.type not in _COMBINE and not _sound(rows()[1]).all():
                notes.append(
                    f"{metric.name} left out: some of its values are no numbers, or beyond all that is measured"
                )
                continue
        except TraceError:
            notes.append(
                f"{metric.name} left out: its values are damaged, or fewer than there are call paths and places"
            )
            continue
        combine: Literal["sum", "min", "max"] = _COMBINE.get(metric.type, "sum")
        found.append(Measured(metric.name, metric.title, metric.unit, inclusive, combine, rows))
    if unread:
        notes.append(f"left out, their values are no single numbers: {', '.join(unread)}")
    return found, notes


def _in_blocks(parent: Ints) -> Ints:
    """Return the nodes of a call tree [n] in the order in which indexes of inclusive metrics count them: the callees of
    a node come together, before the callees of any of them. ``parent`` is each node's caller, -1 of a root."""
    n = len(parent)
    below: list[list[int]] = [[] for _ in range(n)]
    roots: list[int] = []
    for node, above in enumerate(parent.tolist()):
        (below[above] if above >= 0 else roots).append(node)
    found: list[int] = []
    for root in roots:
        found.append(root)
        stack = [root]
        while stack:
            callees = below[stack.pop()]
            found += callees
            stack += reversed(callees)
    return np.array(found, np.int64)


def _index(stream: BinaryIO, member: range, n_nodes: int) -> tuple[Literal["<", ">"], Ints]:
    """Read a metric's index. Returns the byte order of its values, and the positions of the nodes that have values,
    int64[k]. Raises ValueError, without a text, if it is damaged."""
    stream.seek(member.start)
    raw = stream.read(min(len(member), 64 + 4 * n_nodes))
    if not raw.startswith(_INDEX) or len(raw) < 22:
        raise ValueError
    order: Literal["<", ">"] = "<" if raw[11:15] == b"\1\0\0\0" else ">"
    n = int.from_bytes(raw[18:22], "little" if order == "<" else "big")
    if n > n_nodes or len(raw) < 22 + 4 * n:
        raise ValueError
    places = np.frombuffer(raw, f"{order}i4", n, 22).astype(np.int64)
    if n and (places.min() < 0 or places.max() >= n_nodes or len(np.unique(places)) < n):
        raise ValueError
    return order, places


def _rows(
    path: str, metric: CubeMetric, member: range, nodes: Ints, shape: tuple[int, int], dtype: "np.dtype[np.generic]"
) -> tuple[Ints, Floats]:
    """Read the values of a metric.

    Args:
        nodes: the nodes that have values, int64[k].
        shape: (k, the number of tracks).
        dtype: of the values in the file.

    Returns ``nodes`` and the values, float64 of this shape; NaN where a minimum or maximum was never set. Raises
    TraceError.
    """
    n = shape[0] * shape[1]
    try:
        with open(path, "rb") as stream:
            stream.seek(member.start)
            raw = stream.read(len(member))
        if raw.startswith(_PACKED):
            values = np.frombuffer(_unpacked(raw, n * dtype.itemsize, dtype.byteorder), dtype, n)
        else:
            values = np.frombuffer(raw, dtype, n, len(_DATA))
        if not raw.startswith((_DATA, _PACKED)):
            raise ValueError
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, zlib.error):
        raise TraceError(f"{path}: the values of {metric.name} are damaged, or have changed since") from None
    found = _as_floats(values).reshape(shape)
    if metric.type in _COMBINE:
        found[~_sound(found)] = np.nan  # the least or the greatest of nothing
    return nodes, found


def _sound(values: Floats) -> Flags:
    return np.asarray(np.abs(values) < _TOO_MUCH, np.bool_)


def _as_floats(values: NDArray[np.generic]) -> Floats:
    """Convert values to float64; NaN for what is unknown in a column of unsigned 64-bit numbers."""
    found = values.astype(np.float64)
    if values.dtype.kind == "u" and values.dtype.itemsize == 8:
        found[values.astype(np.uint64) > _NO_COUNT] = np.nan
    return found


def _unpacked(raw: bytes, size: int, byte_order: str) -> bytes:
    """Unpack ``size`` bytes of values: a header with place and size of each row, then the rows, each packed with zlib.
    Raises ValueError or zlib.error if it is damaged or of another size."""
    kind = ">i8" if byte_order == ">" else "<i8"
    begin = len(_PACKED)
    n = int(np.frombuffer(raw, kind, 1, begin)[0])
    if not 0 <= n <= len(raw) // 24:
        raise ValueError
    sizes = np.frombuffer(raw, kind, 3 * n, begin + 8)[2::3].tolist()
    at, left, parts = begin + 8 + 24 * n, size, []
    for one in sizes:
        if one < 0:
            raise ValueError
        unpack = zlib.decompressobj()
        part = unpack.decompress(raw[at : at + one], left + 1) if one else b""
        at, left = at + one, left - len(part)
        if left < 0:
            raise ValueError
        parts.append(part)
    if left:
        raise ValueError
    return b"".join(parts)
