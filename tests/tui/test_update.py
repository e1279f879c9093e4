"""What is written to the terminal draws what it should, in few bytes."""

import io
import math
import re

import pytest
from gssr.tui.canvas import Piece, ShortChange, ShortLayout, looks, written
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from gssr.tui import canvas

WIDTH, HEIGHT = 24, 3
STYLES = [*dict.fromkeys(looks(256).values()), Style.parse("on blue"), Style.parse("bold on #303030"), None]
CONSOLE = Console(file=io.StringIO(), force_terminal=True, color_system="256", width=WIDTH)
Cell = tuple[str, frozenset[str]]


class Screen:
    """As much of a terminal as is needed: cells of a character and what of its style can be seen."""

    def __init__(self, old: str) -> None:
        self.cells = [[(old, frozenset[str]())] * WIDTH for _ in range(HEIGHT)]
        self.codes: list[str] = []

    def feed(self, data: str) -> None:
        y = x = 0
        words = r"\x1b\[(\d+;\d+)H|\x1b\[(\d+)G|\x1b\[([\d;]*)m|\x1b\[([KJ2]+)|\x1b\[(\d+)b|(\r\n)|([^\x1b])"
        for move, across, sgr, erase, again, newline, char in re.findall(words, data):
            if move:
                y, x = (int(number) - 1 for number in move.split(";"))
            elif across:
                x = int(across) - 1
            elif newline:
                y, x = y + 1, 0
            elif erase == "2J":
                self.cells = [[self._cell(" ")] * WIDTH for _ in range(HEIGHT)]
            elif erase:
                self.cells[y][x:] = [self._cell(" ")] * (WIDTH - x)
            elif again:
                self.cells[y][x : x + int(again)] = [self.cells[y][x - 1]] * int(again)
                x += int(again)
            elif char:
                self.cells[y][x] = self._cell(char)
                x += 1
            else:
                self._style(sgr)
        assert not self.codes, "a style is left behind"

    def _style(self, sgr: str) -> None:
        for code in re.findall(r"[34]8;5;\d+|\d+", sgr) or ["0"]:
            kept = [] if code == "0" else [old for old in self.codes if _kind(old) != _kind(code)]
            self.codes = kept + [code] * (code != "0")

    def _cell(self, char: str) -> Cell:
        return char, _seen(char, self.codes)


def _kind(code: str) -> str:
    """Codes of one kind replace one another."""
    if code.startswith("38") or 30 <= int(code.split(";")[0]) <= 37:
        return "foreground"
    return "background" if code.startswith("48") or 40 <= int(code.split(";")[0]) <= 47 else code


def _seen(char: str, codes: list[str]) -> frozenset[str]:
    """Of a blank only what is drawn without a character."""
    return frozenset(code for code in codes if char != " " or _kind(code) == "background" or code in ("4", "7"))


def _expected(strip: Strip) -> list[Cell]:
    cells = []
    for text, style, _ in strip:
        codes = "" if style is None else Strip.render_ansi(style, CONSOLE._color_system)
        cells += [(char, _seen(char, re.findall(r"[34]8;5;\d+|\d+", codes))) for char in text]
    return cells


segments = st.tuples(
    st.one_of(
        st.text(" ab▁█", min_size=1, max_size=5), st.builds(str.__mul__, st.sampled_from(" a█"), st.integers(1, 12))
    ),
    st.sampled_from(STYLES),
).map(lambda pair: Segment(*pair))
strips = st.lists(segments, min_size=1, max_size=6).map(
    lambda parts: Strip([*parts, Segment(" " * WIDTH)]).crop(0, WIDTH)
)


@given(st.lists(strips, min_size=HEIGHT, max_size=HEIGHT), st.booleans())
def test_a_whole_terminal_shows_what_it_should(lines: list[Strip], repeats: bool) -> None:
    screen = Screen("?")
    update = LayoutUpdate([[line] for line in lines], Region(0, 0, WIDTH, HEIGHT))
    screen.feed(ShortLayout(update, repeats).render_segments(CONSOLE))
    assert all(len(line) == WIDTH for line in screen.cells)
    assert screen.cells == [_expected(line) for line in lines]


@given(
    st.lists(strips, min_size=HEIGHT, max_size=HEIGHT),
    st.lists(st.tuples(st.integers(0, HEIGHT - 1), st.integers(0, WIDTH - 1), st.integers(1, WIDTH)), max_size=5),
    st.integers(1, WIDTH - 1),
    st.booleans(),
)
def test_only_the_cells_that_changed_are_touched(lines: list[Strip], spans: list, cut: int, repeats: bool) -> None:
    spans = [(y, first, min(first + size, WIDTH)) for y, first, size in spans]
    chops = [{0: line.crop(0, cut), cut: line.crop(cut, WIDTH)} for line in lines]
    update = ChopsUpdate(chops, spans, [[cut, WIDTH]] * HEIGHT)
    screen = Screen("?")
    screen.feed(ShortChange(update, WIDTH, repeats).render_segments(CONSOLE))
    touched = {(y, x) for y, first, last in spans for x in range(first, last)}
    for y, line in enumerate(lines):
        for x, cell in enumerate(_expected(line)):
            assert screen.cells[y][x] == (cell if (y, x) in touched else ("?", frozenset()))


@pytest.mark.parametrize(
    ("parts", "bytes_written"),
    [
        ([("ab", "cyan"), ("cd", "magenta"), ("        ", "none")], "\x1b[1;1H\x1b[36mab\x1b[35mcd\x1b[K\x1b[m"),
        ([("ab", "bold"), ("  ", "none"), ("cdefghij", "bold")], "\x1b[1;1H\x1b[1mab  cdefghij\x1b[m"),
        ([("ab", "bold"), ("cd", "cyan"), ("x       ", "none")], "\x1b[1;1H\x1b[1mab\x1b[0;36mcd\x1b[mx       "),
    ],
)
def test_styles_are_changed_no_more_than_needed(parts: list[tuple[str, str]], bytes_written: str) -> None:
    texts = [(text, Style.parse(style)) for text, style in parts]
    assert written([Piece(0, 0, texts, True)], CONSOLE) == bytes_written


@pytest.mark.parametrize(
    ("text", "bytes_written"),
    [("━" * 9 + "─", "━\x1b[8b─"), ("━━━", "━━━"), ("a" * 20, "a" * 20), ("x" + 9 * " " + "x", "x \x1b[8bx")],
)
def test_what_is_alike_is_sent_once_where_the_terminal_repeats(text: str, bytes_written: str) -> None:
    pieces = [Piece(1, 4, [(text, None)], False), Piece(0, 5, [("y", None)], False)]
    assert written(pieces, CONSOLE, repeats=True) == f"\x1b[5;2H{bytes_written}\r\ny"
    assert written(pieces, CONSOLE) == f"\x1b[5;2H{text}\r\ny"


def test_wide_characters_are_cut_by_cells() -> None:
    strip = Strip([Segment("a漢b漢c")])
    update = ChopsUpdate([{0: strip}], [(0, 1, 3), (0, 3, 4), (0, 6, 7)], [[7]])
    assert ShortChange(update, 80).render_segments(CONSOLE) == "\x1b[1;2H漢\x1b[4Gb\x1b[7Gc"


def test_no_more_is_on_its_way_than_half_a_second_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow line, on a fast one, and to a terminal that answers nothing."""
    now = [100.0]
    monkeypatch.setattr(canvas.time, "monotonic", lambda: now[0])
    line = canvas.Line()
    line.begin()
    assert line.ask(5000) == "" and line.room() == math.inf and not line.busy  # it has not answered yet
    line.answered(canvas.REPEATED)
    assert line.repeats and line.room() == 1024
    for n_bytes, seconds, room in ((1024, 0.51, 1024), (1024, 0.1, 5120), (200, 0.1, 5120), (5120, 2.0, 1280)):
        line.begin()
        assert line.room() == 0.0 and line.ask(n_bytes) == "\x1b[6n" and line.ask(10) == ""
        now[0] += seconds
        assert line.busy
        line.answered(0)
        assert round(line.room()) == room and not line.busy
    line.begin()
    now[0] += 6.0
    assert round(line.room()) == 1280  # no answer comes: go on
    silent = canvas.Line()
    silent.answered(1)
    assert not silent.repeats


def test_nothing_is_drawn_before_the_terminal_has_said_how_it_draws() -> None:
    """Or until it has had its time to: a first picture as a whole takes seconds of a slow line."""
    line, silent = canvas.Line(), canvas.Line()
    for one in (line, silent):
        assert one.probe("━").startswith("\x1b[H━\x1b[3b\x1b[6n")
        assert one.busy and one.room() == 0.0
    line.answered(canvas.REPEATED)
    assert not line.busy and line.room() == 1024 and line.repeats
    silent.silent()
    assert not silent.busy and silent.room() == math.inf and not silent.repeats
