"""Shares of time by category: of a trace's GPUs, streams and threads. Every category has a letter and a colour."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.render.cells import pad
from gssr.render.glyphs import MISSING
from gssr.render.marks import MarkGrid, blank, code
from gssr.render.roles import CATEGORIES, Row, Span
from gssr.render.scale import percent

LETTERS = "cnmslrio"
"""In the order of CATEGORIES."""
WORDS = ("compute", "network", "memory copy", "sync wait", "launch, API", "range", "I/O", "other")
_SEEN = 0.005
"""A smaller share has no letter."""
_CODES = np.array([code(role) for role in CATEGORIES], np.int8)
_CHARS = np.array([*LETTERS, MISSING])


def most_of(split: Floats) -> Ints:
    """Return the category that has most of each cell of ``split`` [..., categories], in its shape without the last
    axis; -1 where there is next to nothing."""
    shares = np.nan_to_num(split)
    return np.asarray(np.where(shares.sum(axis=-1) >= _SEEN, shares.argmax(axis=-1), -1), np.int64)


def coloured(bars: MarkGrid, split: Floats) -> MarkGrid:
    """Return bars [n_lines, height, n] in the colours of the category that has most of each cell of ``split``
    [n_lines, n, categories], with its letter in a row below."""
    most = most_of(split)
    looks = np.where(most >= 0, _CODES[most], code("dim"))[:, None, :]
    chars = np.concatenate([bars.chars, _CHARS[most][:, None, :]], axis=1)
    return MarkGrid(chars, np.broadcast_to(looks, chars.shape).copy())


def stacked(split: Floats, height: int) -> MarkGrid:
    """Draw columns [height, n] of letters for shares [n, categories], the first category at the bottom."""
    box = blank(height, len(split))
    edges = np.cumsum(np.nan_to_num(split), axis=1)
    middle = (np.arange(height)[::-1, None, None] + 0.5) / height
    category = (middle >= edges).sum(axis=-1)
    box.chars[:] = _CHARS[category]
    box.codes[:] = np.append(_CODES, code("plain"))[category]
    return box


def legend(shares: Sequence[float]) -> list[Row]:
    """List ``c compute 63.1 %`` for every category that is there, in their order, and what is left: idle ("unknown" if
    the shares are)."""
    rows: list[Row] = [
        (Span(LETTERS[at], CATEGORIES[at]), Span(f" {WORDS[at]} ", "dim"), Span(percent(share), "value"))
        for at, share in enumerate(shares)
        if share >= _SEEN / 10
    ]
    known = sum(share for share in shares if share == share)
    idle = (Span("idle ", "dim"), Span(percent(max(1 - known, 0.0)) if shares[0] == shares[0] else "unknown", "value"))
    return [*rows, idle]


def split_bar(shares: Sequence[float], width: int, track: str) -> Row:
    """Draw one bar of ``width`` cells in which each category has its share, in letters, so that it can be read without
    colours; the rest, idle, is ``track``."""
    edges = np.round(np.cumsum(np.nan_to_num(np.array(shares))) * width).astype(int)
    spans = [
        Span(LETTERS[at] * (stop - start), CATEGORIES[at])
        for at, (start, stop) in enumerate(zip([0, *edges[:-1]], edges, strict=True))
        if stop > start
    ]
    rest = width - sum(len(span.text) for span in spans)
    return pad((*spans, Span(track * rest, "dim")), width)
