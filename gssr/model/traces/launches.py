"""Which call launched which work of a GPU, how long that took to begin, and how much of it waited."""

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.lengths import lengths_of
from gssr.model.traces.part import TracePiece
from gssr.model.traces.segments import in_parts
from gssr.model.traces.trace_results import Launches
from gssr.traces.timeline import NO_LINK, Kind

SHORT_CALL = 50_000
"""A call of more ns is slow (HolisticTraceAnalysis' cut-off)."""
LONG_DELAY = 100_000
"""A delay of more ns is long (HolisticTraceAnalysis' cut-off)."""
QUEUE = 1024
"""So much work a stream holds: then the next launch waits."""
_AS_HTA = re.compile("^(?:cudaLaunchKernel(?:ExC)?|cudaMemcpyAsync|cudaMemsetAsync)$")
_DENSE = 8


class Links(NamedTuple):
    """A GPU's ``rows``, and the ``call`` [n rows] that launched each: the call's row, -1 where the trace does not tell."""

    rows: Ints
    call: Ints


NONE_LINKED = Links(np.empty(0, np.int64), np.empty(0, np.int64))


def no_calls(rows: Ints) -> Ints:
    """Return the ``call`` [n rows] of Links where no launch is known; it takes no memory."""
    return np.broadcast_to(np.int64(-1), len(rows))


def links_of(part: TracePiece, rows: Ints) -> Links:
    """Find the call of the trace that launched each of these rows of GPUs; of calls that share a correlation the
    outermost."""
    own = part.timeline.intervals
    calls = part.all_rows(Kind.RUNTIME, Kind.DRIVER)
    calls = calls[own.link[calls] != NO_LINK]
    if not len(calls):
        return Links(rows, no_calls(rows))
    found = np.full(len(rows), -1, np.int64)
    link = own.link[calls][::-1]
    low, high = int(link.min()), int(link.max())
    dense = high - low < _DENSE * len(calls) + 1024
    if dense:
        table = np.full(high - low + 1, -1, np.int64)
        table[link - low] = calls[::-1]  # of several the first stays
    else:
        link, first = np.unique(own.link[calls], return_index=True)
    for part_of_rows in in_parts(len(rows)):
        wanted = own.link[rows[part_of_rows]]
        if dense:
            there = np.flatnonzero((wanted >= low) & (wanted <= high) & (wanted != NO_LINK))
            found[part_of_rows][there] = table[wanted[there] - low]
        else:
            at = np.minimum(np.searchsorted(link, wanted), len(link) - 1)
            found[part_of_rows] = np.where((link[at] == wanted) & (wanted != NO_LINK), calls[first[at]], -1)
    return Links(rows, found)


def launches(part: TracePiece, links: Links) -> Launches:
    """Summarize how these rows of work were launched, which ascend by start: delays from call to start, short and slow
    calls, queues. What one call launched counts once, by its first row; work whose call is not known does not count."""
    linked = links.call >= 0
    if part.like_hta:
        linked[linked] = part.is_named(links.call[linked], _AS_HTA.search)
    call, rows = links.call[linked], links.rows[linked]
    first = np.full(int(call.max(initial=-1)) + 1, -1)
    first[call[::-1]] = rows[::-1]
    calls = np.flatnonzero(first >= 0)
    work = np.bincount(call, part.length[rows], len(first))[calls]
    rows = first[calls]
    took = part.length[calls]
    delay = np.maximum(part.start[rows] - part.end(calls), 0)
    queue = _longest_queues(part, rows, calls)
    return Launches(
        len(calls),
        lengths_of(np.zeros(len(calls), np.int64), delay, partial(map, lambda _: ())),
        int(((work < took) & (took <= SHORT_CALL)).sum()),
        int((took > SHORT_CALL).sum()),
        int((delay > LONG_DELAY).sum()),
        int(queue.max(initial=0)),
        int((queue >= QUEUE).sum()),
    )


def _longest_queues(part: TracePiece, rows: Ints, calls: Ints) -> Ints:
    """Return for each stream the most kernels and copies that were launched but had not begun at one time.

    ``rows`` and ``calls`` [n]: the work and the calls that launched it, as rows of the intervals. Empty if there are
    none.
    """
    track = part.timeline.intervals.track[rows]
    order = np.lexsort((part.start[calls], track)) if len(np.unique(track)) > 1 else np.argsort(part.start[calls])
    edges = [0, *(np.flatnonzero(np.diff(track[order])) + 1).tolist(), len(order)] if len(order) else [0]
    most = []
    for first, last in pairwise(edges):
        own = order[first:last]
        begun = np.searchsorted(np.sort(part.start[rows[own]]), part.start[calls[own]], "right")
        most.append(int((np.arange(1, len(own) + 1) - begun).max()))
    return np.array(most, np.int64)


def work_by_thread(part: TracePiece, links: Links) -> tuple[Ints, Callable[[Ints], tuple[Ints, Ints]]]:
    """Put the work whose launch is known in the order of threads, and on a thread in that of launches. Returns its rows, and
    a function that takes rows of intervals [n] and finds what was launched on the thread of each while it lasted: the first
    place among that work, and the place behind the last, [n] both."""
    linked = links.call >= 0
    call, rows = links.call[linked], links.rows[linked]
    track_of = part.timeline.intervals.track
    low = int(part.start.min(initial=0))
    span = int((part.start + part.length).max(initial=0)) - low
    bits = span.bit_length()
    coarse = max(bits + len(part.timeline.tracks).bit_length() - 62, 0)

    def key_of(track: "np.ndarray[tuple[int], np.dtype[np.int32]]", time: Ints) -> Ints:
        """Make numbers that ascend by track and time. (Where there are so many tracks and so long a time that both need
        more than 62 bits, time counts in units of several ns.)"""
        return (track.astype(np.int64) << (bits - coarse)) | ((time - low) >> coarse)

    key = key_of(track_of[call], part.start[call])
    order = np.argsort(key, kind="stable")
    keys = key[order]

    def launched_within(rows: Ints) -> tuple[Ints, Ints]:
        first, last = (np.searchsorted(keys, key_of(track_of[rows], times)) for times in part.times(rows))
        return first, last

    return rows[order], launched_within


def time_launched_within(part: TracePiece, links: Links) -> Callable[[Ints], Ints]:
    """Prepare to tell how long what a thread launched kept a GPU busy. Returns a function that takes rows of intervals
    and adds up the time of the work that was launched on the thread of each while it lasted: ns of all GPUs together
    [n rows]."""
    work, launched_within = work_by_thread(part, links)
    ahead = np.concatenate([[0], np.cumsum(part.length[work])])

    def launched_time(rows: Ints) -> Ints:
        """Add up the time (ns) of the work that was launched within each of these rows [n]."""
        first, last = launched_within(rows)
        return np.asarray(ahead[last] - ahead[first], np.int64)

    return launched_time
