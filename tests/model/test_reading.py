"""What a contrast reads as follows from the numbers, and from none that is missing."""

from dataclasses import replace

import numpy as np
import pytest

from gssr.metrics import BY_NAME, THROTTLES
from gssr.model.compare.contrast import METRICS, Contrast, line, measured
from gssr.model.compare.contrast_rules import RULES, reading
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.site import load

JOB = {
    "gr_engine_active": 0.9, "sm_active": 0.8, "sm_occupancy": 0.3, "tensor_active": 0.1, "flop_active": 0.5,
    "fp64_active": 0.0, "fp32_active": 0.1, "dram_active": 0.3, "pcie_rx_bytes": 0.5e9, "pcie_tx_bytes": 0.5e9,
    "nvlink_rx_bytes": 50e9, "c2c_rx_bytes": 0.2e9, "sm_clock": 1980.0, **dict.fromkeys(THROTTLES, 0.0),
}  # fmt: skip


def contrast_of(late: float | None = None, job: dict[str, float] = JOB, **own: float | None) -> Contrast:
    """The job against what differs from it in these metrics."""
    series = np.zeros(4)
    start = None if late is None else 100.0 * late
    return Contrast("gpus", np.array([0]), {**job, **own}, job, series, series, start, 0.0, 100.0)


@pytest.mark.parametrize(
    ("own", "code"),
    [
        ({}, None),
        ({"sm_active": 0.0, "gr_engine_active": 0.0}, "unused"),
        ({"sm_active": 0.6, "hw_thermal": 1.0, "sm_clock": 1140.0}, "hw_thermal"),
        ({"sm_clock": 1200.0}, "clock"),
        ({"sm_active": 0.2, "pcie_rx_bytes": 8e9}, "host_receive"),
        ({"sm_active": 0.2, "pcie_tx_bytes": 8e9}, "host_send"),
        ({"sm_active": 0.2, "c2c_rx_bytes": 8e9}, "c2c"),
        ({"sm_active": 0.5, "nvlink_rx_bytes": 90e9}, "exchange"),
        ({"sm_active": 0.5, "dram_active": 0.6}, "more_memory"),
        ({"flop_active": 0.1}, "spinning"),
        ({"sm_active": 0.6, "dram_active": 0.2}, "less_work"),
        ({"sm_active": 0.6}, "less"),
        ({"sm_active": 0.95}, "more"),
    ],
)
def test_a_difference_reads_as_its_cause(own, code):
    found = reading(contrast_of(**own)).differs
    assert (found.code if found else None) == code


def test_a_late_start_reads_as_one():
    found = reading(contrast_of(late=0.2, sm_active=0.65)).differs
    assert found is not None and found.code == "late"
    assert reading(contrast_of(late=0.0, sm_active=0.79)).differs is None


@pytest.mark.parametrize("missing", sorted(JOB))
def test_what_was_not_measured_supports_no_rule(missing):
    """With a metric unknown on both sides no rule that looks at it applies."""
    known = {name: value for name, value in JOB.items() if name != missing}
    for own in ({"sm_active": 0.2, "pcie_rx_bytes": 8e9}, {"hw_thermal": 1.0}, {"sm_active": 0.5, "dram_active": 0.6}):
        own = {name: value for name, value in own.items() if name != missing}
        for rule in reading(contrast_of(job=known, **own)):
            assert rule is None or missing not in {condition.metric for condition in rule.conditions}


def test_nothing_known_reads_as_nothing():
    found = contrast_of(job={})
    assert reading(found) == (None, None) and measured(found) == ()


def test_rules_name_metrics_of_the_catalogue_once_each_and_their_source():
    codes = [rule.code for rule in RULES]
    assert len(codes) == len(set(codes)) and all(rule.source for rule in RULES)
    for rule in RULES:
        for condition in rule.conditions:
            assert condition.metric in BY_NAME or condition.metric in (*THROTTLES, "late"), rule.code


def test_differences_are_in_points_of_the_full_scale_and_large_ones_marked():
    small, large = line("sm_active", 0.78, 0.80, 1.0), line("pcie_rx_bytes", 9.6e9, 3.2e9, 64e9)
    assert small.points == pytest.approx(-0.02) and not small.large
    assert large.points == pytest.approx(0.1) and large.ratio == pytest.approx(3.0) and large.large
    assert line("dram_active", 0.10, 0.14, 1.0).large  # a quarter less
    assert not line("dram_active", 0.010, 0.014, 1.0).large  # of next to nothing
    unknown = line("sm_active", None, 0.8, 1.0)
    assert unknown.points is None and not unknown.large


def test_every_throttle_that_was_set_is_compared():
    found = contrast_of(sw_power_cap=0.3)
    assert set(measured(found)) <= {*METRICS, "sw_power_cap"} and "sw_power_cap" in measured(found)
    assert "hw_thermal" not in measured(replace(found))


def test_a_sites_numbers_are_read_by_as_well(tmp_path):
    """Where a verdict looks at the same, one file changes both."""
    path = tmp_path / "site.toml"
    found = contrast_of(sm_active=0.2, pcie_rx_bytes=8e9)
    assert reading(found).differs.code == "host_receive"
    path.write_text("[transfer_bound]\nrate = 9e9\n")
    assert reading(found, load(str(path))).differs.code != "host_receive"
    path.write_text("[transfer_bound]\nrate = 7e9\n")
    read = reading(found, load(str(path))).differs
    assert read.code == "host_receive" and str(path) in read.source
    assert str(path) not in reading(found).differs.source


def test_what_a_site_has_turned_off_is_not_read(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[throttled_thermal]\nenabled = false\n")
    found = contrast_of(sm_active=0.6, dram_active=0.2, hw_thermal=1.0)
    assert [reading(found, table).differs.code for table in (TABLE, load(str(path)))] == ["hw_thermal", "less_work"]


def test_any_verdict_can_be_turned_off_and_readings_go_on():
    for off in TABLE.rules:
        table = TABLE._replace(rules=tuple(rule for rule in TABLE.rules if rule != off))
        assert reading(contrast_of(sm_active=0.6), table).differs.code == "less"


def test_readings_name_verdicts_that_there_are():
    assert {rule.verdict for rule in RULES} - {""} <= {rule.code for rule in TABLE.rules}
