"""How the commands that print a page are told to draw it."""

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
    Option(("--color",), {"choices": ("auto", "always", "never"), "default": "auto", "help": "default: on terminals"}),
)


def wrong_width(options: argparse.Namespace) -> str | None:
    """What is wrong with --width; None when nothing is."""
    if NARROWEST <= options.width <= WIDEST:
        return None
    return f"--width: {options.width} is not between {NARROWEST} and {WIDEST}"


def ascii_only(options: argparse.Namespace) -> bool:
    """Where ASCII is wanted, and where stdout shows nothing else."""
    return bool(options.ascii) or not shows_utf8(sys.stdout)


def shows_utf8(stream: TextIO | None) -> bool:
    """Whether what reads a stream shows more than ASCII. Python writes UTF-8 in the locale C as well, which whoever chose it
    did not ask for; and the Linux console's font has neither blocks in eighths nor braille."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    if stream is None or encoding != "utf8" or (os.environ.get("TERM") == "linux" and stream.isatty()):
        return False
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return locale not in ("C", "POSIX") or bool(os.environ.get("PYTHONIOENCODING"))


def on_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout is not None and sys.stdout.isatty()


def wants_color(options: argparse.Namespace) -> bool:
    """On a terminal that has colours, unless somebody says otherwise."""
    if options.color != "auto":
        return bool(options.color == "always")
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
