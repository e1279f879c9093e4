"""Answers to questions about what is watched, kept as long as they stay true: of what is finished for ever, of what grows
until it has grown."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

LAG_SECONDS, LAG_COSTS = 5.0, 20
"""What changes while a run grows is computed anew after max(5 s, 20 times what it took)."""

_Answer = TypeVar("_Answer")


class KeptAnswers:
    """Keeps each answer as long as it holds: what no longer changes for ever, what grows until it is older than
    ``lag_seconds`` and than LAG_COSTS times what it took, or, where reading the files is expensive (``seldom``), until
    ``renew``. Only the ``most`` that were asked for last are kept."""

    def __init__(self, most: int, lag_seconds: float = LAG_SECONDS, seldom: bool = False) -> None:
        self._most, self._lag_seconds = most, lag_seconds
        self._renewed = 0.0 if seldom else None
        self._answers: OrderedDict[tuple[Hashable, bool], tuple[object, float, float]] = OrderedDict()
        """By question, and whether the answer grows with the run: the answer, when it was found (monotonic s), and how
        long that took, s."""

    def renew(self) -> None:
        """Find everything anew that is asked from now on and may have grown."""
        self._renewed = time.monotonic()

    def holds(self, question: Hashable) -> bool:
        """Tell whether the answer to a question that no longer changes is kept."""
        return (question, False) in self._answers

    def find(self, question: Hashable, compute: Callable[[], _Answer], growing: bool = False) -> _Answer:
        """Return the answer that is kept, if it still holds, or what ``compute`` returns. ``growing``: the answer changes
        as the run grows."""
        key, now = (question, growing), time.monotonic()
        found = self._answers.pop(key, None)
        if found is None or (growing and self._is_old(found[1], found[2], now)):
            value: object = compute()
            found = value, now, time.monotonic() - now
        self._answers[key] = found
        while len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return cast(_Answer, found[0])

    def _is_old(self, found_at: float, cost: float, now: float) -> bool:
        """Tell whether an answer must be computed anew that was found at a time (monotonic s) and took ``cost`` s."""
        if self._renewed is not None:
            return found_at < self._renewed
        return now - found_at > max(self._lag_seconds, LAG_COSTS * cost)
