"""Pipelines: which ranks are its stages, how much of their time is bubble, and who waits for whom.

The n-th send from one rank to another and the n-th receive there are one transfer, if there are as many of both: whichever
kernel starts first waits until the other one starts. Ranks that send to each other in a row, without branches or rings, are
a pipeline. Its first stage is the end that sends before it receives."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gssr.arrays import Ints
from gssr.model.traces.part import TracePiece
from gssr.model.traces.point_to_point import transfer_kernels
from gssr.model.traces.trace_results import GpuUse, TraceAnalysis, Transfers
from gssr.traces.timeline import Kind


class TransferWait(NamedTuple):
    """How long ``rank`` waited for ``other`` in their ``n`` transfers, whichever of them sent; ns."""

    rank: int
    other: int
    n: int
    wait_ns: int


class Stage(NamedTuple):
    """A GPU as the ``stage`` (from 0) of a ``pipeline`` (number) with ``n_stages``. ``bubble_ns``: the job's time in which
    the GPU was idle, or did nothing but send and receive; ``share``: of the job's time. ``micro_batches``: what the first
    stage sends to the second in a step, None without steps or where that is not a whole number; ``ideal``: (p - 1) / (m + p
    - 1), the share of p stages that take equally long with m micro-batches, None without these."""

    pipeline: int
    stage: int
    n_stages: int
    rank: int
    place: str
    bubble_ns: int
    share: float
    micro_batches: int | None
    ideal: float | None


def transfers_of(part: TracePiece) -> tuple[Transfers, ...]:
    """Find the kernels whose other rank the trace tells, GPU by GPU."""
    rows, peer, is_send = transfer_kernels(part, part.rows(Kind.KERNEL))
    gpu = part.gpu_of[part.timeline.intervals.track[rows]]
    return tuple(
        Transfers(part.gpus[at], *part.times(rows[gpu == at]), peer[gpu == at], is_send[gpu == at])
        for at in np.unique(gpu).tolist()
    )


def transfer_waits(trace: TraceAnalysis) -> tuple[TransferWait, ...]:
    """Add up who waited for whom, the longest first; transfers of which one end was not read do not count."""
    of_rank = _by_rank(trace)
    found: list[TransferWait] = []
    for rank, own in of_rank.items():
        for other in np.unique(own.peer).tolist():
            far = of_rank.get(other)
            if far is None or far.clock != own.clock:
                continue
            n = wait = 0
            for sends in (True, False):
                mine, theirs = _ends(own, other, sends), _ends(far, rank, not sends)
                if len(mine[0]) == len(theirs[0]):
                    n += len(mine[0])
                    wait += int(np.maximum(np.minimum(theirs[0], mine[1]) - mine[0], 0).sum())
            if n:
                found.append(TransferWait(rank, other, n, wait))
    return tuple(sorted(found, key=lambda each: (-each.wait_ns, each.rank, each.other)))


def stages(trace: TraceAnalysis) -> tuple[Stage, ...]:
    """Find the pipelines of a run, and their stages in order; none where the trace does not tell to whom ranks send."""
    of_rank = _by_rank(trace)
    uses: dict[int, GpuUse] = {gpu.rank: gpu for gpu in trace.gpus if gpu.rank is not None}
    steps: dict[int | None, int] = {}
    for step in trace.steps:
        steps[step.rank] = steps.get(step.rank, 0) + 1
    length = 0 if trace.extent is None else trace.extent[1] - trace.extent[0]
    found: list[Stage] = []
    for number, chain in enumerate(_chains(of_rank)):
        sent, p, n_steps = len(_ends(of_rank[chain[0]], chain[1], True)[0]), len(chain), steps.get(chain[0], 0)
        m = sent // n_steps if n_steps and sent and sent % n_steps == 0 else None
        for at, rank in enumerate(chain):
            use = uses[rank]
            bubble = length - use.busy_ns + use.exposed_p2p_ns
            ideal = None if m is None else (p - 1) / (m + p - 1)
            found.append(Stage(number, at, p, rank, use.place, bubble, bubble / max(length, 1), m, ideal))
    return tuple(found)


def _by_rank(trace: TraceAnalysis) -> dict[int, Transfers]:
    """Return the transfers of each rank that has one GPU with any."""
    ranks = [each.track.rank for each in trace.transfers]
    return {
        rank: each
        for rank, each in zip(ranks, trace.transfers, strict=True)
        if rank is not None and ranks.count(rank) < 2
    }


def _ends(own: Transfers, other: int, sends: bool) -> tuple[Ints, Ints]:
    """Return the starts and ends of the kernels that send to the other rank, or that receive from it."""
    mine = (own.peer == other) & (own.is_send == sends)
    return own.start[mine], own.end[mine]


def _chains(of_rank: Mapping[int, Transfers]) -> list[list[int]]:
    """Find ranks that send to each other in a row, the first stage first; each end has one neighbour, all others two."""
    near = {rank: sorted(set(own.peer.tolist()) & set(of_rank)) for rank, own in of_rank.items()}
    found, seen = [], set[int]()
    for rank, own in of_rank.items():
        if len(near[rank]) != 1 or rank in seen or not own.is_send[own.start == own.start[0]].any():
            continue
        chain, last = [rank], -1
        while following := [one for one in near[chain[-1]] if one != last and one not in chain]:
            last = chain[-1]
            chain.append(following[0])
        if all(len(near[one]) == 2 for one in chain[1:-1]) and len(near[chain[-1]]) == 1:
            found.append(chain)
            seen |= set(chain)
    return found
