"""Which intervals lie within which, and a track drawn level by level. Nesting is not stored: starts and ends tell it."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.model.traces.cells import MOST, in_order

_DEEPEST = 256
"""Levels; what lies deeper has the parent that lies there."""


def nesting(start: Ints, length: Ints, track: NDArray[np.int32], order: Ints | None = None) -> tuple[Ints, Ints]:
    """Find out which intervals lie within which others of their track. The intervals ascend by start, of the same start the
    longer first; one without length counts as 1 ns. ``order``: ``in_order(track)``, where it is known.

    Returns two arrays [n]: the depth (in how many intervals of its track each one lies), and the parent (the place of the
    innermost of them, -1 for none).
    """
    n = len(start)
    if not n:
        return start, start
    order = in_order(track) if order is None else order
    own = track[order].astype(np.int64)
    begins = start[order]
    depth = np.empty(n, np.int64)
    longest = int(begins.max() - begins.min()) + max(int(length.max()), 1) + 1
    at_once = max(MOST // longest, 1)
    edges = np.searchsorted(own, np.arange(int(own[0]), int(own[-1]) + 1, at_once)).tolist()
    for a, b in zip(edges, [*edges[1:], n], strict=True):
        if a < b:  # track after track on one line of time
            begun = begins[a:b] - begins.min() + (own[a:b] - own[a]) * longest
            ended = np.sort(begun + np.maximum(length[order[a:b]], 1))
            depth[a:b] = np.arange(b - a) - np.searchsorted(ended, begun, "right")
    depth = np.minimum(depth, _DEEPEST)
    parent = np.full(n, -1, np.int64)
    levels = np.split(np.argsort(depth.astype(np.int16), kind="stable"), np.cumsum(np.bincount(depth))[:-1])
    for above, level in pairwise(levels):
        if len(level) and len(above):
            parent[level] = above[np.searchsorted(above, level) - 1]
    depths, parents = np.empty(n, np.int64), np.empty(n, np.int64)
    depths[order] = depth
    parents[order] = np.where(parent >= 0, order[parent], -1)
    return depths, parents


class Lanes(NamedTuple):
    """Tracks level by level: lane k is level ``level`` of track ``track`` [n_lanes]. ``item`` [n_lanes, n_columns]: the
    interval (its place in the timeline) that has most of a column, -1 where there is none; ``share``: how much of the column
    all intervals of the lane have, 0-1. ``places``: all intervals of these tracks [n], and the lane of each."""

    track: Ints
    level: Ints
    item: Ints
    share: Floats
    places: Ints
    lane: Ints


def lanes(start: Ints, length: Ints, track: NDArray[np.int32], wanted: Flags, begin: int, width: int, n: int) -> Lanes:
    """Draw the tracks that are ``wanted`` [n_tracks] level by level, in ``n`` columns of ``width`` ns from ``begin`` on."""
    places = np.flatnonzero(wanted[track])
    own, first, size = track[places], start[places], length[places]
    depth, _ = nesting(first, size, own)
    keys, lane = np.unique(own.astype(np.int64) * (_DEEPEST + 1) + depth, return_inverse=True)
    n_lanes = len(keys)
    end, stop = first + np.maximum(size, 1), begin + n * width
    near = np.flatnonzero((end > begin) & (first < stop))
    from_, to = np.maximum(first[near], begin) - begin, np.minimum(end[near], stop) - begin
    one, other, row = from_ // width, (to - 1) // width, lane[near] * n
    item, covered = np.full(n_lanes * n, -1, np.int64), np.zeros(n_lanes * n)
    share = np.where(one == other, to - from_, (one + 1) * width - from_)
    several = np.flatnonzero(other > one)
    cell = np.concatenate([row + one, (row + other)[several]])
    part = np.concatenate([share, (to - other * width)[several]])
    which = np.concatenate([near, near[several]])
    rank = np.argsort(part, kind="stable")
    item[cell[rank]] = places[which[rank]]  # of several the last stays: the longest
    covered += np.bincount(cell, part, n_lanes * n)
    for k in several[other[several] > one[several] + 1].tolist():  # each has at least a column to itself
        whole = slice(row[k] + one[k] + 1, row[k] + other[k])
        item[whole], covered[whole] = places[near[k]], width
    shape = (n_lanes, n)
    shares = np.minimum(covered / width, 1.0)
    level = keys % (_DEEPEST + 1)
    return Lanes(keys // (_DEEPEST + 1), level, item.reshape(shape), shares.reshape(shape), places, lane)


def open_at(start: Ints, length: Ints, track: NDArray[np.int32], wanted: Flags, time: int) -> dict[int, list[int]]:
    """Find the intervals that are open at a time on the tracks that are ``wanted`` [n_tracks]. Returns places by track, the
    innermost first."""
    begun = int(np.searchsorted(start, time, "right"))
    found: dict[int, list[int]] = {}
    for place in np.flatnonzero((start[:begun] + np.maximum(length[:begun], 1) > time) & wanted[track[:begun]])[
        ::-1
    ].tolist():
        found.setdefault(int(track[place]), []).append(place)
    return found


def within(start: Ints, length: Ints, track: NDArray[np.int32], place: int) -> list[int]:
    """Find the intervals of its track in which the one at this place lies. Returns places, the innermost first."""
    before = np.flatnonzero(track[: place + 1] == track[place])[:-1]
    around = before[start[before] + length[before] >= start[place] + max(int(length[place]), 1)]
    return around[::-1].tolist()  # type: ignore[no-any-return]
