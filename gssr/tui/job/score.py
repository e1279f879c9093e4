"""The score in big digits, the word beside it, and its curve."""

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.strip import Strip
from textual.widgets import Digits

from gssr.arrays import Ints
from gssr.metrics import best_measured
from gssr.model.findings.notes import why_no_gpu
from gssr.model.live.live_result import RECENT_SECONDS, Result
from gssr.render.clock import duration
from gssr.render.columns import average_into_columns
from gssr.render.scale import fixed, metric_of, percent, unit_of
from gssr.report.live.time_cells import cells_of, known_from, rolls
from gssr.report.live.times_of_run import length_text, seconds_text
from gssr.score import CAVEAT, DEFINITION, SCALE, how_to_measure
from gssr.tui.shared.history import history_rows
from gssr.tui.shared.panel import Drawing, Panel, Words
from gssr.tui.view import View, gpus_looked_at


class ScoreHistory(Panel):
    """The running efficiency score: the score of all GPUs column by column, on a fixed axis from 0 to 1."""

    def draw_lines(self, width: int, height: int) -> list[Strip]:
        """The curve."""
        result = self.result
        if result is None or result.score_curve is None:
            return []
        curve, cells = result.score_curve, cells_of(result, width)
        values = average_into_columns(curve.values[0], curve.start, curve.width, cells.start, cells.end, width)
        if not rolls(result) or np.isnan(values[-1:]).all():
            last = np.flatnonzero(np.isfinite(values))
            values[last[-1] + 1 if len(last) else 0 :] = values[last[-1]] if len(last) else np.nan
        rows = history_rows(values, height, self.palette, self.glyphs, known_from(result, cells))
        return [Strip(row).adjust_cell_length(width) for row in rows]


class Score(Drawing, Vertical):
    """How well the GPUs were used, in one number."""

    def compose(self) -> ComposeResult:
        """Lay out the number, what it is, and its curve."""
        with Horizontal(id="score-head"):
            yield Digits("", id="score-digits")
            yield Words("", id="score-words")
        yield Words("", id="score-remark")
        yield ScoreHistory(id="score-curve")

    def on_mount(self) -> None:
        """Say what the score is where the mouse asks."""
        self.tooltip = (
            f"score: {SCALE}; {DEFINITION}, of the mean SM activity A, occupancy O and pipe activity F; {CAVEAT}"
        )

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on: the score, of a live run the recent one and below it that of the whole
        run.

        Of a trace the busy share is shown instead. If the score is unknown, the best metric that was measured, with
        the reason.
        """
        result, gpus = gpus_looked_at(result, view)
        self.border_title = "GPU saturation" if result.part is None else "work"
        score, recent = result.whole.score(gpus), result.recent.score(gpus)
        live = result.is_live
        word, of, remark = "score", f"whole run\n{duration(result.duration)}", SCALE
        shown = fixed(recent if live and recent is not None else score, 3, "")
        if live:
            lasted = min(RECENT_SECONDS, max(result.last - result.first, 0.0))
            of = f"last {seconds_text(round(lasted))}\nrun {fixed(score, 3, '-')}"
        if result.part is not None:
            busy = result.window.overall(gpus).get("busy")
            shown, word = percent(busy).replace(" ", ""), "busy"
            of = _time_of_busy(result, gpus)
            remark = "" if result.noun == "thread" else "first work to last"
        elif score is None:
            means = (result.recent if live else result.whole).overall(gpus)
            known = {name: mean for name, mean in means.items() if mean is not None}
            best = best_measured(known)
            why = how_to_measure(result.gpus[0].backend) or "SM activity, occupancy or a pipe was not measured"
            why = "".join(["no GPU was recorded", *why_no_gpu(result.events)]) if result.by_node else why
            remark = f"no score: {why}"
            word, shown = "score unknown", "-"
            if best is not None:
                unit = unit_of(metric_of(best))
                shown, word = f"{fixed(known[best] * unit.factor, 0)}{unit.name}", metric_of(best).label
        digits = self.query_one("#score-digits", Digits)
        digits.display = not self.glyphs.levels.isascii()  # they are drawn with lines
        if digits.value != shown:
            digits.update(shown)
        word = word if digits.display else f"{shown} {word}"
        self.query_one("#score-words", Words).say(Text.assemble((f"{word}\n", "bold"), (of, self.palette.style("dim"))))
        said = self.query_one("#score-remark", Words)
        said.say(remark)
        said.set_class(score is None, "-lacks")
        said.display = bool(remark)
        curve = self.query_one(ScoreHistory)
        curve.display = score is not None
        curve.show(result, view)


def _time_of_busy(result: Result, gpus: Ints | None) -> str:
    """Say which time the busy share of a trace is a share of: that of these rows (positions; None: all) in the window. GPUs
    last from the first work of any of them to the last. Returns "" if no row lasts."""
    means = result.window
    lengths = means.n[means.names.index("busy")] if "busy" in means.names else np.zeros(result.n_gpus)
    lengths = lengths if gpus is None else lengths[gpus]
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return ""
    if lengths.min() < lengths.max():  # threads, of which each counts from its own first interval to its last
        return "of their time"
    return f"of {length_text(result, float(lengths[0]) / 1e9)}"
