"""What has to be said of a job and what may be, by what its causes cost in a simulation without them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tests.fakes.jobs.job import Cause, Draft, Plan
from tests.fakes.jobs.phases import Timeline
from tests.fakes.jobs.samplers import Sampling

LEAST_SECONDS = 40.0
"""In shorter jobs nothing has to be said: there is hardly evidence."""
COUNTS, HARDLY = 0.05, 0.02
"""Shares of the time: from the first on a cause has to be said, below the second it must not be; between, it may."""
BY_POWER = frozenset({"small_kernels", "communication_bound"})
"""What shows as little power where NVML is all there is: ``low_power`` is as good an answer there."""

_SAME = "at 10 s no step is resolved and every rank is the same: 100 % busy, at the power of ordinary kernels"
_EXCHANGE = "100 % busy at the power of ordinary kernels: how much of it is exchange can't be told"
_KERNELS = "100 % busy at a power that kernels waiting for memory have too: how SMs are used isn't measured"
_LITTLE = "less than a third of steps too short to see: no more than kinds of work differ by"
_COUNTING = (("gpm-100ms", "dcgm"), ("dcgm-1s", "dcgm"), ("dcgm-held", "dcgm"), ("10s", "dcgm"), ("30s", "dcgm"))
_COARSE = (("nvml-1s", "nvml"), ("nvml-10s", "nvml"))
UNDECIDABLE: dict[tuple[str, str, str], str] = {
    (name, *sampled): why
    for names, samplings, why in (
        (("rotating_fast",), _COARSE[1:], _SAME),
        (("communication", "communication_all_sms"), _COARSE, _EXCHANGE),
        (("few_warps", "thrashing", "whole_numbers"), _COARSE, _KERNELS),
        (("communication_little",), _COUNTING + _COARSE, _LITTLE),
    )
    for name in names
    for sampled in samplings
}
"""(class, sampling, backend) of jobs of which nothing can be told, and the physics why: right only when nothing is said."""


@dataclass(frozen=True)
class Job:
    """A simulated job, how it was sampled, and the truth about it."""

    seed: int
    name: str
    """Its class: the first cause's, or the healthy recipe's."""
    plan: Plan
    sampling: Sampling

    @cached_property
    def draft(self) -> Draft:
        return self.plan.draft()

    @cached_property
    def timeline(self) -> Timeline:
        return self.draft.timeline()

    @cached_property
    def seconds_saved(self) -> dict[str, float]:
        """By class of cause, how much sooner the same steps end without it; nothing where nobody can know."""
        return {
            cause.name: self.timeline.duration - self.plan.without(cause).draft().timeline().duration
            if cause.gpu_seconds is None
            else cause.gpu_seconds(self.timeline.duration) / self.draft.n
            for cause in self.plan.causes
            if not cause.unpriced
        } | self._hung

    @property
    def _hung(self) -> dict[str, float]:
        """Time in which nothing happened any more is lost whole."""
        lengths = self.timeline.lengths
        return {cause.name: float(lengths[-1]) for cause in self.plan.causes if cause.name in ("hang", "hang_first")}

    @property
    def undecidable(self) -> str | None:
        """Why nothing can be told, or None."""
        return UNDECIDABLE.get((self.name, self.sampling.name, self._backend))

    @property
    def _backend(self) -> str:
        return "nvml" if not self.sampling.profiling else "dcgm"

    def _says(self, cause: Cause) -> str:
        weaker = dict(cause.weaker)
        says = weaker.get(self.sampling.name, cause.says if self.sampling.profiling else weaker.get("nvml", cause.says))
        return "|".join((says, *self._by_power(says.split("|"))))

    def _by_power(self, codes: Iterable[str]) -> set[str]:
        return set() if self.sampling.profiling or BY_POWER.isdisjoint(codes) else {"low_power"}

    def _cost(self, cause: Cause) -> float:
        return 1.0 if cause.always else self.seconds_saved[cause.name] / self.timeline.duration

    @cached_property
    def must(self) -> frozenset[str]:
        """Codes that have to be said, "a|b" for alternatives."""
        if self.undecidable or self.timeline.duration < LEAST_SECONDS:
            return frozenset()
        found = {self._says(cause) for cause in self.plan.causes if self._cost(cause) >= COUNTS}
        return frozenset(found - {""})

    @cached_property
    def may(self) -> frozenset[str]:
        """Further codes that may be said."""
        if self.undecidable:
            return frozenset()
        found: set[str] = set()
        for cause in self.plan.causes:
            if self._cost(cause) >= HARDLY or (cause.culprits and cause.says):  # true of some, however little all lose
                found |= {*cause.says.split("|"), *self._says(cause).split("|"), *cause.may}
        return frozenset((found | self._by_power(found)) - {""})

    @property
    def step_seconds(self) -> float | None:
        """The true mean length of a step; None where the job has none."""
        lengths = self.timeline.lengths[self.timeline.step]
        return float(lengths.mean()) if len(lengths) and self.has_steps else None

    @property
    def has_steps(self) -> bool:
        """Whether anything in a step differs from the rest of it."""
        return len(self.draft.own + self.draft.together) > 1 and len(self.draft.laps) > 2
