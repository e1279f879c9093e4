"""Recorders: what DCGM, an exporter, GPM, NVML and AMD's driver read of a timeline, and what the nodes' kernels count."""

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from tests.fakes.blind_jobs.draft import POWER_CAP, Draft
from tests.fakes.blind_jobs.hardware import MI250X, MI300X, MIB, GpuModel
from tests.fakes.blind_jobs.schedule import Timeline

ACTIVITIES = {
    "sm_active": "sm",
    "sm_occupancy": "occupancy",
    "tensor_active": "tensor",
    "tensor_dfma_active": "dfma",
    "fp64_active": "fp64",
    "fp32_active": "fp32",
    "fp16_active": "fp16",
    "integer_active": "integer",
    "dram_active": "dram",
}
"""Metrics that are shares of cycles, and the phases' figures behind them."""
LINKS = {
    "pcie_tx_bytes": "pcie_tx",
    "pcie_rx_bytes": "pcie_rx",
    "nvlink_tx_bytes": "nvlink",
    "nvlink_rx_bytes": "nvlink",
}
DRIVER = (
    "gpu_utilization",
    "memory_copy_utilization",
    "power_usage",
    "energy",
    "temperature",
    "sm_clock",
    "memory_used",
)
PROFILED = ("gr_engine_active", *ACTIVITIES, "tensor_hmma_active", *LINKS, "c2c_tx_bytes", "c2c_rx_bytes")
HOST_RATES = ("read", "write", "net_rx", "net_tx", "fabric_rx", "fabric_tx")
THROTTLE_TEMPERATURE = 87.0


def metrics_of(view: str, model: GpuModel) -> tuple[str, ...]:
    """List what a view records of a GPU: an exporter has the fields of its default list."""
    if view in ("exporter", "imported"):
        return ("gr_engine_active", "tensor_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes", *DRIVER,
                "memory_temperature")  # fmt: skip
    if view == "nvml":
        return (*DRIVER, "clock_event_reasons")
    if view == "amd":
        newer = ("dram_active", "nvlink_tx_bytes", "nvlink_rx_bytes", "clock_event_reasons") if model == MI300X else ()
        return (*(each for each in DRIVER if each != "memory_copy_utilization"), "memory_temperature", *newer)
    lacking: tuple[str, ...] = () if model.nvlink else ("nvlink_tx_bytes", "nvlink_rx_bytes")
    lacking += () if model.c2c else ("c2c_tx_bytes", "c2c_rx_bytes")
    return tuple(
        each for each in (*PROFILED, *DRIVER, "memory_temperature", "clock_event_reasons") if each not in lacking
    )


def sampling_times(timeline: Timeline, job: Draft, rng: np.random.Generator) -> list[Floats]:
    """Draw when each GPU is sampled: ticks of its node with some jitter; a few in a thousand are missed, and gaps are left
    out."""
    offset = rng.uniform(0.05, 1.0, job.n_nodes) * job.interval
    missed = rng.choice([0.0, 0.001, 0.004])
    found = []
    for gpu in range(job.n_gpus):
        ticks = np.arange(offset[job.node_of[gpu]], timeline.seconds, job.interval)
        ticks = ticks + rng.exponential(0.01 * min(job.interval, 1.0), len(ticks)).clip(0, 0.3 * job.interval)
        keep = rng.random(len(ticks)) >= missed
        for which, begin, end in job.gaps:
            if which == gpu:
                keep &= (ticks <= begin) | (ticks >= end)
        found.append(ticks[keep])
    return found


class GpuRecorder:
    """Reads one GPU at its times: a counter's mean since the sample before, a state as it is then."""

    def __init__(self, timeline: Timeline, job: Draft, gpu: int, times: Floats, rng: np.random.Generator) -> None:
        """Prepare the time that was spent in each phase until every sample, and a sampling interval before it."""
        self.timeline, self.job, self.gpu, self.times, self.rng = timeline, job, gpu, times, rng
        self.model = job.models[gpu]
        self.engine = timeline.figures("engine")
        self.since = np.maximum(times - job.interval, 0)
        window = self.model.utilization_window_s or job.interval
        lag = rng.uniform(0, 0.12)
        self.glimpse = np.maximum(times - lag - min(window, max(job.interval, 0.2)), 0)
        now, before, late, early = timeline.spent(gpu, times, self.since, np.maximum(times - lag, 1e-3), self.glimpse)
        self.mean = (now - before) / np.maximum(times - self.since, 1e-3)[:, None]
        self.recent = (late - early) / np.maximum(times - lag - self.glimpse, 1e-3)[:, None]
        self.at = timeline.segment_at(gpu, times)
        self.phase = timeline.phase_of[self.at]
        self.has_context = timeline.figures("memory")[timeline.phase_of] > 0
        self.joules = self._joules()

    def read(self) -> dict[str, Floats]:
        """Read what the view records."""
        wanted = metrics_of(self.job.view, self.model)
        values = self._driver()
        values |= self._profiling() if self.job.view != "nvml" else {}
        if self.model == MI250X and self.gpu % 2:
            for name in ("power_usage", "energy"):
                values[name] = np.full(len(self.times), np.nan)  # the card tells both dies' power on the first
        return {name: values[name] for name in wanted}

    def _noisy(self, value: Floats, scale: float) -> Floats:
        """Add a counter's noise and slow drift."""
        times, rng = self.times, self.rng
        drift = 1 + 0.008 * np.sin(times / rng.uniform(100, 900) + rng.uniform(0, 6)) + rng.normal(0, 0.004)
        return np.asarray(value * drift * (1 + rng.normal(0, scale, len(times))), np.float64)

    def _profiling(self) -> dict[str, Floats]:
        timeline, n, rng = self.timeline, len(self.times), self.rng
        engine = np.clip(self.mean @ self.engine * (1 + rng.normal(0, 0.0015, n)), 0, 1)
        values = {"gr_engine_active": np.where(engine > 0.9995, 1.0, np.round(engine, 4))}
        for name, figure in ACTIVITIES.items():
            true = self.mean @ (timeline.figures(figure) * self.engine)
            values[name] = np.round(np.clip(self._noisy(true, 0.01), 0, 1), 4)
        values["tensor_hmma_active"] = np.clip(values["tensor_active"] - values["tensor_dfma_active"], 0, 1)
        chatter = 10 ** rng.uniform(4.3, 6.8)  # other tools ask the GPU for its state over PCIe as well
        for name, figure in LINKS.items():
            floor = chatter * rng.lognormal(0, 0.6, n) if name.startswith("pcie") else 800 * rng.random(n)
            values[name] = np.round(self._noisy(self.mean @ timeline.figures(figure), 0.02) + floor).clip(0)
        if self.model.c2c:  # Grace's links carry what PCIe carries elsewhere
            for direction in ("rx", "tx"):
                values[f"c2c_{direction}_bytes"] = values[f"pcie_{direction}_bytes"]
                values[f"pcie_{direction}_bytes"] = np.round(chatter * rng.lognormal(0, 0.6, n))
        blank = rng.random(n) < 0.001
        if self.job.view != "amd":
            blank |= np.concatenate([[True], np.diff(self.times) > 4 * self.job.interval])
        for name in values:
            values[name] = np.where(blank, np.nan, values[name])
        return values

    def _watts(self) -> Floats:
        """Power in each segment: idle, a context that keeps clocks up, and kernels' by voltage and clock; where the limit
        holds clocks down it is the limit."""
        timeline, model, job = self.timeline, self.model, self.job
        own = 1 + 0.02 * np.sin(7.0 * self.gpu + job.interval)
        clock = timeline.clock[self.gpu]
        slower = np.where((timeline.reasons[self.gpu] & POWER_CAP) > 0, 1.0, clock**1.9)
        span = model.power_limit - model.idle_power - model.context_power
        kernels = (timeline.figures("power") * self.engine)[timeline.phase_of]
        kernels = kernels * np.where(timeline.is_work[timeline.phase_of], slower, 1.0) * own
        idle = model.idle_power + np.where(self.has_context, model.context_power, 0.0)
        return np.asarray(idle + span * np.minimum(kernels, 1.0), np.float64)

    def _joules(self) -> Floats:
        edges = self.timeline.edges[self.gpu]
        return np.asarray(np.concatenate([[0.0], np.cumsum(np.diff(edges) * self._watts())]), np.float64)

    def _power(self, seconds: float, lag: float) -> Floats:
        """Mean power over so many seconds until ``lag`` before each sample."""
        edges, end = self.timeline.edges[self.gpu], np.maximum(self.times - lag, 1e-3)
        begin = np.maximum(end - seconds, 0)
        joules = np.interp(end, edges, self.joules) - np.interp(begin, edges, self.joules)
        return np.asarray(joules / np.maximum(end - begin, 1e-6), np.float64)

    def _driver(self) -> dict[str, Floats]:
        timeline, model, job, n, rng = self.timeline, self.model, self.job, len(self.times), self.rng
        limit = model.power_limit
        counted = 1 - (1 - self.engine) ** rng.uniform(1.0, 1.6)
        used = self.mean @ self.engine if job.view == "amd" else self.recent @ counted
        power = self._power(model.power_window_s, rng.uniform(0.02, 0.15))
        energy = np.interp(self.times, timeline.edges[self.gpu], self.joules)
        if model == MI250X:  # both dies of a card do about the same
            power, energy = 2 * power - model.idle_power, 2 * energy
            power = power * limit / (2 * limit - model.idle_power)
        heat = self._power(40.0, 0.5) / limit
        normal = 27 + 3 * np.sin(1.7 * self.gpu) + 36 * heat
        working = timeline.is_work[self.phase]
        held = np.where(
            self.times > 0.03 * timeline.seconds, THROTTLE_TEMPERATURE + 2 * np.sin(self.times / 31), normal
        )
        temperature = np.where(job.hotter[self.gpu] > 0, np.where(heat > 0.3, held, normal + 22), normal)
        usual = np.round(timeline.clock[self.gpu][self.at] * model.max_clock / model.clock_step + rng.normal(0, 0.5, n))
        reasons = timeline.reasons[self.gpu][self.at]
        peaks = (timeline.figures("power")[self.phase] > 0.8) & (reasons == 0) & (rng.random(n) < 0.05)
        reasons = np.where(peaks, POWER_CAP, reasons)  # the limit holds down every busy GPU now and then
        clock = np.where(working | (reasons > POWER_CAP) | (reasons == 2), usual * model.clock_step, model.max_clock)
        context = self.has_context[self.at]
        clock = np.where(context, np.minimum(clock, model.max_clock), model.idle_clock)
        memory = timeline.figures("memory")[self.phase] * job.memory[self.gpu] * (1 + rng.normal(0, 0.0006, n))
        total = model.memory_mib
        values = {
            "gpu_utilization": np.round(np.clip(used, 0, 1), 2),
            "memory_copy_utilization": np.round(
                np.clip(1.2 * self.recent @ (timeline.figures("dram") * self.engine), 0, 1), 2
            ),
            "power_usage": np.round(np.minimum(power * (1 + rng.normal(0, 0.006, n)), 1.03 * limit), 2),
            "energy": np.round(energy + 4.0e6 + 1e5 * self.gpu, 3),
            "temperature": np.round(temperature),
            "memory_temperature": np.round(temperature + 4 + 6 * heat),
            "sm_clock": clock,
            "memory_used": np.round(np.clip(np.maximum(memory, 0.007), 0, 0.997) * total) * MIB,
        }
        idle = self.engine[self.phase] == 0
        values["clock_event_reasons"] = np.where(idle, 1, np.where(working, reasons, reasons & ~POWER_CAP)).astype(
            float
        )
        return values


def node_rows(
    timeline: Timeline, job: Draft, node: int, rng: np.random.Generator
) -> tuple[Floats, Floats, list[int], Floats]:
    """Read a node once a second: times, [time, column] of the node's counters, its GPUs, and [time, GPU, column] of each
    rank's cores, memory and processes. Neighbours on a shared node, monitors and the operating system are in it."""
    times = np.arange(rng.uniform(0.5, 1.5), timeline.seconds, 1.0)
    n, gpus = len(times), np.flatnonzero(job.node_of == node).tolist()
    model = job.models[gpus[0]]
    sums = {name: np.zeros(n) for name in ("cores", *HOST_RATES)}
    ranks = np.zeros((n, len(gpus), 3))
    n_processes = int(rng.choice([1, 1, 3, 9]))
    for position, gpu in enumerate(gpus):
        now, before = timeline.spent(gpu, times, np.maximum(times - 1.0, 0))
        for name, total in sums.items():
            total += (now - before) @ timeline.figures(name)
        cores = (now - before) @ timeline.figures("cores") * (1 + rng.normal(0, 0.012, n))
        ranks[:, position, 0] = np.round(cores.clip(0, model.cores), 3)
        ranks[:, position, 1] = np.round(4e9 + 3e9 * rng.random() + 2e6 * times.clip(0, 2000))
        ranks[:, position, 2] = n_processes
    shared = len(gpus) < model.per_node and rng.random() < 0.4
    beside = rng.uniform(0.02, 0.35) * (1 + 0.3 * np.sin(times / rng.uniform(15, 300))) if shared else np.zeros(n)
    columns = np.zeros((n, 4 + len(HOST_RATES)))
    columns[:, 0] = np.round(np.clip(sums["cores"] / model.cores + beside + 0.004 * rng.lognormal(0, 0.5, n), 0, 1), 4)
    load = np.convolve(sums["cores"] + beside * model.cores, np.exp(-np.arange(180) / 60) / 60.5)[:n]
    columns[:, 1] = np.round(load + 0.3 + 0.1 * rng.random(n), 2)
    columns[:, 2] = np.round(3e10 + 1e10 * len(gpus) + 3e6 * times.clip(0, 3000))
    columns[:, 3] = model.cores * 8 * 2**30
    quiet = {"read": 3e4, "write": 4e5, "net_rx": 8e4, "net_tx": 8e4, "fabric_rx": 2e4, "fabric_tx": 2e4}
    for at, name in enumerate(HOST_RATES, start=4):
        background = quiet[name] * rng.lognormal(0, 0.9, n) + np.where(rng.random(n) < 0.01, 3e7 * rng.random(n), 0.0)
        if shared and name in ("read", "net_rx"):
            background = background + rng.uniform(0, 5e7) * rng.lognormal(0, 0.7, n)
        columns[:, at] = np.round(sums[name] * (1 + rng.normal(0, 0.03, n)) + background).clip(0)
    return times, columns, gpus, ranks


def known(columns: dict[str, Floats], which: Flags | Ints) -> dict[str, Floats]:
    """Pick rows of columns."""
    return {name: column[which] for name, column in columns.items()}
