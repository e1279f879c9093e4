"""Why: what the rules say of the window that is shown, and a part of the job against all of it, metric by metric."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.metrics import THROTTLES, metric_named
from gssr.model.compare.contrast import Contrast, Line, contrast, line, measured
from gssr.model.joined.explain import within as gaps_within
from gssr.model.live.frame import Frame
from gssr.model.results import Judgement, Verdict
from gssr.model.statistics.grid import fold
from gssr.model.traces.nesting import within
from gssr.model.verdicts.words import named
from gssr.render.breakdown import breakdown_bar, headline
from gssr.render.cells import clean, clip, fit, flow
from gssr.render.clock import exact
from gssr.render.columns import area
from gssr.render.function_names import short_name
from gssr.render.glyphs import drawable, in_ascii
from gssr.render.roles import Row, Span
from gssr.render.scale import count, metric_of
from gssr.render.table import rule
from gssr.render.verdicts import LOOKS, abstention_rows, advice_rows, is_told_whole, verdict_rows
from gssr.tui.axis import GUTTER, age_text, at_text, full_scale, gpus_text, seconds_text, time_labels, window_text
from gssr.tui.judge import LEAST_SECONDS
from gssr.tui.screens.lanes import context_rows, partner
from gssr.tui.shared.pairs import chosen_metrics, metric_row, sizes_for, titles
from gssr.tui.view import Scene, View, with_cursor

_WIDE = 120
_STRIPS, _LEGEND = 15, 9
"""Rows beside the verdicts from which the course over time is shown, and rows from which the legend is."""
ACCOUNT_HEIGHT = 20
"""A screen of so many rows has room to say where the GPU time went."""
_SHARE, _SMALL, _TITLED = 0.6, 0.15, 5
"""Of the rows at most so large a share is the verdicts', or, where an interval was chosen, so small a one; from so many on
they have a title."""
_MOST_NAMED = 6
"""Rules that abstained for one reason are named up to so many, of more it is said how many they are."""
_MOST_OPEN = 5
"""Tracks of a trace of which is shown what is open."""
_WHOLE, _MOST_DETAILS = 20, 3
"""Rows from which on all is told of one interval, and of what its file says besides at most."""
_MOST_GAPS = 4
_BEHIND = 2.0
"""A judgement that is so many seconds older than the newest sample says so."""
_SIDES = {"gpus": ("these", "all"), "moment": ("moment", "run"), "window": ("window", "run")}


class _Said(NamedTuple):
    """What the rules say: ``notes`` has of each of the ``rows`` the number of its verdict, -1 for none. ``n``: how many
    verdicts there are."""

    rows: list[Row]
    notes: list[int]
    n: int = 0


class _Plan(NamedTuple):
    """Rows above the table, its lines, and the rows at the bottom. ``said``: what the rows above begin with."""

    found: Contrast
    said: _Said
    head: list[Row]
    lines: list[Line]
    foot: list[Row]

    def line(self, row: int) -> int:
        """Which of the lines is under the cursor; negative where it is on a note."""
        return min(row - self.said.n, len(self.lines) - 1)


def _plan(scene: Scene) -> _Plan:
    frame = scene.frame
    note = _note(scene)
    part = _part(scene, note)
    found = contrast(frame, part, scene.view.cursor)
    chosen = scene.view.place >= 0 and scene.view.cursor is not None
    said = _judgement(scene, max(round((_SMALL if chosen else _SHARE) * scene.height), 1))
    head = [*said.rows, *_context(scene), *_traced(scene), _heading(scene, found, part)]
    known = measured(found)
    rests_on = [each.metric for each in note.evidence if each.metric in known] if note else []
    names = dict.fromkeys((*rests_on, *known))
    every = [line(name, found.own.get(name), found.job.get(name), _full(frame, name)) for name in names]
    foot = _legend(scene, 0)
    room = scene.height - len(head) - len(foot) - 1
    if scene.height - len(said.rows) >= _STRIPS:
        n_strips = 2 if found.kind == "gpus" else 1
        spare = room - len(every) - 3
        foot = [*_course(scene, found, max(min(spare // n_strips, 3), 1)), *foot]
        room = scene.height - len(head) - len(foot) - 1
    n_first = min(len(set(rests_on)), max(room, 0))
    lines = [*every[:n_first], *chosen_metrics(every[n_first:], room - n_first)]
    if foot:
        foot[-1:] = _legend(scene, len(every) - len(lines))
    return _Plan(found, said, head, lines, foot)


def _full(frame: Frame, name: str) -> float:
    return 1.0 if name in THROTTLES else full_scale(frame, name)


def draw(scene: Scene) -> list[Row]:
    """The screen's rows."""
    plan = _plan(scene)
    sizes = sizes_for(scene.width)
    rows = [*plan.head, titles(*_SIDES[plan.found.kind], "difference", sizes)]
    picked = plan.line(scene.view.row)
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
        texts.insert(0, f"{n_hidden} more hidden")
    if scene.width >= _WIDE:
        texts += ["bars on the metric's full scale", "means over all samples of the GPUs", "blank: not measured"]
    return flow([(Span(text, "dim"),) for text in texts], scene.width, scene.glyphs.ellipsis, separator="   ")[:1]


# Keys and the mouse


def move(scene: Scene, dx: int, dy: int) -> View:
    """Up and down over the notes, of which the one under the cursor is told whole and has its numbers in the table, and the
    metrics; left and right through time."""
    if dx:
        return with_cursor(scene, dx)
    plan = _plan(scene)
    last = max(plan.said.n + len(plan.lines) - 1, 0)
    return _on(scene, plan, min(max(min(scene.view.row, last) + dy, 0), last))


def _on(scene: Scene, plan: _Plan, row: int) -> View:
    """The cursor on this note or metric; the table stays about the note that it comes from."""
    return replace(scene.view, row=row, note=row if row < plan.said.n else _picked(scene))


def enter(scene: Scene) -> View | None:
    """The metric under the cursor over time; from a note the metric that is looked at."""
    plan = _plan(scene)
    at = plan.line(scene.view.row)
    name = plan.lines[at].metric if at >= 0 else scene.frame.grid.metric
    return scene.view.down(screen="time", metric=name, row=0, top=0) if metric_named(name) else None


def click(scene: Scene, x: int, y: int) -> View | None:
    """The note under the mouse, or the metric; when the cursor is on it already, it over time."""
    plan = _plan(scene)
    if y < len(plan.said.rows):
        note = plan.said.notes[y]
        return _on(scene, plan, note) if note >= 0 else None
    at = y - len(plan.head) - 1
    if not 0 <= at < len(plan.lines):
        return None
    return enter(scene) if at == plan.line(scene.view.row) else _on(scene, plan, plan.said.n + at)


def _context(scene: Scene) -> list[Row]:
    """Of a trace: what is open at the time cursor on the tracks looked at, the innermost first, and what launched it."""
    part, cursor, ellipsis = scene.frame.part, scene.view.cursor, scene.glyphs.ellipsis
    if part is None or part.around is None or cursor is None or scene.height < _STRIPS:
        return []
    own, tracks, around_it = part.trace.intervals, part.trace.tracks, part.around

    def names(places: list[int]) -> str:
        return " < ".join(in_ascii(short_name(part.trace.names[int(own.name[at])])) for at in places)

    rows: list[Row] = []
    for track, places in around_it.tracks.items():
        if around_it.place in places and scene.height >= _WHOLE:
            continue  # told below
        label = fit(clean(tracks[track].name or f"stream {tracks[track].stream}"), GUTTER * 4 - 2, ellipsis)
        call = partner(part.trace, places[0]) if tracks[track].kind == "gpu_stream" else -1
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
    rows = [rule(title, scene.width, scene.glyphs, (Span(more, "dim"),) if more else ()), *rows[:_MOST_OPEN]]
    if around_it.place < 0 or scene.height < _WHOLE:
        return rows
    return [*context_rows(scene, part, around_it.place), *_details(scene, around_it.details), *rows]


def _details(scene: Scene, details: Mapping[str, str] | None) -> list[Row]:
    """What its file says of the interval besides."""
    if details is None:
        return [(Span(f"  reading what the file says of it{scene.glyphs.ellipsis}", "dim"),)]
    pieces: list[Row] = [(Span(f"{clean(key)} ", "dim"), Span(clean(value))) for key, value in details.items()]
    rows = flow(pieces, scene.width - 2, scene.glyphs.ellipsis) if pieces else []
    return [(Span("  "), *row) for row in rows[:_MOST_DETAILS]]


def _traced(scene: Scene) -> list[Row]:
    """Of a recording: what its GPUs waited for while they were traced, in the column of the time cursor, else the window."""
    frame, cursor = scene.frame, scene.view.cursor
    if frame.part is not None or not frame.traced or scene.height < _STRIPS:
        return []
    start, end, when = frame.window.start, frame.window.end, window_text(frame)
    if cursor is not None:
        start = frame.grid.start + frame.grid.column(cursor) * frame.grid.width
        end, when = start + frame.grid.width, f"at {at_text(frame, start)} +{seconds_text(frame.grid.width)}"
    gpus = scene.looked_at().tolist() if scene.view.selection else ()
    gaps = [gap for trace in frame.traced for gap in gaps_within(trace.gaps, start, end, gpus)]
    shown = [trace for trace in frame.traced if trace.start < end and trace.end > start]
    about = (Span(f"{when}, {count(len(shown), 'trace')}", "dim"),)
    rows = [rule("what the GPUs waited for", scene.width, scene.glyphs, about)]
    if not shown:
        return [*rows, (Span(" not traced then", "dim"),)]
    for gap in sorted(gaps, key=lambda gap: -gap.seconds)[:_MOST_GAPS]:
        where = f"{clean(frame.place(gap.gpu))} at {at_text(frame, gap.start)}"
        text = f" {exact(gap.seconds):>8}  {clean(gap.why)}, {where}"
        rows.append((Span(fit(text, scene.width, scene.glyphs.ellipsis)),))
    return rows if gaps else [*rows, (Span(" no gap among the longest", "dim"),)]


def _heading(scene: Scene, found: Contrast, of_note: tuple[int, ...]) -> Row:
    """What is compared with what; ``of_note``: positions of the GPUs that the note is about."""
    frame = scene.frame
    rest = f"all {count(frame.n_gpus, frame.noun)}" if frame.n_gpus != 1 else "itself"
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
    elif of_note:
        part = clean(named(frame.gpus, of_note))
    elif len(found.gpus):
        part = f"lowest {frame.noun} {clean(frame.place(int(found.gpus[0])))}"
    else:
        part = "no GPU with samples"
    return rule(part, scene.width, scene.glyphs, (Span(f"against {rest}"), Span(when, "dim")))


# What the rules say


def _judgement(scene: Scene, room: int) -> _Said:
    """All verdicts on the window, in at most so many rows: with as much of what they rest on and of what to do as fits, of
    the one under the cursor first of all."""
    found, width = scene.frame.judgement, scene.width
    above: list[Row] = []
    if room >= _TITLED:
        above.append(rule("what the rules say", width, scene.glyphs, (Span(_judged_when(scene), "dim"),)))
        room -= 1
    account = account_rows(scene, width)
    if room >= _TITLED + len(account):
        above += account
        room -= len(account)
    if found is None:
        return _said([*above, (Span(not_judged(scene), "dim"),)][: room + len(above)], [], [])
    short: list[Row] = [
        (Span(fit(f"{scene.glyphs.bullet}  {_abstained(found)}", width, scene.glyphs.ellipsis), "dim"),)
    ]
    short = short if found.abstentions else []
    long = abstention_rows(found.abstentions, width, scene.glyphs.bullet, _MOST_NAMED)
    if not found.verdicts:
        fits = 1 + len(long) <= room
        return _said([*above, (Span(NOTHING),)], [], long if fits else short[: max(room - 1, 0)])
    n, picked = len(found.verdicts), _picked(scene)
    every, some = range(n), [number for number, verdict in enumerate(found.verdicts) if is_told_whole(verdict)]
    for whole, abstained in ((every, long), (some, long), (some, short), ((), short)):
        told = [
            verdict_rows(verdict, width, number in whole or number == picked)
            for number, verdict in enumerate(found.verdicts)
        ]
        if sum(map(len, told)) + len(abstained) <= room:
            return _said(above, _with_cursor(told, scene.view.row), abstained, n)
    told = _folded(scene, found.verdicts, picked, max(room - len(short), 1))
    return _said(above, _with_cursor(told, scene.view.row), short[: max(room - 1, 0)], n)


def _picked(scene: Scene) -> int:
    """The number of the verdict under the cursor, of that which the cursor left for the table, -1 where there is none."""
    n = len(scene.frame.judgement.verdicts) if scene.frame.judgement is not None else 0
    return scene.view.row if scene.view.row < n else min(scene.view.note, n - 1)


def _note(scene: Scene) -> Verdict | None:
    picked = _picked(scene)
    return None if scene.frame.judgement is None or picked < 0 else scene.frame.judgement.verdicts[picked]


def _part(scene: Scene, note: Verdict | None) -> tuple[int, ...]:
    """Positions of the GPUs that are held against all: the selected ones, else those that the note is about. Empty where
    neither says or it is about all, and where a moment was chosen."""
    frame, view = scene.frame, scene.view
    if view.selection or note is None or view.cursor is not None:
        return view.selection
    looked_at = frame.query.gpus or range(frame.n_gpus)
    part = tuple(looked_at[at] for at in note.gpus if at < len(looked_at))
    return part if len(part) < frame.n_gpus else ()


def _said(above: list[Row], told: list[list[Row]], below: list[Row], n: int = 0) -> _Said:
    notes = [number for number, rows in enumerate(told) for _ in rows]
    rows = [row for rows in told for row in rows]
    return _Said([*above, *rows, *below], [*[-1] * len(above), *notes, *[-1] * len(below)], n)


def _with_cursor(told: list[list[Row]], picked: int) -> list[list[Row]]:
    """With the cursor beside the mark of one of them, where it is on any."""
    if picked >= len(told):
        return told
    (mark, *title), *rest = told[picked]
    first = (Span(f"{mark.text.rstrip():<2}>", mark.role), *title)
    return [*told[:picked], [first, *rest], *told[picked + 1 :]]


def _folded(scene: Scene, verdicts: Sequence[Verdict], picked: int, room: int) -> list[list[Row]]:
    """The rows of each verdict, in at most so many: the titles around the one that is ``picked``, and as much of this one as
    fits, first of all what to do."""
    width, ellipsis = scene.width, scene.glyphs.ellipsis
    own = verdicts[picked]
    most = max(room - len(verdicts), int(_OF_ONE * room))
    whole = verdict_rows(own, width, True)[len(verdict_rows(own, width, False)) :]
    below = whole if len(whole) <= most else advice_rows(own, width, most, ellipsis)
    n = min(room - len(below), len(verdicts))
    first = min(max(picked - n + 1, 0), len(verdicts) - n)
    told = [
        [_title(verdict, width, ellipsis)] if first <= at < first + n else [] for at, verdict in enumerate(verdicts)
    ]
    told[picked] += below
    return told


_OF_ONE = 0.6
"""So large a share of the rows may be what one verdict rests on and what to do about it."""
_FEW_ROWS = 3
"""Where there are no more rows, a title has one."""
NOTHING = "nothing stands out: no rule finds a cause of low use"


def not_judged(scene: Scene) -> str:
    """Why there is no judgement, one line."""
    frame = scene.frame
    if frame.by_node and frame.of_gpus is None:
        return "no GPU was recorded: nothing to judge"
    if scene.view.speed:
        return "not judged while it plays"
    if frame.is_live and frame.last - frame.first < LEAST_SECONDS:
        return f"too early to say: {frame.last - frame.first:.0f} s of the {LEAST_SECONDS:.0f} s that a judgement needs"
    return f"judging {scene.glyphs.ellipsis}"


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


def account_rows(scene: Scene, width: int) -> list[Row]:
    """Say where the GPU time of the window went: a sentence, and under it a bar that adds up to all of it; nothing before it
    was judged, without samples, or where the screen is too small."""
    breakdown = None if scene.frame.judgement is None else scene.frame.judgement.breakdown
    if breakdown is None or not breakdown.gpu_seconds > 0 or scene.height < ACCOUNT_HEIGHT:
        return []
    sentence = fit(headline(breakdown), width, scene.glyphs.ellipsis)
    return [(Span(sentence, "value"),), breakdown_bar(breakdown, width, scene.glyphs.levels.isascii())]


def headlines(scene: Scene, n_rows: int, label: str) -> list[Row]:
    """The worst verdicts in at most so many rows, the first with what to do where there are several, or that nothing stands
    out, and what the job is like; each row begins with ``label``."""
    found, width, ellipsis = scene.frame.judgement, scene.width - len(label), scene.glyphs.ellipsis
    rows: list[Row] = []
    if found is None:
        rows.append((Span(fit(not_judged(scene), width, ellipsis), "dim"),))
    else:
        told = list(found.verdicts)
        if told and told[0].severity != "info":
            first = told.pop(0)
            rows = verdict_rows(first, width, False)
            if len(rows) > 1 and n_rows <= _FEW_ROWS:
                rows = [_title(first, width, ellipsis)]
            rows += advice_rows(first, width, max(n_rows - len(rows) - len(told), 1), ellipsis)
        else:
            rows.append((Span("ok ", "good"), Span(fit(NOTHING, width - 3, ellipsis), "value")))
        rows += [_title(verdict, width, ellipsis) for verdict in told]
        if not found.verdicts and _abstained(found):
            rows.append((Span(fit(f"   {_abstained(found)}", width, ellipsis), "dim"),))
    return [(Span(label), *row) for row in rows[:n_rows]]


def _title(verdict: Verdict, width: int, ellipsis: str) -> Row:
    """A verdict's mark and title on one line."""
    mark, role = LOOKS[verdict.severity]
    title = fit(clean(verdict.title), width - 3, ellipsis)
    return Span(f"{mark:<3}", role), Span(title, "plain" if verdict.severity == "info" else "value")
