"""Where in ``samples`` of a file each of its runs begins."""

from collections.abc import Sequence

from gssr.store.guarded_file import GuardedFile

_KEYS_AT_ONCE = 10_000


class Begins:
    """Rollups know where a run begins; of runs without any, all rows are looked through, once for all of these runs
    together: a file of very many runs takes no longer for that."""

    def __init__(self, file: GuardedFile) -> None:
        self._file = file
        self._known: dict[str, int | None] = {}
        self._first: dict[int, int] = {}
        """By the keys of GPUs without rollups, as far as rows were looked through."""
        self._looked_through = 0
        self._places: dict[str, int] | None = None
        self._least: list[int | None] = [None]
        """The least rowid at which one of the last runs begins, the newest apart, by how many of them."""

    def of(self, run_id: str) -> int | None:
        """The rowid of the run's first row; None without rows. They may still come in the newest run only."""
        if run_id not in self._known:
            found = self._in_rollups(run_id)
            if found is None:
                found = self._in_samples(run_id)
            if found is None and run_id == self._file.runs[-1].run_id:
                return None
            self._known[run_id] = found
        return self._known[run_id]

    def after(self, run_id: str) -> int | None:
        """The rowid at which the rows of a later run begin; None where no later one has any."""
        runs = self._file.runs
        if self._places is None:
            self._places = {run.run_id: place for place, run in reversed(list(enumerate(runs)))}
            # All but the newest run's stay as they are.
            begins = [self.of(run.run_id) for run in runs[:-1]]
            for begin in reversed(begins):
                self._least.append(_lesser(self._least[-1], begin))
        place = self._places[run_id]
        return None if place == len(runs) - 1 else _lesser(self._least[len(runs) - 2 - place], self.of(runs[-1].run_id))

    def _keys(self, run_id: str) -> list[int]:
        return [gpu.gpu for gpu in self._file.gpus(run_id)]

    def _in_rollups(self, run_id: str) -> int | None:
        keys = self._keys(run_id)
        for level in (600, 10) if keys else ():
            for (found,) in self._file.all(
                f"SELECT min(first_rowid) FROM rollup WHERE gpu IN ({_listed(keys)}) AND level = {level}"
            ):
                if found is not None:
                    return int(found)
        return None

    def _in_samples(self, run_id: str) -> int | None:
        self._look_through()
        return min((self._first[key] for key in self._keys(run_id) if key in self._first), default=None)

    def _look_through(self) -> None:
        """Look at the rows that have come since the last time."""
        last = max((row[0] or 0 for row in self._file.all("SELECT max(rowid) FROM samples")), default=0)
        if last <= self._looked_through:
            return
        begun = (run.run_id for run in self._file.runs if self._known.get(run.run_id) is None)
        keys = [key for run_id in begun if self._in_rollups(run_id) is None for key in self._keys(run_id)]
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            own = _listed(keys[begin : begin + _KEYS_AT_ONCE])
            query = (
                f"SELECT gpu, min(rowid) FROM samples WHERE rowid > ? AND rowid <= ? AND gpu IN ({own}) GROUP BY gpu"
            )
            for key, rowid in self._file.all(query, (self._looked_through, last)):
                self._first.setdefault(key, rowid)
        self._looked_through = last


def _lesser(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _listed(keys: Sequence[int]) -> str:
    return ",".join(map(str, keys))
