"""Balance: how the GPUs' means spread, how uneven they were over time, and what that costs.

Balance's histogram: one line a bar, the highest first.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gssr.model.cached import once
from gssr.model.live.attention import Selection, attention, imbalance_of
from gssr.model.live.frame import Frame
from gssr.model.results import Imbalance
from gssr.model.statistics.balance import Histogram, histogram_of
from gssr.render.cells import cell_width, clean, clip, fit, flow, pad, wrap
from gssr.render.columns import length
from gssr.render.glyphs import drawable
from gssr.render.roles import Role, Row, Span, text_of
from gssr.render.scale import fixed, metric_of, plural, unit_of
from gssr.render.table import rule
from gssr.score import CAVEAT
from gssr.tui.axis import GUTTER, full_scale, gpus_text, window_text
from gssr.tui.screens.balance_words import charts, facts, lowest, over_time, places, reads_as
from gssr.tui.view import Scene, View, with_cursor

_COUNT = 6
_LEAST_BAR, _LEAST_NAME = 8, 8
_NAMED = 12
"""GPUs of a bar that are named, as far as there is room."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The histogram of a frame's GPUs. ``held``: its bins that hold any GPU, from the lowest up; ``flagged``: those that
    hold one that is unlike the rest."""

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
    marked = attention(frame).outlier[found.gpus]
    flagged = (k for k, members in enumerate(histogram.members) if marked[list(members)].any())
    return Bars(histogram, tuple(np.flatnonzero(histogram.counts).tolist()), frozenset(flagged))


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
    title = f"  {'mean ' + unit:<{2 * size + 2}}{plural(frame.noun)}"
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


_BESIDE, _BESIDE_ROWS = 72, 14
"""From so many cells and rows on the charts stand beside the histogram."""
_SMALL = 12
"""In fewer rows bars that hold no GPU give way to the numbers."""
_GAP = 2


class _Layout(NamedTuple):
    """Cells: ``left`` of the histogram, ``chart`` columns of time. ``bins`` of the histogram; ``beside``: the charts stand
    on its right, else there is room for a strip below it."""

    left: int
    chart: int
    bins: int
    beside: bool


def _layout(width: int, height: int) -> _Layout:
    bins = 20 if height >= 36 else 10 if height >= 17 else 5
    if width >= _BESIDE and height >= _BESIDE_ROWS:
        left = min(width // 2, 90)
        return _Layout(left, width - left - _GAP - GUTTER, bins, True)
    return _Layout(width, max(width - GUTTER, 1), bins, False)


class _Plan(NamedTuple):
    """What is drawn where: ``head`` and ``legend`` rows, the histogram in ``tall`` rows from ``head`` on, ``below`` rows
    after a blank one."""

    layout: _Layout
    found: Imbalance
    bars: Bars
    head: list[Row]
    legend: list[Row]
    tall: int
    below: int


def _plan(scene: Scene) -> _Plan:
    layout = _layout(scene.width, scene.height)
    found = imbalance_of(scene.frame, scene.selection())
    legend = _legend(scene)
    bars = bars_of(scene.frame, scene.selection(), layout.bins)
    lines = layout.bins if scene.height >= _SMALL else min(layout.bins, max(len(bars.held), 1))
    head = _head(scene, found, max(scene.height - lines - 1 - len(legend), 2))
    room = scene.height - len(head) - len(legend)
    tall = max(layout.bins + 1, room * 3 // 5) if layout.beside else layout.bins + 1
    below = room - tall - 1
    if below < 3:
        tall, below = room, 0
    return _Plan(layout, found, bars, head, legend, max(tall, 0), below)


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted."""
    return max(_layout(width, height).chart, 1)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    layout, found, bars, head, legend, tall, below = _plan(scene)
    left, other = layout.left, scene.width - layout.left - _GAP
    body = bar_rows(scene, found, bars, left, tall)
    if layout.beside:
        body = _side_by_side(body, charts(scene, found, layout.chart, tall), left)
        if below:
            ranked = _side_by_side(lowest(scene, found, left, below), places(scene, found, other, below), left)
            body += [*[()] * (tall - len(body)), (), *ranked]
    elif below:
        body += [(), *over_time(scene, found, layout.chart, max(below - 2, 1))]
    room = scene.height - len(head) - len(legend)
    rows = [*head, *body[:room], *[()] * (room - len(body)), *legend]
    return [drawable(clip(row, scene.width), scene.glyphs) for row in rows[: scene.height]]


def _side_by_side(left: list[Row], right: list[Row], width: int) -> list[Row]:
    n = max(len(left), len(right))
    left, right = left + [()] * (n - len(left)), right + [()] * (n - len(right))
    return [(*pad(a, width), Span(" " * _GAP), *b) for a, b in zip(left, right, strict=True)]


def _head(scene: Scene, found: Imbalance, most: int) -> list[Row]:
    """The title, what the imbalance reads as, and the numbers, in at most ``most`` rows."""
    metric = metric_of(scene.frame.grid.metric)
    about = (Span(gpus_text(scene)), Span(window_text(scene.frame), "dim"))
    title = rule(f"{metric.label}, {unit_of(metric).name}".rstrip(", "), scene.width, scene.glyphs, about)
    words = reads_as(scene, found)
    reading = wrap(text_of(words), scene.width, rest="  ", role=words[-1].role)
    if words[0].role == "outlier":
        reading[0] = (words[0], Span(reading[0][0].text[len(words[0].text) :], words[-1].role))
    rows = [title, *reading, *flow(facts(scene, found), scene.width, scene.glyphs.ellipsis, separator="   ")]
    return [*rows, ()] if len(rows) < most and scene.height >= _BESIDE_ROWS else rows[:most]


_LEGEND = (
    "> cursor, Enter: its GPUs", "! unlike the rest", "imbalance 1-mean/max", "lost: what the busiest GPU does more",
    "rotating: what time means hide", f"score: {CAVEAT.split(':')[0]}",
)  # fmt: skip
_DEFINITION = (
    "lost = GPU-hours x sum of n(max-mean) / sum of n max over the columns",
    "static = GPU-hours x (1-mean/max) of the time means",
    "rotating = lost-static",
)


def _legend(scene: Scene) -> list[Row]:
    if scene.height < 7:
        return []
    texts = _LEGEND[: -1 if scene.frame.window.score() is None else None] + (_DEFINITION if scene.height >= 30 else ())
    rows = flow([(Span(text, "dim"),) for text in texts], scene.width, scene.glyphs.ellipsis, separator="   ")
    return rows[: 1 if scene.height < 17 else 3]


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down over the bars that hold any GPU; left and right through time."""
    view = scene.view
    if dx:
        return with_cursor(scene, dx)
    last = max(len(_plan(scene).bars.held) - 1, 0)
    return replace(view, row=min(max(min(view.row, last) - dy, 0), last))


def enter(scene: Scene) -> View | None:
    """The GPUs of the bar under the cursor."""
    plan = _plan(scene)
    picked = plan.bars.picked(scene.view.row)
    if picked is None:
        return None
    members = plan.found.gpus[list(plan.bars.histogram.members[picked])].tolist()
    name = bar_name(scene.frame, plan.found, plan.bars, picked)
    return scene.view.down(screen="gpus", selection=tuple(members), selected=name, gpu=members[0], row=0, top=0)


def click(scene: Scene, x: int, y: int) -> View | None:
    """The bar under the mouse; when the cursor is on it already, its GPUs."""
    plan = _plan(scene)
    shown = plan.bars.shown(plan.tall - 1)
    line = y - len(plan.head) - 1
    if x >= plan.layout.left or not 0 <= line < len(shown) or shown[line] not in plan.bars.held:
        return None
    if shown[line] == plan.bars.picked(scene.view.row):
        return enter(scene)
    return replace(scene.view, row=plan.bars.held.index(shown[line]))
