"""``gssr tui``: watch a recording, growing or finished.

The live screen of ``gssr profile --live``: what runs in its process.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, USAGE, Command, Option, fail
from gssr.commands.inputs import chosen_runs, own_recordings, traces_among

if TYPE_CHECKING:
    from gssr.model.live.watch_trace import Watched
    from gssr.profile.screen import Beside


def show(beside: "Beside") -> int:
    """Draw until the user leaves; the exit code of the process. Doesn't return when the supervisor has gone."""
    import gc

    gc.enable()  # a screen makes garbage; what it was forked from may not

    from gssr.model.live.watch import Watch
    from gssr.model.verdicts.rules import TABLE, from_environment
    from gssr.profile.screen import DRAWN, REQUESTS
    from gssr.profile.terminal import SavedModes
    from gssr.render.glyphs import glyphs
    from gssr.tui.job import Job, JobScreen

    modes = SavedModes()

    def leave() -> None:
        """Without a supervisor the terminal may be somebody else's already."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        modes.put_back(drawn=True)
        os._exit(0)

    def tell(byte: int) -> None:
        try:
            os.write(beside.requests, bytes([byte]))
        except OSError:
            pass  # it has gone

    job = Job(beside.log, beside.log_start, beside.notices, lambda: tell(DRAWN), REQUESTS, tell, leave)
    watch = Watch(beside.recording, beside.run_id)
    table, wrong = TABLE, ""
    try:
        table = from_environment()
    except ValueError as error:  # no reason not to show the job
        wrong = str(error)
    screen = JobScreen(job, watch, glyphs(not speaks_utf8()), default_hz(), colors(), table=table)
    screen.say(wrong)
    screen.run()
    return screen.return_code or 0


FASTEST, SLOWEST = 10.0, 0.1

OPTIONS = (
    Option(
        ("inputs",),
        {
            "metavar": "FILE|DIR",
            "nargs": "*",
            "help": "recordings or traces; the first is shown, the others can be compared with it",
        },
    ),
    Option(("--run",), {"metavar": "RUN", "help": "the run to show: its number, id or label (default: the newest)"}),
    Option(
        ("--hz",), {"metavar": "N", "type": float, "help": "looks a second while it grows (default: 2, over SSH 1)"}
    ),
    Option(("--no-mouse",), {"action": "store_true", "help": "leave the mouse to the terminal"}),
    Option(("--ascii",), {"action": "store_true", "help": "draw with ASCII characters only"}),
    Option(
        ("--theme",),
        {
            "choices": ("ansi-dark", "ansi-light"),
            "default": "ansi-dark",
            "help": "both use the terminal's own colours (default: ansi-dark)",
        },
    ),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 2 for wrong usage, and without a terminal; 1 for a recording that can't be read."""
    if not _on_terminal():
        return fail("the live screen needs a terminal; gssr analyze --terminal prints a page instead", USAGE)
    hz = options.hz if options.hz is not None else default_hz()
    if not SLOWEST <= hz <= FASTEST:
        return fail(f"--hz: {hz:g} is not between {SLOWEST:g} and {FASTEST:g}", USAGE)
    from gssr.model.verdicts.rules import from_environment

    try:
        table = from_environment()
    except ValueError as error:
        return fail(str(error), USAGE)
    names = options.inputs or own_recordings()
    if not names:
        return fail("no recording here; name one: gssr tui FILE.sql", USAGE)
    run_id = None
    if options.run is not None:
        from gssr.store.read.open import RecordingError
        from gssr.store.read.recording import open_recording

        try:
            run_id = chosen_runs(open_recording(names[0]), options.run)[0].run.run_id
        except RecordingError as error:
            return fail(str(error), BAD_INPUT)
        except ValueError as error:
            return fail(f"{names[0]}: {error}", USAGE)
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # the terminal knows its size, and when it changes
    _end_in_order()

    from gssr.render.glyphs import glyphs
    from gssr.tui.app import LiveScreen

    try:
        watches = watches_of(names, run_id)
    except ValueError as error:
        return fail(str(error), USAGE)
    app = LiveScreen(watches, glyphs(options.ascii or not speaks_utf8()), hz, colors(), options.theme, table)
    return app.run(mouse=not options.no_mouse) or 0


def watches_of(names: Sequence[str], run_id: str | None = None) -> "list[Watched]":
    """What is to be watched: each recording, and each trace; files of several ranks are one trace. Raises ValueError, a
    sentence, for both at once."""
    from gssr.model.live.watch import Watch

    traces = traces_among(name for name in names if os.path.exists(name))
    if not traces:
        return [Watch(names[0], run_id), *(Watch(name) for name in names[1:])]
    if len(traces) < len(names):
        other = next(name for name in names if name not in traces)
        raise ValueError(f"{other} is no trace, and {traces[0]} is one: look at one kind at a time")
    if run_id is not None:
        raise ValueError(f"--run: is for recordings: {names[0]} is a trace")
    from gssr.model.live.watch_trace import WatchTrace
    from gssr.traces.open import TraceError, open_traces

    def watch(files: Sequence[str]) -> WatchTrace:
        return WatchTrace(files[0], lambda: open_traces(files).timeline())

    try:
        open_traces(traces)
    except TraceError:  # two of one rank: runs to compare
        return [watch([name]) for name in traces]
    return [watch(traces)]


def _end_in_order() -> None:
    """Put the terminal back in order before SIGTERM or SIGHUP end the process: who inherits that they are ignored would
    go on without a terminal."""
    from gssr.profile.terminal import SavedModes

    modes = SavedModes()

    def end(sig: int, _frame: FrameType | None) -> None:
        modes.put_back(drawn=True)
        signal.signal(sig, signal.SIG_DFL)
        os.kill(os.getpid(), sig)

    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, end)


def _on_terminal() -> bool:
    streams = (sys.stdin, sys.stderr)  # Textual draws on stderr
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def default_hz() -> float:
    """Looks a second."""
    return 1.0 if os.environ.get("SSH_CONNECTION") else 2.0


def speaks_utf8() -> bool:
    """Whether the terminal shows more than ASCII."""
    return (getattr(sys.stderr, "encoding", None) or "ascii").lower().replace("-", "") == "utf8"


def colors() -> int:
    """How many colours the terminal has, as far as its name says: 256, 16, or 0 where none are wanted."""
    if os.environ.get("NO_COLOR"):
        return 0
    many = os.environ.get("COLORTERM") in ("truecolor", "24bit") or "256color" in os.environ.get("TERM", "")
    return 256 if many else 16


COMMAND = Command("tui", "watch a recording, growing or finished", "gssr tui [options] [FILE|DIR ...]", OPTIONS, handle)
