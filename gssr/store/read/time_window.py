"""A window of time: what a reader is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class Window(NamedTuple):
    """start <= time < end, unix s; infinite where it is open."""

    start: float = -math.inf
    end: float = math.inf

    @classmethod
    def between(cls, start: float | None, end: float | None) -> Window:
        """Make a window from ``start`` to ``end``, unix s; an end that is None is open."""
        return cls(-math.inf if start is None else start, math.inf if end is None else end)

    @property
    def seconds(self) -> float:
        """The length of the window, s."""
        return self.end - self.start

    def close_at(self, first: float | None, last: float | None) -> Window:
        """Close the window at these ends (unix s) where it is open. An end that is not known (None) becomes 0."""
        start = self.start if math.isfinite(self.start) else first or 0.0
        return Window(start, self.end if math.isfinite(self.end) else last or 0.0)

    def at(self, cuts: Iterable[float]) -> list[Window]:
        """Cut the window at those of these times, ascending, that lie within it. Returns the pieces in order: the
        window itself where none does."""
        ends = [self.start, *(cut for cut in cuts if self.start < cut < self.end), self.end]
        return [Window(start, end) for start, end in zip(ends, ends[1:])]

    def cut_off(self, step: int) -> list[Window]:
        """Return the parts of the window that lie in buckets of ``step`` seconds which it cuts: two at most, none where
        it cuts none."""
        start, end = self
        pieces = []
        if math.isfinite(start) and start % step:
            pieces.append(Window(start, min(end, (start // step + 1) * step)))
        if math.isfinite(end) and end % step and (not pieces or end > pieces[0].end):
            pieces.append(Window(max(start, end // step * step), end))
        return pieces


ALL_TIME = Window()
