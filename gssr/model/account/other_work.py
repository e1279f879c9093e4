"""What to call the work that neither tensor cores, nor FP64, nor the memory bounds (``working.other``)."""

import numpy as np

from gssr.model.account.active_time import TYPICAL_ACTIVITY
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS, UNKNOWN_WORK
from gssr.model.evidence.evidence import Evidence

OTHER_WORK = CATEGORIES[POSITIONS["working.other"]].label
_MEASURES_OF_KIND = ("tensor_active", "fp64_active", "dram_active")
_PIPES = ("fp32_active", "tensor_active", "fp64_active", "fp16_active")


def name_other_work(evidence: Evidence) -> str:
    """Name ``working.other`` by what was measured while GPUs work: in FP32 if its pipe is active as FP64's has to be to
    give the work its name, and more than every other pipe; else other work, or of unknown kind where nothing tells it."""
    if not any(evidence.has(name) for name in _MEASURES_OF_KIND):
        return UNKNOWN_WORK
    active = {name: float(np.nan_to_num(evidence.mean(name) or 0.0)) for name in _PIPES if evidence.has(name)}
    engine = float(np.nan_to_num(evidence.mean("gr_engine_active") or 1.0))
    fp32 = active.pop("fp32_active", 0.0)
    is_fp32 = fp32 >= TYPICAL_ACTIVITY["working.fp64"] * engine and fp32 > max(active.values(), default=0.0)
    return "computes in FP32" if is_fp32 else OTHER_WORK
