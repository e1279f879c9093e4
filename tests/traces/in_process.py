"""Commands run in this very process."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from gssr.cli import main


def gssr(*words: str | Path) -> tuple[int, str, str]:
    """The exit code and what a command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def analysed(*words: str | Path) -> dict[str, Any]:
    """What ``gssr analyze`` says as JSON."""
    code, out, err = gssr("analyze", "--json", *words)
    assert code == 0, err
    return dict(json.loads(out))
