"""The live screen on a node as it is now: what is shown is gone with it, unless the user keeps it as a file."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType

from gssr.launch import default_output, where_am_i
from gssr.model.live.watch import Watch
from gssr.model.verdicts.table import RuleTable
from gssr.render.cells import clean
from gssr.render.glyphs import Glyphs
from gssr.report.live.hosts import host_rows
from gssr.store.host_states import HostStates, read_states
from gssr.store.merge.repair import keep
from gssr.store.read.open import RecordingError
from gssr.tui.app import LiveScreen
from gssr.tui.keys import key
from gssr.tui.shared.panel import Words

_ENDS = ".sql"
_LOOK_SECONDS = 1.0
"""How often it is looked how the hosts stand."""
_MOST_ROWS, _MOST_ROWS_OF_SHORT = 4, 2
_SHORT = 30
"""What is said about hosts takes so many rows at most, of a screen with fewer rows than this only two."""


class TopScreen(LiveScreen):
    """The live screen on a recording that somebody writes for it alone. At the descriptor ``fd`` it says something now and
    then, which ``lines`` returns; None at its end. ``leaves``: whether such a line ends the screen, which returns 1 then.
    ``are_hosts``: it holds hosts that are asked from here, and how they stand is said in a file beside it."""

    BINDINGS: ClassVar[list[BindingType]] = [key("K", "keep", "Keep", "keep what was recorded so far, as a file")]

    def __init__(
        self, watch: Watch, fd: int, lines: Callable[[], list[str] | None], leaves: Callable[[str], bool],
        glyphs: Glyphs, hz: float, colors: int, theme: str, table: RuleTable, are_hosts: bool = False,
    ) -> None:  # fmt: skip
        super().__init__([watch], glyphs, hz, colors, theme, table)
        self._are_hosts, self._has_ended = are_hosts, False
        self._hosts = Words(id="hosts")
        self._fd, self._lines, self._leaves = fd, lines, leaves

    def on_mount(self) -> None:
        """Begin to listen; Textual calls the other class's method of this name as well."""
        if self._are_hosts:
            self.mount(self._hosts, after="#top-bar")
            self._tell_hosts()
            self.set_interval(_LOOK_SECONDS, self._tell_hosts)
        asyncio.get_running_loop().add_reader(self._fd, self._hear)

    def _tell_hosts(self) -> None:
        """Show how the hosts stand, as it was written last."""
        states: HostStates | None = read_states(self._watches[0].path)
        if states is not None:
            if self._has_ended:
                why = "what gathers the samples has ended"
                hosts = (host._replace(word="gone", reason=host.reason or why) for host in states.hosts)
                states = states._replace(hosts=tuple(hosts), n_idle=0)
            most = _MOST_ROWS if self.size.height >= _SHORT else _MOST_ROWS_OF_SHORT
            rows = host_rows(states, time.time(), self.size.width - 1, self.glyphs, most)
            self._hosts.say(self.palette.text_of(rows, self.glyphs))

    def _hear(self) -> None:
        """Show the lines that were said, and leave with 1 if one of them ends the screen. At the end of the descriptor
        say that the sampler has ended."""
        said = self._lines()
        if said is None:
            asyncio.get_running_loop().remove_reader(self._fd)
            said = ["the sampler has ended: nothing more comes"]
            self._has_ended = True
        for line in said:
            if self._leaves(line):
                self.exit(return_code=1)
            self.show_notice(clean(line))

    def action_keep(self) -> None:
        """Ask for a file name, and keep there what was recorded so far."""
        suggested = os.path.basename(default_output(where_am_i({})))
        self.ask_for_line("keep what was recorded", f"a name that ends in {_ENDS}", suggested, self._keep)

    def _keep(self, name: str) -> None:
        """Keep the recording under this name, and say so. Raises ValueError, with a sentence, and OSError."""
        if not name:
            return
        if not name.endswith(_ENDS):
            raise ValueError(f"{name}: the name must end in {_ENDS}")
        try:
            keep(self._watches[0].path, name, time.time())
        except RecordingError as error:
            raise ValueError(str(error)) from None
        self.show_notice(f"written: {os.path.abspath(name)}")
