"""The sampler: a small process that asks the backend at every tick and writes what it says.

It keeps absolute deadlines, so the rate doesn't drift, or collects from a backend that keeps its own; it records the time
each sample was really taken; it never writes to the terminal but sends lines to the supervisor; and nothing it does can
reach the workload.
"""

import gc
import os
import select
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from gssr.backends import open_backend, select_gpus
from gssr.backends.base import Backend, BackendError, Change, Row
from gssr.metrics import BY_NAME, NAMES, SCORE_INPUTS
from gssr.profile.clock import Clock
from gssr.profile.detach import let_go
from gssr.profile.summary import whole_run
from gssr.store.create import overwriting
from gssr.store.liveness import boot_id, process_start
from gssr.store.open import RecordingError
from gssr.store.pending import Value
from gssr.store.schema import GAP_INTERVALS
from gssr.store.writer import COMMIT_SECONDS, Writer

if TYPE_CHECKING:
    from gssr.backends.host import HostSampler, WorkloadSampler

HOST_SECONDS = 1.0
"""The host and the workload's processes are looked at, and what was added is committed, at least this often."""
COLLECT_SECONDS = 60.0
"""Garbage is collected this often, right after a tick, and at no other time."""
EXIT_SAID_WHY = 3
SEPARATOR = "\x1f"
"""Between the words of a line from the supervisor."""


class Plan(NamedTuple):
    """What is to be recorded. ``run`` and ``process`` are columns of those tables, as far as they are known beforehand."""

    path: str
    append: bool
    overwrite: bool
    run: dict[str, Value]
    process: dict[str, Value]
    sampling_seconds: float
    backend: str
    gpus: str
    metrics: Sequence[str]
    visible_gpus: Sequence[str] | None
    host: bool
    summary: bool


def run_sampler(plan: Plan, inbox: int, outbox: int) -> NoReturn:
    """The whole life of the sampler process; called in the forked child, never returns."""
    code = EXIT_SAID_WHY
    try:
        inbox, outbox = let_go(inbox, outbox)
        try:
            code = _Sampler(plan, inbox, outbox).run()
        except (RecordingError, BackendError) as error:
            _say(outbox, f"nothing is recorded: {error}")
        except Exception as error:
            _say(outbox, f"recording stopped: {error!r}")
            if os.environ.get("GSSR_DEBUG"):
                import traceback

                _say(outbox, traceback.format_exc())
    finally:
        os._exit(code)


def _say(outbox: int, text: str) -> None:
    """A line for the user; the supervisor prints it."""
    try:
        os.write(outbox, text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass


def _next(elapsed: float, interval: float) -> int:
    """Number of the next of the deadlines that are ``interval`` s apart."""
    return int(elapsed / interval) + 1


def _begun(plan: Plan) -> Writer:
    """The writer of the run, which is recorded as running. Raises RecordingError."""
    writer, pid = Writer(plan.path, plan.append), os.getpid()
    process = plan.process | {"pid": pid, "pid_start": process_start(pid), "boot_id": boot_id(), "state": "running"}
    writer.begin(plan.run | {"state": "running"}, process)
    return writer


class _Sampler:
    def __init__(self, plan: Plan, inbox: int, outbox: int) -> None:
        self._plan = plan
        self._inbox = inbox
        self._outbox = outbox
        self._clock = Clock()
        with overwriting(plan.path) if plan.overwrite else nullcontext():
            self._writer = _begun(plan)
        self._unread = b""
        self._orphaned = False
        self._end: tuple[int | None, str, float] | None = None
        self._workload: int | None = None
        self._workload_start: int | None = None
        self._workload_sampler: WorkloadSampler | None = None
        self._problem: str | None = None
        self._backend: Backend | None = None
        self._interval = plan.sampling_seconds
        self._by_itself = False
        self._host: HostSampler | None = None

    def run(self) -> int:
        """Record until the workload has ended; the exit status of the process."""
        self._open_backend()
        if self._plan.host:
            from gssr.backends.host import HostSampler

            self._host = HostSampler()
        gc.collect()
        gc.freeze()
        gc.disable()
        self._loop()
        return self._finish()

    def _open_backend(self) -> None:
        plan, writer, now = self._plan, self._writer, self._clock.now()
        try:
            opened = open_backend(plan.backend, str(plan.process["node"]), plan.visible_gpus, plan.sampling_seconds)
            backend = select_gpus(opened.backend, plan.gpus)
        except BackendError as error:
            self._announce(now, "backend", f"no GPU is sampled: {error}")
            return
        self._backend = backend
        if opened.by_itself:
            self._interval, self._by_itself = COMMIT_SECONDS, True
        measured = [name for name in backend.measures if name in plan.metrics]
        gpus = [device._asdict() | {"backend": backend.name} for device in backend.gpus]
        writer.add_gpus(gpus, measured, opened.sampling_seconds or plan.sampling_seconds)
        if opened.sampling_seconds is not None:
            writer.sampled_every(opened.sampling_seconds)
        missing = [name for name in NAMES if name in plan.metrics and name not in measured]
        lacks = f"; not measured: {', '.join(BY_NAME[name].label for name in missing)}" if missing else ""
        what = f"{backend.name}: {len(gpus)} GPUs{lacks}"
        writer.event(now, "backend", "; ".join([what, *opened.remarks, *opened.passed_over]))
        for remark in opened.remarks:
            _say(self._outbox, remark)
        if set(SCORE_INPUTS).intersection(missing):
            why = "; ".join(["the score will be unknown, its inputs are not measured", *opened.passed_over])
            _say(self._outbox, f"{backend.name}: {why}")

    def _announce(self, now: float, kind: str, message: str) -> None:
        self._writer.event(now, kind, message)
        _say(self._outbox, message)

    def _loop(self) -> None:
        interval, clock = self._interval, self._clock
        self._sample_host(clock.now())  # first, because it loads what it needs, which takes longer than some intervals
        begin = last = clock.ticks()
        self._sample(clock.now())
        if self._by_itself:  # between two of its ticks: two threads at once hold each other up
            begin += min(self._plan.sampling_seconds, interval) / 2
        host_due, collect_due = begin + HOST_SECONDS, begin + COLLECT_SECONDS
        self._writer.tick(clock.now())
        tick = 1
        while self._end is None:
            due = begin + tick * interval
            wait = min(due, host_due) - clock.ticks()
            if wait > 0:
                self._wait(wait)
                continue
            ticks, now = clock.ticks(), clock.now()
            if ticks >= due:
                if not self._by_itself and ticks - last > GAP_INTERVALS * interval:
                    self._writer.event(now, "gap", f"no samples for {ticks - last:.3g} s: the sampler was held up")
                self._sample(now)
                last = ticks
            if ticks >= host_due:
                self._sample_host(now)
                host_due = begin + _next(ticks - begin, HOST_SECONDS) * HOST_SECONDS
            self._writer.tick(now)
            self._check_storage()
            if ticks >= collect_due:
                gc.collect()
                collect_due = ticks + COLLECT_SECONDS
            if self._orphaned:
                self._check_workload(now)
            if ticks >= due:
                tick = max(tick + 1, _next(clock.ticks() - begin, interval))
        if not self._by_itself and clock.ticks() - last >= interval / 2:
            self._sample(clock.now())

    def _sample(self, now: float) -> None:
        backend = self._backend
        if backend is None:
            return
        try:
            rows, changes = backend.sample(now), backend.changes()
        except Exception as error:  # a fault in a driver's library, too, ends no more than the sampling of GPUs
            why = str(error) if isinstance(error, BackendError) else f"{backend.name} failed: {error!r}"
            self._announce(now, "backend_lost", why)
            self._backend = None
            self._keep(now, backend, backend.close(), ())
            return
        self._keep(now, backend, rows, changes)

    def _keep(self, now: float, backend: Backend, rows: Sequence[Row], changes: Sequence[Change]) -> None:
        if rows:
            self._writer.add(rows)
        for change in changes:
            self._writer.event(now, change.kind, change.message, change.gpu)
            if change.kind == "gap":
                continue  # the reader sees it in the rows
            whose = "" if change.gpu is None else f"GPU {backend.gpus[change.gpu].device_index}: "
            _say(self._outbox, whose + change.message)

    def _sample_host(self, now: float) -> None:
        if self._host is not None:
            self._writer.add_host(now, self._host.sample(now))
        self._sample_workload(now)
        moved = self._clock.step()
        if moved:
            self._writer.event(now, "clock_step", f"the system clock was set by {moved:+.3f} s")

    def _sample_workload(self, now: float) -> None:
        values = self._workload_sampler.sample(now) if self._workload_sampler is not None else None
        if values is not None:
            self._writer.add_workload(now, values)

    def _check_storage(self) -> None:
        problem = self._writer.problem
        if problem and not self._problem:
            _say(self._outbox, f"{problem}; samples are kept in memory and tried again")
        self._problem = problem

    def _wait(self, seconds: float) -> None:
        """Sleep, or hear from the supervisor."""
        fds = [] if self._orphaned else [self._inbox]
        readable, _, _ = select.select(fds, [], [], seconds)
        if not readable:
            return
        data = os.read(self._inbox, 1 << 16)
        if not data:
            self._orphaned = True
            self._writer.event(
                self._clock.now(), "signal", "the supervisor is gone; the workload is watched to its end"
            )
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._hear(line.decode("utf-8", "surrogateescape").split(SEPARATOR))

    def _hear(self, words: Sequence[str]) -> None:
        kind, writer = words[0], self._writer
        if kind == "started":
            self._workload, when = int(words[1]), self._clock.of_system(float(words[2]))
            self._workload_start = process_start(self._workload)
            writer.started(when)
            writer.event(when, "start", f"the workload was started as process {words[1]}")
            from gssr.backends.host import WorkloadSampler

            self._workload_sampler = WorkloadSampler(self._workload)
            self._sample_workload(self._clock.now())
        elif kind == "event":
            writer.event(self._clock.now(), words[1], words[2])
        elif kind == "ended":
            code, state, when = int(words[1]), words[2], self._clock.of_system(float(words[3]))
            self._end = (code, state, when)
            writer.event(when, "end", f"the workload ended: {state}, exit code {code}")

    def _check_workload(self, now: float) -> None:
        """Without a supervisor: is the workload still there?"""
        if self._workload is None or process_start(self._workload) != self._workload_start:
            self._end = (None, "killed", now)
            self._writer.event(now, "end", "the workload is gone; nobody saw its exit code")

    def _finish(self) -> int:
        assert self._end is not None
        code, state, when = self._end
        now = self._clock.now()
        backend = self._backend
        if backend is not None:
            rows = backend.close()
            self._keep(now, backend, rows, backend.changes())
        written = self._writer.finish(now, code, state, when)
        if self._writer.moved:
            _say(self._outbox, f"{self._plan.path}: was deleted or moved while it was recorded into")
            return EXIT_SAID_WHY
        if not written:
            _say(self._outbox, f"{self._writer.problem}; the last samples are lost")
            return EXIT_SAID_WHY
        if self._plan.summary:
            _say(self._outbox, whole_run(self._writer.totals.values()))
            _say(self._outbox, f"recorded into {self._plan.path}; see it with: gssr analyze {self._plan.path}")
        return 0
