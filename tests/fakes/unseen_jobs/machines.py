"""The clusters that unseen jobs run on: GPU models, nodes, and how their GPUs are linked."""

from dataclasses import dataclass

import numpy as np

from gssr.arrays import Ints

GIB = float(2**30)
VIEWS = ("full", "exporter", "gpm", "nvml", "amd", "imported")
"""What recorded the job: DCGM with all fields, DCGM with the exporter's default fields, GPM, NVML alone, AMD's driver, and a
Prometheus server's dump of the exporter, which knows nothing of the nodes."""
_PIPES = ("gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "tensor_hmma_active", "tensor_imma_active",
          "tensor_dfma_active", "fp64_active", "fp32_active", "fp16_active", "integer_active", "dram_active")  # fmt: skip
_PCIE, _LINKS = ("pcie_tx_bytes", "pcie_rx_bytes"), ("nvlink_tx_bytes", "nvlink_rx_bytes")
_C2C = ("c2c_tx_bytes", "c2c_rx_bytes")
_DRIVER = ("power_usage", "energy", "temperature", "memory_temperature", "sm_clock", "memory_used",
           "clock_event_reasons")  # fmt: skip
_EXPORTED = ("gpu_utilization", "memory_copy_utilization", "gr_engine_active", "tensor_active", "dram_active", *_PCIE,
             "power_usage", "energy", "temperature", "memory_temperature", "sm_clock", "memory_used")  # fmt: skip
_BY_VIEW: dict[str, tuple[str, ...]] = {
    "full": ("gpu_utilization", "memory_copy_utilization", *_PIPES, *_PCIE, *_LINKS, *_C2C, *_DRIVER),
    "gpm": ("gpu_utilization", "memory_copy_utilization", *_PIPES, *_PCIE, *_LINKS, *_C2C, *_DRIVER),
    "exporter": _EXPORTED,
    "imported": _EXPORTED,
    "nvml": ("gpu_utilization", "memory_copy_utilization", *_DRIVER),
    "amd": ("gpu_utilization", "dram_active", *_LINKS, *_DRIVER),
}


@dataclass(frozen=True)
class Model:
    """A GPU model. Clocks in MHz, power in W, memory in GiB, links in B/s that a program sees in one direction; ``links``
    is 0 where GPUs talk over PCIe alone; ``window_s``: the time over which its driver counts utilization."""

    name: str
    sm_count: int
    max_clock: int
    power_limit: float
    idle_power: float
    memory: float
    capability: str
    per_node: tuple[int, ...]
    links: float
    pcie: float
    window_s: float
    is_hopper: bool = False
    has_c2c: bool = False
    has_strong_fp64: bool = True
    is_amd: bool = False


MODELS = (
    Model("NVIDIA H100 80GB HBM3", 132, 1980, 700, 68, 80, "9.0", (4, 8), 370e9, 52e9, 0.2, is_hopper=True),
    Model("NVIDIA H200", 132, 1980, 700, 74, 141, "9.0", (8,), 370e9, 52e9, 0.2, is_hopper=True),
    Model("NVIDIA GH200 120GB", 132, 1980, 680, 78, 96, "9.0", (1, 4), 130e9, 330e9, 0.2, True, has_c2c=True),
    Model("NVIDIA A100-SXM4-80GB", 108, 1410, 400, 55, 80, "8.0", (4, 8), 230e9, 25e9, 0.17),
    Model("NVIDIA A100-SXM4-40GB", 108, 1410, 400, 52, 40, "8.0", (4, 8), 230e9, 25e9, 0.17),
    Model("NVIDIA A100-PCIE-40GB", 108, 1410, 250, 34, 40, "8.0", (1, 2, 4), 0.0, 24e9, 0.17),
    Model("NVIDIA L40S", 142, 2520, 350, 34, 45, "8.9", (4, 8), 0.0, 24e9, 0.17, has_strong_fp64=False),
    Model("Tesla V100-SXM2-32GB", 80, 1530, 300, 42, 32, "7.0", (4,), 120e9, 12e9, 0.17),
    Model("AMD Instinct MI300X", 304, 2100, 750, 135, 192, "gfx942", (8,), 300e9, 50e9, 0.05, is_amd=True),
    Model("AMD Instinct MI300A", 228, 2100, 550, 110, 128, "gfx942", (4,), 250e9, 90e9, 0.05, is_amd=True),
)


@dataclass(frozen=True)
class Machine:
    """The nodes of a job. ``node_of`` [GPU]; ``cores`` and ``memory`` (bytes) of one node; ``fabric``: B/s of one node's
    network between nodes, in one direction."""

    model: Model
    n_nodes: int
    per_node: int
    node_of: Ints
    cores: int
    memory: float
    fabric: float

    @property
    def n_gpus(self) -> int:
        """Return how many GPUs the job has."""
        return len(self.node_of)

    @property
    def link_rate(self) -> float:
        """Return the B/s at which GPUs of a node talk to each other."""
        return self.model.links or 0.55 * self.model.pcie


def draw_machine(rng: np.random.Generator, view: str, fewest: int, most: int, nodes: tuple[int, int]) -> Machine:
    """Draw nodes of a model that ``view`` can record, with ``fewest`` to ``most`` GPUs on a number of ``nodes``. Raises
    LookupError if this draw has none."""
    suits = [each for each in MODELS if each.is_amd == (view == "amd") and (view != "gpm" or each.is_hopper)]
    model = suits[int(rng.integers(len(suits)))]
    sizes = [
        (count, per_node)
        for per_node in sorted({*model.per_node, *(size for size in (1, 2) if size <= max(model.per_node))})
        for count in (1, 2, 4, 8, 16)
        if fewest <= count * per_node <= min(most, 64) and nodes[0] <= count <= nodes[1]
        and (count == 1 or per_node in model.per_node)
    ]  # fmt: skip
    if not sizes:
        raise LookupError("no such machine")
    n_gpus = rng.choice(sorted({count * per_node for count, per_node in sizes}))
    count, per_node = sizes[int(rng.choice([at for at, size in enumerate(sizes) if size[0] * size[1] == n_gpus]))]
    cores = int(rng.choice((32, 64, 96, 128))) if not model.has_c2c else 72 * max(per_node, 1)
    memory = float(rng.choice((256, 512, 1024))) * GIB
    fabric = max(per_node / 2, 1.0) * float(rng.choice((11e9, 22e9, 40e9)))  # a card for two GPUs
    return Machine(model, count, per_node, np.repeat(np.arange(count), per_node), cores, memory, fabric)


def metrics_of(view: str, model: Model) -> tuple[str, ...]:
    """Return the metrics that a view measures of a model, in no order."""
    names = _BY_VIEW[view]
    absent = set(() if model.links or model.is_amd else _LINKS) | set(() if model.has_c2c else _C2C)
    if not model.is_hopper:
        absent |= {"tensor_imma_active", "tensor_dfma_active"} if model.capability == "7.0" else set()
    return tuple(name for name in names if name not in absent)
