"""Rules about GPUs that do less than others."""

import numpy as np

from gssr.model.evidence.evidence import over_gpus
from gssr.model.findings.imbalance import behind
from gssr.model.statistics.balance import Z, outliers
from gssr.model.statistics.balance import imbalance as imbalance_of_means
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job, group, median, medians, positions
from gssr.model.verdicts.table import LEAD, TRACEML, Found, Rule, Threshold, finding, rule, told

_FEWEST = 2
"""GPUs that can be compared."""
_WAITED_FOR = ("communication_bound", "low_occupancy", "small_kernels", "low_power", "recurring_dips", "pauses")
"""What shows where GPUs wait, step by step, for others that do more or are slower: they spin in collectives."""
_BUSIER = (
    "See whether this rank has more work than the others (uneven batches, an uneven domain, work that only it does, such as "
    "output or evaluation)."
)
_FURTHEST = 16.0
"""From so many times fewer GPUs it is told how often any of all lags: that was tried (benchmarks truth-long, 256 GPUs). From
still fewer a rare chance would seem to be the rule."""


@rule(
    "warning", "{some} did {ratio} of what the others did{so}",
    (
        Threshold(
            "ratio", 0.9, "an outlier does less than this share of the median GPU, or the median GPU than this share of it",
            least=0.01,
        ),
        Threshold("most", 0.25, "at most this share of the GPUs are stragglers"),
        Threshold("critical", 0.5, "from this loss against the median GPU on it is critical"),
    ),
    "See whether this rank has less work, a busy neighbour on its node or a bad link; run once without the node.",
    needs=(LEAD,), explains=("imbalance",), delays=_WAITED_FOR,
)  # fmt: skip
def straggler(job: Job, rule: Rule) -> Found | None:
    """A few GPUs do less than all the others; or more, so that the others may wait for them."""
    means = job.gpu_means
    middle = median(means)
    if not middle > 0:
        return None
    apart = outliers(means, 1.0) & (np.abs(means - middle) >= Z * job.gpu_errors)
    few = max(1.0, rule.at("most") * np.isfinite(means).sum())
    low, high = apart & (means < rule.at("ratio") * middle), apart & (means > middle / rule.at("ratio"))
    strange = low if low.any() else high
    which = positions(strange)
    if not which or strange.sum() > few:
        return None
    own = float(np.mean(means[strange]))
    ratio = own / middle
    name = job.lead or ""
    bound = rule.at("ratio") if low.any() else 1 / rule.at("ratio")
    side = "below" if low.any() else "above"
    evidence = (
        told(name, own, f"{job.lead_label} {words.percent(own)}, the median GPU {words.percent(middle)}", middle),
        told("ratio", ratio, f"{words.percent(ratio)} of the median ({side} {words.percent(bound)})", bound),
    )
    so = "" if low.any() else ": the others may wait for " + ("it" if len(which) == 1 else "them")
    found = {**group(job, which), "ratio": words.percent(ratio), "so": so}
    loss = 1 - float(np.nanmin(means[strange])) / middle if low.any() else 0.0
    lost, advice = (None, "") if low.any() else (job.lost_to(), _BUSIER)
    return Found(found, evidence, rule.graded(loss), job.span, which, advice=advice, lost=lost)


@rule(
    "warning", "The GPUs are not equally busy, {who}: {lost} of their time is lost",
    (
        Threshold("warning", 0.1, "1 - mean/max of the GPUs' time means is at least this", TRACEML),
        Threshold("critical", 0.2, "from this on it is critical", TRACEML),
    ),
    "Share the work out evenly (domain decomposition, batch sizes, sequence lengths); gssr analyze -plb FILE shows which "
    "GPUs do most.",
    needs=(LEAD,), delays=_WAITED_FOR,
)  # fmt: skip
def imbalance(job: Job, rule: Rule) -> Found | None:
    """The GPUs' time means differ."""
    means = job.gpu_means
    known = means[np.isfinite(means)]
    value = imbalance_of_means(known)
    if len(known) < _FEWEST or value is None:
        return None
    busiest = float(np.nanmax(means - Z * job.gpu_errors))  # the highest of many is so by chance, too
    if value < rule.at("warning") or known.mean() > (1 - rule.at("warning")) * busiest:
        return None
    low, high = int(np.nanargmin(means)), int(np.nanargmax(means))
    gpus = job.evidence.gpus
    evidence = (
        told("imbalance", value, f"1 - mean/max {words.percent(value)}", rule.at("warning")),
        told(job.lead or "", float(known.mean()), f"mean {words.percent(float(known.mean()))}"),
        told(job.lead or "", float(means[low]), f"least {words.place(gpus[low])} {words.percent(float(means[low]))}"),
        told(job.lead or "", float(means[high]), f"most {words.place(gpus[high])} {words.percent(float(means[high]))}"),
    )
    apart = outliers(means, 1.0)
    others = imbalance_of_means(means[np.isfinite(means) & ~apart]) or 0.0
    which = positions(apart) if others < rule.at("warning") else ()
    own, side = which or (low,), "least"
    if which and float(np.mean(means[list(which)])) > median(means):
        side = "most"
    found = {"lost": words.percent(value), "who": f"{words.named(gpus, own)} {side}"}
    return Found(found, evidence, rule.graded(value), job.span, which, lost=job.lost_to())


@rule(
    "info", "A different GPU delays the others each time: {lost} of the GPUs' time is lost",
    (
        Threshold("seconds", 5.0, "looked at in columns of at least this many seconds"),
        Threshold(
            "behind", 0.8, "a GPU is out of step below this share of the median GPU, or the median GPU below that of it",
            least=0.01,
        ),
        Threshold("any", 0.3, "some GPU is out of step in at least this share of the columns"),
        Threshold("same", 0.5, "the one that is so most often is it in less than this share of these"),
        Threshold("at_once", 0.34, "no more than this share of the GPUs is out of step at once"),
        Threshold("lost", 0.03, "1 - mean/max moment by moment, less that of the time means, is at least this"),
        Threshold("warning", 0.08, "from this on it is a warning"),
        Threshold("critical", 0.3, "from this on it is critical"),
    ),
    "In a synchronous job all wait for the slowest at each step: look for uneven batches, data loading or a shared "
    "file system that hits one rank at a time.",
    needs=(LEAD,), explains=("low_use",), delays=_WAITED_FOR,
)  # fmt: skip
def rotating_stragglers(job: Job, rule: Rule) -> Found | None:
    """Some GPU is out of step, now this one, now that one: it does less than the others, which wait, or more than they do,
    which spin meanwhile."""
    n_used, job = int(job.used.sum()), job.closer
    values = job.columns(rule.at("seconds"))
    if values.shape[0] <= _FEWEST or not values.shape[1]:
        return None
    middle = medians(values)
    late, working = behind(values, middle, 1.0, rule.at("behind"))
    ahead = working & (values > middle / rule.at("behind"))
    # Some ahead and some behind at once: they don't work in step, and none waits for another.
    late = np.where(late.any(axis=0) & ahead.any(axis=0), False, late | ahead)
    late &= late.sum(axis=0) <= max(1.0, rule.at("at_once") * values.shape[0])
    n_working = int(working.sum())
    if not n_working:
        return None
    n_looked_at = len(values)
    any_behind = _of_all(float(late.any(axis=0).sum() / n_working), n_looked_at, n_used)
    if not any_behind or any_behind < rule.at("any"):
        return None
    same = float(late.sum(axis=1).max() / (any_behind * n_working))
    own = values[:, working]
    resolved = float(np.nanmean(1 - over_gpus(own) / np.nanmax(own, axis=0)))
    lost = resolved - (imbalance_of_means(over_gpus(own.T)) or 0.0)
    if same >= rule.at("same") or lost < rule.at("lost"):
        return None
    told_by = f", as {n_looked_at:,} of {n_used:,} tell" if n_looked_at < n_used else ""
    evidence = (
        finding("share", any_behind, f"of the time a GPU is out of step with the median GPU{told_by}", rule, "any"),
        told("same", same, f"the same one in {words.percent(same)} of it", rule.at("same")),
        told(
            "imbalance",
            lost,
            f"{words.percent(lost)} lost moment by moment, beyond the means' imbalance",
            rule.at("lost"),
        ),
    )
    waits = job.lost_to(values=values) if job.spins(job.steady) else None  # who idles may wait for nobody
    return Found({"lost": words.percent(lost)}, evidence, rule.graded(lost), job.span, lost=waits)


def _of_all(share: float, n_looked_at: int, n_gpus: int) -> float:
    """The share of the time in which any of ``n_gpus`` is behind, where it is ``share`` of some of them, as if they were so
    independently; where no two are at once it is more, and of very many GPUs as well."""
    return share if n_looked_at >= n_gpus else 1 - (1 - share) ** min(n_gpus / n_looked_at, _FURTHEST)
