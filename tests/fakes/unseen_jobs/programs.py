"""Programs as they are written: training in step, MPI codes, servers, pipelines. Kinds choose their parameters.

Each function adds a program's run to a draft's timeline, from start-up to end. Parameters that broadcast to [steps, ranks]
are called with the number of steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.timeline import Do, Meet, fetch_waits, pipeline_times
from tests.fakes.unseen_jobs.work import Work, idle, mix

ByStep = Callable[[int], Floats | float]


@dataclass
class Loader:
    """How batches are fetched: ``ratio``: the time a worker takes for a batch over that for which a rank works on one,
    times ``workers``; more than the number of workers means that ranks wait. ``wait``: what a rank's GPU does meanwhile."""

    wait: Work
    ratio: float
    workers: int = 4
    queue: int = 8
    sigma: float = 0.25


@dataclass
class Training:
    """Data-parallel training. ``step_s``: time for the compute of a step. ``exposed``: collectives that nothing hides, and
    ``hidden``: those under the compute, as shares of it; ``between``: gaps between kernels. ``slowness``, ``clock``: factor
    of each rank's compute time, and its clock. ``before``, ``after``: other operations of each step."""

    kernels: Work
    step_s: float
    exposed: float = 0.03
    hidden: float = 0.25
    between: float = 0.03
    sigma: float = 0.012
    step_sigma: float = 0.01
    loader: Loader | None = None
    slowness: ByStep = field(default=lambda _: 1.0)
    clock: ByStep = field(default=lambda _: 1.0)
    reason: int = 0
    before: Callable[[int], Sequence[Do | Meet]] = field(default=lambda _: ())
    after: Callable[[int], Sequence[Do | Meet]] = field(default=lambda _: ())
    loading: dict[str, float] = field(default_factory=dict)
    wait: Work | None = None
    collective: Work | None = None


def over_fabric(job: Draft, work: Work, share: float = 0.7) -> Work:
    """Return a collective with the part that goes between nodes: the fabric carries it, read by the GPUs over PCIe."""
    if job.machine.n_nodes == 1:
        return work
    rate = share * job.machine.fabric / job.machine.per_node
    return work.beside(fabric_rx=rate, fabric_tx=rate, to_gpu=rate, from_gpu=rate)


def train(job: Draft, plan: Training, n_steps: int | None = None, wraps: bool = True) -> int:
    """Add a training run; without ``wraps`` its steps alone. Returns how many steps it has."""
    if wraps:
        job.start()
    rng, several = job.rng, job.n > 1
    spin = plan.wait or job.catalogue.spin()
    collective = plan.collective or over_fabric(job, job.catalogue.collective(job.uniform(0.35, 0.85)))
    n = n_steps or job.n_steps(plan.step_s * (1 + plan.exposed))
    kernels = job.gappy(plan.kernels, plan.between)
    if several and plan.hidden:
        moved = {name: plan.hidden * collective.rates.get(name, 0.0)
                 for name in ("link_tx", "link_rx", "fabric_rx", "fabric_tx", "to_gpu", "from_gpu")}  # fmt: skip
        kernels = kernels.beside(**moved)
    feeding = {"cores": 0.15 * job.n_workers, "net_rx": job.log_uniform(1e6, 8e7), "to_gpu": job.log_uniform(1e6, 4e8)}
    kernels = kernels.beside(**{**feeding, **plan.loading})
    clock = np.broadcast_to(np.asarray(plan.clock(n), float), (n, job.n))
    seconds = plan.step_s * job.step_lengths(n, plan.step_sigma) * job.jitter(n, plan.sigma)
    seconds = seconds * np.broadcast_to(np.asarray(plan.slowness(n), float), (n, job.n)) / clock
    operations: list[Do | Meet] = list(plan.before(n))
    if plan.loader is not None:
        fetch = plan.loader
        # Workers of a node share its cores: whoever is ahead stops, so that its neighbours catch up.
        of_node = np.exp(rng.normal(-(fetch.sigma**2) / 2, fetch.sigma, (n, job.machine.n_nodes)))
        load = plan.step_s * fetch.ratio * of_node[:, job.machine.node_of]
        waits = fetch_waits(load, seconds, fetch.workers, fetch.queue)
        operations.append(Do(fetch.wait, waits * job.jitter(n, 0.04)))
    operations.append(Do(kernels, seconds))
    if several:
        operations.append(Meet(spin, collective, plan.exposed * plan.step_s * job.step_lengths(n, 0.08)))
    operations += plan.after(n)
    job.steps(operations, n, clock, plan.reason)
    if wraps:
        job.finish()
    return n


def at_steps(n_steps: int, every: int, seconds: float, rng: np.random.Generator) -> Floats:
    """Return a duration that comes with every so many steps, a few percent different each time [steps, 1]."""
    found = np.zeros((n_steps, 1))
    places = np.arange(every - 1, n_steps, every)
    found[places, 0] = seconds * np.exp(rng.normal(0, 0.05, len(places)))
    return found


def checkpoints(job: Draft, n_steps: int, share: float, step_s: float) -> list[Do | Meet]:
    """Return checkpoints that all ranks write together and that take this share of the time, three or more in all."""
    count = max(3, min(12, n_steps // 40))
    seconds = share * n_steps * step_s / count
    every = max(2, n_steps // (count + 1))
    when = at_steps(n_steps, every, seconds, job.rng)
    copy = idle("idle.copies", from_gpu=0.6 * job.machine.model.pcie, cores=1.0)
    write = idle("idle.input_output", net_tx=job.uniform(3e8, 2e9) / job.machine.per_node, cores=1.0, write=1e6)
    return [Do(copy, 0.08 * when), Do(write, 0.92 * when)]


@dataclass
class MpiCode:
    """A bulk-synchronous code: compute, exchange with neighbours, wait at a reduction; ``step_s``: of a group of time
    steps. ``exchange``, ``copies``, ``on_host``: shares of the compute time that follow it; ``uneven``: as slowness of
    Training. MPI waits on the CPU: the GPU is idle meanwhile."""

    kernels: Work
    step_s: float
    between: float = 0.05
    exchange: float = 0.02
    copies: float = 0.0
    on_host: float = 0.0
    sigma: float = 0.008
    uneven: ByStep = field(default=lambda _: 1.0)
    clock: ByStep = field(default=lambda _: 1.0)
    reason: int = 0
    host: Work | None = None
    after: Callable[[int], Sequence[Do | Meet]] = field(default=lambda _: ())


def run_mpi(job: Draft, plan: MpiCode) -> int:
    """Add an MPI code's run. Returns how many groups of steps it has."""
    job.start(min(job.log_uniform(2, 30), 0.1 * job.length))
    whole = plan.step_s * (1 + plan.exchange + plan.copies + plan.on_host)
    n = job.n_steps(whole, 6)
    # A GPU-aware exchange is a copy between GPUs that no kernel does: links are busy, the engine is not.
    exchange = over_fabric(
        job, Work({"idle.between_kernels": 1.0}, {"cores": 1.0, "link_tx": 3e10, "link_rx": 3e10}), 0.4
    )
    kernels = mix((job.gappy(plan.kernels, plan.between), 1.0), (exchange, plan.exchange if job.n > 1 else 0.0))
    clock = np.broadcast_to(np.asarray(plan.clock(n), float), (n, job.n))
    seconds = plan.step_s * (1 + plan.exchange) * job.step_lengths(n, 0.01) * job.jitter(n, plan.sigma)
    seconds = seconds * np.broadcast_to(np.asarray(plan.uneven(n), float), (n, job.n)) / clock
    operations: list[Do | Meet] = [Do(kernels, seconds)]
    if plan.copies:
        rate = 0.35 * job.machine.model.pcie
        copy = idle("idle.copies", from_gpu=rate, to_gpu=rate)
        operations.append(Do(copy, plan.copies * plan.step_s * job.jitter(n, 0.05)))
    if plan.on_host:
        host = plan.host or idle("idle.host", cores=job.all_cores)
        operations.append(Do(host, plan.on_host * plan.step_s * job.jitter(n, 0.01)))
    if job.n > 1:
        operations.append(Meet(idle("idle.imbalance", cores=1.0)))
    operations += plan.after(n)
    job.steps(operations, n, clock, plan.reason)
    job.finish()
    return n


def serve(job: Draft, load: float, burst_s: float, work: Work, pause: Work) -> None:
    """Add a server's run, or that of cells: bursts of work with pauses, ``load``: share of the time with requests. Several
    GPUs serve one model together, so that all are busy at once, with short all-reduces in every layer."""
    job.start()
    rest = max(job.length - job.timeline.seconds, 0.8 * SHORTEST_SERVING)
    n = int(min(1.15 * rest * load / burst_s + 20, 1_600_000 // (2 * job.n)))
    rest = min(rest, 0.85 * n * burst_s / load)
    bursts = burst_s * job.rng.gamma(3.0, 1 / 3.0, (n, 1))
    pauses = burst_s * (1 - load) / load * job.rng.exponential(1.0, (n, 1))
    together = np.broadcast_to(np.stack([bursts, pauses], axis=1), (n, 2, job.n))
    if job.n > 1:
        work = mix((work, 0.95), (job.catalogue.collective(0.4), 0.05))
    job.timeline.apart([work, pause], together, rest, pause)
    job.finish()


SHORTEST_SERVING = 200.0


def pipeline(
    job: Draft,
    n_stages: int,
    n_batches: int,
    batch_s: float,
    weights: Floats,
    gpipe: bool,
    kernels: Work,
) -> None:
    """Add training as a pipeline of stages of which each takes ``weights`` [stages] of a batch's mean time: replicas of the
    pipeline side by side, all-reduce and optimizer at the end of a step. Receivers spin in a kernel of two channels."""
    job.need(job.n % n_stages == 0)
    job.start()
    n_replicas = job.n // n_stages
    step_s = 3 * batch_s * (n_batches + n_stages - 1)
    n = job.n_steps(step_s, 4 * n_batches + 3)
    receive, work = job.catalogue.spin(pair=True), job.gappy(kernels, 0.02)
    work = work.beside(link_tx=0.02 * job.machine.link_rate, link_rx=0.02 * job.machine.link_rate)
    seconds = np.zeros((n, 4 * n_batches, job.n))
    for replica in range(n_replicas):
        noise = np.exp(job.rng.normal(0, 0.01, (n, n_stages)))
        begins, ends = pipeline_times(batch_s * weights * noise, 2 * batch_s * weights * noise, n_batches, gpipe)
        before = np.concatenate([np.zeros((n, n_stages, 1)), ends[:, :, :-1]], axis=2)
        mine = slice(replica * n_stages, (replica + 1) * n_stages)
        seconds[:, 0::2, mine] = (begins - before).transpose(0, 2, 1)
        seconds[:, 1::2, mine] = (ends - begins).transpose(0, 2, 1)
    used = seconds.sum(axis=1)
    collective = over_fabric(job, job.catalogue.collective(0.6))
    reduce = 0.02 * step_s * np.ones((n, job.n))
    late = used.max(axis=1, keepdims=True) - used
    works = [receive, work] * (2 * n_batches) + [job.catalogue.spin(), collective]
    job.timeline.add(works, np.concatenate([seconds, late[:, None, :], reduce[:, None, :]], axis=1))
    job.finish()


def split_ranks(n_ranks: int, group: int) -> Ints:
    """Return groups of so many neighbouring ranks [ranks]."""
    return np.arange(n_ranks) // group
