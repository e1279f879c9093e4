"""Recordings from Python: the numbers of the command line, as pandas objects."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import gssr
from gssr.report.json_document import document
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording


@pytest.fixture(scope="module")
def run(recorded: Path) -> gssr.Run:
    return gssr.open(recorded)[-1]


def test_runs_are_found_by_number_and_by_name(recorded: Path) -> None:
    with gssr.open(recorded) as recording:
        assert len(recording) == 1 and list(recording) == list(recording.runs)
        assert recording["synthetic gaps"] is recording[0] is recording[recording[0].run_id]
        assert recording.damage is None
        with pytest.raises(KeyError):
            recording["another"]
        with pytest.raises(IndexError):
            recording[1]


def test_a_file_that_is_no_recording_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"none\.sql: no such file"):
        gssr.open(tmp_path / "none.sql")


def test_metadata_is_all_that_is_recorded_of_the_run(run: gssr.Run) -> None:
    found = run.metadata
    assert set(found) >= set(run.reader.run._fields)
    assert (found["state"], found["n_gpus"], found["nodes"], found["backends"]) == (
        "completed",
        4,
        ["node0000"],
        ["synthetic"],
    )
    assert found["duration_s"] == run.duration == pytest.approx(36)
    json.dumps(found)


def test_raw_rows_are_those_of_the_file(run: gssr.Run, recorded: Path) -> None:
    table = run.samples()
    assert list(table.columns) == ["gpu", "time", *run.reader.metrics]
    assert len(table) == run.reader.n_rows and table.time.is_monotonic_increasing
    (reader,) = open_recording(recorded).runs
    raw = reader.samples(["sm_active"])
    assert table.sm_active.sum() == pytest.approx(np.nansum(raw.values["sm_active"]))
    assert table.sm_active.isna().sum() == np.isnan(raw.values["sm_active"]).sum() > 0


def test_missing_is_never_zero(run: gssr.Run) -> None:
    table = run.samples("sm_active")
    assert run.time_average("sm_active").sm_active.to_numpy() == pytest.approx(
        table.groupby("gpu").sm_active.mean().to_numpy()
    )
    series = run.space_average("sm_active", gpus=3)
    assert series["mean"].isna().any() == (series.n_gpus == 0).any()
    assert not (series["mean"] == 0).any()


def test_samples_of_some_gpus_and_a_stretch(run: gssr.Run) -> None:
    table = run.samples(["sm_active", "flop_active"], gpus=[0, "node0000:2"], start=5, end="10s")
    assert set(table.gpu) == {0, 2} and list(table.columns) == ["gpu", "time", "sm_active", "flop_active"]
    assert table.time.min() >= run.start + 5 and table.time.max() < run.start + 10
    last = run.samples("sm_active", start=-6)
    assert last.time.min() >= run.end - 6.0


def test_the_space_average_is_the_mean_over_gpus_in_each_bin(run: gssr.Run) -> None:
    series = run.space_average("sm_active", bins=10)
    assert series.index.name == "seconds" and list(series.columns) == ["mean", "low", "high", "n_gpus"]
    assert len(series) <= 10 and series.n_gpus.max() == 4
    assert ((series.low <= series["mean"]) & (series["mean"] <= series.high)).all()
    width = series.index[1] - series.index[0]
    rows = run.samples("sm_active")
    bins = np.floor((rows.time - run.start + 1e-6) / width)
    means = rows.groupby([bins, rows.gpu]).sm_active.mean().groupby(level=0).mean()
    assert series["mean"].iloc[:-1].to_numpy() == pytest.approx(means.to_numpy()[: len(series) - 1], abs=1e-6)


def test_the_numbers_are_those_of_the_command_line(run: gssr.Run, recorded: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", "--json", recorded],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (printed,) = json.loads(done.stdout)["runs"]
    assert run.score == printed["score"]
    assert run.statistics().loc["sm_active", "p95"] == printed["metrics"]["sm_active"]["p95"]
    assert run.time_average("sm_active").sm_active.tolist() == [gpu["mean"]["sm_active"] for gpu in printed["gpus"]]
    assert run.time_average().score.tolist() == [gpu["score"] for gpu in printed["gpus"]]
    assert run.verdicts().code.tolist() == [verdict["code"] for verdict in printed["verdicts"]]
    assert run.phases().kind.tolist() == [phase["kind"] for phase in printed["phases"]]
    assert document([gssr.analyze(run)])["runs"][0]["score"] == printed["score"]


def test_a_recording_of_one_run_stands_for_it(recorded: Path, run: gssr.Run) -> None:
    with gssr.open(recorded) as recording:
        assert gssr.analyze(recording).score == run.score


def test_gpus_and_events_are_told_by_position(run: gssr.Run) -> None:
    assert run.gpus.index.tolist() == [0, 1, 2, 3] and run.gpus.index.name == "gpu"
    assert run.gpus.device_index.tolist() == [0, 1, 2, 3]
    lost = run.events[run.events.kind == "gpu_lost"]
    assert len(lost) and set(lost.gpu) <= {0, 1, 2, 3} and (lost.seconds > 0).all()
    assert run.marks.empty and list(run.marks.columns) == list(run.events.columns)


def test_processes_on_gpus_are_told_by_position_and_time(run: gssr.Run, tmp_path: Path) -> None:
    assert run.gpu_processes.empty and str(run.gpu_processes.pid.dtype) == "Int64"
    path = tmp_path / "run.sql"
    shutil.copy(run.reader.tails[0][0], path)
    rows = [(2, run.start + 10, 1, 77, "python", "me", 1 << 30, 0.5), (1, run.start + 5, 0, *[None] * 5)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(f"INSERT INTO gpu_processes VALUES ({', '.join('?' * 8)})", rows)
        connection.execute("INSERT INTO gpu_processes (gpu, time, n_processes) VALUES (99, 1, 0), ('x', 'y', 'z')")
    found = gssr.open(path)[-1].gpu_processes
    assert found.gpu.tolist() == [1, 2] and found.seconds.round(3).tolist() == [5, 10]
    assert (
        found.n_processes.tolist() == [0, 1]
        and found.name[1] == "python"
        and found.pid.isna().tolist() == [True, False]
    )


def test_verdicts_and_phases_have_times_after_the_start(run: gssr.Run) -> None:
    for table in (run.verdicts(), run.phases()):
        assert ((table.start >= -0.001) & (table.start <= table.end) & (table.end <= run.duration + 0.5)).all()
    assert run.phases().share.sum() == pytest.approx(1, abs=0.05)


def test_the_breakdown_is_a_table_whose_shares_add_up_to_all_of_the_gpu_time(run: gssr.Run) -> None:
    found = run.breakdown()
    assert found.index.name == "category" and {"label", "is_loss", "confidence"} <= set(found.columns)
    assert found.share.sum() == pytest.approx(1) and found.share.idxmax().startswith("working.")
    assert found.gpu_seconds.sum() == pytest.approx(run.analysis.judgement.breakdown.gpu_seconds)
    half = run.breakdown(gpus=[0, 1])
    assert half.share.sum() == pytest.approx(1) and half.gpu_seconds.sum() < found.gpu_seconds.sum()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda run: run.samples("sm_activity"), "sm_activity"),
        (lambda run: run.space_average("energy"), "energy"),
        (lambda run: run.space_average("clock_event_reasons"), "clock_event_reasons"),
        (lambda run: run.time_average(gpus="node9"), "node9"),
        (lambda run: run.samples(gpus=17), "17"),
        (lambda run: run.analyze(start="soon"), "soon"),
    ],
)
def test_what_is_not_there_is_said(run: gssr.Run, wrong, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        wrong(run)


def test_tables_without_rows_have_their_columns(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "gssr",
        "profile",
        "--backend",
        "synthetic:idle:1",
        "--metrics",
        "power_usage",
        "-o",
        "a.sql",
    ]
    subprocess.run([*command, "--no-summary", "--", "true"], cwd=tmp_path, check=True, timeout=60)
    (run,) = gssr.open(tmp_path / "a.sql").runs
    assert run.score is None and isinstance(run.verdicts(), pd.DataFrame)
    assert {"code", "gpus"} <= set(run.verdicts().columns) and {"kind", "share"} <= set(run.phases().columns)
    assert {"gpu_seconds", "share", "error"} <= set(
        run.breakdown().columns
    ) and run.breakdown().index.name == "category"
    assert run.statistics().loc["sm_active", "n"] == 0 and np.isnan(run.statistics().loc["sm_active", "mean"])
    assert "unknown" in run._repr_html_()


def test_a_notebook_shows_a_chart_that_breaks_where_nothing_was_measured(run: gssr.Run, recorded: Path) -> None:
    for shown in (run._repr_html_(), gssr.open(recorded)._repr_html_()):
        assert len(shown) < 30_000
        drawing = ElementTree.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + 6])
        assert drawing.attrib["aria-label"] == "SM active over time"
        *_, line = drawing.findall("path")
        assert 1 <= line.attrib["d"].count("M") < 160 and "nan" not in line.attrib["d"]


def test_marks_are_a_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:idle:1", "-o", "a.sql", "--no-summary"]
    script = f"{sys.executable} -m gssr mark one; {sys.executable} -m gssr mark two"
    subprocess.run([*command, "--wrap", script], cwd=tmp_path, check=True, timeout=60)
    marks = gssr.open(tmp_path / "a.sql")[0].marks
    assert marks.message.tolist() == ["one", "two"] and marks.seconds.is_monotonic_increasing


def test_opening_a_recording_imports_no_pandas(recorded: Path) -> None:
    code = f"import sys, gssr; run = gssr.open({str(recorded)!r})[0]; run.score; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_statistics_can_be_exact_of_any_number_of_samples(run, monkeypatch):
    known = run.statistics(exact=True)
    monkeypatch.setattr("gssr.model.analyze.EXACT_ROWS", 100)
    pd.testing.assert_frame_equal(run.statistics(exact=True), known, rtol=1e-12)
    assert (run.analyze(gpus=[0, 1], end=9).metrics["sm_active"].p_error or 0.0) > 0.0
    assert run.analyze(gpus=[0, 1], end=9, exact=True).metrics["sm_active"].p_error == 0.0


def test_a_recording_answers_questions_in_sql_and_stays_as_it_is(recorded: Path) -> None:
    before = recorded.read_bytes()
    with gssr.open(recorded) as opened:
        database = opened.database
        assert database["samples"].count == next(database.query("SELECT count(*) AS n FROM gpu_samples"))["n"] > 0
        assert "runs" in database.table_names() and database["runs"].columns_dict["started_at"] is float
        assert next(database["gpus"].rows_where("gpu = ?", [0]))["device_index"] == 0
        for statement in (
            "DELETE FROM samples", "CREATE TABLE x (a)", "ATTACH ':memory:' AS other", "PRAGMA writable_schema = ON",
            "SELECT load_extension('x')", "DROP VIEW gpu_samples", "VACUUM",
        ):  # fmt: skip
            with pytest.raises(sqlite3.DatabaseError):
                database.execute(statement)
    assert recorded.read_bytes() == before


def test_a_recording_of_several_files_says_that_it_is_to_be_merged_first(recorded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ranks.sql.d"
    folder.mkdir()
    for rank in range(2):
        (folder / f"n.{rank}.run.sql").write_bytes(recorded.read_bytes())
    with gssr.open(folder) as opened, pytest.raises(ValueError, match="gssr merge"):
        _ = opened.database
