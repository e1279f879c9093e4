"""The call tree: it opens and closes branch by branch, sorts by every column, and searches. Of a million calls only those in
sight are drawn; Textual's Tree holds an object for each."""

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from gssr.model.live.frame import Frame
from gssr.model.traces.call_tree import CallTree
from gssr.render.roles import Row
from gssr.tui.calls import outline
from gssr.tui.keys import key
from gssr.tui.shared.panel import RowsPanel
from gssr.tui.view import PAGE, View


class CallTreePanel(RowsPanel):
    """The tree, and the call under the cursor rank by rank."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "go(0, -1)", "Up", "the call above", show=False),
        key("down,j", "go(0, 1)", "Down", "the call below", show=False),
        key("pageup", f"go(0, -{PAGE})", "Page up", "a page up", show=False),
        key("pagedown", f"go(0, {PAGE})", "Page down", "a page down", show=False),
        key("home,g", f"go(0, -{PAGE * PAGE})", "First", "the first call", show=False),
        key("end,G", f"go(0, {PAGE * PAGE})", "Last", "the last call", show=False),
        key("right", "go(1, 0)", "Open", "open the call under the cursor", show=False),
        key("left", "go(-1, 0)", "Close", "close it, or go to its caller", show=False),
        key("s", "sort", "Sort", "sort by the next column; a click on a head sorts by it"),
        key("r", "reverse", "Reverse", "sort the other way round"),
        key("enter", "open", "Open", "open or close it; of a call that calls nothing: it over time"),
    ]

    class Pointed(Message):
        """The cursor is on this call now, -1 for none."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """Somebody wants to see this call over time."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    _look: outline.Look | None = None

    @property
    def look(self) -> outline.Look:
        """What is looked at, in the size there is."""
        width, height = self.content_size
        if self._look is None:
            self._look = outline.Look(self.glyphs)
        return self._look._replace(width=width, height=height)

    def tell(self, result: Frame, view: View, sought: str) -> None:
        """Show the tree of this result."""
        self._look = self.look._replace(metric=view.metric, sought=sought)
        self.show(result, view)
        self._anew()

    @property
    def _tree(self) -> CallTree | None:
        part = None if self.result is None else self.result.part
        return None if part is None or part.analysis is None else part.analysis.tree

    def _change(self, look: outline.Look) -> None:
        self._look = look
        self._anew()

    def _anew(self) -> None:
        self._rows = None
        tree = self._tree
        if tree is not None and self.content_size.width:
            self.border_title = outline.titled(self.look, tree)
            self.post_message(self.Pointed(outline.picked_node(self.look, tree)))
        self.refresh()

    def on_resize(self) -> None:
        """Other columns."""
        self._anew()

    def rows(self, result: Frame, width: int, height: int) -> list[Row]:
        """See RowsPanel."""
        del result, width, height
        return [] if self._tree is None else outline.draw(self.look, self._tree)

    def action_go(self, dx: int, dy: int) -> None:
        """Over the calls, into and out of them."""
        if self._tree is not None:
            self._change(outline.move(self.look, self._tree, dx, dy))

    def _sort(self, column: int) -> None:
        if self._tree is not None:
            look = self.look
            again = column == outline.shown(look, self._tree).sorted_by
            self._change(look._replace(column=column, reverse=not look.reverse if again else False, row=0, top=0))

    def action_sort(self) -> None:
        """Sort by the next column."""
        if self._tree is not None:
            own = outline.shown(self.look, self._tree)
            self._sort((own.sorted_by + 1) % len(own.columns))

    def action_reverse(self) -> None:
        """The other way round."""
        self._change(self.look._replace(reverse=not self.look.reverse, row=0, top=0))

    def action_open(self) -> None:
        """Open or close; else over time."""
        if self._tree is None:
            return
        look, row = outline.enter(self.look, self._tree)
        if look is not None:
            self._change(look)
        elif row >= 0:
            self.post_message(self.Opened(row))

    def on_click(self, event: events.Click) -> None:
        """A head sorts; a line takes the cursor, and opens or closes when it has it."""
        offset, tree = event.get_content_offset(self), self._tree
        if offset is None or tree is None:
            return
        if offset.y == 0:
            self._sort(outline.column_at(self.look, tree, offset.x))
            return
        line = outline.line_at(self.look, tree, offset.y)
        if line is not None and line == self.look.row:
            self.action_open()
        elif line is not None:
            self._change(self.look._replace(row=line))
