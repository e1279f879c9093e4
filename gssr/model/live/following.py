"""Following a run that grows: what comes is counted, from the rows of its files or, where they are very many, from their
live blocks."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.live.answers import Lens
from gssr.model.live.frame import STALE_SECONDS
from gssr.model.live.many_files import BEHIND_SECONDS, Crowd, News, is_crowd
from gssr.model.live.run_totals import Tally
from gssr.store.format.plausible import sound_samples
from gssr.store.format.rows import Run, one_run
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.read.follow import Follower
from gssr.store.read.recording import RunReader

ROWS_AT_ONCE = 50_000
MOST_ROWS = 4 * ROWS_AT_ONCE
"""What one look reads of each file at most: behind a fast writer the screen goes on, and catches up."""


class _Tail(NamedTuple):
    """One file that is followed, and the positions of its GPUs by their keys, from the key ``low`` on (-1: not of this
    run)."""

    follower: Follower
    low: int
    position: Ints


class Following:
    """Knows the run that ``reader`` reads, in its ``tally`` and ``lens``, and while it is ``growing`` what comes of it."""

    def __init__(self, reader: RunReader, growing: bool) -> None:
        tails, n_gpus, interval = reader.tails, len(reader.gpus), reader.sampling_seconds
        self._crowd = Crowd(tails, n_gpus, interval) if growing and is_crowd(len(tails)) else None
        self.tally = Tally(reader, growing, None if self._crowd is None else self._crowd.others())
        self.lens = Lens(self.tally, interval, n_gpus, seldom=self.crowded)
        self._tails = (
            [_Tail(Follower(path, self.tally.stored, last), *_table(position)) for path, last, position in tails]
            if growing
            else []
        )
        self._run_id = reader.run.run_id
        self._stands: dict[int, Run] = {}
        """How each file that was asked says that the run stands, by its number."""
        self.happened: dict[int, int] = {}
        """The newest event of each file that was asked, by its number."""
        self.arrived = time.monotonic()
        """When something came, monotonic s."""
        self._came = np.full(n_gpus, -math.inf)
        behind = BEHIND_SECONDS if self.crowded else 0.0
        self._patience = max(GAP_INTERVALS * interval, STALE_SECONDS) + behind
        self.outdated = False
        """The files are not those that were opened, or hold a GPU more: they are to be opened anew."""

    def close(self) -> None:
        """Let go of every file."""
        for tail in self._tails:
            tail.follower.close()

    @property
    def crowded(self) -> bool:
        """Whether live blocks are read."""
        return self._crowd is not None

    @property
    def coming(self) -> Flags:
        """[n_gpus]: something came of the GPU just now."""
        return time.monotonic() - self._came <= self._patience

    def stand(self) -> Run | None:
        """The run as all files together say; None when not all of them have been asked."""
        if not self._stands or len(self._stands) < len(self._tails):
            return None
        return one_run([self._stands[number] for number in sorted(self._stands)])

    def look(self) -> None:
        """Count what is new. Raises RecordingError."""
        asked: Sequence[int] = range(len(self._tails))
        if self._crowd is not None:
            news = self._crowd.look(self.tally)
            if news is None:
                return
            self._take(news)
            over = {number for number, run in self._stands.items() if run.state not in ("running", "lost")}
            asked = [number for number in news.ask if number not in over]
        for number in asked:
            if not self._poll(number):
                self.outdated = True
                return
            if self._crowd is not None:
                self._tails[number].follower.close()  # there may be more than can be open at once

    def _take(self, news: News) -> None:
        """Count what the live blocks say."""
        for number, rowid in zip(news.new.tolist(), news.rowid.tolist(), strict=True):
            self._tails[number].follower.skip_to(rowid)
            self._stands.pop(number, None)
        if news.spans is not None:
            self.tally.add_spans(news.spans)
            self.lens.add_spans(news.spans)
            self._came[news.spans.gpu] = self.arrived = time.monotonic()
        self.outdated = self.outdated or news.stranger

    def _poll(self, number: int) -> bool:
        """Read what is new in a file; False when that can't be had: it is another recording of the same name, or its
        samples were thinned before they were read."""
        follower, low, position = self._tails[number]
        read, more = 0, True
        while more and read < MOST_ROWS:
            before = follower.rowid
            news = follower.poll(ROWS_AT_ONCE)
            read, more = read + len(news.rows), news.more
            another = news.run is not None and news.run.run_id != self._run_id
            if another or news.anew or follower.rowid < before + len(news.rows):
                return False
            if news.rows:
                rows, _ = sound_samples(news.rows)
                self._add(rows, low, position)
        self.happened[number] = news.event
        self._stands.pop(number, None)
        if news.run is not None and not more:
            self._stands[number] = news.run._replace(state=news.state)
        return True

    def _add(self, rows: Floats, low: int, position: Ints) -> None:
        """Count rows [n, 2 + stored metrics]: (GPU key, time, values)."""
        key = rows[:, 0].astype(np.int64) - low
        gpu = position[np.clip(key, -1, len(position) - 1)]  # the last entry stands for every unknown key
        if (gpu < 0).any():
            self.outdated = True
            rows, gpu = rows[gpu >= 0], gpu[gpu >= 0]
        if len(gpu):
            values = self.tally.add(gpu, rows[:, 1], rows[:, 2:])
            self.lens.add(gpu, rows[:, 1], values)
            self._came[gpu] = self.arrived = time.monotonic()


def _table(position: dict[int, int]) -> tuple[int, Ints]:
    """The lowest key, and from that on positions by key; -1 for keys between that are unknown, and at the end, for all
    others."""
    low = min(position, default=0)
    table = np.full(max(position, default=low - 1) - low + 2, -1, np.int64)
    for key, place in position.items():
        table[key - low] = place
    return low, table
