"""Samples as OpenMetrics text, which Prometheus takes in as its own history. Each metric of all runs stands together, GPU
after GPU, each in the order of time, as the format asks for: the recordings are gone through once for every metric.

A series is known by its GPU, not by its run: which run had the GPU, and when, is an info metric of its own at the head of
the file (gssr.prometheus.RUN_INFO), by which gssr/foreign/prometheus_runs.py parts the runs again. When each run ended is
RUN_END.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import METRICS
from gssr.prometheus import FAMILIES, GPU_LABELS, RUN_END, RUN_INFO, Family, labels
from gssr.store.disk import sizes
from gssr.store.format.rows import Gpu
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

ROWS = 1_000_000
"""Of one metric about so many are read at a time: 100 MB."""
INFO_SECONDS = 60.0
"""Between two values of RUN_INFO: Prometheus looks back for 5 min, or for less where somebody has set it so."""
_END_DELAY = 0.001
"""Seconds from a run's last sample to its value of RUN_END: one of the milliseconds in which Prometheus counts."""
_MOST_INFO = 100_000
"""Values of RUN_INFO of a GPU of a run, however long that says it is: 69 days' at INFO_SECONDS."""
_LEAST_ROW = 30
"""Bytes that a row takes in a file at least: the numbers of rows may lie far apart, and say nothing."""
_LINES = 20_000


class _GpuOfRun(NamedTuple):
    """A GPU of a run: ``position`` in the reader's GPUs, ``rows`` it has about, and times of the run's first and last
    sample, unix s."""

    reader: RunReader
    position: int
    rows: float
    first: float
    last: float


class _GpuSeries(NamedTuple):
    """All that is known of one GPU. ``labels`` as a mapping, None for what is unknown; ``parts`` of runs that follow each
    other in time."""

    labels: dict[str, object]
    parts: list[_GpuOfRun]

    @property
    def rows(self) -> float:
        """Rows of all parts, about."""
        return sum(part.rows for part in self.parts)


def write(runs: Sequence[RunReader], stream: BinaryIO, progress: Callable[[float], None] = lambda _: None) -> None:
    """Write which run had which GPU and all samples of all runs as OpenMetrics text, metric by metric. ``progress`` is
    called with the share that is done, 0-1. Raises OSError and RecordingError."""
    every = _gpu_series(runs)
    _write_family(RUN_INFO, _info_lines(every), stream)
    _write_family(RUN_END, _end_lines(every), stream)
    for number, metric in enumerate(METRICS):
        _write_family(FAMILIES[metric.name], _lines(every, metric.name), stream)
        progress((number + 1) / len(METRICS))
    stream.write(b"# EOF\n")


def _write_family(family: Family, texts: Iterator[str], stream: BinaryIO) -> None:
    """Write a metric's head and its lines; nothing at all if there are no lines."""
    is_begun = False
    for text in texts:
        if not is_begun:
            unit = f"# UNIT {family.name} {family.unit}\n" if family.unit else ""
            stream.write(f"# TYPE {family.name} {family.type}\n{unit}# HELP {family.name} {family.help}\n".encode())
        is_begun = True
        stream.write(text.encode("utf-8", "backslashreplace"))


def _gpu_series(runs: Sequence[RunReader]) -> list[_GpuSeries]:
    """Gather the GPUs of all runs. Runs that had one GPU one after the other are one series; where they overlap in time,
    each further one gets a series of its own, with the label ``overlap``. GPUs of runs without samples are left out."""
    by_gpu: dict[tuple[object, ...], list[_GpuOfRun]] = {}
    for reader in runs:
        first, last = reader.first_time, reader.last_time
        if first is None or last is None:
            continue
        room = sum(sum(sizes(path)) for path, *_ in reader.tails) / _LEAST_ROW
        rows = min(reader.n_rows, room) / max(len(reader.gpus), 1)
        for position, gpu in enumerate(reader.gpus):
            own = (gpu.node, gpu.device_index, gpu.uuid, gpu.mig)
            by_gpu.setdefault(own, []).append(_GpuOfRun(reader, position, rows, first, last))
    found: list[_GpuSeries] = []
    for key, parts in by_gpu.items():
        tracks: list[list[_GpuOfRun]] = []
        for part in sorted(parts, key=lambda part: part.first):
            track = next((track for track in tracks if track[-1].last < part.first), None)
            if track is None:
                tracks.append(track := [])
            track.append(part)
        found += [
            _GpuSeries(dict(zip(GPU_LABELS, (*key, number or None), strict=True)), track)
            for number, track in enumerate(tracks)
        ]
    return found


def _info_lines(every: Sequence[_GpuSeries]) -> Iterator[str]:
    """Yield the lines of RUN_INFO: of each GPU and run, from the run's first sample to its last, INFO_SECONDS apart."""
    for series in every:
        for part in series.parts:
            begin = RUN_INFO.sample + labels(series.labels | run_labels(part.reader, part.reader.gpus[part.position]))
            n = min(int((part.last - part.first) / INFO_SECONDS), _MOST_INFO)
            step = max(INFO_SECONDS, (part.last - part.first) / _MOST_INFO)
            times = [part.first + step * number for number in range(n + 1)]
            times = [time for time in times if time < part.last]
            yield "".join(f"{begin} 1 {time!r}\n" for time in [*times, part.last])


def run_labels(reader: RunReader, gpu: Gpu) -> dict[str, object]:
    """Gather what RUN_INFO says of a run on one of its GPUs, beside the labels of the GPU; None for what is unknown."""
    run = reader.run
    return {
        "run": run.run_id, "job_id": run.job_id, "step_id": run.step_id, "cluster": run.cluster, "user": run.user,
        "label": run.label, "command": shlex.join(run.command) or None, "rank": gpu.rank, "model": gpu.name,
    }  # fmt: skip


def _end_lines(every: Sequence[_GpuSeries]) -> Iterator[str]:
    """Yield the lines of RUN_END: of each GPU, the time after each run's last sample, at that time."""
    for series in every:
        begin = RUN_END.sample + labels(series.labels)
        ends = [round(part.last, 3) + _END_DELAY for part in series.parts]
        yield "".join(f"{begin} {end:.3f} {end:.3f}\n" for end in ends)


def _lines(every: Sequence[_GpuSeries], name: str) -> Iterator[str]:
    """Yield the lines of one metric, some thousand at a time. Samples without a value are left out."""
    family = FAMILIES[name]
    known = [
        series._replace(parts=parts)
        for series in every
        if (parts := [part for part in series.parts if name in part.reader.metrics])
    ]
    for batch in _batches(known):
        if len(batch) == 1 and batch[0].rows > ROWS:
            begin = family.sample + labels(batch[0].labels)
            for part in batch[0].parts:
                for window in _windows(part):
                    samples = part.reader.samples([name], np.array([part.position]), window)
                    yield from _text(begin, samples.time, samples.values[name] * family.factor)
            continue
        held = _read_metric(batch, name)
        for series in batch:
            begin = family.sample + labels(series.labels)
            for part in series.parts:
                time, values = held.get((id(part.reader), part.position), (np.empty(0), np.empty(0)))
                yield from _text(begin, time, values * family.factor)


def _text(begin: str, time: Floats, values: Floats) -> Iterator[str]:
    """Yield the lines of one GPU of one run in the order of time; none where a value is unknown."""
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(time[known], kind="stable")]
    for first in range(0, len(order), _LINES):
        at = order[first : first + _LINES]
        pairs = zip(values[at].tolist(), time[at].tolist(), strict=True)
        yield "".join([f"{begin} {value!r} {when!r}\n" for value, when in pairs])


def _batches(every: Sequence[_GpuSeries]) -> Iterator[list[_GpuSeries]]:
    """Yield as many series at a time as there is room for; one that has more rows than that is alone."""
    batch: list[_GpuSeries] = []
    rows = 0.0
    for series in every:
        if batch and rows + series.rows > ROWS:
            yield batch
            batch, rows = [], 0.0
        batch.append(series)
        rows += series.rows
    if batch:
        yield batch


def _read_metric(batch: Sequence[_GpuSeries], name: str) -> dict[tuple[int, int], tuple[Floats, Floats]]:
    """Read one metric of all GPUs of a batch, each recording once. Returns times and values, float64[n] each, by the
    reader's id and the GPU's position there; nothing for a GPU without a row."""
    wanted: dict[RunReader, list[int]] = {}
    for series in batch:
        for part in series.parts:
            wanted.setdefault(part.reader, []).append(part.position)
    found: dict[tuple[int, int], tuple[Floats, Floats]] = {}
    for reader, positions in wanted.items():
        gpus: Ints | None = np.array(sorted(positions)) if len(positions) < len(reader.gpus) else None
        samples = reader.samples([name], gpus)
        order = np.argsort(samples.gpu, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(samples.gpu[order])) + 1):
            if len(rows):
                found[id(reader), int(samples.gpu[rows[0]])] = samples.time[rows], samples.values[name][rows]
    return found


def _windows(part: _GpuOfRun) -> Sequence[Window]:
    """Cut the time of a GPU that has very many rows so that each window has no more than ROWS, about."""
    n = int(part.rows / ROWS) + 1
    return ALL_TIME.at(np.linspace(part.first, part.last, n + 1)[1:-1].tolist()) if n > 1 else [ALL_TIME]
