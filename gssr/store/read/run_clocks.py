"""The clocks of a run's nodes as its reader corrects them: what to take off which times, and which rows are whose.

A file keeps what each node's own clock told, and its buckets are aligned to that clock. So a window is moved onto the node's
clock before a file is asked, and what comes back is moved onto the run's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gssr.arrays import Ints
from gssr.store.format.buckets import Buckets
from gssr.store.format.rows import Event, Gpu, Process, RunRow
from gssr.store.read.host_use import OwnerNames
from gssr.store.read.recording_file import Part, positions_by_key
from gssr.store.read.time_window import Window

FIRST_AND_LAST = slice(2, 4)
"""Where the vector of a rollup has the times of its first and last sample: gssr.store.format.layout."""


class RunClocks:
    """How far the nodes' clocks of one run are ahead of the run's own time, s. It is false where no clock is off.
    ``ahead``: as of ``clocks_ahead``."""

    def __init__(self, ahead: Mapping[str | None, tuple[float, float]]) -> None:
        self._ahead = {node: seconds for node, (seconds, _) in ahead.items()}

    def __bool__(self) -> bool:
        return bool(self._ahead)

    def of(self, node: str | None) -> float:
        """Return how far a node's clock is ahead, s; 0 where it is not off."""
        return self._ahead.get(node, 0.0)

    @property
    def widest(self) -> tuple[float, float]:
        """The largest distances of the clocks from the run's, s: of the one furthest behind (negative or 0), and of the
        one furthest ahead (positive or 0)."""
        return min(0.0, *self._ahead.values(), 0.0), max(0.0, *self._ahead.values(), 0.0)

    def correct_processes(self, processes: Sequence[Process]) -> list[Process]:
        """Return the processes with all their times by the run's clock."""
        return [
            process._replace(
                started_at=self._moved(process.started_at, process.node),
                ended_at=self._moved(process.ended_at, process.node),
                booted_at=self._moved(process.booted_at, process.node),
            )
            for process in processes
        ]

    def correct_run(self, run: RunRow, processes: Sequence[Process]) -> RunRow:
        """Return the run from the first start of its (corrected) processes to their last end."""
        starts = [process.started_at for process in processes if process.started_at is not None]
        ends = [process.ended_at for process in processes if process.ended_at is not None]
        ended_at = run.ended_at if run.ended_at is None else max(ends, default=run.ended_at)
        return run._replace(started_at=min(starts, default=run.started_at), ended_at=ended_at)

    def correct_event(self, event: Event) -> Event:
        """Return it with its time by the run's clock."""
        return event._replace(time=event.time - self.of(event.node))

    def _moved(self, time: float | None, node: str | None) -> float | None:
        return None if time is None else time - self.of(node)

    def split(self, part: Part, gpus: Sequence[Gpu], run_id: str) -> list[Part]:
        """Split the rows of a run in one file into parts, one for the GPUs of each clock, each with ``ahead`` set to how
        far that clock is ahead of the run's, s. ``gpus``: the run's GPUs, by position. The range of rowids of a part in
        a merged file may hold rows of other clocks."""
        ahead = {key: self.of(gpus[at].node) for key, at in part.position.items()}
        clocks = list(dict.fromkeys(ahead.values()))
        if len(clocks) <= 1:
            return [part._replace(ahead=next(iter(clocks), 0.0))]
        rows: dict[float, list[int]] = {}
        for first, last in part.shard.ends(run_id):
            key, _ = part.shard.sample_at(first)
            for clock in [ahead[key]] if key in ahead else clocks:  # where its first row counts for none, others may
                rows.setdefault(clock, []).extend((first, last))
        found = []
        for clock, own in rows.items():
            position = {key: at for key, at in part.position.items() if ahead[key] == clock}
            by_key = positions_by_key(position)
            piece = part._replace(position=position, by_key=by_key, whole=False, ahead=clock)
            found.append(piece._replace(first=min(own), last=max(own)))
        return found

    def owners(self, processes: Sequence[Process], by_rank: bool) -> list[tuple[float, OwnerNames]]:
        """Sort the owners of the rows of ``host_samples`` (nodes) or with ``by_rank`` ``workload_samples`` (ranks) of a file
        with these processes by their clocks. Returns for each clock how far it is ahead of the run's, s, and the owners
        (None: all of the file's)."""
        if not self:
            return [(0.0, None)]
        clocks: dict[float, dict[str | int, None]] = {}
        for process in processes:
            name = process.rank if by_rank else process.node
            if name is not None:
                clocks.setdefault(self.of(process.node), {})[name] = None
        if len(clocks) <= 1:
            return [(next(iter(clocks), 0.0), None)]
        return [(ahead, tuple(names)) for ahead, names in clocks.items()]  # type: ignore[misc]


def move_window(window: Window, ahead: float) -> Window:
    """Shift a window of the run's time onto a clock that is ``ahead`` s ahead of it."""
    return Window(window.start + ahead, window.end + ahead) if ahead else window


def correct_buckets(buckets: Buckets, ahead: float) -> Buckets:
    """Set the times of buckets, which a clock told that is ``ahead`` s ahead, by the run's clock."""
    if not ahead:
        return buckets
    vectors = buckets.vectors.copy()
    vectors[:, FIRST_AND_LAST] -= ahead
    return replace(buckets, start=buckets.start - ahead, vectors=vectors)


def steps_of(buckets: Buckets, level: int) -> Ints:
    """Return the number of the step of ``level`` seconds in which the middle of each bucket's samples lies: a bucket of a
    clock that was corrected lies across two."""
    steps: Ints = np.floor(buckets.vectors[:, FIRST_AND_LAST].mean(axis=1) / level).astype(np.int64)
    return steps
