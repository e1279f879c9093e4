"""When the rows of a GPU begin and end in each of several files: ranks that share it sample it one after the other, each
into its own file. Where they could not agree on one, several have sampled it at once: then only one counts at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gssr.store.schema import GAP_INTERVALS, LEVELS


class Span(NamedTuple):
    """Unix times of the first and the last row, s."""

    begin: float
    end: float


Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Runs a statement with its parameters."""


def spans_of(query: Query, keys: Sequence[int], last: int, counted: bool) -> dict[int, Span]:
    """The spans of these GPUs (keys of the file), but for those that have no rows. ``last`` is the rowid of the run's last
    row; ``counted``: rollups count them all."""
    only = ",".join(map(str, keys))
    closed = query(
        f"SELECT gpu, min(first_rowid), max(last_rowid) FROM rollup WHERE level = ? AND gpu IN ({only}) GROUP BY gpu",
        (LEVELS[0],),
    )
    ends = {int(key): (int(first), int(final)) for key, first, final in closed}
    if not counted:
        for key in keys:
            first, final = ends.get(key, (None, 0))
            rest = "SELECT min(rowid), max(rowid) FROM samples WHERE rowid > ? AND rowid <= ? AND gpu = ?"
            for low, high in query(rest, (final, last, key)):
                if low is not None:
                    ends[key] = (low if first is None else first, high)
    at = "SELECT time FROM samples WHERE rowid = ?"
    times = {key: [row[0] for rowid in rowids for row in query(at, (rowid,))] for key, rowids in ends.items()}
    return {key: Span(min(found), max(found)) for key, found in times.items() if found}


def apart(spans: Sequence[Span], sampling_seconds: float) -> list[int]:
    """Which of the spans of one GPU count, so that none of its rows counts twice: of those that overlap the longest, of
    equally long ones the first. Their indices, by time. One that begins no more than a gap before the other ends follows
    it, unless that is half of it."""
    chosen: list[int] = []
    for index in sorted(range(len(spans)), key=lambda index: spans[index].begin - spans[index].end):
        if not any(_overlap(spans[index], spans[other], GAP_INTERVALS * sampling_seconds) for other in chosen):
            chosen.append(index)
    return sorted(chosen, key=lambda index: spans[index].begin)


def _overlap(one: Span, other: Span, tolerated: float) -> bool:
    common = min(one.end, other.end) - max(one.begin, other.begin)
    shorter = min(one.end - one.begin, other.end - other.begin)
    return common >= 0 and (common > tolerated or 2 * common >= shorter)
