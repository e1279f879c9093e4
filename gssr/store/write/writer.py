"""Writing a recording: one writer, one file, committed while sampling.

What is added is kept for at most COMMIT_SECONDS and then written in one transaction: samples, the rollups that closed with
them, host samples, events. When a write fails (disk full, quota, a reader in the way) everything is kept and tried again, up
to limits: a job may run for days beside a full disk. What has waited is written bit by bit, so that sampling goes on.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Optional

from gssr.store.disk import Reserve, identity_of, reason
from gssr.store.format.columns import metric_columns
from gssr.store.format.host_rollups import UseRollups
from gssr.store.format.layout import LAYOUT, layout_of
from gssr.store.format.rollup import Rollups, Row, empty_vector, lay_out_anew
from gssr.store.format.schema import GAP_INTERVALS, GPU_KEYS_PER_RANK, LEVELS
from gssr.store.live_block.write import MANY_FILES, LiveBlock
from gssr.store.read.guard import check_rowid, highest_key
from gssr.store.read.open import RecordingError
from gssr.store.read.small_tables import ends_of
from gssr.store.write.create import TakenError, create, finished_runs, remove, reopen, seal
from gssr.store.write.pending import ROWS_AT_ONCE, Pending, Value, insertion
from gssr.store.write.thinning import Keep, Thinner

COMMIT_SECONDS = 0.5
"""Rows are at most this old (and one tick) when they are committed; a killed sampler loses no more."""
CHECKPOINT_SECONDS = 10.0
BUSY_MS = 100
"""How long a commit waits for a reader's lock before sampling goes on; the next one tries again."""
LAST_BUSY_MS = 5000
"""How long the last commit waits for a reader's lock: there is no later try."""
LAST_THINNING_SECONDS = 2.0
"""What is young at the end is thinned for no longer than this: a job that ends may have only seconds until its SIGKILL."""
LOCKED_SECONDS = 10.0
"""A file that readers keep locked for longer than this can't be written; up to then the next try will do."""
LONGEST_PAUSE_SECONDS = 10.0
"""While the file can't be written the pause between two tries doubles up to this: each costs what all that is kept costs."""
SILENT_SECONDS = 20.0
"""A GPU's bucket that ended this long ago is closed although no later row came: readers may rely on it."""

_EARLY = 0.01
"""A tick may come this much early, s: else every second one of those that are a pause apart would be passed over."""
ProcessRow = tuple[Optional[int], Optional[str], Optional[str], Optional[int], Optional[float]]
"""Of ``gpu_processes``: pid, name, user, memory_used, sm_utilization."""
NO_PROCESS: ProcessRow = (None, None, None, None, None)
_ROWS_AT_ONCE = 256
"""Rows that are numbered and rolled up in one go, unless they are to be committed before."""


def _is_one_of_many(path: str, world_size: Value) -> bool:
    """Tell whether so many ranks record beside this one that they are watched by live blocks."""
    few = isinstance(world_size, int) and world_size <= MANY_FILES
    return os.path.dirname(path).endswith(".sql.d") and not few  # unknown: there may be many


class Writer:
    """The writer of one run, or of one rank of it, into one file. Times are unix seconds on the recording's clock. Call
    ``begin``, then ``add_gpus``, then add what comes and ``tick``, and at last ``finish``."""

    def __init__(self, path: str, append: bool = False, keep: Keep = "raw") -> None:
        """Create the file, or with ``append`` open it to add a run, of which samples that are old are kept as ``keep`` says.
        Raises RecordingError."""
        self.path = path
        self._append = append
        self._keep: Keep = keep
        self._thinner: Thinner | None = None
        self._earlier = finished_runs(path) if append else frozenset[str]()
        self._connection = reopen(path) if append else create(path, shrinks=keep != "raw")
        self._layout = layout_of(metric_columns(self._connection))
        """The order of the file's columns is another than the catalogue's where an earlier version made it."""
        self._pending = Pending()
        self._node = ""
        self._keys: list[int] = []
        self._added: list[Row] = []
        self._rollups: Rollups | None = None
        self._use: UseRollups | None = None
        self._last_use = -math.inf
        self._block: LiveBlock | None = None
        self._dropped = 0
        self._reserve: Reserve | None = None
        self._failing_since: float | None = None
        self.due = -math.inf
        """When ``tick`` has something to do again."""
        self._pause = COMMIT_SECONDS
        self._last_checkpoint = -math.inf
        self._identity = identity_of(path)
        self.problem: str | None = None
        self._next_rowid = 1

    def begin(self, run: Mapping[str, Value], process: Mapping[str, Value]) -> None:
        """Record the run and this rank's process at once; keys are columns of ``runs`` and ``processes``. The run's row
        is left alone when another rank made it already.

        Raises TakenError when somebody has begun another run in the same file since it was opened, RecordingError when
        the file can't be written. Either closes it; the latter also deletes it if this writer made it.
        """
        pending = self._pending
        pending.run_id, pending.rank = str(run["run_id"]), int(process["rank"] or 0)
        self._node = str(process.get("node") or "")
        try:
            self._reserve = self._reserve or Reserve(self.path)
            self._connection.execute("BEGIN IMMEDIATE")
            present = {run_id for (run_id,) in self._connection.execute("SELECT run_id FROM runs")}
            if present - self._earlier - {pending.run_id}:
                self._connection.close()  # which takes back what was begun
                self._give_room()
                raise TakenError(self.path)
            highest_key(self._connection)
            highest = ends_of(self._connection)[1]
            check_rowid(highest)
            self._next_rowid = (highest or 0) + 1
            if pending.run_id not in present:
                self._connection.execute(*insertion("runs", run))
            self._connection.execute(*insertion("processes", {"run_id": pending.run_id, **process}))
            if self._keep != "raw":
                self._thinner = Thinner(self._connection, pending.run_id, pending.rank, self._keep, self._layout)
            self._connection.execute("COMMIT")
            self._use = UseRollups(self._connection)
            self._connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
            if _is_one_of_many(self.path, run.get("world_size")):
                self._block = LiveBlock(self.path)
        except (sqlite3.Error, OSError) as error:
            self._connection.close()
            if not self._append:
                remove(self.path)  # nothing is in it
            why = error.strerror if isinstance(error, OSError) else reason(error, self.path)
            raise RecordingError(f"{self.path}: can't be written: {why}") from None

    def add_gpus(
        self,
        gpus: Sequence[Mapping[str, Value]],
        measured: Sequence[str],
        sampling_seconds: float,
    ) -> None:
        """Add the GPUs (columns of ``gpus``) that this rank may use, in the order of the positions that rows will name.

        Called again it adds GPUs that came later, behind those before. ``measured``: the metrics that may have values;
        only those of the first call count. Raises RecordingError when the file can't be read.
        """
        pending = self._pending
        try:
            highest = highest_key(self._connection)
            patience = min(BUSY_MS, max(1, int(sampling_seconds * 500)))  # half a tick: waiting costs no sample
            self._connection.execute(f"PRAGMA busy_timeout={patience}")
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path}: can't be read: {error}") from None
        base = pending.rank * GPU_KEYS_PER_RANK if highest is None else highest + 1
        base = self._keys[-1] + 1 if self._keys else base  # which may not have been written yet
        keys = range(base, base + len(gpus))
        self._keys += keys
        pending.rows_at_once = max(ROWS_AT_ONCE, 2 * len(self._keys))  # more than come with a tick
        if self._thinner is not None:
            self._thinner.keys = self._keys
        owner: dict[str, Value] = {"run_id": pending.run_id, "node": self._node, "rank": pending.rank}
        for key, gpu in zip(keys, gpus):
            pending.add("gpus", {"gpu": key, **owner, **gpu})
            rank = gpu.get("rank")
            whose = pending.rank if rank is None else rank
            pending.add("process_gpus", {"run_id": pending.run_id, "rank": whose, "gpu": key})
        if self._rollups is not None:
            return
        gap_seconds = GAP_INTERVALS * sampling_seconds
        pending.measure(set(measured), gap_seconds, self._layout)
        self._rollups = Rollups(gap_seconds, measured, self._layout)
        if self._block is not None:
            self._block.gap_seconds = gap_seconds

    def add(self, rows: Sequence[Row]) -> None:
        """Add samples: (position of the GPU, time, values in catalogue order)."""
        self._added += rows
        if len(self._added) >= _ROWS_AT_ONCE and self._rollups is not None:
            self._take_added(self._rollups)

    def _take_added(self, rollups: Rollups) -> None:
        """Number and roll up what was added since the last time. In one go, and not at every tick: what runs for the first
        time after a sleep takes two or three times as long, because it has left the processor's caches."""
        rowid, waiting, block = self._next_rowid, self._pending.rows, self._block
        keys, columns = self._keys, self._pending.columns
        for row in self._added:
            key = keys[row[0]]
            waiting.append((rowid, key, *columns(row)))
            rollups.add(rowid, key, row)
            if block is not None:
                block.add(key, row)
            rowid += 1
        self._next_rowid, self._added = rowid, []

    def add_host(self, time: float, values: Sequence[float | None], node: str | None = None) -> None:
        """Add a row of ``host_samples``: its columns from cpu_utilization on. ``node``: None for this rank's own."""
        self._pending.others["host_samples"].append((self._pending.run_id, node or self._node, time, *values))

    def add_workload(self, time: float, values: Sequence[float | None]) -> None:
        """Add a row of ``workload_samples``: cpu, rss, n_processes."""
        pending = self._pending
        pending.others["workload_samples"].append((pending.run_id, pending.rank, time, *values))

    def add_processes(self, gpu: int, time: float, rows: Sequence[ProcessRow]) -> None:
        """Add what runs on a GPU (a position in the backend's list): rows of ``gpu_processes`` from pid on. Without
        rows it is noted that nothing runs."""
        look = (self._keys[gpu], time, len(rows))
        self._pending.others["gpu_processes"] += [(*look, *row) for row in rows or (NO_PROCESS,)]

    def event(self, time: float, kind: str, message: str, gpu: int | None = None) -> None:
        """Add an event of this rank: its ``time`` (unix s), its ``kind``, and what it says. ``gpu`` is a position in the
        backend's list; None: it is about no GPU. It is written with the next commit."""
        pending, key = self._pending, None if gpu is None else self._keys[gpu]
        text = message.encode("utf-8", "backslashreplace").decode()  # it may quote a file name in any encoding
        pending.others["events"].append((pending.run_id, time, self._node, key, pending.rank, kind, text))

    def sampled_every(self, seconds: float) -> None:
        """Note that the run is sampled at this interval (s), not at the one that was asked for."""
        self._pending.update("runs", {"sampling_ms": 1000 * seconds})

    def tell(self, run: Mapping[str, Value], processes: Sequence[Mapping[str, Value]] = ()) -> None:
        """Change columns of the run's row of ``runs``; add rows of further ranks to ``processes``."""
        self._pending.update("runs", run)
        for process in processes:
            self._pending.add("processes", {"run_id": self._pending.run_id, **process})

    def started(self, time: float) -> None:
        """Note when the workload was started."""
        for table in ("processes", "runs"):
            self._pending.update(table, {"started_at": time})

    def tick(self, now: float) -> None:
        """Commit if it is time, and thin and roll up when all is written. Never raises: ``problem`` says in one
        sentence why the last write failed, None if it didn't."""
        if now < self.due:
            return
        if self.commit(now) and not self._pending.rows:
            self._thin(now)
            if now - self._last_use >= LEVELS[0]:
                self._last_use = now
                self._roll_up_use()
        if self._block is not None and not self._pending:  # else it holds rows that are not committed
            self._block.publish(now, self._next_rowid - 1)
        if self.problem is None and now - self._last_checkpoint >= CHECKPOINT_SECONDS:
            self._last_checkpoint = now
            try:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error:
                pass  # the next one will do
        is_behind = self._failing_since is None and bool(self._pending.rows)
        self.due = now if is_behind else now + self._pause - _EARLY

    def commit(self, now: float) -> bool:
        """Write what was added so far, or as much of it as goes into one transaction (``_pending.rows`` are the samples
        that are left). Returns False when that failed; all is then kept to be tried again."""
        pending = self._pending
        if self._rollups is not None:
            self._take_added(self._rollups)
            self._rollups.close_before(now - SILENT_SECONDS)
            closed, sketches = self._rollups.take()
            pending.closed += closed
            pending.sketches += sketches
        if not pending:
            return True
        try:
            try:
                pending.write(self._connection)
            except OverflowError:
                self._connection.execute("ROLLBACK")
                pending.null_what_does_not_fit()
                pending.write(self._connection)
        except (sqlite3.Error, OverflowError) as error:  # or the rowids themselves do not fit
            self._failed(now, error)
            return False
        self._failing_since, self._pause = None, COMMIT_SECONDS
        if self.problem is not None and not pending.rows:
            lost = f"; {self._dropped} samples were lost" if self._dropped else ""
            self.problem, self._dropped = None, 0
            self.event(now, "storage", f"the recording is written again{lost}")
        return True

    def _commit_all(self, now: float) -> bool:
        """Write everything added so far, in as many transactions as it takes. Returns False when one of them failed."""
        while self.commit(now):
            if not self._pending.rows:
                return True
        return False

    def _thin(self, now: float) -> bool:
        """Thin one more bucket. Returns False if there is none or it can't be written now."""
        try:
            return self._thinner is not None and self._thinner.step(now)
        except sqlite3.Error:
            self._roll_back()
            return False  # a reader holds the file locked, or no space is left: the next one will do

    def _roll_up_use(self, all_of_it: bool = False) -> None:
        """Count what was committed beside the samples. Where that can't be, readers count the rows."""
        try:
            if self._use is not None:
                self._use.close(all_of_it)
        except sqlite3.Error:
            self._roll_back()

    def _roll_back(self) -> None:
        """Roll back the transaction that is open, if one is. Never raises sqlite3.Error."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the next BEGIN says what is wrong

    def _failed(self, now: float, error: sqlite3.Error | OverflowError) -> None:
        """Undo a transaction that failed, keep what it was to write for the next try, and say in ``problem`` why."""
        self._roll_back()
        if self._failing_since is None:
            self._failing_since = now
        self._dropped += self._pending.drop_oldest()
        locked = "locked" in str(error)
        why = str(error) if isinstance(error, OverflowError) else reason(error, self.path)
        if not locked or self._dropped or now - self._failing_since > LOCKED_SECONDS:
            if self.problem is None:
                self.event(now, "storage", f"the recording could not be written: {why}")
            self.problem = f"{self.path}: can't be written: {why}"
        if not locked:
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def stop_thinning(self) -> None:
        """Leave samples as they are from now on, also at the end."""
        self._thinner = None

    def finish(self, now: float, exit_code: int | None, state: str, ended_at: float) -> bool:
        """Close the rollups, record the end, commit and seal the file: afterwards it is one plain file that opens from
        anywhere.

        ``now`` is the time of this call, ``ended_at`` that of the end (both unix s); ``exit_code`` and ``state`` become
        those of the run and of this rank's process. Returns False when not all could be written; how the run ended may
        be in the file all the same.
        """
        if self._rollups is not None:
            self._take_added(self._rollups)
            self._rollups.close_all()
        if self._commit_all(
            now
        ):  # before the end is written: a recording that has ended does not change, it may be merged
            self._roll_up_use(all_of_it=True)
            if self._thinner is not None:
                self._thin_all()
        for table in ("processes", "runs"):
            self._pending.update(table, {"ended_at": ended_at, "exit_code": exit_code, "state": state})
        self._connection.execute(f"PRAGMA busy_timeout={LAST_BUSY_MS}")
        written = self._commit_all(now)
        if not written:
            problem = self.problem or f"{self.path}: can't be written: somebody else holds it locked"
            # No space for all: how it ended still finds room.
            self._pending.keep_the_end()
            self._give_room()
            self.commit(now)
            self.problem = problem
        elif self._pending:
            self.commit(now)  # that it is written again
        if written and self._thinner is not None:
            self._shrink(self._thinner)
        self._give_room()
        seal(self._connection)
        if self._block is not None:
            self._block.remove()
        return written

    def _give_room(self) -> None:
        """Release the space that was reserved for the end."""
        if self._reserve is not None:
            self._reserve.release()

    def _thin_all(self) -> None:
        """Thin everything that is left, for LAST_THINNING_SECONDS at most: of a run that is over, all of which is
        rolled up, nothing need stay as it was."""
        deadline = monotonic() + LAST_THINNING_SECONDS
        while monotonic() < deadline and self._thin(math.inf):
            pass

    def _shrink(self, thinner: Thinner) -> None:
        """Give free pages back to the filesystem, if no reader hinders it."""
        try:
            thinner.shrink()
        except sqlite3.Error:
            pass  # a reader has the file open: it stays as long as it is

    @property
    def moved(self) -> bool:
        """True if the file that was opened is no longer at ``path``: it was deleted, moved or replaced."""
        return identity_of(self.path) != self._identity

    @property
    def totals(self) -> Mapping[int, Sequence[float]]:
        """The statistics of the whole run of each GPU, by its key in the file, as a rollup's vector of
        gssr.store.format.layout.LAYOUT. They are complete after ``finish``; a GPU without samples has an empty vector."""
        found = self._rollups.totals if self._rollups is not None else {}
        return {
            key: lay_out_anew(found[key], self._layout, LAYOUT) if key in found else empty_vector()
            for key in self._keys
        }
