"""Timelines as one: nothing is lost or added, names and tracks stay, links belong to one file, times to one clock."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.traces.join import from_zero, join
from gssr.traces.timeline import NO_LINK, Clock, Counter, Intervals, Kind, Timeline, TraceSource, Track

SPANS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(-1, 4), st.booleans()), min_size=1, max_size=8
)


def timeline(rows: list[tuple[int, int, int, bool]], clock: Clock = Clock(), name: str = "a") -> Timeline:  # noqa: B008
    """Of (start, length, link, whether from pageable memory)."""
    rows = sorted(rows, key=lambda row: (row[0], -row[1]))
    columns = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
    n = len(rows)
    some = np.arange(n)
    intervals = Intervals(
        columns[:, 0], columns[:, 1], (some % 2).astype(np.int32), (some % 2).astype(np.int32),
        np.full(n, Kind.MEMCPY, np.int8), np.zeros(n, np.int8), columns[:, 2], some, np.zeros(n, np.int8),
    )  # fmt: skip
    tracks = (Track("gpu_stream", f"stream 1 of {name}"), Track("cpu_thread", "thread"))
    counter = Counter("memory", "B", "gauge", np.array([3, 4]), np.array([1.0, 2.0]), 1)
    pageable = np.flatnonzero([row[3] for row in rows])
    return Timeline((TraceSource(name, "kineto"),), clock, tracks, ("common", name), intervals, (counter,), pageable)


def all_of(one: Timeline, zero: int) -> list[tuple[object, ...]]:
    i = one.intervals
    is_pageable = np.zeros(len(i), np.bool_)
    is_pageable[[] if one.pageable is None else one.pageable] = True
    sources = [one.sources[one.tracks[track].source].path for track in i.track]
    return sorted(
        (source, start + zero, length, one.tracks[track].name, one.names[name], size, pageable)
        for source, start, length, track, name, size, pageable in zip(
            sources,
            i.start.tolist(),
            i.length.tolist(),
            i.track,
            i.name,
            i.size.tolist(),
            is_pageable.tolist(),
            strict=True,
        )
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(SPANS, min_size=1, max_size=4), st.lists(st.integers(0, 30), min_size=4, max_size=4))
def test_nothing_is_lost_added_or_moved(parts: list[list[tuple[int, int, int, bool]]], zeros: list[int]) -> None:
    unix = 1_760_000_000 * 10**9
    alone = [
        timeline(rows, Clock(unix + zero, "unix", zero), f"file {n}")
        for n, (rows, zero) in enumerate(zip(parts, zeros, strict=False))
    ]
    joined = join(alone)
    assert joined.clock.unix_ns is not None and joined.clock.origin == "unix"
    assert all_of(joined, joined.clock.unix_ns) == sorted(
        row for one in alone for row in all_of(one, one.clock.unix_ns or 0)
    )
    i = joined.intervals
    assert np.all(np.diff(i.start) >= 0) and np.all((np.diff(i.start) > 0) | (np.diff(i.length) <= 0))
    files: dict[int, set[int]] = {}
    for link, track in zip(i.link.tolist(), i.track, strict=True):
        files.setdefault(link, set()).add(joined.tracks[track].source)
    assert all(len(of) == 1 for link, of in files.items() if link != NO_LINK)
    n_links = sum(len({row[2] for row in rows if row[2] != NO_LINK}) for rows in parts)
    assert len([link for link in files if link != NO_LINK]) == n_links
    assert i.start[0] == 0
    assert [joined.tracks[counter.track].source for counter in joined.counters] == list(range(len(parts)))


def test_links_that_are_huge_stay_apart() -> None:
    huge = (1 << 62) - 1
    parts = [timeline([(0, 1, huge, False), (1, 1, 5, False)], name=name) for name in "ab"]
    links = join(parts).intervals.link.tolist()
    assert len(set(links)) == 4 and min(links) >= 0


def test_a_clock_that_is_unknown_begins_with_the_others() -> None:
    known, unknown = timeline([(5, 9, -1, False)], Clock(10**18, "unix"), "known"), timeline([(700, 9, -1, False)])
    for order in ([known, unknown], [unknown, known]):
        joined = join(order)
        assert joined.intervals.start[0] == joined.intervals.start[1]
        assert joined.clock.unix_ns == 10**18 + 5
        (note,) = next(source.notes for source in joined.sources if source.path == "a")
        assert "its clock is unknown" in note


def test_clocks_that_are_unknown_are_one_where_they_have_a_common_time() -> None:
    near = join([timeline([(100, 50, -1, False)]), timeline([(120, 50, -1, False)], name="b")])
    assert np.diff(near.intervals.start).tolist() == [20] and all(not source.notes for source in near.sources)
    far = join([timeline([(100, 50, -1, False)]), timeline([(9000, 50, -1, False)], name="b")])
    assert np.diff(far.intervals.start).tolist() == [0] and "unknown" in far.sources[1].notes[0]
    assert far.clock == Clock()


def test_traces_that_were_not_at_one_time_are_said_to() -> None:
    parts = [timeline([(0, 50, -1, False)], Clock(10**18 + at, "unix"), str(at)) for at in (0, 10, 10**12)]
    assert ["do they" in "".join(s.notes) or "of one run?" in "".join(s.notes) for s in join(parts).sources] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("zero", [None, 7])
def test_times_can_count_from_elsewhere(zero: int | None) -> None:
    one = timeline([(5, 9, 3, False)], Clock(100, "unix"))
    moved = from_zero(one, zero)
    shift = 5 if zero is None else zero
    assert moved.clock.unix_ns == 100 + shift and moved.intervals.start.tolist() == [5 - shift]
    assert moved.counters[0].time.tolist() == [3 - shift, 4 - shift]
    assert from_zero(replace(one, clock=Clock()), zero).clock.unix_ns is None
