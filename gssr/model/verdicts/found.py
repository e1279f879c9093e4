"""What a condition hands to the engine when it holds."""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.results import Finding, Severity
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job
from gssr.model.verdicts.table import Rule


class Found(NamedTuple):
    """``words`` fill the rule's title. ``gpus``: positions, empty for all. ``bins`` [n_bins]: when it holds, or for what
    part (0-1) of the work that a bin lacks, None for throughout. ``span``: the same as unix times."""

    words: dict[str, str]
    findings: tuple[Finding, ...]
    severity: Severity
    span: tuple[float, float]
    gpus: tuple[int, ...] = ()
    bins: Flags | Floats | None = None


class Unknown(Exception):
    """A condition can't be judged; its text says why."""


def finding(
    name: str, value: float, what: str = "", rule: Rule | None = None, threshold: str = "", above: bool = True
) -> Finding:
    """A number, held against a threshold of the rule where one is named. ``what`` says more about it: "at work"."""
    text = f"{words.label(name)} {words.amount(value, name)} {what}".strip()
    if rule is None:
        return Finding(name, float(value), None, text)
    bound = rule.at(threshold)
    side = "at least" if above else "below"
    return Finding(name, float(value), bound, f"{text} ({side} {words.amount(bound, name)})")


def told(name: str, value: float, text: str, threshold: float | None = None) -> Finding:
    """A number with words of its own."""
    return Finding(name, float(value), threshold, text)


def positions(chosen: Flags) -> tuple[int, ...]:
    """Where it is True."""
    return tuple(np.flatnonzero(chosen).tolist())


def group(job: Job, which: tuple[int, ...]) -> dict[str, str]:
    """The words ``some`` and ``were`` for these GPUs."""
    return {"some": words.some(job.evidence.gpus, which), "were": words.were(which)}


def whole(job: Job) -> tuple[float, float]:
    """The window."""
    return job.evidence.start, job.evidence.end


def median(values: Floats) -> float:
    """Of what is not NaN; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def medians(values: Floats) -> Floats:
    """Of each column of values [rows, columns] (NaN or finite) the same."""
    ordered, n = np.sort(values, axis=0), np.isfinite(values).sum(axis=0)  # NaN comes last
    columns = np.arange(values.shape[1])
    middle = ordered[np.maximum(n - 1, 0) // 2, columns] + ordered[np.minimum(n // 2, len(values) - 1), columns]
    return np.asarray(np.where(n > 0, middle / 2, np.nan), np.float64)
