"""Writes OTF2 archives with the package otf2, as Score-P does, kind and unkind.

``write(folder, program, Style(skew=True))`` writes the events of a simulated program; what they mean is in ``truth.of``. As
in Score-P's archives locations are numbered by thread and rank, ranks of communicators are places in a group whose members
are places in a list of locations, and each location's clock is corrected by its local definitions.
"""

import shutil
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import _otf2
import otf2
from otf2 import enums

from .program import Program, Record

NO_ROOT = 0xFFFFFFFF
BASE_TICKS = 7_000_000_000_000
"""What a right clock shows when the program begins."""


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

    def ticks(self, ns: int) -> int:
        """Convert a length of time."""
        return ns * self.resolution // 1_000_000_000


PLAIN = Style()


def number_of(program: Program, location: int) -> int:
    """A location's number in the archive."""
    at = program.locations[location]
    return (at.thread << 32) | at.rank


def kept(records: list[Record], style: Style) -> list[Record]:
    """The records that the style writes."""
    return records[: len(records) - style.unclosed] if style.unclosed else records


class _Archive:
    """An archive in the making: the definitions of a program, and what writes the events of its locations."""

    def __init__(self, trace: Any, program: Program, style: Style) -> None:
        self.trace, self.program, self.style = trace, program, style
        own = self.own = trace.definitions
        trace.creator = "Score-P 8.4"
        own.paradigm(enums.Paradigm.MPI, "MPI", enums.ParadigmClass.PROCESS)
        self.machine = own.system_tree_node("machine", "machine")
        nodes = {n: own.system_tree_node(f"node{n}", "node", parent=self.machine) for n in sorted(set(program.node_of))}
        self.node_of = [nodes[number] for number in program.node_of]
        groups = [own.location_group(f"MPI Rank {n}", system_tree_parent=node) for n, node in enumerate(self.node_of)]
        self.locations = []
        for at in program.locations:
            own.locations._ref = number_of(program, at.number) - 1  # the next one that is made has the number after it
            kind = getattr(enums.LocationType, at.kind)
            self.locations.append(own.location(at.name, type=kind, group=groups[at.rank]))
        self.regions = [
            own.region(
                region.name, region_role=getattr(enums.RegionRole, region.role), source_file=region.file,
                paradigm=getattr(enums.Paradigm, "NONE" if region.paradigm == "IO" else region.paradigm),
                begin_line_number=region.line, end_line_number=region.line + 20,
            ) for region in program.regions
        ]  # fmt: skip
        self._define_communicators()
        self._define_metrics()
        self.posix = own.io_paradigm(
            "POSIX I/O", "POSIX I/O", enums.IoParadigmClass.SERIAL, enums.IoParadigmFlag.OS, properties={}
        )
        self.handle = cache(self._define_handle)

    def _define_communicators(self) -> None:
        """The list of locations that call MPI, and each communicator's group of places in it."""
        own, kinds, mpi = self.own, enums.GroupType, enums.Paradigm.MPI
        callers = [
            location for at, location in zip(self.program.locations, self.locations, strict=True) if at.thread == 0
        ]
        own.group("", group_type=kinds.COMM_LOCATIONS, paradigm=mpi, members=callers)
        self.comms: list[Any] = []
        for comm in self.program.comms:
            group = own.group("", group_type=kinds.COMM_GROUP, paradigm=mpi, members=list(comm.ranks))
            self.comms.append(own.comm(comm.name, group, self.comms[0] if self.comms else None))

    def _define_metrics(self) -> None:
        """A class of each metric; the second one's instances are those of nodes."""
        own, self.metrics = self.own, list[Any]()
        for number, metric in enumerate(self.program.metrics):
            member = own.metric_member(
                metric.name, metric_type=enums.MetricType.OTHER if number else enums.MetricType.PAPI,
                metric_mode=getattr(enums.MetricMode, metric.mode), base=getattr(enums.Base, metric.base),
                value_type=enums.Type.DOUBLE if metric.floating else enums.Type.UINT64,
                exponent=metric.exponent, unit=metric.unit,
            )  # fmt: skip
            when = enums.MetricOccurrence.ASYNCHRONOUS if number else enums.MetricOccurrence.SYNCHRONOUS_STRICT
            self.metrics.append(own.metric_class((member,), occurrence=when, recorder_kind=enums.RecorderKind.CPU))
        self.power = {
            at.rank: own.metric_instance(self.metrics[1], recorder=location, scope=self.node_of[at.rank])
            for at, location in zip(self.program.locations, self.locations, strict=True)
            if at.thread == 0 and self.metrics
        }

    def _define_handle(self, file: str, rank: int) -> Any:
        regular = self.own.io_regular_file(file, scope=self.machine)
        return self.own.io_handle(f"{file} of {rank}", file=regular, io_paradigm=self.posix)

    def tick(self, time: int, rank: int) -> int:
        """A true time on a rank's clock."""
        style = self.style
        skew = style.ticks((rank * 7919 % 101 - 50) * 1_000_000) if style.skew else 0
        drift = style.ticks(time) * (rank % 3 - 1) // 1_000_000 if style.drift else 0
        return BASE_TICKS + style.ticks(time) + skew + drift

    def write_location(self, location: int, records: list[Record]) -> None:
        """What its clock's corrections are, and its events."""
        rank = self.program.locations[location].rank
        writer = self.trace.event_writer_from_location(self.locations[location])
        for time in (0, self.program.length()):
            here = self.tick(time, rank)
            backwards = self.style.backwards and rank == self.program.ranks - 1
            true = BASE_TICKS + self.style.ticks(-time // 2 if backwards else time)
            _otf2.DefWriter_WriteClockOffset(writer._def_handle, here, true - here, 0.0)
        stack: list[int] = []
        for time, what, *rest in records:
            self._write_event(partial(_write, writer, self.tick(time, rank)), rank, stack, what, rest)

    def _write_event(self, write: Callable[..., None], rank: int, stack: list[int], what: str, rest: list[Any]) -> None:
        """``write`` takes the name of an event and its fields; ``stack``: the regions that the location is in."""
        if what == "enter":
            stack.append(rest[0])
            if self.style.contexts:
                write("calling_context_enter", self._context(tuple(stack)), 1)
            else:
                write("enter", self.regions[rest[0]])
        elif what == "leave":
            if self.style.contexts:
                write("calling_context_leave", self._context(tuple(stack)))
            else:
                write("leave", self.regions[rest[0]])
            if stack:
                stack.pop()
        elif what in ("send", "recv"):
            other, comm, tag, size, request = rest
            place = self.program.comms[comm].ranks.index(other)
            name, more = (f"mpi_{what}", ()) if request is None else (f"mpi_i{what}", (request,))
            write(name, place, self.comms[comm], tag, size, *more)
        elif what == "send_done":
            write("mpi_isend_complete", rest[0])
        elif what == "recv_post":
            write("mpi_irecv_request", rest[0])
        elif what == "coll_begin":
            write("mpi_collective_begin")
        elif what == "coll_end":
            operation, comm, root, sent, received = rest
            place = NO_ROOT if root is None else self.program.comms[comm].ranks.index(root)
            kind = getattr(enums.CollectiveOp, operation)
            write("mpi_collective_end", kind, self.comms[comm], place, sent, received)
        elif what == "io_begin":
            file, mode, size, matching = rest
            kind = getattr(enums.IoOperationMode, mode)
            handle = self.handle(file, rank)
            write("io_operation_begin", handle, kind, enums.IoOperationFlag.NONE, size, matching)
        elif what == "io_end":
            write("io_operation_complete", self.handle(rest[0], rank), rest[1], rest[2])
        elif what == "metric":
            number, value = rest
            write("metric", self.power[rank] if number == 1 else self.metrics[number], [value])

    def _context(self, stack: tuple[int, ...]) -> Any:
        """The calling context of these regions, the outermost first; None of none."""
        return self.own.calling_context(self.regions[stack[-1]], None, self._context(stack[:-1])) if stack else None

    def set_clock(self) -> None:
        """Let the definitions say the program's whole time, also where some of its events are left out."""
        begin = min(self.tick(0, rank) for rank in range(self.program.ranks))
        before = BASE_TICKS - begin  # the archive's zero may be before the program's
        unix_ns = self.program.unix_ns - before * 1_000_000_000 // self.style.resolution
        if not self.style.real_time:
            unix_ns = enums.Undefined.TIMESTAMP.value
        trace = self.trace
        trace._first_timestamp = begin
        trace._last_timestamp = begin + 2 * before + self.style.ticks(self.program.length())
        trace._realtime_timestamp = Fraction(unix_ns, 1_000_000_000)


def _write(writer: Any, tick: int, name: str, *fields: Any) -> None:
    getattr(writer, name)(tick, *fields)


def write(folder: Path, program: Program, style: Style = PLAIN, events: dict[int, list[Record]] | None = None) -> Path:
    """Writes traces.otf2, traces.def and traces/ into a folder; the anchor file."""
    with closing(otf2.writer.Writer(str(folder), timer_resolution=style.resolution)) as trace:
        archive = _Archive(trace, program, style)
        for location, records in (program.events if events is None else events).items():
            archive.write_location(location, kept(records, style))
        archive.set_clock()
    return folder / "traces.otf2"


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
    being_written = copy("being written")  # of a program that runs: both come with its end
    (being_written / "traces.otf2").unlink()
    (being_written / "traces.def").unlink()
    garbage = copy("garbage") / "traces" / f"{first}.evt"
    garbage.write_bytes(bytes((7 * n * n) % 251 for n in range(garbage.stat().st_size)))
    definitions = copy("garbage definitions") / "traces.def"
    definitions.write_bytes(bytes((7 * n * n) % 251 for n in range(definitions.stat().st_size)))
    return found
