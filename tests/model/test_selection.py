"""Which GPUs a selector names."""

import pytest

from gssr.gpu_name import select_gpus
from gssr.store.format.rows import Gpu

NODES = ["nid001", "nid001", "nid002", "nid0012"]
GPUS = [Gpu(i, "r", node, 0, i % 2, f"GPU-{i}{i}aB-{i}", *[None] * 9) for i, node in enumerate(NODES)]


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        (None, (0, 1, 2, 3)),
        (("all",), (0, 1, 2, 3)),
        (("0", "3"), (0, 3)),
        (("nid001:1",), (1,)),
        (("nid001",), (0, 1)),
        (("nid001*",), (0, 1, 3)),
        (("*:0",), (0, 2)),
        (("GPU-22aB-2",), (2,)),
        (("gpu-2",), (2,)),
        (("3", "nid001:0", "0"), (0, 3)),
    ],
)
def test_selectors_name_gpus(selectors: tuple[str, ...] | None, expected: tuple[int, ...]) -> None:
    assert select_gpus(GPUS, selectors) == expected


@pytest.mark.parametrize("selector", ["4", "nid003", "nid001:7", "GPU-9", "", "-1"])
def test_a_selector_that_names_nothing_is_refused_with_a_sentence(selector: str) -> None:
    with pytest.raises(ValueError, match=r"no GPU .* in this run: it has nid001:0, nid001:1"):
        select_gpus(GPUS, (selector,))
    with pytest.raises(ValueError, match="it has none"):
        select_gpus([], ("all",))
