"""Imbalance, lowest and highest, and the histogram of GPU means."""

import numpy as np
import pytest

from gssr.metrics import BY_NAME
from gssr.model.results import GpuSummary
from gssr.model.statistics.balance import balance, full_scale, histogram, imbalance


def gpus(metric: str, means: list[float | None], **more: float | None) -> list[GpuSummary]:
    return [
        GpuSummary(i, f"n{i}", i, 0, f"GPU-{i}", "H100", 10, 0, None, {metric: mean}, **more)  # type: ignore[arg-type]
        for i, mean in enumerate(means)
    ]


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0.8, 0.8, 0.8], 0.0),
        ([0.1] * 10, 0.0),
        ([1.0, 0.5], 0.25),
        ([1.7e308, 1.7e308, 0.85e308, 0.85e308], 0.25),
        ([1.7e308, -1.7e308], 0.5),
        ([0.9, 0.9, 0.9, 0.0], 0.25),
        ([0.0, 0.0], None),
        ([], None),
        ([None, 0.4], 0.0),
        ([None], None),
    ],
)
def test_imbalance_is_one_minus_mean_over_max(means: list[float | None], expected: float | None) -> None:
    found = balance("sm_active", gpus("sm_active", means)).imbalance
    assert found is None if expected is None else found == pytest.approx(expected, abs=1e-15)
    assert found is None or found >= 0


def test_one_straggler_among_many_is_named_and_ties_go_to_the_first() -> None:
    result = balance("sm_active", gpus("sm_active", [None, 0.8, 0.8, 0.2, 0.2]))
    assert result.lowest is not None and result.highest is not None
    assert (result.lowest.place, result.highest.place) == ("n3:0", "n1:0")


def test_no_gpu_with_samples_has_no_lowest() -> None:
    result = balance("sm_active", gpus("sm_active", [None, None]))
    assert (result.imbalance, result.lowest, result.highest) == (None, None, None)
    assert imbalance(np.array([-1.0, -2.0])) is None


def test_the_histogram_spans_the_scale_and_keeps_what_lies_beyond() -> None:
    found = histogram(BY_NAME["sm_active"], gpus("sm_active", [0.0, 0.05, 0.3, 0.95, 1.0, 1.2, None]))
    assert found.edges.tolist() == [k / 10 for k in range(11)]
    assert found.counts.tolist() == [2, 0, 0, 1, 0, 0, 0, 0, 0, 3]
    assert found.members[0] == (0, 1) and found.members[3] == (2,) and found.members[9] == (3, 4, 5)


def test_a_scale_that_gpus_name_is_the_highest_of_theirs() -> None:
    some = gpus("power_usage", [350.0], power_limit=500.0) + gpus("power_usage", [350.0], power_limit=700.0)
    assert full_scale(BY_NAME["power_usage"], some) == 700.0
    assert histogram(BY_NAME["power_usage"], some).counts.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0]
    unknown = gpus("power_usage", [350.0, 100.0])
    assert full_scale(BY_NAME["power_usage"], unknown) is None
    assert histogram(BY_NAME["power_usage"], unknown).counts.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert histogram(BY_NAME["power_usage"], []).counts.sum() == 0
