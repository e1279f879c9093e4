"""``python -m benchmarks.as_published RECORDING FOLDER``: the samples of a recording as the published tool, 0.4.0, writes
them: a JSON file for each GPU, each of a rank of its own, because of several it keeps the last one only."""

import json
import sys
from pathlib import Path

import numpy as np

from gssr.store.read.recording import open_recording

MIB = 1 << 20
SHARES = (
    "gpu_utilization", "sm_active", "sm_occupancy", "tensor_active", "fp64_active", "fp32_active", "fp16_active",
    "dram_active",
)  # fmt: skip
RATES = ("pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes")


def convert(recording: Path, folder: Path) -> None:
    """Write ``folder/train/train_job_1_step_0_proc_RANK.json``."""
    (reader,) = open_recording(recording).runs
    step = folder / "train"
    step.mkdir(parents=True)
    for rank, gpu in enumerate(reader.gpus):
        samples = reader.samples([*SHARES, *RATES, "memory_used"], np.array([rank]))
        values = {name: np.round(samples.values[name], 6).tolist() for name in (*SHARES, *RATES)}
        used = np.round(samples.values["memory_used"] / MIB).tolist()
        total = round((gpu.memory_total or 0) / MIB)
        values |= {"fb_total": [total] * len(used), "fb_used": used, "fb_resv": [0] * len(used)}
        values["fb_free"] = [total - own for own in used]
        begun, ended = float(samples.time.min()), float(samples.time.max())
        metadata = {
            "job_id": 1, "step_id": 0, "label": "train_job_1_step_0", "hostname": gpu.node, "proc_id": rank, "n_gpus": 1,
            "gpu_ids": [gpu.device_index], "start_time": begun, "end_time": ended, "elapsed": ended - begun,
            "sampling_time": (reader.sampling_seconds or 0.0) * 1e3, "n_samples": len(used), "cmd": "train",
        }  # fmt: skip
        with open(step / f"train_job_1_step_0_proc_{rank}.json", "w", encoding="utf-8") as stream:
            json.dump({"metadata": metadata, "data": {str(gpu.device_index): values}}, stream)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
