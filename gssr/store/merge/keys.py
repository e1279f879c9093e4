"""Which key each GPU has in the merged file.

A rank's keys are unique in its run (gssr.store.schema.GPU_KEYS_PER_RANK), so they stay as they are, unless another run has
them, or a rank has more GPUs than there are keys for one. A GPU that several ranks list is one GPU.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from gssr.store.merge.sources import Source
from gssr.store.records import Gpu

_Identity = tuple[str, str | None, str]


class Keys:
    """The keys of the recording that is open as ``connection``."""

    def __init__(self, connection: sqlite3.Connection, sources: Sequence[Source]) -> None:
        """``sources`` are all that are to come. Raises sqlite3.Error."""
        rows = connection.execute("SELECT gpu, run_id, node, uuid FROM gpus")
        self._known = {_identity(run_id, node, uuid, key): int(key) for key, run_id, node, uuid in rows}
        self._taken = set(self._known.values())
        coming = (gpu.gpu for source in sources for gpu in source.gpus)
        self._free = 1 + max([*self._taken, *coming], default=-1)

    def known(self, gpu: Gpu) -> bool:
        """Whether the GPU is in the file already."""
        return _identity(gpu.run_id, gpu.node, gpu.uuid, gpu.gpu) in self._known

    def of(self, gpu: Gpu) -> int:
        """The GPU's key; its own where that is free."""
        identity = _identity(gpu.run_id, gpu.node, gpu.uuid, gpu.gpu)
        if identity not in self._known:
            key = gpu.gpu
            if key in self._taken:
                key, self._free = self._free, self._free + 1
            self._known[identity] = key
            self._taken.add(key)
        return self._known[identity]


def _identity(run_id: str, node: str | None, uuid: str | None, key: int) -> _Identity:
    return (run_id, node, uuid or f"key {key}")


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
