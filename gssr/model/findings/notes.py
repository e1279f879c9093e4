"""Sentences about a recording's data, never about the job: what is missing, and how far numbers can be trusted.

What is said of a recording of whose samples not all were kept.

Do the nodes of a run agree on what time it is?

Times are stored as each node's own clock told them, and corrected when they are read: gssr.store.format.node_clocks.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from gssr.gpu_vendors import words_of
from gssr.metrics import BY_NAME
from gssr.model.findings.stopped_ranks import describe_stopped_ranks
from gssr.model.results import Analysis, GpuSummary
from gssr.model.statistics.aggregate import is_within_a_bin
from gssr.store.format.layout import RELATIVE_BIN_WIDTH
from gssr.store.format.rows import Event, without_ranks
from gssr.store.format.schema import ALL_GPUS, GAP_INTERVALS, LEVELS, NO_GPU, YOUNG_SECONDS
from gssr.store.read.recording import RunReader

_NAMED = 6
_TROUBLE = ("storage", "backend_lost", "import")
"""Kinds of events that cost samples, or say how far they can be trusted; gaps and lost GPUs are counted."""


def notes(
    analysis: Analysis,
    damage: str | None,
    last_time: float | None,
    missing_seconds: float,
    others: Sequence[str] = (),
    thinned: bool = False,
) -> tuple[str, ...]:
    """Return the notes of an analysis, which are sentences; its own ``notes`` are not looked at.

    Args:
        damage: A sentence on what of the file is damaged, None if nothing is.
        last_time: When the last sample was taken, unix s; None if there is none.
        missing_seconds: The time without samples in gaps, summed over GPUs.
        others: Further sentences, put at the end.
        thinned: Whether some samples were not kept.
    """
    return (*_sentences(analysis, damage, last_time, missing_seconds, thinned), *others)


def _sentences(
    analysis: Analysis, damage: str | None, last_time: float | None, missing_seconds: float, thinned: bool
) -> Iterator[str]:
    """Yield the notes of an analysis, sentence by sentence; nothing if there is nothing to say.

    ``damage``: a sentence on what of the file is damaged, or None. ``last_time``: when the last sample was taken, unix
    s, or None. ``missing_seconds``: the time without samples in gaps, summed over GPUs. ``thinned``: some samples were
    not kept.
    """
    last = "" if last_time is None else f"; last sample {_local(last_time, '%H:%M:%S')}"
    if damage:
        yield damage
    if analysis.ranks_missing:
        yield f"not in the recording: {without_ranks(analysis.ranks_missing, analysis.run.world_size)}"
    ranks_lost = [end for end in analysis.ranks_stopped if end.how == "lost"]
    if analysis.n_ranks > 1:
        yield from describe_stopped_ranks(
            analysis.ranks_stopped, analysis.gpu_hours_unmeasured, lambda time: _local(time, "%H:%M:%S")
        )
    if analysis.state == "lost" and not (ranks_lost and analysis.n_ranks > 1):
        yield f"the recording stopped without an end: its sampler is gone{last}"
    elif analysis.state == "running":
        yield f"the run is still going{last}"
    yield from dict.fromkeys(event.message for event in analysis.events if event.kind in _TROUBLE)
    if any(ALL_GPUS in event.message for event in analysis.events):
        yield ALL_GPUS
    if not analysis.gpus:
        yield "".join(["no GPU was recorded, only the host", *why_no_gpu(analysis.events)])
    elif not analysis.n_samples:
        yield "no GPU has samples" if analysis.window.whole else "no GPU has samples in this window"
    else:
        yield from _about_samples(analysis, missing_seconds, thinned)
        yield from _about_the_end(analysis, last_time)


def why_no_gpu(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the reason why no GPU was recorded, as the backend of the first rank that has one gave it: a tuple of one
    clause, or an empty one."""
    reasons = (event.message.removeprefix(NO_GPU) for event in events if event.message.startswith(NO_GPU))
    return tuple(islice(reasons, 1))


def _about_samples(analysis: Analysis, missing_seconds: float, thinned: bool) -> Iterator[str]:
    """Yield sentences on what is missing among the samples: GPUs without any, gaps (``missing_seconds`` in all, summed
    over GPUs), metrics that were not measured, and how exact percentiles are. ``thinned``: some samples were not kept."""
    silent = [gpu for gpu in analysis.gpus if not gpu.n_samples]
    if silent:
        have = "has" if len(silent) == 1 else "have"
        yield f"{len(silent)} of {len(analysis.gpus)} GPUs {have} no samples: {_places(silent)}"
    if analysis.n_gaps:
        gaps = "1 gap" if analysis.n_gaps == 1 else f"{analysis.n_gaps:,} gaps"
        whose = [gpu for gpu in analysis.gpus if gpu.n_gaps]
        few = f" of {_places(whose)}" if len(whose) < len(analysis.gpus) else " of all GPUs"
        yield (
            f"{gaps} of more than {GAP_INTERVALS:g} sampling intervals between samples{few if whose else ''}: about "
            f"{_rounded(missing_seconds)} GPU-seconds are missing"
        )
    absent = [name for name, own in analysis.metrics.items() if not own.n and not BY_NAME[name].derived]
    if absent and len(absent) >= sum(not BY_NAME[name].derived for name in analysis.metrics):
        yield "none of the metrics was measured"
    elif absent:
        said = words_of(analysis.gpus)
        yield f"not measured: {_some([said(BY_NAME[name].label) for name in absent])}"
    if not analysis.exact:
        share = 100 * RELATIVE_BIN_WIDTH / 2
        why = "of which not all samples were kept" if thinned else "of which not all samples were read (--exact does)"
        yield (
            f"percentiles come from histograms: each is off by at most {share:.1f} % of its value"
            if all(is_within_a_bin(own) for own in analysis.metrics.values())
            else f"percentiles are less exact: the window begins or ends within a histogram, {why}"
        )


def _about_the_end(analysis: Analysis, last_time: float | None) -> Iterator[str]:
    """Yield one sentence if the samples stop before the run does. That is not counted as a gap, because no sample
    comes after it.

    ``last_time`` is when the last sample was taken (unix s). Yields nothing if that, the run's end or its sampling
    interval is unknown, or only a part of the run is looked at.
    """
    ended, interval_ms = analysis.run.ended_at, analysis.run.sampling_ms
    if not analysis.window.whole or ended is None or interval_ms is None or last_time is None:
        return
    silence = ended - last_time
    if silence > GAP_INTERVALS * interval_ms / 1000:
        yield f"no samples of the last {_rounded(silence)} s of the run"


def _places(gpus: Sequence[GpuSummary]) -> str:
    """Name the first GPUs, and how many more there are, as ``_some`` does."""
    return _some([gpu.place for gpu in gpus[: _NAMED + 1]], len(gpus))


def _some(names: Sequence[str], n: int | None = None) -> str:
    """Name the first _NAMED, and how many more there are; all if only one more would be left out.

    ``n``: how many there are, if ``names`` are only the first of them; None: these are all.
    """
    n = len(names) if n is None else n
    if n <= _NAMED + 1:
        return ", ".join(names)
    return ", ".join(names[:_NAMED]) + f" and {n - _NAMED} more"


def _rounded(seconds: float) -> str:
    """Round a number to three digits."""
    return f"{float(f'{seconds:.3g}'):,.10g}"


FINEST = float(LEVELS[0])
"""Nothing finer than this, s, can be shown of thinned samples."""

SURELY_WHOLE = YOUNG_SECONDS - 60.0
"""Samples of a growing run that are no older than this, s, have not been thinned, and will not be for a while."""

_LEFT = {
    "10s": f"only means over {FINEST:g} s were kept of",
    "none": f"only statistics for every {FINEST:g} s were kept of",
}


def _local(time: float, form: str) -> str:
    """Write a unix time in this machine's time zone, in the format ``form``; ``second 12345`` if no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(time):{form}}"
    except (ValueError, OverflowError, OSError):
        return f"second {time:.0f}"


def thinning(reader: RunReader) -> str | None:
    """Say in a sentence that not all samples were kept, or return None if all were."""
    until, last = reader.thinned_until, reader.last_time
    if until == -math.inf:
        return None
    which = "the samples"
    if last is not None and last >= until:
        which = f"samples from before {_local(until, '%Y-%m-%d %H:%M:%S')}"
    return (
        f"{_LEFT.get(reader.keep, _LEFT['none'])} {which} (--keep {reader.keep}): "
        f"statistics count all of them, but nothing finer than {FINEST:g} s is known"
    )


_NODES_NAMED = 4


def disagreement(reader: RunReader) -> str | None:
    """Say which nodes' clocks are off, and whether that was corrected; None if they agree, or it isn't known."""
    away = reader.clocks_ahead
    if not away:
        return None
    named = [
        f"{node} is {_seconds(abs(off))} {'ahead' if off > 0 else 'behind'}"
        for node, (off, _) in list(away.items())[:_NODES_NAMED]
    ]
    others = [f"{len(away) - _NODES_NAMED} more nodes differ"] if len(away) > _NODES_NAMED else []
    error = max(error for _, error in away.values())
    corrected = (
        "their times are corrected by that"
        if reader.clocks
        else "every time is by its own node's clock, as not all samples were kept"
    )
    return (
        f"clocks differ by more than a sampling interval: {', '.join([*named, *others])} (within {_seconds(error)}); "
        f"{corrected}"
    )


def _seconds(seconds: float) -> str:
    return f"{float(f'{seconds:.2g}'):.10g} s"
