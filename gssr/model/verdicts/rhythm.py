"""Rules about the course of the work: dips that come again, pauses, and a job that grows slower."""

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from gssr.model.evidence.evidence import over_gpus
from gssr.model.findings.dips import cycle
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job, level_of, positions, stretches
from gssr.model.verdicts.table import LEAD, Found, Rule, Threshold, finding, rule, told

_CARRIERS = (
    ("write_bytes", "the disks write"),
    ("read_bytes", "the disks read"),
    ("net_tx_bytes", "the network sends"),
    ("net_rx_bytes", "the network receives"),
    ("c2c_tx_bytes", "C2C sends"),
    ("c2c_rx_bytes", "C2C receives"),
    ("pcie_tx_bytes", "PCIe sends"),
    ("pcie_rx_bytes", "PCIe receives"),
    ("nvlink_tx_bytes", "NVLink sends"),
)
"""What may be busy in a dip, in the order of telling."""


@rule(
    "info", "Every {period} the GPUs wait for {length}{what}",
    (
        Threshold("depth", 0.3, "activity falls by at least this share of the working level"),
        Threshold("correlation", 0.3, "and again after one period: the autocorrelation is at least this"),
        Threshold("pairs", 3.0, "and more than this many pairs of dips, as far apart by chance, would make it"),
        Threshold("periods", 4.0, "at least this many times: the distances of fewer may be equal by chance", least=2.0),
        Threshold("filled", 0.67, "and fill at least this share of the time from the first to the last"),
        Threshold("samples", 8.0, "a period is at least this many samples long: a shorter one may be a beat with steps"),
        Threshold("brief", 3.0, "dips of fewer samples may be a beat, too, unless between them ..."),
        Threshold("flat", 0.15, "... three quarters of the samples are within this share of the working level"),
        Threshold("regular", 0.2, "dips too irregular for a correlation: their distances' deviation is below this share"),
        Threshold("lost", 0.02, "and at least this share of the work is lost to it"),
        Threshold("steps", 10.0, "a shorter period is that of steps: it is reported as information, whatever is lost"),
        Threshold("warning", 0.08, "from this share on it is a warning"),
        Threshold("critical", 0.3, "from this share on it is critical"),
        Threshold("more", 1.5, "what a link or a disk carries then is reported from this many times its usual rate on"),
    ),
    "See what the program does at this rhythm (checkpoint, validation, data loading): do it less often, or in the "
    "background beside the computation.",
    needs=(LEAD,), explains=("pauses", "low_use"),
)  # fmt: skip
def recurring_dips(job: Job, rule: Rule) -> Found | None:
    """Activity falls again and again after the same time."""
    course = job.evidence.course
    if job.lead is None or not np.isfinite(job.level):
        return None
    times = course.start + course.width * np.arange(len(course.values[job.lead]))
    inside = (times >= job.span[0] - course.width / 2) & (times + course.width <= job.span[1] + course.width / 2)
    own = job.in_course()[inside]
    level = level_of(own, job.common("working"), job.common("idle"))
    if not np.isfinite(level) or len(own) < 4 * rule.at("periods"):
        return None
    depth = np.clip(1 - _filled(own) / level, 0.0, 1.0)
    deep = depth >= rule.at("depth")
    if deep.all():
        return None
    begin, end = int(np.argmin(deep)), len(deep) - int(np.argmin(deep[::-1]))  # a dip at an end isn't whole
    own, depth, deep, times = own[begin:end], depth[begin:end], deep[begin:end], times[inside][begin:end]
    lost = float(np.where(deep, depth, 0.0).mean())
    dips = stretches(deep)
    if lost < rule.at("lost") or len(dips) < rule.at("periods"):
        return None
    lag, correlation = period(np.where(deep, depth, 0.0), rule.at("periods"))
    seconds, rhythm = lag * course.width, f"autocorrelation {correlation:.2f}"
    if correlation < max(rule.at("correlation"), rule.at("pairs") / len(dips)):
        wavering = cycle(own, course.width)  # whose distances differ too much for a correlation
        apart = np.diff([(first + end) / 2 for first, end in dips])
        if wavering is None or wavering.period is None or len(apart) < rule.at("periods"):
            return None
        if float(apart.std()) > rule.at("regular") * float(apart.mean()):
            return None
        seconds = wavering.period
        rhythm = f"their distances differ by {words.percent(float(apart.std() / apart.mean()))}"
    reach = (dips[-1][0] - dips[0][0]) * course.width
    if seconds < rule.at("samples") * course.width or (len(dips) - 1) * seconds < rule.at("filled") * reach:
        return None
    samples = float(np.median([end - first for first, end in dips]))
    if samples < rule.at("brief") and float(np.percentile(depth[~deep], 75)) > rule.at("flat"):
        return None
    length = samples * course.width
    bins: Floats = np.where(job.steady, job.lost_in(np.asarray(times[deep], np.float64), course.width), 0.0)
    extra = carried(job, bins > 0, job.working & (bins == 0), rule.at("more"))
    what = f", while {extra[0].text.removesuffix(' meanwhile')}" if extra else ""
    evidence = (
        told("seconds", seconds, f"period {words.duration(seconds)}, {rhythm}"),
        finding("share", lost, "of the work lost", rule, "lost"),
        *extra,
    )
    won = lost / (1 - min(job.spins(bins > 0.5) / level, 0.5)) if job.lead == "sm_active" else lost
    found = {"period": words.duration(seconds), "length": words.duration(length), "what": what}
    is_long = seconds >= rule.at("steps")
    dipped, reached = bins > 0.5, job.activity >= job.common("working") * job.gpu_levels[:, None]
    # Where some GPU works through nearly all of the dips, the others wait for that one.
    is_apart = is_long and job.share(dipped & reached.any(axis=0)) < job.common("explained") * job.share(dipped)
    severity = rule.graded(lost) if is_long else rule.severity
    return Found(found, evidence, severity, job.span, (), bins, lost=won, apart=is_apart)


def _filled(values: Floats) -> Floats:
    """NaN interpolated."""
    at = np.arange(len(values))
    known = np.isfinite(values)
    return np.interp(at, at[known], values[known])


def period(values: Floats, periods: float) -> tuple[float, float]:
    """The lag after which values [n] come again, and their autocorrelation there; (0, 0) when they don't.

    The autocorrelation (by FFT, unbiased) of the values, smoothed over a twentieth of the lag so that a period may waver a
    little: its highest peak after it first fell below half of the threshold of chance, 2 / sqrt(n), up to n / ``periods``;
    of several that are nearly as high (a period's multiples) the first."""
    n = len(values)
    centred = values - values.mean()
    spread = float(centred @ centred)
    most = int(n // periods)
    if spread <= 0 or most < 2:
        return 0.0, 0.0
    spectrum = np.fft.rfft(centred, 2 * n)
    own = np.fft.irfft(spectrum * np.conj(spectrum), 2 * n)[: most + 2] / spread
    own *= n / (n - np.arange(len(own)))
    fallen = np.flatnonzero(own < 2 / np.sqrt(n))
    if not len(fallen) or fallen[0] >= most:
        return 0.0, 0.0
    sums = np.concatenate(([0.0], np.cumsum(own)))
    lags = np.arange(int(fallen[0]), most + 1)
    half = np.maximum(lags // 40, 0)
    low, high = np.maximum(lags - half, 0), np.minimum(lags + half + 1, len(own))
    smooth = (sums[high] - sums[low]) / (high - low)
    peaks = np.flatnonzero((smooth[1:-1] >= smooth[:-2]) & (smooth[1:-1] > smooth[2:])) + 1
    if not len(peaks):
        return 0.0, 0.0
    best = float(smooth[peaks].max())
    if best <= 0:
        return 0.0, 0.0
    at = int(peaks[np.flatnonzero(smooth[peaks] >= 0.8 * best)[0]])
    left, middle, right = smooth[at - 1 : at + 2].tolist()
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend else 0.0
    return float(lags[at]) + shift, middle


@rule(
    "info", "{who} paused {times}, {longest} at most: {share} of the time",
    (
        Threshold("more", 1.5, "what a link or a disk carries then is reported from this many times its usual rate on"),
        Threshold("share", 0.02, "all GPUs together pause (as above) for at least this share of the time"),
        Threshold("gr_engine_active", 0.9, "and their engines are less active than this: no kernel spins meanwhile, ..."),
        Threshold("samples", 3.0, "by NVML alone they are this many samples long: fewer may be the gaps of short steps"),
        Threshold("alone", 0.25, "... or no more than this share of the GPUs works, for which the others wait ..."),
        Threshold("lasting", 10.0, "... for this many seconds at a time: shorter waits are part of steps"),
        Threshold("warning", 0.05, "from this share on it is a warning"),
        Threshold("critical", 0.25, "from this share on it is critical"),
    ),
    "See in the program's log what it did then: output, evaluation, a new compilation, a wait for the file system.",
    needs=(LEAD,), explains=("low_use",),
)  # fmt: skip
def pauses(job: Job, rule: Rule) -> Found | None:
    """All GPUs together do next to nothing for a while."""
    closer = job.closer
    low = closer.steady & (closer.mean < job.common("paused") * closer.level)
    working = closer.alive[closer.used].mean(axis=0) if closer.used.any() else np.zeros(len(low))
    alone = low & (working > 0) & (working <= rule.at("alone"))
    for first, end in stretches(alone):
        alone[first:end] = (end - first) * closer.evidence.width >= rule.at("lasting")
    low &= alone | ~(closer.in_time("gr_engine_active") >= rule.at("gr_engine_active"))
    share = closer.share(low)
    if share < rule.at("share") or not low.any():
        return None
    width = closer.evidence.width
    bins = job.lost_in(closer.evidence.times[low], width)
    lengths = [(end - first) * width for first, end in stretches(low)]
    # NVML tells of an instant before the sample, and of short steps now a kernel, now the gap behind it.
    if not job.evidence.has("gr_engine_active") and float(np.median(lengths)) < rule.at("samples") * width:
        return None
    times = "once" if len(lengths) == 1 else f"{len(lengths)} times"
    found = {"times": times, "longest": words.duration(max(lengths)), "share": words.percent(share), "who": "All GPUs"}
    awake = closer.alive[:, low].mean(axis=1) >= job.common("working")
    if 0 < awake.sum() <= rule.at("alone") * closer.used.sum():
        found["who"] = f"All GPUs but {words.named(closer.evidence.gpus, positions(awake))}, which worked,"
    meanwhile = carried(job, bins > 0, job.working & (bins == 0), rule.at("more"))
    evidence = [finding("share", share, "of the time", rule, "share"), *meanwhile]
    return Found(found, tuple(evidence), rule.graded(share), closer.around(low), (), bins, lost=share)


def carried(job: Job, during: Flags, otherwise: Flags, more: float) -> list[Finding]:
    """What carries more in some bins than ``more`` times what it does in others, as findings: the one that stands
    out most."""
    best: tuple[float, Finding] | None = None
    for name, says in _CARRIERS:
        series = job.evidence.host.get(name) if name in job.evidence.host else job.in_time(name)
        if series is None or not np.isfinite(series[during]).any():
            continue
        own = float(np.nanmean(series[during]))
        usual = float(np.nanmean(series[otherwise])) if np.isfinite(series[otherwise]).any() else 0.0
        if own >= 1e8 and own >= more * usual and (best is None or own / (usual + 1e8) > best[0]):
            best = own / (usual + 1e8), told(name, own, f"{says} {words.amount(own, name)} meanwhile")
    return [] if best is None else [best[1]]


@rule(
    "warning", "The job grows slower: {drop} less activity at its end than at its beginning",
    (
        Threshold("drop", 0.15, "the last quarter's median is lower than the first one's by at least this share"),
        Threshold("trend", 0.7, "and it falls steadily: Kendall's correlation with time is at least this, negative"),
        Threshold("parts", 12.0, "looked at in this many parts of the time", least=2.0),
        Threshold("memory", 0.05, "memory in use that grows by this share of the whole is reported"),
        Threshold("critical", 0.4, "from this drop on it is critical"),
    ),
    "Look for something that grows: a list of results, a fragmented heap, logs, files per folder; compare the time of "
    "a step at the beginning and the end.",
    needs=(LEAD,), explains=("recurring_dips", "pauses", "gaps", "low_use"),
)  # fmt: skip
def slow_down(job: Job, rule: Rule) -> Found | None:
    """The working level of the GPUs that are at work falls steadily: that some are through early is another verdict."""
    mean = over_gpus(np.where(job.comparable, job.activity, np.nan)[job.used])
    working = job.working & np.isfinite(mean)
    if job.lead is None or working.sum() < rule.at("parts"):
        return None
    at = np.flatnonzero(working)
    every = np.flatnonzero(job.steady & np.isfinite(mean))
    # Steps that grow longer by what they wait for: bins of work are as high as before, and fewer.
    for bins, level in ((at, np.median), (every, np.mean)):
        groups = np.array_split(bins, int(rule.at("parts")))
        levels = np.array([float(level(mean[group])) for group in groups])
        quarter = max(len(levels) // 4, 1)
        first, last = float(np.median(levels[:quarter])), float(np.median(levels[-quarter:]))
        drop = 1 - last / first if first > 0 else 0.0
        trend = kendall(levels)
        if drop >= rule.at("drop") and trend <= -rule.at("trend"):
            break
    else:
        return None
    evidence = [
        told(job.lead, last, f"{job.lead_label} {words.percent(first)} at first, {words.percent(last)} at last"),
        told("trend", trend, f"rank correlation with time {trend:.2f}", -rule.at("trend")),
    ]
    memory = job.in_time("memory_used")[at]
    total = max((gpu.memory_total or 0 for gpu in job.evidence.gpus), default=0)
    if total and np.isfinite(memory).any():
        grown = float(np.nanmedian(memory[-len(memory) // 4 :]) - np.nanmedian(memory[: max(len(memory) // 4, 1)]))
        if grown >= rule.at("memory") * total:
            evidence.append(
                told("memory_used", grown, f"{words.amount(grown, 'memory_used')} more memory in use at its end")
            )
    lost = _lost_by_growth(mean, every, int(rule.at("parts"))) if job.lead == "sm_active" else None
    return Found({"drop": words.percent(drop)}, tuple(evidence), rule.graded(drop), job.span, lost=lost)


def _lost_by_growth(mean: Floats, bins: Ints, parts: int) -> float | None:
    """The share (0-1) of these bins' time that would be saved had steps stayed as short as at first. Of steps that each grow
    by the same time activity falls so that the inverse of its square is a line over time; None where it is not."""
    levels = np.array([float(np.mean(mean[group])) for group in np.array_split(bins, parts)])
    if not levels.min() > 0:
        return None
    first = float(np.polyfit((np.arange(parts) + 0.5) / parts, levels**-2, 1)[1])
    return 1 - float(levels.mean()) * first**0.5 if first > 0 else None


def kendall(values: Floats) -> float:
    """Kendall's rank correlation of values [n] with their order: -1 where each is lower than the one before."""
    n = len(values)
    signs = np.sign(values[None, :] - values[:, None])
    return float(np.triu(signs, 1).sum() / (n * (n - 1) / 2)) if n > 1 else 0.0
