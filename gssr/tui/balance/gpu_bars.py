"""All GPUs, sorted by what they do: bars from the lowest up. Of few each has a line with its name, of many a column."""

from typing import ClassVar, NamedTuple

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gssr.arrays import Floats, Ints
from gssr.model.live.live_result import Result
from gssr.model.live.steady_order import SteadyOrders
from gssr.render.cells import cell_width, clean, fit
from gssr.render.columns import length
from gssr.render.roles import Row, Span
from gssr.render.scale import count, metric_of, number, quantity
from gssr.report.live.marked_gpus import legend_of_marks, mark_of
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.times_of_run import in_part, part_text
from gssr.tui.keys import key
from gssr.tui.shared.history import history_rows
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.panel import Panel
from gssr.tui.view import View

_VALUE = 7
_MOST_TALL = 6
_APART = 3
"""Cells of a column from which one of them is left blank."""


class _Sorted(NamedTuple):
    """``gpus`` [n] positions from the lowest mean up, those without samples last; ``means`` [n] and the ``median``."""

    gpus: Ints
    means: Floats
    median: float


class GpuBars(Panel):
    """The means of the window, and the GPU under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("left,up,h,k", "move(-1)", "Lower", "the GPU that does less", show=False),
        key("right,down,l,j", "move(1)", "Higher", "the GPU that does more", show=False),
        key("home", "move(-1000000)", "Lowest", "the GPU that does least", show=False),
        key("end", "move(1000000)", "Highest", "the GPU that does most", show=False),
        key("enter", "open", "Look at it", "all about this GPU, on GPUs"),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.at = 0
        """The place of the GPU under the cursor, from the lowest."""
        self._steady = SteadyOrders()
        self._sorted: _Sorted | None = None

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on, sorted from the lowest mean up; while a run grows, the order only changes
        where a difference can be seen."""
        found = result.imbalance
        full = full_scale(result, result.grid.metric)
        order = self._steady.steady(result, "bars", found.gpus, found.means, full)
        means = found.means[order]
        median = float(np.nanmedian(means)) if np.isfinite(means).any() else float("nan")
        self._sorted = _Sorted(found.gpus[order], means, median)
        self.at = min(self.at, max(len(means) - 1, 0))
        metric = metric_of(result.grid.metric)
        legend = legend_of_marks(result, self.glyphs.levels.isascii())
        title = f"{count(len(means), result.noun)} by mean {metric.label}, the lowest first"
        title = in_part(title, part_text(result))
        self.border_title = f"{title}   {legend}".rstrip()
        super().show(result, view)
        self._tell(result)

    def _tell(self, result: Result) -> None:
        """Name the GPU under the cursor and its mean in the border; nothing changes if there are no GPUs."""
        if self._sorted is not None and len(self._sorted.gpus):
            name = clean(result.place(int(self._sorted.gpus[self.at])))
            self.border_subtitle = f"{name}: {_text(result, float(self._sorted.means[self.at]))}"

    @property
    def _lines(self) -> bool:
        """True where each GPU has a line of its own."""
        return self._sorted is not None and len(self._sorted.gpus) <= self.content_size.height

    def draw_lines(self, _width: int, height: int) -> list[Strip]:
        """Draw a bar for each GPU where each has a line of its own, else all as columns."""
        result, found = self.result, self._sorted
        if result is None or found is None or not height:
            return []
        return (self._in_lines if self._lines else self._in_columns)(result, found)

    def _in_lines(self, result: Result, those: _Sorted) -> list[Strip]:
        """Draw a line for each GPU, ``_tall`` rows each: name, mean, and a bar with a tick at the median."""
        width, palette, glyphs = self.content_size.width, self.palette, self.glyphs
        metric, full = metric_of(result.grid.metric), full_scale(result, result.grid.metric)
        tall = self._tall
        names = [clean(result.place(int(gpu))) for gpu in those.gpus]
        size = min(max(map(cell_width, names), default=4), max(width // 3, 8))
        room = max(width - size - _VALUE - 4, 1)
        middle = min(int(those.median / full * room), room - 1) if those.median == those.median else -1
        strips: list[Strip] = []
        for place, (gpu, name, mean) in enumerate(zip(those.gpus, names, those.means, strict=True)):
            mark, role = mark_of(result, int(gpu), glyphs.levels.isascii())
            filled = "" if mean != mean else length(min(max(float(mean) / full, 0.0), 1.0), room, glyphs)
            if tall > 1:
                filled = filled.replace(glyphs.bar, glyphs.full).replace(glyphs.half or glyphs.bar, "▌")
            load = palette.missing if mean != mean else palette.load(float(mean) / full)
            rest = (glyphs.track if tall == 1 else " ") * (room - len(filled))
            tick = middle - len(filled)
            head = [
                Segment(
                    f"{mark or ' '} {fit(name, size, glyphs.ellipsis, 'end'):<{size}}",
                    palette.style(role),
                ),
                Segment(f"{number(None if mean != mean else float(mean), metric):>{_VALUE}} ", palette.style("value")),
            ]  # fmt: skip
            bar = [Segment(filled, load)]
            if 0 <= tick < len(rest):
                bar += [
                    Segment(rest[:tick], palette.style("track")),
                    Segment("|" if glyphs.levels.isascii() else "┃", palette.style("dim")),
                    Segment(rest[tick + 1 :], palette.style("track")),
                ]
            else:
                bar.append(Segment(rest, palette.style("track")))
            strip = Strip([*head, *bar]).adjust_cell_length(width)
            if place == self.at:
                strip = strip.apply_style(palette.cursor)
            below = Strip([Segment(" " * (size + _VALUE + 3)), *bar]).adjust_cell_length(width)
            strips += [strip, *[below] * (tall - 2), *[Strip.blank(width)] * (tall > 1)]
        return strips

    @property
    def _tall(self) -> int:
        """Rows that a line takes; of more than one the last is blank."""
        n = len(self._sorted.gpus) if self._sorted is not None else 1
        return max(min(self.content_size.height // max(n, 1), _MOST_TALL), 1)

    def _place_at(self, x: int) -> int:
        """Return the place (0: the lowest) of the GPU that column ``x`` stands for; 0 without GPUs."""
        n = len(self._sorted.gpus) if self._sorted is not None else 0
        return min(x * n // max(self.content_size.width, 1), max(n - 1, 0))

    def _in_columns(self, result: Result, those: _Sorted) -> list[Strip]:
        """Draw a column of cells for each GPU, of many GPUs one for several neighbours, and below them a mark and the
        name of the one under the cursor."""
        (width, height), palette = self.content_size, self.palette
        full, n = full_scale(result, result.grid.metric), len(those.gpus)
        places = [self._place_at(x) for x in range(width)]
        values = those.means[places] / full
        rows = history_rows(values, height - 1, palette, self.glyphs)
        strips = [Strip(row).adjust_cell_length(width) for row in rows]
        if n and width // n >= _APART:
            ends = [x for x in range(width - 1) if places[x] != places[x + 1]]
            strips = [_without(strip, ends) for strip in strips]
        first = next((x for x, place in enumerate(places) if place >= self.at), width - 1)
        last = max((x for x, place in enumerate(places) if place == self.at), default=first)
        mark = ("^" if self.glyphs.levels.isascii() else "▲") * max(last - first + (n and width // n < _APART), 1)
        name = clean(result.place(int(those.gpus[self.at]))) if n else ""
        text = f"{name} {_text(result, float(those.means[self.at]))}" if n else ""
        if first + len(mark) + 1 + len(text) <= width:
            row: Row = (Span(" " * first), Span(mark, "value"), Span(f" {text}", "dim"))
        else:
            row = (Span(f"{text:>{max(first - 1, 0)}} "[-first:] if first else "", "dim"), Span(mark, "value"))
        strips.append(self.strip_of(row, width))
        cursor = palette.cursor if self.has_focus and not palette.colourless else Style()
        return [
            Strip.join([strip.crop(0, first), strip.crop(first, last + 1).apply_style(cursor), strip.crop(last + 1)])
            for strip in strips
        ]

    # Keys and the mouse

    def _move_to(self, place: int) -> None:
        """Put the cursor on a place, held within the GPUs there are; do nothing without any."""
        if self._sorted is not None and self.result is not None and len(self._sorted.gpus):
            self.at = min(max(place, 0), len(self._sorted.gpus) - 1)
            self._tell(self.result)
            self.refresh()

    def action_move(self, step: int) -> None:
        """Another GPU."""
        self._move_to(self.at + step)

    def action_open(self) -> None:
        """All about it."""
        if self._sorted is not None and len(self._sorted.gpus):
            self.post_message(Opened(self, int(self._sorted.gpus[self.at])))

    def _under(self, event: events.MouseEvent) -> int | None:
        """Return the place of the GPU under the mouse, or None if there is none."""
        offset = event.get_content_offset(self)
        if offset is None or self._sorted is None:
            return None
        place = offset.y // self._tall if self._lines else self._place_at(offset.x)
        return place if place < len(self._sorted.gpus) else None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Name the GPU under the mouse and its mean in a tooltip."""
        place = self._under(event)
        if place is None or self._sorted is None or self.result is None:
            self.tooltip = None
            return
        name = clean(self.result.place(int(self._sorted.gpus[place])))
        self.tooltip = (
            f"{name}: {_text(self.result, float(self._sorted.means[place]))}; a second click shows all about it"
        )

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the GPU under the mouse; a double click on the one under the cursor opens it."""
        place = self._under(event)
        if place is not None:
            opens = place == self.at and event.chain == 2
            self._move_to(place)
            if opens:
                self.action_open()


def _without(strip: Strip, cells: list[int]) -> Strip:
    """Return the strip with these cells (columns in ascending order) blank."""
    edges = [0, *(edge for cell in cells for edge in (cell, cell + 1)), strip.cell_length]
    pieces = list(strip.divide(edges[1:]))
    return Strip.join([Strip([Segment(" ")]) if at % 2 else piece for at, piece in enumerate(pieces)])


def _text(result: Result, mean: float) -> str:
    return "no samples" if mean != mean else quantity(mean, metric_of(result.grid.metric))
