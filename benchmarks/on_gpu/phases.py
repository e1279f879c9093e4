"""What a workload did when, and how much of it: JSON lines, written beside the recording and read by the checks."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Phase(NamedTuple):
    """A stretch of time (unix s) in which a workload did one thing: ``flops`` floating-point operations on the tensor
    cores, ``memory_bytes`` read and written in device memory, ``down_bytes`` host to device, ``up_bytes`` device to host.
    0 is none, or none that was counted."""

    name: str
    begin: float
    end: float
    flops: float = 0.0
    memory_bytes: float = 0.0
    down_bytes: float = 0.0
    up_bytes: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.begin


def repeated(name: str, seconds: float, once: Callable[[], None], finish: Callable[[], None], counts: Phase) -> Phase:
    """Do ``once`` again and again for about ``seconds``, and ``finish`` to wait for the GPU every 0.2 s or so. ``counts``:
    what doing it once is; the phase has that times as often as it was done."""
    once()
    finish()
    begin = time.time()
    n, batch = 0, 1
    while (passed := time.time() - begin) < seconds:
        for _ in range(batch):
            once()
        finish()
        n += batch
        took = time.time() - begin - passed
        batch = max(1, min(2 * batch, int(0.2 * batch / max(took, 1e-6))))
    return Phase(name, begin, time.time(), *(n * amount for amount in counts[3:]))


def append(path: Path, phase: Phase) -> None:
    """Add a line."""
    with path.open("a") as stream:
        stream.write(json.dumps(phase._asdict()) + "\n")


def read(path: Path) -> Sequence[Phase]:
    """All phases in the file; none when there is no file."""
    if not path.exists():
        return []
    return [Phase(**json.loads(line)) for line in path.read_text().splitlines()]
