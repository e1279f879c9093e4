"""The place under the roofline follows from activities and peaks, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.results import Place
from gssr.model.statistics.roofline import place_under_roofline, roofs
from gssr.peaks import PEAKS, peaks_of

H100 = peaks_of("NVIDIA H100 80GB HBM3")
NOTHING: dict[str, float | None] = {
    "fp64_active": 0.0, "fp32_active": 0.0, "fp16_active": 0.0, "tensor_active": 0.0, "dram_active": 0.0,
    "tensor_dfma_active": 0.0,
}  # fmt: skip


def _place(**means: float | None) -> Place:
    found = place_under_roofline(NOTHING | means, H100)
    assert isinstance(found, Place)
    return found


def test_one_pipe_is_its_activity_times_its_peak() -> None:
    assert H100 is not None
    found = _place(fp64_active=0.25, dram_active=0.8)
    assert found.flops == pytest.approx(0.25 * H100.fp64) and found.bytes == pytest.approx(0.8 * H100.memory_bandwidth)
    assert found.intensity == pytest.approx(found.flops / found.bytes)
    assert (found.dominant.label, found.bound) == ("FP64", "memory")
    assert found.of_roof == pytest.approx(0.8)


def test_above_the_ridge_the_pipe_bounds() -> None:
    found = _place(tensor_active=0.7, fp32_active=0.1, dram_active=0.2)
    assert (found.dominant.label, found.bound) == ("Tensor", "compute")
    assert found.of_roof == pytest.approx(0.7 + 0.1 * H100.fp32 / H100.tensor)  # type: ignore[union-attr]


def test_far_below_the_roof_nothing_of_it_bounds() -> None:
    assert _place(tensor_active=0.1, dram_active=0.1).bound == "neither"


def test_the_fp64_part_of_the_tensor_pipe_is_held_against_its_own_peak() -> None:
    assert H100 is not None and H100.fp64_tensor is not None
    found = _place(tensor_active=0.5, tensor_dfma_active=0.5, dram_active=0.3)
    assert found.flops == pytest.approx(0.5 * H100.fp64_tensor) and found.dominant.label == "FP64 tensor"


def test_what_is_not_known_has_no_place() -> None:
    for means, peaks, why in (
        (NOTHING | {"fp64_active": 0.3, "dram_active": 0.5}, None, "unknown peaks"),
        (NOTHING | {"dram_active": 0.5}, H100, "no arithmetic"),
        (NOTHING | {"fp64_active": 0.5}, H100, "no traffic"),
        (NOTHING | {"fp64_active": 0.5, "dram_active": None}, H100, "not measured: DRAM active"),
        ({}, H100, "not measured"),
    ):
        found = place_under_roofline(means, peaks)
        assert isinstance(found, str) and found.startswith(why)


def test_a_pipe_without_a_published_peak_is_named() -> None:
    found = place_under_roofline(
        NOTHING | {"fp16_active": 0.4, "tensor_active": 0.2, "dram_active": 0.4}, peaks_of("NVIDIA B200")
    )
    assert isinstance(found, Place) and found.unpriced == ("FP16",)


@given(
    st.sampled_from([peaks for _, peaks in PEAKS]),
    st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4),
    st.floats(0.01, 1.0),
)
def test_a_place_is_what_its_pipes_add_up_to(peaks: object, active: list[float], dram: float) -> None:
    names = ("fp64_active", "fp32_active", "fp16_active", "tensor_active")
    found = place_under_roofline(NOTHING | dict(zip(names, active, strict=True)) | {"dram_active": dram}, peaks)  # type: ignore[arg-type]
    if isinstance(found, Place):
        assert found.of_roof >= 0.99 * dram or found.bound == "compute" or found.of_roof >= found.dominant.active * 0.99
        assert found.roof <= found.dominant.peak * (1 + 1e-9)  # type: ignore[operator]
        assert found.pipes[0] == found.dominant


def test_roofs_go_down() -> None:
    for _, peaks in PEAKS:
        heights = [height for _, height in roofs(peaks)]
        assert heights == sorted(heights, reverse=True) and len(set(heights)) == len(heights)
