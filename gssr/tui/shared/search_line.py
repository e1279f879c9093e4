"""The line at the bottom of a screen in which a name or a filter is typed."""

from textual.widgets import Input


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
