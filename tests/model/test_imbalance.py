"""What imbalance costs: the numbers follow their definitions, whatever the GPUs do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gssr.model.live.live_result import Query, Result
from gssr.model.results import Grid, Means, over_space
from gssr.store.format.rows import Gpu

WIDTH = 10.0
NODE = 4
NAMES = ("sm_active", "sm_occupancy", "fp64_active", "fp32_active", "fp16_active", "tensor_active")


def frame_with(values: np.ndarray) -> Result:
    """A frame of GPUs on nodes of four whose SM activity in columns of 10 s is ``values`` [n_gpus, n_columns]."""
    n_gpus, n_columns = values.shape
    known = np.isfinite(values)
    n = np.tile(known.sum(axis=1).astype(np.float64), (len(NAMES), 1))
    total = np.tile(np.nansum(values, axis=1), (len(NAMES), 1))
    nothing = [None] * 9
    gpus = tuple(Gpu(i, "r", f"n{i // NODE}", 0, i % NODE, f"GPU-{i}", *nothing) for i in range(n_gpus))
    end = n_columns * WIDTH
    means = Means(NAMES, 0.0, end, n, total)
    blank, grid = np.full(n_gpus, np.nan), Grid("sm_active", 0.0, WIDTH, values, end)
    return Result(
        path="x.sql", query=Query(), state="ended", run=None, gpus=gpus,
        nodes=tuple(f"n{i}" for i in range(-(-n_gpus // NODE))), node_of=np.arange(n_gpus) // NODE, first=0.0, last=end,
        now=end, silent=0.0, sampling_seconds=1.0, n_rows=int(known.sum()), n_gaps=np.zeros(n_gpus, np.int64),
        last_time=blank, latest=blank, grid=grid, space=over_space(grid),
        whole=means, recent=means, window=means, moment={}, host=None, events=(), problem=None, following=True,
    )  # fmt: skip


def test_the_costs_are_those_of_the_definition():
    values = np.array([[0.8, 0.8, 0.0], [0.4, 0.8, 0.0]])
    found = frame_with(values).imbalance
    assert found.over_time[:2].tolist() == pytest.approx([0.25, 0.0]) and np.isnan(found.over_time[2])
    assert found.of_means == pytest.approx(1 - (1.6 + 1.2) / 2 / 1.6)
    assert found.resolved == pytest.approx((2 * 0.8 * 0.25) / (2 * 0.8 + 2 * 0.8))
    assert found.gpu_hours == pytest.approx(2 * 30 / 3600)
    assert found.lost == pytest.approx(found.resolved * found.gpu_hours)


def test_what_rotates_is_lost_but_not_in_the_means():
    values = np.full((8, 16), 0.8)
    values[np.arange(16) % 8, np.arange(16)] = 0.1
    found = frame_with(values).imbalance
    assert found.of_means == pytest.approx(0.0) and found.static == pytest.approx(0.0)
    assert found.resolved == pytest.approx(1 - (7 * 0.8 + 0.1) / 8 / 0.8)
    assert (found.behind_any, found.behind_most, found.n_behind) == (1.0, pytest.approx(2 / 16), 8)


def test_the_worst_minute_is_the_one_that_loses_most():
    values = np.full((4, 30), 0.8)
    values[0, 12:18] = 0.0
    values[:, 24:] = 0.01  # hardly anything runs: whatever is uneven here costs nothing
    values[0, 24:] = 0.0001
    found = frame_with(values).imbalance
    assert found.worst_start == 120.0 and found.worst == pytest.approx(0.25)


def test_missing_is_never_zero():
    values = np.full((4, 6), 0.6)
    values[1, 2:4] = np.nan
    values[2] = np.nan
    found = frame_with(values).imbalance
    assert found.of_means == 0.0 and found.resolved == pytest.approx(0.0) and found.n_behind == 0
    assert np.isnan(found.means[2])
    nothing = frame_with(np.full((3, 5), np.nan)).imbalance
    assert (nothing.of_means, nothing.resolved, nothing.lost, nothing.worst) == (None, None, None, None)


def test_a_selection_is_looked_at_by_itself():
    values = np.repeat([[0.9], [0.3], [0.3], [0.3]], 5, axis=1)
    found = replace(frame_with(values), query=Query(gpus=(1, 2, 3))).imbalance
    assert found.gpus.tolist() == [1, 2, 3] and found.resolved == pytest.approx(0.0)


SHARES = st.one_of(st.just(0.0), st.floats(1e-12, 1))
"""Of smaller numbers, which no counter gives, not even ratios are exact."""


@given(arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=SHARES))
def test_time_means_never_show_more_than_columns_do(values):
    found = frame_with(values).imbalance
    if found.of_means is None or found.resolved is None or found.lost is None or found.static is None:
        return
    assert 0.0 <= found.of_means <= found.resolved + 1e-9 and found.resolved < 1.0
    assert found.static <= found.lost <= found.gpu_hours
    over_time = found.over_time[np.isfinite(found.over_time)]
    assert ((over_time >= 0) & (over_time < 1)).all()


def test_a_place_that_is_slow_in_every_node_is_told_from_one_slow_gpu():
    values = np.full((16, 3), 0.8)
    values[::NODE] = 0.6
    frame = frame_with(values)
    places = frame.unevenness.by_index
    assert places.keys.tolist() == [0, 1, 2, 3] and places.share.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert places.below[0] == pytest.approx(0.15) and places.means[0] == pytest.approx(0.6)
    values = np.full((16, 3), 0.8)
    values[4] = 0.1
    frame = frame_with(values)
    assert frame.unevenness.by_index.share[0] == 0.25
    assert np.argmin(frame.unevenness.by_node.means) == 1


def test_gpus_without_an_index_are_a_group_of_their_own():
    frame = frame_with(np.full((4, 3), 0.5))
    frame = replace(frame, gpus=tuple(gpu._replace(device_index=None) for gpu in frame.gpus))
    assert frame.unevenness.by_index.keys.tolist() == [-1]


def test_if_all_ran_like_the_median_gpu_only_the_odd_ones_change_the_score():
    even = frame_with(np.full((5, 3), 0.2))
    before, after = even.window.score(), even.unevenness.score_as_median
    assert before == pytest.approx(after)
    odd = np.full((5, 3), 0.2)
    odd[0] = 0.0
    uneven = frame_with(odd)
    before, after = uneven.window.score(), uneven.unevenness.score_as_median
    assert before is not None and after is not None and before < after
