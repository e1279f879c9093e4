"""Beside the GPUs: what the nodes and the workload's own processes did."""

from gssr.model.results import Analysis, HostUse
from gssr.render.roles import Row
from gssr.render.scale import UNITS, fixed, percent
from gssr.report.options import Options
from gssr.report.page import remark


def host(analysis: Analysis, options: Options) -> list[Row]:
    """Two lines of the summary; none on a page of low verbosity that has GPUs to speak of, or without host metrics."""
    if options.verbosity == "low" and analysis.gpus:
        return []
    rows: list[Row] = []
    for label, text in host_texts(analysis):
        rows += remark(text, options.width, "plain", label=label)
    return [(), *rows] if rows else []


def host_texts(analysis: Analysis) -> list[tuple[str, str]]:
    """What is known of the nodes and of the workload, each as its label and a text."""
    use = analysis.host
    if use is None:
        return []
    return [
        (label, ", ".join(pieces)) for label, pieces in (("nodes", _nodes(use)), ("workload", _workload(use))) if pieces
    ]


def _nodes(use: HostUse) -> list[str]:
    pieces = []
    if use.cpu_utilization is not None:
        pieces.append(f"CPU {percent(use.cpu_utilization)} busy")
    if use.memory_used is not None and use.memory_total is not None:
        used, total = (fixed(value * UNITS["B"].factor, 1) for value in (use.memory_used, use.memory_total))
        pieces.append(f"memory at most {used} of {total} GiB")
    for name, first, second, words in (
        ("disk", use.read_bytes, use.write_bytes, ("read", "written")),
        ("network", use.net_rx_bytes, use.net_tx_bytes, ("in", "out")),
    ):
        if first is not None and second is not None:
            pieces.append(f"{name} {_rate(first)} {words[0]} and {_rate(second)} {words[1]}")
    return pieces


def _workload(use: HostUse) -> list[str]:
    pieces = []
    if use.workload_cpu is not None:
        pieces.append(f"{fixed(use.workload_cpu, 2)} cores busy")
    if use.workload_rss is not None:
        pieces.append(f"at most {_memory(use.workload_rss)} resident")
    if use.workload_processes is not None:
        n = int(use.workload_processes)
        pieces.append(f"in {n:,} {'process' if n == 1 else 'processes'}")
    return pieces


def _memory(size: float) -> str:
    return f"{size / (1 << 20):,.0f} MiB" if size < 10 << 30 else f"{size / (1 << 30):,.1f} GiB"


def _rate(bytes_per_second: float) -> str:
    return f"{fixed(bytes_per_second / 1e6, 1)} MB/s"
