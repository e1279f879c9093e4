"""A line now and then that says how the run does, for whoever reads the log of a job: ``--status-every``.

A process of its own prints it, forked before anything else: it sleeps, and now and then reads what all ranks have written
of their rollups. The sampler could say this of its own GPUs only, and should not wait for a filesystem; the supervisor
does not wake up for anything but the workload.
"""

import os
import select
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import NoReturn, Optional

from gssr.profile.request import UsageError
from gssr.profile.sampling.plan import Plan
from gssr.profile.sampling.summary import whole_run
from gssr.profile.stderr import say
from gssr.store.format.columns import metric_columns
from gssr.store.format.layout import LAYOUT, Layout, layout_of
from gssr.store.format.rank_ends import WHY_LOST, RankEnd, place_of, stopped_ranks
from gssr.store.format.rollup import Vector, empty_vector, lay_out_anew, merge, unpack_vector
from gssr.store.format.schema import GAP_INTERVALS, LEVELS
from gssr.store.read.open import RecordingError, connect, files_of
from gssr.store.read.small_tables import read_processes, read_runs, state_in

SHORTEST, LONGEST = 1.0, 86_400.0  # s
_UNITS = {"s": 1, "m": 60, "h": 3600}
_SETTLED = 2 * LEVELS[-1]
"""A bucket that is so much older than the newest is complete, s: it is read once."""

_Gpu = tuple[Optional[str], str]


def seconds_of(text: str, option: str = "--status-every") -> float:
    """Parse a length of time, ``90``, ``90s``, ``10m`` or ``2h``, into seconds.

    Raises UsageError, which names the ``option``, also for less than 1 s or more than 24 h.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not SHORTEST <= seconds <= LONGEST:
        raise UsageError(f"{option}: {text!r} is no length of time from 1s to 24h, such as 30s or 10m")
    return seconds


def _sentence(end: RankEnd) -> str:
    """Say which rank was lost, or ended with which exit code, and at what local time if that is known."""
    at = "" if end.time is None else f" at {time.strftime('%H:%M:%S', time.localtime(end.time))}"
    if end.how == "lost":
        return f"{place_of(end)} was lost{at}: {WHY_LOST}"
    return f"{place_of(end)} ended{at} with exit code {end.exit_code}"


def print_status_lines(plan: Plan, seconds: float) -> Callable[[], None]:
    """Fork the process that prints a status line every ``seconds``, until this process is gone. Returns the function that
    stops it. To be called before any other process is forked, so that it holds nothing of theirs open. Raises OSError."""
    hear, alive = os.pipe()
    pid = os.fork()
    if pid == 0:
        _print_lines(plan, seconds, hear, alive)
    os.close(hear)

    def stop() -> None:
        os.close(alive)
        os.kill(pid, signal.SIGKILL)  # it writes nothing, and may be waiting for a filesystem

    return stop


def _print_lines(plan: Plan, seconds: float, hear: int, alive: int) -> NoReturn:
    """Print a line every ``seconds`` on stderr, in the forked child, until the parent is gone. Never returns.

    Signals that ask for an end are ignored, for the parent decides; stdin and stdout lead to /dev/null.

    Args:
        plan: names the recording and the run.
        seconds: between two lines.
        hear: the read end of a pipe, which comes to its end with the parent.
        alive: the write end, which only the parent may hold open: it is closed here.
    """
    try:
        os.close(alive)
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(sig, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(null, fd)
        progress = Progress(plan)
        began = time.monotonic()
        due = began + seconds
        while not select.select([hear], [], [], max(0.0, due - time.monotonic()))[0]:
            line = progress.line(time.monotonic() - began)
            for sentence in progress.stops_not_told():
                say(sentence)
            say(line)
            due = max(due + seconds, time.monotonic())
    finally:
        os._exit(0)


class Progress:
    """What all ranks of a run have recorded so far, from the rollups in their files."""

    def __init__(self, plan: Plan) -> None:
        folder = os.path.dirname(plan.path)
        self._path = folder[:-2] if folder.endswith(".sql.d") else plan.path
        self._run_id = str(plan.run["run_id"])
        self._gap_seconds = GAP_INTERVALS * plan.sampling_seconds
        self._settled: dict[_Gpu, Vector] = {}
        self._until: dict[str, int] = {}  # file → bucket up to which all is settled
        self._stopped: dict[int, RankEnd] = {}
        """The ranks that were lost or failed when the last line was made, and those of them that were told."""
        self._told: set[tuple[int, str]] = set()

    def line(self, elapsed: float) -> str:
        """Read what all ranks have recorded so far, and return the status line; ``elapsed`` in s.

        It is like ``GSSR score=0.609 imbalance=0.207 gpus=16 gaps=0 elapsed=600``, up to the last buckets that were
        closed, some 10 to 30 s ago. Where ranks were lost or failed, ``lost=1 failed=2`` follows. A file that can't be
        read just now is left out. Never raises for that.
        """
        newest: dict[_Gpu, Vector] = {}
        self._stopped = {}
        try:
            names = files_of(self._path)
        except RecordingError:
            names = []
        for name in names:
            try:
                with closing(connect(name)) as connection:
                    self._read(connection, name, newest)
            except (RecordingError, sqlite3.Error):
                pass  # not begun yet, or just being merged: the next line will tell
        for gpu, vector in self._settled.items():
            self._merge(newest, gpu, vector)
        n_lost = sum(end.how == "lost" for end in self._stopped.values())
        counts = {"lost": n_lost, "failed": len(self._stopped) - n_lost}
        stopped = "".join(f" {how}={n}" for how, n in counts.items() if n)
        return f"{whole_run(newest.values())} elapsed={elapsed:.0f}{stopped}"

    def stops_not_told(self) -> list[str]:
        """Return a sentence for each rank that the last ``line`` found lost or failed and that was not returned
        before, in the order of time."""
        new = [end for end in self._stopped.values() if (end.rank, end.how) not in self._told]
        self._told.update((end.rank, end.how) for end in new)
        return [_sentence(end) for end in sorted(new, key=lambda end: (end.time or 0.0, end.rank))]

    def _merge(self, into: dict[_Gpu, Vector], gpu: _Gpu, vector: Vector) -> None:
        """Merge a GPU's vector of statistics into those of ``into``."""
        merge(into.setdefault(gpu, empty_vector()), vector, self._gap_seconds)

    def _read(self, connection: sqlite3.Connection, name: str, newest: dict[_Gpu, Vector]) -> None:
        """Merge the statistics of one rank's file into ``newest``, by GPU, in place: all closed buckets but those that
        ``_settle`` has merged already. GPUs without samples get an empty vector. Raises RecordingError and
        sqlite3.Error."""
        self._look_for_stops(connection, name)
        gpus: dict[int, _Gpu] = {}
        for key, node, uuid in connection.execute("SELECT gpu, node, uuid FROM gpus WHERE run_id = ?", (self._run_id,)):
            gpus[key] = (node, uuid or f"key {key}")
            newest.setdefault(gpus[key], empty_vector())
        layout = layout_of(metric_columns(connection))
        end = dict.fromkeys(gpus, self._settle(connection, name, gpus, layout))
        for level in reversed(LEVELS):  # coarse buckets first, then finer ones behind them
            behind = dict(end)
            rows = connection.execute(
                "SELECT gpu, bucket, data FROM rollup WHERE level = ? AND bucket >= ?",
                (level, min(end.values(), default=0)),
            )
            for key, bucket, data in rows:
                if key in gpus and bucket >= behind[key]:
                    end[key] = max(end[key], bucket + level)
                    self._merge(newest, gpus[key], lay_out_anew(unpack_vector(data), layout, LAYOUT))

    def _look_for_stops(self, connection: sqlite3.Connection, name: str) -> None:
        """Find out whether the rank that writes this file was lost or has failed, and keep that in ``_stopped``."""
        runs = [run for run in read_runs(connection) if run.run_id == self._run_id]
        processes = read_processes(connection, self._run_id)
        if any(state_in(connection, run, name) == "lost" for run in runs):
            query = "SELECT max(time) FROM workload_samples WHERE run_id = ?"
            (last,) = connection.execute(query, (self._run_id,)).fetchone()
            processes = [
                process._replace(state="lost", ended_at=last) if process.state == "running" else process
                for process in processes
            ]
        self._stopped.update((end.rank, end) for end in stopped_ranks(processes))

    def _settle(self, connection: sqlite3.Connection, name: str, gpus: dict[int, _Gpu], layout: Layout) -> int:
        """Merge a file's buckets that will not change any more into ``_settled``, so that they are read only once.

        ``gpus``: the GPUs of the file by their key. Returns the bucket (unix s) up to which all is settled, the same
        as before if there is nothing new.
        """
        (last,) = connection.execute("SELECT max(bucket) FROM rollup WHERE level = ?", (LEVELS[-1],)).fetchone()
        begin = self._until.get(name, 0)
        until = self._until[name] = max(begin, (last or 0) - _SETTLED)
        for key, data in connection.execute(
            "SELECT gpu, data FROM rollup WHERE level = ? AND bucket >= ? AND bucket < ?", (LEVELS[-1], begin, until)
        ):
            if key in gpus:
                self._merge(self._settled, gpus[key], lay_out_anew(unpack_vector(data), layout, LAYOUT))
        return until
