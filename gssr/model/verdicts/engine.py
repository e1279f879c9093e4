"""Judging a job by the rules, in their order: causes first, so that what they explain is not told again."""

from gssr.model.evidence import Evidence
from gssr.model.verdict import Judgement


def judge(evidence: Evidence) -> Judgement:
    """Verdicts and abstentions, in the order of the rules."""
    return Judgement((), ())
