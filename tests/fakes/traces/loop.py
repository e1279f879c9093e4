"""A small simulation of a training loop on several GPUs, healthy or with one known ailment.

``ail("loader", seed=3, ranks=2)`` gives one Content per rank for ``kineto.write`` or ``nsys.write``.
The host launches work in order and runs ahead; streams work in order; a collective ends for all ranks at once.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gssr.traces.timeline import Category, Kind

from .content import COPY_NAMES, MEMSET_NAME, PAGEABLE_NAMES, Content, Event, Sample

Label = Literal[
    "healthy", "launch", "pageable", "sync", "communication", "loader", "straggler", "checkpoint", "gap", "sync copy"
]
US, MS = 1_000, 1_000_000
LAUNCH, LATENCY, CALL = 5 * US, 4 * US, 2 * US
COMPUTE, COMMUNICATION, COPY = 7, 20, 13  # streams
MAIN = 0  # the thread's number is the process's plus this
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul>>"
ADAM = "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


class Op(NamedTuple):
    """One thing that the host does. ``length``: of the work on the GPU, or of the host's own."""

    what: Literal["kernel", "collective", "join", "copy", "memset", "item", "host", "step", "wait", "sync"]
    name: str = ""
    length: int = 0
    size: int = 0
    operation: str = ""
    pageable: bool = False
    blocking: bool = False  # the call returns when the work is done
    stream: int = COMPUTE


@dataclass
class Rank:
    """Where one rank's host and streams are, and what they have done."""

    rank: int
    now: int = 0
    free: dict[int, int] = field(default_factory=lambda: {COMPUTE: 0, COMMUNICATION: 0, COPY: 0})
    link: int = 100
    events: list[Event] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    step_started: int = 0
    steps: list[int] = field(default_factory=list)  # the end of each step's GPU work
    step_name: str = ""

    @property
    def pid(self) -> int:
        """Of its process."""
        return 4000 + self.rank

    def host(self, kind: Kind, name: str, length: int, link: int = -1, category: Category = Category.LAUNCH) -> Event:
        """The host does something now."""
        event = Event(kind, name, self.now, length, self.pid, self.pid + MAIN, link=link, category=category)
        self.events.append(event)
        self.now += length
        return event

    def launch(self, api: str, stream: int, after: int = 0) -> tuple[int, int]:
        """A call that starts work on a stream: its link, and when the work can begin."""
        self.link += 1
        self.host(Kind.RUNTIME, api, LAUNCH, self.link)
        return self.link, max(self.now + LATENCY, self.free[stream], after)

    def gpu(self, kind: Kind, name: str, start: int, length: int, stream: int, link: int, category: Category,
            size: int = -1, operation: str = "", pageable: bool = False) -> None:  # fmt: skip
        """Work on a stream of this rank's only GPU."""
        self.events.append(
            Event(kind, name, start, length, self.pid, stream, self.rank, stream, link, size, operation, pageable, category)
        )  # fmt: skip
        self.free[stream] = start + length

    def wait(self, until: int, api: str) -> int:
        """A call that returns when ``until`` has come; how long it took."""
        length = max(CALL, until - self.now)
        self.host(Kind.RUNTIME, api, length, category=Category.SYNC)
        return length

    def end_step(self) -> None:
        """The range of the step that has just ended."""
        if self.step_name:
            length = self.now - self.step_started
            self.events.append(
                Event(Kind.RANGE, self.step_name, self.step_started, length, self.pid, self.pid + MAIN,
                      category=Category.RANGE)
            )  # fmt: skip
        self.step_name = ""


def do(op: Op, each: list[Rank], slow: dict[int, float]) -> None:
    """All ranks do the same thing."""
    if op.what == "collective":
        ready = []
        for rank in each:
            link, start = rank.launch("cudaLaunchKernelExC", COMMUNICATION, rank.free[COMPUTE])
            ready.append((rank, link, start))
        end = max(start for _, _, start in ready) + op.length
        for rank, link, start in ready:
            rank.gpu(Kind.KERNEL, op.name, start, end - start, COMMUNICATION, link, Category.COMMUNICATION)
        return
    for rank in each:
        if op.what == "kernel":
            link, start = rank.launch("cudaLaunchKernel", op.stream)
            length = int(op.length * slow.get(rank.rank, 1.0))
            rank.gpu(Kind.KERNEL, op.name, start, length, op.stream, link, Category.COMPUTE)
        elif op.what == "join":  # the compute stream waits for the communication
            rank.host(Kind.RUNTIME, "cudaStreamWaitEvent", CALL)
            rank.free[COMPUTE] = max(rank.free[COMPUTE], rank.free[COMMUNICATION])
        elif op.what in ("copy", "memset"):
            setting = op.what == "memset"
            api = ("cudaMemset" if setting else "cudaMemcpy") + ("" if op.blocking else "Async")
            name = MEMSET_NAME if setting else (PAGEABLE_NAMES if op.pageable else COPY_NAMES)[op.operation]
            link, start = rank.launch(api, op.stream)
            kind = Kind.MEMSET if setting else Kind.MEMCPY
            operation = "memset" if setting else op.operation
            rank.gpu(kind, name, start, op.length, op.stream, link, Category.COPY, op.size, operation, op.pageable)
            if op.blocking or op.pageable:  # the call itself takes until the copy is done
                call = rank.events[-2]
                rank.now = start + op.length + CALL
                rank.events[-2] = call._replace(length=rank.now - call.start)
            if op.stream == COPY:
                rank.free[COMPUTE] = max(rank.free[COMPUTE], rank.free[COPY])
        elif op.what == "item":
            started = rank.now
            link, start = rank.launch("cudaMemcpyAsync", COMPUTE)
            rank.gpu(Kind.MEMCPY, PAGEABLE_NAMES["DtoH"], start, 1500, COMPUTE, link, Category.COPY, 4, "DtoH", True)
            rank.wait(rank.free[COMPUTE] + CALL, "cudaStreamSynchronize")
            for outer in ("aten::_local_scalar_dense", "aten::item"):
                length = rank.now - started
                rank.events.append(Event(Kind.CPU_OP, outer, started, length, rank.pid, rank.pid + MAIN))
            rank.now += op.length  # Python goes on
        elif op.what == "host":
            rank.host(Kind.CPU_OP, op.name, op.length, category=Category.OTHER)
        elif op.what == "wait":  # for the GPU's work of the step before last: the host runs at most one step ahead
            if len(rank.steps) > 1:
                rank.wait(rank.steps[-2], "cudaEventSynchronize")
        elif op.what == "sync":
            rank.wait(max(rank.free.values()), "cudaDeviceSynchronize")
        elif op.what == "step":
            rank.end_step()
            rank.steps.append(max(rank.free.values()))
            rank.step_name, rank.step_started = op.name, rank.now
            rank.samples.append(Sample("Total Allocated", rank.rank, rank.now, float(len(rank.steps) << 30)))


def step(number: int, label: Label, rng: random.Random, scale: float) -> Iterator[Op]:
    """What the host does in one step; ``scale``: of this loop's work on the GPU."""

    def kernel(name: str, length: int) -> Op:
        return Op("kernel", name, max(1000, int(length * rng.uniform(0.9, 1.1))))

    short = label == "launch"
    layers = 80 if short else 8
    yield Op("step", f"ProfilerStep#{number}")
    yield Op("wait")
    yield Op("host", LOADER, int((30 * MS if label == "loader" else 40 * US) * rng.uniform(0.9, 1.1)))
    size = 64 << 20
    if label == "pageable":
        yield Op("copy", "", size // 5, size, "HtoD", pageable=True, stream=COPY)
    elif label == "sync copy":
        for _ in range(4):
            yield Op("copy", "", size // 100, size // 4, "HtoD", blocking=True)
            yield Op("memset", "", 300 * US, size // 4, blocking=True)
    else:
        yield Op("copy", "", 30 * US, 1 << 20, "HtoD", stream=COPY)
    heavy = int((2 * US if short else 60 * US if label == "sync" else 350 * US) * scale)
    for _ in range(layers):
        yield kernel(GEMM, heavy)
        yield kernel(ELEMENTWISE, heavy // 3)
        if label == "sync":
            yield Op("item", "", 60 * US)
    if label == "gap" and number % 3 == 1:
        yield Op("sync")
        yield Op("host", "evaluate on the CPU", 700 * MS)
    for layer in range(layers):
        yield kernel(GEMM, heavy * 3 // 2)
        yield kernel(GEMM, heavy * 3 // 2)
        if layer % (layers // 4) == layers // 4 - 1 and label != "communication":
            yield Op("collective", ALLREDUCE, 20 * US if short else 300 * US)
    if label == "communication":
        yield Op("collective", ALLREDUCE, 8 * MS)
    yield Op("join")
    for _ in range(4):
        yield kernel(ADAM, heavy // 2)
    if label == "checkpoint" and number % 3 == 2:
        yield Op("step", "")
        yield Op("sync")
        yield Op("copy", "", 10 * MS, 256 << 20, "DtoH", blocking=True)
        yield Op("host", "torch/serialization.py(900): save", 400 * MS)


def ail(label: Label, seed: int = 0, ranks: int = 2, steps: int = 6) -> tuple[Content, ...]:
    """Simulate the loop with this ailment, a Content for each rank; the same arguments always give the same."""
    rng = random.Random(f"{label} {seed}")
    scale = rng.uniform(0.8, 1.4)
    each = [Rank(r, now=rng.randrange(50 * US)) for r in range(ranks)]
    slow = {rng.randrange(ranks): 1.5} if label == "straggler" and ranks > 1 else {}
    for number in range(steps):
        for op in step(number, label, rng, scale):
            do(op, each, slow)
    for rank in each:
        rank.end_step()
        rank.wait(max(rank.free.values()), "cudaDeviceSynchronize")
    return tuple(Content(r.rank, tuple(r.events), tuple(r.samples)) for r in each)
