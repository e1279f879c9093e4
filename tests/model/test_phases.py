"""Phases: a partition of the window, found where levels were planted, and steady against noise."""

from itertools import pairwise

import numpy as np
import pytest
from evidences import START, evidence, scaled
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.evidence.evidence import Evidence
from gssr.model.findings.dips import change_points, find_dips, noise
from gssr.model.findings.phases import MOST, phases
from gssr.model.results import Phase


def _levels(*parts: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full(n, level) for n, level in parts])


def _job(load: np.ndarray, **changes: object) -> Evidence:
    """Eight GPUs that all do ``load`` [seconds] of the usual work."""
    return evidence(8, len(load), **(scaled(load) | {"power_usage": 90 + 510 * load} | changes))  # type: ignore[arg-type]


def _kinds(found: tuple[Phase, ...]) -> list[str]:
    return [phase.kind for phase in found]


def _edges(found: tuple[Phase, ...]) -> list[float]:
    return [phase.start - START for phase in found[1:]]


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 200), st.sampled_from([0.0, 0.02, 0.3, 0.5, 1.0])), min_size=1, max_size=12),
    st.integers(0, 3),
)
def test_phases_part_the_window_without_holes(parts: list[tuple[int, float]], seed: int) -> None:
    load = _levels(*parts)
    load = np.clip(load + 0.1 * np.random.default_rng(seed).standard_normal(len(load)), 0, 1)
    seen = _job(load)
    found = phases(seen)
    assert found[0].start == seen.start and found[-1].end == seen.end
    assert all(before.end == after.start for before, after in pairwise(found))
    assert all(phase.seconds > 0 for phase in found)
    assert sum(phase.share for phase in found) == pytest.approx(1.0)
    assert len(found) <= MOST + 2
    assert found == phases(seen)


def test_a_constant_signal_is_one_phase() -> None:
    for level in (1.0, 0.05):
        assert _kinds(phases(_job(np.full(600, level)))) == ["steady"]
    assert _kinds(phases(_job(np.zeros(600)))) == ["idle"]
    for n in (1, 2, 7):
        assert _kinds(phases(_job(np.full(n, 1.0)))) == ["steady"]


def test_short_dips_at_any_time_come_back_and_cut_nothing() -> None:
    load = np.ones(900)
    for start in (40, 90, 310, 500, 790):
        load[start : start + 20] = 0.0
    (found,) = phases(_job(load))
    assert found.kind == "recurring" and found.cycle is not None
    assert (found.cycle.count, found.cycle.period) == (5, None)


def test_planted_boundaries_are_found_within_two_bins() -> None:
    found = phases(_job(_levels((60, 0.0), (240, 1.0), (50, 0.0), (150, 0.6), (80, 0.0))))
    assert _kinds(found) == ["start-up", "steady", "idle", "steady", "tail"]
    assert np.abs(np.array(_edges(found)) - [60, 300, 350, 500]).max() <= 2
    assert [phase.score is None for phase in found] == [False] * 5
    assert found[1].score > found[3].score > found[2].score  # type: ignore[operator]


def test_a_change_in_one_metric_alone_is_a_change() -> None:
    tensor = 0.48 * _levels((300, 1.0), (300, 0.1))
    found = phases(evidence(8, 600, tensor_active=tensor))
    assert _kinds(found) == ["steady", "steady"] and abs(_edges(found)[0] - 300) <= 2


def test_noise_below_the_least_change_keeps_the_boundaries() -> None:
    load = _levels((60, 0.0), (240, 1.0), (200, 0.6), (60, 0.0))
    calm = _edges(phases(_job(load)))
    for seed in range(8):
        wobble = 0.05 * np.random.default_rng(seed).standard_normal(len(load))
        noisy = _edges(phases(_job(np.clip(load + wobble, 0, 1))))
        assert len(noisy) == len(calm) and np.abs(np.array(noisy) - calm).max() <= 2, seed


def test_slow_drift_is_no_stair_of_phases() -> None:
    assert len(phases(_job(np.linspace(1.0, 0.8, 900)))) <= 2


@pytest.mark.parametrize(("period", "dip"), [(90, 9), (30, 3), (12, 3), (6, 1)])
def test_dips_that_come_back_are_one_phase_with_their_period(period: int, dip: int) -> None:
    second = np.arange(720)
    found = phases(_job(np.where(second % period < dip, 0.1, 1.0)))
    assert _kinds(found).count("recurring") == 1 and len(found) <= 2
    cycle = next(phase.cycle for phase in found if phase.cycle)
    assert cycle.period == pytest.approx(period, rel=0.05)
    assert abs(cycle.count - 720 / period) <= 1.5
    assert cycle.seconds == pytest.approx(dip, abs=1.0)
    assert cycle.low < 0.3 < 0.7 < cycle.high


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_dips_are_as_long_and_as_deep_as_they_were_however_wide_the_bins_of_the_search(offset: int) -> None:
    """720 and 1,100 bins are searched in bins twice and three times as wide."""
    for n in (720, 1100):
        for period, dip in ((10, 1), (20, 3), (30, 4), (41, 5)):
            at = np.arange(n)
            found = phases(_job(np.where((at + offset) % period < dip, 0.1, 1.0)))
            cycle = next(phase.cycle for phase in found if phase.cycle)
            assert cycle.seconds == pytest.approx(dip, abs=0.1), (n, period)
            assert cycle.low == pytest.approx(0.08, abs=0.02), (n, period)


def test_a_period_of_few_dips_is_their_mean_distance() -> None:
    load = np.ones(1200)
    for start in (200, 500, 860):
        load[start : start + 50] = 0.0
    found = phases(_job(load))
    assert _kinds(found) == ["recurring"]
    assert found[0].cycle is not None and found[0].cycle.period == pytest.approx(330, abs=3)


def test_two_dips_are_no_recurrence() -> None:
    load = np.ones(600)
    load[100:130] = load[400:430] = 0.0
    assert _kinds(phases(_job(load))) == ["steady", "idle", "steady", "idle", "steady"]


def test_noise_alone_has_no_period() -> None:
    for seed in range(30):
        values = np.clip(0.5 + 0.25 * np.random.default_rng(seed).standard_normal(500), 0, 1)
        assert not find_dips(values).any(), seed


def test_missing_is_no_change() -> None:
    load = np.ones(600)
    load[200:260] = np.nan
    found = phases(_job(load))
    assert _kinds(found) == ["steady"]
    assert phases(_job(np.full(100, np.nan))) == ()


def test_what_was_not_measured_is_unknown() -> None:
    found = phases(evidence(4, 300, without=("fp64_active", "sm_occupancy", "dram_active")))
    assert [phase.score for phase in found] == [None] and found[0].means.get("dram_active") is None
    assert found[0].means["sm_active"] == pytest.approx(0.82, abs=0.01)


def test_the_phase_that_is_all_has_the_means_of_all() -> None:
    seen = _job(np.ones(300))
    (only,) = phases(seen)
    assert only.means == {name: seen.mean(name) for name in seen.series}


@settings(max_examples=12, deadline=None)
@given(st.integers(3, 120), st.integers(1, 3), st.integers(0, 1000))
def test_change_points_cost_no_more_than_any_single_cut(n: int, m: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.standard_normal((m, n)) + np.where(np.arange(n) < n // 2, 0.0, random.uniform(0, 8))
    found = change_points(values, np.ones(m))
    assert (np.diff([0, *found, n]) > 0).all()

    def cost(edges: list[int]) -> float:
        parts = (values[:, a:b] for a, b in pairwise([0, *edges, n]))
        own = sum(float(((part - part.mean(axis=1, keepdims=True)) ** 2).sum()) for part in parts)
        return own + 3 * (m + 1) * np.log(n) * len(edges)

    best = min([cost([])] + [cost([cut]) for cut in range(1, n)])
    assert cost(found.tolist()) <= best + 1e-6


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 120), st.integers(0, 1000))
def test_bins_without_values_change_no_segment(n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    full = random.standard_normal((2, n)) + np.where(np.arange(n) < n // 2, 0.0, 8.0)
    some = np.sort(random.choice(4 * n, n, replace=False))
    values = np.full((2, 4 * n), np.nan)
    values[:, some] = full
    found = change_points(values, np.ones(2))
    assert np.isin(found - 1, some).all()  # what is empty belongs to the later one
    assert len(found) == 1 if n > 30 else len(found) <= 1
    assert change_points(np.full((2, 9), np.nan), np.ones(2)).tolist() == []


def test_noise_is_measured_beside_changes_of_level() -> None:
    random = np.random.default_rng(0)
    values = 0.1 * random.standard_normal((1, 4000)) + np.repeat(random.uniform(0, 5, 10), 400)
    assert noise(values, np.zeros(1))[0] == pytest.approx(0.1, rel=0.1)
    assert noise(np.ones((1, 9)), np.array([0.03])).tolist() == [0.03]
