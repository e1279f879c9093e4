"""Do the nodes of a run agree on what time it is?

Each was compared with one clock, that of the shared filesystem, when its recording began. Times are stored, and shown, as
each node's own clock told them: the comparison is made once and has an error, and the recording's buckets, its events and
the job's own logs are all in that clock.
"""

from collections.abc import Iterable
from statistics import median_low

from gssr.store.reader import Process

_NAMED = 4


def disagreement(processes: Iterable[Process], sampling_seconds: float) -> str | None:
    """A sentence about the nodes whose clocks are more than a sampling interval (and the error of the comparison) away from
    most others'; None when there are none, or it isn't known."""
    offsets = {
        process.node or "": (process.clock_offset, process.clock_error or 0.0)
        for process in processes
        if process.clock_offset is not None
    }
    if len(offsets) < 2:
        return None
    usual, usual_error = offsets[median_low((offset, node) for node, (offset, _) in offsets.items())[1]]
    ahead = {node: (offset - usual, error + usual_error) for node, (offset, error) in sorted(offsets.items())}
    away = {node: pair for node, pair in ahead.items() if abs(pair[0]) > max(sampling_seconds, pair[1])}
    if not away:
        return None
    named = [
        f"{node} is {_seconds(abs(by))} {'ahead' if by > 0 else 'behind'}"
        for node, (by, _) in list(away.items())[:_NAMED]
    ]
    others = [f"{len(away) - _NAMED} more nodes differ"] if len(away) > _NAMED else []
    error = max(error for _, error in away.values())
    return (
        f"clocks differ by more than a sampling interval: {', '.join([*named, *others])} (within {_seconds(error)}); "
        "every time is by its own node's clock"
    )


def _seconds(seconds: float) -> str:
    return f"{float(f'{seconds:.2g}'):.10g} s"
