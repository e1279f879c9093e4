"""Hearing the workload's marks (gssr.marks): a datagram socket that only this user can reach.

It is bound before the workload is started, so that no mark comes too early. The sampler waits for it beside all else it
waits for, and is not woken where nothing is marked.

Sleeping until it is time or there is something to hear, whichever comes first.

A plain sleep costs a sixth less than a ``select`` of two descriptors that times out, and a sampler does little else. So the
kernel is asked to send a signal when something comes (O_ASYNC), and the signal ends the sleep.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Sequence
from fcntl import F_GETFL, F_SETFL, F_SETOWN, fcntl
from select import select
from time import sleep
from typing import NamedTuple

from gssr.marks import LONGEST, TIME_ENDS
from gssr.profile.sampling.clock import RecordingClock


class Hearing:
    """The descriptors that a process listens to; one for a process, made in its main thread."""

    def __init__(self, fds: Sequence[int]) -> None:
        """Have the kernel send SIGIO when something arrives at these descriptors."""
        self._asleep = False
        self._heard = True  # what came before anybody listened
        signal.signal(signal.SIGIO, self._hear)
        signal.siginterrupt(signal.SIGIO, False)  # what reads or writes meanwhile goes on
        try:
            for fd in fds:
                fcntl(fd, F_SETOWN, os.getpid())
                fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | os.O_ASYNC)
            self._signals = True
        except OSError:  # a kernel, or what stands in for one, that sends none for these
            self._signals = False

    def wait(self, fds: Sequence[int], seconds: float) -> Sequence[int]:
        """Sleep for ``seconds``, or until one of ``fds`` can be read; return those that can, nothing if the time is
        over.

        May return early with nothing.
        """
        if not self._signals:
            return select(fds, [], [], seconds)[0]
        try:
            self._asleep = True
            if not self._heard:
                sleep(seconds)
            self._asleep = False
        except InterruptedError:
            pass
        if not self._heard:
            return ()
        self._heard = False
        readable = select(fds, [], [], 0)[0]
        if readable:
            self._heard = True  # one signal may stand for more than is read next
        return readable

    def _hear(self, *_: object) -> None:
        """Handle SIGIO. Raises only where ``wait`` catches it, and once."""
        self._heard = True
        if self._asleep:
            self._asleep = False
            raise InterruptedError


MOST = 10_000
"""Marks kept of a run: each is a row, and takes the sampler some 20 microseconds."""

_FOLDERS = ("/tmp", "/dev/shm")
"""Where the socket's folder may be, after TMPDIR: its name must be short, and containers commonly share these."""
_LONGEST_PATH = 107  # bytes of a socket's address
_DATAGRAM = 4096
_AT_ONCE = 64  # then it is time to see whether a sample is due


class Ear(NamedTuple):
    """A bound socket: its descriptor, which doesn't block, and its path, in a folder of its own."""

    fd: int
    path: str

    def close(self) -> None:
        """Close the socket in this process: once no other has it open, whoever marks is refused. Never raises."""
        try:
            os.close(self.fd)
        except OSError:
            pass

    def remove(self) -> None:
        """Remove the socket's file and its folder, if they are still there. Never raises."""
        try:
            os.unlink(self.path)
            os.rmdir(os.path.dirname(self.path))
        except OSError:
            pass

    def tidy(self) -> None:
        """Remove the sockets of this user that killed recorders left in the same place."""
        from _socket import AF_UNIX, SOCK_DGRAM, socket

        folder = os.path.dirname(os.path.dirname(self.path))
        try:
            names = os.listdir(folder)
        except OSError:
            return
        for name in names:
            if not name.startswith("gssr-"):
                continue
            path = os.path.join(folder, name, "marks")
            if not _is_own_folder(os.path.join(folder, name)):
                continue
            caller = socket(AF_UNIX, SOCK_DGRAM)
            try:
                caller.connect(path)
            except ConnectionRefusedError:
                Ear(-1, path).remove()
            except OSError:
                pass  # something else, or somebody else's
            finally:
                caller.close()


def listen() -> Ear | None:
    """Bind a socket in a new folder that only this user may enter; an abstract name would be open to everyone on the
    node.

    Returns None where that is impossible: then there are no marks, and nothing else is missing.
    """
    # The socket module itself makes enumerations of all its constants, and tempfile loads a random number generator:
    # together a twentieth of what a rank costs.
    from _socket import AF_UNIX, SOCK_DGRAM, SOCK_NONBLOCK, socket

    for folder in (os.environ.get("TMPDIR"), *_FOLDERS):
        if not folder or len(os.fsencode(folder)) + len("/gssr-12345678/marks") > _LONGEST_PATH:
            continue
        try:
            own = os.path.join(os.path.abspath(folder), f"gssr-{os.urandom(4).hex()}")
            os.mkdir(own, 0o700)
        except OSError:
            continue
        path = os.path.join(own, "marks")
        try:
            bound = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK)
            try:
                bound.bind(path)
                return Ear(bound.detach(), path)
            finally:
                bound.close()  # unless it is detached
        except OSError:
            os.rmdir(own)
    return None


def _is_own_folder(path: str) -> bool:
    """Tell whether a path is a folder of this user, and no link."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


class MarkReceiver:
    """What comes to an ear. ``fds``: what to wait for, none when nothing can come (any more)."""

    def __init__(self, fd: int | None, clock: RecordingClock, since: float) -> None:
        """``fd``: the socket; None: there are no marks. ``since``: unix s by the clock; no mark can have been made
        before."""
        self.fds = [] if fd is None else [fd]
        self._clock = clock
        self._n = 0
        self._heard = since

    def read(self) -> list[tuple[float, str]]:
        """Return the marks that have arrived, as (unix s by the clock, text), without waiting.

        A mark's own time counts as far as it can be true: after the marks that were read before, and before now. After
        MOST marks no more are read, which the last text says.
        """
        found: list[tuple[float, str]] = []
        for fd in self.fds:
            now = self._clock.now()
            for _ in range(_AT_ONCE):
                try:
                    data = os.read(fd, _DATAGRAM)
                except BlockingIOError:
                    self._heard = now
                    break
                when, text = self._parsed(data)
                if text:
                    found.append((min(now, max(self._heard, when)), text))  # in this order NaN loses
            self._n += len(found)
            if self._n >= MOST:
                os.close(fd)
                found.append((now, f"more than {MOST:,} marks: no further ones are kept"))
                self.fds = []
        return found

    def _parsed(self, data: bytes) -> tuple[float, str]:
        """Split a datagram into the time at which the mark was made, by the clock, and its text; without a time it is
        now."""
        stamp, ends, text = data.decode("utf-8", "replace").partition(TIME_ENDS)
        try:
            when = self._clock.of_system(float(stamp)) if ends else self._clock.now()
        except ValueError:
            when = self._clock.now()
        return when, cleaned(text if ends else stamp)


def cleaned(text: str) -> str:
    """Return the text as one line without control characters, cut to LONGEST characters."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.split())[:LONGEST]
