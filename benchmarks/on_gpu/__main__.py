"""``bash benchmarks/on_gpu.sh OUTDIR``: record workloads of known size on a real GPU, check what was recorded, and leave
recordings and table in OUTDIR."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gssr.backends import amd

MODULES = {"numpy": "numpy", "nvidia-ml-py": "pynvml", "torch": "torch"}
"""Packages, and what they are imported as."""
TABLE = "checks.md"


def missing() -> str | None:
    """Say in one sentence what this machine lacks for it, and what to do. Returns None when it lacks nothing."""
    if shutil.which("nvidia-smi") is None:
        return "this machine has no NVIDIA driver (nvidia-smi is missing): run it on one with a GPU"
    lacking = [name for name, module in MODULES.items() if find_spec(module) is None]
    if lacking:
        return f"{sys.executable} has no {' and no '.join(lacking)}: name a Python that has in PYTHON"
    from gssr.backends.nvml import offer_nvml

    offer = offer_nvml()
    if not offer.works:
        return f"no GPU: {offer.details}"
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, timeout=120).returncode:
        return "PyTorch sees no CUDA device"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 when a check failed, 2 when it can't be run here."""
    parser = argparse.ArgumentParser(prog="bash benchmarks/on_gpu.sh", description="Check GSSR on a real GPU.")
    parser.add_argument("out", metavar="OUTDIR", type=Path, help="where recordings and table go")
    out = parser.parse_args(arguments).out.absolute()
    if shutil.which("nvidia-smi") is None and amd.count_usable_gpus():
        from benchmarks.on_gpu.amd import main as on_amd

        return on_amd(out)
    lacks = missing()
    if lacks:
        print(f"on_gpu: {lacks}", file=sys.stderr)
        return 2
    from benchmarks.on_gpu.measure import heading, measure, my_gpu, show

    out.mkdir(parents=True, exist_ok=True)
    gpu = my_gpu()
    with (out / TABLE).open("w") as stream:
        failed = show(measure(out, gpu.uuid), heading(gpu), stream)
    print(f"\n{failed} checks failed; recordings and this table are in {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
