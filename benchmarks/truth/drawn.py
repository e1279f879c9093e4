"""Labelled jobs by the dozen, drawn by chance: a set that nobody has looked at, as often as one is needed."""

import random
from collections.abc import Callable

from benchmarks.truth import between, clocks, over_time, waits, works
from benchmarks.truth.cause import Cause
from benchmarks.truth.hardware import A100, GH200, H100
from benchmarks.truth.jobs import Labelled
from benchmarks.truth.works import Work

N_JOBS = 100
SEED = 2
"""Another number gives jobs that no rule has been tried on."""

_HEALTHY, _ALONE = 0.15, 0.5
"""Shares of jobs without a cause, and with one; the others have two."""
_SIZES = ((1, 4), (1, 8), (2, 4), (4, 4), (2, 8), (8, 4), (16, 4), (32, 4))
_WORKS = (
    works.TRAINING, works.VISION, works.PLAIN_TRAINING, works.STENCIL_CODE, works.SOLVER, works.QUANTUM_CHEMISTRY,
    works.OFFLINE_INFERENCE, works.GRAPH_ANALYSIS,
)  # fmt: skip
_PYTHON = (works.TRAINING, works.VISION, works.OFFLINE_INFERENCE)
"""Programs that load data, and call libraries that exchange it."""

Size = tuple[int, int]
Maker = Callable[[random.Random, Size], Cause]


def _some(draw: random.Random, n: int, most: float) -> tuple[int, ...]:
    """A few of ``n``, at least one."""
    return tuple(sorted(draw.sample(range(n), draw.randint(1, max(int(most * n), 1)))))


def _gpu(draw: random.Random, size: Size) -> int:
    return draw.randrange(size[0] * size[1])


def _node(draw: random.Random, size: Size) -> int:
    return draw.randrange(size[0])


# Causes by when they are applied: what comes later holds whatever came before.
_WAITS: dict[str, Maker] = {
    "reading": lambda d, _: waits.reading(d.uniform(5, 15), d.uniform(0.4, 0.65), d.random() < 0.5),
    "one core": lambda d, _: waits.one_core(d.uniform(0.8, 3), d.uniform(0.5, 0.7)),
    "all cores": lambda d, _: waits.all_cores(d.uniform(0.8, 3), d.uniform(0.5, 0.7)),
    "launches": lambda d, _: waits.launches(d.uniform(0.5, 0.7), d.uniform(0.03, 0.3)),
    "copies": lambda d, _: waits.copies(d.uniform(0.65, 0.85)),
    "exchanges": lambda d, _: waits.exchanges(d.uniform(0.55, 0.75)),
}
_CLOCKS: dict[str, Maker] = {
    "hot node": lambda d, s: clocks.hot_node(_node(d, s), d.uniform(0.5, 0.75), d.random() < 0.3, d.random() < 0.3),
    "braked node": lambda d, s: clocks.braked_node(_node(d, s), 0.5),
    "failing": lambda d, s: clocks.failing((_gpu(d, s),), d.uniform(0.35, 0.6)),
    "left set": lambda d, s: clocks.left_set((_gpu(d, s),), d.uniform(0.5, 0.7), told=d.random() < 0.5),
}
_UNEQUAL: dict[str, Maker] = {
    "lagging": lambda d, s: between.lagging(_gpu(d, s), d.uniform(0.35, 0.65)),
    "uneven": lambda d, _: between.uneven_domains(d.uniform(0.4, 0.6)),
    "in turns": lambda d, _: between.in_turns(d.uniform(15, 30), d.uniform(0.1, 0.35)),
}
_RHYTHMS: dict[str, Maker] = {
    "checkpoints": lambda d, _: over_time.checkpoints(d.uniform(80, 130), d.uniform(9, 16)),
    "validation": lambda d, _: over_time.validation(d.uniform(90, 140), d.uniform(12, 25)),
    "pauses": lambda d, _: over_time.pauses(d.randint(4, 7), d.uniform(18, 35)),
    "decline": lambda d, _: over_time.decline(d.uniform(0.4, 0.6)),
}
_PARTS: dict[str, Maker] = {
    "late": lambda d, s: between.late(_some(d, s[0], 0.3), d.uniform(0.2, 0.45)),
    "early": lambda d, s: between.early(_some(d, s[0] * s[1], 0.3), d.uniform(0.2, 0.45)),
}
_ENDS: dict[str, Maker] = {
    "start-up": lambda d, _: over_time.start_up(d.uniform(0.2, 0.45)),
    "tear-down": lambda d, _: over_time.tear_down(d.uniform(0.2, 0.4)),
    "hang": lambda d, _: over_time.hang(d.uniform(0.4, 0.7), d.random() < 0.4),
}
_UNUSED: dict[str, Maker] = {"unused": lambda d, s: between.unused(_some(d, s[0] * s[1], 0.4))}
_MEMORY: dict[str, Maker] = {"memory": lambda d, _: waits.takes(d.choice((0.1, 0.2, 0.3, 0.975, 0.985)))}

_GROUPS = (_WAITS, _CLOCKS, _UNEQUAL, _RHYTHMS, _PARTS, _ENDS, _UNUSED, _MEMORY)
_MAKERS: dict[str, Maker] = {name: maker for group in _GROUPS for name, maker in group.items()}
_ORDER = tuple(_MAKERS)
_ONE_NODE = {"late", "hot node", "braked node"}
"""Makes no sense on one node."""
_TOGETHER = {
    *((own, other) for own in _ENDS for group in _GROUPS[:4] for other in group),
    *((own, other) for own in _MEMORY for group in _GROUPS[:6] for other in group),
    *((own, other) for own in ("checkpoints", "validation") for other in ("lagging", *_CLOCKS)),
    *(("unused", other) for group in (_WAITS, _CLOCKS) for other in group),
    ("start-up", "early"), ("tear-down", "late"),
} - {("hang", "decline"), ("tear-down", "decline"), ("start-up", "decline"), ("hang", "pauses")}  # fmt: skip
"""Pairs that leave no doubt about what is true of both."""


def jobs(n: int = N_JOBS, seed: int = SEED) -> tuple[Labelled, ...]:
    """``n`` labelled jobs: always the same for the same ``seed``."""
    draw = random.Random(seed)
    return tuple(_job(draw, number, seed) for number in range(n))


def _job(draw: random.Random, number: int, seed: int) -> Labelled:
    size = draw.choice(_SIZES)
    chance = draw.random()
    wanted: tuple[str, ...] = ()
    if chance >= _HEALTHY:
        usable = [name for name in _ORDER if size[0] > 1 or name not in _ONE_NODE]
        pairs = sorted(pair for pair in _TOGETHER if set(pair) <= set(usable))
        wanted = (draw.choice(usable),) if chance < _HEALTHY + _ALONE else draw.choice(pairs)
    wanted = tuple(sorted(wanted, key=_ORDER.index))
    work: Work = draw.choice(_PYTHON if {*_WAITS, "pauses"} & set(wanted) else _WORKS)
    hardware = draw.choice((H100, A100, GH200))
    seconds = draw.choice((1200, 1500, 1800))
    interval = draw.choice((0.5, 1.0, 1.0, 2.0)) if size[0] * size[1] <= 16 else 2.0
    causes = tuple(_MAKERS[name](draw, size) for name in wanted)
    name = f"{seed}/{number}: {', '.join(wanted) or 'healthy'}"
    return Labelled(name, work, hardware, *size, seconds, interval, causes)
