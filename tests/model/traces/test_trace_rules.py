"""Each rule for traces finds its cause, and nothing in a program that keeps its GPU busy."""

import re
from dataclasses import replace

import numpy as np
import pytest
from timelines import CPU, Events, gpu

from gssr.model.traces.analyze_trace import analyze_timeline, combined
from gssr.model.traces.trace_results import TraceAnalysis
from gssr.model.traces.trace_rules import IN_TORCH, TABLE, judge_trace
from gssr.model.verdicts.table import REGISTERED
from gssr.traces.timeline import Clock, Kind, Measured, Profile, Timeline, TraceSource

US, MS, S = 1_000, 1_000_000, 1_000_000_000


def busy(events: Events, n: int = 60) -> Events:
    """Kernels one after another, launched in time."""
    took, gap, ahead = 10 * MS, 20 * US, 2 * MS
    for at in range(n):
        start = ahead + at * (took + gap)
        events.launched("gemm", max(start - ahead, at), start, took)
    return events


def slow_loader() -> Timeline:
    events = Events()
    for at in range(5):
        events.add(Kind.PYTHON, "torch/utils/data/dataloader.py(630): __next__ DataLoader", at * 100 * MS, 50 * MS)
        events.launched("gemm", at * 100 * MS + 51 * MS, at * 100 * MS + 52 * MS, 47 * MS)
    return events.timeline()


def steps_apart() -> Timeline:
    events = Events()
    for at in range(5):
        events.add(Kind.RANGE, f"train_step {at}", at * 100 * MS, 60 * MS)
        events.launched("gemm", at * 100 * MS, at * 100 * MS + 1 * MS, 58 * MS)
    return events.timeline()


def items_at_each_step() -> Timeline:
    events = Events()
    for at in range(100):
        start = at * 1 * MS
        events.launched("gemm", start + 400 * US, start + 500 * US, 450 * US)
        events.add(Kind.RUNTIME, "cudaStreamSynchronize", start + 410 * US, 560 * US)
    return events.timeline()


def waits_while_busy() -> Timeline:
    events = busy(Events())
    events.add(Kind.RUNTIME, "cudaDeviceSynchronize", 10 * MS, 300 * MS)
    return events.timeline()


def copies(by: str, name: str, kind: Kind = Kind.MEMCPY) -> Timeline:
    events = busy(Events(), 20)
    for at in range(10):
        start = (at * 10 + 300) * MS
        events.launched(name, start, start + 100 * US, 5 * MS, took=6 * MS, kind=kind, by=by, size=1 << 20)
    return events.timeline(pageable=True)


def one_by_one() -> Timeline:
    events = Events()
    for at in range(200):
        events.launched("add", at * 20 * US, at * 20 * US + 8 * US, 4 * US, took=6 * US)
    return events.timeline()


def naked_communication() -> Timeline:
    events = busy(Events(), 10)
    for at in range(10):
        events.launched("ncclDevKernel_AllReduce", at * MS, (200 + at * 10) * MS, 9_990 * US, gpu(stream=20))
    return events.timeline()


def sends_and_receives(operation: str = "") -> Events:
    """A stage of a pipeline: for half of the time its kernel waits for the other stage; launched within ``operation``."""
    events = busy(Events(), 10)
    for at in range(10):
        call = 1 + at * MS
        if operation:
            events.add(Kind.CPU_OP, operation, call, 50 * US)
        events.launched("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", call + 10 * US, (200 + at * 10) * MS,
                        9_990 * US, gpu(stream=20))  # fmt: skip
    return events


def long_gap() -> Timeline:
    events = busy(Events(), 300)
    events.launched("gemm", 4 * S, 4 * S + 10 * US, 2 * S)
    return events.timeline()


def late(n: int, idle: int, took: int = 5 * MS) -> Timeline:
    """Kernels whose launches come one by one, each ``idle`` ns after the kernel before."""
    events = busy(Events(), 100)
    for at in range(n):
        start = 1_101 * MS + at * (idle + took)
        events.launched("gemm", start - 10 * US, start, took)
    return events.timeline()


def low() -> Timeline:
    """Launched in time, and waiting for something that the trace does not tell."""
    events = busy(Events(), 100)
    for at in range(100):
        events.launched("gemm", 500 * MS + at, 1_101 * MS + at * 20 * MS, 5 * MS)
    return events.timeline()


def async_copies() -> Timeline:
    events = busy(Events(), 20)
    for at in range(10):
        events.launched("Memcpy HtoD (Pinned -> Device)", at, (300 + at * 10) * MS, 9 * MS, kind=Kind.MEMCPY,
                        by="cudaMemcpyAsync", size=1 << 20)  # fmt: skip
    return events.timeline(pageable=True)


def ranks(late: int, hidden: int = 0) -> TraceAnalysis:
    """Of four ranks, the third of which computes ``late`` ns longer; the others compute for ``hidden`` ns of the time in
    which they communicate."""
    found = []
    for rank in range(4):
        events, longer = Events(), late if rank == 2 else 0
        for at in range(10):
            start, thread = at * 100 * MS, CPU._replace(rank=rank)
            events.launched("gemm", start, start + MS, 40 * MS + longer, gpu(rank), thread)
            events.launched("ncclDevKernel_AllReduce", start, start + 42 * MS + longer, 50 * MS - longer,
                            gpu(rank, stream=20), thread)  # fmt: skip
            if hidden and rank != 2:
                events.launched("other", start, start + 50 * MS, hidden, gpu(rank), thread)
        found.append(analyze_timeline(events.timeline()))
    return combined(found)


def profile(*ranks: tuple[float, float, float]) -> TraceAnalysis:
    """Of ranks that compute, communicate and wait in OpenMP for so many s each."""
    names = ("main", "solve", "MPI_Wait", "!$omp implicit barrier", "MPI_Init")
    own = np.array([[0.0, *rank, 3.0] for rank in ranks]).T
    time = Measured("time", "Time", "sec", False, "sum", lambda: (np.arange(5), own))
    calls = Profile(
        np.array([-1, 0, 0, 1, 0]), np.arange(5), ("user", "user", "mpi", "openmp", "mpi"),
        ("function", "function", "point2point", "implicit barrier", "function"), (time,),
    )  # fmt: skip
    tracks = tuple(CPU._replace(rank=rank) for rank in range(len(ranks)))
    return analyze_timeline(Timeline((), Clock(), tracks, names, Events().timeline().intervals, profile=calls))


def one_after_another(apart: bool = True) -> TraceAnalysis:
    events = Events()
    for at in range(40):
        track = gpu(device=at // 20 if apart else at % 2)
        events.launched("gemm", at * 10 * MS, at * 10 * MS + 20 * US, 9_900 * US, track)
    return analyze_timeline(events.timeline())


CAUSES = {
    "gpus_in_turn": one_after_another,
    "uneven_ranks": lambda: profile((10, 10, 0), (20, 0, 0), (10, 10, 0)),
    "communication_share": lambda: profile((10, 9, 0), (10, 10, 0)),
    "openmp_waits": lambda: profile((10, 0, 4)),
    "loader_waits": lambda: analyze_timeline(slow_loader()),
    "straggling_rank": lambda: ranks(20 * MS),
    "empty_between_steps": lambda: analyze_timeline(steps_apart()),
    "sync_storm": lambda: analyze_timeline(items_at_each_step()),
    "blocking_calls": lambda: analyze_timeline(waits_while_busy()),
    "pageable_copies": lambda: analyze_timeline(copies("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)")),
    "sync_copies": lambda: analyze_timeline(copies("cudaMemcpy", "Memcpy HtoD (Pinned -> Device)")),
    "sync_memsets": lambda: analyze_timeline(copies("cudaMemset", "Memset (Device)", Kind.MEMSET)),
    "short_kernels": lambda: analyze_timeline(one_by_one()),
    "exposed_communication": lambda: analyze_timeline(naked_communication()),
    "pipeline_bubbles": lambda: analyze_timeline(sends_and_receives("nccl:recv 0<-1").timeline()),
    "gpu_gaps": lambda: analyze_timeline(long_gap()),
    "low_utilization": lambda: analyze_timeline(low()),
    "late_launches": lambda: analyze_timeline(late(100, 15 * MS)),
    "exposed_copies": lambda: analyze_timeline(async_copies()),
}


@pytest.mark.parametrize("code", CAUSES)
def test_each_cause_gives_its_verdict_with_evidence_and_advice(code: str) -> None:
    found = {verdict.code: verdict for verdict in CAUSES[code]().verdicts}
    assert code in found, list(found)
    verdict = found[code]
    assert verdict.evidence and verdict.advice and verdict.source and "{" not in verdict.title
    assert verdict.start <= verdict.end and all(finding.text for finding in verdict.evidence)
    assert not {symptom for symptom in TABLE.rule(code).explains if not verdict.gpus} & set(found)


def test_there_is_a_cause_for_every_rule_and_causes_stand_before_what_they_explain() -> None:
    codes = [rule.code for rule in TABLE.rules]
    assert codes == list(dict.fromkeys(codes)) and set(codes) == set(CAUSES) and set(codes) < set(REGISTERED)
    for rule in TABLE.rules:
        assert all(codes.index(rule.code) < codes.index(symptom) for symptom in rule.explains), rule.code


def test_a_busy_gpu_gives_no_verdict() -> None:
    assert not analyze_timeline(busy(Events()).timeline(pageable=True)).verdicts
    assert "straggling_rank" not in {verdict.code for verdict in ranks(0).verdicts}


def test_what_counts_as_lost_to_a_late_rank_is_no_more_than_the_communication_that_nothing_hides() -> None:
    for hidden in (0, 40 * MS):
        found = ranks(20 * MS, hidden)
        (verdict,) = (each for each in found.verdicts if each.code == "straggling_rank")
        (won,) = (each for each in verdict.evidence if each.metric == "won")
        waits = [(gpu.communication_ns - found.gpus[2].communication_ns, gpu.exposed_communication_ns)
                 for gpu in found.gpus]  # fmt: skip
        assert won.value == pytest.approx(sum(map(min, waits)) / 1e9)
        assert (won.value < sum(wait for wait, _ in waits) / 1e9) == bool(hidden)


def test_lost_time_is_not_called_a_bound_of_what_mending_it_saves() -> None:
    """A rank computes 20 ms longer, ten times: both GPUs are 200 ms later, and only one of them waits."""

    def two_ranks(longer: int) -> TraceAnalysis:
        found = []
        for rank in range(2):
            events, thread = Events(), CPU._replace(rank=rank)
            for at in range(10):
                start, work = at * (50 * MS + longer), 40 * MS + longer * rank
                events.launched("gemm", start, start + MS, work, gpu(rank), thread)
                events.launched("ncclDevKernel_AllReduce", start, start + MS + work, 49 * MS + longer - work,
                                gpu(rank, stream=20), thread)  # fmt: skip
            found.append(analyze_timeline(events.timeline(unix_ns=10**18)))
        return combined(found)

    late, mended = two_ranks(20 * MS), two_ranks(0)
    (verdict,) = (each for each in late.verdicts if each.code == "straggling_rank")
    (lost,) = (each for each in verdict.evidence if each.metric == "won")
    assert lost.value == pytest.approx(10 * 0.02) and (late.span_ns - mended.span_ns) / 1e9 == pytest.approx(
        2 * 10 * 0.02
    )
    assert lost.text.startswith("lost: 200 ms of the GPUs' time") and lost.text.endswith("without what makes it late")
    assert "at most" not in " ".join(finding.text for every in late.verdicts for finding in every.evidence)


def test_ranks_that_are_alike_and_what_sets_up_communication_give_no_verdict() -> None:
    assert not profile((10, 1, 0.5), (10.5, 0.5, 0.5)).verdicts
    codes = [verdict.code for verdict in profile((10, 10, 0), (20, 0, 0), (10, 10, 0)).verdicts]
    assert codes == ["uneven_ranks"]  # which explains the share of communication


@pytest.mark.parametrize(
    ("code", "whole"), [("uneven_ranks", profile((10, 10, 0), (20, 0, 0))), ("straggling_rank", ranks(20 * MS))]
)
def test_ranks_are_not_compared_if_a_file_is_damaged(code: str, whole: TraceAnalysis) -> None:
    assert code in [verdict.code for verdict in whole.verdicts]
    cut = replace(whole, sources=(TraceSource("rank0.json", "kineto", is_damaged=True),))
    judged = judge_trace(cut, TABLE)
    assert not {code, "communication_share"} & {verdict.code for verdict in judged.verdicts}
    assert judged.abstentions[code] == "a file is cut off or damaged: some of what was done may be missing"


def test_copies_by_kernels_are_judged_as_copies() -> None:
    """AMD's runtime copies by a kernel; the page shows its time as exposed copies."""

    def of_second(name: str) -> TraceAnalysis:
        events = Events()
        events.launched("gemm", 0, 20 * US, 10 * MS, gpu())
        events.launched(name, 15 * MS, 15 * MS + 20 * US, 10 * MS, gpu())
        return analyze_timeline(events.timeline())

    assert "exposed_copies" in [verdict.code for verdict in of_second("__amd_rocclr_copyBuffer").verdicts]
    assert of_second("norm").abstentions["exposed_copies"] == "no copies are in the trace"


def test_what_a_graph_launches_is_not_launched_one_by_one() -> None:
    events = Events()
    for at in range(20):
        start = at * 400 * US
        events.add(Kind.RUNTIME, "cudaGraphLaunch", start, 5 * US, link=at + 1)
        for place in range(10):
            events.add(Kind.KERNEL, "add", start + (20 + place * 8) * US, 4 * US, link=at + 1)
    assert "short_kernels" not in {verdict.code for verdict in analyze_timeline(events.timeline()).verdicts}


def test_the_launch_of_a_kernel_that_takes_long_makes_the_host_late_and_a_waiting_stream_does_not() -> None:
    events = busy(Events(), 10)
    events.launched("gemm", 150 * MS, 156 * MS, 5 * MS, took=6 * MS)
    idle = analyze_timeline(events.timeline()).idle
    assert idle["dependency"] == (0, 0) and idle["host"][1] == 156 * MS - (2 * MS + 10 * 10 * MS + 9 * 20 * US)
    events = busy(Events(), 10)
    events.launched("gemm", 50 * MS, 156 * MS, 5 * MS)
    idle = analyze_timeline(events.timeline()).idle
    assert idle["host"] == (0, 0) and idle["dependency"][0] == 1


def test_a_copy_that_waits_on_a_stream_which_waits_is_not_why_the_gpu_is_idle() -> None:
    events = busy(Events(), 5)
    events.launched("gemm", 10 * MS, 400 * MS, 5 * MS)  # launched early: its stream waits for an event
    events.launched("Memcpy DtoH", 60 * MS, 405 * MS, 10 * US, took=346 * MS, kind=Kind.MEMCPY, by="cudaMemcpy",
                    size=256)  # fmt: skip
    assert "sync_copies" not in codes_of(events)


def test_few_long_gaps_are_not_the_launches_of_short_kernels_nor_of_waiting_calls() -> None:
    events = Events()
    for at in range(40):
        for place in range(20):
            start = at * 50 * MS + place * 20 * US
            events.launched("add", start, start + 8 * US, 6 * US, took=6 * US)
        events.add(
            Kind.RUNTIME, "cudaStreamSynchronize", at * 50 * MS + 20 * MS, 10 * US
        )  # long after the GPU was done
        events.add(Kind.RUNTIME, "cudaStreamSynchronize", at * 50 * MS + 30 * MS, 10 * US)
    assert codes_of(events) & {"short_kernels", "sync_storm", "late_launches"} == {"late_launches"}


@pytest.mark.parametrize(("code", "pause"), [("gpu_gaps", S), ("late_launches", 400 * MS)])
def test_a_gap_without_what_the_program_did_is_not_said_to_be_listed_with_its_call(code: str, pause: int) -> None:
    events = Events().launched("gemm", 0, 10 * US, S).launched("gemm", S + pause, S + pause + 10 * US, S)
    found = []
    for _ in range(2):
        (verdict,) = (each for each in analyze_timeline(events.timeline()).verdicts if each.code == code)
        found.append(verdict.advice)
        events.add(Kind.CPU_OP, "load", S + 100 * US, pause - 200 * US)
    assert (
        "the screen Time" in found[0].replace("The screen", "the screen") and "call in the middle of each" in found[1]
    )
    assert all("gssr analyze --csv gaps FILE" in advice and "tui FILE" not in advice for advice in found)


@pytest.mark.parametrize(("prefix", "wanted"), [("hip", "hipMemcpyAsync"), ("cuda", "cudaMemcpyAsync")])
def test_the_words_are_those_of_the_calls_in_the_trace(prefix: str, wanted: str) -> None:
    events = busy(Events(), 5)
    events.rows = [(*row[:3], row[3].replace("cuda", prefix), *row[4:]) for row in events.rows]
    events.launched("Memcpy HtoD", 10 * MS, 10 * MS + 10 * US, 60 * MS, took=70 * MS, kind=Kind.MEMCPY,
                    by=f"{prefix}Memcpy", size=1 << 20)  # fmt: skip
    (verdict,) = (each for each in analyze_timeline(events.timeline()).verdicts if each.code == "sync_copies")
    assert wanted in verdict.advice


def test_one_gap_is_said_as_one() -> None:
    (verdict,) = (each for each in analyze_timeline(long_gap()).verdicts if each.code == "gpu_gaps")
    assert "in 1 gap of at least 500 ms" in verdict.title


def test_late_launches_of_kernels_that_are_not_short_count_however_brief() -> None:
    assert "late_launches" in {each.code for each in analyze_timeline(late(9_000, 100 * US, 100 * US)).verdicts}
    assert "late_launches" not in {each.code for each in analyze_timeline(one_by_one()).verdicts}


def codes_of(events: Events) -> set[str]:
    return {verdict.code for verdict in analyze_timeline(events.timeline()).verdicts}


def test_a_pipelines_bubbles_are_no_communication_of_all_ranks_and_an_all_to_all_is() -> None:
    collective, single = {"exposed_communication"}, {"pipeline_bubbles"}
    assert codes_of(sends_and_receives()) & (collective | single) == single
    assert codes_of(sends_and_receives("nccl:all_to_all")) & (collective | single) == collective
    assert codes_of(sends_and_receives("c10d::alltoall_base_")) & (collective | single) == collective
    both = sends_and_receives()
    for at in range(10):
        both.launched("ncclDevKernel_AllReduce", 1, (205 + at * 10) * MS, 2_000 * US, gpu(stream=21))
    (use,) = analyze_timeline(both.timeline()).gpus
    assert use.exposed_p2p_ns == 10 * (9_990 - 2_000) * US and use.exposed_communication_ns == 10 * 9_990 * US
    assert analyze_timeline(naked_communication()).gpus[0].exposed_p2p_ns == 0


@pytest.mark.parametrize("code", CAUSES)
def test_advice_for_pytorch_is_for_programs_in_pytorch_alone(code: str) -> None:
    found = CAUSES[code]()
    is_torch = "torch" in found.holds
    assert is_torch == bool(found.sources)  # all of these were traced by torch.profiler, but profiles of Score-P
    others = judge_trace(replace(found, holds=found.holds - {"torch"}), TABLE).verdicts
    for own, other in zip(found.verdicts, others, strict=True):
        assert not re.search(r"torch|DataLoader|DistributedData|FSDP|tensor|\.item|non_blocking", other.advice)
        assert (own.advice != other.advice) == (is_torch and own.code in IN_TORCH)
        assert own.advice.startswith(other.advice)


@pytest.mark.parametrize(
    ("name", "is_torch"), [("void at::native::add<4>(int)", True), ("aten::mm", True), ("gemm", False)]
)
def test_a_program_in_pytorch_is_known_by_its_names_in_other_tools_traces(name: str, is_torch: bool) -> None:
    timeline = one_by_one()
    source = timeline.sources[0]._replace(format="nsys", tool="Nsight Systems")
    timeline = replace(timeline, sources=(source,), names=("cudaLaunchKernel", name))
    assert ("torch" in analyze_timeline(timeline).holds) == is_torch


def test_a_program_that_captures_graphs_is_not_told_to_use_graphs() -> None:
    events = Events()
    events.add(Kind.RUNTIME, "cudaStreamBeginCapture", 0, 5 * US)
    for at in range(200):
        events.launched("add", at * 20 * US + 10 * US, at * 20 * US + 18 * US, 4 * US, took=6 * US)
    events.add(Kind.RUNTIME, "cudaGraphInstantiate", 5 * MS, 5 * US)
    (found,) = (each for each in analyze_timeline(events.timeline()).verdicts if each.code == "short_kernels")
    assert "captures CUDA graphs here" in found.advice and "Launch them together" not in found.advice


def test_gpus_that_work_at_the_same_time_or_unevenly_do_not_work_in_turn() -> None:
    assert "gpus_in_turn" in {each.code for each in one_after_another(apart=False).verdicts}
    (found,) = one_after_another().verdicts
    assert found.title == "The GPUs work one after another: 1 of 2 at a time, while any works"
    assert found.evidence[1].value == pytest.approx(0.5, abs=0.01)
    for busy_of in ((20, 20), (20, 4)):
        events = Events()
        for device, n in enumerate(busy_of):
            for at in range(n):
                events.launched("gemm", at * 10 * MS, at * 10 * MS + MS, 9 * MS, gpu(device=device))
        assert "gpus_in_turn" not in codes_of(events)
    assert "gpus_in_turn" not in {each.code for each in ranks(20 * MS).verdicts}


def test_a_sites_own_advice_is_all_that_is_said() -> None:
    rules = tuple(rule._replace(advice="Ask us.") for rule in TABLE.rules)
    assert {
        each.advice for each in judge_trace(analyze_timeline(one_by_one()), TABLE._replace(rules=rules)).verdicts
    } == {"Ask us."}


def test_of_rocprofv3s_traces_it_is_said_in_amds_words() -> None:
    found = analyze_timeline(one_by_one())
    sources = tuple(source._replace(format="rocpd") for source in found.sources)
    advice = next(each.advice for each in judge_trace(replace(found, sources=sources), TABLE).verdicts)
    assert "HIP graphs" in advice and "CUDA" not in advice


def test_small_copies_and_copies_within_a_gpu_wait_for_nothing() -> None:
    events = busy(Events(), 5)
    events.launched("Memcpy HtoD", 70 * MS, 71 * MS, 5 * MS, kind=Kind.MEMCPY, by="cudaMemcpy", size=1_000)
    events.launched("Memcpy DtoD", 80 * MS, 81 * MS, 5 * MS, kind=Kind.MEMCPY, by="cudaMemcpy", size=1 << 30)
    assert "sync_copies" not in {verdict.code for verdict in analyze_timeline(events.timeline()).verdicts}


@pytest.mark.parametrize(
    ("sizes", "said"), [((1 << 20, 1 << 20), "for 2.09715 MB"), ((1 << 20, -1), "for an unknown size")]
)
def test_that_the_size_of_copies_is_unknown_is_said(sizes: tuple[int, ...], said: str) -> None:
    events = busy(Events(), 5)
    for number, size in enumerate(sizes):
        at = (70 + 10 * number) * MS
        events.launched("Memcpy HtoD", at, at + MS, 5 * MS, kind=Kind.MEMCPY, by="cudaMemcpy", size=size)
    found = next(each for each in analyze_timeline(events.timeline()).verdicts if each.code == "sync_copies")
    assert said in found.evidence[0].text


def test_what_sets_up_communication_is_left_out_and_that_is_said() -> None:
    (verdict,) = (each for each in profile((10, 9, 0), (10, 10, 0)).verdicts if each.code == "communication_share")
    assert verdict.title == "49 % of the time outside MPI_Init and MPI_Finalize goes into communication"
    assert verdict.evidence[0].text == "19 s of 39 s (reported from 20 % on)"


@pytest.mark.parametrize("n", [1, 2])
def test_titles_are_english_for_one_as_for_many(n: int) -> None:
    events = busy(Events(), 5)
    for at in range(n):
        events.launched("Memcpy DtoH", (70 + 10 * at) * MS, (71 + 10 * at) * MS, 5 * MS, took=6 * MS, kind=Kind.MEMCPY,
                        by="cudaMemcpy", size=256)  # fmt: skip
        events.add(Kind.RUNTIME, "cudaDeviceSynchronize", (10 + 25 * at) * MS, 20 * MS)
    titles = {each.code: each for each in analyze_timeline(events.timeline()).verdicts}
    assert titles["sync_copies"].title == f"Copies that make their thread wait take {5 * n} ms, {n} in all"
    assert f"for {256 * n} bytes" in titles["sync_copies"].evidence[0].text
    assert titles["blocking_calls"].title.endswith("in 1 call" if n == 1 else "in 2 calls")


def test_what_a_part_lacks_is_not_said_of_the_trace() -> None:
    events = busy(Events(), 5)
    events.add(Kind.RANGE, "train_step 0", 0, 10 * MS)
    events.add(Kind.RANGE, "train_step 1", 10 * MS, 10 * MS)
    timeline = events.timeline()
    every, window = np.arange(len(timeline.tracks)), (31 * MS, 32 * MS)
    for of, asked, tracks in (
        ("the trace", None, None),
        ("this window", window, None),
        ("what is selected", None, every),
        ("what is selected in this window", window, every),
    ):
        reasons = set(analyze_timeline(timeline, asked, tracks).abstentions.values())
        assert f"no communication is in {of}" in reasons
        assert (f"no steps are marked in {of}" in reasons) == (asked is not None)


def test_waits_of_several_threads_count_once() -> None:
    events = busy(Events(), 5)  # 52.08 ms
    for tid, begin in enumerate((0, 5, 10)):
        events.add(Kind.RUNTIME, "cudaDeviceSynchronize", begin * MS, 30 * MS, CPU._replace(tid=tid))
    (verdict,) = (each for each in analyze_timeline(events.timeline()).verdicts if each.code == "blocking_calls")
    assert verdict.title.startswith("For 77 % of the GPUs' time") and verdict.title.endswith("in 3 calls")
    assert verdict.evidence[0].text.startswith("77 % of the GPUs' time (40 ms)")


def test_waits_of_two_processes_for_one_gpu_count_once() -> None:
    events = busy(Events(), 5)
    for pid in (100, 200):
        thread = CPU._replace(pid=pid)
        events.launched("add", 51 * MS, 52 * MS, MS, thread=thread)
        events.add(Kind.RUNTIME, "cudaDeviceSynchronize", 0, 45 * MS, thread)
    (verdict,) = (each for each in analyze_timeline(events.timeline()).verdicts if each.code == "blocking_calls")
    assert verdict.evidence[0].text.startswith("85 % of the GPUs' time (45 ms)")


def test_copies_that_run_at_once_have_no_share_above_all_of_it() -> None:
    events = busy(Events(), 1)
    for stream in range(3):
        events.launched("Memcpy DtoH (Device -> Pageable)", 0, 2 * MS, 9 * MS, gpu(stream=stream), kind=Kind.MEMCPY,
                        by="cudaMemcpyAsync", size=1 << 20)  # fmt: skip
    verdicts = analyze_timeline(events.timeline(pageable=True)).verdicts
    (verdict,) = (each for each in verdicts if each.code == "pageable_copies")
    assert verdict.title.endswith("take 27 ms, 3 in all")
    assert verdict.evidence[0].text.startswith("75 % of the GPUs' time (9 ms)")
