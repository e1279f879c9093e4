"""What is written to the terminal, in as few bytes as it takes: they are what a slow connection has least of.

Textual begins every change at the widget's left edge, and takes every style back before the next one. Here a change begins
where it does, a style stays until another one is needed, blanks take any, and the blank end of a line is erased.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

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
