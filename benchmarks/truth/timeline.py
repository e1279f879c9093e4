"""When something is on: spans of time, and how much of each sampling interval they fill."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Timeline(NamedTuple):
    """Seconds "on" since the start as a line through points: ``time`` and ``seconds`` [n], both ascending."""

    time: Floats
    seconds: Floats

    def share(self, edges: Floats) -> Floats:
        """[len(edges) - 1]: the share of each interval in which it is on; ``edges`` in seconds since the start."""
        return np.diff(np.interp(edges, self.time, self.seconds)) / np.diff(edges)


def spans(pairs: Sequence[tuple[float, float]]) -> Timeline:
    """On from the first to the second of each pair, s; ascending, apart from each other."""
    bounds = np.array([(0.0, 0.0), *pairs], np.float64)
    lengths = bounds[:, 1] - bounds[:, 0]
    before = np.cumsum(lengths) - lengths
    return Timeline(bounds.ravel(), np.stack([before, before + lengths], axis=1).ravel())


def cycle(
    random: np.random.Generator, seconds: float, period: float, shares: Sequence[float], jitter: float = 0.06
) -> list[Timeline]:
    """One timeline for each part of a step: parts follow each other in turns and take ``shares`` of ``period`` seconds,
    each time a little more or less (``jitter``, standard deviation relative to it)."""
    n = int(seconds / period * 1.5) + 3
    lengths = period * np.array(shares) * np.exp(jitter * random.standard_normal((n, len(shares))))
    time = np.concatenate([[0.0], np.cumsum(lengths.ravel())])
    own = np.eye(len(shares))
    return [
        Timeline(time, np.concatenate([[0.0], np.cumsum((lengths * own[part]).ravel())])) for part in range(len(own))
    ]
