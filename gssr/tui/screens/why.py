"""Why: what the rules say of the window that is shown, and a part of the job against all of it, metric by metric."""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.metrics import THROTTLES, metric_named
from gssr.model.compare.contrast import Contrast, Line, contrast, line, measured
from gssr.model.live.frame import Frame
from gssr.model.results import Judgement
from gssr.model.statistics.grid import fold
from gssr.model.traces.nesting import open_at, within
from gssr.render.cells import clean, clip, fit, flow
from gssr.render.clock import exact
from gssr.render.columns import area
from gssr.render.glyphs import drawable
from gssr.render.roles import Row, Span
from gssr.render.scale import count, metric_of
from gssr.render.table import rule
from gssr.render.verdicts import LOOKS, abstention_rows, verdict_rows
from gssr.tui.axis import GUTTER, age_text, at_text, full_scale, gpus_text, seconds_text, time_labels, window_text
from gssr.tui.screens.lanes import partner, short
from gssr.tui.screens.pairs import chosen_metrics, metric_row, sizes_for, titles
from gssr.tui.view import Scene, View, with_cursor

_WIDE = 120
_STRIPS, _LEGEND = 15, 9
"""Rows beside the verdicts from which the course over time is shown, and rows from which the legend is."""
_SHARE, _TITLED = 0.6, 5
"""Of the rows at most so large a share is the verdicts'; from so many on they have a title."""
_MOST_NAMED = 6
"""Rules that abstained for one reason are named up to so many, of more it is said how many they are."""
_MOST_OPEN = 5
"""Tracks of a trace of which is shown what is open."""
_BEHIND = 2.0
"""A judgement that is so many seconds older than the newest sample says so."""
_SIDES = {"gpus": ("these", "all"), "moment": ("moment", "run"), "window": ("window", "run")}


class _Plan(NamedTuple):
    """Rows above the table, its lines, and the rows at the bottom."""

    found: Contrast
    head: list[Row]
    lines: list[Line]
    foot: list[Row]


def _plan(scene: Scene) -> _Plan:
    frame = scene.frame
    found = contrast(frame, scene.view.selection, scene.view.cursor)
    said = _judgement(scene, max(round(_SHARE * scene.height), 1))
    head = [*said, *_context(scene), heading(scene, found)]
    every = [line(name, found.own.get(name), found.job.get(name), _full(frame, name)) for name in measured(found)]
    foot = _legend(scene, 0)
    room = scene.height - len(head) - len(foot) - 1
    if scene.height - len(said) >= _STRIPS:
        n_strips = 2 if found.kind == "gpus" else 1
        spare = room - len(every) - 3
        foot = [*_course(scene, found, max(min(spare // n_strips, 3), 1)), *foot]
        room = scene.height - len(head) - len(foot) - 1
    lines = chosen_metrics(every, room)
    if foot:
        foot[-1:] = _legend(scene, len(every) - len(lines))
    return _Plan(found, head, lines, foot)


def _full(frame: Frame, name: str) -> float:
    return 1.0 if name in THROTTLES else full_scale(frame, name)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    plan = _plan(scene)
    sizes = sizes_for(scene.width)
    rows = [*plan.head, titles(*_SIDES[plan.found.kind], "difference", sizes)]
    picked = min(scene.view.row, len(plan.lines) - 1)
    rows += [metric_row(own, sizes, at == picked, scene.glyphs) for at, own in enumerate(plan.lines)]
    rows += [*[()] * (scene.height - len(rows) - len(plan.foot)), *plan.foot]
    return [drawable(clip(row, scene.width), scene.glyphs) for row in rows[: scene.height]]


# Below it


def _course(scene: Scene, found: Contrast, height: int) -> list[Row]:
    """The grid's metric over time: of the part and the median GPU; of a stretch of time all GPUs' mean."""
    frame = scene.frame
    metric = metric_of(frame.grid.metric)
    full = full_scale(frame, metric.name)
    pairs = [("these", found.own_series), ("all", found.job_series)] if found.kind == "gpus" else [
        ("all", found.own_series)
    ]  # fmt: skip
    what = "mean of these, median GPU of all" if found.kind == "gpus" else "mean of all GPUs"
    folded = fold(frame.grid, np.stack([values for _, values in pairs]) / full, max(scene.width - GUTTER, 1))
    at = None if scene.view.cursor is None else folded.column(scene.view.cursor)
    text = f"{metric.label} over time, {what}; 1 column = {seconds_text(folded.width)}"
    rows: list[Row] = [(), (Span(fit(text, scene.width, scene.glyphs.ellipsis), "dim"),)]
    for (name, _), values in zip(pairs, folded.values.tolist(), strict=True):
        chart = area(values, height, scene.glyphs, "series" if name == "these" else "band", at)
        labels = [""] * (height - 1) + [name]
        rows += [(Span(f"{label:<{GUTTER}}", "dim"), *row) for label, row in zip(labels, chart, strict=True)]
    return [*rows, (Span(" " * GUTTER + time_labels(frame, folded, scene.width - GUTTER), "dim"),)]


def _legend(scene: Scene, n_hidden: int) -> list[Row]:
    if scene.height < _LEGEND:
        return []
    texts = ["! 10 points of the scale, or a quarter, apart", "> cursor, Enter: over time"]
    if n_hidden:
        texts.insert(0, f"{n_hidden} more are hidden")
    if scene.width >= _WIDE:
        texts += ["bars on the metric's full scale", "means over all samples of the GPUs", "blank: not measured"]
    return flow([(Span(text, "dim"),) for text in texts], scene.width, scene.glyphs.ellipsis, separator="   ")[:1]


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down over the metrics; left and right through time."""
    if dx:
        return with_cursor(scene, dx)
    last = max(len(_plan(scene).lines) - 1, 0)
    return replace(scene.view, row=min(max(min(scene.view.row, last) + dy, 0), last))


def enter(scene: Scene) -> View | None:
    """The metric under the cursor over time."""
    lines = _plan(scene).lines
    name = lines[min(scene.view.row, len(lines) - 1)].metric if lines else ""
    return scene.view.down(screen="time", metric=name, row=0, top=0) if metric_named(name) else None


def click(scene: Scene, x: int, y: int) -> View | None:
    """The metric under the mouse; when the cursor is on it already, it over time."""
    plan = _plan(scene)
    at = y - len(plan.head) - 1
    if not 0 <= at < len(plan.lines):
        return None
    return enter(scene) if at == min(scene.view.row, len(plan.lines) - 1) else replace(scene.view, row=at)


def _context(scene: Scene) -> list[Row]:
    """Of a trace: what is open at the time cursor on the tracks looked at, the innermost first, and what launched it."""
    part, cursor, ellipsis = scene.frame.part, scene.view.cursor, scene.glyphs.ellipsis
    if part is None or cursor is None or scene.height < _STRIPS:
        return []
    own, tracks = part.trace.intervals, part.trace.tracks
    chosen = np.isin(part.level.owner_of, scene.looked_at())
    ranks = {(tracks[at].source, tracks[at].rank) for at in np.flatnonzero(chosen).tolist()}
    beside = [track.kind != "gpu_stream" and (track.source, track.rank) in ranks for track in tracks]
    found = open_at(own.start, own.length, own.track, chosen | beside, round(cursor * 1e9))

    def names(places: list[int]) -> str:
        return " < ".join(short(part.trace.names[int(own.name[at])]) for at in places)

    rows: list[Row] = []
    for track, places in sorted(found.items(), key=lambda each: (tracks[each[0]].kind != "gpu_stream", each[0])):
        label = fit(clean(tracks[track].name or f"stream {tracks[track].stream}"), GUTTER * 4 - 2, ellipsis)
        call = partner(own, places[0]) if tracks[track].kind == "gpu_stream" else -1
        around = [call, *within(own.start, own.length, own.track, call)] if call >= 0 else []
        by = (
            f", launched {exact((own.start[places[0]] - own.start[call]) / 1e9)} earlier by {names(around)}"
            if around
            else ""
        )
        text = fit(names(places) + by, scene.width - GUTTER * 4, ellipsis)
        rows.append((Span(f" {label:<{GUTTER * 4 - 1}}", "dim"), Span(text)))
    more = count(len(rows) - _MOST_OPEN, "more track") if len(rows) > _MOST_OPEN else "" if rows else "nothing"
    title = f"open at {at_text(scene.frame, cursor)}"
    return [rule(title, scene.width, scene.glyphs, (Span(more, "dim"),) if more else ()), *rows[:_MOST_OPEN]]


def heading(scene: Scene, found: Contrast) -> Row:
    """What is compared with what."""
    frame = scene.frame
    rest = f"all {frame.n_gpus:,} GPUs" if frame.n_gpus != 1 else "itself"
    when = window_text(frame)
    if found.kind == "moment":
        grid = frame.grid
        start = grid.start + grid.column(scene.view.cursor or frame.first) * grid.width
        part = f"{at_text(frame, max(start, frame.first))} and {seconds_text(grid.width)} on"
        rest, when = "the whole run", "all GPUs"
    elif found.kind == "window":
        part, rest, when = when, "the whole run", "all GPUs"
    elif scene.view.selection:
        part = gpus_text(scene)
    elif len(found.gpus):
        part = f"lowest GPU {clean(frame.place(int(found.gpus[0])))}"
    else:
        part = "no GPU with samples"
    return rule(part, scene.width, scene.glyphs, (Span(f"against {rest}"), Span(when, "dim")))


# What the rules say


def _judgement(scene: Scene, room: int) -> list[Row]:
    """All verdicts on the window, in at most so many rows: with as much of what they rest on and of what to do as fits."""
    found, width = scene.frame.judgement, scene.width
    rows: list[Row] = []
    if room >= _TITLED:
        rows.append(rule("what the rules say", width, scene.glyphs, (Span(_judged_when(scene), "dim"),)))
        room -= 1
    if found is None:
        return [*rows, (Span(_not_judged(scene), "dim"),)][: room + len(rows)]
    short = [(Span(fit(f"{scene.glyphs.bullet}  {_abstained(found)}", width, scene.glyphs.ellipsis), "dim"),)]
    short = short if found.abstentions else []
    long = abstention_rows(found.abstentions, width, scene.glyphs.bullet, _MOST_NAMED)
    serious = sum(verdict.severity != "info" for verdict in found.verdicts)
    tries = ((len(found.verdicts), long), (max(serious, 1), long), (max(serious, 1), short), (1, short))
    for n_whole, abstained in tries:
        told: list[Row] = [] if found.verdicts else [(Span(NOTHING),)]
        for number, verdict in enumerate(found.verdicts):
            told += verdict_rows(verdict, width, number < n_whole)
        if len(told) + len(abstained) <= room:
            return [*rows, *told, *abstained]
    return [*rows, *headlines(scene, max(room - len(short), 1), ""), *short][: room + len(rows)]


NOTHING = "no rule finds anything"


def _not_judged(scene: Scene) -> str:
    return "not judged while it plays" if scene.view.speed else f"judging {scene.glyphs.ellipsis}"


def _judged_when(scene: Scene) -> str:
    """Of which window, and, where that is a while ago, as of when."""
    frame, found = scene.frame, scene.frame.judgement
    text = window_text(frame)
    if found is not None and frame.query.span is not None:
        start, end = max(found.start, frame.first), min(found.end, frame.last)
        text = f"{at_text(frame, start)} to {at_text(frame, end)}"
    behind = 0.0 if found is None or frame.query.end is not None else frame.last - found.end
    text = f"{gpus_text(scene)}, {text}" if scene.view.selection else text
    return f"{text}, as of {age_text(behind)} ago" if behind >= _BEHIND else text


def _abstained(found: Judgement) -> str:
    """How many rules could not be judged, with the reason of most of them; empty where all were."""
    reasons = Counter(each.reason for each in found.abstentions)
    if not reasons:
        return ""
    reason, n = reasons.most_common(1)[0]
    rest = len(found.abstentions) - n
    return f"not judged: {count(n, 'rule')} ({reason})" + (f", {rest} more for other reasons" if rest else "")


def headlines(scene: Scene, n_rows: int, label: str) -> list[Row]:
    """The worst verdicts in so many rows, one line each, the first with what to do where there are two; the first row begins
    with ``label``, the others with as many blanks."""
    found, width, ellipsis = scene.frame.judgement, scene.width - len(label), scene.glyphs.ellipsis
    if found is None or not found.verdicts:
        said = [NOTHING, _abstained(found)] if found is not None else [_not_judged(scene)]
        text = "; ".join(filter(None, said))
        rows: list[Row] = [(Span(fit(text, width, ellipsis), "dim"),)]
    else:
        rows = []
        for verdict in found.verdicts[: max(n_rows - 1, 1)]:
            mark, role = LOOKS[verdict.severity]
            title = fit(clean(verdict.title), width - 3, ellipsis)
            rows.append((Span(f"{mark:<3}", role), Span(title, "plain" if verdict.severity == "info" else "value")))
        advice = [(Span(fit(f" > {clean(found.verdicts[0].advice)}", width, ellipsis)),)]
        rows[1:1] = advice if n_rows > 1 else []
    blank = " " * len(label)
    return [(Span(blank if y else label, "heading"), *row) for y, row in enumerate(rows[:n_rows])]
