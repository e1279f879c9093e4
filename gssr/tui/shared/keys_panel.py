"""The list of keys, beside the screen: the panel's own keys first, then those of all screens."""

from typing import Any

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding
from textual.containers import VerticalScroll
from textual.screen import Screen

from gssr.tui.shared.panel import Drawing, Words

_HOW_TO_LEAVE = "^d ^u scroll   Esc closes"
_GROUPS = ("this screen", "all screens")


class KeysPanel(Drawing, VerticalScroll, can_focus=False):
    """All keys that count where the focus is, each with what it does."""

    DEFAULT_CSS = """
    KeysPanel { split: right; width: 33%; min-width: 34; max-width: 60; height: 1fr; border-left: vkey $foreground 30%; }
    KeysPanel { padding: 0 1; scrollbar-size-vertical: 1; }
    KeysPanel Words { width: 1fr; height: auto; }
    """

    def compose(self) -> ComposeResult:
        """How the list is left, and all of the list as one text, which is scrolled."""
        yield Words(_HOW_TO_LEAVE)
        yield Words(id="keys")

    def on_mount(self) -> None:
        """Write the list, and write it anew whenever other keys count. The tabs beside it stand closer together."""
        self.screen.add_class("-beside-keys")
        self.screen.bindings_updated_signal.subscribe(self, self._on_other_keys)
        self._on_other_keys(self.screen)

    def on_unmount(self) -> None:
        """Give the tabs their room back."""
        self.screen.remove_class("-beside-keys")

    def _on_other_keys(self, screen: Screen[Any]) -> None:
        if screen is self.screen:
            self.call_after_refresh(self._write)

    def _write(self) -> None:
        """Write one line for each action that has keys: the keys, and what they do."""
        table, style = Table.grid(padding=(0, 1), expand=True), self.palette.style
        table.add_column(justify="right", max_width=12)
        table.add_column(ratio=1)
        for name, actions in zip(_GROUPS, self._groups(), strict=True):
            if actions:
                table.add_row("", Text(f"\n{name}", style("heading")))
            for bindings in actions.values():
                keys = dict.fromkeys(self.app.get_key_display(each.binding) for each in bindings)
                table.add_row(Text(" ".join(keys), style("value")), Text(bindings[0].binding.tooltip))
        self.query_one("#keys", Words).say(table)

    def _groups(self) -> tuple[dict[str, list[ActiveBinding]], ...]:
        """Sort the keys that count into the _GROUPS, each by what its keys do."""
        found: tuple[dict[str, list[ActiveBinding]], ...] = ({}, {})
        for each in keys_that_count(self.screen):
            found[is_of_all_screens(each)].setdefault(each.binding.action, []).append(each)
        return found


def keys_that_count(screen: Screen[Any]) -> list[ActiveBinding]:
    """List the keys that count where the screen's focus is. Textual's own are left out: they have no tooltip, but for the
    one that quits."""
    every = screen.active_bindings.values()
    return [
        each for each in every if each.binding.tooltip and each.binding.action != "quit" and not each.binding.system
    ]


def is_of_all_screens(key: ActiveBinding) -> bool:
    """Tell whether a key is the app's own, and not that of a pane or a panel."""
    return isinstance(key.node, App | Screen)
