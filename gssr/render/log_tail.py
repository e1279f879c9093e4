"""The end of a log in rows, as a terminal would have drawn it.

Nothing of the log reaches the terminal as it is: what moves the cursor within lines is followed, so that progress bars look
right, and every other control character and escape sequence is dropped.
"""

import re
from functools import lru_cache

from gssr.render.cells import cell_width, clean
from gssr.render.roles import Row, Span

_FARTHEST = 1000
"""Rows and columns that an escape sequence can move the cursor by."""
_DIGITS = 9
"""The digits of a number in an escape sequence that count: more say nothing, and Python refuses thousands."""
_FARTHEST_UP = 200
"""Lines above the shown ones to which the cursor may still go up."""
_TAB = 8
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*)?\Z")
_PIECES = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links and the like
    r"|\x1b[ -/]*[0-~]"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)


@lru_cache(maxsize=4)
def log_tail(data: bytes, width: int, height: int, ascii_only: bool = False) -> tuple[Row, ...]:
    """Return the last rows, at most ``height`` of at most ``width`` cells, that a terminal of this width shows after
    ``data``. Empty lines at the end are left out; none without room."""
    if width <= 0 or height <= 0:
        return ()
    last = b"\n".join(data.rsplit(b"\n", height + _FARTHEST_UP)[-height - _FARTHEST_UP :])
    lines = _Lines()
    lines.feed(_UNFINISHED.sub("", last.decode("utf-8", "replace")))
    rows: list[str] = []
    shown = lines.lines
    while shown and not shown[-1].strip():
        shown.pop()
    for line in reversed(shown):
        line = clean(line.rstrip())
        if ascii_only:
            line = line.encode("ascii", "replace").decode()
        rows += reversed(_wrapped(line, width))
        if len(rows) >= height:
            break
    return tuple((Span(row),) if row else () for row in reversed(rows[:height]))


def _wrapped(line: str, width: int) -> list[str]:
    """Cut a clean line into pieces of at most ``width`` cells; one empty piece for an empty line."""
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line), width)] or [""]
    pieces, used = [""], 0
    for char in line:
        cells = cell_width(char)
        if used + cells > width:
            pieces.append("")
            used = 0
        if cells <= width:
            pieces[-1] += char
            used += cells
    return pieces


class _Lines:
    """Lines without end in either direction, and a cursor: as much of a terminal as progress bars use."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        """Follow text with its control characters and escape sequences; those that only change colours or titles are
        dropped."""
        for piece in _PIECES.finditer(text):
            kind = piece.lastgroup
            if kind == "text":
                self._put(piece["text"])
            elif kind == "final":
                self._sequence(piece["final"], piece["parameters"])
            elif kind == "control":
                self._control(piece["control"])

    def _put(self, text: str) -> None:
        line, column = self.lines[self._row], self._column
        self.lines[self._row] = line[:column].ljust(column) + text + line[column + len(text) :]
        self._column += len(text)

    def _control(self, char: str) -> None:
        """Follow a control character that moves the cursor; ignore all others."""
        if char == "\r":
            self._column = 0
        elif char in "\n\v\f\x85":
            self._column = 0
            self._row += 1
            if self._row == len(self.lines):
                self.lines.append("")
        elif char == "\b":
            self._column = max(self._column - 1, 0)
        elif char == "\t":
            self._column += _TAB - self._column % _TAB

    def _sequence(self, final: str, parameters: str) -> None:
        """Follow an escape sequence that moves the cursor or erases (CSI, with its ``final`` letter and
        ``parameters``); ignore all others."""
        numbers = [int(number[:_DIGITS]) if number.isdigit() else 0 for number in parameters.split(";")]
        n = min(max(numbers[0], 1), _FARTHEST)
        if final in "AF":
            self._row = max(self._row - n, 0)
        elif final in "BE":
            self._row = min(self._row + n, len(self.lines) - 1)
        elif final == "C":
            self._column = min(self._column + n, _FARTHEST)
        elif final == "D":
            self._column = max(self._column - n, 0)
        elif final in "G`":
            self._column = n - 1
        elif final in "Hf":
            self._go_to(n, min(max(numbers[1] if len(numbers) > 1 else 1, 1), _FARTHEST))
        elif final == "K":
            self._erase_in_line(numbers[0])
        elif final == "J":
            self._erase(numbers[0])
        elif final in "hl" and parameters in ("?47", "?1047", "?1049"):  # to another screen, or back from it
            self.lines, self._row, self._column = [""], 0, 0
        if final in "EF":
            self._column = 0

    def _go_to(self, row: int, column: int) -> None:
        """Move the cursor to this row and column, both from 1, and add the lines that are missing. Rows count from the
        first line that is kept, where the screen was cleared."""
        self._row, self._column = row - 1, column - 1
        self.lines += [""] * (row - len(self.lines))

    def _erase_in_line(self, what: int) -> None:
        """Erase in the line: from the cursor on (0), up to it (1), or all (any other)."""
        line, column = self.lines[self._row], self._column
        kept = {0: line[:column], 1: " " * min(column + 1, len(line)) + line[column + 1 :]}
        self.lines[self._row] = kept.get(what, "")

    def _erase(self, what: int) -> None:
        """Erase all lines (2 or more), or what comes after the cursor (0); 1 is ignored."""
        if what >= 2:
            self.lines, self._row = [""], 0
        elif what == 0:
            self._erase_in_line(0)
            del self.lines[self._row + 1 :]
