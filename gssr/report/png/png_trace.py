"""A picture of a trace: what the GPUs did over time, and the split of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from gssr.model.traces.trace_results import TraceAnalysis
from gssr.report.png.figure import BLANK, BLUE, FAINT, ORANGE, NothingToDrawError, new_picture
from gssr.report.trace import PARTS, describe, over_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 600
_MOST = 64
_ROW, _LEAST, _TALL = 0.24, 1.0, 2.6
"""Inches: of a GPU, of all of them at least, and of what they did over time."""
_LEGEND: Any = {"loc": "lower right", "bbox_to_anchor": (1, 1), "fontsize": 8, "frameon": False}
_COLORS = (BLUE, ORANGE, FAINT, BLANK)


def trace_png(trace: TraceAnalysis, file: BinaryIO) -> None:
    """Draw what the GPUs did over time, and the split of the first _MOST. Raises NothingToDrawError, OSError."""
    if not trace.gpus:
        raise NothingToDrawError("no GPU did anything")
    shown = trace.gpus[:_MOST]
    subtitle = "   |   ".join(describe(trace))
    with new_picture(subtitle, [_TALL, max(_ROW * len(shown), _LEAST)], file, "What did the GPUs do?") as (_, panels):
        draw_over_time(panels[0], trace)
        before = np.zeros(len(shown))
        for (name, key, _), color in zip(PARTS, _COLORS, strict=True):
            share = np.array([100 * getattr(gpu, key) / max(gpu.span_ns, 1) for gpu in shown])
            panels[1].barh(range(len(shown)), share, left=before, color=color, label=name)
            before += share
        panels[1].set_yticks(range(len(shown)), [gpu.place for gpu in shown])
        panels[1].set(xlim=(0, 100), xlabel="%")
        panels[1].invert_yaxis()
        panels[1].legend(**_LEGEND, ncols=len(PARTS))
        panels[1].set_title("share of the time from each GPU's first work to its last")


def draw_over_time(panel: Axes, trace: TraceAnalysis) -> None:
    """Draw what the GPUs did along time, as the mean of all, in per cent."""
    begin, end = (at / 1e9 for at in trace.extent or (0, 0))
    time = np.linspace(begin, end, _COLUMNS + 1)
    compute, busy = (over_time(trace, _COLUMNS, name) for name in ("compute", "busy"))
    panel.stairs(busy * 100, time, fill=True, color=ORANGE, label="only communication or copies")
    panel.stairs(compute * 100, time, fill=True, color=BLUE, label="computation")
    panel.set(xlim=(begin, end), ylim=(0, 100), ylabel="%", xlabel="s after the trace's zero")
    panel.legend(**_LEGEND, ncols=2)
    panel.set_title("over time" + (", mean of the GPUs" if len(trace.gpus) > 1 else ""))
