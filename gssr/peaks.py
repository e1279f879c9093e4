"""What GPU models can do at most, as their maker publishes it: the yardstick for measured activity and traffic.

Per GPU, at boost clock, without sparsity. A model that isn't here is unknown, and so is a part of one (a MIG instance): no
figure is guessed from a relative's. Synthetic GPUs are modelled on the H100 SXM5 and have its peaks.
"""

from typing import NamedTuple

_T, _G = 1e12, 1e9


class Peaks(NamedTuple):
    """The most that a GPU model can do: FLOP/s of the pipes that the metrics of the same names watch, bytes/s per
    direction of memory and links, power limit in W.

    ``tensor`` is dense BF16 (FP16 on Volta) with FP32 accumulation, ``fp64_tensor`` the tensor cores' FP64; on AMD's
    GPUs these are the matrix cores', and ``sm_count`` counts compute units. None if there is no such pipe or link, or
    no published figure.
    """

    model: str
    sm_count: int
    fp64: float
    fp64_tensor: float | None
    fp32: float
    fp16: float | None
    tensor: float
    memory_bandwidth: float
    pcie_bandwidth: float
    nvlink_bandwidth: float | None
    c2c_bandwidth: float | None
    power_limit: float | None
    source: str


_PCIE_3, _PCIE_4, _PCIE_5 = 16 * _G, 32 * _G, 64 * _G
"""16 lanes, one direction."""

_VOLTA = "NVIDIA Tesla V100 datasheet and Volta architecture whitepaper"
_AMPERE = "NVIDIA A100 datasheet and Ampere architecture whitepaper"
_HOPPER = "NVIDIA H100 datasheet and Hopper architecture whitepaper"
_GRACE = "NVIDIA GH200 Grace Hopper Superchip datasheet; its power limit is the operator's (450-1000 W with the CPU)"
_ADA = "datasheet and NVIDIA Ada GPU architecture whitepaper"

_CDNA_2 = "AMD's ROCm documentation, MI250 microarchitecture: FLOP a clock of a compute unit × 1.7 GHz; one die of two"
_CDNA_3 = "AMD's ROCm documentation, MI300 microarchitecture"
_APU = f"{_CDNA_3}: FLOP a clock of a compute unit × 228 × 2.1 GHz; its power limit is the operator's, and the CPU's as well"
_CDNA_4 = (
    "AMD's rocprofiler-compute, FLOP a clock of a gfx950 compute unit × 256 × 2.4 GHz; memory, power: at its launch"
)

_MI300X = (304, 81.7 * _T, 163.4 * _T, 163.4 * _T, None, 1307.4 * _T)
_SXM_HOPPER = (132, 33.5 * _T, 66.9 * _T, 66.9 * _T, 133.8 * _T, 989.4 * _T)
_A100 = (108, 9.7 * _T, 19.5 * _T, 19.5 * _T, 78 * _T, 312 * _T)

PEAKS: tuple[tuple[tuple[str, ...], Peaks], ...] = (
    (
        ("V100-SXM2-16GB", "V100-SXM2-32GB"),
        Peaks(
            "V100 SXM2", 80, 7.8 * _T, None, 15.7 * _T, 31.4 * _T, 125 * _T, 900 * _G, _PCIE_3, 150 * _G, None, 300,
            _VOLTA,
        ),
    ),
    (
        ("V100-PCIE-16GB", "V100-PCIE-32GB"),
        Peaks("V100 PCIe", 80, 7 * _T, None, 14 * _T, 28 * _T, 112 * _T, 900 * _G, _PCIE_3, None, None, 250, _VOLTA),
    ),
    (
        ("A100-SXM4-40GB",),
        Peaks("A100 SXM4 40 GB", *_A100, 1555 * _G, _PCIE_4, 300 * _G, None, 400, _AMPERE),
    ),
    (
        ("A100-SXM4-80GB",),
        Peaks("A100 SXM4 80 GB", *_A100, 2039 * _G, _PCIE_4, 300 * _G, None, 400, _AMPERE),
    ),
    (
        ("A100-PCIE-40GB",),
        Peaks("A100 PCIe 40 GB", *_A100, 1555 * _G, _PCIE_4, 300 * _G, None, 250, _AMPERE),
    ),
    (
        ("A100 80GB PCIe", "A100-PCIE-80GB"),
        Peaks("A100 PCIe 80 GB", *_A100, 1935 * _G, _PCIE_4, 300 * _G, None, 300, _AMPERE),
    ),
    (
        ("H100 80GB HBM3", "Synthetic H100"),
        Peaks("H100 SXM5", *_SXM_HOPPER, 3352 * _G, _PCIE_5, 450 * _G, None, 700, _HOPPER),
    ),
    (
        ("H100 PCIe",),
        Peaks(
            "H100 PCIe", 114, 25.6 * _T, 51.2 * _T, 51.2 * _T, 102.4 * _T, 756 * _T, 2039 * _G, _PCIE_5, 300 * _G, None, 350,
            _HOPPER,
        ),
    ),
    (
        ("H200",),
        Peaks("H200 SXM5", *_SXM_HOPPER, 4.8 * _T, _PCIE_5, 450 * _G, None, 700, "NVIDIA H200 datasheet"),
    ),
    (
        ("GH200 480GB", "GH200 120GB"),
        Peaks("GH200 96 GB HBM3", *_SXM_HOPPER, 4 * _T, _PCIE_5, 450 * _G, 450 * _G, None, _GRACE),
    ),
    (
        ("GH200 144G HBM3e",),
        Peaks("GH200 144 GB HBM3e", *_SXM_HOPPER, 4.9 * _T, _PCIE_5, 450 * _G, 450 * _G, None, _GRACE),
    ),
    (
        ("B200",),
        Peaks(
            "B200", 148, 37 * _T, 37 * _T, 75 * _T, None, 2250 * _T, 7.7 * _T, _PCIE_5, 900 * _G, None, 1000,
            "NVIDIA HGX B200 datasheet (an earlier brief has 40 and 80 TFLOP/s of FP64 and FP32, and 8 TB/s)",
        ),
    ),
    (
        ("L40S",),
        Peaks(
            "L40S", 142, 1.43 * _T, None, 91.6 * _T, 91.6 * _T, 362.05 * _T, 864 * _G, _PCIE_4, None, None, 350,
            f"NVIDIA L40S {_ADA}",
        ),
    ),
    (
        ("L4",),
        Peaks(
            "L4", 58, 0.47 * _T, None, 30.3 * _T, 30.3 * _T, 121 * _T, 300 * _G, _PCIE_4, None, None, 72,
            f"NVIDIA L4 {_ADA}",
        ),
    ),
    (
        ("A40",),
        Peaks(
            "A40", 84, 0.585 * _T, None, 37.4 * _T, 37.4 * _T, 149.7 * _T, 696 * _G, _PCIE_4, 56.25 * _G, None, 300,
            "NVIDIA A40 datasheet and Ampere GA102 architecture whitepaper",
        ),
    ),
    (
        ("GeForce RTX 4090",),
        Peaks(
            "GeForce RTX 4090", 128, 1.29 * _T, None, 82.6 * _T, 82.6 * _T, 165.2 * _T, 1008 * _G, _PCIE_4, None, None, 450,
            "NVIDIA Ada GPU architecture whitepaper",
        ),
    ),
    (
        ("MI250X",),
        Peaks(
            "MI250X", 110, 23.9 * _T, 47.9 * _T, 23.9 * _T, None, 191.5 * _T, 1.6 * _T, _PCIE_4, None, None, None, _CDNA_2,
        ),
    ),
    (
        ("MI250",),
        Peaks(
            "MI250", 104, 22.6 * _T, 45.3 * _T, 22.6 * _T, None, 181 * _T, 1.6 * _T, _PCIE_4, None, None, None, _CDNA_2,
        ),
    ),
    (
        ("MI300A",),
        Peaks(
            "MI300A", 228, 61.3 * _T, 122.6 * _T, 122.6 * _T, None, 980.6 * _T, 5.3 * _T, _PCIE_5, None, None, None, _APU,
        ),
    ),
    (
        ("MI300X",),
        Peaks("MI300X", *_MI300X, 5.3 * _T, _PCIE_5, None, None, 750, _CDNA_3),
    ),
    (
        ("MI325X",),
        Peaks("MI325X", *_MI300X, 6 * _T, _PCIE_5, None, None, 1000, f"{_CDNA_3}; memory and power: launch figures"),
    ),
    (
        ("MI355X",),
        Peaks(
            "MI355X", 256, 78.6 * _T, 78.6 * _T, 157.3 * _T, None, 2516.6 * _T, 8 * _T, _PCIE_5, None, None, 1400, _CDNA_4,
        ),
    ),
)  # fmt: skip
"""(product names as the driver tells them, without their brand; peaks). A GPU of an MI250 or MI250X is one die of two, whose
power is the card's (560 W). Of AMD's links between GPUs (xGMI) no figure for a GPU was found."""

_BRANDS = ("NVIDIA ", "Tesla ", "AMD ", "Instinct ")
_KINDS = (" Accelerator", " OAM")
"""What AMD's drivers add to a name."""
_BY_NAME = {name.casefold(): peaks for names, peaks in PEAKS for name in names}


def peaks_of(name: str | None) -> Peaks | None:
    """Return the peaks of a GPU by its product name (``gpus.name``), such as "NVIDIA A100-SXM4-40GB" or "AMD Instinct
    MI300A Accelerator". None if the model is unknown."""
    text = (name or "").strip()
    for brand in _BRANDS:
        text = text.removeprefix(brand)
    for kind in _KINDS:
        text = text.removesuffix(kind)
    return _BY_NAME.get(text.casefold())
