"""What a table of rules is made of."""

from typing import NamedTuple

from gssr.model.results import Severity
from gssr.model.window import DETECTION_METRICS

OURS = "ours"
DCGM = "NVIDIA DCGM feature overview"
NVML = "NVIDIA NVML API reference"
KEMPNER = "KempnerPulse's classes"
JOBSTATS = "Princeton jobstats"
CSCS = "CSCS's job report"
TRACEML = "TraceML"

LEAD = DETECTION_METRICS
"""What tells work from waiting, best first."""


class Threshold(NamedTuple):
    """A number that a rule holds something against: shares as ratios, times in s, rates in B/s, temperatures in °C.
    ``meaning``: what must be so for the rule to apply; ``source``: where the number comes from; ``least``: the least value
    that a site may give it."""

    name: str
    value: float
    meaning: str
    source: str = OURS
    least: float = 0.0


class Rule(NamedTuple):
    """One rule. ``title`` is a format for the words that its condition finds; ``severity`` is raised by thresholds that are
    called "warning" or "critical". ``needs``: of each group (metrics of the GPUs, columns of the host or the workload) one
    must be measured, else the rule abstains. ``explains``: codes of mere symptoms, not told where this rule holds for the
    same GPUs and times."""

    code: str
    severity: Severity
    title: str
    thresholds: tuple[Threshold, ...]
    advice: str
    needs: tuple[tuple[str, ...], ...]
    explains: tuple[str, ...] = ()

    def at(self, name: str) -> float:
        """The value of a threshold."""
        return next(threshold.value for threshold in self.thresholds if threshold.name == name)

    def graded(self, value: float) -> Severity:
        """How severe it is at this value of what "warning" and "critical" are held against."""
        found = self.severity
        for severity in ("warning", "critical"):
            if any(threshold.name == severity and value >= threshold.value for threshold in self.thresholds):
                found = severity
        return found

    @property
    def source(self) -> str:
        """Where its numbers come from."""
        return ", ".join(dict.fromkeys(threshold.source for threshold in self.thresholds))


class Table(NamedTuple):
    """The rules in their order. ``common`` holds what several of them share: no rule of its own."""

    common: Rule
    rules: tuple[Rule, ...]

    def rule(self, code: str) -> Rule:
        """The rule of this code; ``common`` by its own."""
        return next(rule for rule in (self.common, *self.rules) if rule.code == code)
