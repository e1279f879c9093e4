"""The GPUs that simulated jobs run on: peaks and limits as their makers publish them."""

from typing import NamedTuple


class Gpu(NamedTuple):
    """One model: clocks in MHz, power in W, memory in bytes, links in bytes/s and direction (0: has none)."""

    name: str
    memory: int
    power_limit: float
    idle_power: float
    sm_count: int
    clock: int
    capability: str
    pcie: float
    nvlink: float
    c2c: float
    nic: float
    """The GPU's share of its node's network adapters."""
    power_seconds: float
    """Length of the mean that its power reading is."""
    hot: float
    """Temperature at which its clocks are lowered, °C."""
    has_gpm: bool


_GIB = 1 << 30
A100 = Gpu("NVIDIA A100-SXM4-80GB", 80 * _GIB, 400, 55, 108, 1410, "8.0", 32e9, 300e9, 0, 25e9, 0.1, 92, False)
V100 = Gpu("Tesla V100-SXM2-32GB", 32 * _GIB, 300, 40, 80, 1530, "7.0", 16e9, 150e9, 0, 6e9, 0.1, 84, False)
H100 = Gpu("NVIDIA H100 80GB HBM3", 80 * _GIB, 700, 70, 132, 1980, "9.0", 64e9, 450e9, 0, 50e9, 1.0, 87, True)
H200 = Gpu("NVIDIA H200", 141 * _GIB, 700, 75, 132, 1980, "9.0", 64e9, 450e9, 0, 50e9, 1.0, 87, True)
GH200 = Gpu("NVIDIA GH200 480GB", 96 * _GIB, 700, 90, 132, 1980, "9.0", 64e9, 450e9, 450e9, 25e9, 1.0, 87, True)
L40S = Gpu("NVIDIA L40S", 48 * _GIB, 350, 35, 142, 2520, "8.9", 32e9, 0, 0, 12.5e9, 1.0, 88, False)
PER_NODE = {A100: 8, V100: 4, H100: 8, H200: 8, GH200: 4, L40S: 4}
