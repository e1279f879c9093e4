"""The axes that all screens share: the full scale of a metric, and time.

What is looked at, in words: which GPUs, and which stretch of time.

Metrics as bars on fixed axes, the most telling first.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import OF_NODES, OF_OWN, best_measured
from gssr.model.cached import once
from gssr.model.live.frame import Frame
from gssr.model.results import Grid
from gssr.model.statistics.balance import scale_limit
from gssr.model.statistics.grid import Folded, fold
from gssr.render import clock
from gssr.render.cells import clean, clip, pad
from gssr.render.clock import duration, exact
from gssr.render.columns import bar
from gssr.render.glyphs import TO_ASCII, Glyphs
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, UNKNOWN, count, fixed, metric_of, nice_above, quantity, unit_of
from gssr.store.format.rows import Event
from gssr.tui.view import Scene

GUTTER = 5
"""Cells left of a chart: a label of four, and the axis."""


def full_scale(frame: Frame, name: str) -> float:
    """The value that fills a metric's axis, in its stored unit: the catalogue's or the GPUs' own limit; of nodes'
    rates a round number above the greatest of the run; where nothing is known one above all means."""
    limit = scale_limit(frame.gpus, name)
    if limit:
        return limit
    return nice_above(
        frame.greatest.get(name) or float(np.nanmax(frame.whole.per_gpu(name), initial=0.0)), metric_of(name)
    )


def y_label(fraction: float, full: float, name: str) -> str:
    """The value at this fraction of the full scale, without its unit: at most four cells."""
    return fixed(fraction * full * unit_of(metric_of(name)).factor, 0)[:4]


def framed(
    rows: list[Row], full: float, name: str, glyphs: Glyphs, gutter: int = GUTTER, beside: Sequence[Row] = ()
) -> list[Row]:
    """A chart's rows with the axis in the ``gutter`` on their left: full scale at the top, half of it in the middle, zero at
    the bottom. ``beside``: what stands left of these numbers from the second row on, where there is room."""
    height = len(rows)
    labels = {0: 1.0, height - 1: 0.0} if height > 1 else {0: 1.0}
    if height >= 5 and height % 2:
        labels[height // 2] = 0.5
    bar = _ascii("│", glyphs)
    lines: list[Row] = [(), *beside, *[()] * height]
    return [
        (
            *pad(clip(lines[y], gutter - GUTTER), gutter - GUTTER),
            Span(f"{y_label(labels[y], full, name) if y in labels else '':>{GUTTER - 1}}{bar}", "dim"),
            *row,
        )
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


def time_labels(frame: Frame, columns: Grid | Folded, cells: int) -> str:
    """The labels under ``cells`` cells of columns, each where its time begins, counted from the run's first sample; those of
    a run that is over end where it does."""
    start = columns.start - frame.first
    shown = cells if is_growing(frame) else columns_until(frame.last - columns.start, columns.width, cells)
    return clock.axis_text(start, start + shown * columns.width, shown).ljust(cells)


def in_cells(frame: Frame, values: Floats, cells: int) -> Folded:
    """``values`` [..., columns of the frame's grid] in at most so many cells: of a run that is over, and of one that has
    just begun, as wide as there is room for."""
    growing = is_growing(frame)
    last = None if frame.part is not None or (growing and frame.query.span is not None) else frame.last
    return fold(frame.grid, values, cells, last, growing)


def is_growing(frame: Frame) -> bool:
    """Whether the recording may still grow, so that its axis goes on."""
    return frame.part is None and frame.state not in ("ended", "lost")


def columns_until(seconds: float, width: float, most: int) -> int:
    """How many of ``most`` columns it takes until then, at least one."""
    return min(max(math.ceil(seconds / width - 1e-9), 1), most)


def at_text(frame: Frame, time: float) -> str:
    """A time (unix s) as the axis counts it. Of the column in which a run begins it is that of its first sample."""
    time = max(time - (frame.first if frame.since is None else frame.since), 0.0)
    if frame.part is not None:
        return clock.moment(time, 0.0, min(frame.grid.width, 0.01))
    return clock.moment(time, max(frame.last - frame.first, 3600.0))


def event_text(frame: Frame, time: float) -> str:
    """The time (unix s) of an event: ``before`` for what was before the first sample."""
    return clock.BEFORE if round(time - frame.first) < 0 else at_text(frame, time)


@once
def _places(frame: Frame) -> dict[int, str]:
    gpus = frame.of_gpus or frame
    return {} if gpus.by_node else {gpu.gpu: gpus.place(position) for position, gpu in enumerate(gpus.gpus)}


def told(frame: Frame, event: Event) -> str:
    """An event in words: where, of a GPU which one, and what."""
    where = event.node if event.gpu is None else _places(frame).get(event.gpu, event.node)
    return clean(f"{where}: {clock.told(event)}" if where else clock.told(event))


def _ascii(text: str, glyphs: Glyphs) -> str:
    return text.translate(TO_ASCII) if glyphs.levels.isascii() else text


def gpus_text(scene: Scene) -> str:
    """``16 GPUs``, or of a selection ``nid000003 (4 GPUs)``; a single GPU by its name alone. Of a trace with the filter."""
    only = f" / {clean(scene.view.filter)}" if scene.view.filter and scene.frame.part is not None else ""
    return _gpus_text(scene) + only


def _gpus_text(scene: Scene) -> str:
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
    """``whole run, 10 min 0 s``, ``last 5 min`` of a run that lives, or the times between which the window lies."""
    if frame.is_live and frame.query.span is not None:
        return f"last {seconds_text(frame.query.span)}"
    if is_whole(frame) and frame.since is not None:
        return f"all traced, {lasting(frame, frame.last - frame.first)}"
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
_BESIDE = ("power_usage", "memory_used", "memory_copy_utilization")
"""What comes next where another metric stands for SM activity."""
_LABEL, _VALUE = 7, 10
LEAST_CELL = 26
"""Cells that a label, a value and a bar worth looking at take."""
_MOST_CELL = 44


def shown_metrics(frame: Frame) -> list[str]:
    """The metrics that have a bar: those that were measured, the most telling first."""
    if frame.part is not None:
        return [name for name in frame.whole.names if ":" not in name or name.startswith(OF_OWN)]
    measured = frame.whole.measured()
    first = best_measured(measured)
    order = ORDER if first in (None, ORDER[0]) else dict.fromkeys((first, *_BESIDE, *ORDER))
    return [name for name in dict.fromkeys((*order, *OF_NODES)) if name in measured]


def rows_needed(frame: Frame, width: int, two: bool = False) -> int:
    """Rows that all bars take in so many cells."""
    return -(-len(shown_metrics(frame)) // per_row(width, two))


def per_row(width: int, two: bool = False) -> int:
    """How many bars fit beside each other; with ``two`` values each."""
    if two:
        return max(width // (LEAST_CELL + 1 + _VALUE), 1)
    return max(width // LEAST_CELL, 1) if width < 3 * _MOST_CELL else width // (_MOST_CELL * 3 // 4)


def metric_bars(
    frame: Frame, means: Mapping[str, float | None], width: int, n_rows: int, glyphs: Glyphs, chosen: str = "",
    now: Mapping[str, float | None] | None = None, beside: Sequence[str] = (),
) -> list[Row]:  # fmt: skip
    """``n_rows`` rows of as many bars as fit into ``width`` cells, from the top down; the ``chosen`` metric's name stands
    out. A metric without a mean has a blank bar. ``now``: values that stand before the means, and are what the bars show.
    Of the metrics ``beside`` the first have a third of the room at least."""
    names, n_columns = shown_metrics(frame), per_row(width, now is not None)
    spare = n_rows * n_columns - len(names)
    kept = list(beside[: max(spare, n_rows * n_columns // 3)])
    names = [*names[: n_rows * n_columns - len(kept)], *kept]
    size = width // n_columns
    rows: list[Row] = []
    for y in range(n_rows):
        row: Row = ()
        for x in range(n_columns):
            index = x * n_rows + y
            if index < len(names):
                name = names[index]
                pair = (means.get(name),) if now is None else (now.get(name), means.get(name))
                row = (*row, *pad(_bar(frame, name, pair, size, glyphs, chosen), size))
        rows.append(row)
    return rows


def _bar(
    frame: Frame, name: str, values: tuple[float | None, ...], size: int, glyphs: Glyphs, chosen: str
) -> Row:  # fmt: skip
    """A metric's name, its values, of which the first counts, and a bar."""
    metric = metric_of(name)
    room = size - 1 - _LABEL - (1 + _VALUE) * len(values) - 2
    row: Row = (Span(" "), Span(f"{metric.short[:_LABEL]:<{_LABEL}}", "value" if name == chosen else "plain"))
    for at, value in enumerate(values):
        text = quantity(value, metric)
        row = (*row, Span(f" {(NONE if text == UNKNOWN else text):>{_VALUE}}", "dim" if at else "value"))
    fraction = None if values[0] is None else values[0] / full_scale(frame, name)
    return (*row, Span(" "), *bar(fraction, room, glyphs))
