"""The backend itself: whatever happens to the hostengine, the sampler is answered at once.

A thread that talks to the hostengine, so that one that hangs holds up nobody.

A call blocks for as long as the hostengine does. The sampler only looks at what the thread has put down, and lets go of
one that is stuck: it ends by itself when its call returns, and gives back what it held.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from gssr.backends.base import BackendChange, BackendError, Device, Row
from gssr.backends.dcgm import BESIDE, codes
from gssr.backends.dcgm.bindings import Bindings
from gssr.backends.dcgm.codes import CONNECTION_NOT_VALID, DcgmError
from gssr.backends.dcgm.engine import EngineError, mismatch, reach
from gssr.backends.dcgm.entities import choose_mine, discover
from gssr.backends.dcgm.session import Session
from gssr.backends.run_end import LAST_ANSWER_SECONDS, AnswerPatience, SilenceTracker
from gssr.store.format.schema import GAP_INTERVALS

_LOOK_SECONDS = 0.02
SLOW_SECONDS = 1.0
"""An answer that takes longer, and long enough to leave a gap, is said."""


class Worker:
    """A thread with one connection to the hostengine, which it opens, and polls until it is told to stop or the
    connection is lost.

    The thread appends to ``rows`` and ``changes``, from which the sampler takes. ``session``: None until it is open.
    ``error``: why the thread ended, None while it lives and after a proper end.
    """

    def __init__(self, begin: Callable[[], Session]) -> None:
        """Start the thread. ``begin`` opens the session; it may raise BackendError and EngineError."""
        self.rows: deque[Row] = deque()
        self.changes: deque[BackendChange] = deque()
        self.session: Session | None = None
        self.error: str | None = None
        self.settled = threading.Event()
        """Set when the session is open, or won't be."""
        self._begin = begin
        self._stop = threading.Event()
        self._through = threading.Event()
        self._patience = AnswerPatience()
        self._ended = threading.Event()
        self._busy: float | None = time.monotonic()
        threading.Thread(target=self._run_session, name="dcgm", daemon=True).start()

    @property
    def stuck_seconds(self) -> float:
        """Seconds that the call in progress has taken so far; 0.0 between calls."""
        since = self._busy
        return 0.0 if since is None else time.monotonic() - since

    @property
    def ended(self) -> bool:
        """True once the thread has done everything."""
        return self._ended.is_set()

    def abandon(self) -> None:
        """Tell the thread to end by itself, and do not wait for it."""
        self._stop.set()

    def read_rest(self) -> bool:
        """Have the thread read what is left, and wait for that. Returns False if its call takes longer than the
        hostengine's usual answers allow; a slow hostengine is given some seconds."""
        self._stop.set()
        patience = self._patience.seconds
        while not self._through.wait(_LOOK_SECONDS):
            if self.stuck_seconds > patience:
                return False
        return True

    def give_back(self, seconds: float) -> None:
        """Wait, after ``read_rest``, until everything is given back to the hostengine, but at most ``seconds``."""
        self._ended.wait(seconds)

    def _run_session(self) -> None:
        """Open the session, poll it until the thread is told to stop, and close it. Runs in the thread, and raises no
        Exception: ``error`` says what went wrong. ``settled`` is set once the session is open, or when the thread ends
        without one."""
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
            self.error = f"DCGM's hostengine is gone ({CONNECTION_NOT_VALID})" if lost else str(error)
        except Exception as error:  # whatever the bindings may throw must not pass unseen in a thread
            self.error = f"DCGM's bindings failed: {error!r}"
        finally:
            self._busy = None
            self._ended.set()
            self._through.set()
            self.settled.set()

    def _poll(self, session: Session) -> None:
        """Poll the session when it is due until the thread is told to stop, then once more, and flush the rest."""
        try:
            while not self._stop.wait(session.due_in):
                self._once(session)
            self._once(session)
        finally:
            self.rows.extend(session.flush())
            self._through.set()

    def _once(self, session: Session) -> None:
        """Poll the session once, and report an answer that took so long that it leaves a gap."""
        self._busy = began = time.monotonic()
        rows, changes = session.poll()
        self.rows.extend(rows)
        self.changes.extend(changes)
        self._busy = None
        took = time.monotonic() - began
        self._patience.note_answer(took)
        if took > max(SLOW_SECONDS, GAP_INTERVALS * session.interval):
            self.changes.append(BackendChange("gap", None, f"DCGM's hostengine took {took:.3g} s to answer"))


OPEN_SECONDS = 15.0
HANG_SECONDS = 5.0
"""A call that takes longer has hung: its thread is left behind and a new connection tried."""
RETRY_SECONDS = 0.5
"""Between two tries to connect anew: cheap, and data is back soon after the hostengine is."""
MOST_STUCK = 4
"""No new connection is tried while this many threads are stuck in a hung hostengine."""
RESUME_SECONDS = 3.0
"""What may be waited for at the end of a run, of a hostengine that answers and is to take the profiling counters back."""


class DcgmBackend:
    """GPUs as a DCGM hostengine samples them; a Backend. Rows come with the first read after they were sampled: once an
    interval, and at least once a second. A lost connection is opened anew."""

    name = "dcgm"

    def __init__(
        self, spec: str, visible: Sequence[str] | None, interval: float, chosen: Mapping[str, Device] | None = None
    ) -> None:
        """Connect and watch GPUs: those that the launcher gives this process (``visible``: as gssr.launch.gpu_ids
        returns them), or the ``chosen`` ones, by their names in the engine. Raises BackendError, also if the hostengine
        does not answer within OPEN_SECONDS."""
        self.interval = interval
        self.gpus: Sequence[Device] = tuple((chosen or {}).values())
        self._names = tuple(chosen or ())
        self._visible = visible
        self._spec = spec
        self._bindings: Bindings | None = None
        self._embeds = spec != BESIDE and chosen is None  # and never in place of a hostengine that was there
        self._lost_gpus = [False] * len(self.gpus)
        self._changes: list[BackendChange] = []
        self._shift = time.time() - _ticks()
        self._down = False
        self._stuck: list[Worker] = []
        self._retry_at = 0.0
        worker = self._worker = Worker(self._open)
        worker.settled.wait(OPEN_SECONDS)
        session = worker.session
        if session is None:
            worker.abandon()
            if worker.error:
                raise BackendError(worker.error)
            raise DcgmError(f"DCGM's hostengine doesn't answer (waited {OPEN_SECONDS:g} s)", "restart nv-hostengine")
        self.measures: Sequence[str] = session.measures
        self._silence = SilenceTracker(len(self.gpus), interval)
        self.say(*session.notes)

    def sample(self, now: float) -> Sequence[Row]:
        """Return the rows that are ready, which may be none; never waits. ``now`` is the recording's clock, unix s."""
        self._shift = now - _ticks()
        worker = self._worker
        rows = self._collect(worker)
        if worker in self._stuck or worker.ended:
            self._lose(f"{worker.error or 'DCGM is gone'}; the connection is tried again")
        elif worker.stuck_seconds > HANG_SECONDS:
            worker.abandon()
            self._stuck.append(worker)
            self._lose(f"DCGM's hostengine has not answered for {HANG_SECONDS:g} s; the connection is tried again")
        elif self._down and worker.session is not None and worker.session.heard:
            self._down = False
            self._changes.append(BackendChange("backend_back", None, "DCGM's hostengine answers again"))
            self.say(*worker.session.notes)
        return rows

    def say(self, *lines: str) -> None:
        """Report lines to the user, as changes of the kind "backend"."""
        self._changes += [BackendChange("backend", None, line) for line in lines]

    def changes(self) -> Sequence[BackendChange]:
        """Return what happened since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> Sequence[Row]:
        """Read what is left, delete groups and watches, and hang up. Returns the last rows. A hostengine that hangs is
        left alone; what it did not tell becomes a gap up to the end."""
        worker = self._worker
        answered = worker not in self._stuck and worker.read_rest()
        session = worker.session
        if answered and session is not None:
            worker.give_back(RESUME_SECONDS if session.paused else LAST_ANSWER_SECONDS)
        worker.abandon()
        rows = self._collect(worker)
        if not self._down and not answered:
            waited = max(worker.stuck_seconds, LAST_ANSWER_SECONDS)
            self._say_lost(f"DCGM's hostengine has not answered for {waited:.3g} s at the end of the run")
        elif not self._down and worker.error:
            self._say_lost(worker.error)
        return [*rows, *self._silence.rows_that_end_gaps(_ticks() + self._shift)] if self._down else rows

    def _collect(self, worker: Worker) -> list[Row]:
        """Take the rows of a worker and return them; its changes are added to the backend's."""
        rows: list[Row] = []
        while worker.rows:
            rows.append(worker.rows.popleft())
        while worker.changes:
            self._changes.append(worker.changes.popleft())
        self._silence.note_rows(rows)
        return rows

    def _say_lost(self, why: str) -> None:
        self._down = True
        self._changes.append(BackendChange("backend_lost", None, why))

    def _lose(self, why: str) -> None:
        """Report once that the hostengine is lost, and start a new connection if it is time."""
        now = time.monotonic()
        if not self._down:
            self._say_lost(why)
            self._retry_at = now + RETRY_SECONDS
        self._stuck = [worker for worker in self._stuck if not worker.ended]
        if now >= self._retry_at and len(self._stuck) < MOST_STUCK:
            self._retry_at = now + RETRY_SECONDS
            self._worker = Worker(self._open)

    def _open(self) -> Session:
        """Connect, find the GPUs and watch them; runs in the worker's thread. Raises BackendError and EngineError."""
        engine = reach(embed=self._embeds, before=self._bindings)
        bindings = self._bindings = engine.bindings
        self._embeds = engine.embedded
        try:
            found = discover(engine)
            if self.gpus:
                there = {each.engine_name: each for each in found}
                wanted = [there.get(name) for name in self._names]
                if not any(wanted):
                    raise BackendError(f"the {engine.where} has none of this run's GPUs")
            else:
                chosen, remarks = choose_mine(found, self._visible)
                self.say(*remarks)
                self._lost_gpus = [False] * len(chosen)
                self.gpus, self._names = (
                    tuple(each.device for each in chosen),
                    tuple(each.engine_name for each in chosen),
                )
                wanted = list(chosen)
            return Session(engine, wanted, self._lost_gpus, self._spec, self.interval, lambda: _ticks() + self._shift)
        except (BackendError, EngineError) as error:
            engine.disconnect()
            if isinstance(error, EngineError) and error.code in codes.MISMATCHES:
                raise mismatch(bindings, engine.where, error.code) from None
            raise


def _ticks() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
