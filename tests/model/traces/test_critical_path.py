"""The critical path: what is on it, that it adds up, and what shortening something wins."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import CPU, Events, gpu

from gssr.cli import main
from gssr.model.traces.analyze_trace import analyze_timeline, analyze_timelines
from gssr.model.traces.critical_path import CriticalPath
from gssr.model.traces.dependencies import dependencies_of
from gssr.model.traces.launches import links_of
from gssr.model.traces.part import part_of
from gssr.model.traces.tables import rows_of
from gssr.render.roles import text_of
from gssr.report.page import PageOptions
from gssr.report.trace import json_pieces, trace_page
from gssr.traces.timeline import BUSY, Kind, Timeline, Track
from tests.traces.chrome import kernel, read, span, text

BACKWARD = Track("cpu_thread", "autograd", 0, "n1", 100, 101)
Said = dict[tuple[str, str], tuple[int, int | None]]


def path_of(timeline: Timeline, window: tuple[int, int] | None = None) -> CriticalPath:
    found = analyze_timeline(timeline, window).critical_path()
    assert found is not None
    assert sum(part.total_ns for part in found.parts) == found.length_ns == sum(found.by_rank.values())
    return found


def said(path: CriticalPath) -> Said:
    """Time on the path and what shortening wins, by kind and name."""
    return {(part.kind, part.name): (part.total_ns, part.win_ns) for part in path.parts}


def test_a_queue_of_kernels_hides_its_launches() -> None:
    events = Events().launched("a", 0, 10, 100, took=5).launched("b", 6, 112, 50, took=5)
    events.add(Kind.RUNTIME, "cudaDeviceSynchronize", 20, 150)
    assert said(path_of(events.timeline())) == {
        ("compute", "a"): (100, 100),
        ("compute", "b"): (50, 50),
        ("launch", "from launch to start"): (10, None),
        ("gap", "between work on a GPU"): (2, None),
        ("host", "cudaDeviceSynchronize"): (8, 8),
    }


def test_a_host_that_is_late_is_on_the_path_and_the_kernels_are_not() -> None:
    events = Events().add(Kind.CPU_OP, "aten::mm", 0, 90)
    for at in (10, 60):
        events.launched("gemm", at, at + 5, 20, took=5)
    assert said(path_of(events.timeline())) == {
        ("host", "aten::mm"): (80, 40),  # without it both kernels would run, and end at 5 + 20 + 5 + 20
        ("host", "cudaLaunchKernel"): (10, 10),
    }


def test_what_is_beside_the_path_bounds_what_is_won() -> None:
    """Two streams: the longer kernel is on the path, but without it the other one is."""
    events = (
        Events().launched("long", 0, 10, 100, gpu(stream=7), took=2).launched("short", 3, 10, 80, gpu(stream=9), took=2)
    )
    events.add(Kind.RUNTIME, "cudaDeviceSynchronize", 6, 110)
    found = said(path_of(events.timeline()))
    assert found["compute", "long"] == (100, 20)


def test_a_stream_waits_for_the_event_of_another() -> None:
    events = Events().launched("gemm", 0, 10, 100, gpu(stream=7), took=2)
    events.add(Kind.RUNTIME, "cudaStreamWaitEvent", 4, 1)
    events.launched("ncclDevKernel_AllReduce", 6, 113, 40, gpu(stream=20), took=2)
    found = said(path_of(events.timeline()))
    assert found["compute", "gemm"][0] == 100 and found["gap", "between work on a GPU"][0] == 3
    without = replace(events.timeline(), names=tuple(n.replace("WaitEvent", "Query") for n in events.timeline().names))
    assert ("compute", "gemm") not in said(path_of(without))  # then nothing says that it waited


def test_the_forward_thread_hands_over_to_the_backward_thread() -> None:
    events = Events()
    events.add(Kind.CPU_OP, "forward", 0, 100, CPU).launched("f", 50, 60, 10, thread=CPU, took=5)
    events.add(Kind.CPU_OP, "backward", 110, 200, BACKWARD).launched("b", 150, 160, 10, thread=BACKWARD, took=5)
    events.add(Kind.CPU_OP, "optimizer", 315, 50, CPU).launched("o", 330, 340, 100, thread=CPU, took=5)
    found = said(path_of(events.timeline()))
    assert found["host", "backward"] == (195, 195) and found["compute", "o"] == (100, 440 - 365)
    assert found["host", ""] == (15, None)  # 100 to 110 and 310 to 315


def test_a_stream_sync_waits_for_its_own_stream() -> None:
    """As torch.profiler lists it beside the call, on the stream that was waited for."""
    events = (
        Events()
        .launched("mine", 0, 10, 100, gpu(stream=7), took=2)
        .launched("other", 3, 10, 105, gpu(stream=9), took=2)
    )
    events.add(Kind.RUNTIME, "cudaStreamSynchronize", 6, 114, link=77)
    assert ("compute", "other") in said(path_of(events.timeline()))
    events.add(Kind.GPU_SYNC, "Stream Sync", 8, 110, gpu(stream=7)._replace(kind="host_wait"), link=77)
    assert said(path_of(events.timeline()))["compute", "mine"][0] == 100


def collective(rank: int, at: int, end: int, work: int) -> Timeline:
    events, thread, stream = Events(), CPU._replace(rank=rank), gpu(rank)
    events.launched("gemm", 0, 10, work, stream, thread, took=2)
    events.launched("ncclDevKernel_AllReduce", 3, at, end - at, stream, thread, took=2)
    timeline = events.timeline(unix_ns=10**18)
    return replace(timeline, sources=(timeline.sources[0]._replace(rank=rank, path=f"rank{rank}.json"),))


def test_the_last_rank_to_come_to_a_collective_holds_up_the_others() -> None:
    run = [collective(0, 30, 250, 20), collective(1, 210, 250, 200)]
    trace = analyze_timelines(run)
    path = trace.critical_path()
    assert path is not None
    assert said(path) == {
        ("compute", "gemm"): (200, 200 - 20 + 20),
        ("communication", "ncclDevKernel_AllReduce"): (40, 40),
        ("launch", "from launch to start"): (10, None),
    }
    assert path.by_rank == {0: 40, 1: 210} or path.by_rank == {1: 250}
    page = " ".join(map(text_of, trace_page(trace, PageOptions(200))))
    assert "250 ns, each moment of it waited for the one before" in page and "gemm 200 ns" in page
    alone = analyze_timelines(run[:1]).critical_path()
    assert alone is not None and said(alone)["communication", "ncclDevKernel_AllReduce"][0] == 220
    apart = [replace(each, clock=each.clock._replace(unix_ns=None)) for each in run]
    assert analyze_timelines(apart).critical_path() is None


def test_the_table_is_made_where_it_is_asked_for() -> None:
    timeline = Events().launched("gemm", 0, 10, 100, took=2).timeline()
    assert not analyze_timeline(timeline, tables=["kernels"]).dependencies
    names, rows = rows_of("critical_path", analyze_timeline(timeline, tables=["critical_path"]))
    assert names == ["kind", "name", "count", "total_ns", "share", "win_ns"]
    assert next(iter(rows)) == ("compute", "gemm", 1, 100, 100 / 110, 100)
    found = json.loads("".join(json_pieces(analyze_timeline(timeline))))
    assert found["critical_path"][0]["win_ns"] == 100


def test_the_page_of_a_small_file_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "trace.json")
    events = [span("cudaLaunchKernel", 0, 5, "cuda_runtime", correlation=1), kernel("gemm", 10, 100, correlation=1)]
    Path(path).write_text(text(events))
    assert main(["analyze", path]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "gemm 100 µs (100 µs)" in page and "computation 90.9 %, delays before work on a GPU 9.1 %" in page
    monkeypatch.setattr("gssr.model.traces.analyze_trace.MOST_FOR_PATH", 1)
    assert main(["analyze", path]) == 0
    assert "critical path" not in capsys.readouterr().out
    assert main(["analyze", "--csv", "critical_path", path]) == 0
    assert "compute,gemm,1,100000," in capsys.readouterr().out


work = st.tuples(
    st.integers(0, 300), st.integers(0, 60), st.sampled_from("abc"), st.integers(0, 2), st.integers(1, 50),
    st.booleans(), st.sampled_from(["cudaDeviceSynchronize", "cudaStreamWaitEvent", "aten::mm", None]),
)  # fmt: skip


@given(st.lists(work, min_size=1, max_size=14), st.booleans())
def test_of_any_trace_the_path_adds_up_and_wins_no_more_than_is_on_it(found: list[Any], cut: bool) -> None:
    events = Events()
    for start, length, name, stream, ahead, backward, beside in found:
        thread = BACKWARD if backward else CPU
        events.launched(name, start - ahead, start, length, gpu(stream=stream), thread, took=ahead // 2)
        if beside:
            kind = Kind.CPU_OP if beside == "aten::mm" else Kind.RUNTIME
            events.add(kind, beside, start, length, thread)
    timeline = events.timeline()
    path = path_of(timeline, (50, 200) if cut else None) if not cut or _works(timeline, 50, 200) else None
    for part in path.parts if path else ():
        assert part.total_ns >= 0 and (part.win_ns is None or 0 <= part.win_ns <= part.total_ns)


def _works(timeline: Timeline, begin: int, end: int) -> bool:
    part = part_of(timeline, (begin, end))
    graph = dependencies_of(part, links_of(part, part.rows(*BUSY)))
    return bool((graph.kind == 2).any())


def _page_of_path(tmp_path: Path, events: list[Any]) -> str:
    found = analyze_timeline(read(tmp_path, events))
    return "\n".join(text_of(row) for row in trace_page(found, PageOptions(80, False))).split("critical path")[1]


def test_time_of_a_step_in_which_nothing_else_was_open_is_between_calls(tmp_path: Path) -> None:
    events = [span("ProfilerStep#5", 0, 100, "user_annotation"), span("load", 0, 20, "cpu_op")]
    events += [span("cudaLaunchKernel", 60, 5, "cuda_runtime", correlation=1), kernel("a", 66, 30, correlation=1)]
    page = " ".join(_page_of_path(tmp_path, events).split())
    assert "between calls in ProfilerStep 4" in page and "load 20 µs" in page
    assert "between calls in load" not in page


def test_without_launches_the_page_says_that_it_can_not_be_told(tmp_path: Path) -> None:
    kernels = [kernel("gemm", 1000 * at, 10) for at in range(5)]
    page = _page_of_path(tmp_path, kernels)
    assert "that can't be told: the trace does not say what launched the GPUs' work" in page
    assert "delays" not in page and "(" not in page  # no gain
    one = [span("cudaLaunchKernel", 0, 5, "cuda_runtime", correlation=1), kernel("a", 12, 5, correlation=1)]
    assert "work stands still on its stream" in " ".join(_page_of_path(tmp_path, kernels + one).split())
    launched = [
        event
        for at in range(5)
        for event in (
            span("cudaLaunchKernel", 1000 * at, 5, "cuda_runtime", correlation=at + 1),
            kernel("gemm", 1000 * at + 7, 10, correlation=at + 1),
        )
    ]
    assert "can't be told" not in _page_of_path(tmp_path, launched)


def test_a_path_that_breaks_off_before_most_of_the_work_has_no_gains(capsys: pytest.CaptureFixture[str]) -> None:
    """Unified memory's copies have no launch: back from the last of them the path reaches 60 µs of 44 ms."""
    samples = Path(__file__).parents[2] / "traces" / "samples"
    assert main(["analyze", str(samples / "straggler-2025.6.sqlite")]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "that can't be told: it breaks off at work of which the trace does not tell what it waited for" in page
    assert "how much earlier it would end" not in page
