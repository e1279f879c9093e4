"""What the rules say in a few lines, on a screen that is still drawn as rows."""

from collections import Counter

from gssr.model.results import Judgement, Verdict
from gssr.render.breakdown import breakdown_bar, headline
from gssr.render.cells import clean, fit
from gssr.render.roles import Row, Span
from gssr.render.scale import count
from gssr.render.verdicts import LOOKS, advice_rows, verdict_rows
from gssr.tui.judge import not_judged
from gssr.tui.view import Scene

ACCOUNT_HEIGHT = 20
"""A screen of so many rows has room to say where the GPU time went."""
_FEW_ROWS = 3
"""Where there are no more rows, a title has one."""
_NOTHING = "nothing stands out: no rule finds a cause of low use"


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
        rows.append((Span(fit(not_judged(scene.frame), width, ellipsis), "dim"),))
    else:
        told = list(found.verdicts)
        if told and told[0].severity != "info":
            first = told.pop(0)
            rows = verdict_rows(first, width, False)
            if len(rows) > 1 and n_rows <= _FEW_ROWS:
                rows = [_title(first, width, ellipsis)]
            rows += advice_rows(first, width, max(n_rows - len(rows) - len(told), 1), ellipsis)
        else:
            rows.append((Span("ok ", "good"), Span(fit(_NOTHING, width - 3, ellipsis), "value")))
        rows += [_title(verdict, width, ellipsis) for verdict in told]
        if not found.verdicts and _abstained(found):
            rows.append((Span(fit(f"   {_abstained(found)}", width, ellipsis), "dim"),))
    return [(Span(label), *row) for row in rows[:n_rows]]


def _title(verdict: Verdict, width: int, ellipsis: str) -> Row:
    """A verdict's mark and title on one line."""
    mark, role = LOOKS[verdict.severity]
    title = fit(clean(verdict.title), width - 3, ellipsis)
    return Span(f"{mark:<3}", role), Span(title, "plain" if verdict.severity == "info" else "value")
