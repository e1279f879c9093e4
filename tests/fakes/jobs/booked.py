"""The books of the simulated jobs: seconds of each GPU by category, told from what its timeline holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.fakes.jobs.draw import draw
from tests.fakes.jobs.job import ABSENT, SPINNING
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.phases import Floats, Kind
from tests.fakes.jobs.write import write

LEAVES = (
    "unmeasured", "unused", "startup", "end", "idle.input_output", "idle.copies", "idle.host", "idle.imbalance",
    "idle.between_kernels", "idle.unexplained", "communication.transferring", "communication.waiting", "working.slowed",
    "working.few_sms", "working.memory", "working.tensor", "working.fp64", "working.other",
)  # fmt: skip
_RENAMED = {"gaps": "launch_gaps"}
_GAPS = frozenset({"launch_gaps", "low_use", "cpu_starved"})
"""Gaps in every step: what the host's part of them is no sample tells from gaps between kernels."""


def parts_of(kind: Kind, n_gpus: int) -> list[tuple[str, float]]:
    """Which categories a phase's time is of, with their shares."""
    if kind.engine == 0:
        return [(_idle_category(kind), 1.0)]
    parts = [("idle.between_kernels", 1 - kind.engine)]
    flop = kind.fp64 + kind.fp32 + kind.fp16 + kind.tensor
    moves = kind.nvlink >= 0.15 or kind.fabric >= 0.3 or (kind.sm < 0.3 and kind.host_rx >= 0.3)
    if kind._replace(clock=1.0, reasons=0, cores=1.0) == SPINNING or kind == SPINNING:
        return [*parts, ("communication.waiting", kind.engine)]
    if n_gpus > 1 and moves and flop < 0.05:
        return [*parts, ("communication.transferring", kind.engine)]
    if kind.sm / kind.engine < 0.25:
        return [*parts, ("working.few_sms", kind.engine)]
    above = {
        "working.memory": kind.dram / 0.6, "working.tensor": (kind.tensor - kind.dfma) / 0.25,
        "working.fp64": (kind.fp64 + kind.dfma) / 0.2,
    }  # fmt: skip
    name = max(above, key=lambda each: above[each])
    name = name if above[name] >= 1 else "working.other"
    return [*parts, ("working.slowed", kind.engine * (1 - kind.clock)), (name, kind.engine * kind.clock)]


def _idle_category(kind: Kind) -> str:
    moved = kind.read + kind.write + kind.net_rx + kind.net_tx
    if moved > 1e7:
        return "idle.input_output"
    if max(kind.host_tx, kind.host_rx) >= 0.04:
        return "idle.copies"
    if kind == ABSENT:
        return "idle.imbalance"
    return "idle.host" if kind.cores >= 0.99 else "idle.unexplained"


@dataclass(frozen=True)
class BookedJob:
    """A simulated job as its examination needs it (benchmarks.truth)."""

    job: Job

    @property
    def seed(self) -> int:
        return self.job.seed

    @property
    def kind(self) -> str:
        return self.job.name

    @property
    def view(self) -> str:
        return ("gpm" if self.job.sampling.backend == "nvml" else "full") if self.job.sampling.profiling else "nvml"

    @cached_property
    def planted(self) -> tuple[frozenset[str], ...]:
        return tuple(_codes(each) for each in self.job.must)

    @cached_property
    def allowed(self) -> frozenset[str]:
        return (
            frozenset().union(*(_codes(each) for each in self.job.may))
            if self.job.may or self.job.undecidable
            else frozenset()
        )

    @property
    def lost_gpu_hours(self) -> float | None:
        return None

    @cached_property
    def shares(self) -> Mapping[str, float]:
        seconds = self._seconds()
        return dict(zip(LEAVES, (seconds.sum(axis=0) / seconds.sum()).tolist(), strict=True))

    def _seconds(self) -> Floats:
        """[ranks, leaves]."""
        draft, timeline = self.job.draft, self.job.timeline
        starts = np.concatenate(([0.0], np.cumsum(timeline.lengths)))
        steps = np.flatnonzero(timeline.step)
        first = starts[steps[0]] if len(steps) else timeline.duration
        last = starts[steps[-1] + 1] if len(steps) else timeline.duration
        table = np.zeros((len(timeline.kinds), len(LEAVES)))
        for number, kind in enumerate(timeline.kinds):
            for name, share in parts_of(kind, draft.n):
                table[number, LEAVES.index(name)] += share
        until = timeline.spent(np.array([first, last, timeline.duration]))
        seconds = np.asarray((until[1] - until[0]) @ table, np.float64)
        is_idle = np.array([name.startswith("idle.") for name in LEAVES])
        for spent, name in ((until[0], "startup"), (until[2] - until[1], "end")):
            outside = spent @ table
            seconds[:, LEAVES.index(name)] += outside[:, is_idle].sum(axis=1)
            seconds[:, ~is_idle] += outside[:, ~is_idle]
        for rank in draft.away:
            total, seconds[rank] = seconds[rank].sum(), 0.0
            seconds[rank, LEAVES.index("unused")] = total
        return seconds

    def write(self, path: str) -> None:
        """Write the recording."""
        write(self.job, path)


def _codes(alternatives: str) -> frozenset[str]:
    codes = frozenset(_RENAMED.get(code, code) for code in alternatives.split("|"))
    return codes | _GAPS if "launch_gaps" in codes else codes


def booked_job(seed: int, healthy: bool | None = None) -> BookedJob:
    """Draw the job of a seed: healthy, with a planted cause, or whatever chance says."""
    return BookedJob(draw(seed, is_healthy=healthy))


def comparable(shares: Mapping[str, float], view: str) -> dict[str, float]:
    """Merge the leaves of shares that a view can't tell apart: of the kinds of work, whose edges are a convention; of gaps
    between kernels and the host's part in them; by NVML alone of all work, and of communication."""
    merged = {"idle.between_kernels": "idle.host"} | dict.fromkeys(
        ("working.memory", "working.tensor", "working.fp64"), "working.other"
    )
    if view == "nvml":
        merged |= {"working.few_sms": "working.other", "communication.transferring": "communication.waiting"}
    found: dict[str, float] = {}
    for name, share in shares.items():
        into = merged.get(name, name)
        found[into] = found.get(into, 0.0) + share
    return found
