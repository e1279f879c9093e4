"""What the sampler writes to: a file of its own (gssr.store.write.writer), or lines for another machine (line_writer)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gssr.store.format.rollup import Row
from gssr.store.write.pending import Value
from gssr.store.write.writer import ProcessRow


class SampleWriter(Protocol):
    """The part of gssr.store.write.writer.Writer that the sampler uses; see there for each method."""

    due: float
    problem: str | None

    def begin(self, run: Mapping[str, Value], process: Mapping[str, Value], /) -> None:
        """Record the run and this rank's process."""

    def add_gpus(
        self, gpus: Sequence[Mapping[str, Value]], measured: Sequence[str], sampling_seconds: float, /
    ) -> None:
        """Add GPUs, in the order of the positions that rows will name."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add samples."""

    def add_host(self, time: float, values: Sequence[float | None]) -> None:
        """Add a row about the node."""

    def add_workload(self, time: float, values: Sequence[float | None]) -> None:
        """Add a row about the workload's processes."""

    def add_processes(self, gpu: int, time: float, rows: Sequence[ProcessRow]) -> None:
        """Add what runs on a GPU."""

    def event(self, time: float, kind: str, message: str, gpu: int | None = None) -> None:
        """Add an event."""

    def sampled_every(self, seconds: float) -> None:
        """Note the interval at which the run is really sampled."""

    def started(self, time: float) -> None:
        """Note when the workload was started."""

    def tick(self, now: float) -> None:
        """Let out what has come, if it is time."""

    def commit(self, now: float) -> bool:
        """Let out what has come, at once. Returns False where that failed."""

    def finish(self, now: float, exit_code: int | None, state: str, ended_at: float, /) -> bool:
        """Let out the rest, and the end of the run. Returns False where not all of it could be written."""

    @property
    def moved(self) -> bool:
        """True if what is written to has been taken away."""

    @property
    def totals(self) -> Mapping[int, Sequence[float]]:
        """The statistics of the whole run of each GPU; of lines, nothing."""
