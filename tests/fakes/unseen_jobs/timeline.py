"""Time as ranks spend it: pieces of work follow each other without a gap, and who needs another's result waits for it.

Steps are simulated as arrays over steps and ranks. A step's operations come in program order; a collective begins when the
last of its group arrives, and the wait of everybody else is a piece of its own. Books and counters are integrals of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.unseen_jobs.work import LEAVES, RATES, Work

_WORKING = [at for at, leaf in enumerate(LEAVES) if leaf.startswith("working.")]
_SLOWED = LEAVES.index("working.slowed")
_POWER = RATES.index("power")


@dataclass(frozen=True)
class Do:
    """An operation of every rank: ``seconds`` broadcasts to [steps, ranks]."""

    work: Work
    seconds: Floats | float


@dataclass(frozen=True)
class Meet:
    """A collective: whoever arrives early spends the time as ``wait``, then all spend ``seconds`` (as of Do) on ``work``.
    ``groups`` [ranks]: who meets whom; None: all ranks."""

    wait: Work
    work: Work | None = None
    seconds: Floats | float = 0.0
    groups: Ints | None = None


@dataclass(frozen=True)
class Block:
    """Pieces of work of all ranks: kind of piece k is ``works[k]`` in each of the steps, and lasts ``seconds``
    [steps, pieces, ranks]. ``clock`` [steps, ranks]: SM clock as a share of the model's; ``reason``: why it is lower."""

    works: tuple[int, ...]
    seconds: Floats
    clock: Floats
    reason: int


class Timeline:
    """What each of ``n_ranks`` does, in the order in which it was added."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.works: list[Work] = []
        self.blocks: list[Block] = []
        self._starts: list[Floats] = []

    def steps(
        self, n_steps: int, operations: Sequence[Do | Meet], clock: Floats | float = 1.0, reason: int = 0
    ) -> None:
        """Add steps whose last operation is, or ends as, a meeting of all: the wait of the last Meet fills up."""
        shape = (n_steps, self.n_ranks)
        at, works, pieces = np.zeros(shape), list[Work](), list[Floats]()
        for operation in operations:
            if isinstance(operation, Meet):
                late = _latest(at, operation.groups)
                works.append(operation.wait)
                pieces.append(late - at)
                at = late
            if operation.work is not None:
                seconds = np.broadcast_to(np.asarray(operation.seconds, float), shape)
                works.append(operation.work)
                pieces.append(seconds)
                at = at + seconds
        waits = [operation.wait for operation in operations if isinstance(operation, Meet)]
        if waits and self.n_ranks > 1:
            works.append(waits[-1])
            pieces.append(_latest(at, None) - at)
        self.add(works, np.stack(pieces, axis=1), clock, reason)

    def apart(
        self,
        works: Sequence[Work],
        seconds: Floats,
        length: float,
        rest: Work,
    ) -> None:
        """Add ``length`` s in which no rank waits for another: pieces of ``seconds`` [steps, works, ranks], cut off there;
        who has fewer does ``rest`` to the end."""
        n_steps, n_works, n_ranks = seconds.shape
        ends = np.minimum(np.cumsum(seconds.reshape(-1, n_ranks), axis=0), length)
        cut = np.diff(ends, axis=0, prepend=0.0).reshape(n_steps, n_works, n_ranks)
        self.add(works, cut, 1.0, 0)
        self.add([rest], (length - ends[-1])[None, None, :])

    def add(self, works: Sequence[Work], seconds: Floats, clock: Floats | float = 1.0, reason: int = 0) -> None:
        """Add pieces as they are: ``seconds`` [steps, works, ranks]."""
        numbers = []
        for work in works:
            same = next((at for at, known in enumerate(self.works) if known is work), None)
            if same is None:
                self.works.append(work)
            numbers.append(len(self.works) - 1 if same is None else same)
        shape = (seconds.shape[0], self.n_ranks)
        clocks = np.broadcast_to(np.asarray(clock, float), shape)
        self.blocks.append(Block(tuple(numbers), np.maximum(seconds, 0.0), clocks, reason))

    def all_do(self, work: Work, seconds: Floats | float) -> None:
        """Add one piece of all ranks; ``seconds`` may differ by rank."""
        self.add([work], np.broadcast_to(np.asarray(seconds, float), (self.n_ranks,))[None, None, :])

    def lengths(self) -> Floats:
        """Return the seconds that each rank's pieces fill so far [ranks]."""
        lengths: Floats = np.stack([block.seconds.sum(axis=(0, 1)) for block in self.blocks]).sum(axis=0)
        return lengths

    def even_out(self, rest: Work) -> None:
        """Let ranks that are ahead of the last one do ``rest`` until it is there as well."""
        lengths = self.lengths()
        self.all_do(rest, lengths.max() - lengths)

    @property
    def seconds(self) -> float:
        """Return the length of the whole."""
        return float(self.lengths().max())

    def books(self) -> Floats:
        """Return the seconds by rank and leaf [ranks, leaves]; the part of work that low clocks cost is slowed down."""
        table = self._leaf_table()
        found = np.zeros((self.n_ranks, len(LEAVES)))
        for block in self.blocks:
            for place, number in enumerate(block.works):
                found += block.seconds[:, place].sum(axis=0)[:, None] * table[number]
                lost = (block.seconds[:, place] * (1.0 - block.clock)).sum(axis=0)
                working = table[number][_WORKING]
                found[:, _WORKING] -= lost[:, None] * working
                found[:, _SLOWED] += lost * working.sum()
        return found

    def books_between(self, rank: int, begin: float, end: float) -> Floats:
        """Return one rank's seconds by leaf [leaves] in a part of the time."""
        pieces = self.pieces_of(rank)
        inside = np.diff(np.clip(pieces.bounds, begin, end))
        table = self._leaf_table()[pieces.works]
        lost = (1.0 - pieces.clock)[:, None] * table[:, _WORKING]
        table[:, _WORKING] -= lost
        table[:, _SLOWED] += lost.sum(axis=1)
        return inside @ table

    def pieces_of(self, rank: int) -> "Pieces":
        """Return one rank's pieces in the order of time."""
        works = [np.tile(np.array(block.works), len(block.seconds)) for block in self.blocks]
        seconds = [block.seconds[:, :, rank].ravel() for block in self.blocks]
        clocks = [np.repeat(block.clock[:, rank], len(block.works)) for block in self.blocks]
        reasons = [np.full(len(each), block.reason) for each, block in zip(seconds, self.blocks, strict=True)]
        whole = np.concatenate(seconds)
        kept = whole > 0
        bounds = np.concatenate([[0.0], np.cumsum(whole[kept])])
        return Pieces(
            bounds,
            np.concatenate(works)[kept],
            np.concatenate(clocks)[kept],
            np.concatenate(reasons)[kept],
            self.rate_table(),
        )

    def rate_table(self) -> Floats:
        """Return the rates of all kinds of work [works, rates]."""
        return np.array([[work.rates.get(name, 0.0) for name in RATES] for work in self.works])

    def _leaf_table(self) -> Floats:
        return np.array([[work.leaves.get(name, 0.0) for name in LEAVES] for work in self.works])


class Pieces:
    """One rank's pieces: ``bounds`` [n + 1] s, ``works``, ``clock``, ``reason`` [n], and the integrals of all rates."""

    def __init__(self, bounds: Floats, works: Ints, clock: Floats, reason: Ints, table: Floats) -> None:
        self.bounds, self.works, self.clock, self.reason = bounds, works, clock, reason
        self._rates = table[works]
        held = (reason & 4) > 0
        self._rates[:, _POWER] *= np.where(held, 1.0, clock**1.5)  # at the power limit lower clocks draw no less
        self._integral = np.zeros((len(bounds), len(RATES)))
        np.cumsum(np.diff(bounds)[:, None] * self._rates, axis=0, out=self._integral[1:])

    def place(self, times: Floats) -> Ints:
        """Return the piece that runs at each of the times."""
        return np.clip(np.searchsorted(self.bounds, times, side="right") - 1, 0, len(self.works) - 1)

    def until(self, times: Floats, rates: slice | Ints = slice(None)) -> Floats:
        """Return the integrals of rates up to each of the times [times, rates]; before 0 and after the end nothing runs."""
        times = np.clip(times, 0.0, self.bounds[-1])
        piece = self.place(times)
        rest = (times - self.bounds[piece])[:, None]
        return self._integral[piece][:, rates] + rest * self._rates[piece][:, rates]

    def means(self, begin: Floats, end: Floats, rates: slice | Ints = slice(None)) -> Floats:
        """Return mean rates from ``begin`` to ``end`` [times, rates]."""
        return (self.until(end, rates) - self.until(begin, rates)) / np.maximum(end - begin, 1e-9)[:, None]


def fetch_waits(load: Floats, busy: Floats, workers: int, queue: int) -> Floats:
    """Return how long each rank waits for its batch in each step [steps, ranks].

    ``load``: how long a worker takes for a batch; ``busy``: how long the rank works on it. ``workers`` of a rank fetch
    batches in turn, at most ``queue`` ahead; all ranks meet at the end of a step.
    """
    n_steps, n_ranks = load.shape
    waits, ready, taken = np.zeros_like(load), np.zeros((n_steps, n_ranks)), np.zeros((n_steps, n_ranks))
    now = np.full(n_ranks, float(load[0].max()))  # the queue fills before the first step
    for step in range(n_steps):
        free = ready[step - workers] if step >= workers else 0.0
        room = taken[step - queue] if step >= queue else 0.0
        ready[step] = np.maximum(free, room) + load[step]
        taken[step] = np.maximum(now, ready[step])
        waits[step] = taken[step] - now
        now = np.full(n_ranks, float((taken[step] + busy[step]).max()))
    return waits


def pipeline_times(forward: Floats, backward: Floats, n_batches: int, all_forward_first: bool) -> tuple[Floats, Floats]:
    """Schedule micro-batches over the stages of a pipeline.

    Args:
        forward: Seconds of one micro-batch in each stage [steps, stages]; ``backward`` alike.
        n_batches: Micro-batches of a step.
        all_forward_first: As GPipe; otherwise each stage alternates as soon as it can (1F1B).

    Returns: begins and ends of each stage's pieces in its own order, each [steps, stages, 2 n_batches].
    """
    n_steps, n_stages = forward.shape
    begins = np.zeros((n_steps, n_stages, 2 * n_batches))
    ends = np.zeros_like(begins)
    orders = []
    for stage in range(n_stages):
        ahead = n_batches if all_forward_first else min(n_stages - stage, n_batches)
        order = [(False, batch) for batch in range(ahead)]
        for batch in range(n_batches):
            order.append((True, batch))
            if ahead + batch < n_batches:
                order.append((False, ahead + batch))
        orders.append(order)
    done: dict[tuple[int, bool, int], Floats] = {}
    next_of = [0] * n_stages
    while any(place < 2 * n_batches for place in next_of):
        for stage, order in enumerate(orders):
            place = next_of[stage]
            if place == 2 * n_batches:
                continue
            is_backward, batch = order[place]
            needs = _needed(stage, n_stages, is_backward, batch)
            if needs is not None and needs not in done:
                continue
            begin = ends[:, stage, place - 1] if place else np.zeros(n_steps)
            if needs is not None:
                begin = np.maximum(begin, done[needs])
            begins[:, stage, place] = begin
            ends[:, stage, place] = begin + (backward if is_backward else forward)[:, stage]
            done[stage, is_backward, batch] = ends[:, stage, place]
            next_of[stage] += 1
    return begins, ends


def _needed(stage: int, n_stages: int, is_backward: bool, batch: int) -> tuple[int, bool, int] | None:
    """Return the piece whose result a piece needs; None for the first stage's forward."""
    if not is_backward:
        return (stage - 1, False, batch) if stage else None
    return (stage + 1, True, batch) if stage + 1 < n_stages else (stage, False, batch)


def _latest(at: Floats, groups: Ints | None) -> Floats:
    """Return for each rank when the last of its group arrives [steps, ranks]."""
    if groups is None:
        return np.broadcast_to(at.max(axis=1, keepdims=True), at.shape)
    late = np.empty_like(at)
    for group in np.unique(groups):
        members = groups == group
        late[:, members] = at[:, members].max(axis=1, keepdims=True)
    return late
