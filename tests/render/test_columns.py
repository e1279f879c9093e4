"""A series in columns: every column is the mean of what it covers, and a gap stays a gap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gssr.render.columns import average_into_columns, steady_steps


def test_equal_bins_and_columns_are_left_alone() -> None:
    values = np.array([0.1, 0.2, np.nan, 0.4])
    np.testing.assert_allclose(average_into_columns(values, 10.0, 2.0, 10.0, 18.0, 4), values)


def test_a_column_is_the_mean_of_its_bins() -> None:
    np.testing.assert_allclose(
        average_into_columns(np.array([0.0, 1.0, 0.5, np.nan]), 0.0, 1.0, 0.0, 4.0, 2), [0.5, 0.5]
    )


def test_bins_weigh_as_much_as_they_overlap() -> None:
    np.testing.assert_allclose(average_into_columns(np.array([0.0, 1.0]), 0.0, 3.0, 0.0, 6.0, 4), [0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(average_into_columns(np.array([0.0, 1.0]), 0.0, 2.0, 1.0, 4.0, 1), [2 / 3])


def test_a_gap_stays_a_gap_and_is_never_zero() -> None:
    found = average_into_columns(np.array([0.5, np.nan, np.nan, 0.5]), 0.0, 1.0, 0.0, 4.0, 8)
    assert np.isnan(found).tolist() == [False, False, True, True, True, True, False, False]


def test_time_outside_the_series_is_missing() -> None:
    assert np.isnan(average_into_columns(np.array([0.5]), 100.0, 1.0, 0.0, 10.0, 5)).all()
    assert average_into_columns(np.empty(0), 0.0, 1.0, 0.0, 1.0, 3).shape == (3,)
    assert np.isnan(average_into_columns(np.array([0.5]), 0.0, 1.0, 0.0, 0.0, 3)).all()


def test_each_row_is_drawn_on_its_own() -> None:
    values = np.array([[0.0, 1.0], [np.nan, 0.25]])
    np.testing.assert_allclose(average_into_columns(values, 0.0, 1.0, 0.0, 2.0, 2), values)


@given(st.lists(st.floats(0, 1) | st.just(np.nan), min_size=1, max_size=50), st.integers(1, 120))
def test_columns_stay_within_the_values(values: list[float], n: int) -> None:
    array = np.array(values)
    found = average_into_columns(array, 5.0, 0.7, 5.0, 5.0 + 0.7 * len(values), n)
    known = found[np.isfinite(found)]
    assert len(found) == n
    if np.isfinite(array).any():
        assert len(known) and np.nanmin(array) - 1e-9 <= known.min() and known.max() <= np.nanmax(array) + 1e-9
    else:
        assert not len(known)


@given(st.lists(st.floats(0, 40) | st.just(np.nan), max_size=60))
def test_steady_steps_are_near_what_they_stand_for_and_missing_ones_the_lowest(levels: list[float]) -> None:
    found = steady_steps(levels)
    assert len(found) == len(levels)
    assert all(
        step == 0 if level != level else abs(step - level) <= 0.8 for step, level in zip(found, levels, strict=True)
    )


def test_steps_hold_still_where_values_waver_about_a_border() -> None:
    assert steady_steps([4.4, 4.6, 4.3, 4.7, 4.5, 5.4, 5.6, 4.9]) == [4, 4, 4, 4, 4, 5, 5, 5]
