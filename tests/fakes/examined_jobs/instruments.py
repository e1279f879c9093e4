"""Instruments: what the recorders of the different views read from a timeline."""

from dataclasses import dataclass, field

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.examined_jobs.hardware import GIB, GpuModel
from tests.fakes.examined_jobs.timeline import Timeline

PROFILING = (
    "gr_engine_active",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "tensor_hmma_active",
    "tensor_dfma_active",
    "fp64_active",
    "fp32_active",
    "fp16_active",
    "integer_active",
    "dram_active",
)
LINKS = ("pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes")
DRIVER = (
    "gpu_utilization",
    "memory_copy_utilization",
    "power_usage",
    "energy",
    "temperature",
    "sm_clock",
    "memory_used",
)
VIEWS = {
    "full": (*PROFILING, *LINKS, "c2c_tx_bytes", "c2c_rx_bytes", *DRIVER, "memory_temperature", "clock_event_reasons"),
    "exporter": (
        "gr_engine_active",
        "tensor_active",
        "dram_active",
        *LINKS,
        *DRIVER,
        "memory_temperature",
    ),
    "gpm": (*PROFILING, *LINKS, "c2c_tx_bytes", "c2c_rx_bytes", *DRIVER, "clock_event_reasons"),
    "nvml": (*DRIVER, "clock_event_reasons"),
    "amd": DRIVER,
}
"""The metrics that each view records."""
HOST_COLUMNS = (
    "cpu_utilization",
    "load1",
    "memory_used",
    "memory_total",
    "read_bytes",
    "write_bytes",
    "net_rx_bytes",
    "net_tx_bytes",
    "fabric_rx_bytes",
    "fabric_tx_bytes",
)
SM_CLOCK_STEP = 15.0
HOTTEST = 91.0
"""Degrees at which cooler and throttling hold a GPU."""
IDLE_CLOCK_SHARE = 0.17
POWER_WINDOW_SECONDS = 1.0
"""NVIDIA's power readings are means of a second from Ampere on, GA100 (A100) and older GPUs excepted."""


@dataclass
class Setting:
    """How a job is recorded, and what the timeline does not tell."""

    model: GpuModel
    view: str
    interval: float
    node_of: Ints
    normal_clock: float
    memory_share: Floats
    cooling: Floats
    neighbours: tuple[float, float]
    exit_code: int
    state: str
    pcie_noise: float
    n_processes: int
    gaps: list[tuple[int, float, float]] = field(default_factory=list)

    def first_seen(self, gpu: int) -> float:
        """When the rank of a GPU appears, in seconds since the job's begin."""
        return max((end for which, begin, end in self.gaps if which == gpu and begin == 0), default=0.0)


def sample_times(timeline: Timeline, setting: Setting, rng: np.random.Generator) -> list[Floats]:
    """When each GPU is sampled, in seconds since the job's begin: nodes have phases of their own, gaps and a few missing
    samples are left out."""
    n_nodes = int(setting.node_of.max()) + 1
    phase = rng.uniform(0.02, 1, n_nodes) * setting.interval
    found = []
    for gpu in range(timeline.n_gpus):
        times = np.arange(phase[setting.node_of[gpu]], timeline.seconds, setting.interval)
        times = times + rng.normal(0, 0.004 * min(setting.interval, 1), len(times)).clip(-0.01, 0.01)
        keep = rng.random(len(times)) > 0.0005
        for which, begin, end in setting.gaps:
            if which == gpu:
                keep &= (times < begin) | (times > end)
        found.append(np.maximum(times[keep], 1e-3))
    return found


def sample_gpu(
    timeline: Timeline, gpu: int, times: Floats, setting: Setting, rng: np.random.Generator
) -> dict[str, Floats]:
    """The values of one GPU at these times, by metric; NaN where there is none."""
    model, interval, n = setting.model, setting.interval, len(times)
    duration = np.diff(timeline.bounds[gpu])
    before = np.maximum(times - interval, 0)
    snapshot = min(interval, 0.2 if model.architecture in ("volta", "ada") else 1.0)
    if setting.view == "amd":
        snapshot = interval
    now, earlier, short = timeline.time_in_activities(gpu, [times, before, np.maximum(times - snapshot, 0)])
    mean = (now - earlier) / np.maximum(times - before, 1e-6)[:, None]
    brief = (now - short) / np.maximum(np.minimum(snapshot, times), 1e-6)[:, None]
    duty = timeline.values("duty")

    def ratio(name: str, scale: float = 0.008) -> Floats:
        value = mean @ (timeline.values(name) * duty)
        noisy = value * (1 + rng.normal(0, scale, n)) + np.where(value > 1e-4, rng.normal(0, 0.0008, n), 0)
        return np.asarray(np.round(np.clip(noisy, 0, 1), 4), np.float64)

    def traffic(name: str, floor: float) -> Floats:
        noise = floor * rng.lognormal(0, 0.7, n)
        return np.round(mean @ timeline.values(name) * (1 + rng.normal(0, 0.02, n)) + noise).clip(0)

    at = timeline.segment_at(gpu, times)
    context = timeline.values("context")[timeline.kind] > 0
    energies = np.where(context, 1.12, 1.0) * model.idle_power + (
        model.power_limit - 1.12 * model.idle_power
    ) * np.minimum(1, timeline.values("power")[timeline.kind]) * np.where(
        timeline.values("heavy")[timeline.kind] > 0, (timeline.clock[gpu] / setting.normal_clock) ** 1.5, 1.0
    )
    joules = np.concatenate([[0], np.cumsum(duration * energies)])
    window = 0.05 if model.architecture in ("volta",) or "A100" in model.name else POWER_WINDOW_SECONDS

    def energy_until(moments: Floats) -> Floats:
        return np.asarray(np.interp(moments, timeline.bounds[gpu], joules))

    def mean_power(seconds: float) -> Floats:
        begin = np.maximum(times - seconds, 0)
        return np.asarray((energy_until(times) - energy_until(begin)) / np.maximum(times - begin, 1e-6))

    is_on = context[at]
    clock = timeline.clock[gpu][at] * model.max_clock + rng.normal(0, 4, n)
    clock = np.where(is_on, np.round(clock / SM_CLOCK_STEP) * SM_CLOCK_STEP, round(model.max_clock * IDLE_CLOCK_SHARE))
    heat = mean_power(45.0) / model.power_limit
    ambient = 28 + 4 * np.sin(gpu * 2.1)
    values = {
        "gpu_utilization": np.round(np.clip(brief @ np.minimum(1, duty * 1.01), 0, 1) * 100) / 100,
        "memory_copy_utilization": np.round(np.clip(brief @ (timeline.values("memory_busy") * duty), 0, 1) * 100) / 100,
        "power_usage": np.round(mean_power(window) * (1 + rng.normal(0, 0.008, n)), 3).clip(0),
        "energy": np.round(energy_until(times) + 1e6 + 3333 * gpu, 3),
        "temperature": np.round(np.minimum(ambient + 38 * heat * setting.cooling[gpu], HOTTEST)),
        "memory_temperature": np.round(np.minimum(ambient + 5 + 44 * heat * setting.cooling[gpu], HOTTEST + 4)),
        "sm_clock": np.minimum(clock, model.max_clock),
    }
    loaded = np.where(is_on, setting.memory_share[gpu], 0.0065) * (1 + np.where(is_on, rng.normal(0, 0.0004, n), 0))
    values["memory_used"] = np.round(np.minimum(loaded, 0.997) * model.memory_total / 2**20) * 2**20
    if "clock_event_reasons" in VIEWS[setting.view]:
        values["clock_event_reasons"] = np.where(is_on, timeline.reasons[gpu][at], 1).astype(float)
    wanted = VIEWS[setting.view]
    if "gr_engine_active" in wanted:
        values["gr_engine_active"] = np.round(np.clip(mean @ duty * (1 + rng.normal(0, 0.002, n)), 0, 1), 4)
        values["pcie_tx_bytes"] = traffic("pcie_tx", setting.pcie_noise * 0.6)
        values["pcie_rx_bytes"] = traffic("pcie_rx", setting.pcie_noise)
        values["dram_active"] = ratio("dram")
        values["tensor_active"] = ratio("tensor")
        if model.nvlink_speed:
            link = mean @ timeline.values("nvlink")
            for name in ("nvlink_tx_bytes", "nvlink_rx_bytes"):
                values[name] = np.round(link * (1 + rng.normal(0, 0.015, n)) + 2e4 * rng.random(n)).clip(0)
        if model.c2c_speed:
            values["c2c_tx_bytes"] = traffic("c2c_tx", setting.pcie_noise)
            values["c2c_rx_bytes"] = traffic("c2c_rx", setting.pcie_noise)
    if "sm_active" in wanted:
        values["sm_active"] = ratio("sm")
        values["sm_occupancy"] = ratio("occupancy")
        values["fp64_active"] = ratio("fp64")
        values["fp32_active"] = ratio("fp32")
        values["fp16_active"] = ratio("fp16")
        values["integer_active"] = ratio("integer")
        if model.architecture != "volta":
            double = ratio("double_tensor", 0.0)
            values["tensor_dfma_active"] = double
            values["tensor_hmma_active"] = np.round((values["tensor_active"] - double).clip(0), 4)
    profiled = [name for name in values if name in PROFILING or name in LINKS or name.startswith("c2c")]
    blank = np.concatenate([[True], np.diff(times) > 2.5 * interval])  # a counter needs a value before it
    blank |= rng.random(n) < 0.0008
    for name in profiled:
        values[name] = np.where(blank, np.nan, values[name])
    if setting.view == "gpm":
        flaw = rng.random(n) < 0.001
        values["power_usage"] = np.where(flaw, np.nan, values["power_usage"])
    return {name: column for name, column in values.items() if name in wanted}


def host_rows(timeline: Timeline, node: int, setting: Setting, seed: int) -> tuple[Floats, Floats, list[int], Floats]:
    """What the host's instruments read on one node, each second: float64[time], float64[time, column] of HOST_COLUMNS, its
    GPUs, and float64[time, GPU, column] of the workload: cores, resident bytes, processes."""
    rng = np.random.default_rng([seed, node, 7])
    model = setting.model
    times = np.arange(1.0 + rng.random() * 0.9, timeline.seconds, 1.0)
    n = len(times)
    gpus = np.flatnonzero(setting.node_of == node).tolist()
    rates = {name: timeline.values(name) for name in ("cpu", "read", "write", "net_rx", "net_tx", "fabric")}
    sums = {name: np.zeros(n) for name in rates}
    workload = np.zeros((n, len(gpus), 3))
    for position, gpu in enumerate(gpus):
        now, before = timeline.time_in_activities(gpu, [times, np.maximum(times - 1.0, 0)])
        spent = now - before
        for name, rate in rates.items():
            sums[name] += spent @ rate
        cores = spent @ rates["cpu"]
        workload[:, position, 0] = np.round((cores * (1 + rng.normal(0, 0.015, n))).clip(0, model.cores_per_node), 3)
        workload[:, position, 1] = np.round(6e9 + 1e9 * position + 1e7 * rng.random(n).cumsum() / 50)
        workload[:, position, 2] = setting.n_processes
        workload[times < setting.first_seen(gpu), position] = np.nan
    columns = np.zeros((n, len(HOST_COLUMNS)))
    cpu = (sums["cpu"] + 0.4 * rng.lognormal(0, 0.5, n)) / model.cores_per_node
    busy_beside, reads_beside = setting.neighbours
    swing = 1 + 0.4 * np.sin(times / rng.uniform(20, 200) + rng.uniform(0, 6)) + rng.normal(0, 0.05, n)
    columns[:, 0] = np.round(np.clip(cpu + busy_beside * swing, 0, 1), 4)
    sums["read"] += reads_beside * rng.lognormal(-0.5, 1.0, n)
    columns[:, 1] = np.round(np.convolve(sums["cpu"], np.full(60, 1 / 60), "full")[:n] + 0.5, 2)
    columns[:, 2] = np.round(len(gpus) * 9e9 + 2e10 + 1e8 * rng.random(n))
    columns[:, 3] = model.cores_per_node * 8 * GIB
    noise = {"read": 2e5, "write": 1.5e6, "net_rx": 2e5, "net_tx": 2e5}
    for at, name in enumerate(("read", "write", "net_rx", "net_tx"), start=4):
        burst = np.where(rng.random(n) < 0.03, rng.lognormal(2.5, 0.8, n), rng.random(n) * 0.5)
        columns[:, at] = np.round(sums[name] * (1 + rng.normal(0, 0.03, n)) + noise[name] * burst).clip(0)
    for at in (8, 9):
        fabric = sums["fabric"] * (1 + rng.normal(0, 0.02, n)) + 3e4 * rng.random(n)
        columns[:, at] = np.round(fabric).clip(0) if model.fabric_speed else np.nan
    return times, columns, gpus, workload
