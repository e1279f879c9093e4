"""The one widget: rows of text on the whole terminal, of which only what changed is sent.

Which cells of a row differ from those before: only these need to be sent.

Less lightness where it would cost too much: it only repeats what height says, and every change of it is sent.

Where rows change their lightness so often that a whole terminal would take more than MOST_BYTES a cell, those rows get
one lightness.

How roles look: the user's own 16 colours, or none.

What is written to the terminal, in as few bytes as it takes: they are what a slow connection has least of.

Textual begins every change at the widget's left edge, and takes every style back before the next one. Here a change begins
where it does, a style stays until another one is needed, blanks take any, and the blank end of a line is erased.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gssr.arrays import Ints
from gssr.render.cells import cell_width
from gssr.render.roles import RAMP, RAMP_LOW, ROLES, Role, Row, Span, text_of

_COLOR = re.compile(r"3[0-7]|9[0-7]|38;5;\d+|38;2;\d+;\d+;\d+")
"""Codes that colour the text and do nothing else: the next such colour replaces it."""
_SEEN_ON_BLANKS = re.compile(r"(?:^|;)(?:4|7|9|21|4\d|10\d|5[1-5])(?=;|$)")
"""Codes that may draw something where there is no character: underline, reverse, background, frame."""
_FEW_BLANKS = 4
"""So many are written rather than erased."""


Texts = Sequence[tuple[str, Style | None]]
"""Texts one after another, and how they look."""


class Piece(NamedTuple):
    """A piece of a line from (``x``, ``y``) on; ``last``: it ends at the right edge of the terminal."""

    x: int
    y: int
    texts: Texts
    last: bool


class ShortLayout(LayoutUpdate):
    """The whole terminal."""

    def __init__(self, update: LayoutUpdate) -> None:
        super().__init__(update.strips, update.region)

    def render_segments(self, console: Console) -> str:
        """What to write."""
        x, y = self.region.offset
        lines = enumerate((Strip.join(line) for line in self.strips), y)
        return written((Piece(x, at, _texts(strip), True) for at, strip in lines), console)


class ShortChange(ChopsUpdate):
    """The cells of a terminal of so many ``columns`` that changed."""

    def __init__(self, update: ChopsUpdate, columns: int) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)
        self._columns = columns

    def render_segments(self, console: Console) -> str:
        """What to write."""
        return written(self._pieces(), console)

    def _pieces(self) -> Iterator[Piece]:
        lines: dict[tuple[int, int], Texts] = {}  # one may have many spans
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is not None and x < last and end > first:
                    left, right = max(x, first), min(end, last)
                    whole = lines.get((y, x)) or lines.setdefault((y, x), _texts(strip))
                    narrow = sum(len(text) for text, _ in whole) == strip.cell_length
                    texts = _cut(whole, left - x, right - x) if narrow else _texts(strip.crop(left - x, right - x))
                    yield Piece(left, y, texts, right == self._columns)


def _texts(strip: Strip) -> Texts:
    return [(text, style) for text, style, _ in strip]


def _cut(texts: Texts, first: int, last: int) -> Texts:
    """From one character to before another; each takes one cell."""
    found, at = [], 0
    for text, style in texts:
        if at >= last:
            break
        part = text[max(first - at, 0) : last - at]
        if part:
            found.append((part, style))
        at += len(text)
    return found


def written(pieces: Iterable[Piece], console: Console) -> str:
    """The bytes, as text, that draw these pieces on a terminal without a style, and leave it without one."""
    system = console._color_system or ColorSystem.TRUECOLOR
    out: list[str] = []
    now = ""
    for x, y, texts, last in pieces:
        out.append(f"\x1b[{y + 1};{x + 1}H")
        cells = [(text, _codes(style, system) if style else "") for text, style in texts]
        blanks = 0
        while last and cells and not cells[-1][1] and cells[-1][0].isspace():
            blanks += len(cells.pop()[0])
        for text, codes in [*cells, (" " * blanks, "")]:
            if text and codes != now and not (text.isspace() and _unseen(codes) and _unseen(now)):
                out.append(_change(now, codes))
                now = codes
            out.append(text)
        if blanks > _FEW_BLANKS:
            out[-1] = "\x1b[K"
    if now:
        out.append("\x1b[m")
    return "".join(out)


@lru_cache(maxsize=1024)
def _codes(style: Style, system: ColorSystem) -> str:
    return Strip.render_ansi(style, system)


@lru_cache(maxsize=1024)
def _unseen(codes: str) -> bool:
    return _SEEN_ON_BLANKS.search(codes) is None


@lru_cache(maxsize=4096)
def _change(before: str, after: str) -> str:
    """The sequence that replaces a style by another."""
    if not after:
        return "\x1b[m"
    kept = not before or (_COLOR.fullmatch(before) and _COLOR.fullmatch(after))
    return f"\x1b[{after}m" if kept else f"\x1b[0;{after}m"


MOST_KEPT = 4
"""So many cells that did not change are sent again rather than skipped: moving the cursor costs as much."""
_NUMBER = {role: number for number, role in enumerate(ROLES)}


def cells_of(row: Row) -> Ints:
    """[width]: one number for each cell's character and role; a wide character's second cell has none of its own."""
    text = text_of(row)
    sizes = [len(span.text) for span in row]
    if cell_width(text) != len(text):
        text = "".join(char + "\0" * (cell_width(char) - 1) for char in text)
        sizes = [cell_width(span.text) for span in row]
    characters = np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.int64)
    return characters + (np.repeat([_NUMBER[span.role] for span in row], sizes).astype(np.int64) << 32)


def changed_spans(before: Ints, after: Ints) -> list[tuple[int, int]]:
    """(first cell, the one after the last) of what to send again, left to right; all of a row whose width changed."""
    if len(before) != len(after):
        return [(0, max(len(before), len(after)))]
    differs = np.flatnonzero(before != after)
    if not len(differs):
        return []
    cuts = np.flatnonzero(np.diff(differs) > MOST_KEPT + 1) + 1
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(differs, cuts)]


MOST_BYTES = 16_000 / (120 * 40)
_CHANGE = 13
"""What changing the colour takes, bytes."""
_MANY = 8
"""Rows with more changes of lightness than this are made calm."""
_CALM: dict[Role, Role] = {
    **dict.fromkeys(RAMP, RAMP[3]),
    **dict.fromkeys(RAMP_LOW, RAMP_LOW[3]),
}


def bytes_of(row: Row) -> int:
    """About what it takes to send a row."""
    return len(text_of(row).encode()) + _CHANGE * _changes(row)


def _changes(row: Row) -> int:
    return sum(span.role in _CALM for span in row)


def too_much(total: int, cells: int, before: bool) -> bool:
    """Whether ``total`` bytes for so many cells call for calm; ``before``: they did already, and do so a little longer."""
    return total > cells * MOST_BYTES * (0.8 if before else 1.0)


def calmed(row: Row) -> Row:
    """The row with one lightness, if it has many."""
    if _changes(row) <= _MANY:
        return row
    return merged(tuple(Span(span.text, _CALM.get(span.role, span.role)) for span in row))


def merged(row: Row) -> Row:
    """The row with neighbours of the same role in one span."""
    if all(one.role != other.role for one, other in pairwise(row)):
        return row
    return tuple(
        Span("".join(span.text for span in spans), role) for role, spans in groupby(row, lambda span: span.role)
    )


def looks(colors: int) -> dict[Role, Style]:
    """A style for each role on a terminal of so many colours (0: none)."""
    found = {}
    for role, look in ROLES.items():
        style = Style.parse(look.rich or "none")
        few = not colors or (colors < 256 and role in RAMP + RAMP_LOW)
        found[role] = style.without_color if few else style
    return found


class Canvas(Widget, can_focus=True):
    """Shows rows of spans, each as wide as the widget. ``look`` gives a role's style."""

    def __init__(
        self, look: dict[Role, Style], clicked: Callable[[int, int], None], typed: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._typed = typed
        self._look = look
        self._clicked = clicked
        self._rows: list[Row] = []
        self._strips: list[Strip] = []
        self._cells: list[Ints] = []
        self._bytes: list[int] = []
        self._calm = False

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows instead; what is the same as before is not drawn again."""
        rows, before = list(rows), self._calm
        same = [y < len(self._rows) and row == self._rows[y] for y, row in enumerate(rows)]
        sizes = [self._bytes[y] if same[y] else bytes_of(row) for y, row in enumerate(rows)]
        calm = too_much(sum(sizes), self.size.width * self.size.height, before)
        changed: list[Region] = []
        strips, cells = [], []
        for y, row in enumerate(rows):
            if same[y] and calm == before:
                strips.append(self._strips[y])
                cells.append(self._cells[y])
                continue
            drawn = calmed(row) if calm else merged(row)
            cells.append(cells_of(drawn))
            strips.append(Strip([Segment(span.text, self._look[span.role]) for span in drawn], len(cells[y])))
            spans = changed_spans(self._cells[y], cells[y]) if y < len(self._cells) else [(0, self.size.width)]
            changed += [Region(first, y, last - first, 1) for first, last in spans]
        shorter = len(rows) < len(self._rows)
        self._rows, self._bytes, self._calm, self._strips, self._cells = rows, sizes, calm, strips, cells
        if shorter:
            self.refresh()
        elif changed:
            self.refresh(*changed)

    def rows(self) -> list[Row]:
        """What is shown."""
        return list(self._rows)

    def render_line(self, y: int) -> Strip:
        """One line, for Textual."""
        width = self.size.width
        strip = self._strips[y] if y < len(self._strips) else Strip([], 0)
        return strip.adjust_cell_length(width, Style.null())

    def on_key(self, event: events.Key) -> None:
        """Tell which key it was; what is taken there is no key for anybody else."""
        if self._typed(event.key):
            event.stop()

    def on_click(self, event: events.Click) -> None:
        """Tell where the mouse was pressed."""
        self._clicked(event.x, event.y)
