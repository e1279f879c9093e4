"""How many floating-point operations the operators that multiply matrices make, by the shapes they were called with.

The formulas are those of torch.utils.flop_counter: a multiplication and an addition are two; attention counts as if it were
not causal, and its backward pass with the scores that it computes again. An operator that launched nothing on a GPU is left
out.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.model.traces.launches import Links, time_launched_within
from gssr.model.traces.part import TracePiece
from gssr.model.traces.trace_results import OperatorFlops
from gssr.peaks import peaks_of
from gssr.traces.timeline import Kind, Shape

_MOST_FLOPS = 1e21
"""What is more was not done by one call: the shape is damaged."""
_GPU_FACT = re.compile(r"GPU |gpu$")


class FlopsByCall(NamedTuple):
    """The calls [n] that launched work: their ``rows``, ``flops`` (NaN where unknown), place in ``keys`` (operator and type)
    and ``gpu_ns``."""

    rows: Ints
    flops: Floats
    key: Ints
    gpu_ns: Ints
    keys: tuple[tuple[str, str], ...]


def flops_by_call(part: TracePiece, links: Links) -> FlopsByCall:
    """Work out the floating-point operations of each operator whose shape the trace tells."""
    own = part.timeline.intervals
    rows = part.rows(Kind.CPU_OP) if part.timeline.shapes else np.empty(0, np.int64)
    rows = rows[own.size[rows] < -1]
    gpu_ns = time_launched_within(part, links)(rows) if len(rows) else rows
    rows, gpu_ns = rows[gpu_ns > 0], gpu_ns[gpu_ns > 0]
    told = [_of_shape(shape) for shape in part.timeline.shapes]
    named = [(shape.operator, dtype) for shape, (dtype, _) in zip(part.timeline.shapes, told, strict=True)]
    keys = tuple(dict.fromkeys(named))
    places = [keys.index(name) for name in named]
    shape = -2 - own.size[rows]
    flops = np.array([np.nan if n is None else n for _, n in told] or [0.0])
    return FlopsByCall(rows, flops[shape], np.array(places or [0], np.int64)[shape], gpu_ns, keys)


def by_operator(part: TracePiece, calls: FlopsByCall) -> tuple[OperatorFlops, ...]:
    """Add up the calls of each operator and type; those of unknown shape are rows of their own. Returns the rows, those
    with most GPU time first."""
    model, peak = _model(part)
    found = []
    for (at, key), known in product(enumerate(calls.keys), (True, False)):
        mine = (calls.key == at) & (np.isfinite(calls.flops) == known)
        if mine.any():
            flops = float(calls.flops[mine].sum()) if known else None
            found.append(OperatorFlops(*key, int(mine.sum()), flops, int(calls.gpu_ns[mine].sum()), model, peak))
    return both_flops(found, ())


def by_step(part: TracePiece, calls: FlopsByCall, steps: Ints) -> list[tuple[float | None, float | None]]:
    """Return for each step (``steps``: rows) the floating-point operations of the calls of its rank that began in it,
    and their share of what the rank's GPUs could have made in the step with dense BF16 inputs. Both are None where no
    shapes are recorded, no such call began, or a call's are unknown; the share is None also where the GPU's peak is
    unknown."""
    tracks, of = part.timeline.tracks, part.timeline.intervals.track
    _, peak = _model(part)
    if not part.timeline.shapes:
        return [(None, None)] * len(steps)
    n_gpus = Counter((gpu.source, gpu.rank) for gpu in part.gpus)
    start, length = part.start[steps], part.length[steps]
    number = np.array([hash((track.source, track.rank)) for track in tracks], np.int64)
    found: list[tuple[float | None, float | None]] = []
    for row, begin, ns in zip(steps.tolist(), start.tolist(), length.tolist(), strict=True):
        low, high = np.searchsorted(part.start[calls.rows], (begin, begin + ns))
        inside = slice(int(low), int(high))
        mine = number[of[calls.rows[inside]]] == number[of[row]]
        flops = float(calls.flops[inside][mine].sum()) if mine.any() else np.nan
        could = (peak or np.nan) * n_gpus[tracks[of[row]].source, tracks[of[row]].rank] * ns / 1e9
        found.append((_known(flops), _known(flops / could if could else np.nan)))
    return found


def both_flops(a: Sequence[OperatorFlops], b: Sequence[OperatorFlops]) -> tuple[OperatorFlops, ...]:
    """Add up the calls of two files, by operator, type, GPU model and whether their operations are known. Returns the
    rows, those with most GPU time first."""
    found: dict[tuple[Any, ...], OperatorFlops] = {}
    for each in (*a, *b):
        key = (each.operator, each.dtype, each.model, each.flops is None)
        before = found.get(key)
        found[key] = each if before is None else each._replace(
            n=each.n + before.n, gpu_ns=each.gpu_ns + before.gpu_ns,
            flops=None if each.flops is None or before.flops is None else each.flops + before.flops,
        )  # fmt: skip
    return tuple(sorted(found.values(), key=lambda each: -each.gpu_ns))


def _known(value: float) -> float | None:
    return value if value == value else None


def _model(part: TracePiece) -> tuple[str | None, float | None]:
    """Return the model of the trace's GPUs and its dense BF16 peak; None where they are not of one known model."""
    names = {name for fact, name in part.timeline.facts.items() if _GPU_FACT.match(fact)}
    peaks = peaks_of(names.pop()) if len(names) == 1 else None
    return (peaks.model, peaks.tensor) if peaks else (None, None)


def _of_shape(shape: Shape) -> tuple[str, float | None]:
    """Return the type of an operator's first matrix, "" where not told, and its floating-point operations, None where its
    shape does not tell."""
    try:
        dims, types, values = (json.loads(text or "[]") for text in shape[1:])
        dtype = str(types[1 if len(dims[0]) < 2 else 0]) if types and dims else ""
        flops = _FORMULAS[shape.operator](dims, values)
    except (ValueError, TypeError, IndexError, KeyError, RecursionError, ArithmeticError):
        return "", None
    return dtype, flops if isinstance(flops, int) and 0 <= flops < _MOST_FLOPS else None


def _product(a: Sequence[int], b: Sequence[int]) -> int:
    """Count the operations of [..., m, k] times [..., k, n]; -1 where these do not fit."""
    return 2 * prod(a) * b[-1] if len(a) == len(b) >= 2 and a[-1] == b[-2] and a[:-2] == b[:-2] else -1


def _convolution(dims: Any, values: Any) -> int:
    """Count the floating-point operations of a convolution: for each value of its result one product with its part of
    the weights. ``dims`` and ``values``: sizes and texts of the call's arguments, in PyTorch's order."""
    batch, _, *size = dims[0]
    out, *weights = dims[1]
    stride, padding, dilation, transposed = (json.loads(values[at].lower()) for at in (3, 4, 5, 6))
    if transposed:
        return int(2 * prod(dims[0]) * prod(weights))
    result = [
        (n + 2 * pad - step * (kernel - 1) - 1) // jump + 1
        for n, pad, step, kernel, jump in zip(size, padding, dilation, weights[1:], stride, strict=True)
    ]
    return int(2 * batch * out * prod(result) * prod(weights))


def _convolution_backward(dims: Any, values: Any) -> int:
    """Count the floating-point operations of a convolution's backward pass: as many for the gradient of the input as
    for that of the weights, each if the call asks for it. ``dims`` and ``values``: sizes and texts of the call's
    arguments, in PyTorch's order."""
    wanted = json.loads(values[-1].lower())
    transposed = json.loads(values[7].lower())
    once = int(2 * prod(dims[1] if transposed else dims[0]) * prod(dims[2][1:]))
    return once * (bool(wanted[0]) + bool(wanted[1]))


def _attention(dims: Any, _: Any) -> int:
    """Count the floating-point operations of attention: of the scores and of their product with the values. ``dims``:
    the sizes of the inputs, [batch, heads, length, width] each."""
    query, key, value = dims[:3]
    scores = 2 * prod(query) * key[-2]
    return int(scores + scores // query[-1] * value[-1])


def _attention_backward(dims: Any, _: Any) -> int:
    """Count the floating-point operations of attention's backward pass: the scores again, and two products for each of
    both. ``dims``: sizes of the call's arguments, in PyTorch's order."""
    _, query, key, value = dims[:4]
    scores = 2 * prod(query) * key[-2]
    return int(3 * scores + 2 * (scores // query[-1] * value[-1]))


_ATTENTION = "aten::_scaled_dot_product_{}_attention"
_FORMULAS = {
    "aten::mm": lambda dims, _: _product(dims[0], dims[1]),
    "aten::bmm": lambda dims, _: _product(dims[0], dims[1]),
    "aten::addmm": lambda dims, _: _product(dims[1], dims[2]),
    "aten::baddbmm": lambda dims, _: _product(dims[1], dims[2]),
    "aten::_scaled_mm": lambda dims, _: _product(dims[0], dims[1]),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **{_ATTENTION.format(kind): _attention for kind in ("flash", "efficient", "cudnn")},
    **{_ATTENTION.format(kind) + "_backward": _attention_backward for kind in ("flash", "efficient", "cudnn")},
}
"""By operator, from the dimensions of its inputs and the values of those that are no tensors."""
