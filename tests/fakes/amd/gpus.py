"""AMD's GPUs as a machine has them: what each product is called and says of itself, and nodes full of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.fakes.amd.truth import Steps, Truth, always

GIB = 1 << 30
AMD, NVIDIA, INTEL, ASPEED = 0x1002, 0x10DE, 0x8086, 0x1A03


@dataclass(frozen=True)
class Product:
    """``gfx``: as in gfx942; ``target``: KFD's number for it; ``cap``: W, ``xcc``: compute dies of a device."""

    name: str
    device_id: int
    gfx: str
    target: int
    cus: int
    vram: int
    cap: float
    xcc: int
    revision: str
    apu: bool = False


MI250X = Product("AMD Instinct MI250X", 0x7408, "gfx90a", 90010, 110, 64 * GIB, 560.0, 1, "1.3")
MI300A = Product("AMD Instinct MI300A", 0x74A0, "gfx942", 90402, 228, 128 * GIB, 550.0, 6, "1.7", apu=True)
MI300X = Product("AMD Instinct MI300X", 0x74A1, "gfx942", 90402, 304, 192 * GIB, 750.0, 8, "1.6")
MI325X = Product("AMD Instinct MI325X", 0x74A5, "gfx942", 90402, 304, 256 * GIB, 1000.0, 8, "1.9")
MI355X = Product("AMD Instinct MI355X", 0x75A3, "gfx950", 90500, 256, 288 * GIB, 1400.0, 8, "1.9")
DESKTOP = Product("", 0x164E, "gfx1036", 100306, 2, GIB // 2, 0.0, 1, "2.3", apu=True)


@dataclass(frozen=True)
class Gpu:
    """One device that the driver shows. ``unique_id``: None: the driver tells none. ``secondary``: the second die of a
    card. ``render``: whether it may be opened (/dev/dri/renderD…). ``raw``: these bytes, instead of what is true."""

    product: Product
    truth: Truth
    unique_id: int | None = 0
    bus: int = 0
    revision: str = ""
    compute: str | None = "SPX"
    memory: str | None = "NPS1"
    partitions: int = 1
    secondary: bool = False
    permitted: bool = True
    has_metrics: bool = True
    raw: bytes | None = None
    product_name: str | None = None

    @property
    def uuid(self) -> str:
        """As HIP calls it."""
        return f"GPU-{self.unique_id:016x}" if self.unique_id else ""

    @property
    def layout(self) -> str:
        """The revision of its table."""
        return self.revision or self.product.revision


@dataclass(frozen=True)
class Node:
    """A machine. ``gpus`` in the order of their cards, ``kfd``: their places in the order in which KFD (and HIP) counts
    them, None: the same. ``others``: (vendor, driver) of graphics cards before them. ``cray``: it has pm_counters."""

    gpus: tuple[Gpu, ...]
    kfd: tuple[int, ...] | None = None
    others: tuple[tuple[int, str], ...] = ((ASPEED, "ast"),)
    cray: bool = False
    driver: str | None = "6.12.12"

    def but(self, place: int, **changes: object) -> "Node":
        """The node, with one of its GPUs changed."""
        gpus = list(self.gpus)
        gpus[place] = replace(gpus[place], **changes)  # type: ignore[arg-type]
        return replace(self, gpus=tuple(gpus))


def unique(place: int) -> int:
    """Different in all its digits, and with a zero at its begin now and then."""
    return (0x9E3779B97F4A7C15 * (place + 3)) % (1 << 64) >> (4 if place % 3 == 2 else 0)


def working(place: int) -> Truth:
    """GPUs that differ in everything, with whole numbers wherever a file holds whole numbers only."""
    return Truth(
        utilization=Steps(((0.0, 0.9 - 0.1 * (place % 8)), (0.4, 0.1 + 0.1 * (place % 8))), period=0.8),
        bandwidth=always(0.05 * (1 + place)),
        power=Steps(((0.0, 400.0 + 16 * place), (0.6, 200.0 + 8 * place)), period=1.2),
        sent=always(1024.0 * 1000 * 28 * (place + 1)),
        received=always(1024.0 * 1000 * 56 * (place + 2)),
        clock=always(1300.0 + 50 * place),
        hotspot=always(50.0 + place),
        memory_temperature=always(40.0 + place),
        memory=always(float((10 + place) * GIB + 4096 * place)),
    )


def steady(place: int) -> Truth:
    """GPUs that do the same all the time, in whole percents and watts: what a look at any time must show."""
    return working(place)._replace(
        utilization=always((30 + 5 * place) / 100), bandwidth=always((10 + place) / 100), power=always(300.0 + 10 * place)
    )  # fmt: skip


def full_node(product: Product, n: int, revision: str = "", truth: Sequence[Truth] | None = None) -> Node:
    """One GPU a socket, as MI300X (8) and MI300A (4) come."""
    truths = truth or [working(place) for place in range(n)]
    return Node(
        tuple(Gpu(product, truths[place], unique(place), 0x05 + 0x10 * place, revision) for place in range(n))
    )  # fmt: skip


def dies(cards: int, truth: Sequence[Truth] | None = None, cray: bool = False) -> Node:
    """MI250X: two dies a card, each a device; the first tells the card's power and energy, the second 0."""
    truths = truth or [working(place) for place in range(2 * cards)]
    busses = (0xC1, 0xC6, 0xC9, 0xCE, 0xD1, 0xD6, 0xD9, 0xDE)
    return Node(
        tuple(
            Gpu(
                MI250X,
                truths[place],
                unique(place),
                busses[place],
                compute=None,
                memory=None,
                secondary=bool(place % 2),
            )
            for place in range(2 * cards)
        ),
        cray=cray,
    )


def partitioned(n: int = 2) -> Node:
    """MI300X in CPX with NPS4: eight logical GPUs a socket."""
    return Node(
        tuple(
            Gpu(MI300X, steady(place), unique(place), 0x05 + 0x10 * place, "1.8", "CPX", "NPS4", partitions=8)
            for place in range(n)
        )
    )
