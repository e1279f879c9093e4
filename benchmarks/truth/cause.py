"""What spoils a job, and what must be said of it."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.truth.job import Job


class Cause(NamedTuple):
    """``spoil`` changes the job. ``must``: verdicts that have to appear, ``|`` between those of which any will do; ``may``:
    those that are true besides, or that a fair judge might give. ``blurs``: what the work itself would be called may be said
    of it, and need not be, because the cause takes a large part of its time."""

    spoil: Callable[[Job], None]
    must: frozenset[str]
    may: frozenset[str]
    blurs: bool = True


def cause(spoil: Callable[[Job], None], must: str, may: str = "", blurs: bool = True) -> Cause:
    """A Cause, its codes separated by spaces."""
    return Cause(spoil, frozenset(must.split()), frozenset(may.split()), blurs)
