"""Floating-point operations by the shapes of operators, against products counted one by one."""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from gssr.model.traces.analyze_trace import analyze_timeline, analyze_timelines
from gssr.model.traces.flops import _of_shape
from gssr.model.traces.part import part_of
from gssr.model.traces.tables import rows_of
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.render.roles import text_of
from gssr.report.page import PageOptions
from gssr.report.trace import trace_page
from gssr.traces import event_columns, json_events
from gssr.traces.join import join
from gssr.traces.kineto import read_kineto
from gssr.traces.timeline import Shape, Timeline
from tests.traces.chrome import kernel, span, text

HALF = "c10::BFloat16"
FLASH = "aten::_scaled_dot_product_flash_attention"


def flops(operator: str, *dims: Any, values: Any = ()) -> float | None:
    return _of_shape(Shape(operator, json.dumps(dims), json.dumps([HALF] * len(dims)), json.dumps(values)))[1]


def test_a_product_of_matrices_has_a_multiplication_and_an_addition_for_each_term() -> None:
    assert flops("aten::mm", [3, 4], [4, 5]) == sum(2 for _ in product(range(3), range(5), range(4)))
    assert flops("aten::addmm", [5], [3, 4], [4, 5], [], []) == 2 * 3 * 4 * 5
    assert flops("aten::bmm", [7, 3, 4], [7, 4, 5]) == 7 * flops("aten::mm", [3, 4], [4, 5])  # type: ignore[operator]
    assert flops("aten::baddbmm", [7, 3, 5], [7, 3, 4], [7, 4, 5]) == 7 * 2 * 60


def terms(size: int, kernel_size: int, stride: int, padding: int, dilation: int) -> int:
    """Positions that the kernel takes along one dimension."""
    reach = dilation * (kernel_size - 1)
    return sum(at + reach < size + padding for at in range(-padding, size + padding, stride))


@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 1), (3, 2, 2, 2)])
def test_a_convolution_has_a_product_for_each_value_of_its_result(
    stride: int, padding: int, dilation: int, groups: int
) -> None:
    weights = [6, 4 // groups, 3, 5]
    values = ["", "", "", *(f"[{n}, {n}]" for n in (stride, padding, dilation)), "False", "[0, 0]", str(groups)]
    height, width = terms(17, 3, stride, padding, dilation), terms(23, 5, stride, padding, dilation)
    forward = 2 * 2 * 6 * height * width * (4 // groups) * 3 * 5
    assert flops("aten::convolution", [2, 4, 17, 23], weights, [6], [], [], [], [], [], [], values=values) == forward
    of_gradient = [2, 6, height, width], [2, 4, 17, 23], weights
    backward = [*values[:3], "[6]", *values[3:], "[True, True, False]"]
    assert flops("aten::convolution_backward", *of_gradient, values=backward) == 2 * forward
    assert flops("aten::convolution_backward", *of_gradient, values=[*backward[:-1], "[False, True, True]"]) == forward


def test_a_transposed_convolution_has_a_product_for_each_value_of_its_input() -> None:
    values = ["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"]
    assert flops("aten::convolution", [2, 4, 7, 9], [4, 6, 3, 5], values=values) == 2 * (2 * 4 * 7 * 9) * 6 * 3 * 5


def test_attention_has_two_products_and_its_backward_pass_five() -> None:
    query, key, value = [2, 3, 10, 16], [2, 3, 20, 16], [2, 3, 20, 8]
    scores, result = 2 * 6 * 10 * 20 * 16, 2 * 6 * 10 * 20 * 8
    assert flops(FLASH, query, key, value, [], [], []) == scores + result
    assert flops(FLASH + "_backward", [2, 3, 10, 8], query, key, value) == 3 * scores + 2 * result


@pytest.mark.parametrize("shape", [
    ("aten::mm", "[[3, 4], [5, 6]]"), ("aten::mm", "[]"), ("aten::mm", "[[1e9, 1], [1, 2]]"), ("aten::mm", '["x", "y"]'),
    ("aten::mm", "[[1000000000, 1000000000], [1000000000, 1000000000]]"), ("aten::mm", "{}"), ("aten::mm", "null"),
    ("aten::convolution", "[[2, 4, 17, 23], [6, 4, 3, 5]]"), ("aten::mm", "[" * 100_000 + "]" * 100_000),
    (FLASH, "[[2, 3, 10, 0], [2, 3, 10, 0], [2, 3, 10, 0]]"),
])  # fmt: skip
def test_what_a_shape_does_not_tell_is_unknown(shape: tuple[str, str]) -> None:
    assert _of_shape(Shape(*shape, "", ""))[1] is None


def shaped(at: int, link: int, m: int, dtype: str = HALF, took: int = 40, **args: Any) -> list[dict[str, Any]]:
    """A product of matrices, its launch and its kernel."""
    told = {"Input Dims": [[m, 1024], [1024, 1024]], "Input type": [dtype, dtype], "Concrete Inputs": ["", ""]}
    return [
        span("aten::mm", at, 30, **(told | args)),
        span("cudaLaunchKernel", at + 5, 5, "cuda_runtime", correlation=link),
        kernel("gemm", at + 50, took, correlation=link),
    ]


def of(path: Path, events: list[dict[str, Any]], model: str = "NVIDIA H100 80GB HBM3", **keys: Any) -> Timeline:
    steps = [span(f"ProfilerStep#{at}", at * 1000, 900, "user_annotation") for at in range(2)]
    path.write_text(text([*steps, *events], deviceProperties=[{"id": 0, "name": model}], **keys))
    return read_kineto(str(path))


def page(trace: TraceAnalysis) -> str:
    return " ".join(" ".join(map(text_of, trace_page(trace, PageOptions(200)))).split())


ONE = 2 * 1024**2
"""Floating-point operations of a row of ``shaped``."""


def test_operators_and_steps_say_what_share_of_the_peak_they_are(tmp_path: Path) -> None:
    events = [*shaped(10, 1, 512), *shaped(200, 2, 256), *shaped(1100, 3, 512, "float")]
    events += [span("aten::mm", 1400, 30, **{"Input Dims": [[9, 9], [9, 9]]})]  # launched nothing: on the CPU
    trace = analyze_timeline(of(tmp_path / "trace.json", events))
    peak = 989.4e12
    _, found = rows_of("flops", trace)
    assert list(found) == [
        (
            "aten::mm",
            HALF,
            2,
            768 * ONE,
            80_000,
            768 * ONE * 1e9 / 80_000,
            "H100 SXM5",
            peak,
            768 * ONE * 1e9 / 80_000 / peak,
        ),
        (
            "aten::mm",
            "float",
            1,
            512 * ONE,
            40_000,
            512 * ONE * 1e9 / 40_000,
            "H100 SXM5",
            peak,
            512 * ONE * 1e9 / 40_000 / peak,
        ),
    ]
    assert [step.flops for step in trace.steps] == [768 * ONE, 512 * ONE]
    assert trace.steps[0].mfu == pytest.approx(768 * ONE / 900e-6 / peak)
    assert (
        "TFLOP/s matrix products whose shapes are known (100.0 % of the kernel time): 22.4, 2.3 % of H100 SXM5's peak "
        "(dense BF16) while they run" in page(trace)
    )


def test_of_an_unknown_model_the_rate_is_known_and_the_share_is_not(tmp_path: Path) -> None:
    trace = analyze_timeline(of(tmp_path / "trace.json", shaped(10, 1, 512), "Mystery"))
    assert trace.flops[0].flops_per_s is not None and trace.flops[0].mfu is None and trace.steps[0].mfu is None
    assert "TFLOP/s matrix products whose shapes are known (100.0 % of the kernel time): 26.8 while they run" in page(
        trace
    )


def test_kernels_that_no_matrix_product_of_known_shape_launched_are_left_out_of_the_share(tmp_path: Path) -> None:
    """The product takes 40 µs, a kernel of an operator of one's own 120 µs."""
    events = [*shaped(10, 1, 512), kernel("fused_moe", 500, 120, correlation=9)]
    found = page(analyze_timeline(of(tmp_path / "trace.json", events, "Mystery")))
    assert "matrix products whose shapes are known (25.0 % of the kernel time): " in found


def test_without_shapes_a_sentence_says_how_to_record_them(tmp_path: Path) -> None:
    events = [
        {**event, "args": {k: v for k, v in event["args"].items() if k[:5] != "Input"}} for event in shaped(10, 1, 5)
    ]
    trace = analyze_timeline(of(tmp_path / "trace.json", events))
    assert trace.flops == () and trace.steps[0].flops is None
    assert "TFLOP/s unknown: no shapes were recorded: record_shapes=True of torch.profiler records them" in page(trace)
    odd = analyze_timeline(of(tmp_path / "odd.json", shaped(10, 1, 5, **{"Input Dims": [[7]]}) + shaped(300, 2, 5)))
    assert {each.flops for each in odd.flops} == {5 * ONE, None} and odd.steps[0].flops is None
    assert "TFLOP/s matrix products whose shapes are known (1 of 2, " in page(odd)


def test_shapes_are_the_same_however_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [event for at in range(40) for event in shaped(at * 100, at + 1, 1 + at % 7)]
    path = tmp_path / "trace.json"
    once = of(path, events)
    expected = analyze_timeline(once).flops
    assert expected[0].flops == ONE * sum(1 + at % 7 for at in range(40))
    monkeypatch.setattr(event_columns.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(json_events, "_WORTH_TWO", 1 << 10)
    monkeypatch.setattr(json_events, "PIECE", 1 << 12)
    assert analyze_timeline(read_kineto(str(path))).flops == expected

    monkeypatch.setitem(sys.modules, "msgspec", None)
    json_events._by_msgspec.cache_clear()
    assert analyze_timeline(read_kineto(str(path))).flops == expected


def test_of_several_files_calls_are_added_up(tmp_path: Path) -> None:
    ranks = [
        of(tmp_path / f"{rank}.json", shaped(10, 1, 512 + rank), distributedInfo={"rank": rank},
           baseTimeNanoseconds=10**18)
        for rank in range(2)
    ]  # fmt: skip
    (both,) = analyze_timelines(ranks).flops
    assert (both.n, both.flops, both.gpu_ns) == (2, (512 + 513) * ONE, 80_000)
    joined = join(ranks)
    assert analyze_timeline(joined).flops == (both,) and len(part_of(joined).timeline.shapes) == 2
