"""Which nodes' clocks are off those of most nodes of their run, and by how much.

Each node's clock was compared with one clock, that of the shared filesystem, when its recording began
(``processes.clock_offset``). What is off by more than a sampling interval, and by more than the comparison may be wrong, is
taken off when a recording is read (gssr.store.read.run_clocks); less than that changes no picture. Files keep what each
node's own clock told.
"""

from collections.abc import Iterable
from statistics import median_low
from typing import NamedTuple

from gssr.store.format.rows import Process


class ClockAhead(NamedTuple):
    """How far a node's clock is ahead of that of most nodes: ``seconds`` (negative: behind), with at most ``error`` s
    of doubt."""

    seconds: float
    error: float


def clocks_ahead(processes: Iterable[Process], sampling_seconds: float) -> dict[str | None, ClockAhead]:
    """Find the nodes whose clocks are off from the median node's by more than the sampling interval and the error of
    both. Returns by node how far each is ahead, s (negative: behind), with the error. {} if all agree, or fewer than two
    nodes' are known."""
    offsets = {
        process.node: (process.clock_offset, process.clock_error or 0.0)
        for process in processes
        if process.clock_offset is not None
    }
    if len(offsets) < 2:
        return {}
    usual, usual_error = offsets[median_low((offset, node or "", node) for node, (offset, _) in offsets.items())[2]]
    ahead = {
        node: ClockAhead(offset - usual, error + usual_error)
        for node, (offset, error) in sorted(offsets.items(), key=lambda pair: pair[0] or "")
    }
    return {node: clock for node, clock in ahead.items() if abs(clock.seconds) > max(sampling_seconds, clock.error)}
