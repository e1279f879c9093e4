"""Everything that a run's files hold of it, in pieces: a run of any length in little memory. What belongs to the reader, and
is not asked for by pages and screens."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gssr.arrays import Ints
from gssr.store.below import count_below
from gssr.store.reader import RunReader, Samples
from gssr.store.schema import TABLES


def in_pieces(reader: RunReader, names: Sequence[str], most: int) -> Iterator[Samples]:
    """All raw rows of stored metrics, in file order and at most ``most`` at a time."""
    for part in reader._parts:
        for first, last in part.shard.raw.stretches(part.first, part.last, most, most):
            piece = part._replace(first=first, last=last)
            gpu, time, values = piece.raw(list(names), None, -math.inf, math.inf)
            yield Samples(gpu, time, values)


def below(reader: RunReader, name: str, limit: float) -> tuple[Ints, Ints]:
    """Of each GPU, int64[n_gpus]: how many samples of a stored metric are below ``limit`` (to within a sketch's bin:
    gssr.store.below), and how many samples of it there are."""
    n_gpus = len(reader.gpus)
    found, known = np.zeros(n_gpus, np.int64), np.zeros(n_gpus, np.int64)
    for part in reader._parts:
        own = count_below(part, name, limit, n_gpus)
        found, known = found + own[0], known + own[1]
    return found, known


def use_rows(reader: RunReader, table: str) -> Iterator[list[tuple[Any, ...]]]:
    """The run's rows of ``host_samples`` or ``workload_samples`` in batches, in file order; columns are the schema's."""
    columns = ", ".join(column.name for column in TABLES[table])
    for shard in reader._shards:
        yield from shard.file.rows(f"SELECT {columns} FROM {table} WHERE run_id = ?", (reader.run.run_id,))
