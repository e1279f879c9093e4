"""A job's plan, and the simulation of it: steps of phases in which ranks wait for each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.fakes.jobs.hardware import Gpu
from tests.fakes.jobs.phases import Floats, Ints, Kind, Timeline

IDLE = Kind(reasons=1, cores=0.3)
"""Nothing on the GPU; what its process does is told by the phase."""
ABSENT = Kind(reasons=1, cores=0.0, clock=0.17)
"""No process has it: the GPU saves power."""
SPINNING = Kind(engine=1.0, sm=0.13, occupancy=0.04, integer=0.02, dram=0.02)
"""A collective's kernel that waits for another rank: it polls, on as many SMs as it has channels."""
VARIANTS = 16
"""Steps that differ by chance; each step of a job is one of them."""


class Recipe(NamedTuple):
    """A step: what a rank does before it meets the others, (kind, seconds), and what all do together afterwards. ``sync``:
    whether ranks wait for each other at all, and as ``waiting``. ``jitter``: spread of a rank's time from step to step, of
    which all ranks share the greater part. ``memory``: share of the device's memory."""

    name: str
    own: tuple[tuple[Kind, float], ...]
    together: tuple[tuple[Kind, float], ...] = ()
    sync: bool = True
    waiting: Kind = SPINNING
    jitter: float = 0.01
    memory: float = 0.7

    @property
    def step(self) -> float:
        """Seconds, without waiting."""
        return sum(seconds for _, seconds in self.own + self.together)


@dataclass
class Column:
    """A phase of all variants of the step: ``kind`` and ``seconds`` [variants, ranks]. ``work``: it is the GPU's own."""

    kind: Ints
    seconds: Floats
    work: bool = True


class Lap(NamedTuple):
    """Something between steps: before which of them, how long, and phases of all ranks: kinds with shares of its time."""

    before: int
    seconds: float
    phases: tuple[tuple[NDArray[np.object_], float], ...]


@dataclass
class Draft:
    """A job that is being put together: the recipe's steps, to which causes add theirs."""

    plan: "Plan"
    rng: np.random.Generator
    kinds: dict[Kind, int] = field(default_factory=dict)
    own: list[Column] = field(default_factory=list)
    together: list[Column] = field(default_factory=list)
    laps: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    stretch: Floats = field(default_factory=lambda: np.empty(0))
    between: list[Lap] = field(default_factory=list)
    memory: Floats = field(default_factory=lambda: np.empty(0))
    hot: set[int] = field(default_factory=set)
    away: set[int] = field(default_factory=set)
    """GPUs that no process ever uses."""
    state: str = "completed"
    exit_code: int | None = 0

    @property
    def n(self) -> int:
        """GPUs, and ranks."""
        return len(self.plan.gpus)

    @property
    def variants(self) -> int:
        return len(self.own[0].seconds)

    def index(self, kind: Kind) -> int:
        """The number of a kind here."""
        return self.kinds.setdefault(kind, len(self.kinds))

    def column(self, kind: Kind, seconds: Floats | float, work: bool = False) -> Column:
        """One phase of the same kind for all."""
        shape = (self.variants if self.own else VARIANTS, self.n)
        return Column(np.full(shape, self.index(kind)), np.broadcast_to(seconds, shape).astype(np.float64), work)

    def alter(self, change: Callable[[Kind], Kind], ranks: Sequence[int] | slice, variants: Ints | slice) -> None:
        """Change the kinds of the GPU's own work, of these ranks in these variants of the step."""
        for column in self.own:
            if column.work:
                part = column.kind[variants][:, ranks]
                found = list(self.kinds)
                new = {number: self.index(change(found[number])) for number in np.unique(part).tolist()}
                rows = np.arange(column.kind.shape[0])[variants]
                columns = np.arange(self.n)[ranks]
                column.kind[np.ix_(rows, columns)] = np.vectorize(new.__getitem__)(part)

    def slow(self, factor: Floats | float, ranks: Sequence[int] | slice, variants: Ints | slice = slice(None)) -> None:
        """Let the GPU's own work take longer."""
        rows, columns = np.arange(self.variants)[variants], np.arange(self.n)[ranks]
        for column in self.own:
            if column.work:
                column.seconds[np.ix_(rows, columns)] *= factor

    def split(self, which: Ints, n: int) -> list[Ints]:
        """Variants of their own for steps of each sort, ``which`` [steps] 0 to n - 1; the numbers of each sort's."""
        before = self.variants
        for column in self.own + self.together:
            column.kind = np.concatenate([column.kind] * n)
            column.seconds = np.concatenate([column.seconds] * n)
        self.laps = self.laps + which * before
        return [np.arange(sort * before, (sort + 1) * before) for sort in range(n)]

    def grade(self) -> Floats:
        """Let variants follow each other over the job, first to last; where each is in it, 0-1, as [variants, 1]."""
        n = self.variants
        self.laps = np.arange(len(self.laps)) * n // max(len(self.laps), 1)
        return (np.arange(n)[:, None] + 0.5) / n

    def everybody(self, kind: Kind) -> NDArray[np.object_]:
        """The same for all ranks."""
        found = np.empty(self.n, object)
        found[:] = [kind] * self.n
        return found

    def timeline(self) -> Timeline:
        """Let ranks wait for each other, and put all laps in order."""
        own = np.stack([column.seconds for column in self.own], axis=2)
        total = own.sum(axis=2)
        longest = total.max(axis=1, keepdims=True)
        columns = list(self.own)
        if self.plan.recipe.sync:
            absent = self.index(ABSENT)
            waiting = np.where(columns[-1].kind == absent, absent, self.index(self.plan.recipe.waiting))
            columns.append(Column(waiting, longest - total))
        else:
            columns = [Column(column.kind, column.seconds * longest / total) for column in columns]
        columns += self.together
        seconds = np.stack([column.seconds for column in columns], axis=2)
        kind = np.stack([column.kind for column in columns], axis=2)
        order = sorted(self.between, key=lambda lap: lap.before)
        patterns: dict[tuple[int, ...], int] = {}
        more_seconds, more_kinds, blocks = [], [], []
        width = max([seconds.shape[2], *(len(lap.phases) for lap in order)])
        for lap in order:
            numbers = np.array([[self.index(one) for one in kinds] for kinds, _ in lap.phases]).T
            numbers[sorted(self.away)] = self.index(ABSENT)
            key = (*numbers.ravel().tolist(), *(round(1e9 * share) for _, share in lap.phases))
            if key not in patterns:
                patterns[key] = self.variants + len(patterns)
                spare = width - len(lap.phases)
                shares = np.array([share for _, share in lap.phases] + [0.0] * spare)
                more_seconds.append(np.broadcast_to(shares, (self.n, width)))
                more_kinds.append(np.pad(numbers, ((0, 0), (0, spare))))
            blocks.append(patterns[key])
        spare = ((0, 0), (0, 0), (0, width - seconds.shape[2]))
        seconds, kind = np.pad(seconds, spare), np.pad(kind, spare)
        at = [lap.before for lap in order]
        return Timeline(
            tuple(self.kinds),
            np.concatenate([seconds, *(one[None] for one in more_seconds)]),
            np.concatenate([kind, *(one[None] for one in more_kinds)]),
            np.insert(self.laps, at, blocks),
            np.insert(self.stretch, at, [lap.seconds for lap in order]),
            np.insert(np.ones(len(self.laps), np.bool_), at, np.zeros(len(order), np.bool_)),
        )


class Cause(NamedTuple):
    """What makes a job worse. ``apply`` puts it into a draft; ``says`` the code that has to be said, "a|b" for alternatives;
    ``may`` consequences that may stand beside. ``always``: it counts whatever it costs. ``gpu_seconds``: what it costs,
    where the same job without it ends at the same time; ``unpriced``: nobody can know. ``weaker``: what has to be said
    instead of ``says`` where a sampling or a backend shows less ("" is nothing)."""

    name: str
    says: str
    apply: Callable[[Draft], None]
    may: frozenset[str] = frozenset()
    culprits: tuple[int, ...] = ()
    always: bool = False
    gpu_seconds: Callable[[float], float] | None = None
    unpriced: bool = False
    weaker: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Plan:
    """A job to simulate: a model for each GPU, in order of nodes; the recipe, how many steps, and what is wrong."""

    gpus: tuple[Gpu, ...]
    per_node: int
    recipe: Recipe
    steps: int
    seconds: float
    """About how long it is to take."""
    causes: tuple[Cause, ...] = ()
    seed: int = 0

    def without(self, cause: Cause) -> "Plan":
        """The same steps, by the same chance, without one of its causes."""
        return replace(self, causes=tuple(other for other in self.causes if other is not cause))

    @property
    def nodes(self) -> list[int]:
        """The node of each GPU."""
        return [at // self.per_node for at in range(len(self.gpus))]

    def draft(self) -> Draft:
        """Its steps with all causes."""
        rng = np.random.default_rng((self.seed, 1))
        draft = Draft(self, rng)
        common = rng.normal(1.0, self.recipe.jitter, (VARIANTS, 1)).clip(0.5, 2.0)
        for kind, seconds in self.recipe.own:
            each = rng.normal(1.0, 0.2 * self.recipe.jitter, (VARIANTS, draft.n)).clip(0.5, 2.0)
            draft.own.append(draft.column(kind, seconds * common * each, work=kind.engine > 0))
        for kind, seconds in self.recipe.together:
            draft.together.append(draft.column(kind, seconds))
        draft.laps = rng.integers(VARIANTS, size=self.steps)
        draft.stretch = rng.normal(1.0, 0.003, self.steps).clip(0.9, 1.1)
        draft.memory = np.full(draft.n, self.recipe.memory) * rng.normal(1.0, 0.004, draft.n)
        for position, cause in enumerate(self.causes):
            draft.rng = np.random.default_rng((self.seed, 2, position, sum(cause.name.encode())))
            cause.apply(draft)
        return draft

    def lasting(self) -> "Plan":
        """With as many steps as take about ``seconds`` with all its causes."""
        took = self.draft().timeline().duration
        return replace(self, steps=max(round(self.steps * self.seconds / took), 3))
