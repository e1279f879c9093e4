"""A drawn job: its labels, its books, and how its recording is written."""

from dataclasses import dataclass, field

import numpy as np

from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.write.bulk import BulkWriter
from gssr.version import __version__
from tests.fakes.examined_jobs.draft import LONGEST_SECONDS, MOST_ROWS, Draft
from tests.fakes.examined_jobs.healthy import HEALTHY
from tests.fakes.examined_jobs.instruments import VIEWS, Setting, host_rows, sample_gpu, sample_times
from tests.fakes.examined_jobs.planted import PLANTED
from tests.fakes.examined_jobs.timeline import Timeline

LEAST_PLANTED_SHARE = 0.05
"""A cause that costs less of the GPU time is not planted."""
LEAST_ALLOWED_SHARE = 0.02
"""A start or an end that costs less of the GPU time is not worth a word."""
MOST_DRAWS = 60
"""Drawing a job again and again ends here: such a kind never costs enough, which is a fault of it."""
EPOCH = 1_764_000_000.0
VIEW_NAMES = ("full", "full", "full", "exporter", "gpm", "nvml", "nvml", "amd")
INTERVALS = {
    "full": (0.1, 0.5, 1.0, 1.0, 10.0, 30.0),
    "exporter": (1.0, 10.0, 30.0),
    "gpm": (0.1, 0.5, 1.0),
    "nvml": (0.1, 0.5, 1.0, 1.0, 10.0),
    "amd": (0.5, 1.0, 1.0, 10.0),
}
"""How often samples are taken, in seconds."""
MUCH_OF_THE_TIME = 0.25
"""Kernels that draw little power for so much of the time make it true that the GPUs are busy at little power."""
LEAST_SAMPLES = 20
SHORTEST_SECONDS = 60.0


@dataclass(frozen=True)
class ExaminedJob:
    """A simulated job and the truth about it.

    ``planted`` has for each planted cause the codes that name it rightly, ``allowed`` further codes that are true of the
    job, ``lost_gpu_hours`` what the first planted cause costs (None where nobody can know), ``shares`` the books."""

    seed: int
    kind: str
    view: str
    planted: tuple[frozenset[str], ...]
    allowed: frozenset[str]
    lost_gpu_hours: float | None
    shares: dict[str, float]
    interval_s: float
    step_s: float | None
    timeline: Timeline = field(repr=False, compare=False)
    setting: Setting = field(repr=False, compare=False)

    def write(self, path: str) -> None:
        """Record the job in a new file. Raises RecordingError."""
        timeline, setting, model = self.timeline, self.setting, self.setting.model
        rng = np.random.default_rng([self.seed, 11])
        begin = EPOCH + 7919.0 * (self.seed % 9973) + float(rng.random())
        n_gpus, nodes = timeline.n_gpus, [f"node{101 + node:04d}" for node in range(int(setting.node_of.max()) + 1)]
        run_id = f"examined-{self.seed}"
        processes: list[dict[str, str | int | float | None]] = [
            {
                "rank": gpu,
                "local_rank": gpu % model.gpus_per_node,
                "node": nodes[node],
                "hostname": nodes[node],
                "pid": 4000 + gpu,
                "started_at": begin + setting.first_seen(gpu),
                "state": "running",
            }
            for gpu, node in enumerate(setting.node_of.tolist())
        ]
        writer = BulkWriter(path)
        run: dict[str, str | int | float | None] = {
            "run_id": run_id,
            "label": f"job {self.seed}",
            "command": '["./application"]',
            "job_id": str(100_000 + self.seed),
            "launcher": "slurm",
            "started_at": begin,
            "sampling_ms": 1000 * self.interval_s,
            "state": "running",
            "world_size": n_gpus,
            "n_nodes": len(nodes),
            "gssr_version": __version__,
        }
        writer.begin(run, {"run_id": run_id, **processes[0]})
        gpus = [
            {
                "node": nodes[node],
                "rank": gpu,
                "device_index": gpu % model.gpus_per_node,
                "uuid": f"GPU-{self.seed:08x}-{gpu:04d}",
                "name": model.name,
                "memory_total": model.memory_total,
                "power_limit": model.power_limit,
                "sm_count": model.sm_count,
                "max_sm_clock": model.max_clock,
                "compute_capability": model.compute_capability,
                "backend": {"full": "dcgm", "exporter": "prometheus"}.get(self.view, self.view),
            }
            for gpu, node in enumerate(setting.node_of.tolist())
        ]
        writer.add_gpus(gpus, VIEWS[self.view], self.interval_s)
        times = sample_times(timeline, setting, rng)
        samples = [sample_gpu(timeline, gpu, times[gpu], setting, rng) for gpu in range(n_gpus)]
        when = np.concatenate(times)
        order = np.argsort(when, kind="stable")
        owner = np.repeat(np.arange(n_gpus), [len(own) for own in times])
        writer.add_columns(
            owner[order],
            begin + when[order],
            {name: np.concatenate([own[name] for own in samples])[order] for name in samples[0]},
        )
        for node, name in enumerate(nodes):
            seconds, host, ranks, workload = host_rows(timeline, node, setting, self.seed)
            if len(seconds):
                writer.add_use(HOST, [name], begin + seconds, host[:, None, :])
                writer.add_use(WORKLOAD, ranks, begin + seconds, workload)
        end = begin + timeline.seconds
        writer.tell(
            {},
            [
                {**process, "state": setting.state, "exit_code": setting.exit_code, "ended_at": end}
                for process in processes[1:]
            ],
        )
        writer.event(begin, "start", "the workload was started")
        for gpu, since, until in setting.gaps:
            if until == timeline.seconds:
                writer.event(begin + since, "gpu_lost", "the GPU no longer answers", gpu)
        writer.event(end, "end", f"the workload ended: {setting.state}, exit code {setting.exit_code}")
        writer.finish(end, setting.exit_code, setting.state, end)


def comparable(shares: dict[str, float], view: str) -> dict[str, float]:
    """Merge the leaves that a view cannot tell apart by physics: without profiling counters kernels are kernels, a
    collective that moves data looks like one that waits, and copies are a rank that keeps its core busy."""
    merged: dict[str, str] = {}
    if view == "exporter":
        merged = {"working.few_sms": "working.other", "working.fp64": "working.other"}
    elif view in ("nvml", "amd"):
        kernels = ("few_sms", "memory", "tensor", "fp64", "other")
        merged = {f"working.{kernel}": "working" for kernel in kernels}
        merged |= {f"communication.{kind}": "communication" for kind in ("transferring", "waiting")}
        merged["idle.copies"] = "idle.host"
    found: dict[str, float] = {}
    for leaf, share in shares.items():
        found[merged.get(leaf, leaf)] = found.get(merged.get(leaf, leaf), 0.0) + share
    return found


def examined_job(seed: int, healthy: bool | None = None) -> ExaminedJob:
    """Draw a job: a healthy one, one with a planted cause, or (None) one of both."""
    rng = np.random.default_rng([seed, 3])
    if healthy is None:
        healthy = bool(rng.random() < 0.35)
    kinds = HEALTHY if healthy else PLANTED
    kind = str(rng.choice(list(kinds)))
    for attempt in range(MOST_DRAWS):
        draw = np.random.default_rng([seed, attempt, 5])
        draft = Draft(draw, str(draw.choice(VIEW_NAMES)))
        kinds[kind](draft)
        job = _finish(seed, kind, draft)
        if job is not None:
            return job
    raise RuntimeError(f"{kind} of seed {seed} never costs {LEAST_PLANTED_SHARE:.0%} of the GPU time")


def _finish(seed: int, kind: str, draft: Draft) -> ExaminedJob | None:
    """Simulate a draft; None if its planted cause costs too little."""
    rng = draft.rng
    script = draft.script()
    timeline = Timeline(script, draft.clock, draft.normal_clock, draft.reasons)
    view = draft.view
    lost = timeline.lost_seconds + draft.lost_extra
    total = timeline.n_gpus * timeline.seconds
    if not SHORTEST_SECONDS <= timeline.seconds <= LONGEST_SECONDS:
        return None
    fitting = [
        interval
        for interval in INTERVALS[view]
        if total / interval <= MOST_ROWS and timeline.seconds / interval >= LEAST_SAMPLES
    ]
    interval = float(rng.choice(fitting)) if fitting else max(INTERVALS[view])
    setting = Setting(
        draft.model,
        view,
        interval,
        draft.node_of,
        draft.normal_clock,
        draft.memory_share,
        draft.cooling,
        draft.neighbours,
        draft.exit_code,
        draft.state,
        float(10 ** rng.uniform(4.5, 7.6)),
        int(rng.choice((1, 1, 2, 5, 9))),
    )
    if draft.vanishes:
        gpu, length = draft.vanishes
        setting.gaps.append((gpu, timeline.seconds - length, timeline.seconds))
    elif rng.random() < 0.15 and not draft.missing:
        gpu, length = int(rng.integers(timeline.n_gpus)), max(4 * interval, 0.02 * timeline.seconds)
        begin = float(rng.uniform(0.2, 0.7)) * timeline.seconds
        which = [gpu] if rng.random() < 0.5 else np.flatnonzero(draft.node_of == draft.node_of[gpu]).tolist()
        setting.gaps.extend((one, begin, min(begin + length, timeline.seconds)) for one in which)
    setting.gaps.extend(draft.missing)
    shares = timeline.books(setting.gaps)
    if draft.lost_leaf:
        lost += shares[draft.lost_leaf] * total
    if draft.planted and draft.has_cost and lost < LEAST_PLANTED_SHARE * total:
        return None
    allowed = set(draft.allowed)
    for leaf, code in (("startup", "start_up"), ("end", "tear_down")):
        if shares[leaf] >= LEAST_ALLOWED_SHARE:
            allowed.add(code)
    if draft.jitters and shares["idle.imbalance"] + shares["communication.waiting"] >= LEAST_ALLOWED_SHARE:
        allowed |= {"rotating_stragglers", "imbalance"}
    little = sum(shares[leaf] for leaf in ("communication.transferring", "communication.waiting", "working.few_sms"))
    if view in ("nvml", "amd") and little >= MUCH_OF_THE_TIME:
        allowed.add("low_power")
    if timeline.finished_seconds() >= LEAST_ALLOWED_SHARE * total:
        allowed |= {"early_end", "imbalance"}
    hours = lost / 3600 if draft.planted and draft.has_cost and draft.knows_cost else None
    return ExaminedJob(
        seed,
        kind,
        view,
        tuple(draft.planted),
        frozenset(allowed),
        hours,
        {leaf: float(share) for leaf, share in shares.items()},
        interval,
        script.median_step_seconds() if draft.synchronous else None,
        timeline,
        setting,
    )
