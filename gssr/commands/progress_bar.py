"""A progress bar on stderr, drawn by rich, for a command that takes longer than a second."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_AFTER_SECONDS = 1.0
_REDRAWN_SECONDS = 0.1
"""No thread draws, which a process that forks could not have: the bar moves when something is done, but no more often."""


class ProgressBar:
    """A bar on a terminal's stderr, when what is ``doing`` takes longer than a second; none where rich is missing."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._due = time.monotonic() + _AFTER_SECONDS
        self._progress: Progress | None = None

    def show(self, share: float) -> None:
        """Draw the share done, 0-1; nothing in the first second, or if stderr is no terminal."""
        now = time.monotonic()
        if now < self._due or sys.stderr is None or not sys.stderr.isatty():
            return
        self._due = now + _REDRAWN_SECONDS
        if self._progress is None:
            self._progress = _bar(self._doing)
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=share, refresh=True)

    def clear(self) -> None:
        """Erase the bar, if it was drawn."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _bar(doing: str) -> Progress | None:
    """Begin to draw a bar for what is done; None where rich is missing."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    except ImportError:
        return None
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    bar.add_task(doing, total=1.0)
    bar.start()
    return bar
