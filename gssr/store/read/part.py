"""A run's share of one file: which rows of ``samples`` are its own, and where those of a window lie."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats, Ints
from gssr.store.format.limits import LATEST, LEAST_BYTES
from gssr.store.format.schema import LEVELS
from gssr.store.pages.samples import Wanted
from gssr.store.read.recording_file import RecordingFile
from gssr.store.read.samples import Columns, in_threads, one_after_another

OPEN_SECONDS = 60
"""The writer closes the bucket of a silent GPU within this time: behind it, what is not in a bucket does not exist."""
LATE_SECONDS = 600.0
"""Samples may come so much later than others that were taken after them."""
_SEARCHES_KEPT = 16
"""Whoever counts stretches anew asks for the same ones several times."""
_LOOK_AHEAD = 16
"""Rows among which one with a time is looked for."""

Rows = tuple[Ints, Floats, dict[str, Floats]]
"""Positions, unix s, values of stored metrics."""


class Part(NamedTuple):
    """A run's share of one file."""

    shard: RecordingFile
    first: int
    last: int
    """Rowids of its samples."""
    position: dict[int, int]
    """GPU key in the file → position in the run."""
    whole: bool
    """Every GPU of the file belongs to this run, and counts."""
    unended: bool
    """It still runs, or was cut off, or its end found a full disk: the newest rows are not rolled up."""
    thinned: float = -math.inf
    """Rows from before this (unix s) may be gone, or means: what rollups count is all that is known."""
    ended: bool = False
    """Its run has ended: rollups count every row, or are damaged."""

    def keys(self, gpus: Ints | None) -> list[int] | None:
        """GPU keys of these positions; None when no row need be filtered out."""
        if gpus is None:
            return None if self.whole else list(self.position)
        chosen = set(gpus.tolist())
        return [key for key, position in self.position.items() if position in chosen]

    def positions(self, keys: Ints) -> Ints:
        """GPU keys of the file as positions in the run."""
        known = np.array(sorted(self.position), dtype=np.int64)
        place = np.array([self.position[key] for key in known.tolist()], dtype=np.int64)
        return place[np.searchsorted(known, keys)] if len(keys) else keys

    def sound(self, keys: Ints) -> NDArray[np.bool_]:
        """True for the keys of the run's GPUs. Where another turns up nothing was filtered out: the file is damaged."""
        found = np.isin(keys, list(self.position))
        if not found.all():
            self.shard.file.damaged("a GPU that it doesn't list")
        return found

    def rowids(self, start: float, end: float) -> tuple[int, int]:
        """Bounds of the rowids whose rows can lie in [start, end), so that a window reads only its share of the file."""
        if not (math.isfinite(start) or math.isfinite(end)):
            return self.first, self.last
        lower, upper = int(max(start, 0.0)), math.ceil(min(end, 1e15))
        newest = self.shard.rollups.newest_bucket(LEVELS[0], self.keys(None))
        found = self.shard.file.all(
            "SELECT min(first_rowid), max(last_rowid) FROM rollup WHERE level = ? AND bucket > ? AND bucket < ?"
            " AND first_rowid >= ? AND last_rowid <= ?",
            (LEVELS[0], lower - LEVELS[0], upper, self.first, self.last),
        )
        if newest is None or not found or None in found[0]:
            return self.first, self.last
        first, last = int(found[0][0]), int(found[0][1])
        if not self.unended or upper <= newest - OPEN_SECONDS:
            return first, last
        # Rows of a GPU that has not closed its bucket may come before the first of one that has.
        before = self.shard.file.all(
            "SELECT min(first_rowid) FROM rollup WHERE level = ?1 AND first_rowid >= ?3 AND bucket ="
            " (SELECT max(bucket) FROM rollup WHERE level = ?1 AND bucket <= ?2 AND first_rowid >= ?3)",
            (LEVELS[0], lower - LEVELS[0], self.first),
        )
        earlier = before[0][0] if before and before[0][0] is not None else self.first
        return min(first, int(earlier)), self.last

    def _ranges(self, start: float, end: float) -> list[tuple[int, int]]:
        """The same as ranges, of which there is one for each rank that was merged into the file: it has its rows in one
        piece, and all of them are rolled up."""
        if not (math.isfinite(start) or math.isfinite(end)) or not self._is_in_order():
            return [(self.first, self.last)]
        first, last = self.rowids(start, end)
        if (first, last) == (self.first, self.last):
            if not self.ended or not self._hold_all([], start, end):
                return [(first, last)]
            is_apart = self._hold_all([], start - LATE_SECONDS, end + LATE_SECONDS)  # before or after it all
            return [] if is_apart else self.searched(start, end)
        ranges = [(first, last)]
        if self.shard.file.merged:
            found = self.shard.file.all(
                "SELECT min(first_rowid), max(last_rowid) FROM rollup WHERE level = ? AND bucket > ? AND bucket < ?"
                " AND first_rowid >= ? AND last_rowid <= ? GROUP BY gpu ORDER BY 1",
                (LEVELS[0], int(max(start, 0.0)) - LEVELS[0], math.ceil(min(end, 1e15)), self.first, self.last),
            )
            ranges = []
            for low, high in ((int(low), int(high)) for low, high in found if None not in (low, high)):
                if ranges and low <= ranges[-1][1]:
                    ranges[-1] = ranges[-1][0], max(high, ranges[-1][1])
                else:
                    ranges.append((low, high))
        return ranges if not self.ended or self._hold_all(ranges, start, end) else self.searched(start, end)

    def raw(self, names: Sequence[str], gpus: Ints | None, start: float, end: float) -> Columns:
        """Raw rows of a window: positions, times, values of stored metrics."""
        return one_after_another(list(in_threads(self.pieces(names, gpus, start, end))), names)

    def pieces(
        self, names: Sequence[str], gpus: Ints | None, start: float, end: float, every: int = 1
    ) -> Iterator[Callable[[], Columns]]:
        """What gives them piece by piece: see gssr.store.read.samples.SampleRows.pieces."""
        keys = self.keys(gpus)
        if keys is None or keys:
            yield from self.pieces_in(self._ranges(start, end), Wanted(names, keys, 0, 0, start, end), every)

    def pieces_in(
        self, ranges: Iterable[tuple[int, int]], wanted: Wanted, every: int = 1
    ) -> Iterator[Callable[[], Columns]]:
        """The same of these ranges of rowids."""
        place = self._place()
        for first, last in ranges:
            for read in self.shard.samples.pieces(wanted._replace(first=first, last=last), every):
                yield partial(self._placed, read, place)

    def searched(self, begin: float, end: float) -> list[tuple[int, int]]:
        """Rowids between which all samples of [begin, end), unix s, lie, rank by rank; told by the samples' own times, which
        ascend but for those that came late, whatever rollups say."""
        key, known = (self.first, self.last, begin, end), self.shard.searched
        if key not in known:
            if len(known) >= _SEARCHES_KEPT:
                known.clear()
            known[key] = list(self._search(begin, end))
        return known[key]

    def _search(self, begin: float, end: float) -> Iterator[tuple[int, int]]:
        if not self._is_in_order():
            yield self.first, self.last
            return
        for low, high in self._ranks():
            first = self._first_from(low, high, begin - LATE_SECONDS, at_least=False)
            last = self._first_from(first, high, end + LATE_SECONDS, at_least=True)
            if first <= high:
                yield first, min(last, high)

    def _is_in_order(self) -> bool:
        """Whether times ascend with rowids, rank by rank. Looked at once, and only where rowids lie so far apart that no
        writer of ours has given them."""
        known = self.shard.in_order
        if (self.first, self.last) not in known:
            dense = (self.last - self.first) * LEAST_BYTES <= self.shard.file.size()
            known[self.first, self.last] = dense or all(self._ascend(*rank) for rank in self._ranks())
        return known[self.first, self.last]

    def _ascend(self, first: int, last: int) -> bool:
        newest = -math.inf
        wanted = Wanted([], self.keys(None), 0, 0, -math.inf, math.inf)
        for _, time, _ in in_threads(self.pieces_in([(first, last)], wanted)):
            latest = np.maximum.accumulate(np.append(newest, time))
            if (latest[:-1] - time > LATE_SECONDS).any():
                return False
            newest = float(latest[-1])
        return True

    def _hold_all(self, ranges: Sequence[tuple[int, int]], begin: float, end: float) -> bool:
        """Whether the samples of [begin, end), unix s, lie in these ranges of rowids, as far as the times beside them
        tell."""
        for first, last in self._ranks():
            own = [(low, high) for low, high in ranges if first <= low and high <= last]
            low, high = (
                min((low for low, _ in own), default=last + 1),
                max((high for _, high in own), default=first - 1),
            )
            before, after = self._time_beside(first, low - 1, "DESC"), self._time_beside(high + 1, last, "ASC")
            if own and ((before is not None and before >= begin) or (after is not None and after < end)):
                return False
            if not own and not ((before is not None and before < begin) or (after is not None and after >= end)):
                return False
        return True

    def _ranks(self) -> list[tuple[int, int]]:
        """The first and last rowid of each rank's samples."""
        rows = ((row.first_rowid, row.last_rowid) for row in self.shard.file.merged)
        ranks = [(low, high) for low, high in rows if low and high and self.first <= low and high <= self.last]
        return ranks or [(self.first, self.last)]

    def _time_beside(self, first: int, last: int, order: str) -> float | None:
        """The time of the first sample in this ORDER of those with rowids from ``first`` to ``last``; None where there is
        none, or where that is no time."""
        query = f"SELECT time FROM samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid {order} LIMIT 1"
        found = self.shard.file.all(query, (first, last)) if first <= last else []
        return float(found[0][0]) if found and found[0][0] is not None else None

    def _first_from(self, low: int, high: int, time: float, at_least: bool) -> int:
        """The first rowid in [low, high] from which on times are ``time`` or later; high + 1 when there is none. Where
        several rows in turn have no time, it is no higher than that, or (``at_least``) no lower."""
        while low <= high:
            middle = (low + high) // 2
            query = "SELECT rowid, time FROM samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?"
            rows = self.shard.file.all(query, (middle, high, _LOOK_AHEAD))
            times = [(rowid, when) for rowid, when in rows if when is not None and 0 <= when <= LATEST]
            if times and times[0][1] < time:
                low = max(middle, times[0][0]) + 1  # on a damaged page SQLite may find a lower one
            elif rows and not times and at_least:
                low = max(middle, rows[-1][0]) + 1
            else:
                high = middle - 1
        return low

    def _place(self) -> Ints:
        """Positions by key, -1 for keys of no GPU of the run."""
        place = np.full(max(self.position, default=-1) + 2, -1, np.int64)
        for key, position in self.position.items():
            place[key] = position
        return place

    def _placed(self, read: Callable[[], Columns], place: Ints) -> Columns:
        key, time, values = read()
        gpu = place[np.minimum(key, len(place) - 1)]
        if gpu.min(initial=0) < 0:
            sound = self.sound(key)
            gpu, time, values = gpu[sound], time[sound], {name: value[sound] for name, value in values.items()}
        return gpu, time, values
