"""The command line. Commands import what they need when they are called, so that ``gssr --help`` costs next to nothing."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from gssr.commands import NAMES, OK, USAGE, add_options, command_called, fail, in_browser, tell
from gssr.module_path import is_one_file
from gssr.version import __version__, other_package

_OWN = ("--help", "--version", "-h")
"""Options before a command."""
_TO_THE_POINT = ("profile", "mark", "completion")
"""Commands that look for nothing they don't need: beside a job, or while a key is pressed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gssr`` with these words (None: those of the command line). Returns the exit code: that of the workload for
    ``profile``, else 0, 1 for bad input, 2 for wrong usage. Errors are one line, unless ``--debug`` asks for a
    traceback. Raises SystemExit for ``--help``, ``--version`` and wrong options."""
    words, workload = list(sys.argv[1:] if argv is None else argv), None
    debug = "--debug" in words[:1]
    if debug:
        del words[0]
        os.environ["GSSR_DEBUG"] = "1"
    alone = is_one_file()
    other = None if alone or (words[:1] and words[0] in _TO_THE_POINT) else other_package()
    if other:
        tell(other)
    if not words:
        _parser(words).print_help(sys.stderr)
        return USAGE
    if words[0] not in NAMES and not (words[0] and any(own.startswith(words[0]) for own in _OWN)):
        if not _is_there(words[0]):
            what = "no option" if words[0].startswith("-") else "no command, and no file"
            return fail(f"{words[0]!r} is {what}{_meant(words[0])} (see gssr --help)", USAGE)
        words.insert(0, "tui" if in_browser() or _on_terminal() else "analyze")
    if alone and words[0] in NAMES and words[0] not in _names():
        from gssr.commands.needed_packages import not_in_one_file

        return fail(not_in_one_file(f"gssr {words[0]}"), USAGE)
    if words[:1] == ["profile"]:
        from gssr.commands import profile

        own, workload = profile.split(words[1:])
        words = ["profile", *own]
    if words[:1] == ["analyze"]:
        from gssr.commands import analyze

        for word in words[1:]:
            if word in analyze.REPLACED:
                return fail(f"{word} is an option of GSSR 0.4: {analyze.REPLACED[word]}", USAGE)
        words = analyze.with_times(words)
    if words[:1] == ["import"]:
        from gssr.commands.analyze import with_times

        words = with_times(words)
    options, unknown = _parser(words).parse_known_args(words)
    if unknown:
        return fail(
            f"unknown argument {unknown[0]!r}{_near_option(options.command, unknown[0])} "
            f"(see gssr {options.command} --help)",
            USAGE,
        )
    if not (debug or sys.warnoptions):
        warnings.simplefilter("ignore")  # of libraries, to their callers: no word of it is meant for our users
    from gssr.commands.needed_packages import missing_packages, why_not

    lacking = why_not(options.command, options)
    if lacking is not None:
        return fail(lacking, USAGE)
    try:
        return command_called(options.command).handle(options, workload)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read the page has seen enough
        return OK
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        if isinstance(error, ModuleNotFoundError):  # one that another package needs
            return fail(missing_packages(f"gssr {options.command}", [error.name or str(error)]), USAGE)
        return fail(f"an error in gssr: {error!r}; gssr --debug shows where", 1)


def _names() -> Sequence[str]:
    """Return the commands that there are: all, or those of gssr.pyz."""
    if not is_one_file():
        return NAMES
    from gssr.commands.needed_packages import COMMANDS_OF_ONE_FILE

    return COMMANDS_OF_ONE_FILE


def _is_there(name: str) -> bool:
    return os.path.lexists(name) or os.path.lexists(f"{name}.d")


def _on_terminal() -> bool:
    """Tell whether all standard streams are a terminal on which a screen can be drawn."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def _meant(word: str) -> str:
    from gssr.recognise import meant
    from gssr.spelling import did_you_mean, similar

    return did_you_mean(similar(word, (*NAMES, *_OWN)) or meant(word))


def _near_option(command: str, word: str) -> str:
    from gssr.spelling import did_you_mean, similar

    flags = [flag for option in command_called(command).options for flag in option.flags if flag.startswith("--")]
    return did_you_mean(similar(word.partition("=")[0], flags))


def run() -> NoReturn:
    """The command ``gssr``: ``main``, and out at once. Nothing is left to be done, and taking the interpreter down piece by
    piece would take longer than many a command. Or, where a shell asks, what can be typed."""
    if "_ARGCOMPLETE" in os.environ and "COMP_LINE" in os.environ and not is_one_file():
        from gssr.commands.completion.line import complete_line

        complete_line()
    gc.set_threshold(20_000, 10, 10)  # else a twentieth of a start is looking for garbage among what is being imported
    if sys.argv[1:2] != ["profile"]:  # whose workload is not to be told
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start more: unused, they wait busily
    try:
        code = main()
    except SystemExit as leaving:  # of --help, or wrong usage
        code = leaving.code if isinstance(leaving.code, int) else OK
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by whoever called
                stream.flush()
    except OSError:  # whoever read it is gone
        code = code or 1
    os._exit(code)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(fail(f"{message} (see {self.prog} --help)", USAGE))


def _unmeasured(prog: str) -> argparse.HelpFormatter:
    """Return a formatter for a parser that prints no help: it does not ask for the terminal's width once for every
    option."""
    return argparse.HelpFormatter(prog, width=80)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser of the command that is the first word, or of all commands if it is none."""
    helps = not words or any(word.startswith(("-h", "--h")) for word in words)
    formatter = argparse.HelpFormatter if helps else _unmeasured
    parser = _Parser(
        prog="gssr",
        description="Show how well a job uses its GPUs, when and where it does not, and why.",
        epilog="gssr FILE opens the screen on a terminal, else prints the page. gssr COMMAND --help says more. --debug "
        "before COMMAND shows where an error came from.",
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"gssr {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    names = _names()
    for command in map(command_called, [name for name in names if name in words[:1]] or names):
        description = f"{command.help[0].upper()}{command.help[1:]}."
        own = commands.add_parser(
            command.name, help=command.help, usage=command.usage, description=description, formatter_class=formatter
        )
        add_options(own, command)
    return parser
