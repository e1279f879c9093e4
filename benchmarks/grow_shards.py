"""``python -m benchmarks.grow_shards PATH SHARDS GPUS SECONDS``: the files of so many ranks with so many GPUs each, written
by the real writer, sampled twice a second and growing, what the nodes do once a second; GPUs cost nothing to invent."""

import os
import resource
import sys
import time

from gssr.backends.synthetic import MEASURES, SyntheticBackend, device
from gssr.store.liveness import boot_id, process_start
from gssr.store.write.writer import Writer

INTERVAL = 0.5
_TICKS_A_SECOND = round(1 / INTERVAL)
_HOST, _WORKLOAD = (0.07, 9.6, 96 << 30, 1 << 40, 24e6, 1.5e6, 6e6, 6e6, 1e9, 1e9), (9.2, 72 << 30, 17)
_PATTERNS = 16
"""Different ticks, used by turns."""
_SETTLED = 4
"""By this tick every file and every live block is there."""


def grow(path: str, shards: int, gpus: int, history: float) -> None:
    """Write ``history`` seconds of the past, say so by the file ``ready`` beside it, and go on until killed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4 * shards + 100, hard)), hard))
    os.makedirs(path + ".d")
    backend = SyntheticBackend("train", gpus, "n", start=0.0)
    ticks = [[row[2:] for row in backend.sample(20.0 + 0.7 * k)] for k in range(_PATTERNS)]
    begun = time.time()
    writers = [_writer(path, rank, shards, gpus, begun - history) for rank in range(shards)]
    tick = -round(history / INTERVAL)
    while True:
        now = begun + tick * INTERVAL
        if tick == 0:
            begun = now = time.time()  # the past took a while to write
        if tick == _SETTLED:
            open(os.path.join(os.path.dirname(path), "ready"), "w").close()
        time.sleep(max(now - time.time(), 0.0))
        for rank, writer in enumerate(writers):
            values = ticks[(tick + rank) % _PATTERNS]
            writer.add([(gpu, now, *values[gpu]) for gpu in range(gpus)])
            if tick % _TICKS_A_SECOND == 0:
                writer.add_host(now, _HOST)
                writer.add_workload(now, _WORKLOAD)
            if tick >= 0 or tick % 64 == 0:
                writer.tick(now)
        tick += 1


def _writer(path: str, rank: int, world_size: int, gpus: int, start: float) -> Writer:
    node, pid = f"nid{rank:06d}", os.getpid()
    writer = Writer(f"{path}.d/{node}.{rank}.r.sql")
    writer.begin(
        {"run_id": "r", "started_at": start, "sampling_ms": INTERVAL * 1000, "state": "running", "world_size": world_size},
        {"rank": rank, "node": node, "hostname": os.uname().nodename, "pid": pid, "pid_start": process_start(pid),
         "boot_id": boot_id(), "state": "running"},
    )  # fmt: skip
    writer.add_gpus([device(node, index)._asdict() for index in range(gpus)], MEASURES, INTERVAL)
    return writer


if __name__ == "__main__":
    grow(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
