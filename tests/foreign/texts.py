"""Texts of other tools, taken in as many chunks as one likes."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.series import ByteSource, ForeignSeries, ImportHints

WRITTEN = 1_764_000_000.0
"""When the files were last written, unix s."""
IN_UTC = ImportHints(timezone=UTC)
Read = Callable[[ByteSource, ImportHints], ForeignSeries]


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """The bytes in chunks of this size."""
    return (data[at : at + size] for at in range(0, len(data), size))


class Taken:
    """All that a text says: the series, and its rows put together; a metric that a piece has not is NaN in its rows."""

    def __init__(
        self,
        read: Read,
        data: bytes | Iterable[bytes],
        told: ImportHints = IN_UTC,
        size: int = 1 << 20,
    ) -> None:
        chunks = cut(data, size) if isinstance(data, bytes) else iter(data)
        self.series = read(ByteSource("log", chunks, WRITTEN), told)
        pieces = list(self.series.pieces)
        self.n_pieces = len(pieces)
        self.gpu: Ints = np.concatenate([piece.gpu for piece in pieces])
        self.time: Floats = np.concatenate([piece.time for piece in pieces])
        names = {name for piece in pieces for name in piece.values}
        self.values = {
            name: np.concatenate([piece.values.get(name, np.full(len(piece.gpu), np.nan)) for piece in pieces])
            for name in sorted(names)
        }
        assert (np.diff(self.time) >= 0).all() and np.isfinite(self.time).all()
        assert self.gpu.min() >= 0 and self.gpu.max() < len(self.series.gpus)
        assert all(len(column) == len(self.gpu) == len(self.time) for column in self.values.values())
        assert len({*zip(self.gpu.tolist(), self.time.tolist(), strict=True)}) == len(self.gpu)

    @property
    def notes(self) -> str:
        """All notes, a line each."""
        return "\n".join(note.text for note in self.series.notes)

    def same_as(self, other: "Taken") -> bool:
        """Whether all is equal but how it was cut into pieces."""
        return (
            self.series.gpus == other.series.gpus
            and self.notes == other.notes
            and np.array_equal(self.gpu, other.gpu)
            and np.array_equal(self.time, other.time)
            and self.values.keys() == other.values.keys()
            and all(np.array_equal(self.values[name], other.values[name], equal_nan=True) for name in self.values)
        )
