"""Small OTF2 archives with a known content. That of ``mpi_archive``, in µs: four ranks on two nodes each do three rounds of
1,000:

      0 main ─────────────────────────────────────────────────────────── 3,000
      100-300  compute    on rank 3 until 500
      300-340  MPI_Isend of 1,000 × (rank + 1) bytes to the next rank, MPI_Irecv from the one before
      500-560  MPI_Wait: the message comes at 550
      600-700  MPI_Allreduce of 64 bytes; rank 3 begins at 680
      800-900  write of 4,096 bytes to a file of each rank
"""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scorep.program import US, Comm, Location, Program, Record, Region

otf2 = pytest.importorskip("otf2")
from tests.fakes.scorep import otf2_archive  # noqa: E402

N_RANKS, N_ROUNDS = 4, 3
REGIONS = (
    Region("main", "COMPILER"), Region("compute", "USER", "CODE"), Region("MPI_Isend", "MPI", "POINT2POINT"),
    Region("MPI_Irecv", "MPI", "POINT2POINT"), Region("MPI_Wait", "MPI", "POINT2POINT"),
    Region("MPI_Allreduce", "MPI", "COLL_ALL2ALL"), Region("write", "IO", "FILE_IO"),
)  # fmt: skip
MAIN, COMPUTE, ISEND, IRECV, WAIT, ALLREDUCE, WRITE = range(len(REGIONS))


def ranks_program(events: dict[int, list[Record]]) -> Program:
    """Ranks with one thread each, two of them on a node, that do this."""
    locations = [Location(rank, rank, 0, "Master thread") for rank in events]
    world = Comm(0, "MPI_COMM_WORLD", tuple(events))
    return Program(len(events), locations, [world], events, [rank // 2 for rank in events], REGIONS, ())


def _round(rank: int, number: int) -> list[Record]:
    after, before, slow = (rank + 1) % N_RANKS, (rank - 1) % N_RANKS, rank == N_RANKS - 1
    sends, reduces, file = 510 if slow else 300, 680 if slow else 600, f"/scratch/out.{rank}"
    records: list[Record] = [
        (100, "enter", COMPUTE), (500 if slow else 300, "leave", COMPUTE),
        (sends, "enter", ISEND), (sends + 5, "send", after, 0, number, 1000 * (rank + 1), 2 * number),
        (sends + 10, "leave", ISEND),
        (sends + 10, "enter", IRECV), (sends + 15, "recv_post", 2 * number + 1), (sends + 20, "leave", IRECV),
        (540, "enter", WAIT), (550, "recv", before, 0, number, 1000 * (before + 1), 2 * number + 1),
        (555, "send_done", 2 * number), (560, "leave", WAIT),
        (reduces, "enter", ALLREDUCE), (reduces, "coll_begin"), (700, "coll_end", "ALLREDUCE", 0, None, 64, 64),
        (700, "leave", ALLREDUCE),
        (800, "enter", WRITE), (801, "io_begin", file, "WRITE", 4096, 7), (899, "io_end", file, 4096, 7),
        (900, "leave", WRITE),
    ]  # fmt: skip
    return [((1000 * number + time) * US, *rest) for time, *rest in records]


def mpi_archive(folder: Path) -> Path:
    """Four ranks that exchange, reduce and write."""
    end = 1000 * N_ROUNDS * US
    events: dict[int, list[Record]] = {}
    for rank in range(N_RANKS):
        rounds = [record for number in range(N_ROUNDS) for record in _round(rank, number)]
        events[rank] = [(0, "enter", MAIN), *rounds, (end, "leave", MAIN)]
    otf2_archive.write(folder, ranks_program(events))
    return folder


def _define_regions(own: Any, regions: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Define regions, given the names of their paradigms and roles."""
    paradigms, roles = otf2.enums.Paradigm, otf2.enums.RegionRole
    return {
        name: own.region(name, paradigm=getattr(paradigms, paradigm), region_role=getattr(roles, role))
        for name, (paradigm, role) in regions.items()
    }


def gpu_archive(folder: Path) -> Path:
    """A process with a thread, an OpenMP thread and a stream of a GPU, in µs:

    thread   0 main, never left; 10-15 and 95-100 cudaLaunchKernel; 210-240 an OpenMP barrier; at 5 and 205 counters
    second   200-240 an OpenMP region; 150 leaves what it has not entered
    stream   20-60 gets 1 MiB from the host; 100-200 gemm; 200-260 idle, as Score-P marks it; 260-270 puts 2 KiB
    """
    with otf2.writer.open(str(folder), timer_resolution=1_000_000) as trace:
        own, enums = trace.definitions, otf2.enums
        node = own.system_tree_node("node0", "node")
        group = own.location_group("program", system_tree_parent=node)
        device = own.location_group(
            "CUDA Context 1", location_group_type=enums.LocationGroupType.ACCELERATOR, system_tree_parent=node,
            creating_location_group=group,
        )  # fmt: skip
        thread = own.location("Master thread", group=group)
        second = own.location("OMP thread 1", group=group)
        stream = own.location("CUDA[1:7]", type=enums.LocationType.ACCELERATOR_STREAM, group=device)
        kind, cuda = enums.GroupType, enums.Paradigm.CUDA
        own.group("", group_type=kind.COMM_LOCATIONS, paradigm=cuda, members=[thread, stream])
        both = own.comm("", own.group("", group_type=kind.COMM_GROUP, paradigm=cuda, members=[0, 1]))
        window = own.rma_win("", both)
        parallel, barrier = "!$omp parallel @a.c:7", "!$omp implicit barrier @a.c:9"
        region = _define_regions(own, {
            "main": ("COMPILER", "FUNCTION"), "compute": ("USER", "CODE"), parallel: ("OPENMP", "PARALLEL"),
            barrier: ("OPENMP", "IMPLICIT_BARRIER"), "cudaLaunchKernel": ("CUDA", "FUNCTION"),
            "gemm": ("CUDA", "FUNCTION"), "COMPUTE IDLE": ("CUDA", "ARTIFICIAL"),
        })  # fmt: skip
        watts = own.metric_member("power", exponent=-3, unit="W", metric_mode=enums.MetricMode.ABSOLUTE_POINT)
        cycles = own.metric_member("cycles", value_type=enums.Type.DOUBLE, unit="#")
        counters = own.metric_class((watts, cycles), occurrence=enums.MetricOccurrence.ASYNCHRONOUS)

        on = trace.event_writer_from_location(thread)
        on.enter(0, region["main"])
        on.metric(5, counters, [100_000, 1e6])
        for begin in (10, 95):
            on.enter(begin, region["cudaLaunchKernel"])
            on.leave(begin + 5, region["cudaLaunchKernel"])
        on.metric(205, counters, [200_000, 3e6])
        on.enter(210, region[barrier])
        on.leave(240, region[barrier])
        on.buffer_flush(245, 247)

        on = trace.event_writer_from_location(second)
        on.leave(150, region["compute"])
        context = own.calling_context(region[parallel], None, None)
        on.calling_context_enter(200, context, 2)
        on.calling_context_leave(240, context)

        on = trace.event_writer_from_location(stream)
        on.rma_get(20, window, 0, 1 << 20, 42)
        on.rma_op_complete_blocking(60, window, 42)
        on.enter(100, region["gemm"])
        on.leave(200, region["gemm"])
        on.enter(200, region["COMPUTE IDLE"])
        on.leave(260, region["COMPUTE IDLE"])
        on.rma_put(260, window, 0, 2048, 42)
        on.rma_op_complete_non_blocking(270, window, 42)
    return folder


def sampled_archive(folder: Path) -> Path:
    """Two threads that Score-P both traces and samples, in µs. Of a calling context the last part is what runs:

    first    0 main; 10-70 compute, in which samples at 20, 30 ... 60 find compute itself; 80 main
    second   0-40 MPI_Wait, called by solve, which main has called: samples at 10 and 20 find poll, which progress has called
             in there, at 30 progress; 50 solve; 60 and 70 kernel, which solve has called; 80-90 MPI_Wait
    """
    with otf2.writer.open(str(folder), timer_resolution=1_000_000) as trace:
        own = trace.definitions
        regions = _define_regions(own, {
            "main": ("COMPILER", "FUNCTION"), "compute": ("USER", "CODE"), "MPI_Wait": ("MPI", "POINT2POINT"),
            **dict.fromkeys(("solve", "kernel", "progress", "poll"), ("SAMPLING", "FUNCTION")),
        })  # fmt: skip
        clock = own.interrupt_generator("SIGPROF", period=10)

        def at(line: int, *names: str) -> Any:
            """A calling context whose functions are all at this line of the file."""
            found = None
            for name in names:
                found = own.calling_context(regions[name], own.source_code_location("solve.c", line), found)
            return found

        node = own.system_tree_node("node0", "node")
        group = own.location_group("program", system_tree_parent=node)
        on = trace.event_writer_from_location(own.location("first", group=group))
        on.calling_context_sample(0, at(58, "main"), 2, clock)
        on.calling_context_enter(10, at(60, "main", "compute"), 3)
        for time in range(20, 70, 10):
            on.calling_context_sample(time, at(60 + time, "main", "compute"), 1, clock)
        on.calling_context_leave(70, at(60, "main", "compute"))
        on.calling_context_sample(80, at(99, "main"), 2, clock)
        on = trace.event_writer_from_location(own.location("second", group=group))
        wait = "main", "solve", "MPI_Wait"
        on.calling_context_enter(0, at(1, *wait), 4)
        for time, more in ((10, ("progress", "poll")), (20, ("progress", "poll")), (30, ("progress",))):
            on.calling_context_sample(time, at(time, *wait, *more), 3, clock)
        on.calling_context_leave(40, at(1, *wait))
        for time, more in ((50, ()), (60, ("kernel",)), (70, ("kernel",))):
            on.calling_context_sample(time, at(time, "main", "solve", *more), 2, clock)
        on.calling_context_enter(80, at(2, *wait), 2)
        on.calling_context_leave(90, at(2, *wait))
    return folder
