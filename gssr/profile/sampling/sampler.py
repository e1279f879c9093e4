"""The sampler: a small process that asks the backend at every tick and writes what it says.

It keeps absolute deadlines, so the rate doesn't drift, or collects from a backend that keeps its own; it records the time
each sample was really taken; it never writes to the terminal but sends lines to the supervisor; and nothing it does can
reach the workload.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from shlex import quote
from typing import TYPE_CHECKING, NoReturn

from gssr.backends.allowed_cores import allowed_cores
from gssr.profile.outbox import BEGUN_ANEW, hand_on, hand_on_failure
from gssr.profile.output import whole_of
from gssr.profile.sampling.clock import RecordingClock, against_files
from gssr.profile.sampling.marks import Ear, Hearing, MarkReceiver
from gssr.profile.sampling.plan import SEPARATOR, Plan
from gssr.profile.sampling.sample_writer import SampleWriter
from gssr.profile.sampling.say_once import say_from_sampler
from gssr.profile.sampling.share import Share
from gssr.profile.sampling.summary import whole_run
from gssr.store.disk import companion_path, sizes, traces_beside
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.liveness import boot_id, process_start
from gssr.store.read.open import RecordingError
from gssr.store.write.create import overwriting, remove
from gssr.store.write.writer import Writer

if TYPE_CHECKING:
    from gssr.backends.host import HostSampler
    from gssr.backends.memory_cgroup import MemoryCgroup
    from gssr.backends.workload_processes import WorkloadSampler

HOST_SECONDS = 1.0
"""The host and the workload's processes are looked at, and what was added is committed, at least this often."""
COLLECT_SECONDS = 60.0
"""Garbage is collected this often, right after a tick, and at no other time."""
_KILLED = 128 + 9
"""Exit code of a command that was ended by SIGKILL, the kernel's when memory is out."""
EXIT_SAID_WHY = 3


def run_sampler(plan: Plan, inbox: int, outbox: int, ear: Ear | None = None) -> NoReturn:
    """Be the sampler, in the forked child that has let go of the job; exits and never returns.

    Args:
        plan: what is to be recorded.
        inbox: the descriptor at which the supervisor's lines arrive.
        outbox: the descriptor for lines that the supervisor prints.
        ear: hears the user's marks; None: there are none.
    """
    code = EXIT_SAID_WHY
    try:
        try:
            replaces = plan.overwrite and not plan.attached and os.path.lexists(plan.path)
            heard = _wait_for_start(inbox) if replaces else b""
            code = 0 if heard is None else _record(plan, inbox, outbox, None if ear is None else ear.fd, heard)
        except RecordingError as error:
            say_from_sampler(plan, lambda text: hand_on(outbox, text), f"nothing is recorded: {error}")
        except Exception as error:
            hand_on_failure(outbox, error)
    finally:
        if ear is not None:
            ear.remove()
            ear.tidy()
        os._exit(code)


def _record(plan: Plan, inbox: int, outbox: int, marks: int | None, heard: bytes) -> int:
    """Record to the end and return the exit status.

    Where the recording may only grow to ``plan.most_bytes``, a full one is deleted and a new one begun. ``marks``: the
    descriptor for marks, None for none; ``heard``: what the supervisor has said already.
    """
    while True:
        sampler = _Sampler(plan, inbox, outbox, marks, heard)
        code = sampler.run()
        if plan.most_bytes is not None and (sampler.full or sampler.orphaned):
            remove(plan.path)
        if not sampler.full:
            break
        plan, heard = plan._replace(run=plan.run | {"started_at": time.time()}), b""
        hand_on(outbox, BEGUN_ANEW)
    if plan.most_bytes is not None and sampler.orphaned:
        os.rmdir(os.path.dirname(plan.path))
    return code


def _wait_for_start(inbox: int) -> bytes | None:
    """Wait until it is known whether the command can be executed, so that a mistyped one overwrites no recording.

    Returns what the supervisor has said so far; None when the command can't be executed or the supervisor is gone.
    """
    heard = b""
    while data := os.read(inbox, 1 << 16):
        heard += data
        if b"\n" in heard:
            kinds = [line.split(SEPARATOR.encode())[0] for line in heard.split(b"\n")[:-1]]
            if b"started" in kinds or b"ended" in kinds:
                return heard if b"started" in kinds else None
    return None  # the supervisor is gone, and has started nothing


def _next(elapsed: float, interval: float) -> int:
    """Return the number (from 1) of the next deadline, ``interval`` s apart, after ``elapsed`` s."""
    return int(elapsed / interval) + 1


def _keep_what_is_loaded(collect: bool) -> None:
    """Exempt all objects that there are now from garbage collection; with ``collect``, after one last collection."""
    if collect:
        gc.collect()
    gc.freeze()


def _begun(plan: Plan, clock: RecordingClock) -> SampleWriter:
    """Open the recording and write that the run is running; return its writer. Raises RecordingError."""
    pid = os.getpid()
    process = plan.process | {"pid": pid, "pid_start": process_start(pid), "boot_id": boot_id(), "state": "running"}
    process["booted_at"] = clock.booted_at
    if not plan.attached:
        process["n_cores"] = allowed_cores()
    writer: SampleWriter
    if plan.lines_to is not None:
        from gssr.profile.sampling.line_writer import LineWriter

        writer = LineWriter(plan.lines_to)
    elif plan.hidden is None:
        writer = Writer(plan.path, plan.append, plan.keep)
    else:
        from gssr.profile.sampling.redact import RedactedWriter

        writer = RedactedWriter(plan.path, plan.append, plan.keep, plan.hidden)
        process["boot_id"] = process["booted_at"] = None
    against = against_files(os.path.dirname(plan.path)) if plan.siblings and plan.host else None
    if against is not None:
        process |= {"clock_offset": against[0], "clock_error": against[1]}
    writer.begin(plan.run | {"state": "running"}, process)
    return writer


class _Sampler:
    def __init__(self, plan: Plan, inbox: int, outbox: int, marks: int | None, heard: bytes) -> None:
        """Open the recording and prepare to sample; raises RecordingError.

        ``marks``: the descriptor at which marks arrive, None for none; ``heard``: what the supervisor has said
        already.
        """
        self._plan = plan
        self._inbox = inbox
        self._outbox = outbox
        self._clock = RecordingClock()
        planned = plan.run["started_at"]  # before the workload, which may have made marks by now
        assert isinstance(planned, float)
        self._marks = MarkReceiver(marks, self._clock, self._clock.of_system(planned))
        self._hearing = Hearing([*self._marks.fds, inbox])
        with overwriting(plan.path) if plan.overwrite else nullcontext(frozenset[str]()) as deleted:
            self._writer = _begun(plan, self._clock)
        for run_id in sorted(deleted):
            hand_on(
                outbox, f"{plan.path}: {run_id} is deleted: it was over when this run began, which replaces it (-f)"
            )
        self._unread = heard
        self.orphaned = False
        """The supervisor is gone."""
        self._end: tuple[int | None, str, float] | None = None
        self._workload: int | None = None
        self._workload_start: int | None = None
        self._workload_sampler: WorkloadSampler | None = None
        self._memory: MemoryCgroup | None = None
        self._resident: int | None = None
        """Bytes that the workload had in memory when it was looked at last."""
        self._problem: str | None = None
        self.full = False
        """The recording has become as large as it may."""
        self._host: HostSampler | None = None
        self._share = Share(plan, self._writer, lambda text: hand_on(outbox, text), self._clock.now())
        if plan.trace_when is not None:
            from gssr.profile.sampling.low_score import LowScore

            tell = self._writer.event
            folder = traces_beside(plan.path)
            self._share.low_score = LowScore(plan.trace_when, folder, lambda now, text: tell(now, "trace", text))

    def run(self) -> int:
        """Record until the workload has ended; return the exit status of the process."""
        self._loop()
        return self._finish()

    def _loop(self) -> None:
        """Sample at every deadline, write, and listen to supervisor and workload, until the end is known (``_end``).

        Afterwards one more sample is taken, unless the last one is younger than half an interval.
        """
        clock, share = self._clock, self._share
        self._hear_all(b"")
        share.look(clock.now())
        self._sample_host(clock.now())  # first, because it loads what it needs, which takes longer than some intervals
        _keep_what_is_loaded(share.sampling)
        gc.disable()
        begin = last = clock.ticks()
        host_seconds = self._plan.sampling_seconds if self._plan.hurried else HOST_SECONDS
        host_due, collect_due, look_due = begin + host_seconds, begin + COLLECT_SECONDS, self._next_look(begin)
        share.sample(clock.now())
        begin += share.lag
        self._writer.tick(clock.now())
        tick, interval = 1, share.interval
        while self._end is None:
            due = begin + tick * interval if share.sampling else math.inf
            wait = min(due, host_due, look_due) - clock.ticks()
            if wait > 0:
                self._wait(wait)
                continue
            ticks = clock.ticks()
            now = clock.at(ticks)
            if ticks >= look_due:
                taken_over = share.settled
                taken = share.look(now)
                look_due = self._next_look(ticks)
                interval = share.interval
                if taken and share.sampling:
                    _keep_what_is_loaded(due == math.inf)
                    ticks, now = clock.ticks(), clock.now()
                    # Where they are taken over the rank before has perhaps sampled them just now.
                    soonest = ticks + interval / 2 if taken_over else ticks
                    last = last if due < math.inf else ticks
                    waits = due < math.inf and not self._plan.hurried  # what is there already is sampled with it
                    begin = due = max(soonest, due) if waits else soonest
                    tick = 0
            if ticks >= due:
                if not share.by_itself and ticks - last > GAP_INTERVALS * interval:
                    self._writer.event(now, "gap", f"no samples for {ticks - last:.3g} s: the sampler was held up")
                share.sample(now)
                last = ticks
                if tick == 0:
                    begin += share.lag
            if ticks >= host_due:
                self._sample_host(now)
                host_due = begin + _next(ticks - begin, host_seconds) * host_seconds
            if self._plan.hurried:
                self._writer.commit(now)
            if now >= self._writer.due:
                self._writer.tick(now)
                self._share.publish(now)
                if self._share.low_score is not None:
                    self._share.low_score.tick(now)
                self._check_storage(now)
            if ticks >= collect_due:
                gc.collect()
                collect_due = ticks + COLLECT_SECONDS
            if self.orphaned:
                self._check_workload(now)
            if ticks >= due:
                # One that is late by half an interval stands for the next as well: two at once tell nothing more.
                late = _next(ticks + interval / 2 - begin, interval)
                tick = max(tick + 1, late, _next(clock.ticks() - begin, interval))
        opened_last = share.last_look(clock.now()) > 0
        if opened_last or (not share.by_itself and clock.ticks() - last >= share.interval / 2):
            share.sample(clock.now())

    def _next_look(self, ticks: float) -> float:
        """Return when to look for something to take over, on the scale of ``ticks``; infinity for never."""
        seconds = self._share.look_seconds
        return math.inf if seconds is None else ticks + seconds

    def _sample_host(self, now: float) -> None:
        """Record the host, if that is this process's part, the workload's processes, and whether the system clock was
        set."""
        if self._share.host and self._host is None:
            from gssr.backends.host import HostSampler

            self._host = HostSampler()
        if self._host is not None:
            self._writer.add_host(now, HOST.in_order(self._host.sample(now)._asdict()))
        self._sample_workload(now)
        moved = self._clock.step()
        if moved:
            self._writer.event(now, "clock_step", f"the system clock was set by {moved:+.3f} s")

    def _sample_workload(self, now: float) -> None:
        """Record what the workload's processes use; nothing before it has started."""
        values = self._workload_sampler.sample(now) if self._workload_sampler is not None else None
        if values is not None:
            self._resident = values.rss
            self._writer.add_workload(now, WORKLOAD.in_order(values._asdict()))

    def _say_for_all(self, text: str) -> None:
        """Say a line, once for all ranks that have the same to say."""
        say_from_sampler(self._plan, lambda line: hand_on(self._outbox, line), text)

    def _check_storage(self, now: float) -> None:
        """End the recording if it is as large as it may be, and say once when it can't be written."""
        if self._plan.most_bytes is not None and sum(sizes(self._plan.path)) > self._plan.most_bytes:
            self.full, self._end = True, (0, "completed", now)
        problem = self._writer.problem
        if problem and not self._problem:
            self._say_for_all(f"{problem}; samples are kept in memory and tried again")
        self._problem = problem

    def _wait(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until the supervisor or the workload says something, which is then taken.

        Where the supervisor is gone, ``orphaned`` becomes True.
        """
        fds = self._marks.fds if self.orphaned else [*self._marks.fds, self._inbox]
        readable = self._hearing.wait(fds, seconds)
        if not readable:
            return
        self._keep_marks()
        if self._inbox not in readable:
            return
        data = os.read(self._inbox, 1 << 16)
        if not data:
            self.orphaned = True
            self._writer.event(self._clock.now(), "signal", "the supervisor is gone; the command is watched to its end")
            self._check_workload(self._clock.now())
        self._hear_all(data)

    def _hear_all(self, data: bytes) -> None:
        """Take what the supervisor has said, whole lines of it; the rest is kept for the next call."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._hear(line.decode("utf-8", "surrogateescape").split(SEPARATOR))

    def _keep_marks(self) -> None:
        for when, text in self._marks.read():
            self._writer.event(when, "mark", text)

    def _hear(self, words: Sequence[str]) -> None:
        """Take one line of the supervisor, as words: that the workload has started or ended, or an event to record."""
        kind, writer = words[0], self._writer
        if kind == "started":
            self._workload, when = int(words[1]), self._clock.of_system(float(words[2]))
            self._workload_start = process_start(self._workload)
            writer.started(when)
            writer.event(when, "start", f"the command was started as process {words[1]}")
            from gssr.backends.memory_cgroup import MemoryCgroup
            from gssr.backends.workload_processes import WorkloadSampler

            self._memory = MemoryCgroup()
            self._workload_sampler = WorkloadSampler(self._workload)
            self._share.started(self._workload, self._workload_sampler)
            self._sample_workload(self._clock.now())
        elif kind == "event":
            writer.event(self._clock.now(), words[1], words[2])
        elif kind == "ended":
            code, state, when = int(words[1]), words[2], self._clock.of_system(float(words[3]))
            self._end = (None if self._plan.attached else code, state, when)  # what is recorded from beside has its own
            what = "the recording ended" if self._plan.attached else f"the command ended: {state}, exit code {code}"
            writer.event(when, "end", what)
            if state == "killed" and code == _KILLED and self._memory is not None:
                self._keep_out_of_memory(when)

    def _keep_out_of_memory(self, when: float) -> None:
        """Record that the workload ran out of memory, if that is why it was killed."""
        assert self._memory is not None
        why = self._memory.explain_kill(self._resident)
        if why is not None:
            process = self._plan.process
            who = f"rank {process['rank']} on {process['node']}" if self._plan.siblings else "the command"
            self._writer.event(when, "out_of_memory", f"{who} ran {why}")

    def _check_workload(self, now: float) -> None:
        """End the recording if the workload is gone, now that no supervisor will say so."""
        if self._workload is None or process_start(self._workload) != self._workload_start:
            self._end = (None, "killed", now)
            what = "the supervisor" if self._plan.attached else "the command"
            self._writer.event(now, "end", f"{what} is gone; nobody saw its exit code")

    def _finish(self) -> int:
        """Write the end of the recording and say where it is; return the exit status."""
        assert self._end is not None
        code, state, when = self._end
        self._keep_marks()  # those of its last moment
        now = self._clock.now()
        self._share.close(now)
        written = self._writer.finish(now, code, state, when)
        if self._writer.moved:
            self._say_for_all(f"{self._plan.path}: was deleted or moved while it was recorded into")
            return EXIT_SAID_WHY
        if not written:
            self._say_for_all(f"{self._writer.problem}; the last samples are lost")
            return EXIT_SAID_WHY
        if self._plan.summary:
            hand_on(self._outbox, whole_run(self._writer.totals.values()))
            path = whole_of(self._plan.path)
            hand_on(self._outbox, f"recorded into {path}; see it with: gssr analyze {quote(path)}")
        self._say_what_is_beside()
        return 0

    def _say_what_is_beside(self) -> None:
        """Say that SQLite's log is still beside the recording, as it is where a reader has the recording open: a copy
        of the recording alone lacks the last samples. Nothing is said of a rank's file: merging takes its log in."""
        path, log = self._plan.path, companion_path(self._plan.path, "-wal")
        if path == whole_of(path) and os.path.exists(log) and os.path.getsize(log):
            hand_on(
                self._outbox,
                f"{os.path.basename(log)} beside it is part of the recording: copy both files or, once no reader has it "
                f"open, make them one with: gssr merge {quote(path)}",
            )
