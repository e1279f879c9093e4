"""What the links of the GPUs carry: between GPUs, and to and from the host."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.account.activity import Activity
from gssr.model.account.compare_gpus import longer_than_others
from gssr.model.evidence.evidence import Evidence

NVLINK = ("nvlink_tx_bytes", "nvlink_rx_bytes")
PCIE = ("pcie_tx_bytes", "pcie_rx_bytes")
C2C = ("c2c_tx_bytes", "c2c_rx_bytes")
FABRIC = ("fabric_rx_bytes", "fabric_tx_bytes")
LEAST_BYTES = 3e9
"""A collective moves at least this many bytes a second while it transfers: GPUs are not joined by links slower than 25
Gbit/s."""
QUIET_BYTES = 1e6
"""A link that carries fewer bytes a second than this on average carries no data of the program."""
MIXED_SPREAD = 0.3
"""Samples that each hold whole steps differ by less than this in the share of them that is work, or idle."""


def gpu_link_bytes(evidence: Evidence) -> Floats:
    """Add up what a GPU's links carry to other GPUs, B/s and direction [n_gpus, n_bins]: NVLink; also PCIe if there is no
    NVLink, or there are several nodes, since network adapters lie behind it. 0 where it is not known."""
    total = _sum(evidence, NVLINK) / 2
    if len(evidence.nodes) > 1 or is_nvlink_quiet(evidence):
        total = total + _sum(evidence, PCIE) / 2
    return np.asarray(total, np.float64)


def is_nvlink_quiet(evidence: Evidence) -> bool:
    """Tell whether NVLink carries nothing, or is not there: then what GPUs of a node exchange passes PCIe."""
    return not any((evidence.mean(name) or 0.0) >= QUIET_BYTES for name in NVLINK)


def host_link_bytes(evidence: Evidence, fabric: Floats) -> Floats:
    """Add up what a GPU's links carry to and from the host, B/s [n_gpus, n_bins], without what goes through to network
    adapters: ``fabric`` [n_bins], B/s of a node, in equal parts of its GPUs."""
    per_node = max(evidence.n_gpus / max(len(evidence.nodes), 1), 1.0)
    return np.maximum(_sum(evidence, (*PCIE, *C2C)) - fabric / per_node, 0.0)


def one_way_bytes(evidence: Evidence) -> Floats:
    """Find how much more a GPU's links to the host carry in one direction than in the other, B/s [n_gpus, n_bins]."""
    sent, received = (_sum(evidence, names) for names in zip(PCIE, C2C, strict=True))
    return np.abs(sent - received)


def least_link_rate(evidence: Evidence) -> float:
    """Estimate the least that a GPU's links carry while its collectives transfer, B/s: between nodes adapters are
    slowest, and the GPUs of a node may share one."""
    n_nodes = len(evidence.nodes)
    return LEAST_BYTES * n_nodes / evidence.n_gpus if n_nodes > 1 else LEAST_BYTES


def transferring_share(evidence: Evidence, activity: Activity, communication: Floats) -> Floats:
    """Split communication into the share of each bin [n_gpus, n_bins] in which links transfer; in the rest GPUs wait.

    All GPUs take part in a collective, so none transfers for longer than those that communicate least, at the same time and
    in the whole window.
    Links that are busy move as many bytes a second as this job's collectives usually do.
    """
    if not communication.any():
        return communication
    inside = activity.is_known & activity.is_used[:, None]
    most = communication - np.minimum(longer_than_others(communication, inside, evidence), communication)
    if not any(name in evidence.series for name in (*NVLINK, *PCIE)):
        return most
    links = gpu_link_bytes(evidence)
    busy = communication > 0.05
    if not busy.any():
        return np.zeros_like(communication)
    rate, weight = links[busy] / communication[busy], links[busy]
    least = least_link_rate(evidence)
    share = np.minimum(most, links / max(weighted_median(rate, weight), least))
    return np.asarray(share * _possible_part(share, communication, activity), np.float64)


def _sum(evidence: Evidence, names: Sequence[str]) -> Floats:
    """Add up these metrics of each GPU in each bin [n_gpus, n_bins]; what was not measured counts 0."""
    total = np.zeros((evidence.n_gpus, len(evidence.times)))
    for name in names:
        if name in evidence.series:
            total += np.nan_to_num(evidence.series[name])
    return total


def _possible_part(transferring: Floats, communication: Floats, activity: Activity) -> Floats:
    """Find which part of each GPU's transfers [n_gpus, 1] is no longer than the least communicating GPU communicates; 1
    where a GPU transfers nothing."""
    if not activity.is_used.any():
        return np.ones((len(transferring), 1))
    seconds = np.where(_used_cells(activity), activity.seconds, 0.0)
    total = np.maximum(seconds.sum(axis=1), 1e-9)
    communicates = (communication * seconds).sum(axis=1) / total
    transfers = (transferring * seconds).sum(axis=1) / total
    least = float(communicates[activity.is_used].min())
    part = np.divide(least, transfers, out=np.ones(len(transfers)), where=transfers > 0)
    return np.asarray(np.minimum(part, 1.0)[:, None], np.float64)


def _used_cells(activity: Activity) -> Flags:
    """Flag the cells [n_gpus, n_bins] of GPUs that did something in which their activity is known."""
    return np.asarray(activity.is_known & activity.is_used[:, None], bool)


def weighted_median(values: Floats, weights: Floats) -> float:
    """Find the value at which half of the weight is reached; 0 where there is no weight."""
    order = np.argsort(values)
    mass = np.cumsum(weights[order])
    if not len(mass) or not mass[-1] > 0:
        return 0.0
    return float(values[order][np.searchsorted(mass, mass[-1] / 2)])
