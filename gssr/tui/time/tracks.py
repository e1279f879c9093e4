"""One row each over time: the phases of the run, the length of its steps, and the counters of a trace."""

import math
from typing import NamedTuple

import numpy as np
from rich.segment import Segment
from textual.strip import Strip

from gssr.arrays import Floats
from gssr.metrics import OF_COUNTER, RATIO
from gssr.model.live.live_result import CounterLine, Result
from gssr.model.results import Phase
from gssr.model.verdicts.words import binary
from gssr.render.cells import fit, fit_apart
from gssr.render.clock import duration
from gssr.render.columns import average_into_columns
from gssr.render.roles import Role
from gssr.render.scale import NONE, UNITS, metric_of, percent, prefixed
from gssr.report.live.time_cells import Cells
from gssr.tui.time.timeline import TimePanel
from gssr.tui.view import View

_PHASE_ROLES: dict[str, Role] = {
    "start-up": "outside1",
    "steady": "working2",
    "recurring": "working4",
    "idle": "idle2",
    "tail": "outside2",
}


class TrackRow(NamedTuple):
    """One row: its name, the value that is told of it, and its cells."""

    name: str
    value: str
    cells: list[Segment]


class Tracks(TimePanel):
    """The rows that there are."""

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on, in as many lines as there are rows; hidden if there are none."""
        super().show(result, view)
        at_most = "<=" if self.glyphs.levels.isascii() else "≤"
        left = f"left {at_most} the greatest value" if view.cursor is None else "left that at the cursor"
        self.border_title = f"counters: each cell's mean, {left}" if result.part is not None else "phases and steps"
        n = self.rows_of(result)
        self.display = n > 0
        if self.screen.maximized is not self:
            self.styles.height = n + 1

    @classmethod
    def rows_of(cls, result: Result) -> int:
        """Return how many rows there are for this result: counters of a trace, or phases and steps of a recording."""
        return len(cls._kinds(result))

    @staticmethod
    def _kinds(result: Result) -> list[object]:
        """List what has a row: the counters of a trace, or of a recording its phases and its step, if they are known."""
        if result.part is not None:
            return list(result.part.counters)
        judgement = result.judgement
        found: list[object] = []
        if judgement is not None:
            found += [judgement.phases] if judgement.phases else []
            found += [judgement.step] if judgement.step is not None else []
        return found

    def strips(self, result: Result, width: int, height: int) -> list[Strip]:
        """Draw each row: its name and value in the gutter, then its cells."""
        cells, tracks, strips = self.cells_in_sight(result), list[TrackRow](), []
        for kind in self._kinds(result)[:height]:
            if isinstance(kind, CounterLine):
                tracks.append(self._counter(result, kind, cells))
            elif isinstance(kind, tuple):
                tracks.append(self._phases(kind, cells))
            else:
                tracks.append(self._steps(result, cells))
        gutter, names = self.left, [track.name for track in tracks]
        for at, track in enumerate(tracks):
            value = track.value
            room = max(gutter - len(value) - 2, 1)
            name = " " + fit_apart(names, room - 1, self.glyphs.ellipsis)[at]
            label = [
                Segment(f"{name:<{room}} ", self.palette.style("dim")),
                Segment(f"{value[: gutter - 1]} ", self.palette.style("value")),
            ]
            parts = [Strip(label).adjust_cell_length(gutter), Strip(track.cells)]
            strips.append(Strip.join(parts).adjust_cell_length(width))
        return strips

    def _marks(self, fractions: Floats) -> list[Segment]:
        """Draw fractions (0-1) [n_cells] as one row of levels, blank where they are NaN."""
        levels = self.glyphs.levels
        steps = np.clip((np.nan_to_num(fractions) * len(levels)).astype(int), 0, len(levels) - 1).tolist()
        known = np.isfinite(fractions).tolist()
        text = "".join(levels[step] if there else " " for step, there in zip(steps, known, strict=True))
        return [Segment(text, self.palette.style("series"))]

    def _counter(self, result: Result, counter: CounterLine, cells: Cells) -> TrackRow:
        """Draw a counter of a trace; its value is the mean at the time cursor, or without one the greatest single value."""
        assert result.part is not None
        grid = result.part.columns or result.grid
        values = average_into_columns(counter.values[None], grid.start, grid.width, cells.start, cells.end, cells.n)[0]
        at = None if self.view.cursor is None else cells.at(self.view.cursor)
        text = counter_text(counter.metric, counter.greatest if at is None else float(values[at]))
        drawn = self._marks(values / (counter.full or 1.0))
        at_most = "<=" if self.glyphs.levels.isascii() else "≤"
        return TrackRow(metric_of(counter.metric).label, text if at is not None else f"{at_most} {text}", drawn)

    def _phases(self, phases: tuple[Phase, ...], cells: Cells) -> TrackRow:
        """Draw the phases as segments with kind and length; the value is the kind at the time cursor, or else how many
        there are."""
        segments: list[Segment] = []
        x, here = 0, ""
        cursor = self.view.cursor
        for phase in phases:
            edges = (round((time - cells.start) / cells.width) for time in (phase.start, phase.end))
            begin, end = (min(max(edge, 0), cells.n) for edge in edges)
            if cursor is not None and phase.start <= cursor < phase.end:
                here = phase.kind
            if end <= max(begin, x):
                continue
            segments.append(Segment(" " * (max(begin, x) - x)))
            size = end - max(begin, x)
            text = fit(f" {phase.kind} {duration(phase.seconds)}", size - 1, self.glyphs.ellipsis) if size > 3 else ""
            edge = self.glyphs.cursor
            segments += [Segment(edge, self.palette.style(_PHASE_ROLES[phase.kind])),
                         Segment(f"{text:<{size - 1}}", self.palette.style("title"))]  # fmt: skip
            x = end
        return TrackRow("phase", here or f"{len(phases)}", segments)

    def _steps(self, result: Result, cells: Cells) -> TrackRow:
        """Draw the length of the steps over time; the value is the length at the time cursor, or else that of the
        judgement's step. Needs a judgement with a step."""
        judgement = result.judgement
        assert judgement is not None and judgement.step is not None
        step = judgement.step
        lengths = np.full(cells.n, np.nan)
        if step.series:
            times, seconds = np.array(step.series).T
            middle = cells.start + cells.width * (np.arange(cells.n) + 0.5)
            at = np.searchsorted(times, middle, "right") - 1
            lengths = np.where((at >= 0) & (middle <= judgement.end), seconds[np.maximum(at, 0)], np.nan)
        cursor = None if self.view.cursor is None else cells.at(self.view.cursor)
        length = float(lengths[cursor]) if cursor is not None and np.isfinite(lengths[cursor]) else step.seconds
        greatest = max(float(np.nanmax(lengths, initial=0.0)), step.seconds)
        return TrackRow("step", duration(length), self._marks(lengths / greatest))


def counter_text(name: str, value: float) -> str:
    """Write a counter's value with its unit: a ratio in per cent, memory in GiB, MiB or KiB, and anything else with an SI
    prefix; "-" for NaN."""
    metric = metric_of(name)
    if metric.unit == RATIO or name.startswith(f"{OF_COUNTER}{RATIO}:"):
        return percent(value)
    unit = UNITS.get(metric.unit)
    if unit is not None and unit.name == "GiB":
        return binary(round(value)) if math.isfinite(value) else NONE
    if unit is not None and unit.name in ("GB/s", "MB/s"):
        return prefixed(value, "B/s")
    return prefixed(value, metric.unit)
