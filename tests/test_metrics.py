"""The catalogue is what recordings, drivers and documents were built on."""

import doctest
import runpy
from pathlib import Path

import pynvml
import pytest

from gssr.backends.base import make_row
from gssr.metrics import (
    DERIVED,
    FIRST_PLACE,
    METRICS,
    NAMES,
    PLACES,
    RATIO,
    SCORE_INPUTS,
    select,
)

DOCS = Path(__file__).parent.parent / "docs"


def test_every_stored_metric_has_one_place_in_a_row_behind_gpu_and_time() -> None:
    row = make_row(3, 5.0, {name: 10.0 * number for number, name in enumerate(NAMES)})
    assert row == (3, 5.0, *(10.0 * number for number in range(len(NAMES))))
    assert [row[PLACES[name]] for name in NAMES] == list(row[FIRST_PLACE:])
    assert make_row(0, 1.0, {}) == (0, 1.0, *[None] * len(NAMES))


def test_a_row_takes_no_value_of_an_unknown_metric() -> None:
    with pytest.raises(KeyError, match="sm_activ"):
        make_row(0, 0.0, {"sm_activ": 1.0})


# DCGM field id: GPM metric id, as a real driver was seen to pair them
SEEN_PAIRS = {
    1001: 1, 1002: 2, 1003: 3, 1004: 5, 1005: 10, 1006: 11, 1007: 12, 1008: 13, 1009: 20, 1010: 21, 1011: 61, 1012: 60,
    1013: 9, 1014: 7, 1015: 6, 1016: 4, 1076: 100, 1078: 101,
}  # fmt: skip


def test_drivers_ids_are_paired_as_the_driver_pairs_them() -> None:
    pairs = {metric.dcgm: metric.gpm for metric in METRICS if metric.gpm is not None}
    assert {field: pairs.get(field) for field in SEEN_PAIRS} == SEEN_PAIRS
    known = {number for name, number in vars(pynvml).items() if name.startswith("NVML_GPM_METRIC_")}
    assert known.issuperset(pairs.values())


@pytest.mark.parametrize("column", ["name", "label", "short", "dcgm", "gpm"])
def test_nothing_is_used_twice(column: str) -> None:
    values = [getattr(metric, column) for metric in METRICS + DERIVED if getattr(metric, column) is not None]
    assert len(values) == len(set(values))


def test_factors_turn_the_drivers_units_into_ours() -> None:
    for metric in METRICS:
        if metric.gpm is not None:
            assert metric.gpm_factor == (2**20 if metric.unit == "B/s" else 0.01)
    for metric in METRICS:
        percent = metric.unit == RATIO and metric.dcgm is not None and metric.dcgm < 1000
        expected = 0.01 if percent else {"J": 0.001, "B": 2**20}.get(metric.unit, 1)  # percent, mJ, MiB
        assert metric.dcgm_factor == expected, metric.name


def test_parts_of_a_derived_metric_are_stored() -> None:
    for metric in DERIVED:
        assert metric.derived
        assert set(metric.parts) <= set(NAMES)
    assert set(SCORE_INPUTS) <= set(NAMES)
    assert not any(metric.derived for metric in METRICS)


def test_select_keeps_the_catalogues_order_and_each_once() -> None:
    assert [metric.name for metric in select(" flop_active,sm_active, sm_active,dram_active")] == [
        "sm_active",
        "dram_active",
        "flop_active",
    ]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("", "no metric named; known: gpu_utilization, "),
        (" , ", "no metric named; known: gpu_utilization, "),
        ("sm_activ", "unknown metric 'sm_activ'; did you mean sm_active? Known: gpu_utilization, "),
        ("sm_active,xyz", "unknown metric 'xyz'; known: gpu_utilization, "),
    ],
)
def test_select_says_what_is_known(names: str, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        select(names)
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_the_page_is_the_catalogue() -> None:
    page = runpy.run_path(str(DOCS / "make_metrics.py"))["page"]()
    assert (DOCS / "metrics.md").read_text() == page, "run docs/make_metrics.py"


def test_the_pages_examples_are_true() -> None:
    failed, tried = doctest.testfile(str(DOCS / "metrics.md"), module_relative=False)
    assert (failed, tried > 0) == (0, True)
