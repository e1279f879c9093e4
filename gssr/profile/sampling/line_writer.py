"""What the sampler knows, as lines on stdout, for ``gssr top`` on another machine: see gssr.profile.hosts.read_lines.

Each line is one JSON array, whose first word says what it is; none is longer than MOST_LINE, which is what Slurm hands on in
one piece. What GPUs there are is said again every REPEAT_SECONDS: whoever misses a line has it soon.

    ["gssr.lines/1", SECONDS, [METRIC, ...]]        the sampling interval, and the order of the values in rows
    ["gpu", POSITION, {COLUMN: VALUE, ...}]         columns of ``gpus``
    ["row", POSITION, TIME, VALUE, ...]             a sample
    ["host", TIME, {COLUMN: VALUE, ...}]            columns of ``host_samples``
    ["memory", USED, LIMIT]                         bytes of the cgroup that is nearest to its limit
    ["on", POSITION, TIME, N, [PROCESS, ...]]       of the N processes on a GPU those that find room: pid, name, user,
                                                    memory_used, sm_utilization
    ["event", TIME, KIND, MESSAGE, POSITION]        POSITION is null for an event that is about no GPU
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from gssr.backends.memory_cgroup import MemoryCgroup
from gssr.metrics import NAMES
from gssr.store.format.host_rollups import HOST
from gssr.store.format.rollup import Row
from gssr.store.write.pending import Value
from gssr.store.write.writer import ProcessRow

FORMAT = "gssr.lines/1"
MOST_LINE = 1000
"""Bytes, with the newline. slurmstepd sends 1,024 at most at once (MAX_MSG_LEN), and cuts what is longer in two."""
REPEAT_SECONDS = 10.0
_LONGEST_TEXT = 120
"""Characters of a message, which may take six bytes each."""
_LONGEST_NAME = 48


class LineWriter:
    """Writes lines to a descriptor; a SampleWriter. Raises OSError where nobody reads them any more."""

    problem: str | None = None
    moved = False

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._memory = MemoryCgroup()
        self._about: list[str] = []
        """What is said again and again."""
        self._seconds = 1.0
        self._gpus: list[Mapping[str, Value]] = []
        self._lines: list[str] = []
        self._repeat = 0.0
        self.due = 0.0
        """In the past: ``tick`` always has something to do."""
        self.totals: Mapping[int, Sequence[float]] = {}

    def begin(self, run: Mapping[str, Value], _process: Mapping[str, Value], /) -> None:
        """Say how often samples come, before there are any."""
        milliseconds = run["sampling_ms"]
        assert isinstance(milliseconds, (int, float))
        self.sampled_every(milliseconds / 1000)

    def sampled_every(self, seconds: float) -> None:
        """See Writer."""
        self._seconds, self._repeat = seconds, 0.0

    def add_gpus(
        self, gpus: Sequence[Mapping[str, Value]], _measured: Sequence[str], sampling_seconds: float, /
    ) -> None:
        """See Writer."""
        self._gpus += gpus
        self._seconds, self._repeat = sampling_seconds, 0.0
        self._say_all()  # before their rows

    def _say_all(self) -> None:
        self._put(FORMAT, self._seconds, NAMES)
        for position, gpu in enumerate(self._gpus):
            short = {name: value[:_LONGEST_NAME] if isinstance(value, str) else value for name, value in gpu.items()}
            self._put("gpu", position, {name: value for name, value in short.items() if value is not None})

    def add(self, rows: Sequence[Row]) -> None:
        """See Writer."""
        for row in rows:
            self._put("row", *row)

    def add_host(self, time: float, values: Sequence[float | None]) -> None:
        """See Writer. The memory of this process's cgroup is looked at as often."""
        named = zip(HOST.values, values)
        self._put("host", time, {name: value for name, value in named if value is not None})
        memory = self._memory.read_use()
        if memory is not None:
            self._put("memory", *memory)

    def add_workload(self, time: float, values: Sequence[float | None]) -> None:
        """Do nothing: there is no workload."""

    def add_processes(self, gpu: int, time: float, rows: Sequence[ProcessRow]) -> None:
        """See Writer. As many of the processes as find room in one line are named, most memory first."""
        names = [(pid, _cut(name), _cut(user), memory, share) for pid, name, user, memory, share in rows]
        names.sort(key=lambda row: -(row[3] or 0))
        while not self._put("on", gpu, time, len(rows), names):
            names.pop()

    def event(self, time: float, kind: str, message: str, gpu: int | None = None) -> None:
        """See Writer."""
        self._put("event", time, kind, message[:_LONGEST_TEXT], gpu)

    def started(self, time: float) -> None:
        """Do nothing: there is no workload."""

    def _put(self, *words: object) -> bool:
        """Add a line. Returns False, and adds none, if it would be too long."""
        line = json.dumps(words, separators=(",", ":")) + "\n"
        if len(line) > MOST_LINE:
            return False
        self._lines.append(line)
        return True

    def tick(self, now: float) -> None:
        """Send what has come."""
        self.commit(now)

    def commit(self, now: float) -> bool:
        """Send what has come, and again what GPUs there are if that was long ago. Waits for whoever reads slowly."""
        if now - self._repeat >= REPEAT_SECONDS:
            self._repeat = now
            self._say_all()
        data, self._lines = "".join(self._lines).encode(), []
        while data:
            data = data[os.write(self._fd, data) :]
        return True

    def finish(self, *_how: object) -> bool:
        """Do nothing: who reads has let go, or sees the end."""
        return True


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_LONGEST_NAME]
