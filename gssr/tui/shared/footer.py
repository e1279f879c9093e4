"""The keys in the last line: as many as there is room for, each whole."""

from typing import Any

from textual.app import ComposeResult
from textual.widgets import Footer

from gssr.render.cells import cell_width

_PADDING = 3
"""Cells around a key and what it is called."""
_EDGE = 1
"""One more cell beside the key that stands at the right."""
_STAYS = "help"
"""The action of the key that leads to all others."""


class KeyFooter(Footer):
    """Textual's footer, without the last of the keys that it would cut."""

    def compose(self) -> ComposeResult:
        """The focused panel's keys, then those of all screens."""
        keys: list[Any] = list(super().compose())
        room = self.app.size.width - _EDGE
        while sum(map(_cells, keys)) > room:
            last = next((each for each in reversed(keys) if _can_go(each)), None)
            if last is None:
                break
            keys.remove(last)
        yield from keys

    def on_resize(self) -> None:
        """Another width has room for other keys."""
        if self.is_attached:
            self.call_after_refresh(self.recompose)


def _cells(key: Any) -> int:
    return cell_width(key.key_display) + cell_width(key.description) + _PADDING


def _can_go(key: Any) -> bool:
    return key.action != _STAYS and not key.has_class("-command-palette")
