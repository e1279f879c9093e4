"""Counters that follow from a trace's intervals: how much work waits in a stream, and how many bytes per second copies
move."""

from collections.abc import Iterator

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece
from gssr.traces.timeline import BUSY, OPERATIONS, Counter, Kind

MOST_WORK = 1_000_000
"""Pieces of work beyond which no counters are derived: they take 32 bytes for each."""


def derived_counters(part: TracePiece, links: Links) -> tuple[Counter, ...]:
    """Return for each stream how many launches had not begun, "queue length, stream 7", and for each GPU and kind of copy
    the bytes per second of the copies that ran, "bandwidth, HtoD": their sizes over their lengths, added up. Launches that
    the trace does not tell, and copies of unknown size, do not count; there are no counters with more than MOST_WORK."""
    if part.like_hta or len(links.rows) > MOST_WORK:
        return ()
    return (*_queues(part, links), *_bandwidths(part, links))


def _queues(part: TracePiece, links: Links) -> Iterator[Counter]:
    own = part.timeline.intervals
    linked = (links.call >= 0) & np.isin(own.kind[links.rows], BUSY)
    rows, call = links.rows[linked], links.call[linked]
    track = own.track[rows]
    for at in np.unique(track).tolist():
        mine = track == at
        launched, started = part.start[call[mine]], part.start[rows[mine]]
        time, waiting = _added_up(np.minimum(launched, started), started, np.ones(len(started)))
        stream = part.timeline.tracks[at].stream
        yield Counter(f"queue length, stream {'?' if stream is None else stream}", "", "gauge", time, waiting, at)


def _bandwidths(part: TracePiece, links: Links) -> Iterator[Counter]:
    own = part.timeline.intervals
    sized = np.isin(own.kind[links.rows], (Kind.MEMCPY, Kind.MEMSET))
    rows = links.rows[sized]
    rows = rows[(own.size[rows] > 0) & (part.length[rows] > 0) & (part.gpu_of[own.track[rows]] >= 0)]
    gpu = part.gpu_of[own.track[rows]]
    code = gpu * len(OPERATIONS) + own.operation[rows]
    for one in np.unique(code).tolist():
        mine = rows[code == one]
        rate = own.size[mine] / own.length[mine] * 1e9
        time, value = _added_up(*part.times(mine), rate)
        yield Counter(
            f"bandwidth, {OPERATIONS[one % len(OPERATIONS)]}", "B/s", "gauge", time, value, int(own.track[mine[0]])
        )


def _added_up(begin: Ints, end: Ints, weight: Floats) -> tuple[Ints, Floats]:
    """Add up the weights of what is between its ``begin`` and its ``end``. Returns the times at which the sum changes,
    ascending, each once, and the sum from there on; exactly 0 where nothing is."""
    times, place = np.unique(np.concatenate([begin, end]), return_inverse=True)
    change = np.bincount(place, np.concatenate([weight, -weight]))
    n = np.bincount(place, np.repeat([1.0, -1.0], len(begin)))
    return times, np.where(np.cumsum(n) > 0, np.cumsum(change), 0.0)
