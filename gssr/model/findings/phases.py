"""A run cut into phases, from the data.

1. Start-up and tail are what ``-d all`` would leave out as warm-up and tear-down (gssr.model.window).
2. Dips that come back (gssr.model.findings.dips) are left out of what follows: they change no level.
3. What lies between is cut where the space average of several metrics at once changes its level, in at most MOST_BINS bins;
   neighbours whose levels differ by less than LEAST_CHANGE are put together again.
4. What is then shorter than SHORT of the window, or than SHORT_SECONDS, is no phase of its own, and there are at most MOST
   phases between start-up and tail. One with dips that come back is recurring, one in which nothing is active idle, every
   other one steady.

All thresholds are our own.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import BY_NAME, DETECTION_METRICS
from gssr.model.evidence.evidence import Evidence, excerpt
from gssr.model.findings.dips import change_points, describe_dips, find_dips, noise
from gssr.model.results import Cycle, Kind, Phase
from gssr.model.statistics.balance import full_scale
from gssr.model.statistics.grid import coarser, means_from
from gssr.model.statistics.roofline import place_under_roofline
from gssr.model.window import ACTIVE_SHARE, IDLE, average_of, warm_up_and_tear_down
from gssr.score import score_of_means
from gssr.store.read.time_window import Window

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
    for first, last in pairwise(_cut_at_changes(evidence, activity, begin, end)):
        own = activity[first:last]
        dips = describe_dips(find_dips(own), own, width)
        level = float(np.nanmean(own)) if np.isfinite(own).any() else 0.0
        found.append(("recurring" if dips else "idle" if level <= idle else "steady", first, last, dips))
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


def _cut_at_changes(evidence: Evidence, activity: Floats, begin: int, end: int) -> list[int]:
    """Cut the evidence's bins from ``begin`` up to ``end`` where levels change, by the steps 2 to 4 that the module names.
    ``activity`` [n_bins]: the course in which dips are looked for. Returns where each part begins, and last ``end``."""
    names = [name for group in METRICS if (name := next((one for one in group if one in evidence.series), None))]
    courses = [evidence.over_space(name) for name in names]
    fine = np.stack([own / _height(evidence, name, own) for name, own in zip(names, courses, strict=True)])
    dips = find_dips(activity[begin:end])
    left_out = dips.copy()  # with the bins at their edges, which hold some of a dip
    left_out[1:] |= dips[:-1]
    left_out[:-1] |= dips[1:]
    fine = np.where(left_out, np.nan, fine[:, begin:end])
    step = -(-(end - begin) // MOST_BINS)
    values = coarser(fine, step)
    edges = [0, *change_points(values, noise(values, np.full(len(names), LEAST_NOISE))).tolist(), values.shape[1]]
    short = max(SHORT * len(evidence.times), SHORT_SECONDS / evidence.width) / step
    return [min(begin + edge * step, end) for edge in _join_segments(values, edges, short)]


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


def _join_segments(values: Floats, edges: list[int], short: float) -> list[int]:
    """Join segments to the neighbour that they are nearer to: first those that differ by less than LEAST_CHANGE, the most
    similar ones first, then those shorter than ``short`` bins, the shortest first, and then the most similar ones while
    there are more than MOST. ``values`` [m, n] are the metrics' values, ``edges`` the bins at which segments begin, with n
    at the end. Returns the edges that are left."""
    while len(edges) > 2:
        sizes, apart = np.diff(edges), _apart(_levels(values, edges))
        nearest, smallest = int(np.argmin(apart)), int(np.argmin(sizes))
        if apart[nearest] >= LEAST_CHANGE and sizes[smallest] < short:
            beside = (each for each in (smallest - 1, smallest) if 0 <= each < len(apart))
            nearest = min(beside, key=lambda each: float(apart[each]))
        elif apart[nearest] >= LEAST_CHANGE and len(sizes) <= MOST:
            break
        edges = edges[: nearest + 1] + edges[nearest + 2 :]
    return edges
