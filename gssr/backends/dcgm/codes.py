"""Numbers of DCGM: return codes, entity groups, fields that identify a GPU, and what its blank values mean.

Numbers, not the bindings' names: DCGM 4 renamed most constants and kept every number. Source: NVIDIA/DCGM,
dcgm_structs.h and dcgm_fields.h, 3.1 to 4.6.

The backend's error: what is wrong, and what to do about it.
"""

from __future__ import annotations

from gssr.backends.base import UnusableError


class DcgmError(UnusableError):
    """DCGM can't be used."""


class MismatchError(DcgmError):
    """Hostengine and bindings are of different versions."""


NOT_SUPPORTED = -6
VERSION_MISMATCH = -12
NO_DATA = -14
NOT_WATCHED = -16
NO_PERMISSION = -17
GPU_IS_LOST = -18
RESET_REQUIRED = -19
FUNCTION_NOT_FOUND = -20
CONNECTION_NOT_VALID = -21
GROUP_INCOMPATIBLE = -23
MAX_LIMIT = -24
LIBRARY_NOT_FOUND = -25
REQUIRES_ROOT = -29
MODULE_NOT_LOADED = -33
IN_USE = -34
PROFILING_NOT_SUPPORTED = -36
PROFILING_LIBRARY_ERROR = -37
NVML_NOT_LOADED = -56

MISMATCHES = (VERSION_MISMATCH, FUNCTION_NOT_FOUND)
"""What bindings of one major version get from a hostengine of another: those of 3 the first, those of 4 the second."""

REFUSALS: dict[int, tuple[str, str]] = {
    NO_PERMISSION: ("it is not permitted", "ask for profiling counters to be opened to all users on this node"),
    REQUIRES_ROOT: ("its hostengine doesn't run as root", "have nv-hostengine started by root"),
    MODULE_NOT_LOADED: (
        "its profiling module is not loaded",
        "on GPUs before Hopper DCGM 4 needs the package datacenter-gpu-manager-4-proprietary",
    ),
    IN_USE: ("the counters are in use", "end the other profiler (Nsight, CUPTI, a second hostengine)"),
    PROFILING_NOT_SUPPORTED: ("these GPUs have none in DCGM", "only data-center GPUs from Volta on have them"),
    PROFILING_LIBRARY_ERROR: (
        "the counters are taken",
        "GPUs before Hopper lend them to one at a time: end the other profiler (Nsight, CUPTI, a second hostengine)",
    ),
}
"""Codes with which DCGM refuses all profiling fields at once: why, and what to do."""
NO_REASON = ("DCGM refuses them", "see the log of nv-hostengine")

GPU, GPU_INSTANCE, COMPUTE_INSTANCE = 1, 4, 5
"""Entity groups: a whole GPU; a MIG GPU instance; a compute instance in one."""

MOST_ENTITIES = 64
"""In a group, or asked for at once: DCGM 3's limit (DCGM 4 takes 1,024)."""

EMPTY_GROUP = 1
LIVE_DATA = 1
AUTOMATIC = 1

DRIVER_VERSION, NAME, NVML_INDEX, UUID, COMPUTE_CAPABILITY, MAX_SM_CLOCK, POWER_LIMIT, MEMORY_TOTAL = (
    1, 50, 52, 54, 63, 113, 164, 250
)  # fmt: skip
IDENTITY = (DRIVER_VERSION, NAME, NVML_INDEX, UUID, COMPUTE_CAPABILITY, MAX_SM_CLOCK, POWER_LIMIT, MEMORY_TOTAL)

PROFILING = range(1001, 1100)
COMPUTE_INSTANCE_FIELDS = frozenset({1001, 1002, 1003, 1004, 1006, 1007, 1008, 1013, 1014, 1015, 1016, 252})
GPU_INSTANCE_FIELDS = COMPUTE_INSTANCE_FIELDS | {1005}
"""What MIG measures per compute instance and per GPU instance. PCIe, NVLink, power, temperature, clocks and utilization
exist on the whole GPU only."""

INT64_BLANK = 0x7FFFFFFFFFFFFFF0
DOUBLE_BLANK = 140737488355328.0
BLANKS = ("no value", "not found", "not supported", "not permitted")
"""What the blank value means, by its distance from the base; more is as good as no value."""


def blank_reason(value: int | float) -> str | None:
    """Return what a blank value means, one of BLANKS; None if it is a value. NaN is a blank."""
    base = INT64_BLANK if isinstance(value, int) else DOUBLE_BLANK
    if not value >= base:
        return None if value == value else BLANKS[0]
    distance = int(value - base)
    return BLANKS[distance] if distance < len(BLANKS) else BLANKS[0]
