"""How the blobs in ``rollup``, ``sketch`` and ``sketch_minute`` are laid out. Read by the writer (without numpy) and by the
reader.

**Rollup.** A vector of little-endian float64: a head of four numbers, then one block per metric: first the derived
metrics, then the metric columns of ``samples`` in the file's column order. A file whose ``samples`` gained columns later
holds shorter vectors from before: a missing tail reads as "no samples". NaN stands for "none" in min, max, first, last.

    head           n_rows, n_gaps, first_time, last_time
    gauge, rate    n, sum, m2, min, max      m2: sum of squared differences from the bucket's mean
    counter        n, first, last, increase  increase: sum of the positive differences inside the bucket
    bits           n, or, one count per flag of CLOCK_EVENT_REASONS

**Sketch.** One sparse histogram per derived metric and per gauge or rate column, in the rollup's order. A value's bin is
the upper half of its float32, that is sign, exponent and 7 bits of mantissa: 128 linear bins per power of two, each at
most 1/128 of its value wide. Little endian, all parts one after another:

    uint16   number of metrics M
    uint16   number of bins of each metric     (M of them)
    uint16   bins' keys, metric by metric, ascending as unsigned numbers
    uint32   bins' counts, in the keys' order

**Packed**, as in ``sketch_minute``, it is a fifth as long. Each key gives way to its difference from the one before, modulo
65536, from 0 on and across metrics; then come all keys' lower bytes, their upper ones, and likewise the four bytes of the
counts, the lowest first. All of it goes through zlib.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS, DERIVED, METRICS, Metric

HEAD = ("n_rows", "n_gaps", "first_time", "last_time")
FIELDS: dict[str, tuple[str, ...]] = {
    "gauge": ("n", "sum", "m2", "min", "max"),
    "rate": ("n", "sum", "m2", "min", "max"),
    "counter": ("n", "first", "last", "increase"),
    "bits": ("n", "or", *(name for _, name, _ in CLOCK_EVENT_REASONS)),
}
RELATIVE_BIN_WIDTH = 1 / 128


class Block(NamedTuple):
    """Where one metric's numbers stand in a rollup vector: ``width`` of them from ``start``."""

    metric: Metric
    start: int
    width: int


class Layout(NamedTuple):
    """The layout of one file's blobs. ``blocks``: of each metric in a rollup; ``width``: the length of a rollup's
    vector; ``sketched``: the metrics of a sketch, in its order."""

    blocks: tuple[Block, ...]
    width: int
    sketched: tuple[str, ...]


def layout_of(columns: Sequence[str], derived: Sequence[Metric] = DERIVED) -> Layout:
    """Return the layout of a file whose ``samples`` has these metric columns, in this order. Columns that the catalogue
    does not know (a later version's) are gauges."""
    unknown = [Metric(name, name, name, "", "gauge", 1.0, "", "", "") for name in columns if name not in BY_NAME]
    known = BY_NAME | {metric.name: metric for metric in unknown}
    metrics = [*derived, *(known[name] for name in columns)]
    blocks, start = [], len(HEAD)
    for metric in metrics:
        width = len(FIELDS[metric.kind])
        blocks.append(Block(metric, start, width))
        start += width
    sketched = tuple(metric.name for metric in metrics if metric.kind in ("gauge", "rate"))
    return Layout(tuple(blocks), start, sketched)


LAYOUT = layout_of([metric.name for metric in METRICS])
"""The layout of files this version creates."""


def part_of(layout: Layout, names: Sequence[str]) -> Layout:
    """Return the layout of vectors that keep only the blocks of these metrics, in the same order."""
    kept = [block.metric for block in layout.blocks if block.metric.name in names]
    derived = [metric for metric in kept if metric.derived]
    return layout_of([metric.name for metric in kept if not metric.derived], derived)
