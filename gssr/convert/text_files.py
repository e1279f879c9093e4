"""Files of text, one for each table, of all runs: CSV, and JSON with an object in each line. The runs' and nodes' names are
columns.

Where pyarrow is installed, it writes long pieces of CSV, which are the same bytes (gssr/convert/csv_by_arrow.py).
"""

import contextlib
import csv
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from gssr.convert.tables import Columns, ExportError, ExportTable, Sink, is_numeric, plain
from gssr.render.csv_cells import cell
from gssr.store.format.schema import Column
from gssr.store.output_file import Access, new_file, output_folder

ENDINGS = {"csv": ".csv", "json": ".jsonl"}
_MANY_ROWS = 1000
"""Pieces of so many rows take longer to write without pyarrow than its import takes."""


class TextSink(Sink):
    """Write tables as text files, one for each table with the rows of all runs; a Sink. ``kind``: "csv", or "json" for
    an object on each line."""

    splits_runs = False
    only_ended = False
    most_nodes = sys.maxsize
    rows_together = 1

    def __init__(self, folder: str, overwrite: bool, access: Access, kind: Literal["csv", "json"]) -> None:
        """Create the folder if it does not exist. ``overwrite``: replace files that are there; ``access``: for whom
        files and folders are made. Raises OSError."""
        output_folder(folder, access)
        self._folder, self._overwrite, self._access, self._kind = folder, overwrite, access, kind
        self._staged = tempfile.mkdtemp(prefix=".gssr-export-", dir=folder)
        self._stack = contextlib.ExitStack()
        self._files: dict[str, TextIO] = {}
        self._run_ids: set[str] = set()

    def begin(self, run_id: str, tables: Sequence[ExportTable], started_at: float | None) -> Sequence[ExportTable]:  # noqa: ARG002
        """Begin a run, and return those of its tables that are to be written."""
        if run_id in self._run_ids:
            raise ExportError(f"run {run_id!r} was exported already, from another recording")
        for table in tables:
            if table.name in self._files:
                continue
            name = table.name + ENDINGS[self._kind]
            if os.path.lexists(os.path.join(self._folder, name)) and not self._overwrite:
                raise ExportError(f"{os.path.join(self._folder, name)} exists; -f replaces it")
            path = os.path.join(self._staged, name)
            file = open(new_file(path, self._access), "w", encoding="utf-8", newline="")  # noqa: SIM115, the stack closes it
            self._files[table.name] = self._stack.enter_context(file)
            if self._kind == "csv":
                _write_csv(file, [[column.name for column in table.columns]])
        self._run_ids.add(run_id)
        return tables

    def write(self, table: ExportTable, node: str | None, columns: Columns) -> None:  # noqa: ARG002, the node is a column
        """Add rows to a table of the run."""
        names = [column.name for column in table.columns]
        file = self._files[table.name]
        if self._kind == "csv":
            many = len(columns[names[0]]) >= _MANY_ROWS and _is_of_numbers(table, columns)
            by_arrow = _csv_by_arrow() if many else None
            if by_arrow is None:
                _write_csv(file, zip(*(_cells(columns[column.name], column) for column in table.columns), strict=True))
                return
            is_whole = [column.type.startswith("INTEGER") for column in table.columns]
            values = [
                plain(columns[column.name], column) if column.type.startswith("TEXT") else columns[column.name]
                for column in table.columns
            ]
            file.flush()
            file.buffer.write(by_arrow(values, is_whole))
            return
        rows = zip(*(plain(columns[column.name], column) for column in table.columns), strict=True)
        lines = (json.dumps(dict(zip(names, row, strict=True)), separators=(",", ":")) + "\n" for row in rows)
        file.writelines(lines)

    def end(self) -> None:
        """Complete the run."""

    def finish(self) -> None:
        """Complete the export: move the finished files into place."""
        self._stack.close()
        for table in self._files:
            name = table + ENDINGS[self._kind]
            os.replace(os.path.join(self._staged, name), os.path.join(self._folder, name))
        shutil.rmtree(self._staged)

    def undo(self) -> None:
        """Remove what was written of the run that was begun."""
        try:
            self._stack.close()
        except OSError:
            pass  # what is closed is deleted
        shutil.rmtree(self._staged, ignore_errors=True)


@cache
def _csv_by_arrow() -> Callable[[Sequence[Any], Sequence[bool]], Any] | None:
    """Return what writes rows by pyarrow; None where that is not installed."""
    try:
        from gssr.convert.csv_by_arrow import csv_rows
    except ImportError:
        return None
    return csv_rows


def _is_of_numbers(table: ExportTable, columns: Columns) -> bool:
    """Tell whether all columns but those of texts are arrays of numbers."""
    return all(column.type.startswith("TEXT") or is_numeric(columns[column.name]) for column in table.columns)


def _cells(values: NDArray[Any] | Sequence[Any], column: Column) -> list[Any]:
    """Convert a column's values to cells of CSV."""
    if is_numeric(values) and not column.type.startswith("TEXT"):
        return plain(np.asarray(values) + 0, column)  # no -0.0
    return [cell(value) for value in plain(values, column)]


def _write_csv(file: TextIO, rows: Iterable[Sequence[Any]]) -> None:
    csv.writer(file, lineterminator="\n").writerows(rows)
