"""A workload under ``gssr profile`` on one GPU, and what its sampler costs meanwhile."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.on_gpu.phases import Phase, read
from benchmarks.processes import GSSR, MB, PYTHON, ROOT, child_called, cpu_seconds, resident_bytes

SAMPLING_MS = 100
LONGEST_SECONDS = 120.0
"""A workload that takes longer is ended; none is to take as long."""
_BEGUN = 2.0
"""Seconds after which a sampler does nothing but sample."""


class Job:
    """Recorded into OUT/NAME.sql; the workload's phases are in OUT/NAME.phases, what it prints in OUT/NAME.log. In a
    ``with`` it ends, at the latest, with that."""

    def __init__(self, out: Path, name: str, uuid: str, module: str) -> None:
        self.recording = out / f"{name}.sql"
        self._phases = out / f"{name}.phases"
        self._phases.unlink(missing_ok=True)
        options = ["-f", "-t", str(SAMPLING_MS), "-m", f"{LONGEST_SECONDS:g}", "-l", name, "--gpus", uuid]
        workload = [PYTHON, "-m", module, str(self._phases)]
        with (out / f"{name}.log").open("wb") as stream:
            self._process = subprocess.Popen(
                [*GSSR, "profile", *options, "-o", str(self.recording), "--", *workload],
                env=environment(uuid), cwd=ROOT, stdout=stream, stderr=stream,
            )  # fmt: skip

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self.wait()

    def cost(self, until: str) -> tuple[float, float] | None:
        """The sampler's CPU in % of a core up to the end of the phase ``until``, and its resident memory in MB then; None
        when it or the phase isn't seen."""
        try:
            sampler = child_called("gssr-sampler", self._process.pid)
            time.sleep(_BEGUN)
            cpu, began = cpu_seconds(sampler), time.monotonic()
            while until not in {phase.name for phase in self.phases()}:
                if self._process.poll() is not None:
                    return None
                time.sleep(0.25)
            used, passed = cpu_seconds(sampler) - cpu, time.monotonic() - began
            return 100 * used / passed, resident_bytes(sampler) / MB
        except (OSError, RuntimeError):
            return None

    def phases(self) -> Sequence[Phase]:
        """Those that have ended so far."""
        return read(self._phases)

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        return self._process.wait(LONGEST_SECONDS + 30.0)


def environment(uuid: str) -> dict[str, str]:
    """For a process that is to see this GPU only, and this checkout before all else."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return dict(os.environ) | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": uuid}
