"""Jobs with nothing wrong: at least ten kinds of work, each busy in its own way."""

import numpy as np

from tests.fakes.jobs.hardware import Gpu
from tests.fakes.jobs.job import IDLE, Recipe
from tests.fakes.jobs.phases import Kind

HOST = IDLE._replace(cores=1.0)
RING = Kind(engine=1.0, sm=0.16, occupancy=0.05, dram=0.22, fp32=0.01, fabric=0.7, nvlink=0.2, integer=0.03)
"""Few channels' kernels wait for the adapters most of the time."""
NVLINK = Kind(engine=1.0, sm=0.2, occupancy=0.08, dram=0.28, fp32=0.02, nvlink=0.6, integer=0.05)
ALL_SMS = Kind(engine=1.0, sm=0.96, occupancy=0.3, dram=0.3, fp32=0.02, nvlink=0.5, integer=0.08)
"""A library that moves data with all of them."""

# engine, SM, occupancy, tensor, its FP64 part, FP64, FP32, FP16, integer, DRAM
LLM = Kind(0.995, 0.92, 0.23, 0.56, 0, 0, 0.07, 0.02, 0.12, 0.42, nvlink=0.1)
MOE = Kind(0.99, 0.86, 0.28, 0.36, 0, 0, 0.09, 0.02, 0.15, 0.5, nvlink=0.2)
VISION = Kind(0.98, 0.87, 0.42, 0.27, 0, 0, 0.12, 0.04, 0.14, 0.6, host_rx=0.02, cores=7)
DIFFUSION = Kind(0.99, 0.9, 0.3, 0.46, 0, 0, 0.1, 0.02, 0.1, 0.5, cores=3)
DECODE = Kind(0.97, 0.83, 0.2, 0.14, 0, 0, 0.05, 0.02, 0.1, 0.68, nvlink=0.03)
SOLVER = Kind(0.99, 0.93, 0.4, 0.12, 0.12, 0.46, 0, 0, 0.12, 0.45)
STENCIL = Kind(0.985, 0.96, 0.62, 0, 0, 0.16, 0.03, 0, 0.12, 0.8, nvlink=0.02)
DYNAMICS = Kind(0.95, 0.84, 0.45, 0, 0, 0, 0.42, 0, 0.2, 0.13, host_rx=0.03, host_tx=0.03, cores=6)
GRAPH = Kind(0.97, 0.9, 0.66, 0, 0, 0, 0.09, 0, 0.27, 0.57, cores=4)
CHEMISTRY = Kind(0.97, 0.85, 0.3, 0.2, 0.2, 0.33, 0, 0, 0.14, 0.3, cores=2)
TUNING = Kind(0.97, 0.86, 0.26, 0.42, 0, 0, 0.09, 0.03, 0.1, 0.47, cores=2)


def exchange(gpu: Gpu, n: int, n_nodes: int) -> Kind:
    """How ranks of such a job exchange data."""
    if n == 1:
        return HOST
    if n_nodes > 1:
        return RING if gpu.nvlink else RING._replace(nvlink=0.0)
    return NVLINK if gpu.nvlink else NVLINK._replace(nvlink=0.0, host_tx=0.4, host_rx=0.4)


def _training(name: str, kind: Kind, step: float, rng: np.random.Generator, memory: float, ring: Kind) -> Recipe:
    exposed = float(rng.uniform(0.003, 0.017))
    half = kind._replace(tensor=kind.tensor * 0.94, dram=min(kind.dram * 1.1, 0.85))
    return Recipe(
        name, ((kind, 0.34 * step), (half, 0.65 * step)), ((ring, exposed * step), (HOST, 0.003 * step)), memory=memory
    )


def recipe(name: str, rng: np.random.Generator, seconds: float, ring: Kind) -> Recipe:
    """A healthy step of this kind of work, about ``seconds`` long (what is steady has none that could be told), in which
    data is exchanged as ``ring``."""
    spread = {
        field: value * float(np.clip(rng.normal(1.0, 0.04), 0.9, 1.1))
        for field, value in WORK[name]._asdict().items()
        if field in ("sm", "tensor", "occupancy", "dram", "fp32", "fp64", "integer") and value
    }
    kind = WORK[name]._replace(**{field: min(value, 0.97) for field, value in spread.items()})
    memory = float(rng.uniform(0.45, 0.93))
    if name in ("llm", "moe", "vision", "diffusion"):
        return _training(name, kind, seconds, rng, memory, ring)
    if name == "pipeline":
        return Recipe(
            name, ((kind, 0.985 * seconds),), ((ring, 0.012 * seconds), (HOST, 0.003 * seconds)), memory=memory
        )
    if name == "inference":  # requests come as they come
        return Recipe(name, ((kind, 0.96), (HOST, 0.03)), sync=False, jitter=0.03, memory=memory)
    if name == "dynamics":
        return Recipe(name, ((kind, 1.0),), sync=False, memory=0.15)
    if name == "tuning":
        return Recipe(name, ((kind, 0.985 * seconds), (HOST, 0.015 * seconds)), sync=False, memory=memory)
    exposed = float(rng.uniform(0.002, 0.015))
    return Recipe(name, ((kind, (1 - exposed) * seconds),), ((ring, exposed * seconds),), jitter=0.006, memory=memory)


WORK: dict[str, Kind] = {
    "llm": LLM, "moe": MOE, "vision": VISION, "diffusion": DIFFUSION, "inference": DECODE, "solver": SOLVER,
    "stencil": STENCIL, "dynamics": DYNAMICS, "graph": GRAPH, "chemistry": CHEMISTRY, "tuning": TUNING, "pipeline": LLM,
}  # fmt: skip
STEADY = ("inference", "dynamics")
"""Work without steps that could be told."""
