"""A writer whose file can't be written for a while: what it keeps, for how long, and what it says."""

import os
import sqlite3
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from sample_rows import START, STEP, rows_of, write

from gssr.metrics import NAMES
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import Window
from gssr.store.write import pending
from gssr.store.write.writer import Writer


def messages(reader):
    return [event.message for event in reader.events if event.kind == "storage"]


def fill(writer) -> None:
    (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
    writer._connection.execute(f"PRAGMA max_page_count={pages}")  # what a full disk looks like to SQLite


@pytest.mark.parametrize("measured", [[], ["sm_active"], ["gpu_utilization", "energy"]], ids=len)
def test_of_what_is_not_measured_nothing_is_written(tmp_path, measured):
    rows = rows_of(30, 2)
    write(tmp_path / "a.sql", rows, 2, measured=measured)
    with closing(sqlite3.connect(tmp_path / "a.sql")) as connection:
        connection.row_factory = sqlite3.Row
        written = [dict(row) for row in connection.execute("SELECT * FROM samples ORDER BY rowid")]
    assert [(row["gpu"], row["time"]) for row in written] == [row[:2] for row in rows]
    for place, name in enumerate(NAMES, 2):
        assert [row[name] for row in written] == [row[place] if name in measured else None for row in rows]


def test_rows_are_committed_half_a_second_later_at_most(tmp_path):
    """So that is all a killed sampler can lose."""
    writer = write(tmp_path / "a.sql", rows_of(1, 2), 2, finish=False)
    with closing(sqlite3.connect(f"file:{tmp_path}/a.sql?mode=ro", uri=True)) as reader:
        for tick in range(1, 200):
            now = START + 10 + tick * 0.02
            writer.add([(gpu, now, *[0.5] * len(NAMES)) for gpu in range(2)])
            writer.tick(now)
            (last,) = reader.execute("SELECT max(time) FROM samples").fetchone()
            assert tick == 1 or now - last <= 0.5 + 0.02


def test_a_disk_that_is_full_for_long_costs_little_and_what_was_lost_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(pending, "MAX_ROWS", 600)
    monkeypatch.setattr(pending, "MAX_OTHERS", 50)
    rows = rows_of(4000, 2)
    writer = write(tmp_path / "a.sql", rows[:200], 2, finish=False)
    fill(writer)
    tries = []
    writer._connection.set_trace_callback(lambda statement: tries.append(statement) if "BEGIN" in statement else None)
    for row in rows[200:6000]:
        writer.add([row])
        writer.add_host(row[1], [0.5] * 10)
        writer.tick(row[1])
    seconds = 5800 / 2 * STEP
    assert len(tries) < seconds / 8
    waiting = writer._pending
    assert len(waiting.rows) <= 600 + 2 * 10 / STEP and len(waiting.others["host_samples"]) <= 50 + 2 * 10 / STEP
    assert len(waiting.closed) < 2 * (600 / 2 * STEP / 10 + 8)
    writer._connection.execute("PRAGMA max_page_count=1000000")
    for row in rows[6000:]:
        writer.add([row])
        writer.tick(row[1])
    assert writer.finish(rows[-1][1], 0, "completed", rows[-1][1]) and writer.problem is None
    (reader,) = open_recording(tmp_path / "a.sql").runs
    stored = reader.samples([])
    n_lost = len(rows) - len(stored.time)
    first, last = messages(reader)
    assert "full" in first and last == f"the recording is written again; {n_lost} samples were lost"
    assert n_lost > 5000
    buckets = reader.buckets(level=10)
    for start in (START + 10, rows[6000][1] + 10):  # before and after
        inside = (stored.time >= start // 10 * 10) & (stored.time < start // 10 * 10 + 10)
        assert buckets.vectors[buckets.start == start // 10 * 10, 0].sum() == inside.sum() > 0


def test_a_run_that_finds_no_space_leaves_nothing(tmp_path):
    writer = Writer(str(tmp_path / "a.sql"))
    fill(writer)
    with pytest.raises(RecordingError, match="full"):
        writer.begin({"run_id": "r", "command": "x" * 100_000}, {"rank": 0})
    assert os.listdir(tmp_path) == []


def test_gpus_that_find_no_space_are_recorded_later(tmp_path):
    writer = Writer(str(tmp_path / "a.sql"))
    writer.begin({"run_id": "r", "state": "running"}, {"rank": 0, "node": "n"})
    fill(writer)
    writer.add_gpus([{"device_index": gpu, "uuid": f"GPU-{gpu}", "name": "x" * 5000} for gpu in range(2)], NAMES, STEP)
    rows = rows_of(100, 2)
    for row in rows:
        if row is rows[50]:
            assert writer.problem is not None
            writer._connection.execute("PRAGMA max_page_count=1000000")
        writer.add([row])
        writer.tick(row[1])
    assert writer.finish(rows[-1][1], 0, "completed", rows[-1][1])
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert (len(reader.gpus), reader.n_rows) == (2, 200)


def test_a_number_that_no_column_holds_is_missing_and_costs_nothing_else(tmp_path):
    rows = rows_of(100, 2)
    place = 2 + NAMES.index("memory_used")
    rows[50] = (*rows[50][:place], 2**64 - 1, *rows[50][place + 1 :])
    write(tmp_path / "a.sql", rows, 2)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    used = reader.samples(["memory_used"]).values["memory_used"]
    assert len(used) == 200 and np.isnan(used[50]) and messages(reader) == []


@pytest.fixture
def network(monkeypatch):
    """As on a filesystem shared between hosts, where readers and the writer lock each other out."""
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "TRUNCATE")


def look(path) -> sqlite3.Connection:
    """A reader in the middle of its reading."""
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM samples").fetchone()
    return reader


@pytest.mark.parametrize(("seconds", "n_messages"), [(5, 0), (20, 2)])
@pytest.mark.usefixtures("network")
def test_a_reader_in_the_way_costs_nothing_and_is_told_of_only_when_it_stays(tmp_path, seconds, n_messages):
    rows = rows_of(200, 2)
    writer = write(tmp_path / "a.sql", rows[:100], 2, finish=False)
    reader = look(tmp_path / "a.sql")
    for row in rows[100:]:
        if row[1] > rows[100][1] + seconds:
            reader.close()
        writer.add([row])
        writer.tick(row[1])
    assert writer.finish(rows[-1][1], 0, "completed", rows[-1][1])
    (run,) = open_recording(tmp_path / "a.sql").runs
    assert run.n_rows == 400 and len(messages(run)) == n_messages


@pytest.mark.usefixtures("network")
def test_rows_wait_in_memory_for_a_reader_and_are_written_bit_by_bit_once_it_is_gone(tmp_path):
    path, n_gpus, seconds = tmp_path / "a.sql", 100, 0.1
    writer = Writer(str(path))
    writer.begin({"run_id": "r", "started_at": START, "sampling_ms": 100, "state": "running"}, {"rank": 0, "node": "n"})
    writer.add_gpus([{"device_index": gpu, "uuid": f"GPU-{gpu}"} for gpu in range(n_gpus)], NAMES, seconds)
    values = [place + 1 / 3 for place in range(len(NAMES))]  # each takes eight bytes
    writer.tick(START)
    reader, longest, at_once = look(path), 0.0, 0
    for tick in range(130):
        when = START + tick * seconds
        if tick == 110:
            reader.close()
        writer.add([(gpu, when, *values) for gpu in range(n_gpus)])
        began, before = time.monotonic(), writer._connection.total_changes
        writer.tick(when)
        longest = max(longest, time.monotonic() - began)
        at_once = max(at_once, writer._connection.total_changes - before)
    # A try waits 50 ms for the reader; each page of 4 KiB that outgrew the cache would wait as long.
    assert longest < 2 and at_once < pending.ROWS_AT_ONCE + 2 * n_gpus
    assert writer.finish(when, 0, "completed", when)
    (run,) = open_recording(path).runs
    assert (run.n_rows, run.state, messages(run)) == (130 * n_gpus, "completed", [])
    assert run.buckets().vectors[:, 0].sum() == 130 * n_gpus


@pytest.mark.usefixtures("network")
def test_rows_that_are_lost_to_a_reader_are_told_of_however_soon_it_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(pending, "MAX_ROWS", 16)
    monkeypatch.setattr("gssr.store.write.writer.ROWS_AT_ONCE", 8)
    rows = rows_of(200, 2)
    writer = write(tmp_path / "a.sql", rows[:100], 2, finish=False)
    reader = look(tmp_path / "a.sql")
    for row in rows[100:]:
        if row[1] > rows[100][1] + 8:
            reader.close()
        writer.add([row])
        writer.tick(row[1])
    assert writer.finish(rows[-1][1], 0, "completed", rows[-1][1])
    (run,) = open_recording(tmp_path / "a.sql").runs
    kept = len(run.samples([]).time)
    assert kept < 400 and messages(run)[1] == f"the recording is written again; {400 - kept} samples were lost"
    assert kept <= run.buckets().vectors[:, 0].sum() <= 400


@pytest.mark.usefixtures("network")
def test_a_run_begins_after_a_reader_that_is_in_the_way(tmp_path):
    rows = rows_of(100, 2)
    write(tmp_path / "a.sql", rows, 2)
    reader = look(tmp_path / "a.sql")
    timer = threading.Timer(0.5, reader.close)
    timer.start()
    write(tmp_path / "a.sql", rows, 2, "second", append=True)
    timer.join()
    assert [run.n_rows for run in open_recording(tmp_path / "a.sql").runs] == [200, 200]


@pytest.mark.usefixtures("network")
def test_the_end_of_a_run_waits_for_a_reader(tmp_path):
    rows = rows_of(100, 2)
    writer = write(tmp_path / "a.sql", rows[:-2], 2, finish=False)
    writer.add(rows[-2:])
    reader = look(tmp_path / "a.sql")
    timer = threading.Timer(0.5, reader.close)
    timer.start()
    assert writer.finish(rows[-1][1], 3, "failed", rows[-1][1])
    timer.join()
    (run,) = open_recording(tmp_path / "a.sql").runs
    assert (run.state, run.run.exit_code, run.n_rows) == ("failed", 3, 200)


def test_a_full_disk_still_takes_the_end_of_the_run(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(100, 2), 2, finish=False)
    (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
    writer._connection.execute(f"PRAGMA max_page_count={pages}")
    for row in rows_of(2000, 2)[200:]:
        writer.add([row])
    assert not writer.finish(START + 1000, 7, "failed", START + 1000)
    assert "full" in (writer.problem or "")
    reader = open_recording(tmp_path / "a.sql").runs[0]
    assert (reader.state, reader.run.exit_code, reader.n_rows) == ("failed", 7, 200)
    assert reader.buckets().vectors[:, 0].sum() == 200  # also those that no closed bucket counts
    assert len(reader.samples([], window=Window(START, START + 60)).time) == 200
    assert any("could not be written" in event.message for event in reader.events)


def test_a_full_disk_keeps_the_rows_and_writes_them_when_there_is_space_again(tmp_path):
    rows = rows_of(300, 2)
    path = tmp_path / "a.sql"
    writer = write(path, rows[:100], 2, finish=False)
    (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
    writer._connection.execute(f"PRAGMA max_page_count={pages}")  # what a full disk looks like to SQLite
    for row in rows[100:400]:
        writer.add([row])
        writer.tick(row[1])
    assert writer.problem is not None and "full" in writer.problem
    (stored,) = connect(str(path)).execute("SELECT count(*) FROM samples").fetchone()
    assert 100 <= stored < 200
    writer._connection.execute("PRAGMA max_page_count=1000000")
    for row in rows[400:]:
        writer.add([row])
        writer.tick(row[1])
    assert writer.problem is None
    assert writer.finish(rows[-1][1], 0, "completed", rows[-1][1])
    reader = open_recording(path).runs[0]
    assert reader.n_rows == 600 and reader.buckets().vectors[:, 0].sum() == 600
    messages = [event.message for event in reader.events if event.kind == "storage"]
    assert len(messages) == 2 and "could not be written" in messages[0] and "again" in messages[1]


def test_numbers_too_large_for_the_tables_beside_the_samples_cost_nothing_else(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(20, 1), 1, finish=False)
    writer.add_workload(START + 11, (1.0, 1 << 70, 3))
    assert writer.commit(START + 11) and writer.problem is None
    assert writer.finish(START + 12, 0, "completed", START + 12)
    with closing(sqlite3.connect(tmp_path / "a.sql")) as connection:
        assert connection.execute("SELECT cpu, rss, n_processes FROM workload_samples").fetchall() == [(1.0, None, 3)]


def test_a_number_that_is_still_too_large_is_a_failure_of_the_disk_and_no_end_of_sampling(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(20, 1), 1, finish=False)
    writer.sampled_every(1 << 70)
    writer.add([rows_of(21, 1)[-1]])
    assert not writer.commit(START + 11)
    assert writer.problem is not None and writer.problem.startswith(f"{tmp_path}/a.sql: can't be written: ")
