"""Following a run that grows: what comes is counted, from the rows of its files or, where they are very many, from their
live blocks.

Following a run of very many files: by their live blocks, and by SQL only those whose blocks say nothing.

What the blocks count was counted since the run began, so what is new of a GPU is what its block says less what is known of
it already, wherever that came from. Nothing is lost or doubled by changing between blocks and rows.
"""

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.gpu_name import without_domains
from gssr.metrics import THROTTLES
from gssr.model.live.answers import Answers
from gssr.model.live.kept_answers import KeptAnswers
from gssr.model.live.live_result import STALE_SECONDS
from gssr.model.live.nodes import Nodes
from gssr.model.live.run_totals import RunTotals
from gssr.model.live.timeline import Timelines
from gssr.model.results import nodes_of
from gssr.model.statistics.grid import Spans
from gssr.store.format.rows import GpuProcess, RunRow, one_run
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.format.sound_arrays import sound_samples
from gssr.store.live_block.read import BlockReader, Blocks
from gssr.store.live_block.write import COUNTED, MANY_FILES, PUBLISH_SECONDS
from gssr.store.read.follow import Follower
from gssr.store.read.recording import RunReader
from gssr.store.read.small_tables import LOST_INTERVALS, LOST_SECONDS, process_rows

LOOK_SECONDS = 2.0
"""Between two looks at the blocks."""
BEHIND_SECONDS = LOOK_SECONDS + PUBLISH_SECONDS
"""What comes of a GPU may be so late, though nothing is wrong."""
_EARLY = 0.1
_KEPT = 8


def is_crowd(n_files: int) -> bool:
    """Tell whether a run of ``n_files`` files is followed by its live blocks, and not by its rows."""
    return n_files > MANY_FILES


class ManyFiles:
    """Follows a run's files by their live blocks. ``tails``: see RunReader.tails; ``ahead`` [n_gpus]: how far each
    GPU's clock is ahead of the run's, s; ``interval``: sampling interval, s."""

    def __init__(self, tails: Sequence[tuple[str, int, dict[int, int]]], ahead: Floats, interval: float) -> None:
        self._ahead = ahead
        self._reader = BlockReader([path for path, _, _ in tails])
        self._places = _Places([position for _, _, position in tails], len(ahead))
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
        """Return the positions of the GPUs about which the first look will not tell everything since the begin. Call it
        before the first look."""
        blocks = self._first
        assert blocks is not None
        place = self._places.find(blocks.owner, blocks.gpus["key"].astype(np.int64))
        told = self._places.gpu[place[place >= 0]]
        return np.setdiff1d(np.arange(len(self._places.shared)), told[~self._places.shared[told]])

    def read_new_blocks(self) -> Blocks | None:
        """Read the live blocks that are new, or return None if the last look is less than LOOK_SECONDS ago."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS - _EARLY:
            return None
        self._looked = now
        blocks, self._first = self._first or self._reader.look(), None
        self._heard[blocks.file] = now
        return blocks

    def files_to_ask(self, blocks: Blocks) -> list[int]:
        """Return the numbers of the files to read by SQL after a look: those without a block, and those whose block was
        not new for long, which then count as heard."""
        silent = np.flatnonzero(self._looked - self._heard > self._patience)
        self._heard[silent] = self._looked
        return sorted({*blocks.without, *silent.tolist()})

    def has_strangers(self, blocks: Blocks) -> bool:
        """Tell whether blocks tell of a GPU that was not there at the first look."""
        # What no position is known of right after the opening is sampled by two ranks at once, and counts once.
        n_strange = int((self._places.find(blocks.owner, blocks.gpus["key"].astype(np.int64)) < 0).sum())
        has_more = self._n_strange is not None and n_strange > self._n_strange
        self._n_strange = max(n_strange, self._n_strange or 0)
        return has_more

    def spans(self, blocks: Blocks, tally: RunTotals) -> Spans | None:
        """Compute what blocks count that ``tally`` does not yet, from the difference of the sums. Returns None if no GPU
        has new rows. What is counted of GPUs that several ranks sample is kept in ``_own``."""
        place = self._places.find(blocks.owner, blocks.gpus["key"].astype(np.int64))
        entries, place = blocks.gpus[place >= 0], place[place >= 0]
        gpu = self._places.gpu[place]
        metrics = [COUNTED.index(name) for name in tally.metrics]
        flags = [THROTTLES.index(name) for name in tally.names[len(metrics) :]]
        n = np.concatenate([entries["n"].T[metrics], np.tile(entries["n_flags"], (len(flags), 1))]).astype(np.float64)
        total = np.concatenate([entries["total"].T[metrics], entries["held"].T[flags]])
        counts = _Counts(n, total, entries["n_rows"].astype(np.int64), entries["n_gaps"].astype(np.int64))
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
        end = entries["last"][new] - self._ahead[gpu[new]]
        start = tally.last_time[gpu[new]]
        if self._interval:
            start = np.maximum(start, end - rows * self._interval)  # where nothing was sampled there is nothing
        start = np.where(np.isnan(start), entries["first"][new] - self._ahead[gpu[new]], start)
        return Spans(
            gpu[new],
            np.minimum(start, end),
            end,
            rows,
            np.maximum(counts.gaps - before.gaps, 0)[new],
            np.maximum(counts.n - before.n, 0.0)[:, new],
            (counts.total - before.total)[:, new],
            entries["latest"].T[metrics][:, new].astype(np.float64),
        )


class _Counts(NamedTuple):
    """Counts of GPUs: ``n`` and ``total`` float64[n_names, n], ``rows`` and ``gaps`` int64[n]."""

    n: Floats
    total: Floats
    rows: Ints
    gaps: Ints


class _Places:
    """Every file's GPUs in one table. ``gpu``: the position of the GPU at each place, -1 for none; ``shared``
    bool[n_gpus]: several files hold it."""

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
        """Return the places of GPUs by their files and keys there, int64[n]; -1 where there is no such GPU."""
        at = key - self._low[file]
        inside = (at >= 0) & (at < self._size[file])
        place = np.where(inside, self._begin[file] + at, 0)
        there = inside if not len(self.gpu) else inside & (self.gpu[place] >= 0)
        return np.where(there, place, -1)

    def gpus(self, file: int, key: Ints) -> Ints:
        """Return the positions of GPUs by their keys in one file, int64[n]; -1 where it has no such GPU."""
        place = self.find(np.full(len(key), file), key)
        return np.where(place >= 0, self.gpu[place], -1) if len(self.gpu) else place


ROWS_AT_ONCE = 50_000
MOST_ROWS = 4 * ROWS_AT_ONCE
"""What one look reads of each file at most: behind a fast writer the screen goes on, and catches up."""


class FollowedRun:
    """A run that was opened: whose its GPUs are, what was counted of it (``tally``), and who answers queries about its GPUs
    (``answers``, ``timelines``) and its nodes (``host``). While it is ``growing``, ``look`` counts what comes.
    ``outdated`` becomes True if the files must be opened anew."""

    def __init__(self, reader: RunReader, growing: bool) -> None:
        tails, n_gpus, interval = reader.tails, len(reader.gpus), reader.sampling_seconds
        ahead = np.array([reader.clocks.of(gpu.node) for gpu in reader.gpus])
        self._ahead = ahead
        """How far each GPU's clock is ahead of the run's, s."""
        self._crowd = ManyFiles(tails, ahead, interval) if growing and is_crowd(len(tails)) else None
        self.run_id, self.gpus, self.interval = reader.run.run_id, reader.gpus, interval
        nodes, self.node_of = nodes_of(reader.gpus)
        self.nodes = without_domains(nodes)
        self.tally = RunTotals(reader, growing, None if self._crowd is None else self._crowd.others())
        self.answers = Answers(self.tally, interval, n_gpus, seldom=self.crowded)
        self.kept = KeptAnswers(_KEPT)
        """What else was found out about it."""
        self.timelines = Timelines()
        self.host = Nodes(seldom=self.crowded)
        followed = tails if growing else ()
        self._followers = [Follower(path, self.tally.stored, last) for path, last, _ in followed]
        self._keys = [position for _, _, position in followed]
        """The positions of each file's GPUs by their keys there."""
        self._places = _Places(self._keys, n_gpus)
        self._stands: dict[int, RunRow] = {}
        """How each file that was asked says that the run stands, by its number."""
        self.happened: dict[int, tuple[int, str]] = {}
        """The newest event of each file that was asked, and its state, by its number."""
        self.looks: dict[int, Look] = {}
        """The newest at each GPU, where files are asked."""
        self.arrived = time.monotonic()
        """When something came, monotonic s."""
        self._came = np.full(n_gpus, -math.inf)
        behind = BEHIND_SECONDS if self.crowded else 0.0
        self._patience = max(GAP_INTERVALS * interval, STALE_SECONDS) + behind
        self.outdated = False
        """The files are not those that were opened, or hold a GPU more: they are to be opened anew."""

    def close(self) -> None:
        """Let go of every file."""
        for follower in self._followers:
            follower.close()

    @property
    def crowded(self) -> bool:
        """True if the run has so many files that the ranks' live blocks are read instead."""
        return self._crowd is not None

    @property
    def coming(self) -> Flags:
        """The GPUs of which something came just now, as flags [n_gpus]."""
        return time.monotonic() - self._came <= self._patience

    def stand(self) -> RunRow | None:
        """Return the run as all its files together say; None if not all of them have been asked."""
        if not self._stands or len(self._stands) < len(self._followers):
            return None
        return one_run([self._stands[number] for number in sorted(self._stands)])

    def look(self) -> None:
        """Read what has come since the last look, and count it into ``tally`` and ``answers``. Raises RecordingError."""
        asked: Sequence[int] = range(len(self._followers))
        if self._crowd is not None:
            blocks = self._crowd.read_new_blocks()
            if blocks is None:
                return
            self._take(blocks, self._crowd.spans(blocks, self.tally))
            self.outdated = self.outdated or self._crowd.has_strangers(blocks)
            over = {number for number, run in self._stands.items() if run.state not in ("running", "lost")}
            asked = [number for number in self._crowd.files_to_ask(blocks) if number not in over]
        for number in asked:
            if not self._poll(number):
                self.outdated = True
                return
            if self._crowd is not None:
                self._followers[number].close()  # there may be more than can be open at once

    def _take(self, blocks: Blocks, spans: Spans | None) -> None:
        """Count what is new in live blocks (None: nothing), and have the followers skip the rows that the blocks count."""
        for number, rowid in zip(blocks.file.tolist(), blocks.rowid.tolist(), strict=True):
            self._followers[number].skip_to(rowid)
            self._stands.pop(number, None)
        if spans is not None:
            self.tally.add_spans(spans)
            self.answers.add_spans(spans)
            self._came[spans.gpu] = self.arrived = time.monotonic()

    def _poll(self, number: int) -> bool:
        """Read what is new in the file with this index, and count it. Returns False if positions or rows no longer fit
        what was counted: it is another run or recording of the same name, or its samples were thinned before they were
        read."""
        follower = self._followers[number]
        read, more = 0, True
        while more and read < MOST_ROWS:
            before = follower.rowid
            news = follower.poll(ROWS_AT_ONCE)
            read, more = read + len(news.rows), news.more
            another = news.run is not None and news.run.run_id != self.run_id
            if another or news.anew or follower.rowid < before + len(news.rows):
                return False
            if news.rows:
                rows, _ = sound_samples(news.rows)
                self._add(rows, number)
            if news.processes and self._crowd is None:
                found = process_rows([row[1:] for row in news.processes], self._keys[number])
                newest_looks(((gpu, when - self._ahead[gpu], *rest) for gpu, when, *rest in found), self.looks)
        self.happened[number] = news.event, news.state
        self._stands.pop(number, None)
        if news.run is not None and not more:
            self._stands[number] = news.run._replace(state=news.state)
        return True

    def _add(self, rows: Floats, number: int) -> None:
        """Count rows of the file with this index. ``rows`` [n, 2 + stored metrics]: GPU key, time (unix s, by the node's
        clock) and values. Rows of GPUs that are not known are left out, and ``outdated`` becomes True."""
        gpu = self._places.gpus(number, rows[:, 0].astype(np.int64))
        if (gpu < 0).any():
            self.outdated = True
            rows, gpu = rows[gpu >= 0], gpu[gpu >= 0]
        if len(gpu):
            moment = rows[:, 1] - self._ahead[gpu]
            values = self.tally.add(gpu, moment, rows[:, 2:])
            self.answers.add(gpu, moment, values)
            self._came[gpu] = self.arrived = time.monotonic()


Look = tuple[float, tuple[GpuProcess, ...]]
"""When a GPU was looked at, unix s, and all processes that were recorded on it then; () if there was none."""


def newest_looks(rows: Iterable[tuple[Any, ...]], known: dict[int, Look]) -> None:
    """Enter the newest look at each GPU's processes into ``known``, by GPU, in place.

    ``rows``, in any order, are rows of ``gpu_processes`` (GPU, unix s, number of processes, one process's columns) with
    the position of the GPU in place of its key. A newer look replaces the one in ``known``; of an older one nothing is
    taken. Rows at the same time as the newest are added to it, so a row must not be passed twice.
    """
    for gpu, when, n, *values in rows:
        newest, processes = known.get(gpu, (-math.inf, ()))
        if newest < when:
            newest, processes = known[gpu] = when, ()
        if n and newest == when:
            known[gpu] = when, (*processes, GpuProcess(gpu, when, *values))
