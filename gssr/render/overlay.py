"""Laying one drawing over another."""

from collections.abc import Sequence

from gssr.render.cells import cell_width, clip, pad
from gssr.render.roles import Row, Span, text_of


def laid_over(rows: Sequence[Row], box: Sequence[Row], width: int) -> list[Row]:
    """Lay ``box`` over the middle of ``rows``, which are ``width`` cells wide; what has no room is cut."""
    wide = min(max((cell_width(text_of(row)) for row in box), default=0), width)
    left, top = (width - wide) // 2, max((len(rows) - len(box)) // 2, 0)
    drawn = list(rows)
    for y, row in enumerate(box[: len(rows)], top):
        under = pad(rows[y], width)
        line = (*pad(clip(under, left), left), *pad(row, wide), *_after(under, left + wide))
        drawn[y] = pad(line, width)
    return drawn


def _after(row: Row, cells: int) -> Row:
    """Return what follows the first ``cells`` cells of a row; a blank in place of half a wide character."""
    spans: list[Span] = []
    skipped = 0
    for span in row:
        text = span.text
        while text and skipped < cells:
            skipped += cell_width(text[0])
            text = text[1:]
            if skipped > cells:
                text = " " + text
        if text:
            spans.append(Span(text, span.role))
    return tuple(spans)
