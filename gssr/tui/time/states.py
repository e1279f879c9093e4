"""The share of states over time: what the GPU time was for, column by column, as one stacked strip."""

import numpy as np
from textual.strip import Strip

from gssr.arrays import Floats
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown
from gssr.model.live.live_result import Result
from gssr.render.cells import fit
from gssr.render.columns import average_into_columns
from gssr.render.roles import Row, Span
from gssr.render.scale import percent
from gssr.render.states import State, of_breakdown, states_of_level
from gssr.report.live.judgement import not_judged
from gssr.report.live.time_cells import Cells
from gssr.tui.time.stacked import stacked
from gssr.tui.time.timeline import TimePanel
from gssr.tui.view import View

_LEAST = 0.005
"""A smaller share is not named."""


class States(TimePanel):
    """The strip, and left of it the largest shares: at the cursor, else of the window."""

    _breakdown: Breakdown | None = None
    """The newest: of the window before, until that of this one is known."""

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on, and name in the border what is shown."""
        super().show(result, view)
        found = None if result.judgement is None else result.judgement.breakdown
        if found is not None or (self._breakdown is not None and result.run is None):
            self._breakdown = found
        noun = result.noun
        at = "at the cursor" if view.cursor is not None else "in this window"
        if result.part is None:
            self.border_title = f"where the GPU time goes, {at}"
            return
        if view.cursor is None and result.part.level.lasts_less(result.window.start, result.window.end):
            work = "kernel or copy" if noun == "GPU" else f"work of a {noun}"
            at = f"from the first {work} to the last"
        self.border_title = f"what {noun} time is for, {at}"

    @property
    def _in_marks(self) -> bool:
        """True where colours can't tell the states apart."""
        return self.palette.needs_marks or self.glyphs.levels.isascii()

    def _shares(self, result: Result, cells: Cells) -> tuple[list[State], Floats] | None:
        """Return the states and their shares [n_states, n_cells] (NaN where unknown), or None before they are known."""
        if result.part is not None:
            split, grid = result.part.whole_split, result.part.columns
            if split is None or grid is None:
                return None
            return states_of_level(result.part.level.name), average_into_columns(
                np.asarray(split.T), grid.start, grid.width, cells.start, cells.end, cells.n
            )
        breakdown = self._breakdown
        if breakdown is None or not len(breakdown.times):
            return None
        shares = np.array([breakdown.share_over_time(each.name) for each in CATEGORIES])
        shares[:, breakdown.over_time.sum(axis=1) <= 0] = np.nan
        shown = average_into_columns(
            shares, float(breakdown.times[0]), breakdown.width, cells.start, cells.end, cells.n
        )
        return of_breakdown(self.glyphs.levels.isascii()), shown

    def strips(self, result: Result, width: int, height: int) -> list[Strip]:
        """Draw the strip, with the largest shares to its left; a waiting line while nothing is known."""
        cells = self.cells_in_sight(result)
        found = self._shares(result, cells)
        if found is None:
            text = " one moment" if result.part is not None else f" {not_judged(result)}"
            return [self.strip_of((Span(text, "dim"),), width)]
        states, shares = found
        rows = stacked(shares, height, states, self.palette, self._in_marks)
        at = None if self.view.cursor is None else cells.at(self.view.cursor)
        named = self._legend(states, shares, result, at, height)
        labels = [self.strip_of(row, self.left) for row in [*named, *[()] * height][:height]]
        return [
            Strip.join([label, Strip(row)]).adjust_cell_length(width) for label, row in zip(labels, rows, strict=True)
        ]

    def _legend(
        self, states: list[State], shares: Floats, result: Result, at: int | None, height: int
    ) -> list[Row]:  # fmt: skip
        """Draw the shares of the states, the largest first, without those below _LEAST: in the cell ``at``, or of the
        whole window if it is None. If there are more than ``height``, the last row adds up the rest."""
        if at is not None:
            known = np.nan_to_num(shares[:, at])
        elif result.part is not None:
            known = np.nan_to_num(result.part.total)
        elif self._breakdown is not None:
            known = np.nan_to_num(self._breakdown.shares)
        else:
            return []
        rows: list[Row] = []
        room = self.left - 11
        order = [state for state in np.argsort(-known, kind="stable").tolist() if known[state] >= _LEAST]
        n_named = len(order) if len(order) <= height else max(height - 1, 0)
        for state in order[:n_named]:
            own = states[state]
            mark = Span(f" {own.mark if self._in_marks else '█'} ", own.role)
            name = Span(f"{fit(own.name, room, self.glyphs.ellipsis):<{room}}", "dim")
            rows.append((mark, name, Span(f"{percent(float(known[state])):>7}", "value")))
        rest = order[n_named:]
        if rest:
            name = Span(f"   {f'{len(rest)} more on Why'[:room]:<{room}}", "dim")
            rows.append((name, Span(f"{percent(float(known[rest].sum())):>7}", "value")))
        return rows
