"""How the commands that print a page are told to draw it."""

import argparse
import os
import sys

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
    """Where ASCII is wanted, and where stdout speaks nothing else."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return bool(options.ascii) or encoding != "utf8"


def on_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout is not None and sys.stdout.isatty()


def wants_color(options: argparse.Namespace) -> bool:
    """On a terminal that has colours, unless somebody says otherwise."""
    if options.color != "auto":
        return bool(options.color == "always")
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
