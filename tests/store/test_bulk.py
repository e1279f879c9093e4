"""A recording written from arrays is the recording the sampler would have written."""

import sqlite3

import numpy as np
from sample_rows import START, STEP, rows_of, write

from gssr.metrics import NAMES
from gssr.store.bulk import BulkWriter
from gssr.store.reader import open_recording


def test_bulk_and_sampler_write_the_same_recording(tmp_path):
    n_gpus = 3
    rows = rows_of(2700, n_gpus, hole=range(700, 760))
    write(tmp_path / "sampled.sql", rows, n_gpus)
    bulk = BulkWriter(str(tmp_path / "bulk.sql"))
    bulk.begin(
        {"run_id": "r", "started_at": START, "sampling_ms": STEP * 1000, "state": "running"}, {"rank": 0, "node": "n1"}
    )
    bulk.add_gpus([{"device_index": index, "uuid": f"GPU-r-{index}"} for index in range(n_gpus)], NAMES, STEP)
    table = np.array(rows, dtype=float)
    chunk = np.floor(table[:, 1] / 20)
    for part in np.unique(chunk):
        some = table[chunk == part]
        bulk.add_columns(some[:, 0].astype(int), some[:, 1], {name: some[:, 2 + k] for k, name in enumerate(NAMES)})
    bulk.finish(rows[-1][1], 0, "completed", rows[-1][1])
    files = [sqlite3.connect(tmp_path / name) for name in ("sampled.sql", "bulk.sql")]
    for query in (
        "SELECT rowid, * FROM samples",
        "SELECT gpu, level, bucket, first_rowid, last_rowid FROM rollup ORDER BY level, bucket, gpu",
        "SELECT gpu, bucket, data FROM sketch ORDER BY bucket, gpu",
    ):
        first, second = (connection.execute(query).fetchall() for connection in files)
        assert first == second
    vectors = [open_recording(tmp_path / name).runs[0].buckets() for name in ("sampled.sql", "bulk.sql")]
    for level in (None, 10, 60, 600):
        vectors = [open_recording(tmp_path / name).runs[0].buckets(level=level) for name in ("sampled.sql", "bulk.sql")]
        orders = [np.lexsort((found.start, found.gpu)) for found in vectors]
        np.testing.assert_allclose(vectors[0].vectors[orders[0]], vectors[1].vectors[orders[1]], rtol=1e-9, atol=1e-12)
