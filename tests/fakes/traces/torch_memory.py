"""Memory snapshots and memory timelines as PyTorch writes them: the layout is that of
``torch/csrc/cuda/memory_snapshot.cpp`` and ``torch/profiler/_memory_profiler.py``.
A small allocator stands in for PyTorch's, which is too large to install."""

import gzip
import json
import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20
START_US = 1_767_225_600_000_000


def frames(*lines: str) -> list[dict[str, Any]]:
    """Frames of ``file:line function``, the innermost first."""
    found = []
    for line in lines:
        place, _, name = line.partition(" ")
        file, _, number = place.rpartition(":")
        found.append({"name": name, "filename": file, "line": int(number)})
    return found


MODULE = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py:1750 _call_impl"
TRAIN = "/home/me/train.py:88 main"


class Allocator:
    """Allocates blocks in segments of 20 MiB, or of one block that is larger, and notes each step."""

    def __init__(self, device: int = 0, history: bool = True) -> None:
        self.device, self.history = device, history
        self.segments: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self._time, self._next = START_US, 0x7F0000000000 + (device << 40)

    def _note(self, action: str, key: str, address: int, size: int, stack: Sequence[dict[str, Any]]) -> None:
        self._time += 100
        if self.history:
            self.steps.append(
                {"action": action, key: address, "size": size, "stream": 0, "time_us": self._time, "frames": stack}
            )

    def alloc(self, requested: int, stack: list[dict[str, Any]]) -> int:
        """Allocate; returns the address."""
        size = -(-requested // 512) * 512
        for segment in self.segments:
            for at, block in enumerate(segment["blocks"]):
                if block["state"] == "inactive" and block["size"] >= size:
                    return self._take(segment, at, requested, size, stack)
        total = max(size, 20 * MIB)
        self.segments.append(
            {
                "device": self.device, "address": self._next, "total_size": total, "allocated_size": 0, "active_size": 0,
                "requested_size": 0, "stream": 0, "segment_type": "large" if total > 2 * MIB else "small",
                "segment_pool_id": (0, 0), "is_expandable": False, "frames": stack,
                "blocks": [_block(self._next, total, 0, "inactive", [])],
            }
        )  # fmt: skip
        self._note("segment_alloc", "addr", self._next, total, stack)
        self._next += total
        return self._take(self.segments[-1], 0, requested, size, stack)

    def _take(self, segment: dict[str, Any], at: int, requested: int, size: int, stack: list[dict[str, Any]]) -> int:
        block = segment["blocks"][at]
        rest = block["size"] - size
        address = int(block["address"])
        segment["blocks"][at : at + 1] = [
            _block(address, size, requested, "active_allocated", stack),
            *([_block(address + size, rest, 0, "inactive", [])] if rest else []),
        ]
        segment["allocated_size"] += size
        segment["active_size"] += size
        segment["requested_size"] += requested
        self._note("alloc", "addr", address, requested, stack)
        return address

    def free(self, address: int, pending: bool = False) -> None:
        """Free a block; ``pending``: a stream still uses it."""
        segment, block = next(
            (segment, block) for segment in self.segments for block in segment["blocks"] if block["address"] == address
        )
        self._note("free_requested", "addr", address, block["requested_size"], frames(TRAIN))
        segment["allocated_size"] -= block["size"]
        segment["requested_size"] -= block["requested_size"]
        if not pending:
            segment["active_size"] -= block["size"]
            self._note("free_completed", "addr", address, block["requested_size"], frames(TRAIN))
        block["state"] = "active_pending_free" if pending else "inactive"

    def fail(self, requested: int, driver_free: int, stack: list[dict[str, Any]]) -> None:
        """Ask for what is not to be had."""
        self._note("oom", "device_free", driver_free, requested, stack)


def _block(address: int, size: int, requested: int, state: str, stack: list[dict[str, Any]]) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": stack}


def snapshot(*allocators: Allocator) -> dict[str, Any]:
    """What ``torch.cuda.memory._snapshot()`` returns of these devices."""
    n = max((each.device for each in allocators), default=-1) + 1
    by_device = {each.device: each.steps for each in allocators}
    return {
        "segments": [segment for each in allocators for segment in each.segments],
        "device_traces": [by_device.get(device, []) for device in range(n)],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "garbage_collection_threshold": 0.0,
            "max_split_size": -1,
        },
        "external_annotations": [],
    }


def trained(device: int = 0, layers: int = 6, seed: int = 1) -> Allocator:
    """Weights, then two steps of activations that are freed, the second of which fails for want of memory."""
    rng = random.Random(seed)
    own = Allocator(device)
    for layer in range(layers):
        own.alloc(30 * MIB + 4, frames(MODULE, f"/home/me/model.py:{20 + layer} __init__", TRAIN))
    for step in range(2):
        kept = []
        for _ in range(layers * (1 + step)):
            stack = frames(MODULE, "/home/me/model.py:61 attention", "/home/me/model.py:70 forward", TRAIN)
            kept.append(own.alloc(rng.randrange(8, 16) * MIB + 100, stack))
            kept.append(own.alloc(rng.randrange(1, 4) * 1000, frames("/home/me/model.py:64 mask", TRAIN)))
        if step:
            own.fail(512 * MIB, 100 * MIB, frames(MODULE, "/home/me/model.py:99 loss", TRAIN))
        for number, address in enumerate(kept):
            own.free(address, pending=number == 1 and step == 1)
    return own


def write_snapshot(path: Path, *allocators: Allocator, protocol: int = 4) -> Path:
    """Write the snapshot of these devices as PyTorch does."""
    path.write_bytes(pickle.dumps(snapshot(*allocators), protocol=protocol))
    return path


STEPS = [
    (-1, 1, 4000, 0), (-1, 1, 8000, 1), (5_000_000, 2, 1000, 4), (5_000_000, 2, 600, 4), (6_000_000, 3, -1000, 4),
    (6_000_000, 3, 1000, 5), (7_000_500, 4, -600, 4), (8_000_000, 2, 50, 7), (9_000_000, 4, -1000, 5),
]  # fmt: skip
"""Of a memory timeline: time in ns, action (1 was there before, 2 created, 3 changed, 4 destroyed), bytes, category."""


def write_timeline(path: Path, raw: bool) -> Path:
    """Write the memory timeline of STEPS, ``raw`` or as sizes by category over time, as torch.profiler adds them up."""
    times: list[int] = []
    sizes: list[list[int]] = []
    for at, _, n, category in STEPS:
        us = at if at < 0 else at // 1000
        if not times or us != times[-1]:
            times.append(us)
            sizes.append(list(sizes[-1]) if sizes else [0] * 9)
        sizes[-1][category + 1] += n
    held: object = STEPS if raw else [[5000 if at < 0 else at for at in times], sizes]
    data = json.dumps(held).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
