"""The app on its terminal: in which colours and characters it draws, how much it sends, and how it leaves."""

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.driver import Driver
from textual.events import ScreenResume
from textual.filter import LineFilter, NoColor
from textual.screen import Screen

from gssr.render.glyphs import Glyphs
from gssr.tui.ascii_filter import AsciiFilter
from gssr.tui.keys import key
from gssr.tui.shared.keys_in_order import KeysInOrder
from gssr.tui.themes import DEFAULT, FEW_COLOURS, MARKED_WITHOUT_COLOURS, NO_COLOURS, THEMES, Palette, text_variables
from gssr.tui.wire import Wire, thrifty

_STYLES = Path(__file__).with_name("app.tcss")

LEAVING_SECONDS = 0.8
"""For so long leaving waits at most until the terminal has said that it has drawn everything: within a second it is left."""

LEAVES = "beside a job: stop it, leave it running, or go back; else leave"
COPIES_OR_LEAVES = f"copy the text that the mouse has selected; without any, {LEAVES}"
"""What Ctrl-C does."""


class _FirstScreen(Screen[None], inherit_bindings=False):
    """The screen below all others. Its keys are Textual's, in our words."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("tab", "app.focus_next", "Next", "the next panel", show=False),
        key("shift+tab", "app.focus_previous", "Previous", "the previous panel", show=False),
        key("ctrl+c,super+c", "screen.copy_text", "Copy", COPIES_OR_LEAVES, show=False),
    ]
    _was_resumed = False

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Style all widgets anew as Textual does, but not when the app starts: they were styled as they were mounted."""
        event.refresh_styles = self._was_resumed
        self._was_resumed = True


class TerminalApp(KeysInOrder):
    """An app that draws in the ``colors`` that the terminal has (their number, 0 for none) and in its ``glyphs``. An unknown
    ``theme`` is replaced by the usual one for so many colours."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-tiny"), (60, "-narrow"), (100, "-normal"), (150, "-wide")
    ]  # fmt: skip
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (16, "-short"),
        (32, "-medium"),
        (48, "-tall"),
    ]

    def __init__(self, glyphs: Glyphs, colors: int, theme: str) -> None:
        self._colourless = not colors
        super().__init__()
        self.glyphs = glyphs
        self.animation_level = "none"
        for each in THEMES:
            self.register_theme(each)
        usual = DEFAULT if colors > 16 else FEW_COLOURS if colors else NO_COLOURS
        self.theme = theme if theme in self.available_themes else usual
        self._palette: Palette | None = None
        self.wire: Wire | None = None
        """The driver's writer to the terminal; None without one."""

    # How it is drawn

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, made to send as few bytes as it takes."""
        return thrifty(super().get_driver_class())

    def get_default_screen(self) -> Screen[Any]:
        """Make the screen with the classes of its size: told later, all on it would be styled twice."""
        self.stylesheet.read(_STYLES)  # as CSS_PATH it would be parsed three times until here
        found, sizes = _FirstScreen(id="_default"), (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)
        for size, steps in zip(self.size, sizes, strict=True):
            found.add_class([name for least, name in steps if size >= least][-1], update=False)
        return found

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that each drawn line goes through: Textual's, without colours one that removes them all, as
        Textual would send shades of grey, and one for terminals that show ASCII only."""
        filters = [NoColor()] if self._colourless else super().get_line_filters()
        return [*filters, AsciiFilter()] if self.glyphs.levels.isascii() else filters

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's CSS variables, with colours of text that can be read; without colours the selected text is
        marked by another style."""
        variables = super().get_css_variables()
        variables |= text_variables(self.theme, variables) | (MARKED_WITHOUT_COLOURS if self._colourless else {})
        self.theme_variables = variables
        return variables

    @property
    def palette(self) -> Palette:
        """The colours of the theme that is shown."""
        if self._palette is None or self._palette.theme != self.theme:
            self._palette = Palette.of(self, self._colourless)
        return self._palette

    # How it leaves

    def leave_without_terminal(self) -> None:
        """End the process at once if its terminal or browser is gone: nothing can be drawn or put back any more."""
        if not (_is_held(0) if self.is_web else os.isatty(2)):
            os._exit(1)

    def _call_once_drawn(self, then: Callable[[], object]) -> None:
        """Draw nothing more, and call ``then`` once the terminal has drawn what was sent, at the latest after
        LEAVING_SECONDS. Otherwise the terminal's answer would come to the shell."""
        wire = self.wire
        if wire is None:
            then()
            return
        wire.hold()
        latest = time.monotonic() + LEAVING_SECONDS

        def look() -> None:
            if not wire.is_busy or time.monotonic() >= latest:
                timer.stop()
                then()

        timer = self.set_interval(0.02, look)

    def action_suspend(self) -> None:
        """Stop the process group, so that the shell has the terminal again; a notice if there is no shell to go back
        to."""
        if self.is_headless or os.getpgrp() == os.getsid(0):
            self.notify("no shell here to go back to")
            return
        self._call_once_drawn(partial(os.kill, 0, signal.SIGTSTP))

    def action_interrupt(self) -> None:
        """Ctrl-C leaves, too."""
        self.action_leave()

    def action_leave(self) -> None:
        """End, without an error."""
        self._call_once_drawn(self.exit)

    async def action_quit(self) -> None:
        """Textual's own way to leave is no other."""
        self.action_leave()


def _is_held(descriptor: int) -> bool:
    """Tell whether somebody still has the other end of the pipe at this descriptor open."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return not poll.poll(0)
