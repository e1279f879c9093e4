"""Beneath nsys: supervises the command for ``gssr profile --trace nsys`` (gssr.profile.nsys), which started nsys.

Its arguments are ``SOCKET COMMAND ARG...``. Where nobody answers, the command was given up, or runs elsewhere by now: then
nothing is run.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from gssr.profile.supervise import GRACE, Supervisor
from gssr.profile.workload import FORWARDED

NOBODY = 127
"""Exit code where nothing is run."""


def begin_message(streams: Sequence[int], ignored: Sequence[int], mask: Sequence[int]) -> bytes:
    """Encode the message that is sent before the command is begun: which standard streams come with it, and which
    signals are ignored and blocked, whatever nsys has made of that."""
    return b";".join(b",".join(b"%d" % number for number in numbers) for numbers in (streams, ignored, mask)) + b"\n"


def _read_begin_message(message: bytes) -> tuple[list[int], list[int], list[int]]:
    """Decode what ``begin_message`` has encoded: the streams, and the signals that are ignored and blocked. Raises
    ValueError."""
    parts = message.rstrip(b"\n").split(b";")
    streams, ignored, mask = ([int(word) for word in part.split(b",") if word] for part in parts)
    return streams, ignored, mask


class Caller:
    """Tells the supervisor above nsys what becomes of the command: see gssr.profile.supervise.Recorder."""

    pid: int | None = None
    fd = -1

    def __init__(self, talk: int) -> None:
        self._talk = talk

    def started(self, pid: int, when: float) -> None:  # noqa: ARG002
        """Say that the command runs."""
        self._tell(b"started %d\n" % pid)

    def event(self, kind: str, message: str) -> None:
        """Do nothing: it is known above."""

    def ended(self, exit_code: int, state: str, when: float) -> None:  # noqa: ARG002
        """Say that the command has ended."""
        self._tell(b"ended %d\n" % exit_code)

    def _tell(self, line: bytes) -> None:
        """Send a line; nothing if the supervisor above is gone, for the command runs on."""
        try:
            os.write(self._talk, line)
        except OSError:
            pass  # it is gone; the command is not


def main(path: str, command: list[str]) -> int:
    """Run the command. Returns its exit code."""
    talk = _call(path)
    return NOBODY if talk is None else Supervisor(Caller(talk), None, GRACE, None).run(command, 0.0)


def _call(path: str) -> int | None:
    """Call at the socket ``path``, and take over the standard streams and the handling of signals from above.

    Returns the descriptor to talk by; None where nobody answers.
    """
    from _socket import AF_UNIX, CMSG_SPACE, SOCK_STREAM, socket
    from array import array

    caller = socket(AF_UNIX, SOCK_STREAM)
    try:
        caller.connect(path)
        message, passed, _, _ = caller.recvmsg(1 << 12, CMSG_SPACE(3 * 4))
        streams, ignored, mask = _read_begin_message(message)
    except (OSError, ValueError):
        return None
    descriptors = array("i", b"".join(data for _, _, data in passed))
    for number in (0, 1, 2):
        if number in streams:
            os.dup2(descriptors[streams.index(number)], number)
        else:
            os.close(number)  # as it was above
    for descriptor in descriptors:
        os.close(descriptor)
    for sig in FORWARDED:
        signal.signal(sig, signal.SIG_IGN if sig in ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.set_inheritable(caller.fileno(), False)
    return caller.detach()


def run() -> NoReturn:
    """Be the second supervisor: run the command that stands, after the path of the socket, on this process's command
    line, and end the process with its exit code; 126 if that fails."""
    code = 126
    try:
        code = main(sys.argv[1], sys.argv[2:])
    finally:
        os._exit(code)
