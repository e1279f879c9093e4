"""Where the GPU time went, as a tree: branches, categories, and the GPUs that most of a category falls on; each with its
share, how sure it is, and its GPU-hours."""

from typing import ClassVar, NamedTuple

import numpy as np
from rich.text import Text
from textual.binding import BindingType
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from gssr.model.breakdown.categories import BRANCHES, CATEGORIES
from gssr.model.breakdown.result import Breakdown, positions_of
from gssr.model.live.live_result import Result
from gssr.model.verdicts.words import no_gpus_text
from gssr.render.breakdown import LEAST_SHOWN, LEAST_TOLD, LOOKS, SMALLER_PARTS, headline
from gssr.render.cells import clean, fit
from gssr.render.scale import count, fixed, percent
from gssr.report.live.marked_gpus import culprit_mark
from gssr.report.live.times_of_run import judged_title
from gssr.tui.keys import key
from gssr.tui.shared.panel import Drawing
from gssr.tui.view import View

_WORDS = {"working": "works", "communication": "only communicates", "idle": "is idle"}
_MOST_GPUS = 8
_LEAST_NAME, _MOST_NAME = 16, 44
_NUMBERS = 27
"""Cells of the share, its error and the GPU-hours."""
_MOST_BAR, _LEAST_BAR = 30, 5


class Item(NamedTuple):
    """One line: ``name`` and the category whose colour it has; ``share`` of all GPU time, its ``error`` (None: of GPUs), and
    ``hours``."""

    name: str
    category: str
    share: float
    error: float | None
    hours: float
    below: tuple["Item", ...] = ()


def items_of(breakdown: Breakdown, result: Result, ascii_only: bool = False) -> list[Item]:
    """Build the tree of the account: branches, their categories with the largest first, and below a category the GPUs
    that most of it falls on.

    Categories below LEAST_SHOWN of the GPU time are told together, last of all. Branches without a word of their own
    (_WORDS) are left out, and their categories stand at the top. GPUs are only named if they are not all of them, and the
    others are told together; those that the judgement singles out have their mark.
    """
    total, seconds = breakdown.gpu_seconds, breakdown.by_gpu.sum(axis=0)
    result = result.of_gpus or result
    looked_at = result.query.gpus or range(result.n_gpus)
    has_names = result.part is None or result.part.level.name == "gpus"

    def named(gpu: int) -> str:
        mark = f"{culprit_mark(ascii_only)} " if gpu in result.singled_out else ""
        return f"{mark}{clean(result.place(gpu))}"

    def gpus_of(at: int) -> tuple[Item, ...]:
        """List the GPUs that most of the category at this position falls on; none if it is all of them."""
        name = CATEGORIES[at].name
        most = breakdown.gpus_with_most(name)
        if len(most) in (0, len(breakdown.by_gpu)) or not has_names:
            return ()
        most = sorted(most, key=lambda gpu: -float(breakdown.by_gpu[gpu, at]))[:_MOST_GPUS]
        told = [(gpu, float(breakdown.by_gpu[gpu, at])) for gpu in most if gpu < len(looked_at)]
        of_gpus = [Item(named(looked_at[gpu]), name, own / total, None, own / 3600) for gpu, own in told]
        rest, n_others = float(seconds[at]) - sum(own for _, own in told), len(breakdown.by_gpu) - len(told)
        if rest / total >= LEAST_TOLD:
            of_gpus.append(Item(f"{count(n_others, 'other GPU')}", name, rest / total, None, rest / 3600))
        return tuple(of_gpus)

    found: list[Item] = []
    for branch in BRANCHES:
        places = [at for at in positions_of(branch) if seconds[at] / total >= LEAST_SHOWN]
        leaves = tuple(
            Item(breakdown.label(at), CATEGORIES[at].name, float(seconds[at] / total), float(breakdown.error[at]),
                 float(seconds[at] / 3600), gpus_of(at))
            for at in sorted(places, key=lambda at: -float(seconds[at]))
        )  # fmt: skip
        if not leaves:
            continue
        if branch not in _WORDS:
            found += leaves
            continue
        own = float(seconds[places].sum())
        error = float(np.sqrt(np.nansum(np.square(breakdown.error[places]))))
        found.append(Item(_WORDS[branch], leaves[0].category, own / total, error, own / 3600, leaves))
    small = float(seconds[seconds / total < LEAST_SHOWN].sum())
    if small / total >= LEAST_TOLD:
        found.append(Item(SMALLER_PARTS, "unmeasured", small / total, None, small / 3600))
    return found


class AccountTree(Drawing, Tree[str]):
    """The breakdown of the window's GPU time."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "cursor_up", "Up", "the line above", show=False),
        key("down,j", "cursor_down", "Down", "the line below", show=False),
        key("enter", "select_cursor", "Open", "open or close the line", show=False),
    ]

    def __init__(self, **attributes: str) -> None:
        super().__init__("", **attributes)  # type: ignore[arg-type]
        self.show_root = False
        self.guide_depth = 2
        self._told: tuple[object, ...] = ()
        self._items: list[Item] = []

    def on_mount(self) -> None:
        """Use ASCII marks instead of guides where the terminal can't show others."""
        if self.glyphs.levels.isascii():
            self.show_guides, self.ICON_NODE, self.ICON_NODE_EXPANDED = False, "+ ", "- "

    def show(self, result: Result, _view: View) -> None:
        """Show the newest breakdown; empty while there is none. Lines that stay keep whether they are open, and the
        cursor stays."""
        judgement = result.judgement
        breakdown = None if judgement is None else judgement.breakdown
        told = (id(breakdown), self.content_size.width, self.palette.theme)
        went = "where the GPU time goes" if result.is_live else "where the GPU time went"
        self.border_title = (
            judged_title(went, result)
            if result.part is None or breakdown is not None
            else no_gpus_text(result.part.trace.sources)
        )
        if told == self._told:
            return
        self._told, ascii_only = told, self.glyphs.levels.isascii()
        self._items = (
            [] if breakdown is None or not breakdown.gpu_seconds > 0 else items_of(breakdown, result, ascii_only)
        )
        self.tooltip = None
        if judgement is not None and breakdown is not None and self._items:
            self.tooltip = headline(breakdown, judgement.leading_loss)
        self._fill(self.root, self._items, 0)

    def on_resize(self) -> None:
        """Write all labels anew, as the room for names has changed."""
        self._told = (*self._told[:1], self.content_size.width, self.palette.theme)
        self._fill(self.root, self._items, 0)

    def _fill(self, node: TreeNode[str], items: list[Item] | tuple[Item, ...], depth: int) -> None:
        """Put ``items`` below a node. Its children are only replaced if their names have changed; otherwise only the
        labels are. ``depth`` is 0 at the root, whose children start open."""
        if [child.data for child in node.children] != [item.name for item in items]:
            node.remove_children()
            for item in items:
                if item.below:
                    node.add(item.name, item.name, expand=depth == 0)
                else:
                    node.add_leaf(item.name, item.name)
        for child, item in zip(node.children, items, strict=True):
            label = self._label(item, depth)
            if child.label != label:
                child.set_label(label)
            self._fill(child, item.below, depth + 1)

    def _label(self, item: Item, depth: int) -> Text:
        """Write a line of the tree: mark, name, bar, share, its error (none of GPUs) and GPU-hours, by the width of
        the widget.

        ``depth``: how many items are above this one; it is indented by that.
        """
        style, ascii_only = self.palette.style, self.glyphs.levels.isascii()
        look = LOOKS[item.category]
        width = max(self.content_size.width, 30) - 2
        room = width - _NUMBERS
        bar = min(max(room - _MOST_NAME, 0), _MOST_BAR)
        bar = bar if bar >= _LEAST_BAR else 0
        indent = 2 * depth + 2  # the arrow, or its place
        name = max(min(room - bar, _MOST_NAME) - indent - 2, _LEAST_NAME)
        arrow = "" if item.below else "  "
        mark = " " if item.name == SMALLER_PARTS else look.marked(ascii_only)
        error = "" if item.error is None else f"{'+-' if ascii_only else '±'}{fixed(100 * item.error, 1)}"
        filled = round(item.share * bar)
        return Text.assemble(
            (f"{arrow}{mark} ", style(look.role)),
            (f"{fit(item.name, name, self.glyphs.ellipsis):<{name}}", "bold" if depth == 0 else ""),
            (mark * filled, style(look.role)), " " * (bar - filled),
            (f"{percent(item.share):>8}", style("value")), (f" {error:<6}", style("dim")),
            (f"{_hours(item.hours):>12}", ""),
        )  # fmt: skip


def _hours(hours: float) -> str:
    """Write GPU-hours as GPU-h, or where they are few as GPU-s or GPU-ms."""
    if hours >= 0.1 or hours == 0:
        return f"{fixed(hours, 1 if hours >= 100 else 2)} GPU-h"
    seconds = hours * 3600
    return (
        f"{fixed(seconds, 1 if seconds < 10 else 0)} GPU-s" if seconds >= 0.1 else f"{fixed(seconds * 1e3, 1)} GPU-ms"
    )
