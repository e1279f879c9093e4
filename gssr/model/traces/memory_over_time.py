"""The memory of GPUs over time as a timeline, which the screen Time draws as any other: counters and marks.

The sizes, peaks and failed allocations are gssr.model.traces.memory's.
"""

import os
from collections.abc import Sequence

import numpy as np

from gssr.gpu_name import gpu_label
from gssr.metrics import OF_COUNTER
from gssr.model.traces.gpu_names import names_of
from gssr.model.traces.memory import DeviceMemory, bytes_of, places
from gssr.model.verdicts.words import binary
from gssr.traces.timeline import (
    NO_LINK,
    Category,
    Clock,
    Counter,
    Intervals,
    Kind,
    MemoryHolder,
    Timeline,
    TraceSource,
    Track,
)

REQUESTED = f"{OF_COUNTER}B:requested"
"""The metric by which memory_over_time says how much was requested."""
_MOST_PLACES = 3
"""Lines of the program, or categories, that the mark of a peak names: as many as a line of the screen holds."""


def memory_over_time(found: Sequence[DeviceMemory]) -> Timeline:
    """Lay the memory of GPUs over time, each from the first step of its file: a counter for what was requested, and one for
    each other series that is not 0 throughout, the largest at the peak first. Marks are the peaks, with what held most,
    and the allocations that failed. Raises ValueError if a file tells no times."""
    tracks, counters, marks = list[Track](), list[Counter](), list[tuple[int, int, str]]()
    paths = list(dict.fromkeys(each.path for each in found))
    for at, each in enumerate(found):
        if each.peak_ns is None or not len(each.times):
            raise ValueError(f"{each.path}: tells no times: gssr analyze shows what it holds")
        source = paths.index(each.path)
        tracks.append(Track("gpu_stream", "memory", each.rank, pid=source, device=each.device or 0, source=source))
        series = {name: each.sizes[:, k] for k, name in enumerate(each.series)}
        requested = series.pop("requested", None)
        requested = each.sizes.sum(axis=1) if requested is None else requested
        peak = int(requested.argmax())
        others = sorted(series.items(), key=lambda one: -int(one[1][peak]))
        counters += [
            Counter(name, "B", "gauge", each.times, sizes.astype(np.float64), at)
            for name, sizes in (("requested", requested), *others)
            if sizes.any() or name == "requested"
        ]
        marks.append((each.peak_ns, at, _peak_text(each)))
        marks += [
            (one.at_ns, at, f"out of memory: {binary(one.asked)} asked for")
            for one in each.failures
            if one.at_ns is not None
        ]
    notes = ("times count from the first step of each file",) if paths[1:] else ()
    sources = [TraceSource(path, "memory", "PyTorch", notes=notes if path == paths[0] else ()) for path in paths]
    names = tuple(text for _, _, text in sorted(marks))
    places_of = [gpu_label(gpu) for gpu in names_of(tracks).values()]
    holders = tuple(
        holder._replace(name=f"{place}  {holder.name}") if len(places_of) > 1 else holder
        for at, (each, place) in enumerate(zip(found, places_of, strict=True))
        for holder in _holders(each, at)
    )
    return Timeline(
        tuple(sources), Clock(), tuple(tracks), names, _marks(sorted(marks)), tuple(counters), holders=holders
    )  # fmt: skip


def _marks(marks: Sequence[tuple[int, int, str]]) -> Intervals:
    """Make intervals of marks, each with its time (ns), its track, and a name of its own."""
    n = len(marks)
    none, byte = np.full(n, NO_LINK, np.int64), np.full(n, -1, np.int8)
    return Intervals(
        np.array([time for time, _, _ in marks], np.int64), np.zeros(n, np.int64),
        np.array([track for _, track, _ in marks], np.int32), np.arange(n, dtype=np.int32),
        np.full(n, Kind.MARK, np.int8), np.full(n, Category.RANGE, np.int8), none, none, byte,
    )  # fmt: skip


def _holders(memory: DeviceMemory, track: int) -> list[MemoryHolder]:
    """List what held a GPU's memory at its peak: categories, or lines of the program."""
    if memory.at_peak is not None:
        return [MemoryHolder(name, track, size) for name, size in memory.at_peak.items() if size]
    return [
        MemoryHolder(name or "(no stack)", track, bytes_of(own), len(own), own[0].size)
        for name, own in places(memory.alive or ()).items()
    ]


def _peak_text(memory: DeviceMemory) -> str:
    """Say how much was requested at the peak, and what held most of it: categories, or lines of the program."""
    most = sorted(_holders(memory, 0), key=lambda each: (-each.n_bytes, each.name))[:_MOST_PLACES]
    holds = ", ".join(f"{binary(each.n_bytes)} {os.path.basename(each.name)}" for each in most)
    return f"peak of {binary(memory.peak_bytes or 0)} requested" + (f": {holds}" if holds else "")
