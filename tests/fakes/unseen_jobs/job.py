"""A finished job: its labels, its books, and how its recording is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.write.bulk import BulkWriter
from gssr.version import __version__
from tests.fakes.unseen_jobs.causes_parallel import LATE, SPREAD
from tests.fakes.unseen_jobs.causes_single import FEW_LAUNCHES, STOPS
from tests.fakes.unseen_jobs.draft import LONGEST, SHORTEST, Draft, UnsuitableError
from tests.fakes.unseen_jobs.grants import granted_cores
from tests.fakes.unseen_jobs.kinds import SICK, WELL
from tests.fakes.unseen_jobs.machines import GIB, draw_machine, metrics_of
from tests.fakes.unseen_jobs.recorders import (
    GpuReader,
    host_times,
    node_row,
    process_use,
    sampling_times,
    workload_rows,
)
from tests.fakes.unseen_jobs.work import LEAVES, RATES

LEAST_COST = 0.06
"""A planted cause costs at least this share of the GPU time."""
TRUE_FROM = 0.025
"""From this share on, half of what the design warns from, it is true to speak of a loss."""
ORDINARY_FROM = 0.05
"""The same for collectives, gaps and pauses, of which healthy programs have twice as much."""
MUCH_IDLE, LITTLE_POWER, MUCH_MEMORY, LITTLE_MEMORY = 0.25, 0.55, 0.9, 0.4
MOST_DRAWS = 120
EPOCH = 1_760_000_000.0


@dataclass(frozen=True)
class UnseenJob:
    """A simulated job and the truth about it. ``planted``: for each planted cause the codes that name it rightly;
    ``allowed``: further codes that are true; ``lost_gpu_hours``: what the first cause costs, None where nobody can know it;
    ``shares``: the books by leaf."""

    seed: int
    kind: str
    view: str
    planted: tuple[frozenset[str], ...]
    allowed: frozenset[str]
    lost_gpu_hours: float | None
    shares: dict[str, float]
    interval_s: float
    by_gpu: Floats = field(repr=False, compare=False)
    """The books' seconds [GPU, leaf]."""
    draft: Draft = field(repr=False, compare=False)

    def write(self, path: str) -> None:
        """Record the job in a new file. Raises RecordingError."""
        job, machine, model = self.draft, self.draft.machine, self.draft.machine.model
        rng = np.random.default_rng([self.seed, 77])
        begin = EPOCH + 977.0 * (self.seed % 99_991) + float(rng.random())
        end = begin + job.timeline.seconds
        nodes = [f"nid{1000 + 7 * node:06d}" for node in range(machine.n_nodes)]
        local = np.arange(job.n) % machine.per_node
        ranks = np.unique(job.process_of)
        cores = granted_cores(job, self.seed)
        processes: list[dict[str, str | int | float | None]] = [
            {"rank": int(rank), "local_rank": int(local[rank]), "node": nodes[machine.node_of[rank]],
             "hostname": nodes[machine.node_of[rank]], "pid": 4000 + int(rank), "started_at": begin, "state": "running",
             "n_cores": cores[int(rank)]}
            for rank in ranks
        ]  # fmt: skip
        state, code = job.exit
        run_id = f"unseen-{self.seed}"
        run: dict[str, str | int | float | None] = {
            "run_id": run_id, "label": f"job {self.seed}", "command": '["./application"]', "job_id": str(self.seed),
            "launcher": "slurm", "started_at": begin, "sampling_ms": 1000 * job.interval * job.repeats, "state": "running",
            "world_size": len(ranks), "n_nodes": machine.n_nodes, "gssr_version": __version__,
        }  # fmt: skip
        writer = BulkWriter(path)
        writer.begin(run, {"run_id": run_id, **processes[0]})
        backend = {"full": "dcgm", "exporter": "prometheus", "imported": "prometheus"}.get(self.view, self.view)
        gpus = [
            {"node": nodes[machine.node_of[gpu]], "rank": int(job.process_of[gpu]), "device_index": int(local[gpu]),
             "uuid": f"GPU-{self.seed:010x}-{gpu:02x}", "name": model.name, "memory_total": int(model.memory * GIB),
             "power_limit": job.power_limit or model.power_limit, "sm_count": model.sm_count,
             "max_sm_clock": model.max_clock, "compute_capability": model.capability, "backend": backend}
            for gpu in range(job.n)
        ]  # fmt: skip
        writer.add_gpus(gpus, metrics_of(self.view, model), job.interval * job.repeats)
        self._write_samples(writer, begin, nodes, rng)
        writer.tell(
            {"n_nodes": machine.n_nodes},
            [{**each, "state": state, "exit_code": code, "ended_at": end} for each in processes[1:]],
        )
        writer.event(begin, "start", "the command was started")
        for when, what, message, gpu in job.events:
            writer.event(begin + when, what, message, gpu)
        writer.event(end, "end", f"the command ended: {state}, exit code {code}")
        writer.finish(end, code, state, end)

    def _write_samples(self, writer: BulkWriter, begin: float, nodes: list[str], rng: np.random.Generator) -> None:
        job, machine = self.draft, self.draft.machine
        skew = rng.normal(0.0, 0.03, machine.n_nodes) * (rng.random(machine.n_nodes) < 0.5)  # clocks of nodes differ
        skew += rng.uniform(-0.4, 0.4) * (np.arange(machine.n_nodes) == rng.integers(4))
        times, at_host = sampling_times(job, rng), host_times(job)
        on_node = np.zeros((machine.n_nodes, len(at_host), len(RATES) - RATES.index("cores")))
        of_process = {int(rank): np.zeros(on_node.shape[1:]) for rank in np.unique(job.process_of)}
        read, stamps = [], []
        for gpu, node in enumerate(machine.node_of):
            pieces = job.timeline.pieces_of(gpu)
            read.append(GpuReader(job, gpu, pieces, times[gpu], rng).read())
            stamps.append(times[gpu] + skew[node])
            if job.knows_host:
                use = process_use(pieces, at_host)
                on_node[node] += use
                of_process[int(job.process_of[gpu])] += use
        when = np.concatenate(stamps)
        order = np.argsort(when, kind="stable")
        owner = np.repeat(np.arange(job.n), [len(each) for each in stamps])[order]
        columns = {name: np.concatenate([each[name] for each in read])[order] for name in read[0]}
        writer.add_columns(owner, begin + when[order], columns)
        if not job.knows_host:
            return
        for node, name in enumerate(nodes):
            clock = begin + at_host + skew[node]
            mine = [rank for rank in of_process if machine.node_of[rank] == node]
            writer.add_use(HOST, [name], clock, node_row(job, on_node[node], rng)[:, None, :])
            if mine:
                rows = [workload_rows(job, of_process[rank], rng) for rank in mine]
                writer.add_use(WORKLOAD, mine, clock, np.stack(rows, axis=1))


def comparable(shares: Mapping[str, float], view: str) -> dict[str, float]:
    """Merge the leaves that a view can not tell apart.

    - Everywhere: gaps between kernels and unexplained idle time. A pause of half a second is one in samples of 0.1 s and a
      gap of a partly active bin in samples of 10 s; nothing but its length tells them apart.
    - Exporter: neither SMs nor pipes but tensor are counted, nor links: few SMs, FP64 and others look alike, and so do
      collectives that move data and that wait.
    - Imported: as the exporter, and nothing of the nodes: whether disks, network or cores were busy is not known.
    - NVML, AMD: a kernel ran, and how much power it took: which it was, a collective or not, is not known. A driver counts
      a period as busy in which one kernel ran: short gaps between kernels look like kernels. NVML has no PCIe bytes: a copy
      by one core that polls is a busy core.
    """
    merged = {"idle.between_kernels": "idle.unexplained"}
    if view in ("exporter", "imported"):
        merged |= {"working.few_sms": "working.other", "working.fp64": "working.other",
                   "communication.waiting": "communication.transferring"}  # fmt: skip
    if view == "imported":
        merged |= {"idle.input_output": "idle.unexplained", "idle.host": "idle.unexplained"}
    if view in ("nvml", "amd"):
        merged = {leaf: "working.kernels" for leaf in LEAVES if leaf.startswith(("working.", "communication."))}
        del merged["working.slowed"]
        merged |= {"idle.between_kernels": "working.kernels", "idle.copies": "idle.host"}
    found = {merged.get(leaf, leaf): 0.0 for leaf in LEAVES}
    for leaf, share in shares.items():
        found[merged.get(leaf, leaf)] = found.get(merged.get(leaf, leaf), 0.0) + share
    return found


def unseen_job(seed: int, healthy: bool) -> UnseenJob:
    """Draw a job: a healthy one, or one with a planted cause."""
    rng = np.random.default_rng([seed, 71])
    return job_of_kind(str(rng.choice(sorted(WELL if healthy else SICK))), seed)


def job_of_kind(name: str, seed: int) -> UnseenJob:
    """Draw a job of a kind, in one of the views that the kind claims. Raises RuntimeError if none is suitable."""
    kind = (WELL | SICK)[name]
    for attempt in range(MOST_DRAWS):
        rng = np.random.default_rng([seed, attempt, 73])
        chosen = str(rng.choice(kind.views))
        try:
            machine = draw_machine(rng, chosen, *kind.gpus, kind.nodes)
            job = Draft(rng, chosen, machine)
            kind.make(job)
        except (UnsuitableError, LookupError):
            continue
        found = _finish(name, seed, job)
        if found is not None:
            return found
    raise RuntimeError(f"{name} of seed {seed} never costs {LEAST_COST:.0%} of the GPU time")


def _finish(name: str, seed: int, job: Draft) -> UnseenJob | None:
    """Add what recorders lose and keep the books; None if the cause costs too little or the job is too short or long."""
    seconds = job.timeline.seconds
    if not SHORTEST <= seconds <= 1.3 * LONGEST or seconds < 40 * job.interval:
        return None
    _lose_samples(job)
    books = job.timeline.books()
    for gpu, begin, end in job.gaps:
        inside = job.timeline.books_between(gpu, begin, end)
        books[gpu] -= inside
        books[gpu, 0] += inside.sum()
    total = float(books.sum())
    shares = dict(zip(LEAVES, (books.sum(axis=0) / total).tolist(), strict=True))
    lost = sum(shares[leaf] for leaf in job.cost_leaves)
    if job.planted and job.costs_time and lost < LEAST_COST:
        return None
    hours = lost * total / 3600 if job.planted and job.costs_time and job.knows_cost else None
    allowed = frozenset(_true_of(job, shares, books)) if job.planted else frozenset[str]()
    return UnseenJob(seed, name, job.view, tuple(job.planted), allowed, hours, shares, job.interval, books, job)


def _lose_samples(job: Draft) -> None:
    """Let a node's recorder stand still once, or begin late, for about a percent of the time, in some jobs."""
    length = job.timeline.seconds
    if job.gaps or not job.chance(0.2):
        return
    node = int(job.rng.integers(job.machine.n_nodes))
    lost = min(max(4 * job.interval, job.uniform(0.002, 0.012) * length), 0.02 * length)
    begin = 0.0 if job.chance(0.4) else job.uniform(0.2, 0.8) * length
    job.gaps += [(int(gpu), begin, begin + lost) for gpu in np.flatnonzero(job.machine.node_of == node)]


def _true_of(job: Draft, shares: Mapping[str, float], books: Floats) -> set[str]:
    """Return the codes that are true of a sick job by its books [GPU, leaf] besides the planted ones: of whatever has at
    least half of the share from which the design warns."""
    waits = shares["idle.imbalance"] + shares["communication.waiting"]
    talks = shares["communication.transferring"] + shares["communication.waiting"]
    idle = sum(share for leaf, share in shares.items() if leaf.startswith("idle."))
    unseen = {"idle.unexplained"} | (set() if job.knows_host else {"idle.input_output", "idle.host"})
    unseen |= {"idle.copies"} if job.view in ("nvml", "amd") else set()
    model = job.machine.model
    watts = job.timeline.pieces_of(0).means(np.zeros(1), np.array([job.timeline.seconds]))[0, RATES.index("power")]
    power = (1.05 * model.idle_power + (model.power_limit - model.idle_power) * float(watts)) / model.power_limit
    found = set(job.allowed)
    for is_true, codes in (
        (shares["idle.input_output"] >= TRUE_FROM, ("io_wait",)),
        (shares["idle.copies"] >= TRUE_FROM, ("transfer_bound",)),
        (shares["idle.host"] >= TRUE_FROM, ("cpu_starved",)),
        (job.view == "nvml" and shares["idle.copies"] >= TRUE_FROM, ("cpu_starved",)),
        (waits >= TRUE_FROM and job.n > 1, SPREAD),
        (waits >= TRUE_FROM and _somebody_is_late(books, np.arange(job.n)), LATE),
        (waits >= TRUE_FROM and _somebody_is_late(books, job.machine.node_of), ("slow_node", *LATE)),
        (shares["idle.between_kernels"] >= ORDINARY_FROM, FEW_LAUNCHES),
        (sum(shares[leaf] for leaf in unseen) >= TRUE_FROM, STOPS),
        (idle + shares["unused"] >= MUCH_IDLE, FEW_LAUNCHES),
        (talks >= ORDINARY_FROM, ("communication_bound",)),
        (shares["startup"] >= TRUE_FROM, ("start_up",)),
        (shares["end"] >= TRUE_FROM, ("tear_down",)),
        (shares["working.few_sms"] >= TRUE_FROM, ("small_kernels", "low_occupancy")),
        (shares["working.slowed"] >= TRUE_FROM, ("slow_clock",)),
        (any(block.reason & 4 for block in job.timeline.blocks), ("power_capped",)),
        (float(job.memory.max()) >= MUCH_MEMORY, ("memory_full", "memory_peak")),
        (float(job.memory.max()) <= LITTLE_MEMORY, ("memory_unused",)),
        (power <= LITTLE_POWER, ("low_power",)),
        (shares["working.other"] + shares["working.fp64"] + shares["working.memory"] >= 0.3, ("tensor_unused",)),
        (shares["working.fp64"] >= 0.1, ("fp64",)),
        (True, ("compute_bound", "memory_bound", "little_arithmetic")),
    ):
        found |= set(codes) if is_true else set()
    return found


def _somebody_is_late(books: Floats, owner: Ints) -> bool:
    """Tell whether one GPU, or one node's GPUs, wait much less than the others do, so that these wait for it."""
    waits = books[:, LEAVES.index("idle.imbalance")] + books[:, LEAVES.index("communication.waiting")]
    owners = np.unique(owner)
    means = np.array([waits[owner == each].mean() for each in owners])
    return len(owners) > 1 and bool(means.min() < 0.5 * np.median(means))
