"""Random samples, and a recording made of them."""

import random

from gssr.metrics import NAMES
from gssr.store.write.writer import Writer

START = 1_700_000_003.0
STEP = 0.5


def rows_of(n_ticks: int, n_gpus: int, seed: int = 0, hole: range = range(0)) -> list[tuple]:
    rng = random.Random(seed)
    rows = []
    for tick in range(n_ticks):
        if tick in hole:
            continue
        for gpu in range(n_gpus):
            values: list = [rng.random() for _ in NAMES]
            values[NAMES.index("pcie_tx_bytes")] = rng.randrange(10**10)
            values[NAMES.index("energy")] = 1e6 + tick * 3.5
            values[NAMES.index("clock_event_reasons")] = rng.choice([0, 1, 4, 0x44])
            values = [None if rng.random() < 0.05 else value for value in values]
            rows.append((gpu, START + tick * STEP + gpu * 0.001, *values))
    return rows


def write(path, rows, n_gpus, run_id="r", finish=True, append=False, measured=NAMES, rank=0, keep="raw") -> Writer:
    writer = Writer(str(path), append=append, keep=keep)
    run = {"run_id": run_id, "started_at": START, "sampling_ms": STEP * 1000, "state": "running"}
    writer.begin(run, {"rank": rank, "node": "n1", "hostname": "elsewhere", "state": "running"})
    gpus = [{"device_index": index, "uuid": f"GPU-{run_id}-{index}"} for index in range(n_gpus)]
    writer.add_gpus(gpus, measured, STEP)
    for row in rows:
        writer.add([row])
        writer.tick(row[1])
    if finish:
        assert writer.finish(rows[-1][1], 0, "completed", rows[-1][1])
    else:
        writer.commit(rows[-1][1])
    return writer
