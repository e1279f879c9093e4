"""One Parquet data set that grows: ``TABLE/week=2026-W47/part-0001.parquet``, a few large files for each table and week.

The week is the ISO week, in UTC, in which the run began. Workers write the runs of several recordings into files of a folder
aside; whoever has started them puts these into place (``ParquetDataset.finish``). Large ones are renamed. Small ones go into
the one file of their table and week that is still small: it is written anew aside, and takes the old one's place by one
rename. So each table is whole at every moment: a reader, or a crash, finds all rows of a run in it or none, and none twice.

Each file says in its metadata which runs it holds (RUNS), also those that have no row in it: so no run gets there twice.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gssr.convert.parquet import array_of, parquet_writer, type_of
from gssr.convert.tables import EXPORTED, RUN, Columns, ExportError, ExportTable, Sink, WrittenFile
from gssr.model.fleet.fleet import week_of
from gssr.store.disk import FILE
from gssr.store.merge.lock import Lock, acquire
from gssr.store.output_file import Access, new_file, output_folder
from gssr.version import __version__

RUNS = b"gssr.runs"
"""In a file's metadata: the ids of its runs, a JSON array."""
SMALL_BYTES = 128 << 20
"""Files below this get more rows, and are written anew for that."""
MOST_RUNS = 5000
"""A file with so many runs is not small either: their ids, which every reader reads, take 0.2 MB."""
LARGE_BYTES = 512 << 20
"""A file that has grown so large while it was written is closed."""
ROW_GROUP = 1 << 17
"""Rows of a group, of which readers skip those that they need nothing of: about as many as DuckDB's own."""
_HELD_BYTES = 32 << 20
"""Of rows that a run has in a table: of more it gets a file of its own, which can be thrown away if the run can't be read to
its end."""
_LOOSE_ROWS = 20_000
"""Rows that are held as Python's values at most: some 20 MB."""
_PENDING_RUNS = 2000
"""After so many runs what was written is put into place, so that no crash costs more."""
_ASIDE = ".gssr-export-"
_PATIENCE = 600.0
"""Seconds for which another export into the same data set is waited for."""


class DatasetSink(Sink):
    """The copy of a data set that a worker writes into: its files stay aside until the exporting process puts them into
    place. Nothing is open when it is pickled, before the first run."""

    splits_runs = True
    most_nodes = 1 << 30
    rows_together = 1
    only_ended = True

    def __init__(self, folder: str, aside: str, overwrite: bool, access: Access) -> None:
        """``folder``: the data set; ``aside``: the folder for the files; ``overwrite``: write runs that are there already
        once more; ``access``: for whom files are made."""
        self._folder, self._aside, self._overwrite, self._access = folder, aside, overwrite, access
        self._run_id, self._week = "", ""
        self._rows: dict[str, _FileAside] = {}
        self._begun: set[str] = set()
        self._open: dict[tuple[str, str], _FileAside] = {}
        self._pieces: list[WrittenFile] = []

    def begin(self, run_id: str, tables: Sequence[ExportTable], started_at: float | None) -> Sequence[ExportTable]:
        """Begin a run, and return the tables in which it is missing."""
        if run_id in self._begun:
            raise ExportError(f"run {run_id!r} was exported already, from another recording")
        self._run_id, self._week = run_id, week_of(started_at)
        missing = [
            table
            for table in tables
            if self._overwrite or run_id not in _runs_there(self._folder, self._aside, table.name, self._week)
        ]
        if missing:
            self._begun.add(run_id)
            self._rows = {table.name: self._file_aside(table) for table in missing}
        return missing

    def _file_aside(self, table: ExportTable) -> "_FileAside":
        return _FileAside(table, self._week, self._aside, self._access)

    def write(self, table: ExportTable, node: str | None, columns: Columns) -> None:  # noqa: ARG002, the node is a column
        """Add rows to a table of the run."""
        self._rows[table.name].add(columns)

    def end(self) -> None:
        """Complete the run."""
        rows, self._rows = self._rows, {}
        for name, own in rows.items():
            if own.is_written:
                self._pieces.append(own.close([self._run_id]))
                continue
            together = self._open.setdefault((name, self._week), own)
            if together is not own:
                together.add_rows_of(own)
            together.runs.append(self._run_id)
            if together.n_bytes >= LARGE_BYTES or len(together.runs) >= MOST_RUNS:
                self._pieces.append(self._open.pop((name, self._week)).close())

    def undo(self) -> None:
        """Remove what was written of the run that was begun."""
        self._begun.discard(self._run_id)
        for own in self._rows.values():
            own.discard()
        self._rows = {}

    def hand_over(self) -> Sequence[WrittenFile]:
        """Complete the files that hold several runs, and return them."""
        pieces = [*self._pieces, *(own.close() for own in self._open.values())]
        self._pieces, self._open = [], {}
        return pieces


@dataclass
class _FileAside:
    """A file of one table and week that is being written: rows are held until there are enough for a group of them."""

    table: ExportTable
    week: str
    folder: str
    access: Access
    runs: list[str] = field(default_factory=list)
    _held: list[pa.Table] = field(default_factory=list)
    _held_bytes: int = 0
    _loose: dict[str, list[Any]] = field(default_factory=dict)
    _file: "_Writer | None" = None

    @property
    def is_written(self) -> bool:
        """Whether some of the rows are in a file already."""
        return self._file is not None

    @property
    def n_bytes(self) -> int:
        """The bytes that are in the file so far."""
        return 0 if self._file is None else self._file.n_bytes

    def add(self, columns: Columns) -> None:
        """Add rows. They are held as they are until there are many, as to turn a few into Arrow's takes as long."""
        if any(isinstance(values, np.ndarray) for values in columns.values()):
            self._hold_loose()
            self._hold(self._as_arrow(columns))
            return
        for name, values in columns.items():
            self._loose.setdefault(name, []).extend(values)
        if len(self._loose[RUN]) >= _LOOSE_ROWS:
            self._hold_loose()

    def add_rows_of(self, other: "_FileAside") -> None:
        """Add the rows that another one holds and has not written."""
        for rows in other._held:
            self._hold_loose()
            self._hold(rows)
        if other._loose:
            self.add(other._loose)

    def _as_arrow(self, columns: Columns) -> pa.Table:
        schema, of_table = schema_of(self.table), {column.name: column for column in self.table.columns}
        arrays = [array_of(columns[name], of_table[name], schema.field(name).type) for name in schema.names]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _hold_loose(self) -> None:
        loose, self._loose = self._loose, {}
        if loose:
            self._hold(self._as_arrow(loose))

    def _hold(self, rows: pa.Table) -> None:
        """Hold rows, until all that are held take much memory."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > _HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        """Write the rows that are held into the file, which is made the first time, even if there are none."""
        if self._file is None:
            self._file = _Writer(self.folder, schema_of(self.table), self.access)
        for own in self._held:
            self._file.write(own)
        self._held, self._held_bytes = [], 0

    def close(self, runs: Sequence[str] = ()) -> WrittenFile:
        """Complete the file, which holds these ``runs`` and those that were noted."""
        self._hold_loose()
        self._write_held()
        assert self._file is not None
        own = (*self.runs, *runs)
        return WrittenFile(self.table.name, self.week, self._file.close(own), own)

    def discard(self) -> None:
        """Throw away what was written."""
        if self._file is not None:
            self._file.discard()


class _Writer:
    """Writes one Parquet file in a folder, in groups of ROW_GROUP rows, under a name that no other has."""

    def __init__(self, folder: str, schema: pa.Schema, access: Access) -> None:
        self._schema = schema
        self.path = os.path.join(folder, f"{os.urandom(8).hex()}.parquet")
        self._file: BinaryIO = open(new_file(self.path, access), "wb")  # noqa: SIM115, close and discard do
        self._parquet = parquet_writer(self._file, schema, ROW_GROUP)
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0

    @property
    def n_bytes(self) -> int:
        """The bytes written so far."""
        return self._file.tell()

    def write(self, rows: pa.Table) -> None:
        """Write rows, as soon as there are enough for a group."""
        self._waiting.append(rows)
        self._n_waiting += len(rows)
        if self._n_waiting >= ROW_GROUP:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._n_waiting:
            self._parquet.write_table(pa.concat_tables(self._waiting), row_group_size=2 * ROW_GROUP)
        self._waiting, self._n_waiting = [], 0

    def close(self, runs: Sequence[str]) -> str:
        """Complete the file and return its path; it is on the disk then."""
        with self._file:
            self._write_waiting()
            self._parquet.add_key_value_metadata({RUNS: json.dumps(list(runs))})
            self._parquet.close()
            self._file.flush()
            os.fsync(self._file.fileno())
        return self.path

    def discard(self) -> None:
        """Throw the file away."""
        self._file.close()
        os.unlink(self.path)


@lru_cache(256)
def schema_of(table: ExportTable) -> pa.Schema:
    """Return the schema of a table's files: all columns, each with its meaning."""
    about = {"gssr.table": table.name, "gssr.version": __version__}
    return pa.schema(
        [
            pa.field(column.name, type_of(table, column), metadata={"meaning": column.meaning})
            for column in table.columns
        ],
        about,
    )


def runs_of(path: str) -> list[str] | None:
    """Return the ids of the runs that a file of a data set holds; None for a file that GSSR has not written."""
    try:
        text = (pq.read_metadata(path).metadata or {}).get(RUNS)
        runs = None if text is None else json.loads(text)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return runs if isinstance(runs, list) and all(isinstance(run, str) for run in runs) else None


def _files_there(folder: str, table: str, week: str) -> dict[str, list[str]]:
    """Return the files of a table and week, by path, with the runs of each; those that GSSR has not written are left out."""
    place = _place(folder, table, week)
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".parquet"))
    except FileNotFoundError:
        return {}
    found = ((path, runs_of(path)) for path in (os.path.join(place, name) for name in names))
    return {path: runs for path, runs in found if runs is not None}


def _place(folder: str, table: str, week: str) -> str:
    return os.path.join(folder, table, f"week={week}")


@lru_cache(4096)
def _runs_there(folder: str, aside: str, table: str, week: str) -> frozenset[str]:  # noqa: ARG001, see below
    """Return the runs that a data set has in a table and week. ``aside`` is another folder for every export, during which
    nobody else writes: so what a worker has read once holds for all of this export, and for no other."""
    return frozenset(run for runs in _files_there(folder, table, week).values() for run in runs)


class ParquetDataset(DatasetSink):
    """A data set that is appended to, by one process at a time: a context, and a Sink. Workers get a copy of it that only
    writes aside."""

    def __init__(self, folder: str, overwrite: bool, access: Access) -> None:
        """``overwrite``: replace runs that are there already; ``access``: for whom files and folders are made. Raises
        OSError, and ExportError if another process is at work."""
        output_folder(folder, access)
        lock = acquire(folder, _PATIENCE)
        if lock is None:
            raise ExportError(f"{folder}: another export is writing into it")
        self._lock: Lock = lock
        for name in os.listdir(folder):
            if name.startswith(_ASIDE):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)  # of an export that was killed
        super().__init__(folder, tempfile.mkdtemp(prefix=_ASIDE, dir=folder), overwrite, access)
        self._there: dict[tuple[str, str], dict[str, list[str]]] = {}
        self._waiting: list[WrittenFile] = []
        self._own: dict[tuple[str, str], set[str]] = {}

    def __reduce__(self) -> tuple[type[DatasetSink], tuple[str, str, bool, Access]]:
        return DatasetSink, (self._folder, self._aside, self._overwrite, self._access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)
        self._lock.release()

    def stay(self) -> None:
        """Show other exports that this one is at work."""
        self._lock.touch()

    def put(self, pieces: Sequence[WrittenFile]) -> Sequence[str]:
        """Take files that workers have handed over. ``finish`` puts them into place, and is called here if there are
        many."""
        twice: dict[str, None] = {}
        for piece in pieces:
            own = self._own.setdefault((piece.table, piece.week), set())
            again = own.intersection(piece.runs)
            own.update(piece.runs)
            twice |= dict.fromkeys(run for run in piece.runs if run in again)
            rest = tuple(run for run in piece.runs if run not in again)
            if again and rest:
                table = EXPORTED[piece.table]
                piece = piece._replace(path=self._written(table, [piece.path], rest, again, self._access), runs=rest)
            if rest:
                self._waiting.append(piece)
        if sum(len(piece.runs) for piece in self._waiting) >= _PENDING_RUNS * len({own.table for own in self._waiting}):
            self.finish()
        return list(twice)

    def finish(self) -> None:
        """Put the files that are waiting into place. Raises ExportError, too."""
        waiting, self._waiting = self._waiting, []
        groups: dict[tuple[str, str], list[WrittenFile]] = {}
        for piece in waiting:
            groups.setdefault((piece.table, piece.week), []).append(piece)
        order = list(EXPORTED)
        for (table, week), pieces in sorted(groups.items(), key=lambda each: -order.index(each[0][0])):
            self.stay()
            if not self._lock.held:
                raise ExportError("another export has taken over: give these recordings again")
            self._put_together(EXPORTED[table], week, pieces)

    def _put_together(self, table: ExportTable, week: str, pieces: Sequence[WrittenFile]) -> None:
        """Put the new files of a table and week into place."""
        place = _place(self._folder, table.name, week)
        there = self._there.get((table.name, week))
        if there is None:
            there = self._there[table.name, week] = _files_there(self._folder, table.name, week)
        output_folder(place, self._access)
        new = {run for piece in pieces for run in piece.runs}
        for path, runs in list(there.items()):
            gone = new.intersection(runs)  # what is replaced
            if gone:
                self._without(table, path, gone, there)
        growing = next((path for path, runs in there.items() if _is_small(path, runs)), None)
        small = []
        for piece in pieces:
            if _is_small(piece.path, piece.runs):
                small.append(piece)
            else:
                path = _next_name(place)
                os.rename(piece.path, path)
                there[path] = list(piece.runs)
        while small:
            n = _n_together(small, growing, there)
            growing = self._put_into_one(table, place, small[:n], growing, there)
            del small[:n]

    def _put_into_one(
        self,
        table: ExportTable,
        place: str,
        pieces: Sequence[WrittenFile],
        growing: str | None,
        there: dict[str, list[str]],
    ) -> str | None:
        """Put small files into the one in place that is still small, ``growing``, or where there is none into a new one.
        Returns the file if it is still small, else None."""
        before = [] if growing is None else there[growing]
        files = [*([] if growing is None else [growing]), *(piece.path for piece in pieces)]
        held = [*before, *(run for piece in pieces for run in piece.runs)]
        if len(files) == 1:
            made = files[0]
        else:
            access = self._access if growing is None else _both(self._access, growing)
            made = self._written(table, files, held, (), access)
        path = growing or _next_name(place)
        os.replace(made, path)
        there[path] = held
        return path if _is_small(path, held) else None

    def _without(self, table: ExportTable, path: str, gone: Collection[str], there: dict[str, list[str]]) -> None:
        """Take runs out of a file that is in place."""
        rest = [run for run in there[path] if run not in gone]
        if rest:
            os.replace(self._written(table, [path], rest, gone, _both(self._access, path)), path)
            there[path] = rest
        else:
            os.unlink(path)
            del there[path]

    def _written(
        self,
        table: ExportTable,
        files: Sequence[str],
        runs: Sequence[str],
        gone: Collection[str],
        access: Access,
    ) -> str:
        """Write the rows of some files into one, aside, without the runs that are ``gone``. Returns its path. Columns that
        only older or newer versions have are kept."""
        schemas = [pq.read_schema(path).remove_metadata() for path in files]
        schema = pa.unify_schemas([schema_of(table), *schemas]).with_metadata(schema_of(table).metadata)
        writer = _Writer(self._aside, schema, access)
        for path in files:
            for rows in _rows_of(path, schema):
                kept = rows.filter(pc.invert(pc.is_in(rows[RUN], pa.array(gone, pa.string())))) if gone else rows
                writer.write(kept)
                self.stay()
        return writer.close(runs)


def _rows_of(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read a file a group of rows at a time, with the columns of ``schema``; those that the file lacks are NULL."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROW_GROUP):
            rows = pa.Table.from_batches([batch])
            columns = [
                rows[own.name].cast(own.type) if own.name in rows.column_names else pa.nulls(len(rows), own.type)
                for own in schema
            ]
            yield pa.Table.from_arrays(columns, schema=schema)


def _is_small(path: str, runs: Sequence[str]) -> bool:
    return os.stat(path).st_size < SMALL_BYTES and len(runs) < MOST_RUNS


def _n_together(small: Sequence[WrittenFile], growing: str | None, there: Mapping[str, Sequence[str]]) -> int:
    """Return how many of some small files, at least one, go into one, so that it is no longer small."""
    n_bytes, n_runs = (0, 0) if growing is None else (os.stat(growing).st_size, len(there[growing]))
    for n, piece in enumerate(small, 1):
        n_bytes, n_runs = n_bytes + os.stat(piece.path).st_size, n_runs + len(piece.runs)
        if n_bytes >= SMALL_BYTES or n_runs >= MOST_RUNS:
            return n
    return len(small)


def _next_name(place: str) -> str:
    """Return a name for one more file in a folder, behind those that are there."""
    numbers = [name[5:-8] for name in os.listdir(place) if name.startswith("part-") and name.endswith(".parquet")]
    last = max((int(number) for number in numbers if number.isascii() and number.isdigit()), default=0)
    return os.path.join(place, f"part-{last + 1:04d}.parquet")


def _both(access: Access, path: str) -> Access:
    """Return the access for whom both the new rows and those of the file at ``path`` are."""
    status = os.stat(path)
    return Access(FILE | access.mode & status.st_mode & 0o066, access.group if status.st_gid == access.group else None)
