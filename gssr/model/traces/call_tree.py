"""The call tree: what each path of calls took with and without what it called, on each rank. Of a profile it is what the
file has, of a trace what lies within what on its threads; of an OTF2 archive also the kernels, which nobody calls.

Values of a node below 0 where it is taken from a counter that a processor shares between events, and of one whose callees
outlast it, are unknown.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.traces.nesting import nesting
from gssr.model.traces.part import TracePiece
from gssr.traces.call_paths import by_depth, depths_of, is_within_itself, merge_paths
from gssr.traces.timeline import Category, Kind, Profile, Timeline, Track

_NUMBER = re.compile(r"[\W_]*\d+$")
TIME, VISITS = "time", "visits"
_HITS = "hits"
"""A metric that Score-P measures only if it samples the program."""
COMMUNICATION = ("mpi", "shmem", "communication")
"""Paradigms in which ranks wait for one another; of traces a category."""
_WORK = (
    "loop", "parallel", "sections", "section", "single", "single sblock", "master", "workshare", "task",
    "ordered sblock", "critical sblock",
)  # fmt: skip
"""Roles of OpenMP's regions whose own time is the program's: what is left waits, or costs the runtime."""
_FLOPS = re.compile("flops(?:8|16|32|64)?")
"""What Proton calls floating-point operations, of any precision or of numbers of so many bits."""
_OWN = ("user", "compiler", "instrumented", "libwrap", "wrapper", "sampling", "unknown", "")
"""Paradigms of what the program does itself."""
_TELL_NONE = ("kineto", "chrome", "nsys", "rocpd", "rocprof", "xspace", "perfetto")
"""Formats that tell no paradigms: there the category of an interval stands for it."""
_NS = {"sec": 1e9, "s": 1e9, "msec": 1e6, "ms": 1e6, "usec": 1e3, "us": 1e3, "nsec": 1.0, "ns": 1.0}
_ON_THREADS = tuple(kind for kind in Kind if kind >= Kind.RUNTIME and kind not in (Kind.MARK, Kind.SAMPLED))
_NEVER_TOO_MANY, _MOST_CELLS = 1 << 23, 8
"""Nodes times places of a trace's tree, or so many for each call: of more nearly all would be 0, and there is no tree."""
_FEW_CELLS, _KEPT = 1 << 20, 2
"""Of a tree with more nodes times places only the values of so many metrics are kept besides those asked for last."""
_ROUNDING = 1e-9
"""A difference below 0 of no more than this share of what it was taken from comes of rounding."""


class CallMetric(NamedTuple):
    """What is counted; times are in ns, whatever the file has. ``combine``: how the values of several ranks become one."""

    name: str
    title: str
    unit: str
    combine: Literal["sum", "min", "max"] = "sum"


_TIME_AND_VISITS = (CallMetric(TIME, "Time", "ns"), CallMetric(VISITS, "Visits", "occ"))
"""What is counted of a trace."""


class Values(NamedTuple):
    """A metric [n_nodes, n_places] of a node with all below it, and of the node alone; NaN where unknown."""

    inclusive: Floats
    exclusive: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """``names``, ``paradigm``, ``depth``, ``parent`` [n_nodes]: each node stands behind its caller, -1 of a root.
    ``places``: what is compared: ranks, each by the first of its tracks; of one rank its threads and streams."""

    names: tuple[str, ...]
    paradigm: tuple[str, ...]
    parent: Ints
    depth: Ints
    places: tuple[Track, ...]
    metrics: tuple[CallMetric, ...]
    make: Callable[[str], Values]
    _made: dict[str, Values] = field(default_factory=dict)
    _by_rank: bool | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self.names)

    def has(self, metric: str) -> bool:
        """Tell whether there are values of a metric."""
        return any(each.name == metric for each in self.metrics)

    def values(self, metric: str) -> Values:
        """Return a metric's values [n_nodes, n_places] for each node with all below it, and for the node alone; NaN where
        unknown, everywhere for a metric that was not measured. They are read when they are first asked for. Raises
        TraceError if the file can't be read then."""
        if metric not in self._made:
            if len(self) * len(self.places) > _FEW_CELLS and len(self._made) > _KEPT:
                del self._made[next(each for each in self._made if each not in (TIME, VISITS))]
            unknown = np.full((len(self), len(self.places)), np.nan)
            self._made[metric] = self.make(metric) if self.has(metric) else Values(unknown, unknown)
        return self._made[metric]

    @property
    def visits_noun(self) -> str:
        """The word for what VISITS counts: calls, or samples in which a function, or what it called, ran."""
        return "samples" if self.has(_HITS) else "calls"

    @property
    def by_rank(self) -> bool:
        """True if the places are of several ranks. Files whose rank is unknown count as one rank."""
        if self._by_rank is None:
            object.__setattr__(self, "_by_rank", len({track.rank for track in self.places}) > 1)
        return bool(self._by_rank)

    @property
    def noun(self) -> str:
        """The word for a place: ``rank`` or ``thread``, or ``GPU`` where none is known closer."""
        are_gpus = all(place.kind == "gpu_stream" and place.stream is None and not place.tid for place in self.places)
        return "rank" if self.by_rank else "GPU" if are_gpus and self.places else "thread"

    def called(self, place: int) -> str:
        """Return what pages call the place with this index: ``rank 3``, or a thread's name."""
        track = self.places[place]
        if self.by_rank and track.rank is not None:
            return f"rank {track.rank}"
        return track.name or f"thread {place if track.tid is None else track.tid}"


def places_text(tree: CallTree) -> str:
    """Count the places in words: ``4 ranks``, ``1 thread``."""
    n = len(tree.places)
    return f"{n:,} {tree.noun}{'' if n == 1 else 's'}"


def tree_of(part: TracePiece, steps: Sequence[int] | Ints = ()) -> CallTree | None:
    """Make the call tree of a trace (of what lies within what) or a profile (of what its file holds). ``steps``: rows of the
    program's steps, which count as calls of one name, whatever their numbers. Returns None where nothing was called, or
    where nearly every call has a name and a thread of its own."""
    profile = part.timeline.profile
    return _of_intervals(part, steps) if profile is None else _of_profile(part.timeline, profile)


# Of a profile


def _of_profile(timeline: Timeline, profile: Profile) -> CallTree:
    """Build the call tree that a profile holds. Its values are read when they are first asked for; times come out in ns."""
    measured = {metric.name: metric for metric in profile.metrics}
    names = [timeline.names[at] for at in profile.name.tolist()]
    kept = [at for at, track in enumerate(timeline.tracks) if track.kind != "other"]
    place_of, places = _places([timeline.tracks[at] for at in kept])
    n, n_tracks = len(names), len(timeline.tracks)

    def stored(name: str) -> Floats:
        """Read a metric's values from the file [n_nodes, tracks that are kept]; 0 where the file has none."""
        nodes, rows = measured[name].rows()
        found = np.zeros((n, n_tracks))
        found[nodes] = rows
        return found[:, kept]

    def make(name: str) -> Values:
        """Read a metric's values, combine those of each place's tracks, and work out what is lacking, the inclusive or the
        exclusive ones."""
        metric, found = measured[name], stored(name)
        factor = _NS.get(metric.unit, 1.0)
        if metric.combine != "sum":
            if VISITS in measured:
                found[stored(VISITS) == 0] = np.nan  # never called there: neither the least nor the greatest
            combine = np.fmin if metric.combine == "min" else np.fmax
            own = _folded(found, place_of, len(places), combine) * factor
            return Values(with_callees(own, profile.parent, depth, combine), own)
        found = _folded(found, place_of, len(places), np.add)
        if metric.inclusive:
            return Values(found * factor, _without_callees(found, profile.parent, depth) * factor)
        return Values(with_callees(found, profile.parent, depth) * factor, found * factor)

    depth = depths_of(profile.parent)
    metrics = tuple(
        CallMetric(each.name, each.title, "ns" if each.unit in _NS else each.unit, each.combine)
        for each in profile.metrics
    )
    paradigm = tuple(_paradigm(name, role in _WORK) for name, role in zip(profile.paradigm, profile.role, strict=True))
    return CallTree(tuple(names), paradigm, profile.parent, depth, places, metrics, make)


def _paradigm(name: str, works: bool) -> str:
    """Choose the paradigm that a region is shown under: what OpenMP's regions that do work (``works``) take themselves is
    the program's time."""
    return "user" if name in _OWN or (name == "openmp" and works) else name


def _places(tracks: Sequence[Track]) -> tuple[Ints, tuple[Track, ...]]:
    """Choose the places that are compared: the ranks, each named by its first track, or, if there is one rank, its
    tracks. Returns the place of each track [n_tracks], and the places in order."""
    keys = [(track.source, track.rank) for track in tracks]
    if len(set(keys)) < 2:
        return np.arange(len(tracks)), tuple(tracks)
    first: dict[tuple[int, int | None], Track] = {}
    for key, track in zip(keys, tracks, strict=True):
        first.setdefault(key, track)
    order = sorted(first, key=lambda key: (key[1] is None, key[1] or 0, key[0]))
    at = {key: place for place, key in enumerate(order)}
    return np.array([at[key] for key in keys], np.int64), tuple(first[key] for key in order)


def _folded(values: Floats, place_of: Ints, n: int, combine: np.ufunc) -> Floats:
    """Combine the columns of ``values`` [n_nodes, n_tracks] that belong to one place by ``combine`` (np.add, np.fmin or
    np.fmax). ``place_of`` [n_tracks]: the place of each track, ``n``: the number of places. Returns [n_nodes, n]."""
    if n == values.shape[1]:  # a track each, perhaps in another order
        return values[:, np.argsort(place_of)]
    found = np.full((len(values), n), 0.0 if combine is np.add else np.nan)
    for at, place in enumerate(place_of.tolist()):
        found[:, place] = combine(found[:, place], values[:, at])
    return found


def with_callees(values: Floats, parent: Ints, depth: Ints, combine: np.ufunc = np.add) -> Floats:
    """Turn values of nodes alone [n_nodes, ...] into values of each node with all nodes below it, put together by
    ``combine``. ``parent`` and ``depth`` [n_nodes]: each node's caller, -1 for a root, and the number of its callers.
    Returns new values of the same shape."""
    found = values.copy()
    for level in reversed(by_depth(depth)[1:]):
        combine.at(found, parent[level], found[level])
    return found


def _without_callees(values: Floats, parent: Ints, depth: Ints) -> Floats:
    """Subtract from the value of each node [n_nodes, ...] those of the nodes that it calls itself. ``parent`` and
    ``depth`` are as in ``with_callees``. What is left below 0 becomes NaN, unknown, unless it comes of rounding: then
    it becomes 0."""
    found = values.copy()
    below = np.flatnonzero(depth > 0)
    np.subtract.at(found, parent[below], values[below])
    found[np.abs(found) <= _ROUNDING * np.abs(values)] = 0.0
    found[found < 0] = np.nan
    return found


# Of what lies within what


def _of_intervals(part: TracePiece, steps: Sequence[int] | Ints) -> CallTree | None:
    """Build the call tree of a trace: an interval that lies within another one is called by it. None if there are no
    intervals, or the tree would have a value for hardly any of its nodes and places."""
    own, tracks = part.timeline.intervals, part.timeline.tracks
    on_stream = np.array([track.kind == "gpu_stream" for track in tracks], np.bool_)
    of_score_p = all(source.format == "otf2" for source in part.timeline.sources)
    rows = part.rows(*_ON_THREADS, *((Kind.KERNEL,) if of_score_p else ()))
    rows = rows[on_stream[own.track[rows]] == (own.kind[rows] == Kind.KERNEL)]
    if len(steps) and len(part.rows(Kind.PYTHON)):  # steps begin and end within functions of the profiler
        rows, steps = rows[~np.isin(rows, steps)], ()
    if not len(rows):
        return None
    length, name, called = np.maximum(part.length[rows], 0), own.name[rows].astype(np.int64), part.timeline.names
    if len(steps):
        name[np.isin(rows, steps)] = len(called)
        called = (*called, _NUMBER.sub("", called[own.name[steps[0]]]))
    used, track = np.unique(own.track[rows], return_inverse=True)
    depth, parent = nesting(part.start[rows], length, own.track[rows])
    node, parent, name_of, first = merge_paths(parent, depth, name, len(called))
    place_of, places = _places([tracks[at] for at in used.tolist()])
    shape = (len(parent), len(places))
    if shape[0] * shape[1] > max(_NEVER_TOO_MANY, _MOST_CELLS * len(rows)):
        return None
    cell = node * shape[1] + place_of[track]
    visits = np.bincount(cell, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)
    time = np.bincount(cell, length, shape[0] * shape[1]).astype(np.float64).reshape(shape)
    depth = depths_of(parent)
    names = tuple(called[at] for at in name_of.tolist())
    categories = [Category(at) for at in own.category[rows[first]].tolist()]
    paradigm = tuple(each.name.lower() for each in categories)
    if not any(source.format in _TELL_NONE for source in part.timeline.sources):
        told = part.timeline.domains
        paradigm = tuple(
            _paradigm(told.get(name, "").lower(), category == Category.COMPUTE)
            for name, category in zip(names, categories, strict=True)
        )
    return _counted(
        names, paradigm,
        parent, depth, places, time, visits,
    )  # fmt: skip


def _counted(
    names: tuple[str, ...], paradigm: tuple[str, ...], parent: Ints, depth: Ints, places: tuple[Track, ...],
    time: Floats, visits: Floats,
) -> CallTree:  # fmt: skip
    """Make a call tree of the nodes' ``names``, their ``paradigm``, ``parent`` (-1: a root) and ``depth``, [n_nodes]
    each. ``time`` is each node's time with all below it, ns, ``visits`` how often it was called itself, [n_nodes,
    n_places] both."""
    made = {
        TIME: Values(time, _without_callees(time, parent, depth)),
        VISITS: Values(with_callees(visits, parent, depth), visits),
    }
    return CallTree(names, paradigm, parent, depth, places, _TIME_AND_VISITS, made.__getitem__)


def together(trees: Sequence[CallTree]) -> CallTree:
    """Join the call trees of several ranks' traces into one, in which each rank is a place and calls of one path are one
    node."""
    if len(trees) == 1:
        return trees[0]
    names: dict[str, int] = {}
    key = np.array([names.setdefault(name, len(names)) for tree in trees for name in tree.names], np.int64)
    begins = np.cumsum([0, *(len(tree) for tree in trees)])
    parent = np.concatenate(
        [np.where(tree.parent >= 0, tree.parent + at, -1) for tree, at in zip(trees, begins.tolist(), strict=False)]
    )
    depth = np.concatenate([tree.depth for tree in trees])
    node, parents, keys, first = merge_paths(parent, depth, key, len(names))
    tracks = [track._replace(source=at) for at, tree in enumerate(trees) for track in tree.places]
    place_of, places = _places(tracks)
    found = np.zeros((2, len(parents), len(places)))
    column = 0
    for tree, at in zip(trees, begins.tolist(), strict=False):
        mine = node[at : at + len(tree)]
        for place in range(len(tree.places)):
            for which, values in enumerate((tree.values(TIME).inclusive, tree.values(VISITS).exclusive)):
                np.add.at(found[which, :, place_of[column]], mine, values[:, place])
            column += 1
    paradigm = [each for tree in trees for each in tree.paradigm]
    words = list(names)
    return _counted(
        tuple(words[at] for at in keys.tolist()), tuple(paradigm[at] for at in first.tolist()), parents,
        depths_of(parents), places, found[0], found[1],
    )  # fmt: skip


# What is made of it


class Spread(NamedTuple):
    """Over the places, of each row [n]: NaN where none is known. ``most``: the place with the greatest, -1 for none;
    ``imbalance``: 1 - mean/max, what of the greatest would be won were all alike."""

    total: Floats
    mean: Floats
    least: Floats
    greatest: Floats
    most: Ints
    imbalance: Floats


def spread(values: Floats, combine: str = "sum") -> Spread:
    """Summarize how the places (ranks or threads) differ, row by row: ``values`` [n, n_places], NaN where unknown.
    ``combine``: how several places become one total; with "sum" the total is NaN where one place is unknown."""
    known = np.isfinite(values)
    any_known, n = known.any(axis=1), np.maximum(known.sum(axis=1), 1)
    filled = np.where(known, values, 0.0)
    unknown = np.where(any_known, 0.0, np.nan)
    least = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    greatest = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    least, greatest = np.where(any_known, least, np.nan), np.where(any_known, greatest, np.nan)
    total = {"min": least, "max": greatest}.get(combine, np.where(known.all(axis=1), filled.sum(axis=1), np.nan))
    mean = filled.sum(axis=1) / n + unknown
    most = np.where(any_known, np.where(known, values, -np.inf).argmax(axis=1), -1) if values.shape[1] else unknown
    with np.errstate(invalid="ignore", divide="ignore"):
        imbalance = np.where(greatest > 0, 1 - mean / greatest, np.where(greatest == 0, 0.0, np.nan))
    return Spread(total, mean, least, greatest, np.asarray(most, np.int64), imbalance)


def flat_profile(tree: CallTree) -> CallTree:
    """Add up the tree by function: all nodes of one name and paradigm become one, the greatest exclusive time first. Returns
    a tree of roots alone, with their times and visits; what a function takes within itself counts once."""
    at: dict[tuple[str, str], int] = {}
    of = np.array([at.setdefault(key, len(at)) for key in zip(tree.names, tree.paradigm, strict=True)], np.int64)
    outermost = np.flatnonzero(~is_within_itself(tree.parent, of))
    values, shape = tree.values(TIME), (len(at), len(tree.places))
    inclusive, exclusive, visits = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(inclusive, of[outermost], values.inclusive[outermost])
    np.add.at(exclusive, of, values.exclusive)
    np.add.at(visits, of, tree.values(VISITS).exclusive)
    order = np.argsort(-np.nan_to_num(exclusive).sum(axis=1), kind="stable")
    keys = list(at)
    names, paradigm = ([keys[each][part] for each in order.tolist()] for part in (0, 1))
    made = {TIME: Values(inclusive[order], exclusive[order]), VISITS: Values(visits[order], visits[order])}
    parent, depth = np.full(len(keys), -1), np.zeros(len(keys), np.int64)
    return CallTree(tuple(names), tuple(paradigm), parent, depth, tree.places, _TIME_AND_VISITS, made.__getitem__)


class Throughput(NamedTuple):
    """What a function computes and moves in all of its calls, with what they call in turn: ``flops`` floating-point
    operations and ``bytes`` (None where the profile does not tell them) in ``ns`` of time, added up over all places."""

    name: str
    ns: float
    flops: float | None
    bytes: float | None


def throughputs(tree: CallTree) -> list[Throughput]:
    """List the functions that tell themselves how many floating-point operations they do, or how many bytes they move, those
    with most time first. As in Proton's own viewer, what is told of all they call is added. Needs times."""
    told = {"flops": [each.name for each in tree.metrics if _FLOPS.fullmatch(each.name)], "bytes": ["bytes"]}
    none = np.zeros((len(tree), 2))
    sums = {
        key: sum((np.nan_to_num(np.array(tree.values(name)).sum(axis=2).T) for name in names if tree.has(name)), none)
        for key, names in told.items()
    }
    ns = np.nan_to_num(tree.values(TIME).inclusive).sum(axis=1)
    at: dict[str, int] = {}
    of = np.array([at.setdefault(name, len(at)) for name in tree.names], np.int64)
    tells = (sums["flops"][:, 1] > 0) | (sums["bytes"][:, 1] > 0)
    nodes = np.flatnonzero(tells & (ns > 0) & ~is_within_itself(tree.parent, of))
    found = []
    for name in dict.fromkeys(tree.names[node] for node in nodes.tolist()):
        own = nodes[of[nodes] == at[name]]
        flops, n_bytes = (float(sums[key][own, 0].sum()) or None for key in ("flops", "bytes"))
        found.append(Throughput(name, float(ns[own].sum()), flops, n_bytes))
    return sorted(found, key=lambda each: -each.ns)


def by_paradigm(tree: CallTree) -> dict[str, Floats]:
    """Add up the exclusive time (ns) by paradigm, for each place [n_places]. The paradigm with the most comes first; unknown
    times count as nothing."""
    exclusive = np.nan_to_num(tree.values(TIME).exclusive)
    found: dict[str, Floats] = {}
    for name in dict.fromkeys(tree.paradigm):
        found[name] = exclusive[[each == name for each in tree.paradigm]].sum(axis=0)
    return dict(sorted(found.items(), key=lambda each: -float(each[1].sum())))


def callees(parent: Ints) -> Mapping[int, list[int]]:
    """List, for each node that calls others, the indices of the nodes it calls; under -1 the roots. ``parent`` [n_nodes]:
    each node's caller."""
    found: dict[int, list[int]] = {}
    for node, above in enumerate(parent.tolist()):
        found.setdefault(above, []).append(node)
    return found


def depth_first(
    below: Mapping[int, list[int]],
    last_first: Callable[[list[int]], list[int]],
    enters: Callable[[int], bool] = lambda _: True,
) -> list[int]:
    """List the nodes of a tree, each before those ``below`` it (``callees``), which ``last_first`` sorts so that the last
    comes first. ``enters``: whether what is below a node is listed, too."""
    found, stack = list[int](), last_first(below.get(-1, []))
    while stack:
        node = stack.pop()
        found.append(node)
        stack += last_first(below[node]) if node in below and enters(node) else []
    return found


def hot_path(tree: CallTree, metric: str = TIME) -> list[int]:
    """Follow the calls from the root with most of a metric down to the callee with most, until a call has more itself than
    any callee has. Returns the indices of these nodes, the root first."""
    values = tree.values(metric)
    inclusive = np.nan_to_num(values.inclusive).sum(axis=1)
    exclusive = np.nan_to_num(values.exclusive).sum(axis=1)
    return list(_follow_hottest_calls(inclusive, exclusive, callees(tree.parent)))


def _follow_hottest_calls(inclusive: Floats, exclusive: Floats, below: Mapping[int, list[int]]) -> Iterator[int]:
    """Follow, from the root down, the child with the most inclusive time, until a node spends at least as much in
    itself.

    ``inclusive`` and ``exclusive`` [n_nodes]; ``below``: the children of each node, of -1 the roots. Yields nodes.
    """
    at, own = -1, 0.0
    while at in below:
        node = max(below[at], key=lambda each: inclusive[each])
        if inclusive[node] <= own:
            return
        yield node
        at, own = node, float(exclusive[node])
