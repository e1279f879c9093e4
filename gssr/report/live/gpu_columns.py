"""The columns that the table of GPUs can have: a title in words, a value for each GPU, and how it is written."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.breakdown.categories import BRANCHES, CATEGORIES
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.model.percentiles import known_percentiles
from gssr.render.cells import clean
from gssr.render.scale import NONE, fixed, metric_of, unit_of
from gssr.report.live.metric_scales import full_scale, shown_metrics

NAME, NOW, MEAN, CLASS, HISTORY = "name", "now", "mean", "class", "history"


class GpuColumn(NamedTuple):
    """``key`` names it for sorting and choosing; ``title`` and ``unit`` stand in the head; ``values`` [n_gpus] are what is
    sorted by (NaN: unknown); ``text`` writes one; ``full`` is what fills its axis, None for no number."""

    key: str
    title: str
    unit: str
    width: int
    values: Callable[[Result], Floats]
    text: Callable[[Result, int], str]
    full: float | None = None
    help: str = ""


def columns_of(result: Result) -> dict[str, GpuColumn]:
    """Return the columns that the result has values for, by key, in the order in which they are offered."""
    return {column.key: column for column in _columns(result)}


@once
def _columns(result: Result) -> list[GpuColumn]:
    """List the columns that the result has values for: name, newest value and mean of the metric shown, what most time
    goes to (not of a trace), then the other metrics and two percentiles."""
    shown = metric_of(result.grid.metric)
    unit = unit_of(shown)
    found = [
        GpuColumn(
            NAME, result.noun, "", 0, lambda frame: np.arange(frame.n_gpus, dtype=np.float64),
            lambda frame, gpu: clean(frame.place(gpu)), help="node and index of the GPU",
        )
    ]  # fmt: skip

    def make_column(key: str, title: str, values: Callable[[Result], Floats], name: str, about: str) -> GpuColumn:
        """Make a column of numbers, in which NaN is written as NONE.

        Args:
            key: By which the column is chosen and sorted.
            title: What stands above it.
            values: Gives the values of a result, [n GPUs], in the unit in which the metric is stored.
            name: The metric whose unit, decimals and scale it has.
            about: The help.
        """
        unit = unit_of(metric_of(name))
        decimals = 0 if unit.name in ("W", "MHz", "GiB", "°C") else 1 if unit.name == "%" else unit.decimals

        def text(frame: Result, gpu: int) -> str:
            value = float(values(frame)[gpu])
            return NONE if value != value else fixed(value * unit.factor, decimals)

        width = max(len(title) + 1 + len(unit.name), 5)
        return GpuColumn(key, title, unit.name, width, values, text, full_scale(result, name), about)

    found.append(make_column(NOW, "now" if result.is_live else "last", lambda frame: frame.latest, shown.name,
                        f"{shown.label} now"))  # fmt: skip
    found.append(make_column(MEAN, "mean", lambda frame: frame.window.per_gpu(frame.grid.metric), shown.name,
                        f"{shown.label}, mean of the window"))  # fmt: skip
    if result.part is None:
        found.append(
            GpuColumn(CLASS, "most time", "", 11, _classes, lambda frame, gpu: _class(frame, gpu),
                   help="the largest part of what the GPU does most: work, communicate, idle ...")
        )  # fmt: skip
    for name in shown_metrics(result):
        if name != shown.name:
            metric = metric_of(name)
            found.append(make_column(name, _title(metric.label, metric.short), lambda frame, name=name: frame.lately(name),  # type: ignore[misc]
                                name, metric.label))  # fmt: skip
    for key, share in (("p05", 0.05), ("p95", 0.95)):
        found.append(make_column(key, key, lambda frame, share=share: _percentiles(frame, share), shown.name,  # type: ignore[misc]
                            f"{shown.label}, {share:.0%} of the time below"))  # fmt: skip
    del unit
    return found


def _title(label: str, short: str) -> str:
    return _WORDS.get(label) or (label.lower() if len(label) <= 9 else short)


_WORDS = {
    "SM active": "SM active", "SM occupancy": "occupancy", "Tensor pipe active": "tensor", "DRAM active": "DRAM",
    "FLOP active": "FLOP", "Power": "power", "Memory used": "memory", "NVLink received": "NVLink in",
    "NVLink sent": "NVLink out", "PCIe received": "PCIe in", "PCIe sent": "PCIe out", "GPU utilization": "util",
    "Temperature": "temp", "SM clock": "SM clock", "Graphics engine active": "engine",
}  # fmt: skip


@once
def _percentiles(frame: Result, share: float) -> Floats:
    return known_percentiles(frame.grid.values.T, (share,))[0]


@once
def _classes(frame: Result) -> Floats:
    """Return for each GPU [n_gpus] the index into CATEGORIES of the largest category of the branch that most of its time
    goes to; NaN where that is not known. Work of several kinds may be more than one large wait."""
    breakdown = frame.judgement.breakdown if frame.judgement is not None else None
    found = np.full(frame.n_gpus, np.nan)
    gpus = frame.query.gpus or range(frame.n_gpus)
    if breakdown is not None and len(breakdown.by_gpu) == len(gpus):
        some = breakdown.by_gpu.any(axis=1)
        seconds = breakdown.by_gpu[some]
        branches = np.array([BRANCHES.index(category.branch) for category in CATEGORIES])
        by_branch = seconds @ (branches[:, None] == np.arange(len(BRANCHES)))
        is_of_largest = branches == by_branch.argmax(axis=1)[:, None]
        found[np.array(list(gpus))[some]] = np.where(is_of_largest, seconds, -1.0).argmax(axis=1)
    return found


def _class(frame: Result, gpu: int) -> str:
    value = float(_classes(frame)[gpu])
    return "" if value != value else CATEGORIES[int(value)].short


def usual(result: Result, width: int) -> list[str]:
    """Choose the columns of a table ``width`` cells wide while the reader has chosen none: in order of preference, as
    many as leave room for the history. Returns their keys, at least the name's."""
    every = columns_of(result)
    history = max(width // 3, 18)
    kept, used = [], _name_width(result) + 3
    preferred = [
        NAME, NOW, MEAN, CLASS, "power_usage", "memory_used", "temperature", "tensor_active", "dram_active", "sm_clock",
        "sm_occupancy", "flop_active", "nvlink_rx_bytes", "pcie_rx_bytes",
    ]  # fmt: skip
    for name in preferred:
        if name in every and used + every[name].width + 1 + history <= width:
            kept.append(name)
            used += every[name].width + 1
    return kept or [NAME]


def _name_width(result: Result) -> int:
    return min(max((len(result.place(gpu)) for gpu in range(min(result.n_gpus, 64))), default=4), 24)
