"""The orders that lists of a run that grows were shown in: they change only where that can be seen."""

from collections.abc import Hashable

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.live.live_result import Result

_UNSEEN = 0.005
"""Differences of this share of the full scale are not worth a new order: half a percent."""
_MOST = 8
"""As many lists as one look shows, and some more."""


class SteadyOrders:
    """The newest order of each list of one recording, of the ``most`` newest lists; it lives as long as the screen that
    shows them."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._newest: dict[Hashable, Ints] = {}

    def steady(self, frame: Result, question: Hashable, of: Ints, values: Floats, full: float | None) -> Ints:
        """Return the places [n] that sort ``values`` [n] upwards, with unknown ones last.

        While a run grows, the order that the same ``question`` got before is returned, unless two are further the
        wrong way round than can be seen beside ``full``, what fills the axis (None: unknown, so any difference
        counts). ``of`` [n]: the GPUs or nodes that the values are of; other ones are another question.
        """
        order = np.argsort(values, kind="stable")
        if not frame.is_live:
            return order
        key = (frame.grid.metric, question, of.tobytes())
        before = self._newest.pop(key, order)
        known = values[before]
        n = int(np.isfinite(values).sum())
        unseen = _UNSEEN * (full or 0.0)
        steady = np.isfinite(known[:n]).all() and (np.maximum.accumulate(known[:n]) - known[:n] <= unseen).all()
        self._newest[key] = shown = before if steady else order
        while len(self._newest) > self._most:
            self._newest.pop(next(iter(self._newest)))
        return shown
