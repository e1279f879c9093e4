"""Clocks that are set, a machine that is suspended, and a week that passes in minutes: by a library that is preloaded into
the job (tests/fakes/skew.c), as nobody should set the clock of a machine that others use."""

import mmap
import os
import random
import struct
import tempfile
import time
from pathlib import Path

from benchmarks.processes import ENVIRONMENT, resident_bytes
from tests.faults.tried import Fault, Seen
from tests.faults.tried.job import MOST_LOST, Job, Recorded, Steps, passed_on, preloaded, seen
from tests.waiting import until

HOUR = 3600.0
WEEK = 168 * HOUR
SUSPENDED = 1
SHARED_MEMORY = "/dev/shm"


class Clocks:
    """The clocks of a job: seconds by which the system's was set, and for which the machine was suspended."""

    def __init__(self, folder: Path, fast: bool = False) -> None:
        """``fast``: what the sampler would sleep passes at once."""
        path = folder / "clocks"
        path.write_bytes(bytes(16))
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 16)
        self.environment = ENVIRONMENT | {"LD_PRELOAD": str(preloaded("skew")), "SKEW_FILE": str(path)}
        if fast:
            self.environment["SKEW_FAST"] = "1"

    def __getitem__(self, which: int) -> float:
        return float(struct.unpack_from("=d", self._map, 8 * which)[0])

    def move(self, which: int, seconds: float) -> None:
        """Set one of them further."""
        struct.pack_into("=d", self._map, 8 * which, self[which] + seconds)


def clock_set(folder: Path, rng: random.Random) -> Seen:
    steps, clocks = Steps(rng.randint(45, 60), rng.choice((0, 7))), Clocks(folder)
    with Job(folder, ["sh", "-c", steps.script], environment=clocks.environment) as job:
        job.records()
        began = time.time()
        step = rng.choice((-HOUR, HOUR))
        clocks.move(0, step)
        if rng.random() < 0.5:  # and back
            until(lambda: job.n("events", "kind = 'clock_step'"), "the event")
            clocks.move(0, -step)
        ended = job.end()
        after = time.time()
        found = job.recorded()
        lost = _lost(job, found)
        told = found.said("clock_step")
        return seen(
            ended,
            folder,
            lost,
            *passed_on(ended, steps),
            (bool(told) and f"{step:+.0f}" in told[0].replace(".000", ""), f"events {told}"),
            (found.times[-1] <= after and (found.ended_at or 0.0) <= after, "times have jumped"),
            (found.started_at <= began, "the start has jumped"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        )


def suspended(folder: Path, rng: random.Random) -> Seen:
    steps, clocks = Steps(rng.randint(25, 40), rng.choice((0, 7))), Clocks(folder)
    with Job(folder, ["sh", "-c", steps.script], environment=clocks.environment) as job:
        job.records()
        time.sleep(rng.uniform(0.0, 0.3))
        seconds = rng.uniform(30.0, 2 * HOUR)
        clocks.move(SUSPENDED, seconds)
        ended = job.end()
        found = job.recorded()
        lost = max(0.0, _lost(job, found) - seconds)
        return seen(
            ended,
            folder,
            lost,
            *passed_on(ended, steps),
            (bool(found.said("gap")), "the gap is no event"),
            (not found.said("clock_step"), "a suspension was taken for a clock that was set"),
            (lost <= MOST_LOST, f"{lost} s of samples were lost beyond the suspension"),
        )


def week(folder: Path, rng: random.Random, seconds: float = WEEK) -> Seen:
    """A sample a minute, and the host every second; in memory, as waiting for a disk would take most of the time."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if os.path.isdir(SHARED_MEMORY) else folder) as name:
        return _week(Path(name), rng, seconds)


def _week(folder: Path, rng: random.Random, seconds: float) -> Seen:
    clocks, code = Clocks(folder, fast=True), rng.choice((0, 7))
    script = f"until [ -e stop ]; do sleep 0.05; done; exit {code}"
    with Job(folder, ["sh", "-c", script], ms=60_000, environment=clocks.environment) as job:
        sampler = job.sampler()
        _wait_for(job, clocks, seconds / 10)
        size, descriptors = resident_bytes(sampler), _descriptors(sampler)
        _wait_for(job, clocks, seconds)
        grown, opened = resident_bytes(sampler) - size, _descriptors(sampler) - descriptors
        (folder / "stop").touch()
        ended = job.end()
        found = job.recorded()
        minutes = ((found.ended_at or 0.0) - found.started_at) / 60
        return seen(
            ended,
            folder,
            max(0.0, found.hole(found.started_at, found.ended_at or 0.0) - 60.0),
            (ended.code == code, f"exit code {ended.code}"),
            (60 * minutes >= seconds, f"{minutes:.0f} minutes were recorded"),
            (abs(len(found.times) - minutes) <= 2, f"{len(found.times)} samples in {minutes:.0f} minutes"),
            (not found.said("gap") and not found.said("clock_step"), f"events: {found.events[:5]}"),
            (grown < 2e6, f"the sampler has grown by {grown:,.0f} bytes"),
            (opened <= 2, f"{opened} descriptors more are open"),  # one may just be in use
        )


def _wait_for(job: Job, clocks: Clocks, seconds: float) -> None:
    while clocks[SUSPENDED] < seconds:
        if job.process.poll() is not None:
            raise RuntimeError("the job has ended")
        time.sleep(0.05)


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _lost(job: Job, found: Recorded) -> float:
    return max(0.0, found.hole(found.started_at, found.ended_at or 0.0) - job.interval - job.held_up)


FAULTS = (
    Fault("clock-set", "the clock is set by an hour, forward or back, and perhaps again", clock_set),
    Fault("suspended", "the machine is suspended for up to two hours; lost: beyond that time", suspended),
    Fault("week", "the command runs for a simulated week", week),
)
