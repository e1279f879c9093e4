"""What a verdict is: a named condition of a job, with the numbers it rests on and what to do about it."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One number that a verdict rests on. ``metric``: a metric of the catalogue, a clock event reason, or what else was
    measured; ``value`` in its unit; ``threshold``: what it was held against, None where it is only told; ``text``: both in
    words."""

    metric: str
    value: float
    threshold: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """``code`` names the rule (gssr.model.verdicts.rules), ``source`` where its thresholds come from. ``start`` and ``end``:
    when it held, unix s; ``gpus``: positions among the GPUs looked at of those concerned, empty for all of them."""

    code: str
    severity: Severity
    title: str
    evidence: tuple[Finding, ...]
    advice: str
    source: str
    start: float
    end: float
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Abstention:
    """A rule that could not be judged: ``reason`` says what was missing."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that the rules say of a job: verdicts in the order of the rules, causes before what they explain."""

    verdicts: tuple[Verdict, ...]
    abstentions: tuple[Abstention, ...]
