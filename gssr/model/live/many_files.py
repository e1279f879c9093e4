"""Following a run of very many files: by their live blocks, and by SQL only those whose blocks say nothing.

What the blocks count was counted since the run began, so what is new of a GPU is what its block says less what is known of
it already, wherever that came from. Nothing is lost or doubled by changing between blocks and rows.
"""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import THROTTLES
from gssr.model.live.run_totals import Tally
from gssr.model.statistics.grid import Spans
from gssr.store.live_block.read import BlockReader, Blocks, Entries
from gssr.store.live_block.write import COUNTED, MANY_FILES, PUBLISH_SECONDS
from gssr.store.read.small_tables import LOST_INTERVALS, LOST_SECONDS

LOOK_SECONDS = 2.0
"""Between two looks at the blocks."""
BEHIND_SECONDS = LOOK_SECONDS + PUBLISH_SECONDS
"""What comes of a GPU may be so late, though nothing is wrong."""
_EARLY = 0.1


class News(NamedTuple):
    """``spans``: None when nothing is new. ``stranger``: of a GPU that was not there before. ``new``: the numbers of the
    files whose blocks are new, with ``rowid``, up to where they count; ``ask``: of those that are to be asked by SQL now."""

    spans: Spans | None
    stranger: bool
    new: Ints
    rowid: Ints
    ask: list[int]


def is_crowd(n_files: int) -> bool:
    """Whether so many files are followed by their blocks."""
    return n_files > MANY_FILES


class Crowd:
    """Follows the files of ``tails`` (RunReader.tails) with ``n_gpus`` GPUs, sampled every ``interval`` s."""

    def __init__(self, tails: Sequence[tuple[str, int, dict[int, int]]], n_gpus: int, interval: float) -> None:
        self._reader = BlockReader([path for path, _, _ in tails])
        self._places = _Places([position for _, _, position in tails], n_gpus)
        self._interval = interval
        self._patience = max(LOST_SECONDS, LOST_INTERVALS * interval)
        self._looked = -math.inf
        self._heard = np.full(len(tails), time.monotonic())
        """When a file's block was new, or it was asked."""
        self._n_strange: int | None = None
        self._own: dict[int, tuple[Any, ...]] = {}
        """Of GPUs that several files hold: what each file's block counted when it was seen last."""
        self._first: Blocks | None = self._reader.look()

    def others(self) -> Ints:
        """Before the first look: the GPUs (positions) of which it will not tell everything since the beginning."""
        blocks = self._first
        assert blocks is not None
        place = self._places.find(blocks.owner, blocks.gpus["key"].astype(np.int64))
        told = self._places.gpu[place[place >= 0]]
        return np.setdiff1d(np.arange(len(self._places.shared)), told[~self._places.shared[told]])

    def look(self, tally: Tally) -> News | None:
        """What is new to the tally; None when it is too soon to look again."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS - _EARLY:
            return None
        self._looked = now
        blocks, self._first = self._first or self._reader.look(), None
        self._heard[blocks.file] = now
        silent = np.flatnonzero(now - self._heard > self._patience)
        self._heard[silent] = now
        place = self._places.find(blocks.owner, blocks.gpus["key"].astype(np.int64))
        known = place >= 0
        # What no position is known of right after the opening is sampled by two ranks at once, and counts once.
        n_strange = int((~known).sum())
        stranger = self._n_strange is not None and n_strange > self._n_strange
        self._n_strange = max(n_strange, self._n_strange or 0)
        spans = self._spans(tally, blocks.gpus[known], place[known])
        return News(spans, stranger, blocks.file, blocks.rowid, sorted({*blocks.without, *silent.tolist()}))

    def _spans(self, tally: Tally, blocks: Entries, place: Ints) -> Spans | None:
        """What the blocks of GPUs at these places count that the tally does not."""
        gpu = self._places.gpu[place]
        metrics = [COUNTED.index(name) for name in tally.metrics]
        flags = [THROTTLES.index(name) for name in tally.names[len(metrics) :]]
        n = np.concatenate([blocks["n"].T[metrics], np.tile(blocks["n_flags"], (len(flags), 1))]).astype(np.float64)
        total = np.concatenate([blocks["total"].T[metrics], blocks["held"].T[flags]])
        counts = _Counts(n, total, blocks["n_rows"].astype(np.int64), blocks["n_gaps"].astype(np.int64))
        whole = tally.whole()
        before = _Counts(whole.n[:, gpu], whole.total[:, gpu], tally.rows[gpu], tally.n_gaps[gpu])
        for index in np.flatnonzero(self._places.shared[gpu]).tolist():
            own = tuple(array[..., index].copy() for array in counts)
            for array, value in zip(before, self._own.get(int(place[index]), own), strict=True):
                array[..., index] = value
            self._own[int(place[index])] = own
        _, new = np.unique(np.where(counts.rows > before.rows, gpu, -1), return_index=True)
        new = new[counts.rows[new] > before.rows[new]]
        if not len(new):
            return None
        rows = (counts.rows - before.rows)[new]
        end = blocks["last"][new]
        start = tally.last_time[gpu[new]]
        if self._interval:
            start = np.maximum(start, end - rows * self._interval)  # where nothing was sampled there is nothing
        start = np.where(np.isnan(start), blocks["first"][new], start)
        return Spans(
            gpu[new],
            np.minimum(start, end),
            end,
            rows,
            np.maximum(counts.gaps - before.gaps, 0)[new],
            np.maximum(counts.n - before.n, 0.0)[:, new],
            (counts.total - before.total)[:, new],
            blocks["latest"].T[metrics][:, new].astype(np.float64),
        )


class _Counts(NamedTuple):
    """[n_names, n], twice; [n], twice."""

    n: Floats
    total: Floats
    rows: Ints
    gaps: Ints


class _Places:
    """Every file's GPUs in one table: the place of each, and ``gpu`` its position (-1: none); ``shared`` [n_gpus]: several
    files hold it."""

    def __init__(self, positions: Sequence[dict[int, int]], n_gpus: int) -> None:
        self._low = np.array([min(position, default=0) for position in positions], np.int64)
        self._size = np.array([max(position, default=-1) for position in positions], np.int64) + 1 - self._low
        self._begin = np.cumsum(self._size) - self._size
        self.gpu = np.full(int(self._size.sum()), -1, np.int64)
        for low, begin, position in zip(self._low.tolist(), self._begin.tolist(), positions, strict=True):
            for key, gpu in position.items():
                self.gpu[begin + key - low] = gpu
        self.shared = np.bincount(self.gpu[self.gpu >= 0], minlength=n_gpus) > 1

    def find(self, file: Ints, key: Ints) -> Ints:
        """The places of these keys in these files, -1 where there is no such GPU."""
        at = key - self._low[file]
        inside = (at >= 0) & (at < self._size[file])
        place = np.where(inside, self._begin[file] + at, 0)
        there = inside if not len(self.gpu) else inside & (self.gpu[place] >= 0)
        return np.where(there, place, -1)
