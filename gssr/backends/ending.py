"""The end of a run whose driver or hostengine answers no more: it is hardly waited for, and what it didn't tell is a gap.

A gap is a long time between two rows of a GPU. Where none follows, one without values marks the end of it: it says that
nothing is known up to then, and every reader counts it as it counts other gaps.
"""

from collections.abc import Iterable, Sequence

from gssr.backends.base import Row
from gssr.metrics import METRICS
from gssr.store.format.schema import GAP_INTERVALS

END_SECONDS = 0.1
"""What the last answer may take: the command has ended, and somebody waits for its exit code."""
LONGEST_SECONDS = 3.0
SLOW = 5.0
"""Who has been slow may take this many times as long as of late, up to LONGEST_SECONDS: the machine is busy."""

_FADING = 0.9
_NOTHING: tuple[None, ...] = (None,) * len(METRICS)


class Patience:
    """How long to wait at the end, by how long answers took."""

    def __init__(self) -> None:
        self._longest = 0.0

    def took(self, seconds: float) -> None:
        """An answer took so long."""
        self._longest = max(seconds, _FADING * self._longest)

    @property
    def seconds(self) -> float:
        """What the last answer may take."""
        return min(max(END_SECONDS, SLOW * self._longest), LONGEST_SECONDS)


class Silence:
    """Remembers when each GPU was heard of last."""

    def __init__(self, n_gpus: int, interval: float) -> None:
        """``interval`` in s."""
        self._last: list[float | None] = [None] * n_gpus
        self._longest = GAP_INTERVALS * interval

    def heard(self, rows: Iterable[Row]) -> None:
        """These rows came; those of a GPU are in the order of their times."""
        for row in rows:
            self._last[row[0]] = row[1]  # type: ignore[index]

    def at_end(self, now: float) -> Sequence[Row]:
        """A row without values for each GPU that had some and has been silent for longer than a gap takes. ``now``: unix s,
        on the clock of the rows."""
        longest = self._longest
        return [
            (gpu, now, *_NOTHING) for gpu, last in enumerate(self._last) if last is not None and now - last > longest
        ]
