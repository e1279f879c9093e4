"""The call tree of what lies within what on threads, and what is made of any tree."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from timelines import CPU, Events

from gssr.model.traces.analyze_trace import analyze_timeline, analyze_timelines
from gssr.model.traces.call_tree import TIME, VISITS, CallTree, flat_profile, hot_path, spread, together, tree_of
from gssr.model.traces.part import part_of
from gssr.traces.timeline import Kind, Timeline, Track


def step(events: Events, thread: Track = CPU, work: int = 40) -> Events:
    events.add(Kind.RANGE, "step", 0, 100, thread)
    events.add(Kind.CPU_OP, "load", 0, 30, thread)
    events.add(Kind.CPU_OP, "mm", 30, work, thread)
    events.add(Kind.RUNTIME, "cudaLaunchKernel", 35, 5, thread)
    return events.add(Kind.RUNTIME, "cudaLaunchKernel", 45, 10, thread)


def of(timeline: Timeline, window: tuple[int, int] | None = None) -> CallTree:
    found = tree_of(part_of(timeline, window))
    assert found is not None
    return found


def paths(tree: CallTree) -> dict[tuple[str, ...], int]:
    found: list[tuple[str, ...]] = []
    for name, above in zip(tree.names, tree.parent.tolist(), strict=True):
        found.append((*(found[above] if above >= 0 else ()), name))
    return {path: at for at, path in enumerate(found)}


def numbers(tree: CallTree) -> dict[tuple[str, ...], tuple[float, float, float]]:
    time, visits = tree.values(TIME), tree.values(VISITS).exclusive
    return {
        path: (time.inclusive[at].sum(), time.exclusive[at].sum(), visits[at].sum()) for path, at in paths(tree).items()
    }


def test_a_thread_is_a_tree_by_what_lies_within_what() -> None:
    events = step(Events())
    events.add(Kind.KERNEL, "gemm", 50, 30, link=1)  # a GPU's work is no call
    assert numbers(of(events.timeline())) == {
        ("step",): (100, 30, 1), ("step", "load"): (30, 30, 1), ("step", "mm"): (40, 25, 1),
        ("step", "mm", "cudaLaunchKernel"): (15, 15, 2),
    }  # fmt: skip
    assert numbers(of(events.timeline(), (20, 50)))[("step", "mm")] == (20, 10, 1)
    assert [of(events.timeline()).names[at] for at in hot_path(of(events.timeline()))] == ["step", "mm"]


def test_steps_are_one_call_whatever_their_numbers() -> None:
    ranks = [CPU._replace(rank=rank, source=0) for rank in range(2)]
    timelines = []
    for rank in ranks:
        events = Events()
        for number in range(1, 12):
            events.add(Kind.RANGE, f"ProfilerStep#{number}", 100 * number, 90, rank)
            events.add(Kind.CPU_OP, "mm", 100 * number, 60, rank)
            events.add(Kind.RANGE, f"layer {number}", 100 * number + 70, 5, rank)
        timelines.append(events.add(Kind.CPU_OP, "save", 2000, 500, rank).timeline())
    tree = analyze_timelines(timelines, tables=["calltree"]).tree
    assert tree is not None
    assert numbers(tree)[("ProfilerStep",)] == (2 * 11 * 90, 2 * 11 * 25, 2 * 11)
    assert ("ProfilerStep", "layer 3") in paths(tree), "other ranges keep their numbers"
    assert [tree.names[at] for at in hot_path(tree)] == ["ProfilerStep", "mm"]


def test_steps_are_not_in_the_way_of_the_lines_of_python() -> None:
    events = Events()
    events.add(Kind.PYTHON, "train.py(1): <module>", 0, 400)
    for at in (0, 100, 200):  # each step begins within the call that ends the one before
        events.add(Kind.PYTHON, "train.py(7): load", at + 10, 60)
        events.add(Kind.PYTHON, "profiler.py: step", at + 80, 20)
        events.add(Kind.RANGE, f"ProfilerStep#{at}", at + 95, 90)
    tree = analyze_timelines([events.timeline()], tables=["calltree"]).tree
    assert tree is not None and [tree.names[at] for at in hot_path(tree)] == [
        "train.py(1): <module>",
        "train.py(7): load",
    ]
    assert numbers(tree)[("train.py(1): <module>",)] == (400, 160, 1)


def test_ranks_are_put_together_by_path_whether_in_one_timeline_or_in_many() -> None:
    ranks = [CPU._replace(rank=rank, source=0) for rank in range(3)]
    alone = [step(Events(), rank, 40 + 10 * at).timeline() for at, rank in enumerate(ranks)]
    alone[1] = step(Events(), ranks[1], 50).add(Kind.CPU_OP, "only here", 200, 7, ranks[1]).timeline()
    joined = Events()
    for at, rank in enumerate(ranks):
        step(joined, rank, 40 + 10 * at)
    whole, parts = of(joined.add(Kind.CPU_OP, "only here", 200, 7, ranks[1]).timeline()), together([*map(of, alone)])
    assert numbers(whole) == numbers(parts)
    for tree in (whole, parts):
        mm, names = paths(tree)[("step", "mm")], [tree.called(place) for place in range(3)]
        assert names == ["rank 0", "rank 1", "rank 2"]
        assert tree.values(TIME).inclusive[mm].tolist() == [40, 50, 60]
        assert tree.values(VISITS).exclusive[paths(tree)[("only here",)]].tolist() == [0, 1, 0]
    found = analyze_timelines(alone, tables=["calltree"]).tree
    assert found is not None and numbers(found) == numbers(whole)


def test_it_is_made_where_it_is_asked_for_or_nothing_else_is_there() -> None:
    events = step(Events())
    assert analyze_timeline(events.timeline(), tables=["verdicts"]).tree is not None
    assert analyze_timeline(events.timeline(), tables=["kernels"]).tree is None
    events.add(Kind.KERNEL, "gemm", 50, 30, link=1)
    assert analyze_timeline(events.timeline(), tables=["verdicts"]).tree is None
    assert analyze_timeline(events.timeline()).tree is not None


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 3), st.sampled_from("ab")), min_size=1)
)
def test_own_times_add_up_to_those_of_the_roots(rows: list[tuple[int, int, int, str]]) -> None:
    events = Events()
    for start, length, thread, name in rows:
        events.add(Kind.CPU_OP, name, start, length, CPU._replace(tid=thread))
    tree = of(events.timeline())
    time, visits = tree.values(TIME), tree.values(VISITS)
    assert visits.exclusive.sum() == len(rows) and (tree.parent < np.arange(len(tree))).all()
    if np.isfinite(time.exclusive).all():  # nothing ends behind what it began in
        assert time.exclusive.sum() == time.inclusive[tree.depth == 0].sum()
        flat = flat_profile(tree)
        own = flat.values(TIME)
        assert own.exclusive.sum() == time.exclusive.sum() and flat.values(VISITS).exclusive.sum() == len(rows)
        assert (own.inclusive >= own.exclusive - 1e-9).all()


def test_what_calls_itself_counts_once() -> None:
    events = Events()
    for depth in range(5):
        events.add(Kind.CPU_OP, "fib", depth, 100 - 2 * depth)
    found = flat_profile(of(events.timeline()))
    inclusive, visits = found.values(TIME).inclusive, found.values(VISITS).exclusive
    assert (found.names, inclusive.tolist(), visits.tolist()) == (("fib",), [[100.0]], [[5.0]])


def test_what_is_not_known_is_in_no_spread() -> None:
    found = spread(np.array([[1.0, 3.0, np.nan], [np.nan] * 3, [0.0, 0.0, 0.0]]))
    assert found.mean[0] == 2 and found.least[0] == 1 and found.greatest[0] == 3 and found.most.tolist() == [1, -1, 0]
    assert np.isnan(found.total[:2]).all() and found.imbalance[0] == 1 - 2 / 3 and np.isnan(found.imbalance[1])
    assert found.imbalance[2] == 0 and found.total[2] == 0
