"""Analyses that have phases, a roofline and what imbalance cost, built by hand."""

import numpy as np
from analyses import START, analysis, rejudged

from gssr.model.findings.imbalance import grouped_by_index, grouped_by_node, imbalance_between
from gssr.model.results import Alike, Analysis, Cycle, Kind, Phase, Unevenness, Verdict, over_space
from gssr.model.statistics.roofline import place_under_roofline
from gssr.peaks import Peaks, peaks_of
from gssr.score import score_of_means
from gssr.store.format.rows import Gpu

H100 = peaks_of("NVIDIA H100 80GB HBM3")
MEANS: dict[str, float | None] = {
    "sm_active": 0.8, "sm_occupancy": 0.4, "fp64_active": 0.3, "fp32_active": 0.05, "fp16_active": 0.0,
    "tensor_active": 0.0, "dram_active": 0.75, "power_usage": 540.0, "memory_used": 6e10,
}  # fmt: skip
WAITS = Verdict(
    "transfer_bound", "warning", "The GPUs wait while PCIe carries 21 GB/s to the GPUs", (), "Copy less.", "ours",
    START + 150, START + 165,
)  # fmt: skip


def _phase(kind: Kind, start: float, end: float, load: float, peaks: Peaks | None, **changes: object) -> Phase:
    means = {name: None if value is None else value * load for name, value in MEANS.items()}
    fields: dict[str, object] = {
        "kind": kind, "start": START + start, "end": START + end, "share": (end - start) / 300,
        "score": score_of_means(means), "means": means, "place": place_under_roofline(means, peaks),
    }  # fmt: skip
    return Phase(**(fields | changes))  # type: ignore[arg-type]


def phased(peaks: Peaks | None = H100) -> Analysis:
    """A run with one phase of each kind, under the roofs of these GPUs."""
    found = (
        _phase("start-up", 0, 12, 0.001, peaks),
        _phase("recurring", 12, 150, 0.9, peaks, cycle=Cycle(6, 20.0, 2.5, 0.11, 0.05, 0.82)),
        _phase("idle", 150, 165, 0.01, peaks, verdicts=(WAITS,)),
        _phase("steady", 165, 280, 1.0, peaks),
        _phase("tail", 280, 300, 0.0, peaks),
    )
    usual = uneven(analysis())
    return rejudged(usual, phases=found, peaks=peaks, place=place_under_roofline(MEANS, peaks), verdicts=(WAITS,))


class _Placed:
    """Where the GPUs of an analysis are."""

    def __init__(self, found: Analysis) -> None:
        nothing = [None] * 9
        names = list(dict.fromkeys(gpu.node or "?" for gpu in found.gpus))
        self.gpus = tuple(
            Gpu(gpu.gpu, "r", gpu.node, gpu.rank, gpu.device_index, gpu.uuid, *nothing) for gpu in found.gpus
        )
        self.nodes = tuple(names)
        self.node_of = np.array([names.index(gpu.node or "?") for gpu in found.gpus])


def uneven(found: Analysis) -> Analysis:
    """The analysis with what its imbalance cost."""
    own = found.gpu_series["sm_active"]
    means = np.array([gpu.mean["sm_active"] for gpu in found.gpus], float)
    window = found.window.start, found.window.end
    places = np.arange(len(means))
    cost = imbalance_between(places, means, own.values, over_space(own), 1.0, window)
    where = _Placed(found)
    low = int(np.argmin(means))
    others = tuple(gpu for gpu in range(len(means)) if gpu != low)
    alike = (Alike("A", others, float(means[list(others)].mean()), False), Alike("B", (low,), float(means[low]), True))
    result = Unevenness(
        "sm_active", own.start, own.width, cost, 123_456.0, 0.55, where.nodes, grouped_by_node(cost, where.node_of),
        grouped_by_index(cost, where.gpus, where.node_of), alike,
    )  # fmt: skip
    return rejudged(found, unevenness=result)
