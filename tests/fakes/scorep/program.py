"""A small simulation of a program with MPI, OpenMP, CUDA, files and counters: what each location does, in whole ns.

``run(ranks=4, threads=2, gpu=True, steps=3)`` gives a Program whose events a writer puts into an archive. Every choice is
drawn from ``seed``; times are true ones, which all locations share: a writer makes wrong clocks of them. Records are plain
tuples, ``(time, what, ...)``, in the order of each location's time.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

US, MS = 1_000, 1_000_000
LATENCY, CALL = 5 * US, 3 * US
Record = tuple[Any, ...]
"""(time, "enter" | "leave", region); (time, "send", receiver, comm, tag, bytes, request or None);
(time, "send_done", request); (time, "recv_post", request);
(time, "recv", sender, comm, tag, bytes, request or None); (time, "coll_begin");
(time, "coll_end", operation, comm, root, sent, received); (time, "io_begin", file, mode, bytes, id);
(time, "io_end", file, bytes, id); (time, "metric", number, value).
Ranks are those of the world, requests one rank's own."""


class Region(NamedTuple):
    """A function. ``paradigm`` and ``role``: names of OTF2's enums."""

    name: str
    paradigm: str
    role: str = "FUNCTION"
    file: str = "solver.c"
    line: int = 1


REGIONS = (
    Region("main", "COMPILER", line=10), Region("step", "USER", line=40), Region("assemble", "COMPILER", line=60),
    Region("flux(double const*, int)", "COMPILER", line=80), Region("solve", "COMPILER", line=120),
    Region("!$omp parallel @solver.c:66", "OPENMP", "PARALLEL", line=66),
    Region("!$omp implicit barrier @solver.c:70", "OPENMP", "IMPLICIT_BARRIER", line=70),
    Region("MPI_Init", "MPI"), Region("MPI_Finalize", "MPI"), Region("MPI_Isend", "MPI", "POINT2POINT"),
    Region("MPI_Irecv", "MPI", "POINT2POINT"), Region("MPI_Waitall", "MPI", "POINT2POINT"),
    Region("MPI_Send", "MPI", "POINT2POINT"), Region("MPI_Recv", "MPI", "POINT2POINT"),
    Region("cudaLaunchKernel", "CUDA", "WRAPPER"), Region("cudaDeviceSynchronize", "CUDA", "WRAPPER"),
    Region("void axpy<float>(float*, float const*, int)", "CUDA"), Region("stencil_kernel(double*)", "CUDA"),
    Region("acc_compute@solver.c:130", "OPENACC", "WRAPPER", line=130),
    Region("fopen64", "IO", "FILE_IO_METADATA"), Region("fwrite", "IO", "FILE_IO"), Region("fread", "IO", "FILE_IO"),
    Region("pthread_mutex_lock", "PTHREAD"), Region("fibonacci", "COMPILER", line=200),
    *(Region(f"MPI_{name}", "MPI", role) for name, role in (
        ("Barrier", "BARRIER"), ("Bcast", "COLL_ONE2ALL"), ("Gather", "COLL_ALL2ONE"), ("Scatter", "COLL_ONE2ALL"),
        ("Allgather", "COLL_ALL2ALL"), ("Alltoall", "COLL_ALL2ALL"), ("Allreduce", "COLL_ALL2ALL"),
        ("Reduce", "COLL_ALL2ONE"), ("Reduce_scatter", "COLL_ALL2ALL"), ("Scan", "COLL_OTHER"),
    )),
)  # fmt: skip
COLLECTIVES = (
    "BARRIER", "BCAST", "GATHER", "SCATTER", "ALLGATHER", "ALLTOALL", "ALLREDUCE", "REDUCE", "REDUCE_SCATTER", "SCAN",
)  # fmt: skip
FILES = ("/scratch/run/input.dat", "/scratch/run/check point.%d", "/scratch/run/log äöü.txt")
"""Read by all, written by each rank under its number, and written by rank 0."""


class Metric(NamedTuple):
    """A counter. Its value is what is recorded · base ** exponent, in the unit; ``mode``: of OTF2's enum."""

    name: str
    unit: str
    mode: str
    base: Literal["DECIMAL", "BINARY"] = "DECIMAL"
    exponent: int = 0
    floating: bool = False

    @property
    def factor(self) -> float:
        """Of a recorded value to one in the unit."""
        return float((10 if self.base == "DECIMAL" else 2) ** self.exponent)


METRICS = (
    Metric("PAPI_TOT_INS", "#", "ACCUMULATED_START"),
    Metric("node power", "W", "ABSOLUTE_POINT", "DECIMAL", -3),
    Metric("memory", "B", "ABSOLUTE_LAST", "BINARY", 20),
    Metric("temperature", "C", "ABSOLUTE_NEXT", floating=True),
)
"""Of these the first location of each rank has the first two and the third; rank 0 has all."""


class Location(NamedTuple):
    """A stream of events. ``number``: its own; ``thread``: 0 is the one that calls MPI."""

    number: int
    rank: int
    thread: int
    name: str
    kind: Literal["CPU_THREAD", "ACCELERATOR_STREAM"] = "CPU_THREAD"


class Comm(NamedTuple):
    """A communicator: the world's ranks in its own order."""

    number: int
    name: str
    ranks: tuple[int, ...]


@dataclass
class Program:
    """What ran. ``events``: by location number; ``node_of``: the node's number of each rank."""

    ranks: int
    locations: list[Location]
    comms: list[Comm]
    events: dict[int, list[Record]]
    node_of: list[int]
    regions: Sequence[Region] = REGIONS
    metrics: Sequence[Metric] = METRICS
    unix_ns: int = 1_760_000_000_000_000_000
    """The unix time of tick 0."""

    def length(self) -> int:
        """The last event's time."""
        return max(record[0] for records in self.events.values() for record in records)

    def only(self, ranks: set[int]) -> dict[int, list[Record]]:
        """The events of the locations of some ranks."""
        return {at.number: self.events[at.number] for at in self.locations if at.rank in ranks}


@dataclass
class _Rank:
    """Where a rank's threads are."""

    rank: int
    threads: list[int]
    gpu: int | None
    now: int = 0
    gpu_free: int = 0
    request: int = 0
    io: int = 0
    instructions: int = 0
    requests: list[tuple[int, int]] = field(default_factory=list)


class _Run:
    """A program in the making."""

    def __init__(self, ranks: int, threads: int, gpu: bool, seed: int, per_node: int, names: dict[str, int]) -> None:
        self.rng = random.Random(f"{ranks} {threads} {gpu} {seed}")
        self.names = names
        self.locations: list[Location] = []
        self.each: list[_Rank] = []
        for rank in range(ranks):
            numbers = list(range(len(self.locations), len(self.locations) + threads))
            for thread, number in enumerate(numbers):
                name = "Master thread" if thread == 0 else f"OMP thread {thread}"
                self.locations.append(Location(number, rank, thread, name))
            stream = None
            if gpu:
                stream = len(self.locations)
                self.locations.append(Location(stream, rank, threads, "CUDA[0:7]", "ACCELERATOR_STREAM"))
            self.each.append(_Rank(rank, numbers, stream, now=self.rng.randrange(40 * US)))
        self.events: dict[int, list[Record]] = {at.number: [] for at in self.locations}
        world = tuple(range(ranks))
        rows = [world[i : i + 4] for i in range(0, ranks, 4)]
        self.comms = [Comm(0, "MPI_COMM_WORLD", world), Comm(1, "reversed", world[::-1])]
        self.rows = [Comm(2 + n, "row", tuple(reversed(row))) for n, row in enumerate(rows)]  # all of one name
        self.comms += self.rows
        self.node_of = [rank // per_node for rank in range(ranks)]

    def put(self, rank: _Rank, what: str, *args: Any, thread: int = 0) -> None:
        """A record of a rank's thread, now."""
        self.events[rank.threads[thread]].append((rank.now, what, *args))

    def enter(self, rank: _Rank, name: str) -> None:
        """The master thread goes into a region."""
        self.put(rank, "enter", self.names[name])

    def leave(self, rank: _Rank, name: str, takes: int = 0) -> None:
        """The master thread leaves it, after a while."""
        rank.now += takes
        self.put(rank, "leave", self.names[name])

    def call(self, rank: _Rank, name: str, takes: int = CALL) -> None:
        """A region without anything in it."""
        self.enter(rank, name)
        self.leave(rank, name, takes)

    def some(self, mean: int) -> int:
        """A length that is never the same."""
        return max(1, int(mean * self.rng.uniform(0.6, 1.4)))

    def compute(self, rank: _Rank) -> None:
        """Functions of the program, one of them by itself again; then a parallel region of all its threads."""
        self.enter(rank, "assemble")
        for _ in range(2):
            rank.now += self.some(20 * US)
            self.call(rank, "flux(double const*, int)", self.some(30 * US))
        self.enter(rank, "fibonacci")
        self.enter(rank, "fibonacci")
        rank.now += self.some(4 * US)
        self.call(rank, "fibonacci", self.some(5 * US))
        self.leave(rank, "fibonacci", 1)
        self.leave(rank, "fibonacci", 2)
        self.leave(rank, "assemble", self.some(10 * US))
        rank.instructions += self.rng.randrange(10**6, 10**7)
        self.put(rank, "metric", 0, rank.instructions)

    def parallel(self, rank: _Rank) -> None:
        """All threads work, and the first ones wait in the barrier for the last."""
        region, barrier = (
            self.names[f"!$omp {name}"] for name in ("parallel @solver.c:66", "implicit barrier @solver.c:70")
        )
        begin = rank.now
        done = [begin + thread * US + self.some(60 * US) for thread in range(len(rank.threads))]
        end = max(done) + US
        for thread, number in enumerate(rank.threads):
            start = begin + thread * US
            self.events[number] += [
                (start, "enter", region), (done[thread], "enter", barrier), (end, "leave", barrier), (end, "leave", region),
            ]  # fmt: skip
        rank.now = end

    def halo(self) -> None:
        """Each sends to the next one of its row without waiting, and then waits for all."""
        sent: dict[tuple[int, int], int] = {}
        todo = []
        for comm in self.rows:
            for place, number in enumerate(comm.ranks):
                rank = self.each[number]
                to, source = comm.ranks[(place + 1) % len(comm.ranks)], comm.ranks[place - 1]
                size = 1024 * (1 + number)
                rank.request += 2
                receiving, sending = rank.request, rank.request + 10_000
                self.enter(rank, "MPI_Irecv")
                self.put(rank, "recv_post", receiving)
                self.leave(rank, "MPI_Irecv", CALL)
                self.enter(rank, "MPI_Isend")
                self.put(rank, "send", to, comm.number, 7, size, sending)
                sent[number, to] = rank.now
                self.leave(rank, "MPI_Isend", CALL)
                todo.append((rank, source, comm, receiving, sending))
        for rank, source, comm, receiving, sending in todo:
            self.enter(rank, "MPI_Waitall")
            rank.now = max(rank.now + CALL, sent[source, rank.rank] + LATENCY + 1024 * (1 + source) // 10)
            self.put(rank, "recv", source, comm.number, 7, 1024 * (1 + source), receiving)
            self.put(rank, "send_done", sending)
            self.leave(rank, "MPI_Waitall", US)

    def ping_pong(self, comm: Comm, size: int) -> None:
        """Pairs of neighbours of a communicator: one sends first, one receives first."""
        for place in range(0, len(comm.ranks) - 1, 2):
            first, second = self.each[comm.ranks[place]], self.each[comm.ranks[place + 1]]
            for sender, receiver, tag in ((first, second, 0), (second, first, 1)):
                self.enter(sender, "MPI_Send")
                self.put(sender, "send", receiver.rank, comm.number, tag, size, None)
                begun = sender.now
                self.leave(sender, "MPI_Send", self.some(CALL))
                self.enter(receiver, "MPI_Recv")
                receiver.now = max(receiver.now + CALL, begun + LATENCY + size // 10)
                self.put(receiver, "recv", sender.rank, comm.number, tag, size, None)
                self.leave(receiver, "MPI_Recv", 500)

    def collective(self, operation: str, comm: Comm) -> None:
        """All of a communicator; who came first waits for who comes last."""
        size, n = 8 * (1 + COLLECTIVES.index(operation)), len(comm.ranks)
        root = comm.ranks[-1] if operation in ("BCAST", "GATHER", "SCATTER", "REDUCE") else None
        name = f"MPI_{operation.capitalize()}"
        for number in comm.ranks:
            self.enter(self.each[number], name)
            self.put(self.each[number], "coll_begin")
        end = max(self.each[number].now for number in comm.ranks) + LATENCY
        for place, number in enumerate(comm.ranks):
            rank, at_root = self.each[number], number == root
            sent, received = {
                "BARRIER": (0, 0), "BCAST": (size * n if at_root else 0, size), "GATHER": (size, size * n * at_root),
                "SCATTER": (size * n * at_root, size), "ALLGATHER": (size * n, size * n), "ALLTOALL": (size * n, size * n),
                "ALLREDUCE": (size * n, size * n), "REDUCE": (size, size * n * at_root),
                "REDUCE_SCATTER": (size * n, size), "SCAN": (size * (n - place), size * (place + 1)),
            }[operation]  # fmt: skip
            rank.now = end + place
            self.put(rank, "coll_end", operation, comm.number, root, sent, received)
            self.leave(rank, name, 200)

    def gpu_work(self, rank: _Rank) -> None:
        """Two kernels, and the wait for them."""
        if rank.gpu is None:
            return
        for name in ("void axpy<float>(float*, float const*, int)", "stencil_kernel(double*)"):
            self.call(rank, "cudaLaunchKernel")
            start = max(rank.now + LATENCY, rank.gpu_free)
            rank.gpu_free = start + self.some(40 * US)
            number = self.names[name]
            self.events[rank.gpu] += [(start, "enter", number), (rank.gpu_free, "leave", number)]
        self.enter(rank, "acc_compute@solver.c:130")
        self.enter(rank, "cudaDeviceSynchronize")
        rank.now = max(rank.now + CALL, rank.gpu_free)
        self.leave(rank, "cudaDeviceSynchronize", 100)
        self.leave(rank, "acc_compute@solver.c:130", 100)

    def file(self, rank: _Rank, call: str, mode: str, file: str, asked: int, got: int | None = None) -> None:
        """One operation on a file; ``got``: the bytes that came, where not all."""
        self.enter(rank, call)
        rank.io += 1
        self.put(rank, "io_begin", file, mode, asked, rank.io)
        rank.now += self.some(15 * US)
        self.put(rank, "io_end", file, asked if got is None else got, rank.io)
        self.leave(rank, call, 700)

    def sampled(self, rank: _Rank, step: int) -> None:
        """Values of counters, between the regions."""
        for number in (1, 2, 3)[: 3 if rank.rank == 0 else 2]:
            rank.now += 10
            value = {1: 250_000 + self.rng.randrange(90_000), 2: 512 + 64 * step + rank.rank}.get(number, 40 + step / 3)
            self.put(rank, "metric", number, value)


def run(
    ranks: int = 4, threads: int = 2, gpu: bool = True, steps: int = 3, seed: int = 0, per_node: int = 4
) -> Program:
    """A program of ``ranks`` · (``threads`` + 1 with a GPU) locations; every collective occurs once in ten steps."""
    names = {region.name: number for number, region in enumerate(REGIONS)}
    sim = _Run(ranks, threads, gpu, seed, per_node, names)
    for rank in sim.each:
        sim.enter(rank, "main")
        sim.call(rank, "MPI_Init", sim.some(50 * US))
        sim.file(rank, "fread", "READ", FILES[0], 4096, 4000)
    for step in range(steps):
        for rank in sim.each:
            sim.enter(rank, "step")
            sim.compute(rank)
            sim.parallel(rank)
        sim.halo()
        for rank in sim.each:
            sim.enter(rank, "solve")
            sim.gpu_work(rank)
        sim.ping_pong(sim.comms[step % 2], 100 * (step + 1))
        for operation in COLLECTIVES[step % 2 :: 2] if steps < 10 else COLLECTIVES[step % 10 : step % 10 + 1]:
            for comm in [sim.comms[step % 2]] if step % 3 else sim.rows:
                sim.collective(operation, comm)
        for rank in sim.each:
            sim.leave(rank, "solve", sim.some(5 * US))
            if step % 2 == 0:
                sim.file(rank, "fwrite", "WRITE", FILES[1] % rank.rank, 1 << 20)
            if rank.rank == 0:
                sim.file(rank, "fwrite", "WRITE", FILES[2], 80)
            sim.sampled(rank, step)
            sim.leave(rank, "step")
    for rank in sim.each:
        sim.call(rank, "MPI_Finalize", sim.some(20 * US))
        sim.leave(rank, "main", 10 * US)
    return Program(ranks, sim.locations, sim.comms, sim.events, sim.node_of)
