"""A part of the job and what it is compared with, number beside number: what is compared, and what is large."""

import numpy as np
import pytest

from gssr.metrics import THROTTLES
from gssr.model.compare.contrast import METRICS, Contrast, line, measured

JOB = {"gr_engine_active": 0.9, "sm_active": 0.8, "dram_active": 0.3, **dict.fromkeys(THROTTLES, 0.0)}


def contrast_of(job: dict[str, float], **own: float | None) -> Contrast:
    """The job against what differs from it in these metrics."""
    series = np.zeros(4)
    return Contrast("gpus", np.array([0]), {**job, **own}, job, series, series)


def test_what_neither_side_has_is_not_compared() -> None:
    assert measured(contrast_of({})) == ()
    assert measured(contrast_of({}, sm_active=0.2)) == measured(contrast_of({"sm_active": 0.2})) == ("sm_active",)


def test_differences_are_in_points_of_the_full_scale_and_large_ones_marked() -> None:
    small, large = line("sm_active", 0.78, 0.80, 1.0), line("pcie_rx_bytes", 9.6e9, 3.2e9, 64e9)
    assert small.points == pytest.approx(-0.02) and not small.large
    assert large.points == pytest.approx(0.1) and large.ratio == pytest.approx(3.0) and large.large
    assert line("dram_active", 0.10, 0.14, 1.0).large  # a quarter less
    assert not line("dram_active", 0.010, 0.014, 1.0).large  # of next to nothing
    unknown = line("sm_active", None, 0.8, 1.0)
    assert unknown.points is None and not unknown.large


def test_every_throttle_that_was_set_is_compared() -> None:
    found = contrast_of(JOB, sw_power_cap=0.3)
    assert set(measured(found)) <= {*METRICS, "sw_power_cap"} and "sw_power_cap" in measured(found)
    assert "hw_thermal" not in measured(found)
