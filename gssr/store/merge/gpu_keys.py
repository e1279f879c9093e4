"""Which key each GPU has in the merged file.

A rank's keys are unique in its run (gssr.store.format.schema.GPU_KEYS_PER_RANK), so they stay as they are, unless the file
holds another run, or a rank has more GPUs than there are keys for one: then all are numbered anew, in the same order. A GPU
that several ranks list, and sample in turns, is one GPU.

GPUs that several ranks sampled at the same time, because they could not agree on one: of those samples only one rank's
count. Readers decide which (gssr.store.read.gpu_spans), and still can, because in the merged file each such rank keeps its
key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Optional

from gssr.store.format.rows import Gpu
from gssr.store.format.schema import FINEST_LEVEL
from gssr.store.merge.sources import RankFile
from gssr.store.read.gpu_spans import Span, choose_disjoint, read_spans
from gssr.store.read.open import connect
from gssr.store.read.small_tables import ends_of

Identity = tuple[str, Optional[str], str]
Listing = tuple[str, int]
"""A GPU in a rank's file: the file's name ("" is the merged file) and the key there."""


def identity(run_id: str, node: str | None, uuid: str | None, key: int) -> Identity:
    """Return what identifies a GPU in whatever file it is: run, node and UUID, or the key if the UUID is unknown."""
    return (run_id, node, uuid or f"key {key}")


def find_double_counted(connection: sqlite3.Connection, sources: Sequence[RankFile]) -> set[Listing]:
    """Return the GPUs of the files and of the recording open as ``connection`` whose samples don't count, because
    another rank sampled the same GPU at the same time. Raises RecordingError, sqlite3.Error."""
    listed: dict[Identity, list[Listing]] = {}
    for key, run_id, node, uuid in connection.execute("SELECT gpu, run_id, node, uuid FROM gpus ORDER BY gpu"):
        listed.setdefault(identity(run_id, node, uuid, key), []).append(("", key))
    for source in sources:
        for gpu in source.gpus if source.last else ():
            listed.setdefault(_of(gpu), []).append((source.name, gpu.gpu))
    several = {found: listings for found, listings in listed.items() if len(listings) > 1}
    spans: dict[Listing, Span] = {}
    intervals = {source.run.run_id: (source.run.sampling_ms or 0.0) / 1000 for source in sources}
    own = [key for listings in several.values() for name, key in listings if not name]
    if own:
        last = ends_of(connection)[1] or 0
        spans |= {("", key): span for key, span in _spans(connection, own, last, counted=True).items()}
    for source in sources:
        keys = [key for listings in several.values() for name, key in listings if name == source.name]
        if keys:
            spans |= {(source.name, key): span for key, span in _spans_in(source, keys).items()}
    found = set[Listing]()
    for (run_id, *_), listings in several.items():
        sampled = [listing for listing in listings if listing in spans]
        counting = choose_disjoint([spans[listing] for listing in sampled], intervals.get(run_id, 0.0))
        found.update(sampled[index] for index in set(range(len(sampled))).difference(counting))
    return found


def _of(gpu: Gpu) -> Identity:
    return identity(gpu.run_id, gpu.node, gpu.uuid, gpu.gpu)


def _spans_in(source: RankFile, keys: Sequence[int]) -> dict[int, Span]:
    with closing(connect(source.path)) as connection:
        (last,) = connection.execute(f"SELECT max(last_rowid) FROM rollup WHERE level = {FINEST_LEVEL}").fetchone()
        return _spans(connection, keys, source.last, counted=(last or 0) >= source.last)


def _spans(connection: sqlite3.Connection, keys: Sequence[int], last: int, counted: bool) -> dict[int, Span]:
    """Find when the rows of these GPUs (keys) begin and end in the file that ``connection`` has open; see
    ``read_spans``."""

    def query(statement: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        return connection.execute(statement, tuple(values)).fetchall()

    return read_spans(query, keys, last, counted)


class Keys:
    """Assigns keys of GPUs in the recording that is open as ``connection``."""

    def __init__(self, connection: sqlite3.Connection, sources: Sequence[RankFile]) -> None:
        """``sources`` are all files that will be merged. Raises sqlite3.Error, RecordingError."""
        self._doubled = find_double_counted(connection, sources)
        rows = connection.execute("SELECT gpu, run_id, node, uuid FROM gpus").fetchall()
        rows = [row for row in rows if isinstance(row[0], int)]
        self._taken = {key for key, *_ in rows}
        self._highest = max(self._taken, default=-1)
        self._known = {
            identity(run_id, node, uuid, key): key for key, run_id, node, uuid in rows if ("", key) not in self._doubled
        }
        coming = [gpu.gpu for source in sources for gpu in source.gpus]
        runs = {source.run.run_id for source in sources}
        self._anew = len(runs.union(run_id for _, run_id, *_ in rows)) > 1 or len(set(coming)) < len(coming)

    def of(self, source: RankFile) -> tuple[dict[int, int], list[int]]:
        """Return two things about a file's GPUs: the key of each in the merged file, by its key in this file; and the
        file's keys of those that are in the merged file already."""
        keys: dict[int, int] = {}
        shared: list[int] = []
        for gpu in source.gpus:
            one = identity(gpu.run_id, gpu.node, gpu.uuid, gpu.gpu)
            if (source.name, gpu.gpu) in self._doubled:
                keys[gpu.gpu] = self._assign_new_key(gpu)
            elif one in self._known:
                keys[gpu.gpu] = self._known[one]
                shared.append(gpu.gpu)
            else:
                keys[gpu.gpu] = self._known[one] = self._assign_new_key(gpu)
        return keys, shared

    def _assign_new_key(self, gpu: Gpu) -> int:
        """Assign a free key to a GPU that the merged file does not have yet: its own, or the one above the highest if
        that is taken, or if there are several runs or GPUs with the same key among all files."""
        key = gpu.gpu
        if self._anew or key in self._taken:
            key = self._highest + 1
        self._taken.add(key)
        self._highest = max(self._highest, key)
        return key


def unchanged(keys: Mapping[int, int]) -> bool:
    """Tell whether every GPU keeps its key."""
    return all(old == new for old, new in keys.items())


def new_key_expression(keys: Mapping[int, int]) -> str:
    """Return the SQL expression for the new key of a row's ``gpu``. It may be NULL for a key that is NULL or not in
    ``keys``."""
    if unchanged(keys):
        return "gpu"
    shifts = {new - old for old, new in keys.items()}
    if len(shifts) == 1:
        return f"gpu + {shifts.pop()}"
    return "CASE gpu " + " ".join(f"WHEN {old} THEN {new}" for old, new in keys.items()) + " END"
