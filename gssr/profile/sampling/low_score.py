"""``--trace-when low``: asks the workload for a trace when it saturates its GPUs badly for a while (gssr.trace_requests).

Each sampler does so by the GPUs that it samples. Where several ask at the same time they write the same, and who comes later
sees that another has asked. One asks only once a loop of steps has begun, so not for what is loaded before, and never so
late that the end of the job could come between.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gssr.metrics import PLACES, SCORE_INPUTS
from gssr.score import score_of_means
from gssr.store.format.rollup import Row
from gssr.trace_requests import TraceRequest, read_request, write_request

MOST = 3
"""Traces that are asked for in a run."""
MOST_BYTES = 1_000_000_000
"""Once the folder holds so much there are no more."""
BEFORE_END = 600.0
"""Nor in the last 10 minutes before the time limit, s: a trace has to be written, too."""
PAUSE = 10
"""After a trace the next is asked for no earlier than so many times what ``low`` takes: of one bad stretch one is enough."""
_PARTS = 6
"""The score is counted so often, about, in the time for which it has to be low: each time it has to be."""
_MOST_FILES = 10_000
_PLACES = tuple((name, PLACES[name]) for name in SCORE_INPUTS)


class Low(NamedTuple):
    """The score, 0-1, below which it is low, and the time for which it has to be, s. ``ends_at``: when the job's time is
    over, unix s; infinity where that is not known."""

    limit: float
    seconds: float
    ends_at: float = math.inf


class LowScore:
    """Counts the score as samples come, and asks for a trace when it stays low. Each trace that it asks for is recorded
    with its number and the score, and so is why it has given up; that a trace is not asked for because another rank has
    just asked, no loop of steps has begun, or there are MOST of them is not recorded."""

    def __init__(self, low: Low, folder: str, event: Callable[[float, str], None]) -> None:
        """Begin to count. ``folder``: for the traces; ``event``: is called with a time (unix s) and a text to record
        it."""
        self._low, self._folder, self._event = low, folder, event
        self._counted = math.inf  # unix s, since when samples are counted
        self._low_since = math.inf
        self._sums = dict.fromkeys(SCORE_INPUTS, (0, 0.0))
        self._not_before = -math.inf
        self._number = 0  # of the newest request that is known
        self._is_over = False

    def add(self, rows: Sequence[Row]) -> None:
        """Count samples: (position of the GPU, unix time in s, values in catalogue order)."""
        for name, place in _PLACES:
            values = [value for row in rows if (value := row[place]) is not None]
            n, total = self._sums[name]
            self._sums[name] = n + len(values), total + sum(values)
        if self._counted == math.inf and rows:
            self._counted = float(rows[0][1] or 0.0)

    def tick(self, now: float) -> None:
        """Ask for a trace if the score has been low in each part of the last ``Low.seconds`` and it is time to, and
        record that it was asked for. Call it often: the score is counted anew each sixth of ``Low.seconds``. ``now`` in
        unix s. Never raises: if the folder can't be read or written, why is recorded and nothing more is asked for."""
        low = self._low
        if now - self._counted < low.seconds / _PARTS or self._is_over:
            return
        found = score_of_means({name: total / n if n else None for name, (n, total) in self._sums.items()})
        is_low = found is not None and found < low.limit
        self._low_since = min(self._low_since, self._counted) if is_low else math.inf
        self._sums, self._counted = dict.fromkeys(SCORE_INPUTS, (0, 0.0)), now
        if now - self._low_since < low.seconds or not self._not_before <= now <= low.ends_at - BEFORE_END:
            return
        try:
            self._ask(now, found or 0.0)
        except OSError as error:
            self._stop(now, f"no trace is asked for: {error.strerror}")

    def _ask(self, now: float, found: float) -> None:
        """Ask for a trace and record it, with the score ``found``. Nothing is asked for or recorded if no loop of steps
        has begun, another rank has asked meanwhile, or MOST traces were asked for. If there are MOST_BYTES of traces,
        that is recorded, and nothing more is asked for. Raises OSError."""
        request = read_request(self._folder)
        if request is None or not request.step:
            self._low_since = math.inf  # nobody makes steps (yet), or what was asked for is still to come
            return
        if request.number != self._number:  # another has asked meanwhile
            self._number, self._not_before = request.number, now + PAUSE * self._low.seconds
            return
        if request.number >= MOST:
            self._is_over = True
            return
        if _bytes_in(self._folder) >= MOST_BYTES:
            self._stop(now, f"no more traces are asked for: there are {MOST_BYTES / 1e9:g} GB of them")
            return
        write_request(self._folder, TraceRequest(request.number + 1, 0))
        self._number, self._not_before = request.number + 1, now + PAUSE * self._low.seconds
        low = f"the score was below {self._low.limit:g} for {self._low.seconds:g} s, lately {found:.3f}"
        self._event(now, f"trace {self._number} was asked for: {low}")

    def _stop(self, now: float, why: str) -> None:
        """Ask for no more traces, and record why."""
        self._is_over = True
        self._event(now, why)


def _bytes_in(folder: str) -> int:
    """Sum up the sizes of the files in a folder, of the first _MOST_FILES. Raises OSError."""
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry, _ in zip(entries, range(_MOST_FILES)))
