"""A dialog in which several things are chosen from a list."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import SelectionList
from textual.widgets.selection_list import Selection

from gssr.tui.keys import key


class ChooseSeveral(ModalScreen[list[str]]):
    """Choose some of ``options``: (what it is called, its key, whether it is chosen). Enter takes them, Esc gives None."""

    AUTO_FOCUS = "SelectionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "dismiss(None)", "Back", "leave it as it was"),
        key("enter", "take", "Take", "take what is chosen"),
    ]

    def __init__(self, title: str, options: Sequence[tuple[str, str, bool]]) -> None:
        super().__init__()
        self._title, self._options = title, options

    def compose(self) -> ComposeResult:
        """The list."""
        with Vertical(classes="dialog") as box:
            box.border_title, box.border_subtitle = self._title, "space chooses, Enter takes, Esc leaves"
            yield SelectionList(*(Selection(name, own, chosen) for name, own, chosen in self._options))

    def on_key(self, event: object) -> None:
        """Close the dialog at Enter, which the list would otherwise take as a choice."""
        if getattr(event, "key", "") == "enter":
            event.stop()  # type: ignore[attr-defined]
            event.prevent_default()  # type: ignore[attr-defined]
            self.action_take()

    def action_take(self) -> None:
        """Close the dialog with the keys of what is chosen, in the order of the list."""
        chosen = set(self.query_one(SelectionList).selected)
        self.dismiss([own for _, own, _ in self._options if own in chosen])
