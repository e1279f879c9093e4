"""The states that time is divided into, on recordings and in traces, in the breakdown's colours."""

from typing import NamedTuple

from gssr.model.breakdown.categories import CATEGORIES
from gssr.render.breakdown import LOOKS
from gssr.render.roles import Role
from gssr.render.shares import EXPOSED_WORDS, LETTERS, WORDS


class State(NamedTuple):
    """One of the states: its ``name`` in a word, its colour's ``role``, and what tells it where there is no colour."""

    name: str
    role: Role
    mark: str


def of_breakdown(ascii_only: bool) -> list[State]:
    """List the states of a recording, one for each category of GPU time in the order of CATEGORIES. With
    ``ascii_only`` their marks are ASCII."""
    return [State(each.short, LOOKS[each.name].role, LOOKS[each.name].marked(ascii_only)) for each in CATEGORIES]


_OF_TRACE: tuple[Role, ...] = (
    "working1", "communication1", "idle4", "communication2", "idle5", "outside1", "idle3", "outside3",
)  # fmt: skip
"""The breakdown's colour of each category of a trace (gssr.traces.timeline.Category): work, communication, copies, waits,
the host's calls, ranges, files, the rest."""
OF_TRACE, OF_GPU_SHARES = (
    [State(word.partition(",")[0], role, letter) for word, role, letter in zip(words, _OF_TRACE, LETTERS, strict=True)]
    for words in (WORDS, EXPOSED_WORDS)
)
"""Of intervals and of threads' time; and of that of GPUs and their streams."""


def states_of_level(level: str) -> list[State]:
    """List the states into which the time of rows of this level (gssr.model.traces.levels) is split: of threads by what
    each moment was for, else of GPUs, where copies and communication count only beside no computation."""
    return OF_TRACE if level == "threads" else OF_GPU_SHARES
