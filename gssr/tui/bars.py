"""Metrics as bars on fixed axes, the most telling first."""

from collections.abc import Mapping

from gssr.model.live.frame import Frame
from gssr.render.cells import pad
from gssr.render.columns import bar
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, UNKNOWN, metric_of, quantity
from gssr.tui.axis import full_scale

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
