"""Timelines: lines that say of their GPUs what the GPUs' own columns say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.model.live.live_result import GridLines, Query
from gssr.model.live.timeline import Timelines
from gssr.model.results import Grid, Means
from gssr.store.format.rows import Gpu

NAN = np.nan


def gpus_of(n: int, per_node: int) -> tuple[Gpu, ...]:
    nothing = (None,) * 9
    return tuple(Gpu(i, "r", f"n{i // per_node:03d}", None, i % per_node, f"GPU-{i}", *nothing) for i in range(n))


def made(
    timelines: Timelines, values: np.ndarray, query: Query, start: float = 0.0, closed: float = np.inf,
    growing: bool = False, per_node: int = 4,
) -> GridLines:  # fmt: skip
    n = np.isfinite(values).sum(axis=1).astype(np.float64)
    total = np.where(np.isfinite(values), values, 0.0).sum(axis=1)
    window = Means(("sm_active",), start, start + values.shape[1], n[None], total[None])
    grid = Grid("sm_active", start, 1.0, values, closed)
    node_of = np.arange(len(values)) // per_node
    return timelines.show(query, grid, window, gpus_of(len(values), per_node), node_of, growing)


def plain(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and minimum of each column, NaN where nothing is known."""
    columns = [column[np.isfinite(column)] for column in values.T]
    return (
        np.array([column.mean() if len(column) else NAN for column in columns]),
        np.array([column.min() if len(column) else NAN for column in columns]),
    )


def holey(n_gpus: int, n_columns: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.random((n_gpus, n_columns))
    values[rng.random(values.shape) < 0.3] = NAN
    return values


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 12), st.booleans(), st.integers(0, 99), st.data())
@settings(max_examples=20, deadline=None)
def test_lines_hold_every_gpu_once_and_say_what_its_columns_say(
    n_gpus: int, n_columns: int, rows: int, grouped: bool, seed: int, data: st.DataObject
) -> None:
    values = holey(n_gpus, n_columns, seed)
    chosen = data.draw(st.lists(st.integers(0, n_gpus - 1), unique=True))
    found = made(Timelines(), values, Query(rows=rows, grouped=grouped, gpus=tuple(chosen)))
    assert 1 <= len(found.members) <= rows
    assert sorted(np.concatenate(found.members).tolist()) == sorted(chosen or range(n_gpus))
    assert len(found.names) == (len(found.members) if grouped else 0)
    for line, members in enumerate(found.members):
        assert (np.diff(members) > 0).all()
        mean, low = plain(values[members])
        np.testing.assert_allclose(found.mean[line], mean)
        np.testing.assert_array_equal(found.low[line], low)


def test_shares_count_the_gpus_that_have_a_value() -> None:
    values = np.array([[0.9, NAN, 0.1], [0.66, NAN, NAN], [0.5, NAN, 0.32], [0.33, NAN, 0.9]])
    shares = made(Timelines(), values, Query(rows=4)).shares
    np.testing.assert_allclose(shares, [[0.5, NAN, 1 / 3], [0.5, NAN, 0], [0, NAN, 2 / 3]])


@given(st.integers(0, 99), st.lists(st.integers(0, 3), min_size=1, max_size=12), st.booleans())
@settings(max_examples=15, deadline=None)
def test_a_growing_timeline_is_the_one_made_at_once(seed: int, steps: list[int], grouped: bool) -> None:
    """Only what is new is computed; the newest columns change until they are closed, and the window slides."""
    rng = np.random.default_rng(seed)
    whole, width, now = holey(12, 80, seed), 20, 20
    timelines, query = Timelines(), Query(span=20.0, rows=5, grouped=grouped)
    for step in steps:
        now += step
        values = whole[:, now - width : now].copy()
        values[:, -2:] = rng.random((12, 2))  # not yet complete
        whole[:, now - 2 : now] = values[:, -2:] if rng.random() < 0.5 else rng.random((12, 2))
        found = made(timelines, values, query, now - width, now - 2, growing=True)
        for line, members in enumerate(found.members):
            mean, low = plain(values[members])
            np.testing.assert_allclose(found.mean[line], mean)
            np.testing.assert_array_equal(found.low[line], low)


def test_an_unchanged_grid_is_not_looked_at_again() -> None:
    timelines, values = Timelines(), holey(8, 10, 0)
    assert made(timelines, values, Query(rows=4)) is made(timelines, values, Query(rows=4))


@pytest.mark.parametrize(
    ("n_gpus", "per_node", "rows", "sizes"),
    [(8, 4, 8, [1] * 8), (64, 4, 30, [4] * 16), (64, 4, 40, [2] * 32), (100, 4, 10, [12] * 8 + [4]), (5, 4, 2, [3, 2])],
)
def test_neighbours_share_lines_by_whole_nodes_or_equal_parts(
    n_gpus: int, per_node: int, rows: int, sizes: list[int]
) -> None:
    found = made(Timelines(), holey(n_gpus, 4, 0), Query(rows=rows, grouped=False), per_node=per_node)
    assert [len(members) for members in found.members] == sizes
