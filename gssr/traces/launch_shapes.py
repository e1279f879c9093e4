"""The grids and blocks that a trace's kernels were launched with, which a Timeline does not hold: read from the files again,
for joining them with launches of the same shape that were profiled."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gssr.store.pages.leaf_rows import NULL
from gssr.traces.interval_columns import Key, number_combinations
from gssr.traces.json_events import JsonEvents
from gssr.traces.kernel_profile import Dim3, dim3
from gssr.traces.nsys import open_report
from gssr.traces.tables import Tables
from gssr.traces.timeline import TraceError, TraceSource

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_SIDES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_MOST_SHAPES = 1 << 20


class KernelShape(NamedTuple):
    """A kernel by its name and the shape of its launches; None is unknown."""

    name: str
    grid: Dim3 | None
    block: Dim3 | None


Totals = dict[KernelShape, tuple[int, int]]
"""By shape, how many launches a trace holds, and their time together, ns."""


def launch_shapes(sources: Iterable[TraceSource], most_bytes: int | None = None) -> Totals:
    """Add up the launches of all kernels in traces of torch.profiler and Nsight Systems, by name and shape, over all of
    these sources. ``most_bytes``: how much each file may unpack to, None for the default. Raises TraceError, also for a
    trace of another tool."""
    found: Totals = {}
    for source in sources:
        if source.format == "nsys":
            with open_report(source.path, (_KERNELS, "StringIds")) as tables:
                own = _add_up_report(tables)
        elif source.format in ("kineto", "chrome"):
            own = _add_up_json(source.path, most_bytes)
        else:
            raise TraceError(f"{source.path}: its kernels have no grids: profiled kernels can't be found in it")
        for shape, (n, total) in own.items():
            before = found.get(shape, (0, 0))
            found[shape] = (before[0] + n, before[1] + total)
        if len(found) > _MOST_SHAPES:
            raise TraceError(f"{source.path}: names more than {_MOST_SHAPES:,} kernels: no program has as many")
    return found


def _add_up_report(database: Tables) -> Totals:
    """Add up the launches in a report of Nsight Systems by name and shape. Rows without sound times are left out; a
    kernel without a name is "(unknown)". Raises TraceError."""
    there = database.columns.get(_KERNELS, ())
    name = next((each for each in ("demangledName", "shortName") if each in there), "")
    keys: dict[Key, int] = {}
    parts: list[tuple[Any, Any]] = []
    for start, end, *columns in database.integers(_KERNELS, ("start", "end", name, *_SIDES)):
        sound = (start != NULL) & (end != NULL) & (end >= start) & (end - start < 1 << 53)
        if sound.any():
            parts.append((number_combinations([column[sound] for column in columns], keys), (end - start)[sound]))
    count, total = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    for which, length in parts:
        np.add.at(count, which, 1)
        np.add.at(total, which, length)
    strings = database.strings("StringIds", {key[0] for key in keys})
    found: Totals = {}
    for key, n, ns in zip(keys, count.tolist(), total.tolist(), strict=True):
        sides = [None if side == NULL else float(side) for side in key[1:]]
        shape = KernelShape(strings.get(key[0], "(unknown)"), dim3(sides[:3]), dim3(sides[3:]))
        before = found.get(shape, (0, 0))
        found[shape] = (before[0] + n, before[1] + ns)
    return found


def _add_up_json(path: str, most_bytes: int | None) -> Totals:
    """Add up the launches in a Chrome trace by name and shape. Kernels without a name or a sound duration are left out,
    and so are batches of events in which anything is no sound JSON. ``most_bytes``: how much the file may unpack to,
    None for the default. Raises TraceError."""
    found: Totals = {}
    for events, part in JsonEvents(path, most_bytes):
        if not any(event.cat in ("kernel", "Kernel") for event in events):
            continue
        try:
            told = json.loads(b"[" + bytes(part) + b"]")
        except (ValueError, RecursionError):
            continue  # a batch that was decoded has other values somewhere that are no sound JSON
        for event in told:
            if not isinstance(event, dict) or event.get("cat") not in ("kernel", "Kernel"):
                continue
            args, length = event.get("args"), event.get("dur")
            name = event.get("name")
            if isinstance(name, str) and isinstance(length, int | float) and 0 <= length < 1e12:
                args = args if isinstance(args, dict) else {}
                shape = KernelShape(name, _listed(args.get("grid")), _listed(args.get("block")))
                before = found.get(shape, (0, 0))
                found[shape] = (before[0] + 1, before[1] + round(length * 1000))
    return found


def _listed(sides: Any) -> Dim3 | None:
    """Return a list of three whole numbers as they are; None for anything else."""
    is_it = isinstance(sides, list) and len(sides) == 3 and all(type(side) is int for side in sides)
    return dim3(map(float, sides)) if is_it else None
