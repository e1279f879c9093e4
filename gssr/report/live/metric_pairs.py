"""Tables of pairs: two values of each metric beside each other, as bars on its full scale, and their difference."""

from typing import NamedTuple

from gssr.metrics import CLOCK_EVENT_REASONS, RATIO, THROTTLES, Metric
from gssr.model.compare.contrast import ContrastLine
from gssr.render.cells import fit, pad
from gssr.render.columns import bar
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, fixed, metric_of, number, scale_text, signed, unit_of
from gssr.report.live.metric_scales import ORDER

_WIDE = 120
"""From so many cells on there are a ratio and a scale."""
_WORDS = 84
"""From so many cells on metrics have their whole name."""
_LEAST_BAR, _MOST_BAR = 4, 44
_DIFFERENCE = 10


class Sizes(NamedTuple):
    """Cells of the table's columns; ``bar`` 0 for none."""

    name: int
    value: int
    bar: int
    wide: bool


def sizes_for(width: int) -> Sizes:
    """Choose the columns' widths for a table ``width`` cells wide; no bars if there is no room for them."""
    wide = width >= _WIDE
    name = 31 if wide else 26 if width >= _WORDS else 14 if width >= 60 else 12
    value = 9 if wide else 8 if width >= 60 else 7
    cells = (width - (2 + name + 2 * (value + 2) + _DIFFERENCE + (22 if wide else 0))) // 2
    return Sizes(name, value, min(cells, _MOST_BAR) if cells >= _LEAST_BAR else 0, wide)


def metric_named(name: str) -> Metric:
    """Return the metric of this name, or for one of THROTTLES a metric made of it: the share of samples in which that
    flag is set."""
    if name not in THROTTLES:
        return metric_of(name)
    meaning = next(meaning for _, own, meaning in CLOCK_EVENT_REASONS if own == name)
    return Metric(name, f"Throttled: {name}", name, RATIO, "gauge", 1.0, meaning, "", "")


def chosen_metrics(lines: list[ContrastLine], room: int) -> list[ContrastLine]:
    """Choose the ``room`` lines that say most, in the order that they have: those that differ much before the most
    telling ones.

    Small differences decide nothing, so that lines stay where they are while a run grows.
    """

    def rank(at: int) -> tuple[bool, float, int]:
        own = lines[at]
        telling = ORDER.index(own.metric) if own.metric in ORDER else len(ORDER)
        return not own.large, -abs(own.points or 0.0) if own.large else 0.0, telling

    return [lines[at] for at in sorted(sorted(range(len(lines)), key=rank)[: max(room, 0)])]


def titles(first: str, second: str, sizes: Sizes) -> Row:
    """Write the line above the table: ``first`` and ``second`` name the values."""
    gap = sizes.bar + 1 if sizes.bar else 0
    text = f"  {'metric':<{sizes.name}}{first:>{sizes.value}} {'':<{gap}}{second:>{sizes.value}} {'':<{gap}}"
    return (
        Span(
            text + f"{'difference':>{_DIFFERENCE}}" + (f"{'ratio':>10}{'full scale':>12}" if sizes.wide else ""), "dim"
        ),
    )


def metric_row(own: ContrastLine, sizes: Sizes, glyphs: Glyphs) -> Row:
    """Draw one metric: both values with bars, its own first, and their difference; ``!`` where it is large."""
    metric = metric_named(own.metric)
    unit = unit_of(metric)
    name = f"{metric.label if sizes.name >= 24 else metric.short} {unit.name}"
    difference = signed(None if own.points is None else own.points * own.full * unit.factor, unit.decimals)
    looks: tuple[tuple[Role, Role], ...] = (("series", "value"), ("band", "plain"))
    label = Span(fit(name, sizes.name, glyphs.ellipsis), "outlier" if own.large else "plain")
    row: Row = (Span(" "), Span("!" if own.large else " ", "outlier"), *pad((label,), sizes.name))
    for value, (look, weight) in zip((own.own, own.job), looks, strict=True):
        row = (*row, Span(f"{number(value, metric):>{sizes.value}} ", weight))
        if sizes.bar:
            row = (*row, *bar(None if value is None else value / own.full, sizes.bar, glyphs, look), Span(" "))
    row = (*row, Span(f"{difference:>{_DIFFERENCE}}", "outlier" if own.large else "plain"))
    if sizes.wide:
        ratio = NONE if own.ratio is None else f"x {fixed(own.ratio, 2)}"
        row = (*row, Span(f"{ratio:>10}{scale_text(metric, own.full):>12}", "dim"))
    return row
