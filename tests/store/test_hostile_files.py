"""Recordings that somebody has made to do harm: they are refused in a sentence, and nothing that they say is done."""

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from sample_rows import START, rows_of, write

from gssr.guarded_sqlite import OPERATIONS, Guarded
from gssr.metrics import NAMES
from gssr.model.analyze import Options, analyze
from gssr.store.format.schema import TABLES
from gssr.store.live_block.read import BlockReader
from gssr.store.merge import merge
from gssr.store.read import guarded_file
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer

NEVER = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c"


@pytest.fixture(autouse=True)
def nothing_waits_for_ever():
    def ring(*_):
        raise AssertionError("it never ends")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(path) -> str:
    with pytest.raises(RecordingError) as caught:
        open_recording(path)
    assert "\n" not in str(caught.value) and os.path.basename(path) in str(caught.value)
    return str(caught.value)


def change(path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        for statement in statements:
            connection.execute(statement)


def add_a_run(path) -> None:
    write(path, rows_of(20, 1), 1, run_id="another", append=True)


def journal_that_names(path, other) -> None:
    """A hot journal, as a killed writer leaves it, that names a file to be deleted when it was rolled back."""
    code = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size=1')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('UPDATE samples SET sm_active = 0.25')\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    name = os.fsencode(os.path.abspath(other))
    checksum = sum(struct.unpack(f"{len(name)}b", name)) & 0xFFFFFFFF
    page = struct.pack(">I", (1 << 30) // 4096 + 1)
    with open(f"{path}-journal", "ab") as stream:
        stream.write(page + name + struct.pack(">II", len(name), checksum) + bytes.fromhex("d9d505f920a163d7"))


def rank_of(tmp_path, name="n0.0.r.sql"):
    (tmp_path / "all.sql.d").mkdir(exist_ok=True)
    path = tmp_path / "all.sql.d" / name
    write(path, rows_of(50, 2), 2)
    return path


@pytest.mark.parametrize("use", ["read", "merge", "add"])
def test_a_journal_can_not_have_a_file_deleted(tmp_path, use):
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    path = rank_of(tmp_path)
    journal_that_names(path, precious)
    if use == "read":
        (run,) = open_recording(path).runs
        assert run.n_rows == 100 and (run.samples(["sm_active"]).values["sm_active"] != 0.25).all()
    elif use == "merge":
        merge(str(tmp_path / "all.sql"))
        assert open_recording(tmp_path / "all.sql").runs[0].n_rows == 100
    else:
        with pytest.raises(RecordingError, match="journal was not made by gssr"):
            add_a_run(path)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("table", ["runs", "samples", "rollup", "gpus", "processes"])
def test_what_only_looks_like_a_table_of_ours_is_refused(tmp_path, table):
    path = tmp_path / "a.sql"
    columns = ", ".join(f"x AS {column.name}" for column in TABLES[table])
    write(path, rows_of(5, 1), 1)
    change(path, "DROP VIEW gpu_samples", f"ALTER TABLE {table} RENAME TO old")
    change(path, f"CREATE VIEW {table if table == 'runs' else table.upper()} AS {NEVER.format(columns)}")
    assert f"{table} is no plain table" in refused(path)


def test_a_virtual_table_and_computed_columns_are_refused(tmp_path):
    write(tmp_path / "a.sql", rows_of(5, 1), 1)
    change(tmp_path / "a.sql", "DROP TABLE events", "CREATE VIRTUAL TABLE events USING fts4(run_id, time)")
    assert "events is no plain table" in refused(tmp_path / "a.sql")
    write(tmp_path / "b.sql", rows_of(5, 1), 1)
    change(tmp_path / "b.sql", "ALTER TABLE samples ADD COLUMN extra AS (hex(zeroblob(900000000))) VIRTUAL")
    assert "samples has an impossible column, 'extra'" in refused(tmp_path / "b.sql")


@pytest.mark.parametrize("name", ["[a, (SELECT 1)]", '"a"" INTEGER DEFAULT 5, ""b"', "[rowid]", "[é]"])
def test_names_of_columns_that_are_no_names_are_refused(tmp_path, name):
    write(tmp_path / "a.sql", rows_of(5, 1), 1)
    change(tmp_path / "a.sql", f"ALTER TABLE samples ADD COLUMN {name}")
    assert "impossible column" in refused(tmp_path / "a.sql")


def test_what_else_is_in_a_file_does_not_matter_to_its_readers(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(50, 1), 1)
    change(
        path,
        "CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM samples; END",
        f"CREATE VIEW never AS {NEVER.format('x')}",
        "CREATE INDEX i ON samples (hex(sm_active))",
        "CREATE TABLE own (a CHECK (a > hex(zeroblob(1000))))",
        "ANALYZE",
    )
    (run,) = open_recording(path).runs
    assert run.n_rows == 50 and run.damage is None and analyze(run, Options()).n_samples == 50


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM samples; END",
        "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN UPDATE runs SET command = 'x'; END",
        "CREATE INDEX i ON samples (hex(zeroblob(sm_active)))",
        "CREATE INDEX i ON samples (sm_active) WHERE sm_active || 1 GLOB '*'",
        "ALTER TABLE samples ADD COLUMN extra DEFAULT (hex(9))",
        "ALTER TABLE events ADD COLUMN extra CHECK (extra GLOB '**********')",
    ],
)
def test_nothing_runs_when_a_run_is_added_to_a_file_or_ranks_are_merged_into_it(tmp_path, statement):
    rank_of(tmp_path)
    path = tmp_path / "all.sql"
    write(path, rows_of(50, 1), 1, run_id="earlier")
    with suppress(sqlite3.OperationalError):  # functions that are no constants need a table without rows
        change(path, statement)
        before = path.read_bytes()
        with pytest.raises(RecordingError, match=r"can't be written: the (trigger|index|table) .* would do more"):
            add_a_run(path)
        with pytest.raises(RecordingError, match="would do more"):
            merge(str(path))
        assert path.read_bytes() == before and (tmp_path / "all.sql.d" / "n0.0.r.sql").exists()


def test_a_reader_can_do_nothing_but_read(tmp_path):
    write(tmp_path / "a.sql", rows_of(5, 1), 1)
    with closing(connect(str(tmp_path / "a.sql"))) as connection:
        for statement in (
            f"ATTACH '{tmp_path}/b.sql' AS b",
            "CREATE TEMP TABLE t (a)",
            "PRAGMA journal_mode=DELETE",
            "PRAGMA writable_schema=ON",
            "SELECT load_extension('x')",
            "SELECT hex(zeroblob(100))",
            "DELETE FROM samples",
            "SELECT * FROM gpu_samples",
            NEVER.format("x"),
        ):
            with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
                connection.execute(statement).fetchall()
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (5,)
    assert os.listdir(tmp_path) == ["a.sql"]


def test_pages_that_lead_back_to_themselves_come_to_an_end(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(400, 2), 2)
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'samples'").fetchone()
    data = bytearray(path.read_bytes())
    at = (root - 1) * 4096
    assert data[at] == 5  # an interior page
    cells = struct.unpack_from(">H", data, at + 3)[0]
    first = struct.unpack_from(">I", data, at + struct.unpack_from(">H", data, at + 12)[0])[0]
    for cell in range(cells):  # each of its children is the same page, and that one's are as well
        struct.pack_into(">I", data, at + struct.unpack_from(">H", data, at + 12 + 2 * cell)[0], first)
    child = (first - 1) * 4096
    data[child : child + 4096] = data[at : at + 4096]
    path.write_bytes(data)
    with closing(connect(str(path))) as connection:
        assert isinstance(connection, Guarded)
        with pytest.raises(sqlite3.DatabaseError):
            connection.execute("SELECT sm_active FROM samples").fetchall()
    recording = open_recording(path)
    recording.runs[0].samples(["sm_active"])
    assert recording.damage is not None


def test_a_query_takes_no_more_than_its_bound(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(1000, 1), 1)
    with closing(connect(str(path))) as connection:
        assert isinstance(connection, Guarded)
        connection.budget.files = ()
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute("SELECT count(*) FROM samples a, samples b, samples c").fetchone()
        assert connection.budget.operations <= 2 * OPERATIONS
        assert connection.execute("SELECT count(*) FROM samples a, samples b").fetchone() == (1_000_000,)


def test_a_schema_of_very_many_tables_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(5, 1), 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 60000) INSERT INTO sqlite_master"
            " SELECT 'table', 't' || x, 't' || x, 2, 'CREATE TABLE t' || x || ' (a)' FROM c"
        )
    refused(path)


HOSTILE = (None, "text", "", b"\xff" * 9, float("inf"), -1e308, 1e308, -1, 0, 2**62, 1e-300, "1e999")


@pytest.mark.parametrize("table", list(TABLES))
def test_any_value_may_be_in_any_column(tmp_path, table):
    """Without keys, types and conditions a table holds anything."""
    seed = tmp_path / "seed.sql"
    writer = write(seed, rows_of(60, 2), 2, finish=False)
    writer.add_host(START + 1, [0.5, 1.0, 10, 20, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    writer.add_workload(START + 1, [1.0, 1000, 3])
    writer.event(START + 2, "mark", "an event", 0)
    writer.finish(START + 30, 0, "completed", START + 30)
    names = [column.name for column in TABLES[table]]
    change(
        seed,
        f"UPDATE sqlite_master SET sql = 'CREATE TABLE {table} ({', '.join(names)})' WHERE name = '{table}'",
        f"DELETE FROM sqlite_master WHERE tbl_name = '{table}' AND type = 'index'",
        "PRAGMA schema_version = 99",
    )
    data = seed.read_bytes()
    for number in range(0, len(names), 3):
        path = tmp_path / "a.sql"
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as connection, connection:
            for place, name in enumerate(names[number : number + 3]):
                for rowid, value in enumerate(HOSTILE[place::3], 1):
                    connection.execute(f"UPDATE {table} SET {name} = ? WHERE rowid % 5 = ?", (value, rowid % 5))
        with suppress(RecordingError), closing(open_recording(path)) as recording:
            for run in recording.runs:
                analyze(run, Options(exact=bool(number % 2), bins=20))


def test_a_sketch_that_claims_billions_of_bins_is_counted_anew(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(2000, 1), 1)
    (run,) = open_recording(path).runs
    before = run.histograms(["sm_active"]).counts["sm_active"]
    claims = struct.pack("<H", len(NAMES)) + b"\xff\xff" * len(NAMES)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sketch SET data = ? WHERE rowid = 1", (claims,))
    (run,) = open_recording(path).runs
    assert (run.histograms(["sm_active"]).counts["sm_active"] == before).all()


@pytest.mark.parametrize("name", ["a.sql-journal", "a.sql-wal", "a.sql-shm"])
def test_a_pipe_or_a_device_beside_a_recording_is_not_waited_for(tmp_path, name):
    write(tmp_path / "a.sql", rows_of(5, 1), 1)
    os.mkfifo(tmp_path / name)
    assert f"{name} is not a file" in refused(tmp_path / "a.sql")
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert f"{name} is not a file" in refused(tmp_path / "a.sql")
    with pytest.raises(RecordingError, match="is not a file"):
        Writer(str(tmp_path / "a.sql"), append=True)


def test_what_lies_among_ranks_files_is_left_alone(tmp_path):
    path = rank_of(tmp_path)
    folder = path.parent
    elsewhere = tmp_path / "elsewhere.sql"
    write(elsewhere, rows_of(5, 1), 1, rank=7)
    (folder / "n7.7.r.sql").symlink_to(elsewhere)
    (folder / "loop.sql").symlink_to("loop.sql")
    (folder / "folder.sql").mkdir()
    for name in ("pipe.sql", "pipe.sql.live", "run"):
        os.mkfifo(folder / name)
    recording = open_recording(tmp_path / "all.sql")
    assert recording.damage is not None and recording.runs[0].n_rows >= 100
    assert BlockReader([str(folder / "pipe.sql")]).look().file.tolist() == []
    outcome = merge(str(tmp_path / "all.sql"))
    assert outcome.n_files == 1 and elsewhere.exists() and (folder / "n7.7.r.sql").is_symlink()
    assert any("n7.7.r.sql: is a link" in sentence for sentence in outcome.left)
    (folder / "merge.lock").unlink(missing_ok=True)
    os.mkfifo(folder / "merge.lock")
    with pytest.raises(RecordingError, match=r"merge.lock|not a file|can't be merged"):
        merge(str(tmp_path / "all.sql"))


def test_what_it_takes_to_open_a_file_grows_with_its_runs_and_no_faster(tmp_path, monkeypatch):
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        for number in range(100):
            connection.execute("INSERT INTO runs (run_id, state) VALUES (?, 'completed')", (f"x{number}",))
            connection.execute("INSERT INTO gpus (gpu, run_id) VALUES (?, ?)", (number + 9, f"x{number}"))
            connection.execute("INSERT INTO processes (run_id, rank) VALUES (?, ?)", (f"x{number}", number))
    queries, listings = [], []
    ask, processes = GuardedFile.rows, guarded_file.read_processes
    monkeypatch.setattr(GuardedFile, "rows", lambda *arguments, **named: queries.append(1) or ask(*arguments, **named))
    monkeypatch.setattr(guarded_file, "read_processes", lambda *own: listings.append(1) or processes(*own))
    recording = open_recording(path)
    assert len(recording.runs) == 101
    assert len(queries) < 101 * 15
    ranks = {run.run.run_id: [process.rank for process in run.processes] for run in recording.runs}
    assert all(ranks[f"x{number}"] == [number] for number in range(100))
    assert len(listings) == 1


def test_nothing_is_added_behind_the_last_rowid_there_can_be(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(5, 1), 1)
    change(path, f"UPDATE samples SET rowid = {(1 << 63) - 1} WHERE rowid = 5")
    assert len(open_recording(path).runs) == 1  # it is read
    said = f"it has a sample under the rowid {(1 << 63) - 1}, behind which there is no room"
    with pytest.raises(RecordingError, match=f"can't be written: {said}"):
        add_a_run(path)
    (tmp_path / "all.sql.d").mkdir()
    os.rename(path, tmp_path / "all.sql.d" / "n0.0.r0.sql")
    write(tmp_path / "all.sql.d" / "n0.0.r1.sql", rows_of(5, 1), 1, rank=1)
    left = merge(str(tmp_path / "all.sql")).left
    assert len(left) == 1 and left[0].endswith(said)
    assert open_recording(tmp_path / "all.sql").runs[0].n_rows >= 5


def test_a_schema_that_is_no_text_is_a_sentence(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(5, 1), 1)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE runs (", b"CREATE TABLE runs \xff", 1))
    assert "is damaged: malformed database schema" in refused(path)
