"""What traces say of a run that was analysed: how typical what they show is of it, and what its GPUs waited for there."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from gssr.arrays import Ints
from gssr.metrics import SCORE_INPUTS
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.breakdown.result import Breakdown
from gssr.model.joined.match import NS, Match
from gssr.model.results import Analysis, Finding, Judgement, LeadingLoss, Means, Verdict
from gssr.model.statistics.sources import RollupSource, RowSource
from gssr.model.traced import (
    SPLIT,
    IdleTime,
    Traced,
    TracedGap,
    TracedGpu,
    TracedKernel,
    TracedSteps,
    TracedVerdict,
)
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.gpu_names import gpus_of
from gssr.model.traces.lengths import statistics
from gssr.model.traces.trace_results import GpuUse, Step, TraceAnalysis
from gssr.model.verdicts.losses import TRACE_ADVICE
from gssr.model.verdicts.words import damage_text, percent, took
from gssr.store.format.schema import LEVELS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window

WAITING = (
    "io_wait", "communication_bound", "transfer_bound", "cpu_starved", "recurring_dips", "pauses", "launch_gaps",
    "small_kernels", "low_power", "low_use", "unexplained",
)  # fmt: skip
"""Verdicts that say that GPUs wait, or seem to: what for, a trace tells."""
_UNEXPLAINED = ("unexplained", "pauses", "recurring_dips")
"""Verdicts on idle time of which the samples show no cause."""
_BY_TRACE = ", no cause in the samples; in the longest gaps of the trace mostly "
MOST_KERNELS = 20
"""Of a trace those that took longest are told."""
_MOST_TOLD = 2
_MOST_ROWS = 1_000_000
"""So many are kept at a time, of six numbers each."""
_TABLES = ("ranks", "idle", "gaps", "kernels", "steps", "verdicts")


class Scores:
    """Scores of GPUs of a run in parts of a window."""

    def __init__(self, reader: RunReader, window: Window) -> None:
        self.window = window
        self._reader = reader
        self._names = [name for name in SCORE_INPUTS if name in reader.metrics]

    @cached_property
    def _whole(self) -> Means:
        """The sums of the score's metrics over all of the window, read once."""
        every = Window(self.window.start, np.nextafter(self.window.end, np.inf))
        return self._sums(np.arange(len(self._reader.gpus)), every)

    def _sums(self, positions: Ints, window: Window) -> Means:
        """Add up the score's metrics over a part of the window for the GPUs at these positions."""
        return RollupSource(self._reader, positions, 0).sums(self._names, window, np.inf).sums

    def of(self, parts: Sequence[tuple[Ints, Window]]) -> Iterator[tuple[float | None, float | None]]:
        """Score some GPUs inside a window, and in the rest of the window of the scores. ``parts``: positions of GPUs, each
        with a window; rows of windows near each other are read together. Yields both scores of each part, None where
        unknown."""
        if len(self._names) < len(SCORE_INPUTS):
            yield from ((None, None) for _ in parts)
            return
        waiting: list[tuple[Ints, Window]] = []
        n, around = 0, Window()
        for positions, inside in parts:
            together = Window(min(around.start, inside.start), max(around.end, inside.end)) if waiting else inside
            n_rows = (n + len(positions)) * together.seconds / (self._reader.sampling_seconds or 1.0)
            if waiting and (n_rows > _MOST_ROWS or together.seconds > LEVELS[-1]):
                yield from self._of_near(waiting)
                waiting, n, together = [], 0, inside
            waiting.append((positions, inside))
            n, around = n + len(positions), together
        if waiting:
            yield from self._of_near(waiting)

    def _of_near(self, parts: Sequence[tuple[Ints, Window]]) -> Iterator[tuple[float | None, float | None]]:
        """Yield the two scores of each of these parts, at least one, as ``of`` does. The parts should be near each
        other: then rows are read once for all of them; if they are far apart, or samples were thinned, rollups are read
        for each."""
        around = Window(min(inside.start for _, inside in parts), max(inside.end for _, inside in parts))
        if around.seconds > LEVELS[-1] or self._reader.thinned_until > around.start:
            for positions, inside in parts:
                yield self._of(positions, self._sums(positions, inside))
            return
        every = np.unique(np.concatenate([positions for positions, _ in parts]))
        rows = RowSource(self._reader, every, self._names, around).between(self._names, around)
        order = np.argsort(rows.gpu, kind="stable")
        edges = np.searchsorted(rows.gpu[order], np.arange(len(every) + 1))
        for positions, inside in parts:
            names = self._whole.names
            n, total = np.zeros((2, len(names), len(positions)))
            for at, own in enumerate(np.searchsorted(every, positions).tolist()):
                mine = order[edges[own] : edges[own + 1]]
                mine = mine[(rows.time[mine] >= inside.start) & (rows.time[mine] < inside.end)]
                for place, name in enumerate(names):
                    known = rows.values[name][mine]
                    known = known[np.isfinite(known)]
                    n[place, at], total[place, at] = len(known), known.sum()
            yield self._of(positions, Means(names, *inside, n, total))

    def _of(self, positions: Ints, own: Means) -> tuple[float | None, float | None]:
        """Compute the score of the GPUs at these positions inside a part of the window, and in the rest of the window.
        ``own`` holds their counts and sums inside, [n_names, n_positions]. Each is None where it is unknown, both
        without GPUs."""
        if not len(positions):
            return None, None
        whole = self._whole
        total = np.maximum(whole.total[:, positions] - own.total, 0.0)  # not below 0 by the last digit
        rest = replace(whole, n=whole.n[:, positions] - own.n, total=total)
        return own.score(), rest.score()


def looked_at(analysis: Analysis, reader: RunReader) -> dict[int, int]:
    """Find the GPUs of the run that the analysis looks at. Returns the index in ``analysis.gpus`` by their position in the
    run."""
    place = {gpu.gpu: at for at, gpu in enumerate(analysis.gpus)}
    return {position: place[gpu.gpu] for position, gpu in enumerate(reader.gpus) if gpu.gpu in place}


def traced(match: Match, place: Mapping[int, int], scores: Scores) -> Traced | None:
    """Tell what a trace shows of the window of ``scores`` and of the GPUs at these positions, which the result calls by
    their ``place``. None where it shows nothing of them."""
    found = explain_window(match, place.keys(), scores.window)
    return None if found is None else in_run([found], place, scores)[0]


def explain_window(match: Match, positions: Collection[int], window: Window) -> Traced | None:
    """Tell what a trace shows of a window of the run and of the GPUs at these positions; not how typical that is. None
    if the trace is from another time, or only of other GPUs; one that is laid over no GPU is shown for any."""
    concerned = set(match.gpus.values() if match.gpus else match.beside)
    gpus = tuple(sorted(concerned & set(positions)))
    start, end = max(match.start, window.start), min(match.end, window.end)
    if start >= end or (concerned and not gpus):
        return None
    at_of = {track: position for track, position in match.gpus.items() if position in positions}
    found = _part(match, list(at_of), (start, end))
    kernels = statistics(found.lengths["kernels"])
    damage = damage_text(found.sources)
    told = () if damage else found.gpus  # what a damaged file lacks would be taken for idle time
    return Traced(
        path=match.path, rank=match.rank, gpus=gpus, start=start, end=end, share_of_run=0.0,
        score_inside=None, score_outside=None, clock=match.clock, clock_check=match.check, offset_s=match.offset,
        split=_split(found.span_ns, told),
        by_gpu=tuple(
            TracedGpu(at_of[gpu.track], gpu.span_ns / NS, _split(gpu.span_ns, [gpu]))
            for gpu in told
            if gpu.track in at_of and gpu.span_ns
        ),
        idle=tuple(IdleTime(cause, n, ns / NS) for cause, (n, ns) in found.idle.items() if told),
        gaps=tuple(
            TracedGap(gap.start_ns / NS, gap.length_ns / NS, at_of[gap.track], gap.cause,
                      gap.range or gap.call or gap.python)
            for gap in found.gaps
            if gap.track in at_of and told
        ),
        kernels=tuple(
            TracedKernel(str(name), str(category), count, ns / NS)
            for (name, category), count, ns in islice(
                zip(kernels.keys, kernels.count.tolist(), kernels.total.tolist(), strict=True), MOST_KERNELS
            )
        ),
        kernel_seconds=int(kernels.total.sum()) / NS,
        steps=_steps(found.steps),
        verdicts=tuple(TracedVerdict(each.code, each.severity, each.title) for each in found.verdicts),
        notes=(*match.said, *[damage] * bool(damage)),
        breakdown=_seconds_by_category(found.breakdown if told else None),
    )  # fmt: skip


def _seconds_by_category(breakdown: Breakdown | None) -> dict[str, float]:
    """Return the GPU-seconds of each category; empty without a breakdown."""
    if breakdown is None:
        return {}
    seconds = breakdown.by_gpu.sum(axis=0).tolist()
    return {each.name: spent for each, spent in zip(CATEGORIES, seconds, strict=True)}


def in_run(traces: Sequence[Traced], place: Mapping[int, int], scores: Scores) -> list[Traced]:
    """Add to traces how typical they are of the run (their share of its time, the score inside and in the rest), cut
    their times to the window of ``scores``, and number their GPUs as the analysis does: by ``place``, from positions in
    the run."""
    window = scores.window
    inside = [Window(max(each.start, window.start), min(each.end, window.end)) for each in traces]
    told = scores.of([(np.array(each.gpus, np.int64), own) for each, own in zip(traces, inside, strict=True)])
    return [
        replace(
            each, start=own.start, end=own.end, share_of_run=own.seconds / window.seconds,
            score_inside=score, score_outside=rest, **renamed(each, place),
        )
        for each, own, (score, rest) in zip(traces, inside, told, strict=True)
    ]  # fmt: skip


def renamed(found: Traced, place: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields of ``found`` that name GPUs by their positions in the run (``gpus``, ``by_gpu``, ``gaps``), with
    ``place[position]`` instead."""
    return {
        "gpus": tuple(place[gpu] for gpu in found.gpus),
        "by_gpu": tuple(replace(each, gpu=place[each.gpu]) for each in found.by_gpu),
        "gaps": tuple(replace(gap, gpu=place[gap.gpu]) for gap in found.gaps),
    }


def _split(span_ns: int, gpus: Sequence[GpuUse]) -> dict[str, float]:
    """Split the time ``span_ns`` of these GPUs together into shares; what nothing else takes is idle."""
    busy = {name: sum(getattr(gpu, f"{name}_ns") for gpu in gpus) / max(span_ns, 1) for name in SPLIT if name != "idle"}
    return {**busy, "idle": 1 - sum(busy.values())} if gpus else {}


def _steps(steps: Sequence[Step]) -> TracedSteps | None:
    """Describe the steps of a trace, in s; None without any."""
    lengths = [step.length_ns / NS for step in steps]
    total = sum(lengths)
    if not total:
        return None
    known = [step for step in steps if step.busy_ns is not None]
    of = sum(step.length_ns for step in known)
    busy = sum(step.busy_ns or 0 for step in known) / of if of else None
    return TracedSteps(len(steps), total / len(steps), min(lengths), max(lengths), busy)


def _part(match: Match, gpus: Sequence[object], window: tuple[float, float]) -> TraceAnalysis:
    """Analyse the part of a trace within ``window`` (unix s) on these GPUs, and on the threads."""
    own = gpus_of(match.timeline.tracks)
    tracks = np.flatnonzero([gpu is None or gpu in gpus for gpu in own])
    whole = window == (match.start, match.end)
    begin, end = round(window[0] * NS), round(window[1] * NS)
    return analyze_timeline(match.timeline, None if whole else (begin, end), tracks, tables=_TABLES)


def with_traces(analysis: Analysis, traces: Iterable[Traced], refused: Sequence[str] = ()) -> Analysis:
    """Add traces to an analysis, and why others are not there; verdicts get the evidence that the traces give."""
    found = tuple(sorted(traces, key=lambda trace: (trace.rank is None, trace.rank or 0)))
    return replace(
        analysis,
        traces=found,
        judgement=explained_by_traces(analysis.judgement, found),
        notes=(*analysis.notes, *refused),
    )


def explained_by_traces(judgement: Judgement, traces: Sequence[Traced]) -> Judgement:
    """Add to the verdicts about waiting what their GPUs waited for while they were traced, and to the largest loss if the
    samples show no cause of it."""
    verdicts = tuple(explained(verdict, traces) for verdict in judgement.verdicts)
    leading, breakdown = judgement.leading_loss, judgement.breakdown
    most = breakdown.largest_loss if breakdown is not None else None
    if breakdown is not None and most is not None and CATEGORIES[most].name == "idle.unexplained":
        said = next((each for each in verdicts if each.code in _UNEXPLAINED and _BY_TRACE in each.title), None)
        if said is not None:
            text = f"idle{said.title[said.title.index(_BY_TRACE) :]}"
            leading = LeadingLoss(float(breakdown.shares[most]), text)
    return replace(judgement, verdicts=verdicts, leading_loss=leading)


def explained(verdict: Verdict, traces: Sequence[Traced]) -> Verdict:
    """Add to a verdict about waiting, as one more finding, for how long the GPUs of the traces in its time were idle,
    and why its own GPUs were. If one cause makes up most of that, the title of a verdict without a cause names it. Other
    verdicts, and those without a trace in their time, are returned as they are. A trace counts if it has any of the
    verdict's GPUs."""
    if verdict.code not in WAITING:
        return verdict
    own = [
        trace
        for trace in traces
        if trace.split
        and trace.start < verdict.end
        and trace.end > verdict.start
        and (not verdict.gpus or set(verdict.gpus) & set(trace.gpus))
    ]
    if not own:
        return verdict
    idle = float(np.average([trace.split["idle"] for trace in own], weights=[trace.seconds for trace in own]))
    gaps = [gap for trace in own for gap in gaps_within(trace.gaps, verdict.start, verdict.end, verdict.gpus)]
    seconds = max(trace.seconds for trace in own)
    gpus = len({gpu for trace in own for gpu in trace.gpus})
    who = "it was" if gpus == 1 else f"{gpus} GPUs were"
    text = f"in the {took(seconds * NS)} that were traced {who} idle for {percent(idle)}"
    together = " together" if gpus > 1 else ""
    reasons = causes(gaps)
    told = "; ".join(f"{why}, {took(total * NS)}{together}" for why, total in reasons[:_MOST_TOLD])
    finding = Finding("traced_idle", idle, None, f"{text}: {told}" if told else text)
    verdict = replace(verdict, evidence=(*verdict.evidence, finding))
    if verdict.code not in _UNEXPLAINED or not reasons or 2 * reasons[0][1] < sum(seconds for _, seconds in reasons):
        return verdict
    advice = verdict.advice.partition(f" {TRACE_ADVICE}")[0]  # there is one
    return replace(
        verdict, title=verdict.title.replace(", no cause found", f"{_BY_TRACE}{reasons[0][0]}"), advice=advice
    )


def gaps_within(gaps: Iterable[TracedGap], start: float, end: float, gpus: Sequence[int] = ()) -> list[TracedGap]:
    """Pick the gaps that lie at least in part between ``start`` and ``end`` (unix s), in the order given. ``gpus``:
    those of these GPUs alone; none: of all."""
    wanted = set(gpus)
    return [
        gap for gap in gaps if gap.start < end and gap.start + gap.seconds > start and (not wanted or gap.gpu in wanted)
    ]


def causes(gaps: Iterable[TracedGap]) -> list[tuple[str, float]]:
    """Add up the gaps by cause. Returns (cause, seconds), the longest first."""
    total: dict[str, float] = {}
    for gap in gaps:
        total[gap.why] = total.get(gap.why, 0.0) + gap.seconds
    return sorted(total.items(), key=lambda each: -each[1])


def kernel_shares(traces: Iterable[Traced]) -> list[tuple[str, float]]:
    """Add up the kernels of these traces by name. Each trace names only its longest ones. Returns (name, share of the
    time of all kernels, 0-1), those with most time first; [] without kernels."""
    total: dict[str, float] = {}
    every = 0.0
    for trace in traces:
        every += trace.kernel_seconds
        for each in trace.kernels:
            total[each.name] = total.get(each.name, 0.0) + each.seconds
    return [(name, spent / every) for name, spent in sorted(total.items(), key=lambda each: -each[1])] if every else []
