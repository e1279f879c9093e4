"""What a GPU, its process and its node do at a time: kinds of work, with the rates at which counters run and the leaf of the
tree of GPU time that it belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

LEAVES = (
    "unmeasured", "unused", "startup", "end", "idle.input_output", "idle.copies", "idle.host", "idle.imbalance",
    "idle.between_kernels", "idle.unexplained", "communication.transferring", "communication.waiting", "working.slowed",
    "working.few_sms", "working.memory", "working.tensor", "working.fp64", "working.other",
)  # fmt: skip
RATES = (
    "engine", "resident", "sm", "occupancy", "tensor", "hmma", "imma", "dfma", "fp64", "fp32", "fp16", "integer", "dram",
    "from_gpu", "to_gpu", "link_tx", "link_rx", "power", "cores", "read", "write", "net_rx", "net_tx", "fabric_rx",
    "fabric_tx",
)  # fmt: skip
"""Per second of work: shares of a GPU's time and units; ``resident``: a kernel ran within the last milliseconds, which is
what drivers count; B/s over PCIe or C2C and over the GPUs' own links; ``power``: share of the range from idle to the limit;
the process's busy cores, and B/s of disks, network and fabric that it causes on its node."""


@dataclass(frozen=True)
class Work:
    """One kind of work: ``leaves``: how its time is booked, a share per leaf, 1 in all; ``rates``: by name of RATES."""

    leaves: Mapping[str, float]
    rates: Mapping[str, float]

    def beside(self, **more: float) -> "Work":
        """Return the same work with more going on beside it, which the books do not tell: rates are added."""
        return replace(self, rates={**self.rates, **{name: self.rates.get(name, 0.0) + more[name] for name in more}})

    def on_host(self, **rates: float) -> "Work":
        """Return the same work with other rates in place of its own."""
        return replace(self, rates={**self.rates, **rates})


def mix(*pairs: tuple[Work, float]) -> Work:
    """Return the work of many short pieces in turn, in proportion to their shares of the time."""
    total = sum(share for _, share in pairs)
    leaves: dict[str, float] = {}
    rates: dict[str, float] = {}
    for work, share in pairs:
        for leaf, part in work.leaves.items():
            leaves[leaf] = leaves.get(leaf, 0.0) + part * share / total
        for name, rate in work.rates.items():
            rates[name] = rates.get(name, 0.0) + rate * share / total
    if rates.get("resident", 0.0) > 0.2:  # pieces are shorter than the time over which a driver looks for a kernel
        rates["resident"] = 1.0
    return Work(leaves, rates)


def kernels(leaf: str, **rates: float) -> Work:
    """Return kernels that run all the time and are booked as working.``leaf``; one core feeds them."""
    return Work({f"working.{leaf}": 1.0}, {"engine": 1.0, "resident": 1.0, "cores": 1.0, **rates})


def idle(leaf: str, **rates: float) -> Work:
    """Return time without a kernel, booked as ``leaf``, in which one core polls unless told otherwise."""
    return Work({leaf: 1.0}, {"cores": 1.0, **rates})


class Catalogue:
    """Kinds of work as this job's programs do them: every job draws its own figures."""

    def __init__(self, rng: np.random.Generator, link_rate: float) -> None:
        self.rng = rng
        self.spin_sms = float(rng.uniform(0.1, 0.26))
        """SMs that a collective takes: 16 to 32 channels of 108 to 132."""
        self.pair_sms = float(rng.uniform(0.015, 0.05))
        self.link_rate = link_rate

    def _draw(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def transformer(self) -> Work:
        """Forward and backward of a large transformer in BF16."""
        u, tensor = self._draw, self._draw(0.42, 0.62)
        return kernels(
            "tensor", sm=u(0.86, 0.95), occupancy=u(0.17, 0.33), tensor=tensor, hmma=tensor, dram=u(0.26, 0.38),
            fp32=u(0.05, 0.1), integer=u(0.03, 0.07), power=u(0.72, 0.92),
        )  # fmt: skip

    def convolutions(self) -> Work:
        """A vision model in mixed precision."""
        u, tensor = self._draw, self._draw(0.34, 0.48)
        return kernels(
            "tensor", sm=u(0.84, 0.93), occupancy=u(0.28, 0.45), tensor=tensor, hmma=tensor, dram=u(0.24, 0.34),
            fp16=u(0.02, 0.06), fp32=u(0.06, 0.12), power=u(0.58, 0.75),
        )  # fmt: skip

    def matrices(self) -> Work:
        """Large matrix products back to back."""
        u, tensor = self._draw, self._draw(0.74, 0.91)
        return kernels(
            "tensor", sm=u(0.96, 0.99), occupancy=u(0.12, 0.2), tensor=tensor, hmma=tensor, dram=u(0.16, 0.32),
            power=u(0.93, 0.99),
        )  # fmt: skip

    def linpack(self) -> Work:
        """FP64 matrix products on the tensor cores."""
        tensor = self._draw(0.72, 0.88)
        return kernels(
            "tensor", sm=self._draw(0.95, 0.99), occupancy=0.13, tensor=tensor, dfma=tensor, fp64=0.03,
            dram=self._draw(0.15, 0.3), power=self._draw(0.88, 0.98),
        )  # fmt: skip

    def stencil(self) -> Work:
        """Stencils, sparse solvers and lattices: the memory is the limit."""
        u = self._draw
        return kernels(
            "memory", sm=u(0.9, 0.99), occupancy=u(0.45, 0.8), fp64=u(0.08, 0.2), integer=u(0.05, 0.12), dram=u(0.62, 0.82),
            power=u(0.5, 0.65),
        )  # fmt: skip

    def particles(self) -> Work:
        """Molecular dynamics or ray tracing in FP32."""
        u = self._draw
        return kernels(
            "other", sm=u(0.78, 0.93), occupancy=u(0.35, 0.6), fp32=u(0.32, 0.5), integer=u(0.1, 0.2), dram=u(0.1, 0.28),
            power=u(0.55, 0.75),
        )  # fmt: skip

    def double(self) -> Work:
        """Chemistry, transport: FP64 arithmetic outside the tensor cores."""
        u = self._draw
        return kernels(
            "fp64", sm=u(0.85, 0.95), occupancy=u(0.25, 0.5), fp64=u(0.42, 0.65), dram=u(0.15, 0.3), integer=0.06,
            power=u(0.65, 0.85),
        )  # fmt: skip

    def gather(self) -> Work:
        """Graph networks and embeddings: scattered reads."""
        u, tensor = self._draw, self._draw(0.02, 0.06)
        return kernels(
            "memory", sm=u(0.78, 0.9), occupancy=u(0.45, 0.65), tensor=tensor, hmma=tensor, integer=u(0.15, 0.25),
            fp32=u(0.08, 0.14), dram=u(0.55, 0.7), power=u(0.45, 0.6),
        )  # fmt: skip

    def decode(self) -> Work:
        """Decode of a large language model with many requests at once."""
        u, tensor = self._draw, self._draw(0.06, 0.16)
        return kernels(
            "memory", sm=u(0.78, 0.9), occupancy=u(0.16, 0.3), tensor=tensor, hmma=tensor, dram=u(0.58, 0.76),
            power=u(0.48, 0.65),
        )  # fmt: skip

    def small(self) -> Work:
        """Kernels of a few blocks, as of tiny batches."""
        u = self._draw
        sm = u(0.03, 0.15)
        return kernels(
            "few_sms", sm=sm, occupancy=sm * u(0.1, 0.3), fp32=sm * 0.2, dram=u(0.01, 0.04), power=u(0.05, 0.14)
        )

    def collective(self, share_of_links: float = 0.8) -> Work:
        """A ring or tree that moves data at this share of what the links carry."""
        rate = share_of_links * self.link_rate
        return Work(
            {"communication.transferring": 1.0},
            {"engine": 1.0, "resident": 1.0, "cores": 1.0, "sm": self.spin_sms, "occupancy": 0.3 * self.spin_sms,
             "dram": 0.02 + 0.1 * share_of_links, "link_tx": rate, "link_rx": rate, "power": 0.12 + 0.1 * share_of_links},
        )  # fmt: skip

    def spin(self, pair: bool = False) -> Work:
        """A kernel of a collective, or of send and receive, that waits for its partners."""
        sms = self.pair_sms if pair else self.spin_sms
        return Work(
            {"communication.waiting": 1.0},
            {"engine": 1.0, "resident": 1.0, "cores": 1.0, "sm": sms, "occupancy": 0.3 * sms, "dram": 0.004,
             "power": 0.05 + 0.45 * sms},
        )  # fmt: skip
