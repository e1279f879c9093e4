"""A run cut into phases, from the data.

1. Start-up and tail are what ``-d all`` would leave out as warm-up and tear-down (gssr.model.window).
2. What lies between is cut where the space average of several metrics at once changes its level (gssr.model.findings.dips),
   in at most MOST_BINS bins; neighbours whose levels differ by less than LEAST_CHANGE are put together again.
3. Dips that come back at least three times from the same level make one recurring phase of everything from the first of
   them to the last; so do dips too short for step 2 (gssr.model.findings.dips), where they have a period.
4. What is then shorter than SHORT of the window, or than SHORT_SECONDS, is no phase of its own, and there are at most MOST
   phases between start-up and tail. One in which nothing is active is idle, every other one steady.

All thresholds are our own.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import BY_NAME, DETECTION_METRICS
from gssr.model.evidence.evidence import Evidence, excerpt
from gssr.model.findings.dips import DEPTH, FEWEST, change_points, cycle, cycle_of, noise
from gssr.model.results import Cycle, Kind, Phase
from gssr.model.statistics.balance import full_scale
from gssr.model.statistics.grid import coarser, means_from
from gssr.model.statistics.roofline import place_under_roofline
from gssr.model.window import ACTIVE_SHARE, IDLE, average_of, warm_up_and_tear_down
from gssr.score import score_of_means
from gssr.store.read.window_edges import Window

METRICS = (DETECTION_METRICS, ("flop_active",), ("dram_active", "memory_copy_utilization"), ("power_usage",))
"""What changes are looked for in: the first that was measured of each."""
MOST_BINS = 400
LEAST_CHANGE = 0.15
"""Of a metric's usual height, which is its 95th percentile, and LEAST_HEIGHT of the full scale at least."""
LEAST_HEIGHT = 0.1
LEAST_NOISE = 0.03
"""Of the same: levels are never held to be known better."""
SHORT, SHORT_SECONDS = 0.02, 10.0
MOST = 8
_ALIKE = 0.3
"""Stretches between dips differ by at most this share of the level."""
_SHORT_DIP = 0.05
"""Dips without a period come back where none of them is longer than this share of the window."""


Span = tuple[int, int]
"""Bins from the first up to the second."""


class _Stretch(NamedTuple):
    """Bins from ``first`` up to ``last``, and those of the ``dips`` that were found in them, in bins ``step`` times as
    wide."""

    first: int
    last: int
    dips: tuple[Span, ...]
    step: int = 1


def phases(evidence: Evidence) -> tuple[Phase, ...]:
    """Divide a window into phases: the start-up, stretches at one level, those with dips that come back, and the tail.
    Returns them in the order of time, without holes; () where the window holds no samples. They begin and end at edges of
    the evidence's bins."""
    lead = next((name for name in DETECTION_METRICS if name in evidence.series), None)
    if lead is None or not evidence.seconds > 0:
        return ()
    origin, width = float(evidence.times[0]), evidence.width
    activity = evidence.over_space(lead)
    if not np.isfinite(activity).any():
        return ()
    leading, trailing = warm_up_and_tear_down(average_of(origin, width, activity), evidence.window)
    n = len(activity)
    begin = min(max(round((evidence.start + leading - origin) / width), 0), n - 1) if leading else 0
    end = max(min(round((evidence.end - trailing - origin) / width), n), begin + 1) if trailing else n
    known = activity[np.isfinite(activity)]
    idle = max(IDLE, ACTIVE_SHARE * float(np.percentile(known, 95)))
    found: list[tuple[Kind, int, int, Cycle | None]] = [("start-up", 0, begin, None)] if begin else []
    for stretch in _stretches(evidence, lead, begin, end):
        own = activity[stretch.first : stretch.last]
        repeated = _cycle(stretch, own, width)
        level = float(np.nanmean(own)) if np.isfinite(own).any() else 0.0
        kind: Kind = "recurring" if repeated else "idle" if level <= idle else "steady"
        found.append((kind, stretch.first, stretch.last, repeated))
    if end < n:
        found.append(("tail", end, n, None))
    edges = [evidence.start, *(origin + width * first for _, first, _, _ in found[1:]), evidence.end]
    return tuple(
        _phase(evidence, kind, Window(*part), repeated)
        for (kind, _, _, repeated), part in zip(found, pairwise(edges), strict=True)
    )


def _phase(evidence: Evidence, kind: Kind, part: Window, repeated: Cycle | None) -> Phase:
    """Describe a part of the window as a phase of this kind, with its dips (None: none)."""
    own = excerpt(evidence, part)
    means = {name: own.mean(name) if own is not None else None for name in evidence.series}
    share = part.seconds / evidence.seconds
    return Phase(
        kind, *part, share, score_of_means(means), means, place_under_roofline(means, evidence.peaks), cycle=repeated
    )


def _stretches(evidence: Evidence, lead: str, begin: int, end: int) -> list[_Stretch]:
    """Divide the evidence's bins from ``begin`` up to ``end`` into stretches, by the steps 2 to 4 that the module names.
    ``lead``: the metric in which dips are looked for."""
    names = [name for group in METRICS if (name := next((one for one in group if one in evidence.series), None))]
    courses = [evidence.over_space(name) for name in names]
    fine = np.stack([own / _height(evidence, name, own) for name, own in zip(names, courses, strict=True)])
    step = -(-(end - begin) // MOST_BINS)
    values = coarser(fine[:, begin:end], step)
    edges = [0, *change_points(values, noise(values, np.full(len(names), LEAST_NOISE))).tolist(), values.shape[1]]
    edges = _without_partial(values, _join_similar_segments(values, edges, LEAST_CHANGE))
    bins = len(evidence.times) / step
    groups = _recurring(values, names.index(lead), edges, _SHORT_DIP * bins)
    inner = {edge for group in groups for edge in edges if group.first < edge < group.last}
    short = max(SHORT * bins, SHORT_SECONDS / (step * evidence.width))
    edges = _join_segments(
        values, [edge for edge in edges if edge not in inner], {group.first for group in groups}, short
    )
    return [
        _Stretch(
            begin + first * step,
            min(begin + last * step, end),
            tuple(
                (begin + dip * step, begin + stop * step)
                for group in groups
                for dip, stop in group.dips
                if first <= dip < last
            ),
            step,
        )
        for first, last in pairwise(edges)
    ]


def _height(evidence: Evidence, name: str, values: Floats) -> float:
    """Return the usual height of a metric, in its unit, from its ``values`` over the GPUs [n_bins]: their 95th percentile,
    but at least LEAST_HEIGHT of the full scale, and always above 0."""
    usual = float(np.nanpercentile(values, 95)) if np.isfinite(values).any() else 0.0
    return max(usual, LEAST_HEIGHT * (full_scale(BY_NAME[name], evidence.gpus) or usual), 1e-12)


def _levels(values: Floats, edges: Sequence[int]) -> Floats:
    """Return the means of each segment, [segments, m], NaN without values. ``values`` [m, n]; ``edges``: where each
    segment begins, and last n."""
    return means_from(values, edges[:-1]).T


def _apart(levels: Floats) -> Floats:
    """Measure how far each segment is from the next one in the metric in which they differ most. ``levels`` [segments,
    m] are the levels of m metrics, NaN where unknown. Returns [segments - 1]; 0 if no metric is known in both."""
    distance = np.abs(np.diff(levels, axis=0))
    return np.asarray(np.where(np.isfinite(distance), distance, 0.0).max(axis=1, initial=0.0), np.float64)


def _join_similar_segments(values: Floats, edges: list[int], least: float) -> list[int]:
    """Join neighbouring segments whose levels differ by less than ``least``, the nearest ones first. ``values`` [m, n]
    are the metrics' values, ``edges`` the bins at which segments begin, with n at the end. Returns the edges that are
    left."""
    while len(edges) > 2:
        apart = _apart(_levels(values, edges))
        nearest = int(np.argmin(apart))
        if apart[nearest] >= least:
            break
        edges = edges[: nearest + 1] + edges[nearest + 2 :]
    return edges


def _without_partial(values: Floats, edges: list[int]) -> list[int]:
    """Return the edges with segments of one bin joined to a neighbour if they lie between its levels: such a bin holds
    some of both."""
    at = 1
    while at < len(edges) - 2:
        levels = _levels(values, edges)
        before, own, after = levels[at - 1 : at + 2]
        between = bool(np.all((own - before) * (after - own) >= 0))
        if edges[at + 1] - edges[at] == 1 and between:
            nearer = at if np.nansum(np.abs(own - before)) <= np.nansum(np.abs(after - own)) else at + 1
            edges = edges[:nearer] + edges[nearer + 1 :]
        else:
            at += 1
    return edges


def _recurring(values: Floats, lead: int, edges: list[int], short: float) -> list[_Stretch]:
    """Find stretches at one level between dips of the series ``lead`` (index into ``values`` [m, n]) that come back.
    ``short`` is the longest dip, in bins, that needs no period."""
    levels = _levels(values, edges)
    activity = levels[:, lead]
    n, at = len(levels), 0
    found: list[_Stretch] = []
    while at < n:
        low, here, dips, last = (1 - DEPTH) * activity[at], at + 1, [], at + 1
        while here < n:
            dip = here
            while here < n and activity[here] < low:
                here += 1
            distance = np.abs(levels[min(here, n - 1)] - levels[at])
            if here == n or np.where(np.isfinite(distance), distance, 0.0).max() > _ALIKE:
                break
            if here > dip:
                dips.append((edges[dip], edges[here]))
            here += 1
            last = here if dips else last
        inside = np.zeros(edges[last] - edges[at], bool)
        for first, end in dips:
            inside[first - edges[at] : end - edges[at]] = True
        repeated = cycle_of(inside, values[lead, edges[at] : edges[last]], 1.0) if len(dips) >= FEWEST else None
        if repeated and (repeated.period is not None or max(end - first for first, end in dips) <= short):
            found.append(_Stretch(edges[at], edges[last], tuple(dips)))
            at = last
        else:
            at += 1
    return found


def _join_segments(values: Floats, edges: list[int], groups: set[int], short: float) -> list[int]:
    """Return the edges that are left after joining segments to the neighbour they are nearer to: first those shorter
    than ``short`` bins, the shortest first, then neighbours that differ by less than LEAST_CHANGE, and the most similar
    ones while there are more than MOST segments.

    Segments that begin at one of ``groups`` (edges) are only joined with short ones, however short they are themselves.
    So more than MOST may be left.
    """
    while len(edges) > 2:
        sizes, apart = np.diff(edges).tolist(), _apart(_levels(values, edges)).tolist()
        whole = [edge in groups for edge in edges[:-1]]
        loose = [k for k, size in enumerate(sizes) if size < short and not whole[k]]
        if loose:
            small = min(loose, key=lambda k: sizes[k])
            gone = min((k for k in (small, small + 1) if 0 < k < len(sizes)), key=lambda k: apart[k - 1])
        else:
            free = [k for k in range(1, len(sizes)) if not (whole[k - 1] or whole[k])]
            near = [k for k in free if apart[k - 1] < LEAST_CHANGE or len(sizes) > MOST]
            if not near:
                break
            gone = min(near, key=lambda k: apart[k - 1])
        if edges[gone] in groups:  # what was before a group begins it now
            groups = groups | {edges[gone - 1]}
        edges = edges[:gone] + edges[gone + 1 :]
    return edges


def _cycle(stretch: _Stretch, activity: Floats, width: float) -> Cycle | None:
    """Find how the dips of a stretch come back, None if they don't. These are the dips found by step 2, each as long as it
    is in the evidence's bins, unless only shorter ones have a period. ``activity`` [n_bins] of the stretch; ``width``: of a
    bin, s."""
    coarse = None
    if stretch.dips:
        inside, around = np.zeros(len(activity), bool), np.zeros(len(activity), bool)
        for first, last in stretch.dips:
            begin, end = first - stretch.first, last - stretch.first
            inside[begin:end] = around[max(begin - stretch.step, 0) : end + stretch.step] = True
        coarse = cycle_of(inside, activity, width)
        if coarse is not None:
            with np.errstate(invalid="ignore"):
                low = around & (activity < (coarse.low + coarse.high) / 2)
            fine = cycle_of(low, activity, width)
            coarse = fine if fine is not None and fine.count == coarse.count else coarse
    return coarse if coarse and coarse.period is not None else cycle(activity, width) or coarse
