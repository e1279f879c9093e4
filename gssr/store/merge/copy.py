"""Copying a rank's file into the merged one, table by table.

Samples are copied as they lie where they can be: same columns, same keys of GPUs. Their rowids change by one number for
the whole file, and those in its rollups with them.

Rolling up what a rank's file left uncounted: the end of one that was cut off. In the merged file the rollups of all
ranks are read together, so none may lack its last minutes.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence

from gssr.metrics import NAMES
from gssr.store.format.columns import metric_columns, own_name, selected
from gssr.store.format.host_rollups import USE_TABLES, UseTable, add_up, count_rolled_up, newest_row, roll_up
from gssr.store.format.layout import Layout, layout_of
from gssr.store.format.limits import GREATEST, LATEST, number_within
from gssr.store.format.rollup import (
    Bucket,
    Rollups,
    SketchRow,
    lay_out_anew,
    put_in_order,
    unpack_sketch,
    unpack_vector,
)
from gssr.store.format.rows import first_failure, missing_ranks, one_run, without_ranks
from gssr.store.format.schema import GAP_INTERVALS, LEVELS, RANKS_MISSING, SKETCHES, TABLES
from gssr.store.merge.gpu_keys import Keys, new_key_expression, unchanged
from gssr.store.merge.sources import RankFile, attached
from gssr.store.read.small_tables import ends_of, read_merged, read_processes, read_runs
from gssr.store.write.pending import write_rollup, write_sketch

_ROWS_AT_ONCE = 4096


def roll_up_rest(
    connection: sqlite3.Connection, last: int, counted: Mapping[int, int], gap_seconds: float, layout: Layout
) -> None:
    """Roll up samples that a rank's file left uncounted.

    Args:
        last: the last rowid of the rank's samples.
        counted: by key of the GPU, the rowid up to which its samples are counted.
        gap_seconds: more than this between two rows of a GPU is a gap.
        layout: the file's.

    Raises sqlite3.Error.
    """
    columns = selected(connection, "samples", NAMES)
    wanted = ", ".join(columns)
    rollups = Rollups(gap_seconds, [name for name in NAMES if name in columns], layout)
    cursor = connection.execute(
        f"SELECT rowid, gpu, time, {wanted} FROM main.samples WHERE rowid BETWEEN ? AND ? ORDER BY rowid",
        (min(counted.values()) + 1, last),
    )
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        for rowid, key, time, *values in rows:
            if rowid > counted.get(key, last) and number_within(time, LATEST) is not None:
                rollups.add(
                    rowid,
                    key,
                    (key, time, *(None if value is None else number_within(value, GREATEST) for value in values)),
                )
        _write_closed(connection, rollups, gap_seconds, layout)
    rollups.close_all()
    _write_closed(connection, rollups, gap_seconds, layout)


def _write_closed(connection: sqlite3.Connection, rollups: Rollups, gap_seconds: float, layout: Layout) -> None:
    """Write the rollups and sketches that were closed since the last call. ``gap_seconds`` and ``layout`` are as in
    ``roll_up_rest``. Raises sqlite3.Error."""
    closed, sketches = rollups.take()
    for bucket in closed:
        write_rollup(connection, bucket, gap_seconds, layout)
    for sketch in sketches:
        write_sketch(connection, sketch)


_COARSEST = LEVELS[-1]


class RefusedError(Exception):
    """The rank's file of this ``name`` can't become part of the merged one; the text is one sentence that names it."""

    def __init__(self, name: str, text: str) -> None:
        """``name`` is the rank's file, ``text`` the sentence to be shown."""
        super().__init__(text)
        self.name = name


class HolesError(Exception):
    """The rowids of a file's samples have gaps (its disk was full for a while), although none were assumed. The file's
    name is in ``holes`` now, and it must be copied again."""


_LISTED_TWICE = (
    "DELETE FROM main.traces WHERE rowid NOT IN (SELECT rowid FROM (SELECT rowid, row_number() OVER "
    "(PARTITION BY run_id, path ORDER BY node IS NULL, rowid) AS place FROM main.traces) WHERE place = 1)"
)
"""A trace that several ranks have found stays with the one whose it is: gssr.store.format.rows.one_row_a_trace."""


class RunCopier:
    """Copies ranks' files into the recording that is open as ``connection``. ``holes``: names of files whose rowids are
    known to have gaps."""

    def __init__(self, connection: sqlite3.Connection, sources: Sequence[RankFile], holes: set[str]) -> None:
        """``sources`` are all that are to come. Raises sqlite3.Error, RecordingError."""
        self._connection = connection
        self._keys = Keys(connection, sources)
        self.holes = holes
        self.copied: dict[str, int] = {}
        """How many samples of each file were copied."""

    def add(self, source: RankFile) -> None:
        """Copy one file and enter it into the ledger, in one transaction; a file that is in the ledger is skipped.
        Raises RefusedError, HolesError or sqlite3.Error; then nothing of it was copied, provided that the recording has
        a journal."""
        connection = self._connection
        with attached(connection, source.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not connection.execute("SELECT 1 FROM merged WHERE shard = ?", (source.name,)).fetchall():
                    self._copy(source)
                connection.execute("COMMIT")
            except sqlite3.IntegrityError as error:
                raise RefusedError(source.name, f"{source.path}: does not fit the others: {error}") from None
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _copy(self, source: RankFile) -> None:
        """Copy one attached file, table by table."""
        self._add_newer_columns()
        layout = layout_of(metric_columns(self._connection))
        self._move_run_to_the_end(source.run.run_id)
        self._copy_run(source)
        keys, shared = self._keys.of(source)
        self._copy_gpus(keys, shared)
        self._copy_table("processes")
        for use in USE_TABLES:
            self._copy_use(use)
        self._copy_table("events", {"gpu": new_key_expression(keys)})
        if self._columns("shard", "gpu_processes"):  # which files of an earlier version lack
            self._copy_table("gpu_processes", {"gpu": new_key_expression(keys)})
        shift = self._copy_samples(source, keys)
        gap_seconds = GAP_INTERVALS * (source.run.sampling_ms or 0.0) / 1000 or math.inf
        counted = self._counted(source)
        self._copy_rollups(source, keys, shift, shared, counted, gap_seconds, layout)
        if self._columns("shard", "thinned"):  # which files of an earlier version lack
            rowids = {name: f"{name} + {shift}" for name in ("first_rowid", "last_rowid")}
            self._copy_table("thinned", rowids)
        if self._columns("shard", "traces"):
            self._copy_table("traces")
        ends = (source.first + shift, source.last + shift) if source.last else None
        if ends and counted:
            until = {keys[gpu]: rowid + shift for gpu, rowid in counted.items()}
            roll_up_rest(self._connection, ends[1], until, gap_seconds, layout)
        self._connection.execute(
            "INSERT INTO merged (shard, run_id, first_rowid, last_rowid) VALUES (?, ?, ?, ?)",
            (source.name, source.run.run_id, *(ends or (None, None))),
        )

    def _columns(self, schema: str, table: str) -> list[tuple[str, str, int]]:
        """Return name, type and NOT NULL of a table's columns; [] if there is no such table."""
        rows = self._connection.execute(f"PRAGMA {schema}.table_info({table})")
        return [(own_name(name, table), kind, needed) for _, name, kind, needed, *_ in rows]

    def _add_newer_columns(self) -> None:
        """Add columns to the recording that the file has and it lacks, which only a later version knows."""
        for table in TABLES:
            present = {name for name, *_ in self._columns("main", table)}
            for name, kind, _ in self._columns("shard", table):
                if name not in present:
                    self._connection.execute(f'ALTER TABLE main.{table} ADD COLUMN "{name}" {kind}')

    def _move_run_to_the_end(self, run_id: str) -> None:
        """Move the part of a run that is in the recording to its end if another run was added behind it: the rows of a
        run follow one another in a file."""
        connection = self._connection
        newest = ends_of(connection)[1]
        first, last = connection.execute(
            "SELECT min(first_rowid), max(last_rowid) FROM merged WHERE run_id = ?", (run_id,)
        ).fetchone()
        if last is None or newest is None or last == newest:
            return
        shift = newest + 1 - first
        keys = "gpu IN (SELECT gpu FROM main.gpus WHERE run_id = :run)"
        statements = [
            f"UPDATE main.samples SET rowid = rowid + :shift WHERE rowid BETWEEN :first AND :last AND {keys}",
            *(
                f"UPDATE main.{table} SET first_rowid = first_rowid + :shift, last_rowid = last_rowid + :shift WHERE {where}"
                for table, where in (("rollup", keys), ("merged", "run_id = :run"), ("thinned", "run_id = :run"))
            ),
            "UPDATE main.runs SET rowid = (SELECT max(rowid) + 1 FROM main.runs) WHERE run_id = :run",
        ]
        for statement in statements:
            connection.execute(statement, {"run": run_id, "shift": shift, "first": first, "last": last})

    def _copy_run(self, source: RankFile) -> None:
        """Add the file's run, or update it if another rank's file has brought it already."""
        run_id = source.run.run_id
        before = [run for run in read_runs(self._connection) if run.run_id == run_id]
        if not before:
            self._copy_table("runs")
            return
        run = one_run([before[0], source.run])
        ends = ((process.ended_at, process.exit_code) for process in read_processes(self._connection, run_id))
        run = run._replace(exit_code=first_failure([*ends, (source.run.ended_at, source.run.exit_code)]))
        self._connection.execute(
            "UPDATE main.runs SET started_at = ?, ended_at = ?, exit_code = ?, state = ? WHERE run_id = ?",
            (run.started_at, run.ended_at, run.exit_code, run.state, run_id),
        )

    def _copy_gpus(self, keys: Mapping[int, int], shared: Sequence[int]) -> None:
        """Copy the GPUs that no other file has listed; ``shared`` are the file's keys of the others. If those were
        listed for another rank they get no rank. A rank that samples for the node lists the others' GPUs as theirs."""
        self._copy_table("gpus", {"gpu": new_key_expression(keys)}, f"WHERE gpu NOT IN ({_list(shared)})")
        self._connection.executemany(
            "UPDATE main.gpus SET rank = NULL WHERE gpu = ? AND rank IS NOT (SELECT rank FROM shard.gpus WHERE gpu = ?)",
            [(keys[gpu], gpu) for gpu in shared],
        )
        listed = f"(run_id, rank, {new_key_expression(keys)}) IN (SELECT run_id, rank, gpu FROM main.process_gpus)"
        self._copy_table("process_gpus", {"gpu": new_key_expression(keys)}, f"WHERE {listed} IS NOT 1")

    def _copy_table(self, table: str, changed: Mapping[str, str] | None = None, rest: str = "") -> int:
        """Copy the rows of a table. Returns how many. ``changed``: SQL expressions for columns that change; ``rest``:
        what follows FROM, such as WHERE."""
        own = self._columns("shard", table)
        if not changed and not rest and own == self._columns("main", table):
            return self._connection.execute(f"INSERT INTO main.{table} SELECT * FROM shard.{table}").rowcount
        names = [*(name for name in changed or () if name == "rowid"), *(name for name, *_ in own)]
        values = ", ".join((changed or {}).get(name, f'"{name}"') for name in names)
        quoted = ", ".join(f'"{name}"' for name in names)
        statement = f"INSERT INTO main.{table} ({quoted}) SELECT {values} FROM shard.{table} {rest}"
        return self._connection.execute(statement).rowcount

    def _copy_use(self, table: UseTable) -> None:
        """Copy a table of nodes or ranks with its rollups. If these do not count all rows (a sampler that was killed,
        an earlier version) they are made anew."""
        connection = self._connection
        before = newest_row(connection, table)
        n = self._copy_table(table.samples)
        if all(count_rolled_up(connection, "shard", table, level, table.each) == n for level in LEVELS):
            self._copy_table(table.rollup, rest=f"WHERE {table.each}")
        else:
            for level in LEVELS:
                roll_up(connection, table, level, before, before + n)

    def end(self) -> None:
        """Add up what belongs to no single file, once all are copied. Raises sqlite3.Error."""
        self._connection.execute("BEGIN IMMEDIATE")
        for table in USE_TABLES:
            add_up(self._connection, table)
        self._tell_of_missing_ranks()
        self._connection.execute(_LISTED_TWICE)
        self._connection.execute("COMMIT")

    def _tell_of_missing_ranks(self) -> None:
        """Write an event into each merged run that lacks ranks, and delete earlier such events."""
        connection = self._connection
        connection.execute("DELETE FROM main.events WHERE kind = ?", (RANKS_MISSING,))
        merged = {row.run_id for row in read_merged(connection)}
        for run in read_runs(connection):
            ranks = [process.rank for process in read_processes(connection, run.run_id)]
            missing = missing_ranks(run.world_size, ranks)
            if missing and run.run_id in merged:
                when = run.ended_at or run.started_at or 0.0
                what = f"merged without {without_ranks(missing, run.world_size)}"
                connection.execute(
                    "INSERT INTO main.events (run_id, time, kind, message) VALUES (?, ?, ?, ?)",
                    (run.run_id, when, RANKS_MISSING, what),
                )

    def _copy_samples(self, source: RankFile, keys: Mapping[int, int]) -> int:
        """Copy the samples of a rank's file behind those in the merged file. ``keys``: the key of each GPU in the merged
        file, by its key in this one. Returns by how much their rowids grew. Raises HolesError, if rowids are missing
        between them although the file looked whole; then it goes another way the next time."""
        newest = ends_of(self._connection)[1] or 0
        shift = newest + 1 - source.first
        if not source.last:
            return shift
        (highest,) = self._connection.execute("SELECT max(rowid) FROM main.samples").fetchone()
        whole = not source.thinned and (highest or 0) == newest
        if whole and unchanged(keys) and source.name not in self.holes:
            # As they lie, numbered in the same order from the newest on: two or three times as fast.
            n = self._copy_table("samples")
            if n != source.last + 1 - source.first:
                self.holes.add(source.name)
                raise HolesError
        else:
            n = self._copy_table(
                "samples", {"rowid": f"rowid + {shift}", "gpu": new_key_expression(keys)}, "ORDER BY rowid"
            )
        self.copied[source.name] = n
        return shift

    def _counted(self, source: RankFile) -> dict[int, int]:
        """Return up to which rowid the coarsest rollups count each GPU's samples, by key; empty if they count all, as
        they do unless the file was cut off or its disk was full."""
        ends = dict(
            self._connection.execute(
                "SELECT gpu, max(last_rowid) FROM shard.rollup WHERE level = ? GROUP BY gpu", (_COARSEST,)
            )
        )
        if not source.lost and max(ends.values(), default=0) >= source.last:
            return {}
        return {gpu.gpu: ends.get(gpu.gpu, source.first - 1) for gpu in source.gpus}

    def _copy_rollups(
        self,
        source: RankFile,
        keys: Mapping[int, int],
        shift: int,
        shared: Sequence[int],
        counted: Mapping[int, int],
        gap_seconds: float,
        layout: Layout,
    ) -> None:
        """Copy the rollups and sketches of a rank's file, without those that ``roll_up_rest`` will make anew.

        Args:
            source: The file, attached as ``shard``.
            keys: The key of each GPU in the merged file, by its key in this one.
            shift: By how much the rowids of its samples grow.
            shared: Its keys of GPUs that another file has as well: their buckets are merged with what is there.
            counted: By key, the rowid up to which the coarsest rollups count the GPU's samples; empty if they count all.
            gap_seconds: More than this between two samples of a GPU is a gap.
            layout: The merged file's. If the file has another one, its blobs are written anew.
        """
        connection, known = self._connection, layout_of(source.metrics)
        if known.blocks != layout.blocks[: len(known.blocks)]:  # of another version: no blob can be copied as it is
            shared = list(keys)
        only = "1"
        if counted:  # what finer buckets count of the rest is counted anew
            until = " ".join(f"WHEN {gpu} THEN {rowid}" for gpu, rowid in counted.items())
            only = f"(level = {_COARSEST} OR last_rowid <= CASE gpu {until} END)"
        apart = f"gpu NOT IN ({_list(shared)})"
        rowids = {"first_rowid": f"first_rowid + {shift}", "last_rowid": f"last_rowid + {shift}"}
        self._copy_table("rollup", {"gpu": new_key_expression(keys), **rowids}, f"WHERE {apart} AND {only}")
        whole = "1"
        if counted:  # of what is not closed at the coarsest level the finer ones are counted anew, as above
            closed = f"SELECT gpu, bucket FROM shard.rollup WHERE level = {_COARSEST}"
            whole = f"(gpu, bucket - bucket % {_COARSEST}) IN ({closed})"
        sketches = [(seconds, table) for seconds, table in SKETCHES.items() if self._columns("shard", table)]
        for _, table in sketches:  # files of an earlier version lack one
            self._copy_table(table, {"gpu": new_key_expression(keys)}, f"WHERE {apart} AND {whole}")
        if not shared:
            return
        # What ranks sampled one after the other, or beside each other: buckets may be in the file already.
        here = f"gpu IN ({_list(shared)})"
        for key, level, bucket, first, last, data in connection.execute(
            f"SELECT gpu, level, bucket, first_rowid, last_rowid, data FROM shard.rollup WHERE {here} AND {only}"
        ):
            vector = lay_out_anew(unpack_vector(data), known, layout)
            row = Bucket(keys[key], level, bucket, first + shift, last + shift, vector)
            write_rollup(connection, row, gap_seconds, layout)
        for seconds, table in sketches:
            query = f"SELECT gpu, bucket, data FROM shard.{table} WHERE {here} AND {whole}"
            for key, bucket, data in connection.execute(query):
                histograms = put_in_order(unpack_sketch(data, seconds), known, layout)
                write_sketch(connection, SketchRow(keys[key], seconds, bucket, histograms))


def _list(keys: Sequence[int]) -> str:
    return ", ".join(map(str, keys))
