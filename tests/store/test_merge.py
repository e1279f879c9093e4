"""Merging loses nothing, doubles nothing and changes nothing that a reader shows."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import merging
import numpy as np
import pytest
import sample_rows
from merging import RUN, close_to, content, files, json_of, leave_signs, record, rollups_are_those_of_the_rows
from sample_rows import START, rows_of, write

from gssr.model.analyze import analyze
from gssr.store.format.columns import columns_of
from gssr.store.format.schema import RANKS_MISSING, TABLES
from gssr.store.merge import NothingToMergeError, merge
from gssr.store.merge.lock import acquire
from gssr.store.merge.verify import all_full, missing_from
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.read.small_tables import read_merged
from gssr.store.read.time_window import Window
from gssr.store.write.create import seal
from gssr.store.write.starts import RunStart, agree

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "run.sql"


def merged_file(recording: Path) -> None:
    """All is in the one file, and nothing else is left."""
    assert [name for name in os.listdir(recording.parent) if name.startswith(recording.name)] == [recording.name]
    with closing(sqlite3.connect(recording)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() != ("wal",)
    rollups_are_those_of_the_rows(recording)


def test_merged_ranks_show_what_their_files_showed(recording):
    for rank in range(4):
        record(recording, rank, n_gpus=rank, code=rank)
    before, rows = json_of(recording), content(files(recording))
    rolled_up = json_of(recording, exact=False)
    outcome = merge(str(recording))
    assert (outcome.n_files, outcome.left) == (4, ())
    merged_file(recording)
    assert content([recording]) == rows
    assert json_of(recording) == before and json_of(recording, exact=False) == rolled_up
    assert before[0]["state"] == "failed" and before[0]["exit_code"] == 3
    assert json_of(Path(f"{recording}.d")) == before  # the folder is gone, its name still means the recording


def test_the_sign_of_a_rank_that_came_after_its_file_was_merged_keeps_no_folder(recording):
    folder = Path(f"{recording}.d")
    for rank in range(2):
        record(recording, rank)
    (folder / "0.c-2.0.ended").touch()  # is not merged yet
    assert merge(str(recording)).n_files == 2
    (folder / f"1.{RUN}.ended").touch()
    assert merge(str(recording)).n_files == 0 and os.listdir(folder) == ["0.c-2.0.ended"]
    os.rename(folder / "0.c-2.0.ended", folder / f"0.{RUN}.ended")
    merge(str(recording))
    merged_file(recording)


def test_who_waits_for_a_merge_that_leaves_no_folder_has_nothing_to_merge(recording, monkeypatch):
    """Also where the name of a folder is seen for a while after it is gone."""
    record(recording, 0)
    folder = f"{recording}.d"
    held = acquire(folder)
    assert held is not None
    monkeypatch.setattr(os.path, "isdir", lambda path: path == folder or Path(path).is_dir())
    timer = threading.Timer(0.3, shutil.rmtree, [folder])
    timer.start()
    with pytest.raises(NothingToMergeError, match="no such folder"):
        merge(str(recording), patience=30.0)
    timer.join()


def test_a_window_of_a_merged_file_reads_its_own_rows_only(recording):
    for rank in range(4):
        record(recording, rank, n_ticks=600, lost=rank == 2)
    ends = (START + 100.3, START + 107.7), (START + 290.0, None), (None, START + 3.2), (START + 500, START + 900)
    windows = [Window.between(*each) for each in ends]
    before = [open_recording(recording).runs[0].samples(["sm_active", "energy"], None, window) for window in windows]
    merge(str(recording))
    (reader,) = open_recording(recording).runs
    for window, rows in zip(windows, before, strict=True):
        found = reader.samples(["sm_active", "energy"], None, window)
        assert np.array_equal(found.time, rows.time) and np.array_equal(found.gpu, rows.gpu)
        assert np.array_equal(found.values["sm_active"], rows.values["sm_active"], equal_nan=True)
    first, last = reader._parts[0]._ranges(*windows[0])[0]
    assert last - first < 100 and len(reader._parts[0]._ranges(*windows[0])) == 4


def test_a_file_that_a_reader_kept_from_being_sealed_is_merged_as_well(recording):
    readers = []
    for rank in range(3):
        path = record(recording, rank)
        for mode in ("WAL", "DELETE") if rank == 1 else ("WAL",):
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(f"PRAGMA journal_mode={mode}")
        readers.append(sqlite3.connect(path))
        readers[-1].execute("SELECT count(*) FROM samples").fetchone()
    rows = content(files(recording))
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows
    for reader in readers:
        assert reader.execute("SELECT count(*) FROM samples").fetchone() == (120,)
        reader.close()


READER = """
import sys
from gssr.store.read.recording import open_recording
recording = open_recording(sys.argv[1])
print(recording.runs[0].n_rows, flush=True)
sys.stdin.readline()
shard = recording._shards[0].file.connection
print(shard.execute("SELECT count(*) FROM samples").fetchone()[0], recording.damage)
"""


@pytest.fixture
def reader(recording):
    """A process that reads a recording with a run in it, until it is told to end."""
    write(recording, rows_of(60, 1), 1)
    with closing(sqlite3.connect(recording)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        process = subprocess.Popen(
            [sys.executable, "-c", READER, recording], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdout.readline() == "60\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("left", ["folder", "file"])
def test_what_a_reader_kept_beside_a_merged_file_is_put_into_it_by_the_next_merge(recording, reader, left):
    record(recording, 0)
    assert merge(str(recording)).n_files == 1
    beside = {f"{recording.name}{suffix}" for suffix in ("", "-shm", "-wal")}
    assert set(os.listdir(recording.parent)) == beside
    rows = content([recording])
    assert reader.communicate("\n", timeout=60)[0] == "60 None\n"  # nothing changed under it
    assert set(os.listdir(recording.parent)) == beside
    if left == "folder":
        os.mkdir(f"{recording}.d")
        assert merge(str(recording)).n_files == 0
    else:
        subprocess.run([sys.executable, "-m", "gssr", "merge", recording], check=True, stdout=subprocess.DEVNULL)
    merged_file(recording)
    assert content([recording]) == rows


def test_who_reads_a_recording_for_a_moment_is_waited_for(recording, reader, monkeypatch):
    record(recording, 0)
    tries = []

    def counted(connection: sqlite3.Connection) -> None:
        seal(connection)
        tries.append(1)
        if len(tries) == 4:
            reader.communicate("\n", timeout=60)

    monkeypatch.setattr("gssr.store.write.create.seal", counted)
    monkeypatch.setattr("gssr.store.merge.READERS_SECONDS", 60.0)
    assert merge(str(recording), patience=600.0).n_files == 1
    assert len(tries) == 5
    merged_file(recording)


def test_a_recording_that_is_recorded_into_is_not_sealed(recording):
    writer = write(recording, rows_of(60, 1), 1, finish=False)
    os.mkdir(f"{recording}.d")
    assert merge(str(recording)).n_files == 0
    assert os.path.getsize(f"{recording}-wal") > 0
    assert writer.finish(START + 60, 0, "completed", START + 60)


def test_merging_what_is_merged_changes_nothing(recording):
    for rank in range(2):
        record(recording, rank)
    merge(str(recording))
    before = recording.read_bytes()
    with pytest.raises(RecordingError, match="no such folder"):
        merge(str(recording))
    os.mkdir(f"{recording}.d")
    assert merge(f"{recording}.d/").n_files == 0
    assert recording.read_bytes() == before and not os.path.exists(f"{recording}.d")


def test_a_merged_file_is_one_that_pandas_reads_without_help(recording):
    import pandas as pd

    for rank in range(2):
        record(recording, rank)
    merge(str(recording))
    with closing(sqlite3.connect(recording)) as connection:
        samples = pd.read_sql("SELECT node, rank, uuid, count(*) AS n FROM gpu_samples GROUP BY gpu", connection)
        runs = pd.read_sql("SELECT * FROM runs", connection)
    assert list(samples.n) == [60] * 4 and list(samples["rank"]) == [0, 0, 1, 1] and len(runs) == 1


def test_more_gpus_than_keys_of_a_rank_stay_apart(recording):
    for rank in range(3):
        record(recording, rank, n_gpus=70, n_ticks=3)
    before, rows = json_of(recording, keys=False), content(files(recording))
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows and json_of(recording, keys=False) == before
    assert len({gpu.gpu for gpu in open_recording(recording).runs[0].gpus}) == 210


def test_a_rank_that_was_killed_is_merged_up_to_its_last_commit_and_reads_as_lost(recording):
    record(recording, 0, n_ticks=3000)
    record(recording, 1, n_ticks=1400, lost=True)
    before, rows = json_of(recording), content(files(recording))
    rolled_up = json_of(recording, exact=False)
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows
    assert json_of(recording) == before and before[0]["state"] == "lost"
    assert close_to(json_of(recording, exact=False), rolled_up)
    histogram = open_recording(recording).runs[0].histograms(["sm_active"]).counts["sm_active"]
    assert histogram.sum() == sum(row[1][0] is not None and row[0] is not None for row in counted(recording))


def test_what_a_rank_had_sketched_but_not_rolled_up_when_it_was_killed_counts_once(recording, monkeypatch):
    for module in (merging, sample_rows):
        monkeypatch.setattr(module, "STEP", 0.05)  # so fast that a sketch is written before the rollups of its time
    shard = record(recording, 0, n_ticks=480, begin=380.0, lost=True, world_size=1)
    copied = shutil.copytree(shard.parent, recording.with_name("copy"))
    with closing(sqlite3.connect(copied / shard.name)) as connection:
        ends = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("sketch", "sketch_minute")]
        assert ends == [(2,), (2,)]
        assert connection.execute("SELECT count(*) FROM rollup WHERE level = 600").fetchone() == (0,)
    merge(str(recording))
    merged_file(recording)


def counted(recording: Path) -> list:
    with closing(sqlite3.connect(recording)) as connection:
        return [(1, row) for row in connection.execute("SELECT sm_active FROM samples")]


@pytest.mark.parametrize("n_ticks", [90, 2600])
def test_a_gpu_that_ranks_sampled_in_turns_is_one_gpu(recording, n_ticks):
    uuids = [f"GPU-{place}" for place in range(3)]
    half, third = n_ticks // 2, n_ticks // 3
    turns = [{0: (0, n_ticks), 1: (half, n_ticks)}, {1: (0, half), 2: (third, n_ticks)}, {2: (0, third)}, {}]
    for rank, sampled in enumerate(turns):
        record(recording, rank, n_ticks=n_ticks, uuids=uuids, sampled=sampled, node="n", lost=rank == 2)
    before, rows = json_of(recording), content(files(recording))
    rolled_up = json_of(recording, exact=False)
    assert [gpu["n_samples"] for gpu in before[0]["gpus"]] == [n_ticks] * 3
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows
    assert close_to(json_of(recording), before) and close_to(json_of(recording, exact=False), rolled_up)
    with closing(sqlite3.connect(recording)) as connection:
        assert connection.execute("SELECT uuid, rank FROM gpus ORDER BY uuid").fetchall() == [(u, None) for u in uuids]


def test_a_gpu_that_ranks_sampled_at_the_same_time_counts_once(recording):
    for rank in range(3):
        sampled = {0: (0, 40 + 20 * rank), 1: (0, 30)} if rank < 2 else {0: (60, 80), 1: (31, 80)}
        record(recording, rank, n_ticks=80, uuids=["GPU-0", "GPU-1"], sampled=sampled, node="n")
    before, rows = json_of(recording), content(files(recording))
    rolled_up = json_of(recording, exact=False)
    assert [gpu["n_samples"] for gpu in before[0]["gpus"]] == [80, 79]
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows and close_to(json_of(recording), before)
    assert close_to(json_of(recording, exact=False), rolled_up)


def test_a_run_that_is_still_recorded_stays_as_it_is(recording):
    record(recording, 0)
    record(recording, 1, lost=True)
    path = next(Path(f"{recording}.d").glob("*.1.*.sql"))
    os.utime(path)  # written just now, on another node
    record(recording, 0, run_id="c-2.0", begin=1000)
    outcome = merge(str(recording))
    assert outcome.n_files == 1 and [run.run.run_id for run in open_recording(recording).runs] == [RUN, "c-2.0"]
    assert "c-1.0 is not merged: 1 rank is still being recorded" in outcome.waiting["c-1.0"]
    os.utime(path, (START, START))
    assert merge(str(recording)).n_files == 2
    merged_file(recording)


def test_a_host_whose_clock_is_ahead_takes_nobody_who_records_for_lost(recording, monkeypatch):
    shard = record(recording, 0, lost=True)
    os.utime(shard)  # written just now, on another node
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 120)
    assert merge(str(recording)).n_files == 0 and shard.exists()
    os.utime(shard, (START, START))
    assert merge(str(recording)).n_files == 1
    merged_file(recording)


@pytest.mark.parametrize("mode", ["WAL", "TRUNCATE"])
def test_ranks_are_added_to_a_file_that_holds_other_runs(recording, monkeypatch, mode):
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: mode)
    write(recording, rows_of(100, 3), 3, run_id="before")
    for rank in range(3):
        record(recording, rank)
    before, rows = json_of(recording, keys=False), content(files(recording))
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows and json_of(recording, keys=False) == before
    assert [run["run_id"] for run in before] == ["before", RUN]


def test_a_late_file_joins_its_run_although_another_was_added_since(recording):
    record(recording, 0)
    late = record(recording, 1)
    aside = shutil.move(late, recording.parent / "late")
    merge(str(recording))
    write(recording, rows_of(50, 2), 2, run_id="after", append=True)
    os.makedirs(late.parent, exist_ok=True)
    shutil.move(aside, late)
    before, rows = json_of(recording, keys=False), content(files(recording))
    merge(str(recording))
    merged_file(recording)
    assert content([recording]) == rows
    assert sorted(json_of(recording, keys=False), key=repr) == sorted(before, key=repr)


def test_a_merge_that_was_killed_before_the_disk_had_it_all_is_ended_first(recording, monkeypatch):
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "WAL")
    write(recording, rows_of(10, 1), 1, run_id="before")
    record(recording, 0)
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr("gssr.store.merge.seal", lambda _connection: os._exit(0))
        merge(str(recording))
    os.waitpid(pid, 0)
    assert os.path.getsize(f"{recording}-wal") and len(files(recording)) == 2
    assert merge(str(recording)).n_files == 1
    merged_file(recording)


def test_an_empty_file_of_that_name_is_used(recording):
    recording.touch()
    record(recording, 0)
    assert merge(str(recording)).n_files == 1
    merged_file(recording)


def test_a_damaged_file_is_left_and_named_and_the_others_are_merged(recording):
    for rank in range(3):
        record(recording, rank, n_ticks=600)
    path = next(Path(f"{recording}.d").glob("*.1.*.sql"))
    data = bytearray(path.read_bytes())
    data[40960:61440] = b"\xff" * 20480
    path.write_bytes(data)
    (path.parent / "node9.9.x.sql").touch()
    outcome = merge(str(recording))
    assert outcome.n_files == 2 and len(outcome.left) == 2
    assert str(path) in " ".join(outcome.left) and "damaged" in " ".join(outcome.left)
    assert sorted(os.listdir(path.parent)) == sorted([path.name, "node9.9.x.sql"]) and path.read_bytes() == data


def test_what_is_being_recorded_into_or_is_something_else_is_not_added_to(recording):
    record(recording, 0)
    recording.write_text("precious notes, long enough to have a head of their own\n" * 9)
    with pytest.raises(RecordingError, match="not a recording"):
        merge(str(recording))
    recording.unlink()
    writer = write(recording, rows_of(10, 1), 1, run_id="alone", finish=False)
    with pytest.raises(RecordingError, match="being recorded into"):
        merge(str(recording))
    assert len(files(recording)) == 2
    del writer


def test_samples_that_a_full_disk_cost_leave_the_rollups_right(recording):
    for rank in range(3):
        with closing(sqlite3.connect(record(recording, rank, n_ticks=100))) as connection:
            if rank == 1:
                connection.execute("DELETE FROM rollup WHERE last_rowid < 60")
                connection.execute("DELETE FROM rollup WHERE first_rowid < 60 AND level > 10")
                connection.execute("DELETE FROM sketch")
                connection.execute("DELETE FROM samples WHERE rowid < 80 AND rowid > 1")
            connection.commit()
    before, rows = json_of(recording), content(files(recording))
    merge(str(recording))
    assert content([recording]) == rows and json_of(recording) == before


def test_columns_of_a_later_version_are_kept(recording):
    for rank in range(2):
        with closing(sqlite3.connect(record(recording, rank))) as connection:
            connection.execute("ALTER TABLE samples ADD COLUMN warp_speed REAL")
            connection.execute("ALTER TABLE gpus ADD COLUMN colour TEXT")
            connection.execute("UPDATE samples SET warp_speed = rowid")
            connection.execute("UPDATE gpus SET colour = 'green'")
            connection.commit()
    merge(str(recording))
    with closing(sqlite3.connect(recording)) as connection:
        assert connection.execute("SELECT total(warp_speed) FROM samples").fetchone() == (2 * 120 * 121 / 2,)
        assert connection.execute("SELECT DISTINCT colour FROM gpus").fetchall() == [("green",)]


def test_verifying_finds_each_row_that_is_missing_or_doubled(recording):
    copied = {}
    for rank in range(3):
        path = record(recording, rank)
        shutil.copyfile(path, recording.parent / path.name)
        with closing(sqlite3.connect(path)) as connection:
            (copied[path.name],) = connection.execute("SELECT count(*) FROM samples").fetchone()
    merge(str(recording))
    with closing(sqlite3.connect(recording, isolation_level=None)) as merged:
        ledger = read_merged(merged)

        def complaints() -> list[str]:
            full = all_full(merged, ledger, copied)
            found = [
                missing_from(
                    merged,
                    str(recording.parent / row.shard),
                    row,
                    copied[row.shard],
                    copied[row.shard] if full else None,
                )
                for row in ledger
            ]
            return [text for text in found if text is not None]

        assert all_full(merged, ledger, copied) and not complaints()
        last = ledger[1].last_rowid
        for damage in (
            f"DELETE FROM samples WHERE rowid = {last - 3}",
            "DELETE FROM samples WHERE rowid = (SELECT max(rowid) FROM samples)",
            # As many rows as there were: one is where none belongs.
            f"UPDATE samples SET rowid = (SELECT max(rowid) + 1 FROM samples) WHERE rowid = {last - 3}",
            f"UPDATE samples SET rowid = 0 WHERE rowid = {last - 3}",
        ):
            merged.execute("BEGIN")
            merged.execute(damage)
            n = copied[ledger[0].shard]
            assert not all_full(merged, ledger, copied)
            assert complaints() == [f"{n - 1} of {n} samples are in the merged file"], damage
            merged.execute("ROLLBACK")


def test_large_recordings_are_merged_into_large_pages_and_small_ones_stay_small(recording, monkeypatch):
    record(recording, 0)
    merge(str(recording))
    assert recording.stat().st_size < 200_000
    with closing(sqlite3.connect(recording)) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (4096,)
    recording.unlink()
    monkeypatch.setattr("gssr.store.write.create._MANY_BYTES", 1000)
    path = record(recording, 0)
    before = json_of(recording)
    assert path.exists()
    merge(str(recording))
    with closing(sqlite3.connect(recording)) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (16384,)
    merged_file(recording)
    assert json_of(recording) == before


def test_only_one_merges_at_a_time_and_a_dead_one_is_taken_over(recording):
    folder = Path(f"{recording}.d")
    record(recording, 0)
    lock = acquire(str(folder))
    assert lock is not None and acquire(str(folder), patience=0.1) is None
    with pytest.raises(NothingToMergeError, match="is being merged"):
        merge(str(recording))
    (folder / "merge.lock").write_text("elsewhere\tboot\t1\t1\tnonce")
    assert not lock.held and acquire(str(folder)) is None  # at work a moment ago, on another host
    os.utime(folder / "merge.lock", (START, START))
    assert merge(str(recording)).n_files == 1
    merged_file(recording)


def test_a_lock_of_somebody_who_was_killed_before_writing_in_it_is_taken_over_while_one_waits(tmp_path: Path) -> None:
    (tmp_path / "merge.lock").touch()
    assert acquire(str(tmp_path)) is None  # somebody may be about to
    lock = acquire(str(tmp_path), patience=8.0)
    assert lock is not None and lock.held


def replaces(recording, run_id, *replaced):
    """Write down what the first rank of a run has found to be over."""
    agree(f"{recording}.d", run_id, lambda _: RunStart(run_id, "", False, replaces=replaced))


def test_what_a_run_replaces_is_deleted_when_it_is_merged_and_nothing_else_whenever_that_began(recording):
    write(recording, rows_of(20, 1), 1, run_id="old")
    for run_id in ("c-0.9", "c-0.8"):
        record(recording, 0, run_id=run_id, begin=-1000, world_size=1)
        leave_signs(recording, run_id, 1)
    replaces(recording, "c-2.0", "old", "c-0.9")
    for rank in range(2):
        record(recording, rank, world_size=2)
    outcome = merge(str(recording), own=RUN)
    assert outcome.n_files == 4 and not outcome.replaced  # the one that replaces them isn't there yet
    record(recording, 0, run_id="c-2.0", begin=-2000, world_size=1)
    replaces(recording, "c-2.0", "old", "c-0.9")
    outcome = merge(str(recording), own="c-2.0", overwrite=True)
    assert [text.split(": ")[1] for text in outcome.replaced] == ["c-0.9 is deleted", "old is deleted"]
    assert [text.split(": ")[1] for text in outcome.left] == ["c-0.8 is not overwritten", f"{RUN} is not overwritten"]
    assert {run.run.run_id for run in open_recording(recording).runs} == {RUN, "c-0.8", "c-2.0"}
    merged_file(recording)


def test_a_run_that_replaces_all_others_takes_the_place_of_their_file(recording):
    write(recording, rows_of(20, 1), 1, run_id="a run of % another tool's")
    record(recording, 0, run_id="c-0.9", begin=-1000, world_size=1)
    leave_signs(recording, "c-0.9", 1)
    record(recording, 0, run_id="c-2.0", begin=1000, world_size=1)
    replaces(recording, "c-2.0", "a run of % another tool's", "c-0.9")
    assert merge(str(recording), own="c-2.0", overwrite=True).left == ()
    assert [run.run.run_id for run in open_recording(recording).runs] == ["c-2.0"]
    merged_file(recording)


def test_a_chain_of_runs_that_replace_each_other_leaves_the_last(recording):
    write(recording, rows_of(20, 1), 1, run_id="old")
    for number, replaced in ((1, ["old"]), (2, ["c-1.0", "old"]), (3, ["c-2.0"])):
        record(recording, 0, run_id=f"c-{number}.0", world_size=1)
        replaces(recording, f"c-{number}.0", *replaced)
    merge(str(recording))
    assert [run.run.run_id for run in open_recording(recording).runs] == ["c-3.0"]
    merged_file(recording)


def test_runs_are_deleted_from_among_others_which_are_read_as_before(recording):
    for number in range(4):
        for rank in range(2):
            record(recording, rank, run_id=f"c-{number}.0", begin=1000 * number, world_size=2, n_ticks=60 + 30 * number)
        merge(str(recording))
    before = {run["run_id"]: run for run in json_of(recording, keys=False)}
    record(recording, 0, run_id="c-9.0", begin=9000, world_size=1)
    replaces(recording, "c-9.0", "c-0.0", "c-2.0")
    before |= {run["run_id"]: run for run in json_of(recording, keys=False) if run["run_id"] == "c-9.0"}
    merge(str(recording), own="c-9.0")
    after = {run["run_id"]: run for run in json_of(recording, keys=False)}
    assert after == {run_id: before[run_id] for run_id in ("c-1.0", "c-3.0", "c-9.0")}
    with closing(sqlite3.connect(recording)) as connection:
        for table in TABLES:
            columns = columns_of(connection, table)
            owner = "run_id" if "run_id" in columns else "gpu"
            of = "runs" if owner == "run_id" else "gpus"
            query = f"SELECT count(*) FROM {table} WHERE {owner} NOT IN (SELECT {owner} FROM {of})"
            assert connection.execute(query).fetchone() == (0,), table
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("own, overwrite", [("c-9.0", False), ("c-9.0", True)])
def test_ranks_of_a_run_that_are_through_while_others_have_not_begun_are_left_to_it(recording, own, overwrite):
    for rank in range(2):
        record(recording, rank)  # of 4
    record(recording, 0, run_id=own, begin=1000, world_size=1)
    outcome = merge(str(recording), own=own, overwrite=overwrite)
    assert outcome.n_files == 1 and set(outcome.waiting) == {RUN}
    assert ("is not overwritten: ranks of it" in "".join(outcome.left)) == overwrite
    for rank in (2, 3):
        record(recording, rank)
    assert merge(str(recording), own=RUN).n_files == 4
    readers = {reader.run.run_id: reader for reader in open_recording(recording).runs}
    assert set(readers) == {own, RUN} and len(readers[RUN].processes) == 4


def test_a_run_that_ended_just_now_is_left_to_its_last_rank_until_all_have_said_that_they_are_through(recording):
    for rank in range(4):
        record(recording, rank)
    leave_signs(recording, RUN, 3)
    for number in (2, 3, 4):
        record(recording, 0, run_id=f"c-{number}.0", begin=1000 * number, world_size=1)
    assert set(merge(str(recording), own="c-2.0").waiting) == {RUN, "c-3.0", "c-4.0"}
    leave_signs(recording, "c-3.0", 1)
    killed = next(Path(f"{recording}.d").glob("*.c-4.0.sql"))
    os.utime(killed, (time.time() - 6,) * 2)
    outcome = merge(str(recording), own="c-5.0")
    assert (outcome.n_files, set(outcome.waiting)) == (2, {RUN})
    leave_signs(recording, RUN, 4)
    assert merge(str(recording), own="c-5.0").n_files == 4
    merged_file(recording)


def test_a_run_that_lacks_ranks_says_so_and_no_more_when_they_have_come(recording):
    for rank in (0, 3):
        record(recording, rank)
    (reader,) = open_recording(recording).runs
    assert reader.ranks_missing == (1, 2)
    merge(str(recording))
    (reader,) = open_recording(recording).runs
    assert [event.message for event in reader.events if event.kind == RANKS_MISSING] == [
        "merged without 2 of 4 ranks: 1-2"
    ]
    assert analyze(reader).notes[0] == "not in the recording: 2 of 4 ranks: 1-2"
    for rank in (1, 2):
        record(recording, rank)
    merge(str(recording))
    (reader,) = open_recording(recording).runs
    assert reader.ranks_missing == () and not [event for event in reader.events if event.kind == RANKS_MISSING]
    merged_file(recording)


@pytest.mark.parametrize("world_size, missing", [(None, None), (0, None), (10**15, None), (1, ())])
def test_a_number_of_ranks_that_no_run_has_is_not_believed(recording, world_size, missing):
    record(recording, 0, world_size=world_size)
    assert open_recording(recording).runs[0].ranks_missing == missing


def test_what_was_overwritten_keeps_no_folder(recording):
    folder = Path(f"{recording}.d")
    record(recording, 0, world_size=1)
    record(recording, 0, run_id="c-9.0", begin=1000, world_size=1)
    record(recording, 0, run_id="c-10.0", begin=2000)  # ranks of it are to come
    for number, run_id in enumerate((RUN, "c-9.0", "c-10.0"), 1):
        (folder / ("run" if number == 1 else f"run.{number}")).write_text(f"{run_id} - recorded\n")
        (folder / f"0.{run_id}.ended").touch()
    merge(str(recording), own="c-9.0", overwrite=True)
    assert sorted(os.listdir(folder)) == ["0.c-10.0.ended", "node0.0.c-10.0.sql", "run", "run.2", "run.3"]
    merge(str(recording))
    merged_file(recording)


def test_a_merged_run_that_was_overwritten_keeps_no_folder(recording):
    folder = Path(f"{recording}.d")
    record(recording, 0, world_size=1)
    merge(str(recording), own=RUN)
    record(recording, 0, run_id="c-9.0", begin=1000, world_size=1)
    (folder / "run").write_text(f"{RUN} - recorded\n")
    merge(str(recording), own="c-9.0", overwrite=True)
    merged_file(recording)


def test_random_recordings_merge_to_the_same(tmp_path):
    for seed in range(3):
        rng = random.Random(seed)
        recording = tmp_path / f"{seed}.sql"
        if rng.random() < 0.5:
            write(recording, rows_of(rng.randrange(1, 50), 2), 2, run_id="before")
        for run in range(rng.randrange(1, 3)):
            for rank in range(rng.randrange(1, 5)):
                n_ticks, n_gpus, code = rng.choice([1, 30, 1500]), rng.randrange(0, 4), rng.choice([0, 0, 1])
                lost = rng.random() < 0.2
                record(
                    recording, rank, n_gpus, n_ticks, f"r{run}", 2000.0 * run, code=code, lost=lost, node=f"n{rank % 2}"
                )
        before, rows = json_of(recording, keys=False), content(files(recording))
        rolled_up = json_of(recording, exact=False, keys=False)
        merge(str(recording))
        merged_file(recording)
        assert content([recording]) == rows, seed
        assert json_of(recording, keys=False) == before, seed
        assert close_to(json_of(recording, exact=False, keys=False), rolled_up), seed


def test_ranks_whose_files_can_not_be_opened_at_once_are_not_said_to_be_missing(recording):
    n = 30
    for rank in range(n):
        record(recording, rank, n_gpus=1, n_ticks=4, world_size=n)

    def gssr(most: int, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f"ulimit -n {most}; exec {sys.executable} -m gssr {command} {recording}"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
            capture_output=True,
        )

    done = gssr(32, "analyze")
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.count("\n") == 1
    assert f"{recording}: is 30 files, of which only " in done.stderr and "gssr merge" in done.stderr
    done = gssr(50, "analyze")  # too few for their pages as well
    assert done.returncode == 0 and "30 GPUs on 15 nodes" in done.stdout and "missing" not in done.stdout, done.stderr
    assert gssr(32, "merge").stdout.endswith("30 files merged\n")
    done = gssr(32, "analyze")
    assert done.returncode == 0 and "30 GPUs on 15 nodes" in done.stdout and "missing" not in done.stdout, done.stderr
