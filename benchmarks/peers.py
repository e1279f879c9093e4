"""Other programs that show GPUs live, to be measured beside ours: installed into an environment of their own."""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import CACHE, PYTHON, run, spawn

PEERS = CACHE / "peers"
_GPU = {
    "DCGM_FI_DEV_SM_CLOCK": (1980, 0), "DCGM_FI_DEV_MEM_CLOCK": (2619, 0), "DCGM_FI_DEV_MEMORY_TEMP": (60, 3),
    "DCGM_FI_DEV_GPU_TEMP": (55, 3), "DCGM_FI_DEV_POWER_USAGE": (600, 50),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": (1e12, 0), "DCGM_FI_DEV_GPU_UTIL": (95, 5),
    "DCGM_FI_DEV_MEM_COPY_UTIL": (40, 5), "DCGM_FI_DEV_FB_FREE": (20_000, 10), "DCGM_FI_DEV_FB_USED": (60_000, 10),
    "DCGM_FI_DEV_FB_RESERVED": (500, 0), "DCGM_FI_DEV_XID_ERRORS": (0, 0), "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": (0, 0),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": (90_000, 5_000), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (0.95, 0.05),
    "DCGM_FI_PROF_SM_ACTIVE": (0.85, 0.1), "DCGM_FI_PROF_SM_OCCUPANCY": (0.3, 0.05),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (0.5, 0.1), "DCGM_FI_PROF_DRAM_ACTIVE": (0.45, 0.1),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": (0, 0), "DCGM_FI_PROF_PIPE_FP32_ACTIVE": (0.1, 0.02),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": (0.03, 0.01), "DCGM_FI_PROF_PCIE_TX_BYTES": (3e8, 1e8),
    "DCGM_FI_PROF_PCIE_RX_BYTES": (1.6e9, 3e8),
}  # fmt: skip
"""What dcgm-exporter says of a GPU: middle and swing of each field."""


class Peer(NamedTuple):
    """A program to measure: how it is started, in which environment, and what is on its screen once it shows GPUs."""

    name: str
    command: tuple[str | Path, ...]
    environment: dict[str, str]
    shows: bytes


def install() -> str | None:
    """Make the environment, once. What stands in the way, in a sentence, or None."""
    if (PEERS / "bin" / "nvitop").exists() and (PEERS / "bin" / "kempnerpulse").exists():
        return None
    try:
        run((PYTHON, "-m", "venv", PEERS))
        run((PEERS / "bin" / "pip", "install", "-q", "nvitop", "kempnerpulse"))
    except (RuntimeError, OSError) as error:
        return f"nvitop and kempnerpulse could not be installed: {error}"
    return None


def peers(folder: Path, gpus: int) -> list[Peer]:
    """Both programs, looking once a second at ``gpus`` GPUs that don't exist. ``folder`` holds the driver and, for
    kempnerpulse, the text file that ``exporter`` keeps writing."""
    driver = {"LD_LIBRARY_PATH": os.fspath(folder), "FAKENVML_GPUS": str(gpus)}
    text = os.fspath(folder / "metrics.txt")
    source = ("--backend", "prometheus", "--source", text, "--poll", "1", "--show-all")
    return [
        Peer("kempnerpulse", (PEERS / "bin" / "kempnerpulse", *source), {}, rb"SM"),
        Peer("nvitop", (PEERS / "bin" / "nvitop", "-m", "full", "--interval", "1"), driver, rb"NVITOP"),
    ]


@contextmanager
def exporter(folder: Path, gpus: int) -> Iterator[None]:
    """Meanwhile a process keeps ``folder/metrics.txt`` new, as dcgm-exporter would."""
    _export(folder / "metrics.txt", gpus, 0)
    pid = spawn((PYTHON, "-m", "benchmarks.peers", folder / "metrics.txt", str(gpus)))
    try:
        yield
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _export(path: Path, gpus: int, second: int) -> None:
    lines = []
    for name, (middle, swing) in _GPU.items():
        lines.append(f"# TYPE {name} gauge")
        for gpu in range(gpus):
            value = middle + swing * math.sin(0.7 * second + gpu)
            labels = f'gpu="{gpu}",UUID="GPU-{gpu:08d}",device="nvidia{gpu}",modelName="NVIDIA H100",Hostname="n1"'
            lines.append(f"{name}{{{labels}}} {value:g}")
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fresh.replace(path)


if __name__ == "__main__":
    for _second in range(100_000):
        _export(Path(sys.argv[1]), int(sys.argv[2]), _second)
        time.sleep(1.0)
