"""Watching a recording, growing or finished: frame after frame of it, each as cheap as what is new in it.

What was there at the opening is read from rollups once; from then on only new rows are read, and counted. While the run
grows nothing is kept open in a transaction between two looks: that would keep the writer from trimming its log.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.model.analysis import Floats
from gssr.model.crowd import BEHIND_SECONDS, LOOK_SECONDS, Crowd, is_crowd
from gssr.model.crowd import News as BlockNews
from gssr.model.frame import STALE_SECONDS, Frame, Grid, Ints, Means, Query, State, nodes_of, over_space
from gssr.model.lens import Lens, newest
from gssr.model.tally import Tally
from gssr.model.timeline import Timelines
from gssr.model.watched_files import Files, identities, marks
from gssr.store.follow import Follower
from gssr.store.open import RecordingError
from gssr.store.reader import Recording, RunReader, open_recording
from gssr.store.records import Event, Gpu, Run, joined
from gssr.store.schema import GAP_INTERVALS

STALLED_SECONDS, STALLED_INTERVALS = 5.0, 5
"""A living run is stalled after max(5 s, 5 sampling intervals) without anything new."""
LOOK_AGAIN = 2.0
"""Seconds between two looks for files that came or went, and for events."""
OPEN_COSTS = 10
"""And at least so many times what reading all of them took."""
REREAD_SECONDS, REREAD_COSTS = 60.0, 100
"""What live blocks don't tell is read of all files anew after max(60 s, 100 times what that took)."""
ROWS_AT_ONCE = 50_000
MOST_ROWS = 4 * ROWS_AT_ONCE
"""What one look reads of each file at most: behind a fast writer the screen goes on, and catches up."""


class _Tail(NamedTuple):
    """One file that is followed, and the positions of its GPUs by their keys, from the key ``low`` on (-1: not of this
    run)."""

    follower: Follower
    low: int
    position: Ints


class _Opened(NamedTuple):
    """A run that was opened: what does not change while it grows."""

    gpus: tuple[Gpu, ...]
    nodes: tuple[str, ...]
    node_of: Ints
    interval: float
    tally: Tally
    lens: Lens
    timelines: Timelines
    crowd: Crowd | None


class Watch:
    """Watches one run of the recording at ``path`` (``run_id`` None: its newest). The file need not exist yet."""

    def __init__(self, path: str, run_id: str | None = None) -> None:
        self.path = path
        self._run_id = run_id
        self._recording: Recording | None = None
        self._reader: RunReader | None = None
        self._opened: _Opened | None = None
        self._tails: list[_Tail] = []
        self._files: Files = ()
        self._looked = -math.inf
        self._arrived = time.monotonic()
        self._run: Run | None = None
        self._recorded = "waiting"
        self._events: tuple[Event, ...] = ()
        self._happened: dict[int, int] = {}
        self._told: dict[int, int] | None = None
        """The newest event of each file, by its number: of those that are there, and of those in ``_events``."""
        self._stands: dict[int, Run] = {}
        """How each file that was asked says that the run stands, by its number."""
        self._came = np.empty(0)
        """[n_gpus]: when something came of each GPU, monotonic s."""
        self._reread = -math.inf
        self._cost = 0.0
        """When all files were read last, and how long that took."""
        self._problem: str | None = None
        self._gone = False
        self._shown: Frame | None = None
        self._marks: Files = ()
        """Of a lost run: the files' sizes and times, which tell that it is found again."""
        self.run_ids: tuple[str, ...] = ()
        """The runs of the recording, once it was opened, in the order they were recorded."""

    def close(self) -> None:
        """Let go of every file."""
        for tail in self._tails:
            tail.follower.close()
        self._tails = []
        self._let_go()

    def _let_go(self) -> None:
        if self._recording is not None:
            self._recording.close()
        self._recording = self._reader = None

    @property
    def growing(self) -> bool:
        """Whether more may come."""
        return self._recorded in ("waiting", "running")

    @property
    def pace(self) -> float:
        """Looking more often than after so many seconds shows nothing new."""
        return LOOK_SECONDS if self._opened is not None and self._opened.crowd is not None and self.growing else 0.0

    def look(self, query: Query, quick: bool = False) -> Frame:
        """The recording as it is now. Never raises for what is wrong with the files: the frame says it. With ``quick`` the
        columns of a large run may be wider than asked for (``refined`` is False then)."""
        begun = time.monotonic()
        try:
            self._look_for_files()
            if self._opened is not None and self.growing:
                self._follow(self._opened)
            frame = self._shown = self._frame(query, quick)
        except (RecordingError, OSError) as error:
            frame = self._unread(query, str(error))
        if self._reader is not None:
            self._cost = time.monotonic() - begun
        if self.growing:
            self._let_go()
        return frame

    # Files

    def _look_for_files(self) -> None:
        now = time.monotonic()
        if self._opened is not None and now - self._looked < max(LOOK_AGAIN, OPEN_COSTS * self._cost):
            return
        self._looked = now
        files = identities(self.path)
        if files and files == self._files and self._opened is not None:
            if self._gone:
                self._gone, self._problem = False, None
            if self.growing and self._opened.crowd is not None:
                if now - self._reread > max(REREAD_SECONDS, REREAD_COSTS * self._cost):
                    self._events, self._reread = self._read().events, now
                    self._opened.lens.renew()
            elif self.growing and self._happened != self._told:
                self._events, self._told = self._read().events, dict(self._happened)
            elif not self.growing and self._marks and self._marks != marks(files):
                self._open(files)
        elif files:
            self._open(files)
        elif self._opened is not None:
            self._gone = True
            self._problem = f"{self.path}: was removed; what was read of it stays on screen"

    def _open(self, files: Files) -> None:
        self.close()
        self._gone, self._problem = False, None
        before = marks(files)
        try:
            reader = self._read()
        except RecordingError as error:
            if self._opened is None and all(size == 0 for _, _, size in files):
                return  # made, and nothing in it yet
            self._files, self._problem = (), str(error)  # the next look may find more
            raise
        assert self._recording is not None
        self.run_ids = tuple(run.run.run_id for run in self._recording.runs)
        self._run, self._recorded, self._events = reader.run, reader.state, reader.events
        nodes, node_of = nodes_of(reader.gpus)
        interval = reader.sampling_seconds
        tails = reader.tails
        crowd = Crowd(tails, len(reader.gpus), interval) if self.growing and is_crowd(len(tails)) else None
        tally = Tally(reader, self.growing, None if crowd is None else crowd.others())
        if self.growing:
            self._tails = [
                _Tail(Follower(path, tally.stored, last), *_table(position)) for path, last, position in tails
            ]
        lens = Lens(tally, interval, len(reader.gpus), seldom=crowd is not None)
        self._problem = reader.damage
        self._opened = _Opened(reader.gpus, nodes, node_of, interval, tally, lens, Timelines(), crowd)
        self._stands, self._happened = {}, {}
        self._came = np.full(len(reader.gpus), -math.inf)
        self._reread = time.monotonic()
        self._files, self._told = files, None
        found_again = self._recorded == "lost" and reader is self._recording.runs[-1]
        self._marks = before if found_again else ()
        self._arrived = time.monotonic()

    def _read(self) -> RunReader:
        """The run; while it grows, as it is at this look."""
        if self._reader is None:
            self._recording = open_recording(self.path)
            runs = self._recording.runs
            wanted = self._run_id or (self._run.run_id if self._run else None)
            found = next((run for run in runs if run.run.run_id == wanted), None)
            if self._run_id is not None and found is None:
                raise RecordingError(f"{self.path}: holds no run {self._run_id}")
            self._reader = found or runs[-1]
        return self._reader

    # What is new

    def _follow(self, opened: _Opened) -> None:
        asked: Sequence[int] = range(len(self._tails))
        if opened.crowd is not None:
            news = opened.crowd.look(opened.tally)
            if news is None:
                return
            self._take(opened, news)
            over = {number for number, run in self._stands.items() if run.state not in ("running", "lost")}
            asked = [number for number in news.ask if number not in over]
        for number in asked:
            if not self._poll(opened, number):
                self._files = ()  # another recording of the same name: open it at the next look for files
                return
            if opened.crowd is not None:
                self._tails[number].follower.close()  # there may be more than can be open at once
        if self._stands and len(self._stands) == len(self._tails):
            self._run = joined([self._stands[number] for number in sorted(self._stands)])
            self._recorded = self._run.state
            if not self.growing:
                self._files = ()  # once more, with what the end has written
                self._looked = -math.inf

    def _take(self, opened: _Opened, news: BlockNews) -> None:
        """Count what the live blocks say."""
        for number, rowid in zip(news.new.tolist(), news.rowid.tolist(), strict=True):
            self._tails[number].follower.skip_to(rowid)
            self._stands.pop(number, None)
        if news.spans is not None:
            opened.tally.add_spans(news.spans)
            opened.lens.add_spans(news.spans)
            self._came[news.spans.gpu] = self._arrived = time.monotonic()
        if news.stranger:
            self._files = ()

    def _poll(self, opened: _Opened, number: int) -> bool:
        """Read what is new in a file; False when it is not the one it was."""
        follower, low, position = self._tails[number]
        read, more = 0, True
        while more and read < MOST_ROWS:
            before = follower.rowid
            news = follower.poll(ROWS_AT_ONCE)
            read, more = read + len(news.rows), news.more
            another = news.run is not None and self._run is not None and news.run.run_id != self._run.run_id
            if another or follower.rowid < before + len(news.rows):
                return False
            if news.rows:
                self._add(opened, np.array(news.rows, dtype=np.float64), low, position)
        self._happened[number] = news.event
        self._stands.pop(number, None)
        if news.run is not None and not more:
            self._stands[number] = news.run._replace(state=news.state)
        return True

    def _add(self, opened: _Opened, rows: Floats, low: int, position: Ints) -> None:
        """Count rows [n, 2 + stored metrics]: (GPU key, time, values)."""
        key = rows[:, 0].astype(np.int64) - low
        gpu = position[np.clip(key, -1, len(position) - 1)]  # the last entry stands for every unknown key
        if (gpu < 0).any():
            self._files = ()  # a GPU that was not there before: open anew at the next look for files
            self._looked = self._looked if opened.gpus else -math.inf
            rows, gpu = rows[gpu >= 0], gpu[gpu >= 0]
        if len(gpu):
            values = opened.tally.add(gpu, rows[:, 1], rows[:, 2:])
            opened.lens.add(gpu, rows[:, 1], values)
            self._came[gpu] = self._arrived = time.monotonic()

    # What is shown

    def _state(self, silent: float, interval: float) -> State:
        if self._recorded == "lost":
            return "lost"
        if not self.growing:
            return "ended"
        return "stalled" if silent > max(STALLED_SECONDS, STALLED_INTERVALS * interval) else "live"

    def _frame(self, query: Query, quick: bool) -> Frame:
        opened = self._opened
        if opened is None or not math.isfinite(opened.tally.last) or not opened.tally.metrics:
            return self._blank(query)
        tally, following = opened.tally, query.end is None
        shown = opened.lens.show(query, self._read, self.growing, quick)
        silent = time.monotonic() - self._arrived if self.growing else 0.0
        late = following and self.growing
        timeline = (
            opened.timelines.show(query, shown.grid, shown.window, opened.gpus, opened.node_of, self.growing)
            if query.rows
            else None
        )
        latest = tally.latest[tally.names.index(shown.metric)].copy() if following else newest(shown.grid.values)
        behind = 0.0 if opened.crowd is None else BEHIND_SECONDS
        patience = max(GAP_INTERVALS * opened.interval, STALE_SECONDS) + behind
        return Frame(
            path=self.path,
            query=query,
            state=self._state(silent, opened.interval),
            run=self._run,
            gpus=opened.gpus,
            nodes=opened.nodes,
            node_of=opened.node_of,
            first=tally.first,
            last=tally.last,
            now=tally.last + silent if late else shown.recent.end,
            silent=silent,
            sampling_seconds=opened.interval,
            n_rows=tally.n_rows,
            n_gaps=tally.n_gaps.copy(),
            last_time=tally.last_time.copy(),
            latest=latest,
            grid=shown.grid,
            space=shown.space,
            whole=tally.whole(),
            recent=shown.recent,
            window=shown.window,
            moment=shown.moment,
            host=shown.host,
            events=self._events,
            problem=self._problem,
            following=following,
            refined=shown.refined,
            active_from=shown.active_from,
            timeline=timeline,
            coming=time.monotonic() - self._came <= patience if late else None,
            reread=time.monotonic() - self._reread if self.growing and opened.crowd is not None else None,
        )

    def _unread(self, query: Query, problem: str) -> Frame:
        """What was shown before, now that the recording can't be read."""
        if self._shown is None:
            self._problem = self._problem or problem
            return self._blank(query)
        silent = time.monotonic() - self._arrived if self.growing else 0.0
        return replace(
            self._shown,
            state=self._state(silent, self._shown.sampling_seconds),
            silent=silent,
            now=self._shown.last + silent if self._shown.following else self._shown.now,
            problem=self._problem or problem,
        )

    def _blank(self, query: Query) -> Frame:
        """Nothing to show yet."""
        gpus = self._opened.gpus if self._opened else ()
        nodes, node_of = nodes_of(gpus)
        nothing = np.full(len(gpus), np.nan)
        values = np.full((len(gpus), max(query.columns, 1)), np.nan)
        means = Means((), 0.0, 0.0, np.zeros((0, len(gpus))), np.zeros((0, len(gpus))))
        silent = time.monotonic() - self._arrived
        interval = self._opened.interval if self._opened else 0.0
        return Frame(
            path=self.path,
            query=query,
            state="waiting" if self._run is None else self._state(silent, interval),
            run=self._run,
            gpus=gpus,
            nodes=nodes,
            node_of=node_of,
            first=0.0,
            last=0.0,
            now=0.0,
            silent=silent,
            sampling_seconds=interval,
            n_rows=0,
            n_gaps=np.zeros(len(gpus), np.int64),
            last_time=nothing,
            latest=nothing,
            grid=Grid(query.metric, 0.0, 1.0, values, 0.0),
            space=over_space(values),
            whole=means,
            recent=means,
            window=means,
            moment={},
            host=None,
            events=self._events,
            problem=self._problem,
            following=query.end is None,
        )


def _table(position: dict[int, int]) -> tuple[int, Ints]:
    """The lowest key, and from that on positions by key; -1 for keys between that are unknown, and at the end, for all
    others."""
    low = min(position, default=0)
    table = np.full(max(position, default=low - 1) - low + 2, -1, np.int64)
    for key, place in position.items():
        table[key - low] = place
    return low, table
