"""A thread that talks to the hostengine, so that one that hangs holds up nobody.

A call blocks for as long as the hostengine does. The sampler only looks at what the thread has put down, and lets go of
one that is stuck: it ends by itself when its call returns, and gives back what it held.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from gssr.backends.base import BackendError, Change, Row
from gssr.backends.dcgm.codes import CONNECTION_NOT_VALID
from gssr.backends.dcgm.engine import EngineError
from gssr.backends.dcgm.session import Session
from gssr.backends.ending import LONGEST_SECONDS, Patience

_LOOK_SECONDS = 0.02


class Worker:
    """One connection: opened, polled until told to stop or until it is lost. ``rows`` and ``changes`` are put down by the
    thread and taken by the sampler; ``error`` is why it ended, None while it lives."""

    def __init__(self, begin: Callable[[], Session]) -> None:
        """Start the thread. ``begin`` opens the session; it may raise BackendError and EngineError."""
        self.rows: deque[Row] = deque()
        self.changes: deque[Change] = deque()
        self.session: Session | None = None
        self.error: str | None = None
        self.settled = threading.Event()
        """Set when the session is open, or won't be."""
        self._begin = begin
        self._stop = threading.Event()
        self._through = threading.Event()
        self._patience = Patience()
        self._ended = threading.Event()
        self._busy: float | None = time.monotonic()
        threading.Thread(target=self._run, name="dcgm", daemon=True).start()

    @property
    def stuck_seconds(self) -> float:
        """How long the call it is in has taken so far, s; 0.0 between calls."""
        since = self._busy
        return 0.0 if since is None else time.monotonic() - since

    @property
    def ended(self) -> bool:
        """Has the thread done everything?"""
        return self._ended.is_set()

    def abandon(self) -> None:
        """Let it end by itself, whenever that is."""
        self._stop.set()

    def read_rest(self) -> bool:
        """Have it read what is left; has it? One that hangs is not waited for, one that is slow up to LONGEST_SECONDS."""
        self._stop.set()
        patience = self._patience.seconds
        while not self._through.wait(_LOOK_SECONDS):
            if self.stuck_seconds > patience:
                return False
        return True

    def give_back(self, seconds: float) -> None:
        """After ``read_rest``: wait until everything is given back, but no longer than this."""
        self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            session = self._begin()
            self._busy = None
            self.session = session
            self.settled.set()
            try:
                self._poll(session)
            finally:
                self._busy = time.monotonic()
                session.close()
        except (BackendError, EngineError) as error:
            lost = isinstance(error, EngineError) and error.code == CONNECTION_NOT_VALID
            self.error = f"the connection to DCGM's hostengine is lost: {error}" if lost else str(error)
        except Exception as error:  # whatever the bindings may throw must not pass unseen in a thread
            self.error = f"DCGM's bindings failed: {error!r}"
        finally:
            self._busy = None
            self._ended.set()
            self._through.set()
            self.settled.set()

    def _poll(self, session: Session) -> None:
        try:
            while not self._stop.wait(session.due_in):
                self._once(session)
            session.end()
            self._once(session)
            until = time.monotonic() + LONGEST_SECONDS
            while session.incomplete and time.monotonic() < until:
                self._once(session)
        finally:
            self.rows.extend(session.flush())
            self._through.set()

    def _once(self, session: Session) -> None:
        self._busy = began = time.monotonic()
        rows, changes = session.poll()
        self.rows.extend(rows)
        self.changes.extend(changes)
        self._busy = None
        self._patience.took(time.monotonic() - began)
