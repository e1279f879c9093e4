"""``python -m benchmarks.grow PATH GPUS HZ SECONDS``: a recording that grows, from GPUs that cost nothing to invent."""

import os
import sys
import time

from gssr.backends.synthetic import MEASURES, SyntheticBackend, device
from gssr.store.liveness import boot_id, process_start
from gssr.store.write.writer import Writer

PER_NODE = 8
_PATTERNS = 16
"""Different ticks, used by turns."""


def grow(path: str, gpus: int, hertz: float, history: float) -> None:
    """Write ``history`` seconds of the past, then a tick of all GPUs ``hertz`` times a second until killed."""
    interval = 1 / hertz
    writer = Writer(path)
    pid, host = os.getpid(), os.uname().nodename
    writer.begin(
        {"run_id": "r", "label": "benchmark", "started_at": time.time() - history, "sampling_ms": interval * 1000,
         "state": "running", "world_size": 1},
        {"rank": 0, "node": host, "hostname": host, "pid": pid, "pid_start": process_start(pid),
         "boot_id": boot_id(), "state": "running"},
    )  # fmt: skip
    devices = [device(f"nid{gpu // PER_NODE:06d}", gpu % PER_NODE) for gpu in range(gpus)]
    writer.add_gpus(
        [{"node": f"nid{gpu // PER_NODE:06d}", **each._asdict()} for gpu, each in enumerate(devices)],
        MEASURES,
        interval,
    )
    backend = SyntheticBackend("train", gpus, host, start=0.0)
    ticks = [[row[2:] for row in backend.sample(20.0 + 0.7 * k)] for k in range(_PATTERNS)]
    begun = time.time()
    tick = -round(history * hertz)
    while True:
        now = begun + tick * interval
        time.sleep(max(now - time.time(), 0.0))
        writer.add([(gpu, now, *values) for gpu, values in enumerate(ticks[tick % _PATTERNS])])
        writer.tick(now)
        tick += 1


if __name__ == "__main__":
    grow(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
