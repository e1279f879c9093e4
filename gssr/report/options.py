"""What a page is asked to show."""

from collections.abc import Collection
from typing import Literal, NamedTuple

Verbosity = Literal["low", "medium", "high"]


class Parts(NamedTuple):
    """Which parts a page has; its head, its notes and its closing line are always there."""

    summary: bool = True
    time_series: bool = False
    load_balancing: bool = False
    metadata: bool = False
    phases: bool = False
    roofline: bool = False


class Options(NamedTuple):
    """How a page is drawn: ``width`` in cells, ``ascii`` for pure ASCII. ``metrics`` are those asked for by name: they are
    shown whatever the verbosity."""

    width: int = 80
    ascii: bool = False
    verbosity: Verbosity = "medium"
    metrics: tuple[str, ...] | None = None


KEY_METRICS: tuple[str, ...] = ("sm_active", "tensor_active", "dram_active", "power_usage", "memory_used")
"""The five that a page never goes without."""

_DETAILS = (
    "memory_copy_utilization", "tensor_hmma_active", "tensor_imma_active", "tensor_dfma_active", "integer_active",
    "memory_temperature",
)  # fmt: skip
_LEADS = ("sm_active", "gr_engine_active", "gpu_utilization")


def is_detail(name: str) -> bool:
    """True for a metric that only a page of high verbosity shows."""
    return name in _DETAILS


def series_needed(options: Options) -> tuple[str, ...]:
    """The metrics whose series the pages and pictures draw, if there are any: what to ask the analysis for."""
    return tuple(dict.fromkeys((*_LEADS, *KEY_METRICS, *(options.metrics or ()))))


def lead(measured: Collection[str], options: Options) -> str | None:
    """The metric that stands for a GPU being used, among those ``measured``: SM activity, or the nearest to it that the
    backend could measure, or the first one asked for, or any. None when there is nothing."""
    candidates = (*_LEADS, *(options.metrics or ()), *sorted(measured))
    return next((name for name in candidates if name in measured), None)
