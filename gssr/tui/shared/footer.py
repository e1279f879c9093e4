"""The keys in the last line: as many as there is room for, each whole; a click presses one.

One widget draws all of them: a widget for each, as Textual's own footer has, would take a fifth of the start.
"""

from typing import Any

from rich.segment import Segment
from textual import events
from textual.binding import ActiveBinding
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gssr.render.cells import cell_width
from gssr.tui.shared.panel import LineDrawing

_STAYS = frozenset({"help", "leave", "output"})
"""The actions of keys that give way to no other: the one that leads to all others, the one that leaves, and beside a job the
one that makes room for the screen."""


class KeyFooter(LineDrawing, Widget):
    """The focused panel's keys, then those of all screens; at the right the one that finds everything."""

    def on_mount(self) -> None:
        """Draw anew whenever other keys count."""
        self.screen.bindings_updated_signal.subscribe(self, self._on_other_keys)

    def _on_other_keys(self, _screen: Screen[Any]) -> None:
        self.draw_changes()

    def _choose_keys(self) -> list[ActiveBinding]:
        """Choose the keys that there is room for, the last of them for the right end."""
        active = self.screen.active_bindings
        by_action = {each.binding.action: each for each in reversed(active.values()) if each.binding.show}
        finds = active.get(self.app.COMMAND_PALETTE_BINDING)
        keys = [*reversed(by_action.values()), *([finds] if finds else ())]
        while sum(map(self._cells, keys)) + 1 > self.size.width:
            last = next((each for each in reversed(keys[:-1]) if each.binding.action not in _STAYS), None)
            if last is None:
                break
            keys.remove(last)
        return keys

    def _key(self, shown: ActiveBinding) -> str:
        """Return the key with a blank around it."""
        return f" {self.app.get_key_display(shown.binding)} "

    def _cells(self, shown: ActiveBinding) -> int:
        """Count the cells that a key and what it is called take."""
        return cell_width(self._key(shown)) + cell_width(shown.binding.description) + 1

    def draw_lines(self, width: int, _height: int) -> list[Strip]:
        """One line."""
        key, plain, segments = self.palette.style("gap"), self.palette.style("plain"), list[Segment]()
        *keys, last = self._choose_keys()
        for each in keys:
            segments += [Segment(self._key(each), key), Segment(f"{each.binding.description} ", plain)]
        used = sum(map(self._cells, keys))
        edge = "|" if self.glyphs.levels.isascii() else "▏"
        segments.append(Segment(f"{edge:>{max(width - used - self._cells(last), 1)}}", self.palette.style("track")))
        segments += [Segment(self._key(last), key), Segment(f"{last.binding.description} ", plain)]
        return [Strip(segments).adjust_cell_length(width)]

    def _under(self, x: int) -> ActiveBinding | None:
        """The key at a cell of the line."""
        *keys, last = self._choose_keys()
        if x >= self.size.width - self._cells(last):
            return last
        for each in keys:
            if x < self._cells(each):
                return each
            x -= self._cells(each)
        return None

    def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse."""
        key = self._under(event.x)
        if key is not None:
            self.app.simulate_key(key.binding.key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say in a tooltip what the key under the mouse does."""
        key = self._under(event.x)
        self.tooltip = None if key is None else key.tooltip or key.binding.description
