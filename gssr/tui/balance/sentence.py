"""What the imbalance costs and of what kind it is: one sentence, and the numbers it rests on."""

from gssr.model.live.live_result import Result
from gssr.render.cells import at_most, flow, wrap
from gssr.render.roles import Row, text_of
from gssr.render.scale import metric_of
from gssr.report.live.times_of_run import in_part, part_text
from gssr.report.live.unevenness import costs, facts, reads_as
from gssr.tui.shared.panel import RowsPanel


class BalanceSentence(RowsPanel):
    """The answer of this screen."""

    def name_border(self, result: Result) -> None:
        """Name the part of the run and the metric."""
        self.border_title = in_part("what evening out would give", part_text(result))
        self.border_subtitle = f"by {metric_of(result.grid.metric).label}"

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the sentence, marked where some GPU stands out, then the numbers."""
        found = result.unevenness.imbalance
        kind = reads_as(result, self.app.orders, found)
        marked = kind[0].role == "outlier"
        role = "outlier" if marked else kind[-1].role
        mark = "" if not marked else "! " if self.glyphs.levels.isascii() else "▲ "
        said = text_of(kind).removeprefix("! ")
        cost = costs(result, found)
        said = f"{said[:1].upper()}{said[1:].rstrip('.')}."
        sentence = f"{mark}{cost} {said}" if cost else f"{mark}{said}"
        rows = wrap(sentence, width, rest="  " if mark else "", role=role)
        rows += flow(facts(result, found), width, self.glyphs.ellipsis, separator="   ")
        return at_most(rows, height, width, self.glyphs.ellipsis)
