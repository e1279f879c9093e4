"""What belongs together in an OTF2 archive: entering and leaving, beginning and completing, sending and receiving."""

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Ints

_FAR = 1 << 32


class Regions:
    """Regions as columns [n], location by location in the order in which they were entered. ``place``: the location;
    ``start``: ns; ``length``: ns, -1 if it was not left, -2 if it ended before it began; ``region``: its number.
    ``n_alone``: leaves without an enter; ``n_other``: regions that were left under another region's name."""

    def __init__(self, place: NDArray[np.int32], time: Ints, code: Ints) -> None:
        """Match each enter of some locations with the next leave on its level. Enters and leaves are columns [n], location
        by location in their order: ``place``: the location, ``time``: ns, ``code``: region + 1 for an enter, -1 - region
        for a leave. Leaves without an enter are dropped."""
        is_first = np.append(True, place[1:] != place[:-1])[: len(place)]
        number = np.cumsum(is_first) - 1
        step = np.sign(code)
        depth = np.cumsum(step)
        depth -= (depth - step)[is_first][number]
        lowest = np.minimum.accumulate(np.minimum(depth, 0) - number * _FAR) + number * _FAR
        before = np.append(0, lowest[:-1])[: len(lowest)]
        alone = lowest < np.where(is_first, 0, before)
        self.n_alone = int(np.count_nonzero(alone))
        self._kept_before = None
        if self.n_alone:
            self._kept_before = np.append(0, np.cumsum(~alone))
            place, time, code, depth = place[~alone], time[~alone], code[~alone], (depth - lowest)[~alone]
        level = depth - (code > 0)
        small = level.astype(np.int16) if len(level) and level.max() < 1 << 15 else level  # these are sorted at once
        order = np.argsort(small, kind="stable")
        self._code, self._depth, self._level, self._order = code, depth, level, order
        is_enter = code[order] > 0
        follows = (level[order[1:]] == level[order[:-1]]) & ~is_enter[1:]
        follows &= place[order[1:]] == place[order[:-1]]
        until = np.full(len(code), -1)
        begins = np.flatnonzero(is_enter[:-1] & follows)
        until[order[begins]] = order[begins + 1]
        at = np.flatnonzero(code > 0)
        until = until[at]
        self.place, self.start, self.region = place[at], time[at], code[at] - 1
        ended = until >= 0
        length = np.full(len(at), -1)
        length[ended] = time[until[ended]] - self.start[ended]
        self.length = np.where(ended & (length < 0), -2, length)
        self.n_other = int(np.count_nonzero(code[until[ended]] != -1 - self.region[ended]))

    def open_at(self, first: Ints, events: Ints) -> Ints:
        """Find the innermost region that is open at some moments, int64[n], -1 if none is.

        Args:
            first: index of the first enter or leave of the moment's location, int64[n].
            events: number of enters and leaves, of all locations, before the moment, int64[n].
        """
        if not len(self._code):
            return np.full(len(events), -1)
        if self._kept_before is not None:
            first, events = self._kept_before[first], self._kept_before[events]
        depth = np.where(events > first, self._depth[np.maximum(events - 1, 0)], 0)
        n = len(self._code) + 1
        key = self._level[self._order] * n + self._order
        at = np.searchsorted(key, (depth - 1) * n + events) - 1
        return np.where(depth > 0, self._code[self._order[np.maximum(at, 0)]] - 1, -1)


def paired(keys: tuple[Ints, ...], is_end: Flags) -> tuple[Ints, Ints]:
    """Pair begins with ends among rows [n] that are in the order of time. An end is paired with the row right before it
    among rows with the same ``keys`` if that is a begin. Returns the row indices of the begins, and those of their
    ends, int64[pairs] each."""
    rows = np.arange(len(is_end))
    order = np.lexsort((rows, *keys))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        own = key[order]
        same &= own[1:] == own[:-1]
    end = is_end[order]
    at = np.flatnonzero(same & ~end[:-1] & end[1:]) if len(order) else order
    return order[at], order[at + 1]


def matched(sent: tuple[Ints, ...], received: tuple[Ints, ...]) -> tuple[Ints, Ints]:
    """Match sends with receives: the k-th send of a key belongs to the k-th receive of the same key. Both are tuples of
    key columns, in the order of the calls. Returns indices of sends and of receives, int64[n] each, -1 on the side
    where a partner is missing."""
    n = len(sent[0])
    code = np.zeros(n + len(received[0]), np.int64)
    for one, other in zip(sent, received, strict=True):
        _, own = np.unique(np.append(one, other), return_inverse=True)
        _, code = np.unique(code * (int(own.max(initial=0)) + 1) + own, return_inverse=True)
    number = np.append(_number_in(code[:n]), _number_in(code[n:]))
    both = code * (int(number.max(initial=0)) + 1) + number
    place, at = np.unique(both, return_inverse=True)
    found = np.full((2, len(place)), -1)
    found[0, at[:n]] = np.arange(n)
    found[1, at[n:]] = np.arange(len(code) - n)
    return found[0], found[1]


def _number_in(code: Ints) -> Ints:
    """Number the rows of each code [n], from 0 on."""
    order = np.argsort(code, kind="stable")
    own = code[order]
    first = np.searchsorted(own, own)
    number = np.empty(len(code), np.int64)
    number[order] = np.arange(len(code)) - first
    return number


def waits(
    track: NDArray[np.int32], start: Ints, length: Ints, comm: Ints, kind: Ints, n_members: Ints
) -> tuple[Ints, int]:
    """Return how long each part of a collective operation waits, and how many parts are known not to fit together.

    The wait, int64[n] in ns, is from its own start until the last rank has begun, at most its length. It is -1 where
    not all ``n_members`` of the communicator are among the parts, or where they are of different ``kind``. The k-th
    part of a track on a communicator belongs together with the k-th parts of the others.
    """
    order = np.lexsort((start, track, comm))
    code = comm[order] * (int(track.max(initial=0)) + 1) + track[order]
    first = np.searchsorted(code, code)
    number = np.empty(len(start), np.int64)
    number[order] = np.arange(len(start)) - first
    _, at = np.unique(comm * (int(number.max(initial=0)) + 1) + number, return_inverse=True)
    n = int(at.max(initial=-1)) + 1
    last, least, most = np.full(n, -(1 << 62)), np.full(n, 1 << 30), np.full(n, -1)
    np.maximum.at(last, at, start)
    np.minimum.at(least, at, kind)
    np.maximum.at(most, at, kind)
    agree = (least == most)[at]
    whole = np.bincount(at, minlength=n)[at] == n_members
    wait = np.clip(last[at] - start, 0, np.maximum(length, 0)) if n else start
    return np.where(agree & whole, wait, -1), int(np.count_nonzero(~agree))
