"""Files of text, one for each table, of all runs: CSV, and JSON with an object in each line. The runs' and nodes' names are
columns."""

import contextlib
import csv
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TextIO

from gssr.convert.tables import Columns, ExportError, ExportTable, plain
from gssr.render.csv_cells import cell
from gssr.store.output_file import Access, new_file, output_folder

ENDINGS = {"csv": ".csv", "json": ".jsonl"}


class TextSink:
    """Write tables as text files, one for each table with the rows of all runs; a Sink. ``kind``: "csv", or "json" for
    an object on each line."""

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

    def begin(self, run_id: str, tables: Sequence[ExportTable]) -> None:
        """As in Sink."""
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

    def write(self, table: ExportTable, node: str | None, columns: Columns) -> None:  # noqa: ARG002, the node is a column
        """As in Sink."""
        rows = zip(*(plain(columns[column.name], column) for column in table.columns), strict=True)
        if self._kind == "csv":
            _write_csv(self._files[table.name], ([cell(value) for value in row] for row in rows))
            return
        names = [column.name for column in table.columns]
        lines = (json.dumps(dict(zip(names, row, strict=True)), separators=(",", ":")) + "\n" for row in rows)
        self._files[table.name].writelines(lines)

    def end(self) -> None:
        """As in Sink."""

    def finish(self) -> None:
        """See Sink. Moves the finished files into place."""
        self._stack.close()
        for table in self._files:
            name = table + ENDINGS[self._kind]
            os.replace(os.path.join(self._staged, name), os.path.join(self._folder, name))
        shutil.rmtree(self._staged)

    def undo(self) -> None:
        """As in Sink."""
        try:
            self._stack.close()
        except OSError:
            pass  # what is closed is deleted
        shutil.rmtree(self._staged, ignore_errors=True)


def _write_csv(file: TextIO, rows: Iterable[Sequence[Any]]) -> None:
    csv.writer(file, lineterminator="\n").writerows(rows)
