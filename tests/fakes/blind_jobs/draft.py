"""A job while it is drawn: its machine, how it is watched, the blocks of its schedule, and the labels of what is planted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.blind_jobs.hardware import GB, MODELS, GpuModel
from tests.fakes.blind_jobs.phases import AFTER, BEFORE, HELD_UP, LOADING, Phase
from tests.fakes.blind_jobs.schedule import Block

VIEWS = ("full", "exporter", "imported", "gpm", "nvml", "amd")
INTERVALS = {
    "full": (0.1, 0.5, 1.0, 1.0, 5.0, 10.0, 30.0),
    "exporter": (1.0, 5.0, 10.0, 15.0, 30.0),
    "imported": (5.0, 10.0, 15.0, 30.0),
    "gpm": (0.1, 0.5, 1.0, 2.0),
    "nvml": (0.1, 0.5, 1.0, 1.0, 2.0, 10.0, 30.0),
    "amd": (0.5, 1.0, 1.0, 5.0, 10.0),
}
"""How often samples are taken, in seconds."""
MOST_ROWS, MOST_HOST_ROWS, MOST_SEGMENTS = 110_000, 40_000, 700_000
"""Keep a job's writing and judging at about a second."""
SHORTEST, LONGEST = 60.0, 4 * 3600.0

POWER_CAP, SETTING, HARDWARE, SW_THERMAL, HW_THERMAL, BRAKE = 0x4, 0x2, 0x8, 0x20, 0x40, 0x80
"""Bits of NVML's clock event reasons."""

GAPS = frozenset({"launch_gaps", "gaps", "low_use"})
"""True of GPUs that are partly active in most samples."""
STALLS = frozenset({"unexplained", "pauses", "recurring_dips"})
"""True of GPUs that pause while nothing else that is measured tells why."""
LATE = frozenset({"straggler", "imbalance", "rotating_stragglers"})
"""True where GPUs wait for others, of which some are late."""
TURNS = frozenset({"imbalance", "rotating_stragglers"})
"""True where GPUs wait for others, now this one and now that."""


class UnsuitableError(Exception):
    """The machine that was drawn does not run such a program."""


class Recipe(NamedTuple):
    """A healthy program. ``parts``: phases and their shares of a step; ``comm``: the share of a step in which collectives
    move data and nothing computes; ``meet``: how GPUs wait for each other, "spin" in a collective, "block" in MPI, or ""
    for ranks on their own; ``hot``: it draws all the power there is, so the limit lowers its clocks."""

    note: str
    parts: tuple[tuple[Phase, float], ...]
    step: tuple[float, float]
    comm: float = 0.0
    meet: str = "spin"
    memory: tuple[float, float] = (0.4, 0.93)
    jitter: float = 0.006
    hot: bool = False
    most_gpus: int = 64
    views: tuple[str, ...] = VIEWS


class Insert(NamedTuple):
    """What is added to the steps of a recipe: ``seconds`` fit [GPU, step], ``at`` the "begin", "middle" or "end"."""

    phase: Phase
    seconds: Floats | float
    at: str = "begin"
    lost: bool = True


@dataclass
class Draft:
    """A job in the making. ``planted`` gets a set of codes for each cause, ``allowed`` further ones that are true;
    ``bound_to``: the cores that each rank was given, where its kind says so; ``fills_node``: it says that ranks have all
    the node's cores among them."""

    rng: np.random.Generator
    view: str
    model: GpuModel
    node_of: Ints
    interval: float
    seconds: float
    blocks: list[Block] = field(default_factory=list)
    planted: list[frozenset[str]] = field(default_factory=list)
    allowed: set[str] = field(default_factory=set)
    memory: Floats = field(default_factory=lambda: np.zeros(0))
    models: list[GpuModel] = field(default_factory=list)
    hotter: Floats = field(default_factory=lambda: np.zeros(0))
    gaps: list[tuple[int, float, float]] = field(default_factory=list)
    events: list[tuple[float, str, str, int]] = field(default_factory=list)
    knows_cost: bool = True
    costs_time: bool = True
    extra_leaf: str = ""
    bound_to: float | None = None
    fills_node: bool = False
    exit: tuple[str, int] = ("completed", 0)

    def __post_init__(self) -> None:
        """Fill what is per GPU."""
        self.memory = np.full(self.n_gpus, 0.6)
        self.models = [self.model] * self.n_gpus
        self.hotter = np.zeros(self.n_gpus)

    @property
    def n_gpus(self) -> int:
        """The number of GPUs."""
        return len(self.node_of)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.node_of.max()) + 1

    @property
    def knows_host(self) -> bool:
        """Tell whether the nodes are watched as well: an exporter's file has GPUs alone."""
        return self.view != "imported"

    @property
    def counts_kernels(self) -> bool:
        """Tell whether the view has profiling counters of the SMs."""
        return self.view in ("full", "gpm")

    def uniform(self, low: float, high: float) -> float:
        """Draw a number."""
        return float(self.rng.uniform(low, high))

    def log_uniform(self, low: float, high: float) -> float:
        """Draw a number whose logarithm is uniform."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def share(self, low: float = 0.065, high: float = 0.6) -> float:
        """Draw how much of the GPU time the planted cause is to cost."""
        return self.log_uniform(low, high)

    def gpu(self) -> int:
        """Draw a GPU."""
        return int(self.rng.integers(self.n_gpus))

    def resolves(self, seconds: float, with_host: bool = True) -> bool:
        """Tell whether samples (and rows of the nodes, one a second) show a wait of this length by itself."""
        return seconds >= 2.5 * max(self.interval, 1.0 if with_host else 0.0)

    def column(self, which: Sequence[int] | Ints, value: float, elsewhere: float = 0.0) -> Floats:
        """Return float64[GPU, 1] with ``value`` for some GPUs."""
        found = np.full((self.n_gpus, 1), elsewhere)
        found[np.asarray(which, np.int64)] = value
        return found

    def plant(self, *codes: str | frozenset[str]) -> None:
        """Say by which codes a cause is named rightly."""
        found: set[str] = set()
        for code in codes:
            found |= {code} if isinstance(code, str) else code
        self.planted.append(frozenset(found))

    def start(self, seconds: float | None = None, absent: Sequence[int] | Ints = ()) -> None:
        """Add an ordinary start: imports, then the state is loaded. At most 1.5 % of the job, or as long as given. GPUs that
        are ``absent`` are not touched yet."""
        length = self.uniform(0.002, 0.015) * self.seconds if seconds is None else seconds
        here = self.column(absent, 0.0, 1.0)
        block = Block(self.n_gpus, 1)
        block.do(BEFORE, 0.6 * length * here)
        block.do(LOADING, 0.4 * length * here)
        block.do(BEFORE._replace(cores=0.0), length * (1 - here))
        self.blocks.append(block)

    def finish(self, seconds: float | None = None) -> None:
        """Add an ordinary end, at most 1 % of the job, or as long as given."""
        block = Block(self.n_gpus, 1)
        block.do(AFTER, self.uniform(0.001, 0.01) * self.seconds if seconds is None else seconds)
        self.blocks.append(block)

    def step_seconds(self, recipe: Recipe, n_rows: int = 4) -> float:
        """Draw the length of a step, not so short that the schedule gets too long."""
        shortest = self.seconds * self.n_gpus * (len(recipe.parts) + n_rows) / MOST_SEGMENTS
        return max(self.log_uniform(*recipe.step), shortest)

    def transfer(self, scale: float = 1.0) -> Phase:
        """Return a collective that moves data: as fast as the slowest link on its way, by a few thread blocks."""
        model, across = self.model, self.n_nodes > 1
        per_node = self.n_gpus // self.n_nodes
        rate = scale * (min(model.nic, model.nvlink or model.pcie) if across else model.nvlink or model.pcie)
        rate *= 0.75
        fabric = rate if across else 0.0
        over_links = rate if model.nvlink and per_node > 1 else 0.0
        over_pcie = 0.95 * rate if not model.nvlink or across else 0.0
        return Phase("communication.transferring", 0.995, sm=0.17, occupancy=0.05, dram=min(0.3, 0.04 + rate / (9e3 * GB)),
                     integer=0.02, fp32=0.004, power=0.3, nvlink=over_links, pcie_rx=over_pcie, pcie_tx=over_pcie,
                     fabric_rx=fabric, fabric_tx=fabric, cores=1.05)  # fmt: skip

    def spin(self) -> Phase:
        """Return a collective that waits for a rank: its thread blocks poll a flag."""
        return Phase("communication.waiting", 0.998, sm=0.15, occupancy=0.045, dram=0.004, integer=0.02, power=0.24,
                     cores=1.05)  # fmt: skip

    def waiting(self, recipe: Recipe) -> Phase:
        """Return how a recipe's GPUs wait for each other."""
        return HELD_UP if recipe.meet == "block" else self.spin()

    def run(
        self,
        recipe: Recipe,
        inserts: Sequence[Insert] = (),
        step: float | None = None,
        seconds: float | None = None,
        load: Floats | float = 1.0,
        clock: Floats | float = 1.0,
        reasons: int = 0,
        comm: float | None = None,
        comm_phase: Phase | None = None,
        comm_lost: bool = False,
        waits_lost: bool = False,
        groups: Ints | None = None,
    ) -> Block:
        """Add steps of a recipe. ``load`` and ``clock`` fit [GPU, step]: how much a GPU has to do, and its clock as a share
        of the usual one, for ``reasons`` (bits) where it is lower; ``comm``: in place of the recipe's share."""
        rng = self.rng
        recipe = recipe._replace(parts=tuple((self._suited(phase), share) for phase, share in recipe.parts))
        step = self.step_seconds(recipe) if step is None else step
        n_steps = self.n_steps(step) if seconds is None else max(1, round(seconds / step))
        block = Block(self.n_gpus, n_steps)
        usual = self.usual_clock(recipe)
        slower = np.broadcast_to(clock, block.shape)
        block.clock = np.clip(usual * slower * (1 + rng.normal(0, 0.002, block.shape)), 0.05, 1.0)
        block.reasons = np.where(slower < 0.995, reasons, POWER_CAP if recipe.hot else 0).astype(np.int64)
        comm = recipe.comm if comm is None else comm
        jitter = np.exp(rng.normal(0, recipe.jitter, block.shape))
        hiccups = rng.random(block.shape) < 0.004 * min(1.0, 6 / self.n_gpus)  # the operating system, now and then
        jitter *= np.where(hiccups, rng.uniform(1, 1.25, block.shape), 1.0)
        work = step * (1 - recipe.comm) * jitter * load / slower
        for insert in (each for each in inserts if each.at == "begin"):
            block.do(insert.phase, insert.seconds, insert.lost)
        for number, (phase, share) in enumerate(recipe.parts):
            block.do(phase, work * share)
            if number == (len(recipe.parts) - 1) // 2:
                for insert in (each for each in inserts if each.at == "middle"):
                    block.do(insert.phase, insert.seconds, insert.lost)
        if recipe.meet and self.n_gpus > 1:
            block.meet(self.waiting(recipe), groups=groups, lost=waits_lost)
            if comm:
                block.do(comm_phase or self.transfer(), step * comm, comm_lost)
        for insert in (each for each in inserts if each.at == "end"):
            block.do(insert.phase, insert.seconds, insert.lost)
        self.blocks.append(block)
        low, high = recipe.memory
        self.memory = np.clip(self.uniform(low, high) + rng.normal(0, 0.008, self.n_gpus), 0.02, 0.955)
        return block

    def _suited(self, phase: Phase) -> Phase:
        """Return the phase as this model runs it: where FP64 is narrow, simulations compute in FP32, and nobody runs DGEMMs.
        Raises UnsuitableError."""
        if self.model.has_fp64:
            return phase
        if phase.dfma:
            raise UnsuitableError
        leaf = "working.other" if phase.leaf == "working.fp64" else phase.leaf
        return phase._replace(fp64=0.0, fp32=phase.fp32 + phase.fp64, leaf=leaf)

    def usual_clock(self, recipe: Recipe) -> Floats:
        """Draw the clock of each GPU without a fault, float64[GPU, 1]: the power limit holds a hot program below 1."""
        common = self.uniform(0.84, 0.96) if recipe.hot else self.uniform(0.988, 1.0)
        each = self.rng.normal(0, 0.008 if recipe.hot else 0.001, (self.n_gpus, 1))
        return np.clip(common + each, 0.5, 1.0)

    def n_steps(self, step: float) -> int:
        """The number of steps of a run as long as the job."""
        return max(1, round(self.seconds / step))

    def now_and_then(self, step: float, seconds: float, period: float, spread: float = 0.0) -> Floats:
        """Return float64[1, step] with a wait of ``seconds`` about every ``period`` seconds: in a rhythm, or with ``spread``
        1 at random."""
        n_steps = self.n_steps(step)
        every = max(1.0, period / step)
        found = np.zeros((1, n_steps))
        at = self.uniform(0.3, 1.0) * every
        while at < n_steps:
            found[0, int(at)] = seconds * np.exp(self.rng.normal(0, 0.08 + 0.5 * spread))
            at += every * (1 - spread + spread * self.rng.exponential())
        return found


def draw_machine(
    rng: np.random.Generator, view: str, gpus: tuple[int, int], nodes: tuple[int, int], model: GpuModel | None = None
) -> Draft:
    """Draw the GPUs (at least and at most so many, on so many nodes), how often they are sampled, and for how long."""
    chosen = model or MODELS[view][int(rng.integers(len(MODELS[view])))]
    fitting = [
        (n_nodes, per_node)
        for n_nodes in (1, 2, 4, 8, 16)
        for per_node in (1, 2, 4, 8)
        if per_node <= chosen.per_node
        and gpus[0] <= n_nodes * per_node <= min(64, gpus[1])
        and nodes[0] <= n_nodes <= nodes[1]
        and (n_nodes == 1 or per_node >= min(4, chosen.per_node))
    ]
    n_nodes, per_node = fitting[int(rng.integers(len(fitting)))]
    n_gpus = n_nodes * per_node
    longest = LONGEST if view == "imported" else min(LONGEST, MOST_HOST_ROWS / (n_nodes + 0.5 * n_gpus))
    intervals = [each for each in INTERVALS[view] if 45 * each <= longest]
    interval = float(rng.choice(intervals or [min(INTERVALS[view])]))
    seconds = interval * float(np.exp(rng.uniform(np.log(80), np.log(4000))))
    most = min(longest, MOST_ROWS * interval / n_gpus)
    return Draft(
        rng, view, chosen, np.repeat(np.arange(n_nodes), per_node), interval, max(min(seconds, most), SHORTEST)
    )
