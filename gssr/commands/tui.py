"""``gssr tui``: watch a recording, growing or finished."""

import argparse
import os
import sys

from gssr.commands import USAGE, Command, Option, fail

OPTIONS = (
    Option(
        ("inputs",), {"metavar": "FILE|DIR", "nargs": "*", "help": "recordings (default: this job's, else the newest)"}
    ),
    Option(("--hz",), {"metavar": "N", "type": float, "help": "looks a second (default: 2; over SSH 1)"}),
    Option(("--no-mouse",), {"action": "store_true", "help": "leave the mouse to the terminal"}),
    Option(("--ascii",), {"action": "store_true", "help": "draw with ASCII characters only"}),
    Option(
        ("--theme",),
        {"choices": ("ansi-dark", "ansi-light"), "default": "ansi-dark", "help": "your background"},
    ),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 2 without a terminal."""
    if (
        not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())
        or os.environ.get("TERM") == "dumb"
    ):
        return fail("the live screen needs a terminal; gssr analyze --terminal prints a page instead", USAGE)
    from gssr.model.watch import Watch
    from gssr.render.glyphs import glyphs
    from gssr.tui.app import LiveScreen

    hz = options.hz or (1.0 if "SSH_CONNECTION" in os.environ else 2.0)
    app = LiveScreen(
        [Watch(path) for path in options.inputs], glyphs(options.ascii), hz, 16, options.theme == "ansi-dark"
    )
    return app.run(mouse=not options.no_mouse) or 0


COMMAND = Command("tui", "watch a recording, growing or finished", "gssr tui [options] [FILE|DIR ...]", OPTIONS, handle)
