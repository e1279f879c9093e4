"""Recordings that go on while a test looks: some of their GPUs work, others have done nothing for a while."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gssr.store.write.bulk import BulkWriter

STEP = 5.0
"""Seconds between two samples."""


def write_growing(
    path: Path, idle_minutes: Sequence[float | None], minutes: float = 90.0, **run: str | float | None
) -> float:
    """Write a recording that has run for so many minutes up to now, and goes on. Returns the time of its newest sample.

    Args:
        idle_minutes: for each GPU, for how long it has done nothing; None for one that works.
        run: further columns of the table ``runs``.
    """
    now = np.floor(time.time())
    times = np.arange(now - minutes * 60, now + 0.1, STEP)
    writer = BulkWriter(str(path))
    columns = {"run_id": path.stem, "state": "running", "sampling_ms": 1000 * STEP, "started_at": float(times[0])}
    process = {"rank": 0, "node": "n1", "hostname": "n1", "started_at": float(times[0]), "state": "running"}
    writer.begin({**columns, **run}, process)
    gpus = [{"node": "n1", "rank": 0, "device_index": at, "uuid": f"GPU-{at}"} for at in range(len(idle_minutes))]
    writer.add_gpus(gpus, ["sm_active"], STEP)
    active = np.array([
        np.where(times <= now - 60 * idle, 0.8, 0.0) if idle is not None else np.full(len(times), 0.5)
        for idle in idle_minutes
    ])  # fmt: skip
    for chunk in np.array_split(np.arange(len(times)), np.flatnonzero(np.diff(times // 600)) + 1):
        position = np.tile(np.arange(len(gpus)), len(chunk))
        writer.add_columns(position, np.repeat(times[chunk], len(gpus)), {"sm_active": active[:, chunk].T.reshape(-1)})
    writer._connection.close()
    return float(now)
