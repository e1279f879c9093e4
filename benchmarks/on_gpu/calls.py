"""What calls to the driver's library cost and answer, on one GPU, while it is busy: the groups that the sampler calls, and
the fields about which boards differ."""

import time
from collections.abc import Callable, Iterator
from ctypes import byref, create_string_buffer
from typing import Any

import pynvml

from benchmarks.on_gpu.checks import Check
from gssr.backends import driver
from gssr.backends.counters import CALLS, FIELDS
from gssr.backends.driver import DriverGpu
from gssr.backends.gpm import Profiler, has_gpm

_ALL = 0xFFFFFFFF
_FIELDS = (
    ("power, instantaneous (mW)", 186, 0),
    ("power, mean of a second (mW)", 185, 0),
    ("NVLink sent, all links (KiB)", 138, _ALL),
    ("NVLink sent, scope 0 (KiB)", 138, 0),
    ("NVLink received, all links (KiB)", 139, _ALL),
    ("NVLink received, scope 0 (KiB)", 139, 0),
    ("PCIe sent (bytes)", 197, 0),
    ("PCIe received (bytes)", 198, 0),
)
_TYPES = {0: "double", 1: "u32", 2: "ulong", 3: "u64", 4: "i64", 5: "i32", 6: "u16"}


def gpu_of(uuid: str) -> DriverGpu:
    """The GPU; between driver.start and stop. Raises LookupError."""
    for gpu in driver.gpus()[0]:
        if gpu.device.uuid == uuid:
            return gpu
    raise LookupError(f"the driver shows no GPU {uuid}")


def costs(gpu: DriverGpu, repeats: int = 50) -> Iterator[Check]:
    """Time of each group of calls, wall clock and CPU: first what the counters ask, then GPM."""
    for call in CALLS:
        function = getattr(pynvml.nvmlLib, call.function, None)
        buffer = create_string_buffer(call.first, 256)
        if function is not None:
            arguments = (gpu.handle, *call.arguments, byref(buffer))
            yield _timed(call.function, lambda f=function, a=arguments: f(*a), repeats)  # type: ignore[misc]
    for fields in (FIELDS, *((field,) for field in FIELDS)):
        names = "all that are recorded" if fields is FIELDS else f"{fields[0].id} ({fields[0].metric})"
        ids = [(field.id, field.scope) for field in fields]
        yield _timed(f"field values: {names}", lambda ids=ids: _worst(gpu, ids), repeats)  # type: ignore[misc]
    if not has_gpm(gpu):
        yield Check("cost of GPM", "this GPU has none", "", None)
        return
    profiler = Profiler(gpu)
    try:
        row: list[Any] = [None] * 64
        time.sleep(0.11)
        profiler.settle()

        def read() -> None:
            time.sleep(0.11)
            profiler.read(row)

        yield _timed("GPM: sample and all metrics", read, min(repeats, 20), slept=0.11)
    finally:
        profiler.free()


def fields(gpu: DriverGpu, seconds: float = 1.0) -> Iterator[Check]:
    """What each field of interest answers, twice, some time apart."""
    for what, number, scope in _FIELDS:
        (first,) = _values(gpu, [(number, scope)])
        time.sleep(seconds / len(_FIELDS))
        (second,) = _values(gpu, [(number, scope)])
        code = second.nvmlReturn
        if code:
            seen = str(pynvml.NVMLError(code))
        else:
            kind = _TYPES.get(second.valueType, str(second.valueType))
            before, after = (_number(value) for value in (first, second))
            apart = (second.timestamp - first.timestamp) / 1e6
            told = f"{kind} {before:,.0f}, then {after - before:+,.0f}"
            seen = f"{told}; stamps {apart:.3f} s apart, {second.latencyUsec} us latency"
        yield Check(f"field {number}: {what}", seen, "", None)


def _timed(what: str, once: Callable[[], int | None], repeats: int, slept: float = 0.0) -> Check:
    walls, cpus, code = [], [], 0
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.thread_time()
        code = once() or 0
        cpus.append(time.thread_time() - cpu)
        walls.append(time.perf_counter() - wall - slept)
    walls.sort()
    cpus.sort()
    answer = f"; {pynvml.NVMLError(code)}" if code else ""
    seen = f"{1e6 * walls[repeats // 2]:.0f} us, CPU {1e6 * cpus[repeats // 2]:.0f} us, most {1e6 * walls[-1]:.0f} us"
    return Check(f"cost of {what}", seen + answer, "", None)


def _worst(gpu: DriverGpu, ids: list[tuple[int, int]]) -> int:
    """Ask for these fields; the first error among the answers, else 0."""
    return next((value.nvmlReturn for value in _values(gpu, ids) if value.nvmlReturn), 0)


def _values(gpu: DriverGpu, ids: list[tuple[int, int]]) -> Any:
    answers = (pynvml.c_nvmlFieldValue_t * len(ids))()
    for answer, (number, scope) in zip(answers, ids, strict=True):
        answer.fieldId, answer.scopeId = number, scope
    code = pynvml.nvmlLib.nvmlDeviceGetFieldValues(gpu.handle, len(ids), byref(answers))
    for answer in answers if code else ():
        answer.nvmlReturn = code
    return answers


def _number(value: Any) -> float:
    if value.valueType == 0:
        return float(value.value.dVal)
    return float(value.value.uiVal if value.valueType == 1 else value.value.ullVal)
