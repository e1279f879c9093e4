"""A file may hold very many runs, ranks and GPUs: it is read in seconds, or refused at once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sample_rows import START, rows_of, write

from gssr.backends.base import BackendError
from gssr.backends.replay import open_replay
from gssr.guarded_sqlite import Guarded
from gssr.model.analyze import Options, analyze
from gssr.store.format.limits import MOST_EVENTS, MOST_GPUS, MOST_RANKS, MOST_RUNS
from gssr.store.pages.file import NotPlainError
from gssr.store.read import guard
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.recording import open_recording
from gssr.store.read.recording_file import RecordingFile
from gssr.store.read.time_window import Window
from gssr.store.read.whole_run import read_rows_in_pieces
from gssr.store.write.writer import Writer

ROWS = {
    "runs": ("run_id, state", "'x' || x, 'completed'"),
    "gpus": ("gpu, run_id", "x + 100, 'r'"),
    "processes": ("run_id, rank", "'r', x + 10"),
    "merged": ("shard, run_id", "x, 'r'"),
    "events": ("run_id, time, kind", f"'r', {START} + x, 'mark'"),
}


def fill(path: Path, table: str, n: int) -> None:
    columns, values = ROWS[table]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {n}) "
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM c"
        )


@pytest.mark.parametrize(
    ("table", "most"), [("runs", MOST_RUNS), ("gpus", MOST_GPUS), ("processes", MOST_RANKS), ("merged", MOST_RANKS)]
)
def test_a_file_of_more_than_anybody_has_is_refused_before_any_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, most: int
) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    fill(path, table, most + 1)
    monkeypatch.setattr("gssr.store.read.guarded_file.read_runs", lambda _: pytest.fail("runs were read"))
    with pytest.raises(RecordingError, match=rf"a\.sql: is damaged, or not made by gssr: .* {most:,} rows in {table}"):
        open_recording(path)


def test_as_many_runs_as_may_be_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    fill(path, "runs", MOST_RUNS - 1)
    recording = open_recording(path)
    assert [run.n_rows for run in recording.runs] == [20, *[0] * (MOST_RUNS - 1)] and recording.damage is None


def test_nothing_is_added_to_a_file_that_could_become_too_large_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    fill(path, "runs", MOST_RUNS // 2)
    before = path.read_bytes()
    with pytest.raises(RecordingError, match=f"more than {MOST_RUNS // 2:,} rows in runs"):
        Writer(str(path), append=True)
    assert path.read_bytes() == before and len(open_recording(path).runs) == MOST_RUNS // 2 + 1


def test_a_table_that_can_not_be_counted_is_no_reason_to_refuse_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    monkeypatch.setitem(guard._MOST, "no_such_table", 0)
    assert open_recording(path).runs[0].n_rows == 20


def test_of_too_many_events_the_first_are_read_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    fill(path, "events", MOST_EVENTS + 9)
    (run,) = open_recording(path).runs
    events = run.events
    assert len(events) == MOST_EVENTS and events[-1].time == START + MOST_EVENTS
    assert run.damage == f"{path}: has more than {MOST_EVENTS:,} events: later ones are left out"


def test_the_samples_are_looked_through_once_for_all_runs_without_rollups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    fill(path, "runs", 50)
    with closing(sqlite3.connect(path)) as connection, connection:
        for number in range(1, 51):
            connection.execute("INSERT INTO gpus (gpu, run_id) VALUES (?, ?)", (number + 9, f"x{number}"))
        connection.execute(f"INSERT INTO samples (gpu, time) VALUES (12, {START + 90}), (12, {START + 91})")
    asked = []
    execute = Guarded.execute

    def watched(self: Guarded, *arguments: str) -> sqlite3.Cursor:
        asked.append(arguments[0])
        return execute(self, *arguments)

    monkeypatch.setattr(Guarded, "execute", watched)
    runs = {run.run.run_id: run.n_rows for run in open_recording(path).runs}
    assert (runs["r"], runs["x3"], sum(runs.values())) == (20, 2, 22)
    assert len([query for query in asked if "min(rowid) FROM samples WHERE" in query]) == 1


def test_rows_that_come_late_in_the_newest_run_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO runs (run_id, state) VALUES ('x', 'completed')")
        connection.execute("INSERT INTO gpus (gpu, run_id) VALUES (9, 'x')")
    shard = RecordingFile(str(path))
    assert shard.rowids("x") == (21, 20) and shard.rowids("r") == (1, 20)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO samples (gpu, time) VALUES (9, 1e9), (9, 2e9)")
    assert shard.rowids("x") == (21, 22) and shard.rowids("r") == (1, 20)
    shard.close()


@pytest.mark.parametrize("key", [1 << 40, "'text'", "zeroblob(4)", 0.5])
def test_no_run_is_added_where_no_key_is_left_for_its_gpus(tmp_path: Path, key: object) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        names = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(gpus)"))
        connection.execute(f"UPDATE sqlite_master SET sql = 'CREATE TABLE gpus ({names})' WHERE name = 'gpus'")
        connection.execute("PRAGMA schema_version = 99")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE gpus SET gpu = {key}")
    writer = Writer(str(path), append=True)
    with pytest.raises(RecordingError, match="it has a GPU under the key"):
        writer.begin({"run_id": "new", "state": "running"}, {"rank": 0, "node": "n"})
    with closing(connect(str(path))) as connection:
        assert connection.execute("SELECT run_id FROM runs").fetchall() == [("r",)]


def test_a_replay_of_nothing_says_so_whatever_is_said_of_thinning(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM samples")
        connection.execute("INSERT INTO thinned VALUES ('r', 0, '10s', 'soon', -1, 'x')")
    with pytest.raises(BackendError, match="holds no samples"):
        open_replay(f"replay:{path}")


@pytest.mark.parametrize("left", ["'x', 'y', 'z'", "1, 2, zeroblob(32)", "NULL, NULL, NULL"])
def test_no_key_is_given_under_which_there_are_rollups_already(tmp_path: Path, left: str) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        for table in ("rollup", "sketch"):
            names = ", ".join(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
            connection.execute(
                f"UPDATE sqlite_master SET sql = 'CREATE TABLE {table} ({names})' WHERE name = '{table}'"
            )
        connection.execute("PRAGMA schema_version = 99")
    with closing(sqlite3.connect(path)) as connection, connection:
        begin = int(START // 600 * 600)
        for bucket in range(begin, begin + 1200, 10):
            for level in (10, 60, 600):
                connection.execute(f"INSERT INTO rollup VALUES (1, {level}, {bucket}, {left})")
            connection.execute(f"INSERT INTO sketch VALUES (1, {bucket}, {left.rpartition(',')[2]})")
    writer = write(path, rows_of(400, 1), 1, run_id="new", append=True)
    assert writer.problem is None
    new = open_recording(path).runs[1]
    assert new.n_rows == 400 and new.buckets(level=600).vectors[:, 0].sum() == 400
    assert (
        new.histograms(["sm_active"]).counts["sm_active"].sum()
        == np.isfinite(new.samples(["sm_active"]).values["sm_active"]).sum()
    )


@pytest.mark.parametrize("by_pages", [True, False])
@pytest.mark.parametrize("rollups", ["there", "gone"])
def test_samples_all_of_which_lie_far_apart_are_read_as_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_pages: bool, rollups: str
) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(1500, 2), 2)
    if rollups == "gone":
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM rollup")
    window, names = Window(START + 33.3, START + 601.7), ["sm_active", "energy"]

    def read() -> list[object]:
        (run,) = open_recording(path).runs
        told = [np.nan_to_num(run.samples(names, None, window).values[name]).tolist() for name in names]
        buckets = run.buckets(window, level=60)
        whole = sum(len(piece.time) for piece in read_rows_in_pieces(run, names, 500))
        counts = run.histograms(["sm_active"], window).counts["sm_active"].tolist()
        return [told, buckets.vectors[:, :4].round(6).tolist(), counts, whole, analyze(run, Options()).n_samples]

    before = read()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE samples SET rowid = -rowid * {1 << 40}")
        connection.execute("UPDATE samples SET rowid = -rowid")
    if not by_pages:
        monkeypatch.setattr(
            "gssr.store.read.guarded_file.PageFile", lambda *_: (_ for _ in ()).throw(NotPlainError("no pages"))
        )
    asked: list[int] = []
    rows = GuardedFile.rows
    monkeypatch.setattr(GuardedFile, "rows", lambda *arguments, **named: asked.append(1) or rows(*arguments, **named))
    assert read() == before
    assert len(asked) < 2000  # of 3,000 rows


@pytest.mark.parametrize("statement", ["INSERT INTO samples (rowid, gpu, time) VALUES ({high}, 0, {when})",
                                       "INSERT INTO thinned VALUES ('r', 0, '10s', {when}, 1, {high} - 1)"])  # fmt: skip
def test_rows_whose_numbers_lie_far_apart_take_no_longer_than_others(
    tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sql"
    write(path, rows_of(60, 2), 2)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement.format(high=1 << 62, when=START + 30))
        connection.execute("UPDATE samples SET sm_active = 'text' WHERE rowid = 7")  # not to be read from pages
        connection.execute("DELETE FROM rollup")
    monkeypatch.setattr(
        "gssr.store.read.guarded_file.PageFile", lambda *_: (_ for _ in ()).throw(NotPlainError("no pages"))
    )
    asked = []
    rows = GuardedFile.rows
    monkeypatch.setattr(GuardedFile, "rows", lambda *arguments, **named: asked.append(1) or rows(*arguments, **named))
    (run,) = open_recording(path).runs
    analyze(run, Options())
    assert sum(len(piece.time) for piece in read_rows_in_pieces(run, ["sm_active"], 50)) >= 120
    assert len(asked) < 500
