"""Scenarios on arrays: what the bulk generator writes is what would have been sampled live."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.backends.synthetic import SCENARIOS, SyntheticBackend, device
from gssr.backends.synthetic.arrays import evaluate, stack
from gssr.backends.synthetic.gpu import traits
from gssr.metrics import PLACES


@settings(max_examples=20, deadline=None)
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
    for name, place in PLACES.items():
        one_by_one = [row[place] for row in live]
        if name not in columns:
            assert set(one_by_one) <= {None}
            continue
        column = columns[name]
        for scalar, array in zip(one_by_one, column[exists].tolist(), strict=True):
            assert math.isnan(array) if scalar is None else array == scalar


def test_a_stretched_job_has_the_same_shape() -> None:
    scenario = SCENARIOS["startup"]
    gpus = stack([traits(scenario, 0, 1, device("node", 0).uuid, 0)])
    means = []
    for stretch in (1.0, 180.0):
        columns, _ = evaluate(scenario, gpus, np.arange(2000) * 0.01 * stretch, stretch)
        means.append([part.mean() for part in np.array_split(columns["sm_active"], 10)])
    assert means[0] == pytest.approx(means[1], abs=0.02)
