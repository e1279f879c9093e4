"""Analyses built by hand: what every page, picture and JSON object is drawn from."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gssr.metrics import CLOCK_EVENT_REASONS, DERIVED, METRICS
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown
from gssr.model.results import (
    Analysis,
    AnalysisWindow,
    Finding,
    GpuSummary,
    Grid,
    HostUse,
    Judgement,
    Statistics,
    Verdict,
    over_space,
)
from gssr.model.statistics.balance import balance
from gssr.score import score_of_means
from gssr.store.format.rows import Event, RunRow

START = 1_700_000_000.0
DRAWN = ("sm_active", "tensor_active", "dram_active", "power_usage", "memory_used")
"""Metrics with series; a metric without samples has one of NaN."""
SCALES = {
    "sm_active": 1.0, "sm_occupancy": 0.45, "gr_engine_active": 1.05, "gpu_utilization": 1.2, "tensor_active": 0.45,
    "dram_active": 0.6, "fp16_active": 0.05, "fp32_active": 0.1, "fp64_active": 0.0, "flop_active": 0.6,
    "power_usage": 620.0, "memory_used": 7.2e10, "temperature": 70.0, "sm_clock": 1800.0, "nvlink_tx_bytes": 9e10,
    "nvlink_rx_bytes": 9e10, "pcie_rx_bytes": 2.5e9, "pcie_tx_bytes": 4e8, "energy": 4e6,
}  # fmt: skip
"""What each measured metric is where SM activity is 1."""
NAMES = tuple(metric.name for metric in METRICS + DERIVED if metric.kind != "bits")
"""All metrics: those without a scale have a column in these recordings, and no value."""
CONSTANT = {"memory_used": 0.9, "temperature": 0.8, "sm_clock": 0.95, "power_usage": 0.8}


HOST = HostUse(
    0.123,
    3.5,
    68.2 * (1 << 30),
    251.7 * (1 << 30),
    1.2e6,
    340e6,
    5.5e9,
    12.3e6,
    None,
    None,
    4.02,
    12.3 * (1 << 30),
    17.0,
)


def run(**changes: object) -> RunRow:
    """The run all analyses are of."""
    usual = RunRow(
        run_id="alps-4711.0", label="llm-train", command=("python", "-m", "train", "--config", "big model.yaml"),
        job_id="4711", step_id="0", launcher="slurm", cluster="alps", user="ada", started_at=START,
        ended_at=START + 300.0, sampling_ms=500.0, exit_code=0, state="completed", world_size=16, n_nodes=4,
        gssr_version="0.5.0",
    )  # fmt: skip
    return usual._replace(**changes)  # type: ignore[arg-type]


def activity(n_gpus: int, n_bins: int) -> NDArray[np.float64]:
    """SM activity [n_gpus, n_bins] of a training run: a warm-up, dips for checkpoints, a straggler, a gap in all GPUs and
    a longer one in the last."""
    time = np.arange(n_bins) / max(n_bins, 1)
    values = np.empty((n_gpus, n_bins))
    for gpu in range(n_gpus):
        values[gpu] = 0.72 - 0.012 * gpu + 0.06 * np.sin(40 * time + gpu)
    values[:, time < 0.04] = 0.0
    for dip in (0.3, 0.6, 0.9):
        values[:, (time >= dip) & (time < dip + 0.02)] = 0.05
    if n_gpus > 4:
        values[5] *= 0.07
    if n_gpus:
        values[:, (time >= 0.44) & (time < 0.47)] = np.nan
        values[-1, time >= 0.8] = np.nan
    return np.clip(values, 0.0, 1.0)


def _statistics(values: NDArray[np.float64]) -> Statistics:
    known = values[np.isfinite(values)]
    if not len(known):
        return Statistics(None, None, None, None, None, None, None, 0, None)
    p05, median, p95 = (float(value) for value in np.percentile(known, [5, 50, 95]))
    return Statistics(
        float(known.mean()),
        median,
        float(known.min()),
        float(known.max()),
        float(known.std()),
        p05,
        p95,
        len(known),
        0.0,
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _scaled(name: str, base: NDArray[np.float64], missing: frozenset[str]) -> NDArray[np.float64]:
    if name in missing or name not in SCALES:
        return np.full(base.shape, np.nan)
    share = CONSTANT.get(name, 0.0)
    return SCALES[name] * (share + (1 - share) * base)


BOOKED = {
    "working.tensor": 0.6, "working.memory": 0.3, "working.few_sms": 0.1, "communication.transferring": 0.25,
    "idle.imbalance": 0.5, "idle.between_kernels": 0.25,
}  # fmt: skip
"""How the account of these analyses divides SM activity into kinds of work, and the rest into losses."""


def breakdown(base: NDArray[np.float64], width: float, node_of: list[int]) -> Breakdown | None:
    """An account of the time of GPUs with these SM activities [n_gpus, n_bins]; None without samples."""
    if not np.isfinite(base).any():
        return None
    cells = np.zeros((*base.shape, len(CATEGORIES)))
    for name, share in BOOKED.items():
        active = np.nan_to_num(base) if name.startswith("working") else np.nan_to_num(1 - base)
        cells[:, :, POSITIONS[name]] = width * share * active
    cells[:, :, POSITIONS["unmeasured"]] = width * ~np.isfinite(base)
    nodes = tuple(f"nid{node + 1:06d}" for node in range(max(node_of) + 1))
    return Breakdown(
        cells.sum(axis=1), cells.sum(axis=0), nodes, np.array(node_of), START + width * np.arange(base.shape[1]), width,
        0.5, np.full(len(CATEGORIES), 0.002), ("inferred",) * len(CATEGORIES),
    )  # fmt: skip


def analysis(
    n_gpus: int = 16, n_nodes: int = 4, n_bins: int = 240, seconds: float = 300.0, base: NDArray[np.float64] | None = None,
    missing: tuple[str, ...] = (), **changes: object,
) -> Analysis:  # fmt: skip
    """An analysis whose every number follows from one array of SM activities [n_gpus, n_bins] (default: ``activity``).
    ``changes``: other values of its fields, or of its judgement's."""
    base = activity(n_gpus, n_bins) if base is None else base
    absent = frozenset(missing)
    width = seconds / n_bins if n_bins else 1.0
    values = {name: _scaled(name, base, absent) for name in NAMES}
    per_node = max(-(-n_gpus // n_nodes), 1) if n_nodes else 1
    gpus = []
    for gpu in range(n_gpus):
        means = {name: _mean(values[name][gpu]) for name in NAMES}
        gpus.append(GpuSummary(
            gpu=gpu * 64, node=f"nid{gpu // per_node + 1:06d}", rank=gpu, device_index=gpu % per_node,
            uuid=f"GPU-{gpu:08x}", name="NVIDIA H100", n_samples=int(np.isfinite(base[gpu]).sum()), n_gaps=1,
            score=score_of_means(means), mean=means, memory_total=80 << 30, power_limit=700.0, max_sm_clock=1980,
        ))  # fmt: skip
    metrics = {name: _statistics(values[name]) for name in NAMES}
    n_samples = int(np.isfinite(base).sum())
    reasons = dict.fromkeys((name for _, name, _ in CLOCK_EVENT_REASONS), 0.0) | {"idle": 0.04, "sw_power_cap": 0.123}
    grids = {name: Grid(name, START, width, values[name]) for name in DRAWN}
    fields: dict[str, object] = {
        "run": run(), "state": "completed", "backend": "dcgm",
        "window": AnalysisWindow(START, START + seconds, 0.0, 0.0, True),
        "gpus": tuple(gpus), "n_nodes": n_nodes, "n_samples": n_samples, "n_gaps": n_gpus,
        "score": score_of_means({name: statistics.mean for name, statistics in metrics.items()}),
        "metrics": metrics, "balance": {name: balance(name, gpus) for name in NAMES if name != "energy"},
        "clock_event_reasons": reasons if n_samples else {}, "energy_j": 1_240_000.0 if n_samples else None,
        "gpu_hours": n_gpus * seconds / 3600, "exact": True,
        "series": {name: over_space(grid) for name, grid in grids.items()}, "gpu_series": grids,
        "events": (
            Event(START, "nid000001", None, 0, "start", "the command was started"),
            Event(START + 132.0, None, None, None, "gap", "no samples for 9.0 s: the sampler was held up"),
            Event(START + 240.0, "nid000004", n_gpus * 64, 15, "gpu_lost", "GPU 3 no longer answers"),
        ) if n_samples else (),
        "notes": ("nid000004:3 has no samples after 4:00.",) if n_samples else (),
        "imbalance": balance("sm_active", gpus).imbalance, "host": HOST,
    }  # fmt: skip
    booked = breakdown(base, width, [gpu // per_node for gpu in range(n_gpus)])
    own = {name: value for name, value in changes.items() if name not in Judgement.__slots__}
    said = {name: value for name, value in changes.items() if name in Judgement.__slots__}
    plain = Judgement((), {}, START, START + seconds, breakdown=booked)
    return rejudged(Analysis(**(fields | own), judgement=plain), **said)  # type: ignore[arg-type]


def rejudged(found: Analysis, **changes: object) -> Analysis:
    """The same analysis with other values of its judgement's fields."""
    return replace(found, judgement=replace(found.judgement, **changes))  # type: ignore[arg-type]


def judged() -> Analysis:
    """The analysis with seven verdicts, of every severity, and three rules that abstained."""
    found = [
        Verdict(
            f"rule_{number}", severity, f"GPU number {number} does what it should not, and a title may need two lines",
            (
                Finding("sm_active", 0.1 * number, 0.5, f"SM active {10 * number} % (below 50 %)"),
                Finding("gpu_hours", 0.25, None, "0.25 GPU-hours"),
            ),
            "Do something about it: look at the program's log first, then at a trace of one step.", "ours", START,
            START + 300.0, (number,) if number % 2 else (),
        )
        for number, severity in enumerate(("critical", "warning", "warning", "info", "info", "info", "info"), 1)
    ]  # fmt: skip
    reason = "disk reads were not measured"
    abstained = {"io_wait": reason, "cpu_starved": reason, "fp64": "nobody knows"}
    return analysis(verdicts=tuple(found), abstentions=abstained)


def without_gpus() -> Analysis:
    """A run that recorded its host only."""
    return analysis(
        n_gpus=0, n_nodes=0, n_bins=0, run=run(world_size=1, n_nodes=1), backend=None, gpu_hours=0.0, energy_j=None,
        notes=("no GPU backend could be opened; host metrics were recorded",),
    )  # fmt: skip


def without_samples() -> Analysis:
    """Four GPUs that never gave a sample."""
    return analysis(
        n_gpus=4, n_nodes=1, n_bins=0, base=np.empty((4, 0)), state="lost", run=run(exit_code=None, ended_at=None)
    )


def one_sample() -> Analysis:
    """One GPU, one sample."""
    return analysis(
        n_gpus=1, n_nodes=1, n_bins=1, seconds=0.5, base=np.array([[0.62]]), n_gaps=0, notes=(), events=(),
        run=run(world_size=1, n_nodes=1, label=None, job_id=None, run_id="laptop-20231114-221320", exit_code=7),
        state="failed",
    )  # fmt: skip


def without_counters() -> Analysis:
    """What NVML alone can measure."""
    profiling = [name for name in NAMES if name.endswith("_active") or name == "sm_occupancy"]
    full = analysis(missing=tuple(profiling), backend="nvml")
    name, values = "gpu_utilization", SCALES["gpu_utilization"] * activity(16, 240)
    own = Grid(name, START, 1.25, values)
    return analysis(
        missing=tuple(profiling), backend="nvml", series={name: over_space(own), **full.series},
        gpu_series={name: own, **full.gpu_series},
    )  # fmt: skip
