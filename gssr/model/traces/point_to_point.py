"""Kernels in which two ranks communicate, told apart from those of all ranks: they spin until the other side is there."""

import re

import numpy as np

from gssr.arrays import Flags, Ints
from gssr.model.traces.launches import Links, work_by_thread
from gssr.model.traces.part import TracePiece
from gssr.traces.timeline import RECEIVE, SEND, Category, Kind

_SEND_RECEIVE = re.compile(r"SendRecv|^(?:send|recv|collective-permute)[-.\d]")
"""Kernels of NCCL and RCCL, and operations of XLA."""
_ALL_TO_ALL = re.compile(r"all_?to_?all", re.IGNORECASE)
"""Operators and ranges whose kernels NCCL calls SendRecv, too, but in which all ranks communicate."""


def transfer_kernels(part: TracePiece, rows: Ints) -> tuple[Ints, Ints, Flags]:
    """Find, among rows of kernels, those that send to or receive from a rank that the trace tells. Returns these rows [n],
    the other rank of each, and whether it sends."""
    shapes, size = part.timeline.shapes, part.timeline.intervals.size
    peers = np.array([int(each.dims) if each.operator in (SEND, RECEIVE) else -1 for each in shapes] or [-1], np.int64)
    sends = np.array([each.operator == SEND for each in shapes] or [False])
    rows = rows[(size[rows] < -1) & (peers.max() >= 0)]
    rows = rows[peers[-2 - size[rows]] >= 0]
    return rows, peers[-2 - size[rows]], sends[-2 - size[rows]]


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
    work, launched_within = work_by_thread(part, Links(links.rows[is_one], links.call[is_one]))
    first, behind = launched_within(part.named(_ALL_TO_ALL.search, Kind.CPU_OP, Kind.RANGE))
    begun, ended = (np.bincount(places, minlength=len(work) + 1)[: len(work)] for places in (first, behind))
    found = np.zeros(len(own), np.bool_)
    found[links.rows[is_one]] = True
    found[work[np.cumsum(begun - ended) > 0]] = False
    return found
