"""Time: when the GPUs were used and when not. Similar GPUs, or neighbours, share a line; below, how many were busy.

After the master timeline and the summary timeline of Vampir (Knüpfer and others, The Vampir Performance Analysis Tool-Set,
2008).

The summary timeline, the axis, and what all metrics say at the cursor.
"""

from dataclasses import replace

import numpy as np

from gssr.model.live.frame import BUSY, IDLE
from gssr.model.live.nodes import host_means
from gssr.render.cells import as_many, cell_width, clip, pad
from gssr.render.clock import step_text
from gssr.render.marks import blank, code, marks
from gssr.render.roles import Role, Row, Span, text_of
from gssr.render.scale import NONE, plural
from gssr.render.shares import legend, stacked
from gssr.render.table import rule
from gssr.tui.axis import gpus_text, metric_bars, seconds_text, time_labels
from gssr.tui.screens import alike, lanes
from gssr.tui.screens.lanes import counter_rows
from gssr.tui.screens.time_lines import (
    NARROW,
    Part,
    draw_cursor,
    head_row,
    line_rows,
    part_of,
    room,
    room_of,
    share,
    title_row,
)
from gssr.tui.view import Scene, View, moved, with_cursor


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted: one for each cell."""
    del view
    return max(width - room(width, height).left, 1)


def rows(width: int, height: int) -> int:
    """Lines that the timeline may have."""
    return room(width, height).lines


def draw(scene: Scene) -> list[Row]:
    """The timeline, the summary, and what all metrics say at the cursor."""
    if scene.view.opened:
        return lanes.draw(scene)
    parts = room_of(scene)
    part = part_of(scene)
    if part is None:
        return [clip((Span("one moment", "dim"),), scene.width)]
    if scene.frame.part is not None and scene.frame.part.line_split is not None:
        return alike.draw(scene, part, scene.frame.part)
    drawn: list[Row] = []
    if parts.title:
        drawn.append(title_row(scene, part))
    if parts.head:
        drawn.append(head_row(scene, part))
    drawn += line_rows(scene, part)
    drawn += summary_rows(scene, part)
    drawn += counter_rows(scene, parts.left, parts.counters) if part.split is not None else step_rows(scene, part)
    if parts.axis:
        drawn.append(axis_row(scene, part))
    below = panel_rows(scene, part, parts.panel)
    drawn = drawn[: max(scene.height - len(below), 0)]
    drawn += [()] * (scene.height - len(below) - len(drawn))
    return [clip(row, scene.width) for row in [*drawn, *below][: scene.height]]


def move(scene: Scene, dx: int, dy: int) -> View:
    """Sideways the time cursor, up and down the line."""
    if scene.view.opened:
        return lanes.move(scene, dx, dy)
    view = with_cursor(scene, dx) if dx else scene.view
    timeline = scene.frame.timeline
    if not dy or timeline is None:
        return view
    n = len(timeline.members)
    at = min(max(view.row, 0), max(n - 1, 0))
    return replace(view, row=moved(at, dy, share(room_of(scene), n).shown, n))


def enter(scene: Scene) -> View | None:
    """The GPUs of the line under the cursor; of a trace one GPU's tracks, or the lines of several."""
    if scene.view.opened:
        return lanes.enter(scene)
    part = part_of(scene)
    if part is None or not len(part.timeline.members):
        return None
    members = part.timeline.members[part.line]
    if not len(members):
        return None
    if scene.frame.part is not None:
        one = len(members) == 1
        name = scene.frame.place(int(members[0])) if one else part.name(scene.frame, part.line)
        return scene.view.down(opened=one, selection=tuple(members.tolist()), selected=name, row=0, top=0)
    return scene.view.down(
        screen="gpus", selection=tuple(members.tolist()), selected=part.name(scene.frame, part.line), gpu=int(members[0]),
        row=0, top=0,
    )  # fmt: skip


def click(scene: Scene, x: int, y: int) -> View | None:
    """The column and the line under the mouse; the name of the line that the cursor is on already, its GPUs."""
    if scene.view.opened:
        return lanes.click(scene, x, y)
    part = part_of(scene)
    if part is None:
        return None
    if scene.frame.part is not None and scene.frame.part.line_split is not None:
        line = (y - 1) // alike.rows_each(scene, len(part.timeline.members))
        there = y > 0 and line < len(part.timeline.members)
        return None if not there else enter(scene) if line == part.line else replace(scene.view, row=line)
    parts = room_of(scene)
    above = parts.title + parts.head
    line = part.top + (y - above) // part.shares.tall
    on_line = above <= y < above + part.shares.shown * part.shares.tall and line < len(part.timeline.members)
    if x < parts.left:
        if not on_line:
            return None
        return enter(scene) if line == part.line else replace(scene.view, row=line)
    column = x - parts.left
    if y < parts.title or column >= part.columns.n:
        return None
    time = part.columns.start + (column + 0.5) * part.columns.width
    view = replace(scene.view, cursor=min(max(time, scene.frame.first), scene.frame.last))
    return replace(view, row=line) if on_line else view


__all__ = ["Part", "click", "columns", "draw", "enter", "move", "rows"]


_KINDS: tuple[tuple[str, str, Role], ...] = (
    ("busy", f">={100 * BUSY:.0f} %", "ramp4"), ("medium", "", "ramp2"), ("idle", f"<{100 * IDLE:.0f} %", "ramp0"),
)  # fmt: skip
"""Name, bounds (of the full scale) and role of the three shares."""
_BESIDE = ("host:cpu_utilization", "host:read_bytes", "host:net_rx_bytes", "host:write_bytes", "host:net_tx_bytes",
           "host:fabric_rx_bytes", "host:fabric_tx_bytes")  # fmt: skip
"""What the nodes did meanwhile, what loads data first."""
_SOME = 1e-6
"""A share above this is one: the rest is rounding."""


def summary_rows(scene: Scene, part: Part) -> list[Row]:
    """The shares of GPUs that are busy, medium and idle, one upon the other; a share that is there at all is seen."""
    height = part.shares.summary
    if not height:
        return []
    if part.split is not None:
        return _split_rows(scene, part, part.split[-1])
    box = blank(height, part.columns.n)
    known = np.isfinite(part.busy[0])
    busy, idle = np.where(known, part.busy[0], 0.0), np.where(known, part.busy[2], 0.0)
    middle = (np.arange(height)[::-1, None] + 0.5) / height
    kind = np.where(middle < busy, 0, np.where(middle < 1 - idle, 1, 2))
    if height >= len(_KINDS):
        medium = 1 - busy - idle > _SOME
        kind[0, idle > _SOME] = 2
        kind[0, (idle <= _SOME) & medium] = 1
        kind[1, medium & ~(kind == 1).any(axis=0)] = 1
        kind[-1, busy > _SOME] = 0
    for index, (_, _, role) in enumerate(_KINDS):
        box.chars[(kind == index) & known] = scene.glyphs.shares[index]
        box.codes[(kind == index) & known] = code(role)
    if part.cursor is not None:
        draw_cursor(box, part.cursor, scene)
    labels = [_label(scene, part, index) for index in range(len(_KINDS))] if height >= len(_KINDS) else []
    if not labels:
        labels = [(Span("  busy share", "dim"),)]
    labels += [()] * (height - len(labels))
    rows = [rule(f"share of {plural(scene.frame.noun)}", scene.width, scene.glyphs)] if part.room.rule else []
    return rows + [(*pad(label, part.room.left), *row) for label, row in zip(labels, box.rows(), strict=True)]


def _split_rows(scene: Scene, part: Part, split: np.ndarray) -> list[Row]:
    """The same of a trace: the shares of all lines' time by category, named where there is room."""
    box = stacked(split, part.shares.summary)
    if part.cursor is not None:
        draw_cursor(box, part.cursor, scene)
    shares = scene.frame.part.total if part.cursor is None else split[part.cursor]  # type: ignore[union-attr]
    labels: list[Row] = [(Span("  "), *row) for row in legend(shares.tolist())][: part.shares.summary]
    labels += [()] * (part.shares.summary - len(labels))
    rows = [rule(f"share of {scene.frame.noun} time", scene.width, scene.glyphs)] if part.room.rule else []
    left = part.room.left
    return rows + [(*pad(clip(label, left - 1), left), *row) for label, row in zip(labels, box.rows(), strict=True)]


def _share(part: Part, index: int) -> str:
    """A share in percent: at the cursor, else on average of the window."""
    values = part.busy[index] if part.cursor is None else part.busy[index, part.cursor : part.cursor + 1]
    known = values[np.isfinite(values)]
    if not len(known):
        return NONE
    share = float(known.mean())
    if _SOME < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 - _SOME else f"{100 * share:.0f} %"


def _label(scene: Scene, part: Part, index: int) -> Row:
    name, bounds, role = _KINDS[index]
    room = part.room.left - 5
    value = _share(part, index)
    text = f"{name} {bounds}" if len(name) + len(bounds) + 2 + len(value) <= room else name
    return (
        Span("  "), Span(scene.glyphs.shares[index], role), Span(f" {text:<{room - len(value)}}"), Span(value, "value")
    )  # fmt: skip


def step_rows(scene: Scene, part: Part) -> list[Row]:
    """How long a step took, column by column, up to the longest; nothing where it is not known or there is no room."""
    judgement = scene.frame.judgement
    if judgement is None or judgement.step is None or not part.room.counters:
        return []
    step, n = judgement.step, part.columns.n
    lengths = np.full(n, np.nan)
    if step.series:
        times, seconds = np.array(step.series).T
        middle = part.columns.start + part.columns.width * (np.arange(n) + 0.5)
        at = np.searchsorted(times, middle, "right") - 1
        lengths = np.where((at >= 0) & (middle <= judgement.end), seconds[np.maximum(at, 0)], np.nan)
    drawn = marks(lengths[None] / max(np.nanmax(lengths, initial=0.0), step.seconds), scene.glyphs)
    drawn.codes[:] = code("series")
    if part.cursor is not None:
        drawn.codes[:, part.cursor] = code("cursor")
        step = replace(step, seconds=float(lengths[part.cursor])) if np.isfinite(lengths[part.cursor]) else step
    text = step_text(step, scene.frame.first, scene.frame.last)
    pieces: list[Row] = [(Span("  step ", "dim"), Span(piece, "value")) for piece in (text, text.partition(" ±")[0])]
    label = next((row for row in pieces if cell_width(text_of(row)) < part.room.left), pieces[-1])
    return [(*pad(clip(label, part.room.left - 1), part.room.left), *drawn.rows()[0])]


def axis_row(scene: Scene, part: Part) -> Row:
    """The times under the columns."""
    labels = time_labels(scene.frame, part.columns, scene.width - part.room.left)
    step = seconds_text(part.columns.width)
    text = f"1 column = {step} " if part.room.left > NARROW[0] else f"1 = {step} "
    return (Span(text[: part.room.left].rjust(part.room.left), "dim"), Span(labels, "dim"))


def panel_rows(scene: Scene, part: Part, height: int) -> list[Row]:
    """What all metrics say in the cursor's column; without a cursor, on average of the window."""
    if not height:
        return []
    frame, view = scene.frame, scene.view
    if part.split is not None:
        cursor = part.cursor
        shares = legend((frame.part.total if cursor is None else part.split[-1, cursor]).tolist())  # type: ignore[union-attr]
    else:
        shares = [
            (Span(f"{_share(part, index)} ", "value"), Span(name, "dim")) for index, (name, _, _) in enumerate(_KINDS)
        ]
    if part.cursor is None:
        looked_at = scene.looked_at() if view.selection else None
        means = {**host_means(frame.host), **frame.window.overall(looked_at)}
        when = "mean of the window"
    else:
        means = dict(frame.moment)
        when = f"at {part.at(frame)} +{seconds_text(part.columns.width)}"
    if height == 1:
        return [as_many([(Span(when, "heading"),), *shares], scene.width)]
    hint = (Span("left/right: time cursor", "dim"),) if part.cursor is None else ()
    about = (Span(gpus_text(scene)), Span(", ".join(text_of(share) for share in shares), "value"))
    rows = [rule(when, scene.width, scene.glyphs, about, hint)]
    beside = () if frame.by_node else [name for name in _BESIDE if means.get(name) is not None]
    return rows + metric_bars(frame, means, scene.width, height - 1, scene.glyphs, frame.grid.metric, beside=beside)
