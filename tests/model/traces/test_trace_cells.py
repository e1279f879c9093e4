"""Shares of time in any columns, against counting every nanosecond by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.gpu_name import gpu_label
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.cells import ByOwner, cells, in_order
from gssr.model.traces.levels import levels_of
from gssr.model.traces.nesting import lanes, nesting
from gssr.model.traces.part import part_of
from gssr.model.traces.trace_selection import tracks_of
from gssr.traces.open import open_traces
from gssr.traces.timeline import Category, Counter, Kind, Timeline, Track

sys.path.insert(0, str(Path(__file__).parents[2] / "tui"))
from tests.fakes.training import Made, training

N_OWNERS, TIME = 3, 60
SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
spans = st.lists(st.tuples(st.integers(0, TIME), st.integers(0, 30), st.integers(0, N_OWNERS - 1)), max_size=25)


def covered(intervals: list[tuple[int, int, int]]) -> np.ndarray:
    """[owners, ns]: whether each nanosecond is covered."""
    found = np.zeros((N_OWNERS, TIME + 31), bool)
    for start, length, owner in intervals:
        found[owner, start : start + length] = True
    return found


@given(spans, st.integers(-5, 70), st.integers(1, 20), st.integers(1, 9))
def test_a_union_fills_columns_as_its_nanoseconds_do(
    intervals: list[tuple[int, int, int]], begin: int, width: int, n: int
) -> None:
    start, length, owner = np.array(sorted(intervals), np.int64).reshape(-1, 3).T
    pieces = ByOwner(start, length, owner.astype(np.int32), N_OWNERS).union()
    found = cells(pieces, None, N_OWNERS, begin, width, n)
    assert np.array_equal(found, cells(pieces.in_time(), None, N_OWNERS, begin, width, n))
    every = covered(intervals)
    for line in range(N_OWNERS):
        for column in range(n):
            low, high = begin + column * width, begin + (column + 1) * width
            assert found[line, column] == every[line, max(low, 0) : max(high, 0)].sum()


@given(spans)
def test_lines_hold_what_their_owners_do_and_columns_add_up(intervals: list[tuple[int, int, int]]) -> None:
    start, length, owner = np.array(sorted(intervals), np.int64).reshape(-1, 3).T
    pieces = ByOwner(start, length, owner.astype(np.int32), N_OWNERS).union()
    each = cells(pieces, None, N_OWNERS, 0, 7, 13)
    some = cells(pieces, np.array([1, -1, 1]), 2, 0, 7, 13)
    assert np.array_equal(some[1], each[0] + each[2])
    assert not some[0].any()
    assert each.sum() == covered(intervals).sum()


def test_far_owners_of_long_traces_do_not_overflow() -> None:
    day, n = 86_400 * 10**9, 150_000
    owner = np.array([0, n - 1, n - 1], np.int32)
    start = np.array([0, day, day + 5], np.int64)
    found = ByOwner(start, np.full(3, 10), owner, n).union()
    assert found.end.tolist() == [10, day + 15]
    assert found.owner.tolist() == [0, n - 1]


def nested() -> Timeline:
    made = Made()
    thread = made.track(Track("cpu_thread", "main", 0, None, 1, 1))
    made.add(thread, "step", Kind.RANGE, Category.RANGE, 0, 100)
    made.add(thread, "load", Kind.CPU_OP, Category.IO, 10, 30)
    made.add(thread, "read", Kind.OS, Category.IO, 15, 5)
    made.add(thread, "wait", Kind.RUNTIME, Category.SYNC, 20, 10)
    made.add(thread, "launch", Kind.RUNTIME, Category.LAUNCH, 50, 10)
    return made.timeline()


def test_the_innermost_interval_has_a_threads_time() -> None:
    level = levels_of(part_of(nested()))["threads"]
    split = level.split(None, 1, 0, 100, 1)[0][0, 0] / 100
    assert {Category(at).name: round(share, 6) for at, share in enumerate(split) if share} == {
        "RANGE": 0.6, "IO": 0.2, "SYNC": 0.1, "LAUNCH": 0.1,
    }  # fmt: skip
    assert level.split(None, 1, 0, 10, 10)[0].sum(axis=2).tolist() == [[10.0] * 10]


def test_levels_of_nesting_and_what_lies_within_what() -> None:
    own = nested().intervals
    depth, parent = nesting(own.start, own.length, own.track)
    assert depth.tolist() == [0, 1, 2, 2, 1]
    assert parent.tolist() == [-1, 0, 1, 1, 0]


def test_a_track_is_drawn_level_by_level() -> None:
    own = nested().intervals
    found = lanes(own.start, own.length, own.track, np.array([True]), 0, 10, 10)
    assert found.item.tolist() == [
        [0] * 10, [-1, 1, 1, 1, -1, 4, -1, -1, -1, -1], [-1, 2, 3, -1, -1, -1, -1, -1, -1, -1],
    ]  # fmt: skip
    assert found.share[2].tolist() == [0, 0.5, 1, 0, 0, 0, 0, 0, 0, 0]


def test_a_gpus_split_adds_up_whatever_overlaps() -> None:
    timeline = training(2)
    level = levels_of(part_of(timeline))["gpus"]
    begin, end = 0, 2 * 40_000_000
    means = level.means(begin, end)
    shares = {name: means.per_gpu(name) for name in means.names}
    added = shares["compute"] + shares["exposed_communication"] + shares["exposed_copy"] + shares["idle"]
    assert np.allclose(added, 1.0, atol=1e-12)
    overlapped = shares["communication"] - shares["exposed_communication"]
    assert np.allclose(shares["overlap"], overlapped / shares["communication"])
    split, time = level.split(None, 2, begin, 1_000_000, 80)
    assert (split.sum(axis=2) <= time).all()
    assert split.sum() == pytest.approx(shares["busy"] @ means.n[0])
    assert "waiting" not in means.names


WORK = ((Kind.KERNEL, Category.COMPUTE), (Kind.KERNEL, Category.COMMUNICATION), (Kind.MEMCPY, Category.COPY),
        (Kind.GPU_SYNC, Category.SYNC))  # fmt: skip
works = st.lists(
    st.tuples(st.integers(0, TIME), st.integers(0, 30), st.integers(0, 1), st.integers(0, 1), st.integers(0, 3)),
    min_size=1, max_size=20,
)  # fmt: skip


@given(works, st.integers(-5, 70), st.integers(1, 20), st.integers(1, 5))
def test_of_any_work_and_waits_the_split_adds_up_nanosecond_by_nanosecond(
    found: list[tuple[int, int, int, int, int]], begin: int, width: int, n: int
) -> None:
    made = Made()
    streams = [made.track(Track("gpu_stream", "s", 0, device=at // 2, stream=at % 2)) for at in range(4)]
    for start, length, device, stream, what in found:
        made.add(streams[2 * device + stream], str(what), *WORK[what], start, length)
    level = levels_of(part_of(made.timeline()))["gpus"]
    of_kind = [[(row[0], row[1], row[2]) for row in found if row[4] == what] for what in range(4)]
    compute, communication, copy, sync = (covered(rows) for rows in of_kind)
    busy = compute | communication | copy
    worked = [row for row in found if row[4] < 3 and row[1] > 0]
    job = np.zeros(TIME + 31, bool)
    if worked:
        job[min(row[0] for row in worked) : max(row[0] + row[1] for row in worked)] = True
    expected = [compute, communication & ~compute, copy & ~compute & ~communication, sync & ~busy & job]
    split, time = level.split(None, 2, begin, width, n)
    for column in range(n):
        part = slice(max(begin + column * width, 0), max(begin + (column + 1) * width, 0))
        for line in range(2):
            assert time[line, column] == job[part].sum()
            own = [each[line, part].sum() for each in expected]
            assert split[line, column, :4].tolist() == own and sum(own) <= time[line, column]
    means = level.means(0, TIME + 31)
    if worked:
        shares = means.overall()
        parts = (shares.get(name) or 0.0 for name in ("compute", "exposed_communication", "exposed_copy", "idle"))
        assert sum(parts) == pytest.approx(1.0)


def test_streams_are_apart_and_a_name_is_a_metric() -> None:
    timeline = training(2)
    levels = levels_of(part_of(timeline))
    assert [len(level.gpus) for level in levels.values()] == [2, 4, 2, 2]
    total, time = levels["gpus"].values("name:ncclDevKernel_AllGather_RING_LL", None, 2, 0, 80_000_000, 1)
    assert total.tolist() == [[8_000_000.0]] * 2
    assert (time > 0).all()


@pytest.mark.parametrize(
    ("mode", "expected"), [("gauge", [1.0, 2.0, 4.0]), ("rate", [2.0, 4.0, None]), ("total", [1e8, 2e8, None])]
)
def test_counters_over_time(mode: str, expected: list[float | None]) -> None:
    made = Made()
    stream = made.track(Track("gpu_stream", "stream", 0, device=0, stream=7))
    made.add(stream, "kernel", Kind.KERNEL, Category.COMPUTE, 0, 30)
    counter = Counter("x", "B", mode, np.array([0, 10, 20]), np.array([1.0, 2.0, 4.0]), stream)  # type: ignore[arg-type]
    level = levels_of(part_of(made.timeline((counter,))))["gpus"]
    name = next(name for name in level.metrics if name.startswith("counter:"))
    total, weight = level.values(name, None, 1, 0, 10, 3)
    found = [t / w if w else None for t, w in zip(total[0], weight[0], strict=True)]
    assert found == pytest.approx(expected)


def test_odd_numbers_of_devices_ranks_and_threads_are_no_indices() -> None:
    made = Made()
    for device, rank in ((-1, 0), (10**15, 0), (0, 0), (2, 10**12)):
        stream = made.track(Track("gpu_stream", "stream", rank, device=device, stream=7))
        made.add(stream, "kernel", Kind.KERNEL, Category.COMPUTE, 0, 30)
    for tid in (-5, 2**62):
        thread = made.track(Track("cpu_thread", "main", 0, None, 1, tid))
        made.add(thread, "step", Kind.RANGE, Category.RANGE, 0, 100)
    levels = levels_of(part_of(made.timeline()))
    assert len({(gpu.node, gpu.device_index, gpu.mig) for gpu in levels["gpus"].gpus}) == 4
    for level in levels.values():
        assert all(0 <= gpu.device_index < 10**6 for gpu in level.gpus if gpu.device_index is not None)


def test_gpus_that_each_process_calls_0_are_told_apart() -> None:
    made = Made()
    for pid in (11, 12):
        stream = made.track(Track("gpu_stream", "stream", None, None, pid, device=0, uuid=f"GPU-{pid}", stream=7))
        made.add(stream, "kernel", Kind.KERNEL, Category.COMPUTE, 0, 30)
    gpus = levels_of(part_of(made.timeline()))["gpus"].gpus
    assert [gpu_label(gpu) for gpu in gpus] == ["gpu:0.pid11", "gpu:0.pid12"]


def test_processes_and_nodes_are_means_of_their_gpus() -> None:
    made = Made()
    for node, rank, device in (("a", 0, 0), ("a", 0, 1), ("b", 1, 0)):
        stream = made.track(Track("gpu_stream", "stream", rank, node, 1, None, device, f"GPU-{rank}{device}", 7))
        thread = made.track(Track("cpu_thread", "main", rank, node, 1, 100 + device))
        for at in range(1 + rank + device):
            made.launched(thread, 20 * at, stream, "kernel", Category.COMPUTE, 20 * at + 10, 5)
    timeline = made.timeline()
    levels = levels_of(part_of(timeline))
    gpus, processes, nodes = (levels[name] for name in ("gpus", "processes", "nodes"))
    assert [gpu_label(gpu) for gpu in processes.gpus] == ["rank:0", "rank:1"]
    assert [gpu_label(gpu) for gpu in nodes.gpus] == ["node:0.a", "node:0.b"]
    assert gpus.means(0, 50, "").names == processes.means(0, 50, "").names
    for metric, width in (("busy", 50), ("launches", 50), ("launches", 10)):
        n = 50 // width
        total, weight = gpus.values(metric, None, 3, 0, width, n)
        for level in (processes, nodes):
            for own, expected in zip(level.values(metric, None, 2, 0, width, n), (total, weight), strict=True):
                assert own.tolist() == [(expected[0] + expected[1]).tolist(), expected[2].tolist()]
    counted, time = gpus.values("launches", None, 3, 0, 50, 1)
    assert (counted / 1e9).ravel().tolist() == [1, 2, 2] and time.ravel().tolist() == [50, 50, 50]


def test_many_intervals_taken_in_parts_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    start, length = np.sort(rng.integers(0, 900, 300)), rng.integers(0, 40, 300)
    owner, wanted = rng.integers(0, 9, 300, np.int32), rng.random(300) < 0.6
    whole = ByOwner(start, length, owner, 9)
    expected, every = whole.unions([wanted[whole.order], None])
    filled = [cells(expected, None, 9, 100, *columns) for columns in ((90, 1), (90, 7))]
    monkeypatch.setattr("gssr.model.traces.cells._AT_ONCE", 16)
    parts = ByOwner(start, length, owner, 9)
    found, none, all_of_them = parts.unions([wanted[parts.order], np.zeros(300, bool), None])
    assert not len(none.start)
    for one, other in ((found, expected), (all_of_them, every), (parts.union(), every)):
        assert one.start.tolist() == other.start.tolist()
        assert one.end.tolist() == other.end.tolist() and one.owner.tolist() == other.owner.tolist()
    for columns, before in zip(((90, 1), (90, 7)), filled, strict=True):
        for pieces in (found, found.in_time()):
            assert np.array_equal(cells(pieces, None, 9, 100, *columns), before)


def test_owners_beyond_16_bits_are_in_order_as_others_are() -> None:
    rng = np.random.default_rng(9)
    for most in (1, 100, 1 << 16, (1 << 16) + 1, 300_000):
        numbers = rng.integers(0, most, 20_000, np.int32)
        assert in_order(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()
    assert in_order(np.full(3, 200_000, np.int32)).tolist() == [0, 1, 2] and not len(in_order(np.empty(0, np.int32)))


@given(spans, st.sampled_from([1 << 62, 70, 200]))
def test_intervals_nest_within_their_own_track_however_many_tracks_are_taken_together(
    intervals: list[tuple[int, int, int]], most: int
) -> None:
    rows = sorted(intervals, key=lambda row: (row[0], -row[1]))
    start, length, track = np.array(rows, np.int64).reshape(-1, 3).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gssr.model.traces.nesting.MOST", most)
        depth, parent = nesting(start, length, track.astype(np.int32))
    for at, (begin, _, own) in enumerate(rows):
        open_before = [k for k in range(at) if rows[k][2] == own and rows[k][0] + max(rows[k][1], 1) > begin]
        assert depth[at] == len(open_before)
        assert (parent[at] >= 0) == bool(open_before)
        if open_before:
            assert rows[parent[at]][2] == own and depth[parent[at]] == depth[at] - 1


def test_what_is_said_of_one_of_several_processes_is_of_its_own_threads() -> None:
    timeline = open_traces([str(SAMPLES / "straggler-2025.6.sqlite")]).timeline()
    pids = [track.pid for track in timeline.tracks]
    wanted = tracks_of(timeline, ["gpu:0.pid4001"])
    assert {pids[at] for at in wanted.tolist()} == {4001}
    gpus = levels_of(part_of(timeline))["gpus"]
    for row in range(2):
        tracks = gpus.tracks_with_host([row])
        assert tracks is not None and len({pids[at] for at in tracks.tolist()}) == 1
    both, one = (analyze_timeline(timeline, tracks=tracks) for tracks in (None, wanted))
    assert 0 < one.calls["blocked"].n < both.calls["blocked"].n
