"""Samples as OpenMetrics text, which Prometheus takes in as its own history. Each metric of all runs stands together, GPU
after GPU, each in the order of time, as the format asks for: the recordings are gone through once for every metric."""

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from gssr.arrays import Ints
from gssr.metrics import METRICS
from gssr.prometheus import FAMILIES, Family, labels
from gssr.store.disk import sizes
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.recording import RunReader
from gssr.store.read.window_edges import ALL_TIME, Window

ROWS = 1_000_000
"""Of one metric about so many are read at a time: 100 MB."""
_LEAST_ROW = 30
"""Bytes that a row takes in a file at least: the numbers of rows may lie far apart, and say nothing."""
_LINES = 20_000


def write(runs: Sequence[RunReader], stream: BinaryIO, progress: Callable[[float], None] = lambda _: None) -> None:
    """Write all samples of all runs as OpenMetrics text, metric by metric. ``progress`` is called with the share that
    is done, 0-1. Raises OSError and RecordingError."""
    for number, metric in enumerate(METRICS):
        family, is_begun = FAMILIES[metric.name], False
        for reader in runs:
            for text in _lines(reader, metric.name, family) if metric.name in reader.metrics else ():
                if not is_begun:
                    unit = f"# UNIT {family.name} {family.unit}\n" if family.unit else ""
                    head = f"# TYPE {family.name} {family.type}\n{unit}# HELP {family.name} {family.help}\n"
                    stream.write(head.encode())
                is_begun = True
                stream.write(text.encode("utf-8", "backslashreplace"))
        progress((number + 1) / len(METRICS))
    stream.write(b"# EOF\n")


def _lines(reader: RunReader, name: str, family: Family) -> Iterator[str]:
    """Yield the lines of one metric of a run, some thousand at a time. Samples without a value are left out."""
    for samples in _pieces(reader, name):
        known = np.isfinite(samples.values[name])
        gpu, time, values = samples.gpu[known], samples.time[known], samples.values[name][known] * family.factor
        order = np.lexsort((time, gpu))
        for own in np.split(order, np.flatnonzero(np.diff(gpu[order])) + 1):
            if not len(own):
                continue
            begin = family.sample + _labels(reader, int(gpu[own[0]]))
            for first in range(0, len(own), _LINES):
                at = own[first : first + _LINES]
                pairs = zip(values[at].tolist(), time[at].tolist(), strict=True)
                yield "".join([f"{begin} {value!r} {when!r}\n" for value, when in pairs])


def _pieces(reader: RunReader, name: str) -> Iterator[Samples]:
    """Yield the samples of one metric of a run, each GPU's in ascending time: of as many GPUs at once as there is room
    for, or of one GPU in several pieces of time."""
    room = sum(sum(sizes(path)) for path, *_ in reader.tails) / _LEAST_ROW
    n_gpus, of_one = len(reader.gpus), min(reader.n_rows, room) / max(len(reader.gpus), 1)
    at_once = max(1, int(ROWS / max(of_one, 1)))
    for first in range(0, n_gpus, at_once):
        gpus: Ints | None = np.arange(first, min(first + at_once, n_gpus)) if at_once < n_gpus else None
        for window in _windows(reader, of_one if at_once == 1 else 0):
            yield reader.samples([name], gpus, window)


def _windows(reader: RunReader, rows: float) -> Sequence[Window]:
    n = int(rows / ROWS) + 1
    first, last = reader.first_time, reader.last_time
    return ALL_TIME.at(np.linspace(first, last, n + 1)[1:-1].tolist()) if first and last and n > 1 else [ALL_TIME]


def _labels(reader: RunReader, position: int) -> str:
    gpu = reader.gpus[position]
    run = {"run": reader.run.run_id, "node": gpu.node}
    return labels(run | {"gpu": gpu.device_index, "uuid": gpu.uuid, "mig": gpu.mig, "rank": gpu.rank})
