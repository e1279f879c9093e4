"""Tables of lengths against the statistics module, and made in parts against made at once."""

import statistics as plain
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.model.traces.lengths import Lengths, lengths_of, lengths_of_rows, statistics, together

HUGE = 2**55
rows = st.lists(st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 9), st.integers(0, HUGE))), max_size=30)


def of(found: list[tuple[int, int]]) -> Lengths:
    code, length = np.array(found, np.int64).reshape(-1, 2).T
    return lengths_of(code, length, lambda codes: [(f"name {code % 4}",) for code in codes], {"twice": code * 2})


@given(rows)
def test_statistics_are_those_of_each_name(found: list[tuple[int, int]]) -> None:
    table = statistics(of(found))
    total = sum(length for _, length in found)
    assert table.total.tolist() == sorted(table.total.tolist(), reverse=True)
    assert {name for (name,) in table.keys} == {f"name {code % 4}" for code, _ in found}
    for at, (name,) in enumerate(table.keys):
        own = [length for code, length in found if f"name {code % 4}" == name]
        assert (table.count[at], table.total[at]) == (len(own), sum(own))
        assert (table.min[at], table.max[at]) == (min(own), max(own))
        assert table.mean[at] == pytest.approx(plain.mean(own))
        assert table.median[at] == pytest.approx(plain.median(own))
        assert table.std[at] == pytest.approx(plain.stdev(own) if len(own) > 1 else 0, rel=1e-6, abs=1e-3)
        assert table.share[at] == pytest.approx(sum(own) / total if total else 0)
        assert table.sums["twice"][at] == sum(2 * code for code, _ in found if f"name {code % 4}" == name)


@given(st.lists(rows, min_size=1, max_size=4))
def test_parts_together_are_the_whole(parts: list[list[tuple[int, int]]]) -> None:
    whole = statistics(of([row for part in parts for row in part]))
    found = statistics(together([of(part) for part in parts]))
    as_rows = [
        {key: (float(own.median[at]), int(own.count[at]), int(own.total[at]), float(own.std[at]), int(own.sums["twice"][at]))
         for at, key in enumerate(own.keys)}
        for own in (whole, found)
    ]  # fmt: skip
    assert as_rows[0] == as_rows[1]


def test_the_same_files_again_take_no_more_room() -> None:
    own = of([(number % 5, number * 7 % 1000) for number in range(5000)])
    assert len(together([own] * 20).key) == len(own.key)


def test_of_very_many_lengths_only_the_median_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    parts = [list(zip(rng.integers(0, 4, 3000).tolist(), rng.lognormal(10, 2, 3000).astype(int).tolist(), strict=True))
             for _ in range(6)]  # fmt: skip
    exact = statistics(of([row for part in parts for row in part]))
    monkeypatch.setattr("gssr.model.traces.lengths._MOST", 1000)
    rounded = of(parts[0])
    for part in parts[1:]:
        rounded = together([rounded, of(part)])
    assert len(rounded.key) < 12_000 < sum(exact.count)
    found = statistics(rounded)
    for name in ("count", "total", "mean", "min", "max", "share"):
        assert getattr(found, name).tolist() == getattr(exact, name).tolist()
    assert found.median == pytest.approx(exact.median, rel=1 / 256) and found.std == pytest.approx(exact.std, rel=1e-4)
    assert all((of_key[1:] > of_key[:-1]).all() for of_key in (rounded.length[rounded.key == key] for key in range(4)))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1 << 40)), max_size=50), st.integers(0, 3))
def test_lengths_of_rows_are_those_of_the_columns(pairs: list[tuple[int, int]], left_out: int) -> None:
    code, length = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    rows = np.arange(len(pairs))[left_out:]

    def keys(codes: Sequence[int]) -> list[tuple[int]]:
        return [(each // 2,) for each in codes]

    found = lengths_of_rows(rows, lambda some: code[some], length, keys)
    want = lengths_of(code[rows], length[rows], keys)
    assert found.keys == want.keys
    for name in ("key", "length", "count"):
        assert (getattr(found, name) == getattr(want, name)).all()


def test_lengths_of_rows_beyond_what_a_number_holds_are_counted_too() -> None:
    length = np.array([0, 1 << 61, 5, 5], np.int64)
    found = lengths_of_rows(np.arange(4), lambda rows: rows % 2, length, lambda codes: [(code,) for code in codes])
    assert (found.keys, found.length.tolist(), found.count.tolist()) == (((0,), (1,)), [0, 5, 5, 1 << 61], [1] * 4)
