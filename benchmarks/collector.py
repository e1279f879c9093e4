"""What asking the driver costs, ours and nvitop's: ``python -m benchmarks.collector WHICH TIMES`` prints CPU seconds for
each GPU and time."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import driver
from benchmarks.peers import PEERS, install
from benchmarks.processes import CACHE, ENVIRONMENT, PYTHON, run
from benchmarks.table import Figure

GPUS, TIMES, WARM_UP = 8, 300, 20
PAUSE = 0.1
"""Seconds between two times: some of what drivers tell may be asked no sooner."""
LEAST_TIMES = 10.0


def measure(times: int = TIMES) -> Iterator[Figure]:
    """Of eight GPUs that don't exist, ten times a second, by turns: GPM and NVML as the sampler asks them, and nvitop's
    ResourceMetricCollector."""
    missing = install()
    if missing:
        print(f"collector: {missing}", flush=True)
        return
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        driver.build(folder)
        environment = ENVIRONMENT | {"LD_LIBRARY_PATH": name, "FAKENVML_GPUS": str(GPUS)}
        found = {}
        for which, python in (("gpm", PYTHON), ("nvml", PYTHON), ("nvitop", PEERS / "bin" / "python")):
            output = folder / which
            run((python, "-m", "benchmarks.collector", which, str(times)), output, environment)
            found[which] = float(output.read_text())
    for which, seconds in found.items():
        yield Figure(f"collector, {GPUS} GPUs, 10 Hz, {which}: CPU for a GPU", seconds * 1e6, "µs")
    for which in ("gpm", "nvml"):
        ratio = found["nvitop"] / found[which]
        yield Figure(f"collector, nvitop / {which}: CPU", ratio, "times", LEAST_TIMES, at_least=True)


def _collect(which: str) -> Callable[[], object]:
    if which == "nvitop":
        from nvitop import Device, ResourceMetricCollector  # type: ignore[import-not-found]

        collector = ResourceMetricCollector(Device.all())
        collector.activate("run")
        return lambda: collector.collect()
    from gssr.backends import open_backend

    backend = open_backend(which, "n", None, PAUSE).backend
    return lambda: backend.sample(time.time())


def _seconds_each(which: str, times: int) -> float:
    """CPU seconds for each GPU and time, from this process's own clock."""
    collect, used = _collect(which), 0.0
    for turn in range(WARM_UP + times):
        time.sleep(PAUSE)
        began = time.process_time()
        collect()
        used += (time.process_time() - began) * (turn >= WARM_UP)
    return used / times / GPUS


if __name__ == "__main__":
    print(_seconds_each(sys.argv[1], int(sys.argv[2])))
