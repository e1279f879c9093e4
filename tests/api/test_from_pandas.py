"""Samples from elsewhere become recordings, and what comes from one goes back unchanged."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gssr
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


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda t: t.drop(columns="time"), "'time'"),
        (lambda t: t.drop(columns="gpu"), "'gpu'"),
        (lambda t: t[["gpu", "time"]], "no metric"),
        (lambda t: t.assign(utilization=1), "'utilization' is no metric"),
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
