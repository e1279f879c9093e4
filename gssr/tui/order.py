"""Which GPUs and processes lists show, and in which order: the filter and the sorting that the user chose."""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.gpu_name import is_named
from gssr.makers import AMD, BOTH, NVIDIA, say
from gssr.metrics import BY_NAME, OF_NODES, OF_TRACES, Metric
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.model.statistics.balance import scale_limit
from gssr.model.traces.part import NOTHING, Only
from gssr.model.traces.window import limit
from gssr.render.scale import unit_of
from gssr.similar import did_you_mean, meant
from gssr.store.format.rows import Gpu, GpuProcess
from gssr.tui.steady_order import SteadyOrders
from gssr.tui.view import Scene, Sort

SHARES: dict[Sort, float] = {"p05": 0.05, "p95": 0.95}

BY_PROCESS: dict[Sort, Callable[[GpuProcess], float | str | None]] = {
    "memory": lambda process: process.memory_used,
    "SM": lambda process: process.sm_utilization,
    "user": lambda process: process.user,
}
"""What processes are sorted by, and with them the GPUs that they are on: the most first."""
_FIELDS: dict[str, Callable[[GpuProcess], object]] = {
    "user": lambda process: process.user,
    "process": lambda process: process.name,
    "pid": lambda process: process.pid,
}
_LIMIT = re.compile("(takes|size)([<>])=?(.*)")
_KNOWN = BY_NAME | OF_TRACES | OF_NODES
_KEPT = 4
_kept: list[tuple[tuple[Gpu, ...], object, Floats]] = []


class Bound(NamedTuple):
    """``sm<30``: GPUs whose mean of ``metric`` is ``below`` (else above) ``value``, in the stored unit."""

    metric: str
    below: bool
    value: float


class Filter(NamedTuple):
    """What a filter means: a GPU is shown that has one of each list of ``patterns``, is within all ``bounds`` and has a
    process of which each field of ``processes`` is like the pattern beside it. ``only``: of traces, which intervals."""

    patterns: tuple[tuple[str, ...], ...] = ()
    bounds: tuple[Bound, ...] = ()
    processes: tuple[tuple[str, str], ...] = ()
    only: Only = NOTHING


@lru_cache(maxsize=32)
def parse_filter(text: str) -> Filter:
    """Words that must all hold: comma-separated patterns of a node, ``node:index`` or a UUID's beginning (``nid0012*,*:0``),
    a metric's mean of the window against a number in the unit shown (``sm<30``, ``power>400``), or what runs there
    (``user=ada``, ``process=python*``, ``pid=4242``); of traces also which intervals count (``name=nccl*,*AllReduce*``,
    ``takes>1ms``, ``size>1M``). Raises ValueError, with a sentence."""
    patterns, bounds, processes, names, limits = [], [], [], [], []
    for word in text.split():
        field, equals, like = word.partition("=")
        if equals and field == "name":
            names.append(tuple(part for part in like.split(",") if part))
            continue
        if found := _LIMIT.fullmatch(word):
            limits.append(limit(found[1], found[2] == "<", found[3]))  # type: ignore[arg-type]
            continue
        if equals and field in _FIELDS:
            processes.append((field, like))
            continue
        at = next((i for i, char in enumerate(word) if char in "<>"), None)
        if at is None:
            patterns.append(tuple(part for part in word.split(",") if part))
            continue
        metric = metric_called(word[:at])
        shown = word[at + 1 :].removeprefix("=").removesuffix("%")
        try:
            value = float(shown) / unit_of(_KNOWN[metric]).factor
        except ValueError:
            raise ValueError(f"{word}: {shown or 'nothing'} is not a number; write {word[: at + 1]}30") from None
        bounds.append(Bound(metric, word[at] == "<", value))
    only = Only(tuple(names), tuple(limits), tuple(patterns))
    return Filter(tuple(patterns), tuple(bounds), tuple(processes), only)


def only_of(text: str) -> Only:
    """What of a trace a filter lets through; everything where it is none."""
    try:
        return parse_filter(text).only
    except ValueError:
        return NOTHING


def metric_called(word: str, known: Mapping[str, Metric] = _KNOWN) -> str:
    """The metric of this name, short name, or beginning of a name. Raises ValueError, with a sentence."""
    wanted = word.lower()
    for metric in known.values():
        for short in (say(maker, metric.short) for maker in (NVIDIA, AMD, BOTH)):
            if wanted in (metric.name, short, short.replace(" ", "_"), short.replace(" ", "")):
                return metric.name
    begins = [metric.name for metric in known.values() if wanted and metric.name.startswith(wanted)]
    if len(begins) == 1:
        return begins[0]
    near = did_you_mean(meant(wanted, known)) or "; write sm, dram, power or a full name"
    raise ValueError(f"no metric {word or 'before the sign'!r}{near}")


class Order(NamedTuple):
    """``gpus``: positions in the order shown; ``candidates``: how many there were before the filter; ``problem``: why the
    filter could not be understood ("" when it could), then it hides nothing."""

    gpus: Ints
    candidates: int
    problem: str


def shown_gpus(scene: Scene) -> Ints:
    """Positions of the GPUs that lists show, in their order."""
    return ordered(scene).gpus


def ordered(scene: Scene) -> Order:
    """The selection's GPUs that pass the filter, sorted as the view says: by value the lowest first."""
    view = scene.view
    return _ordered(scene.frame, scene.orders, view.selection, view.filter, view.sort, view.reverse, view.cursor)


@once
def _ordered(
    frame: Frame,
    orders: SteadyOrders,
    selection: tuple[int, ...],
    text: str,
    sort: Sort,
    reverse: bool,
    cursor: float | None,
) -> Order:
    candidates = np.arange(frame.n_gpus)
    if selection:
        candidates = np.array([gpu for gpu in selection if gpu < frame.n_gpus], np.int64)
    problem = ""
    gpus = candidates
    try:
        gpus = candidates[passing(frame, text)[candidates]]
    except ValueError as error:
        problem = str(error)
    if sort == "place":
        return Order(gpus[::-1] if reverse else gpus, len(candidates), problem)
    if sort in BY_PROCESS:
        found = processes_on(frame, gpus.tolist(), "" if problem else text, sort, reverse)
        ranked = dict.fromkeys([*(process.gpu for process in found), *gpus.tolist()])
        return Order(np.array(list(ranked), np.int64), len(candidates), problem)
    values = sorted_by(frame, gpus, sort, cursor)
    full = scale_limit(frame.gpus, frame.grid.metric)
    question = (sort, reverse, selection, text, cursor)
    rank = orders.steady(frame, question, gpus, -values if reverse else values, full)
    return Order(gpus[rank], len(candidates), problem)


def processes_on(frame: Frame, gpus: Sequence[int], text: str, sort: Sort, reverse: bool) -> list[GpuProcess]:
    """The processes on the GPUs at these positions that pass the filter ``text``: GPU by GPU in this order, most memory
    first, or all of them by what ``sort`` says. Raises ValueError for a filter that is none."""
    place = {gpu: at for at, gpu in enumerate(gpus)}
    found = [process for process in frame.processes if process.gpu in place and _passes(process, text)]
    found.sort(key=lambda each: (-1 if each.memory_used is None else -each.memory_used, each.pid or 0))
    value = BY_PROCESS.get(sort)
    if value is None:
        return sorted(found, key=lambda each: place[each.gpu])
    known = [each for each in found if value(each) is not None]
    known.sort(key=value, reverse=reverse == (sort == "user"))  # type: ignore[arg-type]
    return [*known, *(each for each in found if value(each) is None)]


def _passes(process: GpuProcess, text: str) -> bool:
    wanted = parse_filter(text).processes
    return all(fnmatchcase(str(_FIELDS[field](process) or ""), like) for field, like in wanted)


def sorted_by(frame: Frame, gpus: Ints, sort: Sort, cursor: float | None) -> Floats:
    """[n]: what the GPUs at these positions are sorted by; NaN is unknown."""
    if sort == "mean":
        return frame.window.per_gpu(frame.grid.metric, gpus)
    if sort == "now":
        return values_at(frame, cursor)[gpus]
    return _closed_percentiles(frame, SHARES[sort])[gpus]


def _closed_percentiles(frame: Frame, share: float) -> Floats:
    """[n_gpus]: a percentile over the columns that never change any more, so that it is computed once for each of them."""
    grid = frame.grid
    n = max(min(round((grid.closed - grid.start) / grid.width - 0.5), grid.n), 1) if grid.closed < grid.end else grid.n
    key = (grid.metric, grid.start, grid.width, n, share)
    for gpus, known, answer in _kept:
        if gpus is frame.gpus and known == key:
            return answer
    found = percentiles(grid.values[:, :n], share)
    _kept.append((frame.gpus, key, found))
    del _kept[:-_KEPT]
    return found


def values_at(frame: Frame, cursor: float | None) -> Floats:
    """[n_gpus]: each GPU's value in the cursor's column; the newest one without a cursor."""
    if cursor is None:
        return frame.latest
    column: Floats = frame.grid.values[:, frame.grid.column(cursor)]
    return column


def percentiles(values: Floats, share: float) -> Floats:
    """[n]: numpy's linear percentile over the columns of each row of ``values`` [n, columns] that are not NaN; NaN without
    any."""
    last = np.isfinite(values).sum(axis=1) - 1
    position = share * np.maximum(last, 0)
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(last, 0))
    wanted = np.unique(np.concatenate((below, above)))
    parts = np.partition(values, wanted, axis=1) if len(wanted) <= 8 else np.sort(values, axis=1)  # NaN last
    row = np.arange(len(values))
    low, high = parts[row, below], parts[row, above]
    return np.asarray(low + (position - below) * (high - low), np.float64)


def passing(frame: Frame, text: str) -> Flags:
    """[n_gpus]: True where a GPU passes the filter. Raises ValueError, with a sentence, for one that is none."""
    wanted = parse_filter(text)
    if frame.part is None and (wanted.only.names or wanted.only.limits):
        raise ValueError("name=, takes and size are of the intervals of a trace: a recording has none")
    flags = np.ones(frame.n_gpus, bool)
    for patterns in wanted.patterns:
        flags &= _named(frame.gpus, patterns)
    for metric, below, value in wanted.bounds:
        means = frame.window.per_gpu(metric)
        flags &= means < value if below else means > value  # unknown is neither
    if wanted.processes:
        flags &= np.isin(np.arange(frame.n_gpus), [each.gpu for each in frame.processes if _passes(each, text)])
    return flags


@once
def _named(gpus: tuple[Gpu, ...], patterns: tuple[str, ...]) -> Flags:
    """[n_gpus]: True where one of the patterns names the GPU, its node, or begins its UUID."""
    return np.array([any(is_named(gpu, pattern) for pattern in patterns) for gpu in gpus], bool)
