"""What is written to the terminal, in as few bytes as it takes, and never more than a slow line carries in half a second.

Textual writes a whole widget anew when a cell of it has changed, and names every colour each time. This driver, below all of
it, keeps what the terminal shows as cells, and writes those that differ. Blanks take any colour of text, and a terminal that
can repeat a character is told how often.
What cannot be sent yet, because the last bytes have not arrived, is not queued: when the terminal has said where its cursor
is, the newest cells are sent, from the top down.

Everything used of Textual is public: ``App.get_driver_class``, and ``write`` and ``process_message`` of a ``Driver``.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from textual import events
from textual.driver import Driver
from textual.message import Message

from gssr.render.cells import cell_width

_TOKEN = re.compile(
    r"\x1b\[([\d;:]*)m([^\x1b\r\n]*)(\x1b\[0m)?"  # 1: a style; 2: the text in it; 3: the end of the style
    r"|\x1b\[(\d+);(\d+)H"  # 4, 5: a place
    r"|([^\x1b\r\n]+)"  # 6: text
    r"|[\r\n]+"
    r"|(\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P_^X][^\x1b]*\x1b\\|\x1b\[[0-?]*[ -/]*[@-~]|\x1b.)",  # 7: anything else
    re.DOTALL,
)
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Around what is to be seen at once."""
_SCREEN, _NO_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
"""Before the first picture, or the first after the shell had the terminal; and after the last."""
_CLEARED = re.compile(r"\x1b\[[23]J|\x1bc")
"""After these nothing is known of what the terminal shows."""
_LINK = "\x1b]8;"
_ASK = "\x1b[6n"
_TEXTUAL_ASKS = "\x1b[?2026$p"
"""Textual's own question, after which the terminal prints no answer by itself: ours may follow."""
_PROBE, _REPEATED = "\x1b[H▄\x1b[3b\x1b[6n\x1b[H\x1b[K", 4
"""Asks where the cursor is after a character that is to be repeated (REP, ECMA-48): in this column, from 0, where the
terminal repeats it. Old tmux repeats ASCII alone, others nothing at all."""
_ALIKE = re.compile("([─-▟⠀-⣿])\\1{2,}| {7,}")
"""Drawn characters and blanks that take fewer bytes when they are repeated."""
_KEPT = 4
"""So many cells that did not change are written again rather than skipped: moving the cursor costs as much."""
_LEAST, _MOST, _SECONDS, _PATIENCE = 1024, 1 << 16, 0.5, 5.0
"""Bytes that are on their way at least and at most; what takes so long to arrive; and how long an answer is waited for."""
_SILENT = 0.5
"""A terminal that has not answered the first question by then is asked no more. Nothing is drawn before: how much a slow
line can take is not known until then."""


class _Style(NamedTuple):
    """``ink`` and ``paper``: the codes of the colours of text and of what is behind it, empty for the terminal's own;
    ``marks``: all other codes."""

    ink: str
    paper: str
    marks: str


_PLAIN = _Style("", "", "")
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""What takes back each mark alone."""
_CODE = re.compile(
    r"(?P<ink>38;5;\d+|38;2;\d+;\d+;\d+|3[0-7]|9[0-7])(?=;|$)"
    r"|(?P<paper>48;5;\d+|48;2;\d+;\d+;\d+|4[0-7]|10[0-7])(?=;|$)|(?P<mark>\d+)"
)
_SHOWN_ON_BLANKS = re.compile(r"(?:^|;)(?:4|7|9|21|5[1-5])(?=;|$)")


@lru_cache(maxsize=4096)
def _style(codes: str) -> _Style:
    """The style that these parameters of SGR give, after a reset; without any the terminal's own."""
    ink, paper, marks = "", "", list[str]()
    for code in _CODE.finditer(codes):
        if code.lastgroup == "ink":
            ink = code[0]
        elif code.lastgroup == "paper":
            paper = code[0]
        elif code[0] == "0":
            ink, paper, marks = "", "", []
        elif code[0] not in ("39", "49"):
            marks.append(code[0])
    return _Style(ink, paper, ";".join(marks))


@lru_cache(maxsize=4096)
def _on_blank(style: _Style) -> _Style:
    """Return what is seen of a style where there is no character."""
    return style if _SHOWN_ON_BLANKS.search(style.marks) else _Style("", style.paper, "")


@lru_cache(maxsize=8192)
def _change(before: _Style, after: _Style) -> str:
    """Return the shortest known escape sequence that turns a terminal's style from ``before`` into ``after``."""
    if after == _PLAIN:
        return "\x1b[m"
    had, has = before.marks.split(";") if before.marks else [], after.marks.split(";") if after.marks else []
    lost = {mark for mark in had if mark not in has}
    if not lost <= _OFF.keys():
        return f"\x1b[{';'.join(['0', *filter(None, after)])}m"
    off = {_OFF[mark] for mark in lost}
    codes = [*sorted(off), *(mark for mark in has if mark not in had or _OFF.get(mark) in off)]
    if after.ink != before.ink:
        codes.append(after.ink or "39")
    if after.paper != before.paper:
        codes.append(after.paper or "49")
    return f"\x1b[{';'.join(codes)}m"


@lru_cache(maxsize=8192)
def _cells(text: str, style: _Style) -> tuple[list[str], list[_Style]]:
    """Return the cells of a text, which the caller must not change: of each its character ("" behind a wide one), and the
    style that is seen of it. The same pieces are drawn again and again."""
    chars = list(text)
    if cell_width(text) != len(text):
        chars = [piece for char in text for piece in (char, *[""] * (cell_width(char) - 1))]
    blank = _on_blank(style)
    return chars, [blank if char == " " else style for char in chars]


class _Line:
    """One line of cells: of each its character ("" behind a wide one) and its style."""

    __slots__ = ("chars", "styles")

    def __init__(self) -> None:
        self.chars: list[str] = []
        self.styles: list[_Style | None] = []

    def put(self, x: int, text: str, style: _Style) -> int:
        """Write text from cell ``x`` on, and return the cell after it. Cells before it that did not exist become
        blanks."""
        chars, styles = _cells(text, style)
        end, lacks = x + len(chars), x - len(self.chars)
        if lacks > 0:
            self.chars += [" "] * lacks
            self.styles += [None] * lacks
        self.chars[x:end] = chars
        self.styles[x:end] = styles
        return end

    def changes(self, sent: "_Line") -> Iterator[tuple[int, int]]:
        """Yield [first, end) of each run of cells in which ``sent`` differs; runs with up to _KEPT equal cells between
        them are one."""
        if self.chars == sent.chars and self.styles == sent.styles:
            return
        n, known = len(self.chars), len(sent.chars)
        differs = [
            x for x in range(n)
            if x >= known or self.chars[x] != sent.chars[x] or self.styles[x] != sent.styles[x]
        ]  # fmt: skip
        far = [at for at in range(1, len(differs)) if differs[at] > differs[at - 1] + 1 + _KEPT]
        for first, end in pairwise([0, *far, len(differs)] if differs else ()):
            yield self._whole(differs[first], differs[end - 1] + 1)

    def drawn(self, first: int, end: int, pen: _Style, repeats: bool) -> tuple[str, _Style]:
        """Return the text that draws the cells from ``first`` to before ``end``, and the terminal's style after it, which
        was ``pen`` before. ``repeats``: the terminal can repeat a character."""
        out, x = list[str](), first
        for own, run in groupby(self.styles[first:end]):
            after = x + len(list(run))
            style, text, x = own or _PLAIN, "".join(self.chars[x:after]), after
            takes_any_ink = not text.strip(" ") and _on_blank(style) == _on_blank(pen)
            if style != pen and not takes_any_ink:
                out.append(_change(pen, style))
                pen = style
            out.append(_ALIKE.sub(_told, text) if repeats else text)
        return "".join(out), pen

    def _whole(self, first: int, end: int) -> tuple[int, int]:
        """Widen [first, end) so that it holds no half of a wide character."""
        while first and self.chars[first] == "":
            first -= 1
        while end < len(self.chars) and self.chars[end] == "":
            end += 1
        return first, end


class Wire:
    """What the terminal shows, what it is to show, and how much may be on its way. ``write`` sends bytes to the terminal."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lock = threading.RLock()
        self._wanted = defaultdict[int, _Line](_Line)
        self._sent = defaultdict[int, _Line](_Line)
        self._dirty: set[int] = set()
        self._x = self._y = 0
        self._style = _PLAIN
        self._pen = _PLAIN
        """The style that the terminal has after what was sent."""
        self._at_once = False
        self._holds = False
        self._answers: bool | None = None
        """Whether the terminal says where its cursor is; None as long as that is not known."""
        self._repeats = False
        """Whether it can repeat a character."""
        self._room = _LEAST
        self._asked, self._since = 0, 0.0
        """Bytes before the question that is on its way, 0 for none, and when it was asked (monotonic s)."""

    def take(self, data: str) -> None:
        """Take what Textual writes: keep its cells, pass other sequences on, and send what differs."""
        with self._lock:
            style, x, y, drawn = self._style, self._x, self._y, False
            for found in _TOKEN.finditer(data):
                kind, text = found.lastindex, None
                if kind in (2, 3):
                    style, text = _style(found[1]), found[2]
                elif kind == 6:
                    text = found[6]
                elif kind == 5:
                    y, x = int(found[4]) - 1, int(found[5]) - 1
                elif kind == 7:
                    self._pass(found[7])
                else:
                    y, x = y + found[0].count("\n"), 0
                if text:
                    x = self._wanted[y].put(x, text, style)
                    self._dirty.add(y)
                    drawn = True
                if kind == 3:
                    style = _PLAIN
            self._style, self._x, self._y = style, x, y
            if drawn:  # when the screen has only begun, the terminal would still print its answer
                self._send()

    def _pass(self, sequence: str) -> None:
        """Write a sequence that draws nothing. Links are dropped, and begin and end of a picture are only noted;
        another screen or a cleared one makes what is known of the terminal void."""
        if sequence in (_BEGIN, _END):
            self._at_once = True
        elif not sequence.startswith(_LINK):
            if sequence in (_SCREEN, _NO_SCREEN):
                self._sent.clear()
                self._asked = 0
                self._holds = sequence == _NO_SCREEN
                self._dirty = set(self._wanted)  # all of it is to be seen again when the shell gives the terminal back
            elif _CLEARED.fullmatch(sequence):
                self.forget()
                self._asked = 0
            self._put_pen_down()
            self._write(sequence)
            if sequence == _TEXTUAL_ASKS and self._answers is None and not self._asked:
                self._probe()

    def _put_pen_down(self) -> None:
        """Give the terminal its own style back: what is written next is not ours, or may erase in that style."""
        if self._pen != _PLAIN:
            self._pen = _PLAIN
            self._write("\x1b[m")

    def _probe(self) -> None:
        """Ask the terminal the first question, and wait at most _SILENT seconds for the answer."""
        self._asked, self._since = len(_PROBE), time.monotonic()
        self._write(_PROBE)
        timer = threading.Timer(_SILENT, self._silent)
        timer.daemon = True
        timer.start()

    def hold(self) -> None:
        """Send no cells any more, until there is a screen again."""
        with self._lock:
            self._holds = True

    @property
    def is_busy(self) -> bool:
        """Tell whether something is on its way whose arrival the terminal has yet to confirm; False after _PATIENCE
        seconds."""
        with self._lock:
            return bool(self._asked) and time.monotonic() < self._since + _PATIENCE

    def forget(self) -> None:
        """Forget what the terminal shows and is to show, so that all will be written anew."""
        with self._lock:
            self._wanted.clear()
            self._sent.clear()
            self._dirty.clear()

    def answered(self, column: int) -> None:
        """Note that what was sent has arrived, as the terminal has said that its cursor is in this column (from 0),
        and send what waits. The time it took tells how much may be sent next."""
        with self._lock:
            if not self._answers:
                self._answers, self._repeats = True, column == _REPEATED
            elif self._asked:
                passed = max(time.monotonic() - self._since, 1e-3)
                room = self._asked * _SECONDS / passed
                self._room = int(min(max(room, _LEAST if passed > _SECONDS else self._room), _MOST))
            self._asked = 0
            self._send()

    def _silent(self) -> None:
        """Send without waiting for answers from now on, if the first question got none."""
        with self._lock:
            if self._answers is None:
                self._answers, self._asked = False, 0
                self._send()

    def _send(self) -> None:
        """Send the lines that differ, from the top down, as much as there is room for; nothing while the last bytes
        are on their way. What is left is sent after the next answer."""
        if self._holds or not self._dirty or self.is_busy:
            return
        if self._answers is None:
            self._probe()
            return
        room = self._room if self._answers else _MOST * 16
        out, n, at = list[str](), 0, (-1, -1)
        for y in sorted(self._dirty):
            line, sent = self._wanted[y], self._sent[y]
            for first, end in line.changes(sent):
                text, self._pen = line.drawn(first, end, self._pen, self._repeats)
                out += (_move(at, y, first), text)
                at, n = (y, end), n + len(text.encode())
            sent.chars, sent.styles = line.chars[:], line.styles[:]
            self._dirty.discard(y)
            if n >= room:
                break
        if not out:
            return
        text = "".join(out)
        if self._at_once and not self._dirty:  # what comes in parts is seen in parts
            text = f"{_BEGIN}{text}{_END}"
        if self._answers:
            self._asked, self._since = len(text.encode()), time.monotonic()
            text += _ASK
        self._write(text)


def _move(at: tuple[int, int], y: int, x: int) -> str:
    """Return what moves the cursor from the cell ``at`` (row, column; -1, -1 for an unknown one) to another."""
    if at == (y, x):
        return ""
    if at[0] == y and x > at[1]:
        return f"\x1b[{x - at[1]}C"
    if at[0] == y - 1 >= 0:
        return f"\r\n\x1b[{x}C" if x else "\r\n"
    return f"\x1b[{y + 1};{x + 1}H"


def _told(alike: re.Match[str]) -> str:
    """One of these characters, and how often it is to be repeated."""
    return f"{alike[0][0]}\x1b[{len(alike[0]) - 1}b"


def thrifty(driver: type[Driver]) -> type[Driver]:
    """Return the driver with a wire below it, if it is that of a terminal; any other driver (of a browser, of tests)
    as it is."""
    if driver.__name__ != "LinuxDriver":
        return driver
    base: Any = driver

    class ThriftyDriver(base):  # type: ignore[misc]
        """Sends cells, not widgets."""

        def __init__(self, app: Any, **options: Any) -> None:
            super().__init__(app, **options)
            self._shown_on = app
            self._size_then = app.size
            self._wire = app.wire = Wire(super().write)

        def write(self, data: str) -> None:
            """Send what differs from what the terminal shows; all of it, once the screen has been laid out for another
            size. What is still drawn in the layout before then may wrap and scroll in a smaller terminal: nothing of it
            is kept as known."""
            size = self._shown_on.screen.outer_size if self._shown_on.screen_stack else self._size_then
            if size and size != self._size_then:  # a screen that is not laid out yet has none
                self._size_then = size
                self._wire.forget()
            self._wire.take(data)

        def process_message(self, message: Message) -> None:
            """Take the terminal's answers; everything else is the app's."""
            if isinstance(message, events.CursorPosition):
                self._wire.answered(message.x)
            else:
                super().process_message(message)

    return ThriftyDriver
