"""Everything that a run's files hold of it, in pieces: a run of any length in little memory. What belongs to the reader, and
is not asked for by pages and screens.

The raw rows of a run chunk by chunk, several at a time: for what looks at all of them and remembers little.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from gssr.arrays import Ints
from gssr.metrics import BY_NAME
from gssr.store.format.schema import TABLES
from gssr.store.format.vectors import derive
from gssr.store.read.count_below import count_below
from gssr.store.read.recording import RunReader, Samples
from gssr.store.read.samples import Columns, in_threads


def in_pieces(reader: RunReader, names: Sequence[str], most: int) -> Iterator[Samples]:
    """All raw rows of stored metrics, in file order and at most ``most`` at a time."""
    for part in reader._parts:
        for first, last in part.shard.raw.stretches(part.first, part.last, most, most):
            piece = part._replace(first=first, last=last)
            gpu, time, values = piece.raw(list(names), None, -math.inf, math.inf)
            yield Samples(gpu, time, values)


def below(reader: RunReader, name: str, limit: float) -> tuple[Ints, Ints]:
    """Of each GPU, int64[n_gpus]: how many samples of a stored metric are below ``limit`` (to within a sketch's bin:
    gssr.store.read.count_below), and how many samples of it there are."""
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


Result = TypeVar("Result")


def each_chunk(
    reader: RunReader,
    look: Callable[[Samples], Result],
    names: Sequence[str],
    gpus: Ints | None = None,
    start: float | None = None,
    end: float | None = None,
    every: int = 1,
) -> Iterator[Result]:
    """What ``look`` says of each chunk, in the order of the files; it is called in threads. The arguments after it are those
    of ``RunReader.samples``, but that rows of a GPU that ranks sampled in turns come file after file. With ``every`` about
    so many times fewer rows, evenly spread, gssr.store.read.samples.ROWS_TOGETHER at a time."""
    wanted = list(dict.fromkeys(part for name in names for part in BY_NAME[name].parts or (name,)))
    bounds = -math.inf if start is None else start, math.inf if end is None else end

    def looked(read: Callable[[], Columns]) -> Result:
        gpu, time, values = read()
        for name in names:
            if BY_NAME[name].derived:
                values[name] = derive(values, BY_NAME[name].parts)
        return look(Samples(gpu, time, {name: values[name] for name in names}))

    pieces = (read for part in reader._parts for read in part.pieces(wanted, gpus, *bounds, every))
    return in_threads(partial(looked, read) for read in pieces)


def in_turns(reader: RunReader) -> bool:
    """Whether the rows of a GPU are in several files."""
    return reader._places.in_turns
