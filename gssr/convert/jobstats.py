"""A job as the summary that Princeton's jobstats keeps in Slurm's database, as the job's AdminComment: ``JS1:`` and base64
of gzip of JSON. Its layout is that of jobstats 1.0; what reads it: gssr/foreign/jobstats.py.

jobstats takes its numbers from a job's cgroup and from the GPUs' exporter; here they are those of the recording, and what
that does not know is left out.
"""

import base64
import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from gssr.convert.tables import ExportError
from gssr.store.format.layout import FIELDS
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import ALL_TIME
from gssr.store.read.whole_run import merge_window_by_gpu, read_use_rows

PREFIX = "JS1:"
_BUSY = ("gpu_utilization", "gr_engine_active")
"""What jobstats calls GPU utilization, the first that is known: NVML's, or GPM's activity of the graphics engine."""
_SAME_FOR_ALL = re.compile(r"(\d+)(?:\(x\d+\))?")
_MIB = 1 << 20
_FIRST_SECONDS = 5.0
"""A rank's first row is about the time since its start if that was no longer ago."""


def cpus_and_memory(
    job_id: str | None, environ: Mapping[str, str], gpus_per_node: int
) -> tuple[int | None, int | None]:
    """Read the CPUs and the memory (bytes; 0: all that a node has) that Slurm gave the job on each of its nodes, from its
    variables, which are there within the job. Both are None of another job, and where nodes got different numbers of
    CPUs. ``gpus_per_node``: of a job that asked for memory by GPU; 0 if unknown."""
    if job_id is None or environ.get("SLURM_JOB_ID") != job_id:
        return None, None
    found = _SAME_FOR_ALL.fullmatch(environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    cpus = int(found[1]) if found else None
    for name, times in (
        ("SLURM_MEM_PER_NODE", 1), ("SLURM_MEM_PER_CPU", cpus or 0), ("SLURM_MEM_PER_GPU", gpus_per_node)
    ):  # fmt: skip
        text = environ.get(name, "")
        if text.isdecimal() and (times or text == "0"):
            return cpus, int(text) * times * _MIB
    return cpus, None


def write(runs: Sequence[RunReader], stream: BinaryIO, environ: Mapping[str, str]) -> list[str]:
    """Write the summary of the job that all runs are steps of, and a newline. Returns the names of what jobstats prints
    of every job, but is not known of this one. Raises ExportError if the runs are of several jobs, and RecordingError."""
    jobs = dict.fromkeys((reader.run.cluster, reader.run.job_id or reader.run.run_id) for reader in runs)
    if len(jobs) > 1:
        raise ExportError(f"these are runs of {len(jobs):,} jobs: a summary of jobstats is of one")
    nodes = job_summary(runs, environ)
    start = min((run.run.started_at for run in runs if run.run.started_at is not None), default=None)
    ends = [end for run in runs if (end := run.run.ended_at or run.last_time) is not None]
    found: dict[str, Any] = {"nodes": nodes, "gpus": len({(g.node, g.uuid, g.mig) for run in runs for g in run.gpus})}
    if start is not None and ends:
        found["total_time"] = round(max(ends) - start)
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    packed = base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode("ascii")
    stream.write(f"{PREFIX}{packed if nodes else 'None'}\n".encode("ascii"))
    needed = ("cpus", "total_time", "total_memory", "used_memory", "gpu_utilization", "gpu_total_memory")
    return [name for name in needed if not nodes or any(name not in node for node in nodes.values())]


def job_summary(runs: Sequence[RunReader], environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Compute the entries of a job's nodes, by node: what is unknown has no entry, and neither has a node of which
    nothing is known."""
    nodes: dict[str, dict[str, Any]] = {}
    for (node, index), gpu in sorted(_sums_by_gpu(runs).items()):
        own = nodes.setdefault(node, {})
        if gpu.busy is not None:
            own.setdefault("gpu_utilization", {})[str(index)] = round(100 * gpu.busy, 1)
        if gpu.most_memory is not None and gpu.memory_total:  # jobstats takes a key of one for a key of the other
            own.setdefault("gpu_used_memory", {})[str(index)] = gpu.most_memory
            own.setdefault("gpu_total_memory", {})[str(index)] = gpu.memory_total
    for node, (cpu_seconds, memory) in _workload_by_node(runs).items():
        own = nodes.setdefault(node, {})
        if cpu_seconds is not None:
            own["total_time"] = round(cpu_seconds, 1)
        if memory is not None:
            own["used_memory"] = memory
    gpus_of_node = {len({gpu.uuid for run in runs for gpu in run.gpus if gpu.node == node}) for node in nodes}
    own_job = next((run.run.job_id for run in runs), None)
    cpus, given_memory = cpus_and_memory(own_job, environ, gpus_of_node.pop() if len(gpus_of_node) == 1 else 0)
    for node, own in nodes.items():
        memory = given_memory or (_node_memory(runs).get(node) if given_memory == 0 else None)
        own |= {"cpus": cpus} if cpus else {}
        own |= {"total_memory": memory} if memory else {}
    return {node: own for node, own in nodes.items() if own}


def _sums_by_gpu(runs: Sequence[RunReader]) -> dict[tuple[str, int], "_GpuSums"]:
    """Add up what each GPU did, by node and index. MIG instances are left out: jobstats knows a GPU by its index alone."""
    found: dict[tuple[str, int], _GpuSums] = {}
    for reader in runs:
        names = [name for name in (*_BUSY, "memory_used") if name in reader.metrics]
        for buckets in merge_window_by_gpu(reader, names, None, ALL_TIME, math.inf):
            for position, vector in zip(buckets.gpu.tolist(), buckets.vectors, strict=True):
                gpu = reader.gpus[position]
                if gpu.node is None or gpu.device_index is None or gpu.mig:
                    continue
                own = found.setdefault((gpu.node, gpu.device_index), _GpuSums({}, {}))
                own.memory_total = own.memory_total or gpu.memory_total
                for block in buckets.layout.blocks:
                    fields = dict(zip(FIELDS[block.metric.kind], vector[block.start :].tolist(), strict=False))
                    own.add(block.metric.name, fields, reader.sampling_seconds)
    return found


@dataclass
class _GpuSums:
    """Sums over the runs of a job on one GPU. ``seconds``: the time that each metric was sampled, by its name; ``totals``:
    the integral of its values over that time; ``most_memory`` and ``memory_total`` in bytes, None if unknown."""

    seconds: dict[str, float]
    totals: dict[str, float]
    most_memory: int | None = None
    memory_total: int | None = None

    def add(self, name: str, fields: Mapping[str, float], sampling_seconds: float) -> None:
        """Add the samples of a run: ``fields`` of its rollup. Adds nothing if there are none."""
        if not fields["n"]:
            return
        self.seconds[name] = self.seconds.get(name, 0.0) + fields["n"] * sampling_seconds
        self.totals[name] = self.totals.get(name, 0.0) + fields["sum"] * sampling_seconds
        if name == "memory_used":
            self.most_memory = max(self.most_memory or 0, int(fields["max"]))

    @property
    def busy(self) -> float | None:
        """Return the mean activity of the GPU, 0-1; None if unknown."""
        return next((self.totals[name] / self.seconds[name] for name in _BUSY if self.seconds.get(name)), None)


def _workload_by_node(runs: Sequence[RunReader]) -> dict[str, tuple[float | None, int | None]]:
    """Add up what the workload's processes used on each node: CPU time in s, and the most resident memory at one time in
    bytes; None for what is unknown. Runs that overlap in time are added up as ranks are."""
    cpu_seconds: dict[str, float] = {}
    changes: dict[str, list[tuple[float, tuple[int, int], int]]] = {}
    for number, reader in enumerate(runs):
        processes = {process.rank: process for process in reader.processes}
        rows: dict[int, list[tuple[float, float | None, int | None]]] = {}
        for batch in read_use_rows(reader, "workload_samples"):
            for _, rank, time, cores, memory, _ in batch:
                if rank in processes:
                    rows.setdefault(rank, []).append((time, cores, memory))
        for rank, own in rows.items():
            node, started = processes[rank].node, processes[rank].started_at
            if node is None:
                continue
            own.sort(key=lambda row: row[0])
            is_near = started is not None and 0 <= own[0][0] - started < _FIRST_SECONDS
            before = started if started is not None and is_near else own[0][0]
            for time, cores, memory in own:
                if cores is not None:
                    cpu_seconds[node] = cpu_seconds.get(node, 0.0) + cores * (time - before)
                if memory is not None:
                    changes.setdefault(node, []).append((time, (number, rank), memory))
                before = time
            changes.setdefault(node, []).append((math.nextafter(before, math.inf), (number, rank), 0))
    return {node: (cpu_seconds.get(node), _highest(changes.get(node, []))) for node in {**cpu_seconds, **changes}}


def _highest(changes: Sequence[tuple[float, tuple[int, int], int]]) -> int | None:
    """Return the greatest sum over all owners, each of which has a new value at each of its times; None without any."""
    now: dict[tuple[int, int], int] = {}
    total = most = 0
    for _, owner, value in sorted(changes):
        total += value - now.get(owner, 0)
        now[owner] = value
        most = max(most, total)
    return most or None


def _node_memory(runs: Sequence[RunReader]) -> dict[str, int]:
    """Return the memory of each node, bytes, where it was recorded."""
    found: dict[str, int] = {}
    for reader in runs:
        for batch in read_use_rows(reader, "host_samples"):
            for row in batch:
                if isinstance(row[1], str) and isinstance(row[6], int):
                    found.setdefault(row[1], row[6])
    return found
