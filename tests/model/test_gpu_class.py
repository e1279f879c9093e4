"""What each GPU is doing, in one word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.arrays import Floats
from gssr.model.verdicts.gpu_class import CLASSES, UNKNOWN_CLASS, gpu_classes

FULL = {"nvlink_rx_bytes": 450e9, "power_usage": 700.0}
MEASURED = sorted({"power_usage", "nvlink_rx_bytes", "sm_active", "gr_engine_active", "gpu_utilization"} | {
    bound.name for each in CLASSES for bound in each.bounds if "_" in bound.name and bound.name != "sm_share"
})  # fmt: skip
BUSY = {"sm_active": 0.8, "gr_engine_active": 0.9, "gpu_utilization": 0.95}


def class_of(alone: bool = False, **means: float) -> str:
    """That of one GPU with these means; nothing else was measured."""

    def mean_of(name: str) -> Floats:
        return np.array([means.get(name, np.nan)])

    (found,) = gpu_classes(mean_of, lambda name: FULL[name], alone)
    return found


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ({}, UNKNOWN_CLASS),
        ({"power_usage": 500.0}, UNKNOWN_CLASS),
        ({"sm_active": 0.0, "gpu_utilization": 0.9}, "idle"),
        ({"sm_active": 0.1, "gr_engine_active": 0.2}, "waiting"),
        ({"sm_active": 0.1, "gr_engine_active": 0.5, "pcie_rx_bytes": 9e9}, "copying"),
        ({"sm_active": 0.1, "gr_engine_active": 0.9, "pcie_rx_bytes": 1e8}, "few SMs"),
        (BUSY | {"tensor_active": 0.5}, "tensor"),
        (BUSY | {"dram_active": 0.8}, "memory"),
        (BUSY | {"sm_active": 0.4, "dram_active": 0.55}, "memory"),
        (BUSY | {"fp64_active": 0.4}, "FP64"),
        (BUSY, "compute"),
        ({"sm_active": 0.4, "gr_engine_active": 0.6}, "partly"),
        ({"gpu_utilization": 1.0}, "busy"),
        ({"gpu_utilization": 1.0, "power_usage": 150.0, "memory_copy_utilization": 0.1}, "low power"),
        ({"gpu_utilization": 0.2}, "waiting"),
    ],
)
def test_a_gpu_is_in_the_first_class_that_its_means_allow(means: dict[str, float], said: str) -> None:
    assert class_of(**means) == said


def test_only_who_has_others_waits_in_collectives() -> None:
    spinning = {
        "sm_active": 0.5,
        "gr_engine_active": 0.99,
        "dram_active": 0.2,
        "flop_active": 0.1,
        "nvlink_rx_bytes": 60e9,
    }
    assert class_of(**spinning) == "network" and class_of(alone=True, **spinning) == "compute"
    assert class_of(**{**spinning, "nvlink_rx_bytes": 0.0}) == "compute"
    assert class_of(**{**spinning, "nvlink_rx_bytes": 0.0, "pcie_rx_bytes": 5e9}) == "network"


@given(st.dictionaries(st.sampled_from(MEASURED), st.floats(0.0, 1.0)))
def test_whatever_was_measured_there_is_one_class_and_none_rests_on_what_was_not(means: dict[str, float]) -> None:
    said = class_of(**means)
    if said == UNKNOWN_CLASS:
        assert not {"sm_active", "gr_engine_active", "gpu_utilization"} & set(means)
        return
    names = {bound.name for each in CLASSES if each.name == said for bound in each.bounds}
    needed = names - {"busy", "engine", "sm_share", "nvlink", "power", "unseen", "pcie_rx_bytes"}
    ways = [{b.name for b in each.bounds} & needed for each in CLASSES if each.name == said]
    assert any(way <= set(means) for way in ways), (said, means)
