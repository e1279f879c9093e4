"""A job while it is drawn: its machine, its recorder, its timeline, and what is true of it."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from tests.fakes.unseen_jobs.machines import Machine
from tests.fakes.unseen_jobs.timeline import Do, Meet, Timeline
from tests.fakes.unseen_jobs.work import Catalogue, Work, idle, mix

SHORTEST, LONGEST = 180.0, 10_800.0
MOST_ROWS = 240_000
MOST_PIECES = 1_600_000
INTERVALS = (0.1, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 5.0, 10.0, 30.0)


class UnsuitableError(Exception):
    """This draw can not hold the cause: draw again."""


class Draft:
    """What kinds and programs fill in.

    ``length``: roughly how long the job is to be, s. ``planted``, ``allowed``: as of UnseenJob. ``cost_leaves``: the leaves
    that the first cause costs; ``costs_time`` is False for remarks, ``knows_cost`` where nobody can tell the hours.
    ``set_up_s``: when processes have their context and memory; ``has_context``, ``memory`` (share of the GPU's), ``heat``
    (°C above the room at full power) [GPU]. ``gaps``: GPU, begin, end of what was not recorded. ``events``: time, kind,
    message, GPU. ``process_of`` [GPU]: the rank of the process that uses it. ``all_cores``: cores that a
    process takes with all of its threads; ``given_cores``: those that each rank was given, where the kind says so, and
    ``takes_all_cores`` where it says that the ranks have the node's cores among them.
    """

    def __init__(self, rng: np.random.Generator, view: str, machine: Machine) -> None:
        self.rng, self.view, self.machine = rng, view, machine
        self.n = machine.n_gpus
        self.timeline = Timeline(self.n)
        self.catalogue = Catalogue(rng, machine.link_rate)
        self.length = float(np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST))))
        self.interval = float(rng.choice(INTERVALS))
        self.repeats = 1
        if view == "imported":
            self.interval = float(rng.choice((15.0, 30.0)))
            self.repeats = 2 if self.interval == 15.0 and rng.random() < 0.4 else 1
            self.length = max(self.length, self.uniform(100, 160) * self.interval)
        self.length = max(self.length, 70 * self.interval)
        while self.n * self.length / self.interval > MOST_ROWS:
            if self.interval < 1.0:
                self.interval = 1.0
            else:
                self.length *= 0.7
        self.planted: list[frozenset[str]] = []
        self.allowed: set[str] = set()
        self.cost_leaves: tuple[str, ...] = ()
        self.costs_time = self.knows_cost = True
        self.set_up_s = 0.0
        self.has_context: Flags = np.ones(self.n, bool)
        self.memory: Floats = np.full(self.n, self.uniform(0.55, 0.88)) + rng.uniform(-0.01, 0.01, self.n)
        self.memory_growth = 0.0
        self.heat: Floats = rng.uniform(28, 40) + rng.normal(0, 2.0, self.n)
        self.power_limit: float | None = None
        self.gaps: list[tuple[int, float, float]] = []
        self.events: list[tuple[float, str, str, int | None]] = []
        self.exit: tuple[str, int] = ("completed", 0)
        self.process_of: Ints = np.arange(self.n)
        self.host_memory = self.uniform(0.05, 0.3)
        self.n_workers = int(rng.integers(0, 9))
        self.all_cores = max(1.0, (machine.cores - 2) / machine.per_node)
        self.given_cores: float | None = None
        self.takes_all_cores = False

    def uniform(self, low: float, high: float) -> float:
        """Draw a number."""
        return float(self.rng.uniform(low, high))

    def log_uniform(self, low: float, high: float) -> float:
        """Draw a number whose logarithm is even."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def chance(self, probability: float) -> bool:
        """Tell whether it happens."""
        return bool(self.rng.random() < probability)

    @property
    def knows_host(self) -> bool:
        """Return whether the recording has rows of the nodes."""
        return self.view != "imported"

    def plant(self, *codes: str) -> None:
        """Add a cause, with the codes that name it."""
        self.planted.append(frozenset(codes))

    def need(self, holds: bool) -> None:
        """Raise UnsuitableError unless it holds."""
        if not holds:
            raise UnsuitableError

    def sample_at_most(self, seconds: float) -> None:
        """Sample at least this often, to see what lasts so long; shorter jobs keep files small."""
        if self.interval > seconds and self.view != "imported":
            self.interval = max(0.1, float(np.floor(seconds * 10) / 10))
            self.length = min(self.length, MOST_ROWS / self.n * self.interval)
            self.need(self.length >= SHORTEST)
        self.need(self.interval <= max(seconds, 0.1))

    def n_steps(self, step_s: float, pieces: int = 8) -> int:
        """Return how many steps fill the rest of the length; a job whose pieces are too many is cut short."""
        rest = self.length - (float(self.timeline.lengths().max()) if self.timeline.blocks else 0.0)
        most = max(12, MOST_PIECES // (pieces * self.n))
        found = int(min(max(rest / step_s, 12), most))
        self.need(found * step_s >= 0.8 * SHORTEST)
        return found

    def jitter(self, n_steps: int, sigma: float) -> Floats:
        """Draw how much longer or shorter each rank's work is in each step [steps, ranks]."""
        return np.exp(self.rng.normal(0.0, sigma, (n_steps, self.n)))

    def step_lengths(self, n_steps: int, sigma: float) -> Floats:
        """Draw how much longer or shorter steps are for all ranks together [steps, 1]."""
        return np.exp(self.rng.normal(0.0, sigma, (n_steps, 1)))

    def start(self, seconds: float | None = None) -> None:
        """Add the start-up: imports, reading the input, setting up the GPUs; nothing runs on them yet."""
        chosen = seconds or min(self.log_uniform(4, 90), 0.12 * self.length)
        imports = idle(
            "startup", cores=self.uniform(0.8, 1.3), net_rx=self.uniform(1e6, 4e7), read=self.uniform(0, 3e7)
        )
        loading = idle(
            "startup", cores=self.uniform(1.0, 4.0), net_rx=self.uniform(1e8, 1e9), to_gpu=self.uniform(0, 4e8)
        )
        self.timeline.all_do(imports, 0.6 * chosen)
        self.timeline.all_do(loading, 0.4 * chosen)
        self.set_up_s = 0.75 * chosen

    def finish(self, seconds: float | None = None) -> None:
        """Add what a program does after its last kernel: results are written, processes go."""
        chosen = seconds if seconds is not None else min(self.log_uniform(0.5, 12), 0.03 * self.length)
        self.timeline.all_do(idle("end", cores=1.0, net_tx=self.uniform(1e7, 5e8), write=self.uniform(0, 1e8)), chosen)

    def steps(
        self, operations: Sequence[Do | Meet], n_steps: int, clock: Floats | float = 1.0, reason: int = 0
    ) -> None:
        """Add steps to the timeline."""
        self.timeline.steps(n_steps, operations, clock, reason)

    def gappy(self, work: Work, between: float) -> Work:
        """Return work with this share of its time lost between kernels, in gaps of micro- to milliseconds."""
        return mix((work, 1 - between), (idle("idle.between_kernels"), between))
