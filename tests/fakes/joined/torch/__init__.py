"""A stand-in for the little of PyTorch that tracing calls: torch.profiler, torch.cuda, torch.distributed, and no arrays."""

import os
from types import SimpleNamespace

from . import profiler as profiler

__version__ = "2.9.0+stand.in"

cuda = SimpleNamespace(
    is_available=lambda: os.environ.get("FAKE_TORCH_CUDA") == "1",
    synchronize=lambda: None,
    current_device=lambda: 0,
    device_count=lambda: 1,
)
distributed = SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: "RANK" in os.environ,
    get_rank=lambda: int(os.environ["RANK"]),
    get_world_size=lambda: int(os.environ["WORLD_SIZE"]),
)
