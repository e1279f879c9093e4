"""Which nodes' clocks are off those of most nodes of their run, and by how much.

Each node's clock was compared with one clock, that of the shared filesystem, when its recording began
(``processes.clock_offset``). What is off by more than a sampling interval, and by more than the comparison may be wrong, is
taken off when a recording is read (gssr.store.read.run_clocks); less than that changes no picture. Files keep what each
node's own clock told.
"""

from collections.abc import Iterable
from statistics import median_low

from gssr.store.format.rows import Process


def clocks_ahead(processes: Iterable[Process], sampling_seconds: float) -> dict[str | None, tuple[float, float]]:
    """Find the nodes whose clocks are off from the median node's by more than the sampling interval and the error of both.
    Returns by node how far each is ahead, s (negative: behind), and by how many s that may be wrong. {} if all agree, or
    fewer than two nodes' are known."""
    offsets = {
        process.node: (process.clock_offset, process.clock_error or 0.0)
        for process in processes
        if process.clock_offset is not None
    }
    if len(offsets) < 2:
        return {}
    usual, usual_error = offsets[median_low((offset, node or "", node) for node, (offset, _) in offsets.items())[2]]
    ahead = {
        node: (offset - usual, error + usual_error)
        for node, (offset, error) in sorted(offsets.items(), key=lambda pair: pair[0] or "")
    }
    return {node: (off, error) for node, (off, error) in ahead.items() if abs(off) > max(sampling_seconds, error)}
