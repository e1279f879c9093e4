"""What a Series comes to, GPU by GPU."""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.foreign.series import ForeignGpu, ForeignSeries


class OfGpu(NamedTuple):
    """Its times, and its values by metric, NaN where nothing is known."""

    gpu: ForeignGpu
    time: Floats
    values: dict[str, Floats]


def by_gpu(series: ForeignSeries) -> list[OfGpu]:
    """All rows of each GPU. Pieces must ascend in time, and tell of no GPU that is not there."""
    pieces, last = [], -np.inf
    for piece in series.pieces:
        assert (np.diff(piece.time) >= 0).all() and (not len(piece.time) or piece.time[0] >= last)
        assert not len(piece.gpu) or (piece.gpu.min() >= 0 and piece.gpu.max() < len(series.gpus))
        assert all(len(column) == len(piece.time) == len(piece.gpu) for column in piece.values.values())
        last = piece.time[-1] if len(piece.time) else last
        pieces.append(piece)
    names = list(dict.fromkeys(name for piece in pieces for name in piece.values))
    found = []
    for at, gpu in enumerate(series.gpus):
        parts = [(piece, piece.gpu == at) for piece in pieces]
        values = {
            name: np.concatenate(
                [piece.values.get(name, np.full(len(piece.time), np.nan))[own] for piece, own in parts]
            )
            for name in names
        }
        time = np.concatenate([piece.time[own] for piece, own in parts]) if parts else np.empty(0)
        found.append(OfGpu(gpu, time, values))
    return found


def said(series: ForeignSeries) -> str:
    """All its notes."""
    return "\n".join(note.text for note in series.notes)
