"""A trace as a recording whose samples are computed: shares of any time, by GPU, stream or thread, as metrics."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import OF_COUNTER, OF_NAME
from gssr.model.results import Means
from gssr.model.traces.cells import ByOwner, Pieces, cells
from gssr.model.traces.nesting import nesting
from gssr.store.format.rows import Gpu
from gssr.traces.timeline import BUSY, Category, Counter, Kind, Timeline, Track

LevelName = Literal["gpus", "streams", "threads"]
NOUNS: dict[LevelName, str] = {"gpus": "GPU", "streams": "stream", "threads": "thread"}
N_CATEGORIES = len(Category)
_LONGEST_NAME = 40


class _Share(NamedTuple):
    """Layers by their factors, the one that must not be empty, and the one that it is a share of."""

    parts: Mapping[str, int]
    needs: str = ""
    of: str = "time"


_OF_GPUS: dict[str, _Share] = {
    "busy": _Share({"busy": 1}),
    "compute": _Share({"compute": 1}),
    "communication": _Share({"communication": 1}, "communication"),
    "exposed_communication": _Share({"kernels": 1, "compute": -1}, "communication"),
    "overlap": _Share({"compute": 1, "communication": 1, "kernels": -1}, "communication", "communication"),
    "copy": _Share({"copy": 1}, "copy"),
    "exposed_copy": _Share({"busy": 1, "kernels": -1}, "copy"),
    "waiting": _Share({"occupied": 1, "busy": -1}, "sync"),
    "idle": _Share({"time": 1, "busy": -1}),
}
_GPU_SPLIT: dict[Category, str] = {
    Category.COMPUTE: "compute", Category.COMMUNICATION: "exposed_communication", Category.COPY: "exposed_copy",
    Category.SYNC: "waiting",
}  # fmt: skip
"""What of a GPU's time counts as which category: computation before communication before copies before waiting."""
_THREAD_SPLIT: dict[Category, str] = {
    Category.COMPUTE: "compute", Category.COMMUNICATION: "communication", Category.COPY: "copy", Category.SYNC: "waiting",
    Category.LAUNCH: "api", Category.RANGE: "ranges", Category.IO: "io", Category.OTHER: "other",
}  # fmt: skip
"""Of a thread's, by the innermost interval."""
_OF_THREADS: dict[str, _Share] = {
    "busy": _Share(dict.fromkeys(_THREAD_SPLIT.values(), 1)),
    **{name: _Share({name: 1}, name) for name in _THREAD_SPLIT.values()},
    "idle": _Share({"time": 1, **dict.fromkeys(_THREAD_SPLIT.values(), -1)}),
}


class Level:
    """The tracks of a trace put together as GPUs, as they are (streams), or as threads: ``gpus`` are their rows as if they
    had been recorded, sorted; ``owner_of`` [n_tracks] is the row of each track, -1 for none."""

    def __init__(self, name: LevelName, timeline: Timeline, rows: dict[Gpu, list[int]], spans: "Level | None") -> None:
        self.name = name
        self.noun = NOUNS[name]
        self._timeline = timeline
        ordered = sorted(rows, key=lambda gpu: (gpu.node or "", gpu.device_index or 0, gpu.mig or ""))
        self.gpus = tuple(gpu._replace(gpu=at) for at, gpu in enumerate(ordered))
        self.owner_of = np.full(len(timeline.tracks), -1, np.int64)
        for at, gpu in enumerate(ordered):
            self.owner_of[rows[gpu]] = at
        self._spans = spans
        self._layers: dict[str, Pieces] = {}
        self._shares = _OF_THREADS if name == "threads" else _OF_GPUS
        self._split = _THREAD_SPLIT if name == "threads" else _GPU_SPLIT

    # Layers: pieces that do not overlap within one owner

    @cached_property
    def _busy(self) -> tuple[Ints, ByOwner]:
        """The intervals that count, and the same by owner."""
        own = self._timeline.intervals
        counts = np.zeros(len(Kind), bool)
        counts[list(Kind) if self.name == "threads" else [*BUSY, Kind.GPU_SYNC]] = True
        places = np.flatnonzero(counts[own.kind] & (self.owner_of[own.track] >= 0))
        return places, self._by_owner(places)

    def _by_owner(self, places: Ints) -> ByOwner:
        own = self._timeline.intervals
        start = own.start[places]
        owner = self.owner_of[own.track[places]].astype(np.int32)
        return ByOwner(start, start + np.maximum(own.length[places], 0), owner, len(self.gpus))

    def layer(self, name: str) -> Pieces:
        """The pieces of one name."""
        if name not in self._layers:
            if name == "time":
                self._layers[name] = self._time()
            elif name.startswith(OF_NAME):
                self._layers[name] = self._of_name(name.removeprefix(OF_NAME))
            elif self.name == "threads":
                self._layers |= self._innermost()
            else:
                self._layers |= self._unions()
        return self._layers[name]

    def _time(self) -> Pieces:
        """From each owner's first start to its last end; of streams their GPU's."""
        if self._spans is not None:
            whole, parent = self._spans.layer("time"), np.full(len(self.gpus), -1, np.int64)
            tracks = np.flatnonzero(self.owner_of >= 0)
            parent[self.owner_of[tracks]] = self._spans.owner_of[tracks]
            at = np.full(len(self._spans.gpus), -1)
            at[whole.owner] = np.arange(len(whole.owner))
            found, owner = at[parent], np.arange(len(self.gpus), dtype=np.int32)
            found, owner = found[found >= 0], owner[found >= 0]
            start, end = whole.start[found], whole.end[found]
        else:
            own, places = self._timeline.intervals, self._busy[0]
            if self.name == "gpus":
                places = places[own.kind[places] != Kind.GPU_SYNC]
            by, n = self.owner_of[own.track[places]], len(self.gpus)
            low, high = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
            np.minimum.at(low, by, own.start[places])
            np.maximum.at(high, by, own.start[places] + own.length[places])
            owner = np.flatnonzero(high > low).astype(np.int32)
            start, end = low[owner], high[owner]
        order = np.argsort(start, kind="stable")
        return Pieces(start[order], end[order], owner[order])

    def _unions(self) -> dict[str, Pieces]:
        places, by_owner = self._busy
        category = self._timeline.intervals.category[places]
        sync = self._timeline.intervals.kind[places] == Kind.GPU_SYNC
        communication, copy = category == Category.COMMUNICATION, category == Category.COPY
        compute = ~(communication | copy | sync)
        found: dict[str, Pieces] = {"compute": by_owner.union(compute)}
        found["communication"] = by_owner.union(communication)
        found["copy"] = by_owner.union(copy)
        found["kernels"] = by_owner.union(~(copy | sync)) if communication.any() else found["compute"]
        found["busy"] = by_owner.union(~sync) if copy.any() else found["kernels"]
        found["sync"] = by_owner.union(sync)
        found["occupied"] = by_owner.union() if sync.any() else found["busy"]
        return found

    def _innermost(self) -> dict[str, Pieces]:
        """What each category has of a thread's time where nothing lies within: an interval, less those that lie in it."""
        own, places = self._timeline.intervals, self._busy[0]
        start, track = own.start[places], own.track[places]
        length = np.maximum(own.length[places], 0)
        category = own.category[places]
        parent = nesting(start, length, track).parent
        inside = np.flatnonzero(parent >= 0)
        end = start + length
        end[inside] = np.minimum(end[inside], end[parent[inside]])
        above = np.full(len(places), -1, np.int8)
        above[inside] = category[parent[inside]]
        owner = self.owner_of[track].astype(np.int32)
        found = {}
        for number, name in self._split.items():
            plus = np.flatnonzero((category == number) & (above != number))
            minus = np.flatnonzero((above == number) & (category != number))
            at = np.concatenate([plus, minus])
            order = np.argsort(start[at], kind="stable")
            sign = np.repeat(np.array([1, -1], np.int8), [len(plus), len(minus)])[order]
            at = at[order]
            found[name] = Pieces(start[at], end[at], owner[at], sign)
        return found

    def _of_name(self, text: str) -> Pieces:
        own = self._timeline.intervals
        wanted = names_like(self._timeline.names, text)
        return self._by_owner(np.flatnonzero(wanted[own.name] & (self.owner_of[own.track] >= 0))).union()

    # Metrics

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Those that there is something to say of, counters among them."""
        shares = [name for name, share in self._shares.items() if not share.needs or len(self.layer(share.needs).start)]
        return (*shares, *dict.fromkeys(counter_name(counter) for counter in self._timeline.counters))

    def values(
        self, metric: str, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> tuple[Floats, Floats]:
        """[n_lines, n] each, over columns of ``width`` ns from ``begin`` on: what a metric adds up to, and what that is to
        be divided by (0: unknown)."""

        def added(name: str) -> Floats:
            return cells(self.layer(name), line_of, n_lines, begin, width, n)

        if metric.startswith(OF_COUNTER):
            return self._counted(metric, line_of, n_lines, begin, width, n)
        share = _Share({metric: 1}) if metric.startswith(OF_NAME) else self._shares[metric]
        total = np.zeros((n_lines, n))
        for name, factor in share.parts.items():
            total += factor * added(name)
        return total, added(share.of)

    def split(self, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> Floats:
        """[n_lines, n, N_CATEGORIES]: shares of the time by category, which never add up to more than 1; NaN without any."""
        found = np.zeros((n_lines, n, N_CATEGORIES))
        layers: dict[str, Floats] = {}
        for name in {part for metric in self._split.values() for part in self._shares[metric].parts}:
            layers[name] = cells(self.layer(name), line_of, n_lines, begin, width, n)
        for category, metric in self._split.items():
            found[:, :, category] = sum(factor * layers[part] for part, factor in self._shares[metric].parts.items())
        time = cells(self.layer("time"), line_of, n_lines, begin, width, n)[:, :, None]
        shares: Floats = np.divide(found, time, out=np.full(found.shape, np.nan), where=time > 0)
        return shares

    def means(self, begin: int, end: int, extra: str = "") -> Means:
        """Of all metrics, and of ``extra``, over this time (ns)."""
        names = (*self.metrics, extra) if extra and extra not in self.metrics else self.metrics
        pairs = [self.values(name, None, len(self.gpus), begin, max(end - begin, 1), 1) for name in names]
        total, n = (np.array([pair[side][:, 0] for pair in pairs]) for side in (0, 1))
        return Means(names, begin / 1e9, end / 1e9, n, total)

    def _counted(
        self, metric: str, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> tuple[Floats, Floats]:
        """Means of counters over time; those of the whole are everybody's."""
        edges = begin + width * np.arange(n + 1)
        total, weight = np.zeros((n_lines, n)), np.zeros((n_lines, n))
        lines = np.arange(n_lines) if line_of is None else line_of
        for counter in self._timeline.counters:
            if counter_name(counter) != metric or not len(counter.time):
                continue
            owner = self.owner_of[counter.track] if counter.track >= 0 else -1
            if counter.track >= 0 and (owner < 0 or lines[owner] < 0):
                continue
            rows = slice(None) if counter.track < 0 else int(lines[owner])
            added, known = over_time(counter, edges)
            total[rows] += added
            weight[rows] += known
        return total, weight


def counter_name(counter: Counter) -> str:
    """The metric that a counter is."""
    return f"{OF_COUNTER}{counter.unit}{'/s' if counter.mode == 'total' else ''}:{counter.name}"


def over_time(counter: Counter, edges: Ints) -> tuple[Floats, Floats]:
    """[n] between ``edges`` [n + 1] (ns): a counter's value times the time it is known for, and that time."""
    time, value = counter.time.astype(np.float64), counter.value
    if counter.mode == "gauge":
        summed = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(time)), [0.0]])[: len(time)]
        last = max(float(edges[-1]), float(time[-1]))
        summed, time = np.append(summed, summed[-1] + value[-1] * (last - time[-1])), np.append(time, last)
    elif counter.mode == "rate":
        summed = np.concatenate([[0.0], np.cumsum(value[1:] * np.diff(time))])
    else:
        summed = (value - value[0]) * 1e9
    inside = np.clip(edges, time[0], time[-1])
    return np.diff(np.interp(inside, time, summed)), np.diff(inside)


# Who there is


def levels_of(timeline: Timeline) -> dict[LevelName, Level]:
    """The levels that a trace has, that of GPUs first."""
    streams = [(at, track) for at, track in enumerate(timeline.tracks) if track.kind == "gpu_stream"]
    threads = [(at, track) for at, track in enumerate(timeline.tracks) if track.kind != "gpu_stream"]
    found: dict[LevelName, Level] = {}
    if streams:
        gpus = _rows(streams, _gpu_of(timeline, [track for _, track in streams]))
        found["gpus"] = Level("gpus", timeline, gpus, None)
        if len(gpus) < len(streams):
            named = {at: gpu for gpu, tracks in gpus.items() for at in tracks}
            rows = _rows(streams, lambda track, at: _stream(named[at], track))
            found["streams"] = Level("streams", timeline, rows, found["gpus"])
    if threads or not streams:
        found["threads"] = Level("threads", timeline, _rows(threads, _thread), None)
    return found


def _rows(tracks: list[tuple[int, Track]], row: Callable[[Track, int], Gpu]) -> dict[Gpu, list[int]]:
    rows: dict[Gpu, list[int]] = {}
    for at, track in tracks:
        rows.setdefault(row(track, at), []).append(at)
    return rows


def _row(node: str, rank: int | None, index: int | None, uuid: str | None, name: str | None, part: str | None) -> Gpu:
    return Gpu(0, "", node, rank, index, uuid, name, None, None, None, None, None, None, None, part)


def _gpu_of(timeline: Timeline, tracks: list[Track]) -> Callable[[Track, int], Gpu]:
    """What a stream's GPU is called: ``node:device`` where that tells GPUs apart, else by rank."""
    product = timeline.facts.get("gpu")
    whose = {(track.rank, track.source if track.rank is None else 0, track.node, track.device) for track in tracks}
    on_node = len({(node, device) for _, _, node, device in whose}) == len(whose)
    of_rank = len({rank for rank, _, _, _ in whose}) == len(whose)

    def gpu(track: Track, at: int) -> Gpu:
        del at
        source = None if track.rank is not None or on_node else f"file {track.source + 1}"
        if track.node and on_node:
            return _row(track.node, track.rank, track.device, track.uuid, product, None)
        if track.rank is None:
            return _row(source or "gpu", None, track.device, track.uuid, product, None)
        if of_rank:
            return _row("rank", track.rank, track.rank, track.uuid, product, None)
        return _row(f"rank{track.rank}", track.rank, track.device, track.uuid, product, None)

    return gpu


def _stream(gpu: Gpu, track: Track) -> Gpu:
    return gpu._replace(mig=f"stream-{track.stream}" if track.stream is not None else track.name[:_LONGEST_NAME])


def _thread(track: Track, at: int) -> Gpu:
    node = track.node or ("rank" if track.rank is None else f"rank{track.rank}")
    number = track.tid if track.tid is not None else track.pid if track.pid is not None else at
    return _row(node, track.rank, number, str(at), None, track.name[:_LONGEST_NAME] or None)


def names_like(names: tuple[str, ...], text: str) -> Flags:
    """[n]: True for this name, and for that of a call with its version behind it."""
    versioned = re.compile(re.escape(text) + r"(_v\d{4,})?").fullmatch
    return np.array([versioned(name) is not None for name in names], bool)
