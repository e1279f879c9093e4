"""Where a job lies under its GPUs' roofs: how much arithmetic it could have done at most, against the bytes it moved.

The roofline is that of Williams, Waterman and Patterson (Communications of the ACM 52, 2009): no kernel does more FLOP/s
than the pipe's peak, nor more than its arithmetic intensity times the memory's bandwidth. Here both coordinates come from
activities: FLOP/s = sum of the pipes' activities × their peaks, bytes/s = DRAM activity × peak bandwidth, FLOP/byte = their
quotient.

An activity counts the cycles in which a pipe took an instruction, not the arithmetic in it: masked lanes, moves and
instructions that are no multiply-add count in full. So FLOP/s, and with them the intensity, are upper bounds of what was
achieved; and the peaks are at boost clock, which a GPU may not have held. The tensor pipe is held against dense BF16, its
FP64 part against the tensor cores' FP64: FP8 and sparse arithmetic do more, TF32 less.
"""

from collections.abc import Mapping

from gssr.metrics import BY_NAME
from gssr.model.results import Pipe, Place
from gssr.peaks import Peaks

LEAST_ACTIVE = 0.005
"""Below this activity of all pipes, or of the memory, there is no place to speak of (a threshold of our own)."""


def place_under_roofline(means: Mapping[str, float | None], peaks: Peaks | None) -> Place | str:
    """Find where a GPU with these mean activities (``means``, by metric) lies under the roofline that its ``peaks`` make:
    its FLOP/s, bytes/s and what bounds it. Returns a clause that says why where peaks or means are unknown, or nothing
    was active."""
    if peaks is None:
        return "unknown peaks: the GPUs are of an unknown model, of several, or parts of one"
    dram = means.get("dram_active")
    active = {name: means.get(name) for name in ("fp64_active", "fp32_active", "fp16_active", "tensor_active")}
    missing = [BY_NAME[name].label for name, value in (*active.items(), ("dram_active", dram)) if value is None]
    if missing or dram is None:
        return f"not measured: {', '.join(missing)}"
    pipes = _pipes(means, peaks)
    busy = tuple(pipe for pipe in pipes if pipe.active >= LEAST_ACTIVE)
    dominant = max(busy, key=lambda pipe: pipe.flops, default=None)
    if dominant is None or not dominant.peak:
        return "no arithmetic: no pipe was active" if not busy else "unknown peaks of the pipes used"
    if dram < LEAST_ACTIVE:
        return "no traffic: the device memory was not active"
    flops, moved = sum(pipe.flops for pipe in pipes), dram * peaks.memory_bandwidth
    intensity, ridge = flops / moved, dominant.peak / peaks.memory_bandwidth
    return Place(
        flops=flops,
        bytes=moved,
        intensity=intensity,
        dominant=dominant,
        pipes=tuple(sorted(busy, key=lambda pipe: -pipe.flops)),
        roof=min(dominant.peak, intensity * peaks.memory_bandwidth),
        ridge=ridge,
        unpriced=tuple(pipe.label for pipe in busy if pipe.peak is None),
    )


def roofs(peaks: Peaks) -> tuple[tuple[str, float], ...]:
    """List (label, FLOP/s) of each pipe that the GPU has, the highest first; pipes with the same peak share one entry."""
    found: dict[float, list[str]] = {}
    for label, peak in (
        ("Tensor", peaks.tensor),
        ("FP16", peaks.fp16),
        ("FP32", peaks.fp32),
        ("FP64 tensor", peaks.fp64_tensor),
        ("FP64", peaks.fp64),
    ):
        if peak is not None:
            found.setdefault(peak, []).append(label)
    return tuple((", ".join(labels), peak) for peak, labels in sorted(found.items(), reverse=True))


def _pipes(means: Mapping[str, float | None], peaks: Peaks) -> tuple[Pipe, ...]:
    """List the activities of all pipes, from the ``means`` of metrics, 0 where not measured, each with its part of
    ``peaks``. The tensor pipe's FP64 part is told apart where it was measured."""
    tensor, fp64_tensor = means.get("tensor_active") or 0.0, means.get("tensor_dfma_active") or 0.0
    return (
        Pipe("tensor_active", "Tensor", max(tensor - fp64_tensor, 0.0), peaks.tensor),
        Pipe("tensor_dfma_active", "FP64 tensor", fp64_tensor, peaks.fp64_tensor),
        Pipe("fp64_active", "FP64", means.get("fp64_active") or 0.0, peaks.fp64),
        Pipe("fp32_active", "FP32", means.get("fp32_active") or 0.0, peaks.fp32),
        Pipe("fp16_active", "FP16", means.get("fp16_active") or 0.0, peaks.fp16),
    )
