"""Processes that are killed, ended, stopped and continued at random moments."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

from gssr.store.liveness import process_start
from gssr.store.read.open import RecordingError
from tests.faults.tried import Fault, Seen
from tests.faults.tried.job import MOST_LOST, Job, Steps, first_wrong, in_words, passed_on, seen
from tests.waiting import until

IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM)
"""By a sampler: what ends a job is no end for its recording."""
FATAL = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGINT, signal.SIGBUS)


def _steps(rng: random.Random) -> Steps:
    return Steps(rng.randint(15, 40), rng.choice((0, 0, 1, 7, 77)))


def _state(steps: Steps) -> str:
    return "failed" if steps.code else "completed"


def _start(folder: Path, steps: Steps, rng: random.Random) -> Job:
    return Job(folder, ["sh", "-c", steps.script], ms=rng.choice((10, 20, 50, 100)))


def _lost(job: Job, begin: float, end: float) -> float:
    """The longest time without samples beyond the interval, less what the machine itself was late."""
    return max(0.0, job.recorded().hole(begin, end) - job.interval - job.held_up)


def sampler_killed(folder: Path, rng: random.Random) -> Seen:
    """From its first moment to its last: killed early it may have recorded nothing, and late everything."""
    steps = _steps(rng)
    with _start(folder, steps, rng) as job:
        sampler = job.sampler()
        time.sleep(rng.uniform(0.0, 1.2))
        with contextlib.suppress(ProcessLookupError):
            os.kill(sampler, signal.SIGKILL)
        killed = time.time()
        ended = job.end()
        said = in_words(ended.said, folder)
        try:
            found = job.recorded()
        except RecordingError as error:
            nothing = not job.path.exists() or "nothing was recorded" in str(error)
            return Seen(None, said, first_wrong(*passed_on(ended, steps), (nothing, str(error))))
        if (found.state, found.exit_code) == (_state(steps), steps.code):
            return Seen(0.0, said, first_wrong(*passed_on(ended, steps)))
        lost = _lost(job, found.times[0], killed) if found.times and found.times[0] < killed else None
        return Seen(
            lost,
            said,
            first_wrong(
                *passed_on(ended, steps),
                (found.state == "lost", f"state {found.state}"),
                (len(ended.said) == 1 and "the sampler was killed by signal 9" in ended.said[0], f"said {ended.said}"),
                (lost is None or lost <= MOST_LOST, f"{lost} s of samples were lost"),
            ),
        )


def sampler_told_to_end(folder: Path, rng: random.Random) -> Seen:
    steps = _steps(rng)
    with _start(folder, steps, rng) as job:
        sampler = job.sampler()
        for _ in range(rng.randint(1, 4)):
            time.sleep(rng.uniform(0.0, 0.3))
            os.kill(sampler, rng.choice(IGNORED))
        return _nothing_lost(job, steps, folder)


def sampler_stopped(folder: Path, rng: random.Random) -> Seen:
    steps = _steps(rng)
    with _start(folder, steps, rng) as job:
        sampler = job.sampler()
        job.records()
        time.sleep(rng.uniform(0.0, 0.3))
        stop = rng.uniform(0.05, 0.6)
        os.kill(sampler, signal.SIGSTOP)
        time.sleep(stop)
        os.kill(sampler, signal.SIGCONT)
        return _nothing_lost(job, steps, folder, beyond=stop)


def supervisor_killed(folder: Path, rng: random.Random) -> Seen:
    steps = _steps(rng)
    with _start(folder, steps, rng) as job:
        job.records()
        workload = job.workload()
        time.sleep(rng.uniform(0.0, 0.5))
        os.kill(job.process.pid, signal.SIGKILL)
        ended = job.end()
        if ended.code != -signal.SIGKILL:  # it was through already
            return _nothing_lost(job, steps, folder)
        until(lambda: process_start(workload) is None, "the workload's end")
        gone = time.time()
        until(lambda: job.recorded().state != "running", "the end of the recording")
        found = job.recorded()
        lost = _lost(job, found.times[0], gone)
        printed = (folder / "out").read_bytes()
        return seen(
            ended,
            folder,
            lost,
            (printed == steps.output, "the workload did not run on to its end"),
            (
                (found.state, found.exit_code) in (("killed", None), (_state(steps), steps.code)),
                f"state {found.state}, {found.exit_code}",
            ),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def supervisor_told_to_end(folder: Path, rng: random.Random) -> Seen:
    steps = Steps(2000, 0)
    with _start(folder, steps, rng) as job:
        job.workload()
        job.sampler()
        time.sleep(rng.uniform(0.0, 1.0))
        sent = rng.choice((signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
        job.process.send_signal(sent)
        ended = job.end()
        found = job.recorded()
        begin, end = found.started_at, found.ended_at or 0.0
        lost = _lost(job, begin, end)
        return seen(
            ended,
            folder,
            lost,
            (ended.code == 128 + sent, f"exit code {ended.code} after signal {sent}"),
            (found.state == "killed" and found.exit_code == 128 + sent, f"state {found.state}, {found.exit_code}"),
            (any(sent.name in text for text in found.said("signal")), "the signal is no event"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def supervisor_stopped(folder: Path, rng: random.Random) -> Seen:
    steps = _steps(rng)
    with _start(folder, steps, rng) as job:
        time.sleep(rng.uniform(0.0, 1.0))
        job.process.send_signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.0, 2.0))
        job.process.send_signal(signal.SIGCONT)
        return _nothing_lost(job, steps, folder)


def workload_killed(folder: Path, rng: random.Random) -> Seen:
    with _start(folder, Steps(2000, 0), rng) as job:
        workload = job.workload()
        time.sleep(rng.uniform(0.0, 0.8))
        by = rng.choice(FATAL)
        os.kill(workload, by)
        ended = job.end()
        found = job.recorded()
        lost = _lost(job, found.started_at, found.ended_at or 0.0)
        return seen(
            ended,
            folder,
            lost,
            (ended.code == 128 + by, f"exit code {ended.code} after {by.name}"),
            ((found.state, found.exit_code) == ("killed", 128 + by), f"state {found.state}, {found.exit_code}"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def workload_stopped(folder: Path, rng: random.Random) -> Seen:
    steps = _steps(rng)
    with _start(folder, steps, rng) as job:
        workload = job.workload()
        time.sleep(rng.uniform(0.0, 0.3))
        os.kill(workload, signal.SIGSTOP)
        time.sleep(rng.uniform(0.0, 0.6))
        os.kill(workload, signal.SIGCONT)
        return _nothing_lost(job, steps, folder)


def all_killed(folder: Path, rng: random.Random) -> Seen:
    with _start(folder, Steps(2000, 0), rng) as job:
        pids = [job.process.pid, job.sampler(), job.workload()]
        job.records()
        time.sleep(rng.uniform(0.0, 1.2))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # else one may see another's end, and record that, before its own
        rng.shuffle(pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        killed = time.time()
        ended = job.end()
        until(lambda: job.recorded().state != "running", "the kernel to bury them")
        found = job.recorded()
        lost = _lost(job, found.times[0], killed)
        return seen(
            ended,
            folder,
            lost,
            (found.state == "lost", f"state {found.state}"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def _nothing_lost(job: Job, steps: Steps, folder: Path, beyond: float = 0.0) -> Seen:
    """The end of a round after which everything must be as if nothing had happened, but for ``beyond`` s of samples."""
    ended = job.end()
    found = job.recorded()
    lost = max(0.0, _lost(job, found.started_at, found.ended_at or 0.0) - beyond)
    return seen(
        ended,
        folder,
        lost,
        *passed_on(ended, steps),
        ((found.state, found.exit_code) == (_state(steps), steps.code), f"state {found.state}, {found.exit_code}"),
        (lost <= MOST_LOST, f"{lost} s of samples were lost"),
    )


FAULTS = (
    Fault("sampler-killed", "the sampler gets SIGKILL", sampler_killed),
    Fault("sampler-told-to-end", "the sampler gets SIGTERM, SIGINT, SIGHUP, SIGQUIT …", sampler_told_to_end),
    Fault("sampler-stopped", "the sampler is stopped and continued; lost: beyond that time", sampler_stopped),
    Fault("supervisor-killed", "`gssr profile` gets SIGKILL; the command runs on", supervisor_killed),
    Fault("supervisor-told-to-end", "`gssr profile` gets SIGTERM, SIGHUP or SIGQUIT", supervisor_told_to_end),
    Fault("supervisor-stopped", "`gssr profile` is stopped and continued", supervisor_stopped),
    Fault("workload-killed", "the command gets SIGKILL, SIGTERM, SIGSEGV …", workload_killed),
    Fault("workload-stopped", "the command is stopped and continued", workload_stopped),
    Fault("all-killed", "everything gets SIGKILL at once, as at a time limit", all_killed),
)
