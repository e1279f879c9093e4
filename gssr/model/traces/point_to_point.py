"""Kernels in which two ranks communicate, told apart from those of all ranks: they spin until the other side is there."""

import re

import numpy as np

from gssr.arrays import Flags
from gssr.model.traces.launches import Links
from gssr.model.traces.part import TracePiece
from gssr.model.traces.segments import union
from gssr.traces.timeline import Category, Kind

_SEND_RECEIVE = re.compile(r"SendRecv|^(?:send|recv|collective-permute)[-.\d]")
"""Kernels of NCCL and RCCL, and operations of XLA."""
_ALL_TO_ALL = re.compile(r"all_?to_?all", re.IGNORECASE)
"""Operators and ranges whose kernels NCCL calls SendRecv, too, but in which all ranks communicate."""


def point_to_point(part: TracePiece, links: Links) -> Flags | None:
    """Flag the intervals [n] that are kernels which send to or receive from another rank, launched outside operations
    of all ranks. None if there is no such kernel at all."""
    if not any(map(_SEND_RECEIVE.search, part.timeline.names)):
        return None
    own = part.timeline.intervals
    is_one = part.is_named(links.rows, _SEND_RECEIVE.search)
    is_one &= part.category[links.rows] == Category.COMMUNICATION
    if not is_one.any():
        return None
    rows, call = links.rows[is_one], links.call[is_one]
    of_all = np.zeros(len(rows), np.bool_)
    operations = part.named(_ALL_TO_ALL.search, Kind.CPU_OP, Kind.RANGE)
    operations = operations[np.argsort(own.track[operations], kind="stable")]
    linked = np.flatnonzero(call >= 0)
    linked = linked[np.argsort(own.track[call[linked]], kind="stable")]
    threads = np.unique(own.track[operations])
    edges = [*zip(*(np.searchsorted(own.track[operations], threads, side) for side in ("left", "right")), strict=True)]
    called = [
        *zip(*(np.searchsorted(own.track[call[linked]], threads, side) for side in ("left", "right")), strict=True)
    ]
    for (first, last), (low, high) in zip(edges, called, strict=True):
        covered = union(*part.times(operations[first:last]))
        mine = linked[low:high]
        begins = part.start[call[mine]]
        place = np.searchsorted(covered.start, begins, "right") - 1
        of_all[mine] = (place >= 0) & (covered.end[place] > begins)
    found = np.zeros(len(own), np.bool_)
    found[rows[~of_all]] = True
    return found
