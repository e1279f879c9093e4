"""The critical path of a trace: the chain of launches, work of GPUs and calls on threads that ended last, link by link.

It is followed backwards from the last moment: of all that a moment came after (gssr.model.traces.dependency_graph), what
came last is on the path. So the path covers the time from its first to its last moment without gap or overlap, and its parts
add up to that time. What shortening something would win is found out by going through all moments again with its time taken
as 0, and every delay as it was. That is never more than its time on the path, as the rest of the path still takes as long.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.model.traces.dependency_graph import END, HOST, JOIN, START, Dependencies
from gssr.traces.timeline import Category

MOST_NODES = 8_000_000
"""Moments of all files together: of more it is not worked out, as each takes some 100 bytes and a second per million."""
MOST_WINS = 8
"""Of so many names, those with the most time on the path, it is worked out what shortening them would win."""
NOTHING = ""
"""The name of a thread's time in which nothing was traced on it."""
LAUNCH, BETWEEN = "from launch to start", "between work on a GPU"

Key = tuple[str, str]
"""What time on the path is booked under: its kind (host, launch, gap, or a category of work) and a name."""


class OnPath(NamedTuple):
    """The time on the critical path that is booked under one name.

    ``kind``: compute, communication, copy for work of GPUs; host for what was innermost on a thread; launch and gap for
    delays before work starts, after its launch or after other work. ``n``: how many pieces of time. ``win_ns``: how much
    earlier the path would end if this took no time, None where that was not worked out."""

    kind: str
    name: str
    n: int
    total_ns: int
    share: float
    win_ns: int | None


class CriticalPath(NamedTuple):
    """The path from ``begin_ns`` to ``end_ns``. ``parts``: what is on it, the longest first, without gaps or overlaps;
    ``by_rank``: its ns on each rank, None for one that the file does not tell."""

    begin_ns: int
    end_ns: int
    parts: tuple[OnPath, ...]
    by_rank: Mapping[int | None, int]

    @property
    def length_ns(self) -> int:
        """The time that the path takes."""
        return self.end_ns - self.begin_ns

    def total_ns(self, *kinds: str) -> int:
        """Return the time on the path of these kinds together."""
        return sum(part.total_ns for part in self.parts if part.kind in kinds)


class _Graph(NamedTuple):
    """The moments of all files in an order in which each follows those that it depends on. ``file`` and ``place`` [n]: which
    node of which file each is (-1: a JOIN). ``before`` [3, n]: those that each depends on, the one that came last first, -1
    for none; ``cost`` [n]: the ns since that one."""

    time: Ints
    kind: NDArray[np.int8]
    before: Ints
    cost: Ints
    file: Ints
    place: Ints


def critical_path(files: Sequence[Dependencies], wins: int = MOST_WINS) -> CriticalPath | None:
    """Find the critical path of a run by the graphs of its ``files``. ``wins``: of how many names it is worked out what
    shortening them would win. None without work, with more than MOST_NODES moments, or where the times of the files can't be
    compared."""
    n = sum(len(file.time) for file in files)
    if not any((file.kind == END).any() for file in files) or n > MOST_NODES or len({file.clock for file in files}) > 1:
        return None
    graph = _joined(files)
    binding, path = graph.before[0].tolist(), list[int]()
    at = len(graph.time) - 1
    while at >= 0:
        path.append(at)
        at = binding[at]
    places = np.array(path[::-1], np.int64)
    found = _booked(graph, files, places)
    length = int(graph.time[places[-1]] - graph.time[places[0]])
    ranked = sorted(found.items(), key=lambda each: (-each[1][1], each[0]))
    named = [key for key, _ in ranked if key[0] not in ("launch", "gap") and key[1] != NOTHING][:wins]
    shorter = {key: _win(graph, files, key) for key in named}
    parts = tuple(OnPath(*key, count, ns, ns / max(length, 1), shorter.get(key)) for key, (count, ns) in ranked)
    by_rank: dict[int | None, int] = {}
    for number, file in enumerate(files):
        mine = places[graph.file[places] == number]
        ns = np.bincount(file.track[graph.place[mine]], graph.cost[mine], len(file.tracks))
        for at in np.flatnonzero(ns).tolist():
            rank = file.tracks[at].rank
            by_rank[rank] = by_rank.get(rank, 0) + int(ns[at])
    return CriticalPath(int(graph.time[places[0]]), int(graph.time[places[-1]]), parts, by_rank)


def _joined(files: Sequence[Dependencies]) -> _Graph:
    """Put the graphs of all files into one, with a JOIN for each collective operation, which its kernels wait for."""
    edges = np.cumsum([0, *(len(file.time) for file in files)])
    time = np.concatenate([file.time for file in files])
    kind = np.concatenate([file.kind for file in files])
    before = np.concatenate(
        [np.where(file.before >= 0, file.before + edge, -1) for file, edge in zip(files, edges, strict=False)], axis=1
    )
    number = np.repeat(np.arange(len(files)), np.diff(edges))
    place = np.arange(len(time)) - edges[number]
    joins_time, joins_before, ends, joined_by = [], [], [], []
    n = len(time)
    for starts, stops in _collectives(files, edges):
        order = np.argsort(time[starts], axis=0, kind="stable")
        by_start = np.take_along_axis(starts, order, axis=0)
        last = by_start[0]
        for row in by_start[1:]:
            joins_before.append(np.stack([last, row, np.full(len(row), -1)]))
            joins_time.append(time[row])
            last = n + np.arange(len(row))
            n += len(row)
        ends.append(stops.ravel())
        joined_by.append(np.broadcast_to(last, stops.shape).ravel())
    if ends:
        before[1, np.concatenate(ends)] = np.concatenate(joined_by)
        added = n - len(time)
        time, before = np.concatenate([time, *joins_time]), np.concatenate([before, *joins_before], axis=1)
        kind = np.concatenate([kind, np.full(added, JOIN, np.int8)])
        number, place = (np.concatenate([each, np.full(added, -1)]) for each in (number, place))
    return _ordered(time, kind, before, number, place)


def _ordered(time: Ints, kind: NDArray[np.int8], before: Ints, file: Ints, place: Ints) -> _Graph:
    """Bring nodes [n] into an order in which each stands behind those ``before`` it [k, n] (-1: none), and renumber
    these. Where times contradict an edge, as with work that overlaps on a stream, the edge is left out. ``file`` and
    ``place``: of which file each node is, and what it is about there."""
    is_end = kind == END
    empty = is_end & (time == time[np.maximum(before[0], 0)])
    phase = np.where(empty, 4, np.array([1, 2, 0, 3])[kind])  # of one moment ends first, but not before their starts
    order = np.lexsort((np.arange(len(time)), phase, time))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    before = np.where(before >= 0, rank[before], -1)[:, order]
    before[before >= np.arange(len(order))] = -1
    before = -np.sort(-before, axis=0)  # the one that came last first
    time = time[order]
    binding = before[0]
    cost = np.where(binding >= 0, time - time[binding], 0)
    return _Graph(time, kind[order], before, cost, file[order], place[order])


def _collectives(files: Sequence[Dependencies], edges: Ints) -> list[tuple[Ints, Ints]]:
    """Find the kernels that are one operation: the n-th of a name, or from a rank to another, if there are as many on
    each GPU and they ran at one time. ``edges``: the number of each file's first node in the joined graph. Returns for
    each name the nodes of their starts and of their ends, [n_gpus, n_operations] both."""
    by_name: dict[str, list[tuple[Ints, Ints]]] = {}
    for file, edge in zip(files, edges.tolist(), strict=False):
        n = int((file.kind == START).sum())
        for name in np.unique(file.operation).tolist():
            for gpu in np.unique(file.gpu[file.operation == name]).tolist():
                starts = file.shared[(file.operation == name) & (file.gpu == gpu)] + edge
                by_name.setdefault(file.names[name], []).append((starts, starts + n))
    found = []
    for every in by_name.values():
        if len(every) > 1 and len({len(starts) for starts, _ in every}) == 1:
            starts, ends = (np.stack(each) for each in zip(*every, strict=True))
            time = np.concatenate([file.time for file in files])
            one = time[starts].max(axis=0) <= time[ends].min(axis=0)
            found.append((starts[:, one], ends[:, one]))
    return found


def _booked(graph: _Graph, files: Sequence[Dependencies], places: Ints) -> dict[Key, tuple[int, int]]:
    """Book the time of the nodes at ``places`` (indices in the graph). Returns (count, ns) by kind and name."""
    found: dict[Key, tuple[int, int]] = {}

    def add(key: Key, n: int, ns: int) -> None:
        so_far = found.get(key, (0, 0))
        found[key] = so_far[0] + n, so_far[1] + ns

    cost, kind = graph.cost[places], graph.kind[places]
    starts = places[(kind == START) & (cost > 0)]
    launched = graph.kind[graph.before[0, starts]] == HOST
    for key, mine in ((("launch", LAUNCH), starts[launched]), (("gap", BETWEEN), starts[~launched])):
        if len(mine):
            add(key, len(mine), int(graph.cost[mine].sum()))
    for number, file in enumerate(files):
        here = places[graph.file[places] == number]
        ends = here[graph.kind[here] == END]
        node = graph.place[ends]
        code = file.name[node] * len(Category) + file.category[node]
        for one in np.unique(code).tolist():
            mine = ends[code == one]
            name, category = divmod(one, len(Category))
            add((Category(category).name.lower(), file.names[name]), len(mine), int(graph.cost[mine].sum()))
        hosts = here[(graph.kind[here] == HOST) & (graph.cost[here] > 0)]
        _, names, ns = _within(graph, file, hosts)
        for one in np.unique(names).tolist():
            mine = ns[names == one]
            add(("host", file.names[one] if one >= 0 else NOTHING), len(mine), int(mine.sum()))
    return found


def _within(graph: _Graph, file: Dependencies, hosts: Ints) -> tuple[Ints, Ints, Ints]:
    """Find what the threads did in the time of these nodes, as Slices.within does."""
    return file.slices.within(file.track[graph.place[hosts]], graph.time[hosts] - graph.cost[hosts], graph.time[hosts])


def _win(graph: _Graph, files: Sequence[Dependencies], key: Key) -> int:
    """Work out how much earlier the last moment would come if what is booked under ``key`` took no time."""
    cost = graph.cost.copy()
    kind, name = key
    for number, file in enumerate(files):
        if name not in file.names:
            continue
        code, here = file.names.index(name), np.flatnonzero(graph.file == number)
        if kind == "host":
            hosts = here[(graph.kind[here] == HOST) & (cost[here] > 0)]
            place, names, ns = _within(graph, file, hosts)
            np.subtract.at(cost, hosts[place[names == code]], ns[names == code])
        else:
            ends = here[graph.kind[here] == END]
            node = graph.place[ends]
            same = (file.name[node] == code) & (file.category[node] == Category[kind.upper()])
            cost[ends[same]] = 0
    return int(graph.time.max()) - _find_latest_time(graph, cost)


def _find_latest_time(graph: _Graph, cost: Ints) -> int:
    """Find when the latest moment comes, ns, if each comes ``cost`` (ns [n]) after the last of those before it; moments
    with none before them stay where they are."""
    first = np.where(graph.before[0] < 0, graph.time, 0).tolist()
    reached: list[int] = [*first, -1 << 62]  # what is not there (-1) is reached before all else
    columns: list[list[int]] = [*graph.before.tolist(), cost.tolist()]
    for at, (a, b, c, ns) in enumerate(zip(*columns, strict=True)):
        if b < 0:
            if a >= 0:
                reached[at] = reached[a] + ns
            continue
        last = reached[a] if reached[a] > reached[b] else reached[b]
        reached[at] = (last if c < 0 or last > reached[c] else reached[c]) + ns
    return max(reached[:-1])
