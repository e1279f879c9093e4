"""Similar GPUs in bands: which GPUs run alike over a window of time, so that thousands fit on a screen and one that does
not run like the others has a line of its own.

Each GPU is a point: its means over a few equal parts of the window, as shares of the full scale, and how much of each part
it has no samples in. Two GPUs are as far apart as the root mean square of their parts' differences. Bands are made by
farthest-point traversal (Gonzalez, Theoretical Computer Science 38, 1985): the first centre is the GPU most like the median,
and the GPU farthest from all centres becomes the next one until all are similar to one; each belongs to the nearest. So
stragglers are found first, whatever their number, and one GPU among thousands is worth a band. One pass over the points for
each centre.

GPUs whose means are outliers (gssr.model.statistics.balance) never share a band with others. A grouping is kept as long as
it fits: a band must not jump because one column was added.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints

PARTS = 16
"""Parts of the window that a GPU's course is seen in."""
SIMILAR = 0.10
"""GPUs nearer than this share of the full scale are alike (a threshold of our own)."""
ABSENT = 0.30
"""A part without samples is as far from one with samples as this share of the full scale (a threshold of our own)."""
_APART = 10.0
"""How far outliers are from the others."""
_BETTER = 1.25
"""A new grouping replaces the old one when that is wider by more than this factor ..."""
_MERGED = SIMILAR / 2
"""... or when two of its bands have come as near as this."""
_TIE = 1e-9
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Bands(NamedTuple):
    """``owner`` [n_gpus]: the band of each GPU; ``names``: a letter for each band."""

    names: tuple[str, ...]
    owner: Ints

    def members(self, band: int) -> Ints:
        """Return the indices of the GPUs in a band, ascending."""
        return np.flatnonzero(self.owner == band)


def bands(values: Floats, full: float, apart: Flags, at_most: int, before: Bands | None = None) -> Bands:
    """Group GPUs that run alike into at most ``at_most`` bands (1-26).

    Args:
        values: [n_gpus, n_columns], NaN if missing; ``full`` fills their axis.
        apart: [n_gpus], which GPUs are outliers; these never share a band with others.
        before: Bands of the same GPUs a moment ago. They are returned if they still fit; else new bands take the
            letters of those whose GPUs they have.

    At first A is the largest band, and the outliers come last. No bands without GPUs.
    """
    if not len(values):
        return Bands((), np.zeros(0, np.int64))
    at_most = min(max(at_most, 1), len(LETTERS))
    points = _points(values / full if full != 1 else values, apart)
    found = _nearest_centres(points, at_most)
    if before is not None and len(before.owner) == len(points) and len(before.names) <= at_most:
        if _still_fits(points, before.owner, found):
            return before
        return _name_groups(found, apart, before)
    return _name_groups(found, apart, None)


def _points(values: Floats, apart: Flags) -> Floats:
    """Make a point for each GPU [n_gpus, dimensions], so that distances are differences in shares of the full scale.

    ``values`` [n_gpus, n_columns]: in these shares, NaN where missing. They are averaged in parts of the time; a part
    without samples has the median GPU's mean, and its being absent is a dimension of its own. ``apart`` [n_gpus] flags
    outliers, which lie far from all others.
    """
    n_columns = values.shape[1]
    edges = np.unique(np.arange(PARTS) * n_columns // PARTS) if n_columns else np.zeros(0, np.int64)
    if not len(edges):
        return np.where(apart, _APART, 0.0)[:, None]
    sizes = np.diff(edges, append=n_columns)
    means = np.add.reduceat(values, edges, axis=1) / sizes
    holes = np.flatnonzero(np.isnan(means).any(axis=1))
    absent = np.zeros(means.shape)
    if len(holes):
        known = np.isfinite(values[holes])
        n = np.add.reduceat(known, edges, axis=1, dtype=np.float64)
        totals = np.add.reduceat(np.where(known, values[holes], 0.0), edges, axis=1)
        means[holes] = np.divide(totals, n, out=np.full(totals.shape, np.nan), where=n > 0)
        means = np.where(np.isnan(means), _middle(means), means)
        absent[holes] = ABSENT * (1 - n / sizes)
    seen = [np.clip(means, 0.0, 1.5), absent] if len(holes) else [np.clip(means, 0.0, 1.5)]
    weights = np.sqrt(sizes / n_columns)
    points: Floats = np.concatenate([*(each * weights for each in seen), np.where(apart, _APART, 0.0)[:, None]], axis=1)
    return points


def _middle(means: Floats) -> Floats:
    """Return the median GPU's mean in each part [parts]; 0 if nobody has samples there."""
    known = np.isfinite(means)
    n = known.sum(axis=0)
    ordered = np.sort(means, axis=0)  # NaN last
    middle = ordered[np.maximum(n - 1, 0) // 2, np.arange(means.shape[1])]
    return np.asarray(np.where(n > 0, middle, 0.0), np.float64)


def _nearest_centres(points: Floats, at_most: int) -> Ints:
    """Choose at most ``at_most`` of the points [n_gpus, dimensions] as centres, until all are SIMILAR to one. Returns for
    each point [n_gpus] the number of the nearest one."""
    lengths = np.einsum("ij,ij->i", points, points)

    def squared(centre: Floats) -> Floats:
        found: Floats = lengths + centre @ centre - 2 * (points @ centre)
        return found

    nearest = squared(points[_least(squared(np.median(points, axis=0)), points)])
    owner = np.zeros(len(points), np.int64)
    for number in range(1, at_most):
        if nearest.max() < SIMILAR**2:
            break
        distance = squared(points[_least(-nearest, points)])
        nearer = distance < nearest
        owner[nearer] = number
        nearest = np.where(nearer, distance, nearest)
    return np.asarray(np.unique(owner, return_inverse=True)[1], np.int64)


def _least(values: Floats, points: Floats) -> int:
    """Return the position of the least value; of several, that of the point that comes first by its coordinates, as
    the order of the GPUs must not matter."""
    tied = np.flatnonzero(values <= values.min() + _TIE)
    if len(tied) > 1:
        tied = tied[np.lexsort(np.round(points[tied], 9).T[::-1])]
    return int(tied[0])


def _centroids(points: Floats, owner: Ints, n: int) -> Floats:
    """Return the mean point of each of ``n`` groups [n, dimensions], none of which may be empty."""
    sizes = np.bincount(owner, minlength=n)
    sums = [np.bincount(owner, points[:, dimension], n) for dimension in range(points.shape[1])]
    return np.asarray(np.stack(sums, axis=1) / sizes[:, None], np.float64)


def _between(centres: Floats) -> Floats:
    """Return the distances between these points [n, n]; infinity from each to itself."""
    apart = centres[:, None, :] - centres[None, :, :]
    distance: Floats = np.sqrt((apart**2).sum(axis=-1))
    np.fill_diagonal(distance, np.inf)
    return distance


def _still_fits(points: Floats, old: Ints, new: Ints) -> bool:
    """Tell whether the ``old`` grouping is still nearly as good as the ``new`` one (both: group of each point)."""
    n = int(old.max()) + 1
    centres = _centroids(points, old, n)
    near = n > 1 and float(_between(centres).min()) < _MERGED
    return not near and _radius(points, old) <= max(SIMILAR, _BETTER * _radius(points, new))


def _radius(points: Floats, owner: Ints) -> float:
    """Return the distance of the farthest point from the mean of its group."""
    offset = points - _centroids(points, owner, int(owner.max()) + 1)[owner]
    return float(np.sqrt(np.einsum("ij,ij->i", offset, offset).max()))


def _name_groups(owner: Ints, apart: Flags, before: Bands | None) -> Bands:
    """Give the groups letters and number them in the order of these. ``owner`` [n_gpus]: the group of each GPU;
    ``apart`` [n_gpus] flags outliers, whose groups come last; ``before``: the bands from before, whose letters go to the
    groups that share most GPUs with them; None: there were none."""
    n = int(owner.max()) + 1
    sizes, marked = np.bincount(owner, minlength=n), np.bincount(owner, apart, n) > 0
    first = np.full(n, len(owner))
    np.minimum.at(first, owner, np.arange(len(owner)))
    order = sorted(range(n), key=lambda group: (marked[group], -sizes[group], first[group]))
    letter: dict[int, str] = {}
    if before is not None:
        shared = np.zeros((n, len(before.names)), np.int64)
        np.add.at(shared, (owner, before.owner), 1)
        for place in np.argsort(-shared, axis=None, kind="stable").tolist():
            group, old = divmod(place, len(before.names))
            if shared[group, old] and group not in letter and before.names[old] not in letter.values():
                letter[group] = before.names[old]
    free = iter(sorted(set(LETTERS) - set(letter.values())))
    for group in order:
        if group not in letter:
            letter[group] = next(free)
    names = sorted(letter.values())
    number = np.array([names.index(letter[group]) for group in range(n)], np.int64)
    return Bands(tuple(names), number[owner])
