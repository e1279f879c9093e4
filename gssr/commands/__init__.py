"""One module per command: its options as a table, and a handler that imports what it needs when it is called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

NAMES = (
    "demo", "doctor", "profile", "top", "tui", "analyze", "compare", "fleet", "export", "import", "merge", "mark",
    "completion", "mcp",
)  # fmt: skip
"""The commands, each a module of this folder, in the order of the help: first what a newcomer tries."""

OK, BAD_INPUT, USAGE = 0, 1, 2
"""Exit codes of everything but ``profile``, whose exit code is the workload's."""


class Option(NamedTuple):
    """One option: its flags (or, without dashes, the name of positional arguments), its argparse settings, and the
    heading in the help that it stands under; "" for argparse's own."""

    flags: tuple[str, ...]
    settings: dict[str, Any]
    group: str = ""

    @property
    def takes_value(self) -> bool:
        """Tell whether a value follows the option; False for a switch."""
        return self.settings.get("action", "append") in ("append", "extend")


class Command(NamedTuple):
    """One command. ``handle`` gets the parsed options and, for ``profile``, the workload; it returns the exit code."""

    name: str
    help: str
    usage: str
    options: tuple[Option, ...]
    handle: Callable[[argparse.Namespace, list[str] | None], int]


def command_called(name: str) -> Command:
    """Import and return the command of this name."""
    module = "import_" if name == "import" else name  # which Python could not import by that name
    command: Command = import_module(f"gssr.commands.{module}").COMMAND
    return command


def in_browser() -> bool:
    """Tell whether this process draws for a page of a browser, as textual-serve says to the processes that it starts.

    Then there is no terminal, and nothing is written to disk: who looks may be somebody else than who may write here.
    """
    return os.environ.get("TEXTUAL_DRIVER") == "textual.drivers.web_driver:WebDriver"


def add_options(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add the command's options to a parser."""
    add: dict[str, Callable[..., argparse.Action]] = {"": parser.add_argument}
    for option in command.options:
        if option.group not in add:
            add[option.group] = parser.add_argument_group(option.group).add_argument
        settings = dict(option.settings)
        if "choices" in settings:
            settings["type"] = _one_of(settings["choices"])
        add[option.group](*option.flags, **settings)


def under(group: str, *options: Option) -> tuple[Option, ...]:
    """Return the options with this heading in the help."""
    return tuple(option._replace(group=group) for option in options)


def _one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Return what argparse converts a word by that has to be one of these: the word itself, or a sentence with what may have
    been meant."""

    def checked(word: str) -> str:
        """Return the word. Raises ArgumentTypeError for any other."""
        if word not in choices:
            from gssr.spelling import did_you_mean_or_list, similar

            names = did_you_mean_or_list(similar(word, choices), "choose from", choices)
            raise argparse.ArgumentTypeError(f"no {word!r}{names}")
        return word

    return checked


def tell(text: str) -> None:
    """Print one line on stderr, with ``gssr: `` before it; control characters are cleaned away."""
    from gssr.render.cells import clean

    if sys.stderr is not None:  # closed when we were started
        print(f"gssr: {clean(text)}", file=sys.stderr)


def fail(text: str, code: int) -> int:
    """Print one line on stderr as ``tell`` does, and return ``code``."""
    tell(text)
    return code


def _encodable(text: str, encoding: str) -> str:
    """Return the text with escapes for what the encoding lacks, such as parts of a file's name that are no UTF-8."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)


def put(text: str) -> int:
    """Print a text on stdout, all of it.

    Returns OK; BAD_INPUT, after a line on stderr, when it can't be written. Raises BrokenPipeError when the reader has
    seen enough.
    """
    if sys.stdout is None:  # closed when we were started
        return OK
    try:
        sys.stdout.write(_encodable(text, getattr(sys.stdout, "encoding", None) or "utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered still would fail once more at the exit
        return fail(f"the output can't be written: {error.strerror}", BAD_INPUT)
    return OK
