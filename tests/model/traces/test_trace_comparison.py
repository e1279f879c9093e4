"""Two traces compared: kernels paired by their names, and where both count as begun."""

import json
from dataclasses import replace

import pytest
from timelines import Events

from gssr.model.compare.traces import Calls, calls, names
from gssr.model.live.alignment import origins
from gssr.model.live.watched_trace import WatchedTrace
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.render.roles import text_of
from gssr.report.page import PageOptions
from gssr.report.trace_comparison import to_json, trace_comparison_page
from gssr.traces.timeline import Kind, Timeline
from gssr.tui.view import View


def kernels(*found: tuple[str, int]) -> Timeline:
    events, at = Events(), 0
    for name, length in found:
        events.launched(name, at, at + 10, length, took=5)
        at += length + 20
    return events.timeline()


PAIRS = [
    ("ampere_sgemm_128x64_tn", "ampere_sgemm_64x64_sliced1x4_tn", None),
    ("ampere_sgemm_128x64_tn", "ampere_sgemm_64x32_tn", "ampere_sgemm_*_tn"),
    ("cutlass_80_s1688gemm_256x64_16x4_tn", "cutlass_80_s1688gemm_128x128_32x3_tn", "cutlass_80_s1688gemm_*_*_tn"),
    ("sm90_gemm_bf16bf16_tilesize128x128x64", "sm90_gemm_f16f16_tilesize64x64x64", None),
    ("triton_poi_fused_add_12", "triton_poi_fused_add_3", "triton_poi_fused_add_*"),
    ("triton_red_fused__0d1d2de", "triton_red_fused__0d1d2d3", "triton_red_fused__*"),
    ("fused_9af31bc0d4", "fused_00c1bb12f7", "fused_*"),
    ("gemm_nn", "gemm_tn", None),
]


@pytest.mark.parametrize("one, other, pair", PAIRS)
def test_kernels_are_paired_without_tiles_and_hashes(one: str, other: str, pair: str | None) -> None:
    found = names(calls(analyze_timeline(kernels((one, 100)))), calls(analyze_timeline(kernels((other, 70)))))
    own = [(each.name, each.a, each.b) for each in found if each.table == "kernels"]
    if pair is None:
        assert sorted(own) == sorted([(one, Calls(1, 100), Calls()), (other, Calls(), Calls(1, 70))])
    else:
        assert own == [(pair, Calls(1, 100), Calls(1, 70))]


def test_names_that_both_have_are_not_paired_with_others() -> None:
    a = analyze_timeline(kernels(("gemm_128x64", 100), ("gemm_64x64", 50), ("gemm_32x32", 10)))
    b = analyze_timeline(kernels(("gemm_128x64", 90), ("gemm_16x16", 70)))
    own = sorted(each for each in names(calls(a), calls(b)) if each.table == "kernels")
    assert [(each.name, each.names_a, each.names_b) for each in own] == [
        ("gemm_*", ("gemm_64x64", "gemm_32x32"), ("gemm_16x16",)), ("gemm_128x64", (), ()),
    ]  # fmt: skip
    assert sum(each.a.total_ns for each in own) == 160 and sum(each.b.total_ns for each in own) == 160
    page = " ".join(map(text_of, trace_comparison_page("ab", [a, b], PageOptions(100))))
    assert "gemm_* " in page
    (comparison,) = json.loads(to_json("ab", [a, b]))["comparisons"]
    (paired,) = (each for each in comparison["names"] if each["name"] == "gemm_*")
    assert paired["names_a"] == ["gemm_64x64", "gemm_32x32"] and paired["b"]["total_ns"] == 70


def test_traces_without_steps_are_aligned_at_their_first_kernel() -> None:
    frames = []
    for at in (10_000, 70_000):
        timeline = (
            Events().add(Kind.CPU_OP, "import", 0, 5_000).launched("gemm", at - 100, at, 20_000, took=50).timeline()
        )
        query = replace(View(screen="compare").query(120), activity=True)
        frames.append(WatchedTrace("t", lambda timeline=timeline: timeline).look(query))  # type: ignore[misc]
    one, other = frames
    assert one is not None and other is not None
    assert [time for time, _ in origins(one, other, "activity")] == [10_000 / 1e9, 70_000 / 1e9]
