"""The space average: bins, gaps, GPUs that come late or are sampled at another rate; from raw rows and from rollups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ticks import T0, Record, ticks

from gssr.model.analyze import Options, analyze
from gssr.model.results import Grid, over_space
from gssr.model.statistics.series import bins_of_buckets, slices_of_buckets, widths
from gssr.store.read import check_rollups
from gssr.store.read.time_window import ALL_TIME, Window


def drawn(reader, bins: int = 72, exact: bool | None = None, **options):  # type: ignore[no-untyped-def]
    analysis = analyze(reader, Options(series=("sm_active",), bins=bins, exact=exact, **options))
    return analysis.series["sm_active"], analysis.gpu_series["sm_active"]


@settings(max_examples=5)
@given(st.integers(1, 5), st.integers(2, 300), st.integers(0, 1000), st.sampled_from([0.1, 1.0]), st.integers(1, 100))
def test_a_gpus_value_in_a_bin_is_the_mean_of_its_samples_there(
    record: Record, n_gpus: int, n: int, seed: int, interval: float, bins: int
) -> None:
    random = np.random.default_rng(seed)
    gpu, time = ticks(n_gpus, n, interval)
    time = time + random.random(len(time)) * 0.3 * interval
    values = np.where(random.random(len(gpu)) < 0.3, np.nan, random.random(len(gpu)))
    values[0] = 0.5
    reader = record(gpu, time, {"sm_active": values}, sampling_ms=1000 * interval, started_at=T0)
    series, gpu_series = drawn(reader, bins)
    assert series.start == T0 and len(series.mean) <= bins and series.width >= interval
    for position in range(n_gpus):
        for k, value in enumerate(gpu_series.values[position]):
            left = T0 + k * series.width
            inside = (gpu == position) & (time >= left) & (time < left + series.width) & np.isfinite(values)
            assert np.isnan(value) if not inside.any() else value == pytest.approx(values[inside].mean())
    assert np.isfinite(gpu_series.values).sum() == series.n_gpus.sum()


@pytest.mark.parametrize("exact", [True, False])
def test_a_gpu_that_starts_late_counts_only_once_it_has_samples(record: Record, exact: bool) -> None:
    gpu, time = ticks(2, 600, 1.0)
    here = (gpu == 0) | (time >= T0 + 300)
    values = np.where(gpu == 0, 1.0, 0.5)
    reader = record(gpu[here], time[here], {"sm_active": values[here]}, sampling_ms=1000.0)
    series, _ = drawn(reader, 20, exact)
    half = len(series.mean) // 2
    assert series.width == 30.0
    assert (series.mean[:half] == 1.0).all() and (series.n_gpus[:half] == 1).all()
    assert (series.mean[half:] == 0.75).all() and (series.n_gpus[half:] == 2).all()
    assert (series.low[half:] == 0.5).all() and (series.high[half:] == 1.0).all()


def test_gpus_sampled_at_different_rates_weigh_the_same(record: Record) -> None:
    gpu, time = ticks(2, 600, 0.1)
    kept = (gpu == 0) | (np.round((time - T0) * 10) % 7 == 0)
    series, _ = drawn(record(gpu[kept], time[kept], {"sm_active": (gpu[kept] == 0) * 1.0}), bins=1000)
    assert 0.7 <= series.width <= 2.0
    assert np.mean(series.mean == 0.5) >= 0.95


def test_ticks_at_the_edges_of_bins_leave_none_empty(record: Record) -> None:
    random = np.random.default_rng(7)
    gpu, time = ticks(3, 400, 0.1)
    time = time + random.normal(0.0, 0.004, len(time))  # half of them come before their bin begins
    time[:3] = T0
    series, gpu_series = drawn(record(gpu, time, {"sm_active": np.ones(len(gpu))}, started_at=T0), bins=1000)
    assert series.width == 0.2 and np.isfinite(gpu_series.values).all()


def test_even_ticks_get_bins_of_one_interval(record: Record) -> None:
    gpu, time = ticks(3, 400, 0.1)
    reader = record(gpu, time, {"sm_active": np.ones(len(gpu))}, started_at=T0, ended_at=T0 + 40)
    series, _ = drawn(reader, bins=400)
    assert series.width == 0.1 and len(series.mean) == 400 and (series.n_gpus == 3).all()


def test_a_gap_is_a_hole_and_no_reason_for_wider_bins(record: Record) -> None:
    gpu, time = ticks(2, 400, 0.1)
    kept = (time < T0 + 10) | (time > T0 + 25)
    reader = record(gpu[kept], time[kept], {"sm_active": np.ones(kept.sum())}, started_at=T0)
    series, _ = drawn(reader, bins=400)
    assert series.width == 0.1 and (series.n_gpus[105:245] == 0).all() and np.isnan(series.mean[105:245]).all()


@pytest.mark.parametrize(
    ("n", "bins", "width"), [(900, 90, 10.0), (3000, 60, 60.0), (3000, 11, 300.0), (3000, 3, 1200.0)]
)
def test_series_from_rollups_are_those_of_raw_rows_in_the_same_bins(
    record: Record, n: int, bins: int, width: float
) -> None:
    random = np.random.default_rng(n)
    gpu, time = ticks(3, n, 1.0)
    time = time + 0.25
    values = np.where(random.random(len(gpu)) < 0.1, np.nan, random.random(len(gpu)))
    reader = record(gpu, time, {"sm_active": values}, sampling_ms=1000.0)
    series, gpu_series = drawn(reader, bins, exact=False, gpus=("0", "2"))
    assert series.width == width and series.start % width == 0
    for row, position in enumerate((0, 2)):
        for k, value in enumerate(gpu_series.values[row]):
            left = series.start + k * width
            own = values[(gpu == position) & (time >= left) & (time < left + width)]
            own = own[np.isfinite(own)]
            assert np.isnan(value) if not len(own) else value == pytest.approx(own.mean())


def test_reading_rollups_in_slices_changes_nothing(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, time = ticks(4, 2000, 1.0)
    values = np.sin(time) ** 2
    reader = record(gpu, time, {"sm_active": values}, sampling_ms=1000.0)
    window = {"start": "123.5", "end": "1777"}
    _, whole = drawn(reader, 50, exact=False, **window)
    monkeypatch.setattr("gssr.model.statistics.series.VECTORS_AT_ONCE", 29)
    _, sliced = drawn(reader, 50, exact=False, **window)
    assert np.array_equal(whole.values, sliced.values, equal_nan=True)
    inside = (gpu == 0) & (time >= T0 + 123.5) & (time < T0 + 1777)
    first = inside & (time < whole.start + whole.width)
    assert whole.values[0][0] == pytest.approx(values[first].mean())


def test_years_between_two_rows_are_not_looked_through(record: Record) -> None:
    gpu, time = ticks(4, 2000, 1.0)
    time[-4:] += 3e8  # a clock that was set
    reader = record(gpu, time, {"sm_active": np.ones(len(gpu))}, sampling_ms=1000.0)
    bins = bins_of_buckets(Window(time[0], time[-1]), 1.0, 720)
    pieces = list(slices_of_buckets(reader, ["sm_active"], np.arange(4), bins, ALL_TIME))
    assert len(pieces) < 30 and sum(piece.vectors[:, 0].sum() for piece in pieces) == len(gpu)
    assert len(list(check_rollups.cut_into_slices(reader._parts[0], ALL_TIME, 600))) < 30
    assert analyze(reader, Options(exact=False)).metrics["sm_active"].n == len(gpu)


def test_the_space_average_ignores_gpus_without_a_value() -> None:
    nan = np.nan
    series = over_space(Grid("sm_active", 0.0, 1.0, np.array([[nan, 0.2, 1.0], [nan, nan, 0.0]])))
    assert series.n_gpus.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(series.mean, [nan, 0.2, 0.5])
    np.testing.assert_array_equal(series.low, [nan, 0.2, 0.0])
    np.testing.assert_array_equal(series.high, [nan, 0.2, 1.0])
    nobody = over_space(Grid("sm_active", 0.0, 1.0, np.empty((0, 3))))
    assert nobody.n_gpus.tolist() == [0, 0, 0] and np.isnan(nobody.low).all()


def test_counters_and_bits_have_no_series(record: Record) -> None:
    gpu, time = ticks(1, 10)
    ones = np.ones(10)
    reader = record(gpu, time, {"energy": ones, "clock_event_reasons": ones, "power_usage": ones})
    analysis = analyze(reader, Options(series=("energy", "clock_event_reasons", "power_usage", "sm_active")))
    assert list(analysis.series) == list(analysis.gpu_series) == ["power_usage"]


@pytest.mark.parametrize(
    ("interval", "first"),
    [
        (0.1, [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200]),
        (0.2, [0.2, 0.4, 1, 2, 5, 10]),
        (0.25, [0.25, 0.5, 1.25, 2, 5, 10, 20, 30]),
        (0.3, [0.3, 0.6, 1.5, 5, 10]),
        (0.5, [0.5, 1, 2.5, 5, 10]),
        (1.0, [1, 2, 5, 10, 20, 30]),
        (30.0, [30, 60, 150, 300, 600]),
        (3600.0, [3600, 7200, 18000, 21600, 43200, 86400, 172800, 345600]),
    ],
)
def test_widths_are_round_and_at_least_an_interval(interval: float, first: list[float]) -> None:
    ladder = widths(interval)
    assert [next(ladder) for _ in first] == first
