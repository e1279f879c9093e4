"""Parquet files, in folders by table, run and node: ``TABLE/run_id=RUN/node=NODE/data.parquet``.

That is how Hive, Spark, DuckDB, Dask and pyarrow name partitions: ``run_id`` and ``node`` come from the folders, and are no
columns of the files. Names are percent-encoded, so that none leads out of its folder.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gssr.convert.tables import NODE, RUN, Columns, ExportError, ExportTable, Sink, plain
from gssr.metrics import BY_NAME
from gssr.store.disk import allow_descriptors
from gssr.store.format.schema import Column
from gssr.store.output_file import Access, new_file, output_folder
from gssr.version import __version__

NULL = "__HIVE_DEFAULT_PARTITION__"
FILE = "data.parquet"
_AT_ONCE = 256  # further files for which there is to be room
_MANY_ROWS = 100
"""Of fewer rows most of a file is what Parquet says about it, and to compress them takes longer than to write them."""
_LEVEL = 3
"""Of zstd: 6 % smaller than 1, in as much more time."""
_TYPES = {"TEXT": pa.string(), "INTEGER": pa.int64(), "REAL": pa.float64()}
_EXACT = {"energy": pa.float64(), "memory_used": pa.float64(), "clock_event_reasons": pa.int64()}
"""Metrics that need all their digits: a counter, bytes, bits."""


def type_of(table: ExportTable, column: Column) -> pa.DataType:
    """Return the Arrow type of a column. Metrics of samples are float32, which holds 7 digits, more than any sensor
    gives, except those in _EXACT; times and everything computed are float64."""
    if table.name == "samples" and column.name in BY_NAME:
        return _EXACT.get(column.name, pa.float32())
    return _TYPES[column.type.split()[0]]


def folder_name(key: str, value: str | None) -> str:
    """Return the name of a partition's folder, ``KEY=VALUE``, percent-encoded; None and "" get Hive's name for NULL."""
    return f"{key}={quote(value, safe='') if value else NULL}"


class ParquetSink(Sink):
    """Write tables as Parquet files; a Sink.

    The rows of one ``write`` become one row group, of which 4 kB stay in memory until its file is closed. If more than
    ``most_nodes`` files are open, the one that has been open longest without a write is closed; later rows of its node
    go into another file beside it.
    """

    splits_runs = True
    only_ended = False
    most_nodes = 160
    rows_together = 2_000

    def __init__(self, folder: str, overwrite: bool, access: Access) -> None:
        """Create the folder if it does not exist. ``overwrite``: replace runs that are there already; ``access``: for
        whom files and folders are made. Raises OSError."""
        output_folder(folder, access)
        pa.array([])  # imports pandas, which each process that is forked to write runs would do for itself
        self._folder, self._overwrite, self._access = folder, overwrite, access
        self._staged = ""
        self._run_id = ""
        self._tables: Sequence[ExportTable] = ()
        self._writers: dict[str, tuple[pq.ParquetWriter, BinaryIO]] = {}

    def begin(self, run_id: str, tables: Sequence[ExportTable], started_at: float | None) -> Sequence[ExportTable]:  # noqa: ARG002
        """Begin a run, and return those of its tables that are to be written."""
        self._run_id, self._tables = run_id, tables
        self._check_that_it_is_new()
        self._staged = tempfile.mkdtemp(prefix=".gssr-export-", dir=self._folder)
        return tables

    def write(self, table: ExportTable, node: str | None, columns: Columns) -> None:
        """Add rows to a table of the run."""
        folder = os.path.join(self._staged, table.name)
        if table.per_node:
            folder = os.path.join(folder, folder_name(NODE, node))
        schema = _schema(table, self._run_id, node)
        writer = self._writers.pop(folder, None)
        if writer is None:
            if len(self._writers) % _AT_ONCE == 0:
                allow_descriptors(_AT_ONCE)
            if len(self._writers) >= self.most_nodes:
                oldest, closing = self._writers.pop(next(iter(self._writers)))
                with closing:
                    oldest.close()
            output_folder(folder, self._access)
            n = len(os.listdir(folder))
            name = FILE if not n else f"data-{n + 1}.parquet"
            file = open(new_file(os.path.join(folder, name), self._access), "wb")  # noqa: SIM115, _close closes it
            writer = (parquet_writer(file, schema, len(columns[schema.names[0]])), file)
        self._writers[folder] = writer
        of_table = {column.name: column for column in table.columns}
        arrays = [array_of(columns[field.name], of_table[field.name], field.type) for field in schema]
        writer[0].write_table(pa.Table.from_arrays(arrays, schema=schema))

    def end(self) -> None:
        """Complete the run: move its finished folders into place, where they replace those of an earlier export."""
        self._close()
        self._check_that_it_is_new()  # another process may have written the same run meanwhile
        for table in self._tables:
            place = self._place(table)
            made = os.path.join(self._staged, table.name)
            if os.path.isdir(place):
                shutil.rmtree(place)
            if os.path.isdir(made):
                output_folder(os.path.dirname(place), self._access)
                os.rename(made, place)
        shutil.rmtree(self._staged)
        self._staged = ""

    def _check_that_it_is_new(self) -> None:
        """Raise ExportError where the run is there already and may not be replaced."""
        if not self._overwrite and any(os.path.lexists(self._place(table)) for table in self._tables):
            raise ExportError(f"run {self._run_id!r} is in {self._folder} already; -f replaces it")

    def undo(self) -> None:
        """Remove what was written of the run that was begun."""
        try:
            self._close()
        except OSError:
            pass  # what is closed is deleted
        if self._staged:
            shutil.rmtree(self._staged, ignore_errors=True)
            self._staged = ""

    def _place(self, table: ExportTable) -> str:
        return os.path.join(self._folder, table.name, folder_name(RUN, self._run_id))

    def _close(self) -> None:
        """Close all open files."""
        writers, self._writers = self._writers, {}
        with ExitStack() as files:
            for writer, file in writers.values():
                files.enter_context(file)
                files.callback(writer.close)


def _schema(table: ExportTable, run_id: str, node: str | None) -> pa.Schema:
    """Return the schema of a table's files: fields with their meaning, and, as metadata, the run and the node. Columns
    that folders name are left out."""
    about = {"gssr.table": table.name, "gssr.version": __version__, "gssr.run_id": run_id}
    if table.per_node and node is not None:
        about["gssr.node"] = node
    return _fields(table).with_metadata(about)


@cache
def _fields(table: ExportTable) -> pa.Schema:
    """Return the fields of a table's files, whatever run they are of."""
    partition = (RUN, NODE) if table.per_node else (RUN,)
    return pa.schema(
        pa.field(column.name, type_of(table, column), metadata={"meaning": column.meaning})
        for column in table.columns
        if column.name not in partition
    )


def array_of(values: NDArray[Any] | Sequence[Any], column: Column, kind: pa.DataType) -> pa.Array:
    """Convert a column to Arrow; None, and NaN in arrays of floats, become NULL."""
    if isinstance(values, np.ndarray):
        return pa.array(values, from_pandas=True).cast(kind, safe=False)
    return pa.array(plain(values, column), kind)


def parquet_writer(file: BinaryIO, schema: pa.Schema, n_rows: int) -> Any:
    """Open a Parquet writer with encodings that every reader knows: floats as they are, other columns by dictionaries.

    To split floats by bytes (BYTE_STREAM_SPLIT) would take a sixth off the files, but Spark can't read that without a
    setting. ``n_rows``: so many come first; few are not compressed.
    """
    others = [field.name for field in schema if not pa.types.is_floating(field.type)]
    many = n_rows >= _MANY_ROWS
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd" if many else "none",
        compression_level=_LEVEL if many else None,
        use_dictionary=others,
        write_statistics=True,
    )
