"""Kernels of real GPUs, sampled as DCGM would, against where their traces say that the time went.

``tests/golden/traces/kernels`` holds when kernels and copies ran, of public traces. A bin stands for a second: traces of
parts of a second are looked at in slow motion (``resolved``), or go on and on while a bin is as long as 0.73 of them
(``mixed``). What a trace does not tell is taken to be as counters usually are: work keeps 0.9 of the SMs busy, a collective
0.16. Ranks that communicate are taken to have three others that do the same.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from timelines import Events, gpu

from gssr.model.account.activity import IDLE_ACTIVITY
from gssr.model.account.book import account_for
from gssr.model.breakdown.result import Breakdown
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.segments import Segments, union, without
from gssr.traces.timeline import Kind
from tests.model.evidences import evidence

FOLDER = Path(__file__).parents[2] / "golden" / "traces" / "kernels"
FILES = sorted(FOLDER.glob("*.npz"))
N = 60
DENSE, COLLECTIVE = 0.9, 0.16
WORK, COMMUNICATION, COPY, BETWEEN_GPUS = range(4)
AS_EVENT = (
    ("gemm", Kind.KERNEL), ("ncclDevKernel_AllReduce", Kind.KERNEL), ("Memcpy HtoD", Kind.MEMCPY),
    ("Memcpy PtoP", Kind.MEMCPY),
)  # fmt: skip
NOTHING_RUNS = ("idle", "startup", "end", "unused")
MOST_ERROR = 0.05
"""Of a share: a collective's SM activity and that of work are known to so much of their distance."""
Floats = npt.NDArray[np.float64]


class Kernels(NamedTuple):
    """What ran on the GPUs of a trace: columns [n], ns."""

    window: tuple[int, int]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    sort: npt.NDArray[np.int8]
    gpu: npt.NDArray[np.int8]

    @property
    def n_gpus(self) -> int:
        return int(self.gpu.max()) + 1

    def covered(self, of: int, *sorts: int) -> Segments:
        """When any of these sorts runs on a GPU."""
        rows = np.flatnonzero((self.gpu == of) & np.isin(self.sort, sorts))
        return union(self.start[rows], self.start[rows] + self.length[rows])


def kernels(path: Path) -> Kernels:
    with np.load(path) as file:
        begin, end = file["window"].tolist()
        start = np.cumsum(np.concatenate([file["first"], file["step"].astype(np.int64)]))
        return Kernels((begin, end), start, file["length"].astype(np.int64), file["sort"], file["gpu"])


def truth(found: Kernels) -> Breakdown:
    """The trace's own breakdown of the window."""
    events = Events()
    for start, length, sort, number in zip(*(column.tolist() for column in found[1:]), strict=True):
        name, kind = AS_EVENT[sort]
        events.add(kind, name, start, length, gpu(number, number))
    own = analyze_timeline(events.timeline(), found.window).breakdown
    assert own is not None
    return own


def sampled(found: Kernels, is_mixed: bool) -> Breakdown:
    """What the account makes of the samples of the same time."""
    begin, end = found.window
    length = end - begin
    edges = np.arange(N + 1) * (0.73 * length if is_mixed else length / N)

    def share(times: Segments) -> Floats:
        """The share of each bin [N]; the trace repeats itself."""
        whole, rest = np.divmod(np.rint(edges).astype(np.int64), length)
        low = int(times.before(np.array([begin]))[0])
        total = int(times.before(np.array([end]))[0]) - low
        before = whole * total + times.before(begin + rest) - low
        return np.asarray(np.diff(before) / np.diff(edges), np.float64)

    work, spin, copy = (np.zeros((found.n_gpus, N)) for _ in range(3))
    for number in range(found.n_gpus):
        computes = found.covered(number, WORK)
        work[number] = share(computes)
        spin[number] = share(without(found.covered(number, COMMUNICATION), computes))
        copy[number] = share(found.covered(number, COPY))
    if found.n_gpus == 1 and spin.any():
        work, spin, copy = (np.repeat(values, 4, axis=0) for values in (work, spin, copy))
    values = {
        "gr_engine_active": work + spin, "sm_active": DENSE * work + COLLECTIVE * spin,
        "sm_occupancy": 0.4 * work + 0.05 * spin, "gpu_utilization": work + spin, "tensor_active": 0.2 * work,
        "dram_active": 0.4 * work + 0.05 * spin, "fp32_active": 0.1 * work, "fp16_active": 0.0 * work,
        "fp64_active": 0.0 * work, "nvlink_tx_bytes": 60e9 * spin, "nvlink_rx_bytes": 60e9 * spin,
        "pcie_rx_bytes": 20e9 * copy, "pcie_tx_bytes": 0.0 * copy, "power_usage": 120 + 500 * work + 130 * spin,
    }  # fmt: skip
    return account_for(evidence(len(work), N, noise=0.0, workload={"cpu": 0.5}, **values)).breakdown


def differences(found: Kernels, is_mixed: bool) -> dict[str, float]:
    """Estimate less truth, of the shares in which GPUs work, communicate, and do nothing."""
    estimate, own = sampled(found, is_mixed), truth(found)

    def nothing_runs(of: Breakdown) -> float:
        return sum(of.share(name) for name in NOTHING_RUNS)

    def measured(share: float) -> float:
        return share / (1 - own.share("unmeasured"))

    return {
        "working": estimate.share("working") - measured(own.share("working")),
        "communication": estimate.share("communication") - measured(own.share("communication")),
        "nothing runs": nothing_runs(estimate) - measured(nothing_runs(own)),
    }


@pytest.mark.parametrize("is_mixed", [False, True], ids=["resolved", "mixed"])
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_samples_tell_what_the_kernels_do(path: Path, is_mixed: bool) -> None:
    found = kernels(path)
    error = differences(found, is_mixed)
    assert abs(error["nothing runs"]) <= IDLE_ACTIVITY  # the engine's counter tells it
    assert sum(error.values()) == pytest.approx(0, abs=1e-6)
    assert error["communication"] <= MOST_ERROR
    if not is_mixed:  # bins that all hold the same mixture may hide communication, but never invent it
        assert error["communication"] >= -MOST_ERROR
