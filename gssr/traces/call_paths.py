"""Trees of calls as arrays: nodes that each name their caller, level by level, and those of the same path as one."""

import numpy as np

from gssr.arrays import Flags, Ints


def depths_of(parent: Ints) -> Ints:
    """Count the callers above each node [n_nodes], 0 for a root. ``parent`` [n_nodes]: each node's caller, which stands
    before it."""
    depth = np.zeros(len(parent), np.int64)
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            depth[node] = depth[above] + 1
    return depth


def by_depth(depth: Ints) -> list[Ints]:
    """Group the nodes by their depth, the roots first. Returns for each depth the indices of its nodes, ascending; []
    without nodes."""
    return np.split(np.argsort(depth, kind="stable"), np.cumsum(np.bincount(depth))[:-1]) if len(depth) else []


def merge_paths(parent: Ints, depth: Ints, key: Ints, n_keys: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Merge the nodes that have the same path of keys from the root into one. There must be at least one node.

    ``parent`` [n]: each node's caller, -1 for a root; ``depth`` [n]: the number of its callers; ``key`` [n]: what it
    is, from 0 up to ``n_keys`` - 1. Returns the merged node of each node [n], and for each merged node [n_found] its
    caller (a merged node, -1 for a root), its key, and the first node that became it. Callers stand before the nodes
    that they call.
    """
    node = np.zeros(len(parent), np.int64)
    parents, keys, firsts, n = [], [], [], 0
    for level in by_depth(depth):
        above = np.where(parent[level] >= 0, node[parent[level]], -1)
        code, first, of = np.unique((above + 1) * n_keys + key[level], return_index=True, return_inverse=True)
        node[level] = n + of
        parents.append(code // n_keys - 1)
        keys.append(code % n_keys)
        firsts.append(level[first])
        n += len(code)
    return node, np.concatenate(parents), np.concatenate(keys), np.concatenate(firsts)


def is_within_itself(parent: Ints, key: Ints) -> Flags:
    """Flag the nodes [n] that lie below a node with the same key."""
    found, above, rows = np.zeros(len(parent), np.bool_), parent, np.arange(len(parent))
    while len(rows):
        inside = above >= 0
        rows, above = rows[inside], above[inside]
        same = key[above] == key[rows]
        found[rows[same]] = True
        rows, above = rows[~same], parent[above[~same]]
    return found
