"""Rules about device memory."""

import numpy as np

from gssr.arrays import Floats
from gssr.model.verdicts import words
from gssr.model.verdicts.found import Found, Unknown, group, positions, told, whole
from gssr.model.verdicts.job import Job
from gssr.model.verdicts.table import Rule


def memory_full(job: Job, rule: Rule) -> Found | None:
    """Hardly any is left."""
    shares = _peaks(job)
    which = positions(np.nan_to_num(shares) >= rule.at("share"))
    if not which:
        return None
    share = float(np.nanmax(shares))
    bound = rule.at("share")
    evidence = (
        told("memory_used", share, f"{words.percent(share)} at its peak (at least {words.percent(bound)})", bound),
    )
    found = {**group(job, which), "share": words.percent(share)}
    return Found(found, evidence, rule.graded(share), whole(job), which)


def memory_unused(job: Job, rule: Rule) -> Found | None:
    """Most of it was never used."""
    shares = _peaks(job)[job.used]
    if not np.isfinite(shares).any():
        return None
    share, bound = float(np.nanmax(shares)), rule.at("share")
    if share >= bound:
        return None
    evidence = (
        told("memory_used", share, f"{words.percent(share)} at its peak (below {words.percent(bound)})", bound),
    )
    return Found({"share": words.percent(share)}, evidence, rule.severity, whole(job))


def _peaks(job: Job) -> Floats:
    """[n_gpus]: the most that was in use, as a share of the memory there is."""
    totals = np.array([gpu.memory_total or np.nan for gpu in job.evidence.gpus], np.float64)
    if not np.isfinite(totals).any():
        raise Unknown("how much memory these GPUs have is unknown")
    return np.asarray(job.evidence.greatest["memory_used"] / totals, np.float64)
