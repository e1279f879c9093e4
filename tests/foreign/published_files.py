"""Files as the published GSSR 0.4.0 writes them, drawn from a seed: byte for byte its JSON, and the tables that it exports,
with what they lose. Those in tests/golden/foreign/gssr-0.4.0 are its own."""

import json
import random
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

TAGS = (
    "gpu_utilization", "fb_total", "fb_free", "fb_used", "fb_resv", "sm_active", "sm_occupancy", "tensor_active",
    "fp64_active", "fp32_active", "fp16_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes",
    "nvlink_rx_bytes",
)  # fmt: skip
START = 1.7e9


def _value(tag: str, rng: random.Random) -> float:
    if tag == "gpu_utilization":
        return rng.randrange(101)
    if tag == "fb_total":
        return 97871
    if tag.startswith("fb_") or tag.endswith("bytes"):
        return rng.randrange(90_000 if tag.startswith("fb_") else 10**10)
    return round(rng.random(), 6)


def ranks(n_ranks: int, gpus_each: int, n_samples: int, step: int = 2, seed: int = 5) -> list[dict[str, Any]]:
    """What each rank's file holds; four GPUs a node."""
    rng, found = random.Random(seed), []
    for rank in range(n_ranks):
        node, place = divmod(rank, 4 // gpus_each)
        ids = [place * gpus_each + at for at in range(gpus_each)]
        start, elapsed = START + rank * 0.01 + 0.123, n_samples * 0.5213
        metadata = {
            "job_id": 77, "step_id": step, "label": f"train_job_77_step_{step}", "hostname": f"nid{node:04d}",
            "proc_id": rank, "n_gpus": gpus_each, "gpu_ids": ids, "start_time": start, "end_time": start + elapsed,
            "elapsed": elapsed, "sampling_time": 500, "n_samples": n_samples, "cmd": "python train.py --lr 1e-3",
        }  # fmt: skip
        data = {str(gpu): {tag: [_value(tag, rng) for _ in range(n_samples)] for tag in TAGS} for gpu in ids}
        found.append({"metadata": metadata, "data": data})
    return found


def name(rank: dict[str, Any]) -> str:
    """Of its file."""
    about = rank["metadata"]
    return f"{about['label']}_proc_{about['proc_id']}.json"


def write_json(folder: Path, found: list[dict[str, Any]]) -> None:
    """As its JSONDataIO does, into the folders of job and step."""
    for rank in found:
        path = folder / "profile_out_JobID_77" / rank["metadata"]["label"] / name(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rank))


def write_sqlite(path: Path, found: list[dict[str, Any]]) -> None:
    """As its ExportDataHandler does: of a rank only the last GPU's samples."""
    keys = ("job_id", "step_id", "proc_id")

    def local(time: float) -> str:
        return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M:%S")

    with sqlite3.connect(path) as database:
        database.execute(
            f"CREATE TABLE data ({', '.join(TAGS)}, job_id, step_id, proc_id, gpu_id TEXT, sample_index, time)"
        )
        database.execute("CREATE TABLE process_metadata (job_id, step_id, proc_id, hostname, n_gpus, gpu_ids, start_time,"
                         " end_time, elapsed)")  # fmt: skip
        database.execute("CREATE TABLE job_metadata (job_id, step_id, label, n_procs, sampling_time, cmd)")
        for rank in found:
            about = rank["metadata"]
            of_rank = [about[key] for key in keys]
            gpu, columns = list(rank["data"].items())[-1]
            rows = zip(*(columns[tag] for tag in TAGS), strict=True)
            database.executemany(
                f"INSERT INTO data VALUES ({', '.join('?' * (len(TAGS) + 6))})",
                [(*row, *of_rank, gpu, at, at * 0.5) for at, row in enumerate(rows)],
            )
            database.execute(
                "INSERT INTO process_metadata VALUES (?,?,?,?,?,?,?,?,?)",
                (*of_rank, about["hostname"], about["n_gpus"], ",".join(map(str, about["gpu_ids"])),
                 local(about["start_time"]), local(about["end_time"]), about["elapsed"]),
            )  # fmt: skip
        steps = {rank["metadata"]["step_id"]: rank["metadata"] for rank in found}
        for step, about in steps.items():
            n = sum(rank["metadata"]["step_id"] == step for rank in found)
            row = (about["job_id"], step, about["label"], n, about["sampling_time"], about["cmd"])
            database.execute("INSERT INTO job_metadata VALUES (?,?,?,?,?,?)", row)
    database.close()
