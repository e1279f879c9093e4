"""What instruments read of a job: windows, holds, whole percents, lags, noise, and values that are missing."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tests.fakes.jobs.job import Draft
from tests.fakes.jobs.phases import VALUES, Floats, Ints, Timeline, values


class Sampling(NamedTuple):
    """A row every ``interval`` s. Profiling fields are means over ``window`` s, renewed when one is over and held until
    then; ``backend`` is dcgm or nvml, which has no such fields where the GPU can't count itself (``profiling``)."""

    name: str
    interval: float
    window: float
    backend: str = "dcgm"
    profiling: bool = True
    nulls: float = 0.0
    """Share of values that are missing, at random."""
    lost_rows: float = 0.0


GPM = Sampling("gpm-100ms", 0.1, 0.1, "nvml")
DCGM = Sampling("dcgm-1s", 1.0, 1.0)
HELD = Sampling("dcgm-held", 0.2, 1.0)
TEN = Sampling("10s", 10.0, 10.0)
TEN_OF_ONE = Sampling("10s", 10.0, 1.0)
THIRTY = Sampling("30s", 30.0, 30.0)
THIRTY_OF_ONE = Sampling("30s", 30.0, 1.0)
NVML = Sampling("nvml-1s", 1.0, 1.0, "nvml", False)
NVML_TEN = Sampling("nvml-10s", 10.0, 10.0, "nvml", False)

_UTILIZATION_SECONDS = 0.5
"""NVML's own window: 1/6 s to 1 s, by model."""
_WARM_SECONDS = 45.0
"""About the time that a die under its cooler takes to warm up."""
_AT = {name: position for position, name in enumerate(VALUES)}
_PLAIN = {
    "gr_engine_active": "engine", "sm_active": "sm", "sm_occupancy": "occupancy", "tensor_active": "tensor",
    "tensor_dfma_active": "dfma", "fp64_active": "fp64", "fp32_active": "fp32", "fp16_active": "fp16",
    "integer_active": "integer", "dram_active": "dram",
}  # fmt: skip
_USAGE = ("cores", "read", "write", "net_rx", "net_tx", "fabric")


class Samples(NamedTuple):
    """All [t, GPUs]: ``times`` in s since the start, ``columns`` by the catalogue's names (NaN: missing), and which ``rows``
    exist."""

    times: Floats
    columns: dict[str, Floats]
    rows: np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def _each(draft: Draft, name: str) -> Floats:
    return np.array([getattr(gpu, name) for gpu in draft.plan.gpus], np.float64)


def sample(draft: Draft, timeline: Timeline, sampling: Sampling, seed: int) -> Samples:
    """What the nodes' samplers write of it. They began at three different times: none waits for another."""
    group, parts = np.array(draft.plan.nodes) % 3, []
    for number in np.unique(group).tolist():
        ranks = np.flatnonzero(group == number)
        plan = replace(draft.plan, gpus=tuple(draft.plan.gpus[rank] for rank in ranks))
        hot = {at for at, rank in enumerate(ranks.tolist()) if rank in draft.hot}
        theirs = replace(draft, plan=plan, memory=draft.memory[ranks], hot=hot)
        mine = timeline._replace(seconds=timeline.seconds[:, ranks], kind=timeline.kind[:, ranks])
        parts.append((ranks, _sample(theirs, mine, sampling, np.random.default_rng((seed, 3, number)))))
    n_rows = min(len(part.times) for _, part in parts)
    shape = (n_rows, draft.n)
    columns = {name: np.full(shape, np.nan) for _, part in parts for name in part.columns}
    found = Samples(np.empty(shape), columns, np.empty(shape, np.bool_))
    for ranks, part in parts:
        found.times[:, ranks] = part.times[:n_rows]
        found.rows[:, ranks] = part.rows[:n_rows]
        for name, column in part.columns.items():
            found.columns[name][:, ranks] = column[:n_rows]
    return found


def _sample(draft: Draft, timeline: Timeline, sampling: Sampling, rng: np.random.Generator) -> Samples:
    first_at = float(rng.uniform(0.0, sampling.interval))  # no sampler is in step with a job
    n_rows = int((timeline.duration - first_at) / sampling.interval + 1e-9)
    times: Floats = first_at + np.arange(1.0, n_rows + 1) * sampling.interval
    times += rng.uniform(0.0, 0.01 * min(sampling.interval, 1.0), n_rows)  # nor ever quite in time
    table = values(timeline.kinds)
    shape = (len(times), draft.n)

    def means(ends: Floats, window: float, names: list[str]) -> dict[str, Floats]:
        found = timeline.shares(ends, window) @ table[:, [_AT[name] for name in names]]
        return {name: found[:, :, at] for at, name in enumerate(names)}

    columns: dict[str, Floats] = {}
    if sampling.profiling:
        ends = times
        if sampling.window > sampling.interval:
            ends = np.floor((times - first_at) / sampling.window + 1e-6) * sampling.window + first_at
        first = ends < sampling.window - 1e-6  # the first window is not over yet: blank
        own = means(ends, sampling.window, [*_PLAIN.values(), "host_tx", "host_rx", "nvlink", "fabric"])
        gain = rng.normal(1.0, 0.004, draft.n)
        for metric, name in _PLAIN.items():
            top = 1.0 if metric == "gr_engine_active" else 0.99
            noisy = own[name] * gain * rng.normal(1.0, 0.008, shape)
            columns[metric] = np.round(np.clip(noisy, 0.0, top), 4 if sampling.backend == "nvml" else 6)
        columns["tensor_hmma_active"] = np.maximum(columns["tensor_active"] - columns["tensor_dfma_active"], 0.0)
        nic = own["fabric"] * _each(draft, "nic")
        c2c, pcie = _each(draft, "c2c"), _each(draft, "pcie")
        for direction in ("tx", "rx"):
            to_host = own[f"host_{direction}"]
            idle = 1e5 * rng.uniform(0.5, 1.5, shape)
            columns[f"pcie_{direction}_bytes"] = np.rint(1.03 * (np.where(c2c > 0, 0.0, to_host * pcie) + nic) + idle)
            if c2c.any():
                columns[f"c2c_{direction}_bytes"] = np.where(c2c > 0, np.rint(to_host * c2c), np.nan)
            link = _each(draft, "nvlink")
            if link.any():
                columns[f"nvlink_{direction}_bytes"] = np.where(link > 0, np.rint(own["nvlink"] * link), np.nan)
        for column in columns.values():
            column[first] = np.nan
    load = means(times, _UTILIZATION_SECONDS, ["engine", "copying"])
    for metric, name in (("gpu_utilization", "engine"), ("memory_copy_utilization", "copying")):
        columns[metric] = np.floor(np.clip(100 * load[name] * rng.normal(1.0, 0.005, shape) + 0.5, 0, 100)) / 100
    columns |= _electricity(draft, timeline, times, rng)
    now = timeline.now(times)
    clock = _each(draft, "clock") * (1 - np.abs(rng.normal(0.0, 0.003, draft.n) + rng.normal(0.0, 0.004, shape)))
    columns["sm_clock"] = np.floor(table[now, _AT["clock"]] * clock / 15 + 0.5) * 15
    columns["clock_event_reasons"] = np.asarray(table[now, _AT["reasons"]], np.float64)
    grown = np.clip(times / max(0.01 * timeline.duration, 1.0), 0.02, 1.0)[:, None]
    columns["memory_used"] = np.floor(draft.memory * grown * _each(draft, "memory") / (1 << 20)) * (1 << 20)
    rows = rng.random(shape) >= sampling.lost_rows
    for column in columns.values() if sampling.nulls else ():
        column[rng.random(shape) < sampling.nulls] = np.nan
    return Samples(np.broadcast_to(times[:, None], shape), columns, rows)


def _electricity(draft: Draft, timeline: Timeline, times: Floats, rng: np.random.Generator) -> dict[str, Floats]:
    """Power as each model's reading averages it, energy as it adds up, and temperatures that follow."""
    load = values(timeline.kinds)[:, _AT["load"]]
    idle, limit = _each(draft, "idle_power"), _each(draft, "power_limit")
    windows = _each(draft, "power_seconds")
    power = np.zeros((len(times), draft.n))
    for window in set(windows.tolist()):
        power[:, windows == window] = (timeline.shares(times, window) @ load)[:, windows == window]
    until: Floats = timeline.spent(times) @ load
    watts: Floats = np.minimum((idle + (limit - idle) * power) * rng.normal(1.0, 0.006, power.shape), 1.02 * limit)
    joules: Floats = 1e6 + idle * times[:, None] + (limit - idle) * until
    warm = timeline.shares(times, _WARM_SECONDS) @ load
    hot = np.isin(np.arange(draft.n), sorted(draft.hot))
    die = np.minimum(34 + rng.normal(0, 1.5, draft.n) + np.where(hot, 600, 38) * warm, _each(draft, "hot"))
    return {
        "power_usage": np.round(watts, 3),
        "energy": np.round(joules, 3),
        "temperature": np.floor(die + 0.5),
        "memory_temperature": np.floor(die + 6.5),
    }


def usage(draft: Draft, timeline: Timeline, times: Floats) -> dict[str, Floats]:
    """Of ranks, means over the time since the row before, [t, ranks]: ``cores``, and bytes/s of ``read``, ``write``,
    ``net_rx``, ``net_tx`` and ``fabric``."""
    every = float(times[1] - times[0]) if len(times) > 1 else 1.0
    shares = timeline.shares(times, every) @ values(timeline.kinds)[:, [_AT[name] for name in _USAGE]]
    found = {name: shares[:, :, at] for at, name in enumerate(_USAGE)}
    return found | {"fabric": found["fabric"] * _each(draft, "nic")}


def node_sum(per_rank: Floats, nodes: Ints) -> Floats:
    """[t, ranks] added up to [t, nodes]."""
    return np.asarray(
        np.stack([per_rank[:, nodes == node].sum(axis=1) for node in np.unique(nodes)], axis=1), np.float64
    )
