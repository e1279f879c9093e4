"""The labelled set: every cause alone, in pairs, and jobs in which nothing is wrong."""

import zlib
from typing import NamedTuple

from benchmarks.truth.between import (
    crowded_node,
    early,
    in_turns,
    in_turns_nodes,
    lagging,
    late,
    lost,
    uneven_domains,
    unused,
)
from benchmarks.truth.cause import Cause
from benchmarks.truth.clocks import braked_node, failing, hot_gpus, hot_node, left_set, low_limit, low_limit_node
from benchmarks.truth.hardware import A100, GH200, H100, L40S, Hardware
from benchmarks.truth.job import GB, Job
from benchmarks.truth.over_time import (
    busy_neighbours,
    checkpoints,
    decline,
    hang,
    leak,
    pauses,
    start_up,
    tear_down,
    validation,
)
from benchmarks.truth.waits import all_cores, copies, exchanges, launches, one_core, reading, reading_at_times, takes
from benchmarks.truth.works import (
    DENSE_ALGEBRA,
    GRAPH_ANALYSIS,
    INFERENCE,
    OFFLINE_INFERENCE,
    PLAIN_TRAINING,
    QUANTUM_CHEMISTRY,
    SOLVER,
    STENCIL_CODE,
    TINY_MODEL,
    TRAINING,
    VISION,
    Work,
)

_HALVES = 1113
"""The number with which a hash of the names puts every label into both halves, about as often."""


class Labelled(NamedTuple):
    """One job: what it computes on what, and what spoils it. ``nodes`` x ``per_node`` GPUs for ``seconds``, a sample every
    ``interval`` seconds; recorded with the performance ``counters`` and with samples of the ``host``, or without. ``asked``
    replaces what must be said where two causes change what is true together; ``allowed`` adds to what may be."""

    name: str
    work: Work
    hardware: Hardware
    nodes: int
    per_node: int
    seconds: int
    interval: float
    causes: tuple[Cause, ...] = ()
    counters: bool = True
    host: bool = True
    asked: str | None = None
    allowed: str = ""

    @property
    def must(self) -> frozenset[str]:
        """Codes that have to appear; of those joined by ``|`` any."""
        if self.asked is not None:
            return frozenset(self.asked.split())
        own = frozenset() if any(cause.blurs for cause in self.causes) or not self.counters else self.work.must
        return own.union(*(cause.must for cause in self.causes))

    @property
    def may(self) -> frozenset[str]:
        """Codes that may appear beside those; no others may."""
        either = [codes.split("|") for codes in self.must if "|" in codes]
        from_causes = [cause.may for cause in self.causes] + [frozenset(self.allowed.split())]
        return self.work.may.union(self.work.must, *from_causes, *either)

    @property
    def held_out(self) -> bool:
        """Whether it is in the half that is only looked at in the end: by its name, so that it never changes."""
        return zlib.crc32(f"{_HALVES} {self.name}".encode()) % 2 == 1

    def job(self) -> Job:
        """The job, the same each time."""
        seed = zlib.crc32(self.name.encode())
        job = Job(self.hardware, self.nodes, self.per_node, self.seconds, self.interval, seed)
        self.work.fill(job)
        for cause in self.causes:
            cause.spoil(job)
        return job


def _(
    name: str, work: Work, hardware: Hardware, size: str, seconds: int, interval: float, *causes: Cause, **how: object
) -> Labelled:
    nodes, _, per_node = size.partition("x")
    return Labelled(name, work, hardware, int(nodes), int(per_node), seconds, interval, causes, **how)  # type: ignore[arg-type]


HEALTHY = (
    _("training", TRAINING, H100, "4x8", 900, 0.5),
    _("training, one GPU", TRAINING, H100, "1x1", 600, 0.1),
    _("training, 256 GPUs", TRAINING, GH200, "64x4", 1200, 2.0),
    _("vision", VISION, A100, "1x8", 1200, 1.0),
    _("vision, 10 s apart", VISION, A100, "8x4", 3600, 10.0),
    _("stencil", STENCIL_CODE, GH200, "16x4", 600, 1.0),
    _("sparse solver", SOLVER, A100, "8x4", 900, 1.0),
    _("chemistry", QUANTUM_CHEMISTRY, H100, "2x4", 1800, 1.0),
    _("dense algebra", DENSE_ALGEBRA, H100, "32x4", 600, 1.0),
    _("inference under varying load", INFERENCE, H100, "1x4", 2400, 1.0),
    _("inference of many replicas", INFERENCE, L40S, "8x2", 1800, 2.0),
    _("offline inference", OFFLINE_INFERENCE, H100, "2x8", 900, 0.5),
    _("training beside busy neighbours", TRAINING, A100, "4x4", 900, 1.0, busy_neighbours()),
    _("training with a lost hour", TRAINING, H100, "2x4", 1200, 1.0, lost(5, 0.3, 0.5)),
    _("chemistry by NVML alone", QUANTUM_CHEMISTRY, A100, "4x4", 900, 5.0, counters=False),
    _("short training", TRAINING, A100, "2x4", 240, 0.5),
)

ALONE = (
    _("unused 3 of 8", TRAINING, H100, "1x8", 900, 0.5, unused((5, 6, 7))),
    _("unused half of each node", QUANTUM_CHEMISTRY, A100, "4x4", 600, 1.0, unused((2, 3, 6, 7, 10, 11, 14, 15))),
    _("unused one of 128", TRAINING, H100, "16x8", 600, 1.0, unused((77,))),
    _("unused by NVML alone", VISION, L40S, "1x4", 1200, 5.0, unused((1, 2, 3)), counters=False),
    _("long start-up", TRAINING, H100, "4x4", 1200, 1.0, start_up(0.35)),
    _("half of it start-up", STENCIL_CODE, GH200, "1x4", 480, 0.5, start_up(0.5)),
    _("long start-up by NVML alone", VISION, A100, "2x4", 1800, 5.0, start_up(0.45), counters=False),
    _("long tear-down", QUANTUM_CHEMISTRY, A100, "2x4", 900, 1.0, tear_down(0.3)),
    _("tear-down, 64 GPUs", TRAINING, H100, "8x8", 1200, 2.0, tear_down(0.2)),
    _("two nodes late", QUANTUM_CHEMISTRY, H100, "8x4", 900, 1.0, late((2, 5), 0.3)),
    _("one node late", OFFLINE_INFERENCE, H100, "4x8", 1200, 2.0, late((3,), 0.5)),
    _("four GPUs early through", QUANTUM_CHEMISTRY, A100, "4x4", 1200, 1.0, early((3, 6, 9, 12), 0.4)),
    _("one GPU early through", OFFLINE_INFERENCE, GH200, "2x4", 900, 0.5, early((6,), 0.35)),
    _("hang", TRAINING, H100, "4x8", 1500, 1.0, hang(0.5)),
    _("hang of a single GPU", VISION, A100, "1x1", 1200, 0.5, hang(0.6)),
    _("hang in a collective", TRAINING, H100, "8x4", 1800, 2.0, hang(0.55, spinning=True)),
    _("six pauses", TRAINING, H100, "2x8", 1500, 1.0, pauses(6, 25.0)),
    _(
        "three long pauses",
        STENCIL_CODE,
        A100,
        "8x4",
        1200,
        2.0,
        pauses(3, 60.0),
        asked="memory_peak pauses|cpu_starved",
    ),
    _("checkpoints", TRAINING, H100, "4x4", 1200, 1.0, checkpoints(120.0, 14.0)),
    _("checkpoints, 200 GPUs", TRAINING, GH200, "50x4", 1200, 2.0, checkpoints(150.0, 24.0)),
    _("checkpoints of a solver", SOLVER, A100, "4x4", 900, 0.5, checkpoints(45.0, 6.0)),
    _("validation", VISION, A100, "1x4", 1800, 1.0, validation(180.0, 30.0)),
    _("validation at 10 Hz", TRAINING, H100, "1x2", 300, 0.1, validation(30.0, 4.0)),
    _("decline", TRAINING, H100, "2x4", 1800, 1.0, decline(0.45)),
    _("decline of a solver", QUANTUM_CHEMISTRY, A100, "4x4", 2400, 5.0, decline(0.6)),
    _("uneven domains", QUANTUM_CHEMISTRY, H100, "4x4", 900, 1.0, uneven_domains(0.45)),
    _("uneven domains, 256 GPUs", STENCIL_CODE, GH200, "64x4", 600, 1.0, uneven_domains(0.55)),
    _("early through on two nodes", GRAPH_ANALYSIS, H100, "8x4", 900, 1.0, early(tuple(range(8, 16)), 0.4)),
    _("a crowded node", TRAINING, H100, "8x4", 900, 1.0, crowded_node(3, 1.8)),
    _("a lagging GPU", TRAINING, H100, "4x8", 900, 1.0, lagging(19, 0.45)),
    _("a lagging GPU of four", VISION, L40S, "1x4", 600, 0.5, lagging(2, 0.6)),
    _("stragglers in turns", TRAINING, H100, "4x4", 1280, 1.0, in_turns(20.0, 0.2)),
    _("stragglers in turns, eight GPUs", QUANTUM_CHEMISTRY, A100, "2x4", 960, 2.0, in_turns(30.0, 0.3)),
    _("nodes in turns, all wait", TRAINING, H100, "8x4", 1200, 1.0, in_turns_nodes(25.0, 0.4)),
    _("a hot node", TRAINING, H100, "8x4", 900, 1.0, hot_node(2, 0.6)),
    _("a hot node of 64", TRAINING, GH200, "64x4", 900, 2.0, hot_node(40, 0.55)),
    _("a warm node", QUANTUM_CHEMISTRY, A100, "4x4", 1200, 1.0, hot_node(1, 0.75, software=True)),
    _("a hot chassis", TRAINING, H100, "4x8", 900, 1.0, hot_node(0, 0.65, chassis=True)),
    _("two hot GPUs", QUANTUM_CHEMISTRY, H100, "2x8", 900, 1.0, hot_gpus((3, 12), 0.55, 0.6)),
    _("a braked node", TRAINING, H100, "4x8", 900, 1.0, braked_node(2, 0.5)),
    _("a braked node of a solver", SOLVER, A100, "16x4", 600, 1.0, braked_node(9, 0.5)),
    _("a failing GPU", QUANTUM_CHEMISTRY, A100, "2x4", 900, 1.0, failing((5,), 0.4)),
    _("two failing GPUs of 32", TRAINING, H100, "8x4", 900, 1.0, failing((10, 27), 0.5)),
    _("a low power limit", TRAINING, H100, "2x4", 900, 1.0, low_limit(430.0)),
    _("a low power limit, 64 GPUs", DENSE_ALGEBRA, A100, "16x4", 600, 1.0, low_limit(250.0)),
    _("a node with a low power limit", TRAINING, H100, "8x4", 900, 1.0, low_limit_node(6, 0.65)),
    _("clocks left set on one GPU", QUANTUM_CHEMISTRY, H100, "4x4", 900, 1.0, left_set((9,), 0.6)),
    _("clocks left set on a node", TRAINING, A100, "4x4", 900, 1.0, left_set((4, 5, 6, 7), 0.6, waiting=True)),
    _("clocks left set, and told", QUANTUM_CHEMISTRY, A100, "2x8", 900, 2.0, left_set((6,), 0.65, told=True)),
    _("reading from disks", VISION, A100, "2x4", 900, 1.0, reading(6.0, 0.5)),
    _("reading over the network", TRAINING, H100, "8x4", 900, 1.0, reading(10.0, 0.55, network=True)),
    _("reading at 5 Hz", VISION, H100, "1x8", 300, 0.2, reading(4.0, 0.6, rate=3.5 * GB)),
    _("new shards", TRAINING, H100, "4x4", 1500, 1.0, reading_at_times(7, 55.0)),
    _("one core for the loader", VISION, A100, "1x4", 900, 0.5, one_core(1.2, 0.6)),
    _("one core for the loader, 32 GPUs", TRAINING, GH200, "8x4", 900, 1.0, one_core(2.5, 0.55)),
    _("all cores for the loader", VISION, A100, "2x8", 900, 1.0, all_cores(1.5, 0.55)),
    _("launches", TRAINING, H100, "1x4", 900, 0.5, launches(0.55)),
    _("launches, 64 GPUs", VISION, A100, "16x4", 600, 1.0, launches(0.6)),
    _("launches, no host samples", QUANTUM_CHEMISTRY, H100, "2x4", 900, 1.0, launches(0.6, 0.3), host=False),
    _("offloading", TRAINING, H100, "1x8", 900, 0.5, copies(0.75)),
    _("offloading on Grace", TRAINING, GH200, "4x4", 900, 1.0, copies(0.7)),
    _("offloading, PCIe 4", VISION, A100, "2x4", 900, 1.0, copies(0.8)),
    _("exchanges", TRAINING, H100, "1x8", 900, 0.5, exchanges(0.6)),
    _("exchanges, 64 GPUs", TRAINING, A100, "16x4", 600, 1.0, exchanges(0.65)),
    _("tiny model", TINY_MODEL, H100, "1x1", 600, 0.5),
    _("tiny model, 16 GPUs", TINY_MODEL, A100, "4x4", 900, 1.0),
    _("training in full precision", PLAIN_TRAINING, H100, "1x8", 900, 1.0),
    _("training in full precision, 32 GPUs", PLAIN_TRAINING, A100, "8x4", 900, 2.0),
    _("graph analysis", GRAPH_ANALYSIS, A100, "1x4", 900, 1.0),
    _("graph analysis, 16 GPUs", GRAPH_ANALYSIS, H100, "4x4", 900, 1.0),
    _("memory nearly full", TRAINING, H100, "2x8", 900, 1.0, takes(0.985)),
    _("memory nearly full of a single GPU", VISION, L40S, "1x1", 600, 0.5, takes(0.975)),
    _("memory mostly unused", QUANTUM_CHEMISTRY, A100, "1x4", 900, 1.0, takes(0.12)),
    _("memory mostly unused, 64 GPUs", STENCIL_CODE, GH200, "16x4", 600, 1.0, takes(0.2)),
    _("a leak", VISION, A100, "1x8", 1800, 1.0, leak()),
)

PAIRS = (
    _("unused, and long start-up", TRAINING, H100, "2x4", 900, 1.0, start_up(0.4), unused((6, 7))),
    _("unused, and reading", VISION, A100, "2x4", 900, 1.0, reading(8.0, 0.5), unused((3,))),
    _("unused, and full precision", PLAIN_TRAINING, H100, "1x8", 900, 1.0, unused((4, 5, 6, 7))),
    _("unused, and offloading", TRAINING, H100, "4x4", 900, 1.0, copies(0.75), unused((15,))),
    _("late, and checkpoints", TRAINING, H100, "8x4", 1500, 1.0, checkpoints(100.0, 13.0), late((4,), 0.25)),
    _("late, and braked", QUANTUM_CHEMISTRY, A100, "8x4", 900, 1.0, braked_node(1, 0.5), late((6,), 0.3)),
    _("start-up and tear-down", QUANTUM_CHEMISTRY, H100, "1x4", 1200, 1.0, start_up(0.3), tear_down(0.25)),
    _("start-up, and a hang", TRAINING, H100, "4x8", 1800, 2.0, start_up(0.25), hang(0.6)),
    _("start-up, and exchanges", TRAINING, A100, "4x4", 1200, 1.0, exchanges(0.6), start_up(0.3)),
    _("start-up, and stragglers in turns", TRAINING, H100, "2x4", 1500, 1.0, in_turns(25.0, 0.2), start_up(0.3)),
    _("tear-down, and reading", VISION, A100, "4x4", 1200, 1.0, reading(7.0, 0.5), tear_down(0.25)),
    _("early, and memory-bound", SOLVER, A100, "4x4", 1200, 2.0, early((0, 1, 2, 3), 0.35)),
    _("hang, and memory nearly full", VISION, A100, "1x8", 1200, 1.0, takes(0.98), hang(0.5)),
    _("pauses, and memory nearly full", TRAINING, H100, "4x8", 1500, 1.0, pauses(6, 28.0), takes(0.98)),
    _("checkpoints, and full precision", PLAIN_TRAINING, H100, "4x4", 1200, 1.0, checkpoints(110.0, 13.0)),
    _(
        "checkpoints, and a low power limit",
        TRAINING,
        H100,
        "2x8",
        1200,
        1.0,
        checkpoints(90.0, 11.0),
        low_limit(420.0),
    ),
    _("checkpoints, and a lagging GPU", TRAINING, GH200, "16x4", 1200, 1.0, checkpoints(120.0, 15.0), lagging(33, 0.5)),
    _("decline, and a leak", VISION, A100, "1x4", 2400, 2.0, decline(0.45), leak()),
    _("decline, and one core", TRAINING, H100, "2x4", 1800, 1.0, decline(0.5), one_core(1.0, 0.3)),
    _("uneven, and exchanges", TRAINING, H100, "2x8", 900, 1.0, exchanges(0.55), uneven_domains(0.5)),
    _("uneven, and memory mostly unused", QUANTUM_CHEMISTRY, A100, "8x4", 900, 1.0, uneven_domains(0.5), takes(0.15)),
    _("lagging, and memory at its peak", STENCIL_CODE, GH200, "8x4", 900, 1.0, lagging(11, 0.5)),
    _("lagging, and memory nearly full", TRAINING, H100, "1x8", 900, 0.5, lagging(6, 0.5), takes(0.985)),
    _("hot, and start-up", TRAINING, H100, "8x4", 1200, 1.0, hot_node(5, 0.6), start_up(0.25)),
    _("hot, and checkpoints", TRAINING, H100, "4x8", 1200, 1.0, hot_node(3, 0.6), checkpoints(120.0, 16.0)),
    _("hot, and unused", QUANTUM_CHEMISTRY, A100, "8x4", 900, 1.0, hot_node(2, 0.6), unused((29, 30, 31))),
    _(
        "clocks left set, and checkpoints",
        QUANTUM_CHEMISTRY,
        H100,
        "4x4",
        1200,
        1.0,
        left_set((9,), 0.6),
        checkpoints(100.0, 12.0),
    ),
    _("one core, and memory mostly unused", VISION, H100, "1x4", 900, 1.0, one_core(1.5, 0.6), takes(0.15)),
    _("launches, and validation", TRAINING, H100, "1x8", 1800, 1.0, launches(0.5), validation(150.0, 22.0)),
    _("tiny model, and memory mostly unused", TINY_MODEL, A100, "1x2", 900, 1.0, takes(0.08)),
    _("graph analysis, and tear-down", GRAPH_ANALYSIS, A100, "2x4", 900, 1.0, tear_down(0.3)),
    _("offloading on Grace, and start-up", TRAINING, GH200, "8x4", 1200, 1.0, copies(0.7), start_up(0.3)),
)

JOBS: tuple[Labelled, ...] = (*HEALTHY, *ALONE, *PAIRS)
