"""What an analysis of a run holds. Every page, picture and JSON object is drawn from this and nothing else."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats
from gssr.gpu_name import place
from gssr.model.roofline import Place, Unplaced
from gssr.model.verdict import Abstention, Verdict
from gssr.peaks import Peaks
from gssr.store.reader import Event, Run



@dataclass(frozen=True, slots=True)
class Statistics:
    """Over all non-NULL samples of all GPUs, in the metric's unit; ``std`` has ddof 0. ``n`` samples; with n = 0 all others
    are None. ``p_error`` bounds the absolute error of median, p05 and p95: 0 when they are exact, None when unknown. From
    rollups, of a counter only ``n`` is known, and ``min`` and ``max`` where it was never set back."""

    mean: float | None
    median: float | None
    min: float | None
    max: float | None
    std: float | None
    p05: float | None
    p95: float | None
    n: int
    p_error: float | None


class GpuMeans(Mapping[str, float | None]):
    """One GPU's means of the metrics ``names``: a row of ``columns`` [n_sampled], NaN without samples, which all GPUs
    share. Dictionaries of a hundred thousand GPUs would take a hundred times as much memory."""

    __slots__ = ("_columns", "_gpu", "_names")

    def __init__(self, names: Mapping[str, None], columns: Mapping[str, Floats], gpu: int) -> None:
        self._names, self._columns, self._gpu = names, columns, gpu

    def __getitem__(self, name: str) -> float | None:
        if name not in self._names:
            raise KeyError(name)
        column = self._columns.get(name)
        value = math.nan if column is None else float(column[self._gpu])
        return value if value == value else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """One GPU over the window. ``mean`` by metric name, None where it has no samples (a GpuMeans). ``memory_total`` (bytes),
    ``power_limit`` (W) and ``max_sm_clock`` (MHz) are the full scales of memory_used, power_usage and sm_clock. ``mig``
    names the MIG instance, None of a whole GPU."""

    gpu: int
    node: str | None
    rank: int | None
    device_index: int | None
    uuid: str | None
    name: str | None
    n_samples: int
    n_gaps: int
    score: float | None
    mean: Mapping[str, float | None]
    memory_total: int | None = None
    power_limit: float | None = None
    max_sm_clock: int | None = None
    mig: str | None = None

    @property
    def place(self) -> str:
        """What it is called (gssr.gpu_name.place)."""
        return place(self)


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly GPUs ran, by their time means of one metric. ``imbalance`` = 1 - mean/max of those means, None when the
    max is 0 or unknown. ``lowest`` and ``highest`` are None when no GPU has samples."""

    imbalance: float | None
    lowest: GpuSummary | None
    highest: GpuSummary | None


@dataclass(frozen=True, slots=True)
class Series:
    """One metric averaged over space: bins of ``width`` seconds from ``start`` (unix s). ``mean``, ``low`` and ``high`` are
    the mean, least and greatest over the GPUs that have a value in the bin (NaN: none); ``n_gpus`` counts them."""

    metric: str
    start: float
    width: float
    mean: Floats
    low: Floats
    high: Floats
    n_gpus: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """Every GPU's own series of one metric, in the order of ``Analysis.gpus``: ``values`` is [n_gpus, n_bins], NaN for a
    bin without samples; bins as in Series."""

    metric: str
    start: float
    width: float
    values: Floats


@dataclass(frozen=True, slots=True)
class Window:
    """The time looked at, unix s. ``leading`` and ``trailing`` are the seconds that --detect-outliers left out at each
    end; ``whole`` is True when it is the whole run."""

    start: float
    end: float
    leading: float
    trailing: float
    whole: bool

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class HostUse:
    """What the nodes and the workload's processes did in the window; None where it was not measured.

    ``cpu_utilization`` (ratio), ``load1`` and the four rates (bytes/s) are means over all nodes and seconds; ``memory_used``
    and ``memory_total`` (bytes) the greatest of any node. ``workload_cpu`` is the number of cores kept busy: the sum over
    ranks of their means; ``workload_rss`` (bytes) and ``workload_processes`` the sums of the ranks' greatest."""

    cpu_utilization: float | None
    load1: float | None
    memory_used: float | None
    memory_total: float | None
    read_bytes: float | None
    write_bytes: float | None
    net_rx_bytes: float | None
    net_tx_bytes: float | None
    workload_cpu: float | None
    workload_rss: float | None
    workload_processes: float | None


