"""Time: when the GPUs were used and when not. Similar GPUs, or neighbours, share a line; below, how many were busy.

After the master timeline and the summary timeline of Vampir (Knüpfer and others, The Vampir Performance Analysis Tool-Set,
2008).
"""

from dataclasses import replace

from gssr.render.cells import clip
from gssr.render.roles import Row, Span
from gssr.tui.cursor import moved, with_cursor
from gssr.tui.screens.time_layout import room, share
from gssr.tui.screens.time_lines import head_row, line_rows, title_row
from gssr.tui.screens.time_part import Part, part_of
from gssr.tui.screens.time_summary import axis_row, panel_rows, summary_rows
from gssr.tui.view import Scene, View


def columns(view: View, width: int, height: int) -> int:
    """Columns of time wanted: one for each cell."""
    del view
    return max(width - room(width, height).left, 1)


def rows(width: int, height: int) -> int:
    """Lines that the timeline may have."""
    return room(width, height).lines


def draw(scene: Scene) -> list[Row]:
    """The timeline, the summary, and what all metrics say at the cursor."""
    parts = room(scene.width, scene.height)
    part = part_of(scene)
    if part is None:
        return [clip((Span("one moment", "dim"),), scene.width)]
    drawn: list[Row] = []
    if parts.title:
        drawn.append(title_row(scene, part))
    if parts.head:
        drawn.append(head_row(scene, part))
    drawn += line_rows(scene, part)
    drawn += summary_rows(scene, part)
    if parts.axis:
        drawn.append(axis_row(scene, part))
    below = panel_rows(scene, part, parts.panel)
    drawn = drawn[: max(scene.height - len(below), 0)]
    drawn += [()] * (scene.height - len(below) - len(drawn))
    return [clip(row, scene.width) for row in [*drawn, *below][: scene.height]]


def move(scene: Scene, dx: int, dy: int) -> View:
    """Sideways the time cursor, up and down the line."""
    view = with_cursor(scene, dx) if dx else scene.view
    timeline = scene.frame.timeline
    if not dy or timeline is None:
        return view
    n = len(timeline.members)
    at = min(max(view.row, 0), max(n - 1, 0))
    return replace(view, row=moved(at, dy, share(room(scene.width, scene.height), n).shown, n))


def enter(scene: Scene) -> View | None:
    """The GPUs of the line under the cursor."""
    part = part_of(scene)
    if part is None or not len(part.timeline.members):
        return None
    members = part.timeline.members[part.line]
    if not len(members):
        return None
    return scene.view.down(
        screen="gpus", selection=tuple(members.tolist()), selected=part.name(scene.frame, part.line), gpu=int(members[0]),
        row=0, top=0,
    )  # fmt: skip


def click(scene: Scene, x: int, y: int) -> View | None:
    """The column and the line under the mouse; the name of the line that the cursor is on already, its GPUs."""
    part = part_of(scene)
    if part is None:
        return None
    parts = room(scene.width, scene.height)
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
