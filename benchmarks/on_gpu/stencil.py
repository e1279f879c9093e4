"""A stencil, bound by memory, in FP32 and in FP64: ``python -m benchmarks.on_gpu.stencil PHASES``.

Seven points on a cube, as array operations that each read two arrays and write one, all far larger than the caches, with an
output of half a second now and then.
"""

import sys
import time
from pathlib import Path

import torch

from benchmarks.on_gpu.phases import Phase, append

DEVICE = "cuda"
CUBE_BYTES = 1 << 30
SECONDS = 12.0
OUTPUT_EVERY, OUTPUT_SECONDS = 4.0, 0.5


def stencil(name: str, dtype: torch.dtype, seconds: float) -> Phase:
    """Sweeps over a cube of CUBE_BYTES. Counted are the bytes that the six additions and the scaling of a sweep move."""
    item = torch.empty(0, dtype=dtype).element_size()
    side = round((CUBE_BYTES / item) ** (1 / 3))
    field = torch.rand(side, side, side, device=DEVICE, dtype=dtype)
    fresh = field.clone()
    inner = (slice(1, -1),) * 3
    inside = (side - 2) ** 3 * item
    target = fresh[inner]

    def sweep() -> None:
        torch.add(field[:-2, 1:-1, 1:-1], field[2:, 1:-1, 1:-1], out=target)
        for low, high in (((inner[0], slice(None, -2), inner[2]), (inner[0], slice(2, None), inner[2])),
                          ((*inner[:2], slice(None, -2)), (*inner[:2], slice(2, None)))):  # fmt: skip
            target.add_(field[low]).add_(field[high])
        target.add_(field[inner], alpha=2.0).mul_(1 / 8)

    sweep()
    torch.cuda.synchronize()
    begin = now = time.time()
    sweeps, output_at = 0, begin + OUTPUT_EVERY
    while now - begin < seconds:
        sweep()
        field, fresh = fresh, field
        target = fresh[inner]
        torch.cuda.synchronize()
        sweeps += 1
        now = time.time()
        if now >= output_at:
            time.sleep(OUTPUT_SECONDS)
            output_at = time.time() + OUTPUT_EVERY
    # Six times two arrays in and one out; the scaling: one in, one out.
    return Phase(name, begin, time.time(), memory_bytes=float(sweeps) * inside * (6 * 3 + 2))


def main(arguments: list[str]) -> None:
    """FP32, then FP64."""
    for name, dtype in (("stencil fp32", torch.float32), ("stencil fp64", torch.float64)):
        append(Path(arguments[0]), stencil(name, dtype, SECONDS))
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
