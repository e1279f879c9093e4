"""Everything that a run's files hold of it, in pieces, so that a run of any length takes little memory: for exports, merges
and fleets. Pages and screens ask the reader itself (gssr.store.read.recording)."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from gssr.arrays import Ints
from gssr.store.format.buckets import Buckets, join_buckets, merge_by_gpu, no_buckets
from gssr.store.format.layout import layout_of, part_of
from gssr.store.format.sample_arrays import Samples
from gssr.store.format.schema import LEVELS, TABLES
from gssr.store.read.recording import VECTORS_AT_ONCE, RunReader
from gssr.store.read.run_clocks import move_window
from gssr.store.read.samples import run_in_threads, select_metrics, stored_names
from gssr.store.read.samples_below import count_samples_below
from gssr.store.read.time_window import ALL_TIME, Window


def read_rows_in_pieces(reader: RunReader, names: Sequence[str], most: int) -> Iterator[Samples]:
    """Yield all raw rows of stored metrics, in file order, at most ``most`` at a time."""
    for part in reader._parts:
        for first, last in part.shard.samples.stretches(part.first, part.last, most, most):
            piece = part._replace(first=first, last=last)
            gpu, time, values = piece.raw(list(names), None, -math.inf, math.inf)
            yield Samples(gpu, time - part.ahead, values)


def count_below(reader: RunReader, name: str, limit: float) -> tuple[Ints, Ints]:
    """Count for each GPU, int64[n_gpus], the samples of a stored metric below ``limit`` (to within a sketch's bin:
    gssr.store.read.samples_below), and all of its samples."""
    n_gpus = len(reader.gpus)
    found, known = np.zeros(n_gpus, np.int64), np.zeros(n_gpus, np.int64)
    for part in reader._parts:
        own = count_samples_below(part, name, limit, n_gpus)
        found, known = found + own[0], known + own[1]
    return found, known


def read_use_rows(reader: RunReader, table: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the run's rows of ``host_samples`` or ``workload_samples`` in batches, in file order, with the schema's
    columns; times are by the run's clock."""
    node_of = {process.rank: process.node for process in reader.processes}

    def ahead_of(owner: Any) -> float:
        return reader.clocks.of(owner if isinstance(owner, str) else node_of.get(owner))

    for shard in reader._shards:
        columns = ", ".join(shard.host_use.selected(table, [column.name for column in TABLES[table]]))
        for rows in shard.file.rows(f"SELECT {columns} FROM {table} WHERE run_id = ?", (reader.run.run_id,)):
            yield [(row[0], row[1], row[2] - ahead_of(row[1]), *row[3:]) for row in rows] if reader.clocks else rows


Result = TypeVar("Result")


def look_at_chunks(
    reader: RunReader,
    look: Callable[[Samples], Result],
    names: Sequence[str],
    gpus: Ints | None = None,
    window: Window = ALL_TIME,
    every: int = 1,
) -> Iterator[Result]:
    """Call ``look`` with each chunk of the run's raw rows, in threads, and yield what it returns, in the order of the
    files.

    Args:
        reader: The run.
        look: Called with some rows, GPUs as positions and times by the run's clock.
        names: The metrics, derived ones too, whose values the rows have.
        gpus: Positions of the GPUs; None: all.
        window: The times that count, unix s.
        every: Read only about one in so many rows, evenly spread, gssr.store.read.samples.ROWS_TOGETHER at a time.

    Rows of a GPU that ranks sampled in turns come file after file, so not in the order of time.
    """

    def looked(ahead: float, read: Callable[[], Samples]) -> Result:
        gpu, time, values = select_metrics(read(), names)
        return look(Samples(gpu, time - ahead if ahead else time, values))

    stored = stored_names(names)
    pieces = (
        partial(looked, part.ahead, read)
        for part in reader._parts
        for read in part.pieces(stored, gpus, *move_window(window, part.ahead), every)
    )
    return run_in_threads(pieces)


def is_in_turns(reader: RunReader) -> bool:
    """Tell whether the rows of a GPU are in several files."""
    return reader._places.in_turns


def merge_window_by_gpu(
    reader: RunReader, names: Sequence[str] | None, gpus: Ints | None, window: Window, gap_seconds: float
) -> Iterator[Buckets]:
    """Merge what covers a window into one bucket for each GPU that has samples, and yield them for some GPUs at a time,
    ascending, so that memory stays small.

    Args:
        names: metrics; None for all.
        gpus: positions; None for all.
        gap_seconds: more than this between two samples of a GPU is a gap.
    """
    wanted = np.arange(len(reader.gpus)) if gpus is None else gpus
    span = window.close_at(reader.first_time, reader.last_time)
    of_each = max(span.end - span.start, 0.0) / LEVELS[-1]
    rows = reader.n_rows / max(len(reader.gpus), 1)  # one wrong clock, and years may lie between two
    of_each = min(of_each + _estimate_finer_buckets(-window.start) + _estimate_finer_buckets(window.end), rows)
    at_once = max(1, int(VECTORS_AT_ONCE / max(of_each, 1e-9)))
    layout = layout_of(reader.metrics) if names is None else part_of(layout_of(reader.metrics), names)
    for number in range(0, len(wanted), at_once):
        own = wanted[number : number + at_once]
        asked = None if len(own) == len(reader.gpus) else own
        windows = [window] if of_each <= VECTORS_AT_ONCE else _cut_by_buckets(reader, own, window)
        merged = no_buckets(layout)
        for piece in windows:
            covering = reader.buckets(piece, gpus=asked, names=names, as_one=True)
            merged = merge_by_gpu(join_buckets([merged, covering], layout), gap_seconds)
        yield merged


def _estimate_finer_buckets(seconds: float) -> float:
    """Estimate how many finer rollups, and pieces of one, a GPU has where a window goes on for so many seconds after
    the last of the coarsest."""
    if not math.isfinite(seconds):
        return 0.0
    return sum(seconds % coarse // fine for fine, coarse in pairwise(LEVELS)) + bool(seconds % LEVELS[0])


def _cut_by_buckets(reader: RunReader, gpus: Ints, window: Window) -> list[Window]:
    """Cut a window into pieces that each hold at most VECTORS_AT_ONCE of the coarsest buckets with samples."""
    step = LEVELS[-1]
    buckets = np.unique(np.floor(reader.samples((), gpus, window).time / step))
    cuts = (buckets[VECTORS_AT_ONCE::VECTORS_AT_ONCE] * step).tolist()
    return window.at(cuts)
