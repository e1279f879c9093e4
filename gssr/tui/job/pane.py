"""Job: how well is the job using its GPUs? The score leads, the sentence says what is wrong, the wall shows all GPUs."""

from collections.abc import Sequence
from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from gssr.model.live.live_result import Query, Result
from gssr.tui.job.gauges import Gauges
from gssr.tui.job.most import MostTime
from gssr.tui.job.score import Score, ScoreHistory
from gssr.tui.job.sentence import Sentence
from gssr.tui.job.space_average import SpaceAverage
from gssr.tui.job.verdict_cards import VerdictCards
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.pane import ScreenPane
from gssr.tui.shared.wall import MOST_ROWS, Wall, gpus_shown
from gssr.tui.view import View

_FEW = 8
"""The most GPUs that have a line each on the smallest terminal that has a chart as well."""
_LOW = 18
"""Rows from which there is a chart."""
_AROUND = 3
"""Rows of a short screen above and below the tabs' content."""
_SCORES = 120
"""Columns that the score's curve has at most."""


class JobPane(ScreenPane):
    """How well is the job using its GPUs?"""

    screen_name = "job"
    panels = (Score, Gauges, Sentence, VerdictCards, MostTime, SpaceAverage, Wall)

    def compose(self) -> ComposeResult:
        """Left what it is in numbers, right what is wrong and the pictures."""
        with Vertical(id="job-left"):
            yield Score(id="score", classes="panel")
            yield Gauges(id="gauges", classes="panel")
        with Vertical(id="job-right"):
            yield Sentence(id="sentence", classes="panel")
            yield VerdictCards(id="verdicts", classes="panel")
            yield MostTime(id="most-time", classes="panel")
            yield SpaceAverage(id="space-average", classes="panel")
            yield Wall(id="wall", classes="panel leads-to-gpu")

    @on(Opened, "VerdictCard")
    def show_verdict(self, event: Opened) -> None:
        """Show all about a verdict, on Why."""
        self.app.go_to_screen(replace(self.app.view, screen="why", note=event.item))

    def on_mount(self) -> None:
        """Name the cards."""
        self.query_one(VerdictCards).border_title = "what to do first"

    def _fit(self, n_gpus: int) -> None:
        """Give the wall the rows that its GPUs need and the chart the rest; on a small terminal the wall alone is
        shown, with its lowest GPUs."""
        wall, chart = self.query_one(Wall), self.query_one(SpaceAverage)
        if self.screen.maximized is not None:
            return
        small = self.screen.has_class("-tiny") or self.screen.has_class("-flat")
        wall.lowest = small
        height = (
            self.size.height or self.app.size.height - _AROUND
        )  # before the first layout: a slow line draws it once
        chart.display = not small and height >= _LOW
        around = 2 if wall.styles.border_bottom[0] else 1
        if small or not chart.display:
            wall.styles.height = "1fr"
        elif self.screen.has_class("-short"):
            wall.styles.height = min(max(n_gpus, 4), _FEW) + 1 + around
        else:
            wall.styles.height = "4fr"
        most = n_gpus * MOST_ROWS + 1 + around if n_gpus <= _FEW and chart.display else None
        if most is not None or wall.styles.max_height is not None:  # without one already: to say so costs a layout
            wall.styles.max_height = most

    def on_resize(self) -> None:
        """Share the rows anew between wall and chart."""
        wall = self.query_one(Wall)
        if wall.result is not None:
            self._fit(len(gpus_shown(wall.result, wall.view)))

    def asks(self, query: Query) -> Query:
        """Add to the query the score's curve, in as many columns as there is room for."""
        curve = self.query_one(ScoreHistory).content_size.width
        return replace(query, score_columns=min(max(curve, 20), _SCORES))

    def show(self, results: Sequence[Result], view: View) -> None:
        """Draw the first result in all panels; the chart's axis stands above that of the wall."""
        result = results[0]
        self._fit(len(gpus_shown(result, view)))
        self.query_one(SpaceAverage).axis_at = self.query_one(Wall).offset_of(result) - 1
        super().show(results, view)
