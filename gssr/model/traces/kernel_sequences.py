"""Kernels that operators launch again and again in the same order: what could be fused, or captured as a graph."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from gssr.model.traces.add_rows import add_up
from gssr.model.traces.launches import Links, work_by_thread
from gssr.model.traces.lengths import KINDS
from gssr.model.traces.nesting import nesting
from gssr.model.traces.part import TracePiece
from gssr.model.traces.trace_results import KernelSequence
from gssr.traces.timeline import Kind

_LEAST, _MOST = 2, 200
"""A sequence has so many kernels: of one there is no order, and more than that are a whole pass of a model."""


def kernel_sequences(part: TracePiece, links: Links) -> tuple[KernelSequence, ...]:
    """Find the sequences of kernels that outermost operators launched at least twice, by operator, the most GPU time
    first."""
    own, names = part.timeline.intervals, part.timeline.names
    rows = part.rows(Kind.CPU_OP)
    if not len(rows):
        return ()
    is_kernel = np.isin(own.kind[links.rows], KINDS["kernels"])
    kernels, launched_within = work_by_thread(part, Links(links.rows[is_kernel], links.call[is_kernel]))
    depth, _ = nesting(part.start[rows], part.length[rows], own.track[rows])
    rows = rows[depth == 0]
    first, last = launched_within(rows)
    name, ns = own.name[kernels], np.concatenate([[0], np.cumsum(part.length[kernels])])
    some = np.flatnonzero((last - first >= _LEAST) & (last - first <= _MOST))
    found: dict[tuple[int, bytes], list[int]] = {}
    for row, low, high in zip(own.name[rows[some]].tolist(), first[some].tolist(), last[some].tolist(), strict=True):
        sums = found.setdefault((row, name[low:high].tobytes()), [0, 0])
        sums[0] += 1
        sums[1] += int(ns[high] - ns[low])
    return both_sequences(
        KernelSequence(names[at], tuple(names[one] for one in np.frombuffer(told, name.dtype).tolist()), n, gpu_ns)
        for (at, told), (n, gpu_ns) in found.items()
        if n > 1
    )


def both_sequences(*parts: Iterable[KernelSequence]) -> tuple[KernelSequence, ...]:
    """Add up the sequences of several files, the most GPU time first."""
    return tuple(sorted(add_up(chain(*parts), 2), key=lambda each: (-each.gpu_ns, each.operator, each.kernels)))
