"""NVIDIA's driver as its management library (NVML) shows it: starting it, its GPUs, and what its errors mean.

Loaded by the sampler and the doctor only, with the real ``nvidia-ml-py`` (module ``pynvml``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pynvml

from gssr.backends.base import Device, UnusableError
from gssr.backends.choose import choose

Handle = Any
"""What NVML gives for a GPU or MIG instance; good until the library is shut down."""

GONE = frozenset(
    (
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_UNINITIALIZED,
    )
)
"""Answers that say that a GPU, or the driver, is gone, and not just a value."""
NEVER = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_DEPRECATED,
    )
)
"""Answers that will be the same next time."""

_DEVICES = "/dev/nvidiactl"
_CORES_PER_SM = {7: 64, 8: 128, 9: 128, 10: 128, 12: 128}
"""FP32 cores per SM by major compute capability; 8.0 has 64. Source: CUDA C++ Programming Guide, compute capabilities."""

_START_CURES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "run on a node with NVIDIA GPUs and their driver; if it is there, name its folder "
    "in LD_LIBRARY_PATH",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the kernel module isn't loaded: ask the administrator, or run on a GPU node",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was updated: the node needs a reboot (in a container: its "
    "libnvidia-ml.so.1 must be the host driver's)",
    pynvml.NVML_ERROR_NO_PERMISSION: "this user may not open /dev/nvidiactl: ask the administrator",
}


class Gone(Exception):
    """A GPU no longer answers; the text is the driver's."""


class DriverGpu(NamedTuple):
    """A GPU or MIG instance to sample. ``gpu_uuid`` and ``gpu_handle``: those of its whole GPU; ``instance``: the id of
    its GPU instance, None for a whole GPU."""

    device: Device
    gpu_uuid: str
    handle: Handle
    gpu_handle: Handle
    instance: int | None


def start() -> None:
    """Load NVML and initialise it; ``stop`` undoes it. Raises UnusableError."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        cure = _START_CURES.get(error.value, "see dmesg, or ask the administrator")
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND and os.path.exists(_DEVICES):
            cure = "the driver is loaded: make its library visible here (in a container: --nv or --gpus)"
        raise UnusableError(f"NVIDIA's driver can't be used: {error}", cure) from None


def stop() -> None:
    """Undo one ``start``; never raises."""
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        pass


def gpus() -> tuple[list[DriverGpu], list[str]]:
    """List every GPU that this process may see, a GPU in MIG mode as its instances. Returns them, and sentences about
    GPUs that do not answer. Call it between ``start`` and ``stop``. Raises UnusableError if the driver does not even
    say how many there are."""
    found, silent = [], []
    driver = ask(pynvml.nvmlSystemGetDriverVersion)
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        raise UnusableError(f"NVIDIA's driver does not tell its GPUs: {error}", "see dmesg") from None
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_NO_PERMISSION:  # else it is another job's
                silent.append(f"GPU {index} does not answer: {error}")
            continue
        instances = _instances(index, uuid, handle, driver)
        found += instances or [DriverGpu(_device(index, uuid, handle, driver), uuid, handle, handle, None)]
    return found, silent


def visible_gpus(visible: Sequence[str] | None) -> tuple[list[DriverGpu], list[str]]:
    """List the GPUs that the driver shows and that the launcher gives this process, a GPU in MIG mode as its instances.
    ``visible`` is as gssr.launch.gpu_ids returns it; None: the launcher does not say. Returns them, and sentences about
    GPUs that do not answer or are not shown. Call it between ``start`` and ``stop``. Raises BackendError."""
    found, remarks = gpus()
    positions, remark = choose([(gpu.device, gpu.gpu_uuid) for gpu in found], visible)
    return [found[position] for position in positions], [*remarks, *filter(None, (remark,))]


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what an NVML function answers; None if it answers with an error."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def handles_of(gpu: DriverGpu) -> tuple[Handle, Handle]:
    """Look up the handles of a GPU by its UUID again. Returns (handle, gpu_handle). Raises pynvml.NVMLError while the
    GPU is gone."""
    return pynvml.nvmlDeviceGetHandleByUUID(gpu.device.uuid), pynvml.nvmlDeviceGetHandleByUUID(gpu.gpu_uuid)


def _device(index: int, uuid: str, handle: Handle, driver: str | None) -> Device:
    """Describe the whole GPU with this handle; what the driver does not tell is None. ``index``: its number at the
    driver; ``driver``: the driver's version."""
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    capability = ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Device(
        device_index=index,
        uuid=uuid,
        name=ask(pynvml.nvmlDeviceGetName, handle),
        memory_total=memory.total if memory else None,
        power_limit=limit / 1000 if limit else None,
        sm_count=_sm_count(handle, capability),
        max_sm_clock=ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        compute_capability="{}.{}".format(*capability) if capability else None,
        driver_version=driver,
    )


def _sm_count(handle: Handle, capability: tuple[int, int] | None) -> int | None:
    """Return the number of SMs, computed from the cores; None if either is not known."""
    cores = ask(pynvml.nvmlDeviceGetNumGpuCores, handle)
    if not cores or not capability:
        return None
    per_sm = 64 if tuple(capability) == (8, 0) else _CORES_PER_SM.get(capability[0])
    return cores // per_sm if per_sm and cores % per_sm == 0 else None


def _instances(index: int, gpu_uuid: str, gpu_handle: Handle, driver: str | None) -> list[DriverGpu]:
    """List the MIG instances of the GPU with this handle, which has the number ``index`` at the driver; [] if it is not
    in MIG mode or has none. ``driver``: the driver's version."""
    mode = ask(pynvml.nvmlDeviceGetMigMode, gpu_handle)
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    found = []
    whole = _device(index, gpu_uuid, gpu_handle, driver)
    for number in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu_handle) or 0):
        handle = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu_handle, number)
        uuid = handle and ask(pynvml.nvmlDeviceGetUUID, handle)
        instance = handle and ask(pynvml.nvmlDeviceGetGpuInstanceId, handle)
        if not uuid or instance is None:
            continue
        name = ask(pynvml.nvmlDeviceGetName, handle)
        memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        attributes = ask(pynvml.nvmlDeviceGetAttributes, handle)
        device = whole._replace(
            uuid=uuid,
            name=name or whole.name,
            memory_total=memory.total if memory else None,
            power_limit=None,  # the whole GPU's
            sm_count=attributes.multiprocessorCount if attributes else None,
            mig=f"{(name or '').rpartition('MIG ')[2] or 'MIG'} (instance {instance})",
        )
        found.append(DriverGpu(device, gpu_uuid, handle, gpu_handle, instance))
    return found
