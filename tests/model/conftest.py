"""Recordings for the model's tests: real files, written by the real writer from arrays."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from ticks import T0, Record

from gssr.metrics import NAMES
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.write.writer import Writer


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """``record(gpu, time, values, ...)`` writes rows in their order and opens the run. ``gpu`` holds positions, ``values``
    arrays by metric (NaN: NULL); every four GPUs are a node. ``host``: unix times and rows of the first one."""

    def write(
        gpu: Any,
        time: Any,
        values: Mapping[str, Any],
        n_gpus: int | None = None,
        sampling_ms: float | None = 100.0,
        started_at: float | None = None,
        ended_at: float | None = None,
        state: str = "completed",
        gpus: Mapping[str, Any] | None = None,
        host: Iterable[tuple[float, tuple[float | None, ...]]] = (),
    ) -> RunReader:
        path = tmp_path_factory.mktemp("run") / "run.sql"
        count = n_gpus if n_gpus is not None else int(max(gpu, default=-1)) + 1
        writer = Writer(str(path))
        writer.begin(
            {"run_id": "r", "command": '["true"]', "sampling_ms": sampling_ms, "state": "running"},
            {"rank": 0, "node": "n0", "state": "running", "hostname": "elsewhere"},
        )
        devices = [
            {
                "device_index": i % 4,
                "uuid": f"GPU-{i:04d}",
                "backend": "synthetic",
                "node": f"n{i // 4}",
                **(gpus or {}),
            }
            for i in range(count)
        ]
        writer.add_gpus(devices, list(values), (sampling_ms or 0.0) / 1000)
        if started_at is not None:
            writer.started(started_at)
        columns = [np.asarray(values.get(name, np.full(len(time), np.nan)), object) for name in NAMES]
        table = [np.where(column == column, column, None).tolist() for column in columns]
        rows = list(zip(np.asarray(gpu).tolist(), np.asarray(time, float).tolist(), *table, strict=True))
        for start in range(0, len(rows), 500):
            writer.add(rows[start : start + 500])
            writer.commit(rows[min(start + 500, len(rows)) - 1][1])
        for moment, use in host:
            writer.add_host(moment, use)
        if state == "completed":
            assert writer.finish(T0 + 1e6, 0, "completed", ended_at)  # type: ignore[arg-type]
        else:
            writer.commit(float(max(time, default=T0)))
        return open_recording(path).runs[0]

    return write
