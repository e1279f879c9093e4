"""A run and traces of a part of it, made of one truth: when each GPU was busy. The recording samples it, each rank's trace
shows it, by a clock that may be off.

``Truth(seed=1).record(path)`` writes the recording, ``.trace(path, rank, off=5.0)`` a Kineto file of one rank.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gssr.store.format.host_rollups import WORKLOAD
from gssr.store.write.bulk import BulkWriter
from gssr.traces.timeline import Category, Kind

from . import kineto, nsys
from .content import Content, Event

START = 1_760_000_000.0
NS = 1_000_000_000
ITEM, TRAIN = "aten::item", "train"
"""What the host does while a GPU waits long, and always."""
SCORED = {
    "sm_active": 0.8, "sm_occupancy": 0.4, "tensor_active": 0.35, "fp64_active": 0.0, "fp32_active": 0.1,
    "fp16_active": 0.05,
}  # fmt: skip
"""What the score is made of, of a GPU that is always busy."""


@dataclass
class Truth:
    """A run of ``seconds`` on ``ranks`` GPUs, ``per_rank`` of them each. ``period``: the length of its steps, which are all
    alike, and in which the GPUs are busy for the share ``duty``; 0: none is like another. ``nvml``: the samples have
    utilization in whole percent alone."""

    seed: int = 0
    ranks: int = 1
    seconds: float = 60.0
    interval: float = 0.1
    period: float = 0.0
    duty: float = 0.6
    nvml: bool = False
    per_rank: int = 1
    first_index: int = 0
    nodes: int = 1

    def node(self, rank: int) -> str:
        return f"nid{1 + rank * self.nodes // self.ranks:06d}"

    def uuid(self, gpu: int) -> str:
        return f"GPU-{nsys.uuid_of(1000 * self.seed + gpu)}"

    def busy(self, gpu: int) -> np.ndarray:
        """[n, 2]: from when to when, ns after the start."""
        rng = np.random.default_rng((self.seed, gpu))
        if self.period:
            starts = np.arange(0, self.seconds, self.period)
            return np.rint(np.stack([starts, starts + self.duty * self.period], 1) * NS).astype(np.int64)
        lengths = rng.lognormal(-1.2, 0.8, int(self.seconds * 5))
        edges = np.cumsum(lengths)
        edges = edges[edges < self.seconds]
        edges = edges[: len(edges) // 2 * 2]
        return np.rint(edges.reshape(-1, 2) * NS).astype(np.int64)

    def share(self, gpu: int, ends: np.ndarray) -> np.ndarray:
        """[n]: the share busy of each sampling interval."""
        spans = self.busy(gpu).astype(np.float64) / NS
        covered = np.append(0.0, np.cumsum(spans[:, 1] - spans[:, 0]))

        def before(times: np.ndarray) -> np.ndarray:
            at = np.searchsorted(spans[:, 0], times, "right")
            return covered[at] - np.where(at > 0, np.maximum(spans[np.maximum(at - 1, 0), 1] - times, 0), 0)

        found: np.ndarray = (before(ends) - before(ends - self.interval)) / self.interval
        return found

    def record(self, path: Path | str, noise: float = 0.02) -> Path:
        """Write the recording."""
        writer, n = BulkWriter(str(path)), self.ranks * self.per_rank
        end = START + self.seconds
        run = {"run_id": f"run-{self.seed}", "label": "joined", "command": json.dumps(["python", "train.py"]),
               "started_at": START, "sampling_ms": 1000 * self.interval, "world_size": self.ranks,
               "n_nodes": self.nodes, "state": "running", "gssr_version": "1"}  # fmt: skip
        for rank in reversed(range(self.ranks)):
            node = self.node(rank)
            writer.begin(run, {"rank": rank, "local_rank": rank, "node": node, "hostname": node, "started_at": START,
                               "ended_at": end, "exit_code": 0, "state": "completed"})  # fmt: skip
        names = ("gpu_utilization",) if self.nvml else ("gr_engine_active", *SCORED)
        writer.add_gpus(
            [
                {"node": self.node(gpu // self.per_rank), "rank": gpu // self.per_rank, "uuid": self.uuid(gpu),
                 "device_index": self.first_index + gpu, "name": "NVIDIA H100", "memory_total": 80 << 30}
                for gpu in range(n)
            ],
            names, self.interval,
        )  # fmt: skip
        ends = np.arange(1, int(self.seconds / self.interval)) * self.interval
        rng = np.random.default_rng(self.seed + 1)
        shares = np.stack([self.share(gpu, ends) for gpu in range(n)], 1)
        shares = np.clip(shares + rng.normal(0, noise, shares.shape), 0, 1)
        flat = shares.ravel()
        values = {"gr_engine_active": flat, **{name: part * flat for name, part in SCORED.items()}}
        values = {"gpu_utilization": np.rint(100 * flat) / 100} if self.nvml else values
        positions = np.tile(np.arange(n), len(ends))
        writer.add_columns(positions, START + np.repeat(ends, n), values)
        times = np.arange(1.0, self.seconds)
        cores = [2 + 6 * replace(self, interval=1.0).share(rank * self.per_rank, times) for rank in range(self.ranks)]
        writer.add_use(WORKLOAD, range(self.ranks), START + times, np.stack(cores, 1)[:, :, None])
        assert writer.finish(end, 0, "completed", end), writer.problem
        return Path(path)

    def content(self, rank: int, begin: float, end: float, off: float = 0.0, device: int | None = None) -> Content:
        """What a rank's trace shows from ``begin`` to ``end`` (s after the start), by a clock that is ``off`` seconds ahead.
        ``device``: the number of its first GPU in the process (None: as in the run)."""
        first, last = round(begin * NS), round(end * NS)
        events: list[Event] = []
        pid = 100 + rank
        for own in range(self.per_rank):
            gpu = rank * self.per_rank + own
            number = self.first_index + gpu if device is None else device + own
            spans = self.busy(gpu)
            spans = np.clip(spans[(spans[:, 1] > first) & (spans[:, 0] < last)], first, last) - first
            before = 0
            for at, (start, stop) in enumerate(spans.tolist()):
                link, call = 1000 * own + at + 1, max(start - 20_000, 0)
                if start - before > NS // 10:
                    events.append(Event(Kind.CPU_OP, ITEM, before, max(start - before - 30_000, 1), pid, 1))
                events.append(Event(Kind.RUNTIME, "cudaLaunchKernel", call, 5_000, pid, 1, link=link))
                events.append(Event(Kind.KERNEL, "gemm", start, stop - start, pid, 7, number, 7, link,
                                    category=Category.COMPUTE))  # fmt: skip
                before = stop
        events.append(Event(Kind.CPU_OP, TRAIN, 0, last - first, pid, 2))
        return Content(rank, tuple(events), (), round((START + off) * NS) + first)

    def trace(
        self, path: Path | str, rank: int = 0, begin: float = 20.0, end: float = 40.0, off: float = 0.0,
        device: int | None = None, clock: kineto.Clock = "base", with_rank: bool = True, gpus: bool = True,
    ) -> Path:  # fmt: skip
        """Write a Kineto file; without ``gpus`` the same work is done by a thread."""
        content = self.content(rank, begin, end, off, device)
        if not gpus:
            work = [event for event in content.events if event.kind is Kind.KERNEL]
            mine = [event._replace(kind=Kind.CPU_OP, device=None, stream=None, link=-1) for event in work]
            content = content._replace(events=tuple(mine))
        return kineto.write(path, content, kineto.Style(clock=clock, with_rank=with_rank))

    def report(self, path: Path | str, rank: int = 0, begin: float = 20.0, end: float = 40.0) -> Path:
        """Write a report of Nsight Systems, whose GPU has the UUID of a run with seed 0."""
        return self.reports(path, [rank], begin, end, 0.0)

    def reports(
        self, path: Path | str, ranks: Iterable[int], begin: float = 20.0, end: float = 40.0, off: float = 0.0
    ) -> Path:  # fmt: skip
        """The same of all processes of a node."""
        return nsys.write(path, [self.content(rank, begin, end, off) for rank in ranks])

    def archive(self, folder: Path, begin: float = 20.0, end: float = 40.0, off: float = 0.0) -> Path:
        """Write an archive of Score-P of all ranks: of each the thread that launches, and its stream of kernels."""
        from tests.fakes.scorep import otf2_archive, program

        contents = [self.content(rank, begin, end, off) for rank in range(self.ranks)]
        numbers = {name: at for at, name in enumerate(sorted({e.name for each in contents for e in each.events}))}
        regions = [program.Region(name, "USER" if name in (ITEM, TRAIN) else "CUDA") for name in numbers]
        locations: list[program.Location] = []
        events: dict[int, list[program.Record]] = {}
        for content in contents:
            threads = ((1, 0, "Master thread", "CPU_THREAD"), (7, 1, "CUDA[0:7]", "ACCELERATOR_STREAM"))
            for tid, thread, name, kind in threads:
                here = [event for event in content.events if event.tid == tid]
                edges = [(each.start, 1, "enter", numbers[each.name]) for each in here]
                edges += [(each.end, 0, "leave", numbers[each.name]) for each in here]
                events[len(locations)] = [(time, *rest) for time, _, *rest in sorted(edges)]
                locations.append(program.Location(len(locations), content.rank, thread, name, kind))  # type: ignore[arg-type]
        world = program.Comm(0, "MPI_COMM_WORLD", tuple(range(self.ranks)))
        unix_ns = contents[0].unix_ns
        ran = program.Program(self.ranks, locations, [world], events, [0] * self.ranks, regions, (), unix_ns)
        otf2_archive.write(folder, ran)
        return folder
