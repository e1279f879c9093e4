"""The end of a run whose driver or hostengine no longer answers: how long to wait for it, and how to mark what it
didn't tell.

A gap is a long time between two rows of a GPU. Where no row follows, a row without values marks its end: it says that
nothing is known up to then, and every reader counts it as it counts other gaps."""

from collections.abc import Iterable, Sequence

from gssr.backends.base import Row, make_row
from gssr.store.format.schema import GAP_INTERVALS

LAST_ANSWER_SECONDS = 0.1
"""Seconds that the last answer may take at least: the command has ended, and somebody waits for its exit code."""
MAX_LAST_ANSWER_SECONDS = 3.0
SLOW_DRIVER_FACTOR = 5.0
"""A driver that was slow lately gets this many times its longest answer, up to MAX_LAST_ANSWER_SECONDS."""

_DECAY_PER_ANSWER = 0.9


class AnswerPatience:
    """Adapts how long to wait for the last answer to how long earlier answers took."""

    def __init__(self) -> None:
        self._longest = 0.0

    def note_answer(self, seconds: float) -> None:
        """Note how many seconds an answer took."""
        self._longest = max(seconds, _DECAY_PER_ANSWER * self._longest)

    @property
    def seconds(self) -> float:
        """The seconds that the last answer may take."""
        return min(max(LAST_ANSWER_SECONDS, SLOW_DRIVER_FACTOR * self._longest), MAX_LAST_ANSWER_SECONDS)


class SilenceTracker:
    """Remembers when each GPU's last row came, to mark gaps that reach to the end of the run."""

    def __init__(self, n_gpus: int, interval: float) -> None:
        """``interval`` in s."""
        self._last: list[float | None] = [None] * n_gpus
        self._longest = GAP_INTERVALS * interval

    def note_rows(self, rows: Iterable[Row]) -> None:
        """Note rows that came; those of one GPU are in the order of their times."""
        for row in rows:
            self._last[row[0]] = row[1]  # type: ignore[index]

    def rows_that_end_gaps(self, now: float) -> Sequence[Row]:
        """Make a row without values, at ``now``, for each GPU that had rows and has been silent for longer than a gap.
        ``now``: unix s, on the clock of the rows."""
        longest = self._longest
        return [
            make_row(gpu, now, {}) for gpu, last in enumerate(self._last) if last is not None and now - last > longest
        ]
