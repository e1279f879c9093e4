"""Timelines of ranks that send messages, by hand."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gssr.traces.timeline import (
    NO_TIME,
    Clock,
    Collectives,
    FileUse,
    Intervals,
    Kind,
    Messages,
    Timeline,
    TraceSource,
    Track,
)


def _numbers(values: Sequence[int], kind: type[np.signedinteger] = np.int64) -> NDArray[np.signedinteger]:
    return np.array(values, kind)


def exchanging(n_ranks: int, messages: Sequence[tuple[int, int, int, int | None, int]]) -> Timeline:
    """``n_ranks`` ranks, two on a node, that last 1,000 ns, and messages: from, to, sent, received (None: not read), bytes.
    Each takes part in one barrier from its rank's ns on until 100, and reads 10 bytes of the file "data" in 5 ns."""
    tracks = tuple(Track("cpu_thread", f"rank {rank}", rank, f"node{rank // 2}", rank) for rank in range(n_ranks))
    ranks = list(range(n_ranks))
    zeros, start = [0] * n_ranks, [min(rank, 99) for rank in ranks]
    source, target, sent, received, size = zip(*messages, strict=True) if messages else ((),) * 5
    of_ranks = _numbers(ranks, np.int32)
    return Timeline(
        (TraceSource("scorep", "otf2", "Score-P"),), Clock(), tracks, ("main", "read"),
        Intervals(
            _numbers(zeros), _numbers([1000] * n_ranks), of_ranks, _numbers(zeros, np.int32),
            _numbers([Kind.RANGE] * n_ranks, np.int8), _numbers([5] * n_ranks, np.int8), _numbers([-1] * n_ranks),
            _numbers([-1] * n_ranks), _numbers([-1] * n_ranks, np.int8),
        ),
        domains={"main": "user", "read": "I/O"},
        messages=Messages(
            _numbers(source, np.int32), _numbers(target, np.int32), _numbers(sent),
            _numbers([NO_TIME if each is None else each for each in received]), _numbers(size),
            _numbers([0] * len(source), np.int32), ("world",),
            Collectives(
                of_ranks, _numbers(start), _numbers([100 - each for each in start]), _numbers(zeros, np.int8),
                _numbers(zeros, np.int32), _numbers(zeros), _numbers(zeros), _numbers([start[-1] - each for each in start]),
            ),
        ),
        io=FileUse(
            of_ranks, _numbers([200] * n_ranks), _numbers([5] * n_ranks), _numbers(zeros, np.int32),
            _numbers(zeros, np.int8), _numbers([1] * n_ranks, np.int32), _numbers(zeros, np.int32),
            _numbers([10] * n_ranks), ("data",), ("POSIX I/O",),
        ),
    )  # fmt: skip
