"""What follows from intervals: queues, bandwidth of copies, sequences of kernels, and what CUPTI counted by operator; each
beside a count by hand."""

import json
from collections import Counter as Count
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from timelines import CPU, Events, gpu

from gssr.model.traces.analyze_trace import analyze_timeline, combined
from gssr.model.traces.derived_counters import derived_counters
from gssr.model.traces.launches import links_of
from gssr.model.traces.part import part_of
from gssr.model.traces.tables import rows_of
from gssr.traces.timeline import BUSY, CountedKernel, Counter, Kind, Timeline


def counters(timeline: Timeline) -> dict[str, Counter]:
    part = part_of(timeline)
    return {each.name: each for each in derived_counters(part, links_of(part, part.rows(*BUSY)))}


launch = st.tuples(st.integers(0, 50), st.integers(0, 60), st.integers(1, 20), st.integers(7, 8))


@given(st.lists(launch, min_size=1, max_size=20))
def test_a_queue_holds_what_was_launched_and_has_not_begun(launches: list[tuple[int, int, int, int]]) -> None:
    events = Events()
    for call, delay, length, stream in launches:
        events.launched("k", call, call + delay, length, gpu(stream=stream), took=1)
    for name, found in counters(events.timeline()).items():
        stream = int(name.rpartition(" ")[2])
        for time, value in zip(found.time.tolist(), found.value.tolist(), strict=True):
            assert value == sum(one == stream and call <= time < call + delay for call, delay, _, one in launches)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 10**9)), min_size=1, max_size=20))
def test_bandwidths_of_copies_that_run_at_one_time_add_up(copies: list[tuple[int, int, int]]) -> None:
    events = Events()
    for at, length, size in copies:
        events.launched("Memcpy HtoD", at, at, length, kind=Kind.MEMCPY, size=size)
    events.launched("Memcpy HtoD", 0, 0, 5, kind=Kind.MEMCPY)  # of unknown size
    found = counters(events.timeline())["bandwidth, HtoD"]
    for time, value in zip(found.time.tolist(), found.value.tolist(), strict=True):
        running = [size / length * 1e9 for at, length, size in copies if at <= time < at + length]
        assert abs(value - sum(running)) <= 1e-6 * sum(size / length * 1e9 for _, length, size in copies)
        assert running or value == 0


def test_they_are_in_the_table_of_counters() -> None:
    events = Events().launched("k", 0, 10, 5).launched("k", 2, 20, 5)
    _, rows = rows_of("counters", analyze_timeline(events.timeline()))
    ((name, unit, _, _, n, mean, least, most, last, at, place),) = rows
    assert (name, unit, n, least, most, last, at, place) == ("queue length, stream 7", "", 4, 0, 2, 0, 2, "n1:0")
    assert mean == (2 * 1 + 8 * 2 + 10 * 1) / 20


calls = st.lists(
    st.tuples(st.sampled_from("xy"), st.lists(st.sampled_from("abc"), max_size=3)), min_size=1, max_size=12
)


@given(calls)
def test_sequences_are_those_that_operators_launched_more_than_once(made: list[tuple[str, list[str]]]) -> None:
    events = Events()
    for at, (operator, kernels) in enumerate(made):
        events.add(Kind.CPU_OP, operator, 100 * at, 90, CPU).add(Kind.CPU_OP, "inner", 100 * at + 1, 80, CPU)
        for number, name in enumerate(kernels):
            events.launched(name, 100 * at + 10 * number + 5, 5_000 + 1000 * at + 100 * number, 7, took=2)
    expected = Count((operator, tuple(kernels)) for operator, kernels in made if len(kernels) > 1)
    trace = analyze_timeline(events.timeline())
    found = {(each.operator, each.kernels): (each.n, each.gpu_ns) for each in trace.sequences}
    assert found == {key: (n, n * 7 * len(key[1])) for key, n in expected.items() if n > 1}
    twice = combined([trace, trace]).sequences
    assert {each.n for each in twice} == {2 * each.n for each in trace.sequences}
    _, rows = rows_of("kernel_sequences", trace)
    assert [(row[0], tuple(json.loads(row[4]))) for row in rows] == [each[:2] for each in trace.sequences]


def counted(made: list[tuple[str, str, int]], launches: int | None = None) -> Timeline:
    """Kernels by their operator, name and what was counted in each."""
    events = Events()
    for at, (operator, _, _) in enumerate(made):
        events.add(Kind.CPU_OP, "aten::outer", 100 * at, 90, CPU).add(Kind.CPU_OP, operator, 100 * at + 1, 80, CPU)
        if launches is None or at < launches:
            events.add(Kind.RUNTIME, "cudaLaunchKernel", 100 * at + 10, 5, CPU)
        events.add(Kind.RUNTIME, "cudaLaunchHostFunc", 100 * at + 20, 5, CPU)
    found = tuple(CountedKernel(kernel, 0, {"inst.sum": n, "pct": n / 2}) for _, kernel, n in made)
    return replace(events.timeline(), counted=found)


made = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["k", "l"]), st.integers(0, 3)), min_size=1, max_size=12
)


@given(made)
def test_counters_are_those_of_the_operators_that_launched_the_kernels(made: list[tuple[str, str, int]]) -> None:
    trace = analyze_timeline(counted(made))
    expected: dict[tuple[str, str, str], list[float]] = {}
    for operator, kernel, n in made:
        for counter, value in (("inst.sum", n), ("pct", n / 2)):
            expected.setdefault((operator, kernel, counter), []).append(value)
    _, rows = rows_of("operator_counters", combined([trace, trace]))
    assert {(row[0], *row[2:4]): row[4:] for row in rows} == {
        key: (2 * len(values), 2 * sum(values), sum(values) / len(values), min(values), max(values))
        for key, values in expected.items()
    }
    assert {each.outermost for each in trace.operator_counters} == {"aten::outer"}
    some = analyze_timeline(counted(made), (0, 100)).operator_counters  # what the first operator launched
    assert {each[:5] for each in some} == {
        (made[0][0], "aten::outer", made[0][1], name, 1) for name in ("inst.sum", "pct")
    }


def test_operators_are_unknown_where_kernels_and_launches_do_not_pair() -> None:
    timeline = counted([("x", "k", 1), ("y", "k", 2)], launches=1)
    assert [each[:6] for each in analyze_timeline(timeline).operator_counters] == [
        (None, None, "k", "inst.sum", 2, 3), (None, None, "k", "pct", 2, 1.5)
    ]  # fmt: skip
    assert analyze_timeline(timeline, (0, 50)).operator_counters == ()
