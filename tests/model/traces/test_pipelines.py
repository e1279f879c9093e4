"""Stages of pipelines, their bubbles, and who waits for whom, of schedules whose bubble is known."""

from pathlib import Path
from typing import Any

import pytest

from gssr.model.traces.analyze_trace import analyze_timelines
from gssr.model.traces.flops import flops_by_call
from gssr.model.traces.launches import NONE_LINKED
from gssr.model.traces.part import part_of
from gssr.model.traces.pipelines import Stage, TransferWait, stages, transfer_waits
from gssr.model.traces.tables import rows_of
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.render.roles import text_of
from gssr.report.page import PageOptions
from gssr.report.trace import trace_page
from gssr.traces import event_columns, json_events
from gssr.traces.kineto import read_kineto
from gssr.traces.timeline import Timeline
from tests.traces.chrome import kernel, span, text

UNIT = 100


def gpipe(n_stages: int, micro_batches: int, steps: int = 1) -> list[list[dict[str, Any]]]:
    """GPipe's schedule: all forward passes, then all backward passes; each takes a UNIT of µs, a transfer none of it: the
    kernel that receives starts as soon as its GPU is free, and ends when the one that sends starts, 1 µs long."""
    ranks: list[list[dict[str, Any]]] = [[] for _ in range(n_stages)]
    width = 2 * (n_stages + micro_batches - 1) * UNIT
    for step in range(steps):
        zero = step * width
        for stage, events in enumerate(ranks):
            events.append(span(f"ProfilerStep#{step}", zero, width, "user_annotation"))
            free = zero
            for turn in range(2 * micro_batches):
                backward = turn >= micro_batches
                place = n_stages - 1 - stage if backward else stage
                begin = zero + (place + turn + (n_stages - 1 if backward else 0)) * UNIT
                above, below = (stage + 1, stage - 1) if backward else (stage - 1, stage + 1)
                if 0 <= above < n_stages and begin > free:
                    events.append(
                        kernel("ncclDevKernel_SendRecv", free, begin - free, stream=20, **{"Src Rank": above})
                    )
                elif 0 <= above < n_stages:
                    events.append(kernel("ncclDevKernel_SendRecv", begin, 1, stream=20, **{"Src Rank": str(above)}))
                events.append(kernel("gemm", begin, UNIT))
                free = begin + UNIT
                if 0 <= below < n_stages:
                    events.append(kernel("ncclDevKernel_SendRecv", free, 1, stream=21, **{"Dst Rank": below}))
    return ranks


def run(folder: Path, ranks: list[list[dict[str, Any]]]) -> list[Timeline]:
    found = []
    for rank, events in enumerate(ranks):
        path = folder / f"rank{rank}.json"
        path.write_text(text(events, distributedInfo={"rank": rank}, baseTimeNanoseconds=10**18))
        found.append(read_kineto(str(path)))
    return found


@pytest.mark.parametrize("n_stages, micro_batches, steps", [(2, 1, 1), (3, 4, 2), (4, 8, 1)])
def test_the_bubble_of_gpipe_is_the_ideal_one(tmp_path: Path, n_stages: int, micro_batches: int, steps: int) -> None:
    trace = analyze_timelines(run(tmp_path, gpipe(n_stages, micro_batches, steps)))
    ideal = (n_stages - 1) / (micro_batches + n_stages - 1)
    found = stages(trace)
    assert [(each.stage, each.rank, each.n_stages, each.micro_batches, each.ideal) for each in found] == [
        (at, at, n_stages, micro_batches, ideal) for at in range(n_stages)
    ]
    for each in found:
        assert each.share == pytest.approx(ideal, abs=2e-3 * n_stages)
    _, rows = rows_of("stages", trace)
    assert [Stage(*row) for row in rows] == list(found)


def page(trace: TraceAnalysis) -> str:
    return " ".join(" ".join(map(text_of, trace_page(trace, PageOptions(120)))).split())


def test_who_waits_for_whom_is_told_by_both_ends(tmp_path: Path) -> None:
    """Rank 1 waits 300 µs for what rank 0 sends; rank 0 then 40 µs until rank 1 receives."""
    first = [
        kernel("gemm", 0, 400), kernel("ncclDevKernel_SendRecv", 400, 10, stream=20, **{"Dst Rank": 1}),
        kernel("ncclDevKernel_SendRecv", 500, 50, stream=20, **{"Dst Rank": 1}),
    ]  # fmt: skip
    second = [
        kernel("ncclDevKernel_SendRecv", 100, 310, stream=20, **{"Src Rank": 0}), kernel("gemm", 410, 100),
        kernel("ncclDevKernel_SendRecv", 540, 10, stream=20, **{"Src Rank": 0}),
    ]  # fmt: skip
    files = run(tmp_path, [first, second])
    trace = analyze_timelines(files)
    assert transfer_waits(trace) == (TransferWait(1, 0, 2, 300_000), TransferWait(0, 1, 2, 40_000))
    assert [(each.rank, each.stage, each.micro_batches) for each in stages(trace)] == [(0, 0, None), (1, 1, None)]
    assert "1 of 2 rank:1 " in page(trace) and "300 µs rank 0" in page(trace)
    alone = analyze_timelines(files[:1])
    assert stages(alone) == () and transfer_waits(alone) == () and "Pipelines" not in page(alone)
    part = part_of(files[0])
    assert not len(flops_by_call(part, NONE_LINKED).rows)  # no operators


def test_the_critical_path_goes_from_the_receiver_to_the_sender(tmp_path: Path) -> None:
    first = [kernel("gemm", 0, 400), kernel("ncclDevKernel_SendRecv", 400, 10, **{"Dst Rank": 1})]
    second = [kernel("ncclDevKernel_SendRecv", 100, 310, **{"Src Rank": 0}), kernel("softmax", 410, 100)]
    path = analyze_timelines(run(tmp_path, [first, second])).critical_path()
    assert path is not None and path.by_rank == {0: 400_000, 1: 110_000}
    assert {part.name: (part.total_ns, part.win_ns) for part in path.parts} == {
        "gemm": (400_000, 300_000),  # then the receiver would be the last to start
        "softmax": (100_000, 100_000),
        "ncclDevKernel_SendRecv": (10_000, 10_000),
    }


def test_rings_and_kernels_without_ranks_are_no_pipelines(tmp_path: Path) -> None:
    ring = [[kernel("ncclDevKernel_SendRecv", 10 * at, 9, **{"Dst Rank": (rank + at) % 3}) for at in (1, 2)]
            for rank in range(3)]  # fmt: skip
    assert stages(analyze_timelines(run(tmp_path, ring))) == ()
    unknown = [kernel("ncclDevKernel_SendRecv", 0, 9), kernel("ncclDevKernel_SendRecv", 10, 9, **{"Src Rank": "x"})]
    unknown += [kernel("ncclDevKernel_SendRecv", 20, 9, **{"Src Rank": 1, "Dst Rank": 0})]
    assert analyze_timelines(run(tmp_path, [unknown])).transfers == ()


def test_ranks_are_the_same_however_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = gpipe(3, 8)
    expected = stages(analyze_timelines(run(tmp_path, ranks)))
    monkeypatch.setattr(event_columns.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(json_events, "_WORTH_TWO", 1 << 10)
    monkeypatch.setattr(json_events, "PIECE", 1 << 12)
    assert stages(analyze_timelines(run(tmp_path, ranks))) == expected
