"""Jobs drawn at random over every class: sizes, models, lengths, samplings, and how bad it is."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from tests.fakes.jobs import causes, healthy
from tests.fakes.jobs.hardware import A100, GH200, H100, H200, L40S, PER_NODE, V100, Gpu
from tests.fakes.jobs.job import Cause, Plan, Recipe
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.phases import Kind
from tests.fakes.jobs.samplers import DCGM, GPM, HELD, NVML, NVML_TEN, TEN, TEN_OF_ONE, THIRTY, THIRTY_OF_ONE, Sampling

ROWS = 24_000
COST = 0.5
"""At most so many samples of a job, and seconds of work to write it; one in twenty has up to ``MORE`` times as much."""
MORE = 7
STEPS = 100_000
HEALTHY_SHARE = 0.3
LONGEST = 8 * 3600.0
_GB = 1e9

_SAMPLINGS: tuple[tuple[Sampling, float], ...] = (
    (GPM, 0.15), (DCGM, 0.25), (HELD, 0.08), (TEN, 0.1), (TEN_OF_ONE, 0.06), (THIRTY, 0.1), (THIRTY_OF_ONE, 0.06),
    (NVML, 0.12), (NVML_TEN, 0.08),
)  # fmt: skip
_MODELS = ((H100, 0.35), (A100, 0.25), (H200, 0.12), (GH200, 0.1), (V100, 0.08), (L40S, 0.1))


class Scene(NamedTuple):
    """What was drawn before the cause: its random numbers, the GPUs, about how long the job takes, how it is sampled."""

    rng: np.random.Generator
    gpus: tuple[Gpu, ...]
    per_node: int
    seconds: float
    recipe: Recipe
    sampling: Sampling
    ring: Kind

    @property
    def n(self) -> int:
        return len(self.gpus)

    def some(self, most: float) -> tuple[int, ...]:
        """A few GPUs, or a whole node of several."""
        if self.n >= 2 * self.per_node and self.rng.random() < 0.4:
            return self.node()
        count = max(int(self.rng.uniform(0.0, most) * self.n), 1)
        return tuple(sorted(self.rng.choice(self.n, count, replace=False).tolist()))

    def node(self) -> tuple[int, ...]:
        node = int(self.rng.integers(max(self.n // self.per_node, 1)))
        return tuple(range(node * self.per_node, min((node + 1) * self.per_node, self.n)))

    def between(self, least: float, most: float) -> float:
        return float(self.rng.uniform(least, most))


Drawn = Callable[[Scene], Cause]


def _checkpoints(scene: Scene) -> Cause:
    every = max(scene.seconds / scene.between(5, 20), 15.0)
    return causes.checkpoints(
        every, every * scene.between(0.06, 0.25), scene.between(0.2, 2) * _GB, scene.rng.random() < 0.4
    )


def _pauses(scene: Scene) -> Cause:
    every = max(scene.seconds / scene.between(7, 20), 10.0)
    return causes.pauses(every, max(every * scene.between(0.12, 0.45), 3.0))


def _hang(scene: Scene) -> Cause:
    culprit = int(scene.rng.integers(scene.n)) if scene.rng.random() < 0.4 else None
    spinning = culprit is not None or scene.rng.random() < 0.7
    return causes.hang(max(scene.seconds * scene.between(0.25, 0.6), 75.0), culprit, spinning, first=False)


def _slow(code: str, reasons: tuple[int, ...]) -> Drawn:
    def drawn(scene: Scene) -> Cause:
        ranks = scene.node() if code == "slow_node" else (int(scene.rng.integers(scene.n)),)
        reason = int(scene.rng.choice(reasons))
        since = 0.0 if reason in (0, 2) else scene.between(0.0, 0.4)
        return causes.slow_clock(ranks, scene.between(0.45, 0.85), reason, since, code)

    return drawn


def _imbalance(scene: Scene) -> Cause:
    least = 0.5 if scene.sampling.profiling else 0.9
    most = 1 + scene.between(least, 1.2)
    return causes.uneven(scene.rng.permutation(np.linspace(1.0, most, scene.n)), "imbalance", scene.recipe.sync)


def _straggler(scene: Scene) -> Cause:
    factors = np.ones(scene.n)
    factors[scene.rng.integers(scene.n)] = 1 + scene.between(0.25 if scene.sampling.profiling else 0.6, 1.0)
    return causes.uneven(factors if scene.recipe.sync else 1 / factors, "straggler", scene.recipe.sync)


def _turns(scene: Scene) -> Cause:
    rank = np.arange(scene.n)
    groups = rank % 2 if scene.rng.random() < 0.5 or scene.n < 4 else (rank >= scene.n // 2).astype(np.int64)
    if scene.n >= 6 and scene.rng.random() < 0.2:
        groups = rank % 3
    seconds = max(scene.between(12, min(80, scene.seconds / 8)), 1.5 * min(scene.sampling.interval, 10.0))
    return causes.turns(groups, seconds, scene.rng.random() < 0.3)


def _communication(scene: Scene) -> Cause:
    share = scene.between(0.35, 0.65) if scene.rng.random() < 0.8 else scene.between(0.06, 0.35)
    kind = healthy.ALL_SMS if scene.gpus[0].nvlink and scene.rng.random() < 0.2 else scene.ring
    piece = {name: getattr(kind, name) * scene.between(0.8, 1.2) for name in ("sm", "dram") if kind.sm < 0.9}
    return causes.communication(share, kind._replace(**piece), scene.sampling.window, scene.recipe.step)


def _input(scene: Scene) -> Cause:
    every = 1 if scene.rng.random() < 0.5 else int(scene.rng.integers(2, 9))
    return causes.slow_input(scene.between(0.08, 0.5), every, scene.rng.random() < 0.5, scene.rng.random() < 0.2)


def _rotating(slow: bool) -> Drawn:
    def drawn(scene: Scene) -> Cause:
        dwell = max(round(4 * min(scene.sampling.interval, 10) / scene.recipe.step), 3) if slow else 1
        return causes.rotating(scene.between(1.5, 2.2), dwell)

    return drawn


def _kernels(name: str) -> Drawn:
    return lambda _: causes.kernels(name)


class Class(NamedTuple):
    """How a class is drawn: its first cause, the GPUs and seconds it needs, the step's least length in windows of the
    sampling, and whether its ranks have to wait for each other (None: either)."""

    cause: Drawn
    gpus: int = 1
    seconds: float = 60.0
    windows: float = 0.0
    sync: bool | None = None
    weight: float = 1.0


CLASSES: dict[str, Class] = {
    "start_up": Class(lambda s: causes.start_up(s.seconds * s.between(0.08, 0.35), s.between(0, 0.2) * _GB), seconds=90),
    "tear_down": Class(lambda s: causes.tear_down(s.seconds * s.between(0.07, 0.25), 0.0), seconds=120),
    "last_checkpoint": Class(lambda s: causes.tear_down(150 * s.between(0.8, 1.3), s.between(0.1, 1) * _GB), seconds=700),
    "checkpoints": Class(_checkpoints, seconds=200, weight=2),
    "pauses": Class(_pauses, seconds=200),
    "evaluation_alone": Class(
        lambda s: causes.evaluation_alone(s.between(0.3, 0.8), s.seconds * s.between(0.08, 0.3), int(s.rng.integers(s.n))),
        gpus=2, seconds=300, sync=True,
    ),
    "hang": Class(_hang, gpus=2, seconds=200, sync=True, weight=1.5),
    "hang_first": Class(lambda s: causes.hang(s.seconds, None, True, True), gpus=2, seconds=300, sync=True),
    "gpus_unused": Class(lambda s: causes.unused(s.some(0.5)), gpus=2),
    "late_start": Class(lambda s: causes.partial(s.some(0.6), s.between(0.25, 0.7), True), gpus=4, seconds=120),
    "early_end": Class(lambda s: causes.partial(s.some(0.6), s.between(0.25, 0.7), False), gpus=4, seconds=120),
    "throttled_thermal": Class(_slow("throttled_thermal", (0x20, 0x48, 0x60)), gpus=2, sync=True),
    "throttled_power_brake": Class(_slow("throttled_power_brake", (0x88, 0x80)), gpus=2, sync=True),
    "throttled_hardware": Class(_slow("throttled_hardware", (0x8,)), gpus=2, sync=True),
    "power_capped": Class(lambda s: causes.power_capped(s.between(0.7, 0.93))),
    "slow_node": Class(_slow("slow_node", (0,)), gpus=16, sync=True),
    "slow_clock": Class(_slow("slow_clock", (0, 2)), gpus=4, sync=True),
    "straggler": Class(_straggler, gpus=4),
    "imbalance": Class(_imbalance, gpus=4),
    "rotating_fast": Class(_rotating(False), gpus=4, seconds=120, windows=4, sync=True),
    "rotating_slow": Class(_rotating(True), gpus=4, seconds=600, sync=True),
    "taking_turns": Class(_turns, gpus=2, seconds=200, weight=1.5),
    "slow_down": Class(lambda s: causes.slow_down(s.between(0.25, 1.2)), seconds=180),
    "slow_input": Class(_input, weight=2),
    "copies": Class(lambda s: causes.copies(s.between(0.12, 0.55), s.rng.random() < 0.4)),
    "communication": Class(_communication, gpus=4, sync=True, weight=3),
    "cpu_starved": Class(lambda s: causes.starved(s.between(0.3, 0.8), True, 128)),
    "one_core": Class(lambda s: causes.starved(s.between(0.3, 0.75), False, 128)),
    "launches": Class(lambda s: causes.launches(s.between(0.25, 0.65))),
    **{name: Class(_kernels(name)) for name in causes.KERNELS},
    "few_requests": Class(lambda _: causes.few_requests(), sync=False),
    "memory_full": Class(lambda s: causes.memory(s.between(0.985, 0.998)), weight=0.5),
    "memory_unused": Class(lambda s: causes.memory(s.between(0.01, 0.035)), weight=0.5),
}  # fmt: skip


_T = TypeVar("_T")


def _one_of(rng: np.random.Generator, choices: tuple[tuple[_T, float], ...]) -> _T:
    weights = np.array([weight for _, weight in choices])
    return choices[int(rng.choice(len(choices), p=weights / weights.sum()))][0]


def _log(rng: np.random.Generator, least: float, most: float) -> float:
    return float(np.exp(rng.uniform(np.log(least), np.log(max(most, least)))))


def draw(seed: int, is_healthy: bool | None = None, name: str | None = None, least_gpus: int = 8) -> Job:
    """The job of this seed: of a class by its name, healthy or not, or whatever chance says; of ``least_gpus`` to 256."""
    rng = np.random.default_rng((seed, 0))
    if is_healthy is None:
        is_healthy = name is None and rng.random() < HEALTHY_SHARE
    wanted = name or _one_of(rng, tuple((key, each.weight) for key, each in CLASSES.items()))
    of = Class(lambda _: causes.start_up(0.0, 0.0), seconds=20.0) if is_healthy else CLASSES[wanted]
    model = _one_of(rng, _MODELS)
    more = MORE if rng.random() < 0.05 else 1
    rows, cost = ROWS * more, COST * more
    sampling = _one_of(rng, tuple((one, w) for one, w in _SAMPLINGS if model.has_gpm or one is not GPM))
    shortest = max(of.seconds, (3 if is_healthy else 20) * sampling.interval)
    most = min(rows * sampling.interval / shortest, 256)
    least = max(of.gpus, least_gpus)
    n = 2 ** int(rng.integers(int(np.log2(least)), max(int(np.log2(max(most, least))), int(np.log2(least))) + 1))
    seconds = _log(rng, shortest, min(rows * sampling.interval / n, 60 * cost / (0.0035 + 0.00027 * n), LONGEST))
    per_node = min(PER_NODE[model], n)
    kinds = [one for one in healthy.WORK if not (one == "tuning" and n > 1)]
    if of.sync is not None:
        kinds = [one for one in kinds if one not in (*healthy.STEADY, "tuning")] if of.sync else ["inference"]
    if model is L40S:  # has next to no FP64 pipe
        kinds = [one for one in kinds if not healthy.WORK[one].fp64]
    kind = str(rng.choice(kinds))
    window = sampling.window if sampling.interval < 5 else 1.0
    step = max(_log(rng, 0.1, 8.0), of.windows * window * 1.2, seconds / STEPS)
    ring = healthy.exchange(model, n, n // per_node)
    recipe = healthy.recipe(kind, rng, min(step, seconds / 25), ring)
    gpus = (model,) * n
    if is_healthy and n >= 2 * per_node and rng.random() < 0.12:  # two kinds of nodes, each as busy
        other = A100 if model is H100 else H100
        gpus = tuple(other if rank // per_node % 2 else model for rank in range(n)) if PER_NODE[model] == 8 else gpus
    if rng.random() < 0.08:
        sampling = sampling._replace(nulls=float(rng.choice([0.02, 0.4])), lost_rows=float(rng.choice([0.0, 0.05])))
    scene = Scene(rng, gpus, per_node, seconds, recipe, sampling, ring)
    found: tuple[Cause, ...] = ()
    if not is_healthy:
        found = (of.cause(scene),)
    elif seconds > 300 and rng.random() < 0.4:  # what costs next to nothing
        every = seconds / float(rng.uniform(2, 12))
        share = float(rng.uniform(0.002, 0.015))
        if rng.random() < 0.4:
            found = (causes.validation(every, 6 * share * every),)
        else:
            found = (causes.checkpoints(every, share * every, 0.5 * _GB, rng.random() < 0.3),)
    if rng.random() < 0.3 and seconds > 100 and wanted not in ("start_up", "hang_first", "late_start", "tear_down"):
        most = 0.015 if is_healthy else 0.05
        found += (causes.start_up(seconds * float(rng.uniform(0.003, most)), 0.2 * _GB),)
    plan = Plan(gpus, per_node, recipe, max(round(seconds / recipe.step), 3), seconds, found, seed).lasting()
    return Job(seed, f"healthy_{kind}" if is_healthy else found[0].name, plan, sampling)
