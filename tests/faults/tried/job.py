"""A job that is recorded for real, for faults to happen to: started, looked into, ended, and its recording judged."""

import atexit
import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, ENVIRONMENT, GSSR, ROOT, child_called
from tests.faults.tried import NotHereError, Seen
from tests.waiting import until

PATIENCE = 90.0
"""Seconds for what must come; machines may be busy."""
MOST_LOST = 1.0
"""Seconds of samples that a SIGKILL may cost."""
SAMPLER = "gssr-sampler"

_PAUSE = 0.02


@cache
def workshop() -> Path:
    """A folder for what this process makes once and needs until its end."""
    CACHE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="faults", dir=CACHE))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def preloaded(name: str) -> Path:
    """Build ``tests/fakes/NAME.c``, a library that is loaded before others. Raises NotHereError."""
    path = workshop() / f"{name}.so"
    words = ["gcc", "-shared", "-fPIC", "-O2", "-o", path, ROOT / "tests" / "fakes" / f"{name}.c", "-ldl"]
    try:
        subprocess.run(words, check=True, timeout=60, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotHereError(f"tests/fakes/{name}.c can't be built: {error}") from None
    return path


def heed_signals() -> None:
    """What is started from here on heeds signals that this process ignores, as in a script's background, or by nohup."""
    for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(sig) == signal.SIG_IGN:
            signal.signal(sig, lambda *_: None)  # unlike one that is ignored it is not inherited


class Steps(NamedTuple):
    """A workload that prints so many lines to each of its streams, 50 ms apart, and exits with ``code``."""

    n: int
    code: int

    @property
    def script(self) -> str:
        """For the shell; its process id is in the file ``pid`` once it runs."""
        loop = f"while [ $i -lt {self.n} ]; do echo line $i; echo error $i >&2; i=$((i + 1)); sleep 0.05; done"
        return f"echo $$ > pid.new; mv pid.new pid; i=0; {loop}; exit {self.code}"

    @property
    def output(self) -> bytes:
        """What it prints to standard output."""
        return b"".join(b"line %d\n" % i for i in range(self.n))


class Ended(NamedTuple):
    """How ``gssr profile`` ended: exit code (-n: by signal n), output, and the lines of its standard error that are its own
    and those that are the workload's."""

    code: int
    out: bytes
    said: list[str]
    err: list[str]


class Recorded(NamedTuple):
    """What a recording holds of its last run: ``times`` of the samples of its first GPU, unix s, ascending."""

    state: str
    exit_code: int | None
    started_at: float
    ended_at: float | None
    times: list[float]
    events: list[tuple[str, str]]

    def hole(self, begin: float, end: float) -> float:
        """The longest time without a sample between these two, s."""
        inside = [time for time in self.times if begin <= time <= end]
        return max(after - before for before, after in pairwise([begin, *inside, end]))

    def said(self, kind: str) -> list[str]:
        """The messages of the events of a kind."""
        return [message for found, message in self.events if found == kind]


class _Lateness(threading.Thread):
    """How long a busy machine has held up a sampler that was ready to run, by the scheduler's own count, or, at a time, this
    process."""

    def __init__(self, supervisor: int) -> None:
        super().__init__(daemon=True)
        self.worst = self.delay = 0.0
        self._supervisor = supervisor
        self._sampler: str | None = None
        self._over = threading.Event()

    def run(self) -> None:
        while True:
            began = time.monotonic()
            if self._over.wait(_PAUSE):
                return
            self.worst = max(self.worst, time.monotonic() - began - _PAUSE)
            with contextlib.suppress(OSError, ValueError, IndexError):
                self._look()

    def _look(self) -> None:
        if self._sampler is None:
            children = Path(f"/proc/{self._supervisor}/task/{self._supervisor}/children").read_text().split()
            names = {Path(f"/proc/{child}/comm").read_text().strip(): child for child in children}
            self._sampler = names.get(SAMPLER)
        else:
            self.delay = int(Path(f"/proc/{self._sampler}/schedstat").read_text().split()[1]) / 1e9

    def stop(self) -> None:
        self._over.set()


class Job:
    """``gssr profile`` of a workload, in a folder of its own, into ``run.sql`` there. To be used in a with statement, which
    leaves nothing running."""

    def __init__(
        self,
        folder: Path,
        workload: Sequence[str | bytes],
        backend: str = "synthetic:train:2",
        ms: int = 50,
        options: Sequence[str] = ("--no-summary",),
        environment: Mapping[str, str] = ENVIRONMENT,
        around: Sequence[str] = (),
        passed: Sequence[int] = (),
    ) -> None:
        """``around``: a command that runs ``gssr profile``, which it gets as further words. ``passed``: descriptors that it
        inherits."""
        self.folder, self.path, self.interval = folder, folder / "run.sql", ms / 1000
        own = [*GSSR, "profile", "--backend", backend, "-t", str(ms), "-o", str(self.path), *options, "--", *workload]
        self._out, self._err = (folder / "out").open("wb"), (folder / "err").open("wb")
        heed_signals()
        self.process = subprocess.Popen(
            [*around, *own],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
            pass_fds=passed,
        )
        self._lateness = _Lateness(self.process.pid)
        self._lateness.start()
        self._seen: set[int] = {self.process.pid}

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        self._lateness.stop()
        self._seen |= _session_of(self.process.pid)
        for pid in self._seen:
            with contextlib.suppress(ProcessLookupError):
                if pid == self.process.pid and self.process.returncode is not None:
                    continue
                if _session(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._out.close()
        self._err.close()

    @property
    def held_up(self) -> float:
        """Seconds that the machine itself has held processes up at most so far: what that cost was not lost by a fault."""
        return max(self._lateness.worst, self._lateness.delay)

    def sampler(self) -> int:
        """The sampler's process id, once there is one."""
        return child_called(SAMPLER, self.process.pid, PATIENCE)

    def workload(self) -> int:
        """The process id that the workload has written into the file ``pid``, once it has."""
        until((self.folder / "pid").exists, "the workload")
        return int((self.folder / "pid").read_text())

    def n(self, table: str = "samples", where: str = "1") -> int:
        """Rows that are committed."""
        if not self.path.exists():
            return 0
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
                return int(connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0])
        except sqlite3.Error:
            return 0  # not begun yet

    def records(self) -> None:
        """Wait until there are samples."""
        until(self.n, "samples")

    def end(self) -> Ended:
        """Wait for the end."""
        code = self.process.wait(PATIENCE)
        lines = (self.folder / "err").read_bytes().decode(errors="replace").splitlines()
        own = [line.removeprefix("gssr: ") for line in lines if line.startswith("gssr: ")]
        others = [line for line in lines if not line.startswith("gssr: ")]
        return Ended(code, (self.folder / "out").read_bytes(), own, others)

    def recorded(self) -> Recorded:
        """What the recording holds. Raises gssr.store.read.open.RecordingError."""
        return recorded(self.path)


def recorded(path: Path) -> Recorded:
    """What a recording holds of its last run. Raises gssr.store.read.open.RecordingError."""
    from gssr.store.read.recording import open_recording  # here: the other benchmarks' process stays small

    reader = open_recording(path).runs[-1]
    samples = reader.samples([])
    times = sorted(float(time) for time in samples.time[samples.gpu == samples.gpu.min()]) if len(samples.time) else []
    events = [(event.kind, event.message) for event in reader.events]
    return Recorded(reader.state, reader.run.exit_code, reader.run.started_at, reader.run.ended_at, times, events)


def in_words(lines: Sequence[str], folder: Path) -> str:
    """What was said, without what differs from round to round: paths are names, and numbers N."""
    text = " / ".join(lines).replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
    return re.sub(r"(?<![\w.-])\d[\d.,]*\d|(?<![\w.-])\d", "N", text)


def first_wrong(*checks: tuple[bool, str]) -> str | None:
    """The text of the first check that does not hold."""
    return next((text for holds, text in checks if not holds), None)


def seen(ended: Ended, folder: Path, lost: float | None, *checks: tuple[bool, str]) -> Seen:
    """A round in ``folder`` as its end shows it: ``lost`` seconds of samples, and the first check that does not hold."""
    return Seen(lost, in_words(ended.said, folder), first_wrong(*checks))


def passed_on(ended: Ended, steps: Steps) -> tuple[tuple[bool, str], ...]:
    """Checks: the exit code and the output are the workload's."""
    errors = [f"error {i}" for i in range(steps.n)]
    return (
        (ended.code == steps.code, f"exit code {ended.code}, not {steps.code}"),
        (ended.out == steps.output, f"of {steps.n} lines {ended.out.count(b'line')} were printed"),
        (ended.err == errors, f"other lines on standard error: {ended.err}"),
    )


def _session(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[3])
    except (OSError, IndexError):
        return 0


def _session_of(leader: int) -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _session(int(name)) == leader}
