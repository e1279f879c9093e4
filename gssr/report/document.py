"""The object that ``gssr analyze --json`` prints.

Its keys are a contract: they are only ever added to. What is not known is null; NaN and infinity never appear. Everything
in a run's object is over its window, ``duration_s`` included.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from gssr.model.analysis import Analysis, GpuSummary, Statistics
from gssr.model.verdict import Verdict
from gssr.report.plain import load_balancing, number, numbers, phase, roofline

SCHEMA = "gssr.analyze/1"
_TOKENS = 10_000


def document(analyses: Sequence[Analysis]) -> dict[str, Any]:
    """The object: plain dictionaries, lists, strings, numbers and None; runs in the order given, metrics in the
    catalogue's."""
    return {"schema": SCHEMA, "runs": [_run(analysis, [_gpu(gpu) for gpu in analysis.gpus]) for analysis in analyses]}


def to_json(analyses: Iterable[Analysis]) -> str:
    """The object as ASCII text with a newline at its end; the same analyses give the same bytes."""
    return "".join(pieces(analyses))


def pieces(analyses: Iterable[Analysis]) -> Iterator[str]:
    """The same text piece by piece, each analysis taken when it is its turn: that of thousands of runs, or of a hundred
    thousand GPUs, need never be in memory as a whole."""
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
    run, window = analysis.run, analysis.window
    return {
        "run_id": run.run_id,
        "label": run.label,
        "job_id": run.job_id,
        "command": list(run.command),
        "state": analysis.state,
        "exit_code": run.exit_code,
        "started_at": number(run.started_at),
        "duration_s": number(window.duration),
        "n_nodes": analysis.n_nodes,
        "n_gpus": len(analysis.gpus),
        "n_samples": analysis.n_samples,
        "n_gaps": analysis.n_gaps,
        "sampling_ms": number(run.sampling_ms),
        "backend": analysis.backend,
        "score": number(analysis.score),
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
        "verdicts": [_verdict(verdict) for verdict in analysis.verdicts],
        "abstentions": [{"code": each.code, "reason": each.reason} for each in analysis.abstentions],
        "phases": [phase(each) for each in analysis.phases],
        "load_balancing": load_balancing(analysis),
        "roofline": roofline(analysis.place),
        "energy_j": number(analysis.energy_j),
        "gpu_hours": number(analysis.gpu_hours),
        "host": numbers(asdict(analysis.host)) if analysis.host else None,
        "notes": list(analysis.notes),
    }


def _statistics(statistics: Statistics) -> dict[str, float | int | None]:
    keys = ("mean", "median", "min", "max", "std", "p05", "p95")
    found: dict[str, float | int | None] = {key: number(getattr(statistics, key)) for key in keys}
    return found | {"n": int(statistics.n), "p_error": number(statistics.p_error)}


def _gpu(gpu: GpuSummary) -> dict[str, Any]:
    return {
        "gpu": gpu.gpu,
        "node": gpu.node,
        "rank": gpu.rank,
        "uuid": gpu.uuid,
        "score": number(gpu.score),
        "n_samples": gpu.n_samples,
        "mean": numbers(gpu.mean),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    """``gpus`` are positions in the run's list of them, empty for all; times are unix s."""
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
    }


def _end(gpu: GpuSummary | None, metric: str) -> dict[str, Any] | None:
    """The lowest or highest GPU of a metric."""
    if gpu is None:
        return None
    return {"gpu": gpu.gpu, "node": gpu.node, "rank": gpu.rank, "mean": number(gpu.mean.get(metric))}
