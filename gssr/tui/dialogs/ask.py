"""Dialogs that ask for a line of text, or one of a few answers."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from gssr.tui.keys import key


class AskLine(ModalScreen[str]):
    """Ask for a line; Esc gives None."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [key("escape", "dismiss(None)", "Back", "ask no more")]

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        """Lay out the line to type in, and what can be typed."""
        with Vertical(classes="dialog -line") as box:
            box.border_title = self._title
            yield Input(self._value, compact=True)
            yield Label(self._hint)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the dialog with what was typed."""
        self.dismiss(event.value.strip())


class AskWhat(ModalScreen[str]):
    """Ask one of a few things: ``answers`` are (key, what it does). The result is the key, "q" for it, None for Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "dismiss(None)", "Back", "go back to the screen"),
        key("q", "dismiss('q')", "Quit", "leave"),
    ]

    def __init__(self, title: str, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._answers = title, answers

    def compose(self) -> ComposeResult:
        """Lay out a line for each answer, and one that says that Esc goes back."""
        with Vertical(classes="dialog -line") as box:
            box.border_title = self._title
            for name, what in self._answers:
                yield Label(f"[b $text-accent]{name}[/]    {what}")
            yield Label("[b $text-accent]Esc[/]  go back to the screen")

    def on_key(self, event: Key) -> None:
        """Close the dialog with the key that was pressed, if it is one of the answers."""
        if event.key in [name for name, _ in self._answers]:
            event.stop()
            self.dismiss(event.key)
