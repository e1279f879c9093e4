"""What pictures share: a figure with its head, axes of time and of values, and what is said where there is nothing.

matplotlib takes a second to import and keeps its settings in global state. It is imported when a picture is made, drawn on
without its window system, and its settings are put back.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from gssr.arrays import Floats
from gssr.gpu_vendors import maker_of, speaking_of
from gssr.metrics import Metric, best_measured
from gssr.model.results import Analysis, GpuSummary
from gssr.render.cells import fit
from gssr.render.clock import duration, time_ticks
from gssr.render.scale import UNKNOWN, fixed, metric_of, percent, quantity, unit_of
from gssr.report.over_time import short_place
from gssr.report.page import compared, full_scale, gpus_and_nodes_text, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 130
_WIDTH = 10.0
_PACKED = 4
"""Of 0-9: up to a sixteenth larger than by 6, in half of the time."""
INK, FAINT, BLUE, ORANGE, BLANK = "#222222", "#6b6b6b", "#2a6f97", "#c2404f", "#e9e9e9"
"""On white texts of them have a contrast of 4.5 to 1 at least. Source: WCAG 2.2, 1.4.3."""
_STYLE: Any = {
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # where titles are anyway: matplotlib measures all labels again and again to find that out
    "image.cmap": "cividis",
    "text.parse_math": False,  # a dollar in a name begins no formula
}
_TALLEST = 14.0
_LONGEST_TITLE, _LONGEST_JOB, LONGEST_PLACE = 48, 20, 32
"""Characters of a name that there is room for."""


class NothingToDrawError(Exception):
    """A picture would be empty; the text says why, in a clause. Nothing was written."""

    @classmethod
    def of(cls, analysis: Analysis) -> NothingToDrawError:
        """Make the error of an analysis that has no values to draw, with its reason."""
        if not analysis.gpus:
            return cls("no GPU")
        return cls("none of these metrics was measured" if analysis.n_samples else "no samples")


@contextmanager
def figure_style(**changes: Any) -> Generator[None, None, None]:
    """Set how everything is drawn while the context lasts, whatever the caller has set. In the names of ``changes``
    ``_`` stands for the first dot."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {name.replace("_", ".", 1): value for name, value in changes.items()})
        yield


@contextmanager
def new_picture(
    about: Analysis | str, heights: list[float], file: BinaryIO, question: str, split: bool = False
) -> Generator[tuple[Figure, list[Axes]], None, None]:
    """Yield a figure of panels one below the other, ``heights`` inches tall, with the first row in two columns if
    ``split``, and write it to ``file`` as PNG at the end.

    ``question`` is its title; the run it is ``about``, or a text, stands under that. Not written if the block raises.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with figure_style(), speaking_of(maker_of(() if isinstance(about, str) else about.gpus)):
        head = 0.85
        tall = min(sum(heights) + 0.42 * len(heights) + head + 0.3, _TALLEST)
        layout = ConstrainedLayoutEngine(rect=(0.005, 0.01, 0.99, 1 - head / tall - 0.01), hspace=0.06)
        figure = Figure(figsize=(_WIDTH, tall), dpi=_DPI, layout=layout, facecolor="white")
        canvas = FigureCanvasAgg(figure)
        figure.text(0.012, 1 - 0.28 / tall, question, fontsize=14, fontweight="bold", color=INK, va="center")
        subtitle = about if isinstance(about, str) else _subtitle(about)
        figure.text(0.012, 1 - 0.58 / tall, subtitle, fontsize=9, color=FAINT, va="center", parse_math=False)
        grid = figure.add_gridspec(len(heights), 2 if split else 1, height_ratios=heights)
        panels = [figure.add_subplot(grid[0, column]) for column in range(2 if split else 1)]
        panels += [figure.add_subplot(grid[row, :]) for row in range(1, len(heights))]
        yield figure, panels
        # savefig draws all of it twice, once for the layout alone.
        canvas.print_png(file, metadata={"Software": None}, pil_kwargs={"compress_level": _PACKED})  # type: ignore[no-untyped-call]


def _subtitle(analysis: Analysis) -> str:
    """Describe the run in one line: name, job, GPUs, length, score or leading metric, imbalance."""
    run = analysis.run
    pieces = [fit(run.label or run.run_id, _LONGEST_TITLE, "…")]
    if run.shown_job:
        pieces.append(f"job {fit(run.shown_job, _LONGEST_JOB, '…')}")
    pieces.append(gpus_and_nodes_text(analysis))
    pieces.append(duration(analysis.window.duration))
    best = best_measured(compared(analysis))
    if analysis.score is not None or best is None:
        pieces.append(f"score {fixed(analysis.score, 3, UNKNOWN)}")
    elif best in analysis.metrics:
        pieces.append(f"{metric_of(best).label} {quantity(analysis.metrics[best].mean, metric_of(best))}")
    balance = None if best is None else analysis.balance[best]
    if best is not None and balance is not None and balance.imbalance is not None:
        pieces.append(f"imbalance of {metric_of(best).label} {percent(balance.imbalance)}")
    return "   |   ".join(pieces)


def place_of(gpu: GpuSummary, most: int = LONGEST_PLACE) -> str:
    """Where a GPU is, as an axis or a legend names it, in at most so many characters."""
    return short_place(gpu.place, most)


def color_names(panel: Axes, ticks: Collection[int]) -> None:
    """Colour the labels of the vertical axis at these numbers as unlike the rest."""
    for number, label in enumerate(panel.get_yticklabels()):
        if number in ticks:
            label.set_color(ORANGE)


def time_labels(panel: Axes, analysis: Analysis, room: int = 90) -> None:
    """Label the time axis, which is in seconds from the run's start, with at most ``room`` characters."""
    axis = time_axis(analysis)
    marks = time_ticks(axis.begin - axis.origin, axis.end - axis.origin, room)
    panel.set_xticks([tick.at for tick in marks], [tick.label for tick in marks])
    panel.set_xlim(axis.begin - axis.origin, axis.end - axis.origin)
    panel.set_xlabel("time since the start")


def draw_steps(panel: Axes, edges: Floats, values: Floats, bottom: Floats | float | None = None, **style: Any) -> None:
    """Draw values [n] between edges [n + 1] as a line of steps, or, down to ``bottom`` where that is given, as a filled
    shape. The panel's limits have to be set: unlike ``stairs`` of matplotlib it looks for none, which takes longer than to
    draw."""
    from matplotlib.patches import StepPatch

    fill = bottom is not None
    color = {"facecolor" if fill else "edgecolor": style.pop("color")}
    # Its stubs know no baseline of several values, which its documentation does.
    options: dict[str, Any] = {"baseline": bottom, "fill": fill, "linewidth": 0} | color | style
    panel.add_artist(StepPatch(values, edges, **options))


def edges_of(analysis: Analysis, start: float, width: float, n: int) -> Floats:
    """Return the edges [n + 1] of a series' bins, in seconds from the run's start."""
    return start - time_axis(analysis).origin + width * np.arange(n + 1, dtype=np.float64)


def value_axis(panel: Axes, analysis: Analysis, metric: Metric, horizontal: bool = False) -> None:
    """Set the axis of the values (vertical unless ``horizontal``) from 0 to the metric's full scale, in the shown
    unit, and label it."""
    full, unit = full_scale(analysis, metric) * unit_of(metric).factor, unit_of(metric).name
    label = f"{metric.label} ({unit})"
    if horizontal:
        panel.set_xlim(0, full)
        panel.set_xlabel(label)
    else:
        panel.set_ylim(0, full)
        panel.set_ylabel(unit)
