"""A backend that samples in a thread of its own, so that a driver that hangs costs its samples and nothing else.

The thread keeps the deadlines; the sampler collects what it took, now and then, and never waits for it: neither a driver
that takes long nor a file that takes long to write moves a tick of the other. (C code that hangs in a thread can't be
ended, only left alone.)

The end of a run whose driver or hostengine answers no more: it is hardly waited for, and what it didn't tell is a gap.

A gap is a long time between two rows of a GPU. Where none follows, one without values marks the end of it: it says that
nothing is known up to then, and every reader counts it as it counts other gaps.

A backend that is being opened: drivers may take long, or hang, and nobody is to wait for them meanwhile.

Asking drivers for what there is from a process of its own: they may crash, hang, or take long to come up.
"""

import json
import os
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Any, TypeVar

from gssr.backends.base import Backend, BackendChange, BackendError, Device, News, OpenedBackend, Row, make_row
from gssr.store.format.schema import GAP_INTERVALS

END_SECONDS = 0.1
"""What the last answer may take: the command has ended, and somebody waits for its exit code."""
LONGEST_SECONDS = 3.0
SLOW = 5.0
"""Who has been slow may take this many times as long as of late, up to LONGEST_SECONDS: the machine is busy."""

_FADING = 0.9


class Patience:
    """How long to wait at the end, by how long answers took."""

    def __init__(self) -> None:
        self._longest = 0.0

    def took(self, seconds: float) -> None:
        """An answer took so long."""
        self._longest = max(seconds, _FADING * self._longest)

    @property
    def seconds(self) -> float:
        """What the last answer may take."""
        return min(max(END_SECONDS, SLOW * self._longest), LONGEST_SECONDS)


class Silence:
    """Remembers when each GPU was heard of last."""

    def __init__(self, n_gpus: int, interval: float) -> None:
        """``interval`` in s."""
        self._last: list[float | None] = [None] * n_gpus
        self._longest = GAP_INTERVALS * interval

    def heard(self, rows: Iterable[Row]) -> None:
        """These rows came; those of a GPU are in the order of their times."""
        for row in rows:
            self._last[row[0]] = row[1]  # type: ignore[index]

    def at_end(self, now: float) -> Sequence[Row]:
        """A row without values for each GPU that had some and has been silent for longer than a gap takes. ``now``: unix s,
        on the clock of the rows."""
        longest = self._longest
        return [
            make_row(gpu, now, {}) for gpu, last in enumerate(self._last) if last is not None and now - last > longest
        ]


_AT_ONCE = ("synthetic", "replay")
"""Backends that ask no driver: a thread for them would only cost time."""


class Opening:
    """Opens the backend ``spec`` by calling ``opener``, in a thread of its own where that may take long."""

    def __init__(self, spec: str, opener: Callable[[], OpenedBackend]) -> None:
        self._opener = opener
        self._opened: OpenedBackend | None = None
        self._error: Exception | None = None
        if spec.partition(":")[0] in _AT_ONCE:
            self._done = None
            self._open()
            return
        import threading

        self._done = threading.Event()
        threading.Thread(target=self._open, name="opening", daemon=True).start()

    def opened(self) -> OpenedBackend | None:
        """What was opened; None while that isn't known. Raises BackendError, or whatever else a library has raised."""
        if self._error is not None:
            raise self._error
        return self._opened

    def wait(self, seconds: float) -> None:
        """Wait until it is known, but no longer than this."""
        if self._done is not None:
            self._done.wait(max(0.0, seconds))

    def _open(self) -> None:
        try:
            self._opened = self._opener()
        except Exception as error:
            self._error = error
        if self._done is not None:
            self._done.set()


_T = TypeVar("_T")

OPEN_PATIENCE = 20.0
"""Seconds a backend may take to open: without a persistence daemon the driver first initialises every GPU."""
PATIENCE = 3.0
"""Seconds an answer may take; then the driver hangs."""
CLOSE_SECONDS = 0.5
"""Seconds that closing may take, once the last sample is there."""

SPARE_SECONDS = 0.025
"""What a backend may take that uses the time between two ticks: its ``spare()`` is called as long as there is some and it
returns True."""


class Aside:
    """The backend that ``opener`` opens, sampled every ``interval`` s from the first call of ``sample`` on; a ``Backend``
    itself. Raises BackendError when opening fails or takes too long. ``opened`` is what the opener said."""

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
        self._patience = Patience()
        answer: SimpleQueue[OpenedBackend | BaseException] = SimpleQueue()
        threading.Thread(target=self._serve, args=(opener, answer), daemon=True).start()
        try:
            opened = answer.get(timeout=OPEN_PATIENCE)
        except Empty:
            self._finish()
            raise BackendError(f"{what} has not answered for {OPEN_PATIENCE:g} s; see dmesg") from None
        if isinstance(opened, BaseException):
            raise opened
        self.opened: OpenedBackend = opened
        self.name: str = opened.backend.name
        self.gpus: Sequence[Device] = opened.backend.gpus
        self.measures: Sequence[str] = opened.backend.measures
        self._silence = Silence(len(self.gpus), interval)

    def sample(self, now: float) -> Sequence[Row]:
        """What was sampled since the last call; never waits. While the driver hangs there is nothing; what it answers after
        all has the times at which it did."""
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
        if self._hangs_since is None and asked_at is not None and _ticks() - asked_at > PATIENCE:
            self._hangs_since = asked_at
            why = f"{self._what} has not answered for {PATIENCE:g} s: it is not waited for"
            self._changes.append(BackendChange("backend_lost", None, why))
        return self._collect()

    def changes(self) -> Sequence[News]:
        """The backend's changes, gaps, and whether it hangs."""
        return _all_of(self._changes)

    def close(self) -> Sequence[Row]:
        """Have a last sample taken if one is nearly due, close the backend, and give what is left; a driver that hangs is
        left alone, and its backend closes when it can: what it did not tell is a gap up to the end."""
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
        return [*rows, *self._silence.at_end(_ticks() + self._shift)] if hung and self._shift is not None else rows

    def _collect(self) -> list[Row]:
        rows = _all_of(self._rows)
        self._silence.heard(rows)
        return rows

    def _finish(self) -> None:
        self._stop = True
        try:
            self._alarm.release()
        except RuntimeError:
            pass  # it has not waited since it was woken last

    def _serve(self, opener: Callable[[], OpenedBackend], answer: "SimpleQueue[OpenedBackend | BaseException]") -> None:
        """The thread."""
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
                self._sample_until_told(backend, self._shift)
        except BaseException as error:
            self._error = error
        finally:
            self._through.set()
            self._asked_at = _ticks()
            self._rows += backend.close()
            self._asked_at = None
            self._ended.set()

    def _sample_until_told(self, backend: Backend, shift: float) -> None:
        interval = self._interval
        begin = _ticks()
        last = self._sample(backend, shift)
        tick = int((last - begin) / interval) + 1
        spare: Callable[[], bool] | None = getattr(backend, "spare", None)
        while not self._stop:
            due = begin + tick * interval
            if spare is not None:
                self._use(spare, due - SPARE_SECONDS)
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
        """Take one sample; when that was done, in ticks."""
        self._asked_at = began = _ticks()
        self._rows += backend.sample(began + shift)
        self._changes += backend.changes()
        self._asked_at = None
        done = _ticks()
        self._patience.took(done - began)
        return done

    def _use(self, spare: Callable[[], bool], until: float) -> None:
        """Let the backend use the time up to then."""
        while not self._stop and (now := _ticks()) < until:
            self._asked_at = now
            more = spare()
            self._asked_at = None
            if not more:
                break


def _ticks() -> float:
    return clock_gettime(CLOCK_BOOTTIME)


def _all_of(queue: "deque[_T]") -> "list[_T]":
    taken: list[_T] = []
    while queue:
        taken.append(queue.popleft())
    return taken


INQUIRY_PATIENCE = 30.0
"""Seconds to wait for drivers and hostengines; without a persistence daemon a driver first initialises every GPU."""


class InquiryError(Exception):
    """There is no answer; the text says why."""


def inquire(question: Callable[[], object]) -> Any:
    """What ``question`` returns, by way of JSON. Raises InquiryError, one sentence, when a driver gives no answer, or when
    the question itself raises."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = json.dumps({"answer": question()})
        except Exception as error:
            answer = json.dumps({"error": repr(error)})
        try:
            with os.fdopen(writable, "w") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as answers:
        if not select.select([answers], [], [], INQUIRY_PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise InquiryError(f"a driver library has not answered for {INQUIRY_PATIENCE:g} s")
        told = answers.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not told:
        raise InquiryError(f"a driver library crashed with signal {-code} when it was asked for GPUs")
    found = json.loads(told)
    if "error" in found:
        raise InquiryError(f"GPUs can't be asked for: {found['error']}")
    return found["answer"]
