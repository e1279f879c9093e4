"""How often each length occurs under each name, and the tables that follow: count, total, mean, median and so on.

Tables of several files are made one file at a time: what is kept of a file is how often which length (in whole ns, or
bytes) occurs under which name. These counts add up, and everything in a table follows from them exactly, medians too. Their
number is bounded by the different lengths, not by the files: a hundred ranks that do the same take little more than one. Of
files that have more than a million different ones together, those that are nearly the same become one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.model.traces.segments import in_parts
from gssr.traces.timeline import Kind, Track

Key = tuple[str | Track | None, ...]
"""What a row of a table is of: a name, or a name with its category, or a GPU's."""
KINDS: Mapping[str, tuple[Kind, ...]] = {
    "kernels": (Kind.KERNEL, Kind.GRAPH), "copies": (Kind.MEMCPY, Kind.MEMSET), "copy_sizes": (Kind.MEMCPY, Kind.MEMSET),
    "ranges": (Kind.RANGE,), "operators": (Kind.CPU_OP,), "api": (Kind.RUNTIME, Kind.DRIVER), "os": (Kind.OS,),
}  # fmt: skip
"""Which intervals each table of lengths counts."""

_RUNNING = re.compile(r", (?:op_id|seq) = \d+")


def without_running_numbers(name: str) -> str:
    """Remove from a range's name the running number (``, seq = 12``) that PyTorch gives each range of NVTX, so that ranges
    of one operator have one name. Other names are returned as they are."""
    return _RUNNING.sub("", name) if " = " in name else name


@dataclass(frozen=True, slots=True)
class Lengths:
    """Counts of lengths: ``count`` [n] intervals under ``keys[key]`` have the ``length`` [n], ascending by key and length.
    ``sums``: what else adds up by key [n_keys], such as ``gpu_ns`` and ``bytes``; ``rest`` [n_keys]: what rounding has taken
    from the total length of a key."""

    keys: tuple[Key, ...]
    key: NDArray[np.int32]
    length: Ints
    count: Ints
    sums: Mapping[str, Ints] = field(default_factory=dict)
    rest: Ints | int = 0


@dataclass(frozen=True, slots=True)
class LengthStatistics:
    """One row for each of ``keys``, columns [n_keys], the greatest total first. ``std``: over n - 1, 0 of one; ``share``: of
    the sum of all totals."""

    keys: tuple[Key, ...]
    count: Ints
    total: Ints
    mean: Floats
    median: Floats
    min: Ints
    max: Ints
    std: Floats
    share: Floats
    sums: Mapping[str, Ints]


_NONE, _NOTHING = np.empty(0, np.int64), np.empty(0)
_Counts = tuple[NDArray[np.int32], Ints, Ints]
"""The keys, lengths and counts of Lengths."""
_NO_COUNTS: _Counts = (np.empty(0, np.int32), _NONE, _NONE)
NO_LENGTHS = Lengths((), *_NO_COUNTS)
NO_STATISTICS = LengthStatistics((), _NONE, _NONE, _NOTHING, _NOTHING, _NONE, _NONE, _NOTHING, _NOTHING, {})


def lengths_of(
    code: NDArray[np.signedinteger],
    length: Ints,
    keys: Callable[[Sequence[int]], Iterable[Key]],
    sums: Mapping[str, Ints] | None = None,
) -> Lengths:
    """Count, for each key (such as a kernel's name), how many rows have which length.

    Args:
        code: a number [n] that stands for each row's key.
        length: the length of each row [n], ns or bytes.
        keys: turns the different codes, ascending, into their keys; codes that turn into the same key become one.
        sums: by name, values [n] that are added up by key; None: nothing.
    """
    return _keyed(code, length, None, keys, sums or {})


def lengths_of_rows(
    rows: Ints,
    code: Callable[[Ints], NDArray[np.signedinteger]],
    length: Ints,
    keys: Callable[[Sequence[int]], Iterable[Key]],
) -> Lengths:
    """Count lengths as ``lengths_of`` does, with less memory for many rows: it copies none of their columns.

    Args:
        rows: places [n] in ``length``.
        code: returns the numbers, 0 or more, that stand for the keys of some of the rows.
        length: the length of each interval, ns.
        keys: turns the different codes, ascending, into their keys; codes that turn into the same key become one.
    """
    n = len(rows)
    least = min((int(length[rows[part]].min()) for part in in_parts(n)), default=0)
    spread = max((int(length[rows[part]].max()) for part in in_parts(n)), default=0) - least + 1
    most = max((int(code(rows[part]).max()) for part in in_parts(n)), default=0) + 1
    if spread * most >= 1 << 62:
        return lengths_of(code(rows), length[rows], keys)
    pair = np.empty(n, np.int64)
    for part in in_parts(n):
        np.multiply(code(rows[part]), spread, out=pair[part], dtype=np.int64)
        pair[part] += length[rows[part]]
        pair[part] -= least
    pair, count = _sorted_counts(pair)
    return _keyed(pair // spread, pair % spread + least, count, keys, {})


def _sorted_counts(pair: Ints) -> tuple[Ints, Ints]:
    """Sort numbers [n] in their own place. Returns the different ones, ascending, and how often each is there."""
    pair.sort()  # many times as quick as its order
    first = np.flatnonzero(np.append(np.ones(min(len(pair), 1), np.bool_), pair[1:] != pair[:-1]))
    return pair[first], np.diff(np.append(first, len(pair)))


def _keyed(
    code: NDArray[np.signedinteger], length: Ints, count: Ints | None, keys: Callable[[Sequence[int]], Iterable[Key]],
    sums: Mapping[str, Ints],
) -> Lengths:  # fmt: skip
    """Count lengths as ``lengths_of`` does. ``count``: how often each pair of code and length counts; None: once."""
    codes, key = _dense(code)
    named = tuple(keys(codes.tolist()))
    at = {name: place for place, name in enumerate(dict.fromkeys(named))}
    if len(at) < len(named):
        key = np.array([at[name] for name in named], np.int32)[key]
    added = {name: _sum(key, values, len(at)) for name, values in sums.items()}
    return Lengths(tuple(at), *_counted([(key, length, count)]), added)


def together(parts: Sequence[Lengths]) -> Lengths:
    """Add up the counts of several parts, such as the files of a run's ranks: one Lengths with the keys of all parts. Above
    about a million different lengths they are rounded to nine bits. ``parts`` has at least one, and all have sums of the
    same names."""
    if len(parts) == 1:
        return _rounded(parts[0])
    at = {name: place for place, name in enumerate(dict.fromkeys(name for part in parts for name in part.keys))}
    places = [np.array([at[name] for name in part.keys], np.int32) for part in parts]
    sums = {}
    for name in parts[0].sums:
        values = np.concatenate([part.sums[name] for part in parts])
        sums[name] = _sum(np.concatenate(places), values, len(at))
    rests = [np.broadcast_to(part.rest, len(part.keys)) for part in parts]
    rest = _sum(np.concatenate(places), np.concatenate(rests), len(at))
    first, *others = parts  # of the first the keys keep their numbers
    columns = [(own[part.key], part.length, part.count) for own, part in zip(places[1:], others, strict=True)]
    counted = _inserted((first.key, first.length, first.count), _counted(columns))
    return _rounded(Lengths(tuple(at), *counted, sums, rest))


_MOST, _BITS = 1 << 20, 9


def _rounded(of: Lengths) -> Lengths:
    """Limit the counts to about a million: where there are more, lengths of a key that have the same first bits become one,
    their mean, but for the least and the greatest. A median is then off by at most 1/256, a standard deviation by less; all
    else is exact."""
    if len(of.key) <= _MOST:
        return of
    step = np.maximum(np.frexp(of.length)[1] - _BITS, 0)
    other, new = of.key[1:] != of.key[:-1], (of.length >> step)[1:] != (of.length >> step)[:-1]
    new |= other | (step[1:] != step[:-1]) | np.append(other[1:], True) | np.append(True, other[:-1])
    first = np.flatnonzero(np.append(True, new))
    key, count, total = of.key[first], np.add.reduceat(of.count, first), np.add.reduceat(of.count * of.length, first)
    length = total // count
    return replace(
        of, key=key, length=length, count=count, rest=of.rest + _sum(key, total - length * count, len(of.keys))
    )


def statistics(of: Lengths) -> LengthStatistics:
    """Compute count, total, mean, median, extremes and standard deviation of each key's lengths from their counts. Returns
    one row per key, the greatest total first."""
    n = len(of.keys)
    if not n:
        return replace(NO_STATISTICS, sums=of.sums)
    first = np.searchsorted(of.key, np.arange(n))
    last = np.append(first[1:], len(of.key)) - 1
    count = np.add.reduceat(of.count, first)
    total = np.asarray(np.add.reduceat(of.count * of.length, first) + of.rest, np.int64)
    mean = total / count
    off = np.add.reduceat(of.count * (of.length - mean[of.key]) ** 2, first)
    reached = np.cumsum(of.count)
    before = reached[first] - of.count[first]
    low, high = (
        of.length[np.searchsorted(reached, before + place, "right")] for place in ((count - 1) // 2, count // 2)
    )
    std = np.sqrt(off / np.maximum(count - 1, 1))
    least, greatest = of.length[first], of.length[last]
    return _in_order(
        LengthStatistics(of.keys, count, total, mean, (low + high) / 2, least, greatest, std, mean, of.sums)
    )


_ROWS = ("count", "total", "mean", "median", "min", "max", "std")


def one_table(a: LengthStatistics, b: LengthStatistics) -> LengthStatistics:
    """Join two tables that have no key in common, and no sums, into one: the greatest total first, with shares of the sum of
    all totals."""
    rows: dict[str, Any] = {name: np.append(getattr(a, name), getattr(b, name)) for name in _ROWS}
    return _in_order(replace(a, keys=a.keys + b.keys, **rows))


def _in_order(of: LengthStatistics) -> LengthStatistics:
    """Sort a table by total, the greatest first, and compute the shares."""
    order = np.argsort(-of.total, kind="stable")
    rows: dict[str, Any] = {name: getattr(of, name)[order] for name in _ROWS}
    rows["share"] = rows["total"] / max(int(of.total.sum()), 1)
    sums = {name: values[order] for name, values in of.sums.items()}
    return replace(of, keys=tuple(of.keys[at] for at in order), sums=sums, **rows)


def _dense(code: NDArray[np.signedinteger]) -> tuple[Ints, NDArray[np.int32]]:
    """Number the different codes from 0 on. Returns these codes, ascending, and the number of each row's code."""
    if not len(code):
        return code.astype(np.int64), code.astype(np.int32)
    low, high = int(code.min()), int(code.max())
    if high - low > 4 * len(code) + 1024:
        codes, key = np.unique(code, return_inverse=True)
        return codes.astype(np.int64), key.astype(np.int32)
    there = np.zeros(high - low + 1, np.bool_)
    for part in in_parts(len(code)):
        there[code[part] - low] = True
    place = (np.cumsum(there) - 1).astype(np.int32)
    return np.flatnonzero(there) + low, place[code - low]


def _sum(key: NDArray[np.signedinteger], values: Ints, n: int) -> Ints:
    """Add up the values of each key; exact below 2^53."""
    return np.bincount(key, values, n).astype(np.int64)


def _counted(parts: Sequence[tuple[NDArray[np.signedinteger], Ints, Ints | None]]) -> _Counts:
    """Count the different pairs of key and length in parts, each with how often a pair of it counts (None: once, in all
    parts)."""
    some = [part for part in parts if len(part[0])]
    if not some:
        return _NO_COUNTS
    n, counts = sum(len(key) for key, *_ in some), [count for *_, count in some if count is not None]
    low, spread, most = _extremes(some)
    if spread * most >= _LARGEST_PAIR:
        key, length = (np.concatenate([part[column] for part in some]) for column in (0, 1))
        order = np.lexsort((length, key))
        key, length = key[order].astype(np.int32), length[order]
        first = np.flatnonzero(np.append(True, (key[1:] != key[:-1]) | (length[1:] != length[:-1])))
        count = np.add.reduceat(np.concatenate(counts)[order], first) if counts else np.diff(np.append(first, n))
        return key[first], length[first], count
    pair, begin = np.empty(n, np.int64), 0
    for key, length, _ in some:
        for rows in in_parts(len(key)):
            np.multiply(key[rows], spread, out=pair[begin:][rows], dtype=np.int64)
            pair[begin:][rows] += length[rows]
            pair[begin:][rows] -= low
        begin += len(key)
    if spread * most <= n:
        own = np.bincount(pair, np.concatenate(counts) if counts else None, spread * most).astype(np.int64)
        pair = np.flatnonzero(own)
        count = own[pair]
    elif not counts:
        pair, count = _sorted_counts(pair)
    else:
        order = np.argsort(pair, kind="stable")
        pair = pair[order]
        first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
        pair, count = pair[first], np.add.reduceat(np.concatenate(counts)[order], first)
    return (pair // spread).astype(np.int32), pair % spread + low, count


def _inserted(a: _Counts, b: _Counts) -> _Counts:
    """Add the counts ``b``, of which there are better fewer, to the counts ``a``. It needs little more memory than what it
    returns."""
    if not len(a[0]) or not len(b[0]):
        return a if len(a[0]) else b
    low, spread, most = _extremes([a, b])
    if spread * most >= _LARGEST_PAIR:
        return _counted([a, b])
    pair, new = (key * np.int64(spread) + (length - low) for key, length, _ in (a, b))
    at = np.searchsorted(pair, new)
    known = pair[np.minimum(at, len(pair) - 1)] == new
    del pair
    count = a[2].copy()
    count[at[known]] += b[2][known]
    at, key, length, more = (column[~known] for column in (at, *b))
    return np.insert(a[0], at, key), np.insert(a[1], at, length), np.insert(count, at, more)


_LARGEST_PAIR = 1 << 62
"""Numbers up to here, of a key times the spread of lengths, and a length, fit into 64 bits with ease."""


def _extremes(parts: Sequence[tuple[NDArray[np.signedinteger], Ints, Ints | None]]) -> tuple[int, int, int]:
    """Return the least length in some columns of keys and lengths, none of them empty, how many different lengths there may
    be from it to the greatest, and how many keys."""
    low, high = min(int(part[1].min()) for part in parts), max(int(part[1].max()) for part in parts)
    return low, high - low + 1, max(int(part[0].max()) for part in parts) + 1
