"""CSV files, one for each table, of all runs: the runs' and nodes' names are columns."""

import contextlib
import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.convert.tables import Columns, ExportError, Table
from gssr.render.scale import cell
from gssr.store.output_file import Access, new_file, output_folder


class CsvSink:
    """A Sink."""

    most_nodes = sys.maxsize
    rows_together = 1

    def __init__(self, folder: str, overwrite: bool, access: Access) -> None:
        """Create the folder where it isn't there; all that is made is for ``access``. Raises OSError."""
        output_folder(folder, access)
        self._folder, self._overwrite, self._access = folder, overwrite, access
        self._staged = tempfile.mkdtemp(prefix=".gssr-export-", dir=folder)
        self._files = contextlib.ExitStack()
        self._writers: dict[str, Any] = {}
        self._run_ids: set[str] = set()

    def begin(self, run_id: str, tables: Sequence[Table]) -> None:
        """As in Sink."""
        if run_id in self._run_ids:
            raise ExportError(f"run {run_id!r} was exported already, from another recording")
        for table in tables:
            if table.name in self._writers:
                continue
            if os.path.lexists(os.path.join(self._folder, f"{table.name}.csv")) and not self._overwrite:
                raise ExportError(f"{os.path.join(self._folder, table.name)}.csv exists; -f replaces it")
            path = os.path.join(self._staged, f"{table.name}.csv")
            file = open(new_file(path, self._access), "w", encoding="utf-8", newline="")  # noqa: SIM115, the stack closes it
            self._files.enter_context(file)
            self._writers[table.name] = csv.writer(file, lineterminator="\n")
            self._writers[table.name].writerow([column.name for column in table.columns])
        self._run_ids.add(run_id)

    def write(self, table: Table, node: str | None, columns: Columns) -> None:  # noqa: ARG002, the node is a column
        """As in Sink."""
        listed = [_listed(columns[column.name], column.type.startswith("INTEGER")) for column in table.columns]
        self._writers[table.name].writerows([cell(value) for value in row] for row in zip(*listed, strict=True))

    def end(self) -> None:
        """As in Sink."""

    def finish(self) -> None:
        """As in Sink."""
        self._files.close()
        for name in self._writers:
            os.replace(os.path.join(self._staged, f"{name}.csv"), os.path.join(self._folder, f"{name}.csv"))
        shutil.rmtree(self._staged)

    def undo(self) -> None:
        """As in Sink."""
        try:
            self._files.close()
        except OSError:
            pass  # what is closed is deleted
        shutil.rmtree(self._staged, ignore_errors=True)


def _listed(values: NDArray[Any] | Sequence[Any], integral: bool) -> Sequence[Any]:
    if not isinstance(values, np.ndarray):
        return values
    listed: list[Any] = values.tolist()
    return [int(value) if value == value else None for value in listed] if integral else listed
