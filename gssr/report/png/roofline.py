"""A picture of the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from gssr.model.results import Analysis, Unplaced
from gssr.render.roofline import FLOPS, INTENSITY, decade, engineering
from gssr.render.scale import percent
from gssr.report.phases import WHOLE, drawn_roofs, intensity_text, places
from gssr.report.png.figure import BLUE, FAINT, INK, ORANGE, NothingToDrawError, picture
from gssr.report.png.over_time import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAVEAT = "upper bounds: pipe activities x peaks, DRAM activity x peak bandwidth"


def roofline_png(analysis: Analysis, file: BinaryIO) -> None:
    """Draw where the run and its phases lie under the roofline of their GPUs. Raises NothingToDrawError, OSError."""
    if analysis.peaks is None or not places(analysis):
        why = analysis.place.reason if isinstance(analysis.place, Unplaced) else "it was not looked at"
        raise NothingToDrawError(why)
    with picture(analysis, [5.2], file, "What bounds it?") as (_, panels):
        roofline(panels[0], analysis)
        panels[0].set_title(CAVEAT, loc="right", fontweight="normal", fontsize=9, color=FAINT)


def roofline(panel: Axes, analysis: Analysis) -> None:
    """Where the run and its phases lie, in axes that are empty. There must be peaks and places (``places``)."""
    peaks, found = analysis.peaks, places(analysis)
    assert peaks is not None
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(10.0 ** INTENSITY[0], 10.0 ** INTENSITY[1])
    panel.set_ylim(10.0 ** FLOPS[0], 10.0 ** FLOPS[1])
    panel.set_yticks([10.0**power for power in range(FLOPS[0], FLOPS[1] + 1)])
    panel.set_yticklabels([decade(power) for power in range(FLOPS[0], FLOPS[1] + 1)])
    panel.set_xticks([10.0**power for power in range(INTENSITY[0], INTENSITY[1] + 1)])
    panel.set_xticklabels([f"{10.0**power:,g}" for power in range(INTENSITY[0], INTENSITY[1] + 1)])
    panel.minorticks_off()
    panel.set_xlabel("arithmetic intensity (FLOP/B)")
    panel.set_ylabel("FLOP/s of a GPU")
    panel.set_title(f"{peaks.model}: at most so many FLOP/s")
    bandwidth = peaks.memory_bandwidth
    for number, (label, peak) in enumerate(drawn_roofs(peaks, analysis)):
        ridge = peak / bandwidth
        xs = np.array([10.0 ** INTENSITY[0] if number == 0 else ridge, ridge, 10.0 ** INTENSITY[1]])
        panel.plot(xs, np.minimum(xs * bandwidth, peak), color=BLUE, linewidth=1.8 if number == 0 else 1.0)
        panel.annotate(
            f"{label}: {engineering(peak)}FLOP/s", (10.0 ** INTENSITY[1], peak), xytext=(-4, 3),
            textcoords="offset points", ha="right", va="bottom", fontsize=8.5, color=INK,
        )  # fmt: skip
    panel.annotate(
        f"memory: {engineering(bandwidth)}B/s", (0.3, 0.3 * bandwidth), xytext=(8, -2),
        textcoords="offset points", ha="left", va="top", fontsize=8.5, color=INK,
    )  # fmt: skip
    for mark, name, place in found:
        kind = next((kind for kind in COLOURS if kind == name), None)
        colour = COLOURS[kind] if kind else ORANGE
        x, y = _inside(place.intensity, INTENSITY), _inside(place.flops, FLOPS)
        title = name if mark == WHOLE else f"{mark} {name}"
        text = f"{title}: {intensity_text(place)}, {percent(place.of_roof)} of its roof"
        panel.plot(
            [x], [y], marker="*" if mark == WHOLE else "o", markersize=13 if mark == WHOLE else 9, color=colour,
            markeredgecolor=INK, linestyle="none", label=text,
        )  # fmt: skip
        if mark != WHOLE:
            panel.annotate(mark, (x, y), xytext=(6, -6), textcoords="offset points", va="top", fontsize=9, color=INK)
    panel.legend(loc="lower right", frameon=False, fontsize=8.5)


def _inside(value: float, decades: tuple[int, int]) -> float:
    """The value, or the end of the axis that it lies beyond."""
    return float(min(max(value, 10.0 ** decades[0]), 10.0 ** decades[1]))
