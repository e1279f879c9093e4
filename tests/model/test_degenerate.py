"""Recordings with little or nothing in them, and what the notes say about it."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from ticks import T0, Record, random_values, ticks

from gssr.metrics import METRICS
from gssr.model.analyze import Options, analyze
from gssr.model.findings.notes import notes
from gssr.model.results import Analysis
from gssr.store.format.rows import Event

EVERYTHING = {"outliers": "all", "series": ("sm_active", "power_usage", "flop_active"), "bins": 20}
both_ways = pytest.mark.parametrize("exact", [True, False])


def look(reader, exact: bool) -> Analysis:  # type: ignore[no-untyped-def]
    return analyze(reader, Options(**EVERYTHING, exact=exact))  # type: ignore[arg-type]


@both_ways
def test_no_gpu_and_no_sample(record: Record, exact: bool) -> None:
    analysis = look(record([], [], {}, n_gpus=0, started_at=T0, ended_at=T0 + 5), exact)
    assert (analysis.gpus, analysis.n_samples, analysis.n_gaps, analysis.score) == ((), 0, 0, None)
    assert (analysis.backend, analysis.energy_j, analysis.gpu_hours, analysis.n_nodes) == (None, None, 0.0, 1)
    assert analysis.window.duration == 5.0
    assert all(own.n == 0 and own.mean is None for own in analysis.metrics.values())
    assert analysis.balance["sm_active"].imbalance is None
    assert analysis.notes == ("no GPU was recorded, only the host",)


@both_ways
def test_a_note_says_why_there_is_no_gpu(record: Record, exact: bool) -> None:
    reader = record([], [], {}, n_gpus=0, started_at=T0, ended_at=T0 + 5)
    events = tuple(Event(T0, None, None, rank, "backend", "no GPU is sampled: no driver") for rank in (0, 1))
    analysis = replace(look(reader, exact), events=events)
    assert notes(analysis, None, None, 0.0) == ("no GPU was recorded, only the host: no driver",)


@both_ways
def test_gpus_that_never_gave_a_sample(record: Record, exact: bool) -> None:
    analysis = look(record([], [], {"sm_active": []}, n_gpus=3, started_at=T0, ended_at=T0 + 3600), exact)
    assert [gpu.n_samples for gpu in analysis.gpus] == [0, 0, 0]
    assert analysis.gpu_hours == 3.0 and analysis.energy_j is None and analysis.clock_event_reasons == {}
    assert analysis.notes == ("no GPU has samples",)
    assert analysis.series == analysis.gpu_series == {}


@both_ways
def test_one_sample(record: Record, exact: bool) -> None:
    values = random_values(1, 1, 0.0)
    analysis = look(record([0], [T0], values), exact)
    own = analysis.metrics["sm_active"]
    value = values["sm_active"][0]
    assert (own.n, own.mean, own.std, own.min, own.max) == (1, value, 0.0, value, value)
    assert (own.median, own.p05, own.p95, own.p_error) == (value, value, value, 0.0)
    assert analysis.n_gaps == 0 and analysis.energy_j is None and analysis.window.duration == 0.0
    assert analysis.series["sm_active"].mean.tolist()[-1] == pytest.approx(value)


@both_ways
def test_rows_that_are_all_null(record: Record, exact: bool) -> None:
    gpu, time = ticks(2, 30)
    analysis = look(record(gpu, time, {metric.name: np.full(60, np.nan) for metric in METRICS}), exact)
    assert analysis.n_samples == 60 and analysis.score is None and analysis.clock_event_reasons == {}
    assert all(own.n == 0 for own in analysis.metrics.values())
    assert all(mean is None for gpu in analysis.gpus for mean in gpu.mean.values())
    assert "none of the metrics was measured" in analysis.notes


@both_ways
def test_a_gpu_without_rows_is_named_and_is_not_zero(record: Record, exact: bool) -> None:
    gpu, time = ticks(2, 100)
    analysis = look(record(gpu, time, {"sm_active": np.full(200, 0.5)}, n_gpus=6), exact)
    assert analysis.gpus[5].mean["sm_active"] is None and analysis.gpus[5].score is None
    assert analysis.metrics["sm_active"].mean == 0.5 and analysis.balance["sm_active"].imbalance == 0.0
    assert "4 of 6 GPUs have no samples: n0:2, n0:3, n1:0, n1:1" in analysis.notes
    assert analysis.series["sm_active"].n_gpus.max() == 2


@both_ways
def test_an_unknown_sampling_interval_is_taken_from_the_rows(record: Record, exact: bool) -> None:
    gpu, time = ticks(1, 500, 0.2)
    analysis = look(record(gpu, time, {"sm_active": np.ones(500)}, sampling_ms=None), exact)
    assert analysis.n_samples == 500 and analysis.run.sampling_ms is None
    assert analysis.series["sm_active"].width == (5.0 if exact else 10.0)


def test_a_gap_is_found_when_the_sampling_interval_is_unknown(record: Record) -> None:
    gpu, time = ticks(1, 500, 0.2)
    kept = (time < T0 + 50) | (time > T0 + 51)
    assert analyze(record(gpu[kept], time[kept], {"sm_active": np.ones(kept.sum())}, sampling_ms=None)).n_gaps == 1


@both_ways
def test_the_note_about_gaps_names_the_gpus_that_have_any(record: Record, exact: bool) -> None:
    gpu, time = ticks(10, 500, 0.2)
    away = (time > T0 + 50) & (time < T0 + 52)
    for n, named in ((1, "n0:0"), (8, "n0:0, n0:1, n0:2, n0:3, n1:0, n1:1 and 2 more"), (10, "all GPUs")):
        kept = ~away | (gpu >= n)
        found = look(record(gpu[kept], time[kept], {"sm_active": np.ones(kept.sum())}), exact).notes
        assert any("gap" in note and f"between samples of {named}: about" in note for note in found), found


@both_ways
def test_columns_that_no_backend_measured_are_noted(record: Record, exact: bool) -> None:
    gpu, time = ticks(1, 40)
    values = random_values(40, 2, 0.0)
    for name in list(values):
        if name.startswith(("c2c", "nvlink")):
            del values[name]
    notes = look(record(gpu, time, values), exact).notes
    assert "not measured: NVLink sent, NVLink received, C2C sent, C2C received" in notes


@both_ways
def test_a_run_that_was_cut_off_counts_up_to_its_last_sample(record: Record, exact: bool) -> None:
    gpu, time = ticks(2, 605, 0.1)
    reader = record(gpu, time, {"sm_active": np.tile([0.4, 0.6], 605)}, started_at=T0, state="running")
    analysis = look(reader, exact)
    assert analysis.n_samples == 1210 and analysis.window.duration == pytest.approx(60.4)
    assert analysis.metrics["sm_active"].mean == pytest.approx(0.5)
    assert any(note.startswith(("the run is still going", "the recording stopped")) for note in analysis.notes)


def test_notes_say_what_the_recording_lacks_in_order_of_weight(record: Record) -> None:
    gpu, time = ticks(1, 80)
    whole = analyze(record(gpu, time, random_values(80, 2, 0.0)))
    assert whole.notes == ()
    lost = replace(whole, state="lost", n_gaps=2000, exact=False)
    last = datetime(2026, 5, 1, 12, 0, 3).timestamp()
    assert notes(lost, "a.sql: is damaged (truncated): only a part could be read", last, 1234.0) == (
        "a.sql: is damaged (truncated): only a part could be read",
        "the recording stopped without an end: its sampler is gone; last sample 12:00:03",
        "2,000 gaps of more than 2.5 sampling intervals between samples: about 1,230 GPU-seconds are missing",
        "percentiles come from histograms: each is off by at most 0.4 % of its value",
    )
    assert notes(replace(whole, state="running"), None, None, 0.0) == ("the run is still going",)


def test_a_recording_that_ends_before_its_run_says_so_and_why(record: Record) -> None:
    gpu, time = ticks(2, 40)
    reader = record(gpu, time, random_values(80, 2, 0.0), started_at=T0, ended_at=T0 + 60, state="completed")
    whole = analyze(reader)
    assert [note for note in whole.notes if "of the last" in note] == ["no samples of the last 56.1 s of the run"]
    assert not any("of the last" in note for note in analyze(reader, Options(end="3")).notes)
    full = Event(T0 + 20, "n", None, 0, "storage", "the recording could not be written: database or disk is full")
    assert notes(replace(whole, events=(full, full)), None, None, 0.0) == (full.message,)


def test_rows_just_outside_the_runs_start_and_end_belong_to_it(record: Record) -> None:
    gpu, time = ticks(1, 100)
    reader = record(gpu, time, {"sm_active": np.ones(100)}, started_at=T0 + 0.25, ended_at=T0 + 9.85)
    analysis = look(reader, True)
    assert analysis.n_samples == analysis.metrics["sm_active"].n == 100
    assert analysis.window.whole and analysis.window.duration == pytest.approx(9.6)
    assert np.isfinite(analysis.series["sm_active"].mean).all()


def test_a_window_without_rows_is_empty_not_wrong(record: Record) -> None:
    gpu, time = ticks(1, 100)
    reader = record(gpu, time, {"sm_active": np.ones(100)}, started_at=T0, ended_at=T0 + 100)
    analysis = analyze(reader, Options(start="20", end="30", series=("sm_active",)))
    assert analysis.n_samples == 0 and analysis.metrics["sm_active"].mean is None and analysis.gpu_hours == 10 / 3600
    assert analysis.notes == ("no GPU has samples in this window",)


def test_unknown_names_are_refused_with_a_sentence(record: Record) -> None:
    gpu, time = ticks(1, 5)
    reader = record(gpu, time, {"sm_active": np.ones(5)})
    with pytest.raises(ValueError, match="unknown metric 'smactive'"):
        analyze(reader, Options(metrics=("smactive",)))
    with pytest.raises(ValueError, match="no GPU '7' in this run"):
        analyze(reader, Options(gpus=("7",)))


def test_infinite_values_are_missing(record: Record) -> None:
    gpu, time = ticks(1, 4)
    own = analyze(record(gpu, time, {"power_usage": np.array([1.0, np.inf, 3.0, -np.inf])})).metrics["power_usage"]
    assert (own.n, own.mean, own.max) == (2, 2.0, 3.0)
