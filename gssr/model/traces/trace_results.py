"""What is found out about a trace. Times are whole ns, counted from the trace's zero."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.breakdown.result import Breakdown
from gssr.model.results import Verdict
from gssr.model.traces.breakdown import breakdown_of
from gssr.model.traces.call_tree import CallTree
from gssr.model.traces.critical_path import MOST_WINS, CriticalPath, critical_path
from gssr.model.traces.dependency_graph import Dependencies
from gssr.model.traces.gpu_book import GpuBook
from gssr.model.traces.io import FileCalls
from gssr.model.traces.lengths import Lengths, LengthStatistics
from gssr.model.traces.messages import CollectiveUse, Exchange
from gssr.traces.timeline import Category, Clock, MemoryHolder, TraceSource, Track

Cause = Literal["host", "launch", "dependency", "copy", "unknown", "outside"]
CAUSES: tuple[Cause, ...] = ("host", "launch", "dependency", "copy", "unknown", "outside")
"""Why a GPU was idle (gssr.model.traces.idle), in the order of tables."""
TYPES = {"compute": Category.COMPUTE, "communication": Category.COMMUNICATION, "copy": Category.COPY}
"""What a GPU's work is for; a subset of them is the sum of 1, 2 and 4. All work (BUSY) is of one of these categories: a
kernel or graph computes unless its name says that it communicates or copies, and copies and sets are copies
(gssr.traces.categories). HolisticTraceAnalysis' classes are the same three; a wait is of none, as in its temporal breakdown
and as in what Nsight Systems counts as kernels."""


BINS = 600
"""Columns in which a GPU's use over time is kept."""


class Waits(NamedTuple):
    """How long a GPU was idle while something went on beside it, ns; None where the trace holds nothing of the kind.
    ``loader``: data was being loaded. ``blocked``: a thread waited in a call for the GPU. ``sync_copy``, ``sync_memset``: in
    one that copies or sets and returns when that is done. ``between_steps``: after one step and before the next, and no data
    was loaded."""

    loader: int | None = None
    blocked: int | None = None
    sync_copy: int | None = None
    sync_memset: int | None = None
    between_steps: int | None = None


class LateHost(NamedTuple):
    """How long a GPU was idle because the host was late within a step and loaded no data, ns. ``after_waits``: in gaps that
    began while a thread waited in a call for the GPU, so that nothing more was launched. ``brief``: in others in which it
    was late for less than 1 ms. ``longer``: in the rest, but for gaps of 0.5 s and more."""

    after_waits: int = 0
    brief: int = 0
    longer: int = 0


class GpuUse(NamedTuple):
    """One GPU of one rank, by the first of its tracks; it is called ``place`` (gssr.model.traces.gpu_names). ``span_ns``:
    from the first start to the last end of its kernels, copies and sets, 0 of a GPU that did nothing in the window;
    ``busy_ns``: what these cover; ``types``: ns in
    exactly each subset of TYPES [8]. ``overlap``: the share of the communication that lies under computation, None without
    communication. ``busy_over_time`` and, by type, ``types_over_time`` [3]: shares 0-1 [n_bins] in equal bins of the span.
    ``exposed_p2p_ns``: the part of the exposed communication in which it did nothing but send to or receive from single
    ranks. ``waited_for_ns``: the part of the window in which at least one thread of the processes that use the GPU waited
    in a call for a GPU."""

    track: Track
    place: str
    n_kernels: int
    begin_ns: int
    span_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    types: tuple[int, ...]
    overlap: float | None
    waits: Waits
    busy_over_time: Floats
    types_over_time: tuple[Floats, ...]
    exposed_p2p_ns: int = 0
    waited_for_ns: int = 0
    late_host: LateHost = LateHost()
    book: GpuBook | None = None
    """Its time by category, None as HolisticTraceAnalysis counts."""

    def shares_between(self, shares: Floats, begin: int, end: int, n: int) -> Floats:
        """Return ``shares`` [n_bins] (``busy_over_time`` or one of ``types_over_time``) in ``n`` equal bins from ``begin``
        to ``end`` (ns); 0 where the GPU has not begun or has ended."""
        edges = np.arange(n + 1) * max(end - begin, 1) / n
        own = np.arange(len(shares) + 1) * self.span_ns / len(shares) + (self.begin_ns - begin)
        spent = np.concatenate([[0.0], np.cumsum(shares * np.diff(own))])
        return np.asarray(np.diff(np.interp(edges, own, spent)) / edges[1], np.float64)

    @property
    def idle_ns(self) -> int:
        """Neither kernel nor copy."""
        return self.span_ns - self.busy_ns

    @property
    def exposed_communication_ns(self) -> int:
        """Communication, and no computation meanwhile."""
        return self.types[2] + self.types[6]

    @property
    def exposed_copy_ns(self) -> int:
        """A copy, and neither computation nor communication meanwhile."""
        return self.types[4]

    @property
    def rank(self) -> int | None:
        """None where the file does not tell."""
        return self.track.rank

    @property
    def node(self) -> str | None:
        """Its host's name."""
        return self.track.node

    @property
    def gpu(self) -> int | None:
        """Its number in its process."""
        return self.track.device

    @property
    def uuid(self) -> str | None:
        """As recordings have it."""
        return self.track.uuid


class Gap(NamedTuple):
    """A time in which the GPU called ``place`` was idle. ``cause``: that of the longer part, where the host was late for
    ``host_ns`` of it. ``before``, ``after``: the work at its ends; ``call``, ``range``,
    ``python``: what was innermost on the thread that launched the work after it, in its middle; None where there was
    nothing."""

    start_ns: int
    length_ns: int
    track: Track
    place: str
    cause: Cause
    host_ns: int
    before: str
    after: str
    call: str | None
    range: str | None
    python: str | None

    @property
    def rank(self) -> int | None:
        """None where the file does not tell."""
        return self.track.rank

    @property
    def gpu(self) -> int | None:
        """The GPU's number in its process."""
        return self.track.device


class Launches(NamedTuple):
    """Calls that gave a GPU work. ``delay``: how often which time passed from a call's end to the work's begin (0 where it
    began before); ``short_kernels``: work shorter than its call of at most 50 µs; ``slow_calls``: calls above 50 µs;
    ``long_delays``: delays above 100 µs; ``queue_max``: most work that waited in one stream, ``queue_full``: in how many
    streams that was as much as a stream holds."""

    n: int
    delay: Lengths
    short_kernels: int
    slow_calls: int
    long_delays: int
    queue_max: int
    queue_full: int


class Step(NamedTuple):
    """One step of the program on one rank; ``busy_ns``: how long its GPU was busy meanwhile (the mean of several),
    None where no GPU is shown; ``flops``, ``mfu``: as gssr.model.traces.flops.by_step has them."""

    name: str
    rank: int | None
    start_ns: int
    length_ns: int
    busy_ns: int | None
    flops: float | None = None
    mfu: float | None = None


class OperatorFlops(NamedTuple):
    """The ``n`` calls of one operator with inputs of one type, on GPUs of one ``model`` (None: not known, or several).
    ``flops``: floating-point operations of all together, None where their shapes do not tell; ``gpu_ns``: how long what they
    launched took; ``peak``: what a GPU of the model makes per second at most with dense BF16 inputs."""

    operator: str
    dtype: str
    n: int
    flops: float | None
    gpu_ns: int
    model: str | None
    peak: float | None

    @property
    def flops_per_s(self) -> float | None:
        """Floating-point operations per second of GPU time; None where unknown."""
        return self.flops * 1e9 / self.gpu_ns if self.flops is not None and self.gpu_ns else None

    @property
    def mfu(self) -> float | None:
        """The share of the peak that this is, None where unknown."""
        return self.flops_per_s / self.peak if self.flops_per_s is not None and self.peak else None


class KernelSequence(NamedTuple):
    """``kernels`` that the outermost ``operator`` launched in this order ``n`` times; ``gpu_ns``: of all times together."""

    operator: str
    kernels: tuple[str, ...]
    n: int
    gpu_ns: int


class OperatorCounter(NamedTuple):
    """The values of a CUPTI ``counter`` over the ``n`` launches of a ``kernel`` from one operator: their sum (``total``),
    the least and the greatest. ``operator`` and ``outermost`` name the innermost and the outermost operator around the
    launch; None where there is none, or it is not known."""

    operator: str | None
    outermost: str | None
    kernel: str
    counter: str
    n: int
    total: float
    min: float
    max: float


class SampledFunction(NamedTuple):
    """A function and its ``paradigm``: in how many samples of call paths it was what ran (``exclusive``), and in how many it
    ran or had called what did (``inclusive``)."""

    name: str
    paradigm: str
    exclusive: int
    inclusive: int


class Transfers(NamedTuple):
    """Kernels of one GPU that send to another rank or receive from it [n], as columns, ascending by start (ns). ``peer``:
    the other rank; ``clock``: those with equal numbers have times that can be compared."""

    track: Track
    start: Ints
    end: Ints
    peer: Ints
    is_send: Flags
    clock: int = 0


class CounterSummary(NamedTuple):
    """A series of values, of the GPU called ``place``, which is None of a thread or the whole. ``rank``: None where the file
    does not tell. ``mean``: of a gauge over time, else over its values; ``at_max_ns``: when it was greatest."""

    name: str
    unit: str
    track: Track | None
    rank: int | None
    place: str | None
    n: int
    mean: float
    min: float
    max: float
    last: float
    at_max_ns: int

    @property
    def gpu(self) -> int | None:
        """The GPU's number in its process."""
        return self.track and self.track.device


class OwnMetric(NamedTuple):
    """A metric of one's own, of the GPU or thread (``level``) called ``place``, all None where no name fits; ``expression``:
    what it is. ``value``: in ``unit`` (gssr.model.custom_metrics), None where it is not known."""

    name: str
    expression: str
    unit: str
    level: Literal["GPU", "thread"] | None = None
    track: Track | None = None
    place: str | None = None
    value: float | None = None

    @property
    def rank(self) -> int | None:
        """None where the file does not tell."""
        return self.track and self.track.rank


class CallTotals(NamedTuple):
    """Calls of one sort, or the work that they launched, all ranks together. ``total_ns``: their lengths added up.
    ``gpu_ns``: the time of each GPU in which any such work runs on it, 0 of calls; less than ``total_ns`` where some runs
    at once. ``n_bytes``: what was copied by the ``n_sized`` of known size."""

    n: int = 0
    total_ns: int = 0
    gpu_ns: int = 0
    n_bytes: int = 0
    n_sized: int = 0


@dataclass(frozen=True, slots=True)
class TraceAnalysis:
    """All that is found out. ``holds``: which of "kernels", "copies", "copy_work" (copies, those by kernels too),
    "calls", "launches", "ranges", "communication", "steps", "pageable", "multiplications" (operators that multiply
    matrices), "shapes" (of these), "intervals" (any at all) the trace has, "torch" of a program in PyTorch,
    "captures" of one that captures CUDA graphs, and "tree" where it has calls and no kernels; ``tree``: the calls.
    ``calls``: totals of those calls that rules look at. ``whole``: no window was asked for; ``selected``: only some
    tracks were. ``idle``: count and ns by cause. ``lengths``: tables of lengths by their names; ``kernels_by_rank``:
    that of the kernels of each GPU. ``metrics``: those of one's own. ``places``: what each GPU is called. Empty is
    what was not asked for (gssr.model.traces.analyze_trace)."""

    sources: tuple[TraceSource, ...]
    clock: Clock
    window: tuple[int, int]
    whole: bool
    like_hta: bool
    holds: frozenset[str]
    gpus: tuple[GpuUse, ...]
    lengths: Mapping[str, Lengths]
    kernels_by_rank: LengthStatistics
    calls: Mapping[str, CallTotals]
    idle: Mapping[Cause, tuple[int, int]]
    gaps: tuple[Gap, ...]
    launches: Launches
    steps: tuple[Step, ...]
    counters: tuple[CounterSummary, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[Track | None, str] = field(default_factory=dict)
    metrics: tuple[OwnMetric, ...] = ()
    axis_ns: int = 0
    """Where axes begin to count: at the trace's zero, but at the first interval where its times are unix times."""
    verdicts: tuple[Verdict, ...] = ()
    abstentions: Mapping[str, str] = field(default_factory=dict)
    exchange: Exchange | None = None
    """Who sent to whom; None, as ``io``, where the trace does not tell."""
    collectives: tuple[CollectiveUse, ...] = ()
    io: tuple[FileCalls, ...] | None = None
    tree: CallTree | None = None
    extent: tuple[int, int] | None = None
    """From the first start to the last end of the work of any GPU, cut to the window; None without GPUs."""

    dependencies: tuple[Dependencies, ...] = ()
    """What had to come before what, a graph for each file; empty where the critical path was not asked for."""
    flops: tuple[OperatorFlops, ...] = ()
    """Floating-point operations by operator; empty where no shapes were recorded."""
    transfers: tuple[Transfers, ...] = ()
    """Kernels that send or receive, GPU by GPU; empty where the trace does not tell to or from whom."""
    sequences: tuple[KernelSequence, ...] = ()
    """Kernels that operators launched in the same order more than once."""
    operator_counters: tuple[OperatorCounter, ...] = ()
    """What CUPTI counted in kernels; empty where it did not."""
    sampled_functions: tuple[SampledFunction, ...] = ()
    """Functions in which samples found the program; empty without samples."""
    holders: tuple[MemoryHolder, ...] = ()
    """What held memory when GPUs held the most; empty but of what PyTorch wrote about memory."""
    selected: bool = False

    def critical_path(self, wins: int = MOST_WINS) -> CriticalPath | None:
        """Find the critical path, and what shortening the first ``wins`` names on it would win. None where the graphs were
        not asked for, a file is damaged, there are too many moments in them, or their times can't be compared. Computed at
        each call."""
        return critical_path(self.dependencies, wins) if self.dependencies and not self.is_damaged else None

    @property
    def is_damaged(self) -> bool:
        """Tell whether a file is cut off or damaged, so that any event may be missing."""
        return any(source.is_damaged for source in self.sources)

    @property
    def span_ns(self) -> int:
        """Return the time of all GPUs together, of which their shares are: the job's time times their number, so that
        GPUs that work one after another are not busy all the time. As HolisticTraceAnalysis counts, the sum of each
        GPU's own span."""
        if self.extent is None or self.like_hta:
            return sum(gpu.span_ns for gpu in self.gpus)
        return len(self.gpus) * (self.extent[1] - self.extent[0])

    @property
    def job_ns(self) -> int:
        """Return the time of all GPUs together from the beginning of the job's files to their end, of which breakdown and
        verdicts tell shares. As HolisticTraceAnalysis counts, ``span_ns``."""
        windows = [gpu.book.window for gpu in self.gpus if gpu.book is not None]
        if not windows:
            return self.span_ns
        return len(windows) * (max(end for _, end in windows) - min(begin for begin, _ in windows))

    @property
    def idle_ns(self) -> int:
        """The time in which GPUs did nothing, of that of all GPUs together (``span_ns``), ns."""
        return self.span_ns - sum(gpu.busy_ns for gpu in self.gpus)

    @property
    def breakdown(self) -> Breakdown | None:
        """Return where the GPU time of the window went, with times in seconds from the trace's zero; None without
        GPUs, or as HolisticTraceAnalysis counts. Computed at each call."""
        books = [gpu.book for gpu in self.gpus if gpu.book is not None]
        nodes = [gpu.node for gpu in self.gpus if gpu.book is not None]
        return breakdown_of(books, nodes, "guess" if self.is_damaged else "measured")

    @property
    def types(self) -> Ints:
        """ns in each subset of TYPES [8], of all GPUs together."""
        return np.sum([gpu.types for gpu in self.gpus], axis=0, dtype=np.int64) if self.gpus else np.zeros(8, np.int64)
