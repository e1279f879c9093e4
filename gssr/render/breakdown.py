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

LEAST_TOLD = 0.0005
"""What has no row of its own is told as a sum, so that all rows add up to 100 %: from 0.1 % on, as it is printed."""
SMALLER_PARTS = "in smaller parts"


class CategoryLook(NamedTuple):
    """How a category looks: the ``role`` of its text, its ``colour`` in pictures (#rrggbb), and the ``mark`` (in UTF-8, and
    in ASCII) that tells it from every other one, also where there is no colour."""

    role: Role
    colour: str
    mark: str
    ascii_mark: str

    def marked(self, ascii_only: bool) -> str:
        """Return the mark for a page in ASCII or in UTF-8."""
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
    """Say in one sentence how much of the GPU time is spent computing, and what most of the rest went to, if that is at
    least LEAST_SHOWN: with what it is due to, if ``leading_loss`` tells, and that it is a guess, if it is one."""
    shares = breakdown.shares
    computes = breakdown.share("working") - float(
        shares[POSITIONS["working.few_sms"]] + shares[POSITIONS["working.slowed"]]
    )
    works = "spent in kernels (what they do was not measured)" if breakdown.is_work_unknown else "spent computing"
    text = f"{percent(computes)} of the GPU time is {works}"
    most = breakdown.largest_loss
    in_communication = shares[positions_of("communication")].tolist()
    if most is None:
        return f"{text}."
    if most == POSITIONS["working.few_sms"] and float(shares[most]) >= LEAST_SHOWN:  # these compute, too
        small = f"{percent(float(shares[most]))} of the GPU time is {breakdown.lost_to(most)}"
        return f"{small}, {percent(computes)} in others." if computes >= LEAST_SHOWN else f"{small}."
    if leading_loss is not None:
        lost = f"{percent(leading_loss.share)} is {clean(leading_loss.text)}"  # it may name a node
        # Where nothing tells what kernels do, those that only wait count as work: both shares may then exceed the whole.
        if computes + leading_loss.share > 1 + LEAST_SHOWN:
            lost = lost.replace(" is lost:", " is lost, in part in kernels:", 1)
    elif CATEGORIES[most].branch == "communication" and min(in_communication) >= LEAST_SHOWN:
        lost = f"{percent(sum(in_communication))} is spent on communication alone"
    elif float(shares[most]) >= LEAST_SHOWN:
        lost = f"{percent(float(shares[most]))} is {breakdown.lost_to(most)}"
    else:
        return f"{text}."
    return f"{text}; {lost} (a guess)." if breakdown.confidence[most] == "guess" else f"{text}; {lost}."


def breakdown_bar(breakdown: Breakdown, width: int, ascii_only: bool = False) -> Row:
    """Draw one bar of exactly ``width`` cells that adds up to all of the GPU time, as ``shares_bar`` does."""
    return shares_bar(breakdown.shares, width, ascii_only)


def shares_bar(shares: Floats, width: int, ascii_only: bool = False) -> Row:
    """Draw one bar of exactly ``width`` cells in which each category has its share [n_categories], in their order and
    rounded so that the sum stays. Shares below LEAST_SHOWN, which may be NaN, are not drawn; blank at the bar's end is
    what the others lack to 1."""
    shown = np.where(np.nan_to_num(shares) >= LEAST_SHOWN, shares, 0.0)
    exact = np.append(shown, max(1 - shown.sum(), 0.0)) * width
    cells = np.floor(exact + 1e-9).astype(int)
    cells[np.argsort(cells - exact, kind="stable")[: width - cells.sum()]] += 1  # by the largest remainders
    *own, blank = cells.tolist()
    looks = [LOOKS[each.name] for each in CATEGORIES]
    spans = [Span(look.marked(ascii_only) * n, look.role) for look, n in zip(looks, own, strict=True) if n]
    return tuple([*spans, Span(" " * blank)] if blank else spans)


def shown_categories(*bars: Floats) -> list[int]:
    """List the positions in CATEGORIES, in their order, of those that are drawn in one of these bars (shares
    [n_categories] each)."""
    found: list[int] = np.flatnonzero(np.any([shares >= LEAST_SHOWN for shares in bars], axis=0)).tolist()
    return found
