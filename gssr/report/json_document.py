"""The object that ``gssr analyze --json`` prints.

Its keys are a contract: they are only ever added to. What is not known is null; NaN and infinity never appear. Everything
in a run's object is over its window, ``duration_s`` included.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from gssr.arrays import Floats
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown, Efficiency
from gssr.model.joined.estimates import compare_estimates
from gssr.model.results import Analysis, GpuSummary, Phase, Place, Statistics, StepTime, Verdict
from gssr.model.traced import Traced
from gssr.report.page import why_no_score

SCHEMA = "gssr.analyze/1"
_TOKENS = 10_000


def document(analyses: Sequence[Analysis]) -> dict[str, Any]:
    """Build the object from plain dictionaries, lists, strings, numbers and None; runs in the order given, metrics in
    the catalogue's."""
    return {"schema": SCHEMA, "runs": [_run(analysis, [_gpu(gpu) for gpu in analysis.gpus]) for analysis in analyses]}


def to_json(analyses: Iterable[Analysis]) -> str:
    """The object as ASCII text with a newline at its end; the same analyses give the same bytes."""
    return "".join(pieces(analyses))


def pieces(analyses: Iterable[Analysis]) -> Iterator[str]:
    """Yield the text of ``to_json`` piece by piece. Each analysis is taken when it is its turn, so that thousands of
    runs, or a hundred thousand GPUs, need never be in memory as a whole."""
    yield f'{{\n "schema": "{SCHEMA}",\n "runs": ['
    encoder, between = json.JSONEncoder(indent=1, allow_nan=False), ""
    for analysis in analyses:
        yield f"{between}\n  "
        # No text has a newline of its own: JSON escapes them.
        for some in _together(encoder.iterencode(_run(analysis, _Gpus(analysis.gpus)))):
            yield some.replace("\n", "\n  ")
        between = ","
    yield "\n ]\n}\n" if between else "]\n}\n"


def _together(tokens: Iterator[str]) -> Iterator[str]:
    while some := "".join(islice(tokens, _TOKENS)):
        yield some


class _Gpus(list[dict[str, Any]]):
    """A list for the encoder whose items are made when they are written."""

    def __init__(self, gpus: Sequence[GpuSummary]) -> None:
        super().__init__()
        self._gpus = gpus

    def __len__(self) -> int:
        return len(self._gpus)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(_gpu, self._gpus)


def _run(analysis: Analysis, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a run's object, with ``gpus`` as it is given. Unknown numbers are None."""
    run, window = analysis.run, analysis.window
    return {
        "run_id": run.run_id,
        "label": run.label,
        "job_id": run.job_id,
        "array_job_id": run.array_job_id,
        "array_task_id": run.array_task_id,
        "command": list(run.command),
        "state": analysis.state,
        "exit_code": run.exit_code,
        "started_at": number(run.started_at),
        "duration_s": number(window.duration),
        "n_nodes": analysis.n_nodes,
        "world_size": run.world_size,
        "ranks_missing": None if analysis.ranks_missing is None else list(analysis.ranks_missing),
        "ranks_stopped": [end._asdict() | {"time": number(end.time)} for end in analysis.ranks_stopped],
        "n_gpus": len(analysis.gpus),
        "n_samples": analysis.n_samples,
        "n_gaps": analysis.n_gaps,
        "sampling_ms": number(run.sampling_ms),
        "backend": analysis.backend,
        "score": number(analysis.score),
        "why_no_score": why_no_score(analysis) if analysis.score is None else None,
        "window": {
            "start": number(window.start),
            "end": number(window.end),
            "leading_s": number(window.leading),
            "trailing_s": number(window.trailing),
        },
        "metrics": {name: _statistics(statistics) for name, statistics in analysis.metrics.items()},
        "clock_event_reasons": numbers(analysis.clock_event_reasons) or None,
        "gpus": gpus,
        "balance": {
            name: {
                "imbalance": number(balance.imbalance),
                "lowest": _end(balance.lowest, name),
                "highest": _end(balance.highest, name),
            }
            for name, balance in analysis.balance.items()
        },
        "events": [event._asdict() | {"time": number(event.time)} for event in analysis.events],
        "breakdown": breakdown_object(analysis.judgement.breakdown),
        "verdicts": [verdict_object(verdict) for verdict in analysis.judgement.verdicts],
        "abstentions": [{"code": code, "reason": reason} for code, reason in analysis.judgement.abstentions.items()],
        "phases": [_phase(each) for each in analysis.judgement.phases],
        "step": _step(analysis.judgement.step),
        "history": None if analysis.history is None else asdict(analysis.history),
        "load_balancing": _load_balancing(analysis),
        "roofline": _roofline(analysis.judgement.place),
        "energy_j": number(analysis.energy_j),
        "gpu_hours": number(analysis.gpu_hours),
        "gpu_hours_unmeasured": number(analysis.gpu_hours_unmeasured),
        "host": numbers(asdict(analysis.host)) if analysis.host else None,
        "notes": list(analysis.notes),
        "traces": [_traced(trace) for trace in analysis.traces],
    }


def _traced(trace: Traced) -> dict[str, Any]:
    """Return the object of one trace of the run. ``gpus`` are positions in the run's list of them; times are unix s,
    by the recording's clock."""
    found = asdict(trace) | {"window_s": number(trace.seconds), "split": trace.split or None}
    del found["estimate"]
    return found | {"breakdown": [_compared(*each) for each in compare_estimates([trace])] or None}


def _compared(name: str, estimate: float, share: float) -> dict[str, Any]:
    return {"name": name, "estimate": number(estimate), "trace": number(share), "difference": number(estimate - share)}


def _step(step: StepTime | None) -> dict[str, Any] | None:
    """Return the object of the step, with times in unix s and lengths in s; None if no step was found."""
    if step is None:
        return None
    return {
        "seconds": number(step.seconds),
        "accuracy": number(step.accuracy),
        "changed_at": number(step.changed_at),
        "change": number(step.change),
        "series": [[number(time), number(seconds)] for time, seconds in step.series],
    }


MOST_SPANS = 100
"""Spans of time of a category, the longest: one of short waits has thousands."""


def breakdown_object(breakdown: Breakdown | None) -> dict[str, Any] | None:
    """Return the breakdown's object, or None if there is no GPU time. Times are unix s, of a trace s from its zero;
    GPUs are positions in the run's list of them."""
    if breakdown is None or not breakdown.gpu_seconds > 0:
        return None
    seconds, shares = breakdown.by_gpu.sum(axis=0), breakdown.shares
    return {
        "gpu_seconds": number(breakdown.gpu_seconds),
        "resolution_s": number(breakdown.resolution),
        "categories": [
            {
                "name": each.name, "label": breakdown.label(at), "gpu_seconds": number(float(seconds[at])),
                "share": number(float(shares[at])), "error": number(float(breakdown.error[at])),
                "confidence": breakdown.confidence[at], "is_loss": each.is_loss, "ordinary": each.ordinary,
                "gpus": breakdown.gpus_with_most(each.name), "spans": breakdown.spans(each.name, MOST_SPANS),
            }
            for at, each in enumerate(CATEGORIES)
        ],
        "efficiency": efficiency_object(breakdown.efficiency),
        "by_gpu": {"gpus": list(range(len(breakdown.by_gpu))), "shares": _rounded(breakdown.shares_by_gpu)},
        "by_node": {"nodes": list(breakdown.nodes), "shares": _rounded(breakdown.shares_by_node)},
    }  # fmt: skip


def efficiency_object(efficiency: Efficiency | None) -> dict[str, float | None] | None:
    """Return the efficiencies by name, or None if no GPU worked."""
    return None if efficiency is None else numbers(efficiency._asdict() | {"parallel": efficiency.parallel})


def _rounded(shares: Floats) -> list[list[float | None]]:
    """Shares to six digits, None for what is unknown."""
    return [[number(round(share, 6)) for share in row] for row in shares.tolist()]


def _statistics(statistics: Statistics) -> dict[str, float | int | None]:
    keys = ("mean", "median", "min", "max", "std", "p05", "p95")
    found: dict[str, float | int | None] = {key: number(getattr(statistics, key)) for key in keys}
    return found | {"n": int(statistics.n), "p_error": number(statistics.p_error)}


def _gpu(gpu: GpuSummary) -> dict[str, Any]:
    """Return the object of one GPU, with its key in the file as ``gpu`` and its means by metric."""
    return {
        "gpu": gpu.gpu,
        "node": gpu.node,
        "rank": gpu.rank,
        "uuid": gpu.uuid,
        "place": gpu.place,
        "mig": gpu.mig,
        "score": number(gpu.score),
        "n_samples": gpu.n_samples,
        "mean": numbers(gpu.mean),
    }


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict's object. ``gpus`` are positions in the run's list of them, empty for all; times are unix s."""
    return {
        "code": verdict.code,
        "severity": verdict.severity,
        "title": verdict.title,
        "evidence": [
            {
                "metric": finding.metric,
                "value": number(finding.value),
                "threshold": number(finding.threshold),
                "text": finding.text,
            }
            for finding in verdict.evidence
        ],
        "advice": verdict.advice,
        "source": verdict.source,
        "start": number(verdict.start),
        "end": number(verdict.end),
        "gpus": list(verdict.gpus),
        "gpu_hours": number(verdict.gpu_hours),
        "aliases": list(verdict.aliases),
    }


def _end(gpu: GpuSummary | None, metric: str) -> dict[str, Any] | None:
    """Return the lowest or highest GPU of a metric as an object, or None if it is unknown."""
    if gpu is None:
        return None
    return {"gpu": gpu.gpu, "node": gpu.node, "rank": gpu.rank, "mean": number(gpu.mean.get(metric))}


def number(value: float | None) -> float | None:
    """Return a plain float (0.0 for -0.0), or None for None, NaN and infinity, which JSON can't say."""
    if value is None or not math.isfinite(value):
        return None
    return float(value) + 0.0  # so that -0.0 is 0.0


def numbers(values: Mapping[str, float | None] | Mapping[str, float]) -> dict[str, float | None]:
    """The same for each value."""
    return {name: number(value) for name, value in values.items()}


def _phase(found: Phase) -> dict[str, Any]:
    """Return a phase's object. ``cycle`` is None except in recurring ones; verdicts are only named, as most are the
    run's."""
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
        "roofline": _roofline(found.place),
        "verdicts": [
            {"code": verdict.code, "severity": verdict.severity, "title": verdict.title} for verdict in found.verdicts
        ],
    }


def _load_balancing(analysis: Analysis) -> dict[str, Any] | None:
    """Return how uneven the GPUs were, or None if they were not compared. GPUs are given by their keys in the file."""
    found = analysis.judgement.unevenness
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


def _roofline(found: Place | str | None) -> dict[str, Any] | None:
    """Return the place under the roofline; where there is none all numbers are None and ``unknown`` says why. None if it
    was not looked at."""
    if found is None:
        return None
    known = found if isinstance(found, Place) else None
    names = ("flops", "bytes", "intensity", "ridge", "roof", "of_roof")
    return {
        **{name: number(getattr(known, name, None)) for name in names},
        "bound": known.bound if known else None,
        "pipes": [{"metric": pipe.metric, "flops": number(pipe.flops)} for pipe in known.pipes] if known else [],
        "unknown": found if isinstance(found, str) else None,
    }


def _listed(values: Floats | Iterable[float]) -> list[float | None]:
    return [number(value) for value in values]
