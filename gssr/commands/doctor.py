"""``gssr doctor``: what this machine offers, and what to do about what it lacks."""

import argparse

from gssr.commands import OK, Command


def handle(_options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Always 0: a machine without a GPU is no error."""
    from gssr.doctor import findings

    rows = findings()
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{row.verdict:<4} {row.what:<{width}}  {row.details}")
        if row.cure:
            print(f"     {'':<{width}}  -> {row.cure}")
    return OK


COMMAND = Command("doctor", "say what this machine offers", "gssr doctor", (), handle)
