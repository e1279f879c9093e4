"""How verdicts say numbers: rounded to what a reader needs, in the units they know."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gssr.gpu_name import gpu_label as gpu_label
from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS
from gssr.store.format.rows import Gpu

if TYPE_CHECKING:  # whoever judges a recording without traces needs none of it
    from gssr.traces.timeline import TraceSource

_NAMED = 3
_REASONS = {name for _, name, _ in CLOCK_EVENT_REASONS}
_UNITS = ((1, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_BINARY_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_OTHERS = {
    "read_bytes": ("disk reads", "B/s"),
    "write_bytes": ("disk writes", "B/s"),
    "net_rx_bytes": ("network received", "B/s"),
    "net_tx_bytes": ("network sent", "B/s"),
    "fabric_rx_bytes": ("fabric received", "B/s"),
    "fabric_tx_bytes": ("fabric sent", "B/s"),
    "cpu_utilization": ("CPU utilization", "1"),
    "workload_cpu": ("cores busy per rank", ""),
    "seconds": ("", "s"),
    "share": ("", "1"),
}
"""What is no metric of the GPUs: its label and unit."""


def label(name: str) -> str:
    """Say what a number is called in a sentence; the name itself where it is unknown."""
    if name in BY_NAME:
        return BY_NAME[name].label
    return _OTHERS[name][0] if name in _OTHERS else name


def amount(value: float, name: str) -> str:
    """Say a value with the unit of what ``name`` names; without a unit where the name is unknown."""
    unit = _unit(name)
    if unit == "1":
        return percent(value)
    if unit == "B/s":
        return f"{_three(value / 1e9)} GB/s" if value >= 1e8 else f"{_three(value / 1e6)} MB/s"
    if unit == "B":
        return f"{_three(value / (1 << 30))} GiB"
    if unit == "s":
        return duration(value)
    return f"{_three(value)} {unit}".rstrip()


def binary(n: int) -> str:
    """Write a number of bytes in three digits: ``50.9 GiB``, ``512 B``."""
    size, unit = next((each for each in _BINARY_UNITS if abs(n) >= each[0]), (1, "B"))
    return f"{float(f'{n / size:.3g}'):,.10g} {unit}"


def limit(value: float, name: str) -> str:
    """Say a threshold of what ``name`` names: as ``amount``, but a ratio with up to three digits, as it was chosen."""
    return f"{_three(100 * value)} %" if _unit(name) == "1" else amount(value, name)


def _unit(name: str) -> str:
    """Return the unit of what ``name`` names: "1" for ratios, empty without a unit or for an unknown name."""
    if name in BY_NAME:
        return BY_NAME[name].unit
    return "1" if name in _REASONS else _OTHERS.get(name, ("", ""))[1]


def counted(number: float, what: str) -> str:
    """Say a number with what it counts: ``1 core``, ``1.2 cores``."""
    shown = f"{number:.2g}"
    return f"{shown} {what}{'' if shown == '1' else 's'}"


def percent(ratio: float) -> str:
    """Say a ratio in percent: whole from 10 % on, with two digits below."""
    shown = 100 * ratio
    return f"{shown:.0f} %" if shown >= 9.95 or not shown else f"{shown:.2g} %"


def duration(seconds: float) -> str:
    """Say a length of time, s: ``1.5 s``, ``90 s``, ``2.5 min``, ``12 min``, ``3.2 h``, from two days on ``333 days``."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    if seconds < 7170:
        return f"{seconds / 60:.{0 if seconds >= 597 else 1}f} min".replace(".0 ", " ")
    return f"{seconds / 3600:.3g} h" if seconds < 2 * 86400 else f"{_three(seconds / 86400)} days"


def took(ns: float) -> str:
    """Say a length of time in ns: ``840 ns``, ``12.5 µs``, ``3.4 ms``, from 10 s on as ``duration``."""
    if ns >= 9.95e9:
        return duration(ns / 1e9)
    size, unit = next((size, unit) for size, unit in _UNITS if ns < 999.5 * size)
    return f"{_three(ns / size)} {unit}"


def _three(value: float) -> str:
    """Write a number with three digits."""
    return f"{float(f'{value:.3g}'):,.10g}"


def some(gpus: Sequence[Gpu], which: Sequence[int]) -> str:
    """Name some of the GPUs (positions) at the beginning of a sentence: ``3 of 16 GPUs (n1:0, n1:1, n2:0)``, ``All 4
    GPUs``."""
    if len(which) == len(gpus):
        return {1: "The GPU", 2: "Both GPUs"}.get(len(gpus), f"All {len(gpus)} GPUs")
    return f"{len(which)} of {len(gpus)} GPUs ({named(gpus, which)})"


def were(which: Sequence[int]) -> str:
    """Return "was" for one GPU, "were" for several."""
    return "was" if len(which) == 1 else "were"


def node_label(node: str) -> str:
    """Name a node in a sentence: ``node nid000012``, or ``node0012`` alone, which says itself what it is."""
    return node if node.lower().startswith("node") else f"node {node}"


def named(gpus: Sequence[Gpu], which: Sequence[int]) -> str:
    """Name these GPUs, the nodes first all of whose GPUs are among them: ``all GPUs of n2, n1:0 and 4 more GPUs``.

    Of another node with more than three of them only their number is named: ``4 of the 8 GPUs of n1``.
    """
    chosen = set(which)
    on_node: dict[str | None, list[int]] = {}
    for position, gpu in enumerate(gpus):
        on_node.setdefault(gpu.node, []).append(position)
    nodes: list[tuple[str, int]] = []
    parts: list[tuple[str, int]] = []
    for node, members in on_node.items():
        inside = [position for position in members if position in chosen]
        if len(inside) == len(members) > 1:
            nodes.append((f"all GPUs of {node}", len(inside)))
        elif len(inside) > _NAMED and len(on_node) > 1:
            parts.append((f"{len(inside)} of the {len(members)} GPUs of {node}", len(inside)))
        else:
            parts.extend((gpu_label(gpus[position]), 1) for position in inside)
    names = nodes + parts
    if len(names) <= _NAMED + 1:
        return ", ".join(name for name, _ in names)
    more = sum(n for _, n in names[_NAMED:])
    return f"{', '.join(name for name, _ in names[:_NAMED])} and {more} more GPU{'' if more == 1 else 's'}"


def damage_text(sources: "Sequence[TraceSource]") -> str:
    """Say in a clause which of the files of a trace are damaged, and what that means for all figures; "" if all are
    whole."""
    names = [os.path.basename(source.path) for source in sources if source.is_damaged]
    if not names:
        return ""
    who = f"trace {names[0]} is" if len(names) == 1 else f"traces {names[0]} and {len(names) - 1:,} more are"
    return f"the {who} cut off or damaged: times and shares are of what could be read"


def no_gpus_text(sources: "Sequence[TraceSource]") -> str:
    """Say that no GPU's work is in a trace from these files: if one is damaged, work may be missing."""
    if any(source.is_damaged for source in sources):
        return f"no GPU's work in what could be read: {'a' if sources[1:] else 'the'} file is damaged"
    return "no GPU did anything that was traced"
