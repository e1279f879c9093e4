"""How the commands that draw the live screen are told to begin: their options, the user's settings, and the terminal."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from gssr.commands import Option, in_browser
from gssr.commands.inputs import selectors
from gssr.commands.page_options import shows_utf8

if TYPE_CHECKING:
    from gssr.model.custom_metrics import Custom
    from gssr.tui.app import LiveScreen
    from gssr.tui.view import View

FASTEST, SLOWEST = 10.0, 0.1

OPTIONS = (
    Option(("--screen",), {"metavar": "NAME", "help": "begin with this screen: job, gpus, time, balance, ..."}),
    Option(
        ("--metric",),
        {
            "metavar": "NAME",
            "action": "append",
            "default": [],
            "help": "begin with this metric, such as dram_active (default: SM active); of a trace also a metric of your "
            "own: 'wait=share(/^MPI_Wait/)'; may be repeated",
        },
    ),
    Option(
        ("--gpus",),
        {"metavar": "LIST", "help": "begin with these GPUs: index, NODE, NODE:INDEX or UUID, also with * and ?"},
    ),
    Option(("--window",), {"metavar": "TIME", "help": "begin with this last part of the time: 90s, 5m or 1h30m"}),
    Option(
        ("--hz",),
        {
            "metavar": "N",
            "type": float,
            "help": "update N times a second while the recording grows (default: 2, over SSH 1, of many hosts 1)",
        },
    ),
    Option(("--no-mouse",), {"action": "store_true", "help": "leave the mouse to the terminal"}),
    Option(("--ascii",), {"action": "store_true", "help": "draw with ASCII characters only"}),
    Option(
        ("--theme",),
        {
            "metavar": "NAME",
            "help": "gssr, gssr-viridis, ansi-dark or ansi-light (the terminal's own colours), colourless, or one of "
            "Textual's (default: gssr)",
        },
    ),
)


class ScreenStart(NamedTuple):
    """How a screen begins: with this ``view``, of these GPUs (None: all); ``said`` is to be said on it; ``own``: metrics of
    one's own."""

    view: View
    gpus: tuple[str, ...] | None
    hz: float
    theme: str
    said: str
    own: tuple[Custom, ...] = ()

    def apply(self, app: LiveScreen) -> None:
        """Set the screen's view and GPUs, and show what is to be said."""
        app.view, app.wanted_gpus = self.view, self.gpus
        app.show_notice(self.said)


def is_described(options: argparse.Namespace) -> bool:
    """Tell whether the options say how a screen begins, other than which GPUs it shows."""
    return bool(options.metric) or any(
        getattr(options, name) is not None for name in ("screen", "window", "hz", "theme")
    )


def named_gpus(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Split --gpus into the GPUs that it names; None for all. Raises ValueError, with a sentence, if it names none."""
    gpus = None if options.gpus is None else selectors(options.gpus)
    if gpus == ():
        raise ValueError("--gpus: no GPU named: give an index, NODE, NODE:INDEX or UUID")
    return gpus


def start(options: argparse.Namespace, view: View, traces: bool = False, most_hz: float = FASTEST) -> ScreenStart:
    """Decide how a screen begins: by the options, else by the user's settings, else by ``view``.

    ``traces``: a trace is shown, not a recording. ``most_hz``: looks a second at most, unless --hz says more. Raises
    ValueError, with a sentence that begins with the option, for what makes no sense.
    """
    from dataclasses import replace

    from gssr.metrics import BY_NAME, OF_NODES, OF_TRACES
    from gssr.model.custom_metrics import custom
    from gssr.model.window import seconds_of
    from gssr.report.live.gpu_filter import metric_called
    from gssr.tui.settings import read_settings, screen_called, theme_called
    from gssr.tui.view import OF_TRACES as TRACE_SCREENS

    hz = options.hz if options.hz is not None else min(default_hz(), most_hz)
    if not SLOWEST <= hz <= FASTEST:
        raise ValueError(f"--hz: {hz:g} is not between {SLOWEST:g} and {FASTEST:g}")
    settings = read_settings()
    known = OF_TRACES if traces else BY_NAME | OF_NODES
    screen = settings.screen if settings.screen and (traces or settings.screen not in TRACE_SCREENS) else view.screen
    metric = settings.metric if settings.metric in known else view.metric
    span = view.span
    option = "--screen"
    try:
        if options.screen is not None:
            screen = screen_called(options.screen)
            if screen in TRACE_SCREENS and not traces:
                raise ValueError(f"{options.screen} is a screen of traces")
        option = "--metric"
        own = tuple(custom(word) for word in options.metric if "=" in word)
        if own and not traces:
            raise ValueError(
                f"{own[0].name}: is a metric of your own, which only traces have: name a metric of the recording"
            )
        for word in options.metric[-1:]:
            metric = own[-1].metric if "=" in word else metric_called(word, known)
        option = "--window"
        if options.window is not None:
            span = seconds_of(options.window)
            if not span:
                raise ValueError(f"{options.window!r} is no length of time, such as 90s, 5m or 1h30m")
        option = "--theme"
        theme = settings.theme or "" if options.theme is None else theme_called(options.theme)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    gpus = named_gpus(options)
    view = replace(view, screen=screen, metric=metric, span=span, lately=view.lately and span is None)
    return ScreenStart(view, gpus, hz, theme, settings.problem, own)


def take_terminal(before: Callable[[], None] = lambda: None) -> None:
    """Set handlers for SIGTERM and SIGHUP that restore the terminal, call ``before`` and then end the process by that
    signal.

    Set even where they were ignored: else the process would go on without a terminal. Does nothing in a browser.
    """
    from gssr.profile.terminal import put_back_modes, read_modes

    if in_browser():  # Textual ends the process by these signals, and has the size from COLUMNS
        return
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # the terminal knows its size, and when it changes
    modes = read_modes(0)

    def end(sig: int, _frame: FrameType | None) -> None:
        put_back_modes(modes, drawn=True)
        signal.signal(sig, signal.SIG_DFL)
        before()
        os.kill(os.getpid(), sig)

    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, end)


def put_off_garbage() -> None:
    """Collect no garbage until the screen is drawn, when LiveScreen enables it again: that saves a tenth of the start."""
    gc.disable()


def on_terminal() -> bool:
    """Tell whether there is a terminal that a screen can be drawn on, or the page of a browser."""
    if in_browser():
        return True
    streams = (sys.stdin, sys.stderr)  # Textual draws on stderr
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def default_hz() -> float:
    """Return how many looks a second a screen takes if nothing is said: 2, over SSH 1."""
    return 1.0 if os.environ.get("SSH_CONNECTION") else 2.0


@contextmanager
def saying(text: str) -> Iterator[None]:
    """Show ``text`` on the terminal within the block: on a busy machine the screen takes seconds to come. Does nothing
    in a browser."""
    if in_browser():
        yield
        return
    sys.stderr.write(text)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def speaks_utf8() -> bool:
    """Tell whether the terminal shows more than ASCII."""
    return in_browser() or shows_utf8(sys.stderr)


def colors() -> int:
    """Return how many colours the terminal has, as far as its name says: 256, 16, or 0 where none are wanted."""
    if os.environ.get("NO_COLOR"):
        return 0
    many = (
        in_browser()
        or os.environ.get("COLORTERM") in ("truecolor", "24bit")
        or "256color" in os.environ.get("TERM", "")
    )
    return 256 if many else 16
