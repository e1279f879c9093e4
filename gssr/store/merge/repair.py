"""Repairing the rollups and sketches of a recording that has ended: what is missing or damaged is made anew from the
samples, in one transaction. So are rollups of what nodes and processes did that do not count all of it.

A copy of a recording that goes on, as one that has ended: what its writer has not rolled up yet is to be repaired.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import DERIVED
from gssr.store.format.buckets import fold
from gssr.store.format.host_rollups import USE_TABLES, add_up, newest_row, roll_up
from gssr.store.format.layout import Layout
from gssr.store.format.rollup import as_stored
from gssr.store.format.sample_arrays import derive
from gssr.store.format.schema import LEVELS, SKETCHES
from gssr.store.output_file import PRIVATE, new_file
from gssr.store.read.bucket_numbers import positions_of, starts_of
from gssr.store.read.check_rollups import LONGEST, find_wrong_stretches
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.recording import RecordingReader
from gssr.store.read.recording_file import Part, RecordingFile
from gssr.store.read.sketch_bins import count_sketches, make_empty_bins
from gssr.store.read.time_window import ALL_TIME
from gssr.store.write.create import finished_runs, remove, reopen, seal, seal_again


class _WrongStretch(NamedTuple):
    """Stretches of several GPUs that begin at the same time (``begin``, unix s). ``keys``: of the GPUs; ``ranges``:
    first and last rowids between which their samples lie."""

    begin: int
    keys: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    gap_seconds: float


def repair(path: str) -> tuple[int, int, tuple[str, ...]]:
    """Repair a recording in one file. Samples that a killed recorder left uncounted are rolled up as well, and what is
    beside the file goes into it (``seal_again``).

    Returns how many stretches of 600 s of one GPU had their rollups or sketches made anew, how many could not, as their
    samples are gone, and the tables of nodes and ranks whose rollups were made anew. Raises TakenError if it is being
    recorded into, RecordingError if it cannot be read or written.
    """
    finished_runs(path)
    shard = RecordingFile(path)
    with closing(shard):
        if shard.file.damage:
            raise RecordingError(shard.file.damage)
        work, n_thinned = _found(shard)
        layout = shard.file.layout
        use = [
            table
            for table in USE_TABLES
            if not all(shard.host_use.counts_all(table, level, table.each) for level in LEVELS)
        ]
    if work or use:
        connection = reopen(path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for stretches in work:
                _rebuild_rollups(connection, stretches, layout)
            for table in use:
                connection.execute(f"DELETE FROM {table.rollup}")
                for level in LEVELS:
                    roll_up(connection, table, level, 0, newest_row(connection, table))
                add_up(connection, table)
            connection.execute("COMMIT")
        except (sqlite3.Error, ValueError, TypeError) as error:  # which samples of a damaged file may raise
            raise RecordingError(f"{path}: can't be repaired: {error}") from None
        finally:
            seal(connection)
    seal_again(path)
    return sum(len(stretches.keys) for stretches in work), n_thinned, tuple(table.samples for table in use)


def keep(path: str, copy: str, ended_at: float) -> None:
    """Copy a recording into a new file, in which a run that goes on has ended at ``ended_at``, unix s. The file is the
    user's alone. Raises FileExistsError if something is at ``copy``, OSError, and RecordingError; then nothing
    is left there, except what was there before."""
    os.close(new_file(copy, PRIVATE))
    try:
        with closing(connect(path)) as source, closing(sqlite3.connect(copy, isolation_level=None)) as kept:
            source.backup(kept)
            for table in ("runs", "processes"):
                ends = f"UPDATE {table} SET state = 'completed', exit_code = 0, ended_at = ? WHERE state = 'running'"
                kept.execute(ends, (ended_at,))
            seal(kept)
        repair(copy)
    except BaseException as error:
        remove(copy)
        if isinstance(error, sqlite3.Error):
            raise RecordingError(f"{copy}: can't be written: {error}") from None
        raise


def _found(shard: RecordingFile) -> tuple[list[_WrongStretch], int]:
    """Compare all rollups and sketches of a file with its samples. Returns the work to do: for each stretch of LONGEST
    seconds with errors its GPUs, rows and gap; and the number of wrong stretches that can't be mended, because their
    samples were thinned."""
    work, n_thinned = [], 0
    for run in RecordingReader(shard.file.path, [shard]).runs:
        for part in run._parts:
            codes = _wrong(part._replace(ended=True))
            young = starts_of(codes) >= part.thinned
            n_thinned += int((~young).sum())
            key_of = {position: key for key, position in part.position.items()}
            begins, own = np.unique(starts_of(codes[young]), return_inverse=True)
            keys: list[list[int]] = [[] for _ in begins]
            for place, position in zip(own.tolist(), positions_of(codes[young]).tolist(), strict=True):
                keys[place].append(key_of[position])
            for begin, those in zip(begins.tolist(), keys, strict=True):
                ranges = tuple(part.find_ranges(begin, begin + LONGEST))
                work.append(_WrongStretch(begin, tuple(those), ranges, run.gap_seconds))
    return work, n_thinned


def _wrong(part: Part) -> Ints:
    """Return the numbers of the stretches in which any rollup or sketch differs from what the samples say."""
    sketched = part.shard.file.layout.sketched
    for seconds in part.shard.rollups.sketch_lengths(part.keys_of(None)):
        count_sketches(make_empty_bins(sketched), part, sketched, ALL_TIME, None, seconds, ())
    return find_wrong_stretches(part)


def _rebuild_rollups(connection: sqlite3.Connection, work: _WrongStretch, layout: Layout) -> None:
    """Delete the rollups and sketches of the GPUs ``work.keys`` in one stretch of LONGEST seconds, and write new ones,
    made from the samples. ``layout`` is that of the file's vectors. The caller commits."""
    begin, end = work.begin, work.begin + LONGEST
    where = f"gpu IN ({','.join(map(str, work.keys))}) AND bucket >= ? AND bucket < ?"
    for table in ("rollup", *SKETCHES.values()):
        connection.execute(f"DELETE FROM {table} WHERE {where}", (begin, end))
    names = [block.metric.name for block in layout.blocks if not block.metric.derived]
    columns = ", ".join(["rowid", "gpu", "time", *(f'"{name}"' for name in names)])
    for key in work.keys:
        query = f"SELECT {columns} FROM samples WHERE rowid BETWEEN ? AND ? AND gpu = ? AND time >= ? AND time < ?"
        rows = [row for ends in work.ranges for row in connection.execute(query, (*ends, key, begin, end))]
        if rows:
            table_ = np.array(rows, np.float64).T
            values = dict(zip(names, table_[3:], strict=True))
            values |= {
                metric.name: derive(values, metric.parts) for metric in DERIVED if set(metric.parts) <= set(names)
            }
            rowids = np.array([row[0] for row in rows], np.int64)
            connection.executemany(
                "INSERT INTO rollup (gpu, level, bucket, first_rowid, last_rowid, data) VALUES (?, ?, ?, ?, ?, ?)",
                _rollups(key, rowids, table_[2], values, work.gap_seconds, layout),
            )
            columns_ = [values.get(name, np.empty(0)) for name in layout.sketched]
            for seconds, table in SKETCHES.items():
                insert = f"INSERT INTO {table} (gpu, bucket, data) VALUES (?, ?, ?)"
                connection.executemany(insert, _sketches(key, table_[2], columns_, seconds))


def _rollups(
    key: int, rowids: Ints, time: Floats, values: dict[str, Floats], gap_seconds: float, layout: Layout
) -> Iterator[tuple[int, int, int, int, int, bytes]]:
    """Make the rows of ``rollup``, at every level, from a GPU's samples in a stretch that no bucket is cut by.

    ``key`` is the GPU's key in the file, ``rowids`` and ``time`` (unix s, ascending) [n] are the samples', ``values``
    theirs by metric. More than ``gap_seconds`` between two is a gap. Yields (key, level, start, first rowid, last rowid,
    blob).
    """
    for level in LEVELS:
        bucket = np.floor(time / level).astype(np.int64) * level
        groups, vectors = fold(bucket, time, values, gap_seconds, layout)
        for start, vector in zip(groups.tolist(), vectors, strict=True):
            own = rowids[bucket == start]
            yield key, level, start, int(own.min()), int(own.max()), vector.astype("<f8").tobytes()


def _sketches(key: int, time: Floats, columns: Sequence[Floats], seconds: int) -> Iterator[tuple[int, int, bytes]]:
    """Make the rows of a table of sketches of ``seconds`` from a GPU's samples. ``key`` is its key in the file, ``time``
    [n] is in unix s, ``columns`` are the values of each metric of a sketch, in order; an empty one for a metric without
    any. Yields (key, start, blob), the blob as the table stores it."""
    bucket = np.floor(time / seconds).astype(np.int64) * seconds
    for start in np.unique(bucket).tolist():
        own = [column[bucket == start] if len(column) else column for column in columns]
        yield key, start, as_stored(_sketch(own), seconds)


def _sketch(columns: Sequence[Floats]) -> bytes:
    """Return the blob of a sketch (gssr.store.format.layout), not packed. ``columns``: its metrics' values, in order."""
    sizes, keys, counts = [], [], []
    for column in columns:
        known = column[np.isfinite(column)].astype(np.float32)
        bins, n = np.unique(known.view(np.uint32) >> 16, return_counts=True)
        sizes.append(len(bins))
        keys.append(bins.astype("<u2").tobytes())
        counts.append(n.astype("<u4").tobytes())
    return np.array([len(sizes), *sizes], "<u2").tobytes() + b"".join(keys) + b"".join(counts)
