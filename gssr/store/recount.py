"""Samples of stretches that rollups or sketches don't count as they should: read anew, whatever the rollups say of where
they are."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gssr.store.census import starts_of
from gssr.store.moments import Floats, Ints
from gssr.store.values import LATEST

if TYPE_CHECKING:
    from gssr.store.cover import Part

LATE_SECONDS = 600.0
"""Samples may come so much later than others that were taken after them."""
_LOOK_AHEAD = 16
"""Rows among which one with a time is looked for."""
_FEW_GPUS, _STEP = 64, 60.0
"""Of more GPUs than these no more than so many seconds are read at once."""

Rows = tuple[Ints, Floats, dict[str, Floats]]
"""Positions, unix s, values of stored metrics."""


def rows_of(part: "Part", names: Sequence[str], codes: Ints, seconds: int, start: float, end: float) -> Iterator[Rows]:
    """The samples in [start, end), unix s, of stretches of ``seconds`` (their numbers: gssr.store.census.codes_of), in
    pieces that cut no bucket of 10 s. Where they are thinned they can't be counted any more: the file is damaged."""
    begins = starts_of(codes)
    for begin in np.unique(begins).tolist():
        gpus = codes[begins == begin] >> 40
        if begin < part.thinned:
            part.shard.damaged("rollups of samples that are thinned")
            continue
        keys = part.keys(gpus) or []
        step = seconds if len(keys) <= _FEW_GPUS else min(_STEP, seconds)
        for lower in np.arange(begin, begin + seconds, step).tolist():
            low, high = max(lower, start), min(lower + step, end)
            if low >= high:
                continue
            pieces = [part.shard.samples(names, keys, *ends, low, high) for ends in ranges_of(part, low, high)]
            if pieces:
                key, time = (np.concatenate([piece[k] for piece in pieces]) for k in (0, 1))
                values = {name: np.concatenate([piece[2][name] for piece in pieces]) for name in names}
                yield part.positions(np.asarray(key, np.int64)), time, values


def hold_all(part: "Part", ranges: Sequence[tuple[int, int]], begin: float, end: float) -> bool:
    """Whether the samples of [begin, end), unix s, lie in these ranges of rowids, as far as the times beside them tell."""
    for first, last in _ranks(part):
        own = [(low, high) for low, high in ranges if first <= low and high <= last]
        low, high = min((low for low, _ in own), default=last + 1), max((high for _, high in own), default=first - 1)
        before, after = _time_at(part, low - 1, first, last), _time_at(part, high + 1, first, last)
        if own and ((before is not None and before >= begin) or (after is not None and after < end)):
            return False
        if not own and not ((before is not None and before < begin) or (after is not None and after >= end)):
            return False
    return True


def ranges_of(part: "Part", begin: float, end: float) -> Iterator[tuple[int, int]]:
    """Rowids between which all samples of [begin, end), unix s, lie, rank by rank; told by the samples' own times, which
    ascend but for those that came late."""
    for low, high in _ranks(part):
        first = _first_from(part, low, high, begin - LATE_SECONDS, at_least=False)
        last = _first_from(part, first, high, end + LATE_SECONDS, at_least=True)
        if first <= high:
            yield first, min(last, high)


def _ranks(part: "Part") -> list[tuple[int, int]]:
    """The first and last rowid of each rank's samples."""
    rows = ((row.first_rowid, row.last_rowid) for row in part.shard.merged)
    ranks = [(low, high) for low, high in rows if low and high and part.first <= low and high <= part.last]
    return ranks or [(part.first, part.last)]


def _time_at(part: "Part", rowid: int, first: int, last: int) -> float | None:
    """The time of a rank's sample; None where it has none of this rowid, or where that is no time."""
    found = part.shard.all("SELECT time FROM samples WHERE rowid = ?", (rowid,)) if first <= rowid <= last else []
    return float(found[0][0]) if found and isinstance(found[0][0], int | float) else None


def _first_from(part: "Part", low: int, high: int, time: float, at_least: bool) -> int:
    """The first rowid in [low, high] from which on times are ``time`` or later; high + 1 when there is none. Where several
    rows in turn have no time, it is no higher than that, or (``at_least``) no lower."""
    while low <= high:
        middle = (low + high) // 2
        query = "SELECT rowid, time FROM samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?"
        rows = part.shard.all(query, (middle, high, _LOOK_AHEAD))
        times = [(rowid, when) for rowid, when in rows if isinstance(when, int | float) and 0 <= when <= LATEST]
        if times and times[0][1] < time:
            low = max(middle, times[0][0]) + 1  # on a damaged page SQLite may find a lower one
        elif rows and not times and at_least:
            low = max(middle, rows[-1][0]) + 1
        else:
            high = middle - 1
    return low
