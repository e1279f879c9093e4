"""Unions, what they share, and what lies before a time, against counting single ns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.traces.segments import common, subsets, union, union_places

intervals = st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 12)), max_size=25)


def covered(found: list[tuple[int, int]]) -> set[int]:
    return {ns for start, length in found for ns in range(start, start + length)}


def of(found: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array(sorted(found, key=lambda each: (each[0], -each[1])), np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 0] + rows[:, 1]


@given(intervals)
def test_a_union_covers_each_ns_once_and_is_in_order(found: list[tuple[int, int]]) -> None:
    own, first = union_places(*of(found))
    assert own.length == len(covered(found))
    assert (own.start[1:] > own.end[:-1]).all()
    assert own.start.tolist() == of(found)[0][first].tolist()
    assert own.gaps().length == (own.end[-1] - own.start[0] - own.length if found else 0)


@given(intervals, intervals)
def test_what_two_unions_share(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    a, b = union(*of(one)), union(*of(other))
    assert common(a, b).length == common(b, a).length == len(covered(one) & covered(other))


@given(intervals, st.lists(st.integers(-10, 80), min_size=1, max_size=10))
def test_what_lies_before_a_time(found: list[tuple[int, int]], times: list[int]) -> None:
    before = union(*of(found)).before(np.array(times, np.int64))
    assert before.tolist() == [sum(ns < time for ns in covered(found)) for time in times]


@given(st.tuples(intervals, intervals, intervals))
def test_every_subset_of_three_unions(found: tuple[list[tuple[int, int]], ...]) -> None:
    sets = [covered(each) for each in found]
    everything = set().union(*sets)
    expected = [0] * 8
    for ns in everything:
        expected[sum(1 << bit for bit, each in enumerate(sets) if ns in each)] += 1
    assert list(subsets(tuple(union(*of(each)) for each in found))) == expected


def test_what_ends_before_it_begins_counts_less_than_nothing() -> None:
    """As HolisticTraceAnalysis has it, after it has rounded to whole µs."""
    assert union(np.array([0, 6]), np.array([5, 5])).length == 4
    assert union(np.array([0, 4]), np.array([5, 3])).length == 5
