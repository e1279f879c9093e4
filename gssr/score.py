"""The saturation score: one number between 0 and 1 for how well a GPU's compute is used.

Formula and parameters are the GSSR authors', fitted on synthetic data and published with their code. The score is
indicative only: it does not compare different algorithms and does not replace time to solution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

ALPHA = 24.021653821773356
BETA = 3.093540559022677
GAMMA = 2.0510278298480444
LAMBDA = 11.44627875155378

DEFINITION = "S = 4 (s(a A) - 1/2) (s(b F + c O exp(-l F)) - 1/2), s the logistic function"
SCALE = "0 is idle, 1 saturated"
CAVEAT = "indicative only: it does not compare algorithms and does not replace time to solution"

NOT_ON_AMD = "AMD's driver has no SM or pipe activity"
_LACKS = {"amd": NOT_ON_AMD, "nvml": "SM activity needs DCGM, or GPM on Hopper and newer (gssr doctor)"}


def _half_logistic(x: float) -> float:
    """1 / (1 + exp(-x)) - 1/2, without overflow or cancellation near 0."""
    return 0.5 * math.tanh(0.5 * x)


def how_to_measure(backend: str | None) -> str:
    """Return a clause on what it takes to measure the score's inputs with these backends ("nvml, amd"); "" if that is
    not known. Sources: NVIDIA's DCGM feature overview, and of GPM its NVML API reference."""
    return "; ".join(_LACKS[name] for name in (backend or "").split(", ") if name in _LACKS)


def saturation_score(sm_active: float, flop_active: float, sm_occupancy: float) -> float:
    """Compute the score, 0-1, from mean SM activity ``A``, mean arithmetic activity ``F`` (the sum of the FP64, FP32,
    FP16 and tensor pipes' means) and mean SM occupancy ``O``, all ratios 0-1. For example, ``saturation_score(0.5, 0.1,
    0.3)`` is about 0.247374."""
    arithmetic = BETA * flop_active + GAMMA * sm_occupancy * math.exp(-LAMBDA * flop_active)
    return 4.0 * _half_logistic(ALPHA * sm_active) * _half_logistic(arithmetic)


def score_of_means(means: Mapping[str, float | None]) -> float | None:
    """Compute the score of a window from the means of its metrics by name. None (unknown) if an input is absent, None,
    NaN or negative, which no ratio can be."""
    inputs = []
    for name in ("sm_active", "sm_occupancy", "fp64_active", "fp32_active", "fp16_active", "tensor_active"):
        value = means.get(name)
        if value is None or not value >= 0:
            return None
        inputs.append(value)
    return saturation_score(inputs[0], math.fsum(inputs[2:]), inputs[1])


def result_line(score: float | None, imbalance: float | None, gpus: int, gaps: int) -> str:
    """Return the machine-readable line that ends a run and a page: ``GSSR score=0.609 imbalance=0.207 gpus=16 gaps=0``.
    None is written as ``unknown``."""
    shown = ["unknown" if value is None else f"{value:.3f}" for value in (score, imbalance)]
    return f"GSSR score={shown[0]} imbalance={shown[1]} gpus={gpus} gaps={gaps}"
