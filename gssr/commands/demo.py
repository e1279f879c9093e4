"""``gssr demo``: records a synthetic job and shows its page, without any command to profile."""

import argparse
import os

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, add_options, analyze, fail, tell

SECONDS = 10.0
OPTIONS = (
    Option(
        ("--scenario",), {"default": "train", "metavar": "NAME[:GPUS]", "help": "what the job does (default: train:8)"}
    ),
    Option(
        ("-m", "--seconds"),
        {"type": float, "default": SECONDS, "metavar": "SECONDS", "help": f"how long to record (default: {SECONDS:g})"},
    ),
    Option(("-o", "--output"), {"metavar": "FILE.sql", "help": "keep the recording (default: it is deleted)"}),
)  # fmt: skip
SAMPLING_MS = 100.0
DEFAULT_GPUS = 8


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code as of ``analyze``; 2 for wrong usage."""
    import tempfile

    from gssr.backends import check
    from gssr.backends.base import BackendError

    if not 0.5 <= options.seconds <= 3600:
        return fail(f"--seconds: {options.seconds:g} is not between 0.5 and 3600", USAGE)
    try:
        check(f"synthetic:{options.scenario}")
    except BackendError as error:
        return fail(f"--scenario: {error}", USAGE)
    if options.output is not None and os.path.lexists(options.output):
        return fail(f"-o {options.output}: exists: choose another name", USAGE)
    if options.output is not None:
        return _record_and_show(options, options.output)
    with tempfile.TemporaryDirectory(prefix="gssr-demo-") as folder:
        return _record_and_show(options, os.path.join(folder, "demo.sql"))


def _record_and_show(options: argparse.Namespace, path: str) -> int:
    """Record a synthetic job at ``path`` and print its page; return the exit code."""
    from gssr.profile.request import ProfileRequest, UsageError
    from gssr.profile.session import profile

    scenario = options.scenario if ":" in options.scenario else f"{options.scenario}:{DEFAULT_GPUS}"
    request = ProfileRequest(
        command=["sleep", f"{options.seconds:g}"],
        output=path,
        label="demo",
        sampling_ms=SAMPLING_MS,
        backend=f"synthetic:{scenario}",
        summary=False,
    )
    tell(f"recording {scenario} for {options.seconds:g} s")
    try:
        code = profile(request)
    except UsageError as error:
        return fail(str(error), USAGE)
    if code != OK:
        return fail("the demonstration was interrupted", BAD_INPUT)
    parser = argparse.ArgumentParser()
    parser.set_defaults(passing=options.output is None)
    add_options(parser, analyze.COMMAND)
    return analyze.handle(parser.parse_args(["--terminal", path]), None)


COMMAND = Command(
    "demo", "try it without a GPU: record a synthetic job and show its page", "gssr demo [options]", OPTIONS, handle
)
