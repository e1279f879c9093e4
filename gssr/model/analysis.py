"""What an analysis of a run holds. Every page, picture and JSON object is drawn from this and nothing else."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gssr.gpu_name import place
from gssr.model.roofline import Place, Unplaced
from gssr.model.verdict import Abstention, Verdict
from gssr.peaks import Peaks
from gssr.store.reader import Event, Run

if TYPE_CHECKING:
    from gssr.model.phases import Phase
    from gssr.model.unevenness import Unevenness

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
class Analysis:
    """One run (or a window and a selection of it), analysed.

    ``metrics`` has every metric asked for, in the catalogue's order, ``flop_active`` among them, ``clock_event_reasons``
    apart: that is ``clock_event_reasons``, the share of samples in which each flag was set (empty: not measured).
    ``series`` and ``gpu_series`` hold the metrics drawn that have samples. ``gpus`` are sorted by node, device_index, uuid.
    ``exact`` is False when percentiles come from the sketch. ``notes`` are sentences about the data (never about the job):
    damage, gaps, metrics missing, GPUs without samples. ``imbalance``
    is SM active's, whatever was asked for. ``host`` is None when nothing was recorded of the nodes. ``verdicts`` are the
    worst first, and causes before what they explain; ``abstentions`` the rules that could not be judged; ``phases`` are in
    the order of time. ``unevenness`` is None where there are no two GPUs to compare. ``peaks`` are those of all GPUs, None
    where they are unknown; ``place`` is where the run lies under the roofline, None where that was not looked at.
    ``ranks_missing`` are those that are not in the recording, None where nobody knows how many there are.
    """

    run: Run
    state: str
    window: Window
    backend: str | None
    gpus: tuple[GpuSummary, ...]
    n_nodes: int
    n_samples: int
    n_gaps: int
    score: float | None
    metrics: dict[str, Statistics]
    balance: dict[str, Balance]
    clock_event_reasons: dict[str, float]
    energy_j: float | None
    gpu_hours: float
    exact: bool
    series: dict[str, Series]
    gpu_series: dict[str, GpuSeries]
    events: tuple[Event, ...]
    notes: tuple[str, ...]
    imbalance: float | None = None
    host: HostUse | None = None
    verdicts: tuple[Verdict, ...] = ()
    abstentions: tuple[Abstention, ...] = ()
    phases: "tuple[Phase, ...]" = ()
    unevenness: "Unevenness | None" = None
    peaks: Peaks | None = None
    place: Place | Unplaced | None = None
    ranks_missing: tuple[int, ...] | None = None
