"""What is known of the parts of a run that were traced: gssr.model.joined finds it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SPLIT = ("compute", "exposed_communication", "exposed_copy", "idle")
"""What adds up to a GPU's time."""
LATE: Mapping[str, str] = {
    "host": "waiting for the CPU", "launch": "between launches", "dependency": "waiting for other work",
    "copy": "waiting for a copy", "unknown": "not launched by what was traced",
    "outside": "before its first work or after its last",
}  # fmt: skip
"""The causes of gaps (gssr.model.traces.idle) in few words."""
LaidBy = Literal["unix", "boot", "by comparison", "--offset"]
"""What says at which time of its run a trace was recorded."""


@dataclass(frozen=True, slots=True)
class TracedGap:
    """A time in which a GPU was idle: from ``start`` (unix s) for ``seconds``. ``gpu``: its position in the run;
    ``cause``: a key of LATE; ``doing``: what the program did in its middle, None where that is not known."""

    start: float
    seconds: float
    gpu: int
    cause: str
    doing: str | None

    @property
    def why(self) -> str:
        """``waiting for the CPU: aten::item``."""
        return f"{LATE[self.cause]}: {self.doing}" if self.doing else LATE[self.cause]


@dataclass(frozen=True, slots=True)
class IdleTime:
    """How often GPUs were idle for a cause (a key of LATE), and for how long in all."""

    cause: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TracedGpu:
    """How one GPU (``gpu``: its position) divided its ``seconds``, in shares (SPLIT)."""

    gpu: int
    seconds: float
    split: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """How often a kernel ran, and for how long in all. ``category``: as gssr.traces.timeline.Category."""

    name: str
    category: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TracedSteps:
    """The program's steps. ``count``: how many; ``mean``, ``min`` and ``max``: how long, s; ``busy``: the share (0-1)
    busy in them, None where no GPU is shown."""

    count: int
    mean: float
    min: float
    max: float
    busy: float | None


@dataclass(frozen=True, slots=True)
class TracedVerdict:
    """What a rule for traces (gssr.model.traces.trace_rules) has found."""

    code: str
    severity: str
    title: str


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace over the run: from ``start`` to ``end`` (unix s, by the recording's clock) within what is looked at, the
    ``share_of_run`` of its time. ``gpus``: positions of those traced, or that a rank may use whose trace shows none; the
    scores are theirs, in that time and in the rest of what is looked at, None where unknown. ``split``: shares of their
    time (SPLIT), ``by_gpu`` each's; ``idle``: by cause; ``gaps``: the longest; ``kernels``: those that took longest, and
    ``kernel_seconds`` what all took; ``steps``: None without any; ``verdicts``: of rules for traces.

    ``clock``: where its times come from; ``offset_s``: s that were added to them; ``clock_check``: what comparing with the
    samples has shown (gssr.model.joined.compare_clocks), None where nobody compared; ``notes``: sentences about it;
    ``digest``: all this was found out before (gssr.model.joined.digest), and the trace is not read again."""

    path: str
    rank: int | None
    gpus: tuple[int, ...]
    start: float
    end: float
    share_of_run: float
    score_inside: float | None
    score_outside: float | None
    clock: LaidBy
    clock_check: str | None
    offset_s: float
    split: Mapping[str, float]
    by_gpu: tuple[TracedGpu, ...]
    idle: tuple[IdleTime, ...]
    gaps: tuple[TracedGap, ...]
    kernels: tuple[TracedKernel, ...]
    kernel_seconds: float
    steps: TracedSteps | None
    verdicts: tuple[TracedVerdict, ...]
    notes: tuple[str, ...]
    digest: bool = False
    breakdown: Mapping[str, float] = field(default_factory=dict)
    """GPU-seconds by category (gssr.model.breakdown) as the kernels tell, each trace alone: what waits for the GPUs of other
    traces is not told apart. Empty where that is not known."""
    estimate: Mapping[str, float] = field(default_factory=dict)
    """Shares by category that the samples tell of the same GPUs and time. Empty where that is not known."""

    @property
    def seconds(self) -> float:
        """The length of the trace, s."""
        return self.end - self.start

    @property
    def clock_text(self) -> str:
        """Say in few words by which clock the trace was laid on the recording: ``unix``, the name of another clock, ``by
        comparison +1.2 s``, or, where comparing leaves doubt, ``unix, unchecked`` or ``unix, ambiguous``."""
        if self.clock == "by comparison":
            return f"by comparison {self.offset_s:+.3g} s" if self.offset_s else "by comparison"
        if self.clock != "unix" or self.clock_check == "agrees":
            return self.clock
        return "unix, unchecked" if self.clock_check == "too few" else "unix, ambiguous"
