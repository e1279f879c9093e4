"""What an analysis says of traces built by hand, and what holds for any."""

import json
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timelines import CPU, Events, gpu

from gssr.model.live.live_result import Query, UnreadableError
from gssr.model.live.watched_trace import WatchedTrace
from gssr.model.traces.analyze_trace import analyze_ranks, analyze_timeline, analyze_timelines, combined
from gssr.model.traces.lengths import statistics
from gssr.model.traces.tables import NSYS, TABLES, as_nsys, launch_numbers, rows_of
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.traces.trace_selection import TraceSelection
from gssr.render.roles import text_of
from gssr.report.page import PageOptions
from gssr.report.trace import json_pieces, trace_page
from gssr.traces.timeline import Counter, Kind, Timeline

US = 1_000


def training() -> Events:
    """Two steps of 400 µs: a copy, two kernels, and a collective half of which is under the second kernel."""
    events = Events()
    for step in range(2):
        at = step * 500 * US
        events.add(Kind.RANGE, f"ProfilerStep#{step + 7}", at, 400 * US)
        events.add(Kind.CPU_OP, "aten::mm", at + 20 * US, 30 * US)
        events.add(Kind.PYTHON, "train.py(12): forward", at + 15 * US, 300 * US)
        events.launched("Memcpy HtoD (Pageable -> Device)", at + 1 * US, at + 10 * US, 40 * US, kind=Kind.MEMCPY,
                        by="cudaMemcpyAsync", size=4_000)  # fmt: skip
        events.launched("gemm", at + 25 * US, at + 60 * US, 100 * US)
        events.launched("gelu", at + 35 * US, at + 170 * US, 100 * US)
        events.launched("ncclDevKernel_AllReduce", at + 45 * US, at + 220 * US, 100 * US, track=gpu(stream=20))
        events.add(Kind.RUNTIME, "cudaDeviceSynchronize", at + 100 * US, 250 * US)
    return events


def test_the_split_adds_up() -> None:
    found = analyze_timeline(training().timeline())
    (use,) = found.gpus
    assert use.n_kernels == 6 and use.span_ns == 810 * US  # from the first copy to the end of the last collective
    assert use.compute_ns == 400 * US and use.communication_ns == 200 * US and use.copy_ns == 80 * US
    assert use.exposed_communication_ns == 100 * US and use.exposed_copy_ns == 80 * US and use.overlap == 0.5
    assert use.compute_ns + use.exposed_communication_ns + use.exposed_copy_ns + use.idle_ns == use.span_ns
    assert use.busy_over_time.mean() == pytest.approx(use.busy_ns / use.span_ns, rel=0.01)


def test_idle_time_has_causes_and_what_the_program_did() -> None:
    found = analyze_timeline(training().timeline())
    assert found.idle == {"host": (1, 181 * US), "launch": (5, 49 * US), "dependency": (0, 0), "copy": (0, 0),
                          "unknown": (0, 0), "outside": (0, 0)}  # fmt: skip
    gap = found.gaps[0]
    assert (gap.start_ns, gap.length_ns, gap.cause, gap.host_ns) == (320 * US, 190 * US, "host", 181 * US)
    assert (gap.before, gap.after) == ("ncclDevKernel_AllReduce", "Memcpy HtoD (Pageable -> Device)")
    first = found.gaps[-1]
    assert first.length_ns == 10 * US and first.python == "train.py(12): forward"
    assert sum(gap.length_ns for gap in found.gaps) == found.gpus[0].idle_ns


@pytest.mark.parametrize(("call", "length", "kind", "causes"), [
    (200 * US, 500 * US, Kind.KERNEL, {"host": 100 * US, "dependency": 400 * US}),
    (500 * US, 500 * US, Kind.MEMCPY, {"host": 400 * US, "copy": 100 * US}),
    (590 * US, 500 * US, Kind.KERNEL, {"host": 490 * US, "launch": 10 * US}),
    (100 * US, 500 * US, Kind.KERNEL, {"dependency": 500 * US}),
    (600 * US, 500 * US, Kind.KERNEL, {"host": 500 * US}),
    (10 * US, 20 * US, Kind.KERNEL, {"launch": 20 * US}),
    (10 * US, 50 * US, Kind.KERNEL, {"dependency": 50 * US}), (10 * US, 50 * US, Kind.MEMCPY, {"copy": 50 * US}),
    (None, 50 * US, Kind.KERNEL, {"unknown": 50 * US}),
])  # fmt: skip
def test_each_cause_has_its_part_of_a_gap(call: int | None, length: int, kind: Kind, causes: dict[str, int]) -> None:
    events = Events().launched("a", 0, 5 * US, 95 * US)
    name = "Memcpy DtoH" if kind == Kind.MEMCPY else "b"
    if call is None:
        events.add(kind, name, 100 * US + length, 10)
    else:
        events.launched(name, call, 100 * US + length, 10, kind=kind)
    found = analyze_timeline(events.timeline())
    assert {each: own for each, own in found.idle.items() if own[0]} == {each: (1, ns) for each, ns in causes.items()}
    (gap,) = found.gaps
    assert gap.length_ns == length and gap.host_ns == causes.get("host", 0)
    assert gap.cause == max(causes, key=lambda each: causes[each])


def in_turn() -> Events:
    """Two stages of a model on two GPUs of one process, of which one works at a time."""
    events = Events()
    for at in range(10):
        events.launched("gemm", at * 1_000 * US, (at * 1_000 + 10) * US, 980 * US, gpu(device=at // 5))
    return events


@pytest.mark.parametrize("files", [1, 2])
def test_gpus_used_one_after_another_are_busy_half_of_the_time(files: int) -> None:
    timelines = [in_turn().timeline()]
    if files == 2:
        timelines = []
        for rank in range(2):
            events = in_turn()
            events.rows = [row for row in events.rows if (row[0] >= 5_000 * US) == bool(rank)]
            timelines.append(events.timeline(unix_ns=10**18))
    found = analyze_timelines(timelines)
    length = 9_990 * US - 10 * US
    assert found.extent == (10 * US, 9_990 * US) and found.span_ns == 2 * length
    assert [each.span_ns for each in found.gpus] == [4_980 * US] * 2  # its own, in its row
    assert sum(each.busy_ns for each in found.gpus) == 9_800 * US and found.idle_ns == 2 * length - 9_800 * US
    assert sum(ns for _, ns in found.idle.values()) == found.idle_ns
    assert found.idle["outside"] == (2, 2 * (length - 4_980 * US))
    page = trace_page(found, PageOptions(80, False, "medium"))
    assert "".join(span.text for span in page[-1]) == (
        "GSSR busy=0.491 compute=0.491 exposed_communication=0.000 gpus=2 kernels=10"
    )
    assert [each.code for each in found.verdicts] == ["gpus_in_turn"]
    first = analyze_timelines(timelines[:1], TraceSelection("0", "5ms"))  # where one of them does nothing
    assert len(first.gpus) == (2 if files == 1 else 1) and first.idle_ns == first.span_ns - 4_900 * US
    alone = analyze_timelines(timelines, TraceSelection(like_hta=True))
    assert alone.span_ns == sum(each.span_ns for each in alone.gpus)


def test_ranges_have_the_time_of_what_was_launched_in_them() -> None:
    found = analyze_timeline(training().timeline())
    table = statistics(found.lengths["ranges"])
    assert table.sums["gpu_ns"].tolist() == [340 * US, 340 * US]
    table = statistics(found.lengths["operators"])
    assert table.keys == (("aten::mm",),) and table.sums["gpu_ns"].tolist() == [600 * US]


def test_launches_steps_and_copies() -> None:
    found = analyze_timeline(training().timeline())
    numbers = launch_numbers(found)
    assert numbers["count"] == 8 and numbers["queue_max"] == 2 and numbers["slow_calls"] == 0
    assert numbers["delay_ns"] == {"mean": (4 + 30 + 130 + 170) * US / 4, "median": 80 * US, "max": 170 * US}
    assert numbers["long_delays"] == 4
    assert [(step.name, step.length_ns, step.busy_ns) for step in found.steps] == [
        ("ProfilerStep#7", 400 * US, 290 * US),
        ("ProfilerStep#8", 400 * US, 290 * US),
    ]
    names, rows = rows_of("copies", found)
    own = dict(zip(names, next(rows), strict=True))
    assert (own["operation"], own["count"], own["bytes"], own["median_ns"]) == ("HtoD", 2, 8_000, 40 * US)


@pytest.mark.parametrize(("sizes", "rate"), [((4_000, 4_000), 1e8), ((4_000, -1), None), ((-1, -1), None)])
def test_copies_of_which_a_size_is_unknown_have_no_rate(sizes: tuple[int, ...], rate: float | None) -> None:
    events = Events()
    for number, size in enumerate(sizes):
        start = number * 100 * US
        events.launched("Memcpy HtoD", start, start + 10 * US, 40 * US, kind=Kind.MEMCPY, size=size)
    names, rows = rows_of("copies", analyze_timeline(events.timeline()))
    found = dict(zip(names, next(rows), strict=True))["bytes_per_s"]
    assert np.isnan(found) if rate is None else found == rate


def test_a_graph_is_one_launch_of_many_kernels() -> None:
    events = Events().add(Kind.RUNTIME, "cudaGraphLaunch", 0, 10 * US, link=5)
    for at in range(3):
        events.add(Kind.KERNEL, "k", (20 + 10 * at) * US, 5 * US, link=5)
    found = analyze_timeline(events.timeline())
    assert found.launches.n == 1 and found.launches.queue_max == 1 and found.launches.short_kernels == 0
    assert launch_numbers(found)["delay_ns"]["max"] == 10 * US
    assert found.idle["launch"] == (2, 10 * US)


def test_a_window_cuts_what_reaches_beyond_it() -> None:
    whole = training().timeline()
    parts = [analyze_timeline(whole, (begin, begin + 100 * US)) for begin in range(0, 1_000 * US, 100 * US)]
    found = analyze_timeline(whole).gpus[0]
    for name in ("busy_ns", "compute_ns", "communication_ns", "copy_ns"):
        assert sum(getattr(gpu, name) for part in parts for gpu in part.gpus) == getattr(found, name)
    total = [sum(statistics(part.lengths["kernels"]).total.sum() for part in parts), sum(found.types[1:])]
    assert total[0] == 6 * 100 * US


def test_tracks_and_names_are_selected() -> None:
    timeline = training().timeline()
    only = analyze_timeline(timeline, names=[timeline.names.index("gemm")])
    assert only.gpus[0].busy_ns == 200 * US and only.launches.n == 2
    streams = [at for at, track in enumerate(timeline.tracks) if track.stream == 20]
    assert analyze_timeline(timeline, tracks=streams).gpus[0].compute_ns == 0


def test_what_rules_say_of_it() -> None:
    found = analyze_timeline(training().timeline(pageable=True))
    codes = [verdict.code for verdict in found.verdicts]
    assert codes == [
        "empty_between_steps",
        "pageable_copies",
        "exposed_communication",
        "blocking_calls",
        "low_utilization",
    ]
    assert "without what waits for it" in found.verdicts[0].evidence[-1].text and found.verdicts[0].advice
    missing = analyze_timeline(training().timeline()).abstentions
    of_calls = dict.fromkeys(
        ("uneven_ranks", "communication_share", "openmp_waits"), "a GPU's work is judged, or no calls are in the trace"
    )
    assert missing == {"straggling_rank": "there is one GPU", "gpus_in_turn": "there is one GPU", **of_calls,
                       "pageable_copies": "the trace does not tell which memory is pageable"}  # fmt: skip


def test_steps_are_the_ranges_that_mark_them_of_all_ranks_from_the_first_begin() -> None:
    parts = []
    for rank, begin in ((0, 30 * US), (1, 0)):
        events = Events().launched("gemm", begin, begin + 500 * US, 100 * US, gpu(rank), CPU._replace(rank=rank))
        for step in range(2):
            start, length = begin + step * 50 * US, (20 + 10 * step + 10 * rank) * US
            events.add(Kind.RANGE, f"ProfilerStep#{step}", start, length, CPU._replace(rank=rank))
        parts.append(analyze_timeline(events.timeline(unix_ns=10**18)))
    rows = [" ".join(text_of(row).split()) for row in trace_page(combined(parts), PageOptions(200, False))]
    at = rows.index("step begins at mean longest on busy %")
    assert rows[at + 1].startswith("ProfilerStep#0 0 ns 25 µs 30 µs rank 1 0.0")
    assert rows[at + 3].startswith(
        "shortest 20 µs, median 30 µs, longest 40 µs: from begin to end of the range that marks"
    )


def test_no_rank_is_named_where_the_steps_of_all_last_alike() -> None:
    parts = []
    for rank in range(2):
        events = Events().launched("gemm", 0, 500 * US, 100 * US, gpu(rank), CPU._replace(rank=rank))
        events.add(Kind.RANGE, "ProfilerStep#0", 0, 30 * US, CPU._replace(rank=rank))
        parts.append(analyze_timeline(events.timeline(unix_ns=10**18)))
    rows = [" ".join(text_of(row).split()) for row in trace_page(combined(parts), PageOptions(200, False))]
    at = rows.index("step begins at mean longest busy %")
    assert "rank" not in rows[at + 1]


def test_a_loader_explains_the_gaps() -> None:
    events = Events()
    for step in range(3):
        at = step * 1_000_000 * US
        events.add(Kind.RANGE, f"ProfilerStep#{step}", at, 900_000 * US)
        events.add(Kind.CPU_OP, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, 600_000 * US)
        events.launched("gemm", at + 600_100 * US, at + 600_200 * US, 250_000 * US)
    found = analyze_timeline(events.timeline())
    won = {
        verdict.code: next(finding.value for finding in verdict.evidence if finding.metric == "won")
        for verdict in found.verdicts
    }
    assert won == pytest.approx({"loader_waits": 2 * 0.6, "empty_between_steps": 2 * 0.1})  # no time is told twice


def ranks(n: int = 3) -> list[Timeline]:
    """Rank 1 computes longer and comes last."""
    found = []
    for rank in range(n):
        late = 200 * US if rank == 1 else 0
        events = Events()
        events.launched("gemm", 0, 10 * US, 300 * US + late, gpu(rank), CPU._replace(rank=rank))
        events.launched("ncclDevKernel_AllReduce", 20 * US, 310 * US + late, 250 * US - late, gpu(rank, stream=20),
                        CPU._replace(rank=rank))  # fmt: skip
        found.append(events.timeline(unix_ns=10**18 + 1_000 * rank))
    return found


@pytest.mark.parametrize(("n", "others"), [(2, "the other rank 250 µs"), (4, "the others 250 µs in the median")])
def test_a_late_rank_is_compared_with_the_others(n: int, others: str) -> None:
    verdicts = combined(analyze_timeline(own) for own in ranks(n)).verdicts
    title = next(verdict.title for verdict in verdicts if verdict.code == "straggling_rank")
    assert title == f"rank:1 is late: it spends 50 µs in communication, {others}"


def test_ranks_are_combined_on_one_clock() -> None:
    found = combined(analyze_timeline(own) for own in ranks())
    assert [gpu.rank for gpu in found.gpus] == [0, 1, 2]
    assert [gpu.begin_ns for gpu in found.gpus] == [10 * US, 11 * US, 12 * US]
    table = statistics(found.lengths["kernels"])
    assert dict(zip(table.keys, table.median.tolist(), strict=True)) == {
        ("gemm", "compute"): 300 * US, ("ncclDevKernel_AllReduce", "communication"): 250 * US}  # fmt: skip
    assert table.count.tolist() == [3, 3]
    straggler = next(verdict for verdict in found.verdicts if verdict.code == "straggling_rank")
    assert straggler.gpus == (1,) and straggler.title.startswith("rank:1 is late: it spends")
    assert found.launches.n == 6 and statistics(found.launches.delay).count.tolist() == [6]
    with pytest.raises(ValueError, match="no trace"):
        combined([])


def test_a_window_is_of_the_same_moments_on_all_ranks() -> None:
    found = analyze_timelines(ranks(), TraceSelection("305us", "405us"))
    assert found.window == (305 * US, 405 * US)
    assert [gpu.begin_ns for gpu in found.gpus] == [305 * US] * 3
    assert [gpu.span_ns for gpu in found.gpus] == [100 * US] * 3
    assert [gpu.compute_ns for gpu in found.gpus] == [5 * US, 100 * US, 7 * US]
    late = analyze_timelines(ranks(), TraceSelection("561500ns"))
    assert [gpu.rank for gpu in late.gpus] == [2]  # the only one that still works then


def test_each_rank_alone_is_what_a_selection_of_it_shows() -> None:
    events = Events()
    for rank in range(3):
        track, thread = gpu(rank), CPU._replace(rank=rank, pid=rank)
        for at in range(5):
            start = (at * 70 + rank * 3) * US
            events.launched(f"k{at % 2}", start, start + 20 * US, (20 + at * rank) * US, track, thread)
    for timelines in ([events.timeline()], ranks()):
        for wanted in (TraceSelection(), TraceSelection("100us", "300us"), TraceSelection(gpus=["0", "2"])):
            found = dict(analyze_ranks(timelines, wanted))
            assert list(found) == ([0, 2] if wanted.gpus else [0, 1, 2])
            for rank, alone in found.items():
                selected = analyze_timelines(timelines, wanted._replace(gpus=[str(rank)]))
                calls = [statistics(each.lengths["api"]).total.tolist() for each in (alone, selected)]
                assert calls[0] == calls[1]
                assert alone.idle == selected.idle and alone.launches[2:] == selected.launches[2:]
                assert [each.busy_ns for each in alone.gpus] == [each.busy_ns for each in selected.gpus]
    with pytest.raises(ValueError, match="no GPU 7"):
        list(analyze_ranks([events.timeline()], TraceSelection(gpus=["7"])))


def as_rows(found: TraceAnalysis, *but: str) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(rows_of(name, found)[1], key=str) for name in TABLES if name not in but}


def test_files_one_by_one_are_as_all_at_once() -> None:
    events = Events()
    for rank in range(3):
        for at in range(5):
            track, thread = gpu(rank, source=rank), CPU._replace(rank=rank, source=rank, pid=rank)
            start = (at * 70 + rank * 3) * US
            events.launched(f"k{at % 2}", start, start + 20 * US, (20 + at * rank) * US, track, thread)
    whole = analyze_timeline(events.timeline(unix_ns=10**18, sources=3))
    parts = []
    for rank in range(3):
        own = Events()
        own.rows = [(*row[:2], row[2]._replace(source=0), *row[3:]) for row in events.rows if row[2].rank == rank]
        parts.append(analyze_timeline(own.timeline(unix_ns=10**18)))
    assert as_rows(combined(parts)) == as_rows(whole)


def test_like_hta_leaves_out_the_last_step_and_rounds_to_whole_us() -> None:
    events = Events()
    for step in range(3):
        at = step * 100 * US
        events.add(Kind.RANGE, f"ProfilerStep#{step}", at, 90 * US)
        events.launched("gemm", at + 10 * US, at + 20 * US + 400, 10 * US)  # 20.4 to 30.4: 21 to 30
        events.launched("Stream Sync", at + 11 * US, at + 40 * US, 5 * US, kind=Kind.GPU_SYNC)
        events.launched("Stream Wait Event", at + 12 * US, at + 65 * US, 3 * US, kind=Kind.GPU_SYNC)
        events.launched("dpsk::ep::dispatch", at + 12 * US, at + 50 * US, 10 * US, track=gpu(stream=20))
    timeline = events.timeline()
    assert analyze_timeline(timeline).gpus[0].n_kernels == 6
    found = analyze_timeline(timeline, like_hta=True)
    (use,) = found.gpus
    assert (use.n_kernels, use.span_ns) == (4, 147 * US)
    assert use.compute_ns == 2 * (9 + 10 + 3) * US and use.communication_ns == 0  # which it does not know
    assert use.busy_ns == use.compute_ns + 2 * 5 * US
    assert {key[0] for key in found.lengths["kernels"].keys} == {"gemm", "dpsk::ep::dispatch", "Stream Wait Event"}
    assert found.idle["unknown"] == (0, 0) and found.idle["host"][0] == 2


def test_counters_and_a_sparse_window() -> None:
    events = training()
    time, value = np.array([0, 100 * US, 300 * US], np.int64), np.array([1.0, np.nan, 4.0])
    events.counters = [Counter("memory", "B", "gauge", time, value)]
    (own,) = (each for each in analyze_timeline(events.timeline()).counters if each.name == "memory")
    assert (own.n, own.min, own.max, own.last, own.at_max_ns) == (2, 1.0, 4.0, 4.0, 300 * US)
    sparse = analyze_timeline(events.timeline(), (100 * US, 200 * US)).counters
    assert "memory" not in [each.name for each in sparse]


def test_nothing_is_something_too() -> None:
    found = analyze_timeline(Events().timeline())
    assert found.gpus == () and found.verdicts == () and len(found.abstentions) > 5
    assert all(not list(rows_of(name, found)[1]) for name in TABLES if name not in ("idle", "launches"))
    assert analyze_timeline(Events().add(Kind.CPU_OP, "a", 0, 5).timeline()).gpus == ()


def test_reports_of_nsys_have_its_columns() -> None:
    found = analyze_timeline(training().add(Kind.RUNTIME, "cudaFree", 0, 10).timeline())
    heads, rows = as_nsys("cuda_gpu_kern_sum", found)
    assert ",".join(heads) == (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    )
    assert rows[0] == ["33.3", 200 * US, 2, "100000.0", "100000.0", 100 * US, 100 * US, "0.0", "gemm"]
    assert as_nsys("cuda_gpu_mem_size_sum", found)[0][:3] == ["Total (MB)", "Count", "Avg (MB)"]
    assert as_nsys("gpumemtimesum", found)[1][0][-1] == "[CUDA memcpy Host-to-Device]"
    assert "cudaFree" in [row[-1] for row in as_nsys("cuda_api_sum", found)[1]]
    assert all(as_nsys(name, found)[0] for name in NSYS)


work = st.tuples(st.integers(0, 400), st.integers(0, 60), st.integers(0, 2), st.integers(0, 2), st.integers(0, 90))


@settings(max_examples=20, deadline=None)
@given(st.lists(work, min_size=1, max_size=12), st.booleans())
def test_of_any_trace_the_parts_add_up(found: list[tuple[int, int, int, int, int]], like_hta: bool) -> None:
    events = Events()
    for start, length, kind, stream, ahead in found:
        name = ("gemm", "ncclDevKernel_X", "Memcpy DtoH")[kind]
        events.launched(name, start - ahead, start, length, gpu(stream % 2, stream=stream), took=ahead // 2,
                        kind=Kind.MEMCPY if kind == 2 else Kind.KERNEL)  # fmt: skip
    own = analyze_timeline(events.timeline(), like_hta=like_hta)
    assert json.loads("".join(json_pieces(own)))["ranks"][0]["span_ns"] == own.gpus[0].span_ns
    assert trace_page(own, PageOptions(len(found) + 20, like_hta, "high"))
    for use in own.gpus:
        if not like_hta:
            assert sum(use.types) == use.busy_ns
            assert use.compute_ns + use.exposed_communication_ns + use.exposed_copy_ns + use.idle_ns == use.span_ns
        assert 0 <= use.busy_ns <= use.span_ns or like_hta
    if not like_hta:
        assert sum(ns for _, ns in own.idle.values()) == own.idle_ns
        parts = [(use.compute_ns, use.exposed_communication_ns, use.exposed_copy_ns) for use in own.gpus]
        assert sum(map(sum, parts)) + own.idle_ns == own.span_ns
        assert own.idle["host"][1] >= sum(gap.host_ns for gap in own.gaps)
        assert int(own.kernels_by_rank.count.sum()) == sum(use.n_kernels for use in own.gpus)
    assert own.launches.n == len(found)


@settings(max_examples=20, deadline=None)
@given(st.lists(work, min_size=1, max_size=12), st.integers(-20, 500), st.integers(1, 300))
def test_of_any_window_the_parts_add_up(found: list[tuple[int, int, int, int, int]], begin: int, length: int) -> None:
    """The time of all GPUs, counted nanosecond by nanosecond: those that do nothing in the window have it, too."""
    events, busy = Events(), np.zeros((2, 600), bool)
    for start, took, kind, stream, ahead in found:
        name = ("gemm", "ncclDevKernel_SendRecv", "Memcpy DtoH")[kind]
        events.launched(name, start - ahead, start, took, gpu(device=stream % 2, stream=stream), took=ahead // 2,
                        kind=Kind.MEMCPY if kind == 2 else Kind.KERNEL)  # fmt: skip
        busy[stream % 2, start : start + took] = True
    first, last = min(row[0] for row in found), max(row[0] + row[1] for row in found)
    window = max(begin, first), min(begin + length, last)
    own = analyze_timeline(events.timeline(), (begin, begin + length))
    n_gpus = len({row[3] % 2 for row in found})
    assert len(own.gpus) == n_gpus and own.span_ns == n_gpus * max(window[1] - window[0], 0)
    parts = [(use.compute_ns, use.exposed_communication_ns, use.exposed_copy_ns) for use in own.gpus]
    assert sum(map(sum, parts)) + own.idle_ns == own.span_ns
    assert sum(ns for _, ns in own.idle.values()) == own.idle_ns and min(ns for _, ns in own.idle.values()) >= 0
    assert own.span_ns - own.idle_ns == busy[:, max(begin, 0) : max(begin + length, 0)].sum()
    assert all(0 <= use.exposed_p2p_ns <= use.exposed_communication_ns for use in own.gpus)


def test_a_frame_of_python_keeps_its_function_and_line() -> None:
    events = training()
    frame = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py(1739): _wrapped_call_impl"
    events.add(Kind.PYTHON, frame, 0, 1_000 * US)
    page = "\n".join("".join(span.text for span in row) for row in trace_page(
        analyze_timeline(events.timeline()), PageOptions(200, False, "medium")))  # fmt: skip
    assert "meanwhile module.py(1739): _wrapped_call_impl" in page


def results(found: TraceAnalysis) -> str:
    gpus = [gpu._replace(busy_over_time=None, types_over_time=()) for gpu in found.gpus]  # type: ignore[arg-type]
    courses = [(gpu.busy_over_time.tolist(), np.array(gpu.types_over_time).tolist()) for gpu in found.gpus]
    return repr((gpus, courses, [[*rows_of(name, found)[1]] for name in TABLES], found.calls))


@settings(max_examples=20, deadline=None)
@given(st.lists(work, min_size=1, max_size=20), st.booleans(), st.integers(1, 9))
def test_in_how_many_parts_a_gpu_is_gone_through_changes_nothing(
    found: list[tuple[int, int, int, int, int]], like_hta: bool, at_once: int
) -> None:
    events = Events()
    for number, (start, length, kind, stream, ahead) in enumerate(found):
        name = ("gemm", "ncclDevKernel_X", "Memcpy DtoH")[kind]
        events.launched(name, start - ahead, start, length, gpu(stream % 2, stream=stream), took=ahead // 2,
                        kind=Kind.MEMCPY if kind == 2 else Kind.KERNEL)  # fmt: skip
        events.add(Kind.RANGE, f"ProfilerStep#{number}", start - ahead, length + ahead)
    whole = analyze_timeline(events.timeline(), like_hta=like_hta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gssr.model.traces.segments._AT_ONCE", at_once)
        assert results(analyze_timeline(events.timeline(), like_hta=like_hta)) == results(whole)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_asked_for_alone_is_the_same_and_no_other_is_made(table: str) -> None:
    timelines = [training().timeline(), training().timeline()]
    whole, alone = analyze_timelines(timelines), analyze_timelines(timelines, tables=[table])
    assert [*rows_of(table, alone)[1]] == [*rows_of(table, whole)[1]]
    if table != "verdicts":
        assert not alone.verdicts and not alone.calls and len(alone.lengths) <= 1
        assert bool(alone.gpus) == (table in ("ranks", "kernel_types", "idle", "gaps", "steps"))


def test_of_the_gaps_of_one_length_the_first_are_told() -> None:
    events = Events()
    for number in range(80):
        events.add(Kind.KERNEL, "gemm", number * 100, 90)
    starts = [gap.start_ns for gap in analyze_timeline(events.timeline()).gaps]
    assert starts == [number * 100 + 90 for number in range(50)]


def test_of_many_files_one_is_held_at_a_time() -> None:
    held: list[weakref.ref[np.ndarray]] = []

    def timelines() -> Iterator[Timeline]:
        for rank in range(4):
            assert all(each() is None for each in held)
            events = Events().add(Kind.KERNEL, "gemm", 0, 10, gpu(rank))
            if rank == 2:
                events = Events().add(Kind.CPU_OP, "a", 0, 10)  # of which nothing is asked for
            timeline = events.timeline()
            held.append(weakref.ref(timeline.intervals.start))
            yield timeline
            del timeline

    assert len(analyze_timelines(timelines(), TraceSelection(gpus=["0-3"])).gpus) == 3


NAMES = ("", "a", "ProfilerStep#1", "ProfilerStep#2", "step 3", "cudaLaunchKernel", "cudaMemcpy", "cudaDeviceSynchronize",
         "cudaGraphLaunch", "Memcpy HtoD (Pageable -> Device)", "nccl:all_reduce", "ncclDevKernel_X")  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1, 1_000, 10**9, 10**15])
@pytest.mark.parametrize("seed", range(8))
def test_no_timeline_is_too_odd(seed: int, unit: int) -> None:
    """Any kind under any name, on any track, before 0, of no length or of a year, linked to anything."""
    rng = np.random.default_rng(seed)
    events = Events()
    for _ in range(2 * seed):
        kind = Kind(int(rng.integers(0, len(Kind))))
        track = gpu(int(rng.integers(0, 2)), stream=int(rng.integers(0, 3))) if kind < Kind.RUNTIME else CPU
        start, length, link, size = (int(rng.integers(*span)) for span in ((-50, 50), (0, 60), (-1, 5), (-1, 9)))
        events.add(kind, str(rng.choice(NAMES)), start * unit, length * unit, track, link, size)
    timeline = events.timeline(unix_ns=10**18 + 7 if seed % 2 else None, pageable=seed % 3 == 0)
    for window in (None, (-3 * unit, 5 * unit)):
        for like_hta in (False, True):
            own = analyze_timeline(timeline, window, like_hta=like_hta)
            both = combined([own, own])
            assert json.loads("".join(json_pieces(both)))["schema"] == "gssr.trace/1"
            assert trace_page(both, PageOptions(40, True, "high"))


def test_a_trace_without_lengths_says_so_and_where_its_values_are() -> None:
    events = Events()
    events.counters = [Counter("memory", "B", "gauge", np.array([5, 20]), np.array([1.0, 2.0]))]
    assert analyze_timeline(events.timeline()).window == (5, 20)
    page = "\n".join(map(text_of, trace_page(analyze_timeline(events.timeline()), PageOptions(80, False, "medium"))))
    assert "nothing in it has a length: --csv counters lists its values" in page
    marks = Events().add(Kind.MARK, "now", 5, 0, CPU).timeline()
    page = "\n".join(map(text_of, trace_page(analyze_timeline(marks), PageOptions(80, False, "medium"))))
    assert "nothing in it has a length: gssr tui shows when it happened" in page


def test_of_a_trace_that_holds_no_intervals_page_and_screen_say_the_same() -> None:
    nothing = Events().timeline()
    page = "\n".join(map(text_of, trace_page(analyze_timeline(nothing), PageOptions(80, False, "medium"))))
    assert "holds no intervals" in page and "gssr tui" not in page
    with pytest.raises(UnreadableError, match="holds no intervals"):
        WatchedTrace("a", lambda: nothing).read_result(Query(), quick=False)
