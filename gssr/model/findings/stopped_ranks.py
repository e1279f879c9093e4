"""Sentences about the ranks of a run that were lost or failed while it went on."""

import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from gssr.store.format.rank_ends import WHY_LOST, RankEnd, place_of
from gssr.store.format.rows import ranges

_NODES_NAMED = 4
"""Of more nodes than these that lost ranks only the first ones are named."""


def name_exit_code(code: int) -> str:
    """Write an exit code with the signal that it stands for: ``exit code 137 (SIGKILL)``."""
    names = {128 + each: f" ({each.name})" for each in signal.Signals}
    return f"exit code {code}{names.get(code, '')}"


def describe_stopped_ranks(
    stopped: Sequence[RankEnd], unmeasured_gpu_hours: float, clock_time: Callable[[float], str]
) -> Iterator[str]:
    """Yield sentences on which ranks were lost, node by node, and which one failed first.

    Args:
        stopped: The ranks that were lost or failed, in the order in which they did.
        unmeasured_gpu_hours: Those after ranks were lost; above 0 they get a sentence of their own.
        clock_time: Writes a unix time.
    """

    def at(end: RankEnd) -> str:
        return "" if end.time is None else f" at {clock_time(end.time)}"

    lost = sorted((end for end in stopped if end.how == "lost"), key=lambda end: end.node or "")
    nodes = [list(ends) for _, ends in groupby(lost, key=lambda end: end.node)]
    nodes.sort(key=lambda ends: min(end.time or 0.0 for end in ends))
    for ends in nodes[:_NODES_NAMED]:
        first = min(ends, key=lambda end: end.time or 0.0)
        who = place_of(first)
        if len(ends) > 1:
            who = f"ranks {ranges(end.rank for end in ends)}" + (f" on {first.node}" if first.node else "")
        were = "was" if len(ends) == 1 else "were"
        yield f"{who} {were} lost{at(first)}: {WHY_LOST}"
    if len(nodes) > _NODES_NAMED:
        yield f"{len(nodes) - _NODES_NAMED} more nodes lost ranks"
    if unmeasured_gpu_hours > 0:
        yield (
            f"{unmeasured_gpu_hours:.3g} GPU-hours after ranks were lost are not measured: they count as GPU-hours, and "
            "nowhere as use"
        )
    failed = [end for end in stopped if end.how != "lost"]
    if failed:
        first, code = failed[0], failed[0].exit_code
        ended = {"killed": "was killed", "timeout": "ran out of time"}.get(first.how, "failed")
        others = f"; {len(failed) - 1} more failed after it" if len(failed) > 1 else ""
        with_code = f" with {name_exit_code(code)}" if code is not None else ""
        yield f"{place_of(first)} {ended}{at(first)}{with_code}{others}"
