"""The numbers of both runs, the largest effect first: green is better, red worse, grey within noise; and a word says it."""

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
    "higher": ("+ more", "plain"), "lower": ("- less", "plain"), "unknown": ("? not known yet", "dim"),
}  # fmt: skip
_TITLES = ("", "A", "B", "B - A", "B is")
_CHANGE, _WORD = 14, 15
_LEAST_NAME, _MOST_NAME = 16, 44


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
        self.border_title = in_part("what changed, the largest effect first", part_text(one))
        if told == self._told or not width:
            return
        self._told = told
        number = max(len(text) for effect in found for text in (effect.first, effect.second)) if found else 1
        name = min(max(width - 2 * number - _CHANGE - _WORD - 11, _LEAST_NAME), _MOST_NAME)
        row = self.cursor_row
        self.clear(columns=True)
        for title, size in zip(_TITLES, (name, number, number, _CHANGE, _WORD), strict=True):
            self.add_column(Text(f"{title:>{size}}" if title in ("A", "B", "B - A") else title), width=size)
        for effect in found:
            self.add_row(*self._cells(effect, name, number))
        self.move_cursor(row=row)

    def _cells(self, effect: RunDifference, name: int, number: int) -> list[Text]:
        """Draw one row: the name (cut to ``name`` cells), both numbers, the change, and what it means."""
        word, role = _LOOKS[effect.outcome]
        style = self.palette.style(role)
        label = fit(effect.name, name, self.glyphs.ellipsis)
        texts = [
            label,
            f"{effect.first:>{number}}",
            f"{effect.second:>{number}}",
            f"{effect.change:>{_CHANGE}}",
            word,
        ]
        if self.glyphs.levels.isascii():
            texts = [in_ascii(text.replace("▲", "+").replace("▼", "!")) for text in texts]
        dim = self.palette.style("dim") if effect.outcome in ("within noise", "unknown") else ""
        return [
            Text(texts[0], dim),
            Text(texts[1], dim),
            Text(texts[2], dim),
            Text(texts[3], style),
            Text(texts[4], style),
        ]
