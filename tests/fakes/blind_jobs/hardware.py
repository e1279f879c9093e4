"""GPU models and the nodes they sit in, with figures that their makers and operators publish."""

from typing import NamedTuple

MIB = 2**20
GB = 1e9


class GpuModel(NamedTuple):
    """One GPU and its share of a node. Rates are what programs reach, in bytes/s and one direction; clocks in MHz, powers in
    W. ``power_window_s`` is the time over which the driver averages power, ``utilization_window_s`` that of utilization;
    ``has_fp64``: its FP64 pipes are wide enough to compute with."""

    name: str
    sm_count: int
    max_clock: int
    idle_clock: int
    clock_step: int
    memory_mib: int
    power_limit: float
    idle_power: float
    context_power: float
    nvlink: float
    pcie: float
    c2c: float
    nic: float
    per_node: int
    cores: int
    capability: str | None
    power_window_s: float
    utilization_window_s: float
    has_fp64: bool = True


A100 = GpuModel("NVIDIA A100-SXM4-80GB", 108, 1410, 210, 15, 81920, 400, 58, 24, 230 * GB, 23 * GB, 0, 22 * GB, 8, 128,
                "8.0", 0.1, 1.0)  # fmt: skip
A100_40 = A100._replace(name="NVIDIA A100-SXM4-40GB", memory_mib=40960, per_node=4, cores=64, idle_power=52)
H100 = GpuModel("NVIDIA H100 80GB HBM3", 132, 1980, 345, 15, 81559, 700, 72, 44, 370 * GB, 50 * GB, 0, 45 * GB, 8, 192,
                "9.0", 1.0, 1.0)  # fmt: skip
H200 = H100._replace(name="NVIDIA H200", memory_mib=143771, idle_power=78)
GH200 = GpuModel("NVIDIA GH200 120GB", 132, 1980, 345, 15, 97871, 680, 96, 40, 370 * GB, 40 * GB, 330 * GB, 23 * GB, 4, 288,
                 "9.0", 1.0, 1.0)  # fmt: skip
L40S = GpuModel(
    "NVIDIA L40S", 142, 2520, 210, 15, 46068, 350, 34, 48, 0, 22 * GB, 0, 11 * GB, 8, 96, "8.9", 1.0, 0.2, False
)
MI250X = GpuModel("AMD Instinct MI250X", 110, 1700, 500, 1, 65520, 560, 92, 20, 70 * GB, 25 * GB, 0, 11 * GB, 8, 64,
                  None, 0.1, 0.0)  # fmt: skip
MI300X = GpuModel("AMD Instinct MI300X", 304, 2100, 132, 1, 196592, 750, 132, 30, 280 * GB, 48 * GB, 0, 45 * GB, 8, 192,
                  None, 0.5, 0.0)  # fmt: skip

NVIDIA = (A100, A100, A100_40, H100, H100, H200, GH200, L40S)
MODELS = {
    "full": NVIDIA,
    "exporter": NVIDIA,
    "imported": (A100, A100_40, H100, H200, L40S),
    "gpm": (H100, H200, GH200),
    "nvml": NVIDIA,
    "amd": (MI250X, MI300X),
}
"""The models that a view can be of: GPM came with Hopper."""
