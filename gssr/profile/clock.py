"""The recording's own clock: unix time that no one can set.

It is anchored to the system clock once and then follows CLOCK_BOOTTIME, which neither steps nor stops while the machine is
suspended. So a step of the system clock shifts nothing in a recording: it is an event.
"""

import time

STEP_SECONDS = 0.5
"""A system clock that moves this much against the recording's was set; below it is being slewed."""


class Clock:
    """``now()`` in unix seconds; ``ticks()`` in seconds of no particular origin, for deadlines."""

    def __init__(self) -> None:
        self._anchor = time.time() - self.ticks()
        self._offset = 0.0

    @staticmethod
    def ticks() -> float:
        """Seconds since boot, suspended time included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> float:
        """Unix time by the anchor."""
        return self._anchor + self.ticks()

    def of_system(self, when: float) -> float:
        """A time that the system clock told just now, by this clock."""
        return when - (time.time() - self.now())

    def step(self) -> float:
        """Seconds by which the system clock was set since the last call; 0.0 when it was not."""
        offset = time.time() - self.now()
        moved = offset - self._offset
        if abs(moved) < STEP_SECONDS:
            return 0.0
        self._offset = offset
        return moved
