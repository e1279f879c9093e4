"""What panes and panels ask of the app that they are in."""

from collections.abc import Callable
from typing import Any

from textual.app import App

from gssr.model.live.live_result import Result
from gssr.model.live.steady_order import SteadyOrders
from gssr.render.glyphs import Glyphs
from gssr.tui.themes import Palette
from gssr.tui.view import Scene, ScreenName, View


class LiveApp(App[object]):
    """The app as its panels see it: they draw from ``results`` and ``view``, and change the view."""

    glyphs: Glyphs
    view: View
    orders: SteadyOrders
    results: tuple[Result, ...] = ()
    """The newest result of each recording; empty until there is one."""

    @property
    def palette(self) -> Palette:
        """The colours of the theme that is shown."""
        raise NotImplementedError

    def scene(self) -> Scene | None:
        """What the view and the newest results are together; None before the first result."""
        raise NotImplementedError

    def show(self) -> None:
        """Draw the newest results on the screen in sight."""
        raise NotImplementedError

    def change_view(self, view: View) -> None:
        """Look at something else: ask for it, and draw what is known of it at once."""
        raise NotImplementedError

    def go_to_screen(self, view: View, gpu: int = -1) -> None:
        """Change the view to one of another screen, and put the cursor there on a GPU (-1: leave it where it is)."""
        raise NotImplementedError

    def pane_of(self, name: ScreenName) -> Any:
        """The pane that a tab holds (gssr.tui.shared.pane.ScreenPane); made when it is asked for the first time."""
        raise NotImplementedError

    def call_when_ready(self, name: ScreenName, call: Callable[[], object]) -> None:
        """Call this once a tab holds all its widgets; at once if it does."""
        raise NotImplementedError

    def action_move(self, name: str) -> None:
        """Change the view by one of the moves (gssr.tui.moves.MOVES)."""
        raise NotImplementedError

    def show_metric(self, name: str) -> None:
        """Draw the metric of this name in charts."""
        raise NotImplementedError

    def filter_gpus(self, text: str) -> None:
        """Show only the GPUs that pass a filter; of a trace only the intervals."""
        raise NotImplementedError
