"""Aligned columns that give way, one after another, on a narrow page.

A line across the page that says what follows.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Union

from gssr.render.cells import cell_width, clip, fit, fit_apart, fit_row, pad
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span, text_of

Cell = Union[str, Row, Callable[[int], Row]]
"""Text, a row, or what draws itself into a given number of cells."""

_LEAST_TEXT = 8
"""A column of text is not cut below this; other columns go first."""


class TableColumn(NamedTuple):
    """A column. ``drop`` orders who goes first when the page is too narrow (highest first; 0 stays). With ``least`` > 0 its
    cells are drawn: it takes the cells the others leave, from ``least`` to ``most``. ``keep`` is the end of its text that
    survives a cut, unless cells would be alike then. ``cut``: it is cut on a narrow page, instead of the first one."""

    title: str
    align: Literal["left", "right"] = "left"
    drop: int = 0
    least: int = 0
    most: int = 0
    keep: Literal["start", "end"] = "start"
    cut: bool = False


def table(
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[Cell]],
    width: int,
    glyphs: Glyphs,
    gap: int = 1,
) -> list[Row]:
    """Draw a table, a line of titles first, in lines of at most ``width`` cells.

    If it is too wide, columns are dropped, those of one ``drop`` together, until the rest fits; then one is cut (the one
    that says so, else the first), and at last every line is. A row whose remaining cells are all empty is left out.
    """
    sizes = [
        column.least
        or max([cell_width(column.title), *(cell_width(_text(row[i])) for row in rows if not callable(row[i]))])
        for i, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))

    def total() -> int:
        return sum(sizes[i] for i in kept) + gap * (len(kept) - 1)

    while total() > width:
        loose = max(kept, key=lambda i: columns[i].drop)
        cut = next((i for i in kept if columns[i].cut), 0)
        text = sizes[cut] - (total() - width)
        is_readable = text >= max(_LEAST_TEXT, sizes[cut] * 2 // 3) and _stay_apart(
            [_text(row[cut]) for row in rows], text, columns[cut].keep, glyphs
        )
        if columns[loose].drop == 0 or is_readable:
            sizes[cut] = max(text, min(sizes[cut], _LEAST_TEXT))
            break
        kept = [i for i in kept if columns[i].drop < columns[loose].drop]
    for i in kept:
        if columns[i].least:
            sizes[i] = max(min(sizes[i] + width - total(), columns[i].most), columns[i].least)
    titles: list[Cell] = [(Span(column.title, "dim"),) for column in columns]
    shown = [list(row) for row in rows if any(callable(row[i]) or _text(row[i]) for i in kept)]
    for i in kept:
        texts = [cell for row in shown if isinstance(cell := row[i], str)]
        fitted = iter(fit_apart(texts, sizes[i], glyphs.ellipsis, columns[i].keep))
        for row in shown:
            row[i] = next(fitted) if isinstance(row[i], str) else row[i]
    drawn = [titles, *shown]
    return [clip(_line(columns, cells, sizes, kept, gap, glyphs), width) for cells in drawn]


def _stay_apart(texts: Sequence[str], size: int, keep: Literal["start", "end"], glyphs: Glyphs) -> bool:
    """Tell whether the texts of a column that differ still do when they are cut to this size."""
    return len({fit(text, size, glyphs.ellipsis, keep) for text in texts}) == len(set(texts))


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return "" if callable(cell) else text_of(cell)


def _line(
    columns: Sequence[TableColumn], cells: Sequence[Cell], sizes: Sequence[int], kept: Sequence[int], gap: int,
    glyphs: Glyphs,
) -> Row:  # fmt: skip
    """Draw one line of a table: the cells of the ``kept`` columns (indices), each cut or filled to its size, with
    ``gap`` blanks between.

    ``sizes``: cells of every column.
    """
    spans: list[Span] = []
    for place, i in enumerate(kept):
        if place:
            spans.append(Span(" " * gap))
        cell = cells[i]
        if callable(cell):
            row = cell(sizes[i])
        elif isinstance(cell, str):
            row = (Span(cell),)
        else:
            row = fit_row(cell, sizes[i], glyphs.ellipsis, columns[i].keep)
        spans.extend(pad(row, sizes[i], columns[i].align))
    return tuple(spans)


def rule(title: str, width: int, glyphs: Glyphs, about: Row = ()) -> Row:
    """Draw ``── title  about ───────`` in exactly ``width`` cells. What does not fit is left out, pieces of ``about``
    first; at last the title is cut."""
    line: Row = (Span(glyphs.rule + " ", "dim"), Span(fit(title, max(width - 2, 0), glyphs.ellipsis), "heading"))
    for piece in about:
        if cell_width(text_of(line)) + 2 + cell_width(piece.text) + 2 <= width:
            line = (*line, Span("  "), piece)
    room = width - cell_width(text_of(line)) - 1
    if room > 0:
        line = (*line, Span(" "), Span(glyphs.rule * room, "dim"))
    elif room == 0:
        line = (*line, Span(" "))
    return clip(line, width)
