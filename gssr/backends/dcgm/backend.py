"""The backend itself: whatever happens to the hostengine, the sampler is answered at once."""

import time
from collections.abc import Sequence

from gssr.backends.base import BackendError, Change, Device, Row
from gssr.backends.dcgm import codes
from gssr.backends.dcgm.bindings import Bindings
from gssr.backends.dcgm.engine import EngineError, mismatch, reach
from gssr.backends.dcgm.entities import discover
from gssr.backends.dcgm.errors import DcgmError
from gssr.backends.dcgm.mine import choose_mine
from gssr.backends.dcgm.session import Options, Session
from gssr.backends.dcgm.worker import Worker
from gssr.backends.ending import END_SECONDS, Silence

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
    """GPUs as a DCGM hostengine samples them. Rows come with the next read after they were sampled, once an
    interval or at least once a second."""

    name = "dcgm"

    def __init__(self, visible: Sequence[str] | None, options: Options) -> None:
        """Connect and watch the GPUs that are this process's (``visible``: gssr.launch.gpu_ids). Raises BackendError, also
        when the hostengine doesn't answer within OPEN_SECONDS."""
        self.interval = options.interval
        self.gpus: Sequence[Device] = ()
        self._visible = visible
        self._options = options
        self._bindings: Bindings | None = None
        self._embeds = True  # but never in place of a hostengine that was there
        self._lost_gpus: list[bool] = []
        self._changes: list[Change] = []
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
        self._silence = Silence(len(self.gpus), options.interval)
        self.say(*session.notes)

    def sample(self, now: float) -> Sequence[Row]:
        """The rows that are ready; never waits."""
        self._shift = now - _ticks()
        worker = self._worker
        rows = self._collect(worker)
        if worker in self._stuck or worker.ended:
            self._lose(f"{worker.error or 'DCGM hung up'}; the connection is tried again")
        elif worker.stuck_seconds > HANG_SECONDS:
            worker.abandon()
            self._stuck.append(worker)
            self._lose(f"DCGM's hostengine has not answered for {HANG_SECONDS:g} s; the connection is tried again")
        elif self._down and worker.session is not None:
            self._down = False
            self._changes.append(Change("backend_back", None, "DCGM's hostengine answers again"))
            self.say(*worker.session.notes)
        return rows

    def say(self, *lines: str) -> None:
        """Put lines for the user among the changes."""
        self._changes += [Change("backend", None, line) for line in lines]

    def changes(self) -> Sequence[Change]:
        """What happened since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> Sequence[Row]:
        """Read what is left, delete groups and watches, and hang up. Returns the last rows. A hostengine that hangs is left
        alone: what it did not tell is a gap up to the end."""
        worker = self._worker
        answered = worker not in self._stuck and worker.read_rest()
        session = worker.session
        if answered and session is not None:
            worker.give_back(RESUME_SECONDS if session.paused else END_SECONDS)
        worker.abandon()
        rows = self._collect(worker)
        if not self._down and not answered:
            waited = max(worker.stuck_seconds, END_SECONDS)
            self._say_lost(f"DCGM's hostengine has not answered for {waited:.3g} s at the end of the run")
        elif not self._down and worker.error:
            self._say_lost(worker.error)
        return [*rows, *self._silence.at_end(_ticks() + self._shift)] if self._down else rows

    def _collect(self, worker: Worker) -> list[Row]:
        rows: list[Row] = []
        while worker.rows:
            rows.append(worker.rows.popleft())
        while worker.changes:
            self._changes.append(worker.changes.popleft())
        self._silence.heard(rows)
        return rows

    def _say_lost(self, why: str) -> None:
        self._down = True
        self._changes.append(Change("backend_lost", None, why))

    def _lose(self, why: str) -> None:
        """Say once that the hostengine is lost, and start a new connection when it is time."""
        now = time.monotonic()
        if not self._down:
            self._say_lost(why)
            self._retry_at = now + RETRY_SECONDS
        self._stuck = [worker for worker in self._stuck if not worker.ended]
        if now >= self._retry_at and len(self._stuck) < MOST_STUCK:
            self._retry_at = now + RETRY_SECONDS
            self._worker = Worker(self._open)

    def _open(self) -> Session:
        """Connect, find the GPUs and watch them; in the worker's thread. Raises BackendError and EngineError."""
        engine = reach(embed=self._embeds, before=self._bindings)
        bindings = self._bindings = engine.bindings
        self._embeds = engine.embedded
        try:
            found = discover(engine)
            if self.gpus:
                there = {each.device.uuid: each for each in found}
                wanted = [there.get(device.uuid) for device in self.gpus]
                if not any(wanted):
                    raise BackendError(f"the {engine.where} has none of this run's GPUs")
            else:
                chosen, remarks = choose_mine(found, self._visible)
                self.say(*remarks)
                self._lost_gpus = [False] * len(chosen)
                self.gpus = tuple(each.device for each in chosen)
                wanted = list(chosen)
            return Session(engine, wanted, self._lost_gpus, self._options, lambda: _ticks() + self._shift)
        except (BackendError, EngineError) as error:
            engine.disconnect()
            if isinstance(error, EngineError) and error.code in codes.MISMATCHES:
                raise mismatch(bindings, engine.where, error.code) from None
            raise


def _ticks() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
