"""Runs as a Chrome trace, for ui.perfetto.dev: a counter for each metric of each GPU, and what happened. A node is a
process, a GPU a thread of it. Its clock is that of torch.profiler's traces, so that both lie over each other."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any, BinaryIO

import numpy as np

from gssr.convert.tables import ExportError
from gssr.gpu_name import gpu_label
from gssr.gpu_vendors import words_of
from gssr.metrics import BY_NAME, NAMES
from gssr.model.analyze import Options, analyze
from gssr.model.results import Grid
from gssr.model.statistics.balance import has_balance
from gssr.store.read.recording import RunReader
from gssr.traces.categories import KINDS
from gssr.traces.timeline import NO_LINK, Kind, Timeline

POINTS = 100_000
"""Values of counters in a file, if nothing else was asked for: some 10 MB."""
QUARTER = 7_889_238
"""Seconds. torch.profiler counts time from the last whole multiple of it since 1970: its ``baseTimeNanoseconds``."""
_FIRST_ID = 1 << 22
"""No process and no thread has such an id (PID_MAX_LIMIT of Linux), and so none in a trace that is laid over this one. All
ids differ: Perfetto knows a thread by its own, whatever process it is of."""
_FEWEST_BINS = 2

_KINDS = {kind: next((name for name, own in KINDS.items() if own == kind), kind.name.lower()) for kind in Kind}
"""What torch.profiler calls them."""
Thread = tuple[int, int]
"""Ids of a process and of a thread in it."""


def write(
    runs: Sequence[RunReader],
    stream: BinaryIO,
    points: int = POINTS,
    progress: Callable[[float], None] = lambda _: None,
    traces: Callable[[RunReader], Iterable[Timeline]] = lambda _: (),
) -> None:
    """Write all runs as one Chrome trace, for Perfetto.

    Args:
        points: how many values of counters are written at most; if there are more samples, means are written.
        progress: called with the share that is done, 0-1.
        traces: returns a run's traces, whose intervals are written as well; their times must be unix ns.

    Raises ExportError if there are too many GPUs for so few points, OSError and RecordingError.
    """
    drawn = [[name for name in NAMES if name in reader.metrics and has_balance(BY_NAME[name])] for reader in runs]
    n_series = sum(len(names) * len(reader.gpus) for names, reader in zip(drawn, runs, strict=True))
    if n_series * _FEWEST_BINS > points:
        raise ExportError(f"--points {points}: too few for {n_series:,} series, one for each metric of each GPU")
    starts = [time for reader in runs if (time := reader.run.started_at or reader.first_time) is not None]
    base = int(min(starts, default=0.0) // QUARTER * QUARTER)
    head = f'{{"displayTimeUnit":"ms","baseTimeNanoseconds":{base * 10**9},"traceEvents":[\n'
    separator, ids = head.encode(), count(_FIRST_ID)
    for number, (reader, names) in enumerate(zip(runs, drawn, strict=True)):
        intervals = chain.from_iterable(_intervals(each, base, ids) for each in traces(reader))
        for text in chain(_events(reader, names, points // max(n_series, 1), base, ids), intervals):
            stream.write(separator + text.encode())
            separator = b",\n"
        progress((number + 1) / len(runs))
    stream.write((b"" if separator == b",\n" else separator) + b"\n]}\n")


def _events(reader: RunReader, names: Sequence[str], bins: int, base: int, ids: Iterator[int]) -> Iterator[str]:
    """Yield the names, events, gaps and counters of a run as JSON texts.

    Args:
        names: metrics to draw.
        bins: how many values each counter has at most.
        base: unix s from which times count.
        ids: gives ids of processes and threads that nobody uses.
    """
    nodes = [gpu.node or "?" for gpu in reader.gpus] + [event.node for event in reader.events if event.node]
    processes = dict(zip(dict.fromkeys(nodes or ["?"]), ids, strict=False))
    for node, process in processes.items():
        yield _event("M", (process, process), "process_name", args={"name": node})
        yield _event("M", (process, process), "process_labels", args={"labels": reader.run.label or reader.run.run_id})
    of_gpu = [(processes[gpu.node or "?"], next(ids)) for gpu in reader.gpus]
    for gpu, thread in zip(reader.gpus, of_gpu, strict=True):
        yield _event("M", thread, "thread_name", args={"name": f"{gpu_label(gpu)} {gpu.name or ''}".strip()})
    threads = {gpu.gpu: thread for gpu, thread in zip(reader.gpus, of_gpu, strict=True)}
    for each in reader.events:
        process = processes[each.node] if each.node else next(iter(processes.values()))
        own = None if each.gpu is None else threads.get(each.gpu)
        rest = {"cat": each.kind, "s": "t" if own else "p" if each.node else "g", "ts": _micros(each.time, base)}
        yield _event("i", own or (process, process), each.message or each.kind, **rest)
    found = analyze(reader, Options(series=tuple(names), bins=bins, causes=False)).gpu_series
    yield from _gaps(reader, of_gpu, found, base)
    for name, series in found.items():
        unit = json.dumps("ratio" if BY_NAME[name].unit == "1" else BY_NAME[name].unit)
        for gpu, (process, own_id), values in zip(reader.gpus, of_gpu, series.values, strict=True):
            what = json.dumps(f"{gpu_label(gpu)} {words_of((gpu,))(BY_NAME[name].label)}")
            at = np.flatnonzero(np.isfinite(values))
            times = np.rint((series.start + at * series.width - base) * 1e6).astype(np.int64)
            begin = f'{{"ph":"C","pid":{process},"tid":{own_id},"name":{what},"ts":'
            for time, value in zip(times.tolist(), values[at].tolist(), strict=True):
                yield f'{begin}{time},"args":{{{unit}:{value!r}}}}}'


def _intervals(timeline: Timeline, base: int, ids: Iterator[int]) -> Iterator[str]:
    """Yield a trace's intervals as JSON texts, with the words of torch.profiler. Each rank or process is a process of
    its own, each stream and thread a thread. ``base`` and ``ids`` as in ``_events``."""
    own = timeline.intervals
    processes: dict[tuple[int | None, int | None], int] = {}
    heads, said = [], []
    for track in timeline.tracks:
        key = (track.rank, None) if track.rank is not None else (None, track.pid)
        if key not in processes:
            processes[key] = next(ids)
            who = f"rank {track.rank}" if track.rank is not None else f"process {track.pid}"
            yield _event("M", (processes[key],) * 2, "process_name", args={"name": f"{who}, traced"})
        thread = processes[key], next(ids)
        of_gpu = track.kind in ("gpu_stream", "host_wait")
        name = track.name or (f"stream {track.stream}" if of_gpu else f"thread {track.tid}")
        where = f"{track.node or '?'}:{track.device} " if of_gpu else ""
        yield _event("M", thread, "thread_name", args={"name": f"{where}{name}"})
        heads.append(f',"pid":{thread[0]},"tid":{thread[1]},"ts":')
        said.append([f'"device":{track.device or 0},"stream":{track.stream or 0}'] if of_gpu else [])
    links, link = np.unique(own.link, return_inverse=True)
    first = next(ids)
    next(islice(ids, len(links), None))  # in one trace no two files may share one
    link = np.where(own.link == NO_LINK, NO_LINK, first + link)
    names = [json.dumps(name) for name in timeline.names]
    columns = (own.start - base * 10**9, own.length, own.track, own.name, own.kind, link, own.size)
    for start, length, at, name, kind, call, size in zip(*(each.tolist() for each in columns), strict=True):
        args = [*said[at], *([f'"correlation":{call}'] * (call != NO_LINK)), *([f'"bytes":{size}'] * (size >= 0))]
        head = f'{{"ph":"X","cat":"{_KINDS[kind]}","name":{names[name]}{heads[at]}'
        times = f'{start // 1000}.{start % 1000:03d},"dur":{length // 1000}.{length % 1000:03d}'
        yield f'{head}{times},"args":{{{",".join(args)}}}}}'


def _gaps(reader: RunReader, of_gpu: Sequence[Thread], found: Mapping[str, Grid], base: int) -> Iterator[str]:
    """Yield an event, as JSON text, wherever a GPU has no sample for longer than a gap is: a counter would hold its
    last value there."""
    if not found:
        return
    one = next(iter(found.values()))
    known = np.logical_or.reduce([np.isfinite(series.values) for series in found.values()])
    for thread, own in zip(of_gpu, known, strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[True], own, [True]])))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            seconds = (last - first) * one.width
            if seconds > reader.gap_seconds:
                time = _micros(one.start + first * one.width, base)
                rest = {"cat": "gap", "s": "t", "ts": time}
                yield _event("i", thread, f"no samples for {seconds:g} s", **rest)


def _event(phase: str, thread: Thread, name: str, **rest: Any) -> str:
    return json.dumps({"ph": phase, "pid": thread[0], "tid": thread[1], "name": name, **rest}, separators=(",", ":"))


def _micros(time: float, base: int) -> int:
    return round((time - base) * 1e6)
