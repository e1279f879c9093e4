"""Every GPU over time, on the columns of the other panels of Time."""

from textual import events
from textual.strip import Strip

from gssr.model.live.live_result import Result
from gssr.render.scale import metric_of
from gssr.tui.shared.messages import Opened
from gssr.tui.shared.wall import VALUE, Wall
from gssr.tui.time.timeline import TimePanel


class TimeWall(TimePanel, Wall):
    """The wall with a time cursor; a click takes a moment and a GPU, a double click goes to the GPU."""

    axis = False

    def name_border(self, result: Result) -> None:
        """Name the metric; the panels below say how long a cell is."""
        super().name_border(result)
        self.entitle(str(self.border_title), metric_of(result.grid.metric).label)

    def offset_of(self, result: Result) -> int:
        """As in the other panels."""
        del result
        return self.left

    def _label(self, result: Result) -> int:
        del result
        return self.left - VALUE - 2

    def strips(self, _result: Result, width: int, height: int) -> list[Strip]:
        """The wall."""
        return Wall.draw_lines(self, width, height)

    def on_click(self, event: events.Click) -> None:
        """Post Opened with the GPU under the mouse at a double click."""
        event.prevent_default()
        offset = event.get_content_offset(self)
        found = None if offset is None else self._at(offset.x, offset.y)
        if event.chain == 2 and found is not None:
            self.post_message(Opened(self, found[0]))
