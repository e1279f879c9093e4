"""A roofline on logarithmic axes of fixed decades, so that two of them can be compared by eye."""

import math
from collections.abc import Sequence

import numpy as np

from gssr.render.fan import fan
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span

INTENSITY = (-2, 4)
"""Decades of FLOP/B."""
FLOPS = (10, 16)
"""Decades of FLOP/s."""
_ROWS = 3
"""Of a decade."""
_GUTTER = 7
_LEAST = 24
_PREFIXES = ((15, "P"), (12, "T"), (9, "G"), (6, "M"))


def engineering(value: float) -> str:
    """Write a number of 0 or more with three digits and an SI prefix from M on: ``66.9 T``. Below a million there is no
    prefix, and below 10 there are two decimals: 0.04 gives ``0.04``, 12345 ``12345``."""
    power, prefix = next(((power, name) for power, name in _PREFIXES if value >= 0.9995 * 10**power), (0, ""))
    shown = value / 10**power
    decimals = 0 if shown >= 99.95 else 1 if shown >= 9.995 else 2
    return f"{shown:.{decimals}f} {prefix}".rstrip()


def power_of_ten_text(power: int) -> str:
    """Write 10 to the ``power`` with its SI prefix: ``10 T``."""
    size, prefix = next(((size, name) for size, name in _PREFIXES if power >= size), (0, ""))
    return f"{10 ** (power - size)} {prefix}".rstrip()


def share(value: float, decades: tuple[int, int]) -> float:
    """Return where a value above 0 lies on a logarithmic axis of these decades: 0 to 1 within it."""
    return (math.log10(value) - decades[0]) / (decades[1] - decades[0])


def roofline(
    roofs: Sequence[tuple[str, float]],
    bandwidth: float,
    points: Sequence[tuple[str, float, float]],
    width: int,
    glyphs: Glyphs,
) -> list[Row]:
    """Draw a roofline in rows of ``width`` cells; no rows if that is too narrow or there are no roofs.

    ``roofs`` are (label, FLOP/s), the highest first, ``bandwidth`` is in B/s, and ``points`` are (mark of one character,
    FLOP/B, FLOP/s). What lies beyond an axis is drawn at its edge, and points that would cover each other side by side.
    """
    n, height = width - _GUTTER - 1, _ROWS * (FLOPS[1] - FLOPS[0])
    if n < _LEAST or not roofs:
        return []
    decades = INTENSITY[0] + (np.arange(n) + 0.5) / n * (INTENSITY[1] - INTENSITY[0])
    slope = 10.0**decades * bandwidth
    blank = np.full(n, np.nan)
    cells: list[list[tuple[str, Role]]] = [[(" ", "plain")] * n for _ in range(height)]
    for number, (_, peak) in enumerate(roofs):
        flat = np.log10(np.minimum(slope, peak))
        line = (flat - FLOPS[0]) / (FLOPS[1] - FLOPS[0])
        line = np.where((line >= 0) & ((number == 0) | (slope >= peak)), line, np.nan)
        role: Role = "series" if number == 0 else "band"
        _over(cells, fan(line, blank, blank, height, glyphs), role)
    _roof_names(cells, roofs, height)
    _slope_name(cells, f"memory {engineering(bandwidth)}B/s", bandwidth)
    for point in points:
        _mark(cells, point, n, height)
    rows = [
        (Span(f"{_y_label(y):>{_GUTTER}}{'┤' if y % _ROWS == 0 else '│'}", "dim"), *_spans(row))
        for y, row in enumerate(cells)
    ]
    return [*rows, *_axis(n)]


def _over(cells: list[list[tuple[str, Role]]], rows: Sequence[Row], role: Role) -> None:
    """Draw the marks of ``rows`` into the cells that are still blank, in this role."""
    for own, row in zip(cells, rows, strict=True):
        for x, char in enumerate("".join(span.text for span in row)):
            if char not in (" ", "\u2800") and own[x][0] == " ":
                own[x] = ("." if char.isascii() else char, role)


def _roof_names(cells: list[list[tuple[str, Role]]], roofs: Sequence[tuple[str, float]], height: int) -> None:
    """Write the names of the roofs into the cells, in place, at the roofs' right ends, those of one row together."""
    texts: dict[int, list[str]] = {}
    for label, peak in roofs:
        texts.setdefault(_row(peak, height), []).append(f"{label} {engineering(peak)}")
    for y, words in texts.items():
        text = f" {', '.join(words)}"
        _write(cells[y], len(cells[y]) - len(text), text)


def _slope_name(cells: list[list[tuple[str, Role]]], text: str, bandwidth: float) -> None:
    """Write ``text`` above the slope of this memory bandwidth (bytes/s), left of its middle."""
    n = len(cells[0])
    x = int(n * 0.36)
    at = 10 ** (INTENSITY[0] + (x + 0.5) / n * (INTENSITY[1] - INTENSITY[0])) * bandwidth
    _write(cells[max(_row(at, len(cells)) - 1, 0)], max(x - len(text), 0), text)


def _write(row: list[tuple[str, Role]], x: int, text: str) -> None:
    for place, char in enumerate(text, max(x, 0)):
        if place < len(row):
            row[place] = (char, "dim")


def _row(flops: float, height: int) -> int:
    return min(max(height - 1 - int(share(flops, FLOPS) * height), 0), height - 1)


def _mark(cells: list[list[tuple[str, Role]]], point: tuple[str, float, float], n: int, height: int) -> None:
    """Draw a point (mark, FLOP/B, FLOP/s) into the cells, n wide and ``height`` high, in place: at its own column, or
    if a point is there already at the next free one to the right, else to the left."""
    mark, intensity, flops = point
    x = min(max(int(share(intensity, INTENSITY) * n), 0), n - 1)
    row = cells[_row(flops, height)]
    free = (place for place in (*range(x, n), *range(x, -1, -1)) if row[place][1] != "outlier")
    row[next(free, x)] = (mark, "outlier")


def _spans(cells: Sequence[tuple[str, Role]]) -> list[Span]:
    """Join neighbouring cells of the same role to spans."""
    spans: list[Span] = []
    for char, role in cells:
        if spans and spans[-1].role == role:
            spans[-1] = Span(spans[-1].text + char, role)
        else:
            spans.append(Span(char, role))
    return spans


def _y_label(y: int) -> str:
    if y % _ROWS:
        return ""
    return power_of_ten_text(FLOPS[1] - y // _ROWS)


def _axis(n: int) -> list[Row]:
    """Draw the horizontal axis, and its labels below, in two rows for ``n`` columns."""
    line, labels = ["─"] * n, [" "] * (n + _GUTTER + 1)
    for decade in range(INTENSITY[0], INTENSITY[1] + 1):
        x = min(int((decade - INTENSITY[0]) / (INTENSITY[1] - INTENSITY[0]) * n), n - 1)
        line[x] = "┬"
        text = f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:.{-decade}f}"
        begin = min(max(_GUTTER + 1 + x - len(text) // 2, 0), len(labels) - len(text))
        labels[begin : begin + len(text)] = text
    return [(Span(" " * _GUTTER + "└" + "".join(line), "dim"),), (Span("".join(labels), "dim"),)]
