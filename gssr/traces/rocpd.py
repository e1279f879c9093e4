"""Databases of rocprofv3 (rocpd): one file for each process, or several processes in one. The names of the tables of a
session end in its id, and rows know each other by ids of these tables; the views over them are never looked at. Schema:
rocpd_tables.sql of ROCprofiler-SDK, versions 3.0.0 to 3.0.5, and of later ones what they keep in rocpd_track."""

import json
import re
import sqlite3
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gssr.arrays import Ints
from gssr.launch import ALONE, where_am_i
from gssr.store.pages.leaf_rows import NULL
from gssr.store.read.database import Database
from gssr.store.read.open import Readable
from gssr.traces.categories import operation_of
from gssr.traces.database import open_database
from gssr.traces.dump_file import whole_number
from gssr.traces.interval_columns import IntervalColumns, IntervalNames, Key, all_alike, number_combinations
from gssr.traces.tables import Tables, damage_notes
from gssr.traces.timeline import NO_LINK, OPERATIONS, Clock, Intervals, Kind, Timeline, TraceSource, Track

_One = TypeVar("_One")
_INTERVALS = ("kernel_dispatch", "memory_copy", "region", "sample")
_OTHERS = (
    "event", "string", "track", "info_node", "info_process", "info_thread", "info_agent", "info_kernel_symbol",
)  # fmt: skip
_TABLE = re.compile(rf"rocpd_({'|'.join((*_INTERVALS, *_OTHERS))})(_\w{{1,99}})?", re.ASCII)
_KERNELS, _COPIES, _REGIONS, _MARKS = range(4)
"""What an interval is, in the key of its name."""
_HOST = -1
"""In place of a GPU what is copied within the host."""
_FARTHEST = 1 << 60
"""ns, 36 years: nobody was booted longer ago."""
_MOST_LINK = 1 << 32
_MOST_ROWS = 1_000_000
"""Of tables that are looked at row by row: strings, threads, marks."""
_LONGEST_JSON = 1 << 20
"""Bytes of an object: the environment of a process is the longest."""
_KINDS = (
    (re.compile("(?:rocm_)?(?:marker|roctx)", re.IGNORECASE), Kind.RANGE),
    (re.compile("(?:rocm_|__)?hip", re.IGNORECASE), Kind.RUNTIME),
    (re.compile("(?:rocm_)?hsa", re.IGNORECASE), Kind.DRIVER),
)
"""By the category of a call, where there is none by its name; others are the program's: RCCL, MPI, its own."""
_AT_ONCE = {Kind.RANGE: Kind.MARK, Kind.CPU_OP: Kind.OTHER}
"""What calls are that took no time."""


class _Agent(NamedTuple):
    """A GPU or CPU of a session. ``number``: its index among agents of its type; None in a field is unknown."""

    is_gpu: bool
    number: int | None
    name: str | None
    uuid: str | None


class _Process(NamedTuple):
    """A process of a session; None is unknown. ``rank`` and ``launcher`` are as its environment says."""

    pid: int | None
    host: str | None
    rank: int | None
    launcher: str | None


def read_rocpd(path: str, rank: int | None = None) -> Timeline:
    """Read a database of rocprofv3. ``rank``: the rank if it is known better than the database knows it. Times are ns
    since the node was booted. Raises TraceError."""
    with _open(path) as database:
        return _Reading(database, rank).timeline()


def timeline_of_tables(tables: Tables, rank: int | None) -> Timeline:
    """Read tables that were made of another file of rocprofv3, with the names and columns of a database's. Otherwise as
    ``read_rocpd``."""
    timeline = _Reading(tables, rank).timeline()
    return replace(timeline, sources=tuple(source._replace(format="rocprof") for source in timeline.sources))


def check_rocpd(path: str) -> None:
    """Raise TraceError if the file is no database of rocprofv3 that can be read."""
    with _open(path):
        pass


def _open(path: str) -> AbstractContextManager[Database]:
    """Open the database at ``path`` for what stands under ``with``. That raises TraceError, in the end also if the file
    was written meanwhile."""
    tables: dict[str, str] = {}

    def look(connection: sqlite3.Connection) -> str | None:
        for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
            if (told := _TABLE.fullmatch(str(name))) and (kind == "table" or told[2]):  # else the tool's own view
                tables[name.lower()] = name
        return None if tables else "is an SQLite database of something else, not of rocprofv3"

    readable = Readable("a database of rocprofv3", "rocprofv3", tables, look)
    return open_database(path, readable, tables.values())


_ON_TRACK = ("pid", "tid", "agent_id", "queue_id", "stream_id")
"""Where something ran: columns of its own, or of the row of rocpd_track that it names."""
_Session = Mapping[str, str]
"""Its tables by what they hold."""


def _sessions(database: Tables) -> list[_Session]:
    """List the sessions in a database, each with its tables' full names by what they hold."""
    found: dict[str, dict[str, str]] = {}
    for name in database.columns:
        if told := _TABLE.fullmatch(name):
            found.setdefault(told[2] or "", {})[told[1]] = name
    return list(found.values())


def _processes(database: Tables, session: _Session) -> dict[int, _Process]:
    """Read the processes that were traced in a session. Returns them by the id that the database's other tables use."""
    hosts = dict(database.rows(session.get("info_node", ""), ("id", "hostname"), _MOST_ROWS))
    found = {}
    for key, node, pid, environment in database.rows(
        session.get("info_process", ""), ("id", "nid", "pid", "environment"), _MOST_ROWS
    ):
        told = {name: value for name, value in _object(environment).items() if isinstance(value, str)}
        place = where_am_i(told)
        rank, launcher = (None, None) if place.launcher == ALONE else (place.rank, place.launcher)
        host = hosts.get(node)
        found[key] = _Process(whole_number(pid), host if isinstance(host, str) and host else None, rank, launcher)
    return found


def _agents(database: Tables, session: _Session) -> dict[int, _Agent]:
    """Read the GPUs and CPUs of a session, by id."""
    names = ("id", "type", "type_index", "product_name", "name", "uuid", "extdata")
    found = {}
    for key, kind, number, *called, column, extdata in database.rows(session.get("info_agent", ""), names, _MOST_ROWS):
        name = next((one for one in called if isinstance(one, str) and one), None)
        found[key] = _Agent(kind == "GPU", whole_number(number), name, _uuid(column, _object(extdata).get("uuid")))
    return found


def _uuid(number: Any, told: Any) -> str | None:
    """Make a UUID as HIP writes it, from 16 bytes (``told``) whose first 8 are the driver's ``unique_id``, least
    significant first, or else from the column's ``number``. None if neither holds one; the column may hold the PCI
    device id, of 16 bits, which is none."""
    told = told.get("bytes") if isinstance(told, dict) else None
    digits = list(told.values()) if isinstance(told, dict) else told
    if isinstance(digits, list) and len(digits) >= 8 and all(type(each) is int and 0 <= each < 256 for each in digits):
        number = int.from_bytes(digits[:8], "little")
    elif type(number) is not int or 0 <= number < 1 << 16:  # not negative: SQLite has no more than 63 bits
        return None
    return f"GPU-{number & (1 << 64) - 1:016x}" if number else None


class _ById:
    """Columns of a table that are looked up by id."""

    def __init__(self, most: int, parts: Iterator[list[Ints]], n_columns: int) -> None:
        """Read at most ``most`` rows from ``parts``: lists of columns, the first of which is the id, ascending,
        followed by ``n_columns`` others."""
        own, n = np.empty((1 + n_columns, most), np.int64), 0
        for part in parts:
            own[:, n : n + len(part[0])] = part
            n += len(part[0])
        self._ids, self._columns = own[0, :n], own[1:, :n]
        self._are_all = bool(n) and int(self._ids[-1]) - int(self._ids[0]) == n - 1

    def of(self, ids: Ints, column: int) -> Ints:
        """Return the values of a column (index without the id) for these ids, int64[n]; NULL for an id that is not
        there."""
        if not len(self._ids):
            return all_alike(NULL, len(ids))
        place = ids - self._ids[0] if self._are_all else np.searchsorted(self._ids, ids)
        place = np.clip(place, 0, len(self._ids) - 1)
        return np.where(self._ids[place] == ids, self._columns[column][place], NULL)

    def distinct(self, column: int) -> set[int]:
        """Return the different values of a column (index without the id), without NULL."""
        return {int(each) for each in np.unique(self._columns[column])} - {NULL}


class _Reading:
    """One pass through a database."""

    def __init__(self, database: Tables, rank: int | None) -> None:
        self._database, self._rank = database, rank
        self._sessions = _sessions(database)
        self._processes: dict[Key, int] = {}
        """Their places, by session and id."""
        self._tracks: dict[Key, int] = {}
        """(process, 1, agent, stream, queue) of GPUs, (process, 0, thread, 0, 0)."""
        self._names: dict[Key, int] = {}
        """(session, what, id, and of copies from where and into what, of calls category and message)."""
        self._messages: dict[str, int] = {}
        self._agents = [_agents(database, session) for session in self._sessions]
        self._own = [_processes(database, session) for session in self._sessions]
        rows = (database.most_rows(each[name]) for each in self._sessions for name in _INTERVALS if name in each)
        self._columns = IntervalColumns(sum(rows))
        self._n_events = self._left_out = 0

    def timeline(self) -> Timeline:
        """Read the whole database. Call it once."""
        for number, session in enumerate(self._sessions):
            self._read(number, session)
        tracks, places = self._made_tracks()
        intervals, names = self._intervals(places)
        every = [process for own in self._own for process in own.values()]
        ranks = sorted({process.rank for process in every if process.rank is not None})
        notes = damage_notes(self._database)
        if self._rank is None and ranks:
            called, launcher = ", ".join(map(str, ranks[:4])), next(each.launcher for each in every if each.launcher)
            notes.append(f"rank {called}: taken from what {launcher} told it")
        if not (intervals.kind == Kind.KERNEL).any():
            notes.append("no kernels were traced: rocprofv3 --sys-trace, or --kernel-trace, does")
        if self._left_out:
            notes.append(f"rows without sound times, which are left out: {self._left_out:,}")
        gpus = {agent.name: None for own in self._agents for agent in own.values() if agent.is_gpu and agent.name}
        facts = {"gpu": ", ".join(map(str, gpus))} if gpus else {}
        rank = _one(ranks) if self._rank is None else self._rank
        source = TraceSource(
            self._database.path, "rocpd", "rocprofv3", "", rank, _one(each.host for each in every), self._n_events,
            self._left_out, tuple(notes), is_damaged=bool(self._database.damage),
        )  # fmt: skip
        return Timeline((source,), Clock(None, "boot"), tracks, names, intervals, facts=facts)

    def _read(self, number: int, session: _Session) -> None:
        """Append the intervals of a session, ``_sessions[number]``."""
        database = self._database

        def by_id(table: str, names: Sequence[str]) -> _ById:
            own = session.get(table, "")
            return _ById(database.most_rows(own), database.integers(own, ("id", *names)), len(names))

        events, tracks = by_id("event", ("stack_id", "category_id")), by_id("track", _ON_TRACK)
        messages = self._read_messages(session, events.distinct(1))

        def read_rows(table: str, names: str) -> Iterator[list[Ints]]:
            """Read rows of one of the session's tables, part by part. Yields the columns of ``names``, separated by
            spaces, then of each row's event the stack id, the category id and the index of its message, NULL where it
            has none. Columns of _ON_TRACK that the table lacks are those of the row's track. Rows without sound times
            are left out."""
            there = database.columns.get(session.get(table, ""), ())
            asked = [*names.split(), "event_id", "track_id"]
            for values in database.integers(session.get(table, ""), asked):
                for at, name in enumerate(asked):
                    if name in _ON_TRACK and name not in there:
                        values[at] = tracks.of(values[-1], _ON_TRACK.index(name))
                *own, event = self._sound(values[:-1])
                yield [*own, events.of(event, 0), events.of(event, 1), messages.of(event, 0)]

        for start, end, pid, *on, kernel, stack, _, _ in read_rows(
            "kernel_dispatch", "start end pid agent_id stream_id queue_id kernel_id"
        ):
            self._add(number, _KERNELS, start, end, pid, on, (kernel,), stack)
        for start, end, pid, source, into, *on, name, size, stack, _, _ in read_rows(
            "memory_copy", "start end pid src_agent_id dst_agent_id stream_id queue_id name_id size"
        ):
            from_gpu, into_gpu = self._is_gpu(number, source), self._is_gpu(number, into)
            within = (from_gpu == 0) & (into_gpu == 0)
            agent = np.where(into_gpu == 1, into, np.where(from_gpu == 1, source, np.where(within, _HOST, NULL)))
            into_gpu = np.where((from_gpu == 1) & (into_gpu == 1) & (source != into), 2, into_gpu)
            self._add(number, _COPIES, start, end, pid, (agent, *on), (name, from_gpu, into_gpu), stack, size)
        for table, what, times in (("region", _REGIONS, "start end"), ("sample", _MARKS, "timestamp timestamp")):
            for start, end, pid, thread, name, stack, *told in read_rows(table, f"{times} pid tid name_id"):
                self._add(number, what, start, end, pid, (thread,), (name, *told), stack)

    def _read_messages(self, session: _Session, categories: set[int]) -> _ById:
        """Read the texts of roctx marks and ranges. Returns, by event id, indices into ``_messages``, to which new
        texts are added. Does nothing if none of the ``categories`` (string ids) is one of marks."""
        strings, own = self._database.strings(session.get("string", ""), categories, "string"), self._messages
        marking = [key for key, text in strings.items() if _KINDS[0][0].match(text)]
        only = ("category_id", marking)
        rows = self._database.rows(session["event"], ("id", "extdata"), _MOST_ROWS, only) if marking else []
        told = [(key, _object(text).get("message")) for key, text in rows]
        said = [(key, own.setdefault(text, len(own))) for key, text in told if isinstance(text, str)]
        return _ById(len(said), iter([list(np.array(said, np.int64).T)] if said else ()), 1)

    def _is_gpu(self, number: int, agent: Ints) -> Ints:
        """Tell which agents are GPUs, int64[n]: 1 for a GPU, 0 for another agent, NULL for an unknown one."""
        own = self._agents[number]
        known = np.where(np.isin(agent, [key for key, each in own.items() if not each.is_gpu]), 0, NULL)
        return np.where(np.isin(agent, [key for key, each in own.items() if each.is_gpu]), 1, known)

    def _sound(self, values: list[Ints]) -> list[Ints]:
        """Keep the rows that can be intervals, given columns whose first two are start and end; the others are counted
        as left out."""
        start, end = values[:2]
        sound = (start > 0) & (end >= start) & (end < _FARTHEST)
        self._n_events += len(start)
        self._left_out += len(start) - int(np.count_nonzero(sound))
        return values if sound.all() else [column[sound] for column in values]

    def _add(
        self, number: int, what: int, start: Ints, end: Ints, pid: Ints, on: Sequence[Ints], key: Sequence[Ints],
        stack: Ints, size: Ints | None = None,
    ) -> None:  # fmt: skip
        """Append intervals of one kind.

        Args:
            number: index of the session.
            what: _KERNELS, _COPIES, _REGIONS or _MARKS.
            pid: the process' id in the session.
            on: (thread,) on the host, or (agent, stream, queue) on a GPU.
            key: up to three columns that determine the name.
            stack: the stack id that links a call with its work.
        """
        n = len(start)
        if not n:
            return
        process = number_combinations([all_alike(number, n), pid], self._processes)
        place = [all_alike(0, n), *on, all_alike(0, n), all_alike(0, n)] if len(on) == 1 else [all_alike(1, n), *on]
        track = number_combinations([process.astype(np.int64), *place], self._tracks)
        rest = [all_alike(NULL, n)] * (3 - len(key))
        name = number_combinations([all_alike(number, n), all_alike(what, n), *key, *rest], self._names)
        linked = (stack > 0) & (stack < _MOST_LINK)
        link = np.where(linked, stack | process.astype(np.int64) * _MOST_LINK, NO_LINK)
        self._columns.add(start, end - start, track, name, link, None if size is None else np.maximum(size, -1))

    def _intervals(self, places: Sequence[int]) -> tuple[Intervals, tuple[str, ...]]:
        """Sort all intervals. ``places`` are the final indices of the tracks in ``_tracks``. Returns the intervals, and
        the timeline's names."""
        strings = self._texts("string", "string", of_kernels=False)
        mangled, kernels = (self._texts("info_kernel_symbol", name, True) for name in ("kernel_name", "display_name"))
        messages = list(self._messages)
        named = IntervalNames()
        for number, what, key, first, second in self._names:
            text, operation = strings[number].get(key, "(no name)"), -1
            if what == _KERNELS:
                kind = Kind.KERNEL
                text = kernels[number].get(key) or mangled[number].get(key) or "(unknown)"
            elif what == _COPIES:
                kind, operation = Kind.MEMCPY, operation_of(text.replace("_", ""))
                if NULL not in (first, second):
                    operation = OPERATIONS.index(("HtoH", "HtoD", "HtoD", "DtoH", "DtoD", "PtoP")[3 * first + second])
                text = f"Memcpy {OPERATIONS[operation]}" if operation < len(OPERATIONS) - 1 else text
            else:
                category = strings[number].get(first, "")
                kind = next((kind for pattern, kind in _KINDS if pattern.match(category or text)), Kind.CPU_OP)
                kind = _AT_ONCE.get(kind, kind) if what == _MARKS else kind
                text = messages[second] if second != NULL else category or text if key == NULL else text
            named.add(text, kind, operation)
        intervals, _ = self._columns.finish(*named.columns())
        return replace(intervals, track=np.array(places, np.int32)[intervals.track]), tuple(named.texts)

    def _texts(self, table: str, column: str, of_kernels: bool) -> list[dict[int, str]]:
        """Read all texts of a column that names refer to, of kernels or of all else. Returns for each session the texts
        by id."""
        wanted: list[set[int]] = [set() for _ in self._sessions]
        for number, what, *key in self._names:
            if of_kernels == (what == _KERNELS):
                wanted[number].update(key[:2])
        named = zip(self._sessions, wanted, strict=True)
        return [self._database.strings(session.get(table, ""), ids, column) for session, ids in named]

    def _made_tracks(self) -> tuple[tuple[Track, ...], list[int]]:
        """Make the tracks. Returns them, and for each key in ``_tracks`` its track's index: there is one track for each
        stream of a GPU, or for each queue if no streams were recorded."""
        with_streams = {process for process, on_gpu, _, stream, _ in self._tracks if on_gpu and stream > 0}
        queues = {(key[0], key[2], key[4]) for key in self._tracks if key[1] and key[4] != NULL}
        several = Counts(key[:2] for key in queues)
        threads = [
            {key: (whole_number(tid), name) for key, tid, name in
             self._database.rows(session.get("info_thread", ""), ("id", "tid", "name"), _MOST_ROWS)}
            for session in self._sessions
        ]  # fmt: skip
        ids, made, places = list(self._processes), dict[Key, int](), []
        tracks: list[Track] = []
        for process, on_gpu, where, stream, queue in self._tracks:
            by_queue = on_gpu and stream <= 0 and process not in with_streams and several[process, where] > 1
            queue = queue if by_queue else NULL
            places.append(made.setdefault((process, on_gpu, where, stream, queue), len(made)))
            if len(made) == len(tracks):
                continue
            number, key = ids[process]
            own = self._own[number].get(key, _Process(None, None, None, None))
            rank = own.rank if self._rank is None or len(ids) > 1 else self._rank
            if where == _HOST and on_gpu:
                tracks.append(Track("other", "copies within the host", rank, own.host, own.pid))
            elif on_gpu:
                agent = self._agents[number].get(where, _Agent(True, None, None, None))
                name = f"queue {queue}" if queue != NULL else "stream" if stream == NULL else f"stream {stream}"
                told = None if stream == NULL else stream
                tracks.append(Track("gpu_stream", name, rank, own.host, own.pid, None, agent.number, agent.uuid, told))
            else:
                tid, name = threads[number].get(where, (None, None))
                name = f"{name} ({tid})" if isinstance(name, str) and name else f"thread {tid}"
                tracks.append(Track("cpu_thread", name, rank, own.host, own.pid, tid))
        return tuple(tracks), places


def _object(text: Any) -> dict[str, Any]:
    """Parse a JSON object. Empty if the text is none, or longer than any that rocprofv3 writes."""
    try:
        found = json.loads(text) if isinstance(text, str) and len(text) <= _LONGEST_JSON else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _one(values: Iterable[_One | None]) -> _One | None:
    """Return the only value that is not None, however often it occurs; None if there are several different ones, or
    none."""
    told = {value for value in values if value is not None}
    return told.pop() if len(told) == 1 else None
