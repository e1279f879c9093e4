"""Profiles of Triton's Proton (``NAME.hatchet``): JSON of a call tree, with scopes of the program or lines of Python above
the kernels, and of the GPUs that were used. It has sums and no points in time."""

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.traces.dump_file import load_dump, objects, text
from gssr.traces.timeline import Clock, Measured, Profile, Timeline, TraceError, TraceSource, Track, no_intervals

_MOST_VALUES, _MOST_METRICS, _MOST_GPUS = 1 << 21, 64, 1024
"""Call paths times GPUs, metrics and GPUs of a profile."""
_NAMES = {"time": "time", "count": "visits"}
"""What the call tree calls metrics of Proton."""
_METRIC = re.compile(r"([^()]{1,80}?) ?(?:\((\w{1,20})\))?")
_SUM_BELOW = "(inc)"


class _Node(NamedTuple):
    """A call path: its caller (-1 for none), its name, and the metrics that it has itself."""

    parent: int
    name: str
    metrics: dict[str, Any]


def read_proton(path: str, rank: int | None = None, most_bytes: int | None = None) -> Timeline:
    """Read a profile as a timeline without intervals, whose tracks are the GPUs. ``rank``: the rank if it is known. Raises
    TraceError. ``most_bytes``: as of load_dump."""
    held = load_dump(path, most_bytes)
    roots = [each for each in objects(held) if type(each.get("children")) is list and type(each.get("frame")) is dict]
    nodes = _nodes(roots)
    gpus = list(dict.fromkeys(gpu for node in nodes if (gpu := _gpu(node)) is not None))
    if not gpus:
        raise TraceError(f"{path}: holds no kernel that Proton has measured")
    if len(gpus) > _MOST_GPUS or len(nodes) * len(gpus) > _MOST_VALUES:
        raise TraceError(f"{path}: {len(nodes):,} call paths on {len(gpus):,} GPUs are more than fit into memory")
    place_of = {gpu: place for place, gpu in enumerate(gpus)}
    of_node = [place_of.get(gpu) if (gpu := _gpu(node)) is not None else None for node in nodes]
    of_node, n_unknown = _with_callees_gpu(nodes, of_node)
    names: dict[str, int] = {}
    own = np.array([names.setdefault(node.name, len(names)) for node in nodes], np.int64)
    notes = (
        [] if not n_unknown else [f"values of scopes with kernels on several GPUs, which are left out: {n_unknown:,}"]
    )
    source = TraceSource(path, "proton", "Proton", "", rank, n_events=len(nodes), notes=tuple(notes))
    tracks = tuple(_track(gpu, rank) for gpu in gpus)
    kinds = tuple("user" if (gpu := _gpu(node)) is None else gpu[0].lower() or "gpu" for node in nodes)
    profile = Profile(
        np.array([node.parent for node in nodes], np.int64), own, kinds, tuple("function" for _ in nodes),
        tuple(_metrics(nodes, of_node, len(gpus))),
    )  # fmt: skip
    return Timeline((source,), Clock(), tracks, tuple(names), no_intervals(), profile=profile)


def _nodes(roots: list[dict[str, Any]]) -> list[_Node]:
    """List the call paths, each behind its caller. A root that only holds the others (ROOT) is left out."""
    found: list[_Node] = []
    left = [(-1, root) for root in reversed(roots)]
    while left:
        parent, told = left.pop()
        frame, metrics = told.get("frame"), told.get("metrics")
        name = text(frame.get("name")) if type(frame) is dict else ""
        at = parent
        if not (parent < 0 and name == "ROOT"):
            at = len(found)
            found.append(_Node(parent, name or "(no name)", metrics if type(metrics) is dict else {}))
        left += [(at, child) for child in reversed(objects(told.get("children")))]
    return found


def _gpu(node: _Node) -> tuple[str, str] | None:
    """Return the type and number of the GPU on which a kernel ran, as the file tells them; None for a scope, which may
    have run on several."""
    number = node.metrics.get("device_id")
    if number is None:
        return None if _number(node.metrics.get("time (ns)")) is None else ("", "")
    return text(node.metrics.get("device_type")), str(number)[:40]


def _track(gpu: tuple[str, str], rank: int | None) -> Track:
    kind, number = gpu
    device = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None
    return Track("gpu_stream", f"{kind} {number}".strip() or "GPU", rank, device=device)


def _with_callees_gpu(nodes: list[_Node], own: list[int | None]) -> tuple[list[int | None], int]:
    """Give scopes with metrics of their own, such as flops, the GPU of the kernels below them. Returns the place of each
    node's GPU, None where there are several or none, and how many such metrics have none."""
    below: list[set[int]] = [set() if place is None else {place} for place in own]
    for at in range(len(nodes) - 1, -1, -1):
        if nodes[at].parent >= 0 and len(below[nodes[at].parent]) < 2:
            below[nodes[at].parent] |= below[at]
    found = [
        next(iter(each)) if place is None and len(each) == 1 else place for place, each in zip(own, below, strict=True)
    ]
    told = zip(nodes, found, strict=True)
    unknown = sum(sum(bool(_number(value)) for value in node.metrics.values()) for node, place in told if place is None)
    return found, unknown


def _metrics(nodes: list[_Node], place_of: list[int | None], n_gpus: int) -> list[Measured]:
    """Return the metrics, the time first. Those that are sums over what is below are left out: they follow of the others."""
    values: dict[str, list[tuple[int, int, float]]] = {}
    for at, (node, place) in enumerate(zip(nodes, place_of, strict=True)):
        for name, value in node.metrics.items() if place is not None else ():
            number = _number(value)
            if number is None or place is None or name == "device_id" or name.endswith(_SUM_BELOW):
                continue
            if name in values or len(values) < _MOST_METRICS:
                values.setdefault(name, []).append((at, place, number))
    if "count" in values:  # how often a scope was entered is not told
        counted = {at for at, *_ in values["count"]}
        values["count"] += [(at, -1, math.nan) for at in range(len(nodes)) if at not in counted]
    found = []
    for name in sorted(values, key=lambda each: (each != "time (ns)", each != "count", each)):
        told = _METRIC.fullmatch(name)
        bare, unit = (told[1], told[2] or "") if told else (name, "")
        own, unit = _NAMES.get(bare, bare), "occ" if bare == "count" else unit
        found.append(Measured(own, own, unit, False, "sum", partial(_rows, values[name], n_gpus)))
    return found


def _rows(values: Sequence[tuple[int, int, float]], n_gpus: int) -> tuple[Ints, Floats]:
    """Return the nodes that have values, and these by GPU. ``values``: node, GPU (-1: all) and value each."""
    at, place, value = zip(*values, strict=True)
    gpu = np.array(place)[:, None]
    found = np.where((gpu == np.arange(n_gpus)) | (gpu < 0), np.array(value)[:, None], 0.0)
    return np.array(at, np.int64), found


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return float(value) if is_number and math.isfinite(value) else None
