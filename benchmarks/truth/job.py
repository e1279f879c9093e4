"""A job's GPUs and nodes over time, before they are read: what works fill and causes spoil."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.truth.hardware import Hardware
from benchmarks.truth.levels import Level
from benchmarks.truth.timeline import Floats, Timeline

Ints = NDArray[np.int64]

HOST_INTERVAL = 1.0
MB, GB = 1e6, 1e9


class Job:
    """Arrays over ticks and GPUs: ``activity`` [fields of Level, ticks, GPUs]; ``clock`` [ticks, GPUs], relative to the
    highest; ``bits`` [ticks, GPUs], clock event reasons beside those that power and idleness give; ``memory`` [ticks, GPUs]
    as shares of all, of which ``grown`` [ticks] is in use so far; ``absent`` [ticks, GPUs] where no row was recorded;
    ``limit`` of power (W). A tick's values are means over the interval before it.

    Of the nodes, in seconds: ``cpu`` [seconds, nodes] the share of the cores that is busy, ``disk_read``, ``disk_write``,
    ``received``, ``sent`` in bytes per second; ``cores`` [seconds, ranks] that the workload keeps busy. One rank per GPU."""

    def __init__(self, hardware: Hardware, nodes: int, per_node: int, seconds: int, interval: float, seed: int) -> None:
        self.hardware = hardware
        self.n_nodes = nodes
        self.per_node = per_node
        self.seconds = seconds
        self.interval = interval
        self.random = np.random.default_rng(seed)
        self.edges: Floats = interval * np.arange(round(seconds / interval) + 1, dtype=np.float64)
        self.host_edges: Floats = HOST_INTERVAL * np.arange(int(seconds / HOST_INTERVAL) + 1, dtype=np.float64)
        ticks, moments = len(self.edges) - 1, len(self.host_edges) - 1
        shape = ticks, self.n_gpus
        self.activity = np.zeros((len(Level._fields), *shape))
        self.clock = np.ones(shape)
        self.bits = np.zeros(shape, np.int64)
        self.memory = np.full(shape, 0.72)
        self.grown = np.ones(ticks)
        self.absent = np.zeros(shape, bool)
        self.limit = hardware.limit
        self.cpu = np.full((moments, nodes), 0.14)
        self.disk_read = np.full((moments, nodes), 30 * MB)
        self.disk_write = np.full((moments, nodes), 2 * MB)
        self.received = np.full((moments, nodes), 12 * MB)
        self.sent = np.full((moments, nodes), 8 * MB)
        self.cores = np.full((moments, self.n_gpus), 3.2)
        self.state, self.exit_code = "completed", 0

    @property
    def n_gpus(self) -> int:
        """How many GPUs, and ranks."""
        return self.n_nodes * self.per_node

    @property
    def everywhere(self) -> Ints:
        """Positions of all GPUs."""
        return np.arange(self.n_gpus)

    def gpus_of(self, nodes: Sequence[int]) -> Ints:
        """Positions of the GPUs of these nodes, numbered from 0."""
        return np.concatenate([np.arange(node * self.per_node, (node + 1) * self.per_node) for node in nodes])

    def others(self, gpus: Ints) -> Ints:
        """Positions of all other GPUs."""
        return np.setdiff1d(self.everywhere, gpus)

    def when(self, timeline: Timeline) -> Floats:
        """[ticks]: the share of each tick's interval in which ``timeline`` is on."""
        return timeline.share(self.edges)

    def when_host(self, timeline: Timeline) -> Floats:
        """[seconds]: the same for the host's samples."""
        return timeline.share(self.host_edges)

    def do(self, level: Level, share: Floats | float, gpus: Ints | None = None) -> None:
        """For ``share`` (a number, [ticks] or [ticks, GPUs]) of the time, these GPUs (None: all) do this instead."""
        own = self.everywhere if gpus is None else gpus
        weight = np.asarray(share, np.float64)
        weight = np.broadcast_to(weight[:, None] if weight.ndim == 1 else weight, (len(self.edges) - 1, len(own)))
        before = self.activity[:, :, own]
        self.activity[:, :, own] = before + weight * (np.array(level)[:, None, None] - before)

    def run_slower(self, factor: float, bits: int, during: Floats, gpus: Ints) -> None:
        """While ``during`` [ticks] is on, the clock of these GPUs is ``factor`` of the highest for the reasons ``bits``:
        cycles are as full as before, but what they do in a second is less."""
        own = np.ix_(np.arange(len(during)), gpus)
        self.clock[own] *= 1 - np.outer(during, np.full(len(gpus), 1 - factor))
        self.bits[own] |= np.where(during > 0.5, bits, 0)[:, None]
        pace = 1 - during * (1 - factor)
        for name in ("dram", "tx", "rx", "nvlink"):
            self.activity[Level._fields.index(name)][:, gpus] *= pace[:, None]
        # At a lower clock the voltage is lower, too.
        self.activity[Level._fields.index("power")][:, gpus] *= (pace**2)[:, None]

    def reach_memory(self, share: float, gpus: Ints | None = None) -> None:
        """So much of the memory these GPUs take, once they have begun."""
        self.memory[:, self.everywhere if gpus is None else gpus] = share
