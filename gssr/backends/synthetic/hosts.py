"""What the nodes of a synthetic job and its processes do beside the GPUs: nothing that holds these up."""

import numpy as np

from gssr.arrays import Floats
from gssr.store.format.host_rollups import HOST, WORKLOAD, UseTable

_GIB = 1 << 30


_CORES = 128


_USUAL = {
    "cpu_utilization": 9.5 / _CORES, "load1": 9.6, "memory_used": 96.0 * _GIB, "memory_total": 1024.0 * _GIB,
    "read_bytes": 24e6, "write_bytes": 1.5e6, "net_rx_bytes": 6e6, "net_tx_bytes": 6e6,
    "fabric_rx_bytes": 1.2e9, "fabric_tx_bytes": 1.2e9,
}  # fmt: skip


_OF_RANK = {"cpu": 9.2, "rss": 72.0 * _GIB, "n_processes": 17.0}


_STEADY = ("memory_total", "n_processes")


_WHOLE = ("memory_used", "memory_total", "rss", "n_processes")


_SPREAD = 0.1


def hosts(times: Floats, n_nodes: int, seed: int) -> tuple[Floats, Floats]:
    """Make rows of nodes with one rank each at ``times`` [n]. Returns the value columns of ``host_samples`` and of
    ``workload_samples``, both [n, n_nodes, columns]; NaN is no value. There must be at least one time."""
    random = np.random.default_rng((seed, int(times[0])))

    def noisy(table: UseTable, usual: dict[str, float]) -> Floats:
        """Vary the usual values of a table's columns: [n_times, n_nodes, n_columns], NaN for a column without one."""
        columns = []
        for name in table.values:
            value = usual.get(name, np.nan)
            spread = 0.0 if name in _STEADY else _SPREAD
            column = value * np.clip(random.normal(1.0, spread, (len(times), n_nodes)), 0.0, 2.0)
            columns.append(np.rint(column) if name in _WHOLE else column)
        return np.stack(columns, axis=2)

    return noisy(HOST, _USUAL), noisy(WORKLOAD, _OF_RANK)
