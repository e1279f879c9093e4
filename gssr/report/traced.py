"""What traces of the run say: which part of it they show, how typical that is, and what the GPUs waited for there."""

import os
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gssr.gpu_vendors import NVIDIA, maker_of
from gssr.model.breakdown.categories import BRANCHES, CATEGORIES, POSITIONS
from gssr.model.joined.estimates import compare_estimates
from gssr.model.joined.explain import causes, kernel_shares
from gssr.model.results import Analysis
from gssr.model.traced import LATE, SPLIT, Traced
from gssr.model.verdicts.words import took
from gssr.render.breakdown import LEAST_SHOWN
from gssr.render.cells import clean, fit, wrap
from gssr.render.clock import moment
from gssr.render.glyphs import glyph_set
from gssr.render.roles import Row
from gssr.render.scale import NONE, UNKNOWN, count, fixed, percent
from gssr.render.table import TableColumn, table
from gssr.render.verdicts import command_rows
from gssr.report.content import ContentTable
from gssr.report.kernel_profiles import first_launch, profile_command
from gssr.report.page import PageOptions, remark, rest_rows, section, time_axis

_DROPPED = {"Clock": 5, "From": 4, "Compute": 3, "Exp.comm": 2, "Exp.copy": 2}
"""Columns that a narrow page lacks."""
_TOLD = 0.01
"""Causes of less of the idle time are not told."""
_KERNELS, _CODES = 3, 6
_MOST = {"low": 0, "medium": 8, "high": 1000}
"""Rows of ranks, and of gaps half as many."""


def traced_table(analysis: Analysis) -> ContentTable | None:
    """Build a table with a row for each trace, without columns in which nothing is known; None without traces."""
    axis = time_axis(analysis)
    rows = tuple(
        (
            NONE if trace.rank is None else f"{trace.rank}",
            "moved" if trace.clock == "by comparison" else trace.clock_text.rpartition(", ")[2],
            moment(trace.start - axis.origin, axis.end - axis.origin),
            took(trace.seconds * 1e9),
            percent(trace.share_of_run),
            fixed(trace.score_inside, 3, UNKNOWN),
            fixed(trace.score_outside, 3, UNKNOWN),
            *(percent(trace.split.get(name)) for name in SPLIT),
        )
        for trace in analysis.traces
    )
    n_text = 2
    head = ("Rank", "Clock", "From", "Lasts", "Of it", "Score", "Rest", "Compute", "Exp.comm", "Exp.copy", "Idle")
    known = [at for at in range(len(head)) if at < n_text or any(row[at] not in (UNKNOWN, NONE) for row in rows)]
    rows = tuple(tuple(row[at] for at in known) for row in rows)
    return (
        ContentTable(tuple(head[at] for at in known), rows, n_text, tuple(waits([trace]) for trace in analysis.traces))
        if rows
        else None
    )


def waits(traces: Sequence[Traced]) -> str:
    """Say in a sentence what the GPUs of these traces waited for; "" if that is not known."""
    seconds: dict[str, float] = {}
    for trace in traces:
        for each in trace.idle:
            seconds[each.cause] = seconds.get(each.cause, 0.0) + each.seconds
    idle = sum(seconds.values())
    if not idle:
        return ""
    shares = [
        f"{LATE[cause]} {percent(spent / idle)}"
        for cause, spent in sorted(seconds.items(), key=lambda each: -each[1])
        if spent >= _TOLD * idle
    ]
    together = " together" if len(traces) > 1 else ""
    why = causes(gap for trace in traces for gap in trace.gaps)[:2]
    longest = [f"{clean(fit(text, 60, '…'))}, {took(spent * 1e9)}{together}" for text, spent in why]
    return f"idle: {', '.join(shares)}" + (f"; in the longest gaps {'; '.join(longest)}" if longest else "")


def worked(traces: Sequence[Traced]) -> str:
    """Name the _KERNELS kernels of these traces that took longest, in a line; "" without any."""
    longest = [f"{clean(fit(name, 40, '…'))} {percent(share)}" for name, share in kernel_shares(traces)[:_KERNELS]]
    return f"kernels: {', '.join(longest)}" if longest else ""


def judged(traces: Sequence[Traced]) -> str:
    """Name what rules for traces have found in these, and in how many of them, in a line; "" for nothing."""
    found = Counter(code for trace in traces for code in {verdict.code for verdict in trace.verdicts})
    among = f" ({{}} of {len(traces):,})" if len(traces) > 1 else ""
    codes = [f"{clean(code)}{among.format(f'{n:,}')}" for code, n in found.most_common(_CODES)]
    return f"by themselves they show: {', '.join(codes)}; gssr analyze TRACE says more" if codes else ""


def typical(traces: Sequence[Traced]) -> str:
    """Say how the score while traced compares with the rest of the run; "" if either is unknown."""
    scores = [(trace.score_inside, trace.score_outside, trace.seconds) for trace in traces]
    known = [(own, rest, weight) for own, rest, weight in scores if own is not None and rest is not None]
    if not known:
        return ""
    own, rest = (float(np.average([each[at] for each in known], weights=[each[2] for each in known])) for at in (0, 1))
    return f"score {own:.3f} while traced, {rest:.3f} in the rest of the run"


def traced_texts(traces: Sequence[Traced]) -> list[str]:
    """What is to be said of them all."""
    return [f"{text[0].upper()}{text[1:]}." for text in (typical(traces), *_together(traces)) if text]


def _together(traces: Sequence[Traced]) -> tuple[str, str, str]:
    return waits(traces), worked(traces), judged(traces)


def _compared(traces: Sequence[Traced], options: PageOptions) -> list[Row]:
    """Draw where the GPU time went while traced, by samples and by kernels: a row for each branch, and for each cause
    of idle time. No rows if there is nothing to compare."""
    found = compare_estimates(traces)
    if not found:
        return []
    rows: list[tuple[str, float, float]] = []
    for branch in BRANCHES:
        own = [(name, estimate, share) for name, estimate, share in found if name.partition(".")[0] == branch]
        rows.append((branch, sum(each[1] for each in own), sum(each[2] for each in own)))
        if branch == "idle":
            rows += [(f"  {CATEGORIES[POSITIONS[name]].label}", estimate, share) for name, estimate, share in own]
    columns = [TableColumn("while traced")]
    columns += [TableColumn(title, "right") for title in ("by samples", "by the trace", "difference")]
    shown = [
        (label, percent(estimate), percent(share), f"{100 * (estimate - share):+.1f}")
        for label, estimate, share in rows
        if max(estimate, share) >= LEAST_SHOWN
    ]
    return [(), *table(columns, shown, options.width, glyph_set(options.ascii))]


def _next_to_profile(analysis: Analysis, width: int) -> list[Row]:
    """Name the kernel that computes with the most time, and the command that measures it with Nsight Compute. No rows for
    GPUs that are not NVIDIA's, or without such a kernel."""
    shares = kernel_shares(analysis.traces)
    computes = {each.name for trace in analysis.traces for each in trace.kernels if each.category == "compute"}
    name, share = next((each for each in shares if each[0] in computes), ("", 0.0))
    others = [each for each, _ in shares if each != name]
    command = profile_command(name, others) if maker_of(analysis.gpus) == NVIDIA else None
    if command is None:
        return []
    text = f"{clean(fit(name, 60, '…'))} takes {percent(share)} of the time of all kernels; to measure "
    return [*wrap(f"{text}{first_launch(name, others)}:", width), *command_rows(command, width, role="value")]


def traced(analysis: Analysis, options: PageOptions) -> list[Row]:
    """Draw the part of the page about the run's traces; no rows without any."""
    found = traced_table(analysis)
    if found is None:
        return []
    width, marks, traces = options.width, glyph_set(options.ascii), analysis.traces
    shown = traces[: max(_MOST[options.verbosity], 1)]
    files = ", ".join(clean(os.path.basename(trace.path)) for trace in traces[:2])
    rows = section("What was traced?", width, marks, "the run that is around it as the rest")
    more = f" and {len(traces) - 2} more" if len(traces) > 2 else ""
    rows += remark(f"{fit(files, 80, marks.ellipsis)}{more}", width, "plain", "traces")
    if score := typical(traces):
        rows += remark(score, width, "plain", "typical")
    columns = [
        TableColumn(title, "left" if at < found.n_text else "right", drop=_DROPPED.get(title, 0))
        for at, title in enumerate(found.head)
    ]
    rows += [(), *table(columns, found.rows[: len(shown)], width, marks)]
    rows += rest_rows(len(traces) - len(shown), "trace", "-v high", width)
    for text in _together(traces):
        rows += wrap(text, width) if text else []
    rows += _next_to_profile(analysis, width)
    rows += _compared(traces, options)
    axis, n_gaps = time_axis(analysis), _MOST[options.verbosity] // 2
    gaps = sorted((gap for trace in shown for gap in trace.gaps), key=lambda gap: -gap.seconds)[:n_gaps]
    for gap in gaps:
        at_text = moment(gap.start - axis.origin, axis.end - axis.origin)
        on = f" on {clean(analysis.gpus[gap.gpu].place)}" if len(analysis.gpus) > 1 else ""
        text = f"at {at_text}{on}: {clean(fit(gap.why, 100, marks.ellipsis))}"
        rows += wrap(text, width, f"{took(gap.seconds * 1e9):>10}  ", " " * 12)
    said: dict[str, list[str]] = {}
    for trace in shown:
        for text in trace.notes:
            said.setdefault(text, []).append(clean(os.path.basename(trace.path)))
    for text, names in said.items():
        others = f" and {count(len(names) - 1, 'other')}" if names[1:] else ""
        rows += wrap(f"{names[0]}{others}: {text}", width, f"{marks.bullet}  ", "   ", "dim")
    return rows
