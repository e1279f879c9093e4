"""The backend on a tree, and what its rows say."""

import math

from gssr.backends.base import BackendChange, OpenedBackend, Row
from gssr.metrics import NAMES, PLACES
from tests.fakes.amd.gpus import Node
from tests.fakes.amd.tree import Tree

START = 1_790_000_000.0
"""The unix time of a tree's 0."""


class Machine:
    """A tree, and the backend on it. ``said``: all that it says when opened or later."""

    def __init__(self, tree: Tree, opened: OpenedBackend) -> None:
        self.tree, self.opened, self.backend = tree, opened, opened.backend
        self.changes: list[BackendChange] = []

    def look(self, at: float, write: bool = True) -> dict[int, Row]:
        """The rows of a sample at a time, s after 0, by GPU."""
        if write:
            self.tree.write(at)
        rows = {int(row[0] or 0): row for row in self.backend.sample(START + at)}
        self.changes += [each for each in self.backend.changes() if isinstance(each, BackendChange)]
        return rows

    @property
    def said(self) -> list[str]:
        """All sentences, so far."""
        return [*self.opened.remarks, *(each.message for each in self.changes)]


def value(row: Row, name: str) -> float | int | None:
    """A metric of a row."""
    return row[PLACES[name]]


def known(row: Row) -> set[str]:
    """The metrics that a row has."""
    return {name for name in NAMES if value(row, name) is not None}


def near(found: float | None, meant: float, rel: float = 1e-3) -> bool:
    """Whether a value is there and right to 0.1 %."""
    return found is not None and math.isclose(found, meant, rel_tol=rel, abs_tol=1e-9)


def joules(before: Row, after: Row) -> float:
    """What the counter of energy has counted between two rows."""
    first, last = value(before, "energy"), value(after, "energy")
    assert first is not None and last is not None
    return float(last) - float(first)


def kib(found: float | int | None, meant: float) -> bool:
    """Whether bytes per second are of so many KB, which may be of 1000 bytes or of 1024: no document says."""
    return found is not None and (near(found, meant) or near(found, meant * 1000 / 1024))


def uuids(machine: Machine) -> list[str]:
    """Of the GPUs that are sampled."""
    return sorted(gpu.uuid for gpu in machine.backend.gpus)


def of(node: Node, *places: int) -> list[str]:
    """The UUIDs of a node's GPUs, by their places."""
    return sorted(node.gpus[place].uuid for place in places)
