"""The recording's own clock: unix time that no one can set.

It is anchored to the system clock once and then follows CLOCK_BOOTTIME, which neither steps nor stops while the machine is
suspended. So a step of the system clock shifts nothing in a recording: it is an event.
"""

from __future__ import annotations

import os
import time

from gssr.store.disk import LOCAL as LOCAL_FILESYSTEMS
from gssr.store.disk import filesystem_of

STEP_SECONDS = 0.5
"""A system clock that moves this much against the recording's was set; below it is being slewed."""


class RecordingClock:
    """``now()`` in unix seconds; ``ticks()`` in seconds since ``booted_at``, for deadlines."""

    def __init__(self) -> None:
        self.booted_at = time.time() - self.ticks()
        self._offset = 0.0

    @staticmethod
    def ticks() -> float:
        """Return the seconds since boot, time in suspension included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> float:
        """Return the recording's time, in unix seconds."""
        return self.booted_at + self.ticks()

    def at(self, ticks: float) -> float:
        """Return the recording's time, in unix seconds, of a moment for which ``ticks()`` gave this value."""
        return self.booted_at + ticks

    def of_system(self, when: float) -> float:
        """Convert a time that the system clock told just now (unix s) to this clock's, even where the system clock was
        set since or just before."""
        now = self.now()
        offset = time.time() - now
        told = when - offset
        if abs(offset - self._offset) < STEP_SECONDS:
            return told
        return min(told, when - self._offset, key=lambda candidate: abs(now - candidate))

    def step(self) -> float:
        """Return the seconds by which the system clock was set since the last call; 0.0 when it was not."""
        offset = time.time() - self.now()
        moved = offset - self._offset
        if abs(moved) < STEP_SECONDS:
            return 0.0
        self._offset = offset
        return moved


STAMPED_IN_ONE_PLACE = LOCAL_FILESYSTEMS | {"nfs", "nfs4", "cifs", "smb3"}
"""Filesystems that take a file's time from one clock, whichever host touches it: their server's, or the only host's. On
others (Lustre, GPFS, BeeGFS ...) each client uses its own, which says nothing of the others'."""

_TRIES = 3
_TICK = 0.01  # s: files are stamped with the time of the kernel's last tick


def against_files(folder: str) -> tuple[float, float] | None:
    """Measure how far the system clock is ahead of the clock that stamps files in ``folder``. Takes some round trips
    to a server.

    Returns:
        (seconds ahead, bound of the error in s); None where that clock may be this host's own, or nothing can be
            written there.
    """
    if filesystem_of(folder) not in STAMPED_IN_ONE_PLACE:
        return None
    path = os.path.join(folder, f"clock.{os.uname().nodename}-{os.getpid()}")
    best: tuple[float, float] | None = None
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(_TRIES):
                before = time.time()
                os.utime(descriptor)  # "now", which a server takes from its own clock
                stamp = os.fstat(descriptor).st_mtime_ns / 1e9
                after = time.time()
                coarse = 1.0 if stamp == int(stamp) else _TICK
                error = (after - before + coarse) / 2
                if best is None or error < best[1]:
                    best = (before + after) / 2 - (stamp + coarse / 2), error
        finally:
            os.close(descriptor)
            os.unlink(path)
    except OSError:
        return None
    return best
