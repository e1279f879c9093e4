"""The one widget: rows of text on the whole terminal, of which only what changed is sent.

Which cells of a row differ from those before: only these need to be sent.

Less lightness where it would cost too much: it only repeats what height says, and every change of it is sent.

Where rows change their lightness so often that a whole terminal would take more than MOST_BYTES a cell, those rows get
one lightness.

How roles look: the user's own 16 colours, or none.

What is written to the terminal, in as few bytes as it takes: they are what a slow connection has least of.

Textual begins every change at the widget's left edge, and takes every style back before the next one. Here a change begins
where it does, a style stays until another one is needed, blanks take any, the blank end of a line is erased, and a terminal
that can repeat a character is told how often.

No more is on its way than a slow connection carries in half a second: what follows is drawn when that has arrived, top down,
and as it is wanted then.
"""

import math
import re
import time
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
from gssr.render.roles import FEW_COLOURS, ON_LIGHT, RAMP, RAMP_LOW, ROLES, Role, Row, Span, text_of

_COLOR = re.compile(r"3[0-7]|9[0-7]|38;5;\d+|38;2;\d+;\d+;\d+")
"""Codes that colour the text and do nothing else: the next such colour replaces it."""
_SEEN_ON_BLANKS = re.compile(r"(?:^|;)(?:4|7|9|21|4\d|10\d|5[1-5])(?=;|$)")
"""Codes that may draw something where there is no character: underline, reverse, background, frame."""
_INDEXED = re.compile(r"color\((\d+)\)")
_FEW_BLANKS = 4
"""So many are written rather than erased."""
_ALIKE = re.compile("([─-▟⠀-⣿])\\1{3,}| {8,}")
"""Drawn characters and blanks that take fewer bytes when they are repeated (REP, ECMA-48)."""
ERASED = "\x1b[2J"
PROBE, REPEATED = "\x1b[H{}\x1b[3b\x1b[6n\x1b[2J", 4
"""Asks where the cursor is after a character that is to be repeated (tmux repeats ASCII alone): in this column, from 0,
where it was."""
_ASK = "\x1b[6n"


Texts = Sequence[tuple[str, Style | None]]
"""Texts one after another, and how they look."""


class Piece(NamedTuple):
    """A piece of a line from (``x``, ``y``) on; ``last``: it ends at the right edge of the terminal."""

    x: int
    y: int
    texts: Texts
    last: bool


class Line:
    """What is known of the way to the terminal. It is asked where its cursor is after what is drawn; its answer says that
    this has arrived. One that does not answer gets everything at once. ``repeats``: it knows how to repeat."""

    def __init__(self) -> None:
        self.repeats = False
        self._probing = False
        self._answers = False
        self._room = float(_LEAST)
        self._since: float | None = None
        self._asked = 0

    @property
    def busy(self) -> bool:
        """Whether something is on its way to a terminal that will say when it has come."""
        if self._probing:
            return True
        return self._answers and self._since is not None and time.monotonic() < self._since + _PATIENCE

    def probe(self, character: str) -> str:
        """What to write first: nothing is drawn until the answer has come, or ``silent`` says that it has not."""
        self._probing = True
        return PROBE.format(character)

    def silent(self) -> None:
        """The terminal has had SECONDS_TO_ANSWER: it is not waited for any longer."""
        self._probing = False

    def room(self) -> float:
        """So many bytes may be drawn now."""
        return 0.0 if self.busy else self._room if self._answers else math.inf

    def begin(self) -> None:
        """Something will be drawn."""
        self._since = time.monotonic()

    def ask(self, n_bytes: int) -> str:
        """What to write after so many bytes, most often a question."""
        if self._asked and self.busy:
            return ""
        self._asked, self._since = n_bytes, time.monotonic()
        return _ASK if self._answers else ""

    def answered(self, column: int) -> None:
        """The terminal says where its cursor is."""
        self._probing = False
        if not self._answers:
            self._answers, self.repeats = True, column == REPEATED
        elif self._since is not None and self._asked:
            passed = max(time.monotonic() - self._since, 1e-3)
            room = self._asked * _SECONDS / passed
            self._room = min(max(room, _LEAST if passed > _SECONDS else self._room), _MOST)
        self._since, self._asked = None, 0


SECONDS_TO_ANSWER = 0.5
"""A first picture that does not wait for the answer takes seconds of a slow line, in which nothing else can be said."""
_LEAST, _MOST, _SECONDS, _PATIENCE = 1024, 1 << 16, 0.5, 5.0
"""Bytes that are on their way at least and at most; what takes so long to arrive; and how long an answer is waited for."""


class ShortLayout(LayoutUpdate):
    """The whole terminal."""

    def __init__(self, update: LayoutUpdate, repeats: bool = False) -> None:
        super().__init__(update.strips, update.region)
        self._repeats = repeats
        self.n_bytes = 0

    def render_segments(self, console: Console) -> str:
        """What to write."""
        x, y = self.region.offset
        lines = [_texts(Strip.join(line)) for line in self.strips]
        text = ERASED
        if any(style or not text.isspace() for line in lines for text, style in line):
            text = written((Piece(x, at, line, True) for at, line in enumerate(lines, y)), console, self._repeats)
        self.n_bytes = len(text.encode())
        return text


class ShortChange(ChopsUpdate):
    """The cells of a terminal of so many ``columns`` that changed."""

    def __init__(self, update: ChopsUpdate, columns: int, repeats: bool = False) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)
        self._columns = columns
        self._repeats = repeats
        self.n_bytes = 0

    def render_segments(self, console: Console) -> str:
        """What to write."""
        text = written(self._pieces(), console, self._repeats)
        self.n_bytes = len(text.encode())
        return text

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


def written(pieces: Iterable[Piece], console: Console, repeats: bool = False) -> str:
    """The bytes, as text, that draw these pieces on a terminal without a style, and leave it without one. ``repeats``: it
    can repeat a character."""
    system = console._color_system or ColorSystem.TRUECOLOR
    out: list[str] = []
    now, before = "", -1
    for x, y, texts, last in pieces:
        if y == before:
            out.append(f"\x1b[{x + 1}G")
        else:
            out.append("\r\n" if x == 0 and y == before + 1 > 0 else f"\x1b[{y + 1};{x + 1}H")
        before = y
        cells = [(text, _codes(style, system) if style else "") for text, style in texts]
        blanks = 0
        while last and cells and not cells[-1][1] and cells[-1][0].isspace():
            blanks += len(cells.pop()[0])
        for text, codes in [*cells, (" " * blanks, "")]:
            if text and codes != now and not (text.isspace() and _unseen(codes) and _unseen(now)):
                out.append(_change(now, codes))
                now = codes
            out.append(_ALIKE.sub(_told, text) if repeats else text)
        if blanks > _FEW_BLANKS:
            out[-1] = "\x1b[K"
    if now:
        out.append("\x1b[m")
    return "".join(out)


def _told(found: re.Match[str]) -> str:
    """One character, and how often it is to be repeated."""
    text = found[0]
    return f"{text[0]}\x1b[{len(text) - 1}b"


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


def looks(colors: int, light: bool = False) -> dict[Role, Style]:
    """A style for each role on a terminal of so many colours (0: none), whose background may be light."""
    return {role: _look(role, colors, light) for role in ROLES}


def _look(role: Role, colors: int, light: bool) -> Style:
    look = ROLES[role].rich
    if "color(" not in look:
        style = Style.parse(look or "none")
    elif colors < 256:
        style = Style.parse(FEW_COLOURS.get(role, "underline" if look.startswith("underline") else "none"))
    else:
        on_light = _INDEXED.sub(lambda found: f"color({ON_LIGHT.get(int(found[1]), int(found[1]))})", look)
        style = Style.parse(on_light if light else look)
    return style if colors else style.without_color


class Canvas(Widget, can_focus=True):
    """Shows rows of spans, each as wide as the widget. ``look`` gives a role's style."""

    def __init__(
        self, look: dict[Role, Style], line: Line, clicked: Callable[[int, int], None], typed: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._typed = typed
        self._look = look
        self._line = line
        self._clicked = clicked
        self._wanted: list[Row] = []
        self._rows: list[Row | None] = []
        """What the terminal has, or was sent: None for a blank line."""
        self._strips: list[Strip] = []
        self._cells: list[Ints] = []
        self._bytes: list[int] = []
        self._calm = False

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows instead; what is the same as before is not drawn again."""
        before, self._wanted = self._wanted, list(rows)
        same = [y < len(before) and row == before[y] for y, row in enumerate(self._wanted)]
        self._bytes = [self._bytes[y] if same[y] else bytes_of(row) for y, row in enumerate(self._wanted)]
        calm = too_much(sum(self._bytes), self.size.width * self.size.height, self._calm)
        if calm != self._calm or len(rows) != len(self._rows):
            self._calm = calm
            self._forget(len(rows))
        self.go_on()

    def _forget(self, n_rows: int) -> None:
        """Draw everything anew, on a blank terminal."""
        blank = cells_of((Span(" " * self.size.width),))
        self._rows, self._cells = [None] * n_rows, [blank] * n_rows
        self._strips = [Strip([], 0)] * n_rows
        self.refresh()

    def go_on(self) -> None:
        """Draw what the terminal lacks, from the top down, as much as there is room for on the way to it."""
        room, spent = self._line.room(), 0.0
        changed: list[Region] = []
        for y, row in enumerate(self._wanted):
            if row == self._rows[y]:
                continue
            if spent >= room:
                break
            drawn = calmed(row) if self._calm else merged(row)
            cells = cells_of(drawn)
            spans = changed_spans(self._cells[y], cells)
            n_changed = sum(last - first for first, last in spans)
            size = self._bytes[y] * n_changed / max(len(cells), 1) + _CHANGE * len(spans)
            if spent and spent + size > room:
                break
            spent += size
            self._rows[y], self._cells[y] = row, cells
            self._strips[y] = Strip([Segment(span.text, self._look[span.role]) for span in drawn], len(cells))
            changed += [Region(first, y, last - first, 1) for first, last in spans]
        if changed:
            self._line.begin()
            self.refresh(*changed)

    def stop(self) -> None:
        """Draw nothing more of what is wanted."""
        self._wanted = []

    def on_resize(self) -> None:
        """What was drawn for another size is not worth sending."""
        self._forget(len(self._wanted))
        self.go_on()

    def rows(self) -> list[Row]:
        """What is shown, or will be."""
        return list(self._wanted)

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
