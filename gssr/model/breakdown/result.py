"""Where the GPU time of a window went, as numbers: what pages, screens, JSON and comparisons read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS, UNKNOWN_WORK

Confidence = Literal["measured", "inferred", "guess"]
"""How a share is known: by a counter of its own; from several that fit together; or from one that has other causes too."""


class Efficiency(NamedTuple):
    """The efficiencies of POP and TALP for GPUs, ratios 0-1; their product is ``parallel``.

    ``load_balance``: how much the GPUs compute on average, of what the one that computes most does. ``communication``:
    the share of computing in the time in which the busiest GPU computes or communicates. ``orchestration``: that time
    as a share of the window; in the rest the host left the GPU without work. Source: TALP, arXiv 2603.26576.
    """

    load_balance: float
    communication: float
    orchestration: float

    @property
    def parallel(self) -> float:
        """The share of the GPU time that computes."""
        return self.load_balance * self.communication * self.orchestration


@dataclass(frozen=True)
class Breakdown:
    """Where the GPU time of a window went.

    ``by_gpu`` [n_gpus, n_categories] and ``over_time`` [n_bins, n_categories], the latter over all GPUs, are GPU-seconds by
    category in the order of CATEGORIES. ``nodes`` are the nodes' names, ``node_of`` [n_gpus] numbers them. The bins begin
    at ``times`` (unix s) and are ``width`` seconds long. ``resolution`` is the length of what a sample tells, s: shorter
    waits are shares of a mixture. ``error`` [n_categories]: by how much each share differs between every other bin and the
    rest, half of it; or, if that is more, by how much it differs if each half of the window is booked by itself.
    ``confidence``: how each is known. ``labels``: what categories, by name, are called here in place of their own label.
    ``is_matched_by_name``: whether communication is inferred from kernels of the same name on several GPUs.
    """

    by_gpu: Floats
    over_time: Floats
    nodes: tuple[str, ...]
    node_of: Ints
    times: Floats
    width: float
    resolution: float
    error: Floats
    confidence: tuple[Confidence, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    is_matched_by_name: bool = False

    def label(self, at: int) -> str:
        """Say what GPUs do in the category at this position in CATEGORIES."""
        return self.labels.get(CATEGORIES[at].name, CATEGORIES[at].label)

    def lost_to(self, at: int) -> str:
        """Say the same at the end of "25 % is ..."."""
        return self.labels.get(CATEGORIES[at].name, CATEGORIES[at].lost_to)

    def known_by(self, at: int) -> str:
        """Say how the category at this position in CATEGORIES is known."""
        is_by_name = self.is_matched_by_name and CATEGORIES[at].branch == "communication"
        return "matched by name" if is_by_name else self.confidence[at]

    @property
    def is_work_unknown(self) -> bool:
        """Whether nothing tells one kind of work from another."""
        return self.label(POSITIONS["working.other"]) == UNKNOWN_WORK

    @property
    def gpu_seconds(self) -> float:
        """The time of all GPUs together, measured or not, s."""
        return float(self.by_gpu.sum())

    @property
    def shares(self) -> Floats:
        """Shares of all time by category [n_categories]; NaN where there is no time."""
        total = self.gpu_seconds
        return np.asarray(self.by_gpu.sum(axis=0) / total if total else np.full(len(CATEGORIES), np.nan), np.float64)

    @property
    def shares_by_gpu(self) -> Floats:
        """Shares of each GPU's time by category [n_gpus, n_categories]; NaN where it has none."""
        return _shares(self.by_gpu)

    @property
    def shares_by_node(self) -> Floats:
        """Shares of the time of each node's GPUs by category [n_nodes, n_categories]; NaN where it has none."""
        seconds = np.zeros((len(self.nodes), len(CATEGORIES)))
        known = self.node_of >= 0
        np.add.at(seconds, self.node_of[known], self.by_gpu[known])
        return _shares(seconds)

    def with_unmeasured_gpus(self, places: Ints, n_gpus: int, seconds: float) -> "Breakdown":
        """Add GPUs that were never sampled, each unmeasured for ``seconds``, which are spread over time as those of the
        sampled GPUs are. The GPUs of this breakdown get the positions ``places`` among ``n_gpus``. The others belong to
        no node of ``nodes``: their ``node_of`` is -1."""
        by_gpu, node_of = np.zeros((n_gpus, len(CATEGORIES))), np.full(n_gpus, -1, np.int64)
        by_gpu[:, positions_of("unmeasured")] = seconds
        by_gpu[places], node_of[places] = self.by_gpu, self.node_of
        over_time, of_bins = self.over_time.copy(), self.over_time.sum(axis=1)
        added = by_gpu.sum() - self.gpu_seconds
        over_time[:, positions_of("unmeasured")] += (added * of_bins / max(self.gpu_seconds, 1e-9))[:, None]
        return replace(self, by_gpu=by_gpu, over_time=over_time, node_of=node_of)

    @property
    def largest_loss(self) -> int | None:
        """The position in CATEGORIES of the category with the largest share of the time of all GPUs, not counting useful
        work: the categories whose name begins with "working." and that are no loss. So start-up, end and unmeasured time
        are among those compared, although they are no losses.

        Of equal ones the first counts, which may have a share of 0. None only if shares are unknown, as when the
        breakdown holds no time.
        """
        shares = self.shares
        if not np.isfinite(shares).all():
            return None
        lost = [at for at, each in enumerate(CATEGORIES) if not each.name.startswith("working.") or each.is_loss]
        return max(lost, key=lambda at: float(shares[at]))

    def share(self, name: str) -> float:
        """Compute the share of a category, or of a branch: the sum over its leaves. NaN where there is no time, 0 for
        an unknown name."""
        return float(self.shares[positions_of(name)].sum())

    def share_over_time(self, name: str) -> Floats:
        """Compute the share of a category or a branch in each bin [n_bins]; 0 in a bin outside the window."""
        total = self.over_time.sum(axis=1)
        own = self.over_time[:, positions_of(name)].sum(axis=1)
        return np.asarray(np.divide(own, total, out=np.zeros(len(total)), where=total > 0), np.float64)

    def gpus_with_most(self, name: str) -> list[int]:
        """Find the GPUs that most of a category falls on: those with at least twice its mean share, or all that have
        any if none stands out. Returns positions, ascending; empty where no GPU has any."""
        own = self.by_gpu[:, positions_of(name)].sum(axis=1)
        if not own.any():
            return []
        most = np.flatnonzero(own >= 2 * own.mean())
        found: list[int] = (most if len(most) else np.flatnonzero(own > 0)).tolist()
        return found

    def spans(self, name: str, most: int) -> list[list[float]]:
        """Find when a category is clearly there: stretches of bins in which it has at least a tenth of the GPU time,
        and at least half of what it has on average. Returns [start, end] (unix s) of the ``most`` longest, in the order
        of time; empty where there is none."""
        share = self.share_over_time(name)
        there = share >= max(0.1, 0.5 * self.share(name))
        edges = np.flatnonzero(np.diff(np.concatenate(([False], there, [False])).astype(np.int8)))
        found = sorted(zip(edges[::2], edges[1::2], strict=True), key=lambda pair: pair[0] - pair[1])[:most]
        begins, ends = np.array(self.times), self.times + self.width
        if len(begins) > 1:  # the window holds a part of its first bin and of its last
            missing = self.width - self.over_time[[0, -1]].sum(axis=1) / max(len(self.by_gpu), 1)
            missing[missing < 1e-4 * self.width] = 0.0  # rounding
            begins[0] += missing[0]
            ends[-1] -= missing[1]
        return [[float(begins[first]), float(ends[end - 1])] for first, end in sorted(found)]

    @property
    def efficiency(self) -> Efficiency | None:
        """The efficiencies whose product is the share that computes of the time that was measured; None where no GPU
        computed."""
        measured = self.by_gpu.sum(axis=1) - self.by_gpu[:, positions_of("unmeasured")].sum(axis=1)
        computes = self.by_gpu[:, positions_of("working")].sum(axis=1)
        busy = computes + self.by_gpu[:, positions_of("communication")].sum(axis=1)
        counts = measured > 0
        if not counts.any() or not computes.any():
            return None
        elapsed = measured[counts]
        computes, busy = computes[counts] / elapsed, busy[counts] / elapsed
        return Efficiency(
            float(computes.mean() / computes.max()), float(computes.max() / busy.max()), float(busy.max())
        )


@cache
def positions_of(name: str) -> list[int]:
    """Find the positions in CATEGORIES of a category, or of all leaves of a branch; empty for an unknown name."""
    return [at for at, each in enumerate(CATEGORIES) if name in (each.name, each.branch)]


def _shares(seconds: Floats) -> Floats:
    """Divide seconds [..., n_categories] by their sum over the categories; NaN where that is 0."""
    total = seconds.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(seconds, total, out=np.full(seconds.shape, np.nan), where=total > 0), np.float64)
