"""What the nodes did beside the GPUs."""

from gssr.model.results import HostUse
from gssr.store.read.recording import RunReader


def host_use(reader: RunReader, start: float | None, end: float | None) -> HostUse | None:
    """Over start <= time < end, unix s (None: open); None when nothing was recorded of the nodes and the workload."""
    nodes, ranks = reader.host_use(start, end), reader.workload_use(start, end)
    if not ranks and not any(extent.n for extent in nodes.values()):
        return None
    busy = [rank["cpu"].mean for rank in ranks]
    return HostUse(
        cpu_utilization=nodes["cpu_utilization"].mean,
        load1=nodes["load1"].mean,
        memory_used=nodes["memory_used"].greatest,
        memory_total=nodes["memory_total"].greatest,
        read_bytes=nodes["read_bytes"].mean,
        write_bytes=nodes["write_bytes"].mean,
        net_rx_bytes=nodes["net_rx_bytes"].mean,
        net_tx_bytes=nodes["net_tx_bytes"].mean,
        workload_cpu=_sum(busy),
        workload_rss=_sum([rank["rss"].greatest for rank in ranks]),
        workload_processes=_sum([rank["n_processes"].greatest for rank in ranks]),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
