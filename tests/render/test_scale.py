"""Numbers and time as text: fixed decimals, units people know, axes that don't follow the data."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.metrics import BY_NAME
from gssr.render.clock import axis_text, duration, moment, time_ticks
from gssr.render.csv_cells import cell
from gssr.render.scale import (
    count,
    energy,
    fixed,
    metric_of,
    nice_above,
    number,
    percent,
    quantity,
    scale_text,
    signed,
    unit_of,
)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sm_active", 0.6094, "60.9 %"),
        ("nvlink_tx_bytes", 84.126e9, "84.13 GB/s"),
        ("memory_used", 61.25 * 2**30, "61.2 GiB"),
        ("power_usage", 412.04, "412.0 W"),
        ("temperature", 61.0, "61.0 °C"),
        ("sm_clock", 1754.6, "1755 MHz"),
        ("sm_active", None, "unknown"),
        ("sm_active", math.nan, "unknown"),
    ],
)
def test_values_read_in_their_unit_with_fixed_decimals(name: str, value: float | None, text: str) -> None:
    assert quantity(value, BY_NAME[name]) == text
    assert number(value, BY_NAME[name]) == ("-" if text == "unknown" else text.split()[0])


def test_every_metric_with_an_axis_has_a_unit() -> None:
    for metric in BY_NAME.values():
        assert metric.kind == "bits" or unit_of(metric).name


def test_a_column_of_a_later_version_can_be_written() -> None:
    assert quantity(1.5, metric_of("of_tomorrow")) == "1.500"


def test_nothing_reads_minus_zero() -> None:
    assert fixed(-0.0, 1) == fixed(-0.04, 1) == "0.0"
    assert percent(-1e-9) == "0.0 %"
    assert signed(-0.04, 1) == "+0.0" and signed(-0.06, 1) == "-0.1" and signed(None, 1) == "-"
    assert str(cell(-0.0)) == "0.0"


def test_energy_takes_the_unit_that_fits() -> None:
    assert energy(512.0) == "512.0 J"
    assert energy(3_000.0) == "3.00 kJ"
    assert energy(1_240_000.0) == "1.24 MJ (0.34 kWh)"
    assert energy(0.0) == "0.0 J"
    assert energy(None) == "unknown"


def test_counts_agree_with_their_noun() -> None:
    assert [count(n, "GPU") for n in (0, 1, 1024)] == ["0 GPUs", "1 GPU", "1,024 GPUs"]


@given(st.floats(1e-3, 1e12))
def test_an_axis_without_a_known_limit_is_round_and_holds_the_value(value: float) -> None:
    metric = BY_NAME["power_usage"]
    full = nice_above(value, metric)
    assert value <= full * (1 + 1e-9) <= value * 10 * (1 + 1e-8)
    assert f"{full:.6e}"[0] in "125"


def test_an_axis_without_anything_known_still_has_a_length() -> None:
    for nothing in (None, 0.0, math.nan):
        assert nice_above(nothing, BY_NAME["power_usage"]) == 1.0


def test_a_full_scale_reads_short() -> None:
    assert scale_text(BY_NAME["sm_active"], 1.0) == "100 %"
    assert scale_text(BY_NAME["memory_used"], 80 * 2**30) == "80 GiB"
    assert scale_text(BY_NAME["memory_used"], 79.65 * 2**30) == "79.7 GiB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (4.21, "4.2 s"),
        (59.97, "1 min 0 s"),
        (300, "5 min 0 s"),
        (4320, "1 h 12 min"),
        (183600, "2 d 3 h"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_unknown_duration_is_unknown() -> None:
    assert duration(None) == duration(math.nan) == "unknown"


def test_moments_fit_the_length_of_the_axis() -> None:
    assert moment(30, 60) == "30 s"
    assert moment(0.5, 2, step=0.5) == "0.5 s"
    assert moment(90, 300) == "1:30"
    assert moment(600, 7200) == "0:10:00"
    assert moment(-90, 300) == "-1:30"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 3e7), st.integers(1, 300))
def test_time_labels_are_few_in_order_and_within(start: float, span: float, width: int) -> None:
    found = time_ticks(start, start + span, width)
    assert found
    assert [tick.at for tick in found] == sorted(tick.at for tick in found)
    assert all(start - 1e-6 * span - 1e-9 <= tick.at <= start + span * (1 + 1e-6) + 1e-9 for tick in found)
    assert len(axis_text(start, start + span, width)) == width


def test_labels_on_an_axis_stay_apart() -> None:
    assert axis_text(0, 300, 69).split() == ["0:00", "1:00", "2:00", "3:00", "4:00", "5:00"]
    assert axis_text(0, 0, 20).strip() == "0 s"
