"""A recording to be watched, growing or finished: each look at it is as cheap as what is new in it.

What was there at the opening is read from rollups once; from then on only new rows are read, and counted. While the run
grows nothing is kept open in a transaction between two looks: that would keep the writer from trimming its log.
"""

import math
import time
from dataclasses import replace

import numpy as np

from gssr.metrics import OF_NODES
from gssr.model.live.answers import last_known_values
from gssr.model.live.following import LOOK_SECONDS, FollowedRun, Look, newest_looks
from gssr.model.live.judge_blocks import judge_blocks
from gssr.model.live.live_result import Query, Result, State, UnreadableError, nothing_yet
from gssr.model.live.watch import Watch
from gssr.model.live.watched_files import Files, identities, marks
from gssr.model.results import Judgement
from gssr.store.format.rank_ends import RankEnd
from gssr.store.format.rows import SILENT_SECONDS, Event, GpuProcess, RunRow
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RecordingReader, RunReader, open_recording
from gssr.store.read.time_window import Window

LOOK_AGAIN = 2.0
"""Seconds between two looks for files that came or went, and for events."""
OPEN_COSTS = 10
"""And at least so many times what reading all of them took."""
_EDGE = 1e-6
REREAD_SECONDS, REREAD_COSTS = 60.0, 100
"""What live blocks don't tell is read of all files anew after max(60 s, 100 times what that took)."""


class _ChangedError(Exception):
    """The recording as it is read now has other GPUs than when it was opened, so that positions differ."""


class WatchedRecording(Watch):
    """Watches one run of the recording at ``path`` (``run_id`` None: its newest). The file need not exist yet."""

    run_ids: tuple[str, ...] = ()
    """The runs of the recording, once it was opened, in the order in which they began."""
    files_opened: tuple[int, int] = 0, 0
    """How many of its files were opened when they were opened last, and of how many."""
    arrived = 0.0
    """When something new came last."""

    def __init__(self, path: str, run_id: str | None = None) -> None:
        self.path = path
        self._run_id = run_id
        self._recording: RecordingReader | None = None
        self._reader: RunReader | None = None
        self._opened: FollowedRun | None = None
        self._files: Files = ()
        self._looked = -math.inf
        self.arrived = time.monotonic()
        self._run: RunRow | None = None
        self._recorded = "waiting"
        self._events: tuple[Event, ...] = ()
        self._told: dict[int, tuple[int, str]] | None = None
        """Following.happened, of what is in ``_events``."""
        self._reread = -math.inf
        self._cost = 0.0
        """When all files were read last, and how long that took."""
        self._ranks_missing: tuple[int, ...] = ()
        self._ranks_stopped: tuple[RankEnd, ...] = ()
        self._problem: str | None = None
        self._gone = False
        self._newest_of_nodes = -math.inf
        """The newest sample of a run without GPUs, unix s."""
        self._marks: Files = ()
        """Of a lost run: the files' sizes and times, which tell that it is found again."""

    def _note_progress(self, done: int, n_files: int) -> None:
        self.files_opened = done, n_files

    def close(self) -> None:
        """Let go of every file."""
        if self._opened is not None:
            self._opened.close()
        self._let_go()

    def _let_go(self) -> None:
        """Close the recording, and forget its reader."""
        if self._recording is not None:
            self._recording.close()
        self._recording = self._reader = None

    @property
    def growing(self) -> bool:
        """True while more samples may come."""
        return self._recorded in ("waiting", "running")

    @property
    def pace(self) -> float:
        """Looking more often than after so many seconds shows nothing new."""
        return LOOK_SECONDS if self.growing and self._opened is not None and self._opened.crowded else 0.0

    def read_result(self, query: Query, quick: bool) -> Result:
        """Return what the query asks for of the recording as it is now, read anew as far as files have changed. With
        ``quick`` the columns of a large run may be wider than asked for, or left out. A recording that may still grow is
        closed again after each look, unless it was just opened and columns were left out. Raises UnreadableError."""
        begun, is_open, refined = time.monotonic(), self._reader is not None, True
        try:
            try:
                frame = self._look(query, quick)
            except _ChangedError:  # all of the frame is read anew, from the files as they are at one moment
                self._open(identities(self.path))
                frame = self._frame(query, quick)
            refined = frame.refined
        except (RecordingError, OSError) as error:
            raise UnreadableError(self._problem or str(error)) from error
        finally:
            if self._reader is not None:
                self._cost = time.monotonic() - begun
            if self.growing and (refined or is_open):
                self._let_go()
        return frame

    def _look(self, query: Query, quick: bool) -> Result:
        """Read what is new, and draw up the frame. Raises _ChangedError."""
        before = self._reader
        self._look_for_files()
        opened, is_new = self._opened, self._reader is not before
        # What came since the files were opened just now is for the next look: no column read from them would hold it.
        if opened is not None and self.growing and (self._reader is None or (opened.crowded and is_new)):
            self._follow(opened)
        return self._frame(query, quick)

    # Files

    def _look_for_files(self) -> None:
        """Look, if it is due, whether files came, went or changed, and open or read them anew. Raises RecordingError."""
        now = time.monotonic()
        if self._opened is not None and now - self._looked < max(LOOK_AGAIN, OPEN_COSTS * self._cost):
            return
        self._looked = now
        files = identities(self.path)
        if files and files == self._files and self._opened is not None:
            if self._gone:
                self._gone, self._problem = False, None
            opened = self._opened
            if self.growing and opened.crowded:
                if now - self._reread > max(REREAD_SECONDS, REREAD_COSTS * self._cost):
                    self._take_small_tables(self._read())
                    self._reread = now
                    opened.answers.renew()
                    opened.host.renew()
            elif self.growing and opened.happened != self._told:
                self._take_small_tables(self._read())
                self._told = dict(opened.happened)
                self._let_go()  # what is read for columns has to hold all rows that were followed
            elif not self.growing and self._marks and self._marks != marks(files):
                self._open(files)
        elif files:
            self._open(files)
        elif self._opened is not None:
            self._gone = True
            self._problem = f"{self.path}: was removed; what was read of it stays on screen"

    def _open(self, files: Files) -> None:
        """Open the recording anew, and begin to follow its run. Does nothing if the file was just made and is still
        empty. Raises RecordingError if it can't be read; the next look then tries again."""
        self.close()
        self._gone, self._problem = False, None
        before = marks(files)
        try:
            reader = self._reopen()
        except RecordingError as error:
            if self._opened is None and all(size == 0 for _, _, size in files):
                return  # made, and nothing in it yet
            self._files, self._problem = (), str(error)  # the next look may find more
            raise
        assert self._recording is not None
        self.run_ids = tuple(run.run.run_id for run in self._recording.runs)
        self._run, self._recorded = reader.run, reader.state
        self._take_small_tables(reader)
        self._problem = reader.damage
        self._opened = FollowedRun(reader, self.growing)
        self._reread = time.monotonic()
        self._files, self._told = files, None
        found_again = self._recorded == "lost" and reader is self._recording.runs[-1]
        self._marks = before if found_again else ()
        self.arrived = time.monotonic()

    def _take_small_tables(self, reader: RunReader) -> None:
        self._events, self._ranks_stopped = reader.events, reader.stopped_ranks
        self._ranks_missing = reader.ranks_missing or ()

    def _read(self) -> RunReader:
        """Return the opened run; while it grows, as it is at this look. Raises _ChangedError where it has other GPUs by
        now: ranks have begun, or their files were merged, and positions in what is read are not those in what is known."""
        if self._reader is None:
            reader, opened = self._reopen(), self._opened
            if opened is not None and (reader.run.run_id, reader.gpus) != (opened.run_id, opened.gpus):
                raise _ChangedError
        assert self._reader is not None
        return self._reader

    def _reopen(self) -> RunReader:
        """Open the recording anew and return the run that is asked for, else the one that is watched, else the newest,
        as it is now. Raises RecordingError, also if the run that is asked for is not there."""
        self._recording = open_recording(self.path, self._note_progress)
        runs = self._recording.runs
        wanted = self._run_id or (self._run.run_id if self._run else None)
        found = next((run for run in runs if run.run.run_id == wanted), None)
        if self._run_id is not None and found is None:
            raise RecordingError(f"{self.path}: holds no run {self._run_id}")
        self._reader = found or runs[-1]
        return self._reader

    # What is new

    def _follow(self, run: FollowedRun) -> None:
        """Read what has come of the run, and look whether it has ended or must be opened anew."""
        run.look()
        self.arrived = max(self.arrived, run.arrived)
        if run.outdated:
            self._files = ()  # open them at the next look for files
            self._looked = self._looked if len(run.tally.rows) else -math.inf
        stand = run.stand()
        if stand is not None:
            self._run, self._recorded = stand, stand.state
            if not self.growing:
                self._files = ()  # once more, with what the end has written
                self._looked = -math.inf

    # What is shown

    @property
    def _state(self) -> State:
        """Return in which state the run is: "waiting" before it was opened, "lost", "live" while it grows, else "ended"."""
        if self._run is None:
            return "waiting"
        return "lost" if self._recorded == "lost" else "live" if self.growing else "ended"

    def _frame(self, query: Query, quick: bool) -> Result:
        """Draw up the frame that a query asks for, of what was read."""
        opened = self._opened
        if opened is not None and not opened.gpus:
            return self._of_nodes(query, opened)
        if opened is None or not opened.tally.metrics or math.isnan(opened.tally.last):
            return self._blank(query)
        if query.metric in OF_NODES:
            own = np.flatnonzero(np.isin(opened.node_of, query.gpus)) if query.gpus else ()
            base = self._frame(replace(query, metric="", gpus=tuple(np.asarray(own).tolist()), rows=0), quick)
            return opened.host.frame(query, base, self._read, self.growing) or base
        tally, late = opened.tally, self.growing and query.end is None
        known = replace(
            nothing_yet(self.path, query, self._state, self._problem),
            run=self._run,
            gpus=opened.gpus,
            nodes=opened.nodes,
            node_of=opened.node_of,
            first=tally.first,
            last=tally.last,
            sampling_seconds=opened.interval,
            n_rows=tally.n_rows,
            n_gaps=tally.n_gaps.copy(),
            first_time=tally.first_time.copy(),
            last_time=tally.last_time.copy(),
            newest=tally.latest.copy() if late else None,
            whole=tally.whole(),
            events=self._events,
            coming=opened.coming if late else None,
            thinned=tally.thinned,
            ranks_missing=self._ranks_missing,
            ranks_stopped=self._ranks_stopped,
            reread=time.monotonic() - self._reread if self.growing and opened.crowded else None,
        )
        frame = opened.answers.show(known, self._read, self.growing, quick)
        on_gpus = self._processes_at(opened, frame.window.end, late)
        metric = tally.names.index(frame.grid.metric)
        frame = replace(
            frame,
            now=tally.last if late else frame.recent.end,
            latest=tally.latest[metric].copy() if frame.following else last_known_values(frame.grid.values),
            timeline=opened.timelines.show(query, frame.grid, frame.window, opened.gpus, opened.node_of, self.growing)
            if query.rows
            else None,
            processes=tuple(process for own in on_gpus.values() for process in own),
            without_process=frozenset(gpu for gpu, own in on_gpus.items() if not own),
        )
        if query.beside:
            frame = opened.host.beside(frame, self._read, self.growing)
        judged = frame.reread is not None and query.causes is not None and frame.refined
        return self._judged(frame, opened, quick) if judged else frame

    def _of_nodes(self, query: Query, run: FollowedRun) -> Result:
        """Return the frame of a run without GPUs."""
        blank = self._blank(query)
        frame = run.host.frame(query, blank, self._read, self.growing)
        if frame is None:
            return blank
        if frame.last > self._newest_of_nodes:
            self.arrived, self._newest_of_nodes = time.monotonic(), frame.last
        return frame

    def _processes_at(self, run: FollowedRun, end: float, live: bool) -> dict[int, tuple[GpuProcess, ...]]:
        """Return the processes on each GPU, by its position, at the newest look at them in the SILENT_SECONDS before
        ``end`` (unix s); GPUs without one are missing. ``live``: what was followed is used, otherwise the recording is
        read. {} for a run of very many files."""
        if run.crowded:
            return {}

        def read() -> dict[int, Look]:
            """Read the newest looks before ``end``."""
            found: dict[int, Look] = {}
            for rows in self._read().gpu_processes(Window(end - SILENT_SECONDS, end + _EDGE)):
                newest_looks(rows, found)
            return found

        known = run.looks if live else run.kept.find(("processes", end), read)
        return {gpu: own for gpu, (when, own) in sorted(known.items()) if when >= end - SILENT_SECONDS}

    def _judged(self, frame: Result, run: FollowedRun, quick: bool) -> Result:
        """Return the frame of a run of very many files with a judgement of what their live blocks counted. It is kept
        for some seconds. ``quick``: columns that are read for it may be coarser."""
        query, table = frame.query, frame.query.causes
        assert table is not None

        def judge_now() -> Judgement:
            """Judge the frame's window by what tells work from waiting."""
            lead, grid = run.tally.best(), frame.grid
            if lead is not None and lead != grid.metric:
                own = replace(query, metric=lead, cursor=None, activity=False)
                grid = run.answers.show(replace(frame, query=own), self._read, True, quick).grid
            return judge_blocks(replace(frame, grid=grid), table)

        judgement = run.kept.find(("judgement", query.span, query.end, query.gpus, table), judge_now, growing=True)
        return replace(frame, judgement=judgement)

    def _blank(self, query: Query) -> Result:
        """Return the frame of a run that has nothing to show yet."""
        opened = self._opened
        blank = nothing_yet(self.path, query, self._state, self._problem, opened.gpus if opened else ())
        return replace(blank, run=self._run, sampling_seconds=opened.interval if opened else 0.0, events=self._events)
