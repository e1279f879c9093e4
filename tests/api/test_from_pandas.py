"""Samples from elsewhere become recordings, and what comes from one goes back unchanged."""

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gssr
from gssr.cli import main
from gssr.store.read.open import RecordingError

START = 1_700_000_000.0


def table(n: int = 100, gpus: tuple[object, ...] = ("a", "b")) -> pd.DataFrame:
    """One row per GPU and second."""
    rows = [(gpu, START + tick, 0.2 * (at + 1), 100.0 * at) for tick in range(n) for at, gpu in enumerate(gpus)]
    return pd.DataFrame(rows, columns=["gpu", "time", "sm_active", "power_usage"])


def test_what_comes_from_a_recording_goes_back_unchanged(recorded: Path, tmp_path: Path) -> None:
    run = gssr.open(recorded)[0]
    copy = gssr.from_pandas(run.samples(), tmp_path / "copy.sql", gpus=run.gpus, label="copy")[0]
    pd.testing.assert_frame_equal(copy.samples(), run.samples())
    pd.testing.assert_frame_equal(copy.gpus, run.gpus)
    assert (copy.label, copy.score, copy.analysis.n_gaps) == ("copy", run.score, run.analysis.n_gaps)
    assert copy.analysis.energy_j == pytest.approx(run.analysis.energy_j)


def test_little_is_needed_and_the_rest_is_unknown(tmp_path: Path) -> None:
    run = gssr.from_pandas(table(), tmp_path / "a.sql")[0]
    assert run.gpus.uuid.tolist() == ["a", "b"] and run.gpus.name.isna().all()
    assert run.time_average("sm_active").sm_active.tolist() == pytest.approx([0.2, 0.4])
    assert run.score is None and run.duration == 99 and run.metadata["sampling_ms"] == 1000
    assert "tensor_active" not in run.metrics or run.statistics().loc["tensor_active", "n"] == 0


def test_rows_in_any_order_times_of_any_kind_and_nullable_columns(tmp_path: Path) -> None:
    plain = gssr.from_pandas(table(), tmp_path / "plain.sql")[0].samples(["sm_active", "power_usage"])
    times = pd.to_datetime(table().time, unit="s")
    for number, own in enumerate(
        (times, times.dt.tz_localize("UTC"), times.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    ):
        mixed = table().assign(time=own).sample(frac=1, random_state=number).astype({"sm_active": "Float64"})
        found = gssr.from_pandas(mixed, tmp_path / f"{number}.sql")[0].samples(["sm_active", "power_usage"])
        pd.testing.assert_frame_equal(found, plain)


def test_missing_is_never_zero(tmp_path: Path) -> None:
    holes = table()
    holes.loc[holes.gpu == "a", "sm_active"] = np.nan
    run = gssr.from_pandas(holes, tmp_path / "a.sql")[0]
    assert np.isnan(run.time_average("sm_active").sm_active[0]) and run.statistics().loc[
        "sm_active", "mean"
    ] == pytest.approx(0.4)


def test_derived_metrics_follow_from_the_others(recorded: Path, tmp_path: Path) -> None:
    run = gssr.open(recorded)[0]
    samples = run.samples([*run.metrics])
    assert "flop_active" in samples
    copy = gssr.from_pandas(samples, tmp_path / "a.sql", gpus=run.gpus)[0]
    pd.testing.assert_series_equal(copy.samples("flop_active").flop_active, samples.flop_active)
    unknown = table().assign(flop_active=np.nan)
    assert gssr.from_pandas(unknown, tmp_path / "b.sql")[0].score is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda t: t.drop(columns="time"), "'time'"),
        (lambda t: t.drop(columns="gpu"), "'gpu'"),
        (lambda t: t[["gpu", "time"]], "no metric"),
        (lambda t: t.assign(utilization=1), "'utilization' is no metric"),
        (lambda t: t.assign(flop_active=0.1), "'flop_active' is not stored, it follows from fp64_active, fp32_active"),
        (
            lambda t: t.assign(flop_active=0.1, fp64_active=0.1, tensor_active=0),
            "the table has no fp32_active, fp16_active",
        ),
        (lambda t: t.iloc[:0], "no samples"),
        (lambda t: t.assign(sm_active=97.5), "not a percentage"),
        (lambda t: t.assign(sm_active=-1.0), "NaN where it was not measured"),
        (lambda t: t.assign(power_usage=np.inf), "no sensor gives: inf"),
        (lambda t: t.assign(power_usage=-1e31), "no sensor gives: -1e"),
        (lambda t: t.assign(time=t.time * 1000), "unix seconds"),
        (lambda t: t.assign(time=-t.time), "unix seconds"),
        (lambda t: pd.concat([t, t[["power_usage"]]], axis=1), "several columns 'power_usage'"),
        (lambda t: t.assign(power_usage="much"), "numbers"),
        (lambda t: t.assign(time=np.nan), "without a time"),
        (lambda t: t.assign(gpu=None), "without a GPU"),
    ],
)
def test_a_table_that_can_not_be_samples_is_refused_and_leaves_nothing(tmp_path: Path, change, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        gssr.from_pandas(change(table()), tmp_path / "a.sql")
    assert not list(tmp_path.iterdir())


def test_gpus_must_be_those_of_the_samples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'b' has samples"):
        gssr.from_pandas(table(), tmp_path / "a.sql", gpus=pd.DataFrame(index=["a"]))
    with pytest.raises(ValueError, match="'a' has several rows"):
        gssr.from_pandas(table(), tmp_path / "a.sql", gpus=pd.DataFrame(index=["a", "b", "a"]))
    with pytest.raises(ValueError, match="'colour'"):
        gssr.from_pandas(table(), tmp_path / "a.sql", gpus=pd.DataFrame({"colour": [1, 2]}, index=["a", "b"]))


def beside(n: int = 100) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of two nodes, one of which says more, and of two ranks."""
    time = START + np.arange(n)
    first = pd.DataFrame({"node": "n1", "time": time, "cpu_utilization": 0.25, "fabric_rx_bytes": 2e9})
    second = pd.DataFrame({"node": "n2", "time": time[::2] + 0.5, "cpu_utilization": 0.75})
    ranks = [pd.DataFrame({"rank": rank, "time": time, "cpu": 2.0 + rank, "rss": 1 << 30}) for rank in (0, 1)]
    return pd.concat([second, first]), pd.concat(ranks)


def test_nodes_processes_and_how_it_ended_are_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host, workload = beside(160)
    run = gssr.from_pandas(table(150), tmp_path / "a.sql", host=host, workload=workload, exit_code=np.int64(3))[0]
    assert (run.state, run.metadata["exit_code"]) == ("failed", 3)
    use = run.analysis.host
    assert use.cpu_utilization == pytest.approx((160 * 0.25 + 80 * 0.75) / 240)
    assert (use.fabric_rx_bytes, use.fabric_tx_bytes, use.load1) == (2e9, None, None)
    assert (use.workload_cpu, use.workload_rss, use.workload_processes) == (5.0, 2 << 30, None)
    assert main(["analyze", str(tmp_path / "a.sql")]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "failed" in page and "nodes CPU 41.7 % busy command 5.00 cores busy, at most 2,048 MiB resident" in page
    host["fabric_tx_bytes"] = 1e9
    gssr.from_pandas(table(), tmp_path / "b.sql", host=host, state="timeout")
    assert main(["analyze", "-v", "high", str(tmp_path / "b.sql")]) == 0
    assert "fabric 2000.0 MB/s in and 1000.0 MB/s out" in " ".join(capsys.readouterr().out.split())
    assert main(["analyze", "--json", str(tmp_path / "b.sql")]) == 0
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert (told["state"], told["exit_code"], told["host"]["fabric_tx_bytes"]) == ("timeout", None, 1e9)


def test_rows_of_nodes_and_processes_go_back_unchanged(tmp_path: Path) -> None:
    def rows(path: Path) -> list[pd.DataFrame]:
        with closing(sqlite3.connect(path)) as connection:
            return [pd.read_sql(f"SELECT * FROM {name}_samples", connection) for name in ("host", "workload")]

    host, workload = beside()
    run = gssr.from_pandas(table(), tmp_path / "a.sql", host=host, workload=workload)[0]
    first = rows(tmp_path / "a.sql")
    gssr.from_pandas(run.samples(), tmp_path / "b.sql", gpus=run.gpus, host=first[0], workload=first[1])
    for again, once, given in zip(rows(tmp_path / "b.sql"), first, (host, workload), strict=True):
        pd.testing.assert_frame_equal(again.drop(columns="run_id"), once.drop(columns="run_id"))
        names = list(given)
        pd.testing.assert_frame_equal(
            once[names], given.sort_values(names[:2]).reset_index(drop=True), check_dtype=False
        )


def test_rows_from_other_times_than_the_samples_are_left_out(tmp_path: Path) -> None:
    host, _ = beside(4000)
    run = gssr.from_pandas(table(100), tmp_path / "a.sql", host=host.assign(time=host.time - 1000))[0]
    assert run.analysis.host and run.reader.host_use()["cpu_utilization"].n == 120 + 60
    with pytest.raises(ValueError, match="host_samples has no row from the time of the samples"):
        gssr.from_pandas(table(100), tmp_path / "b.sql", host=host.assign(time=host.time + 3600))


@pytest.mark.parametrize(
    ("keyword", "value", "why"),
    [
        ("host", lambda host: host.drop(columns="node"), "host_samples need a column 'node'"),
        ("workload", lambda workload: workload.drop(columns="time"), "workload_samples need a column 'time'"),
        ("host", lambda host: host.assign(fan=1), "'fan' is no column of host_samples: cpu_utilization, load1"),
        ("host", lambda host: host.assign(node=None), "without a node"),
        ("host", lambda host: host.assign(node=""), "without a name"),
        ("host", lambda host: host.assign(cpu_utilization=60.0), "not a percentage"),
        ("host", lambda host: host.assign(fabric_rx_bytes=-1.0), "fabric_rx_bytes is never below 0"),
        ("host", lambda host: host.iloc[:0], "no row from the time"),
        ("workload", lambda workload: workload.assign(rank=0.5), "whole numbers"),
        ("workload", lambda workload: workload.assign(rank="first"), "numbers"),
        ("workload", lambda workload: workload.assign(rank=np.nan), "without a rank"),
        ("state", "running", "state is completed, failed, timeout or killed, not 'running'"),
        ("exit_code", -9, "exit_code is a whole number, 0-255, not -9"),
        ("exit_code", np.nan, "exit_code is a whole number"),
    ],
)
def test_what_can_not_be_of_a_job_is_refused_and_leaves_nothing(tmp_path: Path, keyword: str, value, why: str) -> None:
    if callable(value):
        value = value(beside()[keyword == "workload"])
    with pytest.raises(ValueError, match=why):
        gssr.from_pandas(table(), tmp_path / "a.sql", **{keyword: value})
    assert not list(tmp_path.iterdir())


def test_a_length_of_time_is_above_zero(tmp_path: Path) -> None:
    for seconds in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="sampling_seconds"):
            gssr.from_pandas(table(), tmp_path / "a.sql", sampling_seconds=seconds)


def test_labels_may_be_of_several_kinds(tmp_path: Path) -> None:
    run = gssr.from_pandas(table(gpus=("a", 3)), tmp_path / "a.sql")[0]
    assert run.gpus.uuid.tolist() == ["3", "a"] and len(run.samples()) == 200


def test_a_file_that_exists_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("mine")
    with pytest.raises(RecordingError, match="exists"):
        gssr.from_pandas(table(), tmp_path / "a.sql")
    assert (tmp_path / "a.sql").read_text() == "mine"
