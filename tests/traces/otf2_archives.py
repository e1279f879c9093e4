"""OTF2 archives as the package otf2 writes them, small, with a known content.

Times are in µs of a timer of 1 MHz. Four ranks on two nodes each do three rounds of 1,000 µs:

      0 main ─────────────────────────────────────────────────────────── 3,000
      100-300  compute    on rank 3 until 500
      300-340  MPI_Isend of 1,000 × (rank + 1) bytes to the next rank, MPI_Irecv from the one before
      500-560  MPI_Wait: the message comes at 550
      600-700  MPI_Allreduce of 64 bytes; rank 3 begins at 680
      800-900  write of 4,096 bytes to a file of each rank
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

otf2 = pytest.importorskip("otf2")
N_RANKS, N_ROUNDS = 4, 3
FIRST = 5_000_000
"""The timer when it begins."""


class Writer:
    """An archive that is being written. ``event`` takes times that count from FIRST."""

    def __init__(self, folder: Path, resolution: int = 1_000_000) -> None:
        self.trace = otf2.writer.open(str(folder), timer_resolution=resolution).thing
        own = self.trace.definitions
        self.own, enums = own, otf2.enums
        self.trace.creator = "Score-P 8.4"
        machine = own.system_tree_node("cluster", "machine")
        self.nodes = [own.system_tree_node(f"node{at}", "node", parent=machine) for at in range(2)]
        regions = {
            "main": ("COMPILER", "FUNCTION"), "compute": ("USER", "CODE"), "MPI_Isend": ("MPI", "POINT2POINT"),
            "MPI_Irecv": ("MPI", "POINT2POINT"), "MPI_Wait": ("MPI", "POINT2POINT"),
            "MPI_Allreduce": ("MPI", "COLL_ALL2ALL"),
            "write": ("NONE", "FILE_IO"), "!$omp parallel @a.c:7": ("OPENMP", "PARALLEL"),
            "!$omp implicit barrier @a.c:9": ("OPENMP", "IMPLICIT_BARRIER"), "cudaLaunchKernel": ("CUDA", "FUNCTION"),
            "gemm": ("CUDA", "FUNCTION"), "COMPUTE IDLE": ("CUDA", "ARTIFICIAL"),
        }  # fmt: skip
        self.regions = {
            name: own.region(
                name, paradigm=getattr(enums.Paradigm, paradigm), region_role=getattr(enums.RegionRole, role)
            )
            for name, (paradigm, role) in regions.items()
        }
        posix = own.io_paradigm("POSIX", "POSIX I/O", enums.IoParadigmClass.SERIAL, enums.IoParadigmFlag.OS)
        self.groups: list[Any] = []
        self.ranks: list[Any] = []
        self.files: list[Any] = []
        for rank in range(N_RANKS):
            group = own.location_group(f"MPI Rank {rank}", system_tree_parent=self.nodes[rank // 2])
            self.groups.append(group)
            self.ranks.append(own.location("Master thread", group=group))
            file = own.io_regular_file(f"/scratch/out.{rank}", scope=machine)
            self.files.append(own.io_handle(f"out.{rank}", file=file, io_paradigm=posix))
        group_type, mpi = enums.GroupType, enums.Paradigm.MPI
        own.group("", group_type=group_type.COMM_LOCATIONS, paradigm=mpi, members=self.ranks)
        world = own.group("", group_type=group_type.COMM_GROUP, paradigm=mpi, members=list(range(N_RANKS)))
        self.world = own.comm("MPI_COMM_WORLD", world)

    def close(self) -> None:
        """Write what is left."""
        self.trace.close()

    def on(self, location: Any) -> Callable[..., None]:
        """What writes an event of that location: its name, its time, its fields."""
        writer = self.trace.event_writer_from_location(location)

        def event(name: str, time: int, *fields: Any) -> None:
            getattr(writer, name)(FIRST + time, *fields)

        return event

    def enter(
        self, location: Any, name: str, begin: int, end: int, inside: Callable[[], object] = lambda: None
    ) -> None:
        """A region, with what lies within."""
        event = self.on(location)
        event("enter", begin, self.regions[name])
        inside()
        event("leave", end, self.regions[name])


def _round(of: Writer, rank: int, begin: int) -> None:
    enums, location, event = otf2.enums, of.ranks[rank], of.on(of.ranks[rank])
    after, before = (rank + 1) % N_RANKS, (rank - 1) % N_RANKS
    number = begin // 1000

    def region(name: str, first: int, last: int, *inside: tuple[Any, ...]) -> None:
        def events() -> None:
            for what, time, *fields in inside:
                event(what, begin + time, *fields)

        of.enter(location, name, begin + first, begin + last, events)

    slow = rank == N_RANKS - 1
    region("compute", 100, 500 if slow else 300)
    at = 510 if slow else 300
    region("MPI_Isend", at, at + 10, ("mpi_isend", at + 5, after, of.world, number, 1000 * (rank + 1), 2 * number))
    region("MPI_Irecv", at + 10, at + 20, ("mpi_irecv_request", at + 15, 2 * number + 1))
    region(
        "MPI_Wait", 540, 560,
        ("mpi_irecv", 550, before, of.world, number, 1000 * (before + 1), 2 * number + 1),
        ("mpi_isend_complete", 555, 2 * number),
    )  # fmt: skip
    first = 680 if slow else 600
    region(
        "MPI_Allreduce", first, 700, ("mpi_collective_begin", first),
        ("mpi_collective_end", 700, enums.CollectiveOp.ALLREDUCE, of.world, 0xFFFFFFFF, 64, 64),
    )  # fmt: skip
    handle = of.files[rank]
    region(
        "write", 800, 900,
        ("io_operation_begin", 801, handle, enums.IoOperationMode.WRITE, enums.IoOperationFlag.NONE, 4096, 7),
        ("io_operation_complete", 899, handle, 4096, 7),
    )  # fmt: skip


def mpi_archive(folder: Path) -> Path:
    """Four ranks that exchange, reduce and write; metrics of rank 0 and of its node."""
    with closing(Writer(folder)) as of:
        own, enums = of.own, otf2.enums
        watts = own.metric_member(
            "power", metric_type=enums.MetricType.OTHER, metric_mode=enums.MetricMode.ABSOLUTE_POINT,
            value_type=enums.Type.UINT64, base=enums.Base.DECIMAL, exponent=-3, unit="W",
        )  # fmt: skip
        cycles = own.metric_member(
            "cycles", metric_type=enums.MetricType.PAPI, metric_mode=enums.MetricMode.ACCUMULATED_START,
            value_type=enums.Type.DOUBLE, base=enums.Base.BINARY, exponent=0, unit="#",
        )  # fmt: skip
        both = own.metric_class((watts, cycles), occurrence=enums.MetricOccurrence.ASYNCHRONOUS)
        for rank in range(N_RANKS):

            def rounds(rank: int = rank) -> None:
                for number in range(N_ROUNDS):
                    if rank == 0:
                        of.on(of.ranks[0])("metric", 1000 * number, both, [100_000 * (number + 1), 1e6 * number])
                    _round(of, rank, 1000 * number)

            of.enter(of.ranks[rank], "main", 0, 1000 * N_ROUNDS, rounds)
    return folder


def gpu_archive(folder: Path) -> Path:
    """A process with a thread, an OpenMP thread and a stream of a GPU, in µs:

    thread   0 main, never left; 10-15 and 95-100 cudaLaunchKernel; 210-240 an OpenMP barrier
    second   200-240 an OpenMP region; 150 leaves what it has not entered
    stream   20-60 gets 1 MiB from the host; 100-200 gemm; 200-260 idle, as Score-P marks it; 260-270 puts 2 KiB
    """
    with closing(Writer(folder)) as of:
        own, enums = of.own, otf2.enums
        group = own.location_group("program", system_tree_parent=of.nodes[0])
        device = own.location_group(
            "CUDA Context 1", location_group_type=enums.LocationGroupType.ACCELERATOR, system_tree_parent=of.nodes[0],
            creating_location_group=group,
        )  # fmt: skip
        thread = own.location("Master thread", group=group)
        second = own.location("OMP thread 1", group=group)
        stream = own.location("CUDA[1:7]", type=enums.LocationType.ACCELERATOR_STREAM, group=device)
        kind, cuda = enums.GroupType, enums.Paradigm.CUDA
        own.group("", group_type=kind.COMM_LOCATIONS, paradigm=cuda, members=[thread, stream])
        both = own.comm("", own.group("", group_type=kind.COMM_GROUP, paradigm=cuda, members=[0, 1]))
        window = own.rma_win("", both)
        on, region = of.on(thread), of.regions
        on("enter", 0, region["main"])
        for begin in (10, 95):
            of.enter(thread, "cudaLaunchKernel", begin, begin + 5)
        of.enter(thread, "!$omp implicit barrier @a.c:9", 210, 240)
        on("buffer_flush", 245, FIRST + 247)
        of.on(second)("leave", 150, region["compute"])
        context = own.calling_context(region["!$omp parallel @a.c:7"], None, None)
        of.on(second)("calling_context_enter", 200, context, 2)
        of.on(second)("calling_context_leave", 240, context)
        gpu = of.on(stream)
        gpu("rma_get", 20, window, 0, 1 << 20, 42)
        gpu("rma_op_complete_blocking", 60, window, 42)
        of.enter(stream, "gemm", 100, 200)
        of.enter(stream, "COMPUTE IDLE", 200, 260)
        gpu("rma_put", 260, window, 0, 2048, 42)
        gpu("rma_op_complete_non_blocking", 270, window, 42)
    return folder


def sampled_archive(folder: Path) -> Path:
    """Two threads that Score-P both traces and samples, in µs. Of a calling context the last part is what runs:

    first    0 main; 10-70 compute, in which samples at 20, 30 ... 60 find compute itself; 80 main
    second   0-40 MPI_Wait, called by solve, which main has called: samples at 10 and 20 find poll, which progress has called
             in there, at 30 progress; 50 solve; 60 and 70 kernel, which solve has called; 80-90 MPI_Wait
    """
    with closing(Writer(folder)) as of:
        own, enums = of.own, otf2.enums
        for name in ("solve", "kernel", "progress", "poll"):
            of.regions[name] = own.region(name, paradigm=enums.Paradigm.SAMPLING, region_role=enums.RegionRole.FUNCTION)
        clock = own.interrupt_generator("SIGPROF", period=10)
        file = "solve.c"

        def at(line: int, *names: str) -> Any:
            """A calling context whose functions are all at this line of the file."""
            found = None
            for name in names:
                found = own.calling_context(of.regions[name], own.source_code_location(file, line), found)
            return found

        group = own.location_group("program", system_tree_parent=of.nodes[0])
        first, second = (own.location(name, group=group) for name in ("first", "second"))
        on = of.on(first)
        on("calling_context_sample", 0, at(58, "main"), 2, clock)
        on("calling_context_enter", 10, at(60, "main", "compute"), 3)
        for time in range(20, 70, 10):
            on("calling_context_sample", time, at(60 + time, "main", "compute"), 1, clock)
        on("calling_context_leave", 70, at(60, "main", "compute"))
        on("calling_context_sample", 80, at(99, "main"), 2, clock)
        on = of.on(second)
        wait = "main", "solve", "MPI_Wait"
        on("calling_context_enter", 0, at(1, *wait), 4)
        for time, more in ((10, ("progress", "poll")), (20, ("progress", "poll")), (30, ("progress",))):
            on("calling_context_sample", time, at(time, *wait, *more), 3, clock)
        on("calling_context_leave", 40, at(1, *wait))
        for time, more in ((50, ()), (60, ("kernel",)), (70, ("kernel",))):
            on("calling_context_sample", time, at(time, "main", "solve", *more), 2, clock)
        on("calling_context_enter", 80, at(2, *wait), 2)
        on("calling_context_leave", 90, at(2, *wait))
    return folder
