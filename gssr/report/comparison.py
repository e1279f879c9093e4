"""The page of ``gssr compare``: what is better, worse or the same, and what counts as noise.

The first run is A; every other one is compared with it.
"""

import shlex
from collections.abc import Sequence

from gssr.gpu_vendors import maker_of, speaking_of
from gssr.metrics import best_measured
from gssr.model.compare.comparison import (
    CategoryChange,
    Comparison,
    FigureChange,
    Outcome,
    Turn,
    score_of_phases,
    turned,
)
from gssr.model.compare.pairs import By
from gssr.model.results import Analysis, Verdict
from gssr.render.breakdown import LOOKS
from gssr.render.cells import clean, clip, fit, wrap
from gssr.render.clock import axis_text, duration
from gssr.render.columns import SAME, average_into_columns, difference_strip, strip
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import NONE, Unit, fixed, metric_of, percent, scale_text, signed
from gssr.render.table import Cell, TableColumn, table
from gssr.report.compared_figures import compared_figures, figure_text
from gssr.report.page import PageOptions, drawn, full_scale, gpus_and_nodes_text, section
from gssr.report.time_change import compare_times

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
AT_ONCE = 4
"""So many runs are compared with A in one table."""
_GUTTER = 7
_LOOKS: dict[Outcome, tuple[str, Role]] = {
    "better": ("+", "good"), "worse": ("-", "bad"), "higher": (">", "value"), "lower": ("<", "value"),
    "within noise": ("=", "dim"), "unknown": ("?", "dim"),
}  # fmt: skip


_PAIRED: dict[By, str] = {"place": "paired by place", "uuid": "paired by UUID", "order": "paired in their order"}


_Line = tuple[str, Unit, list[FigureChange]]
"""What a number is called, how it is shown, and its change in each of the compared runs."""


def comparison_page(names: Sequence[str], comparisons: Sequence[Comparison], options: PageOptions) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing lines, which programs read.

    ``names``: what each run was called on the command line, A's first; ``comparisons``: of every other run with A, at
    least one.
    """
    runs = [comparisons[0].a, *(each.b for each in comparisons)]
    with speaking_of(maker_of(gpu for run in runs for gpu in run.gpus)):
        return _page(names, comparisons, runs, options)


def _page(
    names: Sequence[str], comparisons: Sequence[Comparison], runs: Sequence[Analysis], options: PageOptions
) -> list[Row]:
    """Draw the page of the compared ``runs``, A's first, in the words of the maker that gssr.gpu_vendors.speaking_of
    has set.

    ``names``: what each run is called; ``comparisons``: of A with each of the others.
    """
    width, marks = options.width, glyph_set(options.ascii)
    rows = [row for at, run in enumerate(runs) for row in _who(LETTERS[at], names[at], run, width, marks)]
    rows.append(())
    for at, each in enumerate(comparisons, 1):
        rows += _in_words(LETTERS[at], each, width)
    rows += _notes(comparisons, width, marks)  # before all numbers: they say how far these compare
    for first in range(0, len(comparisons), AT_ONCE):
        part = comparisons[first : first + AT_ONCE]
        letters = LETTERS[first + 1 : first + 1 + len(part)]
        rows += section("Better or worse?", width, marks, _about(part))
        rows += _numbers(letters, part, options, marks)
        rows += _phases(letters, part, width, marks)
        rows += _breakdown(letters, part, options, marks)
    rows += _course(runs, width, marks)
    rows += _verdicts(comparisons, width, marks)
    rows.append(())
    return [*rows, *((Span(closing_line(LETTERS[at], each), "value"),) for at, each in enumerate(comparisons, 1))]


def closing_line(letter: str, comparison: Comparison) -> str:
    """Return the line for programs about one comparison; what can't be known is ``unknown``."""
    score = comparison.score
    values = (score.b, score.a, score.noise)
    b, a, noise = ("unknown" if value is None else f"{value:.3f}" for value in values)
    difference = "unknown" if score.difference is None else signed(score.difference, 3)
    outcome = score.outcome.replace(" ", "-")
    return f"GSSR compare {letter}: score={b} baseline={a} difference={difference} noise={noise} outcome={outcome}"


def _who(letter: str, name: str, run: Analysis, width: int, marks: Glyphs) -> list[Row]:
    """Describe one run in two or three rows: letter, name, label; how it ended, GPUs, models, length; its command if
    known."""
    label = clean(run.run.label or run.run.run_id)
    models = sorted({gpu.name for gpu in run.gpus if gpu.name})
    ended = run.state if run.run.exit_code is None else f"{run.state}, exit code {run.run.exit_code}"
    words = [ended, gpus_and_nodes_text(run), ", ".join(models), duration(run.window.duration)]
    head = (
        Span(f"{letter}  ", "title"),
        Span(fit(name, width // 2, marks.ellipsis, "end"), "value"),
        Span(f"  {label}"),
    )
    about: list[Row] = [(Span(f"   {clean(', '.join(word for word in words if word))}", "dim"),)]
    if run.run.command:
        about.append((Span("   $ "), Span(fit(shlex.join(run.run.command), width - 5, marks.ellipsis))))
    return [clip(row, width) for row in (head, *about)]


def _in_words(letter: str, each: Comparison, width: int) -> list[Row]:
    """Say in one sentence how the run's time compares with A's, if both ended alike, and whether it is better than A by
    its score, or that it can't be judged. The score of another command is only higher or lower."""
    score, took = each.score, each.totals["duration_s"]
    time = ""
    if took.a and took.b is not None and took.noise is not None:
        time = f"{compare_times(letter, took.a, took.b)}; "
    if score.difference is None or score.noise is None or score.a is None or score.b is None:
        return wrap(f"{time}{letter} can't be judged by its score: it, or A's, or the noise is unknown.", width)
    says = {
        "better": f"{letter} is better than A by its score",
        "worse": f"{letter} is worse than A by its score",
        "higher": f"{letter}'s score is higher",
        "lower": f"{letter}'s score is lower",
    }.get(score.outcome, f"{letter} is within noise of A by its score")
    share = "" if score.relative is None else f" ({signed(100 * score.relative, 1)} %)"
    text = (
        f"{time}{says}: {score.b:.3f} after {score.a:.3f}, {signed(score.difference, 3)}{share}; "
        f"up to {score.noise:.3f} is noise{_paired(each)}."
    )
    return wrap(text, width, role=_LOOKS[score.outcome][1] if score.outcome != "within noise" else "plain")


def _paired(each: Comparison) -> str:
    """Say by what the GPUs were paired, for the end of a sentence; "" if both runs have a single GPU or none."""
    if len(each.a.gpus) < 2 and len(each.b.gpus) < 2:
        return ""
    return f" (GPUs {'not paired' if each.paired_by is None else _PAIRED[each.paired_by]})"


def _about(part: Sequence[Comparison]) -> str:
    if len(part) == 1:
        return "noise: two standard errors"
    return "+ better - worse > higher < lower = noise"


def _numbers(letters: str, part: Sequence[Comparison], options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the totals and then the metrics that all of these comparisons have, as a table."""
    figures = [compared_figures(each) for each in part]
    names = dict.fromkeys(name for own in figures for name in own)
    of_all = [[own[name] for own in figures] for name in names if all(name in own for own in figures)]
    lines: list[_Line] = [(own[0].label, own[0].unit, [each.change for each in own]) for own in of_all]
    return (_one if len(part) == 1 else _several)(letters, lines, options.width, marks)


def _one(letters: str, lines: Sequence[_Line], width: int, marks: Glyphs) -> list[Row]:
    """Draw a table of one run and A, with the difference, the noise and the outcome in words."""
    head = [
        TableColumn(""), TableColumn("unit", drop=3), TableColumn("A", "right"), TableColumn(letters, "right"),
        TableColumn(f"{letters} - A", "right"), TableColumn("noise", "right", drop=4),
        TableColumn("%", "right", drop=5), TableColumn(""),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, unit, (change,) in lines:
        relative = signed(None if change.relative is None else 100 * change.relative, 1)
        noise = NONE if change.noise is None else figure_text(unit, change.noise)
        role = _LOOKS[change.outcome][1]
        rows.append([
            label, (Span(unit.name, "dim"),), figure_text(unit, change.a), (Span(figure_text(unit, change.b), "value"),),
            figure_text(unit, change.difference, with_sign=True), (Span(noise, "dim"),), (Span(relative, "dim"),),
            (Span(change.outcome, role),),
        ])  # fmt: skip
    return table(head, rows, width, marks)


def _several(letters: str, lines: Sequence[_Line], width: int, marks: Glyphs) -> list[Row]:
    """Draw a table of several runs and A, each number with a sign for its outcome."""
    head = [TableColumn(""), TableColumn("unit", drop=1), TableColumn("A", "right")]
    head += [TableColumn(f"{letter}  ", "right") for letter in letters]
    rows: list[list[Cell]] = []
    for label, unit, changes in lines:
        cells: list[Cell] = [label, (Span(unit.name, "dim"),), figure_text(unit, changes[0].a)]
        for change in changes:
            sign, role = _LOOKS[change.outcome]
            cells.append((Span(figure_text(unit, change.b), "value"), Span(f" {sign}", role)))
        rows.append(cells)
    return table(head, rows, width, marks, gap=2)


def _breakdown(letters: str, part: Sequence[Comparison], options: PageOptions, marks: Glyphs) -> list[Row]:
    """List the categories of GPU time whose share changed by more than both errors in any of the runs, the largest
    change first.

    A sentence if none did; no rows if no run has a breakdown.
    """
    known = {letter: each.breakdown for letter, each in zip(letters, part, strict=True) if each.breakdown}
    if not known:
        return []
    rows = section("Where did the GPU time go?", options.width, marks, "shares that changed by more than their errors")
    by_category = [found for found in zip(*known.values(), strict=True) if any(each.is_certain for each in found)]
    if not by_category:
        return [*rows, *wrap("No share of the GPU time changed by more than its error.", options.width)]
    by_category.sort(key=lambda found: -max(abs(each.change) for each in found if each.is_certain))
    head = [TableColumn(""), TableColumn("A", "right")]
    for letter in known:
        head += [TableColumn(letter, "right"), TableColumn(f"{letter} - A", "right")]
        head += [TableColumn("+-" if options.ascii else "±", "right", drop=1)]
    lines: list[list[Cell]] = []
    uses = [each.use for each in part if each.breakdown]
    for found in by_category:
        look = LOOKS[found[0].category.name]
        name = (Span(f"{look.marked(options.ascii)} ", look.role), Span(found[0].category.label))
        cells = (cell for each, use in zip(found, uses, strict=True) for cell in _category_cells(each, use))
        lines.append([name, percent(found[0].before), *cells])
    return [*rows, *table(head, lines, options.width, marks)]


def _category_cells(each: CategoryChange, use: int) -> list[Cell]:
    """Return three cells: the share after the change, the change in points, and the error of both shares. ``use``:
    see ``gssr.model.compare.comparison.change_of_use``."""
    role = _LOOKS[each.outcome(use)][1]
    return [
        percent(each.after), (Span(f"{signed(100 * each.change, 1)} %", role),), (Span(percent(each.error), "dim"),)
    ]  # fmt: skip


def _phases(letters: str, part: Sequence[Comparison], width: int, marks: Glyphs) -> list[Row]:
    """Draw time and score by kind of phase, a column for A and each of ``letters``; no rows if no run has phases."""
    kinds = list(dict.fromkeys(kind for each in part for kind in each.phases))
    if not kinds:
        return []
    head = [
        TableColumn("phases"),
        TableColumn("", drop=1),
        *(TableColumn(letter, "right") for letter in ("A", *letters)),
    ]
    rows: list[list[Cell]] = []
    for kind in kinds:
        pairs = [each.phases.get(kind, ([], [])) for each in part]
        runs = [next((a for a, _ in pairs if a), []), *(b for _, b in pairs)]
        times = (duration(sum(phase.seconds for phase in own)) if own else NONE for own in runs)
        rows.append([kind, (Span("time", "dim"),), *times])
        scores = (fixed(score_of_phases(own), 3) if own else NONE for own in runs)
        rows.append(["", (Span("score", "dim"),), *scores])
    return [(), *table(head, rows, width, marks, gap=2)]


def _course(runs: Sequence[Analysis], width: int, marks: Glyphs) -> list[Row]:
    """Draw the leading metric of all runs over time, from their starts on, and of two runs their difference. No rows
    if they have no metric in common or there is no room."""
    both = set(drawn(runs[0])).intersection(*(drawn(run) for run in runs[1:]))
    name = best_measured(both)
    room = width - _GUTTER
    longest = max(run.window.duration for run in runs)
    if name is None or room < 20 or longest <= 0:
        return []
    metric = metric_of(name)
    full = max(full_scale(run, metric) for run in runs)
    rows = section("When?", width, marks, f"mean {metric.label}, from the start; top {scale_text(metric, full)}")
    courses = []
    for letter, run in zip(LETTERS, runs, strict=False):
        own = run.series[name]
        courses.append(
            average_into_columns(own.mean, own.start - run.window.start, own.width, 0.0, longest, room) / full
        )
        rows.append((Span(f"{letter:<{_GUTTER}}", "title"), *strip(courses[-1].tolist(), marks)))
    if len(runs) == 2:
        apart = difference_strip((courses[1] - courses[0]).tolist())
        rows.append((Span(f"{'B - A':<{_GUTTER}}", "title"), *apart))
    rows.append((Span(" " * _GUTTER + axis_text(0.0, longest, room), "dim"),))
    if len(runs) == 2:
        same = percent(SAME).replace(".0", "")
        rows.append((Span(f"{'':<{_GUTTER}}+ B higher, - B lower, = within {same} of the full scale", "dim"),))
    return [clip(row, width) for row in rows]


def _verdicts(comparisons: Sequence[Comparison], width: int, marks: Glyphs) -> list[Row]:
    """List the verdicts that one run has and A has not, or the other way round, and those that both have with what
    changed; no rows if there are none."""
    rows: list[Row] = []
    for letter, each in zip(LETTERS[1:], comparisons, strict=False):
        own = [row for sign, found in _signed(each) for verdict in found for row in _verdict(sign, verdict, width)]
        for before, now in zip(each.kept_before, each.kept, strict=True):
            own += [*_verdict(_TURNS[turned(before, now)], now, width), *_before(before, now, width)]
        if len(comparisons) > 1 and own:
            rows.append((Span(f"{letter} and A", "heading"),))
        rows += own
    if not rows:
        return []
    about = "+ new, - gone, > worse, < milder, = still; more: gssr analyze"
    return [*section("Verdicts", width, marks, about), *rows]


def _signed(each: Comparison) -> list[tuple[str, tuple[Verdict, ...]]]:
    return [("+", each.gained), ("-", each.lost)]


_SIGNS: dict[str, Role] = {"+": "outlier", "-": "good", ">": "outlier", "<": "good", "=": "dim"}
_TURNS: dict[Turn, str] = {"worse": ">", "milder": "<", "same": "="}


def _verdict(sign: str, verdict: Verdict, width: int) -> list[Row]:
    rows = wrap(f"{clean(verdict.title)} ({verdict.severity})", max(width - 2, 10))
    return [(Span(f"{sign if number == 0 else ' '} ", _SIGNS[sign]), *row) for number, row in enumerate(rows)]


def _before(before: Verdict, now: Verdict, width: int) -> list[Row]:
    """Say what A has of a verdict that both have, if it differs, and what it costs in both, if that is known."""
    rows: list[Row] = []
    if (before.title, before.severity) != (now.title, now.severity):
        rows += wrap(f"in A: {clean(before.title)} ({before.severity})", width, "  ", "  ", "dim")
    if before.lost is not None and now.lost is not None:
        text = f"its cure would save {percent(now.lost)} of the GPUs' time, in A {percent(before.lost)}"
        rows += wrap(text, width, "  ", "  ", "dim")
    return rows


def _notes(comparisons: Sequence[Comparison], width: int, marks: Glyphs) -> list[Row]:
    """List the sentences about the comparisons, each once; no rows if there are none."""
    sentences = dict.fromkeys(note for each in comparisons for note in each.notes)
    return [row for sentence in sentences for row in wrap(sentence, width, f"{marks.bullet} ", "  ")]
