"""What the samples of a run say about the time that traces show: the estimate beside what the kernels tell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gssr.model.account.book import account_for
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.evidence.gather import gather
from gssr.model.traced import Traced
from gssr.model.verdicts.engine import too_few
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window


def with_estimates(traces: Iterable[Traced], reader: RunReader, place: Mapping[int, int]) -> list[Traced]:
    """Give each trace the breakdown that the samples of its GPUs make of its time, as shares by category.

    It is made of the time in which the trace and those that overlap with it were taken, as GPUs can be understood only
    beside the others of their job. ``place``: the numbers by which the traces call the run's GPUs, by position. A
    trace of unknown GPUs, or with too few samples, is left without one.
    """
    position = {at: position for position, at in place.items()}
    found: list[Traced] = []
    for together in _overlapping(traces):
        window = Window(min(trace.start for trace in together), max(trace.end for trace in together))
        evidence = gather(reader, np.arange(len(reader.gpus)), window)
        if not evidence.n_rows.any() or too_few(evidence):
            found += together
            continue
        # A trace's own books know nothing of the run around it, such as that a GPU works later.
        by_gpu = account_for(replace(evidence, whole_run=None)).breakdown.by_gpu
        for trace in together:
            seconds = by_gpu[[position[each.gpu] for each in trace.by_gpu]].sum(axis=0)
            shares = seconds / seconds.sum() if seconds.any() else None
            estimate = {} if shares is None else _by_name(shares.tolist())
            found.append(replace(trace, estimate=estimate))
    return found


def compare_estimates(traces: Iterable[Traced]) -> list[tuple[str, float, float]]:
    """Compare what samples and kernels say of these traces together. Returns for each category its name, and its share
    of the traced GPU time by samples and by kernels; empty without an estimate."""
    known = [trace for trace in traces if trace.estimate and any(trace.breakdown.values())]
    if not known:
        return []
    weights = [sum(trace.breakdown.values()) for trace in known]
    return [
        (
            each.name,
            float(np.average([trace.estimate[each.name] for trace in known], weights=weights)),
            sum(trace.breakdown.get(each.name, 0.0) for trace in known) / sum(weights),
        )
        for each in CATEGORIES
    ]


def _by_name(values: Sequence[float]) -> dict[str, float]:
    """Return ``values``, which are in the order of CATEGORIES, by the names of the categories."""
    return {each.name: value for each, value in zip(CATEGORIES, values, strict=True)}


def _overlapping(traces: Iterable[Traced]) -> list[list[Traced]]:
    """Group traces so that those whose times overlap, directly or by way of others, are together. The groups are in the
    order of time."""
    groups: list[list[Traced]] = []
    end = -np.inf
    for trace in sorted(traces, key=lambda trace: trace.start):
        if trace.start < end:
            groups[-1].append(trace)
        else:
            groups.append([trace])
        end = max(end, trace.end)
    return groups
