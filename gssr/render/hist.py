"""Histograms with one line per bin, highest bin first."""

from collections.abc import Sequence

from gssr.render.bar import length
from gssr.render.cells import cell_width, clip, fit, pad
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span

_COUNT = 6
_LEAST_BAR = 8
_LEAST_NAME = 8


def hist(
    edges: Sequence[str], counts: Sequence[int], names: Sequence[str], width: int, glyphs: Glyphs, indent: str = ""
) -> list[Row]:
    """One line per bin from the highest that holds anything to the lowest, at most ``width`` cells each.

    ``edges`` are the k + 1 edges as text, ``counts`` the k counts, ``names`` says who is in a bin ("" for none). Bars share
    one scale: the largest count fills it. No counts, no lines.
    """
    held = [i for i, n in enumerate(counts) if n > 0]
    if not held:
        return []
    shown = range(held[-1], held[0] - 1, -1)
    size = max(cell_width(edge) for edge in edges)
    label = size * 2 + 3
    spare = width - len(indent) - label - _COUNT - 4
    tail = max(cell_width(names[i]) for i in shown)
    if tail > spare // 2:
        tail = spare // 2 if spare // 2 >= _LEAST_NAME else 0
    room = spare - tail - (2 if tail else 0)
    most = max(counts)
    rows: list[Row] = []
    for i in shown:
        filled = length(counts[i] / most, room, glyphs) if room >= _LEAST_BAR else ""
        row = (
            Span(f"{indent}{edges[i].rjust(size)} - {edges[i + 1].rjust(size)}  "),
            *pad((Span(filled, "series"),) if filled else (), max(room, 0) if room >= _LEAST_BAR else 0),
            Span(f"{counts[i]:>{_COUNT}}", "plain" if counts[i] else "dim"),
            Span("  " + fit(names[i], tail, glyphs.ellipsis), "dim"),
        )
        rows.append(clip(row, width))
    return rows
