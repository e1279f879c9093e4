"""Whatever file is given, the answer is the recording or one sentence that names the file."""

import gc
import os
import shutil
import socket
import sqlite3
import stat
import threading
import time
from contextlib import closing

import pytest
from sample_rows import START, rows_of, write

from gssr.store.disk import filesystem_of, journal_mode
from gssr.store.liveness import boot_id, process_start
from gssr.store.read import open as opening
from gssr.store.read import small_tables
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.write.create import TakenError, overwriting
from gssr.store.write.writer import Writer


def sentence(path) -> str:
    with pytest.raises(RecordingError) as caught:
        open_recording(path)
    text = str(caught.value)
    assert "\n" not in text and str(path) in text
    return text


def test_a_missing_file_is_said(tmp_path):
    assert "no such file" in sentence(tmp_path / "nowhere.sql")


def test_an_empty_file_is_said(tmp_path):
    (tmp_path / "empty.sql").touch()
    assert "is empty" in sentence(tmp_path / "empty.sql")


def test_a_file_that_is_no_database_is_said(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, only some text that is long enough to have a head")
    assert "not an SQLite database" in sentence(tmp_path / "notes.txt")


def test_a_folder_without_recordings_is_said(tmp_path):
    assert "holds no recording" in sentence(tmp_path)


def test_a_folder_of_an_unfinished_archive_is_said(tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "0.evt").write_bytes(b"\0")
    assert "without its anchor file, traces.otf2" in sentence(tmp_path)


def test_what_is_not_a_file_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe.sql")
    assert "is not a file" in sentence(tmp_path / "pipe.sql")


def test_a_database_of_something_else_is_said(tmp_path):
    connection = sqlite3.connect(tmp_path / "other.sql")
    connection.execute("CREATE TABLE runs (a)")
    connection.close()
    assert "something else" in sentence(tmp_path / "other.sql")


def test_a_recording_of_the_published_tool_is_named_as_such(tmp_path):
    connection = sqlite3.connect(tmp_path / "old.sql")
    connection.execute("CREATE TABLE data (sm_active)")
    connection.execute("CREATE TABLE process_metadata (job_id)")
    connection.close()
    said = sentence(tmp_path / "old.sql")
    assert "gssr-0.x" in said and "gssr import" in said


def test_a_newer_schema_is_refused_with_both_numbers(tmp_path):
    write(tmp_path / "a.sql", rows_of(10, 1), 1)
    connection = sqlite3.connect(tmp_path / "a.sql")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    assert "schema 2" in sentence(tmp_path / "a.sql") and "up to 1" in sentence(tmp_path / "a.sql")


def test_the_file_says_what_it_is_from_its_first_second(tmp_path):
    writer = Writer(str(tmp_path / "a.sql"))
    head = (tmp_path / "a.sql").read_bytes()[:100]
    assert head[68:72] == b"GSSR" and head[60:64] == b"\0\0\0\1"
    del writer


def test_a_finished_recording_is_one_plain_file_that_opens_where_nothing_can_be_written(tmp_path):
    folder = tmp_path / "sealed"
    folder.mkdir()
    write(folder / "a.sql", rows_of(50, 2), 2)
    assert os.listdir(folder) == ["a.sql"]
    connection = sqlite3.connect(f"file:{folder}/a.sql?mode=ro&immutable=1", uri=True)
    assert connection.execute("PRAGMA journal_mode").fetchone() != ("wal",)
    assert connection.execute("SELECT count(*) FROM gpu_samples").fetchone() == (100,)


def test_reading_never_changes_the_folder(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(50, 2), 2, finish=False)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("a.sql", "a.sql-wal"):  # as a killed writer leaves it, seen where the shared memory is gone
        shutil.copyfile(tmp_path / name, copy / name)
    before = {name: (copy / name).read_bytes() for name in os.listdir(copy)}
    copy.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert open_recording(copy / "a.sql").runs[0].n_rows == 100
        after = {name: (copy / name).read_bytes() for name in before}
    finally:
        copy.chmod(stat.S_IRWXU)
    assert after == before
    del writer


def test_a_link_to_a_recording_is_the_recording(tmp_path):
    (tmp_path / "place").mkdir()
    writer = write(tmp_path / "place" / "a.sql", rows_of(50, 1), 1, finish=False)
    link = tmp_path / "link.sql"
    link.symlink_to("place/a.sql")
    os.utime(link, (START, START))  # what was written last is in the write-ahead log
    (reader,) = open_recording(link).runs
    assert (reader.n_rows, reader.state) == (50, "running")
    os.utime(tmp_path / "place" / "a.sql-wal", (START, START))
    os.utime(tmp_path / "place" / "a.sql", (START, START))
    with overwriting(str(link)):
        pass
    assert os.listdir(tmp_path / "place") == [] and link.is_symlink()
    del writer


def test_a_hot_journal_is_rolled_back_in_a_private_copy(tmp_path, monkeypatch):
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "TRUNCATE")
    writer = write(tmp_path / "a.sql", rows_of(50, 2), 2, finish=False)
    writer._connection.execute("PRAGMA cache_size=1")
    writer._connection.execute("BEGIN IMMEDIATE")
    writer._connection.execute("UPDATE samples SET sm_active = 99")  # spills: the file holds half a transaction
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("a.sql", "a.sql-journal"):
        shutil.copyfile(tmp_path / name, copy / name)
    journal = (copy / "a.sql-journal").read_bytes()
    assert len(journal) > 512
    samples = open_recording(copy / "a.sql").runs[0].samples(["sm_active"])
    assert len(samples.time) == 100 and not (samples.values["sm_active"] > 1).any()
    assert (copy / "a.sql-journal").read_bytes() == journal
    writer._connection.execute("ROLLBACK")


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_truncated_file_gives_a_part_or_a_sentence(tmp_path, keep):
    write(tmp_path / "a.sql", rows_of(3000, 2), 2)
    data = (tmp_path / "a.sql").read_bytes()
    (tmp_path / "a.sql").write_bytes(data[: int(len(data) * keep)])
    try:
        recording = open_recording(tmp_path / "a.sql")
    except RecordingError as error:
        assert "a.sql" in str(error)
        return
    for run in recording.runs:
        run.samples(["sm_active"])
        run.buckets()
    assert recording.damage and "a.sql" in recording.damage and "\n" not in recording.damage


def test_a_file_with_scribbled_pages_gives_a_part_and_says_so(tmp_path):
    write(tmp_path / "a.sql", rows_of(3000, 2), 2)
    data = bytearray((tmp_path / "a.sql").read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 5 * 4096] = b"\xff" * (5 * 4096)
    (tmp_path / "a.sql").write_bytes(data)
    recording = open_recording(tmp_path / "a.sql")
    samples = recording.runs[0].samples(["sm_active"])
    assert 0 < len(samples.time) < 6000
    assert "damaged" in (recording.damage or "")


def test_a_killed_recording_is_lost_and_a_foreign_silent_one_too(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(50, 1), 1, finish=False)
    assert open_recording(tmp_path / "a.sql").runs[0].state == "running"  # written this second, on another host
    os.utime(tmp_path / "a.sql", (START, START))
    os.utime(tmp_path / "a.sql-wal", (START, START))
    assert open_recording(tmp_path / "a.sql").runs[0].state == "lost"
    del writer


def test_a_recorder_in_a_container_is_not_taken_for_gone(tmp_path):
    writer = Writer(str(tmp_path / "a.sql"))
    process = {"rank": 0, "hostname": socket.gethostname(), "pid": 1, "pid_start": 1, "state": "running"}
    writer.begin({"run_id": "r", "state": "running"}, process | {"boot_id": f"{boot_id()} pid:[4026532999]"})
    assert open_recording(tmp_path / "a.sql").runs[0].state == "running"  # its pid 1 is not ours
    for name in ("a.sql", "a.sql-wal"):
        os.utime(tmp_path / name, (START, START))
    assert open_recording(tmp_path / "a.sql").runs[0].state == "lost"
    assert writer.finish(START, 0, "completed", START)


def test_looking_at_a_silent_recording_does_not_revive_it(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(50, 1), 1, finish=False)
    writer._connection.close()
    os.utime(tmp_path / "a.sql", (START, START))
    for _ in range(2):  # the first look leaves an empty write-ahead log
        assert open_recording(tmp_path / "a.sql").runs[0].state == "lost"


def test_an_existing_file_is_never_taken_for_a_new_one(tmp_path):
    write(tmp_path / "a.sql", rows_of(10, 1), 1)
    with pytest.raises(RecordingError, match="exists already"):
        Writer(str(tmp_path / "a.sql"))
    with pytest.raises(RecordingError, match="can't be written"):
        Writer(str(tmp_path / "missing" / "a.sql"))


def begin(writer, run_id):
    process = {"rank": 0, "hostname": socket.gethostname(), "boot_id": boot_id(), "state": "running"}
    process |= {"pid": os.getpid(), "pid_start": process_start(os.getpid())}
    writer.begin({"run_id": run_id, "state": "running"}, process)


def test_a_file_belongs_to_the_first_who_begins_a_run_in_it(tmp_path, monkeypatch):
    path = str(tmp_path / "a.sql")
    first = Writer(path)
    with monkeypatch.context() as patch:
        patch.setattr("gssr.store.write.create._is_empty_file", lambda _path: True)  # seen in the moment before
        rival = Writer(path)
    begin(first, "first")
    with pytest.raises(TakenError):
        begin(rival, "late")
    with pytest.raises(TakenError):
        Writer(path, append=True)
    with pytest.raises(TakenError), overwriting(path):
        pass
    assert first.finish(START, 0, "completed", START) and not first.moved
    both = [Writer(path, append=True) for _ in range(2)]
    begin(both[0], "second")
    with pytest.raises(TakenError):
        begin(both[1], "late")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        both[1]._connection.execute("SELECT 1")
    assert both[0].finish(START, 0, "completed", START)
    assert [reader.run.run_id for reader in open_recording(path).runs] == ["first", "second"]


def test_what_is_no_utf8_is_kept_in_escapes(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(5, 1), 1, finish=False)
    writer.event(START, "backend", "na\udcffme.sql: no such file")
    assert writer.finish(START, 0, "completed", START)
    assert open_recording(tmp_path / "a.sql").runs[0].events[0].message == "na\\udcffme.sql: no such file"


def test_a_reader_at_the_very_end_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "TRUNCATE")
    writer = write(tmp_path / "a.sql", rows_of(100, 2), 2, finish=False)
    reader = sqlite3.connect(tmp_path / "a.sql", isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM samples").fetchone()
    threading.Timer(0.7, reader.close).start()
    for row in rows_of(110, 2)[200:]:
        writer.add([row])
    assert writer.finish(START + 55, 0, "completed", START + 55)
    assert open_recording(tmp_path / "a.sql").runs[0].n_rows == 220


def test_opening_a_file_asks_nothing_twice_and_no_table_for_its_columns(tmp_path, monkeypatch):
    write(tmp_path / "a.sql", rows_of(40, 2), 2, finish=False)
    asked = []

    def listen(*arguments, open_it=opening.open_guarded, **options):
        connection = open_it(*arguments, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(opening, "open_guarded", listen)
    with closing(open_recording(tmp_path / "a.sql")) as recording:
        (run,) = recording.runs
        assert run.state == "running" and len(run.processes) == 1 and run.gpus and not run.events
    assert len(asked) == len(set(asked)) <= 16
    assert not any("table_info" in statement or "sqlite_master" in statement for statement in asked)


def test_a_reader_that_stays_does_not_hold_up_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("gssr.store.write.writer.LAST_BUSY_MS", 60_000)  # so that waiting for a lock is no slow machine
    writer = write(tmp_path / "a.sql", rows_of(100, 2), 2, finish=False)
    reader = open_recording(tmp_path / "a.sql")
    began = time.monotonic()
    assert writer.finish(START + 55, 0, "completed", START + 55)
    assert time.monotonic() - began < 30  # and not as long as the end waits for locks
    assert reader.runs[0].n_rows == 200 and open_recording(tmp_path / "a.sql").runs[0].state == "completed"


@pytest.mark.parametrize("table", ["samples", "rollup", "sketch"])
def test_rows_of_a_gpu_that_is_not_listed_are_damage(tmp_path, table):
    write(tmp_path / "a.sql", rows_of(3000, 2), 2)
    with closing(sqlite3.connect(tmp_path / "a.sql", isolation_level=None)) as connection:
        connection.execute(f"UPDATE {table} SET gpu = 9 WHERE rowid = 3" if table == "samples" else
                           f"UPDATE {table} SET gpu = 9 WHERE gpu = 1")  # fmt: skip
        connection.execute("UPDATE runs SET state = 'comp?eted'")
    recording = open_recording(tmp_path / "a.sql")
    (reader,) = recording.runs
    assert reader.state in ("running", "lost")
    assert set(reader.samples(["sm_active"]).gpu) == {0, 1}
    assert len(reader.buckets().gpu) and len(reader.histograms(["sm_active"]).counts)
    assert "damaged" in (recording.damage or "")


def test_wal_is_used_on_local_filesystems_only(tmp_path):
    info = tmp_path / "mountinfo"
    info.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "23 22 0:20 / /home rw - nfs4 server:/home rw\n"
        "24 22 0:21 / /scratch\\040space rw - lustre mds:/x rw\n"
        "25 23 0:22 / /home/me/tmp rw - tmpfs tmpfs rw\n"
    )
    kinds = {"/a": "ext4", "/home/x/y": "nfs4", "/home/me/tmp/z": "tmpfs", "/scratch space/a": "lustre"}
    for path, kind in kinds.items():
        assert filesystem_of(path, str(info)) == kind
    assert filesystem_of("/a", str(tmp_path / "none")) == "unknown"
    assert journal_mode(str(tmp_path / "a.sql")) in ("WAL", "TRUNCATE")


def test_what_is_no_longer_used_lets_go_of_its_files_at_once(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(50, 2), 2)
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            reader = open_recording(path).runs[0]
            reader.samples(["sm_active"])
            reader.buckets()
        del reader
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def test_of_two_that_add_a_run_at_the_same_moment_one_is_told(tmp_path, monkeypatch):
    path = str(tmp_path / "a.sql")
    write(tmp_path / "a.sql", rows_of(4, 1), 1, run_id="before")
    look, first = small_tables.is_recorded_into, []

    def look_just_before_another_begins(*arguments):
        found = look(*arguments)
        if not first:
            first.append(None)
            first[0] = Writer(path, append=True)
            begin(first[0], "first")
        return found

    monkeypatch.setattr(small_tables, "is_recorded_into", look_just_before_another_begins)
    second = Writer(path, append=True)
    with pytest.raises(TakenError):
        begin(second, "second")
    assert first[0].finish(START, 0, "completed", START)
