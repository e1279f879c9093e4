"""What happened, as one letter each on a line of time, and in words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.render.roles import Role

if TYPE_CHECKING:
    from gssr.store.format.rows import Event

LOOKS: dict[str, tuple[str, Role]] = {
    "gap": ("g", "gap"), "gpu_lost": ("g", "gap"), "gpu_back": ("g", "gap"), "backend_lost": ("g", "gap"),
    "backend_back": ("g", "gap"), "storage": ("g", "gap"), "throttle_begin": ("t", "outlier"),
    "throttle_end": ("t", "outlier"), "mark": ("m", "series"),
}  # fmt: skip
"""How events are marked; those of other kinds with a star. The first in this order stays where several meet."""
OTHER: tuple[str, Role] = ("*", "value")
LEGEND = "m mark, g gap or loss, t throttling, * other"


def timed(events: "Sequence[Event]") -> tuple[Floats, Ints]:
    """When each event was [n] (unix s), and where its kind stands in LOOKS [n]."""
    kinds = {kind: rank for rank, kind in enumerate(LOOKS)}
    ranks = np.array([kinds.get(event.kind, len(kinds)) for event in events], np.int64)
    return np.array([event.time for event in events], np.float64), ranks


def in_columns(times: Floats, ranks: Ints, start: float, width: float, n: int) -> dict[int, tuple[str, Role]]:
    """The letter and role of each of ``n`` columns of ``width`` s from ``start`` (unix s) in which something happened."""
    column = np.floor((times - start) / width)
    inside = (column >= 0) & (column < n)
    looks = [*LOOKS.values(), OTHER]
    order = np.argsort(-ranks[inside], kind="stable")
    return {int(at): looks[int(rank)] for at, rank in zip(column[inside][order], ranks[inside][order], strict=True)}


def told(event: "Event") -> str:
    """An event in words; a mark, whose words are the user's, says that it is one."""
    return f"mark: {event.message}" if event.kind == "mark" else event.message or event.kind
