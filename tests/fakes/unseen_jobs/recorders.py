"""What recorders read of a timeline: each with its windows, roundings, lags and losses, as the real ones have them."""

from collections.abc import Mapping

import numpy as np

from gssr.arrays import Floats
from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.machines import GIB, metrics_of
from tests.fakes.unseen_jobs.timeline import Pieces
from tests.fakes.unseen_jobs.work import RATES

_AT = {name: place for place, name in enumerate(RATES)}
_SHARES = {
    "gr_engine_active": "engine", "sm_active": "sm", "sm_occupancy": "occupancy", "tensor_active": "tensor",
    "tensor_hmma_active": "hmma", "tensor_imma_active": "imma", "tensor_dfma_active": "dfma", "fp64_active": "fp64",
    "fp32_active": "fp32", "fp16_active": "fp16", "integer_active": "integer", "dram_active": "dram",
}  # fmt: skip
_LINKS = {"nvlink_tx_bytes": "link_tx", "nvlink_rx_bytes": "link_rx"}
_HOST_RATES = np.arange(_AT["cores"], len(RATES))
MULTIPLEXED_SHARE = 1 / 3
"""Before Hopper the metrics of different hardware groups take turns: each is counted for a part of the interval."""
LOST_ROWS, LOST_VALUES = 0.0015, 0.001
HOTTEST = 88.5
"""At this temperature in °C clocks are lowered until it stays."""
THERMAL_SECONDS = 45.0
"""A GPU's temperature follows the power of so many seconds."""


def sampling_times(job: Draft, rng: np.random.Generator) -> list[Floats]:
    """Return when each GPU is read, s from the job's begin: jittered, some rows lost, none in the GPU's gaps."""
    length, interval = job.timeline.seconds, job.interval
    found = []
    first_of_node = rng.uniform(0.0, min(interval, 1.0), job.machine.n_nodes)
    for gpu, node in enumerate(job.machine.node_of):
        begin = first_of_node[node] + interval
        times = np.arange(begin, max(length, begin + interval), interval)
        times = times + rng.normal(0.0, 0.004 * interval, len(times)).clip(-0.1 * interval, 0.1 * interval)
        kept = rng.random(len(times)) >= LOST_ROWS
        for owner, gap_begin, gap_end in job.gaps:
            if owner == gpu:
                kept &= (times < gap_begin) | (times >= gap_end)
        found.append(times[kept])
    return found


class GpuReader:
    """Reads one GPU of a job through the job's view."""

    def __init__(self, job: Draft, gpu: int, pieces: Pieces, times: Floats, rng: np.random.Generator) -> None:
        self.job, self.gpu, self.pieces, self.times, self.rng = job, gpu, pieces, times, rng
        self.model = job.machine.model

    def read(self) -> dict[str, Floats]:
        """Return the values of all that the view measures, by metric; NaN where there is none."""
        job, model, rng = self.job, self.model, self.rng
        times = self._collected()
        lag = float(rng.uniform(0.0, 0.1)) * min(job.interval, 1.0)
        span = job.interval if job.view in ("exporter", "imported", "amd") else job.interval * rng.uniform(0.985, 1.0)
        end, width = times - lag, span
        if not model.is_hopper and not model.is_amd:
            width = span * MULTIPLEXED_SHARE
            end = end - (span - width) * rng.random(len(times))
        means = self.pieces.means(end - width, end)
        values = {name: self._counted(means[:, _AT[rate]]) for name, rate in _SHARES.items()}
        to_gpu, from_gpu = ("c2c_rx_bytes", "c2c_tx_bytes") if model.has_c2c else ("pcie_rx_bytes", "pcie_tx_bytes")
        values["pcie_rx_bytes"], values["pcie_tx_bytes"] = self._chatter(means), self._chatter(means)
        values["c2c_rx_bytes"], values["c2c_tx_bytes"] = self._chatter(means), self._chatter(means)
        values[to_gpu] = values[to_gpu] + self._bytes(means[:, _AT["to_gpu"]])
        values[from_gpu] = values[from_gpu] + self._bytes(means[:, _AT["from_gpu"]])
        if not model.links and not model.is_amd:
            values["pcie_rx_bytes"] += self._bytes(means[:, _AT["link_rx"]])
            values["pcie_tx_bytes"] += self._bytes(means[:, _AT["link_tx"]])
        values |= {name: self._bytes(means[:, _AT[rate]]) for name, rate in _LINKS.items()}
        self._blank_first(values)
        values |= self._of_driver(times, means)
        lost = rng.random((len(values), len(times))) < LOST_VALUES
        for column, missing in zip(values.values(), lost, strict=True):
            column[missing] = np.nan
        return {name: values[name] for name in metrics_of(job.view, model)}

    def _collected(self) -> Floats:
        """Return when the values were collected: a scrape reads what an exporter collected up to an interval before, and
        reads it twice if it comes more often."""
        if self.job.view != "imported":
            return self.times
        period = self.job.interval * self.job.repeats
        phase = float(self.rng.random()) * period
        return np.floor((self.times - phase) / period) * period + phase

    def _of_driver(self, times: Floats, means: Floats) -> dict[str, Floats]:
        """Return what the driver tells of itself: snapshots over its own short windows, whole numbers."""
        job, model, rng = self.job, self.model, self.rng
        since = times - (job.interval if model.is_amd else model.window_s)
        seen = self.pieces.means(since, times)
        seen = seen if not model.is_amd else means
        used = seen[:, _AT["resident"]]
        memory_used = np.minimum(used, 1.15 * seen[:, _AT["dram"]] + 0.02 * used)
        averaged = 1.0 if model.is_hopper or model.capability == "8.9" else 0.06
        power = self._watts(times, averaged)
        slow = self._watts(times, THERMAL_SECONDS)
        heat = np.minimum(30.0 + job.heat[self.gpu] * slow / model.power_limit, HOTTEST)
        piece = self.pieces.place(times)
        clock, reason = self.pieces.clock[piece], self.pieces.reason[piece]
        rate = means[:, _AT["engine"]]
        is_set_up = (times >= job.set_up_s) & job.has_context[self.gpu]
        rests = 0.93 if model.is_amd else 0.0
        at_rest = 0.17 if not model.is_amd else 0.06
        clocks = model.max_clock * np.where(is_set_up, clock * (1 - rests * (rate < 0.02)), at_rest)
        clocks = clocks - 15.0 * (rng.random(len(times)) < 0.2 * rate)
        bits = np.where(is_set_up, np.where((clock < 0.985) & (rate > 0.02), reason, 0), 1.0)
        energy = (self._watts(times, None) + float(rng.integers(10**6, 10**9))).round(3)
        fill = np.interp(times, [0.3 * job.set_up_s, max(job.set_up_s, 1e-3)], [0.004, 1.0])
        filled = np.where(job.has_context[self.gpu], fill * job.memory[self.gpu], 0.0) + 0.006
        filled = np.minimum(filled + job.memory_growth * times / job.timeline.seconds, 0.992)
        return {
            "gpu_utilization": np.round(100 * np.clip(used, 0, 1)) / 100,
            "memory_copy_utilization": np.round(100 * np.clip(memory_used, 0, 1)) / 100,
            "power_usage": np.round(power, 3 if not model.is_amd else 0),
            "energy": energy,
            "temperature": np.round(heat + rng.normal(0, 0.4, len(times))),
            "memory_temperature": np.round(heat + 6 + rng.normal(0, 0.4, len(times))),
            "sm_clock": np.round(clocks / 15) * 15.0,
            "memory_used": np.floor(filled * model.memory * 1024) * 2.0**20,
            "clock_event_reasons": bits.astype(float),
        }

    def _watts(self, times: Floats, seconds: float | None) -> Floats:
        """Return the mean power in W of the last ``seconds`` at each time; with None the energy since the begin in J."""
        job, model = self.job, self.model
        at_rest = model.idle_power + 0.05 * model.power_limit * job.has_context[self.gpu]
        limit = job.power_limit or model.power_limit
        begin = np.zeros(len(times)) if seconds is None else np.maximum(times - seconds, 0.0)
        share = self.pieces.means(begin, np.maximum(times, begin + 1e-3), np.array([_AT["power"]]))[:, 0]
        watts = at_rest + (limit - at_rest) * share
        if seconds is None:
            return np.maximum.accumulate(watts * times)
        noisy: Floats = np.minimum(watts * (1 + self.rng.normal(0, 0.008, len(times))), 1.015 * limit)
        return noisy

    def _counted(self, values: Floats) -> Floats:
        noise = 1 + self.rng.normal(0, 0.004, len(values))
        counted: Floats = np.clip(values * noise, 0, 1)
        return counted.round(6)

    def _bytes(self, values: Floats) -> Floats:
        noise = self.rng.normal(1.02, 0.02, len(values)).clip(0.9, 1.1)
        moved: Floats = np.round(values * noise)
        return moved

    def _chatter(self, means: Floats) -> Floats:
        """Return what a link always carries: doorbells, heartbeats, launches."""
        quiet = self.rng.lognormal(np.log(4e5), 0.8, len(means))
        return np.round(quiet + 4e7 * means[:, _AT["engine"]] * self.rng.lognormal(0.0, 0.5, len(means)))

    def _blank_first(self, values: Mapping[str, Floats]) -> None:
        """Profiling counters have no value before they have run for one interval."""
        for column in values.values():
            if self.job.view != "amd" and len(column):
                column[0] = np.nan


def host_times(job: Draft) -> Floats:
    """Return when nodes are read, s from the job's begin."""
    every = max(1.0, job.interval)
    return np.arange(every, max(job.timeline.seconds, 2 * every), every)


def process_use(pieces: Pieces, times: Floats) -> Floats:
    """Return what a rank's process uses in each time between readings of its node [times, rates of the host]."""
    every = times[1] - times[0] if len(times) > 1 else 1.0
    return pieces.means(times - every, times, _HOST_RATES)


def node_row(job: Draft, use: Floats, rng: np.random.Generator) -> Floats:
    """Return the rows of a node [times, columns of host_samples] from the sum of its processes' use."""
    machine, n = job.machine, len(use)
    cores = np.minimum(use[:, 0] + 0.4 + rng.gamma(2.0, 0.3, n), machine.cores)
    load = np.convolve(cores, np.ones(60) / 60)[:n] if n > 60 else cores
    used = (0.05 + 0.012 * rng.random() + job.host_memory) * machine.memory * np.linspace(0.98, 1.0, n)
    noise = rng.lognormal(np.log(3e4), 1.0, (n, 6))
    moved = use[:, 1:] * (1 + rng.normal(0, 0.02, (n, 6))).clip(0.8, 1.2) + noise * np.array([0.2, 1, 1, 1, 0.01, 0.01])
    return np.column_stack(
        [cores / machine.cores, load, np.floor(used), np.full(n, machine.memory), moved],
    )


def workload_rows(job: Draft, use: Floats, rng: np.random.Generator) -> Floats:
    """Return the rows of one process [times, columns of workload_samples] from its use."""
    n = len(use)
    cpu = np.maximum(use[:, 0] * (1 + rng.normal(0, 0.01, n)), 0.0)
    resident = np.full(n, np.floor((3 + 20 * job.host_memory) * GIB))
    return np.column_stack([cpu, resident, np.full(n, float(1 + job.n_workers))])
