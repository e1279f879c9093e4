"""Where the GPU time went, as the page begins: one sentence, one bar that adds up to 100 %, and the categories."""

import numpy as np

from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown
from gssr.model.results import LeadingLoss
from gssr.render.breakdown import (
    LEAST_SHOWN,
    LEAST_TOLD,
    LOOKS,
    SMALLER_PARTS,
    breakdown_bar,
    headline,
    shown_categories,
)
from gssr.render.cells import wrap
from gssr.render.clock import duration, exact
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import percent
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import PageOptions, section

_ROUNDING = 1e-9
"""By this much the sum of two shares may miss the same sum made elsewhere."""
_ABOUT_SECONDS = 5.0
"""Samples further apart than this (s) mix all parts of a step."""
_EFFICIENCY_AT_MOST = (
    "the efficiency is at most that: what kernels do was not measured, and those that only wait may count as work"
)


def breakdown_section(
    breakdown: Breakdown | None, options: PageOptions, leading_loss: LeadingLoss | None = None
) -> list[Row]:
    """Draw the part of the page that says where the GPU time went; no rows if the breakdown is None or holds no GPU
    time. ``leading_loss``: what the largest loss is due to."""
    if breakdown is None or not breakdown.gpu_seconds > 0:
        return []
    width, marks = options.width, glyph_set(options.ascii)
    rows = section("Where the GPU time goes", width, marks)
    rows += wrap(headline(breakdown, leading_loss), width, role="value")
    rows += [breakdown_bar(breakdown, width, options.ascii), *_table(breakdown, options, marks)]
    if options.verbosity != "low":
        texts = [*_parts_of_waiting(breakdown, leading_loss), *breakdown_remarks(breakdown)]
        rows += [row for text in texts for row in wrap(text, width, role="dim")]
    return rows


def _parts_of_waiting(breakdown: Breakdown, leading_loss: LeadingLoss | None) -> list[str]:
    """Say in which two categories the loss of the headline lies, if GPUs wait for each other both idle and in
    communication kernels, and it is more than either; else an empty list."""
    parts = [POSITIONS["idle.imbalance"], POSITIONS["communication.waiting"]]
    shares = [float(breakdown.shares[at]) for at in parts]
    if leading_loss is None or breakdown.largest_loss not in parts or min(shares) < LEAST_SHOWN:
        return []
    if not max(shares) < leading_loss.share <= sum(shares) + _ROUNDING:
        return []  # a hang is told of other time, too
    told = " and ".join(f"{breakdown.label(at)} ({percent(share)})" for share, at in zip(shares, parts, strict=True))
    return [f"the {percent(leading_loss.share)} lost lie in two rows: {told}"]


def _table(breakdown: Breakdown, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw a row for each category that is shown, with share, error, GPU time, and by what it is known. Without any
    error, as of a trace, its column is left out."""
    has_error = bool(breakdown.error.any())  # kernels of a trace are exact
    spell = duration if has_error else exact
    columns = (
        TableColumn(""), TableColumn("share", align="right"),
        *([TableColumn("+-" if options.ascii else "±", align="right", drop=2)] if has_error else []),
        TableColumn("GPU time", align="right", drop=1), TableColumn("known by", drop=3),
    )  # fmt: skip
    shares, seconds = breakdown.shares, breakdown.by_gpu.sum(axis=0)
    rows: list[list[Cell]] = []
    shown = shown_categories(shares)
    for at in shown:
        look = LOOKS[CATEGORIES[at].name]
        rows.append(
            [
                (Span(f"{look.marked(options.ascii)} ", look.role), Span(breakdown.label(at))),
                percent(float(shares[at])), *([percent(float(breakdown.error[at]))] if has_error else []),
                spell(float(seconds[at])), breakdown.known_by(at),
            ]
        )  # fmt: skip
    rest = 1 - float(shares[shown].sum())
    if rest >= LEAST_TOLD:
        left = float(seconds.sum() - seconds[shown].sum())
        error = [""] if has_error else []
        rows.append([(Span("  "), Span(SMALLER_PARTS)), percent(rest), *error, spell(left), ""])
    return table(columns, rows, options.width, marks)


def breakdown_remarks(breakdown: Breakdown) -> list[str]:
    """Say of which factors the parallel efficiency is the product, when nothing was measured, and what samples that are
    far apart leave open; empty if none of it applies."""
    found = []
    efficiency = breakdown.efficiency
    if efficiency is not None and len(breakdown.by_gpu) == 1 and efficiency.communication == 1:
        found.append(
            f"parallel efficiency {percent(efficiency.parallel)}: of one GPU, the share of the time in which the host gives "
            "it work"
        )
    elif efficiency is not None:
        found.append(
            f"parallel efficiency {percent(efficiency.parallel)} = load balance {percent(efficiency.load_balance)} x "
            f"communication {percent(efficiency.communication)} x orchestration {percent(efficiency.orchestration)}"
        )
    if efficiency is not None and breakdown.is_work_unknown:
        found.append(_EFFICIENCY_AT_MOST)
    found += _where_not_measured(breakdown)
    if breakdown.resolution >= _ABOUT_SECONDS:
        found.append(f"samples of {duration(breakdown.resolution)}: the shares of shorter waits are estimates")
    return found


def _where_not_measured(breakdown: Breakdown) -> list[str]:
    """Say how much of the GPU time that was not measured lies before the first measurement of any GPU and after the last
    one, if either is a share that is shown; else an empty list."""
    unmeasured = breakdown.over_time[:, POSITIONS["unmeasured"]]
    measured = np.flatnonzero(breakdown.over_time.sum(axis=1) - unmeasured > 0)
    if not len(measured):
        return []
    parts = {
        "before the first sample": float(unmeasured[: measured[0]].sum()),
        "after the last one": float(unmeasured[measured[-1] + 1 :].sum()),
    }
    told = [
        f"{duration(seconds)} of GPU time {where}"
        for where, seconds in parts.items()
        if seconds >= LEAST_SHOWN * breakdown.gpu_seconds
    ]
    return [f"not measured: {' and '.join(told)}"] if told else []
