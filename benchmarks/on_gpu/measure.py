"""All of it, one after the other: two recordings and their checks, the sampler's cost, the driver's calls."""

import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import pynvml

from benchmarks.on_gpu import checks
from benchmarks.on_gpu.calls import costs, fields, gpu_of
from benchmarks.on_gpu.checks import Check
from benchmarks.on_gpu.job import SAMPLING_MS, Job, environment
from benchmarks.on_gpu.recorded import read
from benchmarks.on_gpu.smi import Watch
from benchmarks.processes import PYTHON, ROOT
from benchmarks.table import machine
from gssr import launch
from gssr.backends import dcgm, driver
from gssr.backends.base import Device
from gssr.backends.driver import DriverGpu
from gssr.store.read.open import RecordingError

TRAINING, STENCIL = "benchmarks.on_gpu.training", "benchmarks.on_gpu.stencil"
MOST_BYTES = 1_000_000
LIMIT_CPU, LIMIT_MEMORY = 0.7, 30.0
"""What the sampler may cost: % of a core, MB."""
_BUSY_SECONDS = 40.0
"""How long matrix products may take to begin: PyTorch is loaded first."""


def my_gpu() -> Device:
    """The first GPU of this process. Raises BackendError."""
    driver.start()
    try:
        return driver.visible_gpus(launch.gpu_ids())[0][0].device
    finally:
        driver.stop()


def heading(gpu: Device) -> str:
    """GPU, driver, DCGM and machine in three lines."""
    return f"{gpu.name}, driver {gpu.driver_version}, {time.strftime('%Y-%m-%d')}\nDCGM: {dcgm.offer().details}\n{machine()}"


def measure(out: Path, uuid: str) -> Iterator[Check]:
    """Record the two workloads on this GPU and check them, then time the driver's calls beside a busy GPU."""
    with Job(out, "train", uuid, TRAINING) as job, Watch(uuid) as watch:
        cost = job.cost("training")
        job.wait()
    yield from _checked(job)
    yield from _against_smi(job, watch)
    yield from _cost(cost)
    with Job(out, "stencil", uuid, STENCIL) as job:
        job.wait()
    yield from _checked(job)
    yield from _beside_matmul(out, uuid)


def show(found: Iterable[Check], heading: str, stream: TextIO) -> int:
    """Print the table row by row, also into a file; how many checks failed."""
    failed = 0
    for line in (heading, "", "| check | seen | expected | verdict |", "|---|---|---|---|"):
        _both(line, stream)
    for check in found:
        failed += check.passed is False
        _both(f"| {check.what} | {check.seen} | {check.expected} | {check.verdict} |", stream)
    return failed


def _both(line: str, stream: TextIO) -> None:
    print(line, flush=True)
    print(line, file=stream, flush=True)


def _checked(job: Job) -> Iterator[Check]:
    name, code, phases = job.recording.stem, job.wait(), job.phases()
    yield Check(f"{name}: exit code", str(code), f"0; else see {name}.log", code == 0)
    try:
        recorded = read(job.recording)
    except (RecordingError, sqlite3.Error, ValueError) as error:
        yield Check(f"{name}: recording", str(error), "opens", False)
        return
    size = job.recording.stat().st_size
    told = f"{len(recorded.time)} rows of {recorded.gpu.name} by {recorded.gpu.backend}, {size / 1000:.0f} kB"
    yield Check(f"{name}: recording", told, f"less than {MOST_BYTES / 1000:.0f} kB", size < MOST_BYTES)
    for check in (
        *checks.activity(recorded, phases),
        *checks.tensor(recorded, phases),
        *checks.dram(recorded, phases),
        *checks.links(recorded, phases),
        checks.energy(recorded),
        checks.spacing(recorded),
        checks.c2c(recorded),
    ):
        yield check._replace(what=f"{name}: {check.what}")


def _against_smi(job: Job, watch: Watch) -> Iterator[Check]:
    try:
        recorded = read(job.recording)
    except (RecordingError, sqlite3.Error, ValueError):
        return  # said already
    for check in checks.against_smi(recorded, job.phases(), watch.readings):
        power = f" ({watch.power})" if check.what.startswith("power") else ""
        yield check._replace(what=f"{job.recording.stem}: {check.what}{power}")


def _cost(cost: tuple[float, float] | None) -> Iterator[Check]:
    what = f"sampler beside the training loop, 1 GPU, {1000 / SAMPLING_MS:g} Hz"
    if cost is None:
        yield Check(what, "not seen to the end of the training loop", "a cost", False)
        return
    cpu, memory = cost
    yield Check(f"{what}: CPU", f"{cpu:.2f} % of a core", f"at most {LIMIT_CPU:g} %", cpu <= LIMIT_CPU)
    yield Check(f"{what}: memory", f"{memory:.1f} MB resident", f"at most {LIMIT_MEMORY:g} MB", memory <= LIMIT_MEMORY)


def _beside_matmul(out: Path, uuid: str) -> Iterator[Check]:
    notes = out / "matmul.phases"
    command = [PYTHON, "-m", TRAINING, str(notes), *["matmul"] * 6]
    driver.start()
    busy = subprocess.Popen(
        command, env=environment(uuid), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        gpu = gpu_of(uuid)
        yield Check("the driver's calls: GPU utilization meanwhile", *_wait_until_busy(gpu))
        yield from costs(gpu)
        yield from fields(gpu)
    finally:
        busy.terminate()
        busy.wait(30.0)
        driver.stop()
        notes.unlink(missing_ok=True)


def _wait_until_busy(gpu: DriverGpu) -> tuple[str, str, bool]:
    """Utilization when it was first high: seen, expected, and whether it is."""
    deadline = time.monotonic() + _BUSY_SECONDS
    percent = 0
    while percent < 50 and time.monotonic() < deadline:
        time.sleep(1.0)
        rates = driver.ask(pynvml.nvmlDeviceGetUtilizationRates, gpu.handle)
        percent = rates.gpu if rates else 0
    return f"{percent} %", "at least 50 %", percent >= 50
