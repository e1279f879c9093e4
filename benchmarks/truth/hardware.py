"""The GPUs that the jobs run on, as their data sheets and their idle readings describe them."""

from typing import NamedTuple

_GIB = 1 << 30


class Hardware(NamedTuple):
    """A model: ``memory`` in bytes; ``limit`` of power, draw without (``idle``) and with a context but no work (``ready``),
    in W; ``clock`` the highest, MHz; links in bytes per second and direction, None where there is none."""

    name: str
    memory: int
    limit: float
    idle: float
    ready: float
    clock: float
    sm_count: int
    capability: str
    pcie: float
    nvlink: float | None
    c2c: float | None = None


H100 = Hardware("NVIDIA H100 80GB HBM3", 80 * _GIB, 700.0, 71.0, 116.0, 1980.0, 132, "9.0", 64e9, 450e9)
A100 = Hardware("NVIDIA A100-SXM4-80GB", 80 * _GIB, 400.0, 52.0, 66.0, 1410.0, 108, "8.0", 32e9, 300e9)
GH200 = Hardware("NVIDIA GH200 120GB", 95 * _GIB, 660.0, 84.0, 121.0, 1980.0, 132, "9.0", 64e9, 450e9, 450e9)
L40S = Hardware("NVIDIA L40S", 45 * _GIB, 350.0, 34.0, 82.0, 2520.0, 142, "8.9", 32e9, None)
