"""The raw rows of a run chunk by chunk, several at a time: for what looks at all of them and remembers little."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from gssr.arrays import Ints
from gssr.metrics import BY_NAME
from gssr.store.moments import derive
from gssr.store.raw import Columns, in_threads
from gssr.store.reader import RunReader, Samples

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
    so many times fewer rows, evenly spread, gssr.store.raw.ROWS_TOGETHER at a time."""
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
