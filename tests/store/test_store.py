"""What is written can be read back, at every level, over every window, whether or not the recording ended."""

import os
import random
import resource
import shutil
import socket
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from sample_rows import START, STEP, rows_of, write

from gssr.metrics import FLOP_ACTIVE, NAMES
from gssr.store.format.buckets import fold, merge
from gssr.store.format.layout import LAYOUT
from gssr.store.format.sample_arrays import derive
from gssr.store.liveness import boot_id
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import Window


def plain(rows, start=-np.inf, end=np.inf, level=None):
    """The same statistics straight from the rows."""
    table = np.array(rows, dtype=float)
    table = table[(table[:, 1] >= start) & (table[:, 1] < end)]
    values = {name: table[:, 2 + index] for index, name in enumerate(NAMES)}
    values["flop_active"] = derive(values, FLOP_ACTIVE.parts)
    gpu = table[:, 0].astype(int)
    group = gpu if level is None else gpu * 10**10 + (table[:, 1] // level).astype(int)
    return fold(group, table[:, 1], values, 2.5 * STEP)


def check(reader: RunReader, rows, start=None, end=None):
    low, high = window = Window.between(start, end)
    buckets = reader.buckets(window)
    n_gpus = len(reader.gpus)
    merged = merge(buckets.vectors, buckets.gpu, n_gpus, reader.gap_seconds)
    groups, expected = plain(rows, low, high)
    np.testing.assert_allclose(merged[groups], expected, rtol=1e-9, atol=1e-12)
    for level in (10, 60, 600):
        found = reader.buckets(window, level=level)
        order = np.lexsort((found.start, found.gpu))
        groups, expected = plain(rows, low, high, level)
        assert (found.gpu[order] * 10**10 + found.start[order] // level == groups).all()
        np.testing.assert_allclose(found.vectors[order], expected, rtol=1e-9, atol=1e-12)
    samples = reader.samples([*NAMES, "flop_active"], window=window)
    table = np.array([row for row in rows if low <= row[1] < high], dtype=float).reshape(-1, len(NAMES) + 2)
    np.testing.assert_array_equal(samples.gpu, table[:, 0])
    np.testing.assert_array_equal(samples.values["sm_active"], table[:, 2 + NAMES.index("sm_active")])
    counts = reader.histograms(["sm_active", "flop_active", "pcie_tx_bytes"], window).counts
    for name, bins in counts.items():
        known = samples.values[name][~np.isnan(samples.values[name])].astype(np.float32)
        np.testing.assert_array_equal(bins, np.bincount(known.view(np.uint32) >> 16, minlength=65536))


WINDOWS = [
    (None, None),
    (START + 33.3, None),
    (None, START + 801.7),
    (START + 5, START + 12),
    (START + 57, START + 1300),
    (START + 597, START + 1197),
    (START + 640.25, START + 641),
    (START - 50, START + 3000),
    (START + 900, START + 900),
]


@pytest.mark.parametrize("finish", [True, False], ids=["finished", "cut off"])
def test_every_window_counts_every_row_once(tmp_path, finish):
    rows = rows_of(2700, 3, hole=range(700, 720))
    writer = write(tmp_path / "a.sql", rows, 3, finish=finish)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    assert reader.state == ("completed" if finish else "running")
    assert reader.n_rows == len(rows)
    assert reader.first_time == rows[0][1] and reader.last_time == rows[-1][1]
    for start, end in WINDOWS:
        check(reader, rows, start, end)
    del writer


def test_a_selection_of_gpus_reads_only_theirs(tmp_path):
    rows = rows_of(300, 4)
    write(tmp_path / "a.sql", rows, 4)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    chosen = np.array([1, 3])
    mine = [row for row in rows if row[0] in (1, 3)]
    assert set(reader.samples(["sm_active"], chosen).gpu.tolist()) == {1, 3}
    buckets = reader.buckets(gpus=chosen)
    groups, expected = plain(mine)
    np.testing.assert_allclose(merge(buckets.vectors, buckets.gpu, 4, 9.0)[groups][:, 4:], expected[:, 4:], rtol=1e-9)


def test_kept_blocks_are_the_same_numbers(tmp_path):
    rows = rows_of(100, 2)
    write(tmp_path / "a.sql", rows, 2)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    whole, part = reader.buckets(level=10), reader.buckets(level=10, names=["dram_active", "flop_active"])
    blocks = {block.metric.name: block for block in whole.layout.blocks}
    assert [block.metric.name for block in part.layout.blocks] == ["flop_active", "dram_active"]
    for block in part.layout.blocks:
        other = blocks[block.metric.name]
        np.testing.assert_array_equal(
            part.vectors[:, block.start : block.start + 5], whole.vectors[:, other.start : other.start + 5]
        )


def test_several_runs_in_one_file_stay_apart(tmp_path):
    first, second, third = rows_of(200, 2, 1), rows_of(90, 3, 2), rows_of(15, 1, 3)
    write(tmp_path / "a.sql", first, 2, "one")
    write(tmp_path / "a.sql", second, 3, "two", append=True)
    writer = write(tmp_path / "a.sql", third, 1, "three", append=True, finish=False)
    readers = open_recording(tmp_path / "a.sql").runs
    assert [reader.run.run_id for reader in readers] == ["one", "two", "three"]
    for reader, rows in zip(readers, (first, second, third), strict=True):
        assert reader.n_rows == len(rows)
        check(reader, rows)
        check(reader, rows, START + 13.5, START + 31)
    del writer


@pytest.mark.parametrize("others", [0, 400], ids=["alone", "beside many others"])
def test_more_shards_than_files_may_be_open_are_read(tmp_path, others):
    (tmp_path / "a.sql.d").mkdir()
    write(tmp_path / "one.sql", rows_of(3, 1), 1)
    for rank in range(70):
        shutil.copy(tmp_path / "one.sql", tmp_path / "a.sql.d" / f"node.{rank}.r.sql")
        with closing(sqlite3.connect(tmp_path / "a.sql.d" / f"node.{rank}.r.sql")) as connection:
            connection.execute(f"UPDATE gpus SET node = 'node', uuid = {rank}")
            connection.commit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(others)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 50, hard))
    try:
        recording = open_recording(tmp_path / "a.sql")
        assert recording.damage is None and len(recording.runs[0].gpus) == 70 and recording.runs[0].n_rows == 210
        recording.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)


def test_the_newest_rows_of_a_run_that_was_cut_off_are_found_behind_a_later_run(tmp_path):
    first = rows_of(200, 2, 1)
    killed = write(tmp_path / "a.sql", first, 2, "one", finish=False)
    with sqlite3.connect(tmp_path / "a.sql") as connection:  # its process was one of this host that has gone
        gone = (socket.gethostname(), boot_id(), os.getpid())
        connection.execute("UPDATE processes SET hostname = ?, boot_id = ?, pid = ?, pid_start = -1", gone)
    later = [(row[0], row[1] + 1000, *row[2:]) for row in rows_of(300, 2, 2)]
    write(tmp_path / "a.sql", later, 2, "two", append=True)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    assert (reader.run.run_id, reader.state) == ("one", "lost")
    for start, end in [(START + 50, None), (START + 50, START + 99), (START + 93, START + 99.5), (None, START + 99)]:
        check(reader, first, start, end)
    del killed


def test_rows_that_come_late_are_counted_where_they_belong(tmp_path):
    rows = rows_of(2700, 2)
    rng = random.Random(5)
    late = rng.sample(range(len(rows)), 60)
    kept = [row for index, row in enumerate(rows) if index not in late]
    for index in sorted(late):
        kept.insert(min(len(kept), index + rng.choice([2, 40, 300, 2000])), rows[index])
    write(tmp_path / "a.sql", kept, 2)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    buckets = reader.buckets()
    merged = merge(buckets.vectors, buckets.gpu, 2, reader.gap_seconds)
    groups, expected = plain(rows)
    skip = [b.start + k for b in buckets.layout.blocks if b.metric.kind == "counter" for k in range(4)] + [1]
    columns = [c for c in range(merged.shape[1]) if c not in skip]
    np.testing.assert_allclose(merged[groups][:, columns], expected[:, columns], rtol=1e-9)
    samples = reader.samples(["sm_active"], window=Window(START + 100, START + 200))
    assert len(samples.time) == sum(START + 100 <= row[1] < START + 200 for row in rows)
    counts = reader.histograms(["sm_active"]).counts["sm_active"]
    assert counts.sum() == sum(row[2 + NAMES.index("sm_active")] is not None for row in rows)


def test_rows_in_disorder_are_taken_in_their_own_order(tmp_path):
    rows = rows_of(120, 1)
    rng = random.Random(7)
    mixed = sorted(rows, key=lambda row: (row[1] // 10, rng.random()))
    write(tmp_path / "a.sql", mixed, 1)
    check(open_recording(tmp_path / "a.sql").runs[0], mixed)


def test_rows_that_come_after_a_silence_belong_to_buckets_closed_meanwhile(tmp_path):
    rows = rows_of(2700, 2)
    # A backend that was stuck and catches up.
    held = [row for row in rows if row[0] == 1 and 40 <= row[1] - START < 130]
    kept = [row for row in rows if row not in held]
    kept[340:340] = held
    writer = write(tmp_path / "a.sql", kept, 2)
    assert writer.problem is None
    reader = open_recording(tmp_path / "a.sql").runs[0]
    assert reader.n_rows == len(rows)
    for level in (None, 10, 60, 600):
        assert reader.buckets(level=level).vectors[:, 0].sum() == len(rows)
    counts = reader.histograms(["sm_active"]).counts["sm_active"]
    assert counts.sum() == sum(row[2 + NAMES.index("sm_active")] is not None for row in rows)


def test_a_gpu_that_falls_silent_is_closed_and_counted(tmp_path):
    rows = [row for row in rows_of(3000, 3) if not (row[0] == 1 and row[1] > START + 40)]
    writer = write(tmp_path / "a.sql", rows, 3, finish=False)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    for start, end in WINDOWS:
        check(reader, rows, start, end)
    del writer


def test_metrics_that_are_not_measured_cost_nothing_and_read_as_null(tmp_path):
    rows = [(*row[:6], *[None] * (len(NAMES) - 4)) for row in rows_of(60, 2)]
    write(tmp_path / "a.sql", rows, 2, measured=NAMES[:4])
    reader = open_recording(tmp_path / "a.sql").runs[0]
    check(reader, rows)
    samples = reader.samples(["dram_active", "flop_active"])
    assert np.isnan(samples.values["dram_active"]).all() and np.isnan(samples.values["flop_active"]).all()


def test_columns_added_later_read_as_null_in_older_runs(tmp_path):
    rows = rows_of(100, 2)
    write(tmp_path / "a.sql", rows, 2)
    connection = sqlite3.connect(tmp_path / "a.sql")
    connection.execute("ALTER TABLE samples ADD COLUMN of_a_later_version REAL")
    connection.commit()
    connection.close()
    reader = open_recording(tmp_path / "a.sql").runs[0]
    assert reader.metrics[-1] == "of_a_later_version"
    buckets = reader.buckets()
    assert buckets.vectors.shape[1] == buckets.layout.width == LAYOUT.width + 5
    assert (buckets.vectors[:, -5] == 0).all()


def test_infinite_and_nan_values_are_missing_not_numbers(tmp_path):
    bad = [
        (0, START + k, *[float("nan") if k % 2 else float("inf")] * 13, *[None] * (len(NAMES) - 13)) for k in range(6)
    ]
    good = [(0, START + 6 + k, *[0.5] * 13, *[None] * (len(NAMES) - 13)) for k in range(3)]
    write(tmp_path / "a.sql", bad + good, 1)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    merged = merge(reader.buckets().vectors, reader.buckets().gpu, 1, 9.0)
    block = next(block for block in reader.buckets().layout.blocks if block.metric.name == "sm_active")
    np.testing.assert_array_equal(merged[0, block.start : block.start + 5], [3, 1.5, 0, 0.5, 0.5])


def test_a_window_holds_the_rows_of_a_gpu_whose_bucket_is_still_open(tmp_path):
    start = (
        START // 10 * 10 + 10
    )  # the first GPU falls silent in this bucket; the second comes late, and closes its own
    rows = [(0, start + k * STEP, *[0.5] * len(NAMES)) for k in range(6)]
    rows += [(1, start + 5 + k * STEP, *[0.5] * len(NAMES)) for k in range(14)]
    write(tmp_path / "a.sql", rows, 2, finish=False)
    run = open_recording(tmp_path / "a.sql").runs[0]
    assert np.bincount(run.samples(["sm_active"], window=Window(start, start + 10)).gpu).tolist() == [6, 10]


def test_ranks_files_of_other_columns_are_read_together(tmp_path):
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    for rank in range(2):
        path = folder / f"n{rank}.{rank}.r.sql"
        write(path, rows_of(100, 1, rank), 1, rank=rank)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP VIEW gpu_samples")
        connection.execute("UPDATE gpus SET uuid = 'other'")
        connection.execute("ALTER TABLE samples RENAME COLUMN gpu_utilization TO another")

    (run,) = open_recording(tmp_path / "a.sql").runs
    found = run.buckets(Window(START, START + 40))
    at = next(block.start for block in found.layout.blocks if block.metric.name == "gpu_utilization")
    assert found.vectors[:, 0].sum() > 100 and 0 < found.vectors[:, at].sum() <= 100


@pytest.mark.filterwarnings("error")
def test_flags_that_no_driver_sets_are_unknown() -> None:
    flags = np.array([4.0, 1e300, -1e300, 2.0**63, 1.0])
    _, vectors = fold(np.zeros(5, np.int64), np.arange(5.0), {"clock_event_reasons": flags}, 10.0)
    _, sound = fold(
        np.zeros(5, np.int64), np.arange(5.0), {"clock_event_reasons": np.array([4, *[np.nan] * 3, 1])}, 10.0
    )
    np.testing.assert_array_equal(vectors, sound)
