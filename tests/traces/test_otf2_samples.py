"""Samples of call paths beside traced calls: paths without lines, frames until the next event, counts by function."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otf2_archives import sampled_archive

from gssr.model.traces.analyze_trace import analyze_timeline, combined
from gssr.model.traces.levels import levels_of
from gssr.model.traces.part import part_of
from gssr.render.roles import text_of
from gssr.report.live.call_tables import tables_of
from gssr.report.page import PageOptions
from gssr.report.trace import trace_page
from gssr.traces.join import join
from gssr.traces.otf2 import archive
from gssr.traces.otf2.archive import read_otf2
from gssr.traces.otf2.samples import CallPaths, call_paths, frames
from gssr.traces.timeline import Category, Kind, Timeline, TraceError

_US, NONE = 1000, (1 << 32) - 1
COUNTS = {
    "compute": (5, 5), "main": (2, 13), "kernel": (2, 2), "poll": (2, 2), "solve": (1, 6), "progress": (1, 3),
    "MPI_Wait": (0, 3),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sampled_archive(tmp_path_factory.mktemp("sampled") / "scorep")


@pytest.fixture(scope="module")
def timeline(folder: Path) -> Timeline:
    return read_otf2(str(folder))


def drawn(timeline: Timeline) -> set[tuple[str, str, int, int, str]]:
    own = timeline.intervals
    rows = np.flatnonzero(own.kind == Kind.SAMPLED).tolist()
    return {
        (
            timeline.tracks[own.track[at]].name, timeline.names[own.name[at]], int(own.start[at]) // _US,
            int(own.start[at] + own.length[at]) // _US, Category(int(own.category[at])).name,
        )
        for at in rows
    }  # fmt: skip


def counted(timeline: Timeline, window: tuple[int, int] | None = None) -> dict[str, tuple[int, int]]:
    found = analyze_timeline(timeline, window).sampled_functions
    return {each.name: (each.exclusive, each.inclusive) for each in found}


def test_a_sample_is_drawn_within_the_traced_call_until_the_next_event(timeline: Timeline) -> None:
    assert drawn(timeline) == {
        ("first", "main", 0, 10, "RANGE"), ("first", "main", 80, 80, "RANGE"),
        ("second", "progress", 10, 40, "COMMUNICATION"), ("second", "poll", 10, 30, "COMMUNICATION"),
        ("second", "main", 50, 80, "RANGE"), ("second", "solve", 50, 80, "RANGE"), ("second", "kernel", 60, 80, "RANGE"),
    }  # fmt: skip
    own = timeline.intervals
    traced = [timeline.names[name] for name in own.name[own.kind != Kind.SAMPLED].tolist()]
    assert sorted(traced) == ["MPI_Wait", "MPI_Wait", "compute"]


def test_samples_count_by_function_with_and_without_what_it_called(timeline: Timeline) -> None:
    assert counted(timeline) == COUNTS
    assert counted(timeline, (10 * _US, 30 * _US)) == {
        "compute": (1, 1), "poll": (2, 2), "main": (0, 3), "solve": (0, 2), "progress": (0, 2), "MPI_Wait": (0, 2)
    }  # fmt: skip
    trace = analyze_timeline(timeline)
    twice = combined([trace, trace]).sampled_functions
    assert {each.name: (each.exclusive, each.inclusive) for each in twice} == {
        name: (2 * own, 2 * all_) for name, (own, all_) in COUNTS.items()
    }
    assert counted(join([timeline, timeline])) == {name: (2 * own, 2 * all_) for name, (own, all_) in COUNTS.items()}


def test_what_is_traced_takes_as_long_as_without_samples(timeline: Timeline) -> None:
    trace = analyze_timeline(timeline)
    assert trace.tree is not None and set(trace.tree.names) == {"compute", "MPI_Wait"}
    total, time = levels_of(part_of(timeline))["threads"].values("communication", None, 2, 0, 90 * _US, 1)
    assert total[:, 0].tolist() == [0, 50 * _US] and time[1, 0] == 90 * _US


def test_page_and_screen_show_the_functions(timeline: Timeline) -> None:
    trace = analyze_timeline(timeline)
    page = "\n".join(map(text_of, trace_page(trace, PageOptions(80, False, "medium"))))
    assert "What did samples find?" in page and "13 samples of all threads" in page
    assert "main          100.0   15.4       2" in page
    table = tables_of(trace)["sampled_functions"]
    assert dict(zip(table["name"], zip(table["exclusive"], table["inclusive"], strict=True), strict=True)) == COUNTS


def test_only_a_window_is_drawn_and_too_many_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = read_otf2(str(folder), window=(52 * _US, 65 * _US))
    assert part.samples is not None and part.samples.time.tolist() == [60 * _US, 60 * _US]
    assert {row[1] for row in drawn(part)} == {"main", "solve", "kernel"}
    monkeypatch.setattr(archive, "MOST_FRAMES", 6)
    with pytest.raises(
        TraceError, match=r"its samples found functions \d+ times, more than fit at once \(6\): choose ranks"
    ):
        read_otf2(str(folder))


def test_contexts_that_call_themselves_or_nobody_knows_count_as_not_defined() -> None:
    rows = [(7, 1, 0, NONE), (8, 2, 0, 7), (9, 1, 1, NONE), (10, 2, 5, 9), (3, 1, 0, 4), (4, 2, 0, 3), (5, 2, 0, 99)]
    paths = call_paths(rows)
    first, inner, again, deeper, loop, unknown, of_nobody = paths.find_paths(np.array([7, 8, 9, 10, 3, 6, 5])).tolist()
    assert (first, inner) == (again, deeper) and paths.parent[inner] == first
    assert (loop, unknown) == (-1, -1) and paths.parent[of_nobody] == -1
    chain = [(at, 1, 0, at - 1 if at else NONE) for at in range(1_000)]
    deep = call_paths(chain)
    assert deep.depth.max() == 128 and deep.find_paths(np.array([999])).tolist() == [-1]
    assert call_paths([]).find_paths(np.array([1])).tolist() == [-1]


stacks = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.booleans()), min_size=1, max_size=12
)


@given(stacks, st.integers(-1, 2))
def test_frames_are_what_consecutive_stacks_have_in_common(samples: list[tuple[list[int], bool]], traced: int) -> None:
    """Against stacks that are compared one with the next, from the outermost function on."""
    numbers: dict[tuple[int, ...], int] = {}
    rows = []
    for stack, _ in samples:
        for depth in range(1, len(stack) + 1):
            key = tuple(stack[:depth])
            if key not in numbers:
                numbers[key] = len(numbers)
                rows.append((numbers[key], key[-1], 0, numbers.get(key[:-1], NONE)))
    paths = call_paths(rows)
    expected: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    open_: dict[tuple[int, ...], int] = {}
    for at, (stack, follows) in enumerate([*samples, ([], False)]):
        inside = max((depth for depth, region in enumerate(stack) if region == traced), default=-1) + 1
        now = {tuple(stack[:depth]) for depth in range(inside + 1, len(stack) + 1)}
        for key in [key for key in open_ if key not in now or not follows]:
            expected[open_.pop(key), at - 1, key] += 1
        for key in now - open_.keys():
            open_[key] = at
    path = paths.find_paths(np.array([numbers[tuple(stack)] for stack, _ in samples]))
    goes_on = np.array([follows for _, follows in samples])
    goes_on[0] = False
    found = np.concatenate(list(frames(paths, path, goes_on, np.full(len(samples), traced))), axis=1)
    names = {
        int(path): key for key, path in zip(numbers, paths.find_paths(np.array(list(numbers.values()))), strict=True)
    }
    assert Counter((first, last, names[path]) for first, last, path in found.T.tolist()) == expected


def test_frames_of_nothing_are_none() -> None:
    none = np.empty(0, np.int64)
    assert list(frames(CallPaths(*(none,) * 5), none, none.astype(bool), none)) == []
