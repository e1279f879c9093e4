"""Which values are not like the rest, what folding columns of time does, and answers that are computed once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.cached import once
from gssr.model.results import Grid
from gssr.model.statistics.balance import outliers
from gssr.model.statistics.grid import fold

NAN = np.nan


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([0.8, 0.8, 0.8, 0.1], [3]),
        ([0.81, 0.79, 0.80, 0.805, 0.1, 0.795], [4]),
        ([0.02, 0.01, 0.02, 0.9], [3]),  # among idle GPUs the one that works
        ([0.80, 0.80, 0.80, 0.84], []),  # nearer than a twentieth of the scale
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], []),  # spread is no outlier
        ([0.9, 0.1], []),
        ([], []),
        ([NAN, NAN, NAN], []),
        ([NAN, 0.8, 0.8, 0.8, 0.2], [4]),
    ],
)
def test_an_outlier_is_far_from_the_median_by_the_spread_of_the_others(values: list[float], found: list[int]) -> None:
    assert np.flatnonzero(outliers(np.array(values, np.float64), 1.0)).tolist() == found


@given(st.lists(st.floats(0, 1), min_size=3, max_size=40))
def test_fewer_than_half_are_outliers(values: list[float]) -> None:
    assert 2 * outliers(np.array(values), 1.0).sum() <= len(values)


@given(st.integers(1, 200), st.integers(1, 80), st.integers(0, 1000))
def test_folding_fits_and_keeps_the_mean_of_whole_groups(n: int, cells: int, first: int) -> None:
    values = np.linspace(0, 1, n)[None]
    grid = Grid("sm_active", first * 10.0, 10.0, values, 0.0)
    folded = fold(grid, values, cells)
    assert 1 <= folded.n <= cells
    assert folded.start <= grid.start and folded.start + folded.n * folded.width >= grid.end
    assert folded.width == folded.factor * grid.width
    for column in range(folded.n):
        begin = max(round(folded.start / 10.0) + column * folded.factor - first, 0)
        end = min(round(folded.start / 10.0) + (column + 1) * folded.factor - first, n)
        own = values[0, begin:end]
        assert folded.values[0, column] == pytest.approx(own.mean())
        assert (folded.low[0, column], folded.high[0, column]) == (own.min(), own.max())


@given(st.integers(2, 60), st.integers(1, 20), st.integers(1, 5))
def test_a_folded_column_that_is_over_never_changes(n: int, cells: int, later: int) -> None:
    values = np.random.default_rng(n).random((1, n + later))
    before = fold(Grid("m", 0.0, 10.0, values[:, :n], 0.0), values[:, :n], cells)
    after = fold(Grid("m", 0.0, 10.0, values, 0.0), values, cells)
    if before.factor == after.factor:
        whole = n // before.factor
        assert before.values[0, :whole].tolist() == after.values[0, :whole].tolist()


@given(st.integers(1, 60), st.integers(1, 120), st.integers(0, 9), st.booleans())
def test_few_columns_are_drawn_wider_and_tell_the_same_times(n: int, cells: int, free: int, growing: bool) -> None:
    values = np.concatenate((np.linspace(0, 1, n), np.full(free, NAN)))[None]
    grid = Grid("sm_active", 40.0, 2.0, values, 100.0)
    last = 40.0 + 2.0 * n - 0.5
    drawn = fold(grid, values, cells, last, growing)
    assert drawn.n <= cells or cells < 1
    if cells < 2 * n:
        plain = fold(grid, values, cells, None if growing else last)
        assert drawn.times == 1 and drawn.width == plain.width and drawn.n == plain.n
        return
    assert drawn.times == cells // n and drawn.n == n * drawn.times
    assert drawn.width * drawn.times == pytest.approx(2.0)
    for column in range(n):
        at = drawn.column(40.0 + 2.0 * column + 1.0)
        assert at is not None and drawn.values[0, at] == values[0, column]


def test_folding_leaves_missing_missing() -> None:
    values = np.array([[NAN, NAN, 0.4, NAN]])
    assert fold(Grid("m", 0.0, 10.0, values, 0.0), values, 2).values.tolist()[0] == [
        pytest.approx(NAN, nan_ok=True),
        0.4,
    ]


def test_an_answer_is_computed_once_for_each_subject_and_question() -> None:
    asked = []

    @once
    def answer(subject: list[int], factor: int) -> int:
        asked.append(factor)
        return sum(subject) * factor

    one, same = [1, 2], [1, 2]
    assert [answer(one, 2), answer(one, 2), answer(one, 3), answer(same, 2)] == [6, 6, 9, 6]
    assert asked == [2, 3, 2]
