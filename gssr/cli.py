"""The command line. Commands import what they need when they are called, so that ``gssr --help`` costs next to nothing."""

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from gssr.commands import OK, USAGE, Command, add_options, fail
from gssr.version import __version__

NAMES = ("profile", "tui", "analyze", "compare", "fleet", "export", "import", "merge", "mark", "demo", "doctor")
"""The commands, each a module of gssr.commands."""


def command_called(name: str) -> Command:
    """The command of this name, whose module is imported only when it is asked for."""
    module = "import_" if name == "import" else name  # which Python could not import by that name
    command: Command = import_module(f"gssr.commands.{module}").COMMAND
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gssr``; the exit code: the workload's for ``profile``; else 0, 1 for bad input, 2 for wrong usage. Never a
    traceback, unless ``--debug`` asks for it."""
    words, workload = list(sys.argv[1:] if argv is None else argv), None
    debug = "--debug" in words[:1]
    if debug:
        del words[0]
        os.environ["GSSR_DEBUG"] = "1"
    if words[:1] == ["profile"]:
        from gssr.commands import profile

        own, workload = profile.split(words[1:])
        words = ["profile", *own]
    if words[:1] == ["analyze"]:
        from gssr.commands import analyze

        for word in words[1:]:
            if word in analyze.REPLACED:
                return fail(f"{word} is an option of the published tool: {analyze.REPLACED[word]}", USAGE)
        words = analyze.with_times(words)
    options, unknown = _parser(words).parse_known_args(words)
    if unknown:
        return fail(f"unknown argument {unknown[0]!r} (see gssr {options.command} --help)", USAGE)
    if not (debug or sys.warnoptions):
        warnings.simplefilter("ignore")  # of libraries, to their callers: no word of it is meant for our users
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
        return fail(f"an error in gssr: {error!r}; gssr --debug shows where", 1)


def run() -> NoReturn:
    """The command ``gssr``: ``main``, and out at once. Nothing is left to be done, and taking the interpreter down piece by
    piece would take longer than many a command."""
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
    """A formatter for a parser that prints no help: it does not ask how wide the terminal is, once per option."""
    return argparse.HelpFormatter(prog, width=80)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that is the first word; of all of them when it is none: a thousand ranks build it."""
    helps = not words or any(word.startswith(("-h", "--h")) for word in words)
    formatter = argparse.HelpFormatter if helps else _unmeasured
    parser = _Parser(
        prog="gssr",
        description="How well a job saturates its GPUs, when and where it does not, and why.",
        epilog="gssr COMMAND --help says more. --debug before COMMAND shows where an error came from.",
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"gssr {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in map(command_called, [name for name in NAMES if name in words[:1]] or NAMES):
        description = f"{command.help[0].upper()}{command.help[1:]}."
        own = commands.add_parser(
            command.name, help=command.help, usage=command.usage, description=description, formatter_class=formatter
        )
        add_options(own, command)
    return parser
