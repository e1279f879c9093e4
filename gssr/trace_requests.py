"""Traces on demand: ``gssr profile --trace-when low`` asks for them, and the workload makes them (``gssr.torch_trace``).

Both know one small file in the folder of the run's traces. The sampler writes there the number of its request; rank 0 of the
workload names the step at which all are to begin; all ranks look at it between their steps. There is no signal, and no
socket, so that nothing can interrupt the workload, and ranks on other nodes see it as well. It is there from the beginning,
and written in place: when a file is opened, a network filesystem asks for its newest content, but not for a new name.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

REQUEST = ".on-demand"
_LINE = "{:>10d} {:>16d}\n"
_LENGTH = len(_LINE.format(0, 0))
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TraceRequest(NamedTuple):
    """A request for a trace. ``number``: counts requests from 1, 0 before the first. ``step``: the first step to trace,
    counted from 1; 0 while it is not named yet, and with number 0 while no loop of steps has begun."""

    number: int
    step: int


def write_request(folder: str, request: TraceRequest, make: Literal["", "any", "new"] = "") -> None:
    """Write a request into the folder's file for all ranks to see. ``make``: "" needs the file to exist, "any" creates
    it if necessary, "new" needs it not to exist. Raises OSError."""
    made = {"": 0, "any": os.O_CREAT, "new": os.O_CREAT | os.O_EXCL}[make]
    descriptor = os.open(os.path.join(folder, REQUEST), os.O_WRONLY | _FLAGS | made, 0o600)
    try:
        os.pwrite(descriptor, _LINE.format(*request).encode(), 0)
    finally:
        os.close(descriptor)


def read_request(folder: str) -> TraceRequest | None:
    """Read the request in the folder's file; None if there is no file, or it is not written completely yet."""
    try:
        descriptor = os.open(os.path.join(folder, REQUEST), os.O_RDONLY | _FLAGS)
        try:
            text = os.read(descriptor, _LENGTH + 1)
        finally:
            os.close(descriptor)
        number, step = (int(word) for word in text.split())
    except (OSError, ValueError):
        return None
    return TraceRequest(number, step) if len(text) == _LENGTH else None
