"""Loads over time as cells: height and colour say the same, and where nothing is known there is a hatch."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import TypeVar

import numpy as np
from rich.segment import Segment
from rich.style import Style

from gssr.arrays import Floats
from gssr.render.columns import steady_steps
from gssr.render.glyphs import Glyphs
from gssr.tui.themes import LOAD_STEPS, Palette

_Value = TypeVar("_Value")
_HATCH, _HATCH_ASCII = "╱", "/"
_BLANK, _LACKS = -2, -1
"""Codes of cells without a load: nothing was to be known there yet, and something was."""


def load_codes(values: Floats, known_from: int = 0) -> Floats:
    """Return ``values`` [..., n] (fractions of the full scale) as steps of the ramp from 0 to LOAD_STEPS - 1. Missing
    ones (NaN) are -1, or -2 before the cell ``known_from``, where nothing was to be known yet."""
    known = np.isfinite(values)
    steps = np.clip(np.round(np.where(known, values, 0.0) * (LOAD_STEPS - 1)), 0, LOAD_STEPS - 1).astype(np.int64)
    codes = np.where(known, steps, _LACKS)
    codes[..., :known_from] = np.where(known[..., :known_from], codes[..., :known_from], _BLANK)
    return np.asarray(codes, np.float64)


def history_rows(
    values: Floats, height: int, palette: Palette, glyphs: Glyphs, known_from: int = 0, rolls: bool = True
) -> list[list[Segment]]:  # fmt: skip
    """Draw ``values`` [n] (fractions of the full scale) as ``height`` rows of one cell each: filled from below up to
    the load, in its colour.

    Missing values are hatched, or blank before the cell ``known_from``. The topmost eighth stays free, so that lines
    one below the other can be told apart. ``rolls``: the cells may move on with the next result, so that each has
    exactly its own colour.
    """
    levels = glyphs.levels[:-1] if len(glyphs.levels) > 2 else glyphs.levels
    per_row = len(glyphs.levels)
    hatch = _HATCH_ASCII if glyphs.levels.isascii() else _HATCH
    chars = np.array([" ", *levels, *glyphs.full * (per_row - len(levels)), hatch])  # by height, then what lacks
    codes, most = load_codes(values, known_from).astype(np.int64), height * per_row - 1
    if rolls:
        tops = np.round(np.nan_to_num(values) * most).astype(np.int64)
    else:
        loads = np.clip(values, 0.0, 1.0)
        codes = np.where(codes >= 0, steady_steps((loads * (LOAD_STEPS - 1)).tolist()), codes)
        tops = np.array(steady_steps((loads * most).tolist()), np.int64)
    tops = np.clip(tops, 1, most)
    tops[codes == _BLANK] = 0
    above = np.clip(tops - per_row * np.arange(height)[::-1, None], 0, per_row)
    above[:, codes == _LACKS] = per_row + 1
    styles = {step: palette.load(step / (LOAD_STEPS - 1)) for step in range(LOAD_STEPS)}
    styles |= {_LACKS: palette.missing, _BLANK: Style.null()}
    rows = []
    for row, looks in zip(above, np.where(above > 0, codes, _BLANK), strict=True):
        text, found = "".join(chars[row].tolist()), looks.tolist()
        edges = [0, *(np.flatnonzero(looks[1:] != looks[:-1]) + 1).tolist(), len(found)]
        rows.append([Segment(text[first:end], styles[found[first]]) for first, end in pairwise(edges) if first < end])
    return rows


def pair_row(upper: Floats, lower: Floats, palette: Palette, known_from: int = 0) -> list[Segment]:
    """Draw two GPUs in one row of half blocks [n], ``upper`` above ``lower``, in the colours of load alone; for many
    GPUs. Missing values are hatched or in the colour of what is missing, blank before the cell ``known_from``."""
    above, below = (load_codes(values, known_from).astype(np.int64).tolist() for values in (upper, lower))
    segments: list[Segment] = []
    for (top, bottom), n in runs_of(list(zip(above, below, strict=True))):
        text, style = " ", Style.null()
        if top >= 0 and bottom >= 0:
            text = "▀"
            style = palette.load(top / (LOAD_STEPS - 1)) + Style(bgcolor=palette.load(bottom / (LOAD_STEPS - 1)).color)
        elif top >= 0 or bottom >= 0:
            text, style = ("▀", palette.load(top / (LOAD_STEPS - 1))) if top >= 0 else (
                "▄", palette.load(bottom / (LOAD_STEPS - 1))
            )  # fmt: skip
            if _LACKS in (top, bottom):
                style += Style(bgcolor=palette.missing.color)
        elif _LACKS in (top, bottom):
            text, style = _HATCH, palette.missing
        segments.append(Segment(text * n, style))
    return segments


def runs_of(values: Sequence[_Value]) -> list[tuple[_Value, int]]:
    """Return each run of equal values as the value and how many there are; empty for none."""
    return [(value, len(list(group))) for value, group in groupby(values)]
