"""What ``gssr analyze`` says of a file, for tests."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from gssr.cli import main

Said = dict[str, Any]
Rows = list[dict[str, Any]]


def said(*words: str | Path) -> tuple[int, str, str]:
    """The exit code and what ``gssr analyze`` prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["analyze", *map(str, words)])
    return code, out.getvalue(), err.getvalue()


def analysed(*words: str | Path) -> Said:
    """What it says as JSON."""
    code, out, err = said("--json", *words)
    assert code == 0, err
    found: Said = json.loads(out)
    return found


def paths(rows: Rows) -> dict[tuple[str, ...], dict[str, Any]]:
    """Rows of a call tree by their path."""
    by_id = {row["id"]: row for row in rows}
    found = {}
    for row in rows:
        names, at = [row["name"]], row["parent"]
        while at is not None:
            names.append(by_id[at]["name"])
            at = by_id[at]["parent"]
        found[tuple(reversed(names))] = row
    assert len(found) == len(rows), "a path stands there twice"
    return found
