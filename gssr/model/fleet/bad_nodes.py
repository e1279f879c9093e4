"""Nodes that are slow whoever runs there: what a node did apart from what its jobs did. Jobs differ, nodes recur.

In each job a node's GPUs are held against the median of the job's other nodes, so that what the job is like does not count.
Over its jobs the median counts, so that a job's own stragglers, or a rank with more work, do not. What is left is the node,
and it stands apart when that is far outside of how nodes usually differ.

One number can't tell. A GPU that is slow in a synchronous job is the busiest of all: the others wait for it. A GPU that
waits for its host or its link is the least busy, and so is one that is faster than the others. So clocks, activity and power
are looked at each by itself, and only together they say that a node is slow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.fleet.figures import GpuFigures, RunFigures

FEWEST_NODES = 3
"""A job of two nodes does not say which of them is slow."""
FEWEST_JOBS = 5
FEWEST_OTHERS = 5
"""So many nodes, at least, say how nodes usually differ."""
LEAST = 0.03
"""What a node must differ by, as a logarithm: below that it is hardly worth a ticket."""
_SPREADS, _ERRORS = 2.5, 2.0
"""The node lies this many spreads of all nodes apart, and as many standard errors of its own beyond that (thresholds of our
own, tried by `benchmarks fleet_nodes`)."""
_TO_SIGMA, _OF_MEDIAN = 1.4826, 1.2533
"""From a median absolute deviation to a standard deviation; the standard error of a median over that of a mean."""

Kind = Literal["slow_clock", "busier", "less_busy"]
ABOUT_NODES = (
    "straggler",
    "slow_node",
    "slow_clock",
    "throttled_thermal",
    "throttled_power_brake",
    "throttled_hardware",
)
"""Verdicts of a run that can be a node's."""


class BadNode(NamedTuple):
    """A node that is slow whoever runs there. ``kind``: ``slow_clock``, its clocks are lower; ``busier``, its GPUs are
    busier at the same clocks, so the others wait for them; ``less_busy``, they are less busy and take less power. ``clock``,
    ``activity``, ``power``: the node's to that of its jobs' other nodes, as a ratio, the median over ``n_jobs`` jobs of
    ``n_users`` users (0: unknown); ``share`` of these jobs show it. ``throttled``: the share of its GPU-hours slowed down.
    ``verdicts``: by code, in how many runs that were judged it held of this node's GPUs. None is unknown."""

    node: str
    kind: Kind
    n_jobs: int
    n_users: int
    share: float
    clock: float | None
    activity: float | None
    power: float | None
    throttled: float | None
    verdicts: dict[str, int]


def against_others(values: Floats) -> Floats:
    """Compare each of these values [n] with the median of all the others. Returns the logarithms of the ratios [n]: 0 is the
    same, 0.01 about 1 % more. Needs values above 0, and at least two."""
    logs = np.log(values)
    order = np.argsort(logs, kind="stable")
    rank = np.empty(len(logs), np.int64)
    rank[order] = np.arange(len(logs))
    low, high = (len(logs) - 2) // 2, (len(logs) - 1) // 2
    sorted_logs = logs[order]
    others = (sorted_logs[low + (low >= rank)] + sorted_logs[high + (high >= rank)]) / 2
    return np.asarray(logs - others, np.float64)


def effects(values: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, bool]]:
    """Find how each node differs from the others. ``values``: by node, the logarithms of its ratio to the others, one
    for each job (``against_others``). Returns by node the median's distance from the middle node's, and whether it
    stands apart. Nodes with fewer than FEWEST_JOBS values are left out; {} if no more than FEWEST_OTHERS are left."""
    arrays = {node: np.array(own, np.float64) for node, own in values.items() if len(own) >= FEWEST_JOBS}
    if len(arrays) <= FEWEST_OTHERS:
        return {}
    medians = np.array([np.median(own) for own in arrays.values()])
    within = np.array([_spread(own) for own in arrays.values()])
    errors = _OF_MEDIAN * np.maximum(within, np.median(within)) / np.sqrt([len(own) for own in arrays.values()])
    middle = np.median(medians)
    limit = np.maximum(LEAST, _SPREADS * _spread(medians)) + _ERRORS * errors
    apart = np.abs(medians - middle) >= limit
    return dict(zip(arrays, zip((medians - middle).tolist(), apart.tolist(), strict=True), strict=True))


def _spread(values: Floats) -> float:
    return _TO_SIGMA * float(np.median(np.abs(values - np.median(values))))


_Compared = tuple[list[float], list[float], list[float]]
"""Of a node in a job: the logarithms of its clock, activity and power to the other nodes'."""


def bad_nodes(runs: Iterable[tuple[str, RunFigures]]) -> list[BadNode]:
    """Find the nodes that are slow in these runs, given as (job, run), the most certain first."""
    seen: dict[str, dict[str, _Compared]] = {}
    users: dict[str, set[str]] = {}
    held: dict[str, list[tuple[RunFigures, Sequence[GpuFigures]]]] = {}
    for job, run in runs:
        if len(run.gpus) < FEWEST_NODES or run.n_nodes < FEWEST_NODES:
            continue
        for gpus in _by_model(run.gpus):
            _compare(job, gpus, seen)
        for node, own in _by_node(run.gpus).items():
            users.setdefault(node, set()).update([run.user] if run.user else [])
            held.setdefault(node, []).append((run, own))
    logarithms = [
        {node: [v for own in jobs.values() for v in _median(own[at])] for node, jobs in seen.items()} for at in range(3)
    ]
    clock, activity, power = map(effects, logarithms)
    found = []
    for node in seen:
        differs = clock.get(node), activity.get(node), power.get(node)
        kind = _classify_node(*differs)
        by = 0 if kind == "slow_clock" else 1
        tells = differs[by]
        if kind is None or tells is None:
            continue
        median, values = tells[0], np.array(logarithms[by][node])
        found.append(
            BadNode(
                node=node,
                kind=kind,
                n_jobs=len(values),
                n_users=len(users[node]),
                share=float(np.mean(np.sign(median) * values >= abs(median) / 2)),
                clock=_ratio(differs[0]),
                activity=_ratio(differs[1]),
                power=_ratio(differs[2]),
                throttled=_throttled(held[node]),
                verdicts=_count_verdicts(held[node]),
            )
        )
    return sorted(found, key=lambda each: (-each.n_jobs * each.share, each.node))


def _ratio(effect: tuple[float, bool] | None) -> float | None:
    """Turn a node's median (the first part of ``effect``, as ``effects`` returns it) back from its logarithm: the node's
    value to the others'; None where the effect is not known."""
    return None if effect is None else float(np.exp(effect[0]))


def _classify_node(
    clock: tuple[float, bool] | None, activity: tuple[float, bool] | None, power: tuple[float, bool] | None
) -> Kind | None:
    """Tell what is wrong with a node, or None if nothing is. ``clock``, ``activity`` and ``power`` are how it differs
    from the others, as ``effects`` returns it; None: unknown. A faster node is less busy as well, but does not take less
    power; without a known power no node is less busy."""
    slower, has_other_clock = clock or (0.0, False)
    if has_other_clock and slower < 0:
        return "slow_clock"
    busier, has_other_activity = activity or (0.0, False)
    if not has_other_activity or has_other_clock:
        return None
    if busier > 0:
        return "busier"
    return "less_busy" if power is not None and power[0] <= -LEAST else None


def _by_model(gpus: Iterable[GpuFigures]) -> list[list[GpuFigures]]:
    """Group the GPUs that were used by model, because different models can't be compared."""
    found: dict[str | None, list[GpuFigures]] = {}
    for gpu in gpus:
        if gpu.node is not None and not gpu.unused:
            found.setdefault(gpu.name, []).append(gpu)
    return list(found.values())


def _by_node(gpus: Iterable[GpuFigures]) -> dict[str, list[GpuFigures]]:
    """Group GPUs by their node; those without one are left out."""
    found: dict[str, list[GpuFigures]] = {}
    for gpu in gpus:
        if gpu.node is not None:
            found.setdefault(gpu.node, []).append(gpu)
    return found


def _compare(job: str, gpus: Sequence[GpuFigures], seen: dict[str, dict[str, _Compared]]) -> None:
    """Compare the nodes of one run with each other, and append the result to ``seen``, by node and job.

    ``gpus`` are the run's used GPUs of one model; the caller has divided them by model. For each of clock, activity and
    power in turn: a node's value is the median over those of its GPUs whose value is known and not 0, and the logarithm
    of its ratio to the median of all other nodes is appended to the list of this figure. A figure that fewer than
    FEWEST_NODES nodes have is left out.
    """
    nodes = _by_node(gpus)
    for at, value in enumerate((_clock, _activity, _power)):
        known = {node: [own for gpu in each if (own := value(gpu))] for node, each in nodes.items()}
        names = [node for node, values in known.items() if values]
        if len(names) < FEWEST_NODES:
            continue
        apart = against_others(np.array([np.median(known[node]) for node in names]))
        for node, own in zip(names, apart.tolist(), strict=True):
            seen.setdefault(node, {}).setdefault(job, ([], [], []))[at].append(own)


def _clock(gpu: GpuFigures) -> float | None:
    return gpu.relative_clock


def _activity(gpu: GpuFigures) -> float | None:
    return gpu.sm_active


def _power(gpu: GpuFigures) -> float | None:
    return gpu.energy_j / gpu.gpu_hours if gpu.energy_j is not None and gpu.gpu_hours > 0 else None


def _median(values: Sequence[float]) -> list[float]:
    """Return the one value of all runs of a job, which ran on the same nodes, in a list; an empty one for none."""
    return [float(np.median(values))] if values else []


def _throttled(held: Sequence[tuple[RunFigures, Sequence[GpuFigures]]]) -> float | None:
    """Return the share of these GPUs' hours that was slowed down; None if it is unknown for all of them."""
    known = [gpu for _, gpus in held for gpu in gpus if gpu.throttled_gpu_hours is not None]
    hours = sum(gpu.gpu_hours for gpu in known)
    return sum(gpu.throttled_gpu_hours or 0.0 for gpu in known) / hours if hours > 0 else None


def _count_verdicts(held: Sequence[tuple[RunFigures, Sequence[GpuFigures]]]) -> dict[str, int]:
    """Count the runs in which each verdict about nodes names one of these GPUs, by the verdict's code."""
    found: dict[str, int] = {}
    for run, gpus in held:
        own = {gpu.gpu for gpu in gpus}
        for code in {code for code, about in (run.verdicts or {}).items() if own & set(about)} & set(ABOUT_NODES):
            found[code] = found.get(code, 0) + 1
    return found
