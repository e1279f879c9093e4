"""A screen that is still drawn as rows as a whole: a pure drawing of a scene in one widget, with its cursor."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.strip import Strip

from gssr.makers import BOTH, maker_of, speaking_of
from gssr.model.live.frame import Frame
from gssr.render.roles import Row
from gssr.tui.keys import key
from gssr.tui.screens import BY_NAME
from gssr.tui.shared.panel import Panel
from gssr.tui.view import PAGE, Scene, ScreenName, View

_MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0), "pageup": (0, -PAGE), "pagedown": (0, PAGE)}


class ScreenRows(Panel):
    """The screen of this name (gssr.tui.screens)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(key(name, f"move('{name}')", name, f"move {name}", show=False) for name in _MOVES),
        key("enter", "enter", "Open", "one level down", show=False),
        key(
            "v",
            "app.move('density')",
            "View",
            "more or fewer lines; on Time: to the traces and their levels",
            show=False,
        ),
        key("u", "app.move('group')", "Group", "similar GPUs in one band, or each on its own line", show=False),
        key("f", "app.move('next_found')", "Find next", "of a trace: the next interval of that name", show=False),
        key("F", "app.move('previous_found')", "Find previous", "of a trace: the interval before", show=False),
        key(
            "b",
            "app.move('cause')",
            "Cause",
            "of a trace: from work to its launch, from send to receive",
            show=False,
        ),
    ]

    def __init__(self, name: ScreenName) -> None:
        super().__init__()
        self._screen = BY_NAME[name]
        self._results: Sequence[Frame] = ()
        self._rows: list[Row] | None = None

    def show_all(self, results: Sequence[Frame], view: View) -> None:
        """Draw these results."""
        self._results, self._rows = results, None
        self.show(results[0], view)

    def on_resize(self) -> None:
        """Draw anew."""
        self._rows = None

    @property
    def scene(self) -> Scene:
        """What is drawn."""
        app, (width, height) = self.app, self.content_size
        other = self._results[1] if len(self._results) > 1 else None
        return Scene(
            self._results[0], other, self.view, width, height, self.glyphs,
            n_recordings=app.n_recordings, orders=app.orders,  # type: ignore[attr-defined]
        )  # fmt: skip

    def draw_line(self, y: int) -> Strip:
        """One row."""
        width, height = self.content_size
        if not self._results or not height:
            return Strip.blank(width)
        if self._rows is None:
            makers = {maker_of((frame.of_gpus or frame).gpus) for frame in self._results}
            with speaking_of(makers.pop() if len(makers) == 1 else BOTH):
                self._rows = self._screen.draw(self.scene)
        return self.strip_of(self._rows[y] if y < len(self._rows) else (), width)

    def _look(self, view: View | None) -> None:
        if view is not None:
            self.app.look(view)  # type: ignore[attr-defined]

    def action_move(self, name: str) -> None:
        """Move its cursor."""
        if self._results:
            self._look(self._screen.move(self.scene, *_MOVES[name]))

    def action_enter(self) -> None:
        """One level down."""
        if self._results:
            self._look(self._screen.enter(self.scene))

    def on_click(self, event: events.Click) -> None:
        """What is under the mouse."""
        offset = event.get_content_offset(self)
        if offset is not None and self._results:
            self._look(self._screen.click(self.scene, offset.x, offset.y))
