"""How the commands that print a page are told to draw it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TextIO

from gssr.commands import Option

WIDTH = 80
NARROWEST, WIDEST = 20, 400

OPTIONS = (
    Option(("--width",), {"type": int, "default": WIDTH, "metavar": "N", "help": f"columns (default: {WIDTH})"}),
    Option(("--ascii",), {"action": "store_true", "help": "draw with ASCII characters only"}),
    Option(
        ("--color",),
        {
            "choices": ("auto", "always", "never"),
            "default": "auto",
            "help": "draw in colour (default: auto, on terminals)",
        },
    ),
)


def wrong_width(options: argparse.Namespace) -> str | None:
    """Say what is wrong with --width; None when nothing is."""
    if NARROWEST <= options.width <= WIDEST:
        return None
    return f"--width: {options.width} is not between {NARROWEST} and {WIDEST}"


def ascii_only(options: argparse.Namespace) -> bool:
    """Tell whether only ASCII is to be drawn: it was asked for, or stdout shows nothing else."""
    return bool(options.ascii) or not shows_utf8(sys.stdout)


def shows_utf8(stream: TextIO | None) -> bool:
    """Tell whether what reads a stream shows more than ASCII.

    False in the locale C, which whoever chose it did not choose for UTF-8, though Python writes that there too; and on
    the Linux console, whose font has neither blocks in eighths nor braille. False for None.
    """
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    if stream is None or encoding != "utf8" or (os.environ.get("TERM") == "linux" and stream.isatty()):
        return False
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return locale not in ("C", "POSIX") or bool(os.environ.get("PYTHONIOENCODING"))


def on_terminal() -> bool:
    """Tell whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def wants_color(options: argparse.Namespace) -> bool:
    """Tell whether stdout gets colours: as --color says, else if it is a terminal that has some."""
    if options.color != "auto":
        return bool(options.color == "always")
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
