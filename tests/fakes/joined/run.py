"""A run whose GPUs were sampled for minutes and traced for seconds, both from one simulated truth.

``make(folder, CASES["late"])`` writes a recording by ``gssr.from_pandas`` and traces (Kineto or Nsight Systems) of a window
of it, and says what joining them is to find. The GPUs are busy in phases of irregular length, stop for checkpoints, and wait
for hosts that are late: each wait has a name, which the trace alone knows.
"""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

import gssr
from gssr.traces.timeline import Category, Kind
from tests.fakes.traces import kineto, nsys
from tests.fakes.traces.content import Content, Event

Floats = npt.NDArray[np.float64]
START = 1_760_000_000.0
INTERVAL = 0.5
PERIOD = 0.1
"""Seconds between the begins of two kernels of a GPU."""
SAVE, ITEM = "torch/serialization.py(900): save", "aten::item"


class Case(NamedTuple):
    """What is made. ``offset``: by how many seconds the trace's clock is ahead of the recording's; ``recorded``: how long
    the run was sampled, ``window``: begin and end of the trace, in seconds after the run's start."""

    name: str
    offset: float = 0.0
    form: Literal["kineto", "nsys", "otf2"] = "kineto"
    ranks: int = 2
    recorded: float = 100.0
    window: tuple[float, float] = (40.0, 62.0)
    work: Literal["irregular", "periodic", "flat"] = "irregular"
    clock: kineto.Clock = "base"
    renumbered: bool = False
    """The ranks' GPUs are others than their numbers say, as with CUDA_VISIBLE_DEVICES=3 for rank 0."""
    others_uuids: bool = False
    """The trace's GPUs are none of the recording's."""
    nvml: bool = False
    one_process: bool = False
    """Rank 0 has all GPUs, and its trace numbers them the other way round, as with CUDA_VISIBLE_DEVICES=1,0."""
    processes: bool = True
    """Whether the recording has a row for each rank, as of ``gssr profile``, or for the first one alone, as imported."""
    seed: int = 0


CASES = {
    case.name: case
    for case in (
        Case("same clock"), Case("late", 5.0), Case("early", -5.0, ranks=1), Case("slight", 0.3, ranks=1),
        Case("nvml", -3.5, ranks=1, nvml=True, seed=4), Case("nsys late", 4.2, "nsys", seed=6),
        Case("no unix time", clock="boot", ranks=1, seed=7), Case("periodic", 5.0, ranks=1, work="periodic"),
        Case("periodic, same clock", ranks=1, work="periodic"), Case("flat", ranks=1, work="flat"),
        Case("renumbered", renumbered=True, seed=8), Case("nsys renumbered", form="nsys", renumbered=True, seed=9),
        Case("another run", 86_400.0, ranks=1), Case("other GPUs", form="nsys", others_uuids=True),
        Case("ends later", ranks=1, window=(84.0, 110.0), seed=10), Case("four ranks", ranks=4, seed=11),
        Case("archive", -2.0, "otf2", seed=14),
        Case("imported", processes=False, seed=12), Case("one process", one_process=True, seed=13),
    )
}  # fmt: skip


class Stall(NamedTuple):
    """A time in which GPUs wait; ``ranks``: whose. In seconds after the run's start."""

    name: str
    begin: float
    end: float
    ranks: tuple[int, ...]


class Joined(NamedTuple):
    """What was made, and its truth. ``gpu_of``: the recording's (node, index, uuid) of each rank's GPU; ``stalls``: in the
    window, the longest first; ``share_of_run``: of the part of the window that was recorded."""

    case: Case
    recording: Path
    traces: tuple[Path, ...]
    gpu_of: dict[int, tuple[str, int, str]]
    stalls: tuple[Stall, ...]
    busy: dict[int, Floats]
    """By rank: begins and ends of its GPU's kernels, over the whole run."""
    samples: dict[int, tuple[Floats, Floats]]
    """By rank: unix times, and the share busy in the interval before each."""

    @property
    def share_of_run(self) -> float:
        """The traced window's share of the recorded time."""
        begin, end = self.case.window
        return (min(end, self.case.recorded) - begin) / self.case.recorded


def _duty(case: Case, rng: random.Random) -> list[tuple[float, float, float]]:
    """Phases (begin, end, share of time that a GPU is busy) until after the window."""
    end = max(case.recorded, case.window[1]) + 1
    if case.work != "irregular":
        return [(0.0, end, 0.7)]
    phases, at = [], 0.0
    while at < end:
        length = rng.uniform(1.5, 8.0)
        phases.append((at, at + length, rng.choice((0.25, 0.45, 0.7, 0.95)) + rng.uniform(-0.04, 0.04)))
        at += length
    return phases


def _stalls(case: Case, rng: random.Random) -> list[Stall]:
    """Waits: checkpoints of all, and single ranks that read a value back."""
    end, everyone = max(case.recorded, case.window[1]), tuple(range(case.ranks))
    if case.work == "flat":
        return []
    if case.work == "periodic":
        return [Stall(ITEM, at + 1.5, at + 2.0, everyone) for at in np.arange(0.0, end, 2.0)]
    found, at = [], rng.uniform(3, 9)
    while at < end:
        whole = rng.random() < 0.4
        length = rng.uniform(1.6, 3.0) if whole else rng.uniform(0.7, 1.4)
        found.append(Stall(SAVE if whole else ITEM, at, at + length, everyone if whole else (rng.choice(everyone),)))
        at += length + rng.uniform(4, 11)
    return found


def _kernels(case: Case, rank: int, phases: list[tuple[float, float, float]], stalls: list[Stall]) -> Floats:
    """Begins and ends of one GPU's kernels."""
    rng = np.random.default_rng((case.seed, rank))
    end = phases[-1][1]
    if case.work == "flat":
        begins = np.arange(0.0, end, PERIOD)
        return np.stack([begins, begins + PERIOD], axis=1)
    begins = np.arange(0.0, end, PERIOD) + (
        rng.uniform(0, 0.008, int(np.ceil(end / PERIOD))) if case.work == "irregular" else 0
    )
    place = np.searchsorted([phase[0] for phase in phases], begins, side="right") - 1
    share = np.clip(np.array([phase[2] for phase in phases])[place] * (1 + 0.02 * rank), 0.05, 0.97)
    if case.work == "periodic":
        share = np.full(len(begins), 0.9)
    ends = begins + share * (PERIOD - 0.008)
    for stall in stalls:
        if rank in stall.ranks:
            kept = (ends <= stall.begin) | (begins >= stall.end)
            begins, ends = begins[kept], ends[kept]
    return np.stack([begins, ends], axis=1)


def busy_share(kernels: Floats, edges: Floats) -> Floats:
    """The share of each stretch between two edges that kernels cover."""
    covered = np.concatenate([[0.0], np.cumsum(kernels[:, 1] - kernels[:, 0])])
    after = np.searchsorted(kernels[:, 0], edges, side="right")  # kernels that have begun
    last = np.where(after > 0, kernels[np.maximum(after - 1, 0), 1], edges)
    whole = covered[after] - np.maximum(last - edges, 0) * (after > 0)
    return np.diff(whole) / np.diff(edges)


def _content(case: Case, rank: int, device: int, kernels: Floats, stalls: list[Stall], first: int = 1) -> Content:
    """What the profiler saw of a rank in the window."""
    begin, end = case.window
    pid, tid = 4000 if case.one_process else 4000 + rank, 4000 + rank
    events: list[Event] = []
    inside = kernels[(kernels[:, 0] >= begin) & (kernels[:, 1] <= end)]
    for link, (start, stop) in enumerate((inside - begin) * 1e9, first):
        call = max(int(start) - 20_000, 0)
        events += [
            Event(Kind.RUNTIME, "cudaLaunchKernel", call, 6_000, pid, tid, link=link, category=Category.LAUNCH),
            Event(Kind.KERNEL, f"kernel_{link % 3}(float*, int)", int(start), int(stop - start), pid, 7, device, 7, link,
                  category=Category.COMPUTE),
        ]  # fmt: skip
    for stall in stalls:
        if rank in stall.ranks and begin <= stall.begin and stall.end <= end:
            start, length = int((stall.begin - begin) * 1e9), int((stall.end - stall.begin) * 1e9) - 200_000
            kind = Kind.RANGE if case.form == "nsys" else Kind.PYTHON if stall.name == SAVE else Kind.CPU_OP
            events.append(Event(kind, stall.name, start, length, pid, tid, category=Category.OTHER))
    return Content(rank, tuple(events), unix_ns=int((START + begin + case.offset) * 1e9))


def _archive(folder: Path, case: Case, contents: list[Content]) -> Path:
    """The window as an archive of Score-P: of each rank what called, and its stream of kernels."""
    from tests.fakes.scorep import otf2_archive, program

    names = {name: number for number, name in enumerate(dict.fromkeys(e.name for c in contents for e in c.events))}
    kinds = {e.name: e.kind for c in contents for e in c.events}
    regions = [program.Region(name, "CUDA" if kinds[name] in (Kind.KERNEL, Kind.RUNTIME) else "USER") for name in names]
    locations, events = [], {}
    for content in contents:
        for thread, kind in enumerate(("CPU_THREAD", "ACCELERATOR_STREAM")):
            of_this = [e for e in content.events if (e.kind is Kind.KERNEL) is (thread == 1)]
            edges = [(e.start, 1, -e.length, "enter", names[e.name]) for e in of_this]
            edges += [(e.end, 0, -e.start, "leave", names[e.name]) for e in of_this]
            events[len(locations)] = [(edge[0], *edge[3:]) for edge in sorted(edges)]
            name = "CUDA[0:7]" if thread else "Master thread"
            locations.append(program.Location(len(locations), content.rank, thread, name, kind))  # type: ignore[arg-type]
    world = program.Comm(0, "MPI_COMM_WORLD", tuple(range(case.ranks)))
    unix = int((START + case.window[0] + case.offset) * 1e9)
    ran = program.Program(case.ranks, locations, [world], events, [0] * case.ranks, regions, (), unix)
    otf2_archive.write(folder, ran)
    return folder


def make(folder: Path, case: Case) -> Joined:
    """Writes the recording and its traces."""
    rng = random.Random(f"{case.name} {case.seed}")
    phases, stalls = _duty(case, rng), _stalls(case, rng)
    busy = {rank: _kernels(case, rank, phases, stalls) for rank in range(case.ranks)}
    noise = np.random.default_rng(case.seed)
    edges = np.arange(0.0, case.recorded + INTERVAL / 2, INTERVAL)
    frames, samples, gpu_of = [], {}, {}
    for rank, kernels in busy.items():
        share = busy_share(kernels, edges)
        seen = np.clip(share + noise.normal(0, 0.01, len(share)), 0, 1)
        times = START + edges[1:] + 0.011 * rank
        index = case.ranks + 1 - rank if case.renumbered else rank
        uuid = f"GPU-{nsys.uuid_of(rank + 64 * case.others_uuids)}"
        gpu_of[rank], samples[rank] = ("node1", index, uuid), (times, share)
        columns: dict[str, Any] = {"gpu": rank, "time": times, "power_usage": np.rint(150 + 500 * seen)}
        if case.nvml:
            columns["gpu_utilization"] = np.rint(100 * seen) / 100
        else:
            parts = {"gr_engine_active": 1.0, "sm_active": 0.8, "sm_occupancy": 0.4, "tensor_active": 0.35,
                     "dram_active": 0.3, "fp16_active": 0.05, "fp32_active": 0.1, "fp64_active": 0.0}  # fmt: skip
            columns |= {metric: np.round(part * seen, 4) for metric, part in parts.items()}
        frames.append(pd.DataFrame(columns))
    owner = dict.fromkeys(busy, 0) if case.one_process else {rank: rank for rank in busy}
    gpus = pd.DataFrame(
        [{"node": node, "device_index": index, "uuid": uuid, "rank": owner[rank], "name": "NVIDIA H100 80GB HBM3"}
         for rank, (node, index, uuid) in gpu_of.items()]
    )  # fmt: skip
    recording = folder / "run.sql"
    gssr.from_pandas(
        pd.concat(frames),
        recording,
        gpus=gpus,
        label=case.name,
        sampling_seconds=INTERVAL,
        exit_code=0,
    ).close()
    if case.processes and not case.one_process:
        add_processes(recording, case.ranks)
    device = {rank: 0 if case.renumbered else rank for rank in busy}
    contents = [_content(case, rank, device[rank], kernels, stalls) for rank, kernels in busy.items()]
    if case.one_process:
        last = case.ranks - 1
        together = [
            _content(case, rank, last - rank, kernels, stalls, 1 + 100_000 * rank) for rank, kernels in busy.items()
        ]
        contents = [together[0]._replace(events=tuple(event for content in together for event in content.events))]
    (folder / "traces").mkdir()
    if case.form == "nsys":
        traces: tuple[Path, ...] = (nsys.write(folder / "traces" / "report.sqlite", contents),)
    elif case.form == "otf2":
        traces = (_archive(folder / "traces" / "scorep", case, contents),)
    else:
        style = kineto.Style(clock=case.clock, layout="compact")
        traces = tuple(kineto.write(folder / "traces" / f"rank{c.rank}.json", c, style) for c in contents)
    begin, end = case.window
    within = sorted(
        (s for s in stalls if begin <= s.begin and s.end <= min(end, case.recorded)), key=lambda s: s.begin - s.end
    )
    return Joined(case, recording, traces, gpu_of, tuple(within), busy, samples)


def add_processes(recording: Path, ranks: int) -> None:
    """A row for each rank, as ``gssr profile`` writes it."""
    with closing(sqlite3.connect(recording)) as db, db:
        names = [row[1] for row in db.execute("PRAGMA table_info(processes)")]
        first = dict(zip(names, db.execute("SELECT * FROM processes").fetchone(), strict=True))
        for rank in range(1, ranks):
            row = first | {"rank": rank, "local_rank": rank}
            db.execute(f"INSERT INTO processes VALUES ({', '.join('?' * len(row))})", tuple(row.values()))


def set_clock(recording: Path, rank: int, offset: float) -> None:
    """Notes that the clock of a rank's node is ahead of the others', as ``gssr profile`` does."""
    with closing(sqlite3.connect(recording)) as db, db:
        db.execute("UPDATE processes SET clock_offset = ?, clock_error = 0.001 WHERE rank = ?", (offset, rank))
