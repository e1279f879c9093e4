"""A screen with a line at its bottom, in which a name or a filter is typed."""

from textual.widgets import Input

from gssr.tui.shared.pane import ScreenPane


class SearchLine(Input):
    """Hidden until it is opened; what is typed counts at once, and Esc lets go of it."""

    def __init__(self, placeholder: str, **attributes: str) -> None:
        super().__init__(placeholder=placeholder, compact=True, **attributes)  # type: ignore[arg-type]
        self.display = False

    def open(self, text: str) -> None:
        """Show the line with this text, and give it the focus at once: what is typed next is for it."""
        self.value, self.display = text, True
        self.screen.set_focus(self)

    def let_go(self) -> bool:
        """Hide the line, without its text. Returns False, having done nothing, if it was not used."""
        if not self.display and not self.value:
            return False
        self.value, self.display = "", False
        return True


class SearchPane(ScreenPane):
    """A screen that has one SearchLine. A subclass says in ``search`` what the text does, and in ``focus_content`` where the
    focus is when nothing is typed."""

    def search(self, text: str) -> None:
        """Show what fits the text; all if it is empty."""
        raise NotImplementedError

    def focus_content(self) -> None:
        """Give the focus to what is searched."""
        raise NotImplementedError

    def action_seek(self) -> None:
        """Show the line in which the text is typed, and give it the focus."""
        line = self.query_one(SearchLine)
        line.open(line.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show at once what fits."""
        event.stop()
        self.search(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take what is typed."""
        event.stop()
        self.take(event.input, event.value.strip())

    def take(self, line: Input, text: str) -> None:
        """Keep the text and return to what is searched; an empty line is hidden."""
        line.display = bool(text)
        self.focus_content()

    def let_go(self) -> bool:
        """End the search. Returns False, having done nothing, if there was none."""
        was_used = self.query_one(SearchLine).let_go()
        if was_used:
            self.search("")
            self.focus_content()
        return was_used
