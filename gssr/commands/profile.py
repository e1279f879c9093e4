"""``gssr profile``: run a command and record its GPUs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gssr.commands import USAGE, Command, Option, fail, put, tell

if TYPE_CHECKING:
    from gssr.profile.screen import Show

OPTIONS = (
    Option(
        ("-o", "--output"), {"metavar": "FILE.sql", "help": "the recording (default: gssr_JOBID.sql or gssr_DATE.sql)"}
    ),
    Option(("-l", "--label"), {"metavar": "TEXT", "help": "a name for the run"}),
    Option(
        ("-t", "--sampling-time"),
        {"metavar": "MS", "type": float, "default": 500.0, "help": "sampling interval in ms (default: 500)"},
    ),
    Option(
        ("-m", "--max-runtime"),
        {"metavar": "SECONDS", "type": float, "help": "end the command after this time: SIGTERM, 10 s later SIGKILL"},
    ),
    Option(("-f", "--force-overwrite"), {"action": "store_true", "help": "overwrite an existing recording"}),
    Option(("-a", "--append"), {"action": "store_true", "help": "add a run to an existing recording"}),
    Option(
        ("--backend",),
        {
            "metavar": "NAME",
            "default": "auto",
            "help": "where samples come from: auto, dcgm[:pause], gpm, nvml, amd, synthetic[:SCENARIO[:GPUS]] or "
            "replay:FILE[@SPEED] (default: auto)",
        },
    ),
    Option(
        ("--gpus",),
        {
            "metavar": "IDS",
            "default": "all",
            "help": "record only these GPUs, by index or UUID, comma-separated (default: all)",
        },
    ),
    Option(("--metrics",), {"metavar": "LIST", "help": "record only these metrics, comma-separated"}),
    Option(
        ("--keep",),
        {
            "choices": ("raw", "10s", "none"),
            "default": "raw",
            "help": "what to keep of samples older than 11 minutes: all, means over 10 s, or only statistics (default: raw)",
        },
    ),
    Option(
        ("--dry-run",),
        {
            "action": "store_true",
            "help": "say what would be recorded, and how large it would be; start and write nothing",
        },
    ),
    Option(
        ("--summary",),
        {
            "action": argparse.BooleanOptionalAction,
            "default": True,
            "help": "print the result on stderr at the end (default: yes)",
        },
    ),
    Option(
        ("--live",),
        {
            "action": "store_true",
            "help": "show the live screen while the command runs; its output goes to NAME.log beside NAME.sql",
        },
    ),
    Option(
        ("--linger",),
        {
            "metavar": "SECONDS",
            "type": float,
            "default": 30.0,
            "help": "how long the live screen stays after the end of the run, or after the last key press (default: 30)",
        },
    ),
    Option(
        ("--status-every",),
        {
            "metavar": "TIME",
            "help": "print one line about the run on stderr at this interval, such as 30s, 10m or 2h",
        },
    ),
    Option(
        ("--textfile",),
        {
            "metavar": "DIR",
            "help": "write the newest samples into DIR every 5 s, for node_exporter's textfile collector",
        },
    ),
    Option(
        ("--group",),
        {
            "metavar": "NAME",
            "help": "also let this group read the recording; the folder must be the group's and setgid",
        },
    ),
    Option(
        ("--trace",),
        {
            "metavar": "nsys[:SECONDS]",
            "help": "trace the command with Nsight Systems, for this long (default: all of it)",
        },
    ),
    Option(
        ("--trace-when",),
        {
            "metavar": "low[:LIMIT[:TIME]]",
            "help": "let gssr.torch_trace(on_demand=True) trace steps when the score was below LIMIT for TIME "
            "(default: low:0.25:2m)",
        },
    ),
    Option(
        ("--digest",),
        {"action": "store_true", "help": "keep a summary of each rank's traces in the recording, made on its node"},
    ),
    Option(
        ("--redact",),
        {
            "action": "store_true",
            "help": "record no command, no name of a user, host, cluster or job, and no UUID of a GPU",
        },
    ),
    Option(
        ("--attach-job",),
        {
            "action": "store_true",
            "help": "run no command: record the job that this step belongs to, until the job ends",
        },
    ),
    Option(
        ("-w", "--wrap"), {"metavar": "COMMAND", "help": "the command as one text for the shell, as with sbatch --wrap"}
    ),
)


def split(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Split a command line into our own words and the workload's, so that argparse never sees these.

    The workload begins after ``--``, or else with the first word that is no option of ours nor its value. None in its
    place where there is none.
    """
    takes_value = {flag for option in OPTIONS if option.takes_value for flag in option.flags}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1 :]
        if not word.startswith("-") or word == "-":
            return words[:at], words[at:]
        at += 2 if _value_follows(word, takes_value) else 1
    return words, None


def _value_follows(word: str, takes_value: set[str]) -> bool:
    """Tell whether the value of an option is the word after it: so for ``--gpu 0`` and ``-ft 100``, not for
    ``--gpus=0`` or ``-t100``.

    ``takes_value``: the flags that take one.
    """
    if word.startswith("--"):
        return any(flag.startswith(word) for flag in takes_value)
    first = next((place for place, letter in enumerate(word) if f"-{letter}" in takes_value), None)
    return first == len(word) - 1


def handle(options: argparse.Namespace, workload: list[str] | None) -> int:
    """Exit code: the workload's; 2 for wrong usage, when nothing was started."""
    import gc

    gc.disable()  # there is little garbage up to the start, and less after it; the sampler sees to its own
    from gssr.profile.request import ProfileRequest, UsageError
    from gssr.profile.session import profile
    from gssr.profile.terminal import leave
    from gssr.profile.workload import shell_command

    if options.wrap is not None:
        if workload:
            return fail("give the command either with --wrap or after --, not both", USAGE)
        workload = shell_command(options.wrap)
        if not options.wrap.strip():
            return fail("--wrap: there is no command in it", USAGE)
    if options.attach_job and (workload or options.live):
        return fail("--attach-job runs no command, and shows no screen: watch it with gssr tui FILE", USAGE)
    if not workload and not options.attach_job and not options.dry_run:
        return fail("no command to profile: gssr profile [options] -- COMMAND ARG...", USAGE)
    request = ProfileRequest(
        command=workload or [],
        output=options.output,
        label=options.label,
        sampling_ms=options.sampling_time,
        max_runtime=options.max_runtime,
        overwrite=options.force_overwrite,
        append=options.append,
        backend=options.backend,
        gpus=options.gpus,
        metrics=options.metrics,
        keep=options.keep,
        summary=options.summary,
        status_every=options.status_every,
        live=_screen() if options.live else None,
        linger=options.linger,
        attach=options.attach_job,
        redact=options.redact,
        textfile=options.textfile,
        group=options.group,
        trace=options.trace,
        trace_when=options.trace_when,
        digest=_digest if options.digest else None,
    )
    try:
        if options.dry_run:
            from gssr.profile.dry_run import dry_run

            return put(dry_run(request))
        leave(profile(request))
    except UsageError as error:
        from gssr.launch import where_am_i
        from gssr.profile.sampling.say_once import say_refusal

        say_refusal(str(error), where_am_i(), options.output, tell)
        return USAGE


def _screen() -> Show:
    """Import what draws the live screen, which nobody else needs."""
    from gssr.commands.tui import show

    return show


def _digest(recording: str) -> None:
    """Digest the traces of a recording, in a process of its own, which may be killed at any time."""
    import os
    import time

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # none is used, and starting them takes time
    from gssr.commands.attached import write_digests
    from gssr.profile.traces import DIGEST_BYTES, DIGEST_SECONDS

    write_digests(recording, until=time.monotonic() + DIGEST_SECONDS / 3, most=DIGEST_BYTES)


COMMAND = Command(
    "profile",
    "run a command and record its GPUs",
    "gssr profile [options] (-w 'COMMAND' | [--] COMMAND [ARG...] | --attach-job)",
    OPTIONS,
    handle,
)
