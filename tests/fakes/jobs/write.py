"""Simulated jobs as recordings, as the ranks of a real one would have left them."""

import json
from typing import TYPE_CHECKING

import numpy as np

from gssr.metrics import NAMES
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.write.bulk import BulkWriter
from gssr.store.write.create import remove
from gssr.version import __version__
from tests.fakes.jobs.phases import Floats
from tests.fakes.jobs.samplers import node_sum, sample, usage

if TYPE_CHECKING:
    from tests.fakes.jobs.labels import Job

START = 1_700_000_400.0
"""Unix time of every job's start: the edge of all buckets."""
CORES = 128
HOST_ROWS = 12_000
"""Of nodes, and of ranks, at most: beyond, rows are further apart than a second."""
_GIB = 1 << 30


def _host_times(duration: float, owners: int) -> Floats:
    every = max(1.0, float(np.ceil(duration * owners / HOST_ROWS)))
    return np.arange(1.0, int(duration / every) + 1) * every


def write(job: "Job", path: str) -> None:
    """Write the recording. Raises gssr.store.read.open.RecordingError where it exists or can't be written."""
    writer = BulkWriter(path)
    try:
        _write(job, writer)
    except BaseException:
        remove(path)
        raise


def _write(job: "Job", writer: BulkWriter) -> None:
    plan, draft, timeline, sampling = job.plan, job.draft, job.timeline, job.sampling
    nodes = np.array(plan.nodes)
    names = [f"gpu{node + 1:03d}" for node in range(int(nodes.max()) + 1)]
    end = START + timeline.duration
    run: dict[str, str | int | float | None] = {
        "run_id": f"job-{job.seed}", "label": f"job {job.seed}", "command": json.dumps(["python", "job.py"]),
        "job_id": str(4_000_000 + job.seed), "launcher": "slurm", "started_at": START,
        "sampling_ms": 1000 * sampling.interval, "world_size": draft.n, "n_nodes": len(names), "state": "running",
        "gssr_version": __version__,
    }  # fmt: skip
    for rank in reversed(range(draft.n)):  # the last one begun is the one that finishes
        writer.begin(
            run,
            {
                "rank": rank, "local_rank": rank % plan.per_node, "node": names[nodes[rank]], "hostname": names[nodes[rank]],
                "started_at": START, "ended_at": end, "exit_code": draft.exit_code, "state": draft.state,
            },
        )  # fmt: skip
    samples = sample(draft, timeline, sampling, job.seed)
    measured = [name for name in NAMES if name in samples.columns]
    writer.add_gpus(
        [
            {
                "node": names[nodes[rank]], "rank": rank, "device_index": rank % plan.per_node,
                "uuid": f"GPU-{job.seed:08x}-{rank:04x}-4000-8000-{rank:012x}", "name": gpu.name, "memory_total": gpu.memory,
                "power_limit": gpu.power_limit, "sm_count": gpu.sm_count, "max_sm_clock": gpu.clock,
                "compute_capability": gpu.capability, "driver_version": "570.124.06", "backend": sampling.backend,
            }
            for rank, gpu in enumerate(plan.gpus)
        ],
        measured,
        sampling.interval,
    )  # fmt: skip
    writer.event(START, "start", "the command was started")
    writer.event(end, "end", f"the command ended: {draft.state}, exit code {draft.exit_code}")
    tick, position = np.nonzero(samples.rows)
    order = np.argsort(samples.times[tick, position], kind="stable")
    tick, position = tick[order], position[order]
    flat = {name: np.asarray(samples.columns[name][tick, position], np.float64) for name in measured}
    writer.add_columns(position.astype(np.int64), START + samples.times[tick, position], flat)
    _write_host(job, writer, names)
    if not writer.finish(end, draft.exit_code, draft.state, end):
        raise OSError(writer.problem or f"{writer.path}: can't be written")


def _write_host(job: "Job", writer: BulkWriter, names: list[str]) -> None:
    """Rows of nodes and of the ranks' processes, a second apart where that isn't too many."""
    draft, timeline = job.draft, job.timeline
    nodes, rng = np.array(job.plan.nodes), np.random.default_rng((job.seed, 4))
    times = _host_times(timeline.duration, len(names))
    if len(times):
        rates = {name: node_sum(column, nodes) for name, column in usage(draft, timeline, times).items()}
        noise = rng.lognormal(0.0, 0.1, rates["cores"].shape)
        busy = np.minimum(rates["cores"] * rng.normal(1.0, 0.02, noise.shape) + 0.6 * noise, CORES)
        known = {
            "cpu_utilization": busy / CORES, "load1": busy * 1.03, "memory_used": np.rint(120 * _GIB * noise**0.1),
            "memory_total": np.full(noise.shape, 1024.0 * _GIB), "read_bytes": rates["read"] * noise + 2e4,
            "write_bytes": rates["write"] * noise + 6e4, "net_rx_bytes": rates["net_rx"] * noise + 3e4,
            "net_tx_bytes": rates["net_tx"] * noise + 3e4, "fabric_rx_bytes": rates["fabric"] * noise**0.3,
            "fabric_tx_bytes": rates["fabric"] * noise**0.3,
        }  # fmt: skip
        missing = np.full(noise.shape, np.nan)
        writer.add_use(HOST, names, START + times, np.stack([known.get(name, missing) for name in HOST.values], axis=2))
    times = _host_times(timeline.duration, draft.n)
    if len(times):
        cores = usage(draft, timeline, times)["cores"]
        process = {
            "cpu": np.round(cores * rng.normal(1.0, 0.02, cores.shape), 3),
            "rss": np.rint(rng.normal(22.0, 0.05, cores.shape) * _GIB),
            "n_processes": np.full(cores.shape, 9.0),
        }
        table = np.stack([process.get(name, np.full(cores.shape, np.nan)) for name in WORKLOAD.values], axis=2)
        writer.add_use(WORKLOAD, range(draft.n), START + times, table)
