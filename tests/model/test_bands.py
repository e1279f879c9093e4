"""Bands: similar GPUs together, whoever is not like the others by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.findings.similar_gpus import SIMILAR, Bands, bands
from gssr.model.statistics.balance import outliers

NAN = np.nan


def noisy(levels: list[float], n_columns: int = 60) -> np.ndarray:
    """One GPU at each level."""
    rng = np.random.default_rng(0)
    return np.clip(np.array(levels)[:, None] + 0.02 * rng.standard_normal((len(levels), n_columns)), 0, 1)


def grouped(values: np.ndarray, at_most: int = 8, before: Bands | None = None) -> Bands:
    known = np.isfinite(values)
    n = known.sum(axis=1)
    means = np.divide(np.where(known, values, 0).sum(axis=1), n, out=np.full(len(values), NAN), where=n > 0)
    return bands(values, 1.0, outliers(means, 1.0), at_most, before)


def members(found: Bands) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(found.owner == band).tolist()) for band in range(len(found.names))}


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """A few courses, of which each GPU has one, with noise and holes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_gpus, n_columns = draw(st.integers(1, 60)), draw(st.integers(1, 50))
    courses = np.round(rng.random((draw(st.integers(1, 6)), n_columns)), 1)
    values = courses[rng.integers(0, len(courses), n_gpus)]
    values = values + draw(st.sampled_from([0.0, 0.01, 0.2])) * rng.standard_normal(values.shape)
    values[rng.random(values.shape) < draw(st.sampled_from([0.0, 0.1, 0.7]))] = NAN
    return values


@given(arrays(), st.integers(1, 10))
@settings(max_examples=20, deadline=None)
def test_every_gpu_is_in_one_band_and_no_band_is_empty(values: np.ndarray, at_most: int) -> None:
    found = grouped(values, at_most)
    assert 1 <= len(found.names) <= at_most
    assert list(found.names) == sorted(set(found.names))
    assert np.bincount(found.owner, minlength=len(found.names)).min() > 0
    assert len(found.owner) == len(values)


@given(arrays(), st.integers(1, 10), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_gpus_does_not_matter(values: np.ndarray, at_most: int, random: object) -> None:
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    here = members(grouped(values, at_most))
    there = members(grouped(values[order], at_most))
    assert {frozenset(order[gpu] for gpu in band) for band in there} == here


@given(st.integers(3, 200), st.integers(0, 199), st.floats(0.0, 0.35), st.integers(2, 8))
@settings(max_examples=15, deadline=None)
def test_a_straggler_is_alone_in_its_band(n: int, where: int, level: float, at_most: int) -> None:
    levels = [0.7] * n
    levels[where % n] = level
    assert frozenset([where % n]) in members(grouped(noisy(levels), at_most))


def test_one_that_stalls_for_a_while_is_alone_although_its_mean_is_like_the_others() -> None:
    values = noisy([0.8] * 100)
    values[41, 20:26] = 0.0
    values[41, 30:45] = 1.0
    assert frozenset([41]) in members(grouped(values))


def test_equal_courses_are_one_band_however_noisy() -> None:
    assert len(grouped(noisy([0.6] * 500)).names) == 1


def test_courses_with_equal_means_are_kept_apart() -> None:
    values = noisy([0.5] * 40)
    values[:20, :30] += 0.3
    values[:20, 30:] -= 0.3
    assert members(grouped(values)) == {frozenset(range(20)), frozenset(range(20, 40))}


def test_a_gpu_without_samples_is_not_like_an_idle_one() -> None:
    values = noisy([0.0] * 10)
    values[7] = NAN
    assert frozenset([7]) in members(grouped(values))


def test_the_largest_band_is_a_and_outliers_come_last() -> None:
    found = grouped(noisy([0.9] * 30 + [0.7] * 10 + [0.1] * 2))
    sizes = [int((found.owner == band).sum()) for band in range(3)]
    assert (found.names, sizes) == (("A", "B", "C"), [30, 10, 2])


def test_outliers_share_no_band_with_others_when_there_are_too_many_kinds() -> None:
    levels = [0.70 + 0.02 * (i % 3) for i in range(200)]
    levels[:12] = [0.02 * i for i in range(12)]
    found = grouped(noisy(levels), at_most=2)
    assert members(found) == {frozenset(range(12)), frozenset(range(12, 200))}


def test_another_column_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    levels = (0.55 + 0.4 * rng.random(400)).tolist()  # no gaps anywhere: the edges of bands could be elsewhere
    values = noisy(levels, 200)
    found = grouped(values[:, :60])
    for end in range(61, 120):
        later = grouped(values[:, end - 60 : end], before=found)
        assert later is found


def test_bands_keep_their_letters_when_one_leaves() -> None:
    levels = [0.9] * 20 + [0.6] * 30
    found = grouped(noisy(levels))
    assert found.names == ("A", "B")
    levels[40] = 0.05
    later = grouped(noisy(levels), before=found)
    assert later.names == ("A", "B", "C")
    assert (np.delete(later.owner, 40) == np.delete(found.owner, 40)).all()
    assert later.names[later.owner[40]] == "C"
    levels[40] = 0.6
    assert (grouped(noisy(levels), before=later).owner == found.owner).all()


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_nothing_to_group_is_no_error(shape: tuple[int, int]) -> None:
    found = grouped(np.full(shape, NAN))
    assert len(found.owner) == shape[0]


def test_nearer_than_the_threshold_is_together_and_farther_is_apart() -> None:
    def two(distance: float) -> int:
        values = np.repeat([[0.5], [0.5 + distance]], 20, axis=0) * np.ones(30)
        return len(bands(values, 1.0, np.zeros(40, bool), 8).names)

    assert (two(0.8 * SIMILAR), two(1.2 * SIMILAR)) == (1, 2)
