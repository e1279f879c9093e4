"""What an export writes into: columns of a table, run by run. Nothing that is there is touched unless that was asked for."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from gssr.convert.tables import Table

Columns = Mapping[str, NDArray[Any] | Sequence[Any]]
"""Values by the names of a table's columns, all of one length; None, and NaN in arrays of floats, are NULL."""


class ExportError(Exception):
    """Something can't be exported; the text is one sentence."""


class Sink(Protocol):
    """Where tables go: ``begin`` a run, ``write`` any number of pieces of its tables, ``end`` it; at last ``finish``. After
    ``undo`` nothing of the run begun is left, and of CSV files nothing at all. All may raise OSError."""

    most_nodes: int
    """Of a table that is split by node, rows of so many nodes are to come in turns at most."""

    def begin(self, run_id: str, tables: Sequence[Table]) -> None:
        """A run follows. Raises ExportError when it is there already."""

    def write(self, table: Table, node: str | None, columns: Columns) -> None:
        """Add rows; ``node`` is that of all of them where files are split by node."""

    def end(self) -> None:
        """The run is complete: from now on it is there."""

    def finish(self) -> None:
        """All runs are."""

    def undo(self) -> None:
        """Something went wrong."""
