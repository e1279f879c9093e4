"""The numbers of an analysis against plain numpy on the same rows, from raw rows and from rollups."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ticks import T0, Record, random_values, ticks

from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS, DERIVED, FLOP_ACTIVE, METRICS
from gssr.model.analyze import Options, analyze
from gssr.model.results import Analysis
from gssr.model.statistics.aggregate import exact_statistics, sketch_percentiles
from gssr.score import saturation_score

PERCENTILES = {"p05": 5, "median": 50, "p95": 95}
shapes = st.tuples(
    st.integers(1, 6), st.integers(1, 130), st.integers(0, 2**31), st.sampled_from([0.0, 0.2, 0.97, 1.0])
)


def close(value: float | None, expected: float) -> bool:
    return value == pytest.approx(expected, rel=1e-9, abs=1e-300)


def columns(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every metric that an analysis has statistics of."""
    flop = sum(values[part] for part in FLOP_ACTIVE.parts)
    return {name: column for name, column in values.items() if BY_NAME[name].kind != "bits"} | {"flop_active": flop}


@settings(max_examples=6)
@given(shapes)
def test_statistics_of_raw_rows_are_numpys(record: Record, shape: tuple[int, int, int, float]) -> None:
    n_gpus, n, seed, missing = shape
    gpu, time = ticks(n_gpus, n)
    values = random_values(len(gpu), seed, missing)
    analysis = analyze(record(gpu, time, values))
    assert analysis.exact and analysis.n_samples == len(gpu)
    assert list(analysis.metrics) == [metric.name for metric in METRICS + DERIVED if metric.kind != "bits"]
    for name, column in columns(values).items():
        known, own = column[np.isfinite(column)], analysis.metrics[name]
        assert own.n == len(known)
        if not own.n:
            assert own == exact_statistics(known) and own.mean is None and own.p_error is None
            continue
        assert close(own.mean, np.mean(known)) and close(own.min, np.min(known)) and close(own.max, np.max(known))
        assert own.std == pytest.approx(np.std(known), rel=1e-9, abs=1e-9 * abs(np.mean(known)))
        assert all(close(getattr(own, key), np.percentile(known, q)) for key, q in PERCENTILES.items())
        assert own.p_error == 0.0
        for position, summary in enumerate(analysis.gpus):
            mine = column[gpu == position]
            mine = mine[np.isfinite(mine)]
            mean = summary.mean[name]
            assert mean is None if not len(mine) else close(mean, np.mean(mine))


@settings(max_examples=5)
@given(shapes, st.sampled_from([0.1, 1.0, 7.0]))
def test_rollups_say_what_raw_rows_say(record: Record, shape: tuple[int, int, int, float], interval: float) -> None:
    n_gpus, n, seed, missing = shape
    gpu, time = ticks(n_gpus, n, interval, start=T0 + seed % 600)
    kept = np.random.default_rng(seed).random(len(gpu)) > 0.05
    gpu, time = gpu[kept], time[kept]
    values = random_values(len(gpu), seed, missing)
    reader = record(gpu, time, values, n_gpus=n_gpus, sampling_ms=1000 * interval)
    raw, rolled = analyze(reader), analyze(reader, Options(exact=False))
    assert raw.exact and not rolled.exact
    same_statistics(raw, rolled)


def same_but_for_percentiles(raw: Analysis, rolled: Analysis) -> None:
    """Whatever is exact is the same, and percentiles are as near as is said."""
    assert (raw.n_samples, raw.n_gaps) == (rolled.n_samples, rolled.n_gaps)
    assert raw.clock_event_reasons == pytest.approx(rolled.clock_event_reasons)
    assert alike([raw.energy_j, raw.score], [rolled.energy_j, rolled.score])
    for name, one in raw.metrics.items():
        other = rolled.metrics[name]
        assert one.n == other.n
        if not one.n or BY_NAME[name].kind == "counter":
            continue
        for key in ("mean", "min", "max", "std"):
            assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-9, abs=1e-15)
        for key in PERCENTILES:
            assert abs(getattr(one, key) - getattr(other, key)) <= other.p_error, (name, key)


def same_statistics(raw: Analysis, rolled: Analysis) -> None:
    """The same, where nothing is cut: for counters and of each GPU, too, and percentiles are near."""
    same_but_for_percentiles(raw, rolled)
    for name, one in raw.metrics.items():
        other = rolled.metrics[name]
        if BY_NAME[name].kind == "counter":
            assert other.min in (None, one.min) and other.max in (None, one.max)
        elif one.n:
            assert other.p_error <= one.max / 128
    for one, other in zip(raw.gpus, rolled.gpus, strict=True):
        assert (one.n_samples, one.n_gaps) == (other.n_samples, other.n_gaps)
        gauges = [name for name in one.mean if BY_NAME[name].kind != "counter"]
        assert alike([one.mean[name] for name in gauges], [other.mean[name] for name in gauges])


def alike(numbers: list[float | None], others: list[float | None]) -> bool:
    pairs = zip(numbers, others, strict=True)
    return all(a is b is None or (None not in (a, b) and a == pytest.approx(b, rel=1e-9)) for a, b in pairs)


streams = st.tuples(
    st.integers(1, 4),
    st.integers(20, 150),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.3, 0.98]),
    st.floats(0, 1),
    st.floats(0, 1),
)


@settings(max_examples=4)
@given(streams)
def test_windows_of_streams_with_lost_gpus_and_holes_say_what_raw_rows_say(
    record: Record, stream: tuple[int, int, int, float, float, float]
) -> None:
    n_gpus, n, seed, missing, begin, end = stream
    rng = np.random.default_rng(seed)
    gpu, time = ticks(n_gpus, n, 5.0, start=T0 + seed % 600)
    lost = T0 + seed % 600 + 5.0 * n * rng.random(n_gpus)
    hole = T0 + seed % 600 + 5.0 * n * rng.random()
    kept = (rng.random(len(gpu)) > 0.03) & ((time < lost[gpu]) | (gpu == 0)) & ~((time > hole) & (time < hole + 60))
    gpu, time = gpu[kept], time[kept]
    if len(time) < 2:
        return
    values = random_values(len(gpu), seed, missing)
    reader = record(gpu, time, values, n_gpus=n_gpus, sampling_ms=5000.0)
    first, last = float(time.min()), float(time.max())
    lower, upper = (first + share * (last - first) for share in sorted((begin, end)))
    for window in ({}, {"start": lower, "end": upper}) if upper - lower > 1.0 else ({},):
        raw, rolled = analyze(reader, Options(**window)), analyze(reader, Options(**window, exact=False))  # type: ignore[arg-type]
        assert raw.exact and not rolled.exact and reader.recounted is None and reader.damage is None
        same_statistics(raw, rolled)


def test_a_window_that_cuts_buckets_counts_every_row_once(record: Record) -> None:
    gpu, time = ticks(3, 1500, 1.0)
    values = random_values(len(gpu), 5, 0.1)
    reader = record(gpu, time, values, sampling_ms=1000.0, started_at=T0, ended_at=T0 + 1500)
    for start, end in (("33.3", "95.7"), ("12", None), (None, "-100.05"), ("601", "1234.5")):
        options = Options(start=start, end=end, gpus=("2", "n0:0"))
        raw, rolled = analyze(reader, options), analyze(reader, replace(options, exact=False))
        inside = (time >= raw.window.start) & (time < raw.window.end) & (gpu != 1)
        assert raw.n_samples == inside.sum() and not raw.window.whole
        assert raw.metrics["sm_active"].mean == pytest.approx(np.nanmean(values["sm_active"][inside]), rel=1e-9)
        same_statistics(raw, rolled)


floats = st.floats(-1e300, 1e300, allow_nan=False)
ratios = st.floats(0, 1)


@settings(max_examples=60)
@given(st.one_of(st.lists(ratios, min_size=1, max_size=60), st.lists(floats, min_size=1, max_size=60)))
@example([5e-324])
def test_percentiles_from_a_histogram_are_within_their_bound(values: list[float]) -> None:
    samples = np.array(values)
    with np.errstate(over="ignore"):
        keys = samples.astype(np.float32).view(np.uint32) >> 16
    counts = np.bincount(keys, minlength=65536)
    found, bound = sketch_percentiles(counts, samples.min(), samples.max())
    with np.errstate(over="ignore", invalid="ignore"):
        errors = [abs(one - np.percentile(samples, q)) for one, q in zip(found, (5, 50, 95), strict=True)]
    rounding = 4 * np.finfo(float).eps * np.abs(samples).max() + np.finfo(float).smallest_subnormal
    assert max(errors) <= bound + rounding
    if samples.min() > 1e-30 and samples.max() < 1e38:
        assert bound <= samples.max() / 255


def test_a_histogram_of_one_value_is_exact() -> None:
    counts = np.zeros(65536, np.int64)
    counts[int(np.float32(0.3).view(np.uint32)) >> 16] = 7
    assert sketch_percentiles(counts, 0.3, 0.3) == ([0.3, 0.3, 0.3], 0.0)


def test_the_score_is_the_formula_on_the_means(record: Record) -> None:
    gpu, time = ticks(2, 50)
    values = random_values(len(gpu), 3, 0.3)
    analysis = analyze(record(gpu, time, values), Options(metrics=("power_usage",)))
    mean = {name: np.nanmean(column) for name, column in values.items()}
    flop = sum(mean[part] for part in FLOP_ACTIVE.parts)
    assert analysis.score == pytest.approx(saturation_score(mean["sm_active"], flop, mean["sm_occupancy"]), rel=1e-9)
    assert list(analysis.metrics) == list(analysis.balance) == list(analysis.gpus[0].mean) == ["power_usage"]
    own = {name: np.nanmean(column[gpu == 1]) for name, column in values.items()}
    flop = sum(own[part] for part in FLOP_ACTIVE.parts)
    assert analysis.gpus[1].score == pytest.approx(
        saturation_score(own["sm_active"], flop, own["sm_occupancy"]), rel=1e-9
    )


def test_the_score_is_unknown_when_one_input_was_never_measured(record: Record) -> None:
    gpu, time = ticks(1, 20)
    values = random_values(len(gpu), 3, 0.0)
    del values["sm_occupancy"]
    analysis = analyze(record(gpu, time, values))
    assert analysis.score is None and analysis.gpus[0].score is None
    assert analysis.metrics["sm_occupancy"].n == 0 and analysis.metrics["sm_occupancy"].mean is None


@pytest.mark.parametrize("exact", [True, False])
def test_energy_is_the_sum_of_each_gpus_positive_differences(record: Record, exact: bool) -> None:
    gpu, time = ticks(2, 200, 1.0)
    counter = np.where(gpu == 0, 1e9 + 300.0 * (time - T0), 500.0 * (time - T0))
    counter[(gpu == 1) & (time > T0 + 100)] -= 500.0 * 101  # the driver was loaded again
    counter[(gpu == 1) & (time == T0 + 50)] = np.nan
    reader = record(gpu, time, {"energy": counter}, sampling_ms=1000.0)
    analysis = analyze(reader, Options(exact=exact))
    assert analysis.energy_j == pytest.approx(300.0 * 199 + 500.0 * 198)
    first = analyze(reader, Options(exact=exact, end=T0 + 1))
    assert first.energy_j is None and first.metrics["energy"].n == 2
    early = analyze(reader, Options(exact=exact, end=T0 + 40)).metrics["energy"]
    assert (early.min, early.max) == (0.0, 1e9 + 300.0 * 39)


def test_clock_event_reasons_are_shares_of_samples_that_have_them(record: Record) -> None:
    gpu, time = ticks(1, 8)
    bits = np.array([0x004, 0x004, 0x044, 0, 0, 0, np.nan, np.nan])
    flags = analyze(record(gpu, time, {"clock_event_reasons": bits})).clock_event_reasons
    assert list(flags) == [name for _, name, _ in CLOCK_EVENT_REASONS]
    assert flags["sw_power_cap"] == 0.5 and flags["hw_thermal"] == pytest.approx(1 / 6) and flags["idle"] == 0.0


@pytest.mark.parametrize("exact", [True, False])
def test_gaps_are_counted_per_gpu_over_bucket_edges(record: Record, exact: bool) -> None:
    gpu, time = ticks(2, 300)
    late = (gpu == 1) & (time > T0 + 9.65) & (time < T0 + 10.35)  # across the edge of two buckets
    analysis = analyze(record(gpu[~late], time[~late], {"sm_active": np.ones((~late).sum())}), Options(exact=exact))
    assert [summary.n_gaps for summary in analysis.gpus] == [0, 1] and analysis.n_gaps == 1
    assert any("1 gap of more than 2.5 sampling intervals" in note and "0.7 GPU-s" in note for note in analysis.notes)


ROLLED = Options(exact=False)
ROLLED_WINDOWS = (ROLLED, replace(ROLLED, start="123.5", end="1777"), replace(ROLLED, gpus=("1", "4", "2")))


def test_merging_rollups_of_some_gpus_at_a_time_changes_nothing(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, time = ticks(5, 1900, 1.0)
    reader = record(gpu, time, random_values(len(gpu), 3, 0.1), sampling_ms=1000.0)
    wholes = [analyze(reader, options) for options in ROLLED_WINDOWS]
    monkeypatch.setattr("gssr.store.read.whole_run.VECTORS_AT_ONCE", 40)  # no more than one GPU has
    for whole, options in zip(wholes, ROLLED_WINDOWS, strict=True):
        apart = analyze(reader, options)
        assert (whole.metrics, whole.gpus, whole.n_samples) == (apart.metrics, apart.gpus, apart.n_samples)
        assert (whole.clock_event_reasons, whole.energy_j) == (apart.clock_event_reasons, apart.energy_j)


def test_merging_rollups_of_some_time_at_a_time_changes_no_more_than_the_last_digits(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, time = ticks(5, 1900, 1.0)
    time = np.where(time < time.mean(), time, time + 4e6)  # a gap of weeks
    reader = record(gpu, time, random_values(len(gpu), 3, 0.1), sampling_ms=1000.0)
    wholes = [analyze(reader, options) for options in ROLLED_WINDOWS]
    monkeypatch.setattr("gssr.store.read.whole_run.VECTORS_AT_ONCE", 1)
    for whole, options in zip(wholes, ROLLED_WINDOWS, strict=True):
        apart = analyze(reader, options)
        assert whole.n_gaps or options.end  # which leaves the gap out
        same_but_for_the_last_digits(whole, apart)


def same_but_for_the_last_digits(whole: Analysis, apart: Analysis) -> None:
    assert (whole.n_samples, whole.n_gaps) == (apart.n_samples, apart.n_gaps)
    for name, statistics in whole.metrics.items():
        own = apart.metrics[name]
        assert (statistics.n, statistics.min, statistics.max) == (own.n, own.min, own.max)
        if statistics.mean is not None:
            assert statistics.mean == pytest.approx(own.mean, rel=1e-12)
            assert statistics.std == pytest.approx(own.std, rel=1e-9)
    for one, other in zip(whole.gpus, apart.gpus, strict=True):
        assert (one.n_samples, one.n_gaps) == (other.n_samples, other.n_gaps)
        means = [(own, other.mean[name]) for name, own in one.mean.items()]
        assert all(own == pytest.approx(same, rel=1e-12) if own is not None else same is None for own, same in means)
