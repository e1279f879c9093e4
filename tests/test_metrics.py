"""The catalogue is what recordings, drivers and documents were built on."""

import doctest
import runpy
from pathlib import Path

import pytest

from gssr import metrics
from gssr.metrics import BY_NAME, CLOCK_EVENT_REASONS, DERIVED, INDEX, METRICS, NAMES, SCORE_INPUTS, select

DOCS = Path(__file__).parent.parent / "docs"

STORED = [
    "gpu_utilization", "memory_copy_utilization", "gr_engine_active", "sm_active", "sm_occupancy",
    "tensor_active", "tensor_hmma_active", "tensor_imma_active", "tensor_dfma_active", "fp64_active",
    "fp32_active", "fp16_active", "integer_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes",
    "nvlink_tx_bytes", "nvlink_rx_bytes", "c2c_tx_bytes", "c2c_rx_bytes", "power_usage", "energy", "temperature",
    "memory_temperature", "sm_clock", "memory_used", "clock_event_reasons",
]  # fmt: skip

# DCGM field id: GPM metric id, as a real driver pairs them
GPM_OF_DCGM = {
    1001: 1, 1002: 2, 1003: 3, 1004: 5, 1005: 10, 1006: 11, 1007: 12, 1008: 13, 1009: 20, 1010: 21, 1011: 61, 1012: 60,
    1013: 9, 1014: 7, 1015: 6, 1016: 4, 1076: 100, 1078: 101,
}  # fmt: skip
DCGM_ONLY = {203, 204, 155, 156, 150, 140, 100, 252, 112}


def test_names_are_the_recordings_columns_in_their_order() -> None:
    assert list(NAMES) == STORED
    assert [INDEX[name] for name in STORED] == list(range(len(STORED)))
    assert list(BY_NAME) == [*STORED, "flop_active"]


def test_drivers_ids_are_paired_as_the_driver_pairs_them() -> None:
    assert {m.dcgm: m.gpm for m in METRICS if m.gpm is not None} == GPM_OF_DCGM
    assert {m.dcgm for m in METRICS if m.gpm is None} == DCGM_ONLY


@pytest.mark.parametrize("column", ["name", "label", "short", "dcgm", "gpm"])
def test_nothing_is_used_twice(column: str) -> None:
    values = [getattr(metric, column) for metric in METRICS + DERIVED if getattr(metric, column) is not None]
    assert len(values) == len(set(values))


def test_factors_turn_the_drivers_units_into_ours() -> None:
    for metric in METRICS:
        if metric.gpm is not None:
            assert metric.gpm_factor == (2**20 if metric.unit == "B/s" else 0.01)
    factors = {metric.name: metric.dcgm_factor for metric in METRICS if metric.dcgm_factor != 1}
    assert factors == {
        "gpu_utilization": 0.01, "memory_copy_utilization": 0.01,  # percent
        "energy": 0.001, "memory_used": 2**20,  # mJ, MiB
    }  # fmt: skip


def test_every_metric_says_what_it_means_and_what_not() -> None:
    for metric in METRICS + DERIVED:
        assert metric.meaning.endswith(".")
        assert metric.pitfalls.endswith(".")
        assert metric.source


def test_parts_of_a_derived_metric_are_stored() -> None:
    for metric in DERIVED:
        assert metric.derived
        assert set(metric.parts) <= set(NAMES)
    assert set(SCORE_INPUTS) <= set(NAMES)
    assert not any(metric.derived for metric in METRICS)


def test_flags_are_single_bits_in_order() -> None:
    assert [bit for bit, _, _ in CLOCK_EVENT_REASONS] == [1 << shift for shift in range(len(CLOCK_EVENT_REASONS))]


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
        ("sm_activ", "unknown metric 'sm_activ'; did you mean sm_active"),
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


def test_the_package_offers_the_catalogue() -> None:
    import gssr

    assert gssr.METRICS is metrics.METRICS
