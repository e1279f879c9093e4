"""Runs that grow step by step, through the real writer, and what a frame of them must hold: counted anew from the rows."""

import math
import random
from pathlib import Path

import numpy as np

from gssr.metrics import CLOCK_EVENT_REASONS, FLOP_ACTIVE, NAMES, PLACES, THROTTLES
from gssr.model.live.live_result import Result
from gssr.store.write.writer import Writer

T0 = 1_700_000_400.0
"""Unix time at which buckets of every level begin."""
STEP = 0.5
MEASURED = tuple(name for name in NAMES if not name.startswith("c2c"))
Row = tuple[float | None, ...]


def commit_all(writer: Writer, now: float) -> None:
    """Commit what was added: where much has waited, in several transactions."""
    n_left = -1
    while n_left != len(writer._pending.rows):
        n_left = len(writer._pending.rows)
        assert writer.commit(now)


class Growing:
    """One rank's file: ``n_gpus`` GPUs on ``node``, sampled every STEP seconds with jitter, and unless it is ``whole`` with
    holes and missing values."""

    def __init__(
        self,
        path: Path,
        n_gpus: int = 3,
        node: str = "n1",
        rank: int = 0,
        run_id: str = "r",
        seed: int = 0,
        whole: bool = False,
    ) -> None:
        self.path = path
        self.node = node
        self.n_gpus = n_gpus
        self.idle = False
        self.rows: list[Row] = []
        self.now = T0 + 3.25
        self._random = random.Random(seed)
        self._holes, self._missing = (0.0, 0.0) if whole else (0.01, 0.05)
        self._away = [0] * n_gpus
        self.writer = Writer(str(path))
        self.writer.begin(
            {"run_id": run_id, "started_at": T0, "sampling_ms": STEP * 1000, "state": "running", "world_size": 2},
            {"rank": rank, "node": node, "hostname": "elsewhere", "state": "running"},
        )
        gpus = [{"device_index": index, "uuid": f"GPU-{node}-{index}"} for index in range(n_gpus)]
        self.writer.add_gpus(gpus, MEASURED, STEP)
        commit_all(self.writer, self.now)

    def grow(self, n_ticks: int = 1) -> None:
        """More rows, committed."""
        rng = self._random
        for _ in range(n_ticks):
            self.now += STEP
            for gpu in range(self.n_gpus):
                if self._away[gpu] > 0 or rng.random() < self._holes:
                    self._away[gpu] = self._away[gpu] - 1 if self._away[gpu] else rng.choice((1, 2, 5, 40))
                    continue
                self._add(gpu, self.now + rng.uniform(0, 0.05))
        commit_all(self.writer, self.now)

    def sleep(self, seconds: float) -> None:
        """Nobody is sampled for a while."""
        self.now += seconds

    def _add(self, gpu: int, time: float) -> None:
        rng = self._random
        values: list[float | None] = [rng.choice((0.0, rng.random(), rng.random())) for _ in NAMES]
        if self.idle:
            values = [0.0] * len(NAMES)
        row = [gpu, time, *values]
        row[PLACES["energy"]] = 1e6 + time - T0
        row[PLACES["clock_event_reasons"]] = rng.choice((0, 0, 1, 4, 0x44))
        for name, place in PLACES.items():
            if name not in MEASURED or rng.random() < self._missing:
                row[place] = None
        self.writer.add([row])  # type: ignore[list-item]
        self.rows.append(row)

    def end(self, exit_code: int = 0) -> None:
        """The workload ends, and the recording is sealed."""
        state = "completed" if exit_code == 0 else "failed"
        assert self.writer.finish(self.now, exit_code, state, self.now)


class Truth:
    """What the rows of all ranks hold, counted one by one. GPUs are numbered as a frame numbers them."""

    def __init__(self, *runs: Growing) -> None:
        ordered = sorted(runs, key=lambda run: run.node)
        first = dict(zip(ordered, np.cumsum([0, *(run.n_gpus for run in ordered)]).tolist(), strict=False))
        self.n_gpus = sum(run.n_gpus for run in runs)
        rows = [(first[run] + row[0], *row[1:]) for run in ordered for row in run.rows]
        self.gpu = np.array([row[0] for row in rows], np.int64)
        self.time = np.array([row[1] for row in rows])
        table = np.array(rows, np.float64)
        self.values = {name: table[:, place] for name, place in PLACES.items()}
        self.values["flop_active"] = np.sum([self.values[part] for part in FLOP_ACTIVE.parts], axis=0)
        reasons = self.values["clock_event_reasons"]
        for bit, name, _ in CLOCK_EVENT_REASONS:
            if name in THROTTLES:
                self.values[name] = np.where(
                    np.isfinite(reasons), np.nan_to_num(reasons).astype(int) & bit != 0, np.nan
                )

    def means(self, metric: str, start: float = -math.inf, end: float = math.inf) -> tuple[np.ndarray, np.ndarray]:
        """Count and sum per GPU of start <= time < end."""
        column = self.values[metric]
        use = (self.time >= start) & (self.time < end) & np.isfinite(column)
        return (
            np.bincount(self.gpu[use], minlength=self.n_gpus),
            np.bincount(self.gpu[use], column[use], self.n_gpus),
        )

    def gaps(self) -> np.ndarray:
        """Per GPU."""
        return np.array([(np.diff(self.time[self.gpu == gpu]) > 2.5 * STEP).sum() for gpu in range(self.n_gpus)])

    def last_time(self) -> np.ndarray:
        """Per GPU, NaN without rows."""
        return np.array([self.time[self.gpu == gpu].max(initial=-np.inf) for gpu in range(self.n_gpus)])

    def cell(self, metric: str, start: float, width: float) -> np.ndarray:
        """Mean per GPU in [start, start + width), NaN without samples."""
        n, total = self.means(metric, start - 1e-9, start + width - 1e-9)
        return np.divide(total, n, out=np.full(self.n_gpus, np.nan), where=n > 0)

    def agrees(self, frame: Result) -> None:
        """Assert that the frame holds what the rows do."""
        assert frame.n_rows == len(self.time)
        assert frame.first == self.time.min() and frame.last == self.time.max()
        assert frame.n_gaps.tolist() == self.gaps().tolist()
        np.testing.assert_allclose(np.nan_to_num(frame.last_time, nan=-np.inf), self.last_time())
        assert set(frame.whole.names) == set(self.values) - {"energy", "clock_event_reasons"}
        for row, name in enumerate(frame.whole.names):
            n, total = self.means(name)
            np.testing.assert_array_equal(frame.whole.n[row], n, name)
            np.testing.assert_allclose(frame.whole.total[row], total, rtol=1e-9, atol=1e-9, err_msg=name)
        self.agrees_on_grid(frame)
        self.agrees_on_recent(frame)

    def agrees_on_grid(self, frame: Result) -> None:
        """Every cell is the mean of its samples, and missing where there are none."""
        grid = frame.grid
        cells = [self.cell(grid.metric, grid.start + k * grid.width, grid.width) for k in range(grid.n)]
        np.testing.assert_allclose(grid.values, np.array(cells).T, rtol=1e-9, atol=1e-12)
        assert grid.end > frame.last or not frame.following

    def agrees_on_recent(self, frame: Result) -> None:
        """It holds exactly the rows from its start on, and that is a minute ago, give or take a bucket."""
        recent = frame.recent
        assert recent.end == min(frame.last, frame.grid.end)
        asked = recent.end - 60.0
        assert asked - 10.0 <= recent.start <= self.time[self.time >= asked].min() + 10.0
        for row, name in enumerate(recent.names):
            n, total = self.means(name, recent.start, np.nextafter(recent.end, math.inf))
            np.testing.assert_array_equal(recent.n[row], n, name)
            np.testing.assert_allclose(recent.total[row], total, rtol=1e-9, atol=1e-9, err_msg=name)
