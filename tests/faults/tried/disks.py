"""Disks that are full, or can't be written, for a while or to the end: by a library that is preloaded into the job
(tests/fakes/full.c), and by a small filesystem of its own where one can be mounted."""

import contextlib
import errno
import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import ENVIRONMENT, GSSR, PYTHON, ROOT
from gssr.store.read.open import RecordingError
from tests.faults.tried import Fault, NotHereError, Seen
from tests.faults.tried.job import (
    Ended,
    Job,
    Steps,
    first_wrong,
    in_words,
    passed_on,
    preloaded,
    recorded,
    seen,
)
from tests.faults.tried.surroundings import unshare

ENDED = ("completed", "failed")


class _Disk:
    """The disk below a folder, as a job sees it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "full"
        self.folder = folder / "disk"
        self.folder.mkdir()
        names = {"FULL_FILE": self._file, "FULL_DIR": self.folder}
        self.environment = ENVIRONMENT | {"LD_PRELOAD": str(preloaded("full"))}
        self.environment |= {name: str(path.resolve()) for name, path in names.items()}

    def fill(self, rng: random.Random, after: int = 0) -> None:
        """Full from now on, when ``after`` more calls have succeeded."""
        error = rng.choice((errno.ENOSPC, errno.EDQUOT))
        new = self._file.with_suffix(".new")
        new.write_text(f"{rng.choice(('grow', 'grow', 'write'))} {error} {after}\n")
        new.rename(self._file)

    def free(self) -> None:
        """Space again."""
        self._file.unlink(missing_ok=True)


def _nothing_recorded(ended: Ended) -> bool:
    return any("nothing is recorded" in line for line in ended.said)


def full_for_a_while(folder: Path, rng: random.Random) -> Seen:
    """From any write on, then space again: what was sampled meanwhile is kept, and written."""
    disk = _Disk(folder)
    steps = Steps(rng.randint(40, 60), rng.choice((0, 7)))
    at_once = rng.random() < 0.4
    if at_once:
        disk.fill(rng, after=rng.choice((0, rng.randrange(30), rng.randrange(30, 200))))
    with Job(disk.folder, ["sh", "-c", steps.script], environment=disk.environment) as job:
        if at_once:
            time.sleep(rng.uniform(0.2, 1.2))
        else:
            job.records()
            disk.fill(rng, after=rng.randrange(10))
            time.sleep(rng.uniform(0.3, 1.6))
        disk.free()
        ended = job.end()
        said = in_words(ended.said, disk.folder)
        checks = passed_on(ended, steps)
        if _nothing_recorded(ended):
            return Seen(None, said, first_wrong(*checks, (len(ended.said) == 1, f"said {ended.said}")))
        found = job.recorded()
        begin, end = found.times[0] if found.times else found.started_at, found.ended_at or time.time()
        lost = max(0.0, found.hole(begin, end) - job.interval - job.held_up)
        return Seen(
            lost,
            said,
            first_wrong(
                *checks,
                (found.state in ENDED and found.exit_code == steps.code, f"{found.state}, {found.exit_code}"),
                (lost <= 1.0, f"{lost} s of samples were lost"),
            ),
        )


def full_to_the_end(folder: Path, rng: random.Random) -> Seen:
    """Nothing can grow any more, from any write on: how the run ended is recorded all the same."""
    disk = _Disk(folder)
    steps = Steps(rng.randint(10, 25), rng.choice((0, 7)))
    with Job(disk.folder, ["sh", "-c", steps.script], environment=disk.environment) as job:
        if rng.random() < 0.5:
            job.records()
        else:
            time.sleep(rng.uniform(0.0, 0.8))
        (folder / "full.new").write_text(f"grow {rng.choice((errno.ENOSPC, errno.EDQUOT))} {rng.randrange(20)}\n")
        (folder / "full.new").rename(folder / "full")
        return _ended(job, steps, disk.folder)


def _ended(job: Job, steps: Steps, folder: Path) -> Seen:
    """A job whose disk was full when it ended: it is recorded how, if anything was."""
    ended = job.end()
    said, checks = in_words(ended.said, folder), passed_on(ended, steps)
    if _nothing_recorded(ended):
        return Seen(None, said, first_wrong(*checks))
    try:
        found = job.recorded()
    except RecordingError as error:
        return Seen(None, said, f"{error}; said {ended.said}")
    how = (found.state, found.exit_code)
    return Seen(None, said, first_wrong(*checks, (found.state in ENDED and found.exit_code == steps.code, f"{how}")))


@contextlib.contextmanager
def _mounted(folder: Path, size: str) -> Iterator[Path]:
    """A filesystem of this size in memory. Raises NotHereError."""
    place = folder / "mounted"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True
    )
    if done.returncode:
        raise NotHereError(f"nothing can be mounted: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def small_disk(folder: Path, rng: random.Random) -> Seen:
    """A real one that the workload itself fills, at any moment."""
    with _mounted(folder, "2m") as place:
        (place / "other").write_bytes(bytes(rng.randrange(1_500_000)))
        steps = Steps(rng.randint(10, 30), rng.choice((0, 7)))
        filling = f"(sleep {rng.uniform(0, 1):.2f}; cat /dev/zero > fill 2>/dev/null) & {steps.script}"
        with Job(place, ["sh", "-c", f"cd {place}; {filling}"], "synthetic:train:8", ms=20) as job:
            if not rng.randrange(3):
                time.sleep(rng.uniform(0.5, 1.5))
                (place / "other").unlink()
            return _ended(job, steps, place)


def read_only(folder: Path, rng: random.Random) -> Seen:
    """What a killed sampler left is read where nothing can be written, and nothing is recorded there."""
    with _mounted(folder, "8m") as place:
        steps = Steps(rng.randint(10, 20), rng.choice((0, 7)))
        with Job(place, ["sh", "-c", steps.script]) as job:
            job.records()
            sampler = job.sampler()
            with contextlib.suppress(ProcessLookupError):
                os.kill(sampler, signal.SIGKILL)
            n = job.n()
            job.end()
        (place / "pid").unlink(missing_ok=True)
        (place / "run.sql-shm").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        there = sorted(path.name for path in place.iterdir())
        found = job.recorded()
        other = place / "other.sql"
        done = subprocess.run(
            [*GSSR, "profile", "--backend", "synthetic", "-o", other, "--", "sh", "-c", f"exit {steps.code}"],
            capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=90,
        )  # fmt: skip
        said = [line.removeprefix("gssr: ") for line in done.stderr.splitlines()]
        return Seen(
            None,
            in_words(said, place),
            first_wrong(
                (done.returncode == steps.code, f"exit code {done.returncode}, not {steps.code}"),
                (len(said) == 1 and "Read-only file system" in said[0], f"said {said}"),
                (
                    found.state in (*ENDED, "lost") and len(found.times) * 2 >= n,
                    f"{found.state}, {len(found.times)} of {n}",
                ),
                (sorted(path.name for path in place.iterdir()) == there, "the folder changed"),
            ),
        )


_READER = (
    "import sqlite3, sys, time\n"
    "reader = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True, isolation_level=None)\n"
    "reader.execute('BEGIN')\n"
    "reader.execute('SELECT count(*) FROM samples').fetchone()\n"
    "time.sleep(float(sys.argv[2]))\n"
)
_MOUNT = ROOT / "tests" / "fakes" / "fuse" / "mount.py"


def slow_reader(folder: Path, rng: random.Random) -> Seen:
    """On a filesystem that counts as shared a reader that holds a transaction lets nobody write: samples wait in memory."""
    disk, place = folder / "disk", folder / "shared"
    disk.mkdir()
    place.mkdir()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise NotHereError("nothing can be mounted by way of /dev/fuse")
    around = [*unshare(), PYTHON, str(_MOUNT), str(disk), str(place), "--"]
    held = rng.uniform(7, 9)
    steps = Steps(round((held + 3) / 0.05), rng.choice((0, 7)))
    reading = shlex.join([PYTHON, "-c", _READER, str(place / "run.sql"), f"{held:.2f}"])
    script = f"(sleep 1; {reading}) & {steps.script}"
    with Job(place, ["sh", "-c", script], "synthetic:train:64", ms=20, around=around) as job:
        ended = job.end()
        found = recorded(disk / "run.sql")
        lost = found.hole(found.started_at, found.ended_at or 0.0) - job.interval - job.held_up
        return seen(
            ended,
            folder,
            max(lost, 0.0),
            *passed_on(ended, steps),
            ((found.state in ENDED, found.exit_code) == (True, steps.code), f"state {found.state}, {found.exit_code}"),
            (lost < 2.0, f"{lost:.2f} s without a sample while {held:.2f} s were read"),
        )


FAULTS: tuple[Fault, ...] = (
    Fault("full-a-while", "disk or quota full from any write on, then space again", full_for_a_while),
    Fault("full-to-the-end", "disk or quota full from any moment on, to the end", full_to_the_end),
    Fault("small-disk", "a small filesystem that the command fills", small_disk),
    Fault("read-only", "a filesystem that is read-only", read_only),
    Fault(
        "slow-reader", "a reader holds a transaction for up to 9 s, on a filesystem shared between hosts", slow_reader
    ),
)
