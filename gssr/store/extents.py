"""What columns of the host's and the workload's samples add up to."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Extent(NamedTuple):
    """A column's count of values that are not NULL, their sum, and the greatest (None without any)."""

    n: int
    total: float
    greatest: float | None

    @property
    def mean(self) -> float | None:
        """None without any."""
        return self.total / self.n if self.n else None


def extents_of(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Extent]:
    """Rows of (count, sum, greatest) per column, joined."""
    joined_rows = {}
    for index, name in enumerate(columns):
        triples = [row[3 * index : 3 * index + 3] for row in rows]
        greatest = [triple[2] for triple in triples if triple[2] is not None]
        joined_rows[name] = Extent(sum(t[0] for t in triples), sum(t[1] for t in triples), max(greatest, default=None))
    return joined_rows
