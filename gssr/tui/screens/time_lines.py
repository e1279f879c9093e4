"""The lines of the timeline: who, how many, how well on average, and their course."""

import numpy as np

from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.render import events
from gssr.render.cells import as_many, cell_width, clean, clip, fit, pad
from gssr.render.marks import Marks, bars, blank, code
from gssr.render.roles import RAMP, RAMP_LOW, Role, Row, Span, text_of
from gssr.render.scale import metric_of, number, scale_text, unit_of
from gssr.store.format.rows import Event
from gssr.tui.axis import full_scale
from gssr.tui.scope import gpus_text, window_text
from gssr.tui.screens.time_layout import MEDIUM, NARROW, WIDE
from gssr.tui.screens.time_part import Part
from gssr.tui.view import Scene


def title_row(scene: Scene, part: Part) -> Row:
    """Which metric, of whom and when, and what the marks mean."""
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    levels, full = scene.glyphs.levels, full_scale(frame, metric.name)
    name = f"{metric.label}, {unit_of(metric).name}".rstrip(", ")
    legend: list[Row] = [
        (
            Span(levels[0], RAMP[0]),
            Span(" 0 ", "dim"),
            Span(levels[-1], RAMP[-1]),
            Span(f" {scale_text(metric, full)}", "dim"),
        )
    ]
    if part.shares.tall > 1:
        legend.append((Span(scene.glyphs.shares[1], RAMP[2]), Span(" above the lowest", "dim")))
    elif any(len(members) > 1 for members in part.timeline.members):
        legend.append((Span(levels[4], RAMP_LOW[2]), Span(" one below half", "dim")))
    right = as_many(legend, scene.width // 2)
    pieces: list[Row] = [(Span(name, "title"),)]
    if scene.view.selection:
        pieces.append((Span(gpus_text(scene), "value"),))
    pieces.append((Span(window_text(frame)),))
    left = as_many(pieces, scene.width - cell_width(text_of(right)) - 2)
    return (*pad(left, max(scene.width - cell_width(text_of(right)), 0)), *right)


def head_row(scene: Scene, part: Part) -> Row:
    """The names of the columns of numbers, and where events lie."""
    left, size = part.room.left, part.room.value
    value = "mean" if part.cursor is None else part.at(scene.frame)
    texts = "  GPU"
    if part.timeline.names:
        texts = {NARROW: "      n", MEDIUM: "  band  n   low ", WIDE: "  band    n where        low"}[left, size]
    head = f"{texts:<{left - 1 - size}}{value if len(value) <= size else 'at':>{size}} "
    marks = [Span(" ")] * part.columns.n
    for column, (mark, role) in _events(scene.frame, part).items():
        marks[column] = Span(mark, role)
    if part.cursor is not None and marks[part.cursor].text == " ":
        marks[part.cursor] = Span(scene.glyphs.cursor, "value")
    return (Span(head, "dim"), *marks)


def _events(frame: Frame, part: Part) -> dict[int, tuple[str, Role]]:
    """The mark of each column in which something happened."""
    times, ranks = _timed(frame.events)
    return events.in_columns(times, ranks, part.columns.start, part.columns.width, part.columns.n)


@once
def _timed(happened: tuple[Event, ...]) -> tuple[np.ndarray, np.ndarray]:
    return events.timed(happened)


def line_rows(scene: Scene, part: Part) -> list[Row]:
    """The lines in sight, each ``part.shares.tall`` rows high."""
    lines, tall, gap = part.lines(), part.shares.tall, part.shares.gap
    if not len(lines):
        return []
    found = bars(
        part.columns.values[lines.start : lines.stop], tall - gap, scene.glyphs, part.low[lines.start : lines.stop]
    )
    box = blank(len(lines), tall, part.columns.n)
    box.chars[:, gap:], box.codes[:, gap:] = found.chars, found.codes
    box = Marks(box.chars.reshape(-1, part.columns.n), box.codes.reshape(-1, part.columns.n))
    if part.cursor is not None:
        draw_cursor(box, part.cursor, scene)
    labels = [label for line in lines for label in _labels(scene, part, line)]
    return [(*pad(label, part.room.left), *row) for label, row in zip(labels, box.rows(), strict=True)]


def draw_cursor(box: Marks, column: int, scene: Scene) -> None:
    """The line down the column of the time cursor."""
    box.chars[:, column], box.codes[:, column] = scene.glyphs.cursor, code("value")


def _labels(scene: Scene, part: Part, line: int) -> list[Row]:
    """The rows of text before a line's course."""
    height = part.shares.tall - part.shares.gap
    frame, members = scene.frame, part.timeline.members[line]
    metric = metric_of(frame.grid.metric)
    here = line == part.line
    letter = part.letter(frame, line)
    start: Row = (Span(">" if here else " ", "value"), Span(letter or " ", "gap" if letter == "g" else "outlier"))
    role: Role = "picked" if here else "outlier" if letter == "!" else "plain"
    means = frame.window.per_gpu(metric.name)[members]
    known = means[np.isfinite(means)]
    if part.cursor is None:
        value = float(known.mean()) if len(known) else float("nan")
    else:
        value = float(part.columns.values[line, part.cursor]) * full_scale(frame, metric.name)
    low = number(float(known.min()) if len(known) else None, metric)
    size = part.room.value
    shown = Span(f"{number(value, metric):>{size}} "[-size - 1 :], "value")
    room = part.room.left - 2 - size - 1
    where = _where(frame, members)
    if not part.timeline.names:
        more = f" +{len(members) - 1}" if len(members) > 1 else ""
        place = fit(clean(frame.place(int(members[0]))), room - len(more), scene.glyphs.ellipsis, "end") + more
        rows: list[Row] = [(*start, Span(place, role), Span(" " * (room - cell_width(place))), shown)]
        return _tall(rows, part)
    name = Span(part.timeline.names[line], role)
    n = len(members)
    if (part.room.left, size) == NARROW:
        body = f"{n:>{room - 1}}"
    elif (part.room.left, size) == MEDIUM:
        body = f" {where:>{room - 3}}" if n == 1 and len(where) <= room - 3 else f"{n:>6,}{low:>6}"
    else:
        width = room - 10 if n == 1 else room - 17
        body = f"{n:>8,} {fit(where, width, scene.glyphs.ellipsis, 'end'):<{width}}" + ("" if n == 1 else f"{low:>7}")
    rows = [(*start, name, Span(fit(body, room - 1, "").ljust(room - 1)), shown)]
    if (part.room.left, size) == MEDIUM and n > 1 and height > 1:
        rows.append(clip((Span(f"   {where}", "dim"),), part.room.left - 1))
    return _tall(rows, part)


def _tall(rows: list[Row], part: Part) -> list[Row]:
    """As many rows as a line has, the gap above them included."""
    tall, gap = part.shares.tall, part.shares.gap
    return [*[()] * gap, *rows[: tall - gap], *[()] * (tall - gap - len(rows))]


def _where(frame: Frame, members: np.ndarray) -> str:
    """The GPU, the node, or how many nodes."""
    if len(members) == 1:
        return clean(frame.place(int(members[0])))
    nodes = frame.node_of[members]
    first, last = int(nodes.min()), int(nodes.max())
    if first == last:
        return clean(frame.nodes[first])
    return f"{len(np.unique(nodes)):,} nodes"
