"""Profiles of XLA as bytes, made field by field (xplane.proto), without google.protobuf."""

from collections.abc import Mapping
from typing import Any

UNIX_NS = 1_771_595_650_217_823_548
"""When a profile begins."""


def number(value: int) -> bytes:
    value %= 1 << 64
    return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])


def field(key: int, value: int | str | bytes) -> bytes:
    """A field of a message: a number, a text or a message."""
    if isinstance(value, int):
        return number(key << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(value)) + value


class Plane:
    """A plane of an XSpace. Times are ps after the profile's beginning."""

    def __init__(self, name: str, **stats: Any) -> None:
        self._name, self._stats = name, stats
        self._events: dict[tuple[str, str], tuple[int, Mapping[str, Any]]] = {}
        self._stat_names: dict[str, int] = {}
        self._lines: dict[str, bytes] = {}

    def event(self, line: str, name: str, start: int, length: int, like: Mapping[str, Any] | None = None,
              display: str = "", **stats: Any) -> "Plane":  # fmt: skip
        """Add an event; ``like``: stats that all events of its name have."""
        number_, _ = self._events.setdefault((name, display), (len(self._events) + 1, like or {}))
        told = b"".join(field(4, self._stat(*each)) for each in stats.items())
        event = field(1, number_) + field(2, start) + field(3, length) + told
        self._lines[line] = self._lines.get(line, b"") + field(4, event)
        return self

    def _stat(self, name: str, value: Any) -> bytes:
        key = field(1, self._stat_names.setdefault(name, len(self._stat_names) + 1))
        if isinstance(value, str | bytes):
            return key + field(5 if isinstance(value, str) else 6, value)
        return key + field(3 if value >= 0 else 4, value)

    def made(self) -> bytes:
        """The plane as a field of an XSpace."""
        lines = [
            field(3, field(1, at + 100) + field(2, name) + field(3, 0) + events)
            for at, (name, events) in enumerate(self._lines.items())
        ]
        stats = b"".join(field(6, self._stat(*each)) for each in self._stats.items())
        events = []
        for (name, display), (key, like) in self._events.items():
            told = field(1, key) + field(2, name) + field(4, display)
            told += b"".join(field(5, self._stat(*each)) for each in like.items())
            events.append(field(4, field(1, key) + field(2, told)))
        names = [field(5, field(1, key) + field(2, field(1, key) + field(2, n))) for n, key in self._stat_names.items()]
        return field(1, field(1, 2) + field(2, self._name) + b"".join([*lines, *events, *names]) + stats)


def _instruction(name: str, opcode: str, fusion: str = "") -> bytes:
    return field(2, field(1, name) + field(2, opcode) + (field(11, fusion) if fusion else b""))


def profile(*planes: Plane, host: str = "node1") -> bytes:
    """An XSpace of these planes that begins at UNIX_NS."""
    when = Plane("Task Environment", profile_start_time=UNIX_NS, profile_stop_time=UNIX_NS + 10**9)
    return b"".join(plane.made() for plane in (*planes, when)) + field(4, host)


US = 10**6


def on_gpus() -> bytes:
    """A step of JAX on an NVIDIA GPU: a pageable copy, two kernels of one program, and one that communicates."""
    hlo = {"hlo_module": "jit_step", "program_id": 7}
    host = Plane("/host:CPU", process_id=4711)
    host.event("python/9", "train", 0, 900 * US, step_num=3)
    host.event("python/9", "PjitFunction(step)", 100 * US, 300 * US)
    host.event("python/9", "$train.py:12 main", 90 * US, 800 * US)
    for at, link in ((110, 1), (150, 2), (200, 3), (250, 4)):
        name = "cuMemcpyHtoDAsync_v2" if link == 1 else "cuLaunchKernel"
        host.event("python/9", name, at * US, 10 * US, correlation_id=link)
    host.event("python/9", "MemoryAllocation", 105 * US, 0, allocator_name="GPU_0_bfc", bytes_allocated=1 << 20)
    host.event("python/9", "MemoryDeallocation", 890 * US, 0, allocator_name="GPU_0_bfc", bytes_allocated=1 << 10)
    gpu = Plane("/device:GPU:0", device_vendor="Nvidia", memory_size=80 * 10**9)
    gpu.event("Stream #20(MemcpyH2D)", "MemcpyH2D", 130 * US, 20 * US, correlation_id=1,
              memcpy_details="kind_src:pageable kind_dst:device size:4096 dest:0 async:1")  # fmt: skip
    gpu.event(
        "Stream #16(Compute)", "loop_add_fusion", 160 * US, 100 * US, correlation_id=2, hlo_op="loop_add.1", **hlo
    )
    gpu.event("Stream #16(Compute)", "sm90_xmma_gemm", 260 * US, 200 * US, correlation_id=3, hlo_op="dot.3", **hlo)
    gpu.event("Stream #17(Compute)", "ncclDevKernel_AllReduce_Sum_f32", 400 * US, 100 * US, correlation_id=4,
              hlo_op="all-reduce.5", **hlo)  # fmt: skip
    gpu.event("XLA Ops", "loop_add.1", 160 * US, 100 * US)  # XLA derives it from the streams
    computation = b"".join(
        [_instruction("loop_add.1", "fusion", "kLoop"), _instruction("dot.3", "custom-call"),
         _instruction("all-reduce.5", "all-reduce"), _instruction("unseen.1", "add")]
    )  # fmt: skip
    compiled = field(1, field(1, "jit_step") + field(3, computation))
    return profile(Plane("/host:metadata").event("none", "jit_step(7)", 0, 0, {"Hlo Proto": compiled}), host, gpu)


def _tpu(device: int) -> Plane:
    plane = Plane(
        f"/device:TPU:{device}", device_type_string="TPU v6 Lite", peak_teraflops_per_second=918,
    )  # fmt: skip
    layouts = "f32[8,8]{1,0:T(8,128)}, f32[8,8]{1,0:T(8,128)S(5)}, u32[]{:S(2)}"
    program = {"program_id": (1 << 63) + 5}
    plane.event("Steps", "7", 0, 1000 * US)
    plane.event("XLA Modules", f"jit_train({(1 << 63) + 5})", 0, 900 * US)
    plane.event("XLA Ops", "%while.1 = while(...)", 0, 500 * US, {"hlo_category": "while", **program})
    fused = {"hlo_category": "loop fusion", "flops": 4 * 10**8, "bytes_accessed": 10**8, **program}
    plane.event("XLA Ops", "%fusion.2 = fusion(...)", 0, 1, fused, device_duration_ps=200 * US)
    plane.event("XLA Ops", "%fusion.2 = fusion(...)", 200 * US, 200 * US, fused)
    plane.event("XLA Ops", "%all-reduce = f32[8,8] all-reduce(...)", 500 * US, 100 * US,
                {"hlo_category": "all-reduce", **program})  # fmt: skip
    moved = {"bytes_accessed": 5 * 10**7, **program}
    plane.event("XLA Ops", f"%copy-start.4 = ({layouts}) copy-start(...)", 600 * US, 1000,
                {"hlo_category": "copy-start", **moved})  # fmt: skip
    plane.event("XLA Ops", f"%copy-done.4 = f32[8,8] copy-done(({layouts}) %copy-start.4)", 700 * US, 200 * US,
                {"hlo_category": "copy-done", **moved})  # fmt: skip
    if device == 0:
        plane.event("Async XLA Ops", f"%copy-start.4 = ({layouts}) copy-start(...)", 600 * US, 300 * US,
                    {"hlo_category": "copy-start", **moved}, "async-copy")  # fmt: skip
    plane.event("XLA TraceMe", "barrier-cores", 480 * US, 20 * US)
    return plane


def on_tpus() -> bytes:
    """A step on two TPUs, of which the second does not tell what ran beside its operations."""
    host = Plane("/host:CPU", matrix_unit_utilization_percent=12)
    host.event("main/1", "train", 0, 5 * US, step_num=7)
    return profile(_tpu(0), _tpu(1), host)
