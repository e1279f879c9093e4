"""Reading what a host sends: lines of gssr.profile.sampling.line_writer, which may be anything else just as well.

A line that is too long, broken or forged costs itself alone, and is counted. What is kept of a host is bounded, and a host
names only GPUs of its own: the name of the node is the one by which it was asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from gssr.metrics import NAMES, PLACES
from gssr.profile.sampling.line_writer import FORMAT
from gssr.render.cells import clean
from gssr.store.format.host_rollups import HOST
from gssr.store.format.limits import GREATEST, LATEST
from gssr.store.format.rollup import Row
from gssr.store.format.schema import EVENT_KINDS
from gssr.store.write.pending import Value
from gssr.store.write.writer import NO_PROCESS, ProcessRow, Writer

MOST_GPUS = 256
"""Of a host: 16 GPUs in 7 instances each are 112."""
MOST_EVENTS = 200
"""Of a host: later ones are left out."""
SKEW_SECONDS = 2.0
"""A host's clock that differs from ours by more than this is set right, by what its first line differs."""
IDLE = 0.02
"""A GPU is idle while kernels ran in less than this share of the time, as on the pages (gssr.model.window)."""
_decode = json.JSONDecoder().decode
"""Without json.loads, which looks at each line for its encoding: that takes a third of the time."""
_LONGEST_TEXT = 500
_MOST_INTEGER = 1 << 62
_BOUNDS: dict[type, float] = {float: GREATEST, int: _MOST_INTEGER}
"""The greatest value of each type that a number of a line may have."""
_TEXTS = ("uuid", "name", "compute_capability", "driver_version", "mig", "backend")
_NUMBERS = ("device_index", "memory_total", "power_limit", "sm_count", "max_sm_clock")
_UTILIZATION, _SM = PLACES["gpu_utilization"], PLACES["sm_active"]


class RecordedHosts:
    """The recording that all hosts' lines go to, and the number of GPUs in it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.n_gpus = 0


class HostLines:
    """The lines of one host, which is called ``node`` in the recording.

    ``n_broken``: lines that were left out; ``memory``: as in HostState; ``idle_since``: for each GPU the time (unix s) of
    the first sample since which it has been idle, None if it is not or if that was not measured; ``n_rows``: samples of each
    GPU."""

    def __init__(self, node: str, to: RecordedHosts) -> None:
        self.node = node
        self.n_broken = 0
        self.memory: tuple[int, int] | None = None
        self.idle_since: list[float | None] = []
        self.n_rows: list[int] = []
        self.has_begun = False
        self.has_host = False
        """The node's own numbers, with how busy its processors are, have come."""
        self.seconds = 1.0
        """Between two samples."""
        self._to = to
        self._places: list[int] | None = None
        """For each value of the host's rows its place in ours, -1 for a metric unknown here; None if they are the same."""
        self._n_values = -1
        self._gpus: list[Mapping[str, Value]] = []
        self._at: list[int] = []
        """For each of the host's GPUs its position in the recording."""
        self._last: list[float] = []
        self._offset: float | None = None
        self._n_events = 0
        self._now = 0.0
        self._other_kinds: dict[str, Callable[..., None]] = {
            FORMAT: self._take_format,
            "gpu": self._take_gpu,
            "host": self._take_host,
            "memory": self._take_memory,
            "on": self._take_processes,
            "event": self._take_event,
        }

    def idle_seconds(self) -> list[float]:
        """Return for each GPU that is idle for how long it has been seen to be."""
        return [last - since for last, since in zip(self._last, self.idle_since) if since is not None]

    def begin_anew(self) -> None:
        """Add the host's GPUs to a recording that was begun anew."""
        self._at = []
        for gpu in self._gpus:
            self._add_gpu(gpu)

    def take(self, line: bytes, now: float) -> bool:
        """Take one line, without its newline; ``now``: unix s. Returns False if it can't be read, which is counted. Never
        raises for what is in the line."""
        self._now = now
        try:
            found = _decode(line.decode("ascii"))
            kind, *rest = found
            if kind == "row":
                self._take_row(*rest)
            else:
                self._other_kinds[kind](*rest)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
            self.n_broken += 1
            return False
        return True

    def _ours(self, time: Any) -> float:
        """Convert a time of the host to one of ours, both unix s. Raises ValueError for what is none, or is not of now."""
        if type(time) not in _BOUNDS or not 0 <= time <= LATEST:
            raise ValueError
        now = self._now
        if self._offset is None:
            self._offset = now - time if abs(now - time) > SKEW_SECONDS else 0.0
        own = float(time + self._offset)
        if own > now + SKEW_SECONDS + self.seconds:
            raise ValueError
        return own

    def _take_format(self, seconds: Any, names: Any) -> None:
        """Take the layout of the host's rows: the names of their values, in order, and the seconds between two samples
        (0.001 to 10,000). Values of metrics that are unknown here will be left out. Raises ValueError or TypeError for
        anything else."""
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and 1e-3 <= seconds <= 1e4):
            raise ValueError
        self.has_begun, self.seconds, self._n_values = True, float(seconds), len(names)
        places = [PLACES.get(name, -1) for name in names]
        self._places = None if names == list(NAMES) else places

    def _take_gpu(self, position: Any, columns: Any) -> None:
        """Take one of the host's GPUs. ``columns``: values by name, as in ``gpus``; unknown names are left out, ``uuid``
        and a whole ``device_index`` must be among them. ``position``: from 0 in steps of 1; a GPU of an earlier position
        is passed over. Raises ValueError for one out of turn, before the layout or beyond MOST_GPUS, and another
        error that ``take`` counts for what is no GPU."""
        if not self.has_begun or position != len(self._gpus):
            if not (self.has_begun and type(position) is int and 0 <= position < len(self._gpus)):
                raise ValueError
            return  # it was said before
        if len(self._gpus) >= MOST_GPUS:
            raise ValueError
        gpu: dict[str, Value] = {"node": self.node}
        gpu |= {name: clean(columns[name][:_LONGEST_TEXT]) for name in _TEXTS if name in columns}
        gpu |= {name: _number(columns[name]) for name in _NUMBERS if name in columns}
        if "uuid" not in gpu or type(gpu.get("device_index")) is not int:
            raise ValueError
        self._gpus.append(gpu)
        self._last.append(-math.inf)
        self.idle_since.append(None)
        self.n_rows.append(0)
        self._add_gpu(gpu)

    def _add_gpu(self, gpu: Mapping[str, Value]) -> None:
        self._to.writer.add_gpus([gpu], NAMES, self.seconds)
        self._at.append(self._to.n_gpus)
        self._to.n_gpus += 1

    def _index(self, position: Any) -> int:
        """Check that the host has a GPU of this position."""
        if type(position) is not int or not 0 <= position < len(self._at):
            raise ValueError
        return position

    def _take_row(self, position: Any, time: Any, *values: Any) -> None:
        """Take one sample of a GPU: its ``position`` on the host, the ``time`` by the host's clock (unix s), and the
        values in the order of the layout. Keeps ``idle_since`` and ``n_rows`` up to date; a GPU without utilization and
        SM activity is not idle. Raises ValueError for a sample that is not later than the GPU's last, or does not fit
        the layout, and another error that ``take`` counts for what is no sample."""
        gpu, own = self._index(position), self._ours(time)
        if own <= self._last[gpu] or len(values) != self._n_values:
            raise ValueError
        for value in values:
            if value is not None and not -_BOUNDS[type(value)] <= value <= _BOUNDS[type(value)]:
                raise ValueError
        row: Row = (self._at[gpu], own, *values)
        if self._places is not None:
            ours: list[int | float | None] = [self._at[gpu], own, *[None] * len(NAMES)]
            for place, value in zip(self._places, values):
                if place >= 0:
                    ours[place] = value
            row = tuple(ours)
        self._to.writer.add([row])
        self._last[gpu] = own
        self.n_rows[gpu] += 1
        active = row[_SM] if row[_UTILIZATION] is None else row[_UTILIZATION]
        if active is None or active >= IDLE:
            self.idle_since[gpu] = None
        elif self.idle_since[gpu] is None:
            self.idle_since[gpu] = own

    def _take_host(self, time: Any, values: Any) -> None:
        """Take the node's own values at ``time`` (unix s by the host's clock), by the names of ``host_samples``: those
        that are missing are None, unknown ones are left out. Raises ValueError or KeyError for what is none of that."""
        if not isinstance(values, dict):
            raise ValueError
        own = [_number(values.get(name)) for name in HOST.values]
        self._to.writer.add_host(self._ours(time), own, self.node)
        self.has_host = self.has_host or own[HOST.values.index("cpu_utilization")] is not None

    def _take_memory(self, used: Any, limit: Any) -> None:
        if not (type(used) is int and type(limit) is int and 0 <= used < _MOST_INTEGER and 0 < limit < _MOST_INTEGER):
            raise ValueError
        self.memory = used, limit

    def _take_processes(self, position: Any, time: Any, n: Any, processes: Any) -> None:
        """Take what runs on one of the host's GPUs at ``time`` (unix s by the host's clock). ``n``: how many processes;
        ``processes``: at most ``n`` of them, as rows (pid, name, user, memory_used, sm_utilization). The others are
        recorded without values, at most MOST_GPUS of them. Raises an error that ``take`` counts for
        anything else."""
        gpu, own = self._index(position), self._ours(time)
        if type(n) is not int or not len(processes) <= n <= 1 << 16:
            raise ValueError
        rows: list[ProcessRow] = [
            (_whole(pid), _text(name), _text(user), _whole(memory), _number(share))
            for pid, name, user, memory, share in processes
        ]
        rows += [NO_PROCESS] * min(n - len(rows), MOST_GPUS)
        self._to.writer.add_processes(self._at[gpu], own, rows)

    def _take_event(self, time: Any, kind: Any, message: Any, position: Any) -> None:
        """Take an event of one of EVENT_KINDS. ``position``: of the host's GPU that it is about; None: it is about the
        host, whose name is put before the message. Events after the first MOST_EVENTS are counted and left out. Raises
        an error that ``take`` counts for what is no event."""
        gpu = None if position is None else self._at[self._index(position)]
        if kind not in EVENT_KINDS or not isinstance(message, str):
            raise ValueError
        self._n_events += 1
        if self._n_events <= MOST_EVENTS:
            text = clean(message[:_LONGEST_TEXT])
            text = text if gpu is not None else f"{self.node}: {text}"
            self._to.writer.event(self._ours(time), kind, text, gpu)


def _number(value: Any) -> float | None:
    """Return a number as it is; raises ValueError for anything else but None."""
    if value is not None and not -_BOUNDS[type(value)] <= value <= _BOUNDS[type(value)]:
        raise ValueError
    number: float | None = value
    return number


def _whole(value: Any) -> int | None:
    number = _number(value)
    if number is not None and type(number) is not int:
        raise ValueError
    return number


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError
    return None if value is None else clean(value[:_LONGEST_TEXT])
