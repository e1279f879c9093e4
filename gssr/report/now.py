"""What ``gssr top --once`` prints: the GPUs of a node or of many as they are at one moment, as a table, as JSON and as
CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping

from gssr.gpu_name import gpu_label
from gssr.gpu_vendors import AMD, maker_of
from gssr.metrics import BY_NAME, NAMES
from gssr.render.cells import clean, flow
from gssr.render.csv_cells import cell
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, count, fixed, number, quantity
from gssr.render.table import TableColumn, table
from gssr.store.host_states import HostStates
from gssr.store.read.newest import HOST, GpuNow, NodesNow

SCHEMA = "gssr.top/1"
METRICS = ("gpu_utilization", "sm_active", "tensor_active", "dram_active", "memory_used", "power_usage", "temperature",
           "sm_clock")  # fmt: skip
"""What the table shows, in its order; the other formats hold all metrics."""
_ABOUT = ("gpu", "node", "device_index", "uuid", "name", "memory_total", "power_limit", "time")
_OF_PROCESS = ("pid", "name", "user", "memory_used", "sm_utilization")


def document(now: NodesNow, states: HostStates | None = None) -> dict[str, object]:
    """Build the JSON object: GPUs with every metric, in its stored unit, and their processes (null: unknown).
    ``states``: of hosts that were asked from elsewhere, and their job; None for this node."""
    gpus = [dict(zip(_ABOUT, _about(each))) | dict(each.values) | {"processes": _processes(each)} for each in now.gpus]
    found: dict[str, object] = {"schema": SCHEMA, "node": None, "time": now.time, "gpus": gpus, "host": None}
    if states is None:
        for node, host in now.hosts.items():
            found |= {"node": node, "host": dict(host)}
        return found
    unknown = dict.fromkeys(HOST)
    hosts = [
        {
            "node": host.host, "state": host.word, "reason": host.reason or None, "silent_seconds": host.seconds,
            "broken_lines": host.n_broken, "memory_cgroup": None if host.memory is None else [*host.memory],
            "host": dict(now.hosts.get(host.host, unknown)),
        }
        for host in states.hosts
    ]  # fmt: skip
    return found | {"hosts": hosts, "job": None if states.job is None else states.job._asdict()}


def _processes(each: GpuNow) -> list[dict[str, object]] | None:
    if each.processes is None:
        return None
    return [{name: getattr(process, name) for name in _OF_PROCESS} for process in each.processes]


def csv_text(now: NodesNow) -> str:
    """Write a line of names, and one for each GPU, with the number of processes on it; an empty cell is unknown."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow([*_ABOUT, *NAMES, "processes"])
    for each in now.gpus:
        n_processes = None if each.processes is None else len(each.processes)
        values = (*_about(each), *each.values.values(), n_processes)
        writer.writerow([cell(clean(value) if isinstance(value, str) else value) for value in values])
    return lines.getvalue()


def _about(each: GpuNow) -> list[object]:
    gpu = each.gpu
    about = [gpu_label(gpu), gpu.node, gpu.device_index, gpu.uuid, gpu.name, gpu.memory_total, gpu.power_limit]
    return [*about, each.time]


_COLUMNS: tuple[tuple[TableColumn, Callable[[GpuNow], str]], ...] = (
    (TableColumn("GPU"), lambda each: clean(gpu_label(each.gpu))),
    (TableColumn("util %", "right", 3), lambda each: _shown(each, "gpu_utilization")),
    (TableColumn("SM %", "right"), lambda each: _shown(each, "sm_active")),
    (TableColumn("tensor %", "right", 2), lambda each: _shown(each, "tensor_active")),
    (TableColumn("DRAM %", "right", 2), lambda each: _shown(each, "dram_active")),
    (
        TableColumn("memory GiB", "right"),
        lambda each: _of(_shown(each, "memory_used"), each.gpu.memory_total, 2.0**-30, 1),
    ),
    (
        TableColumn("power W", "right"),
        lambda each: _of(fixed(each.values["power_usage"], 0), each.gpu.power_limit, 1.0, 0),
    ),
    (TableColumn("°C", "right", 4), lambda each: fixed(each.values["temperature"], 0)),
    (TableColumn("MHz", "right", 5), lambda each: _shown(each, "sm_clock")),
    (TableColumn("processes", drop=1), lambda each: _who(each)),
)
_NOT_ON_AMD = ("SM %", "tensor %")


def _who(each: GpuNow) -> str:
    """Name the process with most memory and count the others; "none" for none, "-" if it is not known."""
    if each.processes is None:
        return NONE
    if not each.processes:
        return "none"
    first, more = each.processes[0], len(each.processes) - 1
    name = f"{clean(first.name or '?')} {first.pid if first.pid is not None else '?'}"
    return f"{name} +{more}" if more else name


def _shown(each: GpuNow, name: str) -> str:
    return number(each.values[name], BY_NAME[name])


def _of(used: str, total: float | None, factor: float, decimals: int) -> str:
    return f"{used}/{fixed(None if total is None else total * factor, decimals)}"


def page(now: NodesNow, width: int, glyphs: Glyphs) -> list[Row]:
    """Draw the table of the GPUs, and a line about each node; without GPUs only the latter."""
    rows = []
    if now.gpus:
        is_amd = maker_of(each.gpu for each in now.gpus) == AMD
        shown = [(column, draw) for column, draw in _COLUMNS if not (is_amd and column.title in _NOT_ON_AMD)]
        cells = [[draw(each) for _, draw in shown] for each in now.gpus]
        rows = table([column for column, _ in shown], cells, width, glyphs, gap=2)
        names = ", ".join(dict.fromkeys(clean(each.gpu.name or "unknown") for each in now.gpus))
        backends = ", ".join(dict.fromkeys(clean(each.gpu.backend or "unknown") for each in now.gpus))
        rows += [(Span(f"{count(len(now.gpus), 'GPU')} ({names}), by {backends}"),)]
    for node, host in now.hosts.items():
        rows += flow([(Span(word),) for word in _node(node, host)], width, glyphs.ellipsis, indent="  ")
    return rows


def _node(node: str, host: Mapping[str, float | None]) -> list[str]:
    """List pieces of a line about a node: its name with a colon, then how busy its cores are, load, memory, and the rates
    of disks and network; in place of a value that is not known, UNKNOWN or "-"."""
    busy, load = host["cpu_utilization"], host["load1"]
    memory = BY_NAME["memory_used"]
    rates = [(host[name], what) for name, what in (("read_bytes", "read"), ("write_bytes", "written"),
             ("net_rx_bytes", "received"), ("net_tx_bytes", "sent"))]  # fmt: skip
    return [
        f"{clean(node)}:",
        f"CPU {fixed(None if busy is None else 100 * busy, 1)} % busy",
        f"load {fixed(load, 2)}",
        f"memory {number(host['memory_used'], memory)} of {quantity(host['memory_total'], memory)}",
        *(f"{fixed(None if value is None else value / 1e6, 1)} MB/s {what}" for value, what in rates),
    ]
