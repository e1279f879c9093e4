"""Waits of the host, which CUPTI lists by stream: the stream itself does not wait in them."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gssr.traces.timeline import BUSY, Intervals, Kind, Track

_OF_HOST = re.compile(r"\bsync\b", re.IGNORECASE)
"""Names of a thread's waits for an event, a stream or all of a context ("Stream Sync"); a stream's own wait is called
"Stream Wait Event"."""


def host_waits_apart(
    tracks: Sequence[Track], names: Sequence[str], own: Intervals
) -> tuple[tuple[Track, ...], Intervals]:
    """Move waits in which no stream waits from the tracks of streams to new tracks of kind "host_wait".

    These are waits of the host (whose calls are on its threads as well), and all waits on GPUs that do nothing else, as
    CUPTI does not know the device of a wait. Returns all tracks, the old ones at their old positions, and the
    intervals, whose ``track`` has changed. A stream that has nothing left becomes a "host_wait" itself if its GPU does
    nothing.
    """
    rows = np.flatnonzero(own.kind == Kind.GPU_SYNC)
    if not len(rows):
        return tuple(tracks), own
    works = np.zeros(len(tracks), np.bool_)
    works[own.track[np.isin(own.kind, BUSY)]] = True
    working = {_gpu(tracks[at]) for at in np.flatnonzero(works).tolist()}
    is_idle = np.array([track.kind == "gpu_stream" and _gpu(track) not in working for track in tracks])
    of_host = np.array([_OF_HOST.search(name) is not None for name in names])
    rows = rows[of_host[own.name[rows]] | is_idle[own.track[rows]]]
    if not len(rows):
        return tuple(tracks), own
    before, place = np.unique(own.track[rows], return_inverse=True)
    track = own.track.copy()
    track[rows] = (len(tracks) + place).astype(np.int32)
    left = np.zeros(len(tracks), np.bool_)
    left[track[track < len(tracks)]] = True
    added = [tracks[at]._replace(kind="host_wait") for at in before.tolist()]
    kept = [one if left[at] or not is_idle[at] else one._replace(kind="host_wait") for at, one in enumerate(tracks)]
    return (*kept, *added), replace(own, track=track)


def _gpu(track: Track) -> tuple[object, ...]:
    return track.rank, track.node, track.pid, track.device
