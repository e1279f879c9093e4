"""Reports of Nsight Systems, as ``nsys export --type sqlite`` writes them. A table is there only where something was traced
for it, and versions add columns: both are found by name."""

import re
import sqlite3
from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Flags, Floats, Ints
from gssr.recognise import is_in_columns
from gssr.store.pages.leaf_rows import NULL
from gssr.store.read.open import Readable
from gssr.traces.database import open_database
from gssr.traces.host_waits import host_waits_apart
from gssr.traces.interval_columns import IntervalColumns, IntervalNames, Key, all_alike, number_combinations
from gssr.traces.nsys_about import MOST_ROWS, OF_A_PROCESS, TABLES, TID_BITS, ReportInfo
from gssr.traces.nsys_export import read_columns
from gssr.traces.nsys_files import TABLES as FILE_TABLES
from gssr.traces.nsys_files import files_of
from gssr.traces.runs import RunTraits
from gssr.traces.tables import Tables, damage_notes
from gssr.traces.timeline import (
    NO_LINK,
    OPERATIONS,
    Clock,
    Counter,
    Intervals,
    Kind,
    Timeline,
    TraceSource,
    Track,
)

_Strings = Mapping[int, str]


class _Table(NamedTuple):
    """A table of intervals in a report. ``key``: the columns that determine an interval's name; of alternatives ("a|b")
    the first that exists is used. ``label``: makes the name of their values; None if the value is an id in StringIds.
    ``size``: the column of bytes, None without."""

    name: str
    kind: Kind
    on_gpu: bool
    key: tuple[str, ...]
    label: Callable[[Key], str] | None = None
    size: str | None = None


_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD",
}  # fmt: skip
"""By copyKind: of CUPTI, and of unified memory that moves by itself. A is an array."""
_MEMORIES = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_PAGEABLE = 0
_SYNCS = {1: "Event sync", 2: "Stream wait event", 3: "Stream sync", 4: "Context sync"}


def _memory(kind: int) -> str:
    return _MEMORIES[kind] if 0 <= kind < len(_MEMORIES) else "Unknown"


def _copy_label(key: Key) -> str:
    kind, source, into = key
    copy = _COPIES.get(kind, "of unknown kind")
    return f"Memcpy {copy}" if kind not in range(1, 11) else f"Memcpy {copy} ({_memory(source)} -> {_memory(into)})"


_CALL = ("nameId|textId",)
_TABLES = (
    _Table("CUPTI_ACTIVITY_KIND_RUNTIME", Kind.RUNTIME, False, _CALL),
    _Table("CUPTI_ACTIVITY_KIND_KERNEL", Kind.KERNEL, True, ("demangledName|shortName",)),
    _Table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", Kind.GRAPH, True, ("graphId",), lambda key: f"CUDA graph {key[0]}"),
    _Table(
        "CUPTI_ACTIVITY_KIND_MEMCPY", Kind.MEMCPY, True, ("copyKind", "srcKind", "dstKind"), _copy_label, size="bytes"
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        Kind.MEMSET,
        True,
        ("memKind",),
        lambda key: f"Memset ({_memory(key[0])})",
        "bytes",
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        Kind.GPU_SYNC,
        True,
        ("syncType",),
        lambda key: _SYNCS.get(key[0], "Sync"),
    ),
    _Table("CUDNN_EVENTS", Kind.CPU_OP, False, _CALL),
    _Table("CUBLAS_EVENTS", Kind.CPU_OP, False, _CALL),
    _Table("MPI_P2P_EVENTS", Kind.CPU_OP, False, _CALL),
    _Table("MPI_COLLECTIVES_EVENTS", Kind.CPU_OP, False, _CALL),
    _Table("MPI_START_WAIT_EVENTS", Kind.CPU_OP, False, _CALL),
    _Table("MPI_OTHER_EVENTS", Kind.CPU_OP, False, _CALL),
    _Table("OSRT_API", Kind.OS, False, _CALL),
    _Table("PROFILER_OVERHEAD", Kind.OVERHEAD, False, _CALL),
)
_NVTX = _Table("NVTX_EVENTS", Kind.RANGE, False, ("textId", "text", "domainId", "process"))
_NVTX_MARK = _NVTX._replace(kind=Kind.MARK)
_NVTX_TABLES = (_NVTX, _NVTX_MARK, _NVTX)
"""Ranges that nest, marks, and ranges that end by a handle."""
_RANGES, _MARKS, _DOMAIN, _BY_HANDLE = (59, 60, 70, 71), (34, 65), 75, (60, 71)
"""Values of eventType: push/pop and start/end ranges, written while it ran or brought from a text; marks; the name of a
domain; which ranges end by a handle."""
_NETWORK_METRICS = ("TARGET_INFO_NETWORK_METRICS", "metricsListId", "metricsIdx", "name", "unit")
_CARDS = ("TARGET_INFO_NIC_INFO", "nicId", "name")
_CARD_NUMBERS = ("NIC_ID_MAP", "globalId", "nicId")
_READ = (
    *(table.name for table in _TABLES), _NVTX.name, "GPU_METRICS", "TARGET_INFO_GPU_METRICS", "NET_NIC_METRIC",
    _NETWORK_METRICS[0], _CARDS[0], _CARD_NUMBERS[0], *FILE_TABLES, "StringIds", *TABLES,
)  # fmt: skip
_LONGEST = 1 << 53
"""ns, 104 days: no session is longer. What is said to begin or end farther from its start is no time."""
_MOST_CORRELATION = 1 << 32
_ALL_STREAMS = (1 << 32) - 1
"""What waits for a whole context is on this one."""
_VERSION = re.compile(r"_v\d{4}$")
"""At the end of calls of the runtime, as cudaLaunchKernel_v7000; a longer one, as in cudaGraphLaunch_v10000, is left there
by ``nsys stats``, too."""
_OF_DRIVER = re.compile("cu[A-Z]")
_GPU_OF_TYPE = 0xFF
"""Bits of the typeId of a metric that are the id of the GPU."""
_UNIT = re.compile(r"\[(?:Throughput )?([^\]]*)\]$")


def _what_is_wrong(connection: sqlite3.Connection) -> str | None:
    """Say in a clause why a database is no report of Nsight Systems; None if it is one."""
    tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if tables.intersection(_READ) - {"StringIds"}:
        return None
    return "is an SQLite database of something else, not a report of Nsight Systems"


REPORT = Readable(
    "a report of Nsight Systems", "nsys export", frozenset(name.lower() for name in _READ), _what_is_wrong
)


def read_nsys(path: str, rank: int | None = None) -> Timeline:
    """Read a report of Nsight Systems, an .sqlite export or a folder in columns. ``rank``: the rank if it is known better
    than the report knows it. Times are ns since the session began, and may be negative. Raises TraceError."""
    with open_report(path, _READ) as tables:
        return _Reading(tables, rank).timeline()


def read_lengths(path: str, kinds: Collection[Kind]) -> Iterator[Timeline]:
    """Read how long the intervals of these kinds took, all of which are kinds in ``_TABLES``. Yields timelines of some ten
    thousand that hold names, lengths and sizes alone: all begin at 0, on one track. Raises TraceError, in the end also if
    the file was written meanwhile."""
    chosen = [place for place, table in enumerate(_TABLES) if table.kind in kinds]
    with open_report(path, [*(_TABLES[place].name for place in chosen), "StringIds"]) as tables:
        yield from _Reading(tables, None).lengths(chosen)


@contextmanager
def open_report(path: str, tables: Sequence[str]) -> Iterator[Tables]:
    """Open a report, an .sqlite export or a folder in columns, to read these tables under ``with``. Raises TraceError."""
    if is_in_columns(path):
        yield read_columns(path, tables)
    else:
        with open_database(path, REPORT, tables) as database:
            yield database


def told_by_report(path: str) -> RunTraits:
    """Read what a report says about its run, without its events. Raises TraceError."""

    with open_report(path, _READ) as tables:
        about = ReportInfo(tables)
        begin, gpus = about.unix_ns, frozenset(about.gpus)
        end = None if begin is None or about.duration_ns is None else begin + about.duration_ns
        return RunTraits(about.rank()[0], about.host, gpus, begin, end)


_DETAILS = (
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory",
    "dynamicSharedMemory", "localMemoryTotal", "sharedMemoryExecuted", "correlationId", "graphNodeId", "returnValue",
)  # fmt: skip


def details_at(path: str, kind: Kind, start: int, end: int) -> dict[str, int]:
    """Read further columns (grid, block, registers) of the interval of this kind that has exactly these start and end
    times, ns since the session began. Returns values by column; empty if there is no such interval. Raises TraceError."""

    with open_report(path, _READ) as tables:
        for table in (table.name for table in _TABLES if table.kind == kind and table.name in tables.columns):
            names = [name for name in _DETAILS if name in tables.columns[table]]
            for columns in tables.integers(table, ["start", "end", *names]):
                for at in np.flatnonzero((columns[0] == start) & (columns[1] == end))[:1].tolist():
                    values = zip(names, (int(column[at]) for column in columns[2:]), strict=True)
                    return {name: value for name, value in values if value != NULL}
    return {}


class _Names(NamedTuple):
    """The names of intervals. ``texts``: all different ones; ``domains``: by text, the NVTX domain of those that have
    one. The arrays have one element for each key in ``_Reading._keys``: ``name``: the index in ``texts``; ``kind``,
    ``category``; ``operation``: -1 of what is no copy; ``pageable``: it copies from or to pageable memory;
    ``start_end``: it is a range that ends by a handle."""

    texts: tuple[str, ...]
    domains: dict[str, str]
    name: NDArray[np.int32]
    kind: NDArray[np.int8]
    category: NDArray[np.int8]
    operation: NDArray[np.int8]
    pageable: Flags
    start_end: Flags


class _TablePart(NamedTuple):
    """Some intervals of a table, columns [n]. ``name``: numbers in ``_Reading._keys``; ``size``: bytes, -1 if unknown, None
    if the table has none; ``others``: the further columns that were asked for."""

    start: Ints
    length: Ints
    name: NDArray[np.int32]
    size: Ints | None
    others: list[Ints]


class _Reading:
    """One pass through a report."""

    def __init__(self, database: Tables, rank: int | None) -> None:
        self._database, self._rank = database, rank
        self._keys: dict[Key, int] = {}
        """What names are made of: the table's place in ``_all``, and the values of its key."""
        self._all = (*_TABLES, *_NVTX_TABLES)
        self._tracks: dict[Key, int] = {}
        """Of GPUs (globalPid, deviceId, contextId, streamId), of threads (globalTid,)."""
        self._device_of: dict[Key, int] = {}
        """The device of each (globalPid, contextId) of work."""
        self._processes: dict[int, int] = {}
        self._process_of_track: list[int] = []
        self._domains: dict[tuple[int, int], int | str] = {}
        self._columns = IntervalColumns(0)
        self._n_events = self._left_out = 0
        self._notes: list[str] = []

    def timeline(self) -> Timeline:
        """Read the whole report. Call it once."""
        self._columns = IntervalColumns(sum(self._database.most_rows(table.name) for table in (*_TABLES, _NVTX)))
        for place, table in enumerate(_TABLES):
            self._read(place, table)
        self._read_ranges(len(_TABLES))
        about = ReportInfo(self._database)
        strings = self._strings(about)
        counters, of_gpus = self._counters()
        tracks, rank = self._made_tracks(about, strings)
        places, added = _with_gpus(tracks, of_gpus, about)
        names = self._named(strings)
        io, more, calls = files_of(self._database, self._sound, (*tracks, *added), names.texts, about.host)
        intervals, key = self._columns.finish(names.name, names.kind, names.category, names.operation)
        copies = self._database.columns.get("CUPTI_ACTIVITY_KIND_MEMCPY")
        pageable = None if copies and "srcKind" not in copies else np.flatnonzero(names.pageable[key])
        start_end = np.flatnonzero(names.start_end[key]) if _NVTX.name in self._database.columns else None
        all_tracks, intervals = host_waits_apart((*tracks, *added, *more), names.texts, intervals)
        kinds = {Kind(kind) for kind in np.unique(intervals.kind).tolist()}
        if not kinds & {Kind.KERNEL, Kind.GRAPH}:
            told = ", ".join(kind.name.lower().replace("_", " ") for kind in sorted(kinds))
            self._notes.append(f"no kernels were traced; what was: {told or 'nothing'}")
        if self._left_out:
            self._notes.append(f"rows without sound times, which are left out: {self._left_out:,}")
        notes = (*damage_notes(self._database), *about.notes, *self._notes)
        source = TraceSource(
            self._database.path, "nsys", "Nsight Systems", about.version, rank, about.host, self._n_events, self._left_out,
            notes, is_damaged=bool(self._database.damage),
        )  # fmt: skip
        clock = Clock() if about.unix_ns is None else Clock(about.unix_ns, "unix")
        series = tuple(one if one.track < 0 else one._replace(track=places[one.track]) for one in counters)
        return Timeline(
            (source,), clock, all_tracks, (*names.texts, *calls), intervals, series, pageable, about.facts,
            names.domains, io=io, start_end=start_end,
        )  # fmt: skip

    def _read(self, place: int, table: _Table) -> None:
        """Append the intervals of a table, ``_all[place]``. Does nothing if the report has no such table."""
        where = ["globalPid", "deviceId", "contextId", "streamId"] if table.on_gpu else ["globalTid"]
        for part in self._parts(place, table, [*where, "correlationId"]):
            *on, correlation = part.others
            if table.kind is Kind.GPU_SYNC:
                on[1] = self._devices(*on[:3])
            track = self._track(on)
            self._columns.add(part.start, part.length, track, part.name, self._links(correlation, track), part.size)

    def _parts(self, place: int, table: _Table, others: Sequence[str]) -> Iterator[_TablePart]:
        """Yield the intervals of a table, ``_all[place]``, some ten thousand at a time, with its columns ``others``. Yields
        nothing if the report has no such table."""
        there = self._database.columns.get(table.name, ())
        key = [next((one for one in names.split("|") if one in there), names) for names in table.key]
        columns = ["start", "end", *others, *key, *([table.size] if table.size else [])]
        for values in self._database.integers(table.name, columns):
            start, end, *rest = self._sound(values)
            if len(start):
                own, rest = rest[: len(others)], rest[len(others) :]
                name = number_combinations([all_alike(place, len(start)), *rest[: len(key)]], self._keys)
                yield _TablePart(start, end - start, name, np.maximum(rest[-1], -1) if table.size else None, own)

    def lengths(self, places: Iterable[int]) -> Iterator[Timeline]:
        """Yield the lengths in some tables (places in ``_TABLES``) as ``read_lengths`` does, behind a timeline without any.
        Call it once."""
        source, track = TraceSource(self._database.path, "nsys", "Nsight Systems"), Track("other", "")
        strings, asked, nothing = dict[int, str](), set[int](), np.empty(0, np.int64)
        parts = (part for place in places for part in self._parts(place, _TABLES[place], ()))
        for part in chain([_TablePart(nothing, nothing, nothing.astype(np.int32), None, [])], parts):
            wanted = {key[1] for key in self._keys if self._all[key[0]].label is None} - asked
            if wanted:
                strings |= self._database.strings("StringIds", wanted)
                asked |= wanted
            names = self._named(strings)
            self._keys.clear()  # the next part has numbers of its own
            n = len(part.length)
            own = Intervals(
                all_alike(0, n), part.length, np.zeros(n, np.int32), names.name[part.name], names.kind[part.name],
                names.category[part.name], all_alike(NO_LINK, n), all_alike(-1, n) if part.size is None else part.size,
                names.operation[part.name],
            )  # fmt: skip
            yield Timeline((source,), Clock(), (track,), names.texts, own)

    def _sound(self, values: list[Ints], end_may_lack: bool = False) -> list[Ints]:
        """Keep the rows that can be intervals, given columns whose first two are start and end, and count the others as
        left out (CUPTI gives zeros where it has lost the times). With ``end_may_lack`` the end may be NULL."""
        start, end = values[:2]
        sound = (start > -_LONGEST) & (end < _LONGEST) & (end >= start) & ((start != 0) | (end != 0))
        if end_may_lack:
            sound |= (start > -_LONGEST) & (start < _LONGEST) & (end == NULL)
        n = int(np.count_nonzero(sound))
        self._n_events += len(start)
        self._left_out += len(start) - n
        return values if n == len(start) else [column[sound] for column in values]

    def _track(self, where: Sequence[Ints]) -> NDArray[np.int32]:
        """Return the number of each row's track, int32[n], from the columns that identify it: those of a stream of a
        GPU, or a thread alone. New tracks are added, with their process, and of streams the device of their context is
        remembered."""
        track = number_combinations(where, self._tracks)
        for key in islice(self._tracks, len(self._process_of_track), None):
            if len(key) > 1:
                self._device_of[key[0], key[2]] = key[1]
            process = key[0] if len(key) > 1 or key[0] == NULL else key[0] & OF_A_PROCESS
            if process == NULL and len(self._processes) == 1:
                process = next(iter(self._processes))
            self._process_of_track.append(self._processes.setdefault(process, len(self._processes)))
        return track

    def _devices(self, process: Ints, device: Ints, context: Ints) -> Ints:
        """Return the devices of waits, int64[n]. CUPTI often gives 0 as a wait's device, so the device of its context
        is taken where known."""
        pairs: dict[Key, int] = {}
        pair = number_combinations([process, context], pairs)
        known = np.array([self._device_of.get(key, NULL) for key in pairs], np.int64)[pair]
        return np.where(known == NULL, device, known)

    def _links(self, correlation: Ints, track: NDArray[np.int32]) -> Ints | None:
        """Make correlation ids, which are unique within a process, unique within the report, NO_LINK where there is
        none (0 is that of copies that nobody called for). None if no row has any."""
        linked = (correlation > 0) & (correlation < _MOST_CORRELATION)
        if not linked.any():
            return None
        if len(self._processes) > 1:
            correlation = correlation | np.array(self._process_of_track)[track] * _MOST_CORRELATION
        return correlation if linked.all() else np.where(linked, correlation, NO_LINK)

    def _read_ranges(self, place: int) -> None:
        """Append NVTX ranges and marks, and store the names of domains. ``place`` is the index of the first of
        _NVTX_TABLES in ``_all``."""
        columns = ("start", "end", "eventType", "textId", "text", "globalTid", "domainId")
        texts, n_open = self._database.texts, 0
        for values in self._database.integers(_NVTX.name, columns, texts=("text",)):
            kind, domain = values[2], np.flatnonzero(values[2] == _DOMAIN)
            by_place = list(texts) if len(domain) else []
            for text_id, text, thread, number in zip(
                *(values[at][domain].tolist() for at in (3, 4, 5, 6)), strict=True
            ):
                self._domains[thread & OF_A_PROCESS, number] = text_id if text == NULL else by_place[text]
            chosen = np.isin(kind, (*_RANGES, *_MARKS))
            start, end, kind, text_id, text, thread, number = self._sound(
                [column[chosen] for column in values], end_may_lack=True
            )
            if not len(start):
                continue
            is_mark = np.isin(kind, _MARKS)
            end = np.where(is_mark, start, end)
            is_open = end == NULL
            n_open += int(np.count_nonzero(is_open))
            track, process = self._track([thread]), thread & OF_A_PROCESS
            table = place + np.where(np.isin(kind, _BY_HANDLE), 2, is_mark)
            name = number_combinations([table, text_id, text, number, np.where(number == NULL, 0, process)], self._keys)
            self._columns.add(start, np.where(is_open, -1, end - start), track, name, None, None)
        if n_open:
            self._notes.append(f"{n_open:,} ranges were open at the end: they last until it")

    def _strings(self, about: ReportInfo) -> _Strings:
        """Read all texts that the report's intervals, threads and domains refer to, by their id in StringIds."""
        wanted = set(about.thread_names.values())
        wanted |= {name for name in self._domains.values() if isinstance(name, int)}
        wanted |= {key[1] for key in self._keys if self._all[key[0]].label is None}
        return self._database.strings("StringIds", wanted)

    def _named(self, strings: _Strings) -> _Names:
        """Make name, kind, category and operation of each key that occurred."""
        texts = list(self._database.texts)
        named, domains, pageables = IntervalNames(), dict[str, str](), list[bool]()
        for at, *key in self._keys:
            table, operation, pageable = self._all[at], -1, False
            kind = table.kind
            if table.name == _NVTX.name:
                name = self._range_name(key, texts, strings, domains)
            elif table.label is not None:
                name = table.label(tuple(key))
            else:
                told = strings.get(key[0])
                name = ("(unknown)" if key[0] == NULL else f"(string {key[0]} is missing)") if told is None else told
            if kind is Kind.RUNTIME:
                name = _VERSION.sub("", name)
                kind = Kind.DRIVER if _OF_DRIVER.match(name) else kind
            elif kind is Kind.MEMCPY:
                copy = _COPIES.get(key[0], "other")
                operation, pageable = OPERATIONS.index(copy if copy in OPERATIONS else "other"), _PAGEABLE in key[1:]
            elif kind is Kind.MEMSET:
                operation = OPERATIONS.index("memset")
            named.add(name, kind, operation)
            pageables.append(pageable)
        start_end = np.array([key[0] == len(self._all) - 1 for key in self._keys], np.bool_)
        return _Names(tuple(named.texts), domains, *named.columns(), np.array(pageables, np.bool_), start_end)

    def _range_name(self, key: Sequence[int], texts: Sequence[str], strings: _Strings, domains: dict[str, str]) -> str:
        """Name a range, with its domain in front ("DOMAIN:NAME") unless that is the default one, as the tool's own
        tables do. ``key`` is (text id, text index, domain, process). Adds the domain to ``domains``."""
        text_id, text, number, process = key
        name = texts[text] if text != NULL else strings.get(text_id, "(no name)")
        told = self._domains.get((process, number))
        domain = strings.get(told) if isinstance(told, int) else told
        if not domain or number == 0:
            return name
        domains[f"{domain}:{name}"] = domain
        return f"{domain}:{name}"

    def _counters(self) -> tuple[list[Counter], list[int]]:
        """Read the series of GPU metrics and network cards. Returns them, and the report's ids of GPUs: ``track`` of a
        GPU's series is an index into these ids, that of a network card's is -1."""
        told = self._database.rows("TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName"), MOST_ROWS)
        names: dict[Key, str] = {(kind, metric): str(name) for kind, metric, name in told}
        found, gpus = [], dict[int, int]()
        for key, time, value in self._series("GPU_METRICS", "timestamp", "typeId", "metricId"):
            name = names.get(key, f"metric {key[1]}")
            unit = _UNIT.search(name)
            gpu = gpus.setdefault(key[0] & _GPU_OF_TYPE, len(gpus))
            found.append(Counter(name, unit[1] if unit else "", "rate", time, value, gpu))
        return found + self._of_network(), list(gpus)

    def _of_network(self) -> list[Counter]:
        """Read the series of network cards, one for each card, port and metric. Rates per millisecond are converted to
        per second."""

        def rows(table: str, *names: str) -> list[tuple[Any, ...]]:
            return self._database.rows(table, names, MOST_ROWS)

        told: dict[Key, tuple[str, str]] = {
            (of, at): (str(name), str(unit)) for of, at, name, unit in rows(*_NETWORK_METRICS)
        }
        cards, numbers, found = dict(rows(*_CARDS)), dict(rows(*_CARD_NUMBERS)), list[Counter]()
        for (card, port, *key), time, value in self._series(
            "NET_NIC_METRIC", "end", "globalId", "portId", "metricsListId", "metricsIdx"
        ):
            name, unit = told.get(tuple(key), (f"metric {key[1]}", ""))
            place = f"{cards.get(numbers.get(card)) or 'network card'}{'' if port == NULL else f'/{port}'}"
            if unit.endswith("/ms"):
                unit, value = unit.replace("bytes/", "B/").replace("/ms", "/s"), value * 1e3
            found.append(Counter(f"{place} {name}", unit, "rate", time, value))
        return found

    def _series(self, table: str, at: str, *keys: str) -> Iterator[tuple[Key, Ints, Floats]]:
        """Read a table of values. Yields for each combination of the ``keys`` columns that combination, the times (ns,
        ascending) and the values. ``at`` is the column of times."""
        parts: list[tuple[Ints, Floats, NDArray[np.int32]]] = []
        places: dict[Key, int] = {}
        for time, value, *those in self._database.integers(table, (at, "value", *keys)):
            sound = (time > -_LONGEST) & (time < _LONGEST) & (value >= 0) & (those[0] != NULL)
            self._n_events += len(time)
            self._left_out += len(time) - int(np.count_nonzero(sound))
            if sound.any():
                own = number_combinations([column[sound] for column in those], places)
                parts.append((time[sound], value[sound].astype(np.float64), own))
        if not parts:
            return
        times, values = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        which = np.concatenate([part[2] for part in parts])
        parts.clear()
        order = np.argsort(which.astype(np.int16 if len(places) < 1 << 15 else np.int32), kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(places))).tolist()
        for key, begin, end in zip(places, [0, *ends], ends, strict=False):
            rows = order[begin:end]
            rows = rows[np.argsort(times[rows], kind="stable")]
            yield key, times[rows], values[rows]

    def _made_tracks(self, about: ReportInfo, strings: _Strings) -> tuple[list[Track], int | None]:
        """Make the tracks. Returns them, and the report's rank. Tracks have no rank if several processes used GPUs, as
        it is not said which process has which rank."""
        own, how = (self._rank, "") if self._rank is not None else about.rank()
        if how:
            self._notes.append(f"rank {own}: taken from {how}")
        streams = [key for key in self._tracks if len(key) > 1]
        rank, with_gpus = own, len({key[0] for key in streams})
        if rank is not None and with_gpus > 1:
            self._notes.append(f"{with_gpus} processes used GPUs: which rank each of them is, is not told")
            rank = None
        several = Counts(key[:2] for key in {key[:3] for key in streams} if key[2])
        tracks = []
        for key in self._tracks:
            number = key[0]
            process = None if number == NULL else number >> TID_BITS & 0xFFFFFF
            if len(key) > 1:
                name, uuid = _stream_name(key, several[key[:2]] > 1), about.uuid(number, key[1])
                stream = None if key[3] == _ALL_STREAMS else _told(key[3])
                place = (process, None, _told(key[1]), uuid, stream)
                tracks.append(Track("gpu_stream", name, rank, about.node(number), *place))
            else:
                thread = None if number == NULL else number & ~OF_A_PROCESS
                named = strings.get(about.thread_names.get(number, NULL))
                name = f"thread {thread}" if named is None else f"{named} ({thread})"
                tracks.append(Track("cpu_thread", name, rank, about.node(number), process, thread))
        return tracks, own


def _told(number: int) -> int | None:
    return None if number == NULL else number


def _stream_name(key: Key, several: bool) -> str:
    """Name a stream; ``several``: there are several contexts of its process on its GPU."""
    _, _, context, stream = key
    if context == 0 and stream == 0:
        return "unified memory"
    name = "all streams" if stream == _ALL_STREAMS else f"stream {_told(stream)}"
    return f"{name} context {_told(context)}" if several else name


def _with_gpus(tracks: Sequence[Track], gpus: Sequence[int], about: ReportInfo) -> tuple[list[int], list[Track]]:
    """Find a track for each of these GPUs (ids in the report): its first stream, or a new track. Returns the tracks'
    indices, counted over ``tracks`` and then the new ones, and the new tracks."""
    places, added = [], list[Track]()
    for gpu in gpus:
        uuid = about.uuid_of_id(gpu)
        streams = [place for place, track in enumerate(tracks) if uuid is not None and track.uuid == uuid]
        if not streams:
            streams = [len(tracks) + len(added)]
            added.append(Track("other", f"GPU {gpu}", node=about.host, uuid=uuid))
        places.append(streams[0])
    return places, added
