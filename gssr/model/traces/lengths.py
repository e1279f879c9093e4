"""How often each length occurs under each name, and the tables that follow: count, total, mean, median and so on.

Tables of several files are made one file at a time: what is kept of a file is how often which length (in whole ns, or
bytes) occurs under which name. These counts add up, and everything in a table follows from them exactly, medians too. Their
number is bounded by the different lengths, not by the files: a hundred ranks that do the same take little more than one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.traces.timeline import Track

Key = tuple[str | Track | None, ...]
"""What a row of a table is of: a name, or a name with its category, or a GPU's."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """``count`` [n] of the lengths ``length`` [n] under ``keys[key]`` [n], ascending by key and length. ``sums``: what else
    adds up by key [n_keys]: ``gpu_ns``, ``bytes``."""

    keys: tuple[Key, ...]
    key: Ints
    length: Ints
    count: Ints
    sums: Mapping[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statistics:
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


def lengths_of(
    code: Ints, length: Ints, keys: Callable[[Sequence[int]], Iterable[Key]], sums: Mapping[str, Ints] | None = None
) -> Lengths:
    """Counts of the ``length`` [n] of rows with a ``code`` [n]. ``keys`` turns codes into what they stand for; those that
    stand for the same become one. ``sums`` [n]: what is to be added up."""
    codes, key = _dense(code)
    named = tuple(keys(codes.tolist()))
    at = {name: place for place, name in enumerate(dict.fromkeys(named))}
    if len(at) < len(named):
        key = np.array([at[name] for name in named], np.int64)[key]
    added = {name: _sum(key, values, len(at)) for name, values in (sums or {}).items()}
    return Lengths(tuple(at), *_counted(key, length, np.ones(len(key), np.int64)), added)


def together(parts: Sequence[Lengths]) -> Lengths:
    """The counts of all of them."""
    at = {name: place for place, name in enumerate(dict.fromkeys(name for part in parts for name in part.keys))}
    places = [np.array([at[name] for name in part.keys], np.int64) for part in parts]
    key = np.concatenate([own[part.key] for own, part in zip(places, parts, strict=True)])
    length, count = (np.concatenate([getattr(part, name) for part in parts]) for name in ("length", "count"))
    sums = {}
    for name in parts[0].sums:
        values = np.concatenate([part.sums[name] for part in parts])
        sums[name] = _sum(np.concatenate(places), values, len(at))
    return Lengths(tuple(at), *_counted(key, length, count), sums)


def statistics(of: Lengths) -> Statistics:
    """The table that follows."""
    n = len(of.keys)
    if not n:
        none, nothing = np.empty(0, np.int64), np.empty(0)
        return Statistics((), none, none, nothing, nothing, none, none, nothing, nothing, of.sums)
    first = np.searchsorted(of.key, np.arange(n))
    last = np.append(first[1:], len(of.key)) - 1
    count = np.add.reduceat(of.count, first)
    total = np.add.reduceat(of.count * of.length, first)
    mean = total / count
    off = np.add.reduceat(of.count * (of.length - mean[of.key]) ** 2, first)
    reached = np.cumsum(of.count)
    before = reached[first] - of.count[first]
    low, high = (
        of.length[np.searchsorted(reached, before + place, "right")] for place in ((count - 1) // 2, count // 2)
    )
    order = np.argsort(-total, kind="stable")
    return Statistics(
        tuple(of.keys[at] for at in order),
        count[order],
        total[order],
        mean[order],
        ((low + high) / 2)[order],
        of.length[first][order],
        of.length[last][order],
        np.sqrt(off / np.maximum(count - 1, 1))[order],
        (total / max(int(total.sum()), 1))[order],
        {name: values[order] for name, values in of.sums.items()},
    )


def _dense(code: Ints) -> tuple[Ints, Ints]:
    """The different codes, and the place of each row's among them."""
    if not len(code):
        return code, code
    low = int(code.min())
    if int(code.max()) - low > 4 * len(code) + 1024:
        codes, key = np.unique(code, return_inverse=True)
        return codes, key.astype(np.int64)
    there = np.bincount(code - low) > 0
    place = np.cumsum(there) - 1
    return np.flatnonzero(there) + low, place[code - low]


def _sum(key: Ints, values: Ints, n: int) -> Ints:
    """What the values of each key add up to; exact below 2^53."""
    return np.bincount(key, values, n).astype(np.int64)


def _counted(key: Ints, length: Ints, count: Ints) -> tuple[Ints, Ints, Ints]:
    """Key, length and count of the different pairs, in order."""
    if not len(key):
        return key, length, count
    low = int(length.min())
    bits = (int(length.max()) - low).bit_length()
    single = bool(count.max() == 1)
    if int(key.max()).bit_length() + bits < 63:
        pair = (key << bits) | (length - low)
        if single:
            pair.sort()  # many times as quick as its order
        else:
            order = np.argsort(pair, kind="stable")
            pair, count = pair[order], count[order]
        new = np.append(True, pair[1:] != pair[:-1])
        first = np.flatnonzero(new)
        key, length = pair[first] >> bits, (pair[first] & ((1 << bits) - 1)) + low
    else:
        order = np.lexsort((length, key))
        key, length, count = key[order], length[order], count[order]
        first = np.flatnonzero(np.append(True, (key[1:] != key[:-1]) | (length[1:] != length[:-1])))
        key, length = key[first], length[first]
    return key, length, np.diff(np.append(first, len(count))) if single else np.add.reduceat(count, first)
