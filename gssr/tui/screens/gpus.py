"""Which GPUs differ: all of them, sorted and filtered, with their numbers and their course over time."""

from dataclasses import replace

import numpy as np

from gssr.render.cells import cell_width, clip, fit, flow
from gssr.render.roles import Row, Span, one_row
from gssr.render.scale import count, metric_of, quantity, scale_text, unit_of
from gssr.render.table import rule
from gssr.tui.axis import ORDER, at_text, full_scale, seconds_text
from gssr.tui.gpu_rows import (
    Listing,
    block_ends,
    chart_of,
    charts_of,
    columns_of,
    folded_to,
    foot,
    gap_texts,
    listing,
    name_width,
    rows_of,
    strip_width,
)
from gssr.tui.view import Scene, View, moved, with_cursor

_LEAST_SPARE, _MOST_SPARE = 6, 36
"""Rows that the list leaves show the GPU under the cursor."""
_SORTS = {"place": "place", "now": "newest value", "mean": "mean", "p05": "p05", "p95": "p95"}


def columns(view: View, width: int, height: int) -> int:
    """One for each cell of the strip of a GPU that has a row to itself."""
    return strip_width(width)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    shown = listing(scene)
    under = [_about(scene, shown), _legend(scene, shown)][2 - foot(scene.height) :]
    if shown.at < 0:
        rows = [_title(scene, shown, scene.frame.grid.width), (), *_nobody(scene, shown)]
    elif shown.mode == "detail":
        rows = charts_of(scene, shown)
        under = [_about(scene, shown) if shown.order.problem else _legend(scene, shown)]
    else:
        rows, step = (rows_of if shown.mode == "rows" else columns_of)(scene, shown)
        rows = [_title(scene, shown, step), *rows]
        spare = scene.height - 1 - len(rows)
        if spare >= _LEAST_SPARE and not shown.order.problem:
            rows += chart_of(scene, shown.gpu, min(spare, _MOST_SPARE))
            under = under[1:]
    room = max(scene.height - len(under), 0)
    rows = [*rows[:room], *[()] * (room - len(rows)), *under]
    return [clip(row, scene.width) for row in rows]


def _title(scene: Scene, shown: Listing, step: float) -> Row:
    frame, view = scene.frame, scene.view
    metric = metric_of(frame.grid.metric)
    sort = "value at the cursor" if view.sort == "now" and view.cursor is not None else _SORTS[view.sort]
    way = "the other way round" if view.sort == "place" else "highest first"
    title = f"GPUs by {sort}, {way if view.reverse else 'lowest first' if view.sort != 'place' else 'node by node'}"
    n, candidates = len(shown.order.gpus), shown.order.candidates
    about = [Span(f"{metric.label}, {unit_of(metric).name}")]
    if view.selection:
        about.append(Span(f"of {view.selected or count(candidates, 'GPU')}", "value"))
    if view.filter:
        failed = " not understood" if shown.order.problem else ""
        about.append(Span(f"filter {view.filter}{failed}", "bad" if failed else "value"))
    about.append(Span(f"{n:,} of {candidates:,} shown" if n < candidates else count(n, frame.noun)))
    right = f"1 column = {seconds_text(step)}"
    if view.cursor is not None:
        at = frame.grid.start + frame.grid.column(view.cursor) * frame.grid.width
        right = f"{at_text(frame, at)} +{seconds_text(frame.grid.width)}"
    return rule(title, scene.width, scene.glyphs, tuple(about), (Span(right, "dim"),))


def _nobody(scene: Scene, shown: Listing) -> list[Row]:
    text = f"no GPU of {shown.order.candidates:,} passes the filter {scene.view.filter}"
    return [(Span("  " + text, "title"),), (Span("  / changes it, Esc removes it", "dim"),)]


def _about(scene: Scene, shown: Listing) -> Row:
    """The GPU under the cursor: what is wrong with it, and what its other metrics say."""
    frame, gpu = scene.frame, shown.gpu
    if shown.order.problem:
        return (Span(f" filter: {fit(shown.order.problem, scene.width - 9, scene.glyphs.ellipsis)}", "bad"),)
    if gpu < 0:
        return ()
    means = frame.window.overall(np.array([gpu]))
    pieces: list[Row] = [(Span(f" {frame.place(gpu)}", "value"),)]
    pieces += [(Span(text, "gap"),) for text in gap_texts(frame, gpu)]
    for name in ORDER:
        if means.get(name) is not None and name != frame.grid.metric:
            metric = metric_of(name)
            pieces.append((Span(f"{metric.short} ", "dim"), Span(quantity(means[name], metric))))
    return flow(pieces, scene.width, scene.glyphs.ellipsis)[0]


def _legend(scene: Scene, shown: Listing) -> Row:
    """What the marks mean: as much of it as there is room for, the strips first."""
    frame, glyphs = scene.frame, scene.glyphs
    name = frame.grid.metric
    full = scale_text(metric_of(name), full_scale(frame, name))
    pieces: list[Row] = [
        (Span(f" {glyphs.levels[0]} 0 {glyphs.levels[-1]} {full}, blank none", "dim"),),
        (Span("!", "outlier"), Span(" outlier", "dim")),
    ]
    if frame.part is None:
        pieces += [(Span("g", "gap"), Span(" gap", "dim")), (Span("t", "bad"), Span(" throttled", "dim"))]
    n, candidates = len(shown.order.gpus), shown.order.candidates
    if shown.mode == "detail" and n < candidates:
        pieces.insert(0, (Span(f" {n} of {count(candidates, 'GPU')} by filter {scene.view.filter}", "value"),))
    if shown.mode == "rows" and scene.width >= 58:
        pieces.append((Span("p05, p95 of the columns", "dim"),))
    if shown.mode == "columns":
        pieces.append((Span("underlined", "low2"), Span(" dips below half", "dim")))
    pieces.append((Span("means of the window", "dim"),))
    line: list[Row] = []
    used = 0
    for piece in pieces:
        size = sum(cell_width(span.text) for span in piece) + 2
        if used + size - 2 > scene.width:
            break
        line.append(piece)
        used += size
    return one_row(line, "  ")


# Moving


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down: along the GPUs. Left and right: the time cursor, or along the GPUs of a row."""
    shown = listing(scene)
    if shown.at < 0:
        return scene.view
    if dx and shown.mode != "columns":
        return with_cursor(scene, dx)
    n, across = len(shown.order.gpus), shown.across
    at = min(max(shown.at + dx, 0), n - 1)
    if dy:
        row = moved(shown.at // across, dy, shown.room, -(-n // across))
        at = min(row * across + shown.at % across, n - 1)
    return _to(scene, shown, at)


def _to(scene: Scene, shown: Listing, at: int) -> View:
    after = replace(scene.view, gpu=int(shown.order.gpus[at]), top=shown.top)
    return replace(after, top=listing(scene._replace(view=after)).top)


def enter(scene: Scene) -> View | None:
    """Why this one."""
    gpu = listing(scene).gpu
    if gpu < 0:
        return None
    return scene.view.down(screen="why", selection=(gpu,), selected=scene.frame.place(gpu), gpu=gpu, row=0, top=0)


def click(scene: Scene, x: int, y: int) -> View | None:
    """The GPU there; on its strip the time too."""
    shown = listing(scene)
    n = len(shown.order.gpus)
    if shown.at < 0:
        return None
    if shown.mode == "detail":
        return next((_to(scene, shown, at) for at, end in enumerate(block_ends(shown)) if y < end), None)
    column = x // (scene.width // shown.across)
    at = (shown.top + y - 2) * shown.across + column
    if not 2 <= y < 2 + shown.room or column >= shown.across or at >= n:
        return None
    view = _to(scene, shown, at)
    if shown.mode == "rows":
        folded = folded_to(scene, shown.visible[:1], strip_width(scene.width))
        cell = x - (scene.width - strip_width(scene.width))
        if 0 <= cell < folded.n and name_width(scene.width) < x:
            return replace(view, cursor=folded.start + (cell + 0.5) * folded.width)
    return view
