"""What rocprofv3 writes as JSON, and as CSV (a file for each kind of event): made into the tables of its database, which
gssr.traces.rocpd reads.

Of CSV all files of a process belong together: those that begin alike, such as ``1234_kernel_trace.csv`` and
``1234_hip_api_trace.csv``.
"""

import csv
import json
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gssr.arrays import Ints
from gssr.recognise import ROCPROF_TABLES, rocprof_siblings
from gssr.store.pages.leaf_rows import NULL
from gssr.traces.dump_file import load_dump, objects, text, whole_number
from gssr.traces.json_events import FileChunks
from gssr.traces.rocpd import timeline_of_tables
from gssr.traces.tables import TablesInMemory
from gssr.traces.text_lines import text_lines
from gssr.traces.timeline import Counter, Timeline, TraceError

_MOST_UNPACKED, _MOST_TIMES = 40 << 20, 6
"""As of load_dump: rocprofv3 names every kernel and file of the program, so that an honest file begins with 8 MB."""
_MOST_PROCESSES, _MOST_COUNTERS = 1000, 1000
_LEAST_LINE, _FEW_LINES = 40, 1000
"""Bytes of a line in the mean, where there are more lines than a few: two times since boot alone are 28."""
_INTERVALS = {
    "kernel_dispatch": ("start", "end", "pid", "agent_id", "stream_id", "queue_id", "kernel_id", "event_id"),
    "memory_copy": (
        "start", "end", "pid", "src_agent_id", "dst_agent_id", "stream_id", "queue_id", "name_id", "size", "event_id",
    ),
    "region": ("start", "end", "pid", "tid", "name_id", "event_id"),
    "sample": ("timestamp", "pid", "tid", "name_id", "event_id"),
    "event": ("id", "stack_id", "category_id"),
}  # fmt: skip
"""Tables with a row for each event, and their columns."""
_PROCESS = 1
"""The id of the process in its tables."""
_API = re.compile(r"\w{1,40}_api")
_TIMELESS = "counters have no times in this version of rocprofv3, and are left out"
_NUMBER = re.compile(r"(?:(Agent|CPU|GPU) )?(-?\d{1,19})")
"""An agent, or any other number."""


class _Gathered:
    """The tables of one process as they are gathered."""

    def __init__(self) -> None:
        self._events = {name: {column: array("q") for column in columns} for name, columns in _INTERVALS.items()}
        self._strings: dict[str, int] = {}
        self._kernels: dict[str, int] = {}
        self._threads: dict[int, int] = {}
        self.agents: dict[int, tuple[str, int | None, str | None, str | None]] = {}
        """By id the type (CPU or GPU), its number among those of the type, its name, and its UUID as JSON."""
        self.pid: int | None = None
        self.host: str | None = None
        self.counters: dict[str, tuple[array[int], list[float]]] = {}
        """By name times and values."""
        self.has_timeless_counters = False

    def string(self, value: str) -> int:
        """Return the id of a text."""
        return self._strings.setdefault(value, len(self._strings) + 1)

    def kernel(self, name: str) -> int:
        """Return the id of a kernel's name."""
        return self._kernels.setdefault(name, len(self._kernels) + 1)

    def thread(self, number: int) -> int:
        """Return the id of a thread, by its number in the system."""
        return self._threads.setdefault(number, len(self._threads) + 1)

    def add(self, table: str, correlation: int, category: str, *values: int) -> None:
        """Append a row: ``values`` of its columns but for the process and the event."""
        events = self._events["event"]
        number = len(events["id"]) + 1
        for column, value in zip(events, (number, correlation, self.string(category)), strict=True):
            events[column].append(value)
        own = self._events[table]
        for column, value in zip([name for name in own if name not in ("pid", "event_id")], values, strict=True):
            own[column].append(value)
        own["pid"].append(_PROCESS)
        own["event_id"].append(number)

    def count(self, name: str, time: int, value: float) -> None:
        """Append a value of a counter."""
        if name in self.counters or len(self.counters) < _MOST_COUNTERS:
            times, values = self.counters.setdefault(name, (array("q"), []))
            times.append(time)
            values.append(value)

    def tables(self, number: int) -> dict[str, dict[str, Ints | Sequence[Any]]]:
        """Return the tables, named as those of session ``number`` of a database."""
        found: dict[str, dict[str, Ints | Sequence[Any]]] = {
            name: {column: np.frombuffer(values, np.int64) for column, values in columns.items()}
            for name, columns in self._events.items()
        }
        found["string"] = {"id": list(self._strings.values()), "string": list(self._strings)}
        found["info_kernel_symbol"] = {"id": list(self._kernels.values()), "display_name": list(self._kernels)}
        found["info_node"] = {"id": [1], "hostname": [self.host]}
        found["info_process"] = {"id": [_PROCESS], "nid": [1], "pid": [self.pid]}
        found["info_thread"] = {"id": list(self._threads.values()), "tid": list(self._threads)}
        kinds, numbers, names, told = zip(*self.agents.values(), strict=True) if self.agents else ((),) * 4
        found["info_agent"] = {
            "id": list(self.agents),
            "type": kinds,
            "type_index": numbers,
            "product_name": names,
            "extdata": told,
        }
        return {f"rocpd_{name}_{number}": columns for name, columns in found.items()}


def read_rocprof(path: str, rank: int | None = None, most_bytes: int | None = None) -> Timeline:
    """Read a JSON file, or the CSV files of the process of which this is one. ``rank``: the rank if it is known. Times are
    ns since the node was booted. Raises TraceError. ``most_bytes``: as of load_dump."""
    damage: list[str] = []
    processes = _of_json(path, most_bytes) if _is_json(path) else [_of_csv(path, most_bytes, damage)]
    tables: dict[str, dict[str, Ints | Sequence[Any]]] = {}
    for number, process in enumerate(processes):
        tables |= process.tables(number)
    timeline = timeline_of_tables(TablesInMemory(path, tables, damage), rank)
    series = [
        Counter(name, "", "gauge", np.array(times)[order], np.array(values)[order])
        for process in processes
        for name, (times, values) in process.counters.items()
        for order in [np.argsort(np.array(times), kind="stable")]
    ]
    notes = (_TIMELESS,) * any(process.has_timeless_counters for process in processes)
    sources = tuple(source._replace(notes=(*source.notes, *notes)) for source in timeline.sources)
    return replace(timeline, sources=sources, counters=tuple(series))


def _is_json(path: str) -> bool:
    """Tell whether a file begins like a JSON object; False if it can't be read."""
    try:
        first = next(iter(FileChunks(path)), b"")[:100]
    except TraceError:
        return False
    return first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _handle(value: Any) -> int:
    """Return the number of an agent, queue or stream, ``{"handle": 5}``; NULL if it is none."""
    number = whole_number(value.get("handle")) if isinstance(value, dict) else None
    return NULL if number is None else number


def _whole(value: Any) -> int:
    number = whole_number(value)
    return NULL if number is None else number


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_json(path: str, most_bytes: int | None) -> list[_Gathered]:
    """Gather the processes of a JSON file. Raises TraceError."""
    held = load_dump(path, most_bytes, _MOST_UNPACKED, _MOST_TIMES)
    told = objects(_dict(held).get("rocprofiler-sdk-tool"))
    if not told or len(told) > _MOST_PROCESSES:
        raise TraceError(f"{path}: holds no process of rocprofv3, or more than {_MOST_PROCESSES:,}")
    return [_JsonProcess(each).gathered for each in told]


class _JsonProcess:
    """What JSON says of one process, made into tables."""

    def __init__(self, told: dict[str, Any]) -> None:
        own = self.gathered = _Gathered()
        about = _dict(told.get("metadata"))
        own.pid, own.host = whole_number(about.get("pid")), text(_dict(about.get("node")).get("hostname")) or None
        strings = _dict(told.get("strings"))
        self._kinds = [
            (text(each.get("kind")), each.get("operations")) for each in objects(strings.get("buffer_records"))
        ]
        self._marks = {
            whole_number(each.get("key")): text(each.get("value")) for each in objects(strings.get("marker_api"))
        }
        self._kernels = {
            whole_number(each.get("kernel_id")): text(each.get("formatted_kernel_name"))
            or text(each.get("kernel_name"))
            for each in objects(told.get("kernel_symbols"))
        }
        for agent in objects(told.get("agents")):
            kind = {1: "CPU", 2: "GPU"}.get(_whole(agent.get("type")), "")
            name = text(agent.get("product_name")) or text(agent.get("name")) or None
            extdata = json.dumps({"uuid": agent.get("uuid")}) if len(_dict(agent.get("uuid"))) < 4 else None
            own.agents[_handle(agent.get("id"))] = (
                kind,
                whole_number(agent.get("logical_node_type_id")),
                name,
                extdata,
            )
        records = _dict(told.get("buffer_records"))
        for each in objects(records.get("kernel_dispatch")):
            self._add_kernel(each)
        for each in objects(records.get("memory_copy")):
            self._add_copy(each)
        for name, found in records.items():
            if _API.fullmatch(name):
                for each in objects(found):
                    self._add_call(each)
        self._add_counters(told)

    def _named(self, record: dict[str, Any]) -> tuple[str, str]:
        """Return the kind of a record and its operation; "" for what is not named."""
        kind, operation = _whole(record.get("kind")), _whole(record.get("operation"))
        name, operations = self._kinds[kind] if 0 <= kind < len(self._kinds) else ("", None)
        is_there = isinstance(operations, list) and 0 <= operation < len(operations)
        return name, text(operations[operation]) if is_there and isinstance(operations, list) else ""

    @staticmethod
    def _when(record: dict[str, Any]) -> tuple[int, int, int]:
        """Return the correlation of a record, its start and its end."""
        correlation = _whole(_dict(record.get("correlation_id")).get("internal"))
        return correlation, _whole(record.get("start_timestamp")), _whole(record.get("end_timestamp"))

    def _add_kernel(self, record: dict[str, Any]) -> None:
        """Add a kernel from its record. What the record lacks is NULL, its name "(unknown)"."""
        correlation, start, end = self._when(record)
        about = _dict(record.get("dispatch_info"))
        name = self._kernels.get(whole_number(about.get("kernel_id"))) or "(unknown)"
        self.gathered.add(
            "kernel_dispatch", correlation, self._named(record)[0], start, end, _handle(about.get("agent_id")),
            _handle(record.get("stream_id")), _handle(about.get("queue_id")), self.gathered.kernel(name),
        )  # fmt: skip

    def _add_copy(self, record: dict[str, Any]) -> None:
        """Add a copy from its record. What the record lacks is NULL, its name ""."""
        correlation, start, end = self._when(record)
        kind, name = self._named(record)
        self.gathered.add(
            "memory_copy", correlation, kind, start, end, _handle(record.get("src_agent_id")),
            _handle(record.get("dst_agent_id")), _handle(record.get("stream_id")), NULL, self.gathered.string(name),
            _whole(record.get("bytes")),
        )  # fmt: skip

    def _add_call(self, record: dict[str, Any]) -> None:
        """Add a call, or a mark of the program, from its record. What the record lacks is NULL."""
        correlation, start, end = self._when(record)
        kind, name = self._named(record)
        name = self._marks.get(correlation) or name if kind.startswith("MARKER") else name
        _add_call(self.gathered, correlation, kind, name, _whole(record.get("thread_id")), start, end)

    def _add_counters(self, told: dict[str, Any]) -> None:
        """Add the values of all counters in ``told``, all that the file says of the process; each at the time at which
        its kernel began, ns. Values without a name or such a time are left out."""
        names = {_handle(each.get("id")): text(each.get("name")) for each in objects(told.get("counters"))}
        for each in objects(_dict(told.get("callback_records")).get("counter_collection")):
            dispatch = _dict(each.get("dispatch_data"))
            start = whole_number(dispatch.get("start_timestamp"))
            for record in objects(each.get("records")):
                value, name = record.get("value"), names.get(_handle(record.get("counter_id")))
                if name and start and isinstance(value, int | float):
                    self.gathered.count(name, start, float(value))


def _add_call(own: _Gathered, correlation: int, kind: str, name: str, thread: int, start: int, end: int) -> None:
    """Append a call, or a mark of the program, which takes no time."""
    if kind.startswith("MARKER") and start == end:
        own.add("sample", correlation, kind, start, own.thread(thread), own.string(name))
    else:
        own.add("region", correlation, kind, start, end, own.thread(thread), own.string(name))


def _of_csv(path: str, most_bytes: int | None, damage: list[str]) -> _Gathered:
    """Gather a process of its CSV files. Sentences on files that are cut off are appended to ``damage``. Raises
    TraceError."""
    own = _Gathered()
    gpus: set[int] = set()
    tables = [(each, kind) for kind in ("agents", *ROCPROF_TABLES) for each, of in rocprof_siblings(path) if of == kind]
    for each, kind in tables:
        rows = _rows(each, most_bytes, damage)
        head = next(rows, [])
        at = {name: place for place, name in enumerate(head)}
        read = {
            "agents": _read_agents, "kernels": _read_kernels, "copies": _read_copies, "calls": _read_calls,
            "counters": _read_counters,
        }[kind]  # fmt: skip
        read(own, at, rows, gpus)
    own.has_timeless_counters = any(kind == "counters" for _, kind in tables) and not own.counters
    for gpu in gpus - own.agents.keys():
        own.agents[gpu] = ("GPU", None, None, None)
    return own


def _rows(path: str, most_bytes: int | None, damage: list[str]) -> Iterator[list[str]]:
    """Yield the rows of a CSV file. A last line that is cut off is left out, and ``damage`` says so. Raises TraceError, also
    if lines are shorter in the mean than rocprofv3 writes."""
    n_columns, line = 0, ""

    def all_lines() -> Iterator[str]:
        nonlocal line
        size = 0
        for n, line in enumerate(text_lines(path, most_bytes, "rocprofv3"), 1):
            size += len(line)
            if n * _LEAST_LINE > max(size, _LEAST_LINE * _FEW_LINES):
                raise TraceError(f"{path}: is damaged: its lines are shorter than any that rocprofv3 writes")
            yield line

    try:
        for row in csv.reader(all_lines()):
            n_columns = n_columns or len(row)
            if len(row) < n_columns and not line.endswith("\n"):
                damage.append(f"the last line of {os.path.basename(path)} is cut off, and left out")
            elif row:
                yield row
    except csv.Error as error:
        raise TraceError(f"{path}: is damaged: a row of it is no CSV ({error})") from None


_Places = dict[str, int]


def _number(row: Sequence[str], at: _Places, name: str) -> int:
    """Return the number in a column, of "Agent 4" 4; NULL where there is none."""
    place = at.get(name, len(row))
    found = _NUMBER.fullmatch(row[place].strip()) if place < len(row) else None
    number = None if found is None else int(found[2])
    return NULL if number is None or abs(number) >= 1 << 63 else number


def _text(row: Sequence[str], at: _Places, name: str) -> str:
    place = at.get(name, len(row))
    return row[place] if place < len(row) else ""


def _read_agents(own: _Gathered, at: _Places, rows: Iterator[list[str]], _gpus: set[int]) -> None:
    """Enter the agents of a table. ``at``: by column its place in a row. Cells that are missing are NULL, None or ""."""
    for row in rows:
        number = _number(row, at, "Logical_Node_Type_Id")
        name = _text(row, at, "Product_Name") or _text(row, at, "Name") or None
        kind = _text(row, at, "Agent_Type")
        own.agents[_number(row, at, "Node_Id")] = (kind, None if number == NULL else number, name, None)


def _read_kernels(own: _Gathered, at: _Places, rows: Iterator[list[str]], gpus: set[int]) -> None:
    """Append the kernels of a table, and add the agents that ran them to ``gpus``. ``at``: by column its place in a row.
    Numbers that are missing are NULL, a missing name is "(unknown)"."""
    for row in rows:
        gpu = _number(row, at, "Agent_Id")
        gpus.add(gpu)
        own.add(
            "kernel_dispatch", _number(row, at, "Correlation_Id"), "KERNEL_DISPATCH", _number(row, at, "Start_Timestamp"),
            _number(row, at, "End_Timestamp"), gpu, _number(row, at, "Stream_Id"), _number(row, at, "Queue_Id"),
            own.kernel(_text(row, at, "Kernel_Name") or "(unknown)"),
        )  # fmt: skip


def _read_copies(own: _Gathered, at: _Places, rows: Iterator[list[str]], gpus: set[int]) -> None:
    """Append the copies of a table, and add the agents that by its direction are GPUs to ``gpus``. ``at``: by column its
    place in a row. Numbers that are missing are NULL, and so are the bytes, which such tables do not have."""
    for row in rows:
        direction = _text(row, at, "Direction")
        source, into = _number(row, at, "Source_Agent_Id"), _number(row, at, "Destination_Agent_Id")
        gpus.update({source} if "DEVICE_TO" in direction else (), {into} if "TO_DEVICE" in direction else ())
        own.add(
            "memory_copy", _number(row, at, "Correlation_Id"), "MEMORY_COPY", _number(row, at, "Start_Timestamp"),
            _number(row, at, "End_Timestamp"), source, into, _number(row, at, "Stream_Id"), NULL, own.string(direction),
            NULL,
        )  # fmt: skip


def _read_calls(own: _Gathered, at: _Places, rows: Iterator[list[str]], _gpus: set[int]) -> None:
    """Append the calls and marks of a table, and take the process id from the first row that has one. ``at``: by column
    its place in a row. Numbers that are missing are NULL."""
    for row in rows:
        if own.pid is None and (pid := _number(row, at, "Process_Id")) != NULL:
            own.pid = pid
        _add_call(
            own, _number(row, at, "Correlation_Id"), _text(row, at, "Domain"), _text(row, at, "Function"),
            _number(row, at, "Thread_Id"), _number(row, at, "Start_Timestamp"), _number(row, at, "End_Timestamp"),
        )  # fmt: skip


def _read_counters(own: _Gathered, at: _Places, rows: Iterator[list[str]], _gpus: set[int]) -> None:
    """Append the counters' values of a table, each at the time at which its kernel began, ns. ``at``: by column its
    place in a row. Rows without a name, a time above 0 or a number below 1e300 are left out."""
    for row in rows:
        start, name = _number(row, at, "Start_Timestamp"), _text(row, at, "Counter_Name")
        try:
            value = float(_text(row, at, "Counter_Value"))
        except ValueError:
            continue
        if name and start > 0 and abs(value) < 1e300:
            own.count(name, start, value)
