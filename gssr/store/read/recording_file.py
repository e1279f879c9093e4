"""One file of a recording, read into arrays: the readers of its tables, and each run's share of it, which is a range of rows
and some GPUs. The shares of several files are put together in gssr.store.read.recording.
"""

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.store.format.limits import LATEST, LEAST_BYTES
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import FINEST_LEVEL, LEVELS, SKETCH_SECONDS
from gssr.store.pages.sample_pages import SampleQuery
from gssr.store.read.gpu_spans import Span, read_spans, times_in_blob
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.host_use import HostUseRows
from gssr.store.read.open import RecordingError
from gssr.store.read.rollups import RollupRows
from gssr.store.read.samples import SampleRows, join_samples, run_in_threads
from gssr.store.read.small_tables import read_thinned

_KEYS_AT_ONCE = 10_000


class RunStarts:
    """Finds where in ``samples`` of one file each of its runs begins.

    Rollups tell it. For runs without rollups all rows are looked through, once for all of these runs together, so that
    a file of very many runs takes no longer.
    """

    def __init__(self, file: GuardedFile) -> None:
        self._file = file
        self._known: dict[str, int | None] = {}
        self._first: dict[int, int] = {}
        """By the keys of GPUs without rollups, as far as rows were looked through."""
        self._looked_through = 0
        self._places: dict[str, int] | None = None
        self._least: list[int | None] = [None]
        """The least rowid at which one of the last runs begins, the newest apart, by how many of them."""

    def first_rowid(self, run_id: str) -> int | None:
        """Find the rowid of the run's first row; None without rows. They may still come in the newest run only."""
        if run_id not in self._known:
            found = self._find_in_rollups(run_id)
            if found is None:
                found = self._find_in_samples(run_id)
            if found is None and run_id == self._file.runs[-1].run_id:
                return None
            self._known[run_id] = found
        return self._known[run_id]

    def first_rowid_after(self, run_id: str) -> int | None:
        """Find the rowid at which the rows of a later run begin; None where no later one has any."""
        runs = self._file.runs
        if self._places is None:
            self._places = {run.run_id: place for place, run in reversed(list(enumerate(runs)))}
            # All but the newest run's stay as they are.
            rowids = [self.first_rowid(run.run_id) for run in runs[:-1]]
            for begin in reversed(rowids):
                self._least.append(_lesser_rowid(self._least[-1], begin))
        place = self._places[run_id]
        return (
            None
            if place == len(runs) - 1
            else _lesser_rowid(self._least[len(runs) - 2 - place], self.first_rowid(runs[-1].run_id))
        )

    def _keys(self, run_id: str) -> list[int]:
        return [gpu.gpu for gpu in self._file.gpus(run_id)]

    def _find_in_rollups(self, run_id: str) -> int | None:
        """Find the rowid of the run's first row by its rollups: the coarsest, or the finest where there are no coarser
        ones. None if it has no rollups."""
        keys = self._keys(run_id)
        for level in (600, 10) if keys else ():
            for (found,) in self._file.all(
                f"SELECT min(first_rowid) FROM rollup WHERE gpu IN ({_comma_separated(keys)}) AND level = {level}"
            ):
                if found is not None:
                    return int(found)
        return None

    def _find_in_samples(self, run_id: str) -> int | None:
        """Find the rowid of the run's first row by looking through the samples. None if it has no rows yet."""
        self._look_through()
        return min((self._first[key] for key in self._keys(run_id) if key in self._first), default=None)

    def _look_through(self) -> None:
        """Look at the rows that have come since the last time."""
        last = max((row[0] or 0 for row in self._file.all("SELECT max(rowid) FROM samples")), default=0)
        if last <= self._looked_through:
            return
        begun = (run.run_id for run in self._file.runs if self._known.get(run.run_id) is None)
        keys = [key for run_id in begun if self._find_in_rollups(run_id) is None for key in self._keys(run_id)]
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            own = _comma_separated(keys[begin : begin + _KEYS_AT_ONCE])
            query = (
                f"SELECT gpu, min(rowid) FROM samples WHERE rowid > ? AND rowid <= ? AND gpu IN ({own}) GROUP BY gpu"
            )
            for key, rowid in self._file.all(query, (self._looked_through, last)):
                self._first.setdefault(key, rowid)
        self._looked_through = last


def _lesser_rowid(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _comma_separated(keys: Sequence[int]) -> str:
    return ",".join(map(str, keys))


class RecordingFile:
    """One open file of a recording, with the readers of its tables and what was found out about them once. Making one
    raises RecordingError when the file can't be opened."""

    def __init__(self, path: str) -> None:
        self.file = GuardedFile(path)
        self.samples = SampleRows(self.file)
        self.rollups = RollupRows(self.file)
        self.host_use = HostUseRows(self.file)
        self._run_starts = RunStarts(self.file)
        self.coarsest_counts: dict[tuple[int, int], Any] = {}
        """By the first and last rowid of a run's part: gssr.store.read.check_rollups."""
        self.row_counts: dict[tuple[int, int, tuple[float, float]], tuple[Ints, Ints]] = {}
        """Of rollups at the ends of a window, how many samples they count: gssr.store.read.check_rollups."""
        self.in_order: dict[tuple[int, int], bool] = {}
        """By the same, whether the samples' times ascend with their rowids: see Part."""
        self.found_ranges: dict[tuple[int, int, float, float], list[tuple[int, int]]] = {}
        """By the same and a window, where its samples are: see Part."""
        self.edges: dict[tuple[int, int], Any] = {}
        """By the same, the samples at the ends of a window: gssr.store.read.window_edges."""
        self.recounted: set[tuple[int, int]] = set()
        """What had to be counted anew of a part: its first rowid, and the number of the GPU and its stretch of 600 s."""

    def close(self) -> None:
        """Close the file."""
        self.samples.close()
        self.rollups.close()
        self.file.close()

    def __del__(self) -> None:
        if hasattr(self, "rollups"):
            self.close()

    def rowids(self, run_id: str) -> tuple[int, int]:
        """Find the first and last rowid of the run's rows in ``samples``; (1, 0) when it has none. Runs follow one another
        in a file, never interleaved, because only one writer has it at a time."""
        first, last = 1, 0
        for low, high in self.file.all("SELECT (SELECT min(rowid) FROM samples), (SELECT max(rowid) FROM samples)"):
            lows = [low, *(row.first_rowid for row in self.file.thinned)]
            highs = [high, *(row.last_rowid for row in self.file.thinned)]
            first = min((rowid for rowid in lows if rowid is not None), default=1)
            last = max((rowid for rowid in highs if rowid is not None), default=0)
        if run_id != self.file.runs[0].run_id:
            begin = self._run_starts.first_rowid(run_id)
            first = last + 1 if begin is None else max(first, begin)
        after = self._run_starts.first_rowid_after(run_id)
        return first, max(first - 1, last if after is None else after - 1)

    def ends(self, run_id: str) -> list[tuple[int, int]]:
        """Find the rowids of the first and the last sample of each rank's part of the run, as far as that is known: within
        one rank's part times ascend."""
        rows = (row for row in self.file.merged if row.run_id == run_id)
        found = [(row.first_rowid, row.last_rowid) for row in rows if row.first_rowid and row.last_rowid]
        return found or [self.rowids(run_id)]

    def times_at(self, run_id: str, end: int) -> list[float]:
        """Read the times (unix s) of the first (``end`` 0) or last (``end`` 1) sample of each rank's part of the run,
        and of thinned samples from rollups. The least, or greatest, of them is the run's; empty where there is none."""
        rowids = [ends[end] for ends in self.ends(run_id)]
        found = [
            row[0] for rowid in rowids for row in self.file.all("SELECT time FROM samples WHERE rowid = ?", (rowid,))
        ]
        thinned = any(row.run_id == run_id and row.end_time is not None for row in self.file.thinned)
        if thinned and (keys := ",".join(str(gpu.gpu) for gpu in self.file.gpus(run_id))):
            own, direction = f"FROM rollup WHERE level = ?1 AND gpu IN ({keys})", ("ASC", "DESC")[end]
            query = f"SELECT data {own} AND bucket = (SELECT bucket {own} ORDER BY bucket {direction} LIMIT 1)"
            found += [times[end] for (data,) in self.file.all(query, (LEVELS[0],)) if (times := times_in_blob(data))]
        return [float(time) for time in found if time is not None and 0 <= time <= LATEST]

    def sample_at(self, rowid: int) -> tuple[int | None, float | None]:
        """Read the GPU key and the unix time, s, of the sample with this rowid. The time is None where it is none; both
        are None where no sample has the rowid."""
        for key, time in self.file.all("SELECT gpu, time FROM samples WHERE rowid = ?", (rowid,)):
            return key, float(time) if time is not None and 0 <= time <= LATEST else None
        return None, None

    def thinned_until(self, run_id: str) -> float:
        """Return the unix time before which samples of the run were thinned; minus infinity when none were."""
        ends = (row.end_time for row in self.file.thinned if row.run_id == run_id)
        return max((end for end in ends if end is not None), default=-np.inf)

    def check_thinning(self, run_id: str, start: float) -> None:
        """Raise RecordingError when samples of the run from ``start`` (unix s) on, or its newest ones, were thinned
        since the file was opened: what was read of it then does not fit together. A snapshot never raises."""
        if self.file.is_snapshot or not self.file.thinned:
            return
        before = self.thinned_until(run_id)
        try:
            self.file.thinned = read_thinned(self.file.connection)
        except sqlite3.DatabaseError:
            return
        until = self.thinned_until(run_id)
        if until > before and until > min(start, max(self.times_at(run_id, 1), default=0.0) - SKETCH_SECONDS):
            raise RecordingError(f"{self.file.path}: samples were thinned while they were read: read it again")

    def spans(self, run_id: str, keys: Sequence[int]) -> dict[int, Span]:
        """Find when the rows of these GPUs (keys in the file) of the run begin and end. Returns the span of each by its
        key; GPUs without rows are left out."""
        first, last = self.rowids(run_id)
        if last < first:
            return {}
        counted = any(row.run_id == run_id for row in self.file.merged) or self.rollups.counts_up_to(last, keys)
        return read_spans(self.file.all, keys, last, counted)


OPEN_SECONDS = 60
"""The writer closes the bucket of a silent GPU within this time: behind it, what is not in a bucket does not exist."""
LATE_SECONDS = 600.0
"""Samples may come so much later than others that were taken after them."""
_SEARCHES_KEPT = 16
"""Whoever counts stretches anew asks for the same ones several times."""
_LOOK_AHEAD = 16
"""Rows among which one with a time is looked for."""


class Part(NamedTuple):
    """A run's share of one file: a range of rowids and the GPUs whose rows there are the run's. Rowids are those of
    ``samples``; times are unix s by the clock of the GPUs' node."""

    shard: RecordingFile
    first: int
    last: int
    """Rowids of its samples."""
    position: dict[int, int]
    """GPU key in the file → position in the run."""
    by_key: tuple[int, Ints]
    """The same as an array from the lowest key on, -1 for other keys and at its end (see ``positions_by_key``)."""
    whole: bool
    """Every GPU of the file belongs to this run, and counts."""
    unended: bool
    """It still runs, or was cut off, or its end found a full disk: the newest rows are not rolled up."""
    thinned: float = -math.inf
    """Rows from before this (unix s) may be gone, or means: what rollups count is all that is known."""
    ended: bool = False
    """Its run has ended: rollups count every row, or are damaged."""
    ahead: float = 0.0
    """So many seconds its node's clock, by which all times here are, is ahead of the run's (gssr.store.read.run_clocks)."""

    def keys_of(self, gpus: Ints | None) -> list[int] | None:
        """Return the GPU keys of these positions; None when no row need be filtered out."""
        if gpus is None:
            return None if self.whole else list(self.position)
        chosen = set(gpus.tolist())
        return [key for key, position in self.position.items() if position in chosen]

    def positions_among(self, gpus: Ints | None) -> Ints:
        """Pick those of these GPUs (positions; None: all) that have rows in the part. Returns their positions,
        ascending."""
        own = np.array(sorted(self.position.values()), np.int64)
        return own if gpus is None else own[np.isin(own, gpus)]

    def positions(self, keys: Ints) -> Ints:
        """Convert GPU keys of the file to positions in the run, -1 for those of none of its GPUs."""
        lowest, places = self.by_key
        return places[np.minimum((keys - lowest).view(np.uint64), len(places) - 1)]

    def are_listed(self, gpus: Ints) -> Flags:
        """Flag the positions that are of GPUs of the run. Where one is of none (-1), the file is damaged, which is noted."""
        found: Flags = gpus >= 0
        if not found.all():
            self.shard.file.damaged("a GPU that it doesn't list")
        return found

    def rowids(self, start: float, end: float) -> tuple[int, int]:
        """Find the first and last rowid whose rows can lie in [start, end), unix s, so that a window reads only its
        share of the file. Where rollups don't tell, those of the whole part are returned."""
        if not (math.isfinite(start) or math.isfinite(end)):
            return self.first, self.last
        lower, upper = int(max(start, 0.0)), math.ceil(min(end, 1e15))
        newest = self.shard.rollups.newest_bucket(self.keys_of(None))
        found = self.shard.file.all(
            f"SELECT min(first_rowid), max(last_rowid) FROM rollup WHERE level = {FINEST_LEVEL}"
            f" AND bucket > ? - {FINEST_LEVEL} AND bucket < ? AND first_rowid >= ? AND last_rowid <= ?",
            (lower, upper, self.first, self.last),
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
        """Find the ranges of rowids (first, last) whose rows can lie in [start, end), unix s: one for each rank that
        was merged into the file, because each has its rows in one piece. Empty where no row can."""
        if not (math.isfinite(start) or math.isfinite(end)) or not self._is_in_order():
            return [(self.first, self.last)]
        first, last = self.rowids(start, end)
        if (first, last) == (self.first, self.last):
            if not self.ended or not self._hold_all([], start, end):
                return [(first, last)]
            is_apart = self._hold_all([], start - LATE_SECONDS, end + LATE_SECONDS)  # before or after it all
            return [] if is_apart else self.find_ranges(start, end)
        ranges = [(first, last)]
        if self.shard.file.merged:
            found = self.shard.file.all(
                f"SELECT min(first_rowid), max(last_rowid) FROM rollup WHERE level = {FINEST_LEVEL}"
                f" AND bucket > ? - {FINEST_LEVEL} AND bucket < ? AND first_rowid >= ? AND last_rowid <= ?"
                " GROUP BY gpu ORDER BY 1",
                (int(max(start, 0.0)), math.ceil(min(end, 1e15)), self.first, self.last),
            )
            ranges = []
            for low, high in ((int(low), int(high)) for low, high in found if None not in (low, high)):
                if ranges and low <= ranges[-1][1]:
                    ranges[-1] = ranges[-1][0], max(high, ranges[-1][1])
                else:
                    ranges.append((low, high))
        return ranges if not self.ended or self._hold_all(ranges, start, end) else self.find_ranges(start, end)

    def raw(self, names: Sequence[str], gpus: Ints | None, start: float, end: float) -> Samples:
        """Read the raw rows of a window [start, end), unix s, in the order of the file: GPUs are positions. ``names``:
        stored metrics only; ``gpus``: positions, None for all."""
        return join_samples(list(run_in_threads(self.pieces(names, gpus, start, end))), names)

    def pieces(
        self, names: Sequence[str], gpus: Ints | None, start: float, end: float, every: int = 1
    ) -> Iterator[Callable[[], Samples]]:
        """Yield functions that read the raw rows of a window piece by piece, in the order of the file; each may be
        called in any thread.

        Args:
            names: The stored metrics whose values are read.
            gpus: Positions of the GPUs; None: all.
            start: Rows from this time on, unix s.
            end: Rows before this time, unix s.
            every: Read only about one in so many rows, evenly spread.

        Yields nothing if the part has none of these GPUs.
        """
        keys = self.keys_of(gpus)
        if keys is None or keys:
            yield from self.pieces_in(self._ranges(start, end), SampleQuery(names, keys, 0, 0, start, end), every)

    def pieces_in(
        self, ranges: Iterable[tuple[int, int]], wanted: SampleQuery, every: int = 1
    ) -> Iterator[Callable[[], Samples]]:
        """Yield functions that read, piece by piece, the rows that are ``wanted`` in these ranges of rowids (first,
        last); each may be called in any thread. With ``every`` only about one in so many rows is read, evenly spread."""
        for first, last in ranges:
            for read in self.shard.samples.pieces(wanted._replace(first=first, last=last), every):
                yield partial(self._placed, read)

    def find_ranges(self, begin: float, end: float) -> list[tuple[int, int]]:
        """Find the ranges of rowids (first, last) in which all samples of [begin, end), unix s, lie, one for each rank
        that may have some. They are looked up by the samples' own times, which ascend except for samples that came late,
        not by rollups; where times do not ascend, it is the part's whole range. The last few answers are kept."""
        key, known = (self.first, self.last, begin, end), self.shard.found_ranges
        if key not in known:
            if len(known) >= _SEARCHES_KEPT:
                known.clear()
            known[key] = list(self._search(begin, end))
        return known[key]

    def _search(self, begin: float, end: float) -> Iterator[tuple[int, int]]:
        """Find between which rowids the samples from ``begin`` to ``end`` (unix s) lie, LATE_SECONDS more at either end.
        Yields the first and the last rowid, both included, of each rank that has some; of the whole part at once if its
        times do not ascend with the rowids."""
        if not self._is_in_order():
            yield self.first, self.last
            return
        for low, high in self._ranks():
            first = self._first_from(low, high, begin - LATE_SECONDS, at_least=False)
            last = self._first_from(first, high, end + LATE_SECONDS, at_least=True)
            if first <= high:
                yield first, min(last, high)

    def _is_in_order(self) -> bool:
        """Tell whether times ascend with rowids within each rank's samples. It is found out once, and taken for granted
        where the rowids are no more than the file has room for: then a writer of ours has given them."""
        known = self.shard.in_order
        if (self.first, self.last) not in known:
            dense = (self.last - self.first) * LEAST_BYTES <= self.shard.file.size()
            known[self.first, self.last] = dense or all(self._times_ascend(*rank) for rank in self._ranks())
        return known[self.first, self.last]

    def _times_ascend(self, first: int, last: int) -> bool:
        """Tell whether no sample of the rowids from ``first`` to ``last`` (both included) is more than LATE_SECONDS
        older than one before it. Reads all of them, unless it is found out before."""
        newest = -math.inf
        wanted = SampleQuery([], self.keys_of(None), 0, 0, -math.inf, math.inf)
        for _, time, _ in run_in_threads(self.pieces_in([(first, last)], wanted)):
            latest = np.maximum.accumulate(np.append(newest, time))
            if (latest[:-1] - time > LATE_SECONDS).any():
                return False
            newest = float(latest[-1])
        return True

    def _hold_all(self, ranges: Sequence[tuple[int, int]], begin: float, end: float) -> bool:
        """Tell whether these ranges of rowids hold all samples of [begin, end), unix s, as far as can be told from the
        samples right before and right after them, rank by rank."""
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
        """List the first and last rowid of each rank's samples; in a file into which nothing was merged those of the
        whole part."""
        rows = ((row.first_rowid, row.last_rowid) for row in self.shard.file.merged)
        ranks = [(low, high) for low, high in rows if low and high and self.first <= low and high <= self.last]
        return ranks or [(self.first, self.last)]

    def _time_beside(self, first: int, last: int, order: str) -> float | None:
        """Read the time of the first sample in this ORDER of those with rowids from ``first`` to ``last``; None where there
        is none, or where that is no time."""
        query = f"SELECT time FROM samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid {order} LIMIT 1"
        found = self.shard.file.all(query, (first, last)) if first <= last else []
        return float(found[0][0]) if found and found[0][0] is not None else None

    def _first_from(self, low: int, high: int, time: float, at_least: bool) -> int:
        """Find the first rowid in [low, high] from which on times are ``time`` or later; high + 1 when there is none. Where
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

    def _placed(self, read: Callable[[], Samples]) -> Samples:
        samples = read()
        gpu = self.positions(samples.gpu)
        return samples._replace(gpu=gpu).of(self.are_listed(gpu))


def positions_by_key(position: Mapping[int, int]) -> tuple[int, Ints]:
    """Make ``Part.by_key`` of the positions by key. Returns the lowest key, and an array with the positions of this key
    and those after it: -1 for keys that have none, and at its end."""
    lowest = min(position, default=0)
    places = np.full(max(position, default=-1) - lowest + 2, -1, np.int64)
    for key, own in position.items():
        places[key - lowest] = own
    return lowest, places
