"""Where the GPU time went, drawn in characters: a sentence, one bar that adds up to 100 %, and a row for each category.

The colours of the categories stand here, in one table that pages, pictures and screens read.
"""

from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown, positions_of
from gssr.model.results import LeadingLoss
from gssr.render.cells import clean
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import percent

LEAST_SHOWN = 0.005
"""A smaller share of the GPU time has no row of its own and no part of the bar that could be seen."""


class CategoryLook(NamedTuple):
    """How a category looks: the ``role`` of its text, its ``colour`` in pictures (#rrggbb), and the ``mark`` (in UTF-8, and
    in ASCII) that tells it from every other one, also where there is no colour."""

    role: Role
    colour: str
    mark: str
    ascii_mark: str

    def marked(self, ascii_only: bool) -> str:
        """Give the mark that the page can draw."""
        return self.ascii_mark if ascii_only else self.mark


LOOKS: dict[str, CategoryLook] = {
    "working.tensor": CategoryLook("working1", "#2f7d4f", "█", "#"),
    "working.fp64": CategoryLook("working2", "#2ca58d", "▓", "@"),
    "working.memory": CategoryLook("working3", "#57ab3c", "▊", "%"),
    "working.other": CategoryLook("working4", "#9fd8a8", "▙", "&"),
    "working.few_sms": CategoryLook("working5", "#d6cb45", "▌", "*"),
    "working.slowed": CategoryLook("working6", "#cf8420", "▆", "v"),
    "communication.transferring": CategoryLook("communication1", "#3f6fd0", "▚", "+"),
    "communication.waiting": CategoryLook("communication2", "#a78be6", "▒", "="),
    "idle.between_kernels": CategoryLook("idle1", "#f2a7c3", "▎", "-"),
    "idle.imbalance": CategoryLook("idle2", "#c639b0", "╳", "~"),
    "idle.input_output": CategoryLook("idle3", "#e8402e", "▀", "f"),
    "idle.copies": CategoryLook("idle4", "#ff9f73", "▄", "c"),
    "idle.host": CategoryLook("idle5", "#b3264a", "╬", "h"),
    "idle.unexplained": CategoryLook("idle6", "#a98274", "░", "_"),
    "startup": CategoryLook("outside1", "#738297", "·", "."),
    "end": CategoryLook("outside2", "#a3adba", ":", ":"),
    "unused": CategoryLook("outside3", "#5b6570", "x", "x"),
    "unmeasured": CategoryLook("outside4", "#c9ced4", "?", "/"),
}
"""Work is green, communication blue to violet, idle time red to pink, time outside the work grey. Neither two colours nor
two marks are alike, and marks of idle time that has a cause stand out from each other most."""


def headline(breakdown: Breakdown, leading_loss: LeadingLoss | None = None) -> str:
    """Say in one sentence how much of the GPU time computes, and what most of the rest went to, if that is at least
    LEAST_SHOWN: with what it is due to, if ``leading_loss`` tells."""
    shares = breakdown.shares
    computes = breakdown.share("working") - float(
        shares[POSITIONS["working.few_sms"]] + shares[POSITIONS["working.slowed"]]
    )
    text = f"{percent(computes)} of the GPU time computes"
    most = breakdown.largest_loss
    in_communication = shares[positions_of("communication")].tolist()
    if most is None:
        return f"{text}."
    if leading_loss is not None:
        text += f"; {percent(leading_loss.share)} is {clean(leading_loss.text)}"  # it may name a node
    elif CATEGORIES[most].branch == "communication" and min(in_communication) >= LEAST_SHOWN:
        text += f"; {percent(sum(in_communication))} is spent in communication"
    elif float(shares[most]) >= LEAST_SHOWN:
        text += f"; {percent(float(shares[most]))} is {CATEGORIES[most].lost_to}"
    return text + "."


def breakdown_bar(breakdown: Breakdown, width: int, ascii_only: bool = False) -> Row:
    """One bar of exactly ``width`` cells that adds up to all of the GPU time."""
    return shares_bar(breakdown.shares, width, ascii_only)


def shares_bar(shares: Floats, width: int, ascii_only: bool = False) -> Row:
    """Draw one bar of exactly ``width`` cells in which each category has its share [n_categories]; NaN counts as none,
    and what the shares lack is blank."""
    spans, start = [], 0
    for each, end in zip(CATEGORIES, _edges(shares, width), strict=True):
        if end > start:
            spans.append(Span(LOOKS[each.name].marked(ascii_only) * (end - start), LOOKS[each.name].role))
        start = max(start, end)
    if start < width:
        spans.append(Span(" " * (width - start)))
    return tuple(spans)


def _edges(shares: Floats, width: int) -> list[int]:
    """Find where each category ends in a bar of ``width`` cells [n_categories]; NaN counts as none."""
    edges: list[int] = np.round(np.cumsum(np.nan_to_num(shares)) * width).astype(int).tolist()
    return edges


def shown_categories(breakdown: Breakdown, *bars: tuple[Floats, int]) -> list[int]:
    """List the positions in CATEGORIES, in their order, of those that have a row: LEAST_SHOWN of the time, or a cell in
    one of the ``bars`` (shares [n_categories], width in cells) that stand above."""
    shares = breakdown.shares
    seen = [np.diff(_edges(own, width), prepend=0) > 0 for own, width in bars]
    return np.flatnonzero(np.any([shares >= LEAST_SHOWN, *seen], axis=0)).tolist()
