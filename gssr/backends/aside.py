"""A backend that is asked in a thread of its own, so that a driver that hangs costs its samples and nothing else.

The sampler waits for an answer only so long; then it goes on with what else it records, says that the driver hangs, and
takes the answer when it comes after all. (C code that hangs in a thread can't be ended, only left alone.)
"""

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from gssr.backends.base import BackendError, Change, Device, Opened, Row

OPEN_PATIENCE = 20.0
"""Seconds a backend may take to open: without a persistence daemon the driver first initialises every GPU."""
PATIENCE = 3.0
"""Seconds an answer is waited for."""

SPARE_SECONDS = 0.025
"""What a backend may take that uses the time between two ticks: its ``spare()`` is called as long as there is some and it
returns True."""
_IDLE_SHARE = 0.8
"""How much of the time to the next tick it may use."""


class Aside:
    """The backend that ``opener`` opens, in a thread; a ``Backend`` itself. Raises BackendError when that fails or takes
    too long. ``opened`` is what the opener said."""

    def __init__(self, what: str, opener: Callable[[], Opened]) -> None:
        self._what = what
        self._questions: SimpleQueue[tuple[str, float]] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._waiting_since: float | None = None
        self._changes: list[Change] = []
        threading.Thread(target=self._serve, args=(opener,), daemon=True).start()
        try:
            opened = self._answers.get(timeout=OPEN_PATIENCE)
        except Empty:
            self._questions.put(("close", 0.0))
            raise BackendError(f"{what} has not answered for {OPEN_PATIENCE:g} s; see dmesg") from None
        if isinstance(opened, BaseException):
            raise opened
        self.opened: Opened = opened
        self.name: str = opened.backend.name
        self.gpus: Sequence[Device] = opened.backend.gpus
        self.measures: Sequence[str] = opened.backend.measures

    def sample(self, now: float) -> Sequence[Row]:
        """The backend's rows; none while it hangs. Late ones come with the times at which they were taken."""
        began = monotonic()
        if self._waiting_since is None:
            self._questions.put(("sample", now))
        try:
            answer = self._answers.get(timeout=PATIENCE) if self._waiting_since is None else self._answers.get_nowait()
        except Empty:
            if self._waiting_since is None:
                self._waiting_since = began
                self._changes.append(
                    Change(
                        "backend_lost", None, f"{self._what} has not answered for {PATIENCE:g} s: it is not waited for"
                    )
                )
            return []
        if self._waiting_since is not None:
            late = began - self._waiting_since
            self._waiting_since = None
            self._changes.append(Change("backend_back", None, f"{self._what} answers again after {late:.0f} s"))
        if isinstance(answer, BaseException):
            raise answer
        rows, changes = answer
        self._changes += changes
        return rows  # type: ignore[no-any-return]

    def changes(self) -> Sequence[Change]:
        """The backend's changes, and whether it hangs."""
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> Sequence[Row]:
        """Close the backend, or if it hangs leave it alone: then it closes when it can."""
        self._questions.put(("close", 0.0))
        if self._waiting_since is not None:
            return ()
        try:
            return self._answers.get(timeout=PATIENCE)  # type: ignore[no-any-return]
        except Empty:
            return ()

    def _serve(self, opener: Callable[[], Opened]) -> None:
        """The thread."""
        try:
            opened = opener()
        except BaseException as error:
            self._answers.put(error)
            return
        backend = opened.backend
        self._answers.put(opened)
        spare: Callable[[], bool] | None = getattr(backend, "spare", None)
        before = None
        while True:
            question, now = self._questions.get()
            if question == "close":
                self._answers.put(backend.close())
                return
            began = monotonic()
            try:
                self._answers.put((backend.sample(now), backend.changes()))
            except BaseException as error:
                self._answers.put(error)
            if spare is not None and before is not None:
                until = began + _IDLE_SHARE * (began - before) - SPARE_SECONDS
                while monotonic() < until and self._questions.empty() and spare():
                    pass
            before = began
