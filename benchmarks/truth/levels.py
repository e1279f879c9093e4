"""What a GPU shows while it does one thing all the time: a table of activities."""

from typing import NamedTuple


class Level(NamedTuple):
    """Ratios as in the catalogue; links as shares of what they carry at most (``c2c`` stands in for PCIe where there is
    one); ``power`` as a share of what lies between ready and the limit."""

    gr: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dfma: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    integer: float = 0.0
    dram: float = 0.0
    tx: float = 0.0
    rx: float = 0.0
    nvlink: float = 0.0
    power: float = 0.0


IDLE = Level()
"""A context, and nothing to do."""
LOADING = Level(gr=0.02, sm=0.01, occupancy=0.003, integer=0.002, dram=0.01, tx=0.001, rx=0.02, power=0.02)
"""Imports, reading the model, now and then a copy."""

TRANSFORMER = Level(0.99, 0.93, 0.31, 0.63, 0.0, 0.0, 0.11, 0.03, 0.14, 0.38, 0.005, 0.01, 0.06, 0.88)
CONVOLUTION = Level(0.98, 0.87, 0.42, 0.27, 0.0, 0.0, 0.13, 0.08, 0.17, 0.55, 0.005, 0.03, 0.05, 0.66)
FULL_PRECISION = Level(0.98, 0.88, 0.38, 0.0, 0.0, 0.0, 0.56, 0.0, 0.16, 0.30, 0.004, 0.02, 0.04, 0.70)
"""Training in FP32 without TF32."""
STENCIL = Level(0.99, 0.96, 0.70, 0.0, 0.0, 0.09, 0.06, 0.0, 0.19, 0.84, 0.004, 0.004, 0.04, 0.60)
SPARSE = Level(0.98, 0.84, 0.58, 0.0, 0.0, 0.07, 0.02, 0.0, 0.21, 0.66, 0.004, 0.004, 0.03, 0.50)
"""A sparse solver: indirect access, so short of the peak."""
CHEMISTRY = Level(0.98, 0.92, 0.40, 0.0, 0.0, 0.74, 0.03, 0.0, 0.12, 0.22, 0.005, 0.005, 0.02, 0.72)
LINPACK = Level(0.99, 0.96, 0.20, 0.82, 0.82, 0.02, 0.01, 0.0, 0.10, 0.34, 0.01, 0.01, 0.04, 0.93)
DECODING = Level(0.96, 0.80, 0.28, 0.14, 0.0, 0.0, 0.07, 0.04, 0.11, 0.68, 0.004, 0.006, 0.05, 0.50)
"""A language model that answers: every token reads all weights."""
PREFILL = Level(0.98, 0.90, 0.27, 0.52, 0.0, 0.0, 0.10, 0.03, 0.12, 0.40, 0.004, 0.008, 0.08, 0.78)
GRAPH = Level(0.97, 0.87, 0.62, 0.0, 0.0, 0.0, 0.008, 0.0, 0.33, 0.24, 0.003, 0.004, 0.01, 0.36)
"""Graph traversal: integers, and waits for single words of memory."""
SMALL_KERNELS = Level(0.93, 0.09, 0.02, 0.0, 0.0, 0.0, 0.03, 0.0, 0.03, 0.04, 0.002, 0.003, 0.0, 0.12)
"""Grids of a few blocks, one after the other without a break."""

COLLECTIVE = Level(0.99, 0.19, 0.06, 0.0, 0.0, 0.0, 0.015, 0.004, 0.03, 0.16, 0.003, 0.003, 0.52, 0.24)
"""NCCL's kernels at work: a few blocks that move data."""
SPINNING = Level(0.99, 0.16, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03, 0.005, 0.0, 0.0, 0.0, 0.13)
"""NCCL's kernels waiting for another GPU."""
DOWNLOADING = Level(0.08, 0.01, 0.003, 0.0, 0.0, 0.0, 0.0, 0.0, 0.002, 0.04, 0.30, 0.003, 0.0, 0.06)
"""Copies to the host."""
STREAMING = Level(0.13, 0.06, 0.02, 0.0, 0.0, 0.0, 0.004, 0.002, 0.01, 0.07, 0.12, 0.62, 0.0, 0.10)
"""Parameters or fields that live in the host's memory, copied in for each step."""
