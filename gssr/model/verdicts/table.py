"""What a table of rules is made of: each rule with what it looks for, and what it hands to the engine when that holds."""

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from gssr.metrics import DETECTION_METRICS
from gssr.model.results import SEVERITIES, Finding, Severity, Verdict
from gssr.model.verdicts import words

OURS = "ours"
DCGM = "NVIDIA DCGM feature overview"
NVML = "NVIDIA NVML API reference"
KEMPNER = "KempnerPulse's classes"
CSCS = "CSCS's job report"
TRACEML = "TraceML"
NSYS = "Nsight Systems' expert rules"
NSYS_AI = "nsys-ai"
XID = "NVIDIA XID errors"

TRACES = "traces"
"""The part of a site's file that changes the rules of traces."""

LEAST_TOLD = 0.05
"""A loss of this share of the GPU time is told, as an info where healthy jobs lose as much: silence would say that there is
none."""
CRITICAL = 0.25
"""A quarter of the GPU time lost is critical: a job on four GPUs would do with three."""
LEAD = DETECTION_METRICS
"""What tells work from waiting, best first."""


class Threshold(NamedTuple):
    """A number that a rule holds something against: shares as ratios, times in s, rates in B/s, temperatures in °C.
    ``meaning``: what must be so for the rule to apply; ``source``: where the number comes from; ``least``: the least value
    that a site may give it; ``is_upper``: the rule applies to values below it, not from it on."""

    name: str
    value: float
    meaning: str
    source: str = OURS
    least: float = 0.0
    is_upper: bool = False

    def is_met(self, value: float) -> bool:
        """Tell whether a value lies on the side of the threshold to which the rule applies. NaN never does."""
        return value < self.value if self.is_upper else value >= self.value


CRITICAL_COST = Threshold("critical", CRITICAL, "it is critical if at least this share of the GPU time is lost to it")


class Rule(NamedTuple):
    """One rule. ``title`` is a format for the words that its condition finds. ``severity`` is raised by thresholds that
    are called "warning" or "critical". ``needs``: of each group (metrics of the GPUs, columns of the host or the
    workload) one must be measured, otherwise the rule abstains. ``explains``: codes of mere symptoms, rules after this
    one, which are not told where this rule holds for the same GPUs. ``link``: a site's page about it, told after the
    advice. ``aliases``: what the code was called earlier."""

    code: str
    severity: Severity
    title: str
    thresholds: tuple[Threshold, ...]
    advice: str
    needs: tuple[tuple[str, ...], ...]
    explains: tuple[str, ...] = ()
    link: str = ""
    aliases: tuple[str, ...] = ()

    def threshold(self, name: str) -> Threshold:
        """Look up a threshold by its name. Raises StopIteration for an unknown one."""
        return next(threshold for threshold in self.thresholds if threshold.name == name)

    def at(self, name: str) -> float:
        """Look up the value of a threshold by its name. Raises StopIteration for an unknown one."""
        return self.threshold(name).value

    def graded(self, value: float) -> Severity:
        """Say how severe a value is: "critical" or "warning" from the threshold of that name on; where it reaches neither,
        the rule's own severity."""
        found = self.severity
        for severity in ("warning", "critical"):
            if any(threshold.name == severity and value >= threshold.value for threshold in self.thresholds):
                found = severity
        return found

    @property
    def source(self) -> str:
        """The sources of the rule's thresholds, separated by commas."""
        return ", ".join(dict.fromkeys(threshold.source for threshold in self.thresholds))


class RuleTable(NamedTuple):
    """The rules in their order, causes before what they explain. ``section``: where in a site's file they stand; empty for
    its top."""

    rules: tuple[Rule, ...]
    section: str = ""

    def rule(self, code: str) -> Rule:
        """Look up the rule of this code. Raises StopIteration for an unknown one."""
        return next(rule for rule in self.rules if rule.code == code)


class RuleMatch(NamedTuple):
    """What a rule's condition finds. ``words`` fill the rule's title. ``gpus``: positions, empty for all. ``span``: when it
    holds, (start, end) in unix s. ``advice``: in place of the rule's, where what was found asks for another. ``lost``:
    which share (0-1) of all the GPUs' time the cure would save; None where that can't be told within a quarter of it in
    most jobs."""

    words: dict[str, str]
    findings: tuple[Finding, ...]
    severity: Severity
    span: tuple[float, float]
    gpus: tuple[int, ...] = ()
    advice: str = ""
    lost: float | None = None

    def warning(self) -> "RuleMatch":
        """Return the match with the severity "warning" where it is less: what a site calls critical stays so."""
        return self._replace(severity="warning") if self.severity == "info" else self


class Unknown(Exception):
    """A condition can't be judged; its text says why."""


Condition = Callable[..., RuleMatch | None]
"""What a rule looks for: (gssr.model.verdicts.job.JobEvidence, the rule as the site has it) -> what it finds."""
_Condition = TypeVar("_Condition", bound=Condition)
REGISTERED: dict[str, tuple[Rule, Condition]] = {}
"""Every rule with its condition, by its code."""


def register_rule(
    severity: Severity,
    title: str,
    thresholds: tuple[Threshold, ...],
    advice: str,
    needs: tuple[tuple[str, ...], ...],
    explains: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Callable[[_Condition], _Condition]:
    """Return a decorator that makes a function the condition of a rule; the function's name becomes the rule's code.

    The arguments are the fields of Rule: ``severity`` at least, ``title`` (a format), ``thresholds``, ``advice``,
    ``needs`` (of each group one metric must be measured), ``explains`` (codes of symptoms that are not told beside it)
    and ``aliases`` (earlier names). The rules' table has them in the order of their subjects
    (gssr.model.verdicts.rules), and of one subject in the order in which they are written.
    """

    def register(condition: _Condition) -> _Condition:
        code = condition.__name__
        REGISTERED[code] = Rule(code, severity, title, thresholds, advice, needs, explains, aliases=aliases), condition
        return condition

    return register


def decide(
    table: RuleTable,
    job: Any,
    n_gpus: int,
    missing: Callable[[Rule], str | None],
    gpu_hours: float = 0.0,
    said: Callable[[str], str] = str,
) -> tuple[tuple[Verdict, ...], dict[str, str]]:
    """Judge ``job``, what the conditions look at, by all rules of a table. Returns the verdicts, the worst first, of
    equal ones that first which loses most, and otherwise in the order of the rules, without symptoms of others; and by
    code why rules abstained.

    Args:
        n_gpus: How many GPUs are looked at; a rule that holds for all of them holds for ().
        missing: Says in a clause what a rule needs and is not there; None when nothing is missing.
        gpu_hours: The GPU-hours of which shares are lost.
        said: Says a text in the words of the GPUs' makers (gssr.gpu_vendors).
    """
    told: list[tuple[Rule, RuleMatch]] = []
    abstentions: dict[str, str] = {}
    for rule in table.rules:
        why = missing(rule)
        if why is not None:
            abstentions[rule.code] = said(why)
            continue
        try:
            found = REGISTERED[rule.code][1](job, rule)
        except Unknown as unknown:
            abstentions[rule.code] = said(str(unknown))
            continue
        if found is None:
            continue
        if len(found.gpus) == n_gpus:
            found = found._replace(gpus=())
        if not any(_is_symptom(rule, found, *cause) for cause in told):
            told.append((rule, found))
    verdicts = [_verdict(rule, found, gpu_hours, said) for rule, found in told]
    verdicts.sort(key=lambda one: (SEVERITIES.index(one.severity), -(one.lost or 0.0)))
    return tuple(verdicts), abstentions


def _is_symptom(rule: Rule, found: RuleMatch, cause: Rule, of_cause: RuleMatch) -> bool:
    """Tell whether what ``rule`` ``found`` is a symptom of another rule, the ``cause``, with its match ``of_cause``: the
    cause explains such rules, and holds for all the GPUs (or for the whole job, whose ``gpus`` are empty)."""
    if rule.code not in cause.explains:
        return False
    return not of_cause.gpus or bool(found.gpus and set(found.gpus) <= set(of_cause.gpus))


def _verdict(rule: Rule, found: RuleMatch, gpu_hours: float, said: Callable[[str], str]) -> Verdict:
    """Make the verdict of a rule that matched: its title and texts in the words of the GPUs' makers (``said``), and the
    GPU-hours it costs, a share of ``gpu_hours``."""
    lost = min(max(found.lost, 0.0), 1.0) if found.lost is not None and isfinite(found.lost) else None
    return Verdict(
        rule.code,
        found.severity,
        said(rule.title.format(**found.words)),
        tuple(replace(each, text=said(each.text)) for each in found.findings),
        _advice(said(found.advice or rule.advice), rule.link),
        rule.source,
        *found.span,
        found.gpus,
        lost * gpu_hours if lost is not None and found.severity != "info" else None,
        lost,
        rule.aliases,
    )


def _advice(advice: str, link: str) -> str:
    """Add a site's page, if there is one, to an advice, which may end with a command."""
    return f"{advice}{'' if advice.endswith('.') else '.'} {link}" if link else advice


def rules_of(module: Any) -> tuple[Rule, ...]:
    """List the rules that were written in a module."""
    return tuple(rule for rule, condition in REGISTERED.values() if condition.__module__ == module.__name__)


def finding(name: str, value: float, what: str = "", threshold: Threshold | None = None) -> Finding:
    """Make a finding of a number, held against a threshold if there is one. ``what`` says more about it ("while it
    works")."""
    text = f"{words.label(name)} {words.amount(value, name)} {what}".strip()
    if threshold is None:
        return Finding(name, float(value), None, text)
    limit = words.limit(threshold.value, name)
    counts = f"reported below {limit}" if threshold.is_upper else f"reported from {limit} on"
    return Finding(name, float(value), threshold.value, f"{text} ({counts})")


def finding_in_words(name: str, value: float, text: str, threshold: float | None = None) -> Finding:
    """Make a finding of a number with words of its own."""
    return Finding(name, float(value), threshold, text)
