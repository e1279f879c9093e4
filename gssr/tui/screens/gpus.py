"""Which GPUs differ: all of them, sorted and filtered, with their numbers and their course over time."""

from dataclasses import replace

import numpy as np

from gssr.render.cells import cell_width, clip, fit, flow
from gssr.render.roles import Row, Span, one_row
from gssr.render.scale import count, metric_of, quantity, scale_text, unit_of
from gssr.render.table import rule
from gssr.tui.axis import GUTTER, ORDER, at_text, full_scale, seconds_text
from gssr.tui.gpu_rows import (
    Listing,
    apart_rows,
    blocks,
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
from gssr.tui.order import BY_PROCESS
from gssr.tui.screens.processes import process_rows
from gssr.tui.view import Scene, View, moved, with_cursor

_LEAST_CHARTED, _FEW, _FEWEST = 12, 16, 6
"""From so many rows that the list leaves on they hold charts beside processes, which are those of so many GPUs at most, in
at least so many rows."""
_SORTS = {
    "place": "place", "now": "newest value", "mean": "mean", "p05": "p05", "p95": "p95",
    "memory": "memory of their processes", "SM": "SM share of their processes", "user": "user of their processes",
}  # fmt: skip


_WAYS = {"place": ("node by node", "the other way round"), "user": ("A to Z", "Z to A")}


def columns(view: View, width: int, height: int) -> int:
    """One for each cell of the chart under the list; strips are shorter."""
    return max(width - GUTTER, 1)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    shown = listing(scene)
    under = [_about(scene, shown), _legend(scene, shown)][2 - foot(scene.height) :]
    if shown.at < 0:
        rows = [_title(scene, shown, scene.frame.grid.width), (), *_nobody(scene, shown)]
    else:
        rows, step = (rows_of if shown.mode == "rows" else columns_of)(scene, shown)
        rows = [_title(scene, shown, step), *rows]
        spare = _below(scene, shown)
        if blocks(shown, spare):
            rows += charts_of(scene, shown, spare)
            under = under[1:]
        rows += process_rows(scene, _looked_at(shown), _processes(scene, shown))
    room = max(scene.height - len(under), 0)
    rows = [*rows[:room], *[()] * (room - len(rows)), *under]
    return [clip(row, scene.width) for row in rows]


def _below(scene: Scene, shown: Listing) -> int:
    """Rows for charts under the list: of those that are left some are for processes."""
    return _left(scene, shown) - _processes(scene, shown)


def _left(scene: Scene, shown: Listing) -> int:
    """Rows that title, list and legend leave."""
    return scene.height - 3 - min(shown.room, -(-len(shown.visible) // shown.across))


def _processes(scene: Scene, shown: Listing) -> int:
    """Rows for the processes on the GPUs in sight, where these are known: a title, titles of columns, one each. Where there
    is little room they have it before charts have."""
    frame, left, gpus = scene.frame, _left(scene, shown), _looked_at(shown)
    n = sum(process.gpu in gpus for process in frame.processes)
    if not n:
        return int(left >= _LEAST_CHARTED and bool(frame.without_process.intersection(gpus)))
    return min(n + 2, max(left, 0) if left < _LEAST_CHARTED else max(left // 3, left - _LEAST_CHARTED, _FEWEST))


def _looked_at(shown: Listing) -> list[int]:
    """Positions of the GPUs whose processes are listed: those in sight, of many the one under the cursor."""
    return shown.visible.tolist() if len(shown.visible) <= _FEW else [shown.gpu]


def _title(scene: Scene, shown: Listing, step: float) -> Row:
    frame, view = scene.frame, scene.view
    metric = metric_of(frame.grid.metric)
    sort = "value at the cursor" if view.sort == "now" and view.cursor is not None else _SORTS[view.sort]
    usual, other = _WAYS.get(view.sort, ("highest first", "lowest first")[:: 1 if view.sort in BY_PROCESS else -1])
    what = "nodes" if frame.by_node else "GPUs"
    title = f"{what} by {sort}, {other if view.reverse else usual}"
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
        (Span(f" {glyphs.levels[0]} 0 {apart_rows(glyphs).levels[-1]} {full}, blank none", "dim"),),
        (Span("!", "outlier"), Span(" outlier", "dim")),
    ]
    if frame.part is None:
        pieces += [(Span("g", "gap"), Span(" gap", "dim")), (Span("t", "bad"), Span(" throttled", "dim"))]
    if shown.mode == "rows" and scene.width >= 140:
        pieces.append((Span("p05, p95 of the columns", "dim"),))
    if shown.mode == "columns":
        pieces.append((Span("underlined", "low2"), Span(" dips below half", "dim")))
    pieces.append((Span("now, and class of the last minute" if frame.is_live else "means of the window", "dim"),))
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
    charted = scene.height - 1 - _below(scene, shown)
    for at, height in blocks(shown, _below(scene, shown)):
        if charted <= y < charted + height:
            return _to(scene, shown, at)
        charted += height
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
