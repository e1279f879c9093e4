"""Which GPUs a list shows, and in which order: the filter and the sorting that the user chose."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.gpu_name import is_named
from gssr.metrics import BY_NAME, OF_TRACES
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.render.scale import unit_of
from gssr.store.format.rows import Gpu
from gssr.tui.view import Scene, Sort

SHARES: dict[Sort, float] = {"p05": 0.05, "p95": 0.95}

_KNOWN = BY_NAME | OF_TRACES
_KEPT = 4
_kept: list[tuple[tuple[Gpu, ...], object, Floats]] = []


class Bound(NamedTuple):
    """``sm<30``: GPUs whose mean of ``metric`` is ``below`` (else above) ``value``, in the stored unit."""

    metric: str
    below: bool
    value: float


class Filter(NamedTuple):
    """What a filter means: a GPU is shown that has one of each list of ``patterns`` and is within all ``bounds``."""

    patterns: tuple[tuple[str, ...], ...] = ()
    bounds: tuple[Bound, ...] = ()


@lru_cache(maxsize=32)
def parse_filter(text: str) -> Filter:
    """Words that must all hold: comma-separated patterns of a node, ``node:index`` or a UUID's beginning (``nid0012*,*:0``),
    or a metric's mean of the window against a number in the unit shown (``sm<30``, ``power>400``). Raises ValueError, with a
    sentence."""
    patterns, bounds = [], []
    for word in text.split():
        at = next((i for i, char in enumerate(word) if char in "<>"), None)
        if at is None:
            patterns.append(tuple(part for part in word.split(",") if part))
            continue
        metric = _metric(word[:at])
        shown = word[at + 1 :].removeprefix("=").removesuffix("%")
        try:
            value = float(shown) / unit_of(_KNOWN[metric]).factor
        except ValueError:
            raise ValueError(f"{word}: {shown or 'nothing'} is not a number; write {word[: at + 1]}30") from None
        bounds.append(Bound(metric, word[at] == "<", value))
    return Filter(tuple(patterns), tuple(bounds))


def _metric(word: str) -> str:
    wanted = word.lower()
    for metric in _KNOWN.values():
        if wanted in (metric.name, metric.short, metric.short.replace(" ", "_"), metric.short.replace(" ", "")):
            return metric.name
    near = [metric.name for metric in _KNOWN.values() if wanted and metric.name.startswith(wanted)]
    if len(near) == 1:
        return near[0]
    raise ValueError(f"no metric {word or 'before the sign'!r}; write sm, dram, power or a full name")


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
    return _ordered(scene.frame, view.selection, view.filter, view.sort, view.reverse, view.cursor)


@once
def _ordered(
    frame: Frame, selection: tuple[int, ...], text: str, sort: Sort, reverse: bool, cursor: float | None
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
    values = sorted_by(frame, gpus, sort, cursor)
    rank = np.argsort(-values if reverse else values, kind="stable")  # what is unknown comes last
    return Order(gpus[rank], len(candidates), problem)


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
    flags = np.ones(frame.n_gpus, bool)
    for patterns in wanted.patterns:
        flags &= _named(frame.gpus, patterns)
    for metric, below, value in wanted.bounds:
        means = frame.window.per_gpu(metric)
        flags &= means < value if below else means > value  # unknown is neither
    return flags


@once
def _named(gpus: tuple[Gpu, ...], patterns: tuple[str, ...]) -> Flags:
    """[n_gpus]: True where one of the patterns names the GPU, its node, or begins its UUID."""
    return np.array([any(is_named(gpu, pattern) for pattern in patterns) for gpu in gpus], bool)
