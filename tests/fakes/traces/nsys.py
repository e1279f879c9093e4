"""Writes .sqlite reports as Nsight Systems of several years exports them.

``write(path, contents, "2022.2", evils=("unified", "ranges"))``: one process of each content (rank) in one report.
Tables are lazy as in real ones: what was not traced has none.
"""

import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from gssr.traces.timeline import NO_LINK, Category, Kind

from .content import Content, Event

SESSION_NS = 1_500_000_000
"""By how much a content's zero is after the report's, whose rows count from the session's start."""
COPY_KIND = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10, "unified HtoD": 11, "unified DtoH": 12}
PAGEABLE, PINNED, DEVICE, MANAGED = 0, 1, 2, 4
UTF8_NO = b"TERM=\xff\xfe\xb0"


class Version(NamedTuple):
    """What differs between the exports of the years. ``meta``: the table with the version."""

    product: str
    schema: str
    meta: str
    enums: bool = True
    green: bool = False
    cuda_device: bool = True
    system_clock: bool = False
    absolute_analysis: bool = False


VERSIONS = {
    "2022.2": Version("2022.2.1.31", "2.9.1", "EXPORT_META_DATA", enums=False, cuda_device=False),
    "2025.1": Version("2025.1.3.140", "3.17.2", "META_DATA_EXPORT", green=True),
    "2025.6": Version("2025.6.1.190", "3.24.7", "META_DATA_EXPORT", green=True, system_clock=True, absolute_analysis=True),
}  # fmt: skip


def uuid_of(rank: int) -> str:
    """A GPU's, as the report has it: without "GPU-"."""
    return f"f1b77b98-5745-ceb4-ffa8-{rank:012x}"


class Report:
    """A report in the making."""

    def __init__(self, db: sqlite3.Connection, version: Version, contents: Sequence[Content]) -> None:
        self.db, self.version, self.contents = db, version, contents
        self.rng = random.Random(0)
        self.strings: dict[str, int] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {}
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

    def add(self, event: Event) -> None:
        """An event as its row."""
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
        elif event.kind is Kind.MEMSET:
            self.put(prefix + "MEMSET", **self.gpu(event), value=0, bytes=event.size, graphNodeId=None, memKind=DEVICE)
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

    def table(self, name: str, columns: Iterable[str]) -> None:
        """Makes a table of whole numbers and texts, with its rows."""
        kept = list(columns)
        texts = {"text", "name", "uuid", "busLocation", "utcTime", "localTime", "metricName", "typeName", "label"}
        if name != "CUPTI_ACTIVITY_KIND_MEMSET":
            texts.add("value")
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
        self.db.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (nameEnum INTEGER, name TEXT, value TEXT)")
        self.db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'env', CAST(? AS TEXT))", (UTF8_NO,))


def unified(r: Report) -> None:
    """Migrations of unified memory: copies without a call, on stream 0."""
    content, pid, start = r.first()
    for number in range(20):
        operation, at = ("unified HtoD", "unified DtoH")[number % 2], start + number * 3_000
        event = Event(Kind.MEMCPY, "", at, 2_500, pid, 0, content.rank, 0, size=4096, operation=operation,
                      category=Category.COPY)  # fmt: skip
        r.add(event)


def ranges(r: Report) -> None:
    """Every kind of row that NVTX has: ranges ended by another thread, registered texts, other domains, marks, names."""
    _, pid, start = r.first()
    for number, kind in enumerate((59, 60, 70, 71)):
        event = Event(Kind.RANGE, f"range of type {kind}", start + number, 9_000, pid, pid, category=Category.RANGE)
        values = {"text": None, "textId": r.string(event.name)} if number % 2 else {}
        end = r.global_id(pid, pid + 5) if kind == 60 else None
        r.range(event, kind, endGlobalTid=end, domainId=number, **values)
    for kind in (34, 65, 99, 75, 33):
        r.range(Event(Kind.MARK, f"mark {kind}", start, 0, pid, pid, category=Category.RANGE), kind, end=None)


EVILS: dict[str, Callable[[Report], None]] = {"unified": unified, "ranges": ranges}


def write(path: Path | str, contents: Sequence[Content], version: str = "2025.1", evils: Sequence[str] = ()) -> Path:
    """Write the report; its path."""
    path = Path(path)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        report = Report(db, VERSIONS[version], contents)
        for content in contents:
            for event in content.events:
                report.add(event)
        for evil in evils:
            EVILS[evil](report)
        report.finish()
        db.execute("COMMIT")
    return path
