"""Where the GPU time went: the sentence, the bar that adds up to all of it, and what its colours mean."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Floats
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown
from gssr.model.live.live_result import RECENT_SECONDS, Result, TracePart
from gssr.render.breakdown import LOOKS, breakdown_bar, headline, shares_bar, shown_categories
from gssr.render.cells import at_most, flow, wrap
from gssr.render.columns import split_row
from gssr.render.roles import Row, Span
from gssr.render.scale import percent
from gssr.render.shares import EXPOSED_WORDS, WORDS
from gssr.render.states import OF_TRACE
from gssr.report.live.judgement import not_judged
from gssr.report.live.times_of_run import judged_title
from gssr.tui.shared.panel import RowsPanel

_SEEN = 0.0005
"""A smaller share of the time is not told."""
_TALL = 6
"""Rows from which the bar of the last minute stands below that of the run."""


class Sentence(RowsPanel):
    """The answer in one sentence, and the bar that shows it."""

    def name_border(self, result: Result) -> None:
        """Name the part of the run that is told of."""
        told = result.judgement is not None and result.judgement.breakdown is not None
        whose = "GPU" if told or result.part is None else result.noun
        went = f"where the {whose} time {'goes' if result.is_live else 'went'}"
        self.border_title = judged_title(went, result)

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the sentence, the bar (of a live run on tall panels also that of the last minute), and as much of the
        legend as fits. Before there is a breakdown: of a trace the states of its rows, of a recording why it is not
        judged yet."""
        ascii_only = self.glyphs.levels.isascii()
        judgement = result.judgement
        breakdown = None if judgement is None else judgement.breakdown
        if breakdown is None and result.part is not None:
            return at_most(self._states(result.part, result.noun, width), height, width, self.glyphs.ellipsis)
        if judgement is None or breakdown is None:
            return at_most(wrap(not_judged(result), width, role="dim"), height, width, self.glyphs.ellipsis)
        rows = at_most(
            wrap(headline(breakdown, judgement.leading_loss), width, role="value"), height, width, self.glyphs.ellipsis
        )
        lately = last_minute(breakdown) if result.is_live and height >= _TALL else None
        if lately is None:
            bars = [breakdown.shares]
            rows.append(breakdown_bar(breakdown, width, ascii_only))
        else:
            bars = [breakdown.shares, lately]
            rows.append((Span("run        ", "dim"), *breakdown_bar(breakdown, width - 11, ascii_only)))
            rows.append((Span("last minute", "dim"), *shares_bar(lately, width - 11, ascii_only)))
        room = height - len(rows)
        return [*rows, *legend(breakdown, bars, width, room, self.glyphs.ellipsis, ascii_only)][:height]

    def _states(self, part: TracePart, noun: str, width: int) -> list[Row]:
        """Draw the states in which the rows of a trace are, as a sentence, a bar and a legend; for traces without
        GPUs, or not judged yet."""
        in_marks = self.glyphs.levels.isascii() or self.palette.needs_marks
        shares, words = np.nan_to_num(part.total), WORDS if part.level.name == "threads" else EXPOSED_WORDS
        looks = [(state.mark if in_marks else "█", state.role) for state in OF_TRACE]
        bar = split_row(shares, looks, width)
        pieces: list[Row] = []
        for at, (mark, role) in enumerate(looks):
            if shares[at] >= _SEEN:
                share = Span(percent(float(shares[at])), "value")
                pieces.append((Span(mark * 2 + " ", role), share, Span(f" {words[at]}", "dim")))
        rest = max(1 - float(shares.sum()), 0.0)
        if rest >= _SEEN:
            pieces.append(
                (Span(self.glyphs.track * 2 + " ", "track"), Span(percent(rest), "value"), Span(" idle", "dim"))
            )
        most = max(range(len(shares)), key=lambda at: float(shares[at]))
        said = f"{percent(float(shares[most]))} of the {noun} time is {words[most]}."
        row: Row = (*bar, Span(self.glyphs.track * (width - sum(len(span.text) for span in bar)), "track"))
        return [*wrap(said, width, role="value"), row, *flow(pieces, width, self.glyphs.ellipsis, "   ")]


def last_minute(breakdown: Breakdown) -> Floats | None:
    """Return the share of each category [n_categories] in the newest RECENT_SECONDS of the breakdown, or None if
    nothing is known of them."""
    if not len(breakdown.times):
        return None
    end = float(breakdown.times[-1]) + breakdown.width
    seconds = breakdown.over_time[breakdown.times >= end - RECENT_SECONDS - breakdown.width / 2].sum(axis=0)
    return np.asarray(seconds / seconds.sum()) if seconds.sum() > 0 else None


def legend(
    breakdown: Breakdown, bars: Sequence[Floats], width: int, height: int, ellipsis: str, ascii_only: bool
) -> list[Row]:
    """The categories with their shares, in the order of the bar: all that are drawn in one of the ``bars`` (shares
    [n_categories]). Where ``height`` rows can't hold all of them, the largest ones, and how much the others are together."""
    shares = breakdown.shares
    pieces: list[Row] = []
    short: dict[int, Row] = {}
    shown = shown_categories(*bars)
    for at in shown:
        look = LOOKS[CATEGORIES[at].name]
        mark, share = look.marked(ascii_only), Span(percent(float(shares[at])), "value")
        pieces.append((Span(f"{mark * 2} ", look.role), share, Span(f" {breakdown.label(at)}", "dim")))
        short[at] = (Span(f"{mark} ", look.role), share, Span(f" {CATEGORIES[at].short}", "dim"))
    rest = 1 - float(shares[shown].sum())
    smaller: list[Row] = [(Span(f"{percent(rest)} in smaller parts", "dim"),)] if rest >= _SEEN else []
    rows = flow([*pieces, *smaller], width, ellipsis, "   ")
    smallest_first = sorted(shown, key=lambda at: float(shares[at]))
    while len(rows) > height and short:
        rest = 1 - float(shares[list(short)].sum())
        more: list[Row] = [(Span(f"{percent(rest)} others", "dim"),)] if rest >= _SEEN else []
        rows = flow([*short.values(), *more], width, ellipsis)
        del short[smallest_first.pop(0)]
    return rows[: max(height, 0)]
