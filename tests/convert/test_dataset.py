"""A data set holds what a folder of Parquet files holds, each run once, in few files, whatever happens in between."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gssr.backends.synthetic.bulk import START, generate
from gssr.cli import main
from gssr.commands import export as exporting
from gssr.convert import dataset
from gssr.convert.tables import EXPORTED
from gssr.model.fleet.fleet import week_of
from gssr.store.merge.lock import acquire

WEEK = 7 * 86400
Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six runs of three weeks, two of each; never to be changed."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [folder / f"{number}.sql" for number in range(6)]
    for number, path in enumerate(paths):
        generate(str(path), ("train", "idle", "imbalanced")[number % 3], 2, 0.01, 1.0, host=True)
        named(path, f"run-{number}", number // 2)
    return paths


def named(path: Path, run_id: str, weeks: int = 0, state: str = "completed") -> Path:
    """Give a recording's run this id, a later start and a state."""
    tables = ("runs", "processes", "gpus", "events", "host_samples", "workload_samples")
    with sqlite3.connect(path) as connection:
        for table in tables:
            connection.execute(f"UPDATE {table} SET run_id = ?", (run_id,))
        connection.execute("UPDATE runs SET started_at = started_at + ?, state = ?", (weeks * WEEK, state))
    return path


def put(folder: Path, *recordings: Path, words: tuple[str, ...] = ()) -> int:
    return main(["export", "--dataset", str(folder), *map(str, recordings), *words])


def rows(files: str, tables: tuple[str, ...] = tuple(EXPORTED)) -> Rows:
    """All rows of the tables, whose files ``files`` names, in order; without the week, which only a data set has."""
    found = {}
    with duckdb.connect() as connection:
        for table, columns in ((table, EXPORTED[table].columns) for table in tables):
            names = ", ".join(f'"{column.name}"' for column in columns)
            place = f"read_parquet('{files.format(table)}', hive_types_autocast = false, hive_partitioning = true)"
            found[table] = connection.execute(f"SELECT {names} FROM {place} ORDER BY ALL").fetchall()
    return found


def all_rows(folder: Path) -> Rows:
    return rows(f"{folder}/{{}}/week=*/*.parquet")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def whole(recordings: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What is in all of the recordings, from a folder for each run."""
    folder = tmp_path_factory.mktemp("folder")
    assert main(["export", "-o", str(folder), *map(str, recordings)]) == 0
    return rows(f"{folder}/{{}}/**/*.parquet", tuple(table for table in EXPORTED if table != "gpu_processes"))


def assert_whole(folder: Path, whole: Rows) -> None:
    found = all_rows(folder)
    assert {table: found[table] for table in whole} == whole


def test_a_data_set_holds_what_a_folder_holds_in_a_file_for_each_table_and_week(
    recordings: list[Path], whole: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert put(tmp_path / "set", *recordings) == 0
    assert capsys.readouterr().out == f"{tmp_path}/set: 6 runs exported\n"
    assert_whole(tmp_path / "set", whole)
    weeks = [week_of(START + number * WEEK) for number in range(3)]
    assert weeks[0] == "2023-W46"
    wanted = [f"{table}/week={week}/part-0001.parquet" for table in EXPORTED for week in weeks]
    assert files(tmp_path / "set") == sorted(wanted)
    assert all((tmp_path / "set" / path).stat().st_mode & 0o777 == 0o600 for path in wanted)
    for path in wanted:
        meta = pq.ParquetFile(tmp_path / "set" / path).metadata
        encodings = {
            encoding
            for group in range(meta.num_row_groups)
            for column in range(meta.num_columns)
            for encoding in meta.row_group(group).column(column).encodings
        }
        assert encodings <= {
            "PLAIN",
            "RLE",
            "RLE_DICTIONARY",
            "PLAIN_DICTIONARY",
        }  # Spark's vectorized reader has no more


def test_runs_that_come_one_after_the_other_are_added_and_those_there_left_alone(
    recordings: list[Path], whole: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for recording in recordings:
        assert put(tmp_path, recording) == 0
    assert len(files(tmp_path)) == 3 * len(EXPORTED)
    assert_whole(tmp_path, whole)
    capsys.readouterr()
    before = {path: (tmp_path / path).stat().st_mtime_ns for path in files(tmp_path)}
    assert put(tmp_path, *recordings) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 0 runs exported, 6 were there already\n"
    assert {path: (tmp_path / path).stat().st_mtime_ns for path in files(tmp_path)} == before


def test_runs_are_replaced_if_that_is_asked_for(recordings: list[Path], whole: Rows, tmp_path: Path) -> None:
    assert put(tmp_path, *recordings) == 0
    before = {path: (tmp_path / path).stat().st_mtime_ns for path in files(tmp_path)}
    assert put(tmp_path, recordings[2], words=("-f",)) == 0
    assert_whole(tmp_path, whole)
    changed = {
        path.split("/")[1] for path, written in before.items() if (tmp_path / path).stat().st_mtime_ns != written
    }
    assert changed == {f"week={week_of(START + WEEK)}"}


def test_tables_that_are_asked_for_later_are_added(recordings: list[Path], whole: Rows, tmp_path: Path) -> None:
    assert put(tmp_path, *recordings, words=("--tables", "runs,summary")) == 0
    assert {path.split("/")[0] for path in files(tmp_path)} == {"runs", "summary"}
    assert put(tmp_path, *recordings) == 0
    assert_whole(tmp_path, whole)


@pytest.mark.parametrize(("small", "most_runs", "n"), [(0, 5000, 6), (1 << 20, 1, 6), (1 << 20, 2, 3)])
def test_files_that_are_no_longer_small_stay_as_they_are(
    small: int,
    most_runs: int,
    n: int,
    recordings: list[Path],
    whole: Rows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataset, "SMALL_BYTES", small)
    monkeypatch.setattr(dataset, "MOST_RUNS", most_runs)
    for recording in recordings:
        assert put(tmp_path, recording) == 0
    assert len(files(tmp_path)) == n * len(EXPORTED)
    assert_whole(tmp_path, whole)
    assert put(tmp_path, *recordings, words=("-f",)) == 0
    assert_whole(tmp_path, whole)


def test_a_large_run_goes_into_files_of_its_own(
    recordings: list[Path], whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "_HELD_BYTES", 1000)
    monkeypatch.setattr(dataset, "ROW_GROUP", 50)
    monkeypatch.setattr(dataset, "_PENDING_RUNS", 2)
    assert put(tmp_path, *recordings) == 0
    assert_whole(tmp_path, whole)
    assert max(pq.ParquetFile(path).metadata.num_row_groups for path in tmp_path.glob("samples/*/*.parquet")) > 1


def killed_at(number: int, call: Callable[[], int]) -> bool:
    """Call in a process of its own, which ends where a file gets its name for the ``number``th time. Returns whether it
    came that far."""
    pid = os.fork()
    if not pid:
        left = [number]

        def instead(real: Callable[[str, str], None]) -> Callable[[str, str], None]:
            def moved(source: str, target: str) -> None:
                if not left[0]:
                    os._exit(9)
                left[0] -= 1
                real(source, target)

            return moved

        os.replace, os.rename = instead(os.replace), instead(os.rename)
        code = 99
        try:
            code = call()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def test_an_export_that_is_killed_leaves_all_tables_whole(recordings: list[Path], whole: Rows, tmp_path: Path) -> None:
    """Wherever it is killed, each table has all rows of a run or none, and the next export makes up for it."""
    assert put(tmp_path, *recordings[::2]) == 0
    there = {recording: rows_of_run(whole, number) for number, recording in enumerate(recordings)}
    before = all_rows(tmp_path)
    number = 0
    while killed_at(number, lambda: put(tmp_path, *recordings)):
        found = all_rows(tmp_path)
        for table in whole:
            assert all(row in found[table] for row in before[table])
            more = [row for row in found[table] if row not in before[table]]
            assert len(more) + len(before[table]) == len(found[table])
            for own in there.values():
                assert sum(row in more for row in own[table]) in (
                    0,
                    len([r for r in own[table] if r not in before[table]]),
                )
        assert len(list(tmp_path.glob(".gssr-export-*"))) == 1
        number += 3
    assert number >= 15  # four times in the middle
    assert_whole(tmp_path, whole)
    assert not list(tmp_path.glob(".gssr-export-*")) and not list(tmp_path.glob("*.lock"))


def rows_of_run(whole: Rows, number: int) -> Rows:
    return {table: [row for row in found if f"run-{number}" in row] for table, found in whole.items()}


def test_runs_that_have_not_ended_are_left_for_later(
    recordings: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "growing.sql"
    path.write_bytes(recordings[0].read_bytes())
    named(path, "growing", state="running")
    os.utime(path, (time.time(), time.time()))
    assert put(tmp_path / "set", path) == 0
    assert "1 run has not ended: left for a later export" in capsys.readouterr().err
    assert not files(tmp_path / "set")
    named(path, "growing")
    assert put(tmp_path / "set", path) == 0
    assert {row[0] for row in all_rows(tmp_path / "set")["runs"]} == {"growing"}


def test_a_run_in_two_recordings_is_there_once(
    recordings: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.sql"
    copy.write_bytes(recordings[0].read_bytes())
    assert put(tmp_path / "one", recordings[0], copy) == 1
    assert "copy.sql: run 'run-0' was exported already, from another recording" in capsys.readouterr().err
    monkeypatch.setattr("gssr.commands.export.PER_PROCESS", 1)  # of which the one knows nothing of the other
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert put(tmp_path / "two", recordings[0], copy, recordings[1]) == 1
    said = capsys.readouterr()
    assert "run 'run-0' was exported already" in said.err and ": 2 runs exported" in said.out
    assert put(tmp_path / "one", recordings[1]) == 0
    assert all_rows(tmp_path / "one") == all_rows(tmp_path / "two")


def test_what_a_killed_worker_was_writing_is_written_by_another(
    recordings: list[Path],
    whole: Rows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One recording kills its worker once, another one always."""
    deadly = tmp_path / "deadly.sql"
    deadly.write_bytes(recordings[0].read_bytes())
    real, once = exporting._export_recording, tmp_path / "once"

    def killing(place: str, *others: Any) -> Any:
        found = real(place, *others)
        if place == str(deadly) or (place == str(recordings[3]) and not once.exists()):
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    monkeypatch.setattr(exporting, "_export_recording", killing)
    monkeypatch.setattr(exporting, "PER_PROCESS", 1)
    monkeypatch.setattr(exporting, "_TURNS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert put(tmp_path / "set", *recordings, deadly) == 1
    said = capsys.readouterr()
    *lost, died = said.err.splitlines()
    assert died == f"gssr: {deadly}: the process that read it died" and ": 6 runs exported" in said.out
    assert lost and all(line.startswith("gssr: a worker was lost: ") for line in lost)
    assert_whole(tmp_path / "set", whole)


def test_columns_that_came_with_a_version_are_unknown_before_it(recordings: list[Path], tmp_path: Path) -> None:
    assert put(tmp_path, recordings[0], words=("--tables", "summary")) == 0
    (path,) = tmp_path.glob("summary/*/*.parquet")
    old = pq.read_table(path, partitioning=None)
    older = old.drop_columns(["score"]).append_column("gone", pa.array(["kept"]))
    pq.write_table(older.replace_schema_metadata({dataset.RUNS: '["run-0"]'}), path)
    assert put(tmp_path, recordings[1], words=("--tables", "summary")) == 0
    made = pq.read_table(path, partitioning=None).sort_by("run_id")
    assert made["gone"].to_pylist() == ["kept", None] and made["score"].null_count == 1
    assert made["label"].to_pylist()[0] == old["label"][0].as_py()


def test_what_somebody_else_has_put_there_stays(recordings: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "runs" / "week=2023-W46"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"other": [1]}), place / "mine.parquet")
    (place / "part-x.parquet").write_text("no Parquet")
    assert put(tmp_path, recordings[0]) == 0 and put(tmp_path, recordings[1]) == 0
    assert sorted(os.listdir(place)) == ["mine.parquet", "part-0001.parquet", "part-x.parquet"]


def test_only_one_export_writes_at_a_time(
    recordings: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "_PATIENCE", 0.0)
    lock = acquire(str(tmp_path))
    assert lock is not None and put(tmp_path, recordings[0]) == 1
    assert "another export is writing into it" in capsys.readouterr().err
    lock.release()
    assert put(tmp_path, recordings[0]) == 0


@pytest.mark.parametrize("words", [("-o", "here"), ("--format", "csv"), ("--format", "perfetto")])
def test_wrong_words_are_said(words: tuple[str, ...], recordings: list[Path], tmp_path: Path) -> None:
    assert put(tmp_path / "set", recordings[0], words=words) == 2 and not (tmp_path / "set").exists()
