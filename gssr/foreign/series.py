"""What the metrics in a file of another tool come to: GPUs, rows in the order of time, and what is uncertain about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import NamedTuple

import numpy as np

from gssr.store.format.sample_arrays import Samples
from gssr.store.read.open import RecordingError

_ROWS = 1 << 16
"""Of a piece."""


class ForeignError(RecordingError):
    """A file can't be read as what it seems to be; the text is one sentence for the user, beginning with the file's name."""


class ImportHints(NamedTuple):
    """What the user tells about files that do not say it; None where the user says nothing.

    ``start``: unix time of the first sample, s. ``interval``: seconds between samples. ``timezone``: of times that name
    none (None: this machine's). ``host``: the node's name. ``metric``: the metric of values without a name.
    ``columns``: the column names of a table without a header.
    """

    start: float | None = None
    interval: float | None = None
    timezone: tzinfo | None = None
    host: str | None = None
    metric: str | None = None
    columns: tuple[str, ...] | None = None


class ByteSource(NamedTuple):
    """A file that is read once from its beginning. ``chunks`` yields its bytes as they come, unpacked and in UTF-8, and
    b"" where a growing file has nothing new yet. ``modified`` is its modification time, unix s."""

    path: str
    chunks: Iterator[bytes]
    modified: float


class ForeignGpu(NamedTuple):
    """One GPU (or MIG instance) as a file knows it; None is unknown. ``memory_total`` in bytes, ``power_limit`` in W."""

    node: str | None = None
    device_index: int | None = None
    uuid: str | None = None
    name: str | None = None
    memory_total: int | None = None
    power_limit: float | None = None
    driver_version: str | None = None
    mig: str | None = None
    rank: int | None = None


class Note(NamedTuple):
    """A sentence about something uncertain or left out. It becomes an event of the recording. ``time``: unix s, None
    for the run's begin; ``gpu``: position in ``ForeignSeries.gpus``, None if it is about the whole run."""

    text: str
    time: float | None = None
    gpu: int | None = None


@dataclass
class ForeignSeries:
    """One run as files describe it; None and "" are unknown.

    ``pieces`` can be taken once and ascend in time, also within; ``gpu`` of their samples are positions in ``gpus``; a later
    piece may have other metrics. ``gpus`` and ``notes`` grow
    while pieces are taken, but a GPU is in ``gpus`` before its first row comes. ``sampling_seconds``: seconds between
    samples; None until it is known, and if it stays None the median spacing of the rows is used. ``run_id``: GSSR's own
    name of the run, where a file says it: series of other runs are never joined with it. ``started_at``,
    ``ended_at``: unix s. ``file``: what sentences call the file; ``stem``: the name for a node that the file does not
    name.
    """

    kind: str
    pieces: Iterator[Samples]
    gpus: list[ForeignGpu] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    sampling_seconds: float | None = None
    run_id: str | None = None
    label: str | None = None
    command: tuple[str, ...] = ()
    job_id: str | None = None
    step_id: str | None = None
    cluster: str | None = None
    user: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    world_size: int | None = None
    file: str = ""
    stem: str = ""


def in_order(pieces: Sequence[Samples]) -> Iterator[Samples]:
    """Sort the rows of all pieces by time; rows of equal times stay in the order of the pieces. Yields new pieces that
    all have the same metrics, NaN where a row had none; nothing if there are no pieces."""
    if not pieces:
        return
    time = np.concatenate([piece.time for piece in pieces])
    gpu = np.concatenate([piece.gpu for piece in pieces])
    names = dict.fromkeys(name for piece in pieces for name in piece.values)
    values = {
        name: np.concatenate([piece.values.get(name, np.full(len(piece.time), np.nan)) for piece in pieces])
        for name in names
    }
    order = np.argsort(time, kind="stable")
    for begin in range(0, len(order), _ROWS):
        rows = order[begin : begin + _ROWS]
        yield Samples(gpu[rows], time[rows], {name: column[rows] for name, column in values.items()})


def plain(text: object, most: int = 80) -> str:
    """Make any text from a file fit for a sentence: on one line, unprintable characters replaced by ?, at most ``most``
    characters."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(str(text).split()))[:most]
