"""Scenarios on arrays: what the bulk generator writes is what would have been sampled live."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.backends.synthetic import SCENARIOS, SyntheticBackend, device
from gssr.backends.synthetic.bulk import evaluate, stack
from gssr.backends.synthetic.gpu import traits
from gssr.metrics import METRICS


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(SCENARIOS)),
    st.lists(st.floats(0, 86400) | st.integers(0, 400).map(lambda tick: tick * 0.1), min_size=1, max_size=20),
    st.integers(1, 9),
    st.integers(0, 5),
)
def test_arrays_equal_numbers(scenario: str, times: list[float], n: int, seed: int) -> None:
    backend = SyntheticBackend(scenario, n, "node", seed, start=0.0)
    live = [row for time in times for row in backend.sample(time)]
    gpus = stack([traits(SCENARIOS[scenario], i, n, device("node", i).uuid, seed) for i in range(n)])
    columns, exists = evaluate(SCENARIOS[scenario], gpus, np.array(times))
    assert [row[:2] for row in live] == [(i % n, times[i // n]) for i in range(n * len(times)) if exists[i]]
    for position, column in enumerate(columns):
        one_by_one = [row[2 + position] for row in live]
        if column is None:
            assert set(one_by_one) <= {None}
            continue
        for scalar, array in zip(one_by_one, column[exists].tolist(), strict=True):
            assert math.isnan(array) if scalar is None else array == scalar


def test_integral_metrics_are_integers() -> None:
    gpus = stack([traits(SCENARIOS["train"], i, 4, device("node", i).uuid, 0) for i in range(4)])
    columns, _ = evaluate(SCENARIOS["train"], gpus, np.arange(100) * 0.1)
    for metric, column in zip(METRICS, columns, strict=True):
        if column is not None:
            assert (column.dtype == np.int64) == metric.integral


def test_a_stretched_job_has_the_same_shape() -> None:
    scenario = SCENARIOS["startup"]
    gpus = stack([traits(scenario, 0, 1, device("node", 0).uuid, 0)])
    sm = METRICS.index(next(metric for metric in METRICS if metric.name == "sm_active"))
    means = []
    for stretch in (1.0, 180.0):
        columns, _ = evaluate(scenario, gpus, np.arange(2000) * 0.01 * stretch, stretch)
        column = columns[sm]
        assert column is not None
        means.append([part.mean() for part in np.array_split(column, 10)])
    assert means[0] == pytest.approx(means[1], abs=0.02)
