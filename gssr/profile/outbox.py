"""Lines that a recording process, the sampler or the collector, hands to its supervisor, which prints them."""

from __future__ import annotations

import os

BEGUN_ANEW = "there is no more room: what was recorded is forgotten, and recorded anew from here on"
"""Said when a recording that may only grow so far is full."""


def hand_on(outbox: int, text: str) -> None:
    """Send a line for the user to the descriptor ``outbox``. Newlines in it become spaces. Nothing happens if nobody
    listens, or the pipe is full."""
    try:
        os.write(outbox, text.replace("\n", " ").encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass


def hand_on_failure(outbox: int, error: Exception) -> None:
    """Send the line that an unforeseen error ended the recording, with its traceback if GSSR_DEBUG is set. Called while
    the error is handled."""
    hand_on(outbox, f"recording stopped: {error!r}")
    if os.environ.get("GSSR_DEBUG"):
        import traceback

        for line in traceback.format_exc().splitlines():
            hand_on(outbox, line)
