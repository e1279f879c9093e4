"""A finished job: its labels, its books, and how its recording is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gssr.arrays import Floats
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.write.bulk import BulkWriter
from gssr.version import __version__
from tests.fakes.blind_jobs.bindings import bound_cores
from tests.fakes.blind_jobs.draft import (
    GAPS,
    LATE,
    LONGEST,
    SHORTEST,
    STALLS,
    TURNS,
    VIEWS,
    Draft,
    UnsuitableError,
    draw_machine,
)
from tests.fakes.blind_jobs.healthy import HEALTHY
from tests.fakes.blind_jobs.kinds import SICK, Kind
from tests.fakes.blind_jobs.phases import LEAVES
from tests.fakes.blind_jobs.recorders import GpuRecorder, known, metrics_of, node_rows, sampling_times
from tests.fakes.blind_jobs.schedule import Timeline

LEAST_COST = 0.06
"""A planted cause costs at least this share of the GPU time."""
TRUE_FROM = 0.025
"""From this share of the GPU time on, half of what a warning needs, it is true to speak of a loss."""
ORDINARY_FROM = 0.05
"""The same for collectives and gaps between kernels, of which healthy programs have twice as much."""
MUCH_IDLE = 0.25
"""GPUs that are idle for this share of the time are little used."""
LITTLE_POWER = 0.55
"""GPUs that draw at most this share of their limit draw little."""
MOST_DRAWS = 80
EPOCH = 1_770_000_000.0


@dataclass(frozen=True)
class BlindJob:
    """A simulated job and the truth about it. ``planted``: for each planted cause the codes that name it rightly;
    ``allowed``: further codes that are true; ``lost_gpu_hours``: what the first cause costs, None where samples can not tell
    it; ``shares``: the books by leaf."""

    seed: int
    kind: str
    view: str
    planted: tuple[frozenset[str], ...]
    allowed: frozenset[str]
    lost_gpu_hours: float | None
    shares: dict[str, float]
    interval_s: float
    timeline: Timeline = field(repr=False, compare=False)
    draft: Draft = field(repr=False, compare=False)

    def write(self, path: str) -> None:
        """Record the job in a new file. Raises RecordingError."""
        job, timeline = self.draft, self.timeline
        rng = np.random.default_rng([self.seed, 202])
        begin = EPOCH + 613.0 * (self.seed % 99991) + float(rng.random())
        end = begin + timeline.seconds
        nodes = [f"gpu{7 + 3 * node:03d}" for node in range(job.n_nodes)]
        rank_nodes = [nodes[node] for node in job.node_of]
        local = [int(np.sum(job.node_of[:gpu] == node)) for gpu, node in enumerate(job.node_of)]
        cores = bound_cores(job, timeline, self.seed)
        processes: list[dict[str, str | int | float | None]] = [
            {"rank": gpu, "local_rank": local[gpu], "node": node, "hostname": node, "pid": 21000 + gpu,
             "started_at": begin, "state": "running", "n_cores": cores[gpu]}
            for gpu, node in enumerate(rank_nodes)
        ]  # fmt: skip
        state, code = job.exit
        run_id = f"blind-{self.seed}"
        run: dict[str, str | int | float | None] = {
            "run_id": run_id, "label": f"job {self.seed}", "command": '["./program"]', "job_id": str(self.seed),
            "launcher": "slurm", "started_at": begin, "sampling_ms": 1000 * job.interval, "state": "running",
            "world_size": job.n_gpus, "n_nodes": job.n_nodes, "gssr_version": __version__,
        }  # fmt: skip
        writer = BulkWriter(path)
        writer.begin(run, {"run_id": run_id, **processes[0]})
        backend = {"full": "dcgm", "exporter": "prometheus", "imported": "prometheus"}.get(self.view, self.view)
        gpus = [
            {"node": rank_nodes[gpu], "rank": gpu, "device_index": local[gpu], "uuid": f"GPU-{self.seed:09x}-{gpu:02d}",
             "name": model.name, "memory_total": model.memory_mib * 2**20, "power_limit": model.power_limit,
             "sm_count": model.sm_count, "max_sm_clock": model.max_clock, "compute_capability": model.capability,
             "backend": backend}
            for gpu, model in enumerate(job.models)
        ]  # fmt: skip
        writer.add_gpus(gpus, metrics_of(self.view, job.model), job.interval)
        times = sampling_times(timeline, job, rng)
        read = [GpuRecorder(timeline, job, gpu, times[gpu], rng).read() for gpu in range(job.n_gpus)]
        order = np.argsort(np.concatenate(times), kind="stable")
        owner = np.repeat(np.arange(job.n_gpus), [len(each) for each in times])[order]
        columns = {name: np.concatenate([each[name] for each in read]) for name in read[0]}
        writer.add_columns(owner, begin + np.concatenate(times)[order], known(columns, order))
        for node, name in enumerate(nodes) if job.knows_host else ():
            seconds, host, ranks, workload = node_rows(timeline, job, node, rng)
            writer.add_use(HOST, [name], begin + seconds, host[:, None, :])
            writer.add_use(WORKLOAD, ranks, begin + seconds, workload)
        writer.tell(
            {"state": "running"},
            [{**each, "state": state, "exit_code": code, "ended_at": end} for each in processes[1:]],
        )
        writer.event(begin, "start", "the command was started")
        for when, what, message, gpu in job.events:
            writer.event(end + when, what, message, gpu)
        writer.event(end, "end", f"the command ended: {state}, exit code {code}")
        writer.finish(end, code, state, end)


def comparable(shares: Mapping[str, float], view: str) -> dict[str, float]:
    """Merge the leaves that a view can not tell apart. Without SM counters and NVLink (an exporter's default list)
    small, FP64 and other kernels look alike, and so do collectives that move data and that wait. Without rows of the
    nodes an idle GPU is just idle. Drivers alone see that kernels run, at what power and clock, but not which:
    collectives among them; and copies by a busy core are a busy core."""
    merged: dict[str, str] = {}
    if view in ("exporter", "imported"):
        merged = {"working.few_sms": "working.other", "working.fp64": "working.other",
                  "communication.waiting": "communication.transferring"}  # fmt: skip
    if view == "imported":
        merged |= {"idle.input_output": "idle.unexplained", "idle.host": "idle.unexplained"}
    if view in ("nvml", "amd"):
        merged = {leaf: "working.kernels" for leaf in LEAVES if leaf.startswith(("working.", "communication."))}
        del merged["working.slowed"]
        merged["idle.copies"] = "idle.host"
    found: dict[str, float] = {}
    for leaf, share in shares.items():
        found[merged.get(leaf, leaf)] = found.get(merged.get(leaf, leaf), 0.0) + share
    return found


def blind_job(seed: int, healthy: bool) -> BlindJob:
    """Draw a job: a healthy one, or one with a planted cause."""
    rng = np.random.default_rng([seed, 101])
    name = str(rng.choice(sorted(HEALTHY if healthy else SICK)))
    return job_of_kind(name, seed)


def kind_named(name: str) -> Kind:
    """Return a kind, healthy or sick, by its name."""
    if name in SICK:
        return SICK[name]
    make, gpus, views = HEALTHY[name]
    return Kind(make, views, gpus)


def job_of_kind(name: str, seed: int) -> BlindJob:
    """Draw a job of a kind, in one of the views that the kind claims. Raises RuntimeError if its cause never costs
    enough."""
    kind = kind_named(name)
    for attempt in range(MOST_DRAWS):
        rng = np.random.default_rng([seed, attempt, 103])
        chosen = str(rng.choice([each for each in VIEWS if each in kind.views]))
        job = draw_machine(rng, chosen, kind.gpus, kind.nodes, kind.model)
        try:
            kind.make(job)
        except UnsuitableError:
            continue
        found = _finish(name, seed, job)
        if found is not None:
            return found
    raise RuntimeError(f"{name} of seed {seed} never costs {LEAST_COST:.0%} of the GPU time")


def _finish(name: str, seed: int, job: Draft) -> BlindJob | None:
    """Lay a draft out and keep its books; None if its cause costs too little, or it is longer than can be recorded."""
    timeline = Timeline(job.blocks)
    if not 0.9 * SHORTEST <= timeline.seconds <= 3 * LONGEST:
        return None
    job.gaps = [(gpu, timeline.seconds + begin, timeline.seconds + end) for gpu, begin, end in job.gaps]
    if not job.gaps and job.rng.random() < 0.12:
        length = max(4 * job.interval, job.uniform(0.002, 0.012) * timeline.seconds)
        begin = job.uniform(0.2, 0.7) * timeline.seconds
        node = int(job.rng.integers(job.n_nodes))
        if length < 0.03 * timeline.seconds:
            job.gaps = [(int(gpu), begin, begin + length) for gpu in np.flatnonzero(job.node_of == node)]
    seconds = timeline.seconds_by_leaf(job.gaps)
    total = timeline.n_gpus * timeline.seconds
    shares = dict(zip(LEAVES, (seconds.sum(axis=0) / total).tolist(), strict=True))
    lost = timeline.lost_seconds / total + shares.get(job.extra_leaf, 0.0)
    if job.planted and job.costs_time and lost < LEAST_COST:
        return None
    costs = job.planted and job.costs_time and job.knows_cost
    true = true_of(job, timeline, seconds) if job.planted else set()
    hours = lost * total / 3600 if costs else None
    planted = tuple(job.planted)
    return BlindJob(seed, name, job.view, planted, frozenset(true), hours, shares, job.interval, timeline, job)


def true_of(job: Draft, timeline: Timeline, seconds: Floats) -> set[str]:
    """Return the codes that are true of a sick job by its books, float64[GPU, leaf], besides the planted ones: whatever has
    at least half of the share that a warning about it needs."""
    shares = dict(zip(LEAVES, (seconds.sum(axis=0) / seconds.sum()).tolist(), strict=True))
    waits = shares["idle.imbalance"] + shares["communication.waiting"]
    idle = sum(share for leaf, share in shares.items() if leaf.startswith("idle."))
    talks = shares["communication.transferring"] + shares["communication.waiting"]
    unseen = {"idle.unexplained"}
    unseen |= set() if job.knows_host else {"idle.input_output", "idle.host"}
    unseen |= {"idle.copies"} if job.view in ("nvml", "amd") else set()
    found = set(job.allowed)
    for is_true, codes in (
        (shares["idle.input_output"] >= TRUE_FROM, {"io_wait"}),
        (shares["idle.copies"] >= TRUE_FROM, {"transfer_bound"}),
        (shares["idle.host"] >= TRUE_FROM, {"cpu_starved"}),
        (waits >= TRUE_FROM and job.n_gpus > 1, TURNS),
        (waits >= TRUE_FROM and job.n_gpus > 1 and somebody_is_late(seconds), LATE),
        (shares["idle.between_kernels"] >= ORDINARY_FROM, {"launch_gaps", "gaps"}),
        (sum(shares[leaf] for leaf in unseen) >= TRUE_FROM, STALLS),
        (idle + shares["unused"] >= MUCH_IDLE, GAPS),
        (talks >= ORDINARY_FROM, {"communication_bound"}),
        (shares["startup"] >= TRUE_FROM, {"start_up"}),
        (shares["end"] >= TRUE_FROM, {"tear_down"}),
        (shares["working.few_sms"] >= TRUE_FROM, {"small_kernels", "low_occupancy"}),
        (shares["working.slowed"] >= TRUE_FROM, {"slow_clock", "power_capped"}),
        (float(job.memory.max()) >= 0.9, {"memory_full", "memory_peak"}),
        (float(job.memory.max()) <= 0.4, {"memory_unused"}),
        (power_share(job, timeline) <= LITTLE_POWER, {"low_power"}),
        (True, {"compute_bound", "memory_bound", "fp64", "little_arithmetic"}),
    ):
        found |= codes if is_true else set()
    return found


def somebody_is_late(seconds: Floats) -> bool:
    """Tell whether one GPU waits much less than the others do on average, so that they wait for it."""
    waits = seconds[:, LEAVES.index("idle.imbalance")] + seconds[:, LEAVES.index("communication.waiting")]
    return bool(waits.min() < 0.5 * np.median(waits))


def power_share(job: Draft, timeline: Timeline) -> float:
    """Return the first GPU's mean power as a share of its limit, at full clocks."""
    model = job.models[0]
    spent = timeline.spent(0, np.array([timeline.seconds]))[0][0] / timeline.seconds
    idle = model.idle_power + model.context_power
    kernels = float(spent @ (timeline.figures("power") * timeline.figures("engine")))
    return (idle + (model.power_limit - idle) * kernels) / model.power_limit
