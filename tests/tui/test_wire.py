"""What is sent to the terminal: it shows the same as if Textual had written to it, in far fewer bytes, and a slow line is
never sent more than it carries."""

import random
import re
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from textual.app import App
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size
from textual.screen import Screen

from gssr.tui.wire import Wire, thrifty

_TOKEN = re.compile(r"\x1b\[([\d;?]*)([A-Za-z@])|\x1b\[\?\d+[hl]|([^\x1b])")
_OFF = {"22": "12", "23": "3", "24": "4", "27": "7", "29": "9"}
"""The marks that each of these codes takes back."""


class Terminal:
    """A terminal of this size: characters and the styles that can be seen. ``repeats``: it knows REP."""

    def __init__(self, width: int = 40, height: int = 6, repeats: bool = True) -> None:
        self.width, self.height, self.repeats = width, height, repeats
        self._last = " "
        self.cells = [[(" ", "[]")] * width for _ in range(height)]
        self._x = self._y = 0
        self._style: dict[str, str] = {}
        self.n_bytes = 0
        self.n_questions = 0

    def write(self, text: str) -> None:
        self.n_bytes += len(text.encode())
        for found in _TOKEN.finditer(text):
            if found[3] is not None:
                if found[3] == "\n":
                    self._x, self._y = 0, self._y + 1
                elif found[3] == "\r":
                    self._x = 0
                else:
                    self._put(found[3])
            elif found[2]:
                self._act(found[2], found[1])

    def _put(self, char: str) -> None:
        self._last = char
        if self._x < self.width:
            self.cells[self._y][self._x] = (char, self._seen(char))
            self._x += 1

    def _act(self, name: str, text: str) -> None:
        numbers = [int(each) for each in text.split(";") if each.isdigit()] or [1, 1]
        line, blank = self.cells[self._y], (" ", self._seen(" "))
        if name == "H":
            self._y, self._x = numbers[0] - 1, min(numbers[1], self.width) - 1
        elif name == "C":
            self._x += numbers[0]
        elif name == "K":
            line[self._x :] = [blank] * (self.width - self._x)
        elif name == "b":
            for _ in range(numbers[0] if self.repeats else 0):
                self._put(self._last)
        elif name == "n":
            self.n_questions += 1
            self.column = self._x
        elif name == "m":
            self._set(text)

    def _set(self, text: str) -> None:
        codes = text.split(";")
        while codes:
            code = codes.pop(0)
            if code in ("", "0"):
                self._style = {}
            elif code in ("38", "48"):
                self._style[code] = ";".join(codes[:4])
                del codes[:4]
            elif code in ("39", "49"):
                self._style.pop("38" if code == "39" else "48", None)
            elif code in _OFF:
                for mark in _OFF[code]:
                    self._style.pop(f"mark {mark}", None)
            else:
                self._style[f"mark {code}"] = code

    def _seen(self, char: str) -> str:
        shown = self._style if char != " " else {key: code for key, code in self._style.items() if key == "48"}
        return str(sorted(shown.items()))


def picture(random_: random.Random, shift: int) -> str:
    """What Textual writes for a whole screen of 40x6: a name, a bar that rolls on by ``shift``, a border."""
    rows = []
    for y in range(6):
        loads = [(at * 7 + y * 3) % 5 for at in range(shift, shift + 29)]
        bar = "".join(f"\x1b[38;2;{load * 40};9;{y};48;2;1;2;3m{' ▂▄▆█'[load]}\x1b[0m" for load in loads)
        name = f"\x1b[1;38;2;200;200;200;48;2;1;2;3mGPU {y} {random_.randrange(100):3}\x1b[0m"
        rows.append(f"\x1b[{y + 1};1H{name}{bar}\x1b[38;2;5;5;5;48;2;1;2;3m │\x1b[0m")
    return "\n".join(rows)


def arrive(wire: Wire, column: int = 4) -> None:
    """The terminal answers until all has come: first that its cursor is in this column after the question whether it can
    repeat a character."""
    for _ in range(20):
        wire.answered(column)


@pytest.mark.parametrize("repeats", [True, False])
def test_the_first_question_tells_whether_the_terminal_repeats_characters_and_leaves_no_trace(repeats: bool) -> None:
    thin = Terminal(repeats=repeats)
    wire = Wire(thin.write)
    wire.take("\x1b[?2026$p")  # Textual's own question
    assert thin.n_questions == 1 and thin.column == (4 if repeats else 1)
    assert all(cell[0] == " " for line in thin.cells for cell in line)
    wire.take("\x1b[1;1H" + "─" * 40 + "\n" + " " * 39 + "│")
    assert thin.cells[0][0][0] == " ", "nothing is drawn before the answer"
    wire.answered(thin.column)
    arrive(wire)
    assert ["".join(char for char, _ in line) for line in thin.cells[:2]] == ["─" * 40, " " * 39 + "│"]
    assert (thin.n_bytes < 90) == repeats


def test_each_mark_is_taken_back_alone() -> None:
    random_ = random.Random(5)
    plain, thin = Terminal(), Terminal()
    wire = Wire(thin.write)
    for _ in range(200):
        marks = ";".join(mark for mark in "123479" if random_.random() < 0.4)
        place, ink = f"{random_.randrange(1, 7)};{random_.randrange(1, 30)}", f"38;2;1;2;{random_.randrange(3)}"
        text = f"\x1b[{place}H\x1b[{marks or '0'};{ink}mxyz\x1b[0m"
        plain.write(text)
        wire.take(text)
        arrive(wire)
        assert thin.cells == plain.cells


@pytest.mark.parametrize("repeats", [True, False])
def test_the_terminal_shows_what_textual_wrote_in_fewer_bytes(repeats: bool) -> None:
    plain, thin = Terminal(), Terminal(repeats=repeats)
    wire = Wire(thin.write)
    for step in range(12):
        text = picture(random.Random(step), step)
        plain.write(text)
        wire.take(text)
        arrive(wire, 4 if repeats else 1)
        assert thin.cells == plain.cells
    assert thin.n_bytes < plain.n_bytes / 2  # though each cell has a colour of its own


def test_random_changes_anywhere_arrive() -> None:
    plain, thin, random_ = Terminal(), Terminal(), random.Random(3)
    wire = Wire(thin.write)
    for _ in range(300):
        x, y = random_.randrange(40), random_.randrange(6)
        text = "".join(random_.choice("ab   ▄") for _ in range(random_.randrange(1, 41 - x)))
        style = random_.choice(("0", "1;38;2;1;1;1", "48;2;9;9;9", "38;2;3;3;3;48;2;9;9;9"))
        sent = f"\x1b[{y + 1};{x + 1}H\x1b[{style}m{text}\x1b[0m"
        plain.write(sent)
        wire.take(sent)
        arrive(wire)
    assert thin.cells == plain.cells


def test_what_a_slow_line_cannot_carry_waits_and_the_newest_is_sent_from_the_top_down() -> None:
    plain, thin = Terminal(), Terminal()
    wire = Wire(thin.write)
    plain.write(picture(random.Random(0), 0))
    wire.take(picture(random.Random(0), 0))
    wire.answered(4)
    first = thin.n_bytes
    assert thin.n_questions == 2 and first < 2500
    for step in range(1, 50):
        plain.write(picture(random.Random(step), step))
        wire.take(picture(random.Random(step), step))
    assert thin.n_bytes == first, "nothing is queued before the terminal has answered"
    arrive(wire)
    assert thin.cells == plain.cells


def test_after_the_shell_had_the_terminal_all_is_drawn_again_but_not_before_anything_is() -> None:
    written: list[str] = []
    wire = Wire(written.append)
    wire.take("\x1b[?1049h")
    wire.take("\x1b[1;1Hfirst\x1b[2;1Hsecond")
    arrive(wire)
    assert "second" in written[-1]
    wire.hold()
    wire.take("\x1b[1;1Hother")
    wire.take("\x1b[?1049l")
    assert "other" not in "".join(written)
    written.clear()
    wire.take("\x1b[?1049h")  # the terminal is not yet told to print nothing by itself: no question may come now
    assert written == ["\x1b[?1049h"]
    wire.take("\x1b[3;1Hthird")
    assert all(word in written[-1] for word in ("other", "second", "third"))


def test_another_screen_is_drawn_anew() -> None:
    thin = Terminal()
    wire = Wire(thin.write)
    wire.take(picture(random.Random(0), 0))
    arrive(wire)
    shown = [list(line) for line in thin.cells]
    thin.cells = [[("?", "")] * thin.width for _ in range(thin.height)]
    wire.take("\x1b[?1049h")
    wire.take(picture(random.Random(0), 0))
    arrive(wire)
    assert thin.cells == shown


def test_what_is_drawn_in_the_layout_before_a_resize_is_drawn_again_after_it() -> None:
    """In a smaller terminal it may have wrapped and scrolled."""
    written: list[str] = []

    class LinuxDriver:
        def __init__(self, _app: object) -> None:
            pass

        def write(self, data: str) -> None:
            written.append(data)

    screen = SimpleNamespace(outer_size=Size(40, 6))
    app = SimpleNamespace(size=Size(40, 6), screen=screen, screen_stack=[screen])
    driver = thrifty(LinuxDriver)(app)  # type: ignore[arg-type,call-arg]
    rows = picture(random.Random(0), 0)
    driver.write("\x1b[?2026$p")
    driver.write(rows)
    arrive(app.wire)
    app.size = Size(20, 6)
    driver.write(rows)  # nobody has laid the screen out yet
    arrive(app.wire)
    screen.outer_size = app.size
    written.clear()
    driver.write(rows)
    arrive(app.wire)
    assert all(f"GPU {y}" in "".join(written) for y in range(6))


def test_it_stands_on_public_names_of_the_textual_versions_that_it_works_with() -> None:
    major = int(version("textual").partition(".")[0])
    assert 6 <= major <= 8, "try it with a terminal, and say here that it works with this version, too"
    for owner, name in (
        (Driver, "write"), (Driver, "process_message"), (App, "get_driver_class"), (App, "screen_stack"),
        (Screen, "outer_size"),
    ):  # fmt: skip
        assert hasattr(owner, name)
    assert thrifty(HeadlessDriver) is HeadlessDriver


@pytest.mark.parametrize("text", ["\x1b]52;c;YWJj\x07", "\x1b[?1000h", "\x1b[?25l", "\x1b]0;title\x07"])
def test_what_draws_nothing_goes_on_as_it_is(text: str) -> None:
    written: list[str] = []
    Wire(written.append).take(text)
    assert written == [text]
