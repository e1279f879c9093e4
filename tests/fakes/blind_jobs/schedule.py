"""The continuous time of a job: phases of every GPU one after the other, where GPUs meet, and the books of it."""

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.blind_jobs.phases import LEAVES, Phase


class Block:
    """A number of steps that all GPUs make, each a row of phases. All GPUs begin a block together, and a step together where
    the one before ended with ``meet``."""

    def __init__(self, n_gpus: int, n_steps: int) -> None:
        """Begin without phases."""
        self.shape = (n_gpus, n_steps)
        self.rows: list[tuple[Phase, Floats, bool]] = []
        self.clock: Floats = np.ones(self.shape)
        self.reasons: Ints = np.zeros(self.shape, np.int64)

    def do(self, phase: Phase, seconds: Floats | float, lost: bool = False) -> None:
        """Add a phase to every step: seconds as a number or an array that fits [GPU, step]; ``lost``: the planted cause
        costs this time."""
        self.rows.append((phase, np.broadcast_to(np.maximum(seconds, 0.0), self.shape), lost))

    def meet(self, phase: Phase, groups: Ints | None = None, lost: bool = False) -> None:
        """Let the GPUs of each group (all: one group) wait in ``phase`` until the last has done what was added since row
        number ``since``."""
        spent = np.add.reduce([seconds for _, seconds, _ in self.rows])
        group = np.zeros(self.shape[0], np.int64) if groups is None else groups
        latest = np.zeros((int(group.max()) + 1, self.shape[1]))
        np.maximum.at(latest, group, spent)
        self.rows.append((phase, latest[group] - spent, lost))


class Timeline:
    """Blocks laid out: float64[GPU, segment + 1] ``edges`` in seconds from the job's begin, int64[segment] ``phase_of``
    (index of ``phases``), float64[GPU, segment] ``clock`` as a share of the highest, int64[GPU, segment] ``reasons``."""

    def __init__(self, blocks: list[Block]) -> None:
        """Lay the blocks out; GPUs whose time is shorter in the end are taken to end together with the others."""
        self.phases: list[Phase] = []
        index: dict[Phase, int] = {}
        seconds, phase_of, clock, reasons = [], [], [], []
        lost = 0.0
        n_gpus = blocks[0].shape[0]
        for block in blocks:
            numbers = [index.setdefault(phase, len(index)) for phase, _, _ in block.rows]
            n_steps, width = block.shape[1], len(numbers)
            seconds.append(np.stack([row[1] for row in block.rows], axis=2).reshape(n_gpus, n_steps * width))
            phase_of.append(np.tile(numbers, n_steps))
            clock.append(np.repeat(block.clock, width, axis=1))
            reasons.append(np.repeat(block.reasons, width, axis=1))
            lost += sum(float(row[1].sum()) for row in block.rows if row[2])
        self.phases = list(index)
        durations = np.concatenate(seconds, axis=1)
        totals = durations.sum(axis=1, keepdims=True)
        self.edges: Floats = np.zeros((n_gpus, durations.shape[1] + 1))
        np.cumsum(durations * (totals.max() / totals), axis=1, out=self.edges[:, 1:])
        self.phase_of: Ints = np.concatenate(phase_of)
        self.clock: Floats = np.concatenate(clock, axis=1)
        self.reasons: Ints = np.concatenate(reasons, axis=1)
        self.lost_seconds = lost
        self.n_gpus = n_gpus
        self.seconds = float(totals.max())
        self.is_work = np.array([phase.is_work for phase in self.phases])
        self._engine = self.figures("engine")

    def figures(self, name: str) -> Floats:
        """A figure of every phase."""
        return np.array([getattr(phase, name) for phase in self.phases], np.float64)

    def segment_at(self, gpu: int, times: Floats) -> Ints:
        """The segment that a GPU is in at these times."""
        found = np.searchsorted(self.edges[gpu], times, "right") - 1
        return np.clip(found, 0, len(self.phase_of) - 1).astype(np.int64)

    def spent(self, gpu: int, *moments: Floats) -> list[Floats]:
        """For each array of moments, the seconds [moment, phase] that the GPU has spent in each phase until then."""
        edges = self.edges[gpu]
        until = np.zeros((len(edges), len(self.phases)))
        until[np.arange(1, len(edges)), self.phase_of] = np.diff(edges)
        np.cumsum(until, axis=0, out=until)
        found = []
        for times in moments:
            at = self.segment_at(gpu, times)
            here = until[at]
            here[np.arange(len(at)), self.phase_of[at]] += np.clip(times, 0, self.seconds) - edges[at]
            found.append(here)
        return found

    def seconds_by_leaf(self, gaps: list[tuple[int, float, float]]) -> Floats:
        """The books: float64[GPU, leaf] seconds. ``gaps``: (GPU, begin, end) of time without samples. While a GPU
        computes at a lower clock than its highest, the part 1 - clock of the time counts as slowed."""
        books = np.zeros((self.n_gpus, len(LEAVES)))
        leaf = np.array([LEAVES.index(phase.leaf) for phase in self.phases])
        gap = np.array([LEAVES.index(phase.gap) for phase in self.phases])
        inside = np.where(self._engine > 0, self._engine, 1.0)
        for gpu in range(self.n_gpus):
            edges = self.edges[gpu]
            durations = np.diff(edges)
            for which, begin, end in gaps:
                if which == gpu:
                    hidden = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0, None)
                    durations = durations - hidden
                    books[gpu, 0] += hidden.sum()
            slowed = np.where(self.is_work[self.phase_of], 1 - self.clock[gpu], 0.0)
            active = durations * inside[self.phase_of]
            np.add.at(books[gpu], leaf[self.phase_of], active * (1 - slowed))
            books[gpu, LEAVES.index("working.slowed")] += float((active * slowed).sum())
            np.add.at(books[gpu], gap[self.phase_of], durations - active)
        return books
