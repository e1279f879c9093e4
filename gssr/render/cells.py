"""Text measured in terminal cells: cleaning, cutting, padding, wrapping.

Labels, commands and node names come from users, and recordings from anybody: they may hold escape sequences, newlines,
characters two cells wide or a megabyte. ``clean`` makes any of it harmless. Whatever lets text out calls it, whoever wrote
the text: pages (``gssr.report.terminal.to_text``), screens (``gssr.render.glyphs.drawable``), HTML
(``gssr.report.html.markup.fragment``), sheets of a PDF (``gssr.report.pdf.sheet.Sheet.put``), and lines on stderr
(``gssr.commands.tell``, ``gssr.profile.stderr.say``). Code that measures a text cleans it first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from gssr.render.roles import Role, Row, Span, one_row, text_of

LONGEST = 2000
"""Characters of one text that are shown; of a longer one the beginning."""
_MOST_CUTS = 3
"""Times that texts are cut anew which are alike once cut."""

_UNDRAWABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me", "Mc"}
"""Unicode categories without a cell of their own, or that steer a terminal."""
_UNSURE = re.compile(
    "[\u115f-\u11ff\u2630-\u2637\u268a-\u268f\u3164\u4dc0-\u4dff\ua960-\ua97c\ud7b0-\ud7fb\uffa0"
    "\U0001d300-\U0001d376\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]"
)
"""Characters that not every terminal gives as many cells: parts of syllables, fillers, half flags, tones of skin, and signs
that Unicode 16 has made wide."""

_BREAK = re.compile(r" +(?!(?<=\d )(?:\S{1,4}|\S?FLOP/\S)(?:[ ,;:)]|$))")
"""Where a line may be broken: not between a number and a unit."""


class _Shown(dict[int, str]):
    """What is shown for a character, by its number."""

    def __missing__(self, code: int) -> str:
        """Find what is shown for a character, and keep it: " " for white space, "?" for what can't be drawn."""
        char = chr(code)
        hidden = unicodedata.category(char) in _UNDRAWABLE or _UNSURE.match(char)
        self[code] = shown = " " if char.isspace() else "?" if hidden else char
        return shown


_SHOWN = _Shown()
_PLAIN = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02af\u2010-\u2027\u2190-\u22ff\u2500-\u25fc\u2800-\u28ff]*")
"""Letters and drawing characters that stay what they are."""


def clean(text: str) -> str:
    """Return ``text`` as one line of at most LONGEST characters that each take one or two cells.

    White space becomes a blank; control, format and combining characters, and those whose width is unsure, become
    ``?``.
    """
    return harmless(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


@lru_cache(maxsize=4096)
def harmless(text: str) -> str:
    """Clean ``text`` as ``clean`` does, whatever its length."""
    if _PLAIN.fullmatch(text):
        return text
    return unicodedata.normalize("NFC", text).translate(_SHOWN)


_NARROW = re.compile("[\0-\u036f\u2010-\u2027\u2190-\u22ff\u2500-\u25fc\u2800-\u28ff]*")
"""Letters and drawing characters of one cell each: no need to look at every one."""


def cell_width(text: str) -> int:
    """Return how many cells clean ``text`` takes."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, width: int) -> str:
    """Return as many leading characters as fit into ``width`` cells."""
    if text.isascii() or _NARROW.fullmatch(text):
        return text[: max(width, 0)]
    used = 0
    for index, char in enumerate(text):
        used += cell_width(char)
        if used > width:
            return text[:index]
    return text


def fit(text: str, width: int, ellipsis: str, keep: Literal["start", "end"] = "start") -> str:
    """Return ``text``, cleaned and cut to at most ``width`` cells, with ``ellipsis`` in place of what was cut (if
    there is room for it). ``keep`` says which end stays."""
    text = clean(text)
    if cell_width(text) <= width:
        return text
    room = width - cell_width(ellipsis)
    if room <= 0:
        return _cut(text, width)
    if keep == "start":
        return _cut(text, room).rstrip() + ellipsis
    return ellipsis + _cut(text[::-1], room)[::-1].lstrip()


def fit_apart(texts: Sequence[str], width: int, ellipsis: str, keep: Literal["start", "end"] = "start") -> list[str]:
    """Cut texts to at most ``width`` cells each, as ``fit`` does; but those that would be alike then are cut in the
    middle, so that what tells them apart stays. Texts that are the same, and some that differ in too many places, are
    alike in the result too. Same order and number as ``texts``."""
    cut = [fit(text, width, ellipsis, keep) for text in texts]
    for _ in range(_MOST_CUTS):  # those that differ late are alike once more
        alike: dict[str, list[int]] = {}
        for at, text in enumerate(cut):
            alike.setdefault(text, []).append(at)
        for places in alike.values():
            own = {clean(texts[at]) for at in places}
            if len(own) > 1:
                differ = _first_difference(own)
                for at in places:
                    cut[at] = _cut_before(clean(texts[at]), differ, width, ellipsis)
    return cut


def _first_difference(texts: Collection[str]) -> int:
    """Return the place of the first character that is not the same in all texts, which are not all alike."""
    return next(at for at, (a, b) in enumerate(zip_longest(min(texts), max(texts))) if a != b)


def _cut_before(text: str, differ: int, width: int, ellipsis: str) -> str:
    """Cut out the middle of a text, so that its beginning stays and what is at ``differ``, in ``width`` cells."""
    head = min(max(width // 3, 1), differ)
    room = width - head - len(ellipsis)
    begin = max(min(differ - room // 3, len(text) - room), head)
    return fit(f"{text[:head]}{ellipsis}{text[begin:]}", width, "") if room > 0 else fit(text, width, ellipsis)


def pad(row: Row, width: int, align: Literal["left", "right"] = "left") -> Row:
    """Return ``row`` filled with blanks to exactly ``width`` cells; a wider one is cut on the right."""
    missing = width - cell_width(text_of(row))
    if missing == 0:
        return row
    if missing < 0:
        return clip(row, width)
    blank = Span(" " * missing)
    return (*row, blank) if align == "left" else (blank, *row)


def side_by_side(left: Sequence[Row], right: Sequence[Row], size: int) -> list[Row]:
    """Set two drawings beside each other, the right one from cell ``size`` on; what is wider on the left is cut."""
    return [(*pad(one, size), *other) for one, other in zip_longest(left, right, fillvalue=())]


def fit_row(row: Row, width: int, ellipsis: str, keep: Literal["start", "end"] = "start") -> Row:
    """Return ``row`` in at most ``width`` cells: its longest span gives way, as ``fit`` cuts it, and then the row is
    cut on the right."""
    over = cell_width(text_of(row)) - width
    if over <= 0:
        return row
    at = max(range(len(row)), key=lambda i: cell_width(row[i].text))
    room = cell_width(row[at].text) - over
    longest = Span(fit(row[at].text, max(room, 0), ellipsis, keep), row[at].role)
    return clip((*row[:at], longest, *row[at + 1 :]), width)


def cleaned(row: Row) -> Row:
    """Return the row with the texts of its spans clean; the same row if they are."""
    for span in row:
        if clean(span.text) != span.text:
            return tuple(Span(clean(span.text), span.role) for span in row)
    return row


def clip(row: Row, width: int) -> Row:
    """Return ``row`` cut on the right to at most ``width`` cells, without empty spans."""
    if cell_width(text_of(row)) <= width:
        return row if all(span.text for span in row) else tuple(span for span in row if span.text)
    spans: list[Span] = []
    left = width
    for span in row:
        text = _cut(span.text, left)
        if text:
            spans.append(Span(text, span.role))
        left -= cell_width(span.text)
        if left <= 0:
            break
    return tuple(spans)


def wrap(
    text: str,
    width: int,
    first: str = "",
    rest: str = "",
    role: Role = "plain",
    unbroken: re.Pattern[str] | None = None,
) -> list[Row]:
    """Break ``text``, cleaned, into lines of at most ``width`` cells, at blanks but not between a number and its unit, nor
    within what matches ``unbroken`` and fits on a line.

    A longer word is broken where it must be. ``first`` and ``rest`` begin the first and every other line. At least one
    line.
    """
    lines: list[str] = []
    line = first
    empty = True
    text = clean(text).strip()
    if unbroken is not None:  # clean text holds no zeros
        room = width - max(len(first), len(rest))
        text = unbroken.sub(
            lambda found: found[0].replace(" ", "\0") if cell_width(found[0]) <= room else found[0], text
        )
    for joined in _BREAK.split(text):
        word = joined.replace("\0", " ")
        if not empty and cell_width(line) + 1 + cell_width(word) > width:
            lines.append(line)
            line, empty = rest, True
        line = line + word if empty else f"{line} {word}"
        empty = False
        while cell_width(line) > width:
            head = _cut(line, width)
            if len(head) <= len(rest):  # no room at all beside the indent
                break
            lines.append(head)
            line = rest + line[len(head) :]
    lines.append(line)
    return [clip((Span(text, role),), width) for text in lines]


def at_most(rows: Sequence[Row], height: int, width: int, ellipsis: str) -> list[Row]:
    """Keep the first ``height`` rows. Where others are left out, the last one that stays is cut to ``width`` cells with
    ``ellipsis`` behind it; all others are as they were."""
    if len(rows) <= height or height < 1:
        return list(rows[: max(height, 0)])
    last = clip(rows[height - 1], max(width - 1 - cell_width(ellipsis), 0))
    return [*rows[: height - 1], (*last, Span(f" {ellipsis}", "dim"))]


def flow(pieces: Sequence[Row], width: int, ellipsis: str, separator: str = "  ", indent: str = "") -> list[Row]:
    """Put pieces one after another, with ``separator`` between them. A piece that no longer fits begins a new line
    after ``indent``; one longer than a line is cut. No rows without pieces."""
    rows: list[Row] = []
    line: list[Row] = []
    used = 0
    for piece in pieces:
        size = cell_width(text_of(piece))
        if line and used + len(separator) + size > width:
            rows.append(one_row(line, separator))
            line, used = [], 0
        if not line and rows and indent:
            piece = (Span(indent), *piece)
            size += len(indent)
        if size > width:
            piece = _shortened(piece, width, ellipsis)
        used += size + (len(separator) if line else 0)
        line.append(piece)
    if line:
        rows.append(one_row(line, separator))
    return rows


def as_many_as_fit(pieces: Sequence[Row], width: int) -> Row:
    """Put the first piece, cut if need be, on one line of at most ``width`` cells, and behind it each of the others
    that still fits, two blanks apart; one that doesn't is left out, and the next one tried. () without pieces."""
    line = clip(pieces[0], max(width, 0)) if pieces else ()
    for piece in pieces[1:]:
        longer = one_row([line, piece], "  ")
        if cell_width(text_of(longer)) <= width:
            line = longer
    return line


def _shortened(row: Row, width: int, ellipsis: str) -> Row:
    if width <= len(ellipsis):
        return clip(row, width)
    return (*clip(row, width - len(ellipsis)), Span(ellipsis, "dim"))
