"""Commands that do what commands do: fork, leave processes behind, refuse to end, print a flood, be over at once."""

import os
import random
import signal
import threading
import time
from pathlib import Path

from benchmarks.processes import PYTHON
from gssr.store.liveness import process_start
from tests.faults.tried import Fault, NotHereError, Seen
from tests.faults.tried.job import MOST_LOST, Job, seen

GIGABYTE = 1_000_000_000
DESCRIPTORS = 10_000

_DAEMON = """
import os, sys, time
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    sys.exit(int(sys.argv[1]))
os.setsid()
if os.fork():
    os._exit(0)
for fd in range(3):
    os.close(fd)
open("daemon", "w").write(str(os.getpid()))
os.write(write, b"!")
time.sleep(60)
"""
_CLOSES = "import os, time; os.closerange(0, 4096); time.sleep(0.3); os._exit({})"
_MANY = "import os, resource, sys; n = int(sys.argv[1])\n" + (
    "resource.setrlimit(resource.RLIMIT_NOFILE, (n + 200, max(n + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))\n"
    "null = os.open(os.devnull, os.O_RDONLY)\n"
    "for fd in range(3, n + 3): os.dup2(null, fd)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def _over(job: Job, code: int, *more: tuple[bool, str]) -> Seen:
    """The end of a round: the exit code is this one, the run has ended well, and nothing is missing."""
    ended = job.end()
    found = job.recorded()
    lost = max(0.0, found.hole(found.started_at, found.ended_at or 0.0) - job.interval - job.held_up)
    state = ("timeout",) if code in (137, 143) else ("failed",) if code else ("completed",)
    return seen(
        ended,
        job.folder,
        lost,
        (ended.code == code, f"exit code {ended.code}, not {code}: {ended.err} {ended.said}"),
        ((found.state,) == state, f"state {found.state}"),
        (bool(found.times), "no sample"),
        (lost <= MOST_LOST, f"{lost} s of samples were lost"),
        *more,
    )


def forks(folder: Path, rng: random.Random) -> Seen:
    n, code = rng.randint(5, 60), rng.choice((0, 3))
    script = f"for i in $(seq {n}); do sleep 0.{rng.randint(1, 5)} & done; wait; exit {code}"
    with Job(folder, ["sh", "-c", script]) as job:
        return _over(job, code)


def daemonises(folder: Path, rng: random.Random) -> Seen:
    code = rng.choice((0, 5))
    with Job(folder, [PYTHON, "-c", _DAEMON, str(code)]) as job:
        try:
            seen = _over(job, code)
            daemon = int((folder / "daemon").read_text())
            alive = process_start(daemon) is not None
            return seen._replace(problem=seen.problem or (None if alive else "the daemon was ended"))
        finally:
            if (folder / "daemon").exists():
                os.kill(int((folder / "daemon").read_text()), signal.SIGKILL)


def ignores_sigterm(folder: Path, rng: random.Random) -> Seen:
    script = "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.05; done"
    with Job(folder, ["sh", "-c", script], options=("--no-summary",)) as job:
        workload = job.workload()
        job.records()
        for _ in range(rng.randint(1, 3)):
            job.process.send_signal(signal.SIGTERM)
            time.sleep(rng.uniform(0.0, 0.3))
        alive = process_start(workload) is not None and job.process.poll() is None
        os.kill(workload, signal.SIGKILL)
        ended = job.end()
        found = job.recorded()
        return seen(
            ended,
            folder,
            max(0.0, found.hole(found.started_at, found.ended_at or 0.0) - job.interval - job.held_up),
            (alive, "it was ended by what it ignores"),
            (ended.code == 137, f"exit code {ended.code}"),
            ((found.state, found.exit_code) == ("killed", 137), f"state {found.state}, {found.exit_code}"),
        )


def closes_descriptors(folder: Path, rng: random.Random) -> Seen:
    code = rng.choice((0, 9))
    with Job(folder, [PYTHON, "-c", _CLOSES.format(code)]) as job:
        return _over(job, code)


def floods(folder: Path, rng: random.Random, size: int = GIGABYTE) -> Seen:
    """Through a pipe, whose reader counts: it is the only one who may slow it down."""
    code, read = rng.choice((0, 4)), 0
    pipe, out = os.pipe()
    script = f"head -c {size} /dev/zero > /proc/self/fd/{out}; exit {code}"

    def count() -> None:
        nonlocal read
        while data := os.read(pipe, 1 << 20):
            read += len(data)

    os.set_inheritable(out, True)
    reader = threading.Thread(target=count)
    reader.start()
    try:
        with Job(folder, ["sh", "-c", script], passed=(out,)) as job:
            os.close(out)
            seen = _over(job, code)
            reader.join()
    finally:
        os.close(pipe)
    return seen._replace(problem=seen.problem or (None if read == size else f"{read} of {size} bytes arrived"))


def over_at_once(folder: Path, rng: random.Random) -> Seen:
    code = rng.choice((0, 1, 130, 255))
    with Job(folder, ["sh", "-c", f"sleep 0.01; echo over; exit {code}"]) as job:
        ended = job.end()
        found = job.recorded()
        state = "killed" if code == 130 else "failed" if code else "completed"
        return seen(
            ended,
            folder,
            None,
            (ended.code == code and ended.out == b"over\n", f"exit code {ended.code}, output {ended.out!r}"),
            ((found.state, found.exit_code) == (state, code), f"state {found.state}, {found.exit_code}"),
            (bool(found.times), "no sample"),
        )


def not_found(folder: Path, rng: random.Random) -> Seen:
    """With -f, on a recording that is to stay."""
    with Job(folder, ["true"]) as job:
        job.end()
    before = job.path.read_bytes()
    command, code = rng.choice((("no-such-command", 127), ("/etc/passwd", 126), ("./no/such", 127)))
    with Job(folder, [command], options=("-f",)) as job:
        ended = job.end()
    return seen(
        ended,
        folder,
        None,
        (ended.code == code, f"exit code {ended.code}"),
        (job.path.read_bytes() == before, "the old recording was touched"),
    )


def many_descriptors(folder: Path, rng: random.Random) -> Seen:
    import resource

    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < DESCRIPTORS + 200:
        raise NotHereError(f"no process may open {DESCRIPTORS:,} descriptors here")
    count = "import os, sys; n = len(os.listdir('/proc/self/fd')); print(n); sys.exit(3)"
    around = [PYTHON, "-c", _MANY, str(DESCRIPTORS)]
    with Job(folder, [PYTHON, "-c", count], around=around, ms=rng.choice((10, 50))) as job:
        seen = _over(job, 3)
        n = int((folder / "out").read_text() or 0)
        return seen._replace(
            problem=seen.problem or (None if n >= DESCRIPTORS else f"the command inherited {n} descriptors")
        )


FAULTS = (
    Fault("forks", "the command forks dozens of processes", forks),
    Fault("daemonises", "the command leaves a daemon behind", daemonises),
    Fault("ignores-sigterm", "the command ignores SIGTERM, then gets SIGKILL", ignores_sigterm),
    Fault("closes-descriptors", "the command closes all its descriptors", closes_descriptors),
    Fault("floods", "the command prints 1 GB", floods),
    Fault("over-at-once", "the command is over in 10 ms", over_at_once),
    Fault("not-found", "the command can't be executed; `-f` on an existing recording", not_found),
    Fault("many-descriptors", "10,000 descriptors are open", many_descriptors),
)
