"""Puts values that each have a time of their own into rows of one sampling interval.

The hostengine stamps each field of each GPU on its own, microseconds to milliseconds apart. So time is cut into intervals,
and a row holds what was sampled in one; its time is the middle of it. The edges between them are laid where stamps are
rarest, so that a sample that comes a little early or late stays in its row. The newest values are read at the edges: there
everything has been sampled once since the last edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gssr.backends.base import Row, make_row

_MICRO = 1_000_000
_WORTH_MOVING = 2
"""Edges move when their distance to the next stamp grows by this factor: each move makes one step between rows uneven."""
_TOO_SOON = 0.4
"""A read that is late by over half an interval has seen what the next edge is for, which lies within this share of one."""


class RowAssembler:
    """Collects values into rows of one interval, until they are complete. All times are us of the recording's clock."""

    def __init__(self, n_gpus: int, interval: int) -> None:
        """``interval`` is in us."""
        self._interval = interval
        self._edge: int | None = None
        self._open: list[dict[int, dict[str, int | float]]] = [{} for _ in range(n_gpus)]
        """By GPU and number of the interval, the values by metric name."""
        self._next: list[float] = [-math.inf] * n_gpus
        """By GPU, the number of the first interval whose row was not given out yet."""

    def lay_edges(self, times: Sequence[int]) -> None:
        """Move the edges between intervals into the middle of the longest stretch of an interval that none of these
        sampling times (us, at least one) falls into, if that is clearly better than now. The first call always does."""
        interval = self._interval
        base = self._edge or 0
        phases = sorted((time - base) % interval for time in times)
        gaps = [(after - before, before) for before, after in zip(phases, [*phases[1:], phases[0] + interval])]
        length, before = max(gaps)
        move = (before + length // 2) % interval
        distance = min(phases[0], interval - phases[-1])
        if self._edge is None:
            self._edge = move
        elif length > 2 * _WORTH_MOVING * distance:
            self._edge += move if move <= interval // 2 else move - interval

    def next_edge(self, now: int, step: int) -> int:
        """Return the time of the next edge after ``now``, or, if ``step`` is shorter than the interval, of the next of
        its equal parts of ``step`` us."""
        soonest = now + (round(_TOO_SOON * step) if step == self._interval else 1)
        return now + step if self._edge is None else soonest + (self._edge - soonest) % step

    def add(self, gpu: int, metric: str, time: int, value: int | float) -> bool:
        """Put a value into the GPU's row of the interval in which ``time`` (us) lies; an earlier value of the metric
        there is replaced. Returns False if that row was given out already; the value is lost then."""
        number = (time - (self._edge or 0)) // self._interval
        if number < self._next[gpu]:
            return False
        self._open[gpu].setdefault(number, {})[metric] = value
        return True

    def take(self, gpu: int, complete_until: float, now: int) -> list[Row]:
        """Remove and return the GPU's rows up to and including the interval that contains ``complete_until``, the oldest
        first. Times are in us; a row has the time of its interval's middle (unix s), but none after ``now``."""
        rows_by_number = self._open[gpu]
        if not rows_by_number:
            return []
        edge, interval = self._edge or 0, self._interval
        last = (complete_until - edge) // interval
        rows: list[Row] = []
        for number in sorted(rows_by_number):
            if number <= last:
                middle = edge + number * interval + interval // 2
                rows.append(make_row(gpu, min(middle, now) / _MICRO, rows_by_number.pop(number)))
                self._next[gpu] = number + 1
        return rows
