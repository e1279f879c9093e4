"""The lines of the timeline: who, how many, how well on average, and their course.

How the rows and columns of Time are shared: what matters most first.

The part of a frame's timeline that is in sight.
"""

from typing import NamedTuple

import numpy as np

from gssr.model.cached import once
from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame, Timeline
from gssr.model.results import Grid
from gssr.model.statistics.grid import Folded, fold
from gssr.render import clock
from gssr.render.cells import as_many, cell_width, clean, clip, fit, pad
from gssr.render.clock import moment
from gssr.render.marks import Marks, bars, blank, code
from gssr.render.roles import CATEGORIES, RAMP, RAMP_LOW, Role, Row, Span, text_of
from gssr.render.scale import metric_of, number, scale_text, unit_of
from gssr.render.shares import LETTERS, WORDS, coloured, most_of
from gssr.store.format.rows import Event
from gssr.tui.axis import ORDER, full_scale, gpus_text, per_row, shown_metrics, window_text
from gssr.tui.view import Scene

_NARROW, _WIDE = 60, 100
NARROW, MEDIUM, WIDE = (14, 5), (24, 7), (36, 7)
"""Cells before the columns of time, and of them for the value."""
_MOST_TALL = 16
"""Rows that a line of the timeline is drawn with at most."""
_MOST_SUMMARY = 10


class Room(NamedTuple):
    """Rows of each part, 0 where there is no room for it: the ``title``, the ``head`` of the columns with the events, the
    ``lines`` of the timeline, a ``rule``, the ``summary``, ``counters`` (of a trace, else the length of a step), the time
    ``axis``, and the ``panel`` of the cursor. ``left``: cells before the columns of time, the last ``value`` and a blank of
    them for a line's value."""

    left: int
    value: int
    title: int
    head: int
    lines: int
    rule: int
    summary: int
    axis: int
    panel: int
    counters: int = 0


def room(width: int, height: int, n_counters: int = 0, n_metrics: int = len(ORDER)) -> Room:
    """The parts of a box; ``n_counters`` and ``n_metrics``: how many would like to be shown."""
    left, value = NARROW if width < _NARROW else MEDIUM if width < _WIDE else WIDE
    title, axis = int(height >= 4), int(height >= 6)
    head = int(height >= 10)
    summary = 0 if height < 7 else 1 if height < 10 else 2 if height < 14 else max(height // 8, 3)
    panel = 0 if height < 8 else 1 if height < 14 else 1 + min(height // 6, -(-n_metrics // per_row(width)))
    rule = int(height >= 16)
    counters = n_counters if height >= 14 else 0
    lines = max(height - title - axis - head - rule - summary - panel - counters, 1)
    return Room(left, value, title, head, lines, rule, min(summary, _MOST_SUMMARY), axis, panel, counters)


def room_of(scene: Scene) -> Room:
    """The parts of a scene."""
    part = scene.frame.part
    if part is None:
        judgement = scene.frame.judgement
        return room(scene.width, scene.height, int(judgement is not None and judgement.step is not None))
    return room(scene.width, scene.height, len(part.counters), len(shown_metrics(scene.frame)))


class Shares(NamedTuple):
    """``tall``: rows of each line of the timeline, its gap included; ``gap``: rows between two; ``shown``: how many lines
    there is room for; ``summary``: rows of the summary, which takes what is left."""

    tall: int
    gap: int
    shown: int
    summary: int


def share(parts: Room, n_lines: int) -> Shares:
    """How ``n_lines`` lines of the timeline share its rows with the summary."""
    n = max(n_lines, 1)
    tall = min(max(parts.lines // n, 1), _MOST_TALL)
    shown = min(parts.lines // tall, n)
    spare = parts.lines - shown * tall
    return Shares(tall, int(tall >= 4), shown, parts.summary and parts.summary + spare)


class Part(NamedTuple):
    """``timeline``, and its lines from ``top`` on as far as ``shares`` has room. ``columns``: means of the lines as
    fractions of the full scale, ``low`` their minima, ``busy`` the shares of busy, medium and idle GPUs, all [lines or 3,
    n_columns]. ``cursor``: the column under the time cursor, None without one; ``line``: the line under the other cursor.
    ``room``: how the box is shared. ``split``: of traces the shares by category of each line, at last of all of them
    together [n_lines + 1, n_columns, categories]."""

    timeline: Timeline
    shares: Shares
    top: int
    line: int
    columns: Folded
    low: np.ndarray
    busy: np.ndarray
    cursor: int | None
    room: Room
    split: np.ndarray | None = None

    def by_category(self, frame: Frame) -> np.ndarray | None:
        """``split`` where the lines show it: of other metrics than how busy they are, lightness says how much."""
        return self.split if frame.grid.metric == "busy" else None

    def lines(self) -> range:
        """The lines in sight."""
        return range(self.top, min(self.top + self.shares.shown, len(self.timeline.members)))

    def at(self, frame: Frame) -> str:
        """When the column under the time cursor begins, as the axis counts it."""
        assert self.cursor is not None
        time = self.columns.start + self.cursor * self.columns.width
        return moment(max(time - frame.first, 0.0), frame.last - frame.first, self.columns.width)

    def name(self, frame: Frame, line: int) -> str:
        """What a line is called elsewhere: ``band A``, ``nid000001:0``, ``nid000001:0 to nid000002:3``."""
        members = self.timeline.members[line]
        if self.timeline.names:
            return f"band {self.timeline.names[line]}"
        first, last = clean(frame.place(int(members[0]))), clean(frame.place(int(members[-1])))
        return first if len(members) == 1 else f"{first} to {last}"

    def letter(self, frame: Frame, line: int) -> str:
        """``!`` where a GPU of the line is an outlier, else ``g`` where one is silent, else ""."""
        found, members = attention(frame), self.timeline.members[line]
        return "!" if found.outlier[members].any() else "g" if (found.age[members] > 0).any() else ""


def part_of(scene: Scene) -> Part | None:
    """What is in sight; None when the frame has no timeline yet."""
    frame, view = scene.frame, scene.view
    timeline = frame.timeline
    if timeline is None:
        return None
    parts = room_of(scene)
    n = len(timeline.members)
    shares = share(parts, n)
    line = min(max(view.row, 0), max(n - 1, 0))
    top = min(max(view.top, line - shares.shown + 1, 0), line, max(n - shares.shown, 0))
    cells = max(scene.width - parts.left, 1)
    full = full_scale(frame, frame.grid.metric)
    grid = frame.grid if frame.part is None or frame.part.columns is None else frame.part.columns
    columns = fold(grid, timeline.mean / full, cells)
    low, busy = timeline.low / full, timeline.shares
    split = None
    if frame.part is not None and frame.part.split is not None and frame.part.whole_split is not None:
        both = np.concatenate([frame.part.split, frame.part.whole_split[None]])
        split = np.moveaxis(fold(grid, np.moveaxis(both, 2, 1), cells).values, 1, 2)
    if columns.factor > 1:
        low, busy = _lowest(low, grid, columns), fold(grid, busy, cells).values
    cursor = None if view.cursor is None else columns.column(view.cursor)
    return Part(timeline, shares, top, line, columns, low, busy, cursor, parts, split)


def _lowest(low: np.ndarray, grid: Grid, columns: Folded) -> np.ndarray:
    """The minima of columns that went together."""
    begins = np.round((columns.start + np.arange(columns.n) * columns.width - grid.start) / grid.width).astype(np.int64)
    found: np.ndarray = np.fmin.reduceat(low, np.maximum(begins, 0), axis=1)
    return found


def title_row(scene: Scene, part: Part) -> Row:
    """Which metric, of whom and when, and what the marks mean."""
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    levels, full = scene.glyphs.levels, full_scale(frame, metric.name)
    by_category = part.by_category(frame)
    name = f"{metric.label}, {unit_of(metric).name}".rstrip(", ")
    legend: list[Row] = [
        (
            Span(levels[0], RAMP[0]),
            Span(" 0 ", "dim"),
            Span(levels[-1], RAMP[-1]),
            Span(f" {scale_text(metric, full)}", "dim"),
        )
    ]
    if by_category is not None:
        seen = np.unique(most_of(by_category)).tolist()
        legend = [(Span(LETTERS[at], CATEGORIES[at]), Span(f" {WORDS[at]}", "dim")) for at in seen if at >= 0]
    elif part.shares.tall > 1:
        legend.append((Span(scene.glyphs.shares[1], RAMP[2]), Span(" above the lowest", "dim")))
    elif any(len(members) > 1 for members in part.timeline.members):
        legend.append((Span(levels[4], RAMP_LOW[2]), Span(" one below half", "dim")))
    right = as_many(legend, scene.width // 2)
    pieces: list[Row] = [(Span(name, "title"),)]
    if scene.view.selection or (scene.view.filter and frame.part is not None):
        pieces.append((Span(gpus_text(scene), "value"),))
    pieces.append((Span(window_text(frame)),))
    left = as_many(pieces, scene.width - cell_width(text_of(right)) - 2)
    return (*pad(left, max(scene.width - cell_width(text_of(right)), 0)), *right)


def head_row(scene: Scene, part: Part) -> Row:
    """The names of the columns of numbers, and where events lie."""
    left, size = part.room.left, part.room.value
    value = "mean" if part.cursor is None else part.at(scene.frame)
    texts = f"  {scene.frame.noun}"
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
    return clock.in_columns(times, ranks, part.columns.start, part.columns.width, part.columns.n)


@once
def _timed(happened: tuple[Event, ...]) -> tuple[np.ndarray, np.ndarray]:
    return clock.timed(happened)


def line_rows(scene: Scene, part: Part) -> list[Row]:
    """The lines in sight, each ``part.shares.tall`` rows high."""
    lines, tall, gap = part.lines(), part.shares.tall, part.shares.gap
    if not len(lines):
        return []
    by_category = part.by_category(scene.frame)
    height = tall - gap
    letters = int(by_category is not None and height > 1)
    lows = part.low[lines.start : lines.stop] if by_category is None else None
    found = bars(part.columns.values[lines.start : lines.stop], height - letters, scene.glyphs, lows)
    if by_category is not None:
        found = coloured(found, by_category[lines.start : lines.stop])
        found = Marks(found.chars[:, :height], found.codes[:, :height])
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
    means = frame.window.per_gpu(metric.name, members)
    known = means[np.isfinite(means)]
    if part.cursor is None:
        value = float(known.mean()) if len(known) else float("nan")
    else:
        value = float(part.columns.values[line, part.cursor]) * full_scale(frame, metric.name)
    low = number(float(known.min()) if len(known) else None, metric)
    size = part.room.value
    shown = Span(f"{number(value, metric):>{size}} "[-size - 1 :], "value")
    room = part.room.left - 2 - size - 1
    if not part.timeline.names:
        more = f" +{len(members) - 1}" if len(members) > 1 else ""
        place = fit(clean(frame.place(int(members[0]))), room - len(more), scene.glyphs.ellipsis, "end") + more
        rows: list[Row] = [(*start, Span(place, role), Span(" " * (room - cell_width(place))), shown)]
        return _tall(rows, part)
    name, where = Span(part.timeline.names[line], role), where_of(frame, members)
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


def where_of(frame: Frame, members: np.ndarray) -> str:
    """The GPU, the node, or how many nodes."""
    if len(members) == 1:
        return clean(frame.place(int(members[0])))
    nodes = frame.node_of[members]
    first, last = int(nodes.min()), int(nodes.max())
    if first == last:
        return clean(frame.nodes[first])
    return f"{len(np.unique(nodes)):,} nodes"
