"""Which GPU of a run stands for which GPU of another."""

from collections.abc import Callable, Sequence
from typing import Literal

from gssr.model.results import GpuSummary

By = Literal["place", "uuid", "order"]


_NAMES: tuple[tuple[By, Callable[[GpuSummary], str | None]], ...] = (
    ("place", lambda gpu: gpu.place),
    ("uuid", lambda gpu: gpu.uuid),
)


def pairs(one: Sequence[GpuSummary], other: Sequence[GpuSummary]) -> tuple[By, list[int]] | None:
    """Pair the GPUs of two runs: those of the same place if both runs have the same places, else those of the same
    UUID, else in their order. Returns what pairs them, and for each GPU of the one run the position of its partner in the
    other; None if the numbers of GPUs differ, or are below 2."""
    if len(one) != len(other) or len(one) < 2:
        return None
    for by, name in _NAMES:
        position = {name(gpu): at for at, gpu in enumerate(other)}
        if None not in position and len(position) == len(other) and position.keys() == {name(gpu) for gpu in one}:
            return by, [position[name(gpu)] for gpu in one]
    return "order", list(range(len(one)))
