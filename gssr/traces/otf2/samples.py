"""Samples of call paths in an OTF2 archive: the paths, and the frames that a thread's line shows of them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.traces.call_paths import merge_paths

_DEEPEST = 128
"""Callers of a function. Calling contexts with more, or that call themselves, are damaged, and count as not defined."""


class CallPaths(NamedTuple):
    """The call paths that an archive's calling contexts stand for, whatever line each is at. ``contexts`` [n_contexts]:
    their numbers, ascending, and ``path_of`` the path of each; ``parent`` [n_paths]: the caller's path, -1 for none;
    ``depth``: how many callers there are; ``region``: the number of the region that was called."""

    contexts: Ints
    path_of: Ints
    parent: Ints
    depth: Ints
    region: Ints

    def find_paths(self, contexts: Ints) -> Ints:
        """Look up the path of each of these calling contexts [n], by their numbers in the archive. Returns numbers of paths
        [n], -1 for a context that is not defined."""
        if not len(self.contexts):
            return np.full(len(contexts), -1)
        at = np.minimum(np.searchsorted(self.contexts, contexts), len(self.contexts) - 1)
        return np.where(self.contexts[at] == contexts, self.path_of[at], -1)


def call_paths(definitions: Sequence[Sequence[Any]]) -> CallPaths:
    """Make the call paths of an archive's calling contexts. ``definitions``: a row for each, of its number, region,
    line and its caller's number; contexts with more than _DEEPEST callers are left out."""
    rows = np.array([(row[0], row[1], row[3]) for row in definitions], np.int64).reshape(-1, 3)
    contexts, first = np.unique(rows[:, 0], return_index=True)
    called, above = rows[first, 1], np.searchsorted(contexts, rows[first, 2])
    parent = np.where(np.append(contexts, -1)[above] == rows[first, 2], above, -1)
    depth, above = np.zeros(len(contexts), np.int64), parent
    for _ in range(_DEEPEST):
        depth += above >= 0
        above = np.where(above >= 0, np.append(parent, -1)[above], -1)
    sound = np.flatnonzero(above < 0)
    if not len(sound):
        return CallPaths(*(np.empty(0, np.int64) for _ in range(5)))
    place = np.full(len(contexts) + 1, -1)
    place[sound] = np.arange(len(sound))
    regions, key = np.unique(called[sound], return_inverse=True)
    path, parents, keys, one = merge_paths(place[parent[sound]], depth[sound], key, len(regions))
    return CallPaths(contexts[sound], path, parents, depth[sound][one], regions[keys])


def frames(paths: CallPaths, path: Ints, goes_on: Flags, region: Ints) -> Iterator[Ints]:
    """Yield, level by level, the innermost first, the functions in which samples [n] found their threads: int64[3, k] with
    the first and the last sample of each, and its path. Samples that follow one another in one function are one.

    Args:
        paths: the call paths.
        path: that of each sample, thread by thread in the order of time.
        goes_on: whether nothing but the sample before has happened on the thread since that.
        region: the traced region that is open, -1 for none. What is outside of it is left out.
    """
    at, is_outside = path.copy(), np.zeros(len(path), np.bool_)
    for level in range(int(paths.depth[path].max(initial=-1)), -1, -1):
        deeper = np.flatnonzero(paths.depth[at] > level)
        at[deeper] = paths.parent[at[deeper]]
        is_here = paths.depth[at] == level
        is_outside |= is_here & (paths.region[at] == region)
        is_here &= ~is_outside
        follows = np.append(False, (at[1:] == at[:-1]) & is_here[:-1])[: len(at)] & goes_on & is_here
        first = np.flatnonzero(is_here & ~follows)
        last = np.flatnonzero(is_here & ~np.append(follows, False)[1:])
        yield np.stack([first, last, at[first]])
