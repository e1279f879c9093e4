"""Where the slow GPUs sit: the lowest nodes, and the places in a node."""

from gssr.model.live.live_result import Result
from gssr.render.cells import side_by_side
from gssr.render.roles import Row
from gssr.report.live.times_of_run import in_part, part_text
from gssr.report.live.unevenness import lowest, places
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import View

_GAP, _SIDE_BY_SIDE = 3, 64


class NodesAndPlaces(RowsPanel):
    """The lowest nodes and places; hidden for a single node, whose GPUs the bars show."""

    def show(self, result: Result, view: View) -> None:
        """Draw from this result from now on, and name in the border what is shown."""
        super().show(result, view)
        self.border_title = in_part("nodes and places", part_text(result))
        self.set_class(len(result.nodes) == 1, "-one-node")

    def rows(self, result: Result, width: int, height: int) -> list[Row]:
        """Draw the lowest nodes and the places within a node, side by side where there is room; only the nodes if places
        can't be compared."""
        found, orders, glyphs = result.unevenness, self.app.orders, self.glyphs
        if width < _SIDE_BY_SIDE:
            below = places(result, found, width, max(height // 2, 1), glyphs)
            return [*lowest(result, orders, found, width, height - len(below), glyphs), *below][:height]
        half = (width - _GAP) // 2
        right = places(result, found, half, height, glyphs)
        if not right:
            return lowest(result, orders, found, width, height, glyphs)
        return side_by_side(lowest(result, orders, found, half, height, glyphs), right, half + _GAP)
