"""A trace as training on two ranks leaves it: steps with forward, backward and optimizer, a collective that overlaps and one
that does not, copies, launches with links, operators and ranges that nest, a counter."""

import numpy as np

from gssr.traces.timeline import (
    NO_LINK,
    OPERATIONS,
    Category,
    Clock,
    Counter,
    Intervals,
    Kind,
    Timeline,
    TraceSource,
    Track,
)

US = 1000
STEP = 40_000 * US
"""A step takes 40 ms, rank 1 is 5 % slower to compute."""


class Made:
    """Intervals one by one; ``timeline`` puts them together."""

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.names: dict[str, int] = {}
        self.rows: list[tuple[int, int, int, int, int, int, int, int, int]] = []
        self._links = 0

    def track(self, track: Track) -> int:
        self.tracks.append(track)
        return len(self.tracks) - 1

    def add(
        self, track: int, name: str, kind: Kind, category: Category, start: int, length: int, link: int = NO_LINK,
        size: int = -1, operation: int = -1,
    ) -> None:  # fmt: skip
        number = self.names.setdefault(name, len(self.names))
        self.rows.append((start, length, track, number, kind, category, link, size, operation))

    def launched(
        self, thread: int, at: int, stream: int, name: str, category: Category, start: int, length: int
    ) -> None:
        """A kernel, and the call that launched it."""
        self._links += 1
        self.add(thread, "cudaLaunchKernel", Kind.RUNTIME, Category.LAUNCH, at, 6 * US, self._links)
        self.add(stream, name, Kind.KERNEL, category, start, length, self._links)

    def timeline(self, counters: tuple[Counter, ...] = ()) -> Timeline:
        rows = sorted(self.rows, key=lambda row: (row[0], -row[1]))
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        types = (np.int64, np.int64, np.int32, np.int32, np.int8, np.int8, np.int64, np.int64, np.int8)
        found = Intervals(*(column.astype(own) for column, own in zip(columns, types, strict=True)))
        ranks = sorted({track.rank for track in self.tracks if track.rank is not None})
        sources = tuple(TraceSource(f"rank{rank}.json", "kineto", rank=rank, n_events=len(rows)) for rank in ranks)
        clock = Clock(1_700_000_000 * 10**9, "unix")
        return Timeline(sources, clock, tuple(self.tracks), tuple(self.names), found, counters, facts={"gpu": "H100"})


def training(n_steps: int = 4) -> Timeline:
    """The trace; everything in it follows from these few numbers."""
    made = Made()
    counters = []
    for rank in range(2):
        thread = made.track(Track("cpu_thread", "python", rank, None, 4000 + rank, 4000 + rank))
        stream = made.track(Track("gpu_stream", "stream 7", rank, device=rank, stream=7))
        side = made.track(Track("gpu_stream", "stream 20", rank, device=rank, stream=20))
        for step in range(n_steps):
            _step(made, thread, stream, side, step, 1.05 if rank else 1.0)
        times = np.arange(0, n_steps * STEP, STEP // 8)
        used = (20 + 10 * np.sin(np.arange(len(times)))) * (1 << 30)
        counters.append(Counter("memory allocated", "B", "gauge", times, used, stream))
    return made.timeline(tuple(counters))


def _step(made: Made, thread: int, stream: int, side: int, step: int, slow: float) -> None:
    begin = step * STEP
    made.add(thread, f"ProfilerStep#{step}", Kind.RANGE, Category.RANGE, begin, STEP)
    made.add(thread, "enumerate(DataLoader)#__next__", Kind.CPU_OP, Category.IO, begin + 100 * US, 3000 * US)
    copy, link = begin + 3500 * US, 10**6 + step * 10 + stream * 10**4
    made.add(thread, "cudaMemcpyAsync", Kind.RUNTIME, Category.LAUNCH, copy - 200 * US, 20 * US, link)
    made.add(
        stream, "Memcpy HtoD (Pageable -> Device)", Kind.MEMCPY, Category.COPY, copy, 1500 * US, link, 24 << 20,
        OPERATIONS.index("HtoD"),
    )  # fmt: skip
    at = begin + 5000 * US
    for phase, name, n, each in (
        ("forward", "ampere_sgemm_128x64_tn", 8, 900),
        ("backward", "cutlass::gemm_bwd", 8, 1700),
    ):
        length = int(each * US * slow)
        made.add(thread, phase, Kind.RANGE, Category.RANGE, at - 300 * US, n * length)
        for k in range(n):
            call = at - 250 * US + k * length
            made.add(thread, "aten::linear", Kind.CPU_OP, Category.OTHER, call, 200 * US)
            made.add(thread, "aten::addmm", Kind.CPU_OP, Category.OTHER, call + 20 * US, 160 * US)
            made.launched(thread, call + 40 * US, stream, name, Category.COMPUTE, at + k * length, length - 15 * US)
            if phase == "backward" and k in (2, 5):
                name_of = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
                made.launched(
                    thread, call + 60 * US, side, name_of, Category.COMMUNICATION, at + k * length, 2 * length
                )
        at += n * length
    made.launched(thread, at, side, "ncclDevKernel_AllGather_RING_LL", Category.COMMUNICATION, at + 100 * US, 4000 * US)
    made.add(thread, "cudaDeviceSynchronize", Kind.RUNTIME, Category.SYNC, at + 10 * US, 4200 * US)
    at += 4500 * US
    made.launched(
        thread, at, stream, "multi_tensor_apply_kernel", Category.COMPUTE, at + 20 * US, int(2500 * US * slow)
    )
