"""The axes that all screens share: the full scale of a metric, and time.

What is looked at, in words: which GPUs, and which stretch of time.

Metrics as bars on fixed axes, the most telling first.
"""

import math
from collections.abc import Mapping

import numpy as np

from gssr.model.live.frame import Frame
from gssr.model.results import Grid
from gssr.model.statistics.balance import scale_limit
from gssr.model.statistics.grid import Folded
from gssr.render import clock
from gssr.render.cells import clean, pad
from gssr.render.clock import duration, exact
from gssr.render.columns import bar
from gssr.render.glyphs import TO_ASCII, Glyphs
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, UNKNOWN, count, fixed, metric_of, nice_above, quantity, unit_of
from gssr.tui.view import Scene

GUTTER = 5
"""Cells left of a chart: a label of four, and the axis."""


def full_scale(frame: Frame, name: str) -> float:
    """The value that fills a metric's axis, in its stored unit: the catalogue's or the GPUs' own limit; where neither is
    known a round number above all means."""
    limit = scale_limit(frame.gpus, name)
    if limit:
        return limit
    return nice_above(float(np.nanmax(frame.whole.per_gpu(name), initial=0.0)), metric_of(name))


def y_label(fraction: float, full: float, name: str) -> str:
    """The value at this fraction of the full scale, without its unit: at most four cells."""
    return fixed(fraction * full * unit_of(metric_of(name)).factor, 0)[:4]


def framed(rows: list[Row], full: float, name: str, glyphs: Glyphs) -> list[Row]:
    """A chart's rows with the axis on their left: full scale at the top, half of it in the middle, zero at the bottom."""
    height = len(rows)
    labels = {0: 1.0, height - 1: 0.0} if height > 1 else {0: 1.0}
    if height >= 5 and height % 2:
        labels[height // 2] = 0.5
    bar = _ascii("│", glyphs)
    return [
        (Span(f"{y_label(labels[y], full, name) if y in labels else '':>{GUTTER - 1}}{bar}", "dim"), *row)
        for y, row in enumerate(rows)
    ]


_SMALL, _SMALLER = 0.0099, 0.00099


def seconds_text(seconds: float) -> str:
    """A round length of time as short as it goes: ``0.2 s``, ``10 s``, ``5 min``, ``2 h``, ``1 d``."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size and math.isclose(seconds / size, round(seconds / size)):
            return f"{round(seconds / size)} {name}"
    if seconds < _SMALL:
        return f"{seconds * 1e3:g} ms" if seconds >= _SMALLER else f"{seconds * 1e6:g} µs"
    return f"{seconds:g} s" if seconds < 600 else clock.duration(seconds)


def age_text(seconds: float) -> str:
    """How old something is in at most four cells: ``11s``, ``12m``, ``3h``, ``2d``; ``-`` when there was never anything."""
    if not math.isfinite(seconds):
        return "-"
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= (2 if size == 60 else 1) * size:
            return f"{int(seconds // size)}{name}"
    return f"{int(seconds)}s"


def relative(frame: Frame) -> bool:
    """True where time is counted back from now: the view follows a living run, and does not show all of it."""
    return frame.following and frame.query.span is not None and frame.state in ("live", "stalled")


def time_labels(frame: Frame, columns: Grid | Folded, cells: int) -> str:
    """The labels under ``cells`` cells of columns, each where its time begins: counted from the run's first sample, or back
    from now."""
    span = cells * columns.width
    if relative(frame):
        text = clock.axis_text(columns.n * columns.width * -1.0, span - columns.n * columns.width, cells)
        return _ending(text, columns.n, "now")
    start = columns.start - frame.first
    return clock.axis_text(start, start + span, cells)


def _ending(text: str, end: int, word: str) -> str:
    """``word`` at the right edge, in place of what is there."""
    kept = text[: max(end - len(word) - 1, 0)]
    if len(kept) < len(text.rstrip()) and kept and kept[-1] != " ":
        kept = kept[: kept.rfind(" ") + 1]
    return (kept.ljust(max(end - len(word), 0)) + word[:end]).ljust(len(text))


def at_text(frame: Frame, time: float) -> str:
    """A time (unix s) as the axis counts it."""
    if frame.part is not None:
        return clock.moment(time - frame.first, 0.0, min(frame.grid.width, 0.01))
    return clock.moment(time - frame.first, max(frame.last - frame.first, 3600.0))


def _ascii(text: str, glyphs: Glyphs) -> str:
    return text.translate(TO_ASCII) if glyphs.levels.isascii() else text


def gpus_text(scene: Scene) -> str:
    """``16 GPUs``, or of a selection ``nid000003 (4 GPUs)``; a single GPU by its name alone."""
    looked_at = scene.looked_at()
    if not scene.view.selection:
        return count(len(looked_at), scene.frame.noun)
    if len(looked_at) == 1:
        return clean(scene.frame.place(int(looked_at[0])))
    name = clean(scene.view.selected)
    return f"{name} ({count(len(looked_at), scene.frame.noun)})" if name else count(len(looked_at), scene.frame.noun)


def is_whole(frame: Frame) -> bool:
    """True where the window holds the whole run."""
    return frame.window.start <= frame.first and frame.window.end >= frame.last


def lasting(frame: Frame, seconds: float) -> str:
    """A length of time, of a trace in three digits."""
    return duration(seconds) if frame.part is None else exact(seconds)


def window_text(frame: Frame) -> str:
    """``whole run, 10 min 0 s``, or the times between which the window lies."""
    if is_whole(frame):
        return f"whole run, {lasting(frame, frame.last - frame.first)}"
    start, end = max(frame.window.start, frame.first), min(frame.window.end, frame.last)
    return f"{at_text(frame, start)} to {at_text(frame, end)}"


ORDER: tuple[str, ...] = (
    "sm_active", "sm_occupancy", "tensor_active", "flop_active", "dram_active", "power_usage", "memory_used",
    "pcie_rx_bytes", "nvlink_rx_bytes", "pcie_tx_bytes", "nvlink_tx_bytes", "gr_engine_active", "gpu_utilization",
    "fp32_active", "fp16_active", "fp64_active", "sm_clock", "temperature", "memory_copy_utilization", "c2c_rx_bytes",
    "c2c_tx_bytes", "tensor_hmma_active", "integer_active", "memory_temperature", "tensor_imma_active",
    "tensor_dfma_active",
)  # fmt: skip
_ALWAYS = 5
"""The first so many are shown even where they were not measured."""
_LABEL, _VALUE = 7, 10
LEAST_CELL = 26
"""Cells that a label, a value and a bar worth looking at take."""
_MOST_CELL = 44


def shown_metrics(frame: Frame) -> list[str]:
    """The metrics that have a bar: those that were measured, and the most telling in any case."""
    if frame.part is not None:
        return [name for name in frame.whole.names if ":" not in name]
    counts = frame.whole.n.sum(axis=1).tolist()
    measured = {name for name, n in zip(frame.whole.names, counts, strict=True) if n}
    return [name for index, name in enumerate(ORDER) if index < _ALWAYS or name in measured]


def rows_needed(frame: Frame, width: int) -> int:
    """Rows that all bars take in so many cells."""
    return -(-len(shown_metrics(frame)) // per_row(width))


def per_row(width: int) -> int:
    """How many bars fit beside each other."""
    return max(width // LEAST_CELL, 1) if width < 3 * _MOST_CELL else width // (_MOST_CELL * 3 // 4)


def metric_bars(
    frame: Frame, means: Mapping[str, float | None], width: int, n_rows: int, glyphs: Glyphs, chosen: str = ""
) -> list[Row]:
    """``n_rows`` rows of as many bars as fit into ``width`` cells, from the top down; the ``chosen`` metric's name stands
    out. A metric without a mean has a blank bar."""
    names = shown_metrics(frame)
    n_columns = per_row(width)
    size = width // n_columns
    rows: list[Row] = []
    for y in range(n_rows):
        row: Row = ()
        for x in range(n_columns):
            index = x * n_rows + y
            if index < len(names):
                cell = _bar(frame, names[index], means.get(names[index]), size, glyphs, chosen)
                row = (*row, *pad(cell, size))
        rows.append(row)
    return rows


def _bar(frame: Frame, name: str, mean: float | None, size: int, glyphs: Glyphs, chosen: str) -> Row:
    metric = metric_of(name)
    value = quantity(mean, metric)
    room = size - 1 - _LABEL - 1 - _VALUE - 2
    return (
        Span(" "),
        Span(f"{metric.short[:_LABEL]:<{_LABEL}}", "value" if name == chosen else "plain"),
        Span(f" {NONE if value == UNKNOWN else value:>{_VALUE}}", "value"),
        Span(" "),
        *bar(None if mean is None else mean / full_scale(frame, name), room, glyphs),
    )
