"""Functions in which samples of call paths found the program's threads."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from gssr.model.traces.add_rows import add_up
from gssr.model.traces.call_tree import with_callees
from gssr.model.traces.part import TracePiece
from gssr.model.traces.trace_results import SampledFunction
from gssr.traces.call_paths import depths_of, is_within_itself


def sampled_functions(part: TracePiece) -> tuple[SampledFunction, ...]:
    """Count the samples of the threads and the time that are looked at, by function, the most samples of its own first."""
    samples = part.timeline.samples
    if samples is None:
        return ()
    chosen = (samples.time >= part.window[0]) & (part.whole | (samples.time < part.window[1]))
    chosen &= True if part.on is None else part.on[samples.track]
    own = np.bincount(samples.path[chosen], minlength=len(samples.parent)).astype(np.float64)
    with_called = with_callees(own, samples.parent, depths_of(samples.parent))
    outermost = ~is_within_itself(samples.parent, samples.name)
    names, domains = part.timeline.names, part.timeline.domains
    exclusive = np.bincount(samples.name, own, len(names))
    inclusive = np.bincount(samples.name[outermost], with_called[outermost], len(names))
    return both_sampled(
        SampledFunction(names[at], domains.get(names[at], "").lower(), int(exclusive[at]), int(inclusive[at]))
        for at in np.flatnonzero(inclusive).tolist()
    )


def both_sampled(*parts: Iterable[SampledFunction]) -> tuple[SampledFunction, ...]:
    """Add up the samples of several files by function, the most samples of its own first."""
    return tuple(sorted(add_up(chain(*parts), 2), key=lambda each: (-each.exclusive, -each.inclusive, each.name)))
