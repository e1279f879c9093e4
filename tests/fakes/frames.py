"""Results made by hand: what a recording would show whose samples are known to the last one."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from gssr.metrics import SCORE_INPUTS
from gssr.model.live.live_result import Query, Result
from gssr.model.results import Grid, Means, nodes_of, over_space
from gssr.store.format.rows import Event, Gpu, RunRow

START = 1_700_000_000.0
NAMES = ("flop_active", *SCORE_INPUTS, "power_usage", "hw_thermal", "sw_power_cap")


def gpu(position: int, per_node: int = 4, **changes: object) -> Gpu:
    """A GPU of node nid000001, nid000002 ..."""
    node = f"nid{position // per_node + 1:06d}"
    return Gpu(
        position, "run", node, None, position % per_node, f"GPU-{position:08x}", "H100", 80 << 30, 700.0, 132, 1980,
        "9.0", "driver", "test", None,
    )._replace(**changes)  # fmt: skip


def run(**changes: object) -> RunRow:
    """A run that has ended well."""
    return RunRow(
        "run", "job", ("train",), "4711", None, None, None, None, START, START + 600, 1000.0, 0, "completed", 1, 1, "1",
    )._replace(**changes)  # fmt: skip


def frame_of(values: ArrayLike, width: float = 10.0, metric: str = "sm_active", **changes: object) -> Result:
    """A frame of an ended run whose grid holds ``values`` [GPUs, columns of ``width`` s], a sample a second. Every other
    metric is half of it, but power (hundreds of watts) and the reasons to throttle (the power limit alone)."""
    grid = np.asarray(values, np.float64)
    n_gpus, n_columns = grid.shape
    gpus = tuple(gpu(i) for i in range(n_gpus))
    nodes, node_of = nodes_of(gpus)
    known = np.isfinite(grid)
    end = START + n_columns * width
    window = means_of(np.where(known, grid, 0.0).sum(axis=1) * width, known.sum(axis=1) * width, metric)
    column = n_columns - 1 - np.argmax(known[:, ::-1], axis=1)
    last = np.where(known.any(axis=1), START + (column + 1) * width - 1, np.nan)
    shown = Grid(metric, START, width, grid, end)
    frame = Result(
        path="job.sql", query=Query(metric, columns=n_columns), state="ended", run=run(), gpus=gpus, nodes=nodes,
        node_of=node_of, first=START, last=end - 1, now=end - 1, silent=0.0, sampling_seconds=1.0,
        n_rows=int(known.sum() * width), n_gaps=np.zeros(n_gpus, np.int64), last_time=last,
        first_time=np.where(known.any(axis=1), START + np.argmax(known, axis=1) * width, np.nan),
        latest=np.where(known.any(axis=1), grid[np.arange(n_gpus), column], np.nan),
        grid=shown, space=over_space(shown), whole=window, recent=window, window=window, moment={}, host=None,
        events=(Event(START, "nid000001", None, 0, "start", "the command was started"),),
        problem=None, following=True,
    )  # fmt: skip
    return replace(frame, **changes)  # type: ignore[arg-type]


def means_of(total: np.ndarray, n: np.ndarray, metric: str) -> Means:
    """Means of every metric in NAMES from the sums and counts of one [n_gpus]."""
    factor = {"power_usage": 600.0, "hw_thermal": 0.0, "sw_power_cap": 1.0, metric: 1.0}
    totals = np.array([total * factor.get(name, 0.5) for name in NAMES])
    return Means(NAMES, START, START + 600, np.tile(n, (len(NAMES), 1)).astype(np.float64), totals)
