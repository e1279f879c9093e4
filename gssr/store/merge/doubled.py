"""GPUs that several ranks sampled at the same time, because they could not agree on one: of those samples only one rank's
count. Readers decide which (gssr.store.spans), and still can, because in the merged file each such rank keeps its key."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from gssr.store.merge.sources import Source
from gssr.store.open import connect
from gssr.store.records import Gpu, ends_of
from gssr.store.schema import LEVELS
from gssr.store.spans import Span, apart, spans_of

Identity = tuple[str, str | None, str]
Listing = tuple[str, int]
"""A GPU in a rank's file: the file's name ("" is the merged file) and the key there."""


def identity(run_id: str, node: str | None, uuid: str | None, key: int) -> Identity:
    """What makes it this GPU, whatever file it is in."""
    return (run_id, node, uuid or f"key {key}")


def doubled(connection: sqlite3.Connection, sources: Sequence[Source]) -> set[Listing]:
    """Those GPUs of the files, and of the recording that is open as ``connection``, whose samples don't count. Raises
    RecordingError, sqlite3.Error."""
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
        counting = apart([spans[listing] for listing in sampled], intervals.get(run_id, 0.0))
        found.update(sampled[index] for index in set(range(len(sampled))).difference(counting))
    return found


def _of(gpu: Gpu) -> Identity:
    return identity(gpu.run_id, gpu.node, gpu.uuid, gpu.gpu)


def _spans_in(source: Source, keys: Sequence[int]) -> dict[int, Span]:
    with closing(connect(source.path)) as connection:
        (last,) = connection.execute("SELECT max(last_rowid) FROM rollup WHERE level = ?", (LEVELS[0],)).fetchone()
        return _spans(connection, keys, source.last, counted=(last or 0) >= source.last)


def _spans(connection: sqlite3.Connection, keys: Sequence[int], last: int, counted: bool) -> dict[int, Span]:
    def query(statement: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        return connection.execute(statement, tuple(values)).fetchall()

    return spans_of(query, keys, last, counted)
