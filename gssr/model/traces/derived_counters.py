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
    """Return for each stream how many launches had not begun, "queue length, stream 7", and for each GPU and kind of
    copy or memset the bytes per second of those that ran, "bandwidth, HtoD": their sizes over their lengths, added up.
    Launches that the trace does not tell, and copies of unknown size, do not count. There are no counters of a part with
    more than MOST_WORK pieces of work, nor of one that is analyzed as HTA does."""
    if part.like_hta or len(links.rows) > MOST_WORK:
        return ()
    return (*_count_waiting_launches(part, links), *_add_up_bandwidths(part, links))


def _count_waiting_launches(part: TracePiece, links: Links) -> Iterator[Counter]:
    """Count the launches that wait in each stream: from the begin of the call that launched until the work begins.
    Yields a counter for each stream with work whose call is known."""
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


def _add_up_bandwidths(part: TracePiece, links: Links) -> Iterator[Counter]:
    """Add up the bytes per second of the copies and memsets that run, of each kind on each GPU. Those without a known
    size, a length or a GPU are left out. Yields the counters by GPU and kind; each is on the track of its first copy."""
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
