"""Reading recordings: a file, a folder of shards, or both, as runs whose samples and rollups come out as arrays.

What a GPU is called differs from file to file; here GPUs are *positions* in ``RunReader.gpus``, which is sorted by node,
device index and UUID.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.disk import allow_descriptors, lacks_descriptors
from gssr.store.format.buckets import Buckets, join_buckets, merge
from gssr.store.format.columns import columns_of, selected
from gssr.store.format.host_rollups import HOST, WORKLOAD, Extent, UseTable, extents_of
from gssr.store.format.layout import layout_of, part_of
from gssr.store.format.limits import sound_rows
from gssr.store.format.node_clocks import clocks_ahead
from gssr.store.format.rank_ends import RankEnd, event_of_loss, stopped_ranks
from gssr.store.format.rows import (
    AttachedTrace,
    Event,
    Process,
    RunRow,
    deduplicate_traces,
    first_failure,
    missing_ranks,
    one_run,
)
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import GAP_INTERVALS, LEVELS, SKETCH_SECONDS
from gssr.store.read.guarded_file import catalogue_order
from gssr.store.read.host_use import Bins, OwnerNames
from gssr.store.read.open import RecordingError, files_of
from gssr.store.read.places import places_of
from gssr.store.read.recording_file import Part, RecordingFile, positions_by_key
from gssr.store.read.run_clocks import RunClocks, correct_buckets, move_window, steps_of
from gssr.store.read.samples import join_samples, select_metrics, stored_names
from gssr.store.read.small_tables import LOOK_COLUMNS, process_rows
from gssr.store.read.time_window import ALL_TIME, Window

if TYPE_CHECKING:
    from gssr.store.read.histograms import Histograms

_PER_SHARD = 3  # descriptors: the database, its write-ahead log, its shared memory
_TRIES = 5  # to open all of a recording whose ranks' files are being merged meanwhile


Progress = Callable[[int, int], None]

VECTORS_AT_ONCE = 6_000
"""Buckets of all metrics: some seven megabytes, and as much again while they are merged."""


class RecordingReader:
    """A recording that is open for reading: its file, its folder of shards, or both. ``open_recording`` makes one;
    ``close`` closes it. It always holds at least one run."""

    def __init__(self, path: str, shards: Sequence[RecordingFile], unreadable: str | None = None) -> None:
        self.path = path
        self._shards = list(shards)
        self._unreadable = unreadable
        begun: dict[str, float] = {}
        for run in (run for shard in self._shards for run in shard.file.runs):
            start = math.inf if run.started_at is None else run.started_at
            begun[run.run_id] = min(begun.get(run.run_id, math.inf), start)
        self.runs = tuple(RunReader(run_id, self._shards) for run_id in sorted(begun, key=begun.__getitem__))
        """Its runs, in the order in which they began."""

    @property
    def damage(self) -> str | None:
        """Say in one sentence what could not be read so far; None where everything could. Because reading is lazy, a
        sentence may come later."""
        return self._unreadable or next((shard.file.damage for shard in self._shards if shard.file.damage), None)

    def close(self) -> None:
        """Close every file."""
        for shard in self._shards:
            shard.close()


def open_recording(path: str | os.PathLike[str], progress: Progress | None = None) -> RecordingReader:
    """Open a recording for reading: ``NAME.sql``, ``NAME.sql.d``, or the one that exists of the two; both when both
    exist.

    A file that can't be read is left out as long as another can: ``Recording.damage`` then says so. Raises
    RecordingError, one sentence that names the file, when no file can be read, when none holds a run, or when there are
    more files than may be open at once. ``progress`` is called before each file with how many were opened, and of how
    many.
    """
    path = os.fspath(path)
    for attempt in range(_TRIES):
        names = files_of(path)
        allow_descriptors(_PER_SHARD * len(names))
        shards, errors, gone = _opened(path, names, progress)
        if not gone or attempt == _TRIES - 1:
            break
        for shard in shards:
            shard.close()
    if not shards:
        raise RecordingError(errors[0])
    n_others = f"; {len(errors) - 1} more can't be read" if len(errors) > 1 else ""
    recording = RecordingReader(path, shards, errors[0] + n_others if errors else None)
    if not recording.runs:
        raise RecordingError(recording.damage or f"{path}: holds no run: nothing was recorded into it")
    return recording


def _opened(path: str, names: Sequence[str], progress: Progress | None) -> tuple[list[RecordingFile], list[str], bool]:
    """Open the files that make up a recording. Returns the open files, but for those that are merged into another of
    them already; a sentence for each file that can't be read; and whether one of these is gone, because it was merged
    in this moment.

    Raises RecordingError where there are more files than may be open: ranks would seem to be missing.
    """
    shards: list[RecordingFile] = []
    errors: list[str] = []
    merged: set[str] = set()
    gone = False
    for number, name in enumerate(names):
        if progress is not None:
            progress(number, len(names))
        if os.path.basename(name) in merged:
            continue
        if len(names) > 1 and lacks_descriptors(_PER_SHARD):
            for shard in shards:
                shard.close()
            raise RecordingError(
                f"{path}: is {len(names):,} files, of which only {len(shards):,} can be open at once: raise the limit "
                f"(ulimit -n), or make them one file: gssr merge {quote(path)}"
            )
        try:
            shards.append(RecordingFile(name))
            merged.update(row.shard for row in shards[-1].file.merged)
        except RecordingError as error:
            errors.append(str(error))
            gone = gone or not os.path.lexists(name)
        except OSError as error:
            errors.append(f"{name}: can't be read: {error.strerror}")
    return shards, errors, gone and len(names) > 1


class RunReader:
    """One run of a recording, put together from all of its files. GPUs are positions in ``gpus``, times are unix s by
    the run's clock. Reading is lazy; ``damage`` says what a damaged file could not give."""

    def __init__(self, run_id: str, shards: Sequence[RecordingFile]) -> None:
        holders = [shard for shard in shards if any(run.run_id == run_id for run in shard.file.runs)]
        self.run: RunRow = one_run([run for shard in holders for run in shard.file.runs if run.run_id == run_id])
        self.run_id = run_id
        self.state = self.run.state
        self._shards = holders
        rows = self._as_recorded()
        thinned = any(
            row.run_id == run_id and row.end_time is not None for shard in holders for row in shard.file.thinned
        )
        self.clocks_ahead = clocks_ahead(rows, self.sampling_seconds)
        """The nodes whose clocks are off those of most nodes."""
        self.clocks = RunClocks({} if thinned else self.clocks_ahead)  # of what was thinned nothing can be cut anew
        self.processes = tuple(self.clocks.correct_processes(rows) if self.clocks else rows)
        """One row per rank. Of one that was lost ``state`` is that, and ``ended_at`` its last sign of life."""
        if self.clocks:
            self.run = self.clocks.correct_run(self.run, self.processes)
        ends = [(process.ended_at, process.exit_code) for process in self.processes]
        if len(ends) > 1 and any(
            code is not None for _, code in ends
        ):  # a merged run's row has no more than one of them
            self.run = self.run._replace(exit_code=first_failure(ends))
        self._places = places_of(run_id, holders, self.sampling_seconds)
        self.gpus = self._places.gpus
        parts = [self._make_part(shard, found) for shard, found in self._places.positions.items() if found]
        if self.clocks:
            parts = [piece for part in parts for piece in self.clocks.split(part, self.gpus, run_id)]
        self._parts = parts
        self.metrics = catalogue_order(list(dict.fromkeys(name for shard in holders for name in shard.file.metrics)))
        """Metric columns of the files, in the catalogue's order; derived ones apart."""

    def _make_part(self, shard: RecordingFile, position: dict[int, int]) -> Part:
        """Describe the run's share of one of its files. ``position``: by the key of each GPU in the file, its position
        in the run."""
        first, last = shard.rowids(self.run.run_id)
        whole = shard in self._places.whole and not shard.file.damage
        ended = self.state not in ("running", "lost")
        unended = not (ended and shard.rollups.counts_up_to(last, None if whole else list(position)))
        thinned = shard.thinned_until(self.run.run_id)
        return Part(shard, first, last, position, positions_by_key(position), whole, unended, thinned, ended)

    @property
    def damage(self) -> str | None:
        """Say in one sentence what could not be read so far; None where everything could."""
        return next((shard.file.damage for shard in self._shards if shard.file.damage), None)

    @property
    def recounted(self) -> str | None:
        """Say in one sentence what had to be counted anew so far because rollups or sketches are missing or damaged;
        None where nothing had to."""
        n = sum(first == part.first for part in self._parts for first, _ in part.shard.recounted)
        if not n:
            return None
        stretches = "1 stretch" if n == 1 else f"{n:,} stretches"
        return (
            f"sums over {stretches} of 10 minutes of a GPU are missing or damaged: counted anew from the samples, which "
            "takes longer; gssr merge FILE.sql repairs them"
        )

    def _as_recorded(self) -> list[Process]:
        """Read the processes of all files, by rank, with times by their nodes' own clocks. Those that a file of a lost
        run calls running become ``lost``, with their last sign of life as ``ended_at``."""
        rows: list[Process] = []
        for shard in self._shards:
            own = shard.file.processes(self.run_id)
            is_lost = any(run.run_id == self.run_id and run.state == "lost" for run in shard.file.runs)
            if is_lost and any(process.state == "running" for process in own):
                last = self._last_signs(shard)
                own = [
                    process._replace(state="lost", ended_at=last.get(process.rank, process.started_at))
                    if process.state == "running"
                    else process
                    for process in own
                ]
            rows += own
        return sorted(rows, key=lambda process: process.rank)

    def _last_signs(self, shard: RecordingFile) -> dict[int, float]:
        """Find when each rank of a file was recorded last (unix s). Ranks of which that is not known are left out."""
        columns = ("rank", "time")
        found: dict[int, float] = {}
        query = "SELECT rank, max(time) FROM workload_samples WHERE run_id = ? GROUP BY rank"
        for rows in shard.file.rows(query, (self.run_id,)):
            found.update(sound_rows("workload_samples", columns, rows))
        processes = shard.file.processes(self.run_id)
        # A node's own samples are written by its only rank. A recorder beside a job, one on each node, has no other sign.
        ranks_on = Counter(process.node for process in processes)
        alone = {process.node: process.rank for process in processes if ranks_on[process.node] == 1}
        query = "SELECT node, max(time) FROM host_samples WHERE run_id = ? GROUP BY node"
        for rows in shard.file.rows(query, (self.run_id,)):
            for node, time in sound_rows("host_samples", ("node", "time"), rows):
                if node in alone:
                    found[alone[node]] = max(found.get(alone[node], time), time)
        ranks = {process.rank for process in processes}
        if len(ranks) == 1:  # the samples of its GPUs, which come more often
            times = [*shard.times_at(self.run_id, 1), *found.values()]
            return dict.fromkeys(ranks, max(times)) if times else {}
        return found

    @cached_property
    def stopped_ranks(self) -> tuple[RankEnd, ...]:
        """The ranks that were lost or failed, the first of them first; empty where none was."""
        return stopped_ranks(self.processes)

    @cached_property
    def gpus_of_ranks(self) -> dict[int, tuple[int, ...]]:
        """The GPUs that each rank may use (positions), in the order of their keys in the file. Ranks without any
        recorded are left out."""
        position = {gpu.gpu: at for at, gpu in enumerate(self.gpus)}
        found: dict[int, dict[int, None]] = {}
        for shard in self._shards:
            query = "SELECT rank, gpu FROM process_gpus WHERE run_id = ? ORDER BY rank, gpu"
            for rank, gpu in (row for rows in shard.file.rows(query, (self.run.run_id,)) for row in rows):
                key = self._places.key(shard, gpu) if isinstance(gpu, int) else None
                if isinstance(rank, int) and key is not None and key in position:
                    found.setdefault(rank, {})[position[key]] = None
        return {rank: tuple(gpus) for rank, gpus in found.items()}

    @property
    def ranks_missing(self) -> tuple[int, ...] | None:
        """The ranks that are not in the recording, ascending; None where nobody knows how many there are."""
        return missing_ranks(self.run.world_size, (process.rank for process in self.processes))

    @property
    def events(self) -> tuple[Event, ...]:
        """All events of the run, by time. Where the run has several ranks, an event for each lost rank is added.
        ``gpu`` is the key of ``Gpu.gpu`` in ``gpus``, not a position; None where an event is of no GPU."""
        rows = (
            self.clocks.correct_event(
                event if event.gpu is None else event._replace(gpu=self._places.key(shard, event.gpu))
            )
            for shard in self._shards
            for event in shard.file.events(self.run.run_id)
        )
        several = len(self.processes) > 1 or (self.run.world_size or 1) > 1
        lost = [event_of_loss(end, self.run.started_at) for end in self.stopped_ranks if several and end.how == "lost"]
        return tuple(sorted([*rows, *lost], key=lambda event: event.time))

    def traces(self) -> list[AttachedTrace]:
        """List the traces attached to the run, by rank and path; empty where there are none. gssr.traces.attached opens
        them."""
        return deduplicate_traces(row for each in self._shards for row in each.file.traces(self.run.run_id))

    @property
    def tails(self) -> list[tuple[str, int, dict[int, int]]]:
        """The points from which a follower goes on reading, one for each file: its name, the rowid of the last sample
        that this reader knows, and the positions of its GPUs by their keys in the file."""
        last = {part.shard.file.path: part.last for part in self._parts}
        return [
            (
                shard.file.path,
                last[shard.file.path] if shard.file.path in last else shard.rowids(self.run.run_id)[1],
                dict(self._places.positions[shard]),
            )
            for shard in self._shards
        ]

    @property
    def sampling_seconds(self) -> float:
        """The sampling interval; 0 when it is unknown."""
        return (self.run.sampling_ms or 0.0) / 1000

    @property
    def gap_seconds(self) -> float:
        """More than this between two rows of a GPU is a gap; infinity when the sampling interval is unknown."""
        return GAP_INTERVALS * self.sampling_seconds or math.inf

    @property
    def n_rows(self) -> int:
        """Rows of ``samples`` (an upper bound where a full disk made the sampler drop some)."""
        return sum(part.last - part.first + 1 for part in self._parts)

    @property
    def first_time(self) -> float | None:
        """Unix time of the first sample; None without samples."""
        return min(self._read_times_at(0), default=None)

    @property
    def keep(self) -> str:
        """The way in which old samples were kept: ``raw`` (all of them), ``10s`` (means over 10 s), or ``none``. Where
        ranks differ it is the one that keeps least."""
        kept = [row.keep for shard in self._shards for row in shard.file.thinned if row.run_id == self.run.run_id]
        return "none" if "none" in kept else kept[0] if kept else "raw"

    @property
    def thinned_until(self) -> float:
        """The unix time before which samples were thinned, of all GPUs or of some; minus infinity when none were."""
        return max((shard.thinned_until(self.run.run_id) for shard in self._shards), default=-math.inf)

    def has_rows(self, most: int, window: Window) -> bool:
        """Tell whether every raw row of the window is still there, and the whole run has no more than ``most`` rows."""
        return self.n_rows <= most and self.thinned_until <= window.start

    def whole_buckets(self, window: Window) -> Window:
        """Widen the window to whole buckets of 10 s at each end that lies in thinned samples: what lies in a part of a
        bucket is not known there. Other ends stay."""
        (start, end), until, step = window, self.thinned_until, LEVELS[0]
        if -math.inf < start < until:
            start = math.floor(start / step) * float(step)
        if -math.inf < end < until:
            end = math.ceil(end / step) * float(step)
        return Window(start, end)

    @property
    def last_time(self) -> float | None:
        """Unix time of the last sample; None without samples."""
        return max(self._read_times_at(1), default=None)

    def _read_times_at(self, end: int) -> list[float]:
        """Read the times (unix s by the run's clock) of the first (``end`` 0) or last (``end`` 1) sample of each rank in
        each file. Empty without samples."""
        if self.clocks:
            rows = (
                (part, *part.shard.sample_at(ends[end]))
                for part in self._parts
                for ends in part.shard.ends(self.run_id)
            )
            return [time - part.ahead for part, key, time in rows if key in part.position and time is not None]
        shards = dict.fromkeys(part.shard for part in self._parts)
        return [time for shard in shards for time in shard.times_at(self.run.run_id, end)]

    def host_use(self, window: Window = ALL_TIME) -> dict[str, Extent]:
        """Aggregate what the nodes did in the window, for each value column of ``host_samples``, over all nodes."""
        rows = [
            row
            for shard, ahead, nodes in self._owners(by_rank=False)
            for row in shard.host_use.host(self.run_id, move_window(window, ahead), nodes)
        ]
        return extents_of(HOST.values, rows)

    def _owners(self, by_rank: bool) -> Iterator[tuple[RecordingFile, float, OwnerNames]]:
        """Go through the files clock by clock. Yields each file, how far a clock is ahead in it (s), and the nodes, or with
        ``by_rank`` the ranks, whose rows in the file are by that clock (None: all)."""
        for shard in self._shards:
            processes = shard.file.processes(self.run_id) if self.clocks else ()
            for ahead, names in self.clocks.owners(processes, by_rank):
                yield shard, ahead, names

    def workload_use(self, window: Window = ALL_TIME) -> list[dict[str, Extent]]:
        """Aggregate what the workload's processes did in the window, for each value column of ``workload_samples``: one
        dict per rank that has rows there. The ranks themselves are not told."""
        rows = [
            row
            for shard, ahead, ranks in self._owners(by_rank=True)
            for row in shard.host_use.workload(self.run_id, move_window(window, ahead), ranks)
        ]
        return [extents_of(WORKLOAD.values, [row]) for row in rows]

    def workload_cpu(self, rank: int, window: Window) -> tuple[Floats, Floats]:
        """Read how many cores one rank's processes kept busy in the window. Returns the times of the counts (unix s),
        ascending, and the cores busy since the count before. Both are empty where the rank has none."""
        query = "SELECT time, cpu FROM workload_samples WHERE run_id = ? AND rank = ? AND time >= ? AND time < ?"
        ahead = next((self.clocks.of(process.node) for process in self.processes if process.rank == rank), 0.0)
        window = move_window(window, ahead)
        batches = (each for shard in self._shards for each in shard.file.rows(query, (self.run.run_id, rank, *window)))
        rows = [row for batch in batches for row in batch if all(isinstance(value, float) for value in row)]
        found = np.array(sorted(rows), np.float64).reshape(-1, 2)
        return found[:, 0] - ahead, found[:, 1]

    def use_over_time(
        self, table: UseTable, window: Window, bins: Bins, names: Sequence[str] = ()
    ) -> dict[str, Floats]:
        """Compute what the nodes (HOST) or the workload's processes (WORKLOAD) did in a window, over time.

        Args:
            bins: Start (unix s), length (s), and number n of the bins.
            names: The value columns to compute; empty: all of the table's.

        Returns for each column its mean over nodes or ranks [n], NaN in bins without samples. Columns without any
        sample are left out.
        """
        names = names or table.values
        sums = np.zeros((bins[2], 2 * len(names)))
        for shard, ahead, owners in self._owners(by_rank=table == WORKLOAD):
            there = move_window(window, ahead), (bins[0] + ahead, *bins[1:])
            np.add.at(sums, *shard.host_use.over_time(table, names, self.run_id, *there, owners))
        count, total = sums[:, ::2], sums[:, 1::2]
        means = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
        return {name: means[:, column] for column, name in enumerate(names) if count[:, column].any()}

    def nodes_over_time(self, window: Window, bins: Bins, names: Sequence[str]) -> dict[str, Floats]:
        """Sum what each node did in a window, over time. Returns for each node with rows an array [n bins, columns, 2]:
        how many samples of each of these value columns of ``host_samples`` fall into a bin, and their sum. ``bins``:
        start (unix s), length (s), and number."""
        found: dict[str, Floats] = {}
        for shard, ahead, nodes in self._owners(by_rank=False):
            there = move_window(window, ahead), (bins[0] + ahead, *bins[1:])
            for node, at, sums in shard.host_use.by_owner(HOST, names, self.run_id, *there, nodes):
                own = found.setdefault(node, np.zeros((bins[2], len(names), 2)))
                np.add.at(own, at, sums.reshape(len(sums), len(names), 2))
        return found

    @property
    def host_times(self) -> Window | None:
        """The time from the first to the newest row of any node, unix s by the run's clock; None if there is no row."""
        times = [
            (found[0] - ahead, found[1] - ahead)
            for shard, ahead, nodes in self._owners(by_rank=False)
            if (found := shard.host_use.times(self.run_id, nodes))
        ]
        return Window(min(first for first, _ in times), max(last for _, last in times)) if times else None

    def gpu_processes(self, window: Window = ALL_TIME) -> Iterator[list[tuple[Any, ...]]]:
        """Read the rows of ``gpu_processes`` in a window, in the columns LOOK_COLUMNS, with the GPU's position in place
        of its key. Yields them in batches, file by file, so not in the order of time; a batch may be empty."""
        for shard in self._shards:
            connection, positions = shard.file.connection, self._places.positions[shard]
            if columns_of(connection, "gpu_processes"):  # which files of an earlier version lack
                columns = ", ".join(selected(connection, "gpu_processes", LOOK_COLUMNS))
                query = f"SELECT {columns} FROM gpu_processes WHERE time >= ? AND time < ?"
                behind, ahead = self.clocks.widest
                for rows in shard.file.rows(query, (window[0] + behind, window[1] + ahead)):
                    found = process_rows(rows, positions)
                    yield found if not self.clocks else self._within(found, window)

    def _within(self, rows: Sequence[tuple[Any, ...]], window: Window) -> list[tuple[Any, ...]]:
        """Keep the rows (GPU's position, time, ...) of a window, and set their times by the run's clock."""
        by_run = ((gpu, time - self.clocks.of(self.gpus[gpu].node), *rest) for gpu, time, *rest in rows)
        return [row for row in by_run if window.start <= row[1] < window.end]

    def processes_on_gpus(self, window: Window = ALL_TIME) -> Iterator[tuple[Any, ...]]:
        """Find each process on each GPU in a window. Yields tuples of the GPU's position, when the process was first
        and last seen there (unix s), its id, name and user, and the most device memory it had (bytes); None for what is
        not known. A process on several GPUs comes once for each."""
        seen = ("gpu", "time", "time", "pid", "name", "user", "memory_used")
        for shard in self._shards:
            connection, positions = shard.file.connection, self._places.positions[shard]
            if columns_of(connection, "gpu_processes"):
                query = (
                    "SELECT gpu, min(time), max(time), pid, name, user, max(memory_used) FROM gpu_processes "
                    "WHERE n_processes > 0 AND time >= ? AND time < ? GROUP BY gpu, pid, name, user"
                )
                behind, ahead = self.clocks.widest
                for rows in shard.file.rows(query, (window[0] + behind, window[1] + ahead)):
                    for key, first, last, *rest in sound_rows("gpu_processes", seen, rows):
                        if key in positions:
                            off = self.clocks.of(self.gpus[positions[key]].node)
                            yield positions[key], first - off, last - off, *rest

    def samples(self, names: Sequence[str], gpus: Ints | None = None, window: Window = ALL_TIME) -> Samples:
        """Read the raw rows of a window, each GPU's in the order of its file. Where samples were thinned these are no
        longer there.

        Args:
            names: Metrics, derived ones too.
            gpus: Positions; None: all.

        Raises RecordingError when samples of the window were thinned while they were read.
        """
        stored = stored_names(names)
        pieces = [
            Samples(gpu, time - part.ahead if part.ahead else time, values)
            for part in self._parts_of(gpus)
            for gpu, time, values in (part.raw(stored, gpus, *move_window(window, part.ahead)),)
        ]
        gpu, time, values = select_metrics(join_samples(pieces, stored), names)
        if self._places.in_turns:
            order = np.argsort(time, kind="stable")
            gpu, time, values = gpu[order], time[order], {name: value[order] for name, value in values.items()}
        self._check_thinning([window.start])
        return Samples(gpu, time, values)

    def _check_thinning(self, starts: Sequence[float]) -> None:
        """Raise RecordingError when samples that were needed, from one of ``starts`` on or the newest, were thinned
        while they were read."""
        for shard in self._shards:
            shard.check_thinning(self.run.run_id, min(starts, default=math.inf))

    def buckets(
        self,
        window: Window = ALL_TIME,
        level: int | None = None,
        gpus: Ints | None = None,
        names: Sequence[str] | None = None,
        as_one: bool = False,
    ) -> Buckets:
        """Read rollups that cover a window exactly once.

        With ``level`` None the cover is the coarsest one: buckets of 600, 60 and 10 s, and raw rows folded where the
        window cuts a bucket or a bucket is not closed yet. With a level there is one bucket for each GPU and step of
        that length that has samples.

        Args:
            level: One of LEVELS, s; None: the coarsest that fit.
            gpus: Positions; None: all.
            names: Keep only these metrics' blocks (see Buckets.layout); None: all.
            as_one: Give what ``hold_ends`` read of a minute as one bucket.

        Raises RecordingError when samples that were needed were thinned while they were read.
        """
        from gssr.store.read.window import cover_window

        layout = layout_of(self.metrics)
        if names is not None:
            layout = part_of(layout, names)
        window = self.whole_buckets(window)
        how = level or LEVELS[-1], gpus, layout, self.gap_seconds, as_one or level is not None
        pieces = [
            correct_buckets(cover_window(part, move_window(window, part.ahead), *how), part.ahead)
            for part in self._parts_of(gpus)
        ]
        buckets = join_buckets(pieces, layout)
        self._check_thinning(_cut(window, LEVELS[0]))
        # Join the pieces of a bucket that is cut, or not closed, or was sampled by several ranks in turns.
        if level is not None and (self._places.in_turns or self.clocks or (buckets.seconds != level).any()):
            step = steps_of(buckets, level) if self.clocks else np.floor(buckets.start / level).astype(np.int64)
            pairs, group = np.unique(np.column_stack([buckets.gpu, step]), axis=0, return_inverse=True)
            vectors = merge(buckets.vectors, group.reshape(-1), len(pairs), self.gap_seconds, layout)
            seconds = np.full(len(pairs), float(level))
            return Buckets(pairs[:, 0], pairs[:, 1] * float(level), seconds, vectors, layout)
        return buckets

    def hold_ends(self, window: Window, gpus: Ints | None = None) -> None:
        """Read the samples of the minutes that a window cuts, and keep them for all that is asked of this window and
        these GPUs (positions; None: all) until the next call. Does nothing for a run that has not ended."""
        from gssr.store.read.window import keep_cut_minutes

        window = self.whole_buckets(window)
        for part in self._parts_of(gpus):
            if part.ended:
                keep_cut_minutes(
                    part, move_window(window, part.ahead), gpus, self.gap_seconds, self.sampling_seconds or 1.0
                )

    def rows_between(self, window: Window, gpus: Ints | None = None) -> float:
        """Estimate how many samples have to be looked at to read some GPUs' in a window. In a file in which all GPUs
        take turns these are everybody's."""
        return (
            sum(len(part.position) for part in self._parts_of(gpus)) * window.seconds / (self.sampling_seconds or 1.0)
        )

    def _parts_of(self, gpus: Ints | None) -> list[Part]:
        """Pick the parts that have rows of one of these GPUs (positions; None: all): of a thousand ranks' files a few
        hold a few GPUs."""
        if gpus is None:
            return self._parts
        wanted = set(gpus.tolist())
        return [part for part in self._parts if not wanted.isdisjoint(part.position.values())]

    def cut_seconds(self, window: Window) -> float:
        """Measure how many seconds of a window lie in sketches of which only a part is inside the window. Where clocks
        or files differ, it is the most that any part of the run has."""
        from gssr.store.read.histograms import seconds_in_cut_sketches

        return seconds_in_cut_sketches(self._parts, window)

    def histograms(
        self,
        names: Sequence[str],
        window: Window = ALL_TIME,
        gpus: Ints | None = None,
        most_rows: float = math.inf,
    ) -> "Histograms":
        """Count, for each metric, how many samples fell into each of the 65,536 bins of a sketch
        (gssr.store.format.layout).

        Where a window cuts a sketch, the samples tell what lies in the window. So some may be missing from the counts:
        where samples are thinned, or, in a run that has ended, where more than ``most_rows`` would have to be looked
        at. ``gpus``: positions; None: all.

        Raises RecordingError when samples that were needed were thinned while they were read.
        """
        from gssr.store.read.histograms import histograms

        window = self.whole_buckets(window)
        seconds = self.gap_seconds, self.sampling_seconds or 1.0
        found = histograms(self._parts_of(gpus), names, window, gpus, *seconds, most_rows)
        self._check_thinning(_cut(window, SKETCH_SECONDS))
        return found


def _cut(window: Window, step: int) -> list[float]:
    """List the starts (unix s) of the buckets of ``step`` seconds that the ends of a window cut; empty where it cuts
    none."""
    return [edge - edge % step for edge in window if math.isfinite(edge) and edge % step]
