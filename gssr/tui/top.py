"""The live screen on a node as it is now: what is shown is gone with it, unless the user keeps it as a file."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace

from textual.widgets import Input

from gssr.launch import default_output, where_am_i
from gssr.model.live.watch import Watch
from gssr.model.verdicts.table import Table
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.store.merge.repair import keep
from gssr.store.read.open import RecordingError
from gssr.tui.app import LiveScreen

_ENDS = ".sql"


class TopScreen(LiveScreen):
    """The live screen on a recording that somebody writes for it alone. At the descriptor ``fd`` it says something now and
    then, which ``lines`` returns; None at its end. ``leaves``: whether such a line ends the screen, which returns 1 then."""

    def __init__(
        self, watch: Watch, fd: int, lines: Callable[[], list[str] | None], leaves: Callable[[str], bool],
        glyphs: Glyphs, hz: float, colors: int, theme: str, table: Table,
    ) -> None:  # fmt: skip
        super().__init__([watch], glyphs, hz, colors, theme, table)
        self._fd, self._lines, self._leaves = fd, lines, leaves

    def on_mount(self) -> None:
        """Begin to listen; Textual calls the other class's method of this name as well."""
        self.view = replace(self.view, passing=True)
        asyncio.get_running_loop().add_reader(self._fd, self._hear)

    def _hear(self) -> None:
        said = self._lines()
        if said is None:
            asyncio.get_running_loop().remove_reader(self._fd)
            said = ["the sampler has ended: nothing more comes"]
        for line in said:
            if self._leaves(line):
                self.exit(1)
            self._message = clean(line)
        self._draw()

    def action_act(self, name: str) -> None:
        """See the other class."""
        super().action_act(name)
        if name == "keep":
            suggested = os.path.basename(default_output(where_am_i({})))
            self._prompt.ask(name, "Keep as:", f"a name that ends in {_ENDS}", suggested)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """See the other class, which has no name for a recording to wait for."""
        if self._prompt.asked != "keep":
            return
        event.prevent_default()
        self._prompt.done()
        self._canvas.focus()
        name = event.value.strip()
        if name:
            self._message = self._kept(name)
        self._draw()

    def _kept(self, name: str) -> str:
        """Keep the recording under this name; what has become of it."""
        if not name.endswith(_ENDS):
            return f"{name}: the name must end in {_ENDS}"
        try:
            keep(self._watches[0].path, name, time.time())
        except OSError as error:
            return f"{name}: {error.strerror}"
        except RecordingError as error:
            return str(error)
        return f"written: {os.path.abspath(name)}"
