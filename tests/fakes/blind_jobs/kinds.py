"""The register of sick kinds: a function that makes the job and plants its causes, and what it can be drawn with."""

from collections.abc import Callable
from typing import NamedTuple

from tests.fakes.blind_jobs.draft import VIEWS, Draft
from tests.fakes.blind_jobs.hardware import GpuModel


class Kind(NamedTuple):
    """How a job of this kind is made, in which views, with how many GPUs and nodes, and of one model only or of any."""

    make: Callable[[Draft], None]
    views: tuple[str, ...] = VIEWS
    gpus: tuple[int, int] = (1, 64)
    nodes: tuple[int, int] = (1, 16)
    model: GpuModel | None = None


SICK: dict[str, Kind] = {}


def sick(
    views: tuple[str, ...] = VIEWS,
    gpus: tuple[int, int] = (1, 64),
    nodes: tuple[int, int] = (1, 16),
    model: GpuModel | None = None,
) -> Callable[[Callable[[Draft], None]], Callable[[Draft], None]]:
    """Register a function under its name as a sick kind."""

    def register(make: Callable[[Draft], None]) -> Callable[[Draft], None]:
        SICK[make.__name__] = Kind(make, views, gpus, nodes, model)
        return make

    return register
