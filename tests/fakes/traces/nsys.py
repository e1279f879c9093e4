"""Writes .sqlite reports as Nsight Systems of several years exports them, kind or unkind, and says what each means.

``write(path, contents, "2022.2", evils=("unified", "open ranges"))``: one process of each content (rank) in one report.
Tables are lazy as in real ones: what was not traced has none.
"""

import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from gssr.traces.timeline import NO_LINK, Category, Kind

from .content import Content, Event, Sample

SESSION_NS = 1_500_000_000
"""By how much a content's zero is after the report's, whose rows count from the session's start."""
COPY_KIND = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10, "unified HtoD": 11, "unified DtoH": 12}
PAGEABLE, PINNED, DEVICE, MANAGED = 0, 1, 2, 4
UTF8_NO = b"TERM=\xff\xfe\xb0"


class Version(NamedTuple):
    """What differs between the exports of the years. ``meta``: the table with the version, None where there is none."""

    product: str
    schema: str
    meta: str | None
    enums: bool = True
    green: bool = False
    cuda_device: bool = True
    system_clock: bool = False
    absolute_analysis: bool = False


VERSIONS = {
    "2022.2": Version("2022.2.1.31", "2.9.1", "EXPORT_META_DATA", enums=False, cuda_device=False),
    "2022.4": Version("2022.4.2.1", "3.0.0", None, cuda_device=False),
    "2023.1": Version("2023.1.2.43", "3.1.2", "EXPORT_META_DATA", cuda_device=False),
    "2023.4": Version("2023.4.1.97", "3.9.1", "META_DATA_EXPORT"),
    "2024.5": Version("2024.5.1.113", "3.13.2", "META_DATA_EXPORT", green=True),
    "2025.1": Version("2025.1.3.140", "3.17.2", "META_DATA_EXPORT", green=True),
    "2025.6": Version("2025.6.1.190", "3.24.7", "META_DATA_EXPORT", green=True, system_clock=True, absolute_analysis=True),
    "2026.2": Version("2026.2.1.210", "3.25.0", "META_DATA_EXPORT", green=True, system_clock=True, absolute_analysis=True),
}  # fmt: skip


class Written(NamedTuple):
    """A report and what it means: events of a rank by start, with a name of "" where the report has none. ``unix_ns``: of
    the zero of their starts. ``open_ranges``: (name, start) of ranges that nothing ends, which last until the report's
    end. ``uuids``: of the GPU of each process. ``left_out``: rows that say nothing sound. ``marks``: rows without length."""

    path: Path
    version: Version
    events: dict[int, tuple[Event, ...]]
    samples: tuple[Sample, ...]
    unix_ns: int
    uuids: dict[int, str]
    open_ranges: tuple[tuple[str, int], ...] = ()
    left_out: int = 0
    marks: int = 0


def uuid_of(rank: int) -> str:
    """A GPU's, as the report has it: without "GPU-"."""
    return f"f1b77b98-5745-ceb4-ffa8-{rank:012x}"


class Report:
    """A report in the making."""

    def __init__(self, db: sqlite3.Connection, version: Version, contents: Sequence[Content], seed: int) -> None:
        self.db, self.version, self.contents = db, version, contents
        self.rng = random.Random(seed)
        self.strings: dict[str, int] = {}
        self.raw_strings: list[tuple[int, bytes]] = []
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.events: dict[int, list[Event]] = {content.rank: [] for content in contents}
        self.samples: list[Sample] = []
        self.open_ranges: list[tuple[str, int]] = []
        self.left_out = self.marks = 0
        self.drop: set[str] = set()  # columns that this report lacks
        self.end = max(e.end for c in contents for e in c.events) + 50_000_000

    def string(self, value: str) -> int:
        """The number of a text."""
        return self.strings.setdefault(value, len(self.strings) + 1)

    def global_id(self, pid: int, tid: int = 0) -> int:
        """A serialized id: more digits than a double has."""
        return (1 << 58) | (pid << 24) | tid

    def put(self, table: str, **values: Any) -> None:
        """A row of a table."""
        self.rows.setdefault(table, []).append(values)

    def times(self, event: Event) -> dict[str, int]:
        """Its start and end as rows have them."""
        return {"start": event.start + SESSION_NS, "end": event.end + SESSION_NS}

    def gpu(self, event: Event) -> dict[str, Any]:
        """What all rows of a GPU's work have."""
        green = {"greenContextId": None} if self.version.green else {}
        link = event.link if event.link != NO_LINK else 0
        return {
            **self.times(event), "deviceId": 0, "contextId": 1, **green, "streamId": event.stream, "correlationId": link,
            "globalPid": self.global_id(event.pid),
        }  # fmt: skip

    def add(self, event: Event, rank: int) -> None:
        """An event as its row, and as what a reader gives."""
        tid = self.global_id(event.pid, event.tid)
        prefix = "CUPTI_ACTIVITY_KIND_"
        if event.kind is Kind.KERNEL:
            number = self.string(event.name)
            short = self.string(event.name.split("(")[0].split("<")[0].split(" ")[-1])
            self.put(
                prefix + "KERNEL", **self.gpu(event), demangledName=number, shortName=short, mangledName=None, launchType=1,
                registersPerThread=32, gridX=32, gridY=1, gridZ=1, blockX=256, blockY=1, blockZ=1, staticSharedMemory=0,
                dynamicSharedMemory=0, localMemoryPerThread=0, localMemoryTotal=0, gridId=1, graphNodeId=None,
            )  # fmt: skip
        elif event.kind is Kind.MEMCPY:
            host = PAGEABLE if event.pageable else PINNED
            kinds = {
                "HtoD": (host, DEVICE), "DtoH": (DEVICE, host), "unified HtoD": (MANAGED, MANAGED),
                "unified DtoH": (MANAGED, MANAGED),
            }.get(event.operation, (DEVICE, DEVICE))  # fmt: skip
            self.put(
                prefix + "MEMCPY", **self.gpu(event), bytes=event.size, copyKind=COPY_KIND[event.operation],
                srcKind=kinds[0], dstKind=kinds[1], graphNodeId=None,
            )  # fmt: skip
            event = event._replace(name="")
        elif event.kind is Kind.MEMSET:
            self.put(prefix + "MEMSET", **self.gpu(event), value=0, bytes=event.size, graphNodeId=None, memKind=DEVICE)
            event = event._replace(name="")
        elif event.kind is Kind.GRAPH:
            self.put(prefix + "GRAPH_TRACE", **self.gpu(event), graphId=4, originalGraphId=None, graphExecId=5)
            event = event._replace(name="")
        elif event.kind in (Kind.RUNTIME, Kind.DRIVER):
            link = event.link if event.link != NO_LINK else 0
            name = self.string(f"{event.name}_v{self.rng.choice((3020, 7000, 11060))}")
            self.put(
                prefix + "RUNTIME", **self.times(event), eventClass=int(event.kind is Kind.DRIVER), globalTid=tid,
                correlationId=link, nameId=name, returnValue=0, callchainId=None,
            )  # fmt: skip
        elif event.kind is Kind.OS:
            self.put(
                "OSRT_API", **self.times(event), eventClass=27, globalTid=tid, correlationId=None,
                nameId=self.string(event.name), returnValue=0, nestingLevel=0, callchainId=None,
            )  # fmt: skip
        else:
            self.range(event)
            event = event._replace(kind=Kind.RANGE, category=Category.RANGE)
        self.events[rank].append(event)

    def range(self, event: Event, kind: int = 59, **values: Any) -> None:
        """A row of NVTX."""
        row: dict[str, Any] = {
            **self.times(event), "eventType": kind, "rangeId": None, "category": None, "color": None, "text": event.name,
            "globalTid": self.global_id(event.pid, event.tid), "endGlobalTid": None, "textId": None, "domainId": 0,
            "uint64Value": None,
        }  # fmt: skip
        self.put("NVTX_EVENTS", **(row | values))

    def first(self) -> tuple[Content, int, int]:
        """The first rank, its process, and a time after all its events."""
        content = self.contents[0]
        return content, content.events[0].pid, self.end - 40_000_000

    def kernel(self, name: str, after: int = 0, link: int = NO_LINK, stream: int = 7) -> Event:
        """A short kernel of the first rank, after all others."""
        content, pid, start = self.first()
        return Event(Kind.KERNEL, name, start + after, 5_000, pid, stream, content.rank, stream, link,
                     category=Category.COMPUTE)  # fmt: skip

    def table(self, name: str, columns: Iterable[str]) -> None:
        """Makes a table of whole numbers and texts, with its rows."""
        kept = [c for c in columns if c not in self.drop]
        texts = {"text", "name", "uuid", "busLocation", "utcTime", "localTime", "metricName", "typeName", "label"}
        if name != "CUPTI_ACTIVITY_KIND_MEMSET":
            texts.add("value")
        if name == "GPU_METRICS":
            texts.discard("value")
        declared = ", ".join(
            f'"{c}" {"TEXT" if c in texts else "INTEGER"}'
            + (" PRIMARY KEY" if c == "id" and name == "StringIds" else "")
            for c in kept
        )
        self.db.execute(f'CREATE TABLE "{name}" ({declared})')
        marks = ", ".join("?" for _ in kept)
        rows = [[row.get(c) for c in kept] for row in self.rows.get(name, [])]
        self.db.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)

    def finish(self) -> None:
        """All tables with rows, and those that every report has."""
        for number, value in enumerate(VERSIONS):  # texts that nothing uses
            self.string(f"unused {number} {value}")
        self.rows["StringIds"] = [{"id": number, "value": value} for value, number in self.strings.items()]
        start = self.contents[0].unix_ns - SESSION_NS
        clock = {"systemClockNs": 7_153_691_317_139_591} if self.version.system_clock else {}
        self.put(
            "TARGET_INFO_SESSION_START_TIME", utcEpochNs=start, utcTime="2025-10-09T08:53:20", localTime="", **clock
        )
        zero = 178_285_347_616_327 if self.version.absolute_analysis else 0
        whole = self.end + SESSION_NS
        self.put("ANALYSIS_DETAILS", globalVid=1 << 58, duration=whole, startTime=zero, stopTime=zero + whole)
        for content in self.contents:
            pid = content.events[0].pid
            self.put("PROCESSES", globalPid=self.global_id(pid), pid=pid, name="python")
            cu = {} if self.version.cuda_device else {"cuDevice": 0}
            self.put(
                "TARGET_INFO_GPU", vmId=1 << 58, id=content.rank, name="NVIDIA H100 80GB HBM3", busLocation="0000:83:00.0",
                smCount=132, uuid=uuid_of(content.rank), **cu,
            )  # fmt: skip
            if self.version.cuda_device:
                self.put("TARGET_INFO_CUDA_DEVICE", gpuId=content.rank, cudaId=0, pid=pid, uuid=uuid_of(content.rank),
                         numMultiprocessors=132)  # fmt: skip
            self.put("ThreadNames", nameId=self.string("python"), priority=20, globalTid=self.global_id(pid, pid))
        self.rows["StringIds"] = [{"id": number, "value": value} for value, number in self.strings.items()]
        if self.version.meta:
            for name, value in (
                ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"), ("EXPORT_PRODUCT_VERSION", self.version.product),
                ("EXPORT_SCHEMA_VERSION", self.version.schema), ("EXPORT_PLATFORM", "linux-desktop"),
            ):  # fmt: skip
                self.put(self.version.meta, name=name, value=value)
        if self.version.enums:
            labels = ["Host-to-Device", "Device-to-Host", "Device-to-Device", "Host-to-Host", "Peer-to-Peer", "Unified H2D",
                      "Unified D2H"]  # fmt: skip
            for (name, number), label in zip(COPY_KIND.items(), labels, strict=True):
                self.put("ENUM_CUDA_MEMCPY_OPER", id=number, name=f"CUDA_MEMCPY_KIND_{name}", label=label)
        for name, rows in self.rows.items():
            self.table(name, rows[0])
        for number, raw in self.raw_strings:
            self.db.execute("INSERT INTO StringIds VALUES (?, CAST(? AS TEXT))", (number, raw))
        self.db.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (nameEnum INTEGER, name TEXT, value TEXT)")
        self.db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'env', CAST(? AS TEXT))", (UTF8_NO,))


def unified(r: Report) -> None:
    """Migrations of unified memory: copies without a call, on stream 0."""
    content, pid, start = r.first()
    for number in range(20):
        operation, at = ("unified HtoD", "unified DtoH")[number % 2], start + number * 3_000
        event = Event(Kind.MEMCPY, "", at, 2_500, pid, 0, content.rank, 0, size=4096, operation=operation,
                      category=Category.COPY)  # fmt: skip
        r.add(event, content.rank)


def before_zero(r: Report) -> None:
    """A domain made, and a range begun, before the session."""
    content, pid, _ = r.first()
    r.range(Event(Kind.RANGE, "TensorRT", -SESSION_NS - 1_878_291_120, 0, pid, pid), 75, end=None, domainId=2)
    r.marks += 1
    r.add(Event(Kind.RANGE, "early", -SESSION_NS - 1_000_000_000, 1_100_000_000, pid, pid, category=Category.RANGE),
          content.rank)  # fmt: skip


def open_ranges(r: Report) -> None:
    """Ranges that nothing ends."""
    _, pid, start = r.first()
    for kind, name in ((59, "open pushed"), (60, "open started")):
        r.range(Event(Kind.RANGE, name, start, 0, pid, pid), kind, end=None)
        r.open_ranges.append((name, start))


def ranges(r: Report) -> None:
    """Every kind of row that NVTX has: ranges ended by another thread, registered texts, other domains, marks, names."""
    content, pid, start = r.first()
    for number, kind in enumerate((59, 60, 70, 71)):
        event = Event(Kind.RANGE, f"range of type {kind}", start + number, 9_000, pid, pid, category=Category.RANGE)
        values = {"text": None, "textId": r.string(event.name)} if number % 2 else {}
        end = r.global_id(pid, pid + 5) if kind == 60 else None
        r.range(event, kind, endGlobalTid=end, domainId=number, **values)
        r.events[content.rank].append(event)
    for kind in (34, 65, 99, 75, 33):
        event = Event(Kind.MARK, f"mark {kind}", start, 0, pid, pid, category=Category.RANGE)
        r.range(event, kind, end=None)
        r.marks += 1
        if kind in (34, 65):  # the others are no marks
            r.events[content.rank].append(event)


def graph_trace(r: Report) -> None:
    """Graphs traced as a whole: these rows stand for their kernels."""
    content, pid, start = r.first()
    for number in range(3):
        link = 800_001 + number
        call = Event(Kind.RUNTIME, "cudaGraphLaunch", start + number * 90_000 - 9_000, 5_000, pid, pid, link=link,
                     category=Category.LAUNCH)  # fmt: skip
        r.add(call, content.rank)
        r.add(r.kernel("", number * 90_000, link)._replace(kind=Kind.GRAPH, length=50_000), content.rank)


def graph(r: Report) -> None:
    """Kernels of a graph, each with a row, all with the launch's correlation."""
    content, pid, start = r.first()
    r.add(Event(Kind.RUNTIME, "cudaGraphLaunch", start - 9_000, 5_000, pid, pid, link=900_001, category=Category.LAUNCH),
          content.rank)  # fmt: skip
    for number in range(10):
        r.add(r.kernel(f"graph kernel {number % 3}", 6_000 * number, 900_001), content.rank)
        r.rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["graphNodeId"] = 70 + number


def unsound(r: Report) -> None:
    """Rows at 0, rows that end before they begin, rows without an end."""
    content, _, _ = r.first()
    rows = r.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    for changes in ({"start": 0, "end": 0}, {"end": 17}, {"end": None}):
        rows.append(rows[0] | changes)
        r.left_out += 1
    r.add(r.kernel("length 0")._replace(length=0), content.rank)


def no_strings(r: Report) -> None:
    """Kernels whose name's number no text has, or whose text is not UTF-8."""
    content, _, _ = r.first()
    r.add(r.kernel("soon gone", 10_000)._replace(name=""), content.rank)
    r.rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["demangledName"] = 999_999
    r.add(r.kernel("k��ernel", 20_000), content.rank)
    r.rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["demangledName"] = 888_888
    r.raw_strings.append((888_888, b"k\xff\xfeernel"))


def metrics(r: Report) -> None:
    """The GPU's own counters at 10 kHz: per cent, for two GPUs."""
    for gpu in range(2):
        kind = (0x0300 << 8) | gpu
        for number, name in enumerate(("SM Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]")):
            r.put("TARGET_INFO_GPU_METRICS", typeId=kind, sourceId=768, typeName="GPU Metrics", metricId=number,
                  metricName=name)  # fmt: skip
            for place in range(50):
                value = (place * 7 + number + gpu) % 101
                time = place * 100_000
                r.put(
                    "GPU_METRICS",
                    rawTimestamp=None,
                    timestamp=time + SESSION_NS,
                    typeId=kind,
                    metricId=number,
                    value=value,
                )
                r.samples.append(Sample(name, gpu, time, float(value)))


def operating_system(r: Report) -> None:
    """Calls of the operating system."""
    content, pid, start = r.first()
    for number, name in enumerate(("poll", "pthread_cond_wait", "read", "poll")):
        r.add(Event(Kind.OS, name, start + number * 1000, 700, pid, pid + number), content.rank)


def fewer_columns(r: Report) -> None:
    """A report that lacks what older ones lack."""
    r.drop |= {"srcKind", "dstKind", "graphNodeId", "mangledName", "callchainId", "endGlobalTid", "nestingLevel"}


EVILS: dict[str, Callable[[Report], None]] = {
    "unified": unified, "before zero": before_zero, "open ranges": open_ranges, "ranges": ranges, "graph trace": graph_trace,
    "graph": graph, "unsound": unsound, "no strings": no_strings, "metrics": metrics, "os": operating_system,
    "fewer columns": fewer_columns,
}  # fmt: skip
LAYOUTS = {
    "plain": "", "small pages": "PRAGMA page_size = 1024", "big pages": "PRAGMA page_size = 65536",
    "utf16": "PRAGMA encoding = 'UTF-16le'", "holes": "", "wal": "", "vacuumed": "PRAGMA auto_vacuum = 1",
}  # fmt: skip
"""How the database stands on disk. "holes": rows deleted and others in their place; "wal": a header that asks for a log."""


def write(path: Path | str, contents: Sequence[Content], version: str = "2025.1", evils: Sequence[str] = (),
          layout: str = "plain", seed: int = 0) -> Written:  # fmt: skip
    """Writes the report and tells what it means."""
    path = Path(path)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if LAYOUTS[layout]:
            db.execute(LAYOUTS[layout])
        db.execute("BEGIN")
        report = Report(db, VERSIONS[version], contents, seed)
        for content in contents:
            for event in content.events:
                report.add(event, content.rank)
        for evil in evils:
            EVILS[evil](report)
        report.finish()
        if layout == "holes":
            for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"):
                if table in report.rows:
                    db.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table} WHERE rowid % 3 = 0")
                    db.execute(f"DELETE FROM {table} WHERE rowid % 3 = 0")
                    db.execute(f"INSERT INTO {table} SELECT * FROM kept ORDER BY random()")
                    db.execute("DROP TABLE kept")
        db.execute("COMMIT")
        if layout == "wal":
            db.execute("PRAGMA journal_mode = wal")
    events = {rank: tuple(sorted(found, key=lambda e: (e.start, -e.length))) for rank, found in report.events.items()}
    return Written(
        path, VERSIONS[version], events, tuple(report.samples), contents[0].unix_ns,
        {c.events[0].pid: f"GPU-{uuid_of(c.rank)}" for c in contents}, tuple(report.open_ranges), report.left_out,
        report.marks,
    )  # fmt: skip
