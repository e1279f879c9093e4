"""The numbers of both runs, the largest effect first: green is better, red worse, grey within noise; and a word says it."""

from typing import NamedTuple

from rich.style import Style
from rich.text import Text
from textual.widgets import DataTable

from gssr.model.compare.comparison import Outcome
from gssr.model.live.live_result import Result
from gssr.render.cells import fit
from gssr.render.glyphs import in_ascii
from gssr.render.roles import Role
from gssr.report.live.run_effects import RunDifference, effects
from gssr.report.live.times_of_run import in_part, part_text
from gssr.tui.shared.panel import Drawing

_LOOKS: dict[Outcome, tuple[str, Role]] = {
    "better": ("▲ better", "good"), "worse": ("▼ worse", "bad"), "within noise": ("= within noise", "dim"),
    "higher": ("> higher", "plain"), "lower": ("< lower", "plain"), "unknown": ("? unknown", "dim"),
}  # fmt: skip
_WORD, _WORD_TITLE = 14, "B is"
_LEAST_NAME, _MOST_NAME = 16, 44
_BESIDE_NAME = 2
"""Cells that a column takes more than its text."""
_WITH_RELATIVE = 96
"""Cells from which on there is room for the change in percent of A."""


class EffectTable(Drawing, DataTable[Text]):
    """Sorted by effect; rows scroll."""

    ALLOW_MAXIMIZE = True

    def __init__(self, **attributes: str) -> None:
        super().__init__(**attributes, cursor_type="row", zebra_stripes=False)  # type: ignore[arg-type]
        self._told: tuple[object, ...] = ()

    def show_both(self, one: Result, other: Result) -> None:
        """Show what changed from ``one`` (A) to ``other`` (B). The table is only built anew if a number, the width or
        the theme has changed; the cursor stays on its row."""
        found = effects(one, other)
        width = self.content_size.width
        told = (tuple(found), width, self.palette.theme)
        is_analysed = one.part is not None or (one.analysis is not None and other.analysis is not None)
        title = "what changed, the largest effect first" if found or is_analysed else "both runs are being analysed"
        self.border_title = in_part(title, part_text(one))
        if told == self._told or not width:
            return
        self._told = told
        columns = _columns(found, width)
        taken = sum(column.width + _BESIDE_NAME for column in columns) + _WORD + 2 * _BESIDE_NAME
        name = min(max(width - taken, _LEAST_NAME), _MOST_NAME)
        row = self.cursor_row
        self.clear(columns=True)
        self.add_column("", width=name)
        for column in columns:
            self.add_column(Text(column.cell(column.title)), width=column.width)
        self.add_column(_WORD_TITLE, width=_WORD)
        for at, effect in enumerate(found):
            self.add_row(*self._cells(effect, name, [(column, column.texts[at]) for column in columns]))
        self.move_cursor(row=row)

    def _cells(self, effect: RunDifference, name: int, cells: list[tuple["_Column", str]]) -> list[Text]:
        """Draw one row: the name (cut to ``name`` cells), the columns' texts, and what the change means."""
        word, role = _LOOKS[effect.outcome]
        is_ascii, strong = self.glyphs.levels.isascii(), self.palette.style(role)
        dim = self.palette.style("dim") if effect.outcome in ("within noise", "unknown") else ""

        def drawn(text: str, style: str | Style) -> Text:
            """Return the text in this style, in ASCII if that is asked for."""
            return Text(in_ascii(text.replace("▲", "+").replace("▼", "!")) if is_ascii else text, style)

        label = drawn(fit(effect.name, name, self.glyphs.ellipsis), dim)
        numbers = [drawn(column.cell(text), strong if column.title == _CHANGE else dim) for column, text in cells]
        return [label, *numbers, drawn(word, strong)]


class _Column(NamedTuple):
    """A column between the name and the outcome, as wide as its widest text."""

    title: str
    texts: list[str]

    @property
    def width(self) -> int:
        return max(map(len, (self.title, *self.texts)))

    def cell(self, text: str) -> str:
        """Return a text of this column in its place: numbers end at the right, units begin at the left."""
        return f"{text:<{self.width}}" if self.title == _UNIT else f"{text:>{self.width}}"


_UNIT, _CHANGE = "unit", "B - A"


def _columns(found: list[RunDifference], width: int) -> list[_Column]:
    """Return the columns for these numbers on ``width`` cells, without those that say nothing of any of them, or for which
    there is no room."""
    columns = [
        _Column(_UNIT, [each.unit for each in found]), _Column("A", [each.first for each in found]),
        _Column("B", [each.second for each in found]), _Column(_CHANGE, [each.change for each in found]),
        _Column("noise", [each.noise for each in found]),
    ]  # fmt: skip
    if width >= _WITH_RELATIVE:
        columns.append(_Column("%", [each.relative for each in found]))
    return [column for column in columns if any(column.texts)]
