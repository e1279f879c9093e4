"""Which key each GPU has in the merged file.

A rank's keys are unique in its run (gssr.store.schema.GPU_KEYS_PER_RANK), so they stay as they are, unless the file holds
another run, or a rank has more GPUs than there are keys for one: then all are numbered anew, in the same order. A GPU that
several ranks list, and sample in turns, is one GPU.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from gssr.store.merge.doubled import doubled, identity
from gssr.store.merge.sources import Source
from gssr.store.records import Gpu


class Keys:
    """The keys of the recording that is open as ``connection``."""

    def __init__(self, connection: sqlite3.Connection, sources: Sequence[Source]) -> None:
        """``sources`` are all that are to come. Raises sqlite3.Error, RecordingError."""
        self._doubled = doubled(connection, sources)
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

    def of(self, source: Source) -> tuple[dict[int, int], list[int]]:
        """For the file's keys of GPUs those in the merged file; and the file's keys of GPUs that are in it already."""
        keys: dict[int, int] = {}
        shared: list[int] = []
        for gpu in source.gpus:
            one = identity(gpu.run_id, gpu.node, gpu.uuid, gpu.gpu)
            if (source.name, gpu.gpu) in self._doubled:
                keys[gpu.gpu] = self._new(gpu)
            elif one in self._known:
                keys[gpu.gpu] = self._known[one]
                shared.append(gpu.gpu)
            else:
                keys[gpu.gpu] = self._known[one] = self._new(gpu)
        return keys, shared

    def _new(self, gpu: Gpu) -> int:
        key = gpu.gpu
        if self._anew or key in self._taken:
            key = self._highest + 1
        self._taken.add(key)
        self._highest = max(self._highest, key)
        return key


def unchanged(keys: Mapping[int, int]) -> bool:
    """Whether every GPU has the key it had."""
    return all(old == new for old, new in keys.items())


def mapped(keys: Mapping[int, int]) -> str:
    """The SQL expression for the new key of a row's ``gpu``; NULL where that is NULL or unknown."""
    if unchanged(keys):
        return "gpu"
    shifts = {new - old for old, new in keys.items()}
    if len(shifts) == 1:
        return f"gpu + {shifts.pop()}"
    return "CASE gpu " + " ".join(f"WHEN {old} THEN {new}" for old, new in keys.items()) + " END"
