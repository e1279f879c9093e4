"""What a Tab finds: the line that the shell has, by argcomplete, which asks this process and starts no command."""

import argparse
import os
from collections.abc import Iterable
from typing import Any, NoReturn

from argcomplete.finders import CompletionFinder

from gssr.commands import NAMES, command_called
from gssr.commands.completion.completers import LOOKED_AT, add_completers, offer_files
from gssr.commands.profile import split


def complete_line() -> NoReturn:
    """Print what can stand at the cursor of the line that argcomplete's part of the shell has put into the environment, and
    end the process."""
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    words = line[:point].split()
    whole = words if line[:point].endswith((" ", "\t")) else words[:-1]
    typed = [word for word in whole[1:] if word != "--debug"]
    if typed and typed[0] not in NAMES and not typed[0].startswith("-"):  # gssr FILE
        after = len(words[0]) + 1
        os.environ["COMP_LINE"] = f"{line[:after]}tui {line[after:]}"
        os.environ["COMP_POINT"] = str(point + len("tui "))
        typed.insert(0, "tui")
    _Finder(typed)(_parser(typed), always_complete_options=False)
    os._exit(0)


def _parser(typed: list[str]) -> argparse.ArgumentParser:
    """Make a parser that knows all commands, and the options of the one that is named."""
    parser = argparse.ArgumentParser(prog="gssr")
    parser.add_argument("--version", action="version", version="", help="say which version this is")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(dest="command")
    for name in NAMES:
        command = command_called(name)
        below = commands.add_parser(name, help=command.help)
        if typed[:1] == [name]:
            add_completers(below, command)
    return parser


class _Finder(CompletionFinder):
    """``typed``: the words between ``gssr`` and the cursor's."""

    def __init__(self, typed: list[str] | argparse.ArgumentParser | None = None, **settings: Any) -> None:
        """argcomplete calls this once more when it is called, with the parser."""
        if isinstance(typed, list):
            self._typed = typed
            super().__init__(**settings)
        else:
            super().__init__(typed, **settings)

    def collect_completions(self, active_parsers: Any, parsed_args: Any, cword_prefix: str) -> list[str]:
        """Find what the parsers say, with files where a command may stand; programs and files for the command to record."""
        workload = split(self._typed[1:])[1] if self._typed[:1] == ["profile"] else None
        if workload is None:
            known = super().collect_completions(active_parsers, parsed_args, cword_prefix)
            return [*known, *(() if self._typed else offer_files(*LOOKED_AT)(cword_prefix))]
        return [*offer_files()(cword_prefix), *(() if workload else _programs(cword_prefix))]

    def quote_completions(
        self, completions: list[str], cword_prequote: str, last_wordbreak_pos: int | None
    ) -> list[str]:
        """Keep the @ of FILE@RUN, with which bash has the word begin that it replaces; it begins behind all other breaks."""
        if last_wordbreak_pos is not None and all(each[last_wordbreak_pos] == "@" for each in completions):
            last_wordbreak_pos -= 1
        return super().quote_completions(completions, cword_prequote, last_wordbreak_pos)


def _programs(begin: str) -> Iterable[str]:
    """The programs on PATH whose names begin so; none as long as nothing is typed, of thousands."""
    found: set[str] = set()
    for folder in os.environ.get("PATH", os.defpath).split(":") if begin else ():
        try:
            with os.scandir(folder or ".") as entries:
                found.update(entry.name for entry in entries if entry.name.startswith(begin))
        except OSError:
            pass
    return sorted(found)
