"""Cells of a map as a picture with a palette: one byte per cell, its index into a ramp of colours."""

import io

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Floats

STEPS = 250
"""Colours from nothing to the full scale: a step is 0.4 % of it."""
BLANK = 255
"""The index of a cell without a sample, which is transparent."""
_CIVIDIS = ("00224e", "1a386f", "434e6c", "61656f", "7d7c78", "9b9476", "bcae6c", "dec958", "fee838")
"""Nine equal steps of cividis, which reads alike for all kinds of colour vision. Source: Nuñez, Anderton and Renslow, PLOS
ONE 13(7), 2018."""


def indices(values: Floats, full: float) -> NDArray[np.uint8]:
    """Each of ``values`` as an index: 0 to STEPS - 1 up to ``full`` and beyond, BLANK for NaN."""
    known = np.isfinite(values)
    steps = np.clip(np.round(np.where(known, values, 0.0) / full * (STEPS - 1)), 0, STEPS - 1)
    return np.where(known, steps, BLANK).astype(np.uint8)


def png(cells: NDArray[np.uint8]) -> bytes:
    """The bytes of a PNG file of ``cells`` [rows, columns], both at least 1."""
    from PIL import Image

    picture = Image.fromarray(cells)
    picture.putpalette(_palette())  # which makes one of grey values one of indices
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True, transparency=BLANK)
    return file.getvalue()


def _palette() -> bytes:
    anchors = np.array([list(bytes.fromhex(color)) for color in _CIVIDIS], np.float64)
    at = np.linspace(0, len(anchors) - 1, STEPS)
    ramp = np.stack([np.interp(at, np.arange(len(anchors)), anchors[:, part]) for part in range(3)], axis=1)
    colors = np.zeros((256, 3), np.uint8)
    colors[:STEPS] = np.round(ramp).astype(np.uint8)
    return colors.tobytes()
