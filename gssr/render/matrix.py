"""Who gives how much to whom: a line for each giver, a column for each taker, a mark by the power of ten in a cell."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.render.cells import cell_width, clip, fit
from gssr.render.glyphs import Glyphs
from gssr.render.roles import RAMP, Role, Row, Span

N_LEVELS = 8


class Measure(NamedTuple):
    """What a cell shows: its lowest mark is for what is below ``first``, each further one for ten times as much.
    ``units``: pairs of a factor and a name by which values are written, the largest first."""

    name: str
    first: float
    units: tuple[tuple[float, str], ...]


_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
MEASURES = (
    Measure("bytes", 1e3, _BYTES),
    Measure("messages", 10, ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))),
    Measure("time under way", 1e4, ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))),
    Measure("bytes per second", 1e4, tuple((factor, f"{unit}/s") for factor, unit in _BYTES)),
)
_LABEL, _WIDEST = 14, 4


def amount(value: float, measure: Measure) -> str:
    """Write a value of the measure with the largest of its units that the value reaches, else the smallest: ``12.3
    MB``, ``145 MB``, ``2 MB``. One decimal below 100, and none for a whole number: 1.23 of a unit gives 1.2, and 0.04
    of the smallest 0.0. "unknown" for NaN and infinity."""
    if not np.isfinite(value):
        return "unknown"
    factor, unit = next((each for each in measure.units if value >= each[0]), measure.units[-1])
    shown = value / factor
    return f"{shown:.{0 if shown >= 100 or shown == int(shown) else 1}f} {unit}".rstrip()


def levels(values: Floats, measure: Measure) -> Floats:
    """Return which mark each value has, from 0 up to N_LEVELS - 1, in the shape of ``values``; NaN for 0, negative
    values and NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.floor(np.log10(values / measure.first) + 1e-9) + 1
    return np.where(values > 0, np.clip(steps, 0, N_LEVELS - 1), np.nan)


def legend(measure: Measure, glyphs: Glyphs) -> list[Row]:
    """Draw what the marks mean, a row for each; the same for every matrix of this measure."""
    rows: list[Row] = []
    for at in range(N_LEVELS):
        last = at == N_LEVELS - 1
        edge = amount(measure.first * 10.0 ** (at - last), measure)
        rows.append((_mark(at, 1, glyphs), Span(f" {'from' if last else '<'} {edge}", "dim")))
    return rows


def matrix(
    values: Floats, labels: Sequence[str], measure: Measure, width: int, glyphs: Glyphs, picked: int = -1
) -> list[Row]:
    """Draw values [n, n] of ``measure``, from line to column, in n + 1 lines of at most ``width`` cells, the columns'
    labels first. NaN, 0 and negative values are blank. ``labels``: of the n lines, and of the columns too; ``picked``:
    the index of the line under the cursor, -1 for none."""
    n = len(labels)
    room = min(max((cell_width(label) for label in labels), default=0), _LABEL)
    wide = max(min((width - room - 3) // max(n, 1), max(_WIDEST, room + 1)), 1)
    found = levels(values, measure)
    rows: list[Row] = [clip((Span(" " * (room + 3)), Span(_heads(labels, wide), "dim")), width)]
    for at, label in enumerate(labels):
        line = [
            Span("> " if at == picked else "  ", "value"),
            Span(f"{fit(label, room, glyphs.ellipsis):>{room}} ", "dim"),
        ]
        line += [
            Span(" " * wide) if level != level else _mark(int(level), wide, glyphs) for level in found[at].tolist()
        ]
        rows.append(clip(tuple(line), width))
    return rows


def _mark(level: int, wide: int, glyphs: Glyphs) -> Span:
    role: Role = RAMP[level * len(RAMP) // N_LEVELS]
    return Span(glyphs.levels[level] * max(wide - 1, 1) + " " * (wide > 1), role)


def _heads(labels: Sequence[str], wide: int) -> str:
    """Write the columns' labels, each at the beginning of its column of ``wide`` cells; one that the label before
    reaches into is left out."""
    text = ""
    for at, label in enumerate(labels):
        if len(text) + (at > 0) <= at * wide:
            text = f"{text:<{at * wide}}{label}"
    return text


def least_width(n: int, labels: Sequence[str]) -> int:
    """Return how many cells a matrix of ``n`` columns needs at least, one for each. ``labels``: of its lines; long ones
    count as cut."""
    return min(max((cell_width(label) for label in labels), default=0), _LABEL) + 3 + n
