"""One connection's life: watch, read, and turn what was read into rows, from connecting to losing the hostengine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gssr.backends.base import BackendChange, BackendError, Row
from gssr.backends.dcgm import BESIDE, PAUSE, codes
from gssr.backends.dcgm.codes import DOUBLE_BLANK, DcgmError, blank_reason
from gssr.backends.dcgm.engine import Engine, EngineClock, EngineError
from gssr.backends.dcgm.entities import Entity, Sampled
from gssr.backends.dcgm.read import prepare_requests
from gssr.backends.dcgm.rows import RowAssembler
from gssr.backends.dcgm.watch import Watches
from gssr.metrics import BY_NAME, METRICS, NAMES

SHORTEST_SECONDS = 0.1
"""Profiling fields that are sampled faster than this are blank."""
POLL_SECONDS = 1.0
"""With a longer interval the hostengine is asked this often all the same: what it sampled is soon on the disk."""
CLOCK_SECONDS = 10.0
"""How often the hostengine's clock is looked at; one that was set shows in the stamps at once."""
LATE_SECONDS = 2.0
"""A row is not held open for a field that has been silent this long."""
LOST_SECONDS = 3.0
LOST_INTERVALS = 5
"""A GPU is lost when it has no value for the longer of the two, while its hostengine goes on sampling others or tells that
it has none. The time in which the hostengine itself tells nothing new doesn't count."""
HANG_SECONDS = 5.0
HANG_INTERVALS = 5
"""A hostengine that answers and tells nothing new for the longer of the two is lost: a new connection is tried."""
TELLING_SECONDS = 1.5
TELLING_INTERVALS = 3
"""After the longer of the two, metrics that never had a value are named with their reason: of profiling metrics the first
value comes after two intervals at most."""

_MISSED = 1.3
"""A step between two samples of a series that is longer than this many intervals tells that one was missed in between."""

_MICRO = 1_000_000
_BY_FIELD = {metric.dcgm: metric for metric in METRICS if metric.dcgm is not None}
_PERCENT = (203, 204)
_HOPPER = 9
"""Its compute capability, and that of newer ones, is at least this."""
_LOST = {f"error {codes.GPU_IS_LOST}", f"error {codes.RESET_REQUIRED}"}
_CURES = {
    "not permitted": ": ask for profiling counters to be opened to all users on this node",
    "no value": ": profiling counters may not be permitted to the hostengine's user (ask for them to be opened to all users "
    "on this node), or, before Hopper, be held by another profiler (Nsight, CUPTI, dcgmi profile --pause)",
}
"""What to do where profiling metrics have no value, by reason."""


_MODULE = "that takes the package datacenter-gpu-manager-4-proprietary where DCGM is a 4"
_NO_MODULE = f"this hostengine can't do it: {_MODULE}"
_EITHER = f"these GPUs need no pausing (Hopper and newer), or this hostengine can't do it: {_MODULE}"


_NOT_BESIDE = (
    "dcgm: no profiling metrics (SM, tensor, memory activity): before Hopper reading them would take the counters from a "
    "recording or a profiler"
)


def _from_hopper_on(capability: str) -> bool:
    return int(capability.partition(".")[0]) >= _HOPPER


class Session:
    """The watches on one engine. ``notes``: lines for the user; ``measures``: the metrics that can have values;
    ``heard``: the engine has sent something that it sampled for this session; ``interval``: s."""

    def __init__(
        self,
        engine: Engine,
        found: Sequence[Sampled | None],
        lost: list[bool],
        spec: str,
        interval: float,
        clock: Callable[[], float],
    ) -> None:
        """Watch GPUs.

        Args:
            found: what to watch, by position in the recording; None for a GPU that this engine does not have.
            lost: by position, whether the GPU is known to be lost; it is kept up to date.
            spec: ``dcgm``, PAUSE to leave the profiling counters to others, or BESIDE to take nothing that they could miss.
            interval: between two samples, s.
            clock: returns the recording's time, unix s.

        Raises BackendError and EngineError, and leaves nothing behind then.
        """
        self.notes: list[str] = []
        self.heard = False
        self._engine = engine
        self._now = clock
        self.interval = interval
        self._interval = round(interval * _MICRO)
        self._there = [each for each in found if each is not None]
        self._clock = EngineClock(engine, self._there[0].gpu if self._there else None, clock)
        self._watches = Watches(engine, interval)
        self._paused = False
        try:
            self._paused = spec == PAUSE and self._pause()
            profiles = not self._paused and not (spec == BESIDE and self._would_take_counters())
            self._clock.look()
            self._start = round(clock() * _MICRO)
            self._watches.make(self._there, profiles)
        except (BackendError, EngineError):
            self.close()
            raise
        self.notes += self._watches.notes
        self._positions = {each.entity: position for position, each in enumerate(found) if each is not None}
        self._series = [
            (entity, field)
            for entity in self._positions
            for watch in self._watches.live
            if entity in watch.entities
            for field in watch.fields
        ]
        self._places = [self._place(entity, field) for entity, field in self._series]
        self._spans = [
            (position, slice(numbers[0], numbers[-1] + 1))
            for position in range(len(found))
            if (numbers := [number for number, place in enumerate(self._places) if place[0] == position])
        ]
        measured = {name for _, name, _, _ in self._places}
        self.measures: Sequence[str] = tuple(name for name in NAMES if name in measured)
        self._requests = prepare_requests(engine, self._series)
        self._rows = RowAssembler(len(found), self._interval)
        self._stamps = [0] * len(self._series)
        """By series, the stamp that was seen last, us of the hostengine's clock."""
        self._times = [0] * len(self._series)
        """By series, the same in us of the recording's."""
        self._newest_stamp, self._newest_time = 0, self._start
        """Of all series, the newest stamp, and the same by the recording's clock, us."""
        self._told = 0
        """How long the hostengine has been telling news, us: no time passes in it while it tells none."""
        self._valued_at = [0 if each is not None else -math.inf for each in found]
        """By position, when in that time the GPU had its last value."""
        self._quiet_since: float | None = None
        self._lost = lost
        self._gone: set[int] = set()
        """Positions of GPUs that DCGM says to be lost."""
        self._reasons: dict[str, str] = {}
        self._valued: set[str] = set()
        self._explained = False
        self._late = self._late_said = 0
        self._due_at = clock() + min(interval / 2, POLL_SECONDS)

    @property
    def paused(self) -> bool:
        """True if the profiling counters are left to others, until ``close``."""
        return self._paused

    @property
    def due_in(self) -> float:
        """Seconds until the next ``poll`` is due."""
        return max(self._due_at - self._now(), 0.0)

    def poll(self) -> tuple[list[Row], list[BackendChange]]:
        """Read what is new. Returns rows, with the recording's times, and what happened; both may be empty. Raises
        EngineError if the connection is lost, and DcgmError if the hostengine answers but samples nothing any more."""
        changes: list[BackendChange] = []
        if not self._watches.live:
            self._due_at = self._now() + POLL_SECONDS
            return [], changes
        readings = [reading for request in self._requests for reading in request.read()]
        self._follow_clock(max(stamp for _, _, stamp, _ in readings), self._now())
        now = round(self._now() * _MICRO)
        self._sort_in(readings, now)
        rows = self._complete_rows(now)
        self._look_for_lost(changes)
        self._explain(changes)
        step = self._interval // math.ceil(self._interval / (POLL_SECONDS * _MICRO))
        self._due_at = self._rows.next_edge(round(self._now() * _MICRO), step) / _MICRO
        return rows, changes

    def flush(self) -> list[Row]:
        """Take out and return all rows that are left, complete or not, as nothing more will come from this
        connection."""
        now = round(self._now() * _MICRO)
        return [row for position, _ in self._spans for row in self._rows.take(position, now + self._interval, now)]

    def close(self) -> None:
        """Give back counters, watches and groups, and hang up. Never raises EngineError."""
        self._watches.destroy()
        if self._paused:
            self._engine.quietly("dcgmProfResume")
        self._engine.disconnect()

    def _pause(self) -> bool:
        """Pause profiling for everybody on the node. Returns False, with a note, if DCGM refuses. Raises EngineError
        when the connection is lost."""
        try:
            self._engine.call("dcgmProfPause")
        except EngineError as error:
            if error.code == codes.CONNECTION_NOT_VALID:
                raise
            self.notes.append(f"dcgm: profiling was not paused: {self._why_not_paused(error)}")
            return False
        self.notes.append(
            "dcgm: profiling is paused on this node until the end of the run (for everybody): no SM, tensor and memory "
            "activity is recorded"
        )
        return True

    def _why_not_paused(self, error: EngineError) -> str:
        """Say in a clause why profiling was not paused. DCGM's answer is the same where nothing needs to be paused and
        where it lacks the module."""
        if error.code != codes.NOT_SUPPORTED:
            return str(error)
        capabilities = [each.device.compute_capability for each in self._there]
        older = any(known is not None and not _from_hopper_on(known) for known in capabilities)
        return _NO_MODULE if older else "these GPUs need no pausing" if all(capabilities) else _EITHER

    def _would_take_counters(self) -> bool:
        """Tell, with a note, whether watching profiling fields could take the counters from others. False only if all
        GPUs are known to let several profile at once."""
        if all(_from_hopper_on(each.device.compute_capability or "0") for each in self._there):
            return False
        self.notes.append(_NOT_BESIDE)
        return True

    def _place(self, entity: Entity, field: int) -> tuple[int, str, int | float, float]:
        """Find where the values of an entity's field go. Returns the GPU's position, the metric's name, the factor by
        which values are multiplied, and the largest value, before that, which is possible."""
        metric = _BY_FIELD[field]
        factor = int(metric.dcgm_factor) if metric.integral else metric.dcgm_factor
        return self._positions[entity], metric.name, factor, 100 if field in _PERCENT else math.inf

    def _follow_clock(self, newest: int, now: float) -> None:
        """Follow the hostengine's clock, given the newest stamp in us: look at it now and then, and when a new stamp is
        far from ``now``, s. Raises DcgmError if there has been no new stamp for too long."""
        moment = newest / _MICRO
        if newest == self._newest_stamp:
            self._quiet_since = now if self._quiet_since is None else self._quiet_since
            limit = max(HANG_SECONDS, HANG_INTERVALS * self.interval)
            if now - self._quiet_since > limit:
                raise DcgmError(f"DCGM's hostengine answers, but has sampled nothing for {limit:g} s", "see its log")
        else:
            self._quiet_since = None
            behind = now + self._clock.offset - moment > self.interval + POLL_SECONDS
            if behind or now - self._clock.looked_at > CLOCK_SECONDS:
                self._clock.look()
        if moment > now + self._clock.offset:
            self._clock.see(-math.inf, moment, now)
        self._newest_stamp = newest
        time = newest - round(self._clock.offset * _MICRO)
        self._told += min(max(time - self._newest_time, 0), 2 * self._interval)
        self._newest_time = time

    def _sort_in(self, readings: Sequence[tuple[int, int, int, int | float]], now: int) -> None:
        """Put new values into rows, and remember which GPUs and metrics have values, and why others have none.

        Args:
            readings: The latest value of each watched field of each GPU: its place in ``_places``, DCGM's status (0: none
                is missing), the hostengine's time of it in us (0: nothing has come yet), and the value, or a blank of DCGM.
            now: The time in us, by this machine's clock.
        """
        offset, start, interval = round(self._clock.offset * _MICRO), self._start, self._interval
        places, stamps, times, rows = self._places, self._stamps, self._times, self._rows
        new: list[tuple[int, int, int, int | float]] = []
        missed = not self.heard
        for number, status, stamp, value in readings:
            if stamp == stamps[number]:
                continue
            stamps[number], time = stamp, stamp - offset
            if time < start:
                continue  # sampled for others, before this session; or, stamped 0, nothing has come yet
            missed = missed or time - times[number] > _MISSED * interval
            times[number] = time
            new.append((number, time, status, value))
        if new and missed:
            rows.lay_edges([time for time in times if time > now - 2 * interval] or [new[0][1]])
        self.heard = self.heard or bool(new)
        for number, time, status, value in new:
            position, metric, factor, most = places[number]
            if status or not value < DOUBLE_BLANK or value > most:  # the smaller of the blanks, or not a number
                reason = (
                    f"error {status}" if status else blank_reason(value) or ("out of range" if value > most else None)
                )
                if reason is not None:
                    self._reasons[metric] = reason
                    if reason in _LOST:
                        self._gone.add(position)
                    continue
            self._valued.add(metric)
            self._valued_at[position] = self._told
            self._gone.discard(position)
            if not rows.add(position, metric, time, value * factor) and time < now - LATE_SECONDS * _MICRO:
                self._late += 1

    def _complete_rows(self, now: int) -> list[Row]:
        """Return the rows for which no further value of the GPU can come: all its fields that are not silent have newer
        ones. ``now`` is in us."""
        rows: list[Row] = []
        earliest = now - LATE_SECONDS * _MICRO
        for position, span in self._spans:
            until: float = min(self._times[span])
            if until < earliest:
                until = min((time for time in self._times[span] if time >= earliest), default=earliest)
            rows += self._rows.take(position, until, now)
        return rows

    def _look_for_lost(self, changes: list[BackendChange]) -> None:
        """Report GPUs that were lost or have come back since the last poll."""
        limit = max(LOST_SECONDS, LOST_INTERVALS * self.interval) * _MICRO
        for position, valued_at in enumerate(self._valued_at):
            lost = position in self._gone or self._told - valued_at > limit
            if lost != self._lost[position]:
                self._lost[position] = lost
                kind, what = (
                    ("gpu_lost", "DCGM has no more values of it") if lost else ("gpu_back", "DCGM has values again")
                )
                changes.append(BackendChange(kind, position, what))

    def _explain(self, changes: list[BackendChange]) -> None:
        """Append to ``changes``, once and after some time, which metrics have had no value so far and why; and, each
        time that their number has doubled, how many values came too late to be kept."""
        if not self._explained and self._told > max(TELLING_SECONDS, TELLING_INTERVALS * self.interval) * _MICRO:
            self._explained = True
            profiled = {name for _, name, _, _ in self._places if BY_NAME[name].dcgm in codes.PROFILING}
            for reason in sorted(set(self._reasons.values())):
                without = [name for name in NAMES if self._reasons.get(name) == reason and name not in self._valued]
                if not without:
                    continue
                labels = ", ".join(BY_NAME[name].label for name in without)
                if set(without) == profiled:
                    labels = "all profiling metrics (SM, tensor, memory activity)"
                cure = _CURES.get(reason, "") if profiled.issuperset(without) else ""
                changes.append(BackendChange("backend", None, f"dcgm: {reason} for {labels}{cure}"))
        if self._late >= max(2 * self._late_said, 1):
            self._late_said = self._late
            text = f"dcgm: {self._late} values so far came over {LATE_SECONDS:g} s late and are left out"
            changes.append(BackendChange("backend", None, text))
