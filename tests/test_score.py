"""The score is the published formula, and unknown is not a number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.metrics import SCORE_INPUTS
from gssr.score import ALPHA, BETA, GAMMA, LAMBDA, saturation_score, score_of_means

ratios = st.floats(0, 1)


@pytest.mark.parametrize(
    ("sm_active", "flop_active", "sm_occupancy", "expected"),
    [
        (1.0, 1.0, 1.0, 0.913253),
        (0.5, 0.1, 0.3, 0.247374),
        (0.8, 0.4, 0.5, 0.553889),
        (0.9, 0.02, 0.6, 0.477966),
        (0.0, 0.5, 0.5, 0.0),
    ],
)
def test_published_values(sm_active: float, flop_active: float, sm_occupancy: float, expected: float) -> None:
    assert saturation_score(sm_active, flop_active, sm_occupancy) == pytest.approx(expected, abs=1e-6)


@given(ratios, st.floats(0, 4), ratios)
def test_it_is_the_formula_as_published(a: float, f: float, o: float) -> None:
    def sigma(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    published = 4 * (sigma(ALPHA * a) - 0.5) * (sigma(BETA * f + GAMMA * o * math.exp(-LAMBDA * f)) - 0.5)
    assert saturation_score(a, f, o) == pytest.approx(published, abs=1e-12)


@given(ratios, st.floats(0, 4), ratios)
def test_it_lies_between_0_and_1(a: float, f: float, o: float) -> None:
    assert 0 <= saturation_score(a, f, o) <= 1


@given(ratios, ratios, st.floats(0, 4), ratios)
def test_more_sm_activity_is_never_worse(a: float, b: float, f: float, o: float) -> None:
    assert saturation_score(min(a, b), f, o) <= saturation_score(max(a, b), f, o)


@given(ratios, st.floats(0, 4), ratios, ratios)
def test_more_occupancy_is_never_worse(a: float, f: float, o: float, p: float) -> None:
    assert saturation_score(a, f, min(o, p)) <= saturation_score(a, f, max(o, p))


@given(ratios, st.floats(0, 4), st.floats(0, 4))
def test_more_arithmetic_is_never_worse_at_no_occupancy(a: float, f: float, g: float) -> None:
    assert saturation_score(a, min(f, g), 0) <= saturation_score(a, max(f, g), 0)


MEANS = dict.fromkeys(SCORE_INPUTS, 0.1)


def test_arithmetic_is_the_sum_of_its_four_means() -> None:
    assert score_of_means(MEANS) == pytest.approx(saturation_score(0.1, 0.4, 0.1))
    assert score_of_means(MEANS | {"dram_active": None}) == score_of_means(MEANS)


@pytest.mark.parametrize("name", SCORE_INPUTS)
def test_a_missing_input_makes_it_unknown(name: str) -> None:
    assert score_of_means(MEANS | {name: None}) is None
    assert score_of_means(MEANS | {name: math.nan}) is None
    assert score_of_means(MEANS | {name: -1e30}) is None
    assert score_of_means({key: value for key, value in MEANS.items() if key != name}) is None


def test_zero_is_known() -> None:
    assert score_of_means(dict.fromkeys(SCORE_INPUTS, 0.0)) == 0
