"""The backends on NVIDIA's management library, ``gpm`` and ``nvml``: what they offer here, and how they are opened."""

from collections.abc import Callable, Sequence

import pynvml

from gssr.backends import driver
from gssr.backends.base import BackendError, Offer, Opened
from gssr.backends.driver import DriverError, Gpu
from gssr.backends.gpm import Profiler, has_gpm, profilers, refused
from gssr.backends.nvml import NvmlBackend

_NO_GPM = "no GPU here has it: that takes Hopper or newer"
_NO_GPM_CURE = "use DCGM, or --backend nvml, which records all but the profiling metrics"
_NO_GPU_CURE = "ask for GPUs when the job is submitted"


def open_nvml(visible: Sequence[str] | None) -> Opened:
    """``nvml`` on this process's GPUs (gssr.launch.gpu_ids). Raises BackendError."""
    return _open(visible, lambda gpus: (NvmlBackend("nvml", gpus, [None] * len(gpus)), []))


def open_gpm(visible: Sequence[str] | None) -> Opened:
    """``gpm`` on this process's GPUs; those without GPM give what ``nvml`` gives. Raises BackendError."""
    return _open(visible, _with_gpm)


def open_gpm_or_nvml(visible: Sequence[str] | None) -> Opened:
    """``gpm`` where it works, else ``nvml``, with the reason why. Raises BackendError."""
    driver.start()  # once for all that follows: without a persistence daemon it takes seconds
    try:
        offer = offer_gpm()
        why = offer.details
        if offer.works:
            try:
                return open_gpm(visible)
            except BackendError as error:
                why = str(error)
        opened = open_nvml(visible)
        return opened._replace(passed_over=[f"gpm not used: {why}"])
    finally:
        driver.stop()


def offer_nvml() -> Offer:
    """Which GPUs the driver shows."""
    return _offer("nvml", _show_gpus)


def offer_gpm() -> Offer:
    """Whether the GPUs here have GPM, and let this user read it."""
    return _offer("gpm", _try_gpm)


def _open(visible: Sequence[str] | None, make: Callable[[Sequence[Gpu]], tuple[NvmlBackend, list[str]]]) -> Opened:
    driver.start()
    try:
        gpus, remarks = driver.chosen(visible)
        if not gpus:
            raise BackendError("; ".join(["NVIDIA's driver shows this process no GPU", *remarks, _NO_GPU_CURE]))
        backend, more = make(gpus)
    except BaseException:
        driver.stop()
        raise
    return Opened(backend, [*remarks, *more])


def _with_gpm(gpus: Sequence[Gpu]) -> tuple[NvmlBackend, list[str]]:
    begun, refusal = profilers(gpus)
    if not any(begun):
        raise BackendError(f"gpm: {refusal.why}; {refusal.cure}" if refusal else f"gpm: {_NO_GPM}; {_NO_GPM_CURE}")
    without = [str(gpu.device.device_index) for gpu, profiler in zip(gpus, begun, strict=True) if profiler is None]
    why = refusal.why if refusal else "they are older than Hopper"
    remarks = [f"no profiling metrics of GPU {', '.join(dict.fromkeys(without))}: {why}"] if without else []
    return NvmlBackend("gpm", gpus, begun), remarks


def _offer(name: str, look: Callable[[Sequence[Gpu], Sequence[str]], Offer]) -> Offer:
    try:
        driver.start()
    except DriverError as error:
        return Offer(name, False, error.what, error.cure)
    try:
        return look(*driver.gpus())
    except DriverError as error:
        return Offer(name, False, error.what, error.cure)
    finally:
        driver.stop()


def _show_gpus(gpus: Sequence[Gpu], silent: Sequence[str]) -> Offer:
    if not gpus:
        return Offer("nvml", False, "; ".join(["NVIDIA's driver shows no GPU", *silent]), _NO_GPU_CURE)
    names = ", ".join(sorted({gpu.device.name or "unknown" for gpu in gpus}))
    details = f"{_count(len(gpus))} ({names}), driver {gpus[0].device.driver_version or 'unknown'}"
    return Offer("nvml", True, "; ".join([details, *silent]))


def _try_gpm(gpus: Sequence[Gpu], _silent: Sequence[str]) -> Offer:
    able = [gpu for gpu in gpus if has_gpm(gpu)]
    if not able:
        return Offer("gpm", False, _NO_GPM if gpus else "NVIDIA's driver shows no GPU", _NO_GPM_CURE)
    try:
        Profiler(able[0]).free()
    except pynvml.NVMLError as error:
        return Offer("gpm", False, *refused(error))
    some = f"{len(able)} of {_count(len(gpus))}" if len(able) < len(gpus) else _count(len(gpus))
    return Offer("gpm", True, f"profiling metrics of {some}, without a daemon")


def _count(n: int) -> str:
    return "1 GPU" if n == 1 else f"{n} GPUs"
