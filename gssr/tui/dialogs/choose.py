"""Dialogs in which one thing, or several, are chosen from a list that what is typed narrows."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, SelectionList
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from gssr.tui.keys import key


class ChooseOne(ModalScreen[str]):
    """Choose one of ``options``: (what it is called, what is said of it, its key). Esc gives None."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "dismiss(None)", "Back", "choose nothing"),
        key("down", "step(1)", "Down", "the next", show=False),
        key("up", "step(-1)", "Up", "the one before", show=False),
    ]

    def __init__(self, title: str, options: Sequence[tuple[str, str, str]], chosen: str = "") -> None:
        super().__init__()
        self._title, self._options, self._chosen = title, options, chosen

    def compose(self) -> ComposeResult:
        """Lay out a line to type in, and the list."""
        with Vertical(classes="dialog"):
            yield Input(placeholder="a part of its name", compact=True)
            yield OptionList()

    def on_mount(self) -> None:
        """Show all of them."""
        self.query_one(".dialog").border_title = self._title
        self._list("")

    def _list(self, text: str) -> None:
        """List the options that hold every word of ``text`` in name, description or key, and highlight the chosen one,
        else the first."""
        words, found = text.lower().split(), self.query_one(OptionList)
        found.clear_options()
        size = max((len(name) for name, _, _ in self._options), default=0)
        for name, about, own in self._options:
            if all(word in f"{name} {about} {own}".lower() for word in words):
                found.add_option(Option(Text.assemble((f"{name:<{size}}", "bold"), "  ", (about, "dim")), id=own))
        ids = [found.get_option_at_index(at).id for at in range(found.option_count)]
        found.highlighted = ids.index(self._chosen) if self._chosen in ids else 0 if ids else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list."""
        self._list(event.value)

    def on_input_submitted(self) -> None:
        """Close the dialog with the key of the highlighted option; stay open if nothing fits what is typed."""
        found = self.query_one(OptionList)
        if found.highlighted is not None:
            self.dismiss(found.get_option_at_index(found.highlighted).id)

    def action_step(self, step: int) -> None:
        """Another one."""
        found = self.query_one(OptionList)
        found.action_cursor_down() if step > 0 else found.action_cursor_up()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take what was clicked."""
        self.dismiss(event.option.id)


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
        with Vertical(classes="dialog"):
            yield SelectionList(*(Selection(name, own, chosen) for name, own, chosen in self._options))

    def on_mount(self) -> None:
        """Say what it is for."""
        box = self.query_one(".dialog")
        box.border_title, box.border_subtitle = self._title, "space chooses, Enter takes, Esc leaves"

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
