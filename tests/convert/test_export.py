"""What is exported is what was recorded, and nothing else is touched."""

import csv
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from gssr.cli import main
from gssr.convert import export as exporting
from gssr.convert import parquet
from gssr.convert.parquet import ParquetSink
from gssr.convert.tables import EXPORTED
from gssr.metrics import BY_NAME, NAMES
from gssr.model.analyze import analyze
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.fleet import fleet
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.recording import RunReader, open_recording

HOSTILE = ("../../../escaped", "a/b", "..", "x=1&y%2F", "ünï ☃", "-rf", "run_id=1", "\x1b[31m\n")


def run_of(path: Path) -> RunReader:
    return open_recording(path).runs[0]


def exported(recording: Path, folder: Path, *words: str) -> int:
    return main(["export", str(recording), "-o", str(folder), *words])


def query(sql: str, folder: Path) -> list[tuple[Any, ...]]:
    """``{samples}`` and so on in ``sql`` are the tables exported into the folder."""
    tables = {
        name: f"read_parquet('{folder}/{name}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
        for name in EXPORTED
    }
    with duckdb.connect() as connection:
        return connection.execute(sql.format(**tables)).fetchall()


@pytest.fixture(scope="module")
def folder(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of it as Parquet files, read and written in pieces of 500 samples; never to be changed."""
    place = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "ROWS", 500)
        patch.setattr(ParquetSink, "rows_together", 500)
        assert exported(recording, place) == 0
    return place


def test_every_sample_comes_out_as_it_was_to_the_precision_promised(recording: Path, folder: Path) -> None:
    rows = run_of(recording).samples(NAMES)
    order = np.lexsort((rows.time, rows.gpu))
    names = ", ".join(("gpu", "time", *NAMES))
    found = np.array(query(f"SELECT {names} FROM {{samples}} ORDER BY gpu, time", folder), np.float64).T
    np.testing.assert_array_equal(found[0], rows.gpu[order])
    np.testing.assert_array_equal(found[1], rows.time[order])
    for column, name in zip(found[2:], NAMES, strict=True):
        exact = name in ("energy", "memory_used", "clock_event_reasons")
        np.testing.assert_allclose(
            column, rows.values[name][order], rtol=0 if exact else 2.0**-24, atol=0, err_msg=name
        )


def test_files_are_split_by_run_and_node_and_written_in_pieces(recording: Path, folder: Path) -> None:
    run = run_of(recording)
    nodes = {gpu.node for gpu in run.gpus}
    files = sorted((folder / "samples").rglob("*.parquet"))
    assert files == [
        folder / "samples" / f"run_id={run.run.run_id}" / f"node={node}" / "data.parquet" for node in sorted(nodes)
    ]
    groups = [pq.ParquetFile(file).metadata for file in files]
    assert groups[0].num_row_groups > 1
    assert max(meta.row_group(i).num_rows for meta in groups for i in range(meta.num_row_groups)) < 500 + 500
    floats = [groups[0].row_group(0).column(i) for i in range(2, groups[0].num_columns - 1)]
    assert {column.physical_type for column in floats} == {"FLOAT", "DOUBLE"}
    known = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY", "BIT_PACKED"}  # by Spark's vectorized reader as well
    columns = (meta.row_group(0).column(i) for meta in groups for i in range(meta.num_columns))
    assert {encoding for column in columns for encoding in column.encodings} <= known
    assert not any("DICTIONARY" in encoding for column in floats for encoding in column.encodings)


@pytest.mark.parametrize(("most_held", "most_groups"), [(1 << 20, 1), (600, 4)])
def test_rows_of_a_node_are_gathered_as_far_as_there_is_memory_for_them(
    most_held: int,
    most_groups: int,
    recording: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row group costs memory until its file is closed: a piece of a file with very many nodes has few rows of each."""
    monkeypatch.setattr(exporting, "ROWS", 40)
    monkeypatch.setattr(exporting, "MOST_HELD", most_held)
    held: list[int] = []
    gathered = exporting._HeldRows.ready

    def watched(own: exporting._HeldRows) -> Iterator[Samples]:
        yield from gathered(own)
        held.append(own._total)

    monkeypatch.setattr(exporting._HeldRows, "ready", watched)
    assert exported(recording, tmp_path) == 0
    assert max(held) <= most_held
    files = sorted((tmp_path / "samples").rglob("*.parquet"))
    groups = [pq.ParquetFile(file).metadata.num_row_groups for file in files]
    assert max(groups) == most_groups
    every = "SELECT * FROM {samples} ORDER BY gpu, time"
    assert query(every, tmp_path) == query(every, folder)


def test_every_table_has_the_columns_that_are_explained_and_says_what_they_mean(folder: Path) -> None:
    for name, table in EXPORTED.items():
        files = sorted((folder / name).rglob("*.parquet"))
        partition = {"run_id", "node"} if table.per_node else {"run_id"}
        if name == "workload_samples":
            assert pq.read_table(files[0]).num_rows == 0  # and yet it is there for who asks
        for file in files:
            schema = pq.read_schema(file)
            assert schema.names == [column.name for column in table.columns if column.name not in partition]
            meanings = {column.name: column.meaning.encode() for column in table.columns}
            assert all(field.metadata[b"meaning"] == meanings[field.name] for field in schema)
        assert files, name


def test_a_question_in_sql_has_the_answer_of_analyze(recording: Path, folder: Path) -> None:
    analysis = analyze(run_of(recording))
    ((mean, watts),) = query("SELECT avg(sm_active), avg(power_usage) FROM {samples}", folder)
    assert mean == pytest.approx(analysis.metrics["sm_active"].mean, rel=1e-6)
    assert watts == pytest.approx(analysis.metrics["power_usage"].mean, rel=1e-6)
    per_gpu = query(
        "SELECT g.uuid, avg(s.sm_active) FROM {samples} s JOIN {gpus} g USING (run_id, gpu) GROUP BY g.uuid, s.gpu"
        " ORDER BY s.gpu",
        folder,
    )
    for (uuid, mean), gpu in zip(per_gpu, analysis.gpus, strict=True):
        assert uuid == gpu.uuid and mean == pytest.approx(gpu.mean["sm_active"], rel=1e-6)
    assert query("SELECT metric, mean, n FROM {statistics}", folder) == [
        (name, found.mean, found.n) for name, found in analysis.metrics.items()
    ]
    assert [code for (code,) in query("SELECT code FROM {verdicts}", folder)] == [
        v.code for v in analysis.judgement.verdicts
    ]
    by_category = dict(query("SELECT category, sum(gpu_seconds) FROM {breakdown} GROUP BY category", folder))
    seconds = analysis.judgement.breakdown.by_gpu.sum(axis=0).tolist()
    assert by_category == pytest.approx(dict(zip((each.name for each in CATEGORIES), seconds, strict=True)))
    assert all(
        total == pytest.approx(1)
        for (total,) in query("SELECT sum(share) FROM {breakdown} GROUP BY gpu HAVING sum(gpu_seconds) > 0", folder)
    )
    assert query("SELECT score, n_gpus FROM {summary}", folder) == [(pytest.approx(analysis.score, abs=1e-9), 9)]
    assert query("SELECT node, load1 FROM {host_samples} ORDER BY node", folder) == [
        ("node0000", 0.5),
        ("node0001", 0.5),
    ]
    assert query("SELECT label, state FROM {runs}", folder) == [("=1+1", "completed")]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_folder(recording: Path, tmp_path: Path, name: str) -> None:
    path, place = tmp_path / "in" / "a.sql", tmp_path / "deep" / "out"
    path.parent.mkdir()
    path.write_bytes(recording.read_bytes())
    with sqlite3.connect(path) as connection:
        for table in ("runs", "gpus", "processes", "events", "process_gpus", "host_samples"):
            connection.execute(f"UPDATE {table} SET run_id = ?", (name,))
        connection.execute("UPDATE gpus SET node = ? WHERE gpu = 8", (name,))
    (place).mkdir(parents=True)
    before = {path for path in tmp_path.rglob("*") if place not in path.parents}
    assert exported(path, place, "--tables", "runs,gpus,samples") == 0
    assert {path for path in tmp_path.rglob("*") if place not in path.parents} == before
    assert query("SELECT DISTINCT run_id FROM {runs}", place) == [(name,)]
    assert set(query("SELECT DISTINCT run_id, node FROM {samples}", place)) == {(name, "node0000"), (name, name)}


def test_an_unknown_node_is_null(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_bytes(recording.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE gpus SET node = NULL")
    assert exported(path, tmp_path / "out", "--tables", "samples") == 0
    assert query("SELECT DISTINCT node FROM {samples}", tmp_path / "out") == [(None,)]


def test_what_was_exported_is_replaced_only_when_asked_and_nothing_else(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "out"
    assert exported(recording, place, "--tables", "runs") == 0
    other = place / "runs" / "run_id=other" / "data.parquet"
    other.parent.mkdir()
    other.write_text("another run's")
    stamp = {path: path.stat().st_mtime_ns for path in place.rglob("*.parquet")}
    assert exported(recording, place, "--tables", "runs,gpus") == 1
    assert "-f replaces it" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*.parquet")} == stamp
    assert exported(recording, place, "--tables", "gpus") == 0
    assert exported(recording, place, "--tables", "runs,gpus", "-f") == 0
    assert other.read_text() == "another run's"
    assert sorted(os.listdir(place)) == ["gpus", "runs"]


def test_an_export_that_fails_leaves_nothing(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet.ParquetSink, "end", fail)
    assert exported(recording, tmp_path / "out") == 1
    assert capsys.readouterr().err.endswith("can't be written: No space left on device\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_csv_has_the_same_rows_and_no_formulas(recording: Path, tmp_path: Path) -> None:
    assert exported(recording, tmp_path, "--format", "csv") == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv" for name in EXPORTED}
    rows = {name: list(csv.DictReader((tmp_path / f"{name}.csv").open(encoding="utf-8"))) for name in EXPORTED}
    for name, table in EXPORTED.items():
        assert list(rows[name][0] if rows[name] else []) in ([], [column.name for column in table.columns])
    assert rows["runs"][0]["label"] == "'=1+1" and rows["runs"][0]["user"] == "me"
    run = run_of(recording)
    whole = run.samples(["sm_active", "memory_used"])
    found = sorted(
        (int(row["gpu"]), float(row["time"]), row["sm_active"], row["memory_used"]) for row in rows["samples"]
    )
    order = np.lexsort((whole.time, whole.gpu))
    for row, at in zip(found, order.tolist(), strict=True):
        sm, used = whole.values["sm_active"][at], whole.values["memory_used"][at]
        assert row == (
            whole.gpu[at],
            whole.time[at],
            "" if sm != sm else repr(float(sm)),
            "" if used != used else str(int(used)),
        )
    assert {row["node"] for row in rows["samples"]} == {gpu.node for gpu in run.gpus}
    assert exported(recording, tmp_path, "--format", "csv") == 1
    assert exported(recording, tmp_path, "--format", "csv", "-f", "--tables", "runs") == 0


def test_json_has_an_object_in_each_line_with_the_same_values(recording: Path, tmp_path: Path) -> None:
    assert exported(recording, tmp_path, "--format", "json") == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.jsonl" for name in EXPORTED}
    texts = {name: (tmp_path / f"{name}.jsonl").read_text(encoding="ascii") for name in EXPORTED}
    assert not any(word in text for text in texts.values() for word in ("NaN", "Infinity"))
    rows = {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}
    for name, table in EXPORTED.items():
        assert all(list(row) == [column.name for column in table.columns] for row in rows[name])
    assert rows["runs"][0]["label"] == "=1+1" and rows["runs"][0]["job_id"] is None
    whole = run_of(recording).samples(NAMES)
    order = np.lexsort((whole.time, whole.gpu))
    found = sorted(rows["samples"], key=lambda row: (row["gpu"], row["time"]))
    for name in ("gpu", "time", *NAMES):
        values = whole.gpu if name == "gpu" else whole.time if name == "time" else whole.values[name]
        got = np.array([np.nan if row[name] is None else row[name] for row in found])
        np.testing.assert_array_equal(got, values[order], err_msg=name)
    assert {type(row["memory_used"]) for row in found} == {int}
    assert exported(recording, tmp_path, "--format", "json") == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--tables", "runs,nothing"], 2, "--tables: no table 'nothing'; choose from runs"),
        (["--tables", ","], 2, "--tables"),
        (["-o", "/dev/null"], 2, "is not a folder"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main(["export", str(recording), "-o", str(tmp_path / "out"), "--tables", "runs", *words]) == code
    captured = capsys.readouterr().err
    assert said in captured and captured.count("\n") == 1


def test_a_damaged_recording_gives_what_can_be_read_and_the_others_all(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cut.sql").write_bytes(recording.read_bytes()[:50_000])
    (tmp_path / "in" / "good.sql").write_bytes(recording.read_bytes())
    assert exported(tmp_path / "missing.sql", tmp_path / "out", "--tables", "runs") == 1
    assert "missing.sql: no such file" in capsys.readouterr().err
    assert exported(tmp_path / "in", tmp_path / "out", "--tables", "runs") == 1
    assert "cut.sql" in capsys.readouterr().err
    assert query("SELECT count(*) FROM {runs}", tmp_path / "out") == [(1,)]


def test_values_that_can_not_be_are_null_and_stop_nothing(recording: Path, tmp_path: Path) -> None:
    """SQLite holds anything: a blob for a node, a float for a number of processes."""
    path = tmp_path / "odd.sql"
    path.write_bytes(recording.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO workload_samples (run_id, rank, time, n_processes) SELECT run_id, 0, 1, 1e300 FROM runs"
        )
        connection.execute("UPDATE host_samples SET node = x'ff', load1 = 'much' WHERE node = 'node0001'")
    for words in ((), ("--format", "csv"), ("--format", "json")):
        assert exported(path, tmp_path / "out", *words) == 0
    assert query("SELECT n_processes FROM {workload_samples}", tmp_path / "out") == [(None,)]
    assert query("SELECT DISTINCT node FROM {host_samples}", tmp_path / "out") == [("node0000",)]
    (workload,) = (json.loads(line) for line in (tmp_path / "out" / "workload_samples.jsonl").open())
    assert workload["n_processes"] is None and workload["time"] == 1.0


def test_names_of_metrics_are_those_of_the_catalogue(folder: Path) -> None:
    columns = [name for name, *_ in query("DESCRIBE SELECT * FROM {samples}", folder)]
    assert [name for name in columns if name in BY_NAME] == list(NAMES)


def test_many_recordings_are_exported_by_several_processes(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can't be read or is there twice is said, and stops nothing."""
    monkeypatch.setattr(fleet, "PER_PROCESS", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    made = tmp_path / "recordings"
    made.mkdir()
    for number in range(6):
        copy = made / f"{number}.sql"
        copy.write_bytes(recording.read_bytes())
        with sqlite3.connect(copy) as connection:
            for table in ("runs", "processes", "gpus", "events"):
                connection.execute(f"UPDATE {table} SET run_id = ?", (f"run-{min(number, 4)}",))
    (made / "broken.sql").write_bytes(recording.read_bytes()[:5000])
    assert exported(made, tmp_path / "out", "--tables", "runs,summary,verdicts") == 1
    said = capsys.readouterr()
    assert "broken.sql" in said.err and "run 'run-4' is in" in said.err and ": 5 runs exported" in said.out
    for table in ("runs", "summary", "verdicts"):
        assert sorted(os.listdir(tmp_path / "out" / table)) == [f"run_id=run-{number}" for number in range(5)]
    assert sorted(os.listdir(tmp_path / "out")) == ["runs", "summary", "verdicts"]
