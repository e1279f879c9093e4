"""Statistics from chunks of raw rows are those of all rows at once; those from rollups agree within their bounds."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_statistics import same_statistics
from ticks import T0, Record, random_values, ticks

from gssr.backends.synthetic.bulk import generate
from gssr.metrics import NAMES
from gssr.model import analyze as analyze_module
from gssr.model.analyze import Options, analyze
from gssr.model.statistics import exact
from gssr.model.statistics.exact import Bracket, ExactSource, brackets_around
from gssr.model.statistics.sources import RollupSource, RowSource
from gssr.store.read import samples
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import Window


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[None]:
    """Some pages at once, brackets that can't hold all that falls into them, and samples that tell little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "_PAGES", 12)
        patch.setattr(samples, "_ROWS", 100)
        patch.setattr(exact, "_EVERY", 3)
        patch.setattr(exact, "_MOST_VECTORS", 10)
        patch.setattr(exact, "MOST_KEPT", 64)
        patch.setattr(exact, "_CELLS", 32)
        yield


def aggregates(reader: RunReader, positions: list[int], lower: float | None = None, upper: float | None = None):
    chosen, names, window = np.array(positions), (*NAMES, "flop_active"), Window.between(lower, upper)
    rows = RowSource(reader, chosen, names, window).aggregate(names, window, 0.25)
    chunks = ExactSource(reader, chosen, RollupSource(reader, chosen, 0)).aggregate(names, window, 0.25)
    return rows, chunks


def same(rows, chunks) -> None:  # type: ignore[no-untyped-def]
    for name in ("n_rows", "n_gaps", "first_time", "last_time"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(chunks, name))
    np.testing.assert_allclose(rows.counted_joules, chunks.counted_joules, rtol=1e-12)
    np.testing.assert_array_equal(rows.sums.n, chunks.sums.n)
    np.testing.assert_allclose(rows.sums.total, chunks.sums.total, rtol=1e-12)
    assert rows.sums.names == chunks.sums.names and rows.statistics.keys() == chunks.statistics.keys()
    for name, one in rows.statistics.items():
        other = chunks.statistics[name]
        assert (one.n, one.min, one.max, one.p_error) == (other.n, other.min, other.max, other.p_error)
        assert (one.p05, one.median, one.p95) == (other.p05, other.median, other.p95), name
        if one.n:
            assert one.mean == pytest.approx(other.mean, rel=1e-12, abs=1e-300)
            assert one.std == pytest.approx(other.std, rel=1e-9, abs=1e-12 * abs(one.mean))


@pytest.mark.usefixtures("small_chunks")
@settings(max_examples=3)
@example(8, 72, 1000284248, 0.0, False)  # single values and repeated ones in one bracket, too many to be kept
@given(st.integers(1, 9), st.integers(1, 80), st.integers(0, 2**31), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_chunks_add_up_to_all_rows(record: Record, n_gpus: int, n: int, seed: int, missing: float, ended: bool) -> None:
    gpu, time = ticks(n_gpus, n)
    kept = np.random.default_rng(seed).random(len(gpu)) > 0.05
    gpu, time = gpu[kept], time[kept]
    values = random_values(len(gpu), seed, missing)
    values["temperature"] = np.floor(values["temperature"] / 20)  # ties
    values["energy"] = np.cumsum(values["energy"])
    reader = record(gpu, time, values, n_gpus=n_gpus, state="completed" if ended else "running")
    same(*aggregates(reader, list(range(n_gpus))))
    same(*aggregates(reader, list(range(0, n_gpus, 2)), T0 + n / 40, T0 + n / 13))


@pytest.mark.usefixtures("small_chunks")
def test_a_long_run_says_the_same_exactly_and_by_rollups(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    generate(str(tmp_path / "a.sql"), "train", 4, 0.25, 1.0, 3)
    reader = open_recording(tmp_path / "a.sql").runs[0]
    whole = analyze(reader, Options(exact=True))  # all rows at once
    monkeypatch.setattr(analyze_module, "EXACT_ROWS", 100)
    for window in ((None, None), (reader.first_time + 33.3, reader.first_time + 801.2)):
        found = analyze(reader, Options(exact=True, start=window[0], end=window[1]))
        rolled = analyze(reader, Options(exact=False, start=window[0], end=window[1]))
        assert found.exact and not rolled.exact and all(own.p_error in (0.0, None) for own in found.metrics.values())
        same_statistics(found, rolled)
    found = analyze(reader, Options(exact=True))
    for name, own in whole.metrics.items():
        other = found.metrics[name]
        assert (own.n, own.min, own.max, own.p05, own.median, own.p95) == (
            other.n,
            other.min,
            other.max,
            other.p05,
            other.median,
            other.p95,
        )


numbers = st.one_of(st.floats(-1e30, 1e30), st.integers(-3, 3).map(float), st.floats(0, 1))


@pytest.mark.usefixtures("small_chunks")
@settings(max_examples=50)
@given(
    st.lists(st.lists(numbers, min_size=1, max_size=40), min_size=1, max_size=8),
    st.sampled_from([0.05, 0.5, 0.95]),
    st.one_of(st.none(), st.tuples(numbers, numbers).map(sorted)),
)
def test_a_percentile_is_found_wherever_it_is_looked_for_first(pieces, share, where) -> None:
    bracket = Bracket(share, *(where or ()))
    every = np.concatenate([np.array(piece) for piece in pieces])
    ends = float(every.min()), float(every.max())
    for _ in range(40):
        for piece in pieces:
            values = np.array(piece)
            bracket.add(bracket.pick(values, float(values.min()), float(values.max())))
        found = bracket.find(len(every), *ends)
        if isinstance(found, float):
            break
        bracket = found
    assert found == np.percentile(every, 100 * share)


def test_few_passes_are_enough_for_more_than_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_KEPT", 1000)
    monkeypatch.setattr(exact, "_CELLS", 1 << 14)
    values = np.random.default_rng(1).lognormal(size=100_000)
    (bracket,) = brackets_around(values[:0], 0, (0.5,))
    assert (bracket.low, bracket.high) == (-math.inf, math.inf)
    passes = 0
    while isinstance(bracket, Bracket):
        passes += 1
        for piece in np.array_split(values, 30):
            bracket.add(bracket.pick(piece, float(piece.min()), float(piece.max())))
        bracket = bracket.find(len(values), float(values.min()), float(values.max()))
    assert bracket == np.percentile(values, 50) and passes <= 3


def test_an_evenly_spread_sample_brackets_the_percentiles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_KEPT", 100_000)
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(30):
        values = random.normal(size=50_000)
        for bracket in brackets_around(values[::50], 1000, (0.05, 0.5, 0.95)):
            ends = float(values.min()), float(values.max())
            bracket.add(bracket.pick(values, *ends))
            missed += isinstance(bracket.find(len(values), *ends), Bracket)
            width = 2 * exact._DEVIATIONS * np.sqrt(bracket.share * (1 - bracket.share) / 1000) + 2 / 1000
            inside = np.count_nonzero((values >= bracket.low) & (values <= bracket.high))
            assert inside < 1.5 * width * len(values)
    assert missed == 0
