"""Which values are not like the rest, and answers that are computed once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.frame_cache import once
from gssr.model.statistics.balance import outliers

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


def test_an_answer_is_computed_once_for_each_subject_and_question() -> None:
    asked = []

    @once
    def answer(subject: list[int], factor: int) -> int:
        asked.append(factor)
        return sum(subject) * factor

    one, same = [1, 2], [1, 2]
    assert [answer(one, 2), answer(one, 2), answer(one, 3), answer(same, 2)] == [6, 6, 9, 6]
    assert asked == [2, 3, 2]
