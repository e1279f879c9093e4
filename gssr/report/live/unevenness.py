"""What Balance says in words: what the imbalance is, what it costs, and of what kind it is; the lowest nodes, and the places
in them."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.metrics import DETECTION_METRICS
from gssr.model.account.late_gpus import LATE_CODES
from gssr.model.findings.imbalance import BEHIND, device_indices
from gssr.model.live.live_result import Result
from gssr.model.live.steady_order import SteadyOrders
from gssr.model.results import Imbalance, Unevenness
from gssr.model.verdicts.awaited_gpus import WAITS
from gssr.render.cells import cell_width, clean, clip, fit, flow, pad
from gssr.render.columns import bar
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import UNKNOWN, count, difference, fixed, metric_of, number, percent, quantity, signed
from gssr.report.live.judgement import not_judged
from gssr.report.live.marked_gpus import mark_of_several
from gssr.report.live.metric_scales import full_scale
from gssr.report.live.times_of_run import at_text, judged_part_text, part_text

ROTATES_IN, ROTATES_FEWEST = 0.2, 3
"""Stragglers rotate where some GPU is behind in at least this share of the columns, no GPU in more than half of these, and
at least so many GPUs at some time (thresholds of our own)."""
INDEX_SHARE, INDEX_BELOW = 0.8, 0.05
"""A place in the node is slow where the GPUs there are below their node's mean in at least this share of the nodes, and on
average by this share of the full scale (thresholds of our own)."""
IN_TURN = 0.25
"""Rows of a trace take turns where the imbalance column by column is this much above that of their means (a threshold of our
own): two that work one after another differ by half."""
_FEW_HOURS = 0.01
"""Less than this many GPU-hours is told in GPU-seconds."""
_TOLD = 0.005
"""A smaller share of the GPU time is no cost worth a sentence."""
UNEVEN = 0.1
"""An imbalance above this deserves a look. Source: TraceML's warning threshold."""
_NAMED = 3


def facts(frame: Result, found: Imbalance) -> list[Row]:
    """List the numbers behind the sentence, piece by piece. The worst minute is left out of a trace, GPU-hours where
    rows are nodes, and the score if it is known neither now nor for the median."""
    of_means, resolved = percent(found.of_means), percent(found.resolved)
    pieces: list[Row] = [
        (Span("imbalance "), Span(of_means, "value"), Span(" of the means over time")),
        (Span(resolved, "value"), Span(" column by column")),
    ]
    if found.worst is not None and frame.part is None:
        when = at_text(frame, found.worst_start)
        pieces.append((Span("worst minute "), Span(when, "value"), Span(f" {percent(found.worst)}")))
    if not frame.by_node:
        pieces.append(_cost(found, frame.noun))
    before, after = frame.window.score(frame.looked_at), frame.unevenness.score_as_median
    if before is None and after is None:
        return pieces
    gain = "" if before is None or after is None else f" ({signed(after - before, 3)})"
    scores = f"{fixed(before, 3, UNKNOWN)} -> {fixed(after, 3, UNKNOWN)}"
    pieces.append((Span("if all ran like the median GPU: score "), Span(scores, "value"), Span(gain)))
    return pieces


def _cost(found: Imbalance, noun: str) -> Row:
    """Say how much less GPU time is used than by the busiest row (a ``noun``) of each moment, of how much, and which part is
    constant and which rotates; in GPU-seconds if there are less than _FEW_HOURS. Says "lost unknown" if it is."""
    unit, size = ("GPU-hours", 1) if found.gpu_hours >= _FEW_HOURS else ("GPU-seconds", 3600)
    if found.lost is None or found.static is None:
        return (Span(f"{unit} "), Span(_amount(found.gpu_hours * size), "value"), Span(", lost unknown"))
    all_, lost, static = (_amount(hours * size) for hours in (found.gpu_hours, found.lost, found.static))
    rotating = _amount((found.lost - found.static) * size)
    parts = f" of {all_}: {static} constant, {rotating} rotating"
    return (Span(f"{unit} less than the busiest {noun} of each moment "), Span(lost, "value"), Span(parts))


def costs(frame: Result, found: Imbalance) -> str:
    """Say what the imbalance costs, by its two measures: how much time GPUs do no work while others do, as pages tell it,
    which a slow GPU may have a part of, and how much less is done than by the busiest at each moment. Without the first
    while there is no breakdown; "" if the second is unknown or below _TOLD."""
    if found.resolved is None or found.resolved < _TOLD:
        return ""
    most = f"if each did as much as the {frame.noun} that does most at each moment"
    less = f"The {frame.noun}s do {percent(found.resolved)} less than {most}"
    breakdown = None if frame.judgement is None else frame.judgement.breakdown
    if breakdown is None:
        return f"{less}."
    waiting = percent(sum(map(breakdown.share, WAITS)))
    judged = "" if part_text(frame) == judged_part_text(frame) else " of the run so far"
    return f"In {waiting} of the GPU time{judged} a GPU idles or waits in communication while others work. {less}."


def _amount(amount: float) -> str:
    return fixed(amount, 1 if amount >= 100 else 2 if amount >= 1 else 3)


def reads_as(frame: Result, orders: SteadyOrders, found: Imbalance) -> Row:
    """Say of what kind the imbalance is, with the numbers that say so; that there is nothing to compare if fewer than
    two rows have samples, and "balanced" if no kind fits.

    A kind begins with "! ". While a run grows, by a metric that verdicts look at, this is what the verdicts say: they
    need more evidence, and are not withdrawn at once.
    """
    known = np.isfinite(found.means)
    if known.sum() < 2:
        return (Span(f"one {frame.noun}: nothing to balance" if known.any() else "no samples in this window", "dim"),)
    if frame.is_live and frame.query.causes is not None and frame.grid.metric in DETECTION_METRICS:
        return _as_judged(frame)
    for kind in (_rotating, _by_index, _some_gpus, _everywhere, _in_turn):
        text = kind(frame, orders, found)
        if text:
            return (Span("! ", "outlier"), Span(text, "value"))
    return (Span(f"balanced: no {frame.noun} stands out", "value"),)


def _as_judged(frame: Result) -> Row:
    """Quote the first verdict about certain GPUs or late ones; "balanced" if there is none, and why there is no
    judgement yet."""
    judged = frame.judgement
    if judged is None:
        return (Span(not_judged(frame), "dim"),)
    about = (verdict for verdict in judged.verdicts if verdict.gpus or verdict.code in LATE_CODES)
    verdict = next(about, None)
    if verdict is None:
        return (Span(f"balanced: no {frame.noun} stands out", "value"),)
    return (Span("! ", "outlier"), Span(clean(verdict.title), "value"))


def _rotating(_frame: Result, _orders: SteadyOrders, found: Imbalance) -> str:
    """Say that the GPUs fall behind in turn, by the thresholds above; "" if they do not."""
    rotates = (
        found.behind_any >= ROTATES_IN
        and found.behind_most <= found.behind_any / 2
        and found.n_behind >= ROTATES_FEWEST
        and not len(found.low)
    )
    if not rotates:
        return ""
    return (
        f"rotates: some GPU is behind (below {percent(BEHIND)} of the median GPU) in {percent(found.behind_any)} of the "
        f"columns, no GPU in more than {percent(found.behind_most)}; time means hide it"
    )


def _in_turn(frame: Result, _orders: SteadyOrders, found: Imbalance) -> str:
    """Say that rows are equally busy, but at different times. "" if they are not, or the result is not of a trace,
    whose columns are exact."""
    if frame.part is None or found.resolved is None or found.of_means is None:
        return ""
    if found.resolved - found.of_means < IN_TURN:
        return ""
    return f"in turn: alike over time ({percent(found.of_means)}), but not at the same time ({percent(found.resolved)})"


def _by_index(frame: Result, orders: SteadyOrders, found: Imbalance) -> str:
    """Say which GPU index is below its node's mean on most nodes; "" if there is none, there are fewer than two nodes,
    or a few GPUs would explain it alone."""
    metric = metric_of(frame.grid.metric)
    groups = frame.unevenness.by_index
    n_nodes = int(np.count_nonzero(np.bincount(frame.node_of[found.gpus])))
    full = full_scale(frame, metric.name)
    least = INDEX_BELOW * full
    slow = np.flatnonzero((groups.share >= INDEX_SHARE) & (groups.below >= least) & (groups.keys >= 0))
    a_few = 0 < len(found.low) < INDEX_SHARE * n_nodes  # whose mean would stand for the others of their place
    if n_nodes < 2 or not len(slow) or a_few:
        return ""
    at = slow[orders.steady(frame, "slow places", slow, -groups.below[slow], full)[0]]
    known = found.gpus[np.isfinite(found.means)]
    n_with = int(np.count_nonzero(device_indices(frame.gpus)[known] == groups.keys[at]))
    n_below = round(float(groups.share[at]) * n_with)
    return (
        f"constant, by place: GPU {groups.keys[at]} of each node is on average "
        f"{difference(float(groups.below[at]), metric)} below the mean of its node, and below it in {n_below:,} of "
        f"{count(n_with, 'node')}"
    )


def _some_gpus(frame: Result, orders: SteadyOrders, found: Imbalance) -> str:
    """Say which GPUs are below the others, or without any which are above; "" if none stands out."""
    metric = metric_of(frame.grid.metric)
    apart, side = (found.low, "below") if len(found.low) else (found.high, "above")
    if not len(apart):
        return ""
    apart = np.sort(apart)
    from_furthest = found.means[apart] if side == "below" else -found.means[apart]
    apart = apart[orders.steady(frame, side, found.gpus[apart], from_furthest, full_scale(frame, metric.name))]
    middle = quantity(float(np.nanmedian(found.means)), metric)
    mean = quantity(float(found.means[apart].mean()), metric)
    who = _named(frame, found.gpus[apart])
    for_a_time = side == "below" and 0 < found.behind_most < 0.5
    kind = f"constant, for {percent(found.behind_most)} of the time" if for_a_time else "constant"
    over = "over all of the time " if for_a_time else ""
    return f"{kind}: {who} {side} the others, {over}{mean} against the median GPU's {middle}"


def _named(frame: Result, gpus: Ints) -> str:
    """Name GPUs (positions), or their nodes if these are all GPUs of those nodes; the first _NAMED, and how many more."""
    nodes, counts = np.unique(frame.node_of[gpus], return_counts=True)
    sizes = np.bincount(frame.node_of)
    if len(gpus) > 1 and (counts == sizes[nodes]).all():
        word = "node" if len(nodes) == 1 else f"{len(nodes):,} nodes"
        return f"{word} {_some([frame.nodes[node] for node in nodes[: _NAMED + 1]], len(nodes))}"
    names = [frame.place(int(gpu)) for gpu in gpus[: _NAMED + 1]]
    return (f"{count(len(gpus), 'GPU')}: " if len(gpus) > 1 else "") + _some(names, len(gpus))


def _some(names: Sequence[str], n: int) -> str:
    shown = ", ".join(clean(name) for name in names[:_NAMED])
    return shown if n <= _NAMED else f"{shown} and {n - _NAMED:,} more"


def _everywhere(frame: Result, _orders: SteadyOrders, found: Imbalance) -> str:
    """Say that all GPUs differ, and from what to what; "" if the imbalance of their means is below UNEVEN or unknown."""
    if found.of_means is None or found.of_means < UNEVEN:
        return ""
    metric = metric_of(frame.grid.metric)
    ends = [
        f"{quantity(float(found.means[at]), metric)} ({clean(frame.place(int(found.gpus[at])))}, the {which})"
        for at, which in ((int(np.nanargmin(found.means)), "lowest"), (int(np.nanargmax(found.means)), "highest"))
    ]
    return f"constant: uneven over all GPUs, from {' to '.join(ends)}"


def lowest(
    frame: Result, orders: SteadyOrders, uneven: Unevenness, width: int, room: int, glyphs: Glyphs
) -> list[Row]:  # fmt: skip
    """List the nodes with the lowest means, below a title; if there is only one node, its GPUs. At most ``room`` rows
    of ``width`` cells."""
    nodes, found = uneven.by_node, uneven.imbalance
    if len(nodes.keys) > 1:
        title, keys, means = f"lowest of {count(len(nodes.keys), 'node')}", nodes.keys, nodes.means
        name_of, key_of = [frame.nodes[key] for key in keys.tolist()], frame.node_of[found.gpus]
    else:
        known = np.flatnonzero(np.isfinite(found.means))
        title, keys, means = f"lowest of {count(len(known), frame.noun)}", found.gpus[known], found.means[known]
        name_of, key_of = [frame.place(key) for key in keys.tolist()], found.gpus
    rank = orders.steady(frame, title, keys, means, full_scale(frame, frame.grid.metric))[:room]
    marks = [
        mark_of_several(frame, found.gpus[key_of == key].tolist(), glyphs.levels.isascii())
        for key in keys[rank].tolist()
    ]
    return _ranked(frame, title, [name_of[at] for at in rank.tolist()], means[rank], marks, width, room, glyphs)


def places(frame: Result, uneven: Unevenness, width: int, room: int, glyphs: Glyphs) -> list[Row]:
    """List the mean of each GPU index in the node, in the order of the index, below a title; on few lines if ``room``
    is short. Empty if there are fewer than two nodes or two indices."""
    groups, found = uneven.by_index, uneven.imbalance
    n_nodes = int(np.count_nonzero(np.bincount(frame.node_of[found.gpus])))
    if len(groups.keys) < 2 or n_nodes < 2:
        return []
    title = f"by GPU index, mean over {count(n_nodes, 'node')}"
    if len(groups.keys) > room - 1:
        metric = metric_of(frame.grid.metric)
        pieces: list[Row] = [
            (Span(f"{key} ", "dim"), Span(number(mean, metric), "value"))
            for key, mean in zip(groups.keys.tolist(), groups.means.tolist(), strict=True)
        ]
        return [(Span(title, "dim"),), *flow(pieces, width, glyphs.ellipsis)[: room - 1]]
    return _ranked(
        frame,
        title,
        [str(key) for key in groups.keys.tolist()],
        groups.means,
        [("", "plain")] * len(groups.keys),
        width,
        room,
        glyphs,
    )


def _ranked(
    frame: Result, title: str, names: list[str], means: Floats, marks: Sequence[tuple[str, Role]], width: int, room: int,
    glyphs: Glyphs,
) -> list[Row]:  # fmt: skip
    """List a mark, a name, a mean and a bar on each line below a title; at most ``room`` rows."""
    metric = metric_of(frame.grid.metric)
    full = full_scale(frame, metric.name)
    size = min(max((cell_width(clean(name)) for name in names), default=0), max(width // 2, 1))
    draw_bar = partial(bar, glyphs=glyphs)
    rows: list[Row] = [(Span(fit(title, width, glyphs.ellipsis), "dim"),)]
    for name, mean, (mark, role) in zip(names, means.tolist(), marks, strict=True):
        text = f"{number(mean, metric):>7} "
        rows.append(
            (
                Span(f"{mark:<2}", role),
                *pad((Span(fit(name, size, glyphs.ellipsis)),), size),
                Span(text, "value"),
                *draw_bar(mean / full, max(min(width - size - len(text) - 2, 60), 0)),
            )
        )
    return [clip(row, width) for row in rows[:room]]
