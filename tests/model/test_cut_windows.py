"""Windows of recordings with many samples: what is not read at their ends is bounded, and the bounds are true."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_statistics import same_but_for_percentiles
from ticks import T0, Record, random_values, ticks

from gssr.metrics import BY_NAME
from gssr.model import analyze
from gssr.model.analyze import Options
from gssr.model.statistics import aggregate, gpu_time_counts, sources
from gssr.store.read.recording import RunReader


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of samples is many."""
    monkeypatch.setattr(sources, "MOST_AT_AN_END", 0)


streams = st.tuples(
    st.integers(1, 4),
    st.integers(20, 400),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.3, 0.98]),
    st.floats(0, 1),
    st.floats(0, 1),
)


def recorded(record: Record, stream: tuple[int, int, int, float, float, float]) -> tuple[RunReader, float, float]:
    """A recording with lost GPUs and holes, of GPUs that differ, and a window of it."""
    n_gpus, n, seed, missing, begin, end = stream
    rng = np.random.default_rng(seed)
    gpu, time = ticks(n_gpus, n, 5.0, start=T0 + seed % 600)
    lost = T0 + seed % 600 + 5.0 * n * rng.uniform(0.2, 2.0, n_gpus)
    kept = (rng.random(len(gpu)) > 0.03) & ((time < lost[gpu]) | (gpu == 0))
    gpu, time = gpu[kept], time[kept]
    levels = rng.random(n_gpus) ** 2
    values = {
        name: np.floor(column * levels[gpu]) if BY_NAME[name].integral else column * levels[gpu]
        for name, column in random_values(len(gpu), seed, missing).items()
    }
    values["temperature"] = values["temperature"] - 20.0
    first, last = float(time.min()), float(time.max())
    lower, upper = (first + share * (last - first) for share in sorted((begin, end)))
    lower = min(lower, last - 1.0)
    return record(gpu, time, values, n_gpus=n_gpus, sampling_ms=5000.0), lower, max(upper, lower + 1.0)


@settings(max_examples=5)
@given(streams)
def test_no_percentile_of_a_window_is_further_off_than_is_said(record: Record, stream) -> None:  # type: ignore[no-untyped-def]
    reader, lower, upper = recorded(record, stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "SURE", 1e9)
        patch.setattr(sources, "MOST_CUT", 1e9)
        for gpus in (None, ("0",)):
            window = Options(start=lower, end=upper, gpus=gpus)
            raw = analyze.analyze(reader, window)
            rolled = analyze.analyze(reader, Options(start=lower, end=upper, gpus=gpus, exact=False))
            assert raw.exact and not rolled.exact and reader.recounted is None and reader.damage is None
            same_but_for_percentiles(raw, rolled)


@pytest.mark.filterwarnings("error::RuntimeWarning")  # half of the window lacks a metric
@settings(max_examples=3)
@given(streams)
def test_where_bounds_would_be_wide_samples_are_read(record: Record, stream) -> None:  # type: ignore[no-untyped-def]
    reader, lower, upper = recorded(record, stream)
    raw = analyze.analyze(reader, Options(start=lower, end=upper))
    rolled = analyze.analyze(reader, Options(start=lower, end=upper, exact=False))
    same_but_for_percentiles(raw, rolled)
    for own in rolled.metrics.values():
        assert own.p_error is None or own.min is None or own.max is None or aggregate.is_sure(own)


def test_a_long_steady_window_needs_none_of_the_samples_it_cuts(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, time = ticks(2, 3600, 1.0)
    values = random_values(len(gpu), 3, 0.0)
    reader = record(gpu, time, values, sampling_ms=1000.0)
    window = {"start": T0 + 570.0, "end": T0 + 3050.0}
    raw = analyze.analyze(reader, Options(**window))  # type: ignore[arg-type]
    monkeypatch.setattr("gssr.store.read.sketch_bins.uncounted_pieces", lambda *_: iter(()))
    rolled = analyze.analyze(reader, Options(**window, exact=False))  # type: ignore[arg-type]
    same_but_for_percentiles(raw, rolled)
    assert 0 < rolled.metrics["sm_active"].p_error <= 0.1  # type: ignore[operator]
    assert any("of which not all samples were read" in note for note in rolled.notes)


def test_a_series_of_a_cut_window_is_made_of_what_was_counted(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, time = ticks(3, 1800, 1.0)
    values = random_values(len(gpu), 4, 0.1)
    reader = record(gpu, time, values, sampling_ms=1000.0)
    monkeypatch.setattr(gpu_time_counts, "MOST_VECTORS", 1)
    monkeypatch.setattr(analyze, "MOST_ROWS", 1)
    start, end = T0 + 33.0, T0 + 1723.0
    found = analyze.analyze(reader, Options(start=start, end=end, exact=False, series=("sm_active",), bins=72))
    series = found.gpu_series["sm_active"]
    assert series.width == 60 and series.start == T0
    inside = (time >= start) & (time < end) & np.isfinite(values["sm_active"])
    for position in range(3):
        own = inside & (gpu == position)
        bins = ((time[own] - T0) // 60).astype(int)
        means = np.bincount(bins, values["sm_active"][own]) / np.bincount(bins)
        assert series.values[position].tolist() == pytest.approx(means.tolist())


def test_one_gpu_of_many_is_drawn_without_passing_over_all_samples(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, time = ticks(8, 600, 1.0)
    reader = record(gpu, time, random_values(len(gpu), 4, 0.1), sampling_ms=1000.0)
    monkeypatch.setattr(analyze, "EXACT_ROWS", 700)
    options = Options(gpus=("3",), series=("sm_active",), bins=300)
    assert analyze.analyze(reader, options).series["sm_active"].width == 10
    monkeypatch.setattr(sources, "PASSED_OVER", 8)
    assert analyze.analyze(reader, options).series["sm_active"].width == 2
