"""How well is the job using its GPUs: the score, what the rules say, the key metrics, the course over time, and who is
lowest.

The space average over time: the chart that Job leads with.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import best_measured
from gssr.model.cached import once
from gssr.model.findings.notes import why_no_gpu
from gssr.model.live.attention import attention, culprits
from gssr.model.live.frame import RECENT_SECONDS, Frame, TracePart
from gssr.model.results import Means, Space, over_space
from gssr.model.statistics.balance import imbalance
from gssr.model.traces.results import TraceAnalysis
from gssr.model.traces.tables import TABLES
from gssr.render.cells import cell_width, clean, clip, fit, flow, pad
from gssr.render.clock import duration, exact, moment
from gssr.render.columns import bar
from gssr.render.fan import fan
from gssr.render.glyphs import drawable
from gssr.render.roles import Role, Row, Span, one_row, text_of
from gssr.render.scale import UNKNOWN, count, fixed, metric_of, number, percent, quantity, unit_of
from gssr.render.shares import legend as categories
from gssr.render.shares import split_bar
from gssr.render.table import rule
from gssr.score import CAVEAT, DEFINITION, FAIR, GOOD, how_to_measure, word
from gssr.store.format.rows import Event
from gssr.tui.axis import (
    GUTTER,
    at_text,
    event_text,
    framed,
    full_scale,
    gpus_text,
    in_cells,
    metric_bars,
    rows_needed,
    seconds_text,
    time_labels,
    told,
    window_text,
)
from gssr.tui.gpu_rows import MARKS, folded_to, mark_row, mean_of, strips_of
from gssr.tui.screens.headlines import ACCOUNT_HEIGHT, account_rows, headlines
from gssr.tui.steady_order import SteadyOrders
from gssr.tui.view import Scene, View, with_cursor

SMALL_WIDTH, SMALL_HEIGHT = 60, 14
"""A smaller box shows the score, one chart and the lowest few."""
LOWEST_FEW = 3
_MOST_CULPRITS = 8
_ORDINARY = ("start", "end")
_WORDS = (
    "from mean SM activity, occupancy and pipe activity",
    "from the mean SM activity, occupancy and pipe activity of all GPUs and samples",
    f"from the mean SM activity, occupancy and pipe activity of all GPUs and samples; {CAVEAT}",
    f"from the mean SM activity A, occupancy O and pipe activity F of all GPUs and samples: {DEFINITION}; {CAVEAT}",
)
_MOST_CAUSES, _USUAL_CAUSES = 5, 3
_ACCOUNT_ROWS = 2
"""Where the GPU time went is said in so many rows."""
_BESIDE = 8
"""Cells that a GPU's mean takes beside its name."""
_TALL = 30
"""A box of so many rows says what the score is made of, and has blank rows between its parts."""


class JobLayout(NamedTuple):
    """Rows of each part, from the top down; 0 leaves it out. ``causes``: where the GPU time went and
    the worst verdicts; ``score`` with its definition;
    ``bars`` and ``lowest`` with their headings, ``chart`` with its title and its times."""

    causes: int
    score: int
    bars: int
    chart: int
    lowest: int
    events: int


def left(width: int) -> int:
    """Cells left of the chart and of the strips under it, whose columns are the same times."""
    return GUTTER if width < SMALL_WIDTH else 22 if width < 100 else 28


def columns(view: View, width: int, height: int) -> int:
    """One for each cell of the chart."""
    return max(width - left(width), 1)


def layout(scene: Scene) -> JobLayout:
    """How the rows are shared: what matters most comes first, and the chart takes what is left."""
    frame, height = scene.frame, scene.height
    listed, n_culprits = len(to_look_at(scene)), len(culprits(frame))
    if scene.width < SMALL_WIDTH or height < SMALL_HEIGHT:
        few = min(LOWEST_FEW, listed, max(height - 4, 0))
        causes, score = int(height >= 7) + (height >= 10), 1
        return JobLayout(causes, score, 0, max(height - score - causes - few, 0), few, 0)
    spare = max(height - 22, 0)
    bars = min(3 + spare // 6, rows_needed(scene.by_gpus().frame, scene.width, frame.is_live)) if height >= 19 else 0
    happened = len(notable(frame)) if frame.part is None else height
    events = min(2 + spare // 6 if height >= 21 else 1 if height >= 18 else 0, happened)
    few = min(max(min(n_culprits, _MOST_CULPRITS) + 1, LOWEST_FEW) if height >= 21 else LOWEST_FEW, listed)
    score = 3 if height >= _TALL or frame.part is not None else 1 + (scene.by_gpus().frame.whole.score() is None)
    most = min(2 + (height >= 20) + spare // 4, _MOST_CAUSES)
    causes = len(_account(scene)) + len(headlines(scene, most, " ")) + (height >= _TALL)
    if frame.judgement is None and frame.query.causes is not None:  # then little moves once it is judged
        causes = min(most, _USUAL_CAUSES + (height >= _TALL)) + (height >= _TALL) + _ACCOUNT_ROWS * _has_account(scene)
    rest = height - score - causes - (bars + 1 if bars else 0) - few - 1 - events
    return JobLayout(causes, score, bars + 1 if bars else 0, rest, few + 1, events)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    parts = layout(scene)
    small = parts.bars == 0 and parts.lowest <= LOWEST_FEW
    rows = [drawable(row, scene.glyphs) for row in _causes(scene, parts.causes)]
    rows += _score(scene.by_gpus(), parts.score)
    if parts.bars:
        rows += _bars(scene.by_gpus(), parts.bars)
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
    score, recent = frame.whole.score(gpus), frame.recent.score(gpus)
    known = {name: mean for name, mean in frame.whole.overall(gpus).items() if mean is not None}
    best = None if score is not None else best_measured(known)
    label, full = "score", 1.0
    shown, lately = f"{fixed(score, 3, UNKNOWN)} {_word(frame, score)}".rstrip(), fixed(recent, 3, UNKNOWN)
    if best is not None:
        score, recent = known[best], frame.recent.overall(gpus).get(best)
        label, full = metric_of(best).short, full_scale(frame, best)
        shown, lately = (quantity(value, metric_of(best)) for value in (score, recent))
    pieces: list[Row] = [(Span(shown, "value"),)]
    if frame.is_live:
        pieces.append((Span("now ", "dim"), Span(lately, "value"), Span(f" (last {_recent(frame)})", "dim")))
    gaps = int((frame.n_gaps if gpus is None else frame.n_gaps[gpus]).sum())
    samples = f"{count(_samples(frame.whole, gpus), 'sample')}, {count(gaps, 'gap') if gaps else 'no gaps'}"
    pieces.append((Span(f"whole run, {duration(frame.last - frame.first)}: {samples}", "dim"),))
    line = flow(pieces, max(scene.width - 7, 0), scene.glyphs.ellipsis, "   ")[0]
    room = min(scene.width - 8 - cell_width(text_of(line)), 40)
    track = (Span(" "), *bar(None if score is None else score / full, room - 1, scene.glyphs)) if room > 8 else ()
    rows: list[Row] = [(Span(f" {label:<5} ", "heading"), *line, *track)]
    words = [text for text in _WORDS if len(text) + 7 <= scene.width]
    about = words[-1] if words else ""
    if frame.whole.score(gpus) is None:
        why = how_to_measure(frame.gpus[0].backend) or "SM activity, occupancy or a pipe was not measured"
        why = "".join(["no GPU was recorded", *why_no_gpu(frame.events)]) if frame.by_node else why
        about = f"score unknown: {why}"
    rows.append((Span(" " * 7), Span(fit(about, max(scene.width - 7, 0), scene.glyphs.ellipsis), "dim")))
    return [*rows, ()][:n_rows]


def _recent(frame: Frame) -> str:
    return f"{min(RECENT_SECONDS, max(frame.last - frame.first, 0.0)):.0f} s"


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


def _samples(means: Means, gpus: Ints | None) -> int:
    """Rows that were counted: each GPU's best-covered metric."""
    if not len(means.n):
        return 0
    counts = means.n if gpus is None else means.n[:, gpus]
    return int(counts.max(axis=0).sum())


# What the rules say


def _has_account(scene: Scene) -> bool:
    """Whether there is room to say where the GPU time went."""
    return scene.width >= SMALL_WIDTH and scene.height >= ACCOUNT_HEIGHT


def _account(scene: Scene) -> list[Row]:
    return [(Span(" "), *row) for row in account_rows(scene, scene.width - 2)] if _has_account(scene) else []


def _causes(scene: Scene, n_rows: int) -> list[Row]:
    """Where the GPU time went, and the worst verdicts on the window; the rest of them is on Why."""
    account = _account(scene)
    rows = [*account, *headlines(scene, n_rows - len(account), " ")] if n_rows else []
    return rows + [()] * (n_rows - len(rows))


# The metrics


def _bars(scene: Scene, n_rows: int) -> list[Row]:
    frame, view = scene.frame, scene.view
    gpus = scene.looked_at() if view.selection else None
    means, now = frame.window.overall(gpus), frame.recent.overall(gpus) if frame.is_live else None
    what = f"mean of {window_text(frame)}"
    asked = (frame.query.cursor, frame.query.gpus)
    if view.cursor is not None and asked == (view.cursor, view.selection) and frame.moment:
        means, now = dict(frame.moment), None
        at = frame.grid.start + frame.grid.column(view.cursor) * frame.grid.width
        what = f"mean at {at_text(frame, at)} +{seconds_text(frame.grid.width)}"
    elif now is not None:
        what = f"now (last {_recent(frame)}), and {what}"
    head = rule("metrics", scene.width, scene.glyphs, (Span(what, "dim"), Span(gpus_text(scene), "dim")))
    return [head, *metric_bars(frame, means, scene.width, n_rows - 1, scene.glyphs, frame.grid.metric, now)]


# The GPUs to look at


def to_look_at(scene: Scene) -> Ints:
    """Positions of the GPUs of the selection (of all without one): those that the rules blame first, then the lowest mean of
    the window; those without any last."""
    return _to_look_at(scene.frame, scene.orders, scene.view.selection)


@once
def _to_look_at(frame: Frame, orders: SteadyOrders, selection: tuple[int, ...]) -> Ints:
    means, full = frame.window.per_gpu(frame.grid.metric), full_scale(frame, frame.grid.metric)
    gpus = np.array(
        [gpu for gpu in selection if gpu < frame.n_gpus] if selection else np.arange(frame.n_gpus), np.int64
    )
    blamed = np.isin(gpus, culprits(frame))
    both = (gpus[blamed], gpus[~blamed])
    return np.concatenate([own[orders.steady(frame, "to look at", own, means[own], full)] for own in both])


def _lowest(scene: Scene, n_rows: int, headed: bool) -> list[Row]:
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    n = n_rows - headed
    if n_rows <= 0:
        return []
    gpus = to_look_at(scene)[: max(n, 0)]
    rows: list[Row] = []
    if headed:
        means = frame.window.per_gpu(frame.grid.metric, scene.looked_at())
        uneven = imbalance(means[np.isfinite(means)])
        about = "" if uneven is None or len(means) < 2 else f"imbalance {percent(uneven)}"
        title = f"{frame.noun}s to look at" if culprits(frame) else f"lowest {frame.noun}s"
        rows.append(rule(title, scene.width, glyphs, (Span(about, "dim"),) if about else ()))
    beside = left(scene.width)
    size = beside - MARKS - _BESIDE if beside > GUTTER else max(min(scene.width - 12, 28), 1)
    room = scene.width - MARKS - size - _BESIDE
    strips = strips_of(scene, folded_to(scene, gpus, room), gpus) if beside > GUTTER else []
    for y, gpu in enumerate(gpus.tolist()):
        under = y == min(view.row, n - 1) and headed
        rows.append((*_gpu(scene, gpu, size, under), *(strips[y] if strips else ())))
    return rows + [()] * (n_rows - len(rows))


def _gpu(scene: Scene, gpu: int, size: int, under: bool) -> Row:
    """``!t nid000001:1   4.2``."""
    frame, glyphs = scene.frame, scene.glyphs
    letters = attention(frame).letters(gpu)
    role: Role = "cursor" if under and scene.view.row else "outlier" if "!" in letters else "plain"
    mean = mean_of(frame, gpu)
    return (
        *mark_row(letters, MARKS),
        *pad((Span(fit(frame.place(gpu), size, glyphs.ellipsis, "end"), role),), size),
        Span(f"{number(mean, metric_of(frame.grid.metric)):>{_BESIDE - 1}} ", "value"),
    )


# What happened


@once
def notable(frame: Frame) -> tuple[Event, ...]:
    """The events that are more than the workload's start and end, which the header tells."""
    return tuple(event for event in frame.events if event.kind not in _ORDINARY)


def _events(scene: Scene, n_rows: int) -> list[Row]:
    frame, glyphs = scene.frame, scene.glyphs
    if frame.part is not None:
        return _most(scene, frame.part.analysis, n_rows)
    events = notable(frame)[::-1][:n_rows]
    rows = []
    for y, event in enumerate(events):
        what = fit(told(frame, event), max(scene.width - 19, 0), glyphs.ellipsis)
        head = Span(" events " if y == 0 else " " * 8, "heading")
        rows.append(one_row([(head,), (Span(f"{event_text(frame, event.time):>9}", "dim"),), (Span(what),)]))
    return rows


def _most(scene: Scene, analysis: TraceAnalysis | None, n_rows: int) -> list[Row]:
    """Of a trace the kernels that took most, of one without any the calls; and the longest time without work."""
    label, blank = " most   ", " " * 8
    if analysis is None:
        return [(Span(label, "heading"), Span(f"counting{scene.glyphs.ellipsis}", "dim"))]
    tables = (TABLES[name].values(analysis) for name in ("kernels", "operators", "os", "ranges"))
    kernels = next((found for found in tables if len(found["name"])), TABLES["kernels"].values(analysis))
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
    headed = parts.bars > 0 or parts.lowest > LOWEST_FEW
    return min(parts.lowest - headed, len(to_look_at(scene)))


def enter(scene: Scene) -> View | None:
    """GPUs, with the one under the cursor."""
    n = _listed(scene)
    if n <= 0:
        return None
    gpu = to_look_at(scene)[min(scene.view.row, n - 1)]
    return scene.view.down(screen="gpus", gpu=int(gpu), row=0, top=0)


def click(scene: Scene, x: int, y: int) -> View | None:
    """In the chart: the time cursor; on a GPU: that one."""
    parts, grid = layout(scene), scene.frame.grid
    top, beside = parts.score + parts.causes + parts.bars, left(scene.width)
    if top <= y < top + parts.chart:
        drawn = in_cells(scene.frame, grid.values[0], max(scene.width - beside, 1)) if scene.frame.n_gpus else None
        if drawn is None or not 0 <= x - beside < drawn.n:
            return None
        return replace(scene.view, cursor=drawn.start + (x - beside + 0.5) * drawn.width)
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
    """``height`` rows as wide as the scene: a title, the chart with what its lines are beside it, and (``with_axis``) the
    times. What the rules blame has a line of its own."""
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    name = frame.grid.metric
    full, beside = full_scale(frame, name), left(scene.width)
    cells = max(scene.width - beside, 1)
    many = len(scene.looked_at()) > MANY
    single = len(scene.looked_at()) == 1
    space = space_of(frame, view.selection)
    blamed = () if single else culprits(frame)
    apart = over_space(frame.grid.values[list(blamed)]).mean if blamed else np.full(frame.grid.n, np.nan)
    shown = (space.p50, space.p05, space.p95, space.low, apart)
    if not many:
        shown = (space.mean, space.low, space.high, space.low, apart)
    drawn = in_cells(frame, np.stack(shown) / full, cells)
    line, low, high, floor = drawn.values[0], drawn.low[1], drawn.high[2], drawn.low[3]
    nothing = np.full(drawn.n, np.nan)
    cursor = None if view.cursor is None else drawn.column(view.cursor)
    chart = fan(
        line, nothing if single else low, nothing if single else high, max(height - 1 - with_axis, 1), glyphs,
        floor if many else None, cursor, drawn.values[4] if blamed else None,
    )  # fmt: skip
    step = seconds_text(drawn.width * drawn.times)
    right = Span(f"1 column = {step}", "dim")
    if cursor is not None:
        at = at_text(frame, drawn.start + cursor // drawn.times * drawn.times * drawn.width)
        values = np.array([line[cursor], low[cursor], high[cursor]]) * full
        right = Span(f"{at} +{step}: {_values(values, name, single)}", "value")
    title = f"{metric_of(name).label}, {unit_of(metric_of(name)).name}".rstrip(", ")
    lines = _lines(scene, many, single, blamed)
    about = (Span(gpus_text(scene)), *(() if beside > GUTTER else (span for row in lines for span in row)))
    rows = [rule(title, scene.width, glyphs, about, (right,))]
    rows += framed(chart, full, name, glyphs, beside, lines if beside > GUTTER else ())
    if with_axis and height > 2:
        rows.append((Span(" " * beside), Span(time_labels(frame, drawn, cells), "dim")))
    return rows[:height]


def _lines(scene: Scene, many: bool, single: bool, blamed: tuple[int, ...]) -> list[Row]:
    """What the lines of the chart are, one to a row."""
    line, band, dot = ("o", ".", "_") if scene.glyphs.levels.isascii() else ("⠒", "⢕", "⠄")
    if single:
        return []
    rows: list[Row] = []
    if many:
        rows += [(Span(f" {line} median {scene.frame.noun}", "series"),), (Span(f" {band} p05 to p95", "band"),)]
        rows.append((Span(f" {dot} lowest", "dim"),))
    else:
        rows += [(Span(f" {line} mean", "series"),), (Span(f" {band} low to high", "band"),)]
    if blamed:
        mark = "x" if line == "o" else line
        rows.insert(1, (Span(f" {mark} {_together(scene.frame, blamed)}", "outlier"),))
    return rows


def _together(frame: Frame, gpus: tuple[int, ...]) -> str:
    """What these GPUs are called in a few words."""
    if len(gpus) == 1:
        return frame.place(gpus[0])
    nodes = {int(frame.node_of[gpu]) for gpu in gpus}
    where = clean(frame.nodes[nodes.pop()]) if len(nodes) == 1 else f"of {len(nodes)} nodes"
    return f"{len(gpus)} {frame.noun}s, {where}"


def _word(frame: Frame, score: float | None) -> str:
    """What the score is called; good only where the rules find nothing critical."""
    critical = frame.judgement is not None and any(each.severity == "critical" for each in frame.judgement.verdicts)
    return FAIR if critical and word(score) == GOOD else word(score)


def _values(values: Floats, name: str, single: bool) -> str:
    unit = unit_of(metric_of(name))
    line, low, high = (fixed(value * unit.factor, unit.decimals) for value in values.tolist())
    return line if single else f"{line} ({low} to {high})"
