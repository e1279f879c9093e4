"""Finding an action by its name: Textual's palette over the table of actions.

A line at the bottom in which something is typed.
"""

from collections.abc import AsyncIterator

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.events import Blur
from textual.widgets import Input

from gssr.tui.actions import ACTIONS, Action, shown_keys


class Actions(Provider):
    """Every action, its keys and what it does."""

    async def discover(self) -> Hits:
        """All of them, while nothing is typed."""
        async for action in _all():
            yield DiscoveryHit(
                self._title(action), self._callback(action), help=f"{action.category}, {shown_keys(action)}"
            )

    async def search(self, query: str) -> Hits:
        """Those that match what is typed."""
        matcher = self.matcher(query)
        async for action in _all():
            title = self._title(action)
            score = max(matcher.match(title), matcher.match(action.name.replace("_", " ")))
            if score > 0:
                yield Hit(score, matcher.highlight(title), self._callback(action), help=shown_keys(action))

    def _title(self, action: Action) -> str:
        return action.help[0].upper() + action.help[1:]

    def _callback(self, action: Action):  # type: ignore[no-untyped-def]
        return lambda: self.app.run_action(f"act('{action.name}')")


async def _all() -> AsyncIterator[Action]:
    for action in ACTIONS:
        if action.name != "palette":
            yield action


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
