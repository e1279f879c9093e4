"""Compare: two runs beside each other, number by number, and aligned in time."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.arrays import Floats
from gssr.model.compare.alignment import Origin, difference, energies, origins, seconds, shares_columns
from gssr.model.compare.contrast import LARGE_POINTS, LARGE_RATIO, Line, line, told
from gssr.model.compare.traces import Calls, Name, calls, names
from gssr.model.live.frame import Frame
from gssr.model.statistics.balance import imbalance
from gssr.model.traces.results import TraceAnalysis
from gssr.render.cells import clean, clip, fit, flow
from gssr.render.clock import axis_text, duration, exact, moment
from gssr.render.columns import SAME, area, difference_strip
from gssr.render.function_names import distinct_names
from gssr.render.glyphs import drawable
from gssr.render.roles import Row, Span
from gssr.render.scale import count, fixed, metric_of, percent, plural, quantity, signed
from gssr.render.scale import energy as energy_text
from gssr.render.table import rule
from gssr.score import CAVEAT
from gssr.tui.axis import GUTTER, columns_until, framed, full_scale, is_growing, lasting, seconds_text
from gssr.tui.shared.pairs import Sizes, chosen_metrics, metric_row, sizes_for, text_row, titles
from gssr.tui.view import Scene, View, with_cursor

_SMALL, _TALL = 14, 30
"""Rows below which only the essentials fit, and from which strips become charts."""
_NARROW = 60
"""In fewer cells lengths of time are written as on a clock."""
_VALUE = 12
_MOST_NAMES, _TIMES = 100, 9.0
"""Names are looked at up to so many; from so many times more on it is said how many."""


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
    named = [] if small else _names(scene, one, other, sizes)[: max(room - len(facts), 0) // 2]
    lines = [] if small else _lines(one, other, max(room - len(facts) - len(named), 0))
    body = [*facts, *named, *(metric_row(own, sizes, False, scene.glyphs, turned=True) for own in lines)][:room]
    blank = scene.height - len(head) - 1 - len(body) - len(foot)
    return [*head, titles("A", "B", "B - A", sizes), *body, *[()] * blank, *foot]


# Which two


def _head(scene: Scene, one: Frame, other: Frame) -> list[Row]:
    zeros = origins(one, other, scene.view.align)
    about = (Span("window" if scene.view.span else "whole runs"), Span(f"aligned at {_at(scene, zeros)}", "dim"))
    title = rule("Two runs", scene.width, scene.glyphs, about)
    if scene.height < _SMALL:
        return [rule(f"A {_name(one)}, B {_name(other)}", scene.width, scene.glyphs)]
    return [title, _who("A", scene, one, zeros[0]), _who("B", scene, other, zeros[1])]


def _at(scene: Scene, zeros: tuple[Origin, Origin]) -> str:
    """What both are aligned at."""
    if zeros[0].name:
        return " and ".join(dict.fromkeys(clean(zero.name) for zero in zeros if zero.name))
    return "their starts" if scene.view.align == "start" else "where they begin to work"


def _name(frame: Frame) -> str:
    run = frame.run
    label = (run.label or run.shown_job or run.run_id) if run else ""
    return clean(label or frame.path.rsplit("/", 1)[-1])


def _who(letter: str, scene: Scene, frame: Frame, zero: Origin) -> Row:
    run, gpu = frame.run, frame.gpus[0]
    file = clean(frame.path.rstrip("/").rsplit("/", 1)[-1])
    state = frame.state if run is None or frame.state != "ended" else run.state
    begins = zero.time - frame.first
    noun = "GPU" if frame.part is None else frame.part.level.noun
    words = [
        file if file.removesuffix(".d").removesuffix(".sql") != _name(frame) else "",
        f"{count(frame.gpus_of_run, noun)} on {count(len(frame.nodes), 'node')}", state, clean(gpu.name or ""),
        f"{'begins' if zero.name else 'works'} from {duration(begins)} on" if begins > 0 else "",
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
    lasted = [moment(time, 120.0) if narrow and one.part is None else lasting(one, time) for time in times]
    hours = tuple(frame.gpus_of_run * time / 3600 for frame, time in zip(pair, times, strict=True))
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
    gap = second - first
    if fact.points:
        large, text = abs(gap) >= LARGE_POINTS, signed(100 * gap, 1)
    else:
        relative = gap / first if first else 0.0
        large, text = abs(relative) >= LARGE_RATIO, f"{signed(100 * relative, 1)} %"
        if fact.name == "score":
            large, text = abs(gap) >= LARGE_POINTS, signed(gap, 3)
    return text_row(fact.name, fact.first, fact.second, text, large, sizes, scene.glyphs)


def _names(scene: Scene, one: Frame, other: Frame, sizes: Sizes) -> list[Row]:
    """Of two traces the names whose time differs most, those that only one of them has among them: time and number, and
    where there is room the mean."""
    analyses = [frame.part.analysis for frame in (one, other) if frame.part and frame.part.analysis]
    if len(analyses) < 2:
        return []

    def said(own: Calls) -> str:
        if own.mean_ns is None:
            return "-"
        return f"{exact(own.total_ns / 1e9)} {own.n:,}x" + (f" {exact(own.mean_ns / 1e9)}" if sizes.wide else "")

    rows, shown = [], _compared(*analyses)[:_MOST_NAMES]
    texts = distinct_names([each.name for each in shown], sizes.name - 1, "")
    for each, name in zip(shown, texts, strict=True):
        relative = each.difference_ns / each.a.total_ns if each.a.total_ns else 0.0
        large = not (each.a.n and each.b.n) or abs(relative) >= LARGE_RATIO
        text = "only A" if not each.b.n else "only B" if not each.a.n else f"{signed(100 * relative, 1)} %"
        if each.a.total_ns and relative >= _TIMES:
            text = f"x {1 + relative:,.0f}"
        rows.append(text_row(name, said(each.a), said(each.b), text, large, sizes, scene.glyphs))
    return rows


_kept: list[tuple[TraceAnalysis, TraceAnalysis, tuple[Name, ...]]] = []


def _compared(one: TraceAnalysis, other: TraceAnalysis) -> tuple[Name, ...]:
    if not _kept or _kept[0][0] is not one or _kept[0][1] is not other:
        _kept[:] = [(one, other, names(calls(one), calls(other)))]
    return _kept[0][2]


def _lines(one: Frame, other: Frame, room: int) -> list[Line]:
    """The metrics that either was measured for, B's against A's, as many as fit."""
    means = one.window.overall(), other.window.overall()
    every = [
        line(name, means[1].get(name), means[0].get(name), max(full_scale(one, name), full_scale(other, name)))
        for name in told(*means)
    ]
    return chosen_metrics(every, room)


# Over time


def _course(scene: Scene, one: Frame, other: Frame) -> list[Row]:
    """Both runs' space averages in the same columns, their difference, and the time since what they are aligned at."""
    if not shares_columns(one, other):
        shared = one.whole.measured() & other.whole.measured()
        return [(Span("aligning" + scene.glyphs.ellipsis if shared else "nothing was measured of both", "dim"),)]
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
        title = f"{metric.label}, mean of all {plural(one.noun)}"
        rows = [(), rule(title, scene.width, scene.glyphs, (), (Span(right, "dim" if at is None else "value"),))]
    if scene.height >= _TALL:
        height = 5 if scene.height >= 44 else 3
    for letter, frame in zip("AB", (one, other), strict=True):
        rows += _strip(scene, letter, frame.space.mean / full, height, at)
    apart = difference_strip((difference(one, other) / full).tolist())
    rows.append((Span(f"{'B-A':<{GUTTER}}", "title"), *apart))
    if scene.height >= _SMALL:
        begin = one.grid.start - origins(one, other, scene.view.align)[0].time
        begin = round(begin / one.grid.width) * one.grid.width
        cells = scene.width - GUTTER
        shown = cells
        if not (is_growing(one) or is_growing(other)):
            until = max(frame.last - frame.grid.start for frame in (one, other))
            shown = columns_until(until, one.grid.width, cells)
        text = axis_text(begin, begin + shown * one.grid.width, shown)
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
    other_start = (
        "at a step or a mark"
        if scene.frame.part
        else "where work begins"
        if scene.view.align == "start"
        else "at the start"
    )
    texts = [
        f"+ B higher, - B lower, = within {percent(SAME).replace('.0', '')}", "! a tenth of the scale or a quarter apart",
        f"a: align {other_start}",
    ]  # fmt: skip
    if scene.n_recordings > 2:
        texts.append("c: the next recording")
    trace = scene.frame.part is not None
    texts.append(
        "names: time and number" if trace else f"score: {CAVEAT if scene.width >= 120 else CAVEAT.split(':')[0]}"
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
