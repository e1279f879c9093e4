"""``gssr doctor``: what this machine offers, and what to do about what it lacks."""

import argparse

from gssr.commands import Command, put


def handle(_options: argparse.Namespace, _workload: list[str] | None) -> int:
    """0: a machine without a GPU is no error."""
    from gssr.doctor import findings

    rows = findings()
    width = max(len(row.what) for row in rows)
    lines = []
    for row in rows:
        lines.append(f"{row.verdict:<4} {row.what:<{width}}  {row.details}\n")
        if row.cure:
            lines.append(f"     {'':<{width}}  -> {row.cure}\n")
    return put("".join(lines))


COMMAND = Command("doctor", "say what this machine offers", "gssr doctor", (), handle)
