"""User marks: ``gssr.mark("epoch 1")`` puts an event into the recording that is being made of this very process.

``gssr profile`` names a socket of this node in the environment; its sampler hears what is sent there, and stays the only
writer of the file. Without it, and once it has gone, a mark does nothing. Nothing here may hurt the workload: no exception,
no waiting, no descriptor kept open, and no import but where there is somebody to hear.
"""

from __future__ import annotations

import os
import time

ENVIRONMENT = "GSSR_MARKS"
"""The variable that names the socket."""
LONGEST = 200
"""Characters of a mark; what is longer is cut."""
TIME_ENDS = "\x1f"
"""In a datagram: between the time (unix s, decimal) and the text. Without it, all of it is the text."""

_socket: str | None = os.environ.get(ENVIRONMENT) or None


def mark(text: str) -> bool:
    """Mark this moment of the run with a text, such as ``epoch 1``. Returns False if nobody listens.

    Never raises and never waits: if marks come faster than they can be read, some are lost. The text is cut to LONGEST
    characters. Takes about 10 microseconds, and a tenth of that without a listener.
    """
    global _socket
    if _socket is None:
        return False
    try:
        from socket import AF_UNIX, MSG_DONTWAIT, SOCK_DGRAM, socket

        data = f"{time.time():.6f}{TIME_ENDS}{str(text)[:LONGEST]}".encode("utf-8", "replace")
        with socket(AF_UNIX, SOCK_DGRAM) as sender:  # kept open, its number might be somebody else's after a fork
            sender.sendto(data, MSG_DONTWAIT, _socket)
    except (FileNotFoundError, ConnectionRefusedError):
        _socket = None  # the sampler has gone, and doesn't come back
        return False
    except Exception:
        return False
    return True
