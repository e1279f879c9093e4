"""The table of peaks: which product names it knows, and that its figures hang together."""

import pytest

from gssr.backends.synthetic import device
from gssr.peaks import PEAKS, peaks_of

ALL = [pytest.param(peaks, id=peaks.model) for _, peaks in PEAKS]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe"),
        ("A100-SXM4-40GB", "A100 SXM4 40 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80 GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM5"),
        ("NVIDIA GH200 480GB", "GH200 96 GB HBM3"),
        ("NVIDIA GH200 120GB", "GH200 96 GB HBM3"),
        ("NVIDIA GH200 144G HBM3e", "GH200 144 GB HBM3e"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A40", "A40"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("AMD Instinct MI250X", "MI250X"),
        ("MI250X", "MI250X"),
        ("AMD Instinct MI250", "MI250"),
        ("AMD Instinct MI300A Accelerator", "MI300A"),
        ("AMD Instinct MI300A", "MI300A"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
    ],
)
def test_a_product_name_of_the_driver_finds_its_model(name, model):
    peaks = peaks_of(name)
    assert peaks is not None and peaks.model == model


def test_synthetic_gpus_have_the_peaks_of_what_they_are_modelled_on():
    gpu = device("node", 0)
    peaks = peaks_of(gpu.name)
    assert peaks is not None and peaks.model == "H100 SXM5"
    assert (peaks.sm_count, peaks.power_limit) == (gpu.sm_count, gpu.power_limit)


@pytest.mark.parametrize(
    "name",
    [
        None, "", "NVIDIA", "NVIDIA L40", "NVIDIA A4000", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100-SXM-64GB",
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "Tesla V100S-PCIE-32GB", "NVIDIA GB200", "AMD",
        "AMD Instinct MI250X / MI250", "AMD Instinct MI308X", "AMD Instinct MI350X",
    ],
)  # fmt: skip
def test_a_relative_or_a_part_of_a_known_model_is_unknown(name):
    assert peaks_of(name) is None


@pytest.mark.parametrize("peaks", ALL)
def test_figures_hang_together(peaks):
    assert peaks.fp64 <= peaks.fp32 <= peaks.tensor
    assert peaks.fp64_tensor is None or peaks.fp64 <= peaks.fp64_tensor < peaks.tensor
    assert peaks.fp16 is None or peaks.fp32 <= peaks.fp16 < peaks.tensor
    assert peaks.pcie_bandwidth < peaks.memory_bandwidth
    assert peaks.nvlink_bandwidth is None or peaks.pcie_bandwidth < peaks.nvlink_bandwidth < peaks.memory_bandwidth
    assert peaks.power_limit is None or 50 < peaks.power_limit <= 1400
    assert peaks.source


@pytest.mark.parametrize("peaks", ALL)
def test_fp32_is_what_the_sms_can_do_at_a_clock_there_is(peaks):
    cores = 64 if peaks.model.startswith(("V100", "A100", "MI250")) else 128
    assert 1.3e9 < peaks.fp32 / (peaks.sm_count * cores * 2) < 2.6e9
