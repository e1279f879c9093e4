"""The last minute of a growing run, in pieces that are dropped as they grow too old."""

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.live.frame import RECENT_SECONDS
from gssr.model.results import Means

_MOST_PIECES_OF = 30_000
"""Numbers kept for each second of the last minute; a larger run's are kept for each five seconds."""


class Recent:
    """Counts and sums [n_metrics, n_gpus] of pieces of time, each ``seconds`` long, and what the last minute's add up to."""

    def __init__(self, names: tuple[str, ...], n_gpus: int) -> None:
        self._names = names
        self.seconds = 1.0 if len(names) * n_gpus <= _MOST_PIECES_OF else 5.0
        self._pieces: dict[float, Means] = {}
        self._sum = (np.zeros((len(names), n_gpus)), np.zeros((len(names), n_gpus)))
        self._stale = False
        """Whether a piece was dropped since ``_sum`` was made."""

    def add(self, new: Means) -> None:
        """Add what lies within a piece (see ``cut``), or what is longer and comes before all others; drop the pieces that
        lie more than a minute before its end."""
        n, total = self._sum
        self._sum = (n + new.n, total + new.total)
        start = new.start // self.seconds * self.seconds
        found = self._pieces.get(start)
        if found is None:
            self._pieces[start] = Means(self._names, start, new.end, new.n, new.total)
        else:
            end = max(found.end, new.end)
            self._pieces[start] = Means(self._names, start, end, found.n + new.n, found.total + new.total)
        oldest = max(piece.end for piece in self._pieces.values()) - RECENT_SECONDS
        edge = max((piece.end for piece in self._pieces.values() if piece.start < oldest), default=oldest)
        if any(start < edge for start in self._pieces):
            self._pieces = {start: piece for start, piece in self._pieces.items() if start >= edge}
            self._stale = True

    def means(self, last: float) -> Means:
        """Of the minute up to ``last`` (unix s), as far as it is known: its start is that of a piece."""
        if self._stale:
            n, total = (np.zeros_like(array) for array in self._sum)
            for piece in self._pieces.values():
                n += piece.n
                total += piece.total
            self._sum, self._stale = (n, total), False
        return Means(self._names, min(self._pieces, default=last), last, *self._sum)

    def cut(self, time: Floats) -> list[Ints]:
        """Of rows with these times [n], unix s, those of the last minute, as positions: one array for each piece."""
        recent = np.flatnonzero(time >= time.max() - RECENT_SECONDS)
        number = np.floor(time[recent] / self.seconds)
        order = np.argsort(number, kind="stable")
        return np.split(recent[order], np.flatnonzero(np.diff(number[order])) + 1)
