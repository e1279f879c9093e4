"""``gssr doctor``: what this machine offers, and what to do about what it lacks."""

from __future__ import annotations

import argparse
import sys

from gssr.commands import Command, put


def handle(_options: argparse.Namespace, _workload: list[str] | None) -> int:
    """0: a machine without a GPU is no error."""
    from gssr.doctor import findings
    from gssr.render.cells import clean

    rows = findings()
    width = max(len(row.what) for row in rows)
    import shutil

    columns = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None
    lines = []
    for row in rows:
        lines += _folded(f"{row.verdict:<4} {row.what:<{width}}  ", row.details, columns)
        if row.cure:
            lines += _folded(f"{'':<{width + 7}}-> ", row.cure, columns)
    return put("".join(f"{clean(line)}\n" for line in lines))


def _folded(head: str, text: str, columns: int | None) -> list[str]:
    """Return the text beside its head, in as many lines as fit into ``columns``; None: in one line."""
    if columns is None:
        return [head + text]
    room = max(columns - len(head), 20)
    import textwrap

    beside, *below = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [head + beside, *(" " * len(head) + line for line in below)]


COMMAND = Command(
    "doctor", "say what can be measured on this machine, and what to do about the rest", "gssr doctor", (), handle
)
