"""``gssr mark``: a user's mark from a shell script."""

from __future__ import annotations

import argparse
import os
import sys

from gssr.commands import OK, USAGE, Command, Option, fail, tell

OPTIONS = (
    Option(("text",), {"nargs": "+", "metavar": "TEXT", "help": "the text to record at this moment of the run"}),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0, whether anybody hears it or not: a script does the same with and without a recording. 2 for a mark
    without a text."""
    from gssr.marks import ENVIRONMENT, mark

    text = " ".join(options.text).strip()
    if not text:
        return fail("mark: there is no text in it", USAGE)
    if not mark(text) and sys.stderr is not None and sys.stderr.isatty():
        why = "the recording has ended" if os.environ.get(ENVIRONMENT) else "gssr profile did not start this shell"
        tell(f"the mark is not recorded: {why}")
    return OK


COMMAND = Command(
    "mark",
    "note a moment of the run, such as 'epoch 1', from within a script that gssr profile runs",
    "gssr mark TEXT...",
    OPTIONS,
    handle,
)
