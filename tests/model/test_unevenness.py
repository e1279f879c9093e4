"""How uneven GPUs are, from evidence: the same arithmetic as of the live screen, and who is like whom."""

import numpy as np
import pytest
from evidences import evidence

from gssr.model.findings.imbalance import MOST_COLUMNS, unevenness


def _grid(n_gpus: int = 8, n: int = 100) -> np.ndarray:
    return np.full((n_gpus, n), 0.8)


def test_a_straggler_has_a_group_of_its_own_and_costs_its_share() -> None:
    values = _grid()
    values[5] = 0.4
    found = unevenness(evidence(8, 100, sm_active=values, noise=0.0))
    assert found is not None
    assert [(group.gpus, group.apart) for group in found.alike] == [((0, 1, 2, 3, 4, 6, 7), False), ((5,), True)]
    assert found.imbalance.of_means == pytest.approx(1 - (7.5 / 8))
    assert found.imbalance.resolved == pytest.approx(found.imbalance.of_means)
    assert found.imbalance.lost == pytest.approx(0.5 * 100 / 3600, rel=1e-3)
    assert found.energy_lost == pytest.approx(0.5 * 600 * 100, rel=1e-3)
    assert found.by_node.means.tolist() == pytest.approx([0.8, 0.7])
    assert found.by_index.means.tolist() == pytest.approx([0.8, 0.6, 0.8, 0.8])
    assert found.score_as_median is not None


def test_what_rotates_is_lost_but_not_all_along() -> None:
    values = _grid(8, 160)
    for second in range(160):
        values[second // 20, second] = 0.2
    found = unevenness(evidence(8, 160, sm_active=values, noise=0.0))
    assert found is not None and found.imbalance.lost is not None and found.imbalance.static is not None
    assert found.imbalance.static < 0.1 * found.imbalance.lost
    assert len(found.imbalance.over_time) <= MOST_COLUMNS


def test_equal_gpus_lose_nothing() -> None:
    found = unevenness(evidence(4, 50, noise=0.0))
    assert found is not None
    assert found.imbalance.lost == pytest.approx(0.0, abs=1e-6) and found.energy_lost == pytest.approx(0.0, abs=0.1)
    assert len(found.alike) == 1 and not found.alike[0].apart


def test_one_gpu_and_no_samples_have_no_balance() -> None:
    assert unevenness(evidence(1, 50)) is None
    assert unevenness(evidence(4, 50, without=("sm_active", "gr_engine_active", "gpu_utilization"))) is None


def test_a_gpu_without_samples_is_in_no_group() -> None:
    values = _grid()
    values[2] = np.nan
    found = unevenness(evidence(8, 100, sm_active=values))
    assert found is not None and sorted(gpu for group in found.alike for gpu in group.gpus) == [0, 1, 3, 4, 5, 6, 7]


def test_energy_is_unknown_without_power() -> None:
    found = unevenness(evidence(4, 50, without=("power_usage",)))
    assert found is not None and found.energy_lost is None
