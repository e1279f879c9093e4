"""Commands run in this very process."""

import contextlib
import io
from pathlib import Path

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
