"""GPU models and nodes of the simulated jobs, with the figures of their makers' data sheets."""

from typing import NamedTuple

GIB = 2**30


class GpuModel(NamedTuple):
    """A GPU model and the node it is usually built into.

    Clocks are in MHz, power in W, link speeds in bytes per second and direction. ``nvlink_speed`` is 0 without NVLink,
    ``fabric_speed`` the InfiniBand speed per GPU, 0 without InfiniBand."""

    name: str
    architecture: str
    sm_count: int
    max_clock: int
    power_limit: float
    idle_power: float
    memory_total: int
    pcie_speed: float
    nvlink_speed: float
    c2c_speed: float
    fabric_speed: float
    gpus_per_node: int
    cores_per_node: int
    compute_capability: str | None


MODELS = {
    "A100": GpuModel(
        "NVIDIA A100-SXM4-80GB", "ampere", 108, 1410, 400, 58, 80 * GIB, 25e9, 300e9, 0, 25e9, 8, 128, "8.0"
    ),
    "A100x4": GpuModel(
        "NVIDIA A100-SXM4-40GB", "ampere", 108, 1410, 400, 52, 40 * GIB, 25e9, 300e9, 0, 25e9, 4, 64, "8.0"
    ),
    "H100": GpuModel(
        "NVIDIA H100 80GB HBM3", "hopper", 132, 1980, 700, 72, 80 * GIB, 55e9, 450e9, 0, 50e9, 8, 192, "9.0"
    ),
    "H200": GpuModel("NVIDIA H200", "hopper", 132, 1980, 700, 78, 141 * GIB, 55e9, 450e9, 0, 50e9, 8, 192, "9.0"),
    "GH200": GpuModel(
        "NVIDIA GH200 120GB", "hopper", 132, 1980, 700, 90, 96 * GIB, 55e9, 150e9, 400e9, 25e9, 4, 288, "9.0"
    ),
    "L40S": GpuModel("NVIDIA L40S", "ada", 142, 2520, 350, 36, 46 * GIB, 25e9, 0, 0, 0, 4, 64, "8.9"),
    "V100": GpuModel("Tesla V100-SXM2-32GB", "volta", 80, 1530, 300, 42, 32 * GIB, 12e9, 150e9, 0, 12e9, 4, 40, "7.0"),
    "MI300X": GpuModel("AMD Instinct MI300X", "cdna3", 304, 2100, 750, 135, 192 * GIB, 55e9, 0, 0, 50e9, 8, 192, None),
}

VIEW_MODELS = {
    "full": ("A100", "A100x4", "H100", "H200", "GH200", "L40S", "V100"),
    "exporter": ("A100", "A100x4", "H100", "H200", "L40S", "V100"),
    "gpm": ("H100", "H200", "GH200"),
    "nvml": ("A100", "A100x4", "H100", "H200", "L40S", "V100"),
    "amd": ("MI300X",),
}
