"""A progress bar on stderr, for a command that takes longer than a second."""

import sys
import time

_AFTER = 1.0  # s


_WIDTH = 40  # cells


class ProgressBar:
    """A bar on a terminal's stderr, when what is ``doing`` takes longer than a second."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._begun = time.monotonic()
        self._shown = ""

    def show(self, share: float) -> None:
        """Draw the share done, 0-1; nothing in the first second, or if stderr is no terminal."""
        if time.monotonic() - self._begun < _AFTER or sys.stderr is None or not sys.stderr.isatty():
            return
        done = round(share * _WIDTH)
        text = f"{self._doing} {'#' * done}{'.' * (_WIDTH - done)} {share:4.0%}"
        if text != self._shown:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = text

    def clear(self) -> None:
        """Erase the bar, if it was drawn."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
