"""Writing what files of other tools say as one recording: whole, or as it comes.

Series of one job that overlap in time are nodes of one run; others are runs of their own. Each is read once, in the order of
time, so that a file may be larger than memory.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.series import ForeignError, ForeignGpu, ForeignSeries, ImportHints, Note
from gssr.metrics import NAMES
from gssr.store.format.limits import GREATEST, LATEST
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS
from gssr.store.liveness import boot_id, process_start
from gssr.store.read.open import RecordingError
from gssr.store.write.bulk import BulkWriter
from gssr.store.write.pending import Value
from gssr.store.write.writer import Writer
from gssr.version import __version__

_ROWS_AT_ONCE = 1 << 16
_MOST_NOTES = 200
"""Events that say what is uncertain about a file; of more a number is said."""
_LEAST_FREE = 128_000_000
"""Bytes that an import leaves of a disk, for whoever else needs some."""
_SPACING_ROWS = 20_000
"""Rows from which the sampling interval is told, where nobody says it."""


def begin_run(
    writer: Writer, start: float, interval: float, known: Mapping[str, Value], process: Mapping[str, Value]
) -> None:
    """Begin a run that another tool has recorded.

    Args:
        start: unix s.
        interval: seconds between samples.
        known: more columns of the table ``runs``, which override the defaults.
        process: more columns of its row of ``processes``.

    Raises RecordingError.
    """
    run: dict[str, Value] = {
        "run_id": f"imported-{start:.0f}-{os.urandom(4).hex()}", "command": "[]", "started_at": start,
        "sampling_ms": 1000 * interval, "state": "running", "gssr_version": __version__,
    }  # fmt: skip
    own: dict[str, Value] = {"rank": 0, "started_at": start, "state": "running"}
    writer.begin(run | dict(known), own | dict(process))


def spacing(time: Floats, position: Ints) -> float | None:
    """Return the median seconds between two rows of one GPU, rounded to the millisecond and at least 0.001. ``time``
    and ``position`` (the GPU) are of each row, in any order. None if no GPU has two rows at different times."""
    order = np.lexsort((time, position))
    apart = np.diff(time[order])[np.diff(position[order]) == 0]
    apart = apart[apart > 0]
    return max(round(float(np.median(apart)), 3), 0.001) if len(apart) else None


class Written(NamedTuple):
    """What was written: the number of rows and runs, and ``problems``, sentences about what could not be read."""

    n_rows: int
    n_runs: int
    problems: tuple[str, ...]


def write(path: str, found: Sequence[ForeignSeries], told: ImportHints, apart: bool = False) -> Written:
    """Write a new recording of all series. Series of one job step that overlap in time become one run, or, with
    ``apart``, each its own. Raises RecordingError if no series has a row, the disk is nearly full, or the recording
    cannot be written."""
    of_job: dict[tuple[str | int | None, ...], list[Cursor]] = {}
    every = [Cursor(each, told.host or (each.stem if len(found) > 1 else None)) for each in found]
    for at, cursor in enumerate(every):
        series = cursor.series
        own = at if apart else None
        of_job.setdefault((series.run_id, series.cluster, series.job_id, series.step_id, own), []).append(cursor)
    n_runs = n_rows = 0
    run_ids: set[str] = set()
    for cursors in of_job.values():
        for run in _runs_of(cursors, lambda: RunFrom(BulkWriter(path, append=n_runs > 0), told, run_ids)):  # noqa: B023
            n_runs, n_rows = n_runs + 1, n_rows + run.n_rows
    problems = tuple(dict.fromkeys(cursor.problem for cursor in every if cursor.problem))
    if not n_rows:
        raise ForeignError("; ".join(problems[:3]) or "there is nothing to be imported")
    return Written(n_rows, n_runs, problems)


def _runs_of(cursors: Sequence["Cursor"], begin: Callable[[], "RunFrom"]) -> Iterator["RunFrom"]:
    """Write the runs that the series of one job step make up. ``begin`` is called for each new run. Yields each run
    once it is finished."""
    run: RunFrom | None = None
    while heads := [(float(cursor.head.time[0]), at) for at, cursor in enumerate(cursors) if cursor.head is not None]:
        start, at = min(heads)
        first = cursors[at]
        if run is not None and run.holds_enough:
            run.write_until(start)
        if run is not None and start > run.end and not any(own.head is not None for own in run.cursors):
            run.finish()
            yield run
            run = None
        run = run or begin()
        run.take(first)
        first.advance()
    if run is not None:
        run.finish()
        yield run


class Cursor:
    """The reading position in a series. ``head``: its next piece, whose rows ascend in time; None at the end. ``node``:
    the name for the node of GPUs whose node the file does not say. ``positions``: for each GPU of the series its
    position in the run, -1 if it is left out. ``n_timeless``: rows left out as their time cannot be; ``n_late``: rows
    that step back in time. ``problem``: a sentence if reading failed or there are no samples, else ""."""

    def __init__(self, series: ForeignSeries, node: str | None) -> None:
        self.series, self.node = series, node
        self.positions: list[int] = []
        self.n_notes = self.n_timeless = self.n_late = 0
        self.problem = ""
        self.head: Samples | None = None
        self.advance()
        if self.head is None and not self.problem:
            said = "; ".join(note.text for note in series.notes[:2])
            self.problem = f"{series.file}: holds no samples{f': {said}' if said else ''}"

    def advance(self) -> None:
        """Read the next piece that has rows into ``head``, and forget the one before; None at the end. If reading
        fails, ``problem`` is set and ``head`` is None."""
        try:
            self.head = next((piece for piece in map(self._dated, self.series.pieces) if len(piece.time)), None)
        except ForeignError as error:
            self.head, self.problem = None, str(error)

    def _dated(self, piece: Samples) -> Samples:
        """Return the piece with rows in ascending time, without those whose time lies outside 1970 to LATEST."""
        dated = (piece.time >= 0) & (piece.time <= LATEST)
        if dated.all() and not (np.diff(piece.time) < 0).any():
            return piece
        self.n_timeless += int((~dated).sum())
        rows = np.flatnonzero(dated)
        rows = rows[np.argsort(piece.time[rows], kind="stable")]
        return Samples(piece.gpu[rows], piece.time[rows], {name: own[rows] for name, own in piece.values.items()})

    def notes(self) -> Iterator[Note]:
        """Yield the notes of the series that were added since the last call."""
        notes = self.series.notes
        yield from notes[self.n_notes :]
        self.n_notes = len(notes)


class RunFrom:
    """One run that is written from series. With a BulkWriter call ``write_until``: rows are written in the order of
    time, in large batches. With any other Writer, whose recording is watched meanwhile, call ``write_what_came``.
    ``run_ids`` are the names of the recording's runs so far: the run keeps the name that GSSR gave it unless it is among
    them, and is added.
    ``start`` and ``end`` are the times of the first and last row, unix s (infinite before the first); ``n_rows`` counts
    rows written."""

    def __init__(self, writer: Writer, told: ImportHints, run_ids: set[str] | None = None) -> None:
        self._writer, self._told = writer, told
        self._run_ids = set() if run_ids is None else run_ids
        self.cursors: list[Cursor] = []
        self.n_rows = self._n_held = 0
        self.start, self.end = math.inf, -math.inf
        """Times of the first and the last row, unix s."""
        self._held: list[Samples] = []
        self._enough = _ROWS_AT_ONCE
        self._begun = False
        self._written_until = -math.inf
        self._gpus: list[Mapping[str, Value]] = []
        self._n_added = 0
        self._owner: dict[tuple[str | None, str | int | None], Cursor] = {}
        self._said: set[tuple[str, int | None]] = set()
        self._unsaid: list[tuple[Note, int | None]] = []

    @property
    def holds_enough(self) -> bool:
        """Whether it is time to write."""
        return self._n_held >= self._enough

    def take(self, cursor: Cursor) -> None:
        """Hold the cursor's ``head`` for writing; does nothing if it is None. Does not advance the cursor."""
        piece = cursor.head
        if piece is None:
            return
        if cursor not in self.cursors:
            self.cursors.append(cursor)
        self._take_gpus(cursor)
        position = np.asarray(cursor.positions, np.int64)[piece.gpu]
        ours = position >= 0
        values = piece.values
        if not ours.all():
            values = {name: column[ours] for name, column in values.items()}
        piece = Samples(position[ours], piece.time[ours], values)
        if len(piece.time):
            self._held.append(piece)
            self._n_held += len(piece.time)
            self.start, self.end = min(self.start, float(piece.time[0])), max(self.end, float(piece.time[-1]))

    def _take_gpus(self, cursor: Cursor) -> None:
        """Add the series' new GPUs to the run. A GPU (same node and id) that another series has already gets position
        -1, and a note."""
        for gpu in cursor.series.gpus[len(cursor.positions) :]:
            node = gpu.node or cursor.node
            own = gpu.uuid or gpu.device_index
            identity = (node, f"{own} {gpu.mig}" if gpu.mig else own)
            owner = self._owner.setdefault(identity, cursor) if node is not None and own is not None else cursor
            if owner is not cursor:
                self._note(Note(f"{cursor.series.file}: GPU {own} of {node} is in {owner.series.file} as well, and only "
                                "that is taken"))  # fmt: skip
                cursor.positions.append(-1)
                continue
            cursor.positions.append(len(self._gpus))
            self._gpus.append(_row_of(gpu, node, f"import:{cursor.series.kind}"))

    def write_until(self, time: float) -> None:
        """Write the rows that are held from before ``time``, unix s, rounded down to a whole bucket; the caller
        promises that nothing earlier comes. Infinity writes all. Raises RecordingError, and ForeignError if the disk is
        nearly full."""
        if not self._held:
            return
        position, times, values = self._in_order()
        late = int(np.searchsorted(times, self._written_until))
        if late:
            self.cursors[-1].n_late += late
        end = len(times)
        if math.isfinite(time):
            self._written_until = max(time // LEVELS[0] * LEVELS[0], self._written_until)
            end = max(int(np.searchsorted(times, self._written_until)), late)
        self._begin(position, times)
        rows = slice(late, end)
        self._put(position[rows], times[rows], {name: column[rows] for name, column in values.items()})
        rest = slice(end, None)
        left = Samples(position[rest], times[rest], {name: column[rest] for name, column in values.items()})
        self._n_held = len(left.time)
        self._held = [left] if self._n_held else []
        self._enough = max(_ROWS_AT_ONCE, 2 * self._n_held)  # a bucket may hold more than that

    def _in_order(self) -> tuple[Ints, Floats, dict[str, Floats]]:
        """Return the GPU, the time and the values of all rows held, sorted by time. Values beyond what a recording can
        hold are NaN."""
        held = self._held
        times = np.concatenate([piece.time for piece in held])
        order = np.argsort(times, kind="stable")
        columns: dict[str, Floats] = {}
        for name in NAMES:
            if any(name in piece.values for piece in held):
                parts = [piece.values.get(name, np.full(len(piece.time), np.nan)) for piece in held]
                column = np.concatenate(parts)[order]
                columns[name] = np.where(np.abs(column) <= GREATEST, column, np.nan)
        return np.concatenate([piece.gpu for piece in held])[order], times[order], columns

    def _begin(self, position: Ints, times: Floats) -> None:
        """Begin the run in the recording, if it has not begun, and add the GPUs that have come since the last call."""
        said = [own.series.sampling_seconds for own in self.cursors]
        if not self._begun:
            self._begun = True
            some = slice(0, _SPACING_ROWS)
            own = self._told.interval or min(filter(None, said), default=None) or spacing(times[some], position[some])
            self._interval = own or 1.0
            nodes = sorted({str(gpu["node"]) for gpu in self._gpus if gpu["node"] is not None})
            process: dict[str, Value] = {"node": nodes[0] if nodes else None}
            if not isinstance(self._writer, BulkWriter):  # who looks on wants to know whether it still goes on
                pid = os.getpid()
                process |= {"pid": pid, "pid_start": process_start(pid), "boot_id": boot_id()}
            run_id = next(filter(None, (own.series.run_id for own in self.cursors)), None)
            named: dict[str, Value] = {} if run_id is None or run_id in self._run_ids else {"run_id": run_id}
            self._run_ids |= set() if run_id is None else {run_id}
            begin_run(self._writer, self._started, self._interval, self._about() | named, process)
        new = self._gpus[self._n_added :]
        if new or not self._n_added:
            self._writer.add_gpus(new, () if isinstance(self._writer, BulkWriter) else NAMES, self._interval)
            self._n_added = len(self._gpus)

    def _put(self, position: Ints, times: Floats, values: dict[str, Floats]) -> None:
        """Write rows. Raises ForeignError if the disk is nearly full."""
        self.n_rows += len(times)
        if isinstance(self._writer, BulkWriter):
            room = os.statvfs(os.path.dirname(os.path.abspath(self._writer.path)))
            if room.f_bavail * room.f_frsize < _LEAST_FREE:
                raise ForeignError(f"{self.cursors[0].series.file}: there is no room for its samples: "
                                   f"{os.path.dirname(self._writer.path) or '.'} is nearly full")  # fmt: skip
            self._writer.add_columns(position, times, values)
            return
        columns = [_as_sampled(name, values[name]) if name in values else [None] * len(times) for name in NAMES]
        self._writer.add(list(zip(position.tolist(), times.tolist(), *columns, strict=True)))

    def write_what_came(self, now: float) -> None:
        """Write all that is held, and the new notes. ``now`` is unix s. Does nothing before the first row has come.
        Raises RecordingError."""
        if self._held:
            position, times, values = self._in_order()
            self._begin(position, times)
            self._put(position, times, values)
            self._held, self._n_held = [], 0
        if self._begun:
            self._say()
            self._writer.tick(now)

    @property
    def _started(self) -> float:
        return min([self.start, *(own.series.started_at or math.inf for own in self.cursors)])

    def _about(self) -> dict[str, Value]:
        """Collect the columns of ``runs`` that series know, each from the first series that does."""
        series = [own.series for own in self.cursors]
        texts = ("label", "job_id", "step_id", "cluster", "user", "world_size")
        found: dict[str, Value] = {
            name: next(filter(None, (getattr(own, name) for own in series)), None) for name in texts
        }
        found["label"] = found["label"] or os.path.basename(self.cursors[0].series.file.rstrip("/"))
        found["command"] = json.dumps(next(filter(None, (own.command for own in series)), ()))
        nodes = {gpu["node"] for gpu in self._gpus if gpu["node"] is not None}
        ranks = {gpu["rank"] for gpu in self._gpus if gpu["rank"] is not None}
        found["world_size"] = found["world_size"] or len(ranks) or None
        return found | {"n_nodes": len(nodes) or None}

    def _note(self, note: Note, position: int | None = None) -> None:
        if (note.text, position) not in self._said:
            self._said.add((note.text, position))
            self._unsaid.append((note, position))

    def _say(self) -> None:
        """Write the notes that have come as events, up to ``_MOST_NOTES`` in all."""
        for cursor in self.cursors:
            for note in cursor.notes():
                known = note.gpu is not None and note.gpu < len(cursor.positions)
                at = cursor.positions[note.gpu] if note.gpu is not None and known else -1
                self._note(note, at if at >= 0 else None)
        n_before = len(self._said) - len(self._unsaid)
        for note, position in self._unsaid[: max(_MOST_NOTES - n_before, 0)]:
            time = self._started if note.time is None else note.time
            self._writer.event(time, "import", note.text, position)
        self._unsaid.clear()

    def finish(self) -> None:
        """Write what is held, the last notes, and the end of the run. A run without any row is not begun at all. Raises
        RecordingError, ForeignError."""
        for cursor in self.cursors:
            self._take_gpus(cursor)
        if isinstance(self._writer, BulkWriter):
            self.write_until(math.inf)
        else:
            self.write_what_came(self.end)
        if not self._begun:
            return
        if len(self._gpus) > self._n_added:
            self._begin(np.empty(0, np.int64), np.empty(0))
        for cursor in self.cursors:
            for n, what in (
                (cursor.n_timeless, "have no time that a run can have"),
                (cursor.n_late, "step back in time"),
            ):
                if n:
                    self._note(Note(f"{cursor.series.file}: {n:,} rows that {what} are left out"))
        self._say()
        if len(self._said) > _MOST_NOTES:
            self._writer.event(self.end, "import", f"{len(self._said) - _MOST_NOTES:,} more notes are left out")
        end = max([self.end, *(own.series.ended_at or 0.0 for own in self.cursors)])
        ranks = {gpu["rank"]: gpu["node"] for gpu in self._gpus if gpu["rank"]}
        ended: dict[str, Value] = {"started_at": self._started, "ended_at": end, "state": "completed"}
        self._writer.tell(self._about() | {"started_at": self._started}, [
            {"rank": rank, "node": node, **ended} for rank, node in sorted(ranks.items(), key=str)
        ])  # fmt: skip
        if not self._writer.finish(end, None, "completed", end):
            raise RecordingError(self._writer.problem or f"{self._writer.path}: can't be written")


def _row_of(gpu: ForeignGpu, node: str | None, backend: str) -> dict[str, Value]:
    """Return the row of the table ``gpus`` for a GPU. A MIG instance that has its whole GPU's UUID gets a UUID with its
    own name added, so that instances stay apart."""
    row: dict[str, Value] = {**gpu._asdict(), "node": node, "backend": backend}
    if gpu.mig and gpu.uuid and not gpu.uuid.startswith("MIG-"):
        row["uuid"] = f"{gpu.uuid}/{gpu.mig}"
    return row


def _as_sampled(name: str, column: Floats) -> list[float | int | None]:
    """Convert a column to what a backend would give: None for NaN, whole numbers for clock event reasons."""
    whole = name == "clock_event_reasons"
    return [None if value != value else int(value) if whole else value for value in column.tolist()]
