"""Balance's histogram: one line a bar, the highest first."""

from dataclasses import dataclass

import numpy as np

from gssr.model.cached import once
from gssr.model.live.attention import Selection, imbalance_of
from gssr.model.live.frame import Frame
from gssr.model.results import Imbalance
from gssr.model.statistics.balance import Histogram, histogram_of
from gssr.render.bar import length
from gssr.render.cells import cell_width, clean, clip, fit, pad
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import fixed, metric_of, unit_of
from gssr.tui.axis import full_scale
from gssr.tui.view import Scene

_COUNT = 6
_LEAST_BAR, _LEAST_NAME = 8, 8
_NAMED = 12
"""GPUs of a bar that are named, as far as there is room."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The histogram of a frame's GPUs. ``held``: its bins that hold any GPU, from the lowest up; ``flagged``: those that
    hold one that is not like the others."""

    histogram: Histogram
    held: tuple[int, ...]
    flagged: frozenset[int]

    def picked(self, row: int) -> int | None:
        """The bin under the cursor, which counts those in ``held``; None when there is none."""
        return self.held[min(row, len(self.held) - 1)] if self.held else None

    def shown(self, room: int) -> list[int]:
        """The bins that ``room`` lines show, highest first: all, or as many as fit of those that hold any GPU, the lowest
        of them."""
        everything = list(range(len(self.histogram.counts) - 1, -1, -1))
        return everything if len(everything) <= room else list(self.held[max(room, 1) - 1 :: -1] if room else ())


@once
def bars_of(frame: Frame, selection: Selection, n_bins: int) -> Bars:
    """The bars of the selected GPUs' means."""
    found = imbalance_of(frame, selection)
    histogram = histogram_of(frame.grid.metric, found.means, full_scale(frame, frame.grid.metric), n_bins)
    apart = found.means[np.concatenate((found.low, found.high))]
    flagged = np.clip(np.searchsorted(histogram.edges, apart, "right") - 1, 0, n_bins - 1)
    return Bars(histogram, tuple(np.flatnonzero(histogram.counts).tolist()), frozenset(flagged.tolist()))


def bar_name(frame: Frame, found: Imbalance, bars: Bars, bin_: int) -> str:
    """What to call a bar's GPUs: the name of the node whose GPUs they are, else ``SM active 10-20 %``."""
    members = found.gpus[list(bars.histogram.members[bin_])]
    nodes = np.unique(frame.node_of[members])
    if len(nodes) == 1 and len(members) == len(frame.on_node(int(nodes[0]))):
        return frame.nodes[int(nodes[0])]
    metric = metric_of(frame.grid.metric)
    low, high = _labels(bars)[bin_ : bin_ + 2]
    return f"{metric.label} {low}-{high} {unit_of(metric).name}".rstrip()


def _labels(bars: Bars) -> list[str]:
    unit = unit_of(metric_of(bars.histogram.metric))
    edges = [edge * unit.factor for edge in bars.histogram.edges.tolist()]
    decimals = 0 if all(abs(edge - round(edge)) < 1e-6 for edge in edges) else 1
    return [fixed(edge, decimals) for edge in edges]


def bar_rows(scene: Scene, found: Imbalance, bars: Bars, width: int, room: int) -> list[Row]:
    """A title and the bars, in at most ``room`` rows of ``width`` cells."""
    frame, counts = scene.frame, bars.histogram.counts
    labels = _labels(bars)
    size = max(len(label) for label in labels)
    picked = bars.picked(scene.view.row)
    spare = width - (2 * size + 4) - _COUNT
    shown = bars.shown(room - 1)
    named = {k: _members(frame, found, bars, k) for k in shown if 0 < counts[k] <= _NAMED}
    longest = max((cell_width(text) for text in named.values()), default=0) + 1
    names = min(longest, spare - _LEAST_BAR, max(spare // 2, 12)) if named and spare - _LEAST_BAR > _LEAST_NAME else 0
    cells = max(spare - names, 0)
    most = int(counts.max(initial=0)) or 1
    unit = unit_of(metric_of(bars.histogram.metric)).name
    title = f"  {'mean ' + unit:<{2 * size + 2}}GPUs"
    rows: list[Row] = [(Span(fit(title, width, scene.glyphs.ellipsis), "dim"),)]
    for k in shown:
        n, apart = int(counts[k]), k in bars.flagged
        label: Role = "cursor" if k == picked else "plain" if n else "dim"
        filled = length(n / most, cells, scene.glyphs) if n and cells else ""
        row: Row = (
            Span(">" if k == picked else " "),
            Span("!" if apart else " ", "outlier"),
            Span(f"{labels[k]:>{size}}-{labels[k + 1]:>{size}}", label),
            Span(" "),
            *pad((Span(filled, "outlier" if apart else "series"),) if filled else (), cells),
            Span(f"{n:>{_COUNT},}", "plain" if n else "dim"),
        )
        if names and k in named:
            row = (*row, Span(" " + fit(named[k], names - 1, scene.glyphs.ellipsis), "plain" if apart else "dim"))
        rows.append(clip(row, width))
    return rows


def _members(frame: Frame, found: Imbalance, bars: Bars, bin_: int) -> str:
    return ", ".join(clean(frame.place(gpu)) for gpu in found.gpus[list(bars.histogram.members[bin_])].tolist())
