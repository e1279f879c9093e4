"""Of a trace what took the most time, and the longest time without work."""

from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from gssr.model.breakdown.categories import POSITIONS
from gssr.model.breakdown.result import Breakdown
from gssr.model.frame_cache import once
from gssr.model.live.live_result import Result
from gssr.render.cells import clean, fit
from gssr.render.clock import exact, moment
from gssr.render.roles import Row, Span
from gssr.tui.keys import key
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

if TYPE_CHECKING:
    from gssr.model.traces.trace_results import Gap, TraceAnalysis
    from gssr.report.live.call_tables import Values

_KINDS = {"kernels": "kernels", "operators": "operators", "os": "calls", "ranges": "ranges"}
"""The tables that are asked for it, the first of them that has lines, and what these are."""


_ROUNDING = 1e-6
"""By this much a share of all may miss 1."""


class MostTime(RowsPanel):
    """A line each, with its share, how often it came and how long it took on average."""

    BINDINGS: ClassVar[list[BindingType]] = [key("enter", "show_gap", "Longest gap", "the longest gap, on Time")]

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on; hidden unless it is of a trace."""
        super().show(result, view)
        self.display = result.part is not None

    def name_border(self, result: Result) -> None:
        """Say what the lines are, once the trace is analysed."""
        analysis = result.part.analysis if result.part is not None else None
        noun = "" if analysis is None else _table_with_names(analysis)[0]
        self.border_title = f"{noun} that took the most time" if noun else "what took the most time"
        self.border_subtitle = "all of it on Calls"

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the names that took the most time, and below them the longest gap; a waiting line before the trace is
        analysed."""
        analysis = result.part.analysis if result.part is not None else None
        if analysis is None:
            return [(Span(f"counting{self.glyphs.ellipsis}", "dim"),)]
        gap = self._gap(result, analysis, width)
        return [*self._most(analysis, width, height - len(gap)), *gap][:height]

    def action_show_gap(self) -> None:
        """Go to the longest gap on Time, with as much time before and after it; do nothing if there is none."""
        result = self.result
        gap = _longest_gap(result.part.analysis) if result is not None and result.part is not None else None
        if result is None or gap is None:
            return
        start, length = gap.start_ns / 1e9, gap.length_ns / 1e9
        end = start + 2 * length
        self.app.go_to_screen(
            self.app.view.down(
                screen="time", cursor=start, span=3 * length, end=None if end >= result.last else end, row=0, top=0
            )
        )

    def _most(self, analysis: "TraceAnalysis", width: int, height: int) -> list[Row]:
        """List the names of the first of _KINDS that has any, with share, count and mean; one line that says so if
        nothing has a name."""
        found = _table_with_names(analysis)[1]
        if found is None:
            return [(Span("nothing that took time has a name", "dim"),)]
        columns = (found["share"], found["count"], found["mean_ns"], found["name"])
        rows: list[Row] = []
        for share, count, mean, called in list(zip(*columns, strict=True))[: max(height, 0)]:
            numbers = f"{100 * share:5.1f} %  {f'{count:,} x {exact(mean / 1e9)}':>16}  "
            room = width - len(numbers)
            rows.append((Span(numbers, "value"), Span(fit(clean(called), room, self.glyphs.ellipsis))))
        return rows

    def _gap(self, result: Result, analysis: "TraceAnalysis", width: int) -> list[Row]:
        """Say where the longest time without work is and what caused it; no rows if there is no gap."""
        gap = _longest_gap(analysis)
        if gap is None:
            return []
        when = moment(gap.start_ns / 1e9 - result.first, 0.0, 1e-6)
        cause = f"{gap.cause}{f' ({gap.call})' if gap.call else ''}"
        if gap.cause == "unknown" and analysis.breakdown is not None and _is_after_work(gap, analysis.breakdown):
            cause = f"mostly {analysis.breakdown.label(POSITIONS['end'])}"
        text = f"longest gap {exact(gap.length_ns / 1e9)} at {when}: {cause}"
        return [(Span(fit(clean(text), width, self.glyphs.ellipsis), "dim"),)]


def _longest_gap(analysis: "TraceAnalysis | None") -> "Gap | None":
    return max(analysis.gaps, key=lambda each: each.length_ns, default=None) if analysis is not None else None


def _is_after_work(gap: "Gap", breakdown: Breakdown) -> bool:
    """Tell whether the breakdown books more than half of a gap as time after the last work of any GPU; False for a gap that
    fills no bin of it."""
    start, end = gap.start_ns / 1e9, (gap.start_ns + gap.length_ns) / 1e9
    is_inside = (breakdown.times >= start) & (breakdown.times + breakdown.width <= end)
    is_after = breakdown.share_over_time("end")[is_inside] > 1 - _ROUNDING
    return 2 * int(is_after.sum()) > len(is_after)


@once
def _table_with_names(analysis: "TraceAnalysis") -> "tuple[str, Values | None]":
    """Return what the first of _KINDS that has any names is called, and its columns; "" and None if nothing has a
    name."""
    from gssr.model.traces.tables import TABLES

    tables = ((noun, TABLES[name].values(analysis)) for name, noun in _KINDS.items())
    return next(((noun, each) for noun, each in tables if len(each["name"])), ("", None))
