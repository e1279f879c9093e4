"""The times under the columns, and what happened: flags on the axis, with their text where there is room."""

from textual.strip import Strip

from gssr.model.live.live_result import Result
from gssr.render import clock
from gssr.render.cells import cell_width, fit
from gssr.render.marks import MarkGrid, blank
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.report.live.time_cells import Cells, axis_row
from gssr.report.live.times_of_run import at_text, event_in_words
from gssr.store.format.rows import Event
from gssr.tui.time.timeline import TimePanel

_FLAG, _FLAG_ASCII = "▲", "^"
_LEAST_TEXT = 4
"""Cells that the text of a flag takes at least."""
_MOST = 500
"""Events that have a flag of their own; of more the first in each column."""


class EventAxis(TimePanel):
    """The axis and its flags."""

    def name_border(self, result: Result) -> None:
        """Say how long a cell is, and how much happened in sight."""
        cells = self.cells_in_sight(result)
        n = len(_in_sight(result, cells))
        self.entitle("time", self.title_of(cells, result), f"{count(n, 'event')} in sight" if n else "")

    def strips(self, result: Result, width: int, height: int) -> list[Strip]:
        """Draw the times under the columns, and in the other ``height - 1`` rows the flags of the events."""
        cells, gutter = self.cells_in_sight(result), self.left
        rows: list[Row] = [(Span(" " * gutter), *axis_row(result, cells))]
        flags = flagged(result, cells, height - 1, self.glyphs.ellipsis, self.glyphs.levels.isascii())
        for y, row in enumerate(flags.rows()):
            label = "  events" if y == 0 and cells.n else ""
            rows.append((Span(f"{label:<{gutter}}", "dim"), *row))
        return [self.strip_of(row, width) for row in rows]


def _in_sight(result: Result, cells: Cells) -> list[tuple[int, Event]]:
    """List the events in sight, each with the cell it is in. Notes of a trace are about its file, and of no time."""
    dated = (event for event in result.events if result.part is None or event.kind != "note")
    found = [(cells.at(event.time), event) for event in dated]
    return [(cell, event) for cell, event in found if cell is not None]


def flagged(result: Result, cells: Cells, height: int, ellipsis: str, ascii_only: bool) -> MarkGrid:
    """Place a flag at the column of each event in sight, with its text to the right where there is room, in ``height``
    rows of ``cells.n`` cells.

    Of several events in a column those that say most come first (gssr.render.clock.LOOKS), and "(+2)" says how many
    have no text. Of more than _MOST events only the first in each column has a flag. Blank if there is no room.
    """
    box = blank(max(height, 0), cells.n)
    if height < 1 or not cells.n:
        return box
    order = {kind: rank for rank, kind in enumerate(clock.LOOKS)}
    events = _in_sight(result, cells)
    if len(events) > _MOST:
        events = list({cell: (cell, event) for cell, event in reversed(events)}.values())[::-1]
    columns: dict[int, list[Event]] = {}
    for cell, event in events:
        columns.setdefault(cell, []).append(event)
    ends = [0] * height
    flag = _FLAG_ASCII if ascii_only else _FLAG
    cells_taken = sorted(columns)
    for at, cell in enumerate(cells_taken):
        happened = sorted(columns[cell], key=lambda event: order.get(event.kind, len(order)))
        texts = {event_in_words(result, event): clock.LOOKS.get(event.kind, clock.OTHER)[1] for event in happened}
        free = [y for y in range(height) if ends[y] <= cell][: max(height // 2, 1)]
        if not free:
            if box.chars[0, cell] == " ":
                box.write(0, cell, flag, next(iter(texts.values())))
            continue
        later = next((other for other in cells_taken[at + 1 :] if other > cell), cells.n)
        for row, (text, role) in zip(free, texts.items(), strict=False):
            lacks = len(texts) - len(free) if row == free[-1] else 0
            room = (cells.n if row < height - 1 else max(later, cell + 1)) - cell - 2
            said = fit(f"{text} (+{lacks})" if lacks > 0 else text, max(min(room, cells.n - cell - 2), 0), ellipsis)
            if len(said) < _LEAST_TEXT or cell_width(said) != len(said):
                said = ""
            box.write(row, cell, f"{flag} {said}".rstrip(), role)
            ends[row] = cell + len(said) + 3
    return box


def event_at(result: Result, cells: Cells, time: float) -> str:
    """Say in words what happened in the cell of this time; empty for nothing."""
    cell = cells.at(time)
    said = [
        f"{at_text(result, event.time)} {event_in_words(result, event)}"
        for at, event in _in_sight(result, cells)
        if at == cell
    ]
    return "; ".join(said)
