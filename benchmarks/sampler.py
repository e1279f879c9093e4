"""What the sampler process costs beside a job: CPU, memory, and how late its ticks come."""

import os
import signal
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.processes import (
    CACHE,
    ENVIRONMENT,
    GSSR,
    MB,
    PYTHON,
    child_called,
    cpu_seconds,
    resident_bytes,
    spawn,
    stolen_seconds,
)
from benchmarks.table import Figure
from gssr.backends.base import Device
from gssr.metrics import NAMES
from gssr.profile.sampling.textfile import EVERY_SECONDS, Textfile

LIMITS = {(8, 10.0): (0.5, 25.0)}
"""(GPUs, Hz): % of a core, MB."""
_PUBLISHED = 100
"""How often the file of metrics is written while it is timed."""
MOST_PUBLISHING = 0.05
"""% of a core."""
_PATIENCE = 60.0
_WAKING = """
from sys import argv
from time import monotonic, sleep

due, interval = monotonic(), 1 / float(argv[1])
while True:
    due += interval
    sleep(max(due - monotonic(), 0.0))
"""
"""All that a sampler does, but sampling."""


def measure(
    gpus: Sequence[int] = (1, 8, 64),
    hertz: Sequence[float] = (1.0, 10.0, 50.0),
    seconds: float = 10.0,
    windows: int = 3,
    warm_up: float = 5.0,
) -> Iterator[Figure]:
    """``gssr profile`` of a sleeping workload, once for each number of GPUs and rate. After ``warm_up`` seconds the sampler
    is watched for ``windows`` times ``seconds``; 10 s hold one closing of every GPU's rollup. What no sampler in Python
    could do without, waking so often, is measured in the same run."""
    for rate in hertz:
        yield Figure(f"sampler, only waking, {rate:g} Hz: CPU", _waking(rate, seconds, windows), "% of a core")
    yield Figure(
        "sampler, 8 GPUs, 10 Hz: CPU that --textfile adds", _publishing(8, 10.0), "% of a core", MOST_PUBLISHING
    )
    for n in gpus:
        for rate in hertz:
            backend = f"synthetic:train:{n}"
            yield from watch(
                f"sampler, {n} GPUs, {rate:g} Hz", backend, rate, seconds, windows, warm_up, *LIMITS.get((n, rate), ())
            )


def watch(
    case: str,
    backend: str,
    hertz: float,
    seconds: float,
    windows: int,
    warm_up: float,
    most_cpu: float | None = None,
    most_memory: float | None = None,
    environment: Mapping[str, str] = ENVIRONMENT,
    more: Sequence[str] = (),
) -> Iterator[Figure]:
    """The sampler's figures with this backend and ``more`` options; ``most_cpu`` in % of a core and ``most_memory`` in MB
    are limits."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "run.sql"
        options = ("--backend", backend, "-t", f"{1000 / hertz:g}", "-o", path, *more)
        supervisor = spawn((*GSSR, "profile", *options, "--", "sleep", "1000"), environment=environment)
        try:
            sampler = child_called("gssr-sampler", supervisor)
            _wait_for_samples(path, 0.0)  # on a busy machine it may take a while
            time.sleep(warm_up)
            stolen, began = stolen_seconds(), time.perf_counter()
            shares, sizes = zip(*(_watched(sampler, seconds) for _ in range(windows)), strict=True)
            stolen, passed = stolen_seconds() - stolen, time.perf_counter() - began
            _wait_for_samples(path, warm_up)
        finally:
            os.kill(child_called("sleep", supervisor), signal.SIGTERM)
            os.waitpid(supervisor, 0)
        late, missed = _lateness(path, 1 / hertz, warm_up)
    yield Figure(f"{case}: CPU", statistics.median(shares), "% of a core", most_cpu)
    yield Figure(f"{case}: meanwhile, stolen by the machine's host", 100 * stolen / passed, "% of a core")
    yield Figure(f"{case}: resident memory", max(sizes), "MB", most_memory)
    yield Figure(f"{case}: lateness of a tick, p50", late[len(late) // 2] * 1e3, "ms")
    yield Figure(f"{case}: lateness of a tick, p99", late[len(late) * 99 // 100] * 1e3, "ms")
    yield Figure(f"{case}: ticks left out", missed, f"of {len(late) + missed}")


def _waking(hertz: float, seconds: float, windows: int) -> float:
    """CPU in % of a core of a process that wakes so often and does nothing."""
    pid = spawn((PYTHON, "-c", _WAKING, f"{hertz:g}"))
    try:
        time.sleep(0.5)  # it starts
        return statistics.median(_watched(pid, seconds)[0] for _ in range(windows))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _publishing(n_gpus: int, hertz: float) -> float:
    """CPU in % of a core of keeping the newest samples and writing them for others, as often as it is done beside a job."""
    said: list[str] = []
    row = tuple(float(place) / 7 for place in range(len(NAMES)))
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        textfile = Textfile(folder, "node0000", "123456", None, said.append)
        gpus = [Device(place, f"GPU-{place:08x}-0000-0000-0000-000000000000") for place in range(n_gpus)]
        textfile.add_gpus(gpus, NAMES, 1 / hertz)
        began = time.process_time()
        for now in (tick / hertz for tick in range(int(_PUBLISHED * EVERY_SECONDS * hertz))):
            textfile.add([(gpu, now, *row) for gpu in range(n_gpus)])
            textfile.tick(now)
        used = time.process_time() - began
        if said or len(os.listdir(folder)) != 1:
            raise RuntimeError(f"nothing was written: {said}")
    return 100 * used / (_PUBLISHED * EVERY_SECONDS)


def _watched(pid: int, seconds: float) -> tuple[float, float]:
    """CPU in % of a core over a while, and resident MB at its end."""
    cpu, began = cpu_seconds(pid), time.perf_counter()
    time.sleep(seconds)
    used, passed = cpu_seconds(pid) - cpu, time.perf_counter() - began
    return 100 * used / passed, resident_bytes(pid) / MB


def _wait_for_samples(path: Path, warm_up: float) -> None:
    """Until there are some that are to be looked at. Raises RuntimeError when there are none for a minute."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                first, last = connection.execute("SELECT min(time), max(time) FROM samples WHERE gpu = 0").fetchone()
        except sqlite3.Error:  # it has only just been made
            first = last = None
        if first is not None and last > first + warm_up + 0.5:
            return
        time.sleep(0.05)
    raise RuntimeError(f"{path}: nothing was sampled for {_PATIENCE:g} s")


def _lateness(path: Path, interval: float, warm_up: float) -> tuple[list[float], int]:
    """Seconds by which each tick after the warm-up came later than the whole number of intervals after the first one,
    ascending; and how many were left out because the sampler was held up."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT time FROM samples WHERE gpu = 0 ORDER BY rowid").fetchall()
    connection.close()
    times = [time for (time,) in rows][:-1]  # the last one was taken when the workload ended, not at a tick
    first, noise = times[0], 1e-4  # the first tick itself was that late
    ticks = [int((time - first + noise) / interval) for time in times]
    warm = [k for k, time in enumerate(times) if time >= first + warm_up]
    late = sorted(max(times[k] - first - ticks[k] * interval, 0.0) for k in warm)
    return late, ticks[warm[-1]] - ticks[warm[0]] + 1 - len(warm)
