"""The object that ``gssr compare --json`` prints. Its keys are only ever added to; what is not known is null."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gssr.model.compare.comparison import Comparison, FigureChange, score_of_phases, turned
from gssr.model.results import Analysis, Phase, Verdict
from gssr.report.json_document import efficiency_object, number

SCHEMA = "gssr.compare/1"


def document(names: Sequence[str], comparisons: Sequence[Comparison], failed: Sequence[str]) -> dict[str, Any]:
    """Build the object from plain dictionaries, lists, strings, numbers and None.

    ``names``: what each run was called, A's first; ``comparisons``: of every other run with A; ``failed``: a sentence
    for each condition that does not hold.
    """
    runs = [comparisons[0].a, *(each.b for each in comparisons)]
    return {
        "schema": SCHEMA,
        "runs": [_run(name, run) for name, run in zip(names, runs, strict=True)],
        "comparisons": [_comparison(at, each) for at, each in enumerate(comparisons, 1)],
        "failed": list(failed),
    }


def to_json(names: Sequence[str], comparisons: Sequence[Comparison], failed: Sequence[str]) -> str:
    """The object as ASCII text with a newline at its end."""
    return json.dumps(document(names, comparisons, failed), indent=1, allow_nan=False) + "\n"


def _run(name: str, run: Analysis) -> dict[str, Any]:
    """Return the JSON object of one of the compared runs; ``name``: its file."""
    return {
        "file": name,
        "run_id": run.run.run_id,
        "label": run.run.label,
        "state": run.state,
        "exit_code": run.run.exit_code,
        "n_gpus": len(run.gpus),
        "n_nodes": run.n_nodes,
        "score": number(run.score),
        "verdicts": [verdict.code for verdict in run.judgement.verdicts],
    }


def _comparison(at: int, each: Comparison) -> dict[str, Any]:
    """Return the JSON object of a comparison of the first run with the one at the place ``at``."""
    return {
        "a": 0,
        "b": at,
        "outcome": each.score.outcome,
        **{name: _change(change) for name, change in each.totals.items()},
        "metrics": {name: _change(change) for name, change in each.metrics.items()},
        "phases": {kind: {"a": _phases(a), "b": _phases(b)} for kind, (a, b) in each.phases.items()},
        "verdicts": {"gained": _codes(each.gained), "lost": _codes(each.lost), "kept": _kept(each)},
        "breakdown": _breakdown_object(each),
        "notes": list(each.notes),
        "pairs": each.paired_by,
    }


def _breakdown_object(each: Comparison) -> dict[str, Any] | None:
    """Return the categories' shares before and after, with ``changed`` for those that changed by more than both
    errors; None if either run has no breakdown."""
    if not each.breakdown:
        return None
    runs = {"before": each.a.judgement.breakdown, "after": each.b.judgement.breakdown}
    return {
        "categories": [
            {
                "name": own.category.name, "label": own.category.label, "is_loss": own.category.is_loss,
                "before": number(own.before), "after": number(own.after), "change": number(own.change),
                "error": number(own.error), "changed": own.is_certain,
            }
            for own in each.breakdown
        ],
        "efficiency": {when: None if run is None else efficiency_object(run.efficiency) for when, run in runs.items()},
    }  # fmt: skip


def _codes(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    return [{"code": own.code, "severity": own.severity, "title": own.title} for own in verdicts]


def _kept(each: Comparison) -> list[dict[str, Any]]:
    """List the verdicts that both runs have, as b has them, with what each costs in both and how a has it."""
    return [
        own | {
            "lost": number(now.lost), "outcome": turned(before, now),
            "a": {"severity": before.severity, "title": before.title, "lost": number(before.lost)},
        }
        for own, before, now in zip(_codes(each.kept), each.kept_before, each.kept, strict=True)
    ]  # fmt: skip


def _phases(own: Sequence[Phase]) -> Mapping[str, float | None] | None:
    """Return the numbers of a run's phases of one kind together, or None if it has none of it."""
    if not own:
        return None
    seconds, shares = sum(phase.seconds for phase in own), sum(phase.share for phase in own)
    return {"n": len(own), "seconds": number(seconds), "share": number(shares), "score": number(score_of_phases(own))}


def _change(change: FigureChange) -> dict[str, Any]:
    """Return the numbers of a change, with null for what is unknown, and its outcome."""
    found = asdict(change)
    keys = ("a", "b", "difference", "relative", "noise")
    return {key: number(found[key]) for key in keys} | {"outcome": change.outcome}
