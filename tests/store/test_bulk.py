"""A recording written from arrays is the recording the sampler would have written."""

import os
import sqlite3

import numpy as np
import pytest
from sample_rows import START, STEP, rows_of, write

from gssr.metrics import NAMES
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import Window
from gssr.store.write.bulk import BulkWriter
from gssr.store.write.writer import Writer


@pytest.mark.parametrize("seconds", [20, 470])
def test_bulk_and_sampler_write_the_same_recording(tmp_path, seconds):
    n_gpus = 3
    rows = rows_of(2700, n_gpus, hole=range(700, 760))
    write(tmp_path / "sampled.sql", rows, n_gpus)
    bulk = BulkWriter(str(tmp_path / "bulk.sql"))
    bulk.begin(
        {"run_id": "r", "started_at": START, "sampling_ms": STEP * 1000, "state": "running"}, {"rank": 0, "node": "n1"}
    )
    bulk.add_gpus([{"device_index": index, "uuid": f"GPU-r-{index}"} for index in range(n_gpus)], NAMES, STEP)
    table = np.array(rows, dtype=float)
    chunk = np.floor(table[:, 1] / seconds)
    for part in np.unique(chunk):
        some = table[chunk == part]
        bulk.add_columns(some[:, 0].astype(int), some[:, 1], {name: some[:, 2 + k] for k, name in enumerate(NAMES)})
    bulk.finish(rows[-1][1], 0, "completed", rows[-1][1])
    files = [sqlite3.connect(tmp_path / name) for name in ("sampled.sql", "bulk.sql")]
    for query in (
        "SELECT rowid, * FROM samples",
        "SELECT gpu, level, bucket, first_rowid, last_rowid FROM rollup ORDER BY level, bucket, gpu",
        "SELECT gpu, bucket, data FROM sketch ORDER BY bucket, gpu",
        "SELECT gpu, bucket, data FROM sketch_minute ORDER BY bucket, gpu",
    ):
        first, second = (connection.execute(query).fetchall() for connection in files)
        assert first == second
    vectors = [open_recording(tmp_path / name).runs[0].buckets() for name in ("sampled.sql", "bulk.sql")]
    for level in (None, 10, 60, 600):
        vectors = [open_recording(tmp_path / name).runs[0].buckets(level=level) for name in ("sampled.sql", "bulk.sql")]
        orders = [np.lexsort((found.start, found.gpu)) for found in vectors]
        np.testing.assert_allclose(vectors[0].vectors[orders[0]], vectors[1].vectors[orders[1]], rtol=1e-9, atol=1e-12)


def test_of_many_ranks_that_are_begun_no_file_stays_open(tmp_path):
    bulk = BulkWriter(str(tmp_path / "bulk.sql"))
    before = len(os.listdir("/proc/self/fd"))
    for rank in range(8):
        bulk.begin({"run_id": "r", "started_at": START, "sampling_ms": 1000.0, "state": "running"}, {"rank": rank})
    bulk.finish(START + 1, 0, "completed", START + 1)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_bulk_and_sampler_write_the_same_use_of_nodes_and_ranks(tmp_path):
    run = {"run_id": "r", "started_at": START, "sampling_ms": 1000.0, "state": "running"}
    times = START + np.arange(20.0)
    host = np.random.default_rng(1).random((20, 1, len(HOST.values)))
    host[0, 0, 5] = np.nan
    ranks = np.random.default_rng(2).random((20, 1, 3))
    sampled, bulk = Writer(str(tmp_path / "sampled.sql")), BulkWriter(str(tmp_path / "bulk.sql"))
    for writer in (sampled, bulk):
        writer.begin(run, {"rank": 3, "node": "n1"})
        writer.add_gpus([], (), 1.0)
    for tick, time in enumerate(times.tolist()):
        sampled.add_host(time, [None if value != value else value for value in host[tick, 0].tolist()])
        sampled.add_workload(time, ranks[tick, 0].tolist())
    bulk.add_use(HOST, ["n1"], times, host)
    bulk.add_use(WORKLOAD, [3], times, ranks)
    for writer in (sampled, bulk):
        assert writer.finish(START + 20, 0, "completed", START + 20)
    for table in ("host_samples", "workload_samples"):
        first, second = (
            sqlite3.connect(tmp_path / name).execute(f"SELECT * FROM {table}").fetchall()
            for name in ("sampled.sql", "bulk.sql")
        )
        assert first == second and len(first) == 20


def test_gpus_and_metrics_that_come_later_are_counted_as_if_they_had_been_known(tmp_path):
    rows = [row for row in rows_of(2700, 3) if row[0] == 0 or row[1] > START + (301 if row[0] == 1 else 690)]
    late = NAMES.index("sm_active")
    rows = [row if row[1] > START + 400 else (*row[: 2 + late], None, *row[3 + late :]) for row in rows]
    table = np.array(rows, dtype=float)
    files = []
    for grows in (False, True):
        bulk = BulkWriter(str(tmp_path / f"{grows}.sql"))
        bulk.begin({"run_id": "r", "started_at": START, "sampling_ms": STEP * 1000, "state": "running"}, {"rank": 0})
        gpus = [{"device_index": index, "uuid": f"GPU-{index}"} for index in range(3)]
        bulk.add_gpus(
            gpus[:1] if grows else gpus, [name for name in NAMES if not (grows and name == "sm_active")], STEP
        )
        n_gpus, begin = (1 if grows else 3), np.floor(table[:, 1] / 20)
        for part in np.unique(begin):
            some = table[begin == part]
            highest = int(some[:, 0].max()) + 1
            if highest > n_gpus:
                bulk.add_gpus(gpus[n_gpus:highest], (), STEP)
                n_gpus = highest
            columns = {name: some[:, 2 + k] for k, name in enumerate(NAMES)}
            if grows and some[-1, 1] <= START + 400:
                del columns["sm_active"]
            bulk.add_columns(some[:, 0].astype(int), some[:, 1], columns)
        assert bulk.finish(rows[-1][1], 0, "completed", rows[-1][1])
        files.append(sqlite3.connect(tmp_path / f"{grows}.sql"))
    for table_name in ("gpus", "process_gpus", "samples", "rollup", "sketch", "sketch_minute"):
        first, second = (file.execute(f"SELECT * FROM {table_name} ORDER BY 1, 2, 3").fetchall() for file in files)
        assert first == second and len(first) >= 3


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(("step", "levels"), [(2.0, {10, 60, 600}), (10.0, {60, 600}), (30.0, {600}), (900.0, {600})])
def test_of_samples_far_apart_only_long_rollups_are_written_and_every_window_has_the_same_sums(
    tmp_path, monkeypatch, step, levels, ends
):
    table = np.array(rows_of(400, 3), dtype=float)
    table[:, 1] = START + (table[:, 1] - START) / STEP * step
    readers, writers = [], []
    for fewest in (0, None):
        if fewest is not None:
            monkeypatch.setattr("gssr.store.write.bulk._FEWEST_ROWS", fewest)
        path = tmp_path / f"{fewest}.sql"
        bulk = BulkWriter(str(path))
        bulk.begin({"run_id": "r", "started_at": START, "sampling_ms": step * 1000, "state": "running"}, {"rank": 0})
        bulk.add_gpus([{"device_index": index, "uuid": f"GPU-{index}"} for index in range(3)], NAMES, step)
        part = np.floor(table[:, 1] / 600)
        for number in np.unique(part):
            some = table[part == number]
            bulk.add_columns(some[:, 0].astype(int), some[:, 1], {name: some[:, 2 + k] for k, name in enumerate(NAMES)})
        assert not ends or bulk.finish(table[-1, 1], 0, "completed", table[-1, 1])
        monkeypatch.undo()
        writers.append(bulk)
        readers.append(open_recording(path).runs[0])
    found = sqlite3.connect(tmp_path / "None.sql").execute("SELECT DISTINCT level FROM rollup").fetchall()
    assert {level for (level,) in found} == levels
    span = 400 * step
    for window in (Window(-np.inf, np.inf), Window(START + 0.3 * span, START + 0.7 * span), Window(START, START + 61)):
        for level in (None, 10, 60, 600):
            every, fewer = (reader.buckets(window, level=level) for reader in readers)
            if level is None:  # which buckets cover the window is free, what they add up to is not
                assert every.vectors[:, 0].sum() == fewer.vectors[:, 0].sum() > 0
                continue
            orders = [np.lexsort((buckets.start, buckets.gpu)) for buckets in (every, fewer)]
            for one, other in zip(every.vectors[orders[0]], fewer.vectors[orders[1]], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert [reader.recounted for reader in readers] == [None, None]


def test_what_is_written_in_bulk_can_be_read_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gssr.store.read.private_copy.copy_whole", lambda *_: pytest.fail("the file was copied to be read")
    )
    table = np.array(rows_of(2700, 3), dtype=float)
    path = tmp_path / "bulk.sql"
    bulk = BulkWriter(str(path))
    bulk.begin({"run_id": "r", "started_at": START, "sampling_ms": STEP * 1000, "state": "running"}, {"rank": 0})
    bulk.add_gpus([{"device_index": index, "uuid": f"GPU-{index}"} for index in range(3)], NAMES, STEP)
    n_rows, begin = 0, np.floor(table[:, 1] / 470)
    for part in np.unique(begin):
        some = table[begin == part]
        bulk.add_columns(some[:, 0].astype(int), some[:, 1], {name: some[:, 2 + k] for k, name in enumerate(NAMES)})
        n_rows += len(some)
        recording = open_recording(path)
        (reader,) = recording.runs
        assert len(reader.gpus) == 3 and reader.n_rows == n_rows
        assert reader.buckets().vectors[:, 0].sum() == n_rows
        assert (
            reader.histograms(["sm_active"]).counts["sm_active"].sum()
            == np.isfinite(table[:n_rows, 2 + NAMES.index("sm_active")]).sum()
        )
        recording.close()
    assert bulk.finish(table[-1, 1], 0, "completed", table[-1, 1])


def test_further_ranks_are_told_of_without_a_change_of_the_run(tmp_path):
    bulk = BulkWriter(str(tmp_path / "bulk.sql"))
    bulk.begin({"run_id": "r", "started_at": START, "sampling_ms": 1000.0, "state": "running"}, {"rank": 0})
    bulk.tell({}, [{"rank": 1, "exit_code": 3}])
    bulk.finish(START + 1, 0, "completed", START + 1)
    with sqlite3.connect(tmp_path / "bulk.sql") as file:
        assert file.execute("SELECT exit_code FROM processes WHERE rank = 1").fetchall() == [(3,)]
        assert file.execute("SELECT kind FROM events WHERE kind = 'storage'").fetchall() == []
