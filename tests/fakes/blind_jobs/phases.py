"""Phases: what a GPU and its share of the host do for a while, all of it constant."""

from typing import Any, NamedTuple

LEAVES = (
    "unmeasured",
    "unused",
    "startup",
    "end",
    "idle.input_output",
    "idle.copies",
    "idle.host",
    "idle.imbalance",
    "idle.between_kernels",
    "idle.unexplained",
    "communication.transferring",
    "communication.waiting",
    "working.slowed",
    "working.few_sms",
    "working.memory",
    "working.tensor",
    "working.fp64",
    "working.other",
)
"""The categories of GPU time that the books have."""


class Phase(NamedTuple):
    """One kind of time. ``engine`` is the share of it in which kernels run and which the books have under ``leaf``, the rest
    is under ``gap`` (without any kernels all of it is under ``leaf``). Activities and ``power`` (share of what lies between
    idle and limit) hold while a kernel runs, rates in bytes/s and ``cores`` all the time. ``memory`` is the share of the
    rank's usual device memory, 0 without a context. ``jitters``: lengths vary from step to step."""

    leaf: str
    engine: float = 0.0
    gap: str = "idle.between_kernels"
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dfma: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    integer: float = 0.0
    dram: float = 0.0
    power: float = 0.0
    pcie_rx: float = 0.0
    pcie_tx: float = 0.0
    nvlink: float = 0.0
    cores: float = 0.3
    read: float = 0.0
    write: float = 0.0
    net_rx: float = 0.0
    net_tx: float = 0.0
    fabric_rx: float = 0.0
    fabric_tx: float = 0.0
    memory: float = 1.0

    @property
    def is_work(self) -> bool:
        """Tell whether its kernels compute, so that a lower clock costs time."""
        return self.leaf.startswith("working")


def tensor_work(tensor: float, dram: float, power: float, **other: Any) -> Phase:
    """Return matrix products in FP16 or BF16: few warps of many registers, tensor pipes busy."""
    return Phase("working.tensor", 0.985, sm=0.86, occupancy=0.2, tensor=tensor, dram=dram, power=power, fp32=0.06,
                 integer=0.07, cores=1.1)._replace(**other)  # fmt: skip


def memory_work(dram: float, power: float, **other: Any) -> Phase:
    """Return kernels that the device memory's bandwidth bounds: element-wise, stencils, decoding."""
    return Phase("working.memory", 0.97, sm=0.93, occupancy=0.5, dram=dram, power=power, fp32=0.07, integer=0.09,
                 cores=1.0)._replace(**other)  # fmt: skip


def double_work(fp64: float, dram: float, power: float, **other: Any) -> Phase:
    """Return kernels that compute in double precision on the ordinary pipes."""
    return Phase("working.fp64", 0.96, sm=0.9, occupancy=0.4, fp64=fp64, dram=dram, power=power, integer=0.1,
                 cores=1.0)._replace(**other)  # fmt: skip


def other_work(fp32: float, dram: float, power: float, **other: Any) -> Phase:
    """Return kernels of single precision or integers: particles, alignment, rendering."""
    return Phase("working.other", 0.95, sm=0.82, occupancy=0.42, fp32=fp32, dram=dram, power=power, integer=0.2,
                 cores=1.0)._replace(**other)  # fmt: skip


UNUSED = Phase("unused", cores=0.0, memory=0.0)
"""A GPU that the job was given and never touches."""
BEFORE = Phase("startup", cores=0.9, memory=0.0)
"""Imports and set-up, before a context is there."""
LOADING = Phase("startup", cores=0.8, net_rx=4e8, pcie_rx=6e8, memory=0.5)
"""Weights or the initial state come from files."""
AFTER = Phase("end", cores=0.4, write=2e7)
"""Results are written, nothing computes any more."""
GONE = Phase("idle.imbalance", cores=0.0, memory=0.0)
"""A rank that has not begun or is through while others work."""
HELD_UP = Phase("idle.imbalance", cores=1.0)
"""A rank waits for others in MPI, which polls: no kernel, a busy core."""
ON_ONE_CORE = Phase("idle.host", cores=1.0)
"""One thread computes while the GPU waits for it."""
PAUSE = Phase("idle.unexplained", cores=0.15)
"""Nothing that is measured tells why."""


def reading(source: str, rate: float, cores: float = 0.5) -> Phase:
    """Return a wait for input: ``source`` is disk, network or fabric, ``rate`` what the rank reads in bytes/s."""
    column: dict[str, Any] = {{"disk": "read", "network": "net_rx", "fabric": "fabric_rx"}[source]: rate}
    return Phase("idle.input_output", cores=cores)._replace(**column)


def writing(target: str, rate: float) -> Phase:
    """Return a wait for output, such as a checkpoint; the state is copied from the device meanwhile."""
    column: dict[str, Any] = {{"disk": "write", "network": "net_tx", "fabric": "fabric_tx"}[target]: rate}
    return Phase("idle.input_output", cores=0.8, pcie_tx=0.2 * rate)._replace(**column)
