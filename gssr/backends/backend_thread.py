"""A backend that samples in a thread of its own, so that a driver that hangs costs its samples and nothing else.

The thread keeps the deadlines; the sampler collects what it took, now and then, and never waits for it: neither a driver
that takes long nor a file that takes long to write moves a tick of the other. C code that hangs in a thread can't be ended,
only left alone.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import CLOCK_BOOTTIME, clock_gettime
from typing import TypeVar

from gssr.backends.base import Backend, BackendChange, BackendError, Device, News, OpenedBackend, Row
from gssr.backends.run_end import AnswerPatience, SilenceTracker
from gssr.store.format.schema import GAP_INTERVALS

_T = TypeVar("_T")

OPEN_SECONDS = 20.0
"""Seconds a backend may take to open: without a persistence daemon the driver first initialises every GPU."""
ANSWER_SECONDS = 3.0
"""Seconds an answer may take; then the driver hangs."""
CLOSE_SECONDS = 0.5
"""Seconds that closing may take, once the last sample is there."""

SPARE_SECONDS = 0.025
"""What a backend may take that uses the time between two ticks: its ``spare()`` is called as long as there is some and it
returns True."""


class ThreadedBackend:
    """A backend that is opened and sampled in a thread; a Backend itself.

    It is sampled every ``interval`` s from the first call of ``sample`` on. ``what``: the driver, as sentences call it;
    ``opened``: what ``opener`` returned. Raises BackendError if opening fails or takes longer than OPEN_SECONDS.
    """

    def __init__(self, what: str, opener: Callable[[], OpenedBackend], interval: float) -> None:
        self._what = what
        self._interval = interval
        self._shift: float | None = None
        self._rows: deque[Row] = deque()
        self._changes: deque[News] = deque()
        self._error: BaseException | None = None
        self._asked_at: float | None = None
        self._hangs_since: float | None = None
        self._stop = False
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._through = threading.Event()
        self._ended = threading.Event()
        self._patience = AnswerPatience()
        answer: SimpleQueue[OpenedBackend | BaseException] = SimpleQueue()
        threading.Thread(target=self._serve, args=(opener, answer), daemon=True).start()
        try:
            opened = answer.get(timeout=OPEN_SECONDS)
        except Empty:
            self._finish()
            raise BackendError(f"{what} has not answered for {OPEN_SECONDS:g} s; see dmesg") from None
        if isinstance(opened, BaseException):
            raise opened
        self.opened: OpenedBackend = opened
        self.name: str = opened.backend.name
        self.gpus: Sequence[Device] = opened.backend.gpus
        self.measures: Sequence[str] = opened.backend.measures
        self._silence = SilenceTracker(len(self.gpus), interval)

    def sample(self, now: float) -> Sequence[Row]:
        """Return the rows sampled since the last call, without waiting; none while the driver hangs.

        What the driver answers after a hang has the times at which it answered. ``now``: unix s.
        """
        if self._shift is None:
            self._shift = now - _ticks()
            self._alarm.release()
        if self._error is not None:
            raise self._error
        asked_at = self._asked_at
        if self._hangs_since is not None and asked_at != self._hangs_since:
            late = _ticks() - self._hangs_since
            self._hangs_since = None
            self._changes.append(BackendChange("backend_back", None, f"{self._what} answers again after {late:.0f} s"))
        if self._hangs_since is None and asked_at is not None and _ticks() - asked_at > ANSWER_SECONDS:
            self._hangs_since = asked_at
            why = f"{self._what} has not answered for {ANSWER_SECONDS:g} s: it is not waited for"
            self._changes.append(BackendChange("backend_lost", None, why))
        return self._collect()

    def changes(self) -> Sequence[News]:
        """Return the backend's changes since the last call, gaps, and whether it hangs or answers again."""
        return _take_all(self._changes)

    def close(self) -> Sequence[Row]:
        """Have a last sample taken if one is nearly due, close the backend, and return the rows that are left. A driver
        that hangs is left alone, and its backend closes when it can; what it did not tell becomes a gap up to the end."""
        self._finish()
        hung = self._hangs_since is not None
        if not hung:
            patience = self._patience.seconds
            hung = not self._through.wait(patience)
            if hung:
                asked_at = self._asked_at
                waited = patience if asked_at is None else max(_ticks() - asked_at, patience)
                why = f"{self._what} has not answered for {waited:.3g} s at the end of the run"
                self._changes.append(BackendChange("backend_lost", None, why))
            else:
                self._ended.wait(CLOSE_SECONDS)
        rows = self._collect()
        return (
            [*rows, *self._silence.rows_that_end_gaps(_ticks() + self._shift)]
            if hung and self._shift is not None
            else rows
        )

    def _collect(self) -> list[Row]:
        rows = _take_all(self._rows)
        self._silence.note_rows(rows)
        return rows

    def _finish(self) -> None:
        """Tell the thread to stop, and wake it."""
        self._stop = True
        try:
            self._alarm.release()
        except RuntimeError:
            pass  # it has not waited since it was woken last

    def _serve(self, opener: Callable[[], OpenedBackend], answer: "SimpleQueue[OpenedBackend | BaseException]") -> None:
        """Open the backend and sample it until stopped; runs in the thread."""
        try:
            opened = opener()
        except BaseException as error:
            answer.put(error)
            return
        answer.put(opened)
        backend = opened.backend
        try:
            self._alarm.acquire()
            if self._shift is not None:
                self._sample_until_stopped(backend, self._shift)
        except BaseException as error:
            self._error = error
        finally:
            self._through.set()
            self._asked_at = _ticks()
            self._rows += backend.close()
            self._asked_at = None
            self._ended.set()

    def _sample_until_stopped(self, backend: Backend, shift: float) -> None:
        """Sample at each deadline until told to stop. ``shift``: s to add to ticks for unix time."""
        interval = self._interval
        begin = _ticks()
        last = self._sample(backend, shift)
        tick = int((last - begin) / interval) + 1
        spare: Callable[[], bool] | None = getattr(backend, "spare", None)
        while not self._stop:
            due = begin + tick * interval
            if spare is not None:
                self._use_spare_time(spare, due - SPARE_SECONDS)
            wait = due - _ticks()
            if wait > 0 and self._alarm.acquire(timeout=wait):
                break
            now = _ticks()
            held_up = now - last
            if held_up > GAP_INTERVALS * interval:
                why = f"no samples for {held_up:.3g} s: the sampler was held up"
                self._changes.append(BackendChange("gap", None, why))
            last = self._sample(backend, shift)
            # One that is late by half an interval stands for the next as well: two at once tell nothing more.
            tick = max(tick, int((now - begin) / interval + 0.5), int((last - begin) / interval)) + 1
        if _ticks() - last >= interval / 2:
            self._sample(backend, shift)

    def _sample(self, backend: Backend, shift: float) -> float:
        """Take one sample. Returns when that was done, in s after boot."""
        self._asked_at = began = _ticks()
        self._rows += backend.sample(began + shift)
        self._changes += backend.changes()
        self._asked_at = None
        done = _ticks()
        self._patience.note_answer(done - began)
        return done

    def _use_spare_time(self, spare: Callable[[], bool], until: float) -> None:
        """Call ``spare`` until it returns False, or until ``until``, s after boot."""
        while not self._stop and (now := _ticks()) < until:
            self._asked_at = now
            more = spare()
            self._asked_at = None
            if not more:
                break


def _ticks() -> float:
    return clock_gettime(CLOCK_BOOTTIME)


def _take_all(queue: "deque[_T]") -> "list[_T]":
    """Remove and return everything in a queue."""
    taken: list[_T] = []
    while queue:
        taken.append(queue.popleft())
    return taken
