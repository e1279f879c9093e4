"""What Why says in words: what is compared, and what the comparison reads as, with the numbers that a rule used."""

from gssr.model.compare.contrast import Contrast
from gssr.model.compare.contrast_rules import Reading, Rule
from gssr.render.cells import clean, clip, fit, wrap
from gssr.render.clock import duration
from gssr.render.roles import Row, Span
from gssr.render.rule import rule
from gssr.render.scale import quantity
from gssr.tui.axis import at_text, seconds_text
from gssr.tui.scope import gpus_text, window_text
from gssr.tui.screens.pairs import metric_named
from gssr.tui.view import Scene

_SMALL, _TALL = 14, 20
"""Rows below which only the reading fits, and from which its source does too."""


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


def readings(scene: Scene, found: Contrast, read: Reading) -> list[Row]:
    """How the part differs and what it is like by itself, as far as there is room."""
    width, height = scene.width, scene.height
    if read.differs is None:
        rows = wrap("reads as: like what it is compared with, by every rule", width, rest="  ", role="value")
    else:
        text = f"reads as: {read.differs.reads} ({_numbers(scene, read.differs, found)})"
        lines = wrap(text, max(width - 2, 1), role="value")
        rows = [(Span("! ", "outlier") if y == 0 else Span("  "), *row) for y, row in enumerate(lines)]
    rows = _at_most(2 if height < _SMALL else 4, rows, scene)
    if height >= _SMALL and read.like is not None:
        text = f"by itself: {read.like.reads} ({_numbers(scene, read.like, found)})"
        rows += _at_most(2, wrap(text, width, rest="  "), scene)
    if height >= _TALL:
        used = dict.fromkeys(rule.source for rule in read if rule is not None)
        source = f"; by rules of: {', '.join(used)}" if used else ""
        rows.append((Span(fit(f"a reading by rule, not a verdict{source}", width, scene.glyphs.ellipsis), "dim"),))
    return rows


def _at_most(n: int, rows: list[Row], scene: Scene) -> list[Row]:
    """The first rows; where there are more, the last of them ends in an ellipsis."""
    if len(rows) <= n:
        return rows
    ellipsis = scene.glyphs.ellipsis
    return [*rows[: n - 1], (*clip(rows[n - 1], scene.width - len(ellipsis)), Span(ellipsis))]


def _numbers(scene: Scene, rule: Rule, found: Contrast) -> str:
    """What the rule looked at, each metric once: against the job's where it compares them."""
    compared = {condition.metric for condition in rule.conditions if condition.what != "own"}
    names = dict.fromkeys([condition.metric for condition in rule.conditions])
    shown = [(name, name in compared) for name in names]
    shown += [(name, True) for name in rule.shows if found.own.get(name) is not None]
    return ", ".join(_number(scene, name, found, against) for name, against in shown)


def _number(scene: Scene, name: str, found: Contrast, compared: bool) -> str:
    if name == "late":
        own, job = (
            "never" if start is None else at_text(scene.frame, max(start, scene.frame.first))
            for start in (found.own_start, found.job_start)
        )
        late = duration(None if found.late is None else found.late * found.seconds)
        return f"from {own} on, the median GPU from {job}: {late} later"
    metric = metric_named(name)
    own = quantity(found.own.get(metric.name), metric)
    return f"{metric.short} {own}" + (f" against {quantity(found.job.get(metric.name), metric)}" if compared else "")
