"""GPUs in rows: one to a row with its statistics, or several with a short strip each.

How GPUs is laid out: which GPUs in which rows, one, several or a whole chart to each.

Under the rows: the course of the metric, of each of a few GPUs or of the one under the cursor, and bars of its others.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.cached import once
from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame
from gssr.model.statistics.grid import Folded
from gssr.render.cells import clip, fit, pad
from gssr.render.clock import duration
from gssr.render.fan import fan
from gssr.render.glyphs import Glyphs
from gssr.render.marks import code, marks
from gssr.render.roles import RAMP, RAMP_LOW, Role, Row, Span
from gssr.render.scale import NONE, Unit, fixed, metric_of, number, quantity, unit_of
from gssr.render.table import rule
from gssr.tui.axis import (
    GUTTER,
    age_text,
    at_text,
    framed,
    full_scale,
    in_cells,
    metric_bars,
    rows_needed,
    seconds_text,
    time_labels,
)
from gssr.tui.order import SHARES, Order, ordered, percentiles, values_at
from gssr.tui.view import Scene, Sort

Mode = Literal["rows", "columns"]

STRIP = 12
"""The least cells of a strip where several GPUs share a row."""
LEAST_COLUMN = 26
MOST_COLUMNS = 6
FEW = 4
"""Up to so many GPUs have a chart each."""
_LEAST_BLOCK, _LEAST_BELOW, _MOST_BELOW = 5, 6, 36
"""Rows of a chart beside others, and of all charts together."""
_HEAD, _FOOT = 2, 2
_LEAST_HEIGHT = 12
"""A lower box has no line about the GPU under the cursor and no legend."""


class Listing(NamedTuple):
    """``across`` GPUs share a row; ``room`` rows are for GPUs; the first row shown is number ``top`` of all. ``at``: which
    of the order's GPUs is under the cursor, -1 when there is none."""

    order: Order
    mode: Mode
    across: int
    room: int
    top: int
    at: int

    @property
    def gpu(self) -> int:
        """The position of the GPU under the cursor, -1 when there is none."""
        return int(self.order.gpus[self.at]) if self.at >= 0 else -1

    @property
    def visible(self) -> Ints:
        """Positions of the GPUs in sight, in their order."""
        return self.order.gpus[self.top * self.across : (self.top + self.room) * self.across]


def foot(height: int) -> int:
    """Rows under the list: about the GPU under the cursor, and the legend."""
    return _FOOT if height >= _LEAST_HEIGHT else 0


def most_across(width: int) -> int:
    """How many GPUs can share a row of so many cells."""
    return min(max(width // LEAST_COLUMN, 1), MOST_COLUMNS)


def listing(scene: Scene) -> Listing:
    """The list as it is shown: as few GPUs in a row as let all of them be seen, or as ``density`` says. The GPU under the
    cursor is in sight; the first one where the cursor's is not shown."""
    view, height = scene.view, scene.height
    order = ordered(scene)
    n = len(order.gpus)
    under = np.flatnonzero(order.gpus == view.gpu)
    at = int(under[0]) if len(under) else 0 if n else -1
    most = most_across(scene.width)
    choice = view.density % (most + 1)
    room = max(height - _HEAD - foot(height), 1)
    across = choice or next((k for k in range(1, most) if k * room >= n), most)
    row, n_rows = max(at, 0) // across, -(-n // across)
    top = min(max(view.top, row - room + 1), row, max(n_rows - room, 0))
    return Listing(order, "rows" if across == 1 else "columns", across, room, max(top, 0), at)


LETTERS: dict[str, Role] = {"g": "gap", "!": "outlier", "t": "bad"}
MARKS, VALUE = 2, 6
_STATISTICS: tuple[tuple[Sort, int], ...] = (("now", 0), ("mean", 36), ("p05", 140), ("p95", 140))
"""The columns of numbers of the metric that is shown, and the narrowest box that has them."""
_CLASS, _CLASSED = 10, 58
"""Cells for the class of a GPU, and the narrowest box that has it."""
_METRICS = (
    "gpu_utilization", "power_usage", "memory_used", "temperature", "sm_active", "tensor_active", "dram_active", "sm_clock",
    "sm_occupancy", "memory_copy_utilization",
)  # fmt: skip
"""The columns of other metrics, what matters most first; the help tells their units."""
_METRIC = 7
_LEAST_BESIDE = 14
"""Cells that a strip keeps beside them."""
_WHOLE_NUMBERS_FROM = 10.0


@lru_cache(maxsize=256)
def mark_row(letters: str, width: int) -> Row:
    """The letters of ``Attention`` in exactly ``width`` cells, each in its role."""
    return pad(tuple(Span(letter, LETTERS[letter]) for letter in letters[:width]), width)


def name_width(width: int) -> int:
    """Cells for the name of a GPU."""
    return min(max(width // 6, 8), 24)


def other_metrics(width: int) -> int:
    """How many columns of other metrics there is room for."""
    return min(max((_spare(width) - max(_LEAST_BESIDE, width // 5)) // _METRIC, 0), len(_METRICS))


def strip_width(width: int) -> int:
    """Cells for the strip of a GPU that has a row to itself."""
    return max(_spare(width) - _METRIC * other_metrics(width), 1)


def _spare(width: int) -> int:
    """Cells that name, class and statistics leave."""
    shown = sum(width >= least for _, least in _STATISTICS)
    return max(width - MARKS - name_width(width) - _CLASS * (width >= _CLASSED) - VALUE * shown - 1, 1)


@once
def classes(frame: Frame) -> list[str]:
    """What most of each GPU's time in the window went to, in a word; empty before the window was judged."""
    breakdown = frame.judgement.breakdown if frame.judgement is not None else None
    words = [""] * frame.n_gpus
    gpus = frame.query.gpus or range(frame.n_gpus)
    if breakdown is None or len(breakdown.by_gpu) != len(gpus):
        return words
    for gpu, seconds in zip(gpus, breakdown.by_gpu, strict=True):
        if seconds.any():
            words[gpu] = CATEGORIES[int(seconds.argmax())].short
    return words


def rows_of(scene: Scene, shown: Listing) -> tuple[list[Row], float]:
    """The titles, and a row for each GPU in sight; and how long a cell of their strips is, seconds."""
    frame, view, gpus, width = scene.frame, scene.view, shown.visible, scene.width
    metric, letters = metric_of(frame.grid.metric), attention(frame)
    folded = folded_to(scene, gpus, strip_width(width))
    strips = strips_of(scene, folded, gpus)
    kept = [sort for sort, least in _STATISTICS if width >= least]
    if _sorted_by(scene) not in kept:
        kept[-1] = _sorted_by(scene)
    numbers = [_statistic(scene, sort, gpus) for sort in kept]
    size = name_width(width)
    others = _others(frame, width) if frame.part is None else []
    classed = width >= _CLASSED and frame.part is None
    words = classes(frame) if classed else []
    head: list[Span] = [Span(" " * MARKS), _title(frame.noun, "place", scene, -size)]
    head += [Span(f"{' class' if classed else '':<{_CLASS}}", "dim")] if width >= _CLASSED else []
    head += [_title(_titled(sort, scene), sort, scene, VALUE) for sort in kept]
    head += [Span(f"{title:>{_METRIC}}", "dim") for title, _, _ in others]
    head += [Span(" "), Span(time_labels(frame, folded, folded.n), "dim")]
    rows: list[Row] = [tuple(head)]
    for y, gpu in enumerate(gpus.tolist()):
        flags = letters.letters(gpu)
        line: Row = (
            *mark_row(flags, MARKS),
            *_name(frame.place(gpu), flags, size, gpu == shown.gpu, scene.glyphs.ellipsis),
        )
        if width >= _CLASSED:
            line = (*line, Span(f" {words[gpu] if words else ''}"[:_CLASS].ljust(_CLASS)))
        for sort, values in zip(kept, numbers, strict=True):
            if sort == "now" and view.cursor is None and letters.age[gpu] > 0:
                line = (*line, Span(f"{age_text(float(letters.age[gpu])):>{VALUE}}", "gap"))
            else:
                line = (*line, Span(f"{number(float(values[y]), metric):>{VALUE}}", "value"))
        line = (*line, *(Span(f"{_short(float(column[gpu]), unit):>{_METRIC}}") for _, column, unit in others))
        rows.append((*line, Span(" "), *strips[y]))
    return rows, folded.width * folded.times


def _others(frame: Frame, width: int) -> list[tuple[str, Floats, Unit]]:
    """The columns of other metrics that were measured: title, values [n_gpus] of now or of the window, and unit."""
    n = other_metrics(width)
    found: list[tuple[str, Floats, Unit]] = []
    for name in _METRICS:
        if name != frame.grid.metric and len(found) < n:
            values = frame.lately(name)
            if np.isfinite(values).any():
                found.append((metric_of(name).short, values, unit_of(metric_of(name))))
    return found


def _sorted_by(scene: Scene) -> Sort:
    """The statistic that the list is sorted by; the mean where it is sorted by something else."""
    return scene.view.sort if scene.view.sort in dict(_STATISTICS) else "mean"


def _statistic(scene: Scene, sort: Sort, gpus: Ints) -> Floats:
    """[n]: a statistic of the metric that is shown, of the GPUs at these positions; NaN is unknown."""
    frame = scene.frame
    if sort == "now":
        return values_at(frame, scene.view.cursor)[gpus]
    if sort == "mean":
        return frame.window.per_gpu(frame.grid.metric, gpus)
    return percentiles(frame.grid.values[gpus], SHARES[sort])


def _titled(sort: Sort, scene: Scene) -> str:
    return newest_title(scene) if sort == "now" else sort


def newest_title(scene: Scene) -> str:
    """What a GPU's value is of: now, the window's last, or at the time cursor."""
    if scene.view.cursor is not None:
        return "at"
    return "now" if scene.frame.following and scene.frame.state in ("live", "stalled") else "last"


def _title(text: str, sort: Sort, scene: Scene, width: int) -> Span:
    """A column's title; that of the column sorted by stands out. To the left for a negative width."""
    aligned = f"{text:<{-width}}" if width < 0 else f"{text:>{width}}"
    return Span(aligned, "value" if sort == scene.view.sort else "dim")


@lru_cache(maxsize=4096)
def _name(place: str, flags: str, width: int, under: bool, ellipsis: str) -> Row:
    role: Role = "cursor" if under else "outlier" if "!" in flags else "plain"
    return pad((Span(fit(place, width, ellipsis, "end"), role),), width)


def folded_to(scene: Scene, gpus: Ints, cells: int) -> Folded:
    """The window of these GPUs, as fractions of the full scale, in at most so many cells."""
    frame = scene.frame
    return in_cells(frame, frame.grid.values[gpus] / full_scale(frame, frame.grid.metric), cells)


def apart_rows(glyphs: Glyphs) -> Glyphs:
    """Marks of which the highest leaves a gap to the row above it: full strips one below the other are no wall."""
    return glyphs._replace(levels=glyphs.levels[:-1])


def strips_of(scene: Scene, folded: Folded, gpus: Ints) -> list[Row]:
    """A strip for each line of ``folded.values``, those of ``gpus``: outliers stand out. The time cursor's cell is marked;
    underlined where columns that went together hide one below half of their mean."""
    drawn = marks(folded.values, apart_rows(scene.glyphs), folded.low if folded.factor > 1 else None)
    apart = attention(scene.frame).outlier[gpus][:, None]
    drawn.codes[(drawn.codes < len(RAMP)) & ~apart] = code("ramp2")  # rows of blocks are calmer in one colour
    drawn.codes[(drawn.codes >= len(RAMP)) & (drawn.codes < len(RAMP + RAMP_LOW))] = code("low2")
    drawn.codes[(drawn.codes < len(RAMP)) & apart] = code("outlier")
    at = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    if at is not None:
        drawn.codes[:, at] = code("cursor")
    return drawn.rows()


# Several in a row


def columns_of(scene: Scene, shown: Listing) -> tuple[list[Row], float]:
    """The titles, and ``shown.across`` GPUs in each row: name, mean or what they are sorted by, and a short strip; and how
    long a cell of the strips is, seconds."""
    frame, gpus = scene.frame, shown.visible
    size = scene.width // shown.across
    letters = attention(frame)
    n_marks = MARKS if size > LEAST_COLUMN + 4 else 1
    places = [frame.place(gpu) for gpu in gpus.tolist()]
    longest = max((len(place) for place in places), default=3)
    room = size - n_marks - 5 - 1 - STRIP - 1
    names = min(longest, max(room, 3))
    shorter = _shorter(places, names, scene)
    cells = size - n_marks - names - 5 - 2
    folded = folded_to(scene, gpus, cells)
    strips = strips_of(scene, folded, gpus)
    sort = _sorted_by(scene)
    values = _statistic(scene, sort, gpus)
    unit = unit_of(metric_of(frame.grid.metric))
    head: Row = (
        *pad((Span(" " * n_marks), Span(frame.noun, "dim")), n_marks + names),
        _title(_titled(sort, scene), sort, scene, 5),
        Span(" "),
        Span(time_labels(frame, folded, folded.n), "dim"),
    )
    rows: list[Row] = [tuple(span for _ in range(min(shown.across, max(len(places), 1))) for span in pad(head, size))]
    for begin in range(0, len(places), shown.across):
        line: Row = ()
        for y in range(begin, min(begin + shown.across, len(places))):
            gpu = int(gpus[y])
            flags = letters.letters(gpu)
            cell = (
                *mark_row(flags, n_marks),
                *_name(shorter[y], flags, names, gpu == shown.gpu, scene.glyphs.ellipsis),
                Span(f"{_short(float(values[y]), unit):>5} ", "value"),
                *strips[y],
            )
            line = (*line, *pad(cell, size))
        rows.append(line)
    return rows, folded.width * folded.times


def _shorter(places: list[str], width: int, scene: Scene) -> list[str]:
    """The names without what all of them begin with, where they are too long."""
    if all(len(place) <= width for place in places):
        return places
    first, last = min(places), max(places)
    begin = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    spare = max(width - max(len(place) - begin for place in places) - len(scene.glyphs.ellipsis), 0)
    begin = max(begin - spare, 0)
    return [scene.glyphs.ellipsis + place[begin:] for place in places]


def _short(value: float, unit: Unit) -> str:
    """A value in at most five cells."""
    if not np.isfinite(value):
        return NONE
    shown = value * unit.factor
    return fixed(shown, 0 if shown >= _WHOLE_NUMBERS_FROM or unit.decimals == 0 else 1)[:5]


def gap_texts(frame: Frame, gpu: int) -> list[str]:
    """What ``g`` means for a GPU: how old its last sample is, and what the window lacks."""
    found, texts = attention(frame), []
    age, missing = float(found.age[gpu]), float(found.missing[gpu])
    if np.isinf(age):
        texts.append("no sample in this window")
    else:
        if age > 0:
            texts.append(f"last sample {duration(age) if age >= 60 else f'{age:.0f} s'} old")
        if missing > 0:
            texts.append(f"at least {seconds_text(missing)} without samples")
    return texts


def mean_of(frame: Frame, gpu: int) -> float:
    """A GPU's mean of the window of the metric shown; NaN without samples."""
    return float(frame.window.per_gpu(frame.grid.metric)[gpu])


_LEAST_CHART = 3


def blocks(shown: Listing, spare: int) -> list[tuple[int, int]]:
    """The charts in so many rows under the list, from the top down: which of the order's GPUs, and its rows."""
    n, room = len(shown.order.gpus), min(spare, _MOST_BELOW) - 1
    if shown.at < 0 or shown.order.problem or spare < _LEAST_BELOW:
        return []
    if n > FEW or room < n * _LEAST_BLOCK:
        return [(shown.at, room)]
    return [(at, room * (at + 1) // n - room * at // n) for at in range(n)]


def charts_of(scene: Scene, shown: Listing, spare: int) -> list[Row]:
    """The charts under the list: of each its title, bars of its means of the window, its course; times under the last."""
    rows: list[Row] = []
    charts = blocks(shown, spare)
    for at, height in charts:
        rows += _block(scene, int(shown.order.gpus[at]), height, len(charts) > 1 and at == shown.at)
    return [clip(row, scene.width) for row in (*rows, _times(scene))] if charts else []


def _times(scene: Scene) -> Row:
    frame = scene.frame
    folded = in_cells(frame, frame.grid.values[0], max(scene.width - GUTTER, 1))
    return (Span(" " * GUTTER), Span(time_labels(frame, folded, folded.n), "dim"))


def _block(scene: Scene, gpu: int, height: int, under: bool) -> list[Row]:
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    name = frame.grid.metric
    full = full_scale(frame, name)
    folded = in_cells(frame, frame.grid.values[gpu] / full, max(scene.width - GUTTER, 1))
    at = None if view.cursor is None else folded.column(view.cursor)
    spare = height - 1 - _LEAST_CHART
    n_bars = min(max(spare * 2 // 3, min(spare, 1)), rows_needed(frame, scene.width))
    nothing = np.full(folded.n, np.nan)
    chart = fan(folded.values, nothing, nothing, max(height - 1 - n_bars, 1), glyphs, cursor=at)
    means = frame.window.overall(np.array([gpu]))
    rows = [_chart_title(scene, gpu, folded.width * folded.times, under)]
    rows += metric_bars(frame, means, scene.width, n_bars, glyphs, name) if n_bars else []
    return (rows + framed(chart, full, name, glyphs))[:height]


def _chart_title(scene: Scene, gpu: int, width: float, under: bool) -> Row:
    frame, view, glyphs = scene.frame, scene.view, scene.glyphs
    metric = metric_of(frame.grid.metric)
    letters = attention(frame).letters(gpu)
    now = float(values_at(frame, view.cursor)[gpu])
    step = seconds_text(width)
    when = newest_title(scene)
    if view.cursor is not None:
        begin = frame.grid.start + frame.grid.column(view.cursor) * frame.grid.width
        when = f"at {at_text(frame, begin)} +{seconds_text(frame.grid.width)}"
    about = [Span(letter, LETTERS[letter]) for letter in letters]
    about += [Span(text, "gap") for text in gap_texts(frame, gpu)]
    about += [
        Span(f"{metric.label}: mean {quantity(mean_of(frame, gpu), metric)}"),
        Span(f"{when} {quantity(now, metric)}"),
    ]
    product = frame.gpus[gpu].name
    if product:
        about.append(Span(fit(product, 24, glyphs.ellipsis), "dim"))
    role: Role = "cursor" if under else "heading"
    right = (Span(f"1 column = {step}", "dim"),)
    return rule(frame.place(gpu), scene.width, glyphs, tuple(about), right, role)
