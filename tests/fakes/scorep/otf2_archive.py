"""Writes OTF2 archives with the package otf2, as Score-P does, kind and unkind.

``write(folder, program, Style(skew=True))`` writes the events of a simulated program; what they mean is in ``truth.of``. As
in Score-P's archives locations are numbered by thread and rank, ranks of communicators are places in a group whose members
are places in a list of locations, and each location's clock is corrected by its local definitions.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import _otf2 as raw

from .program import FILES, Program, Record

NONE = 0xFFFFFFFF
FLUSH = raw.FlushCallbacks(pre_flush=lambda *_: raw.FLUSH, post_flush=None)


class Style(NamedTuple):
    """How an archive is written. ``resolution``: ticks per second; ``skew``: each rank's clock is wrong by milliseconds, and
    its local definitions say by how much; ``real_time``: whether the archive tells the unix time; ``contexts``: calling
    contexts in place of regions; ``unclosed``: so many of each location's last records are missing, as of a killed job."""

    resolution: int = 2_000_000_000
    skew: bool = False
    drift: bool = False
    real_time: bool = True
    contexts: bool = False
    unclosed: int = 0
    backwards: bool = False
    """What the definitions say of the last rank's clock makes it run backwards, and its messages come before they went."""


PLAIN = Style()


def number_of(program: Program, location: int) -> int:
    """A location's number in the archive."""
    at = program.locations[location]
    return (at.thread << 32) | at.rank


class Names:
    """Strings by number."""

    def __init__(self, define: Callable[[int, str], None]) -> None:
        self.define, self.numbers = define, {"": 0}
        define(0, "")

    def __call__(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers)
            self.define(self.numbers[text], text)
        return self.numbers[text]


def kept(records: list[Record], style: Style) -> list[Record]:
    """The records that the style writes."""
    return records[: len(records) - style.unclosed] if style.unclosed else records


class Archive:
    """An archive in the making."""

    def __init__(self, folder: Path, program: Program, style: Style, events: dict[int, list[Record]]) -> None:
        self.program, self.style = program, style
        self.events = {location: kept(records, style) for location, records in events.items()}
        self.scale = style.resolution // 1_000_000_000
        self.base = 7_000_000_000_000
        self.handle = raw.Archive_Open(
            str(folder), "traces", raw.FILEMODE_WRITE, 1024 * 1024, 4 * 1024 * 1024, raw.SUBSTRATE_POSIX,
            raw.COMPRESSION_NONE,
        )  # fmt: skip
        raw.Archive_SetFlushCallbacks(self.handle, FLUSH, None)
        raw.Archive_SetSerialCollectiveCallbacks(self.handle)
        raw.Archive_SetCreator(self.handle, "Score-P 8.4")
        self.paths: dict[tuple[int, ...], int] = {}
        self.handles: dict[tuple[str, int], int] = {}
        self.written: dict[int, int] = {}

    def skew(self, rank: int) -> int:
        """By how many ticks a rank's clock is ahead."""
        return (rank * 7919 % 101 - 50) * 1_000_000 * self.scale if self.style.skew else 0

    def tick(self, time: int, rank: int) -> int:
        """A true time on a rank's clock."""
        drift = time * self.scale * (rank % 3 - 1) // 1_000_000 if self.style.drift else 0
        return self.base + time * self.scale + self.skew(rank) + drift

    def write_events(self) -> None:
        """All files of events, and each location's local definitions."""
        raw.Archive_OpenDefFiles(self.handle)
        raw.Archive_OpenEvtFiles(self.handle)
        end = self.program.length()
        for location, records in self.events.items():
            number, rank = number_of(self.program, location), self.program.locations[location].rank
            local = raw.Archive_GetDefWriter(self.handle, number)
            for time in (0, end):
                here = self.tick(time, rank)
                backwards = self.style.backwards and rank == self.program.ranks - 1
                true = self.base + (-time // 2 if backwards else time) * self.scale
                raw.DefWriter_WriteClockOffset(local, here, true - here, 0.0)
            raw.Archive_CloseDefWriter(self.handle, local)
            writer = raw.Archive_GetEvtWriter(self.handle, number)
            self._location(writer, records, rank)
            raw.Archive_CloseEvtWriter(self.handle, writer)
        raw.Archive_CloseEvtFiles(self.handle)
        raw.Archive_CloseDefFiles(self.handle)

    def _location(self, writer: Any, records: Iterable[Record], rank: int) -> None:
        stack: list[int] = []
        ranks = {
            comm.number: {r: place for place, r in enumerate(comm.ranks)}
            for comm in self.program.comms
            if rank in comm.ranks
        }
        for record in records:
            time, what, *rest = record
            at = self.tick(time, rank)
            if what == "enter":
                stack.append(rest[0])
                if self.style.contexts:
                    raw.EvtWriter_CallingContextEnter(writer, None, at, self._context(stack), 1)
                else:
                    raw.EvtWriter_Enter(writer, None, at, rest[0])
            elif what == "leave":
                if self.style.contexts:
                    raw.EvtWriter_CallingContextLeave(writer, None, at, self._context(stack))
                else:
                    raw.EvtWriter_Leave(writer, None, at, rest[0])
                if stack:
                    stack.pop()
            elif what in ("send", "recv"):
                other, comm, tag, size, request = rest
                place = ranks[comm][other]
                if request is None:
                    write = raw.EvtWriter_MpiSend if what == "send" else raw.EvtWriter_MpiRecv
                    write(writer, None, at, place, comm, tag, size)
                else:
                    write = raw.EvtWriter_MpiIsend if what == "send" else raw.EvtWriter_MpiIrecv
                    write(writer, None, at, place, comm, tag, size, request)
            elif what == "send_done":
                raw.EvtWriter_MpiIsendComplete(writer, None, at, rest[0])
            elif what == "recv_post":
                raw.EvtWriter_MpiIrecvRequest(writer, None, at, rest[0])
            elif what == "coll_begin":
                raw.EvtWriter_MpiCollectiveBegin(writer, None, at)
            elif what == "coll_end":
                operation, comm, root, sent, received = rest
                place = NONE if root is None else ranks[comm][root]
                kind = getattr(raw, f"COLLECTIVE_OP_{operation}")
                raw.EvtWriter_MpiCollectiveEnd(writer, None, at, kind, comm, place, sent, received)
            elif what == "io_begin":
                file, mode, size, matching = rest
                kind = getattr(raw, f"IO_OPERATION_MODE_{mode}")
                raw.EvtWriter_IoOperationBegin(
                    writer, None, at, self._handle(file, rank), kind, raw.IO_OPERATION_FLAG_NONE, size, matching
                )
            elif what == "io_end":
                raw.EvtWriter_IoOperationComplete(writer, None, at, self._handle(rest[0], rank), rest[1], rest[2])
            elif what == "metric":
                number, value = rest
                metric, found = self.program.metrics[number], raw.MetricValue()
                if metric.floating:
                    found.floating_point = value
                else:
                    found.unsigned_int = value
                instance = 100 + rank if number == 1 else number
                raw.EvtWriter_Metric(
                    writer, None, at, instance, [raw.TYPE_DOUBLE if metric.floating else raw.TYPE_UINT64], [found]
                )

    def _context(self, stack: list[int]) -> int:
        return self.paths.setdefault(tuple(stack), len(self.paths))

    def _handle(self, file: str, rank: int) -> int:
        return self.handles.setdefault((file, rank), len(self.handles))

    def write_definitions(self) -> None:
        """The global definitions."""
        program = self.program
        to = raw.Archive_GetGlobalDefWriter(self.handle)
        begin = min(self.tick(0, rank) for rank in range(program.ranks))
        true = self.base - begin  # the archive's zero may be before the program's
        real = program.unix_ns - true // self.scale if self.style.real_time else raw.UNDEFINED_TIMESTAMP
        raw.GlobalDefWriter_WriteClockProperties(
            to, self.style.resolution, begin, 2 * true + program.length() * self.scale, real
        )
        name = Names(lambda number, text: raw.GlobalDefWriter_WriteString(to, number, text))
        texts = ["machine", "node", "MPI", "POSIX I/O", *(f"node{n}" for n in set(program.node_of))]
        texts += [text for region in program.regions for text in (region.name, region.file)]
        texts += [text for metric in program.metrics for text in (metric.name, metric.unit)]
        texts += [f"MPI Rank {rank}" for rank in range(program.ranks)] + [at.name for at in program.locations]
        texts += [comm.name for comm in program.comms] + [file for file, _ in self.handles] + list(FILES)
        for text in texts:
            name(text)
        raw.GlobalDefWriter_WriteParadigm(to, raw.PARADIGM_MPI, name("MPI"), raw.PARADIGM_CLASS_PROCESS)
        raw.GlobalDefWriter_WriteSystemTreeNode(to, 0, name("machine"), name("machine"), NONE)
        for node in sorted(set(program.node_of)):
            raw.GlobalDefWriter_WriteSystemTreeNode(to, 1 + node, name(f"node{node}"), name("node"), 0)
        for rank in range(program.ranks):
            process = raw.LOCATION_GROUP_TYPE_PROCESS
            raw.GlobalDefWriter_WriteLocationGroup(
                to, rank, name(f"MPI Rank {rank}"), process, 1 + program.node_of[rank], NONE
            )
        for location, at in enumerate(program.locations):
            kind = getattr(raw, f"LOCATION_TYPE_{at.kind}")
            count = len(self.events.get(location, []))
            raw.GlobalDefWriter_WriteLocation(to, number_of(program, location), name(at.name), kind, count, at.rank)
        for number, region in enumerate(program.regions):
            paradigm = raw.PARADIGM_NONE if region.paradigm == "IO" else getattr(raw, f"PARADIGM_{region.paradigm}")
            role = getattr(raw, f"REGION_ROLE_{region.role}")
            title, file = name(region.name), name(region.file)
            raw.GlobalDefWriter_WriteRegion(
                to, number, title, title, 0, role, paradigm, raw.REGION_FLAG_NONE, file, region.line, region.line + 20
            )
        for path, number in sorted(self.paths.items(), key=lambda item: item[1]):
            parent = self.paths.get(path[:-1], NONE) if len(path) > 1 else NONE
            raw.GlobalDefWriter_WriteCallingContext(to, number, path[-1], NONE, parent)
        self._communicators(to, name)
        for number, metric in enumerate(program.metrics):
            raw.GlobalDefWriter_WriteMetricMember(
                to, number, name(metric.name), 0, raw.METRIC_TYPE_PAPI if number == 0 else raw.METRIC_TYPE_OTHER,
                getattr(raw, f"METRIC_{metric.mode}"), raw.TYPE_DOUBLE if metric.floating else raw.TYPE_UINT64,
                getattr(raw, f"BASE_{metric.base}"), metric.exponent, name(metric.unit),
            )  # fmt: skip
            when = raw.METRIC_SYNCHRONOUS_STRICT if number == 0 else raw.METRIC_ASYNCHRONOUS
            raw.GlobalDefWriter_WriteMetricClass(to, number, [number], when, raw.RECORDER_KIND_CPU)
        for rank in range(program.ranks):  # power is its node's
            scope = raw.SCOPE_SYSTEM_TREE_NODE
            raw.GlobalDefWriter_WriteMetricInstance(to, 100 + rank, 1, rank, scope, 1 + program.node_of[rank])
        raw.GlobalDefWriter_WriteIoParadigm(
            to,
            0,
            name("POSIX I/O"),
            name("POSIX I/O"),
            raw.IO_PARADIGM_CLASS_SERIAL,
            raw.IO_PARADIGM_FLAG_OS,
            [],
            [],
            [],
        )
        files = {file: number for number, file in enumerate(dict.fromkeys(file for file, _ in self.handles))}
        for file, number in files.items():
            raw.GlobalDefWriter_WriteIoRegularFile(to, number, name(file), 0)
        for (file, _), number in self.handles.items():
            raw.GlobalDefWriter_WriteIoHandle(to, number, 0, files[file], 0, raw.IO_HANDLE_FLAG_NONE, NONE, NONE)
        raw.Archive_CloseGlobalDefWriter(self.handle, to)

    def _communicators(self, to: Any, name: Names) -> None:
        """The list of locations that call MPI, and each communicator's group of places in it."""
        program = self.program
        mpi = [number_of(program, location) for location, at in enumerate(program.locations) if at.thread == 0]
        raw.GlobalDefWriter_WriteGroup(
            to, 0, 0, raw.GROUP_TYPE_COMM_LOCATIONS, raw.PARADIGM_MPI, raw.GROUP_FLAG_NONE, mpi
        )
        for comm in program.comms:
            kind, flag = raw.GROUP_TYPE_COMM_GROUP, raw.GROUP_FLAG_NONE
            raw.GlobalDefWriter_WriteGroup(to, 1 + comm.number, 0, kind, raw.PARADIGM_MPI, flag, list(comm.ranks))
            raw.GlobalDefWriter_WriteComm(
                to, comm.number, name(comm.name), 1 + comm.number, NONE if comm.number == 0 else 0, raw.COMM_FLAG_NONE
            )


def write(folder: Path, program: Program, style: Style = PLAIN, events: dict[int, list[Record]] | None = None) -> Path:
    """Writes traces.otf2, traces.def and traces/ into a folder; the anchor file."""
    archive = Archive(folder, program, style, program.events if events is None else events)
    archive.write_events()
    archive.write_definitions()
    raw.Archive_Close(archive.handle)
    return folder / "traces.otf2"


def written(folder: Path, program: Program) -> Path:
    """The folder of an archive that is never closed."""
    archive = Archive(folder, program, PLAIN, program.events)
    archive.write_events()
    OPEN.append(archive)
    return folder


OPEN: list[Archive] = []
"""Archives that stay open, so that nothing finishes them."""


def spoilt(folder: Path, program: Program) -> dict[str, Path]:
    """Archives that are not whole, by what they lack: the path to give a reader."""
    good = folder / "good"
    write(good, program)
    found: dict[str, Path] = {}

    def copy(name: str) -> Path:
        shutil.copytree(good, folder / name)
        found[name] = folder / name
        return folder / name

    first, second = (number_of(program, location) for location in (0, len(program.locations) // program.ranks))
    (copy("a rank missing") / "traces" / f"{second}.evt").unlink()
    cut = copy("cut event file") / "traces" / f"{first}.evt"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size * 2 // 3])
    (copy("an empty event file") / "traces" / f"{first}.evt").write_bytes(b"")
    shutil.rmtree(copy("no events") / "traces")
    (copy("no definitions") / "traces.def").unlink()
    (copy("no anchor") / "traces.otf2").unlink()
    for path in (copy("no local definitions") / "traces").glob("*.def"):
        path.unlink()
    anchor = copy("another version") / "traces.otf2"
    content = bytearray(anchor.read_bytes())
    content[5:12] = b"\xfe" * 7
    anchor.write_bytes(content)
    shutil.copytree(written(folder / "in the making", program), folder / "being written")
    found["being written"] = folder / "being written"
    garbage = copy("garbage") / "traces" / f"{first}.evt"
    garbage.write_bytes(bytes((7 * n * n) % 251 for n in range(garbage.stat().st_size)))
    definitions = copy("garbage definitions") / "traces.def"
    definitions.write_bytes(bytes((7 * n * n) % 251 for n in range(definitions.stat().st_size)))
    return found
