"""Writing a job as the recording that GSSR would have left beside it."""

import json
import uuid
from itertools import pairwise

import numpy as np

from benchmarks.truth.hardware import Hardware
from benchmarks.truth.job import Job
from benchmarks.truth.readings import measured
from gssr.backends.synthetic.bulk import START, spread_over_ranks
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.write.bulk import BulkWriter

_CHUNK_SECONDS = 60.0
"""Written at once: doesn't cut a bucket of 10 s."""
_HOST_MEMORY = 512 << 30
_RSS = 9 << 30
_N_PROCESSES = 9


def write(path: str, name: str, job: Job, counters: bool = True, host: bool = True) -> None:
    """Write ``job`` to ``path``, which must not exist: with the performance counters of its GPUs, or what NVML alone gives;
    with samples of its nodes and processes, or without. Raises RecordingError."""
    values = measured(job, counters)
    writer = BulkWriter(path)
    nodes = [f"nid{number:06d}" for number in range(1, job.n_nodes + 1)]
    end = START + job.seconds
    run: dict[str, str | int | float | None] = {
        "run_id": f"alps-5150.{name}", "label": name, "command": json.dumps(["srun", "./program"]), "job_id": "5150",
        "launcher": "slurm", "cluster": "alps", "user": "ada", "started_at": START, "sampling_ms": job.interval * 1000,
        "world_size": job.n_gpus, "n_nodes": job.n_nodes, "state": "running",
    }  # fmt: skip
    for rank in reversed(range(job.n_gpus)):  # the last one begun is the one that finishes
        node, local = divmod(rank, job.per_node)
        process: dict[str, str | int | float | None] = {
            "rank": rank, "local_rank": local, "node": nodes[node], "hostname": nodes[node], "started_at": START,
            "ended_at": end, "exit_code": job.exit_code, "state": job.state,
        }  # fmt: skip
        writer.begin(run, process)
    writer.add_gpus([_gpu(job, nodes, rank, counters) for rank in range(job.n_gpus)], tuple(values), job.interval)
    writer.event(START, "start", "the workload was started as process 4242")
    writer.event(end, "end", f"the workload ended: {job.state}, exit code {job.exit_code}")
    times = START + job.edges[1:]
    cuts = [0, *(np.flatnonzero(np.diff(np.floor(times / _CHUNK_SECONDS))) + 1).tolist(), len(times)]
    for first, last in pairwise(cuts):
        tick, gpu = np.nonzero(~job.absent[first:last])
        writer.add_columns(gpu, times[first + tick], {name: own[first:last][tick, gpu] for name, own in values.items()})
    if host:
        _write_use(writer, job, nodes)
    if not writer.finish(end, job.exit_code, job.state, end):
        raise OSError(writer.problem)
    spread_over_ranks(path)


def _gpu(job: Job, nodes: list[str], rank: int, counters: bool) -> dict[str, str | int | float | None]:
    node, index = divmod(rank, job.per_node)
    hardware: Hardware = job.hardware
    return {
        "node": nodes[node], "rank": rank, "device_index": index, "name": hardware.name, "memory_total": hardware.memory,
        "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{nodes[node]}/{index}')}", "power_limit": job.limit,
        "sm_count": hardware.sm_count, "max_sm_clock": int(hardware.clock), "compute_capability": hardware.capability,
        "driver_version": "565.57.01", "backend": "dcgm" if counters else "nvml",
    }  # fmt: skip


def _write_use(writer: BulkWriter, job: Job, nodes: list[str]) -> None:
    """Of each node and each rank a row a second, noisy as these are."""
    random, times = job.random, START + job.host_edges[1:]

    def noisy(values: np.ndarray, spread: float) -> np.ndarray:
        return values * np.exp(spread * random.standard_normal(values.shape))

    cpu = np.clip(noisy(job.cpu, 0.08), 0.0, 1.0)
    rates = (noisy(rate, 0.25) for rate in (job.disk_read, job.disk_write, job.received, job.sent))
    used = np.full(cpu.shape, 0.22 * _HOST_MEMORY)
    host = np.stack([cpu, 64 * cpu, used, np.full(cpu.shape, _HOST_MEMORY), *rates], axis=2)
    cores = noisy(job.cores, 0.05)
    ranks = np.stack([cores, np.full(cores.shape, _RSS), np.full(cores.shape, _N_PROCESSES)], axis=2)
    writer.add_use(HOST, nodes, times, host)
    writer.add_use(WORKLOAD, range(job.n_gpus), times, ranks)
