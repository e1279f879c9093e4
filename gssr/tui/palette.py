"""Finding an action by its name: Textual's palette over the table of actions.

A line at the bottom in which something is typed.
"""

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.events import Blur
from textual.widgets import Input

from gssr.tui.actions import Action, offered, shown_keys


class Actions(Provider):
    """Every action, its keys and what it does."""

    async def discover(self) -> Hits:
        """All of them, while nothing is typed."""
        for action in self._all():
            yield DiscoveryHit(
                self._title(action), self._callback(action), help=f"{action.category}, {shown_keys(action)}"
            )

    async def search(self, query: str) -> Hits:
        """Those that match what is typed."""
        matcher = self.matcher(query)
        for action in self._all():
            title = self._title(action)
            score = max(matcher.match(title), matcher.match(action.name.replace("_", " ")))
            if score > 0:
                yield Hit(score, matcher.highlight(title), self._callback(action), help=shown_keys(action))

    def _title(self, action: Action) -> str:
        return action.help[0].upper() + action.help[1:]

    def _callback(self, action: Action):  # type: ignore[no-untyped-def]
        return lambda: self.app.run_action(f"act('{action.name}')")

    def _all(self) -> list[Action]:
        of_trace = bool(self.app.frames) and self.app.frames[0].part is not None  # type: ignore[attr-defined]
        return [action for action in offered(of_trace) if action.name != "palette"]


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
