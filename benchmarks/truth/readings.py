"""What the sensors of a job's GPUs read: consistent with each other, noisy, and now and then blank."""

import numpy as np

from benchmarks.truth.clocks import HW_THERMAL, POWER_CAP, SW_THERMAL
from benchmarks.truth.job import Job
from benchmarks.truth.levels import Level
from benchmarks.truth.timeline import Floats
from gssr.metrics import METRICS, NAMES

DCGM = tuple(name for name in NAMES if not name.startswith("c2c_"))
NVML = (
    "gpu_utilization", "memory_copy_utilization", "pcie_tx_bytes", "pcie_rx_bytes", "power_usage", "energy",
    "temperature", "sm_clock", "memory_used", "clock_event_reasons",
)  # fmt: skip
_COUNTERS = tuple(metric.name for metric in METRICS if metric.dcgm is not None and 1001 <= metric.dcgm <= 1099)
_UNCOUNTED = 0.001
"""Share of the samples whose hardware counters were not read in time."""
_CLOCK_STEP = 15.0
_THERMAL_LAG = 30.0
_NO_CONTEXT, _LOWEST_CLOCK = 0.01, 345.0
_IDLE = 0x1
_RATIOS = {
    "gr_engine_active": "gr", "sm_active": "sm", "sm_occupancy": "occupancy", "tensor_active": "tensor",
    "tensor_dfma_active": "dfma", "fp64_active": "fp64", "fp32_active": "fp32", "fp16_active": "fp16",
    "integer_active": "integer", "dram_active": "dram",
}  # fmt: skip


def measured(job: Job, counters: bool = True) -> dict[str, Floats]:
    """Of each metric that is measured its values [ticks, GPUs], in stored units, NaN where blank; ``counters``: with the
    hardware's performance counters, which NVML alone doesn't have."""
    random, hardware = job.random, job.hardware
    shape = job.clock.shape
    chip = 1 + 0.012 * random.standard_normal(job.n_gpus)
    sway = _swaying(job)
    fields = {name: job.activity[at] * chip * sway for at, name in enumerate(Level._fields)}

    def noisy(values: Floats, spread: float) -> Floats:
        return values * (1 + spread * random.standard_normal(shape))

    values: dict[str, Floats] = {
        name: np.clip(noisy(fields[field], 0.012), 0.0, 0.998) for name, field in _RATIOS.items()
    }
    values["gr_engine_active"] = np.clip(noisy(job.activity[0], 0.004), values["sm_active"], 0.9995)
    values["tensor_hmma_active"] = np.maximum(values["tensor_active"] - values["tensor_dfma_active"], 0.0)
    values["tensor_imma_active"] = np.zeros(shape)
    values["integer_active"] = np.clip(values["integer_active"], 0.0, values["sm_active"])
    values["gpu_utilization"] = np.clip(np.round(1.01 * values["gr_engine_active"], 2), 0.0, 1.0)
    values["memory_copy_utilization"] = np.round(0.9 * values["dram_active"], 2)
    host = {"tx": noisy(fields["tx"], 0.08), "rx": noisy(fields["rx"], 0.08)}
    for way in ("tx", "rx"):
        if hardware.c2c is not None:
            values[f"c2c_{way}_bytes"] = np.floor(np.maximum(host[way], 0.0) * hardware.c2c)
            host[way] = 0.002 * host[way]
        values[f"pcie_{way}_bytes"] = np.floor(np.maximum(host[way], 0.0) * hardware.pcie)
        if hardware.nvlink is not None:
            values[f"nvlink_{way}_bytes"] = np.floor(np.maximum(noisy(fields["nvlink"], 0.05), 0.0) * hardware.nvlink)
    values |= _board(job, fields["power"])
    names = tuple(values) if counters else tuple(name for name in NVML if name in values)
    blank = random.random(shape) < _UNCOUNTED
    blank[0] = True
    for name in names:
        if counters and name in _COUNTERS:
            values[name] = np.where(blank, np.nan, values[name])
    return {name: values[name] for name in NAMES if name in names}


def _swaying(job: Job) -> Floats:
    """[ticks, GPUs]: steps differ in size, by some hundredths, for all GPUs and for each."""
    ticks, gpus = job.clock.shape
    smooth = max(round(5.0 / job.interval), 1)
    kernel = np.ones(smooth) / np.sqrt(smooth)
    together = np.convolve(job.random.standard_normal(ticks + smooth - 1), kernel, "valid")
    return np.asarray(1 + 0.012 * together[:, None] + 0.012 * job.random.standard_normal((ticks, gpus)), np.float64)


def _board(job: Job, work: Floats) -> dict[str, Floats]:
    """Power, temperatures, clock, memory and the reasons for the clock; ``work``: dynamic power, relative to what lies
    between ready and the model's limit."""
    hardware, random = job.hardware, job.random
    ticks, gpus = job.clock.shape
    asleep = job.memory < _NO_CONTEXT
    base = np.where(asleep, hardware.idle, hardware.ready)
    asked = base + work * (hardware.limit - hardware.ready) * (1 + 0.02 * random.standard_normal(gpus))
    capped = asked > 0.995 * job.limit
    power = np.minimum(asked, job.limit * (0.992 + 0.006 * random.random((ticks, gpus))))
    # Dynamic power goes about with the square of the clock near its upper end.
    clock = job.clock * np.where(capped, np.sqrt(np.clip((job.limit - base) / np.maximum(asked - base, 1.0), 0, 1)), 1)
    bits = job.bits | np.where(capped, POWER_CAP, 0) | np.where(job.activity[0] < 0.005, _IDLE, 0)

    shown = _mean_before(power, max(round(1.0 / job.interval), 1)) * (1 + 0.004 * random.standard_normal((ticks, gpus)))
    inlet = 28 + 5 * random.random(gpus)
    heat = inlet + 0.052 * _mean_before(power, max(round(_THERMAL_LAG / job.interval), 1)) * 700 / hardware.limit
    too_hot = (job.bits & (SW_THERMAL | HW_THERMAL)) > 0
    heat = np.where(too_hot, 90 + 4 * random.random((ticks, gpus)), heat)
    used = np.floor(job.memory * job.grown[:, None] * hardware.memory / (1 << 20)) * (1 << 20)
    return {
        "power_usage": np.round(shown, 2),
        "energy": np.round(1e6 + 4e8 * random.random(gpus) + np.cumsum(power, axis=0) * job.interval, 3),
        "temperature": np.floor(heat),
        "memory_temperature": np.floor(heat * 1.08 + 4),
        "sm_clock": np.where(asleep, _LOWEST_CLOCK, np.round(clock * hardware.clock / _CLOCK_STEP) * _CLOCK_STEP),
        "memory_used": used,
        "clock_event_reasons": bits.astype(np.float64),
    }


def _mean_before(values: Floats, n: int) -> Floats:
    """[ticks, GPUs]: the mean of ``n`` ticks up to each, of fewer at the beginning."""
    total = np.cumsum(values, axis=0)
    total[n:] -= total[:-n].copy()
    return np.asarray(total / np.minimum(np.arange(1, len(values) + 1), n)[:, None], np.float64)
