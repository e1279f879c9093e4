"""How the ranks of a run ended, from their rows in ``processes``: which were lost, and which failed first."""

from collections.abc import Iterable
from typing import NamedTuple

from gssr.store.format.rows import Event, Process


class RankEnd(NamedTuple):
    """A rank that stopped before its run was through. ``how``: lost (nobody recorded its end), killed, failed or timeout;
    ``time`` (unix s): when it ended, or its last sign of life; None is unknown."""

    rank: int
    node: str | None
    time: float | None
    how: str
    exit_code: int | None


def stopped_ranks(processes: Iterable[Process]) -> tuple[RankEnd, ...]:
    """List the ranks that were lost, or whose command did not end with exit code 0, the first of them first. ``ended_at`` of
    a lost process is its last sign of life."""
    ends = [
        RankEnd(process.rank, process.node, process.ended_at, state, process.exit_code)
        for process in processes
        if (state := process.state) == "lost" or (state in ("failed", "killed", "timeout") and process.exit_code)
    ]
    return tuple(sorted(ends, key=lambda end: (end.time is None, end.time or 0.0, end.rank)))


def place_of(end: RankEnd) -> str:
    """Name the rank and its node: ``rank 5 on node2``."""
    return f"rank {end.rank}" + (f" on {end.node}" if end.node else "")


def event_of_loss(end: RankEnd, started_at: float | None) -> Event:
    """Describe a lost rank as an event of the run: no recording holds one, for nobody was left to write it."""
    time = end.time if end.time is not None else started_at or 0.0
    message = f"{place_of(end)} was lost: {WHY_LOST}"
    return Event(time, end.node, None, end.rank, RANK_LOST, message)


RANK_LOST = "rank_lost"
"""The kind of such an event."""
WHY_LOST = "nobody recorded its end, because it was killed, or its sampler alone, or its node failed"
