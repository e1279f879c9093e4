"""How the ranks of a run ended, from their rows in ``processes``: which were lost, and which failed first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gssr.store.format.rows import Event, Process


class RankEnd(NamedTuple):
    """The end of a rank that did not complete. ``how``: lost (nobody recorded its end), killed, failed or timeout;
    ``time``: when it ended, or of a lost one its last sign of life, unix s; None is unknown."""

    rank: int
    node: str | None
    time: float | None
    how: str
    exit_code: int | None


def stopped_ranks(processes: Iterable[Process]) -> tuple[RankEnd, ...]:
    """List the ranks that were lost, or whose command ended with another exit code than 0, by time, unknown times last.
    Empty if there are none."""
    ends = [
        RankEnd(process.rank, process.node, process.ended_at, state, process.exit_code)
        for process in processes
        if (state := process.state) == "lost" or (state in ("failed", "killed", "timeout") and process.exit_code)
    ]
    return tuple(sorted(ends, key=lambda end: (end.time is None, end.time or 0.0, end.rank)))


def place_of(end: RankEnd) -> str:
    """Name the rank and its node, such as ``rank 5 on node2``."""
    return f"rank {end.rank}" + (f" on {end.node}" if end.node else "")


def event_of_loss(end: RankEnd, started_at: float | None) -> Event:
    """Make an event of a lost rank, which no recording holds, as nobody was left to write it. It is at ``started_at``
    (0 for None) if the time is unknown."""
    time = end.time if end.time is not None else started_at or 0.0
    message = f"{place_of(end)} was lost: {WHY_LOST}"
    return Event(time, end.node, None, end.rank, RANK_LOST, message)


RANK_LOST = "rank_lost"
"""The kind of such an event."""
WHY_LOST = "nobody recorded its end, because it was killed, or its sampler alone, or its node failed"
