"""What each GPU is doing, in one word: idle, waiting, communicating, held up by memory, computing."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import DETECTION_METRICS
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import DCGM, KEMPNER, OURS


class Bounds(NamedTuple):
    """``name`` (see ``_measures``) is at least ``least`` and below ``below``: shares, or B/s. What was not measured is
    within no bounds."""

    name: str
    least: float = -inf
    below: float = inf


class GpuClass(NamedTuple):
    """A class that a GPU is in if it is within all ``bounds``, and in no class before. ``source``: whose limits are those
    that stand here, as the rules for verdicts name them."""

    name: str
    meaning: str
    bounds: tuple[Bounds, ...]
    source: str = OURS


_COMMON, _COPIES, _COLLECTIVES, _SMALL, _MEMORY, _FULL_MEMORY, _POWER = (
    TABLE.rule(code)
    for code in (
        "common", "transfer_bound", "communication_bound", "small_kernels", "memory_bound", "memory_peak", "low_power",
    )
)  # fmt: skip
_SPINNING = (
    Bounds("gr_engine_active", _COLLECTIVES.at("gr_engine_active")),
    Bounds("sm_share", below=_COLLECTIVES.at("sm_share")),
    Bounds("dram_active", below=_COLLECTIVES.at("dram_active")),
    Bounds("flop_active", below=_COLLECTIVES.at("arithmetic")),
)
_IN_COLLECTIVES = "waits in collectives: kernels spin"
_BY_MEMORY = "is held up by its memory"
CLASSES: tuple[GpuClass, ...] = (
    GpuClass("idle", "does nothing", (Bounds("busy", below=_COMMON.at("idle")),)),
    GpuClass(
        "copying", "waits for copies from or to the host",
        (Bounds("sm_active", below=_COMMON.at("low")), Bounds("pcie_rx_bytes", _COPIES.at("rate"))),
    ),
    GpuClass(
        "waiting", "has no work most of the time",
        (Bounds("busy", below=_COMMON.at("low")), Bounds("engine", below=_SMALL.at("gr_engine_active"))),
    ),
    GpuClass("network", _IN_COLLECTIVES, (*_SPINNING, Bounds("nvlink", _COLLECTIVES.at("link")))),
    GpuClass("network", _IN_COLLECTIVES, (*_SPINNING, Bounds("pcie_rx_bytes", _COLLECTIVES.at("fabric")))),
    GpuClass(
        "few SMs", "runs kernels that use few of its SMs",
        (
            Bounds("gr_engine_active", _SMALL.at("gr_engine_active")),
            Bounds("sm_active", below=_SMALL.at("sm_active")),
        ),
    ),
    GpuClass("tensor", "works on its tensor cores", (Bounds("tensor_active", 0.15), Bounds("sm_active", 0.4)), KEMPNER),
    GpuClass(
        "memory", _BY_MEMORY,
        (Bounds("dram_active", _MEMORY.at("dram_active")), Bounds("sm_active", below=_MEMORY.at("sm_active"))),
    ),
    GpuClass("memory", _BY_MEMORY, (Bounds("dram_active", _FULL_MEMORY.at("dram_active")),)),
    GpuClass("FP64", "works on its FP64 pipe", (Bounds("fp64_active", 0.2), Bounds("sm_active", 0.5)), KEMPNER),
    GpuClass("compute", "works on most of its SMs", (Bounds("sm_active", 0.5),), DCGM),
    GpuClass(
        "low power", "reports busy, but draws little power",
        (
            Bounds("gpu_utilization", _POWER.at("gpu_utilization")),
            Bounds("power", below=_POWER.at("power")),
            Bounds("moved", below=_POWER.at("memory_copy_utilization")),
            Bounds("unseen"),
        ),
    ),
    GpuClass("busy", "works most of the time", (Bounds("busy", 0.5),)),
    GpuClass("partly", "works part of the time", (Bounds("busy"),)),
)  # fmt: skip
"""In their order. A limit that a rule has, too, is that rule's."""
UNKNOWN_CLASS = "-"


def gpu_classes(mean_of: Callable[[str], Floats], full: Callable[[str], float], alone: bool) -> list[str]:
    """The name of each GPU's class, ``UNKNOWN_CLASS`` where nothing tells. ``mean_of`` gives a metric's means [n_gpus], NaN
    where it was not measured; ``full`` the value that fills its axis. ``alone``: a single GPU, which waits for no other."""
    measured = _measures(mean_of, full)
    found = np.full(len(measured["busy"]), -1)
    for number, each in enumerate(CLASSES):
        if alone and each.name == "network":
            continue
        within = found < 0
        for name, least, below in each.bounds:
            value = measured[name] if name in measured else mean_of(name)
            within = within & (value >= least) & (value < below)
        found[within] = number
    return [CLASSES[number].name if number >= 0 else UNKNOWN_CLASS for number in found.tolist()]


def _measures(mean_of: Callable[[str], Floats], full: Callable[[str], float]) -> dict[str, Floats]:
    """What is looked at beside the metrics themselves: ``busy``, the best measured of what tells work from waiting;
    ``engine``, the least of the engine's activity and that; ``sm_share``, SM activity of the engine's; ``nvlink`` and
    ``power``, shares of their full scales; ``moved``, copies or DRAM, 0 where neither was
    measured; ``unseen``, a number where SM activity was not measured."""
    lead = [mean_of(name) for name in DETECTION_METRICS]
    busy = lead[0]
    for other in lead[1:]:
        busy = np.where(np.isfinite(busy), busy, other)
    sm, engine = mean_of("sm_active"), mean_of("gr_engine_active")
    return {
        "busy": busy,
        "engine": np.where(np.isfinite(engine), engine, busy),
        "sm_share": np.divide(sm, engine, out=np.full(len(sm), np.nan), where=engine > 0),
        "nvlink": mean_of("nvlink_rx_bytes") / full("nvlink_rx_bytes"),
        "power": mean_of("power_usage") / full("power_usage"),
        "moved": np.nan_to_num(np.fmax(mean_of("memory_copy_utilization"), mean_of("dram_active"))),
        "unseen": np.where(np.isnan(sm), 0.0, np.nan),
    }
