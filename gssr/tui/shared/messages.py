"""What a list, a table or a card tells the pane that it stands in."""

from textual.message import Message
from textual.widget import Widget


class _ItemMessage(Message):
    """``item`` is the number of what it is about: a GPU's position, a node's, a row of a table, a verdict."""

    def __init__(self, control: Widget, item: int) -> None:
        super().__init__()
        self.item = item
        self._control = control

    @property
    def control(self) -> Widget:
        """The widget that sent it, by which a handler's selector chooses (``textual.on``)."""
        return self._control


class Pointed(_ItemMessage):
    """The cursor is on this item now; -1 where there is none."""


class Opened(_ItemMessage):
    """The user wants to see all about this item."""
