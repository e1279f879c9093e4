"""What a GPU and its process do in a phase of a step, and how long they have done it by any time.

A timeline is a sequence of laps, each an instance of one of a few blocks: in a block every rank goes through phases of its
own, all of which end together. Time in each kind of phase can be told exactly for any window, without an event a kernel.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Kind(NamedTuple):
    """What goes on in a phase: shares 0-1 of cycles, of a link's peak and of the highest clock; the host's part for one
    rank in cores and bytes/s. ``engine`` is the share of time in which a kernel runs, ``fabric`` the bytes/s over the node's
    adapters, which no network device counts."""

    engine: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dfma: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    integer: float = 0.0
    dram: float = 0.0
    host_tx: float = 0.0
    host_rx: float = 0.0
    nvlink: float = 0.0
    fabric: float = 0.0
    """Share of the GPU's part of the adapters; it passes the GPU's PCIe link as well."""
    clock: float = 1.0
    reasons: int = 0
    cores: float = 1.0
    read: float = 0.0
    write: float = 0.0
    net_rx: float = 0.0
    net_tx: float = 0.0

    @property
    def load(self) -> float:
        """Share of the power between idle and the limit: what switches costs, less at lower clocks; all of it where the
        limit holds the clocks down."""
        if self.reasons & 4:
            return 0.985
        arithmetic = 0.6 * self.tensor + 0.55 * self.fp64 + 0.45 * self.fp32 + 0.3 * self.fp16 + 0.15 * self.integer
        moving = 0.3 * self.dram + 0.05 * self.nvlink + 0.03 * max(self.host_rx, self.host_tx)
        return min((0.1 * self.engine + 0.18 * self.sm + arithmetic + moving) * self.clock**2, 1.0)

    @property
    def copying(self) -> float:
        """Share of time in which device memory is read or written at all, as NVML counts: more than the bandwidth used."""
        return float(min(1.3 * self.dram, 1.0)) if self.dram < 0.75 else 1.0


VALUES: tuple[str, ...] = (*Kind._fields, "load", "copying")


def values(kinds: tuple[Kind, ...]) -> Floats:
    """[kinds, VALUES]."""
    return np.array([[getattr(kind, name) for name in VALUES] for kind in kinds], np.float64)


class Timeline(NamedTuple):
    """``seconds`` and ``kind`` [blocks, ranks, phases]: of every block each rank's phases, whose sums are the same for all
    ranks; ``laps`` [n] which block each is, and ``stretch`` [n] by how much longer it takes; ``step`` [n] whether it is a
    step of the job."""

    kinds: tuple[Kind, ...]
    seconds: Floats
    kind: Ints
    laps: Ints
    stretch: Floats
    step: NDArray[np.bool_]

    @property
    def lengths(self) -> Floats:
        """Seconds of each lap."""
        return np.asarray(self.seconds[:, 0].sum(axis=1)[self.laps] * self.stretch, np.float64)

    @property
    def duration(self) -> float:
        """Seconds."""
        return float(self.lengths.sum())

    def spent(self, times: Floats) -> Floats:
        """Seconds in each kind from the start to ``times`` [t]: [t, ranks, kinds]. Beyond an end nothing adds up."""
        n_blocks, n_ranks, n_phases = self.seconds.shape
        starts = np.concatenate(([0.0], np.cumsum(self.lengths)))
        times = np.clip(times, 0.0, starts[-1])
        at = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, len(self.laps) - 1)
        whole = np.zeros((len(times), n_blocks))
        for block in np.unique(self.laps):
            whole[:, block] = np.concatenate(([0.0], np.cumsum(np.where(self.laps == block, self.stretch, 0.0))))[at]
        each = np.zeros((n_blocks, n_ranks, len(self.kinds)))
        b, r = np.indices((n_blocks, n_ranks))
        for phase in range(n_phases):
            each[b, r, self.kind[:, :, phase]] += self.seconds[:, :, phase]
        found = (whole @ each.reshape(n_blocks, -1)).reshape(len(times), n_ranks, len(self.kinds))
        block, left = self.laps[at], ((times - starts[at]) / self.stretch[at])[:, None]
        t, r = np.indices((len(times), n_ranks))
        for phase in range(n_phases):
            length = self.seconds[block, :, phase]
            found[t, r, self.kind[block, :, phase]] += np.clip(left, 0.0, length) * self.stretch[at][:, None]
            left = left - length
        return np.asarray(found, np.float64)

    def now(self, times: Floats) -> Ints:
        """The kind that each rank is in at ``times`` [t]: [t, ranks]."""
        starts = np.concatenate(([0.0], np.cumsum(self.lengths)))
        at = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, len(self.laps) - 1)
        block, left = self.laps[at], ((times - starts[at]) / self.stretch[at])[:, None, None]
        over = np.cumsum(self.seconds[block], axis=2) <= left
        phase = np.minimum(over.sum(axis=2), self.seconds.shape[2] - 1)
        last = np.take_along_axis(self.kind[block], phase[:, :, None], axis=2)[:, :, 0]
        return np.asarray(last, np.int64)

    def shares(self, ends: Floats, window: float) -> Floats:
        """Share of the ``window`` seconds up to ``ends`` [t] in each kind: [t, ranks, kinds]. What of it lies outside the
        job counts as nothing."""
        return np.asarray((self.spent(ends) - self.spent(ends - window)) / window, np.float64)
