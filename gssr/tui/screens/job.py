"""How well is the job using its GPUs: the score, what the rules say, the key metrics, the course over time, and who is
lowest.

The space average over time: the chart that Job leads with.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.cached import once
from gssr.model.live.attention import attention
from gssr.model.live.frame import RECENT_SECONDS, Frame, TracePart
from gssr.model.results import Means, Space, over_space
from gssr.model.statistics.balance import imbalance
from gssr.model.statistics.grid import fold
from gssr.model.traces.results import TraceAnalysis
from gssr.model.traces.tables import TABLES
from gssr.render.cells import cell_width, clean, clip, fit, pad
from gssr.render.clock import duration, exact, moment
from gssr.render.columns import bar
from gssr.render.fan import fan
from gssr.render.glyphs import Glyphs, drawable
from gssr.render.roles import Role, Row, Span, one_row
from gssr.render.scale import UNKNOWN, count, fixed, metric_of, number, percent, scale_text, unit_of
from gssr.render.shares import legend as categories
from gssr.render.shares import split_bar
from gssr.render.table import rule
from gssr.score import CAVEAT, DEFINITION
from gssr.tui.axis import (
    GUTTER,
    at_text,
    framed,
    full_scale,
    gpus_text,
    lasting,
    metric_bars,
    rows_needed,
    seconds_text,
    time_labels,
)
from gssr.tui.gpu_rows import MARKS, folded_to, mark_row, mean_of, strips_of
from gssr.tui.screens.why import headlines
from gssr.tui.view import Scene, View, with_cursor

SMALL_WIDTH, SMALL_HEIGHT = 60, 14
"""A smaller box shows the score, one chart and the lowest few."""
LOWEST_FEW = 3
_WORDS = (
    "from mean SM activity, occupancy and pipe activity",
    "from the mean SM activity, occupancy and pipe activity of all GPUs and samples",
    f"from the mean SM activity, occupancy and pipe activity of all GPUs and samples; {CAVEAT}",
    f"from the mean SM activity A, occupancy O and pipe activity F of all GPUs and samples: {DEFINITION}; {CAVEAT}",
)
_MOST_CAUSES = 4
_LEAST_NODES = 68
"""In a narrower box the widest nodes are left out."""
_NODES = 30
_MOST_PLACE = 28
_BESIDE = 8
"""Cells that a GPU's mean takes beside its name."""
_LEAST_STRIP = 4


class JobLayout(NamedTuple):
    """Rows of each part, from the top down; 0 leaves it out. ``score`` with its definition, ``causes`` the worst verdicts,
    ``bars`` and ``lowest`` with their headings, ``chart`` with its title and its times."""

    score: int
    causes: int
    bars: int
    chart: int
    lowest: int
    events: int


def columns(view: View, width: int, height: int) -> int:
    """One for each cell of the chart."""
    return max(width - GUTTER, 1)


def layout(scene: Scene) -> JobLayout:
    """How the rows are shared: what matters most comes first, and the chart takes what is left."""
    frame, height = scene.frame, scene.height
    n_lowest = len(lowest(frame, scene.view.selection))
    if scene.width < SMALL_WIDTH or height < SMALL_HEIGHT:
        few = min(LOWEST_FEW, n_lowest, max(height - 4, 0))
        score, causes = (2, 1) if height >= 9 else (1, int(height >= 7))
        return JobLayout(score, causes, 0, max(height - score - causes - few, 0), few, 0)
    spare = max(height - 22, 0)
    bars = min(3 + spare // 6, rows_needed(frame, scene.width)) if height >= 19 else 0
    n_events = len(frame.events) if frame.part is None else height
    events = min(2 + spare // 6 if height >= 21 else 1 if height >= 18 else 0, max(n_events, 1))
    few = min(LOWEST_FEW + spare // 3, n_lowest)
    score, headed = 3, 1 if bars else 0
    causes = min(1 + (height >= 18) + spare // 3, _MOST_CAUSES)
    rest = height - score - causes - bars - headed - few - 1 - events
    return JobLayout(score, causes, bars + headed, rest, few + 1, events)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    parts = layout(scene)
    small = parts.bars == 0 and parts.lowest <= LOWEST_FEW
    rows = _score(scene, parts.score)
    rows += [drawable(row, scene.glyphs) for row in _causes(scene, parts.causes)]
    if parts.bars:
        rows += _bars(scene, parts.bars)
    if parts.chart > 0:
        rows += series_rows(scene, parts.chart, with_axis=parts.chart >= 6)
    rows += _lowest(scene, parts.lowest, headed=not small)
    if parts.events:
        rows += _events(scene, parts.events)
    return [clip(row, scene.width) for row in rows[: scene.height]]


# The score


def _score(scene: Scene, n_rows: int) -> list[Row]:
    frame, selection = scene.frame, scene.view.selection
    if frame.part is not None:
        return _split(scene, frame.part, n_rows)
    gpus = scene.looked_at() if selection else None
    whole = f"whole run, {duration(frame.last - frame.first)}: {count(_samples(frame.whole, gpus), 'sample')}"
    gaps = int((frame.n_gaps if gpus is None else frame.n_gaps[gpus]).sum())
    whole += f", {count(gaps, 'gap') if gaps else 'no gaps'}"
    recent = f"{_recent_name(frame)}: {count(_samples(frame.recent, gpus), 'sample')}"
    pairs = [(frame.whole.score(gpus), whole), (frame.recent.score(gpus), recent)]
    room = min(max(scene.width - 18 - max(cell_width(text) for _, text in pairs), 8), 40)
    rows: list[Row] = []
    for label, (score, text) in zip(("score", ""), pairs, strict=True):
        value = fixed(score, 3, UNKNOWN)
        track = bar(score, room, scene.glyphs) if scene.width >= 44 else ()
        about = fit(text, max(scene.width - 18 - (room if track else -1), 0), scene.glyphs.ellipsis)
        rows.append((Span(f" {label:<6}", "heading"), Span(f"{value:>8} ", "value"), *track, Span(f" {about}")))
    words = [text for text in _WORDS if len(text) + 8 <= scene.width]
    about = words[-1] if words else ""
    if pairs[0][0] is None:
        about = "unknown: SM activity, occupancy or a pipe's activity was not measured"
    rows.append((Span(" " * 7), Span(fit(about, max(scene.width - 7, 0), scene.glyphs.ellipsis), "dim")))
    return rows[:n_rows]


def _split(scene: Scene, part: TracePart, n_rows: int) -> list[Row]:
    """How the time of a trace divides: shares that add up to all of it."""
    shares, noun = part.total.tolist(), scene.frame.noun
    busy = scene.frame.window.overall(scene.looked_at() if scene.view.selection else None).get("busy")
    head = (Span(" busy  ", "heading"), Span(f"{percent(busy):>8} ", "value"))
    room = max(scene.width - 17, 1)
    rows: list[Row] = [(*head, *split_bar(shares, room, scene.glyphs.track))]
    rows.append(clip((Span(" " * 7), *one_row(categories(shares), "   ")), scene.width))
    how = "by the innermost interval" if noun == "thread" else "compute, network not under it, copies under neither"
    words = f"of all {noun} time: {how}"
    rows.append((Span(" " * 7), Span(fit(words, max(scene.width - 7, 0), scene.glyphs.ellipsis), "dim")))
    return rows[:n_rows]


def _recent_name(frame: Frame) -> str:
    length = min(RECENT_SECONDS, max(frame.last - frame.first, 0.0))
    name = f"last {length:.0f} s"
    return name if frame.following else f"{name} of the window"


def _samples(means: Means, gpus: Ints | None) -> int:
    """Rows that were counted: each GPU's best-covered metric."""
    if not len(means.n):
        return 0
    counts = means.n if gpus is None else means.n[:, gpus]
    return int(counts.max(axis=0).sum())


# What the rules say


def _causes(scene: Scene, n_rows: int) -> list[Row]:
    """The worst verdicts on the window; the rest of them is on Why."""
    rows = headlines(scene, n_rows, " why    ") if n_rows else []
    return rows + [()] * (n_rows - len(rows))


# The metrics


def _bars(scene: Scene, n_rows: int) -> list[Row]:
    frame, view = scene.frame, scene.view
    means = frame.window.overall(scene.looked_at() if view.selection else None)
    what = f"means of the window, {lasting(frame, frame.window.end - frame.window.start)}"
    asked = (frame.query.cursor, frame.query.gpus)
    if view.cursor is not None and asked == (view.cursor, view.selection) and frame.moment:
        means = dict(frame.moment)
        at = frame.grid.start + frame.grid.column(view.cursor) * frame.grid.width
        what = f"means at {at_text(frame, at)} +{seconds_text(frame.grid.width)}"
    head = rule("metrics", scene.width, scene.glyphs, (Span(what), Span(gpus_text(scene))))
    return [head, *metric_bars(frame, means, scene.width, n_rows - 1, scene.glyphs, frame.grid.metric)]


# The lowest GPUs, and the nodes whose GPUs differ most


@once
def lowest(frame: Frame, selection: tuple[int, ...]) -> Ints:
    """Positions of these GPUs (of all without a selection), the lowest mean of the window first; those without any last."""
    means = frame.window.per_gpu(frame.grid.metric)
    gpus = np.array(
        [gpu for gpu in selection if gpu < frame.n_gpus] if selection else np.arange(frame.n_gpus), np.int64
    )
    return gpus[np.argsort(means[gpus], kind="stable")]


class Widest(NamedTuple):
    """Nodes, those whose GPUs' means of the window differ most first: ``node`` numbers them, ``low`` and ``high`` are the
    means of its lowest and its highest GPU."""

    node: Ints
    low: Floats
    high: Floats


@once
def widest(frame: Frame) -> Widest:
    """The nodes of a frame."""
    n = len(frame.nodes)
    means = frame.window.per_gpu(frame.grid.metric)
    low, high = np.full(n, np.nan), np.full(n, np.nan)
    np.fmin.at(low, frame.node_of, means)
    np.fmax.at(high, frame.node_of, means)
    order = np.argsort(low - high, kind="stable")
    return Widest(order, low[order], high[order])


def _lowest(scene: Scene, n_rows: int, headed: bool) -> list[Row]:
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    n = n_rows - headed
    if n_rows <= 0:
        return []
    gpus = lowest(frame, view.selection)[: max(n, 0)]
    nodes = len(frame.nodes) > 1 and scene.width >= _LEAST_NODES and not view.selection
    left = scene.width - (_NODES if nodes else 0)
    rows: list[Row] = []
    if headed:
        means = frame.window.per_gpu(frame.grid.metric, scene.looked_at())
        uneven = imbalance(means[np.isfinite(means)])
        about = Span("" if uneven is None else f"imbalance {percent(uneven)}")
        scale = f"{glyphs.levels[0]} 0 {glyphs.levels[-1]} {scale_text(metric_of(frame.grid.metric), _full(frame))}"
        head = rule("lowest means", left - nodes, glyphs, (about, Span(scale, "dim")))
        if nodes:
            head = (*head, Span(" "), *rule("widest nodes", _NODES, glyphs))
        rows.append(head)
    size = min(max((cell_width(frame.place(gpu)) for gpu in gpus.tolist()), default=0), _MOST_PLACE, max(left - 12, 1))
    room = left - MARKS - size - _BESIDE
    strips = strips_of(scene, folded_to(scene, gpus, room)) if room >= _LEAST_STRIP else []
    for y, gpu in enumerate(gpus.tolist()):
        row = (*_gpu(scene, gpu, size, y == min(view.row, n - 1) and headed), *(strips[y] if strips else ()))
        rows.append((*pad(row, left), *_node(scene, y)) if nodes else row)
    return rows + [()] * (n_rows - len(rows))


def _full(frame: Frame) -> float:
    return full_scale(frame, frame.grid.metric)


def _gpu(scene: Scene, gpu: int, size: int, under: bool) -> Row:
    """``!t nid000001:1   4.2``."""
    frame, glyphs = scene.frame, scene.glyphs
    letters = attention(frame).letters(gpu)
    role: Role = "cursor" if under else "outlier" if "!" in letters else "plain"
    mean = mean_of(frame, gpu)
    return (
        *mark_row(letters, MARKS),
        *pad((Span(fit(frame.place(gpu), size, glyphs.ellipsis, "end"), role),), size),
        Span(f"{number(mean, metric_of(frame.grid.metric)):>{_BESIDE - 1}} ", "value"),
    )


def _node(scene: Scene, y: int) -> Row:
    """``nid000003   18.2 to 92.0``."""
    frame = scene.frame
    found = widest(frame)
    if y >= len(found.node) or not np.isfinite(found.high[y]):
        return ()
    metric = metric_of(frame.grid.metric)
    span = f"{number(float(found.low[y]), metric)} to {number(float(found.high[y]), metric)}"
    name = fit(frame.nodes[int(found.node[y])], _NODES - 2 - len(span) - 2, scene.glyphs.ellipsis, "end")
    return (Span(f"  {name} "), Span(f"{span:>{_NODES - 3 - cell_width(name)}}", "value"))


# What happened


def _events(scene: Scene, n_rows: int) -> list[Row]:
    frame, glyphs = scene.frame, scene.glyphs
    if frame.part is not None:
        return _most(scene, frame.part.analysis, n_rows)
    events = frame.events[::-1][:n_rows]
    if not events:
        return [(Span(" events ", "heading"), Span("none", "dim"))]
    rows = []
    for y, event in enumerate(events):
        where = f"{event.node}: " if event.node else ""
        what = fit(clean(where + event.message), max(scene.width - 19, 0), glyphs.ellipsis)
        head = Span(" events " if y == 0 else " " * 8, "heading")
        rows.append(one_row([(head,), (Span(f"{at_text(frame, event.time):>9}", "dim"),), (Span(what),)]))
    return rows


def _most(scene: Scene, analysis: TraceAnalysis | None, n_rows: int) -> list[Row]:
    """Of a trace the kernels that took most, and the longest time without work."""
    label, blank = " most   ", " " * 8
    if analysis is None:
        return [(Span(label, "heading"), Span(f"counting{scene.glyphs.ellipsis}", "dim"))]
    kernels = TABLES["kernels"].values(analysis)
    lines = [
        f"{100 * share:4.1f} %  {count:,} x {exact(mean / 1e9)}  {clean(name)}"
        for share, count, mean, name in zip(
            kernels["share"][:n_rows], kernels["count"], kernels["mean_ns"], kernels["name"], strict=False
        )
    ]
    if analysis.gaps and n_rows > 1:
        gap = max(analysis.gaps, key=lambda each: each.length_ns)
        said = f" ({gap.call})" if gap.call else ""
        when = moment(gap.start_ns / 1e9 - scene.frame.first, 0.0, 1e-6)
        lines[n_rows - 1 :] = [clean(f"longest gap {exact(gap.length_ns / 1e9)} at {when}: {gap.cause}{said}")]
    return [
        (Span(blank if y else label, "heading"), Span(fit(text, scene.width - 8, scene.glyphs.ellipsis)))
        for y, text in enumerate(lines or ["no kernels"])
    ]


# Moving


def move(scene: Scene, dx: int, dy: int) -> View:
    """Left and right: the time cursor; up and down: along the lowest GPUs."""
    if dx:
        return with_cursor(scene, dx)
    last = max(_listed(scene) - 1, 0)
    return replace(scene.view, row=min(max(scene.view.row + dy, 0), last))


def _listed(scene: Scene) -> int:
    parts = layout(scene)
    return min(
        parts.lowest - (parts.bars > 0 or parts.lowest > LOWEST_FEW), len(lowest(scene.frame, scene.view.selection))
    )


def enter(scene: Scene) -> View | None:
    """GPUs, with the one under the cursor."""
    n = _listed(scene)
    if n <= 0:
        return None
    gpu = lowest(scene.frame, scene.view.selection)[min(scene.view.row, n - 1)]
    return scene.view.down(screen="gpus", gpu=int(gpu), row=0, top=0)


def click(scene: Scene, x: int, y: int) -> View | None:
    """In the chart: the time cursor; on a GPU: that one."""
    parts, grid = layout(scene), scene.frame.grid
    top = parts.score + parts.causes + parts.bars
    if top <= y < top + parts.chart:
        folded = fold(grid, grid.values[0], max(scene.width - GUTTER, 1)) if scene.frame.n_gpus else None
        if folded is None or not 0 <= x - GUTTER < folded.n:
            return None
        return replace(scene.view, cursor=folded.start + (x - GUTTER + 0.5) * folded.width)
    row = y - top - parts.chart - (parts.lowest - _listed(scene))
    if 0 <= row < _listed(scene):
        return replace(scene.view, row=row)
    return None


MANY = 64
"""Above so many GPUs the band is from the 5th to the 95th percentile around the median, not from the lowest to the highest
around the mean."""


@once
def space_of(frame: Frame, selection: tuple[int, ...]) -> Space:
    """The grid over the GPUs at these positions; over all without any."""
    if not selection:
        return frame.space
    return over_space(frame.grid.values[[gpu for gpu in selection if gpu < frame.n_gpus]])


def series_rows(scene: Scene, height: int, with_axis: bool = True) -> list[Row]:
    """``height`` rows as wide as the scene: a title with the legend, the chart, and (``with_axis``) the times."""
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    name = frame.grid.metric
    full = full_scale(frame, name)
    cells = max(scene.width - GUTTER, 1)
    many = len(scene.looked_at()) > MANY
    single = len(scene.looked_at()) == 1
    space = space_of(frame, view.selection)
    shown = (space.p50, space.p05, space.p95, space.low) if many else (space.mean, space.low, space.high, space.low)
    folded = fold(frame.grid, np.stack(shown) / full, cells)
    line, low, high, floor = folded.values[0], folded.low[1], folded.high[2], folded.low[3]
    nothing = np.full(folded.n, np.nan)
    cursor = None if view.cursor is None else folded.column(view.cursor)
    chart = fan(
        line, nothing if single else low, nothing if single else high, max(height - 1 - with_axis, 1), glyphs,
        floor if many else None, cursor,
    )  # fmt: skip
    step = seconds_text(folded.width)
    right = Span(f"1 column = {step}", "dim")
    if cursor is not None:
        at = at_text(frame, folded.start + cursor * folded.width)
        values = np.array([line[cursor], low[cursor], high[cursor]]) * full
        right = Span(f"{at} +{step}: {_values(values, name, single)}", "value")
    title = f"{metric_of(name).label}, {unit_of(metric_of(name)).name}".rstrip(", ")
    rows = [rule(title, scene.width, glyphs, (Span(gpus_text(scene)), *legend(many, single, glyphs)), (right,))]
    rows += framed(chart, full, name, glyphs)
    if with_axis and height > 2:
        rows.append((Span(" " * GUTTER), Span(time_labels(frame, folded, cells), "dim")))
    return rows[:height]


def legend(many: bool, single: bool, glyphs: Glyphs) -> tuple[Span, ...]:
    """What the marks of the chart mean."""
    ascii_only = glyphs.levels.isascii()
    line, band, dot = ("o", ".", "_") if ascii_only else ("⠒", "⢕", "⠄")
    if single:
        return ()
    if many:
        return Span(f"{line} p50", "series"), Span(f"{band} p05 to p95", "band"), Span(f"{dot} lowest", "dim")
    return Span(f"{line} mean", "series"), Span(f"{band} lowest to highest", "band")


def _values(values: Floats, name: str, single: bool) -> str:
    unit = unit_of(metric_of(name))
    line, low, high = (fixed(value * unit.factor, unit.decimals) for value in values.tolist())
    return line if single else f"{line} ({low} to {high})"
