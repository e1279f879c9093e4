"""Where the GPU time of a trace went: counted by hand, unit by unit, and of any trace."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timelines import Events, gpu

from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown
from gssr.model.traces.analyze_trace import analyze_timeline, combined
from gssr.report.page import PageOptions
from gssr.report.trace import json_pieces, trace_page
from gssr.traces.timeline import Kind, Timeline

MS = 1_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def broken_down(timeline: Timeline, window: tuple[int, int] | None = None) -> Breakdown:
    found = analyze_timeline(timeline, window).breakdown
    assert found is not None
    return found


def ms(found: Breakdown) -> dict[str, float]:
    """GPU-milliseconds by category, of those that have any."""
    seconds = found.by_gpu.sum(axis=0).tolist()
    return {each.name: round(1e3 * own, 6) for each, own in zip(CATEGORIES, seconds, strict=True) if own}


def one_of_each() -> Events:
    """Two GPUs for 100 ms, which the events say in ms."""
    a, b, events = gpu(0, 0), gpu(0, 1), Events()

    def work(name: str, call: float, start: float, length: float, on: object, kind: Kind = Kind.KERNEL) -> None:
        events.launched(name, int(call * MS), int(start * MS), int(length * MS), on, kind=kind)  # type: ignore[arg-type]

    events.add(Kind.CPU_OP, "import", 0, 100 * MS)
    work("gemm", 9, 10, 10, a)  # both work; before it start-up
    work("gemm", 9, 10, 10, b)
    work("gemm", 9, 20.02, 9.98, a)  # 0.02 ms between kernels
    work("gemm", 24, 24, 6, b)  # 4 ms late: nobody launched it
    events.add(Kind.RANGE, "DataLoader.next", 30 * MS, 5 * MS)
    work("gemm", 38, 38, 2, a)  # 5 ms for data, 3 ms late
    work("Memcpy HtoD (Pageable -> Device)", 29, 30, 8, b, Kind.MEMCPY)  # copies
    work("gemm", 29, 38, 2, b)
    work("gemm", 39, 40, 20, a)
    events.add(Kind.RUNTIME, "cudaStreamSynchronize", 40 * MS, 20 * MS)  # b waits for a: not the host's fault
    work("gemm", 60, 60, 10, b)
    work(REDUCE, 39, 60, 15, a)  # waits for b for 10 ms, then takes 5
    work(REDUCE, 39, 70, 5, b)
    work("Memset (Device)", 39, 75, 1, a, Kind.MEMSET)
    work("gemm", 76, 76, 4, b)  # a has ended by then; 1 ms late
    return events


def test_a_copy_by_a_kernel_of_amds_runtime_is_no_computation_and_no_wait_for_the_host() -> None:
    """It runs on the compute units, and its name does not tell between which memories it copies."""
    events = Events()
    for at, name in enumerate(("gemm", "__amd_rocclr_copyBuffer", "__amd_rocclr_fillBufferAligned", "gemm")):
        events.launched(name, at * MS, at * MS, MS, gpu())
    found = analyze_timeline(events.timeline())
    assert (found.gpus[0].compute_ns, found.gpus[0].exposed_copy_ns) == (2 * MS, 2 * MS)
    assert ms(broken_down(events.timeline())) == {"working.other": 4}


def test_each_part_of_the_time_is_booked_once_where_it_belongs() -> None:
    found = broken_down(one_of_each().timeline())
    assert found.gpu_seconds == pytest.approx(0.2)
    assert ms(found) == {
        "working.other": pytest.approx(10 + 9.98 + 2 + 20 + 1 + 10 + 6 + 2 + 10 + 4),
        "communication.transferring": pytest.approx(10),
        "communication.waiting": pytest.approx(10),
        "idle.between_kernels": pytest.approx(0.02),
        "idle.imbalance": pytest.approx(20 + 4),  # b while a works; a after its last work, while b works
        "idle.input_output": pytest.approx(5),
        "idle.copies": pytest.approx(8),
        "idle.host": pytest.approx(4 + 3 + 1),
        "startup": pytest.approx(20),
        "end": pytest.approx(40),
    }
    assert found.nodes == ("n1",)
    by_branch = {each.branch: found.confidence[at] for at, each in enumerate(CATEGORIES)}
    assert by_branch.pop("communication") == "inferred" and set(by_branch.values()) == {"measured"}


def test_ranks_in_files_of_their_own_are_compared_if_their_clocks_can_be() -> None:
    def rank(number: int, begin: int, unix_ns: int | None) -> Timeline:
        events, own = Events(), gpu(number, 0)
        events.add(Kind.KERNEL, "gemm", begin, 10 * MS - begin, own).add(
            Kind.KERNEL, REDUCE, 10 * MS + number * 5 * MS, 10 * MS - number * 5 * MS, own
        )
        return events.timeline(unix_ns)

    both = combined([analyze_timeline(rank(0, 0, 10**18)), analyze_timeline(rank(1, 0, 10**18))])
    assert both.breakdown is not None
    assert both.breakdown.by_gpu[:, 7].tolist() == pytest.approx([5e-3, 0])
    assert both.breakdown.confidence[7] == "inferred" and both.breakdown.known_by(7) == "matched by name"
    # Before a file begins and after it ends its GPU was not measured.
    later = combined([analyze_timeline(rank(0, 0, 10**18)), analyze_timeline(rank(1, 0, 10**18 + 3 * MS))])
    assert later.breakdown is not None and later.breakdown.share("unmeasured") == pytest.approx(6 / 46)
    apart = combined([analyze_timeline(rank(0, 0, None)), analyze_timeline(rank(1, 0, None))])
    assert apart.breakdown is not None
    assert apart.breakdown.share("communication.waiting") == 0 and apart.breakdown.confidence[7] == "guess"


def test_collectives_of_which_gpus_ran_different_numbers_are_not_matched() -> None:
    events = Events()
    for number in range(2):
        events.add(Kind.KERNEL, REDUCE, number * 5 * MS, 10 * MS - number * 5 * MS, gpu(0, number))
    events.add(Kind.KERNEL, REDUCE, 20 * MS, MS, gpu(0, 0))
    assert broken_down(events.timeline()).share("communication.waiting") == 0


def test_a_gpu_without_work_in_the_window_is_unused() -> None:
    events = Events().add(Kind.KERNEL, "gemm", 0, 10 * MS, gpu(0, 0)).add(Kind.KERNEL, "gemm", 20 * MS, MS, gpu(0, 1))
    found = broken_down(events.timeline(), (0, 10 * MS))
    assert ms(found) == {"working.other": 10.0, "unused": 10.0}


UNIT = 10_000
pieces_of_work = st.tuples(
    st.integers(0, 400), st.integers(0, 60), st.integers(0, 5), st.integers(0, 2), st.integers(0, 90)
)
waits = st.tuples(st.integers(0, 450), st.integers(1, 80), st.integers(0, 3))
NAMES = (
    ("gemm", Kind.KERNEL), (REDUCE, Kind.KERNEL), ("Memcpy DtoH", Kind.MEMCPY), ("Memset (Device)", Kind.MEMSET),
    ("Memcpy PtoP", Kind.MEMCPY), ("ncclDevKernel_SendRecv", Kind.KERNEL),
)  # fmt: skip
HOST = (
    ("cudaDeviceSynchronize", Kind.RUNTIME), ("DataLoader.next", Kind.RANGE), ("read", Kind.OS), ("MPI_Wait", Kind.RANGE)
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(pieces_of_work, min_size=1, max_size=14), st.lists(waits, max_size=5), st.integers(-1, 300))
def test_of_any_trace_the_shares_add_up(
    work: list[tuple[int, int, int, int, int]], host: list[tuple[int, int, int]], begin: int
) -> None:
    """Against what is counted unit by unit: when a kernel of any sort runs, and which."""
    events = Events()
    for start, length, sort, stream, ahead in work:
        name, kind = NAMES[sort]
        events.launched(name, (start - ahead) * UNIT, start * UNIT, length * UNIT, gpu(device=stream % 2, stream=stream),
                        kind=kind)  # fmt: skip
    for start, length, sort in host:
        name, kind = HOST[sort]
        events.add(kind, name, start * UNIT, length * UNIT)
    timeline = events.timeline()
    first = int(timeline.intervals.start.min()) // UNIT
    last = int((timeline.intervals.start + timeline.intervals.length).max()) / UNIT
    window = None if begin < 0 else (begin * UNIT, (begin + 200) * UNIT)
    found = broken_down(timeline, window)
    low, high = (first, last) if window is None else (begin, begin + 200)
    n_gpus = len({stream % 2 for *_, stream, _ in work})
    assert found.by_gpu.min() >= 0 and found.over_time.min() >= -1e-12
    assert found.by_gpu.sum(axis=1) == pytest.approx(np.full(n_gpus, (high - low) * UNIT / 1e9))
    assert found.shares.sum() == pytest.approx(1, abs=1e-9)
    assert found.over_time.sum(axis=0) == pytest.approx(found.by_gpu.sum(axis=0), abs=1e-9)
    computes, communicates = np.zeros((2, 700), bool), np.zeros((2, 700), bool)
    for start, length, sort, stream, _ in work:
        grid = {0: computes, 1: communicates, 3: computes, 4: communicates, 5: communicates}.get(sort)
        if grid is not None:
            grid[stream % 2, max(start, int(low)) : max(min(start + length, int(np.ceil(high))), 0)] = True
    assert found.by_gpu[:, :6].sum() == pytest.approx(computes.sum() * UNIT / 1e9, abs=1e-9)
    assert found.by_gpu[:, 6:8].sum() == pytest.approx((communicates & ~computes).sum() * UNIT / 1e9, abs=1e-9)


def test_copies_at_the_end_are_not_said_to_be_after_all_work() -> None:
    """As those by which unified memory returns results: the last kernel has ended, and other work has not."""
    events = Events().launched("gemm", 0, MS, 9 * MS).add(Kind.MEMCPY, "Memcpy unified DtoH", 19 * MS, MS)
    trace = analyze_timeline(events.timeline())
    page = "\n".join("".join(span.text for span in row) for row in trace_page(trace, PageOptions(100, False, "high")))
    assert "50.0 % is after the last kernel" in page and "after the last work" not in page
    copies = (
        Events().add(Kind.CPU_OP, "import", 0, 10 * MS).launched("Memcpy HtoD", 9 * MS, 10 * MS, MS, kind=Kind.MEMCPY)
    )
    assert broken_down(copies.timeline()).label(POSITIONS["startup"]) == "before the first copy"


def test_the_page_begins_with_it_and_the_object_has_it() -> None:
    trace = analyze_timeline(one_of_each().timeline())
    lines = ["".join(span.text for span in row) for row in trace_page(trace, PageOptions(100, False, "medium"))]
    at = next(place for place, line in enumerate(lines) if "Where the GPU time goes" in line)
    assert lines[at + 1] == "37.5 % of the GPU time is spent computing; 20.0 % is after the last kernel."
    assert len(lines[at + 2]) == 100 and at < next(n for n, line in enumerate(lines) if "How well used?" in line)
    found = json.loads("".join(json_pieces(trace)))["breakdown"]
    assert sum(each["share"] for each in found["categories"]) == pytest.approx(1)
    assert found["resolution_s"] == 0 and found["efficiency"]["parallel"] == pytest.approx(0.375, abs=0.001)
    spans = next(each["spans"] for each in found["categories"] if each["name"] == "startup")
    assert spans == [[0, pytest.approx(0.01, abs=2e-4)]]
    as_hta = analyze_timeline(one_of_each().timeline(), like_hta=True)
    assert json.loads("".join(json_pieces(as_hta)))["breakdown"] is None
