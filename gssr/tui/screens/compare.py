"""Compare: two runs beside each other, number by number, and aligned in time."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.metrics import OF_TRACES
from gssr.model.cached import once
from gssr.model.compare.alignment import difference, energies, origin, seconds, shares_columns
from gssr.model.compare.contrast import LARGE_POINTS, LARGE_RATIO, METRICS, Line, line
from gssr.model.live.frame import Frame
from gssr.model.statistics.balance import imbalance
from gssr.model.traces.results import TraceAnalysis
from gssr.model.traces.tables import TABLES
from gssr.render.cells import clean, clip, fit, flow
from gssr.render.clock import axis_text, duration, exact, moment
from gssr.render.columns import SAME, area, difference_strip
from gssr.render.glyphs import drawable
from gssr.render.roles import Row, Span
from gssr.render.scale import count, fixed, metric_of, percent, quantity, signed
from gssr.render.scale import energy as energy_text
from gssr.render.table import rule
from gssr.score import CAVEAT
from gssr.tui.axis import GUTTER, framed, full_scale, seconds_text
from gssr.tui.screens.lanes import short
from gssr.tui.screens.pairs import Sizes, chosen_metrics, metric_row, sizes_for, text_row, titles
from gssr.tui.view import Scene, View, with_cursor

_SMALL, _TALL = 14, 30
"""Rows below which only the essentials fit, and from which strips become charts."""
_NARROW = 60
"""In fewer cells lengths of time are written as on a clock."""
_VALUE = 12


class _Fact(NamedTuple):
    """A number of each run that is no metric: as text, and the numbers behind it (None: unknown). ``points``: the difference
    is one of ratios, shown in points."""

    name: str
    first: str
    second: str
    numbers: tuple[float | None, float | None]
    points: bool = False


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    rows = _alone(scene) if scene.other is None or not scene.other.n_rows else _both(scene, scene.frame, scene.other)
    return [drawable(clip(row, scene.width), scene.glyphs) for row in rows[: scene.height]]


def _alone(scene: Scene) -> list[Row]:
    other = scene.other
    if other is not None and other.problem:
        words = [other.problem]
    elif scene.n_recordings > 1:
        words = ["reading the other recording" + scene.glyphs.ellipsis]
    else:
        words = ["one run: nothing to compare it with", "gssr tui A.sql B.sql compares two recordings"]
        words.append("a recording that holds several runs compares these; c takes the next one")
    lines: list[Row] = [(Span("  "), Span(text, "title" if at == 0 else "dim")) for at, text in enumerate(words)]
    return [(), *lines]


def _both(scene: Scene, one: Frame, other: Frame) -> list[Row]:
    small = scene.height < _SMALL
    head = _head(scene, one, other)
    foot = [*_course(scene, one, other), *([] if small else _legend(scene))]
    sizes = sizes_for(scene.width, _VALUE)
    room = max(scene.height - len(head) - len(foot) - 1, 0)
    facts = [_fact_row(scene, fact, sizes) for fact in _facts(one, other, scene.width < _NARROW)]
    names = [] if small else _kernels(scene, one, other, sizes)[: max(room - len(facts), 0) // 2]
    lines = [] if small else _lines(one, other, max(room - len(facts) - len(names), 0))
    body = [*facts, *names, *(metric_row(own, sizes, False, scene.glyphs) for own in lines)][:room]
    blank = scene.height - len(head) - 1 - len(body) - len(foot)
    return [*head, titles("A", "B", "A - B", sizes), *body, *[()] * blank, *foot]


# Which two


def _head(scene: Scene, one: Frame, other: Frame) -> list[Row]:
    start = "their starts" if scene.view.align == "start" else "where they begin to work"
    about = (Span("window" if scene.view.span else "whole runs"), Span(f"aligned at {start}", "dim"))
    title = rule("Two runs", scene.width, scene.glyphs, about)
    if scene.height < _SMALL:
        return [rule(f"A {_name(one)}, B {_name(other)}", scene.width, scene.glyphs)]
    return [title, _who("A", scene, one), _who("B", scene, other)]


def _name(frame: Frame) -> str:
    run = frame.run
    label = (run.label or run.job_id or run.run_id) if run else ""
    return clean(label or frame.path.rsplit("/", 1)[-1])


def _who(letter: str, scene: Scene, frame: Frame) -> Row:
    run, gpu = frame.run, frame.gpus[0]
    file = clean(frame.path.rstrip("/").rsplit("/", 1)[-1])
    state = frame.state if run is None or frame.state != "ended" else run.state
    begins = origin(frame, scene.view.align == "activity") - frame.first
    words = [
        file if file.removesuffix(".d").removesuffix(".sql") != _name(frame) else "",
        f"{count(frame.n_gpus, 'GPU')} on {count(len(frame.nodes), 'node')}", state, clean(gpu.name or ""),
        f"works from {duration(begins)} on" if begins > 0 else "",
        clean(" ".join(run.command)) if run else "",
    ]  # fmt: skip
    text = ", ".join(word for word in words if word)
    name = fit(_name(frame), max(scene.width // 3, 8), scene.glyphs.ellipsis)
    rest = fit(text, max(scene.width - len(name) - 6, 0), scene.glyphs.ellipsis)
    return (Span(f"{letter} ", "title"), Span(name, "value"), Span(f"  {rest}", "dim"))


# The numbers


def _facts(one: Frame, other: Frame, narrow: bool) -> list[_Fact]:
    pair = (one, other)
    scores = tuple(frame.window.score() for frame in pair)
    uneven = tuple(_imbalance(frame) for frame in pair)
    times = tuple(seconds(frame) for frame in pair)
    lasted = [moment(time, 120.0) if narrow else duration(time) for time in times]
    hours = tuple(frame.n_gpus * time / 3600 for frame, time in zip(pair, times, strict=True))
    if one.part is not None:
        return [
            _Fact("imbalance %", _share(uneven[0]), _share(uneven[1]), (uneven[0], uneven[1]), True),
            _Fact("duration", lasted[0], lasted[1], (times[0], times[1])),
        ]
    joules = energies(one, other)
    return [
        _Fact("score", fixed(scores[0], 3), fixed(scores[1], 3), (scores[0], scores[1])),
        _Fact("imbalance %", _share(uneven[0]), _share(uneven[1]), (uneven[0], uneven[1]), True),
        _Fact("duration", lasted[0], lasted[1], (times[0], times[1])),
        _Fact("GPU-hours", fixed(hours[0], 3), fixed(hours[1], 3), (hours[0], hours[1])),
        _Fact("energy", _joules(joules.one), _joules(joules.other), (joules.one, joules.other)),
    ]


def _imbalance(frame: Frame) -> float | None:
    means = frame.window.per_gpu(frame.grid.metric)
    return imbalance(means[np.isfinite(means)])


def _share(ratio: float | None) -> str:
    return fixed(None if ratio is None else 100 * ratio, 1)


def _joules(joules: float | None) -> str:
    return "-" if joules is None else energy_text(joules).split(" (")[0]


def _fact_row(scene: Scene, fact: _Fact, sizes: Sizes) -> Row:
    first, second = fact.numbers
    if first is None or second is None:
        return text_row(fact.name, fact.first, fact.second, "-", False, sizes, scene.glyphs)
    gap = first - second
    if fact.points:
        large, text = abs(gap) >= LARGE_POINTS, signed(100 * gap, 1)
    else:
        relative = gap / second if second else 0.0
        large, text = abs(relative) >= LARGE_RATIO, f"{signed(100 * relative, 1)} %"
        if fact.name == "score":
            large, text = abs(gap) >= LARGE_POINTS, signed(gap, 3)
    return text_row(fact.name, fact.first, fact.second, text, large, sizes, scene.glyphs)


def _kernels(scene: Scene, one: Frame, other: Frame, sizes: Sizes) -> list[Row]:
    """Of two traces the kernels whose time differs most, those that only one of them has among them."""
    found = [_times(frame.part.analysis) for frame in (one, other) if frame.part is not None]
    if len(found) < 2:
        return []
    first, second = found
    names = sorted({**first, **second}, key=lambda name: -abs(first.get(name, (0, 0))[0] - second.get(name, (0, 0))[0]))
    rows = []
    for name in names:
        a, b = (times.get(name, (0, 0)) for times in found)
        relative = (a[0] - b[0]) / b[0] if b[0] else 0.0
        text = "only A" if not b[1] else "only B" if not a[1] else f"{signed(100 * relative, 1)} %"
        had, has = (f"{exact(total / 1e9)} {n:,}x" if n else "-" for total, n in (a, b))
        large = not (a[1] and b[1]) or abs(relative) >= LARGE_RATIO
        rows.append(text_row(short(name), had, has, text, large, sizes, scene.glyphs))
    return rows


@once
def _times(analysis: TraceAnalysis | None) -> dict[str, tuple[int, int]]:
    """Total, ns, and number of each kernel."""
    if analysis is None:
        return {}
    values = TABLES["kernels"].values(analysis)
    found = zip(np.asarray(values["total_ns"]).tolist(), np.asarray(values["count"]).tolist(), strict=True)
    return dict(zip(values["name"], found, strict=True))


def _lines(one: Frame, other: Frame, room: int) -> list[Line]:
    """The metrics that either was measured for, as many as fit."""
    means = one.window.overall(), other.window.overall()
    every = [
        line(name, means[0].get(name), means[1].get(name), max(full_scale(one, name), full_scale(other, name)))
        for name in (*METRICS, *OF_TRACES)
        if (means[0].get(name) is not None or means[1].get(name) is not None)
    ]
    return chosen_metrics(every, room)


# Over time


def _course(scene: Scene, one: Frame, other: Frame) -> list[Row]:
    """Both runs' space averages in the same columns, their difference, and the time since what they are aligned at."""
    if not shares_columns(one, other):
        return [(Span("aligning" + scene.glyphs.ellipsis, "dim"),)]
    metric = metric_of(one.grid.metric)
    full = max(full_scale(one, metric.name), full_scale(other, metric.name))
    cursor = scene.view.cursor
    at = one.grid.column(cursor) if cursor is not None and one.grid.start <= cursor < one.grid.end else None
    rows: list[Row] = []
    height = 1
    if scene.height >= _SMALL:
        right = f"1 column = {seconds_text(one.grid.width)}"
        if at is not None:
            both = ", ".join(
                f"{letter} {quantity(_or_none(frame.space.mean[at]), metric)}"
                for letter, frame in zip("AB", (one, other), strict=True)
            )
            right = f"at the cursor {both}"
        title = f"{metric.label}, mean of all GPUs"
        rows = [(), rule(title, scene.width, scene.glyphs, (), (Span(right, "dim" if at is None else "value"),))]
    if scene.height >= _TALL:
        height = 5 if scene.height >= 44 else 3
    for letter, frame in zip("AB", (one, other), strict=True):
        rows += _strip(scene, letter, frame.space.mean / full, height, at)
    apart = difference_strip((difference(one, other) / full).tolist())
    rows.append((Span(f"{'A-B':<{GUTTER}}", "title"), *apart))
    if scene.height >= _SMALL:
        begin = one.grid.start - origin(one, scene.view.align == "activity")
        begin = round(begin / one.grid.width) * one.grid.width
        cells = scene.width - GUTTER
        text = axis_text(begin, begin + cells * one.grid.width, cells)
        rows.append((Span(" " * GUTTER + text, "dim"),))
    return rows


def _strip(scene: Scene, letter: str, fractions: Floats, height: int, cursor: int | None) -> list[Row]:
    look = "series" if letter == "A" else "band"
    chart = area(fractions.tolist(), height, scene.glyphs, look, cursor)  # type: ignore[arg-type]
    if height == 1:
        return [(Span(f"{letter:<{GUTTER}}", "title"), *chart[0])]
    rows = framed(chart, 1.0, "sm_active", scene.glyphs)
    middle = height // 2
    rows[middle] = (Span(f"{letter:<{GUTTER - 1}}", "title"), Span(rows[middle][0].text[-1], "dim"), *rows[middle][1:])
    return rows


def _or_none(value: float) -> float | None:
    return value if value == value else None


def _legend(scene: Scene) -> list[Row]:
    other_start = "where work begins" if scene.view.align == "start" else "at the start"
    texts = [
        f"- A lower, + A higher, = within {percent(SAME).replace('.0', '')}", "! a tenth of the scale or a quarter apart",
        f"a: align {other_start}",
    ]  # fmt: skip
    if scene.n_recordings > 2:
        texts.append("c: the next recording")
    trace = scene.frame.part is not None
    texts.append(
        "kernels: time and number" if trace else f"score: {CAVEAT if scene.width >= 120 else CAVEAT.split(':')[0]}"
    )
    if scene.width >= 120 and scene.other is not None and not trace:
        counted = energies(scene.frame, scene.other).counted
        texts.append("energy: by the GPUs' counters" if counted else "energy: mean power x time")
    rows = flow([(Span(text, "dim"),) for text in texts], scene.width, scene.glyphs.ellipsis, separator="   ")
    return rows[: 2 if scene.height >= 20 else 1]


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Left and right through time."""
    return with_cursor(scene, dx) if dx else scene.view


def enter(scene: Scene) -> View | None:
    """The run that is A over time."""
    return scene.view.down(screen="time", row=0, top=0)


def click(scene: Scene, x: int, y: int) -> View | None:
    """The column under the mouse."""
    grid = scene.frame.grid
    column = x - GUTTER
    if scene.other is None or not 0 <= column < grid.n or y < scene.height // 2:
        return None
    time = min(max(grid.start + (column + 0.5) * grid.width, scene.frame.first), scene.frame.last)
    return replace(scene.view, cursor=time)
