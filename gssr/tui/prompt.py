"""A line at the bottom in which something is typed."""

from textual.events import Blur
from textual.widgets import Input


class Prompt(Input):
    """Shown only while something is asked for; ``asked`` says what (an action's name)."""

    DEFAULT_CSS = """
    Prompt { layer: top; dock: bottom; height: 1; border: none; padding: 0; display: none; }
    Prompt:focus { border: none; }
    """

    def __init__(self) -> None:
        super().__init__(compact=True)
        self.asked = ""
        self.can_focus = False

    def ask(self, asked: str, hint: str, value: str) -> None:
        """Begin to ask; ``hint`` is shown while nothing is typed."""
        self.asked, self.placeholder, self.value = asked, hint, value
        self.can_focus = self.display = True
        self.focus()
        self.action_end()

    def done(self) -> str:
        """Stop asking; what was asked."""
        asked, self.asked = self.asked, ""
        self.can_focus = self.display = False
        return asked

    def on_blur(self, event: Blur) -> None:
        """Whoever looks elsewhere asks no more."""
        del event
        self.done()
