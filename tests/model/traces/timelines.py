"""Timelines built by hand, event by event."""

from collections.abc import Mapping

import numpy as np

from gssr.traces.categories import category_of, operation_of
from gssr.traces.timeline import NO_LINK, Clock, Counter, Intervals, Kind, Timeline, TraceSource, Track

CPU = Track("cpu_thread", "main", 0, "n1", 100, 100)


def gpu(rank: int | None = 0, device: int = 0, stream: int = 7, source: int = 0, uuid: str | None = None) -> Track:
    return Track("gpu_stream", f"stream {stream}", rank, "n1", 100, None, device, uuid, stream, source)


class Events:
    """Collects events; ``timeline`` has them sorted."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, Track, str, Kind, int, int]] = []
        self.pageable: set[tuple[int, int]] = set()
        self.counters: list[Counter] = []

    def add(
        self,
        kind: Kind,
        name: str,
        start: int,
        length: int,
        track: Track | None = None,
        link: int = NO_LINK,
        size: int = -1,
    ) -> "Events":
        on_gpu = kind in (Kind.KERNEL, Kind.GRAPH, Kind.MEMCPY, Kind.MEMSET, Kind.GPU_SYNC, Kind.GPU_RANGE)
        self.rows.append((start, length, track or (gpu() if on_gpu else CPU), name, kind, link, size))
        return self

    def launched(
        self, name: str, call: int, start: int, length: int, track: Track | None = None, thread: Track | None = None,
        took: int = 5_000, kind: Kind = Kind.KERNEL, by: str = "cudaLaunchKernel", size: int = -1,
    ) -> "Events":  # fmt: skip
        """Work of a GPU, and the call that launched it."""
        link = len(self.rows) + 1
        self.add(Kind.RUNTIME, by, call, took, thread, link)
        return self.add(kind, name, start, length, track, link, size)

    def timeline(
        self,
        unix_ns: int | None = None,
        sources: int = 1,
        facts: Mapping[str, str] | None = None,
        pageable: bool = False,
    ) -> Timeline:
        rows = sorted(self.rows, key=lambda row: (row[0], -row[1]))
        tracks = tuple(dict.fromkeys(row[2] for row in rows))
        names = tuple(dict.fromkeys(row[3] for row in rows))
        column = lambda values, kind: np.array(list(values), kind)  # noqa: E731
        copies = (Kind.MEMCPY, Kind.MEMSET)
        intervals = Intervals(
            start=column((row[0] for row in rows), np.int64),
            length=column((row[1] for row in rows), np.int64),
            track=column((tracks.index(row[2]) for row in rows), np.int32),
            name=column((names.index(row[3]) for row in rows), np.int32),
            kind=column((row[4] for row in rows), np.int8),
            category=column((category_of(row[4], row[3]) for row in rows), np.int8),
            link=column((row[5] for row in rows), np.int64),
            size=column((row[6] for row in rows), np.int64),
            operation=column((operation_of(row[3]) if row[4] in copies else -1 for row in rows), np.int8),
        )
        paged = [at for at, row in enumerate(rows) if "Pageable" in row[3]]
        return Timeline(
            tuple(
                TraceSource(f"rank{at}.json", "kineto", "torch.profiler", "2.4", at, "n1", len(rows))
                for at in range(sources)
            ),
            Clock(unix_ns, "unix" if unix_ns is not None else "unknown"),
            tracks,
            names,
            intervals,
            tuple(self.counters),
            np.array(paged, np.int64) if pageable else None,
            facts or {},
        )
