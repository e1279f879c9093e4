"""The command line. Handlers import what they need when they are called, so that ``gssr --help`` costs next to nothing."""

import argparse
import os
import sys
from collections.abc import Sequence

from gssr import __version__

OK, BAD_INPUT, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gssr``; the exit code: the workload's for ``profile``, 2 for wrong usage, 1 for bad input, else 0."""
    words = list(sys.argv[1:] if argv is None else argv)
    command, words = _split_command(words)
    parser = _parser()
    options = parser.parse_args(words)
    if options.debug:
        os.environ["GSSR_DEBUG"] = "1"
    try:
        return _run(options, command)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read the page has seen enough
        return OK
    except KeyboardInterrupt:
        return 130


def _split_command(words: list[str]) -> tuple[list[str] | None, list[str]]:
    """The workload of ``profile``, kept away from argparse so that it arrives untouched: what follows ``--``, or the first
    word that is no option of ours, as the published tool has it."""
    if not words or words[0] != "profile":
        return None, words
    takes_value = {flag for flags, settings in PROFILE_OPTIONS for flag in flags if "action" not in settings}
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[at + 1 :], words[:at]
        if not word.startswith("-") or word == "-":
            return words[at:], words[:at]
        long_with_value = word.startswith("--") and "=" in word
        at += 2 if not long_with_value and _full_name(word, takes_value) else 1
    return None, words


def _full_name(word: str, flags: set[str]) -> bool:
    """Is this one of the flags, or an unambiguous beginning of one?"""
    return word in flags or (word.startswith("--") and any(flag.startswith(word) for flag in flags))


PROFILE_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, object]], ...] = (
    (("-o", "--output"), {"metavar": "FILE.sql", "help": "the recording (default: gssr_JOBID.sql, or gssr_DATE.sql)"}),
    (("-l", "--label"), {"metavar": "TEXT", "help": "a name for the run"}),
    (
        ("-t", "--sampling-time"),
        {"metavar": "MS", "type": float, "default": 500.0, "help": "sampling interval in ms (default: 500)"},
    ),
    (
        ("-m", "--max-runtime"),
        {"metavar": "SECONDS", "type": float, "help": "end the workload after this time: SIGTERM, 10 s later SIGKILL"},
    ),
    (("-f", "--force-overwrite"), {"action": "store_true", "help": "overwrite an existing recording"}),
    (("-a", "--append"), {"action": "store_true", "help": "add a run to an existing recording"}),
    (
        ("-b", "--backend"),
        {"metavar": "NAME", "default": "auto", "help": "auto, synthetic[:SCENARIO[:GPUS]] or replay:FILE[@SPEED]"},
    ),
    (
        ("--gpus",),
        {"metavar": "IDS", "default": "all", "help": "GPUs by index or UUID, comma-separated (default: all)"},
    ),
    (("--metrics",), {"metavar": "LIST", "help": "record only these metrics, comma-separated"}),
    (
        ("--summary",),
        {
            "action": argparse.BooleanOptionalAction,
            "default": True,
            "help": "end with the result in two lines on stderr",
        },
    ),
    (("-w", "--wrap"), {"metavar": "COMMAND", "help": "the workload as one text for the shell, as with sbatch"}),
)
"""Options of ``gssr profile``: flags and argparse settings."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gssr", description="How well a job saturates its GPUs, when and where it does not, and why."
    )
    parser.add_argument("--version", action="version", version=f"gssr {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    profile = commands.add_parser(
        "profile",
        help="run a command and record its GPUs",
        usage="gssr profile [options] (-w 'COMMAND' | [--] COMMAND [ARG...])",
        description="Run a command unchanged and record its GPUs into an SQLite file. The exit code is the command's.",
        allow_abbrev=True,
    )
    for flags, settings in PROFILE_OPTIONS:
        profile.add_argument(*flags, **settings)  # type: ignore[arg-type]
    return parser


def _run(options: argparse.Namespace, command: list[str] | None) -> int:
    handler = {"profile": _profile}[options.command]
    return handler(options, command)


def _profile(options: argparse.Namespace, command: list[str] | None) -> int:
    from gssr.profile.session import Request, UsageError, profile
    from gssr.profile.workload import shell_command

    if options.wrap is not None:
        if command:
            return _fail("give the workload either with --wrap or as a command, not both", USAGE)
        command = shell_command(options.wrap)
    if not command:
        return _fail("no command to profile: gssr profile [options] -- COMMAND ARG...", USAGE)
    request = Request(
        command=command,
        output=options.output,
        label=options.label,
        sampling_ms=options.sampling_time,
        max_runtime=options.max_runtime,
        overwrite=options.force_overwrite,
        append=options.append,
        backend=options.backend,
        gpus=options.gpus,
        metrics=options.metrics,
        summary=options.summary,
    )
    try:
        return profile(request)
    except UsageError as error:
        return _fail(str(error), USAGE)


def _fail(text: str, code: int) -> int:
    print(f"gssr: {text}", file=sys.stderr)
    return code
