"""Keys that come faster than they are handled, as when somebody types ``/sm`` at once: each goes to what the key before it
has given the focus.

Textual gives a key to the widget that has the focus when the key arrives. A key that the widget does not take comes back to
the app, which only then looks for its binding; the next keys have gone to the same widget meanwhile.
"""

import time
from collections import deque

from textual.events import Event, Key
from textual.widgets import Input

from gssr.tui.shared.live_app import LiveApp

LONGEST_WAIT_SECONDS = 2.0
"""For so long a key waits at most: none may wait for what never comes."""


class KeysInOrder(LiveApp):
    """An app that hands a key on once the key before it has done its work."""

    _held_since: float | None = None
    """When keys began to wait (monotonic s); None while none has to."""
    _is_key_away = False
    """Whether a key was handed to the widget in focus and has not come back: no other key may come back before it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting_keys: deque[Key] = deque()

    def hold_keys(self) -> None:
        """Let the keys that come from now on wait for ``release_keys``, but no longer than LONGEST_WAIT_SECONDS."""
        self._held_since = time.monotonic()
        self.set_timer(LONGEST_WAIT_SECONDS * 1.01, self._hand_on_keys)

    def release_keys(self) -> None:
        """Hand on the keys that wait. Does nothing while a key is still away: they go on once it comes back."""
        if not self._is_key_away:
            self._held_since = None
            self.call_later(self._hand_on_keys)

    def may_overtake(self, key: Key) -> bool:  # noqa: ARG002 - for subclasses
        """Tell whether a key may go on although the one before it has not done its work."""
        return False

    async def on_event(self, event: Event) -> None:
        """Hand keys on one after another, and all other events at once. If a key opened a dialog, the next ones wait
        until its line has the focus."""
        if not isinstance(event, Key):
            await super().on_event(event)
        elif event.is_forwarded:  # the focused widget did not take it: now its binding is looked for
            self._held_since, self._is_key_away, screens = None, False, self.screen_stack
            await super().on_event(event)
            if len(self.screen_stack) > len(screens):  # a dialog: what is typed next is for its line, in focus soon
                self.hold_keys()
                self.screen.call_later(self.release_keys)
            await self._hand_on_keys()
        else:
            self._waiting_keys.append(event)
            await self._hand_on_keys()

    async def _hand_on_keys(self) -> None:
        """Hand on the waiting keys until one must wait. A key that the focused widget got, and may not take, makes the
        next ones wait."""
        while self._waiting_keys and not self._must_wait(self._waiting_keys[0]):
            key = self._waiting_keys.popleft()
            await super().on_event(key)
            takes_keys = isinstance(self.focused, Input) or len(self.screen_stack) > 1
            if key.is_forwarded and not takes_keys:
                self._is_key_away = True
                self.hold_keys()

    def _must_wait(self, key: Key) -> bool:
        """Tell whether a key has to wait for the one before it, and has not waited too long."""
        if self._held_since is None or (self.may_overtake(key) and not self._is_key_away):
            return False
        return time.monotonic() < self._held_since + LONGEST_WAIT_SECONDS
