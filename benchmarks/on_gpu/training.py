"""A training loop and what bounds it, on one GPU: ``python -m benchmarks.on_gpu.training PHASES [NAME...]``.

Layers as a transformer's, in bf16, with optimizer and a wait for data; then matrix products, device copies and host-device
copies of known size, each alone. Phases are written to the file PHASES (see ``phases``); with names, only these are done.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.on_gpu.phases import Phase, append, repeated

DEVICE = "cuda"
WIDTH, LAYERS, TOKENS = 4096, 4, 8192
DATA_EVERY, DATA_SECONDS = 4.0, 0.5
MATRIX = 8192
COPY_BYTES = 2 << 30
HOST_BYTES = 256 << 20
NOTHING = Phase("", 0.0, 0.0)


def training(seconds: float) -> Phase:
    """Steps of forward, backward and AdamW, with a wait for data every few seconds. Counted are the layers' matrix
    products: 2 FLOP per weight and token forward, twice that backward."""
    shapes = ((WIDTH, 3 * WIDTH), (3 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    layers = [torch.nn.Linear(*shape, bias=False) for _ in range(LAYERS) for shape in shapes]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.GELU())))
    model = model.to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    data = torch.randn(TOKENS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    weights = sum(first * second for first, second in shapes) * LAYERS
    # The first layer's input needs no gradient: one of its three products is not done.
    flops = 6.0 * weights * TOKENS - 2.0 * shapes[0][0] * shapes[0][1] * TOKENS

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).float().square().mean().backward()
        optimizer.step()

    step()
    _finish()
    begin = now = time.time()
    steps, data_at = 0, begin + DATA_EVERY
    while now - begin < seconds:
        step()
        _finish()
        steps += 1
        now = time.time()
        if now >= data_at:
            time.sleep(DATA_SECONDS)
            data_at = time.time() + DATA_EVERY
    return Phase("training", begin, time.time(), flops=steps * flops)


def matmul(seconds: float) -> Phase:
    """bf16 products of square matrices."""
    first, second = (torch.randn(MATRIX, MATRIX, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty_like(first)
    counts = NOTHING._replace(flops=2.0 * MATRIX**3)
    return repeated("matmul", seconds, lambda: _ignore(torch.matmul(first, second, out=product)), _finish, counts)


def copy(seconds: float) -> Phase:
    """Copies within device memory: each byte is read and written."""
    source = torch.empty(COPY_BYTES, device=DEVICE, dtype=torch.uint8)
    target = torch.empty_like(source)
    counts = NOTHING._replace(memory_bytes=2.0 * COPY_BYTES)
    return repeated("copy", seconds, lambda: _ignore(target.copy_(source, non_blocking=True)), _finish, counts)


def down(seconds: float) -> Phase:
    """Copies from pinned host memory to the device."""
    host = torch.empty(HOST_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(HOST_BYTES, device=DEVICE, dtype=torch.uint8)
    counts = NOTHING._replace(down_bytes=float(HOST_BYTES))
    return repeated("down", seconds, lambda: _ignore(device.copy_(host, non_blocking=True)), _finish, counts)


def up(seconds: float) -> Phase:
    """Copies from the device to pinned host memory."""
    host = torch.empty(HOST_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(HOST_BYTES, device=DEVICE, dtype=torch.uint8)
    counts = NOTHING._replace(up_bytes=float(HOST_BYTES))
    return repeated("up", seconds, lambda: _ignore(host.copy_(device, non_blocking=True)), _finish, counts)


def idle(seconds: float) -> Phase:
    """The GPU is held and left alone."""
    begin = time.time()
    time.sleep(seconds)
    return Phase("idle", begin, time.time())


PHASES: dict[str, tuple[Callable[[float], Phase], float]] = {
    "training": (training, 25.0),
    "matmul": (matmul, 10.0),
    "copy": (copy, 6.0),
    "down": (down, 5.0),
    "up": (up, 5.0),
    "idle": (idle, 6.0),
}
"""What is done, and for how many seconds."""


def _finish() -> None:
    torch.cuda.synchronize()


def _ignore(_: object) -> None:
    pass


def main(arguments: list[str]) -> None:
    """Do the phases named, in that order, or all."""
    for name in arguments[1:] or PHASES:
        phase, seconds = PHASES[name]
        append(Path(arguments[0]), phase(seconds))
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
