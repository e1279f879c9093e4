"""Writes ``*_results.db`` as rocprofv3 (rocpd) does, and says what each means.

``write(path, [Process(content, ...)], Style())``: one set of tables for each process, as ``rocpd merge`` puts the files of
several into one; ``one_set``: all in one, as rocprofiler-systems has them. Times are ns of CLOCK_BOOTTIME. Of what the
contents of tests/fakes/traces hold, calls, ranges, kernels and copies are written; what torch does on the host is not.
"""

import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gssr.traces.timeline import Category, Kind
from tests.fakes.rocpd.tables import COLUMNS, create, views
from tests.fakes.traces.content import Content, Event

COPIES = {"HtoD": "HOST_TO_DEVICE", "DtoH": "DEVICE_TO_HOST", "DtoD": "DEVICE_TO_DEVICE", "PtoP": "DEVICE_TO_DEVICE",
          "HtoH": "HOST_TO_HOST"}  # fmt: skip
CPU_AGENTS = 2
"""Agents before the GPUs: a GPU's absolute index is its place among them all."""
DEVICE_ID = 0x74A1
ODD = b"k\xff\xfeernel<\xb0>"


@dataclass(frozen=True)
class Style:
    """How a file is written. ``own_ids``: ids are counted and are not the numbers of processes and threads; ``unique``: the
    agents' column ``uuid`` is what it is called, and not the id of the product, as rocprofv3 7.0 writes it; ``told``: the
    GPUs' own ids are in ``extdata``; ``views``: there are some; ``rank``: the environment tells it."""

    views: bool = True
    own_ids: bool = False
    one_set: bool = False
    unique: bool = False
    told: bool = True
    rank: bool = True
    loose: bool = False
    marks: bool = False
    """A mark of roctx at the begin of each range, with the same text: a row of ``sample``."""
    hostname: str = os.uname().nodename


class Process(NamedTuple):
    """What one process did, on which GPUs: ``gpus``: unique ids of all GPUs of its node, in KFD's order, of which ``device``
    of an event is a place."""

    content: Content
    gpus: tuple[int, ...]
    environment: Mapping[str, str] = {}


class Written(NamedTuple):
    """A file and what it means: the events that are in it, by rank, with the unix time of their starts' zero."""

    path: Path
    events: dict[int, tuple[Event, ...]]
    boot_ns: int
    tables: tuple[str, ...]
    """Suffixes of its tables."""

    @property
    def unix_ns(self) -> int:
        """Of the zero of its events, by this machine's clocks."""
        return self.boot_ns + boot_to_unix()


def boot_to_unix() -> int:
    """ns from CLOCK_BOOTTIME to unix time, here and now."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def in_hip(event: Event) -> Event:
    """A call by its name in HIP."""
    return event._replace(name="hip" + event.name[4:]) if event.name.startswith("cuda") else event


def guid_of(number: int) -> str:
    """Of a process: a uuid of version 7."""
    return f"00049be3-1c39-7c39-8ea0-{0x168663CDE420 + number:012x}"


class _Set:
    """The tables of a file in the making."""

    def __init__(self, db: sqlite3.Connection, guid: str, style: Style) -> None:
        self.db, self.style, self.guid = db, style, guid
        self.suffix = "_" + guid.replace("-", "_")
        self.strings: dict[str, int] = {}
        self.ids: dict[str, int] = {}
        for table in COLUMNS:
            db.execute(create(table, self.suffix, guid, style.loose))
        for tag, value in (("schema_version", "3"), ("uuid", self.suffix), ("guid", guid)):
            self.put("metadata", tag=tag, value=value)
        self.put("info_node", id=1, hash=3638630046, machine_id="e58b1a9a6c0d4a7ea1b4", system_name="Linux",
                 hostname=style.hostname, release="6.8.0", version="#1 SMP", hardware_name="x86_64",
                 domain_name="(none)")  # fmt: skip

    def put(self, table: str, **row: Any) -> int:
        """A row; its id."""
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        cursor = self.db.execute(
            f"INSERT INTO `rocpd_{table}{self.suffix}` ({names}) VALUES ({marks})", [*row.values()]
        )
        return cursor.lastrowid or 0

    def string(self, text: str) -> int:
        """The number of a text."""
        if text not in self.strings:
            self.strings[text] = self.put("string", string=text)
        return self.strings[text]

    def id_of(self, table: str, number: int) -> int:
        """The id of a process or thread: its number, or one that is counted."""
        if not self.style.own_ids:
            return number
        return self.ids.setdefault(f"{table} {number}", 1 + sum(key.startswith(table) for key in self.ids))

    def event(self, category: str, stack: int, extdata: str = "{}") -> int:
        """A row of ``event``; its id."""
        return self.put(
            "event", category_id=self.string(category), stack_id=stack, parent_stack_id=0, correlation_id=0, extdata=extdata
        )  # fmt: skip


def _extdata(unique_id: int, place: int) -> str:
    told = list(unique_id.to_bytes(8, "little")) + [0] * 8
    return json.dumps({
        "size": 472, "id": {"handle": 1 << 40 | place}, "type": 2, "simd_count": 1216, "gfx_target_version": 90402,
        "vendor_id": 4098, "device_id": DEVICE_ID, "location_id": 1280 + 4096 * place, "drm_render_minor": 128 + place,
        "node_id": CPU_AGENTS + place, "logical_node_id": CPU_AGENTS + place, "logical_node_type_id": place,
        "uuid": {"bytes": told},
    })  # fmt: skip


def _agents(own: _Set, process: Process, pid: int, first: int) -> None:
    for place in range(CPU_AGENTS):
        own.put("info_agent", id=first + place, nid=1, pid=pid, type="CPU", absolute_index=place, logical_index=place,
                type_index=place, uuid=0, name="AMD EPYC 9654", product_name="AMD EPYC 9654")  # fmt: skip
    for place, unique_id in enumerate(process.gpus):
        index = CPU_AGENTS + place
        signed = unique_id - (1 << 64) if unique_id >= 1 << 63 else unique_id
        own.put(
            "info_agent", id=first + index, nid=1, pid=pid, type="GPU", absolute_index=index, logical_index=index,
            type_index=place, uuid=signed if own.style.unique else DEVICE_ID, name="gfx942",
            product_name="AMD Instinct MI300X", vendor_name="AMD", model_name="ip discovery",
            extdata=_extdata(unique_id, place) if own.style.told else "{}",
        )  # fmt: skip


def _process(own: _Set, process: Process, boot_ns: int, number: int) -> list[Event]:
    """The rows of a process; its events as they are in the file."""
    content, style = process.content, own.style
    first = 100 * number
    events = [in_hip(e) for e in content.events if e.kind in (Kind.KERNEL, Kind.MEMCPY, Kind.RUNTIME, Kind.RANGE)]
    events.sort(key=lambda e: e.end)  # by end, as they come in
    begin, end = min(e.start for e in events), max(e.end for e in events)
    number_of = events[0].pid
    environment = dict(process.environment)
    if style.rank:
        environment |= {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(content.rank)}
    pid = own.id_of("process", number_of)
    own.put(
        "info_process", id=pid, nid=1, ppid=1, pid=number_of, init=boot_ns + begin - 90_000_000,
        fini=boot_ns + end + 9_000_000, start=boot_ns + begin, end=boot_ns + end, command="python train.py",
        environment=json.dumps(environment),
    )  # fmt: skip
    for tid in dict.fromkeys(e.tid for e in events if e.device is None):
        own.put("info_thread", id=own.id_of("thread", tid), nid=1, ppid=1, pid=pid, tid=tid, name="python")
    main = own.id_of("thread", next(e.tid for e in events if e.device is None))
    streams = {
        stream: place for place, stream in enumerate(dict.fromkeys(e.stream for e in events if e.stream is not None))
    }
    for place in range(len(streams) + 1):
        name = "Default Stream" if place == 0 else f"Stream {place - 1}"
        own.put("info_stream", id=first + place, nid=1, pid=pid, name=name)
        own.put("info_queue", id=first + place, nid=1, pid=pid, name=name.replace("Stream", "Queue"))
    _agents(own, process, pid, first)
    code = own.put("info_code_object", nid=1, pid=pid, agent_id=first + CPU_AGENTS, uri="file:///app/lib.so")
    symbols: dict[str, int] = {}
    for dispatch, event in enumerate(events, 1):
        times = {"start": boot_ns + event.start, "end": boot_ns + event.end}
        link = event.link if event.link >= 0 else 1_000_000 + dispatch
        if event.kind in (Kind.KERNEL, Kind.MEMCPY):
            assert event.device is not None
            agent = first + CPU_AGENTS + event.device
            place = first + 1 + streams[event.stream]
        if event.kind is Kind.KERNEL:
            if event.name not in symbols:
                mangled = f"_Z{len(event.name)}{len(symbols)}.kd"
                symbols[event.name] = own.put(
                    "info_kernel_symbol", nid=1, pid=pid, code_object_id=code, kernel_name=mangled,
                    display_name=event.name, group_segment_size=0, private_segment_size=0, sgpr_count=64,
                )  # fmt: skip
            own.put(
                "kernel_dispatch", nid=1, pid=pid, tid=main, agent_id=agent, kernel_id=symbols[event.name],
                dispatch_id=dispatch, queue_id=place, stream_id=place, **times, workgroup_size_x=256, workgroup_size_y=1,
                workgroup_size_z=1, grid_size_x=65536, grid_size_y=1, grid_size_z=1, region_name_id=own.string(""),
                event_id=own.event("KERNEL_DISPATCH", link),
            )  # fmt: skip
        elif event.kind is Kind.MEMCPY:
            host = first
            source = host if event.operation.startswith("H") else agent
            into = host if event.operation.endswith("H") else agent
            if event.operation == "PtoP":
                into = first + CPU_AGENTS + (event.device + 1) % len(process.gpus)
            name_id = own.string(f"MEMORY_COPY_{COPIES[event.operation]}")
            own.put(
                "memory_copy", nid=1, pid=pid, tid=main, **times, name_id=name_id,
                dst_agent_id=into, src_agent_id=source, dst_address=1 << 40, src_address=1 << 41, size=event.size,
                stream_id=place, event_id=own.event("MEMORY_COPY", link),
            )  # fmt: skip
        else:
            ranges = event.kind is Kind.RANGE
            category = "MARKER_CORE_RANGE_API" if ranges else "HIP_RUNTIME_API"
            told = json.dumps({"message": event.name}) if ranges else "{}"
            tid = own.id_of("thread", event.tid)
            name = "roctxThreadRangeA" if ranges else event.name
            at = own.event(category, link, told)
            own.put("region", nid=1, pid=pid, tid=tid, **times, name_id=own.string(name), event_id=at)
            if ranges and style.marks:
                track = own.put("track", nid=1, pid=pid, tid=tid, name_id=own.string("MARKER_CORE_API"))
                mark = own.event("MARKER_CORE_API", 2_000_000 + dispatch, told)
                own.put("sample", track_id=track, timestamp=times["start"], event_id=mark)
            if name.startswith("hip"):
                own.put("arg", event_id=at, position=0, type="hipStream_t", name="stream", value="0x0")
    return [event._replace(pid=number_of, name="" if event.kind is Kind.MEMCPY else event.name) for event in events]


def write(path: Path, processes: Sequence[Process], style: Style | None = None, boot_ns: int | None = None) -> Written:
    """A file. ``boot_ns``: CLOCK_BOOTTIME at the zero of the contents; None: so that they have just ended."""
    style = style or Style()
    last = max(event.end for process in processes for event in process.content.events)
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - last - 1_000_000_000 if boot_ns is None else boot_ns
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    events, suffixes = {}, []
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        own = None
        for number, process in enumerate(processes):
            if own is None or not style.one_set:
                own = _Set(db, guid_of(number), style)
                suffixes.append(own.suffix)
            events[process.content.rank] = tuple(_process(own, process, boot_ns, number if style.one_set else 0))
        if style.views:
            for statement in views(suffixes):
                db.execute(statement)
        db.execute("COMMIT")
    return Written(path, events, boot_ns, tuple(suffixes))


def trained(rank: int = 0, device: int | None = None, steps: int = 3) -> Content:
    """A loop whose sums can be told in one's head: each step of 40 ms copies 1 MiB to the GPU in 2 ms, computes for
    16 ms in 8 kernels, sends for 6 ms, of which 2 ms lie under the last kernel, and copies 4 KiB back in 1 ms."""
    device = rank if device is None else device
    ms, step_ns, pid, events, link = 1_000_000, 40_000_000, 5000 + rank, [], 0

    def gpu(kind: Kind, name: str, start: int, length: int, stream: int, category: Category, **more: Any) -> None:
        nonlocal link
        link += 1
        call = "hipLaunchKernel" if kind is Kind.KERNEL else "hipMemcpyWithStream"
        events.append(
            Event(Kind.RUNTIME, call, start - ms // 2, ms // 10, pid, pid, link=link, category=Category.LAUNCH)
        )
        events.append(Event(kind, name, start, length, pid, stream, device, stream, link, category=category, **more))

    for step in range(steps):
        at = step * step_ns + ms
        events.append(Event(Kind.RANGE, f"step {step}", at - ms, step_ns - ms, pid, pid, category=Category.RANGE))
        gpu(Kind.MEMCPY, "", at, 2 * ms, 3, Category.COPY, size=1 << 20, operation="HtoD")
        for layer in range(8):
            name = "Cijk_Ailk_Bljk_SB_MT128x128x16" if layer % 2 else "void at::native::elementwise_kernel<512, 1>"
            gpu(Kind.KERNEL, name, at + (2 + 2 * layer) * ms, 2 * ms, 1, Category.COMPUTE)
        gpu(Kind.KERNEL, "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", at + 16 * ms, 6 * ms, 2,
            Category.COMMUNICATION)  # fmt: skip
        gpu(Kind.MEMCPY, "", at + 22 * ms, ms, 3, Category.COPY, size=4096, operation="DtoH")
    return Content(rank, tuple(events))
