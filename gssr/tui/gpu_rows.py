"""GPUs in rows: one to a row with its statistics, or several with a short strip each."""

from functools import lru_cache

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.live.attention import attention
from gssr.model.live.frame import Frame
from gssr.model.statistics.grid import Folded, fold
from gssr.render.cells import fit, pad
from gssr.render.clock import duration
from gssr.render.marks import code, marks
from gssr.render.roles import RAMP, Role, Row, Span
from gssr.render.scale import NONE, Unit, fixed, metric_of, number, unit_of
from gssr.tui.axis import age_text, full_scale, seconds_text, time_labels
from gssr.tui.listing import LEAST_COLUMN, STRIP, Listing
from gssr.tui.order import percentiles, values_at
from gssr.tui.view import Scene, Sort

LETTERS: dict[str, Role] = {"g": "gap", "!": "outlier", "t": "bad"}
MARKS, VALUE = 2, 6
_STATISTICS: tuple[tuple[Sort, int], ...] = (("now", 0), ("mean", 36), ("p05", 58), ("p95", 58))
"""The columns of numbers, and the narrowest box that has them."""
_WHOLE_NUMBERS_FROM = 10.0


@lru_cache(maxsize=256)
def mark_row(letters: str, width: int) -> Row:
    """The letters of ``Attention`` in exactly ``width`` cells, each in its role."""
    return pad(tuple(Span(letter, LETTERS[letter]) for letter in letters[:width]), width)


def name_width(width: int) -> int:
    """Cells for the name of a GPU."""
    return min(max(width // 6, 8), 24)


def strip_width(width: int) -> int:
    """Cells for the strip of a GPU that has a row to itself."""
    shown = sum(width >= least for _, least in _STATISTICS)
    return max(width - MARKS - name_width(width) - VALUE * shown - 1, 1)


def rows_of(scene: Scene, shown: Listing) -> tuple[list[Row], float]:
    """The titles, and a row for each GPU in sight; and how long a cell of their strips is, seconds."""
    frame, view, gpus, width = scene.frame, scene.view, shown.visible, scene.width
    name = frame.grid.metric
    metric, letters = metric_of(name), attention(frame)
    folded = folded_to(scene, gpus, strip_width(width))
    strips = strips_of(scene, folded)
    values = frame.grid.values[gpus]
    numbers: dict[Sort, Floats] = {
        "now": values_at(frame, view.cursor)[gpus],
        "mean": frame.window.per_gpu(name)[gpus],
        "p05": percentiles(values, 0.05),
        "p95": percentiles(values, 0.95),
    }
    kept = [sort for sort, least in _STATISTICS if width >= least]
    size = name_width(width)
    head: list[Span] = [Span(" " * MARKS), _title("GPU", "place", scene, -size)]
    head += [_title(newest_title(scene) if sort == "now" else sort, sort, scene, VALUE) for sort in kept]
    head += [Span(" "), Span(time_labels(frame, folded, folded.n), "dim")]
    rows: list[Row] = [tuple(head)]
    for y, gpu in enumerate(gpus.tolist()):
        flags = letters.letters(gpu)
        line: Row = (
            *mark_row(flags, MARKS),
            *_name(frame.place(gpu), flags, size, gpu == shown.gpu, scene.glyphs.ellipsis),
        )
        for sort in kept:
            if sort == "now" and view.cursor is None and letters.age[gpu] > 0:
                line = (*line, Span(f"{age_text(float(letters.age[gpu])):>{VALUE}}", "gap"))
            else:
                line = (*line, Span(f"{number(float(numbers[sort][y]), metric):>{VALUE}}", "value"))
        rows.append((*line, Span(" "), *strips[y]))
    return rows, folded.width


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
    last = frame.last if frame.state in ("ended", "lost") else None
    return fold(frame.grid, frame.grid.values[gpus] / full_scale(frame, frame.grid.metric), cells, last)


def strips_of(scene: Scene, folded: Folded) -> list[Row]:
    """A strip for each line of ``folded.values``, the time cursor's cell marked; underlined where columns that went together
    hide one below half of their mean."""
    drawn = marks(folded.values, scene.glyphs, folded.low if folded.factor > 1 else None)
    drawn.codes[drawn.codes < len(RAMP)] = code("series")  # rows of blocks are calmer in one colour
    at = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    if at is not None:
        drawn.codes[:, at] = code("cursor")
    return drawn.rows()


# Several in a row


def columns_of(scene: Scene, shown: Listing) -> tuple[list[Row], float]:
    """The titles, and ``shown.across`` GPUs in each row: name, mean and a short strip; and how long a cell of the strips is,
    seconds."""
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
    strips = strips_of(scene, folded)
    means = frame.window.per_gpu(frame.grid.metric)[gpus]
    unit = unit_of(metric_of(frame.grid.metric))
    sorting = scene.view.sort == "mean"
    head: Row = (
        *pad((Span(" " * n_marks), Span("GPU", "dim")), n_marks + names),
        Span(" mean", "value" if sorting else "dim"),
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
                Span(f"{_short(float(means[y]), unit):>5} ", "value"),
                *strips[y],
            )
            line = (*line, *pad(cell, size))
        rows.append(line)
    return rows, folded.width


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
    """A value in at most four cells."""
    if not np.isfinite(value):
        return NONE
    shown = value * unit.factor
    return fixed(shown, 0 if shown >= _WHOLE_NUMBERS_FROM or unit.decimals == 0 else 1)[:4]


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
