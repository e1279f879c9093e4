"""When the rows of a GPU begin and end in each of several files: ranks that share it sample it one after the other, each
into its own file. Where they could not agree on one, several have sampled it at once: then only one counts at a time."""

import math
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from gssr.store.format.limits import number_within
from gssr.store.format.schema import FINEST_LEVEL, GAP_INTERVALS

Span = tuple[float, float]
"""The times of a GPU's first and last row in a file, unix s."""
_TIMES = Struct("<16xdd")
"""First and last time, in the head of a rollup's vector: gssr.store.format.layout."""

Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Runs a statement with its parameters."""


def read_spans(query: Query, keys: Sequence[int], last: int, counted: bool) -> dict[int, Span]:
    """Return the spans of these GPUs (keys of the file), without those that have no rows. ``last``: rowid of the run's
    last row; ``counted``: rollups count all rows, so that rows need not be looked at."""
    only = ",".join(map(str, keys))
    closed = query(
        "SELECT gpu, min(bucket), max(bucket), max(last_rowid) FROM rollup"
        f" WHERE level = {FINEST_LEVEL} AND gpu IN ({only}) GROUP BY gpu",
        (),
    )
    times: dict[int, list[float]] = {}
    closed = [row for row in closed if all(isinstance(value, int) for value in row)]
    finals = {key: final for key, _, _, final in closed}
    for key, *buckets, _ in closed:
        at = f"SELECT data FROM rollup WHERE level = {FINEST_LEVEL} AND bucket = ? AND gpu = ?"
        times[key] = [
            time for bucket in buckets for (data,) in query(at, (bucket, key)) for time in times_in_blob(data)
        ]
    for key in () if counted else keys:
        rest = "SELECT min(time), max(time) FROM samples WHERE rowid > ? AND rowid <= ? AND gpu = ?"
        for found in query(rest, (finals.get(key, 0), last, key)):
            times.setdefault(key, []).extend(time for time in found if number_within(time) is not None)
    return {key: (min(found), max(found)) for key, found in times.items() if found}


def times_in_blob(data: object) -> tuple[float, ...]:
    """Return the times of a bucket's first and last row, unix s, from its blob; () from a damaged one."""
    times = _TIMES.unpack_from(data) if isinstance(data, bytes) and len(data) >= _TIMES.size else ()
    return times if all(map(math.isfinite, times)) else ()


def choose_disjoint(spans: Sequence[Span], sampling_seconds: float) -> list[int]:
    """Choose the spans of one GPU that don't overlap, so that none of its rows counts twice.

    The longest of overlapping spans is kept, and the first of equally long ones. Two spans that share no more than the
    length of a gap don't count as overlapping, unless that is half of the shorter one.

    Returns the indices of the spans that are kept, in the order of time.
    """
    chosen: list[int] = []
    for index in sorted(range(len(spans)), key=lambda index: spans[index][0] - spans[index][1]):
        if not any(_overlap(spans[index], spans[other], GAP_INTERVALS * sampling_seconds) for other in chosen):
            chosen.append(index)
    return sorted(chosen, key=lambda index: spans[index][0])


def _overlap(one: Span, other: Span, tolerated: float) -> bool:
    """Tell whether two spans have more than ``tolerated`` seconds, or at least half of the shorter one, in common."""
    (begin, end), (other_begin, other_end) = one, other
    common = min(end, other_end) - max(begin, other_begin)
    shorter = min(end - begin, other_end - other_begin)
    return common >= 0 and (common > tolerated or 2 * common >= shorter)
