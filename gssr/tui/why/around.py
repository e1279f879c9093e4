"""What was open, or waited for, around the time cursor: of a trace its tracks and one interval; of a recording that was
traced for a while what its GPUs waited for then."""

from collections.abc import Mapping

from gssr.model.joined.explain import gaps_within as gaps_within
from gssr.model.live.live_result import Result, TracePart
from gssr.model.traces.flows import partner
from gssr.model.traces.nesting import within
from gssr.render.cells import clean, fit, flow, wrap
from gssr.render.clock import exact
from gssr.render.function_names import short_name
from gssr.render.glyphs import in_ascii
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.report.live.interval import context_rows
from gssr.report.live.times_of_run import at_text, seconds_text, window_text
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

_MOST_OPEN = 5
"""Tracks of a trace of which is shown what is open."""
_MOST_DETAILS, _MOST_GAPS = 3, 8
"""Rows of what its file says of an interval besides, and gaps, at most."""
_LABEL = 20
"""Cells of a track's name."""


class OpenAround(RowsPanel):
    """Shown where there is a trace."""

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on; hidden if there is no trace, or no time cursor in one."""
        super().show(result, view)
        self.display = bool(result.traced) or (result.part is not None and view.cursor is not None)
        when = window_text(result) if view.cursor is None else f"at {at_text(result, view.cursor)}"
        self.border_title = f"{'what the GPUs waited for' if result.part is None else 'open'} {when}"

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Describe the trace at the cursor, or the gaps."""
        if result.part is not None:
            return self._open(result, result.part, width)[:height]
        return self._gaps(result, width)[:height]

    def _open(self, result: Result, part: TracePart, width: int) -> list[Row]:
        """List the interval at the time cursor with its details, then what is open on other tracks, the innermost
        first, and what launched it. Empty before it is known."""
        around_it, ellipsis = part.around, self.glyphs.ellipsis
        if around_it is None:
            return []
        own, tracks = part.trace.intervals, part.trace.tracks

        def names(places: list[int]) -> str:
            return " < ".join(in_ascii(short_name(part.trace.names[int(own.name[at])])) for at in places)

        rows: list[Row] = []
        for track, places in around_it.tracks.items():
            if around_it.place in places:
                continue  # told below
            label = fit(clean(tracks[track].label), _LABEL - 2, ellipsis)
            call = partner(part.trace, places[0]) if tracks[track].kind == "gpu_stream" else -1
            launched = [call, *within(own.start, own.length, own.track, call)] if call >= 0 else []
            earlier = exact((own.start[places[0]] - own.start[call]) / 1e9) if launched else ""
            by = f", launched {earlier} earlier by {names(launched)}" if launched else ""
            rows.append((Span(f"{label:<{_LABEL}}", "dim"), Span(fit(names(places) + by, width - _LABEL, ellipsis))))
        more = len(rows) - _MOST_OPEN
        rows = rows[:_MOST_OPEN] or [(Span("nothing is open then", "dim"),)]
        if more > 0:
            rows.append((Span(count(more, "more track"), "dim"),))
        if around_it.place < 0:
            return rows
        context = context_rows(result, part, around_it.place, width, self.glyphs)
        return [*context, *self._details(around_it.details, width), *rows]

    def _details(self, details: Mapping[str, str] | None, width: int) -> list[Row]:
        """List what the trace's file says of the interval besides; a waiting line while it is None, and nothing if it
        says nothing."""
        if details is None:
            return [(Span(f"reading what the file says of it{self.glyphs.ellipsis}", "dim"),)]
        pieces: list[Row] = [(Span(f"{clean(name)} ", "dim"), Span(clean(value))) for name, value in details.items()]
        return (flow(pieces, width, self.glyphs.ellipsis) if pieces else [])[:_MOST_DETAILS]

    def _gaps(self, result: Result, width: int) -> list[Row]:
        """List the longest gaps of the GPUs in the column of the time cursor, or without one in the window, and what
        was waited for. One sentence if nothing was traced then, or no gap is known."""
        start, end, cursor = result.window.start, result.window.end, self.view.cursor
        if cursor is not None:
            start = result.grid.start + result.grid.column(cursor) * result.grid.width
            end = start + result.grid.width
        gaps = [gap for trace in result.traced for gap in gaps_within(trace.gaps, start, end, self.view.selection)]
        shown = [trace for trace in result.traced if trace.start < end and trace.end > start]
        if not shown:
            span = "" if cursor is None else f" for {seconds_text(result.grid.width)}"
            return wrap(f"Not traced then{span}.", width, role="dim")
        if not gaps:
            return wrap(f"No gap is among the longest of {count(len(shown), 'trace')}.", width, role="dim")
        rows: list[Row] = []
        for gap in sorted(gaps, key=lambda gap: -gap.seconds)[:_MOST_GAPS]:
            where = f"{clean(result.place(gap.gpu))} at {at_text(result, gap.start)}"
            text = f"{exact(gap.seconds):>8}  {clean(gap.why)}, {where}"
            rows.append((Span(fit(text, width, self.glyphs.ellipsis)),))
        return rows
