"""A trace as a recording whose samples are computed: shares of any time, by GPU, stream or thread, as metrics.

What a GPU's time counts as is decided where the page decides it: gssr.model.traces.trace_results.TYPES."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.metrics import OF_COUNTER, OF_NAME, OF_OWN
from gssr.model.custom_metrics import Custom, Term, custom, flag_matching_names
from gssr.model.results import Means
from gssr.model.traces.cells import ByOwner, CellPieces, cells
from gssr.model.traces.gpu_names import MOST_INDEX, as_recorded, gpus_of, names_of
from gssr.model.traces.launches import links_of
from gssr.model.traces.nesting import nesting
from gssr.model.traces.part import TracePiece, counted
from gssr.model.traces.trace_results import TYPES
from gssr.model.traces.trace_selection import flag_tracks_of_processes
from gssr.store.format.rows import Gpu
from gssr.traces.timeline import BUSY, Category, Counter, Kind, Timeline, Track

LevelName = Literal["gpus", "streams", "threads", "processes", "nodes"]
NOUNS: dict[LevelName, str] = {
    "gpus": "GPU", "streams": "stream", "threads": "thread", "processes": "process", "nodes": "node",
}  # fmt: skip
_LAUNCHES = "launches"
N_CATEGORIES = len(Category)
_LONGEST_NAME = 40
_AT_ONCE = 200_000
"""A layer of more pieces is put in order alone, so that meanwhile nobody waits long for another picture."""


class _Share(NamedTuple):
    """A metric that is a share of time: ``parts`` are the layers that it adds up, by their factors; ``needs`` the layer that
    must not be empty for the metric to exist ("": none); ``of`` the layer that it is a share of."""

    parts: Mapping[str, int]
    needs: str = ""
    of: str = "time"

    def sum(self, added: Mapping[str, Floats]) -> Floats:
        """Add up the layers that the share consists of, each by its factor. ``added``: ns that each layer covers, arrays of
        one shape, by layer."""
        total = np.zeros_like(added[self.of if self.of in added else next(iter(self.parts))])
        for name, factor in self.parts.items():
            total += factor * added[name]
        return total


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
    "working": _Share(
        {name: 1 for name in _THREAD_SPLIT.values() if name not in ("communication", "waiting")}, "communication"
    ),
    "idle": _Share({"time": 1, **dict.fromkeys(_THREAD_SPLIT.values(), -1)}),
}


class Level:
    """The tracks of a piece of a trace put together as GPUs, as they are (streams), or as threads. ``row_of`` gives the row
    that each of ``tracks``, places in the timeline's, belongs to; ``spans``: the level whose rows say how long these
    last."""

    def __init__(
        self,
        name: LevelName,
        part: TracePiece,
        tracks: list[int],
        row_of: Callable[[int], Gpu],
        spans: "Level | None",
    ) -> None:
        self.name = name
        self.noun = NOUNS[name]
        self._part = part
        self._tracks = tracks
        self._row_of = row_of
        self._spans = spans
        self._layers: dict[str, CellPieces] = {}
        self._asked: tuple[object, dict[int, tuple[CellPieces, Floats]]] = None, {}
        """What was asked for last of all layers, and what each had in it, by its identity."""
        self.own: tuple[Custom, ...] = ()
        """Metrics of one's own, which are shown where there is anything of them."""
        self._fit: dict[Term, Ints] = {}
        self._shares = _OF_THREADS if name == "threads" else _OF_GPUS
        self._split = _THREAD_SPLIT if name == "threads" else _GPU_SPLIT

    def __len__(self) -> int:
        """Count the rows: of streams and threads each track is one."""
        return len(self._tracks) if self.name in ("streams", "threads") else len(self.gpus)

    @cached_property
    def _rows(self) -> tuple[tuple[Gpu, ...], Ints]:
        """Return the rows as GPUs, sorted by node and number, and the row of each track [n_tracks], -1 for none."""
        rows = list(map(self._row_of, self._tracks))
        ordered = sorted(dict.fromkeys(rows), key=lambda row: (row.node or "", row.device_index or 0, row.mig or ""))
        place_of = {row: at for at, row in enumerate(ordered)}
        owner_of = np.full(len(self._part.timeline.tracks), -1, np.int64)
        owner_of[self._tracks] = list(map(place_of.__getitem__, rows))
        return tuple(row._replace(gpu=at) for at, row in enumerate(ordered)), owner_of

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The rows as if they were GPUs that had been recorded, sorted by node and index."""
        return self._rows[0]

    @property
    def owner_of(self) -> Ints:
        """The row of each track [n_tracks], -1 for none."""
        return self._rows[1]

    def tracks_with_host(self, rows: Sequence[int]) -> Ints | None:
        """Find the tracks whose intervals count in tables of these rows: their own, and of GPUs and streams also what their
        processes did on the CPU. None, all tracks, where no row is named."""
        if not rows:
            return None
        wanted, tracks = np.isin(self.owner_of, np.array(rows)), self._part.timeline.tracks
        if self.name in ("gpus", "streams"):
            is_host = np.array([track.kind != "gpu_stream" for track in tracks], bool)
            wanted |= is_host & flag_tracks_of_processes(tracks, wanted)
        return np.flatnonzero(wanted)

    def lasts_less(self, start: float, end: float) -> bool:
        """Tell whether some row's time, of which its shares are, begins or ends between two times (s)."""
        time = self.layer("time")
        return bool(((time.start > round(start * 1e9)) | (time.end < round(end * 1e9))).any())

    def ready_to_zoom(self) -> bool:
        """Tell whether a part of the time costs less to look at than all of it."""
        return all(layer.reach is not None for layer in self._layers.values())

    def prepare(self) -> None:
        """Sort more of the layers by time, for about half a second, so that looking at a part of the time costs less."""
        for first in list(self._layers):
            layer = self._layers[first]
            if layer.reach is None:
                in_time = layer.in_time()
                self._layers |= {name: in_time for name, each in self._layers.items() if each is layer}
                if len(layer.start) > _AT_ONCE:
                    return

    # Layers: pieces that do not overlap within one owner

    @cached_property
    def _busy(self) -> tuple[Ints | slice, ByOwner]:
        """The intervals that count on this level: their places in the timeline (a slice for all of them), and the same
        grouped by row."""
        places = self._part.rows(*(Kind if self.name == "threads" else (*BUSY, Kind.GPU_SYNC)))
        is_here = (self.owner_of >= 0)[self._part.timeline.intervals.track[places]]
        places = places if is_here.all() else places[is_here]
        return (slice(None) if len(places) == len(self._part.start) else places), self._by_owner(places)

    def _by_owner(self, places: Ints | slice) -> ByOwner:
        owner = self.owner_of.astype(np.int32)[self._part.timeline.intervals.track[places]]
        return ByOwner(self._part.start[places], self._part.length[places], owner, len(self.gpus))

    def layer(self, name: str) -> CellPieces:
        """Return the stretches of time in which each row does what the layer ``name`` says, such as "compute" or "busy".
        Those of one row do not overlap."""
        if name not in self._layers:
            if name.startswith(OF_NAME):
                self._layers[name] = self._by_owner(self.of_metric(name)).union()
            elif name.startswith(OF_OWN):
                self._layers[name] = self._by_owner(self._fitting(Term("share", name.removeprefix(OF_OWN)))).union()
            elif name == "time" and self._spans is not None:
                self._layers[name] = self._time_of(self._spans)
            elif name == "time" and self.name == "threads":
                self._layers[name] = _spans_of(self._busy[1].union())
            elif self.name == "threads":
                self._layers = self._innermost() | self._layers
            else:
                self._layers = self._unions() | self._layers
        return self._layers[name]

    def last_as(self, other: "Level") -> None:
        """Let the rows last as long as those of another level of the same tracks."""
        self._layers["time"] = other.layer("time")

    def _time_of(self, spans: "Level") -> CellPieces:
        """Make the layer "time" of this level's rows: each gets the time of the row of the level ``spans`` that it
        belongs to. Rows without such a row, or of which nothing is known there, are left out."""
        whole, parent = spans.layer("time"), np.full(len(self.gpus), -1, np.int64)
        tracks = np.flatnonzero(self.owner_of >= 0)
        parent[self.owner_of[tracks]] = spans.owner_of[tracks]
        at = np.full(len(spans.gpus), -1)
        at[whole.owner] = np.arange(len(whole.owner))
        found, owner = at[parent], np.arange(len(self.gpus), dtype=np.int32)
        found, owner = found[found >= 0], owner[found >= 0]
        return CellPieces(whole.start[found], whole.end[found], owner)

    def _unions(self) -> dict[str, CellPieces]:
        """Make the layers of GPUs and streams: what computation, communication, copies (TYPES) and syncs cover of each row's
        time, alone and together."""
        places, by_owner = self._busy
        category = self._part.category[places][by_owner.order]
        has = counted(category, N_CATEGORIES) > 0
        wanted: dict[str, Flags | None] = {name: category == type_ for name, type_ in TYPES.items()}
        wanted["sync"] = category == Category.SYNC
        if has[Category.COMMUNICATION]:
            wanted["kernels"] = (category == Category.COMPUTE) | (category == Category.COMMUNICATION)
        if has[Category.COPY]:
            wanted["busy"] = category != Category.SYNC if has[Category.SYNC] else None
        found = dict(zip(wanted, by_owner.unions(list(wanted.values())), strict=True))
        found.setdefault("kernels", found["compute"])
        found.setdefault("busy", found["kernels"])
        found["occupied"] = by_owner.union() if has[Category.SYNC] else found["busy"]
        begin, end = self._part.worked or (0, 0)
        for name in ("sync", "occupied") if has[Category.SYNC] else ():
            found[name] = _cut(found[name], begin, end)
        if self._spans is None:  # one that begins late or ends early counts as idle meanwhile
            n = len(self.gpus) if end > begin else 0
            found["time"] = CellPieces(np.full(n, begin), np.full(n, end), np.arange(n, dtype=np.int32))
        return found

    def _innermost(self) -> dict[str, CellPieces]:
        """Make the layers of threads: what each category has of a thread's time where no other interval lies within. Each
        interval counts for its category, less the intervals that lie in it."""
        part, (places, by_owner) = self._part, self._busy
        start, owner = part.start[places], self.owner_of.astype(np.int32)[part.timeline.intervals.track[places]]
        length = np.maximum(part.length[places], 0)
        category = part.category[places]
        _, parent = nesting(start, length, owner, by_owner.order)
        inside = np.flatnonzero(parent >= 0)
        end = start + length
        end[inside] = np.minimum(end[inside], end[parent[inside]])
        above = np.full(len(start), -1, np.int8)
        above[inside] = category[parent[inside]]
        found = {}
        for number, name in self._split.items():
            plus = np.flatnonzero((category == number) & (above != number))
            minus = np.flatnonzero((above == number) & (category != number))
            at = np.concatenate([plus, minus])
            order = np.argsort(start[at], kind="stable")
            sign = np.repeat(np.array([1, -1], np.int8), [len(plus), len(minus)])[order]
            at = at[order]
            found[name] = CellPieces(start[at], end[at], owner[at], sign)
        return found

    def _of_names(self, wanted: Flags) -> Ints:
        """Find the intervals on this level's rows whose name is ``wanted`` [n names]. Returns their places."""
        own, chosen = self._part.timeline.intervals, self._part.chosen
        fits = wanted[own.name] & (self.owner_of[own.track] >= 0)
        return np.flatnonzero(fits if chosen is None else fits & chosen)

    def of_metric(self, metric: str) -> Ints:
        """Find the intervals that a metric of one name or a custom metric is about, on this level's rows. Returns their
        places, ascending; nothing for other metrics."""
        names = self._part.timeline.names
        if metric.startswith(OF_OWN):
            return self._fitting(custom(metric).top)
        name = metric.removeprefix(OF_NAME) if metric.startswith(OF_NAME) else None
        return self._of_names(np.array([each == name for each in names], bool))

    def _fitting(self, term: Term) -> Ints:
        """Find the intervals that a term of a custom metric is about; of bytes only those whose size is known. Returns their
        places."""
        key = term._replace(what="bytes" if term.what == "bytes" else "share")
        if key not in self._fit:
            found = self._of_names(flag_matching_names(self._part.timeline.names, term.pattern))
            self._fit[key] = found[self._part.timeline.intervals.size[found] >= 0] if term.what == "bytes" else found
        return self._fit[key]

    @cached_property
    def _launches(self) -> tuple[Ints, Ints]:
        """The calls that launched work on this level's rows, each once: when each began (ns, ascending), and the row of
        the first piece of work that it launched. Both are empty if the trace has no calls."""
        own = self._part.timeline.intervals
        if not self._part.n_by_kind[[Kind.RUNTIME, Kind.DRIVER]].any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        links = links_of(self._part, self._part.rows(*BUSY))
        rows, call = (column[links.call >= 0][::-1] for column in links)
        owner = np.full(len(own), -1, np.int64)
        owner[call] = self.owner_of[own.track[rows]]  # of several pieces of work the first stays
        calls = np.flatnonzero(owner >= 0)
        return self._part.start[calls], owner[calls]

    # Metrics

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of which there is something to say, counters and custom metrics among them. Raises ValueError, a
        sentence, for a custom metric whose pattern takes too long."""
        shares = [name for name, share in self._shares.items() if not share.needs or len(self.layer(share.needs).start)]
        launches = [_LAUNCHES] if self.name != "threads" and len(self._launches[0]) else []
        own = [each.metric for each in self.own if len(self._fitting(each.top))]
        return (
            *shares,
            *own,
            *launches,
            *dict.fromkeys(counter_name(counter) for counter in self._part.timeline.counters),
        )

    @property
    def work(self) -> str:
        """The metric by which rows are compared: what they compute where some of them communicate, since waiting for
        others in communication counts as busy."""
        if "communication" not in self.metrics:
            return "busy"
        return "working" if "working" in self.metrics else "compute"

    def _added(
        self, names: Iterable[str], line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> dict[str, Floats]:
        """Measure how long each of these layers lasts in columns of time. Returns ns [n_lines, n] by the layer's name.
        The last five arguments are those of ``values``. Answers are kept as long as these arguments stay the same."""
        asked = None if line_of is None else line_of.tobytes(), n_lines, begin, width, n
        known, answers = self._asked
        if known != asked:
            answers = {}
            self._asked = asked, answers
        added = {}
        for name in names:
            layer = self.layer(name)
            if id(layer) not in answers:  # of a trace without copies two are one
                answers[id(layer)] = layer, cells(layer, line_of, n_lines, begin, width, n)
            added[name] = answers[id(layer)][1]
        return added

    def values(
        self, metric: str, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> tuple[Floats, Floats]:
        """Measure a metric in ``n`` columns of ``width`` ns from ``begin`` on.

        Args:
            metric: its name.
            line_of: the line of each row [n rows], -1 for none. None: each row is a line.
            n_lines: number of lines.
            begin: begin of the first column, ns.
            width: width of a column, ns.
            n: number of columns.

        Returns two arrays [n_lines, n]: what the metric adds up to, and what that is to be divided by (0: unknown).
        """
        if _is_counted(metric):
            return self._counted(metric, line_of, n_lines, begin, width, n)
        share = self._share(metric)
        added = self._added((*share.parts, share.of), line_of, n_lines, begin, width, n)
        return share.sum(added), added[share.of]

    def _share(self, metric: str) -> _Share:
        return _Share({metric: 1}) if metric.startswith(OF_NAME) else self._shares[metric]

    def split(self, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> tuple[Floats, Floats]:
        """Split the time by category in ``n`` columns of ``width`` ns from ``begin`` (ns) on.

        ``line_of``: the line of each row, -1 for none; None: each row is a line. ``n_lines``: the number of lines.
        Returns ns by category [n_lines, n, N_CATEGORIES], which never add up to more than the time there is, and that
        time [n_lines, n], ns.
        """
        shares = {category: self._shares[metric] for category, metric in self._split.items()}
        parts = (part for share in shares.values() for part in share.parts)
        added = self._added((*parts, "time"), line_of, n_lines, begin, width, n)
        found = np.zeros((n_lines, n, N_CATEGORIES))
        for category, share in shares.items():
            found[:, :, category] = share.sum(added)
        return found, added["time"]

    def split_of(self, means: Mapping[str, float | None]) -> Floats:
        """Pick out of the means of metrics over some GPUs, shares by metric name, the time by category. Returns shares
        [N_CATEGORIES], 0.0 where a metric is missing or unknown."""
        found = np.zeros(N_CATEGORIES)
        for category, metric in self._split.items():
            found[category] = means.get(metric) or 0.0
        return found

    def means(self, begin: int, end: int, extra: str = "") -> Means:
        """Add up all metrics, and ``extra`` where it is none of them ("": nothing), from ``begin`` to ``end`` (ns), for each
        row. In the Means ``total`` divided by ``n`` is the metric; its times are seconds."""
        names = (*self.metrics, extra) if extra and extra not in self.metrics else self.metrics
        window = None, len(self.gpus), begin, max(end - begin, 1), 1
        shares = {name: self._share(name) for name in names if not _is_counted(name)}
        added = self._added((part for each in shares.values() for part in (*each.parts, each.of)), *window)
        pairs = [
            (shares[name].sum(added), added[shares[name].of]) if name in shares else self._counted(name, *window)
            for name in names
        ]
        total, n = (np.array([pair[side][:, 0] for pair in pairs]) for side in (0, 1))
        return Means(names, begin / 1e9, end / 1e9, n, total)

    def _counted(
        self, metric: str, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> tuple[Floats, Floats]:
        """Measure a metric that is no share of time in columns of time: the mean of a counter over the time for which it
        is known (counters of no track are everybody's), launches per second, or a custom metric. The last five arguments
        are those of ``values``. Returns two arrays [n_lines, n]: what the metric adds up to, and what to divide that by,
        0 where unknown."""
        if metric.startswith(OF_OWN):
            return self._of_own(custom(metric), line_of, n_lines, begin, width, n)
        edges = begin + width * np.arange(n + 1)
        total, weight = np.zeros((n_lines, n)), np.zeros((n_lines, n))
        lines = np.arange(n_lines) if line_of is None else line_of
        if metric == _LAUNCHES:
            total += _begun(*self._launches, None, lines, n_lines, begin, width, n) * 1e9
            weight += width * np.bincount(lines[lines >= 0], minlength=n_lines)[:, None]
            return total, weight
        for counter in self._part.timeline.counters:
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

    def greatest_value(self, counter: str, wanted: Flags, begin: int, end: int) -> float:
        """Find the greatest value that a counter, named as a metric, has between two times (ns) on the rows that are
        ``wanted`` [n rows]; counters of no track are everybody's. NaN if it has none."""
        found = math.nan
        for each in self._part.timeline.counters:
            owner = self.owner_of[each.track] if each.track >= 0 else -1
            if counter_name(each) == counter and (each.track < 0 or (owner >= 0 and wanted[owner])):
                values = values_between(each, begin, end)
                found = float(np.fmax(found, np.fmax.reduce(values, initial=math.nan)))
        return found

    def _of_own(
        self, own: Custom, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> tuple[Floats, Floats]:
        """Measure a custom metric in columns of time; the last five arguments are those of ``values``. Returns two
        arrays [n_lines, n]: what its upper term adds up to, and what to divide that by: its lower term, or without one
        the seconds of the column. Both are 0, so unknown, if no interval fits the upper term."""
        window = line_of, n_lines, begin, width, n
        if not len(self._fitting(own.top)):
            return np.zeros((n_lines, n)), np.zeros((n_lines, n))
        if own.bottom is None:
            return self._amount(own.top, *window), self._added(("time",), *window)["time"] / 1e9
        return self._amount(own.top, *window), self._amount(own.bottom, *window)

    def _amount(self, term: Term, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int) -> Floats:
        """Measure a term of a custom metric: seconds that its intervals cover, or calls or bytes that begin [n_lines, n]."""
        if term.what == "share":
            name = OF_OWN + term.pattern
            return self._added((name,), line_of, n_lines, begin, width, n)[name] / 1e9
        places, own = self._fitting(term), self._part.timeline.intervals
        lines = np.arange(n_lines) if line_of is None else line_of
        weights = own.size[places] if term.what == "bytes" else None
        return _begun(
            self._part.start[places], self.owner_of[own.track[places]], weights, lines, n_lines, begin, width, n
        )


def _begun(
    time: Ints, owner: Ints, weights: Ints | None, lines: Ints, n_lines: int, begin: int, width: int, n: int
) -> Floats:
    """Count the events that begin in each column of time of each line.

    ``time`` (ns) ascends; ``owner`` gives each event's row, ``lines`` the line of each row (-1: none). There are ``n``
    columns of ``width`` ns from ``begin``. With ``weights`` these are added up instead of 1 for each event. Returns
    [n_lines, n].
    """
    near = slice(*np.searchsorted(time, (begin, begin + n * width)).tolist())
    cell = lines[owner[near]] * n + (time[near] - begin) // width
    seen = lines[owner[near]] >= 0
    by = None if weights is None else weights[near][seen]
    return np.bincount(cell[seen], by, n_lines * n).reshape(n_lines, n).astype(np.float64)


def _spans_of(covered: CellPieces) -> CellPieces:
    """Stretch each owner's pieces, which come owner by owner, into one from its first start to its last end. Owners whose
    pieces take no time are left out."""
    first = np.flatnonzero(np.append(True, covered.owner[1:] != covered.owner[:-1]))[: len(covered.owner)]
    start, end = covered.start[first], covered.end[np.append(first[1:], len(covered.owner))[: len(first)] - 1]
    some = end > start
    return CellPieces(start[some], end[some], covered.owner[first][some])


def _cut(pieces: CellPieces, begin: int, end: int) -> CellPieces:
    """Cut pieces to the time between ``begin`` and ``end``."""
    start, stop = np.maximum(pieces.start, begin), np.minimum(pieces.end, end)
    some = stop > start
    return CellPieces(start[some], stop[some], pieces.owner[some])


class Group(Level):
    """Rows of another level, ``base``, put together: the mean of them. ``tracks`` may be more than the base has."""

    def __init__(
        self, name: LevelName, part: TracePiece, tracks: list[int], row_of: Callable[[int], Gpu], base: Level
    ) -> None:
        super().__init__(name, part, tracks, row_of, None)
        self._base, self._shares, self._split = base, base._shares, base._split

    @cached_property
    def _line_of(self) -> Ints:
        """The row of each row of the base [n rows of the base]."""
        found, tracks = np.empty(len(self._base.gpus), np.int64), self._base._tracks
        found[self._base.owner_of[tracks]] = self.owner_of[tracks]
        return found

    def layer(self, name: str) -> CellPieces:
        """Return the pieces of a layer of the base."""
        return self._base.layer(name)

    def last_as(self, other: Level) -> None:
        """Do nothing: the base lasts as long as the other level."""

    def ready_to_zoom(self) -> bool:
        """Tell whether the base is ready to zoom."""
        return self._base.ready_to_zoom()

    def prepare(self) -> None:
        """Prepare the base."""
        self._base.prepare()

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the base."""
        return self._base.metrics

    def _lines(self, line_of: Ints | None) -> Ints:
        return self._line_of if line_of is None else np.asarray(line_of[self._line_of], np.int64)

    def _added(
        self, names: Iterable[str], line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> dict[str, Floats]:
        return self._base._added(names, self._lines(line_of), n_lines, begin, width, n)

    def _counted(
        self, metric: str, line_of: Ints | None, n_lines: int, begin: int, width: int, n: int
    ) -> tuple[Floats, Floats]:
        return self._base._counted(metric, self._lines(line_of), n_lines, begin, width, n)

    def greatest_value(self, counter: str, wanted: Flags, begin: int, end: int) -> float:
        """Find the greatest value on the rows of the base that belong to the ``wanted`` ones."""
        return self._base.greatest_value(counter, wanted[self._line_of], begin, end)


def _is_counted(metric: str) -> bool:
    return metric == _LAUNCHES or metric.startswith((OF_COUNTER, OF_OWN))


def counter_name(counter: Counter) -> str:
    """Return the name of the metric that a counter is, from which its unit can be told: ``counter:bytes/s:name``."""
    return f"{OF_COUNTER}{counter.unit}{'/s' if counter.mode == 'total' else ''}:{counter.name}"


def over_time(counter: Counter, edges: Ints) -> tuple[Floats, Floats]:
    """Integrate a counter over the columns between ``edges`` [n + 1] (ns). Returns two arrays [n]: its value times the time
    for which it is known, and that time."""
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


def values_between(counter: Counter, begin: int, end: int) -> Floats:
    """Return the values that a counter has at any time from ``begin`` to ``end`` (ns), per second those of a total: of a
    gauge also the one that still holds at ``begin``, of the others also that of the time around ``end``."""
    time, value = counter.time, counter.value
    if counter.mode == "gauge":
        first = max(int(np.searchsorted(time, begin, "right")) - 1, 0)
        return value[first : int(np.searchsorted(time, end))]
    first, last = int(np.searchsorted(time, begin, "right")), int(np.searchsorted(time, end)) + 1
    if counter.mode == "rate":
        return value[max(first, 1) : last]
    rates = np.diff(value) * 1e9 / np.maximum(np.diff(time), 1)
    return np.asarray(rates[max(first, 1) - 1 : last - 1], np.float64)


# Who there is


def levels_of(part: TracePiece, own: Iterable[Custom] = ()) -> dict[LevelName, Level]:
    """Make the levels on which a piece of a trace can be looked at: GPUs, streams, threads, processes, nodes, as far as it
    has them. The first is that of GPUs where it has GPUs, else that of threads. ``own``: custom metrics, which each level
    gets."""
    timeline, tracks = part.timeline, part.timeline.tracks
    streams = [at for at, track in enumerate(tracks) if track.kind == "gpu_stream"]
    threads = [at for at, track in enumerate(tracks) if track.kind not in ("gpu_stream", "host_wait", "process")]
    found: dict[LevelName, Level] = {}
    if streams:
        gpu = _gpu_of(timeline)
        found["gpus"] = Level("gpus", part, streams, gpu, None)
        if len(found["gpus"]) < len(streams):

            def stream(at: int) -> Gpu:
                own = tracks[at]
                label = f"stream-{own.stream}" if own.stream is not None else own.name[:_LONGEST_NAME]
                of = gpu(at)
                return of._replace(mig=f"{of.mig or ''}.{label}".lstrip(".") or None, uuid=f"track {at}")

            found["streams"] = Level("streams", part, streams, stream, found["gpus"])
    if threads or not streams:
        numbers = {at: number for number, at in enumerate(threads)}
        found["threads"] = Level("threads", part, threads, lambda at: _thread(tracks[at], numbers[at]), None)
    base, every = next(iter(found.values())), [at for at, track in enumerate(tracks) if track.kind != "host_wait"]
    ranks = {tracks[at].rank for at in threads} - {None}
    if (streams and threads) or 0 < len(ranks) < len(threads):
        of_report = {at for at, source in enumerate(timeline.sources) if source.format == "nsys"}
        found["processes"] = Group("processes", part, every, lambda at: _process(tracks[at], of_report), base)
    if len({tracks[at].node for at in every}) > 1:
        found["nodes"] = Group(
            "nodes", part, every, lambda at: as_recorded("node", 0, tracks[at].node or "unknown"), base
        )
    for level in found.values():
        level.own = tuple(own)
    return found


def _process(track: Track, of_report: Set[int]) -> Gpu:
    """Make the row of a track's process: of its rank, or where none is told of the process as Nsight Systems numbers it,
    since elsewhere each file is of one process. ``of_report``: sources that are reports of Nsight Systems."""
    if track.rank is not None and track.rank < MOST_INDEX:
        return as_recorded("rank", track.rank, rank=track.rank)
    return as_recorded("process", track.source, f"pid{track.pid}" if track.source in of_report else "", track.rank)


def _gpu_of(timeline: Timeline) -> Callable[[int], Gpu]:
    """Return the function that gives the row of the GPU of a stream, by the stream's place in the timeline's tracks."""
    gpus, product = gpus_of(timeline.tracks), timeline.facts.get("gpu")
    rows = {gpu: row._replace(rank=gpu.rank, name=product) for gpu, row in names_of(gpus).items()}
    return lambda at: rows[gpus[at]]  # type: ignore[index]


def _thread(track: Track, number: int) -> Gpu:
    """Make the row of a thread, which is the ``number``-th of the trace."""
    node = track.node or ("thread" if track.rank is None else f"rank{track.rank}")
    name = track.name[:_LONGEST_NAME] or "thread"
    tid = "" if track.tid is None or str(track.tid) in name else f" {track.tid}"
    return as_recorded(node, number, name + tid, track.rank, f"track {number}")
