"""The newer parts of the object that ``gssr analyze --json`` prints: phases, load balancing, roofline."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from gssr.model.analysis import Analysis, Floats
from gssr.model.phases import Phase
from gssr.model.roofline import Place, Unplaced


def number(value: float | None) -> float | None:
    """A plain number, None for what JSON can't say; numpy's own types become Python's."""
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def numbers(values: Mapping[str, float | None] | Mapping[str, float]) -> dict[str, float | None]:
    """The same for each value."""
    return {name: number(value) for name, value in values.items()}


def phase(found: Phase) -> dict[str, Any]:
    """One phase. ``cycle`` is None of all but recurring ones; of the verdicts only what they are, for most are the run's."""
    cycle = found.cycle
    return {
        "kind": found.kind,
        "start": number(found.start),
        "end": number(found.end),
        "duration_s": number(found.seconds),
        "share": number(found.share),
        "score": number(found.score),
        "mean": numbers(found.means),
        "cycle": None
        if cycle is None
        else {
            "count": cycle.count,
            "period_s": number(cycle.period),
            "dip_s": number(cycle.seconds),
            "share": number(cycle.share),
            "low": number(cycle.low),
            "high": number(cycle.high),
        },
        "roofline": roofline(found.place),
        "verdicts": [
            {"code": verdict.code, "severity": verdict.severity, "title": verdict.title} for verdict in found.verdicts
        ],
    }


def load_balancing(analysis: Analysis) -> dict[str, Any] | None:
    """How uneven the GPUs were; GPUs by their keys in the file."""
    found = analysis.unevenness
    if found is None:
        return None
    uneven, keys = found.imbalance, [gpu.gpu for gpu in analysis.gpus]
    return {
        "metric": found.metric,
        "imbalance": number(uneven.of_means),
        "imbalance_resolved": number(uneven.resolved),
        "imbalance_over_time": {
            "start": number(found.start),
            "width": number(found.width),
            "values": _listed(uneven.over_time),
        },
        "worst_minute": None
        if uneven.worst is None
        else {"start": number(uneven.worst_start), "imbalance": number(uneven.worst)},
        "gpu_hours_lost": number(uneven.lost),
        "gpu_hours_lost_static": number(uneven.static),
        "energy_lost_j": number(found.energy_lost),
        "score_as_median": number(found.score_as_median),
        "nodes": [
            {"node": found.nodes[int(key)], "mean": number(mean)}
            for key, mean in zip(found.by_node.keys, found.by_node.means, strict=True)
        ],
        "positions": [
            {
                "device_index": None if key < 0 else int(key),
                "mean": number(mean),
                "below_node": number(below),
                "share_below": number(share),
            }
            for key, mean, below, share in zip(
                found.by_index.keys, found.by_index.means, found.by_index.below, found.by_index.share, strict=True
            )
        ],
        "groups": [
            {
                "name": group.name,
                "mean": number(group.mean),
                "outlier": group.apart,
                "gpus": [keys[gpu] for gpu in group.gpus],
            }
            for group in found.alike
        ],
    }


def roofline(found: Place | Unplaced | None) -> dict[str, Any] | None:
    """A place under the roofline; ``unknown`` says why there is none."""
    if found is None:
        return None
    known = found if isinstance(found, Place) else None
    names = ("flops", "bytes", "intensity", "ridge", "roof", "of_roof")
    return {
        **{name: number(getattr(known, name, None)) for name in names},
        "bound": known.bound if known else None,
        "pipes": [{"metric": pipe.metric, "flops": number(pipe.flops)} for pipe in known.pipes] if known else [],
        "unknown": found.reason if isinstance(found, Unplaced) else None,
    }


def _listed(values: Floats | Iterable[float]) -> list[float | None]:
    return [number(value) for value in values]
