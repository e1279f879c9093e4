"""How large a recording becomes, before it is made. A GPU at work is assumed: one that does nothing needs half of it.

The sizes are those of recordings that were measured (the test of this module measures some): SQLite's pages of 4 KiB with
what is lost in them.
"""

from typing import NamedTuple

from gssr.store.format.layout import LAYOUT
from gssr.store.format.schema import FINE_SKETCH_SECONDS, INDEXES, LEVELS, SKETCH_SECONDS, TABLES
from gssr.store.write.thinning import YOUNG_SECONDS, Keep

PAGE = 4096
ROW, VALUE = 52.0, 5.3
"""Bytes of a row of ``samples`` without values, and of a value: whole numbers and zeros take less than fractions."""
MEANS = 1.15
"""A row of means holds nothing but fractions."""
_ROLLUP = PAGE / max(PAGE // (8 * LAYOUT.width + 24), 1) + 18.0
"""Bytes of a rollup, and of its place in the index."""
_SKETCHED = {SKETCH_SECONDS: 200.0, FINE_SKETCH_SECONDS: 30.0}
"""Bytes that a metric takes in a sketch, by how long that is; the fine ones are packed."""
_HOST, _WORKLOAD = 62.0, 24.0
"""Bytes of a row of these tables, the names of the run and the node apart; there is one a second."""
_HOST_ROLLUP, _WORKLOAD_ROLLUP = 204.0, 80.0
"""Bytes of a bucket of theirs and of its place in the index, likewise."""
_EMPTY = PAGE * (len(TABLES) + len(INDEXES) + 9)
"""A recording without rows: a page for each table and index, and some for the schema."""


class Forecast(NamedTuple):
    """What is to be recorded: ``n_gpus`` GPUs of which ``n_metrics`` metrics are measured every ``interval`` seconds, and,
    with ``host``, the host. ``names``: bytes that the names of the run and its node take in a row."""

    n_gpus: int
    n_metrics: int
    interval: float
    host: bool
    names: int

    def per_gpu(self, keep: Keep, seconds: float) -> float:
        """Bytes that a GPU takes in so many seconds, when they are over."""
        return self._statistics(seconds) + self._rows(keep, seconds)

    def size(self, keep: Keep, seconds: float) -> float:
        """Bytes of the recording of so many seconds, when they are over."""
        rows = (_HOST + self.names if self.host else 0.0) + _WORKLOAD + self.names
        buckets = (_HOST_ROLLUP + self.names if self.host else 0.0) + _WORKLOAD_ROLLUP + self.names
        beside = rows * seconds + buckets * _buckets(seconds)
        return _EMPTY + beside + self.n_gpus * self.per_gpu(keep, seconds)

    def young(self) -> float:
        """Bytes that young samples take at most besides, while a recording grows that is thinned."""
        return self.n_gpus * self._rows("raw", YOUNG_SECONDS)

    def _statistics(self, seconds: float) -> float:
        sketches = sum((seconds / length + 1) * size for length, size in _SKETCHED.items())
        return _buckets(seconds) * _ROLLUP + sketches * self.n_metrics

    def _rows(self, keep: Keep, seconds: float) -> float:
        row = ROW + VALUE * self.n_metrics
        if keep == "10s":
            return (seconds / LEVELS[0] + 1) * row * MEANS
        return seconds / self.interval * row if keep == "raw" else 0.0


def _buckets(seconds: float) -> float:
    return sum(seconds / level + 1 for level in LEVELS)


def core_share(n_gpus: int, interval: float) -> float:
    """About what the sampler takes of a core, 0-1: as measured with synthetic GPUs (benchmarks/README.md), so without what
    a driver takes to answer."""
    return 0.0008 + (0.00026 + 0.000016 * n_gpus) / interval
