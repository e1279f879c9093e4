"""Stand-ins for recordings of the published GSSR 0.4.0 (a JSON file for each rank, and its SQLite export) and of
gssr-record (CSV of windows)."""

import json
import random
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from .case import Card, Case, Column, Row, column

BEGIN = 1763828881.25
TAGS: dict[str, Column] = {
    "gpu_utilization": column("gpu_utilization"), "fb_total": Column(None, 1, 0, 81559, 81559), "fb_free": Column(None),
    "fb_used": column("memory_used"), "fb_resv": Column(None), "sm_active": column("sm_active"),
    "sm_occupancy": column("sm_occupancy"), "tensor_active": column("tensor_active"), "fp64_active": column("fp64_active"),
    "fp32_active": column("fp32_active"), "fp16_active": column("fp16_active"), "dram_active": column("dram_active"),
    "pcie_tx_bytes": column("pcie_tx_bytes"), "pcie_rx_bytes": column("pcie_rx_bytes"),
    "nvlink_tx_bytes": column("nvlink_tx_bytes"), "nvlink_rx_bytes": column("nvlink_rx_bytes"),
}  # fmt: skip
SAMPLING_MS = 500
COMMAND = "python train.py --name 'a \"b\"'"
TIMES = r"times?"


class Rank(NamedTuple):
    """A process of a step: its node, the ids of its GPUs there, and how many samples it took in how many seconds."""

    number: int
    node: str
    gpus: tuple[int, ...]
    n: int
    seconds: float
    step: int = 0


class Told(NamedTuple):
    """What a rank's file holds, and the rows of its GPUs."""

    metadata: dict[str, Any]
    data: dict[str, dict[str, list[float]]]
    rows: dict[int, list[Row]]


def _rank(rank: Rank, chance: random.Random) -> Told:
    """The n samples end at the end: each took longer than the sampling interval, by the query."""
    begin = BEGIN + 0.003 * rank.number + 100 * rank.step
    spacing = rank.seconds / rank.n
    data: dict[str, dict[str, list[float]]] = {}
    rows: dict[int, list[Row]] = {}
    for gpu in rank.gpus:
        lists: dict[str, list[float]] = {tag: [] for tag in TAGS}
        rows[gpu] = [Row(begin + (index + 1) * spacing, {}) for index in range(rank.n)]
        for tag, one in TAGS.items():
            for row in rows[gpu]:
                text, value = one.draw(chance)
                lists[tag].append(float(text) if "." in text else int(text))
                if one.metric is not None:
                    row.values[one.metric] = value
        data[str(gpu)] = lists
    metadata = {
        "job_id": 4711, "step_id": rank.step, "label": "llm", "hostname": rank.node, "proc_id": rank.number,
        "n_gpus": len(rank.gpus), "gpu_ids": list(rank.gpus), "start_time": begin, "end_time": begin + rank.seconds,
        "elapsed": rank.seconds, "sampling_time": SAMPLING_MS, "n_samples": rank.n, "cmd": COMMAND,
    }  # fmt: skip
    return Told(metadata, data, rows)


def _ranks(ranks: Sequence[Rank], seed: int) -> list[Told]:
    chance = random.Random(seed)
    return [_rank(rank, chance) for rank in ranks]


def _path(rank: Rank) -> str:
    folder = f"llm_job_4711_step_{rank.step}"
    return f"out/profile_out_JobID_4711/{folder}/{folder}_proc_{rank.number}.json"


def _json(name: str, ranks: Sequence[Rank], seed: int) -> Case:
    """A GPU that two ranks sampled is there once, with the more samples; several steps are several runs."""
    told = _ranks(ranks, seed)
    files = {_path(rank): json.dumps({"metadata": one.metadata, "data": one.data}).encode()
             for rank, one in zip(ranks, told, strict=True)}  # fmt: skip
    kept: dict[tuple[int, str, int], list[Row]] = {}
    by: dict[tuple[int, str, int], list[int]] = {}
    for rank, one in zip(ranks, told, strict=True):
        for gpu, rows in one.rows.items():
            key = (rank.step, rank.node, gpu)
            kept[key] = max(kept.get(key, []), rows, key=len)
            by.setdefault(key, []).append(rank.number)
    cards = []
    for key, rows in kept.items():
        alone: dict[str, object] = {"rank": by[key][0]} if len(by[key]) == 1 else {}
        cards.append(Card({"node": key[1], "device_index": key[2]} | alone, rows, str(key[0])))
    return Case(f"gssr0-{name}", files, cards, given=("out",), said=(TIMES,), within=0.03)


def _sqlite(name: str, ranks: Sequence[Rank], seed: int, said: tuple[str, ...] = (TIMES,)) -> Case:
    """What ``gssr analyze --export`` writes: of a rank only its last GPU has rows, and times are local, in whole seconds."""
    told = _ranks(ranks, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        connection = sqlite3.connect(path)
        tags = ", ".join(f"{tag} REAL" for tag in TAGS)
        connection.execute(f"CREATE TABLE data ({tags}, job_id INTEGER, step_id INTEGER, proc_id INTEGER, gpu_id TEXT,"
                           " sample_index INTEGER, time REAL)")  # fmt: skip
        connection.execute("CREATE TABLE process_metadata (job_id INTEGER, step_id INTEGER, proc_id INTEGER, hostname TEXT,"
                           " n_gpus INTEGER, gpu_ids TEXT, start_time TEXT, end_time TEXT, elapsed REAL)")  # fmt: skip
        connection.execute(
            "CREATE TABLE job_metadata (job_id INTEGER, step_id INTEGER, label TEXT, n_hosts INTEGER, hostnames TEXT,"
            " n_procs INTEGER, n_gpus INTEGER, median_start_time TEXT, median_end_time TEXT, median_elapsed REAL,"
            " sampling_time INTEGER, metrics TEXT, cmd TEXT)"
        )
        cards = []
        for rank, one in zip(ranks, told, strict=True):
            meta = one.metadata
            last = rank.gpus[-1]
            for index in range(rank.n):
                row: list[object] = [one.data[str(last)][tag][index] for tag in TAGS]
                row += [4711, rank.step, rank.number, str(last), index, index * SAMPLING_MS / 1000]
                connection.execute(f"INSERT INTO data VALUES ({', '.join('?' * len(row))})", row)
            ids = ",".join(map(str, rank.gpus))
            local = [
                f"{datetime.fromtimestamp(int(meta[key]), UTC):%Y-%m-%d %H:%M:%S}" for key in ("start_time", "end_time")
            ]
            process = (4711, rank.step, rank.number, rank.node, len(rank.gpus), ids, *local, rank.seconds)
            connection.execute("INSERT INTO process_metadata VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", process)
            cards += [
                Card({"node": rank.node, "device_index": gpu}, one.rows[gpu] if gpu == last else [])
                for gpu in rank.gpus
            ]
        job = (len(ranks), sum(len(rank.gpus) for rank in ranks), *local, SAMPLING_MS, ",".join(TAGS), COMMAND)
        connection.execute("INSERT INTO job_metadata VALUES (4711, 0, 'llm', 1, 'n1', ?, ?, ?, ?, 10.0, ?, ?, ?)", job)
        connection.commit()
        connection.close()
        data = path.read_bytes()
    return Case(f"gssr0-sqlite-{name}", {"x.db": data}, cards, ("--timezone", "UTC"), said=said, within=1.1)


RECORD: dict[str, Column] = {
    "DCGM_FI_DEV_GPU_UTIL": column("gpu_utilization"), "DCGM_FI_DEV_FB_FREE": Column(None),
    "DCGM_FI_DEV_FB_USED": column("memory_used"), "DCGM_FI_DEV_FB_RESERVED": Column(None),
    "DCGM_FI_PROF_SM_ACTIVE": Column("sm_active", 1, 2, 0.1, 0.9),
    "DCGM_FI_PROF_SM_OCCUPANCY": Column("sm_occupancy", 1, 2, 0.1, 0.9),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Column("tensor_active", 1, 2, 0.1, 0.9),
    "DCGM_FI_PROF_DRAM_ACTIVE": Column("dram_active", 1, 2, 0.1, 0.9),
    "DCGM_FI_PROF_PCIE_TX_BYTES": Column("pcie_tx_bytes", 1, 0, 1e6, 1.9e9),
    "DCGM_FI_PROF_PCIE_RX_BYTES": Column("pcie_rx_bytes", 1, 0, 1e6, 1.9e9),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": Column("nvlink_rx_bytes", 1, 0, 1e6, 1.9e9),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": Column("nvlink_tx_bytes", 1, 0, 1e6, 1.9e9),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Column("energy", 0.001, 0, 300_000, 700_000),
    "DCGM_FI_DEV_POWER_USAGE": Column("power_usage", 1, 2, 60, 700),
}  # fmt: skip
META = """{{
    "gssr-record-version": "2.0",
    "date": "2025-11-22T17:28:01+0100",
    "cluster": "alps",
    "jobid": "4711",
    "jobname": "llm",
    "nnodes": "2",
    "ntasks": "8",
    "ngpus": "4",
    "step_nnodes": "2",
    "step_ntasks": "8",
    "executable": "python",
    "arguments": "{arguments}"
}}

"""


def _spread(value: str, low: float, high: float) -> tuple[str, str]:
    digits = len(value.partition(".")[2])
    return f"{float(value) * low:.{digits}f}", f"{float(value) * high:.{digits}f}"


def _record(
    name: str, ranks: int, arguments: str, seed: int, level: bool = True, meta: bool = True, **more: Any
) -> Case:
    """Windows of 1 s; the third column of the energy is what was used in the window; more than 2e9 was written as 0; rows
    are missing where a field could not be read."""
    chance, files, cards = random.Random(seed), {}, []
    folder = "out/alps_4711/step_0" if level else "out/step_0"
    for rank in range(ranks):
        lines = [
            ",".join(["timestamp,gpuId", *(f"{field}_{kind}" for field in RECORD for kind in ("min", "avg", "max"))])
        ]
        rows: list[list[Row]] = [[], []]
        used = [0.0, 0.0]
        for second in range(1, 13):
            for gpu in (0, 1):
                cells, values = [str(second), str(gpu)], {}
                missing = (second, gpu) in ((4, 1), (5, 1), (9, 0))
                for number, (field, one) in enumerate(RECORD.items()):
                    text, value = one.draw(chance)
                    low, high = _spread(text, 0.9, 1.1)
                    if one.metric == "energy":
                        first = 10**9 + int(1000 * used[gpu])
                        used[gpu] += 0.0 if missing else value
                        cells += [str(first), text, str(first + int(text))]  # min, the difference, max
                        values["energy"] = used[gpu]
                        continue
                    if "BYTES" in field and (second + number) % 4 == 0:
                        low, text, high = "1000", "0", "0"
                    elif one.metric is not None:
                        values[one.metric] = value
                    cells += [low, text, high]
                if not missing:
                    rows[gpu].append(Row(0.0 + second, values))
                    lines.append(",".join(cells))
        files[f"{folder}/proc_{rank}.csv"] = "\n".join(lines).encode() + b"\n"
        begin = 1763828881.0
        shifted = [[row._replace(time=row.time + begin) for row in of] for of in rows]
        for gpu, of in enumerate(shifted):
            first_energy = of[0].values["energy"]
            of[:] = [row._replace(values=row.values | {"energy": row.values["energy"] - first_energy}) for row in of]
            cards.append(Card({"device_index": gpu} if ranks == 1 else {"device_index": gpu, "rank": rank}, of))
    if meta:
        files[f"{folder}/proc_0.meta.txt"] = META.format(arguments=arguments).encode()
    return Case(f"gssr-record-{name}", files, cards, given=("out",), energy=True, within=0.01, **more)


def cases() -> Iterator[Case]:
    sixteen = [Rank(number, f"nid{number // 4:03d}", (number % 4,), 9 + number % 3, 6.0) for number in range(16)]
    yield _json("16-ranks", sixteen, 1)
    yield _json("2-gpus-each", [Rank(n, f"nid{n // 2}", (2 * (n % 2), 2 * (n % 2) + 1), 8, 5.1) for n in range(4)], 2)
    yield _json("steps", [Rank(n, "nid0", (n,), 8, 5.1, step) for step in (0, 3) for n in (0, 1)], 3)
    yield _json(
        "same-gpu", [Rank(0, "nid0", (0,), 8, 5.1), Rank(1, "nid0", (1,), 8, 5.1), Rank(4, "nid0", (0,), 6, 5.1)], 4
    )
    yield _sqlite("1-gpu-each", [Rank(n, "nid0", (n,), 8, 5.0) for n in range(4)], 5)
    yield _sqlite(
        "2-gpus-each", [Rank(n, "nid0", (2 * n, 2 * n + 1), 8, 5.0) for n in range(2)], 6, said=(TIMES, "GPU")
    )
    yield _record("plain", 1, "'train.py' '-v' ", 7)
    yield _record("quotes", 1, "'-c' 'print(\"a\\b\")' ", 8)
    yield _record("old-level", 1, "'x' ", 9, level=False)
    yield _record("no-meta", 1, "", 10, meta=False, mtime=1763828881.0 + 12, said=("time|date|old",))
