"""The first line: how the run stands, what it is called, how long it lasts, its GPUs, and the window that is looked at."""

from time import localtime, strftime

from rich.text import Text
from textual.widgets import Static

from gssr.model.live.live_result import Result
from gssr.render.cells import cell_width, clean, fit
from gssr.render.clock import duration, interval_text
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import count
from gssr.report.live.time_cells import rolls
from gssr.report.live.times_of_run import age_text, is_growing, length_text, window_text
from gssr.store.format.rank_ends import RankEnd, place_of
from gssr.tui.shared.panel import Drawing
from gssr.tui.view import View

_ASCII = str.maketrans("○●◌✗■", ".*ox=")
_LONGEST_SELECTION = 26
"""Cells that the name of what is selected takes at most: a third of a line of 80."""
_STATES: dict[str, tuple[str, Role]] = {
    "waiting": ("○ waiting", "dim"),
    "live": ("● live", "good"),
    "stalled": ("◌ stalled", "outlier"),
    "lost": ("✗ lost", "bad"),
    "ended": ("■ ended", "dim"),
}


class TopBar(Drawing, Static):
    """One line about the run."""

    _said: Text | None = None

    def show(self, result: Result, view: View) -> None:
        """Show the run's state and name, and as many more pieces as fit, the most important first."""
        ellipsis, width = self.glyphs.ellipsis, self.size.width
        state = state_text(result)
        if self.glyphs.levels.isascii():
            state = state._replace(text=state.text.translate(_ASCII))
        room = width - cell_width(state.text) - 3
        line: Row = (
            Span(" "),
            state,
            Span("  "),
            Span(fit(name_of(result), max(min(room // 3, 40), 6), ellipsis), "title"),
        )
        for piece in pieces_of(result, view):
            if sum(cell_width(span.text) for span in line) + 2 + cell_width(piece.text) <= width:
                line = (*line, Span("  "), piece)
        text = self.palette.text_of([line], self.glyphs)
        if text != self._said:
            self._said = text
            self.update(text, layout=False)


def state_text(result: Result) -> Span:
    """Write the state of the run: ``● live``, ``◌ stalled 12 s``, ``■ ended (exit 7)``; of a trace "trace" or
    "profile"."""
    if result.part is not None:
        return Span("profile" if result.part.trace.profile is not None else "trace", "dim")
    text, role = _STATES[result.state]
    if result.state == "stalled":
        text += f" {result.silent:.0f} s"
    elif result.state == "ended" and result.run is not None and result.run.exit_code is not None:
        text += f" (exit {result.run.exit_code})" if result.run.exit_code else ""
        role = "good" if result.run.exit_code == 0 else "bad"
    return Span(text, role)


def name_of(result: Result) -> str:
    """Name the run: by its job and label, else by its file."""
    run = result.run
    names = [run.shown_job, run.label] if run else []
    return clean(" ".join(part for part in names if part) or result.path.rstrip("/").rsplit("/", 1)[-1])


def _stopped(result: Result) -> str:
    """Name the first rank that was lost or failed, with its node and local time, and count the others. Needs at least
    one."""
    ranks: tuple[RankEnd, ...] = result.ranks_stopped
    at = "" if ranks[0].time is None else f" {strftime('%H:%M:%S', localtime(ranks[0].time))}"
    more = f", {len(ranks) - 1} more" if len(ranks) > 1 else ""
    return f"{clean(place_of(ranks[0]))} {ranks[0].how}{at}{more}"


def _selected_text(result: Result, view: View) -> str:
    """Name what is selected, or count it if it has no name or one that would take more than a third of a small terminal."""
    is_short = 0 < cell_width(view.selected) <= _LONGEST_SELECTION
    return view.selected if is_short else count(len(view.selection), result.noun)


def pieces_of(result: Result, view: View) -> list[Span]:
    """List what there is to say besides state and name, each only if it applies, the most important first."""
    run, pieces = result.run, []
    if run is not None and result.ranks_missing:
        pieces.append(Span(f"lacks {len(result.ranks_missing):,} of {run.world_size:,} ranks", "bad"))
    if run is not None and result.ranks_stopped and (run.world_size or 1) > 1:
        pieces.append(Span(_stopped(result), "bad"))
    if view.selection:
        pieces.append(Span(f"looking at {_selected_text(result, view)}", "outlier"))
    if view.filter and result.part is not None:
        pieces.append(Span(f"only {clean(view.filter)}", "outlier"))
    if result.n_rows and (result.part is None or result.part.trace.profile is None):
        elapsed = result.now - result.first if result.is_live else result.duration
        pieces.append(Span(length_text(result, elapsed)))
    if view.speed:
        pieces.append(Span(f"playing {view.speed:g}x", "outlier"))
    elif view.end is not None and result.part is None and (is_growing(result) or round(result.last - view.end)):
        away = duration(max(result.last - view.end, 0.0))
        text = f"paused {away} behind" if is_growing(result) else f"shown until {away} before its end"
        pieces.append(Span(text, "outlier"))
    if run is not None and result.n_rows:
        products = {clean(gpu.name or "") for gpu in (result.of_gpus or result).gpus}
        what = f" {products.pop()}" if len(products) == 1 and "" not in products else ""
        pieces.append(
            Span(
                f"{result.gpus_of_run:,} GPU{'s' * (result.gpus_of_run != 1)}{what} on {count(len(result.nodes), 'node')}"
            )
        )
    if result.part is not None:
        pieces += [
            Span(count(len(level), level.noun))
            for level in result.part.levels.values()
            if level.name in ("gpus", "streams", "threads")
        ]
        pieces += [Span(source, "dim") for source in dict.fromkeys(each.format for each in result.part.trace.sources)]
    if result.is_live and not rolls(result):
        pieces.append(Span(window_text(result), "title"))
    clocks = list(dict.fromkeys(trace.clock_text for trace in result.traced))
    if clocks and result.part is None:
        pieces.append(Span("traced", "value"))
    elif clocks:
        pieces.append(Span(f"clock: {clocks[0]}" if len(clocks) == 1 else "clocks differ", "value"))
    gaps = int(result.n_gaps.sum()) if run is not None else 0
    if gaps:
        pieces.append(Span(f"{count(gaps, 'gap')} in the samples", "gap"))
    if result.sampling_seconds:
        pieces.append(Span(f"every {interval_text(result.sampling_seconds)}", "dim"))
    if result.reread is not None:
        pieces.append(Span(f"files {age_text(result.reread)} old", "dim"))
    if result.n_rows and max(result.grid.start, result.first) < result.thinned:
        pieces.append(Span("thinned to 10 s", "gap"))
    if not result.refined:
        pieces.append(Span("refining", "dim"))
    return pieces
