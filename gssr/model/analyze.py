"""Analysing a run: from its reader to everything that pages, pictures and JSON show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast

import numpy as np

from gssr.gpu_name import select_gpus
from gssr.metrics import BY_NAME, DERIVED, DETECTION_METRICS, METRICS, SCORE_INPUTS
from gssr.model.evidence.gather import MOST_ROWS, evidence_names
from gssr.model.findings.notes import disagreement, notes, thinning
from gssr.model.results import Analysis, AnalysisWindow, GpuMeans, GpuSummary, Judgement, Series, over_space
from gssr.model.statistics.aggregate import UNKNOWN, Aggregate, filtered
from gssr.model.statistics.balance import balance, has_balance, imbalance
from gssr.model.statistics.energy import ENERGY_METRICS, describe_energy, total_joules
from gssr.model.statistics.gpu_time_counts import BITS, FLAGS
from gssr.model.statistics.sources import RollupSource, RowSource, Source, host_use, node_series, processes_on_gpus
from gssr.model.statistics.unmeasured import unmeasured_seconds
from gssr.model.verdicts import judge_window
from gssr.model.verdicts.job import FEWEST_FOR_CAUSES, has_few_samples
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable
from gssr.model.window import cut, extent, looked_at, warm_up_and_tear_down
from gssr.store.format.rows import Gpu
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME, Window

EXACT_ROWS = 200_000
"""A run of up to this many rows is analysed from them; a longer one from its rollups and sketches."""

Outliers = Literal["none", "leading", "trailing", "all"]


@dataclass(frozen=True, slots=True)
class Options:
    """What to look at, and how.

    Args:
        metrics: Names; None for all.
        gpus: Selectors (gssr.gpu_name.select_gpus); None for all.
        start: Where the window begins, as --from takes it (gssr.model.window.parse_time) or a unix time; None: with the
            run.
        end: Where it ends, in the same way.
        outliers: Which of warm-up (leading) and tear-down (trailing) to leave out.
        series: Metrics to make series of. Counters, bit fields and metrics without samples have none.
        bins: The most bins of a series.
        host: Look also at what the nodes did along time, in half as many bins, and at the processes on the GPUs.
        exact: Take statistics from raw rows (True) or from rollups (False); None for what EXACT_ROWS says. Of more rows
            than that everything but statistics is from rollups in any case.
        rules: What the job is judged by.
        causes: Judge the job.
        phases: With the causes, look for phases and how uneven the GPUs were.
        details: Describe also each GPU, each metric's balance, the nodes and the step that repeats, and say what there is
            to note; without them, of which tables tell nothing, a run takes a sixth less.
        progress: Called with the share done (0-1) of what takes long, reading all raw rows.
    """

    metrics: tuple[str, ...] | None = None
    gpus: tuple[str, ...] | None = None
    start: str | float | None = None
    end: str | float | None = None
    outliers: Outliers = "none"
    series: tuple[str, ...] = ()
    bins: int = 72
    host: bool = False
    exact: bool | None = None
    rules: RuleTable = TABLE
    causes: bool = True
    phases: bool = True
    details: bool = True
    progress: Callable[[float], None] | None = None


def analyze(reader: RunReader, options: Options = Options()) -> Analysis:
    """Analyze a run: statistics, series, balance and what the window says about the job (Analysis), for the GPUs, metrics
    and window that ``options`` name. Raises ValueError, with a sentence, when these name a GPU, a metric or a time that the
    run does not have, or ask for exact statistics of samples that were thinned."""
    asked = _asked(options.metrics)
    positions = np.array(select_gpus(reader.gpus, options.gpus), dtype=np.int64)
    run = extent(reader)
    bounds = reader.whole_buckets(cut(run, options.start, options.end))

    drawn = tuple(name for name in options.series if has_balance(BY_NAME[name]))
    extra = () if options.outliers == "none" else DETECTION_METRICS
    names = _in_file(reader, [*asked, *SCORE_INPUTS, *ENERGY_METRICS, "clock_event_reasons", *drawn, *extra])
    exact = reader.has_rows(EXACT_ROWS, bounds) if options.exact is None else options.exact
    if exact and reader.thinned_until > bounds.start:
        raise ValueError(f"not all samples are there to be read: {thinning(reader)}")
    few_rows = EXACT_ROWS if options.exact is None else 0
    gathered = evidence_names(reader)
    rollups = RollupSource(reader, positions, few_rows)
    rows, source = None, cast(Source, rollups)
    if exact and reader.n_rows <= EXACT_ROWS:
        source = rows = RowSource(reader, positions, tuple(dict.fromkeys((*names, *gathered))), bounds)
    elif exact:
        from gssr.model.statistics.exact import ExactSource

        source = ExactSource(reader, positions, rollups, options.progress)
    interval = reader.sampling_seconds or source.aggregate((), bounds, np.inf).interval or 1.0

    window = AnalysisWindow(*bounds.close_at(*run), 0.0, 0.0, bounds == ALL_TIME)
    if options.outliers != "none":
        window = _without_outliers(source, names, window, bounds, interval, options.outliers)
        bounds = Window(window.start if window.leading else bounds.start, window.end if window.trailing else bounds.end)
    if rows is None:
        reader.hold_ends(bounds, filtered(reader, positions))
    total = source.aggregate(names, bounds, GAP_INTERVALS * interval)
    chosen = [reader.gpus[position] for position in positions]
    gpus = _summaries(chosen, total, asked) if options.details else ()
    drawn = tuple(name for name in drawn if total.statistics.get(name, UNKNOWN).n)
    span = Window(window.start, window.end)
    places = looked_at(total.n_rows)
    counted = None
    if rows is None and not reader.has_rows(MOST_ROWS, bounds) and options.causes and len(places) == len(positions):
        cells = [name for name in dict.fromkeys((*gathered, *drawn)) if name != BITS]
        counted = rollups.count(cells, span, bounds, interval)
    gpu_series = source.gpu_series(drawn, span, bounds, interval, options.bins) if drawn else {}
    said = Judgement((), {}, *span)
    if options.causes:
        own_rows = rows.between(gathered, bounds, places) if rows else None
        parts = options.phases, options.details
        said = judge_window(reader, positions, bounds, options.rules, places, own_rows, counted, *parts)
        del counted, own_rows
    means = total.sums.overall()
    energy_j = total_joules(total.joules, total.n_rows, chosen)
    compared = [name for name in asked if has_balance(BY_NAME[name]) and options.details]
    unmeasured = unmeasured_seconds(reader, positions, total.last_time, window.start, window.end)
    analysis = Analysis(
        run=reader.run,
        state=reader.state,
        window=window,
        backend=", ".join(sorted({reader.gpus[position].backend or "" for position in positions} - {""})) or None,
        gpus=gpus,
        n_nodes=_n_nodes(reader, gpus, options.gpus is not None),
        n_samples=int(total.n_rows.sum()),
        n_gaps=int(total.n_gaps.sum()),
        score=total.sums.score(),
        metrics={name: total.statistics.get(name, UNKNOWN) for name in asked if BY_NAME[name].kind != "bits"},
        balance={name: balance(name, gpus) for name in compared},
        clock_event_reasons={name: share for name in FLAGS if (share := means.get(name)) is not None},
        energy_j=energy_j,
        gpu_hours=len(positions) * window.duration / 3600,
        exact=source.exact,
        series={name: over_space(own) for name, own in gpu_series.items()},
        gpu_series=gpu_series,
        events=reader.events,
        notes=(),
        imbalance=imbalance(total.sums.per_gpu("sm_active")),
        host=host_use(reader, bounds) if options.details else None,
        judgement=said,
        ranks_missing=reader.ranks_missing,
        n_ranks=len(reader.processes),
        ranks_stopped=reader.stopped_ranks,
        gpu_hours_unmeasured=float(unmeasured.sum()) / 3600,
        node_series=node_series(reader, span, bounds, options.bins // 2) if options.host else {},
        processes=processes_on_gpus(reader, positions, bounds) if options.host else (),
    )
    if not options.details:
        return analysis
    clocks = disagreement(reader)
    unjudged = said.not_judged and f"not judged: {said.not_judged}"
    energy = describe_energy(total.joules, total.counted_joules, total.n_rows, energy_j)
    is_unsure = said.breakdown is not None and not said.not_judged and has_few_samples(span.seconds, interval)
    few = (
        f"fewer than {FEWEST_FOR_CAUSES} samples of each GPU: another run of the same job may be given other causes of"
    )
    causes = f"{few} idle time" if is_unsure else ""
    others = [
        sentence for sentence in (thinning(reader), reader.recounted, clocks, energy, unjudged, causes) if sentence
    ]
    missing, thinned = _missing(total, interval), reader.keep != "raw"
    return replace(analysis, notes=notes(analysis, reader.damage, reader.last_time, missing, others, thinned))


def _asked(metrics: Sequence[str] | None) -> tuple[str, ...]:
    """List the metrics asked for (None: all known ones) in the catalogue's order. Raises ValueError, with a sentence,
    for an unknown one."""
    known = tuple(metric.name for metric in METRICS + DERIVED)
    for name in metrics or ():
        if name not in BY_NAME:
            raise ValueError(f"unknown metric {name!r}; known: {', '.join(known)}")
    return known if metrics is None else tuple(name for name in known if name in metrics)


def _in_file(reader: RunReader, names: Sequence[str]) -> tuple[str, ...]:
    """Pick, of these metrics, those that the recording has, stored or derived from stored ones. Each is named once, in the
    order given."""
    stored = set(reader.metrics)
    return tuple(
        name
        for name in dict.fromkeys(names)
        if name in stored or ((parts := BY_NAME[name].parts) and stored >= set(parts))
    )


def _without_outliers(
    source: Source, names: Sequence[str], window: AnalysisWindow, bounds: Window, interval: float, outliers: Outliers
) -> AnalysisWindow:
    """Cut the warm-up, the tear-down or both off a window, as ``outliers`` says ("leading", "trailing", "all").

    ``names``: the metrics that the recording has, of which the first that tells work from waiting and has samples
    decides. ``bounds``: the same window as it was asked for, infinite at an end that nobody named. ``interval`` is that
    of sampling, s. Returns the window that is left, with how much was cut off; the same window if no such metric has
    samples.
    """
    span = Window(window.start, window.end)

    def average(name: str, part: Window, bins: int) -> Series:
        """Average a metric over the GPUs in a part of the run, in at most ``bins`` bins. Where the part ends with the run,
        rows outside the run's times count as well."""
        own = Window(
            part.start if part.start > span.start else bounds.start, part.end if part.end < span.end else bounds.end
        )
        within = Window(max(part.start, span.start), min(part.end, span.end))
        return over_space(source.gpu_series([name], within, own, interval, bins)[name])

    for name in DETECTION_METRICS:
        if name not in names:
            continue
        whole = average(name, span, 1)
        if not np.isfinite(whole.mean).any():
            continue
        leading, trailing = warm_up_and_tear_down(partial(average, name), span)
        leading = leading if outliers in ("leading", "all") else 0.0
        trailing = trailing if outliers in ("trailing", "all") else 0.0
        whole_run = window.whole and not (leading or trailing)
        return AnalysisWindow(window.start + leading, window.end - trailing, leading, trailing, whole_run)
    return window


def _summaries(gpus: Sequence[Gpu], total: Aggregate, asked: Sequence[str]) -> tuple[GpuSummary, ...]:
    """Describe each of these GPUs over the window, by what ``total`` counts of them in the same order. ``asked``: the
    metrics whose means are told."""
    names = dict.fromkeys(name for name in asked if BY_NAME[name].kind != "bits")
    sampled, measured = np.flatnonzero(total.n_rows), total.sums.measured()
    columns = {name: total.sums.per_gpu(name, sampled) for name in names if name in measured}
    scores = [None if score != score else score for score in total.sums.scores().tolist()]
    place = np.full(len(gpus), -1, np.int64)
    place[sampled] = np.arange(len(sampled))
    unknown = GpuMeans(names, {}, 0)  # of every GPU without samples
    summaries = []
    for position, gpu in enumerate(gpus):
        own = int(place[position])
        summaries.append(
            GpuSummary(
                gpu=gpu.gpu,
                node=gpu.node,
                rank=gpu.rank,
                device_index=gpu.device_index,
                uuid=gpu.uuid,
                name=gpu.name,
                n_samples=int(total.n_rows[position]),
                n_gaps=int(total.n_gaps[position]),
                score=scores[position],
                mean=GpuMeans(names, columns, own) if own >= 0 else unknown,
                memory_total=gpu.memory_total,
                power_limit=gpu.power_limit,
                max_sm_clock=gpu.max_sm_clock,
                mig=gpu.mig,
                backend=gpu.backend,
            )
        )
    return tuple(summaries)


def _n_nodes(reader: RunReader, gpus: Sequence[GpuSummary], selected: bool) -> int:
    """Count the nodes of the run, as its launcher says or else as they were recorded; of a selection of GPUs count
    theirs."""
    seen = {gpu.node for gpu in gpus}
    if selected:
        return len(seen)
    seen |= {process.node for process in reader.processes}
    return reader.run.n_nodes or len(seen)


def _missing(total: Aggregate, interval: float) -> float:
    """Add up, in seconds, how much time between first and last sample lacks samples, over all GPUs that have gaps.
    ``interval`` is that of sampling, s."""
    gappy = total.n_gaps > 0
    expected = (total.last_time - total.first_time)[gappy]
    return float(np.maximum(expected - (total.n_rows[gappy] - 1) * interval, 0.0).sum())
