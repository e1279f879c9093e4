"""Planted causes that need several GPUs: somebody is late, collectives are slow, GPUs are held and not used.

Each function is a kind: it fills a draft in, and says in its docstring what happens in such a job and why its codes are
right.
A driver alone (NVML, AMD's) can not tell a kernel that spins from one that works: kinds in which all others spin are drawn
for those views only where something else shows the culprit, or power is so low that this can be said.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gssr.arrays import Floats
from tests.fakes.unseen_jobs.causes_single import FEW_LAUNCHES, STOPS
from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.programs import (
    MpiCode,
    Training,
    at_steps,
    over_fabric,
    pipeline,
    run_mpi,
    split_ranks,
    train,
)
from tests.fakes.unseen_jobs.timeline import Do, Meet
from tests.fakes.unseen_jobs.work import Work, idle, mix

WAITS = ("communication.waiting", "idle.imbalance")
LATE = ("straggler", "imbalance")
SPREAD = ("rotating_stragglers", "imbalance", "taking_turns", "communication_bound")


def _one_rank(job: Draft, value: float) -> Floats:
    found = np.ones(job.n)
    found[int(job.rng.integers(job.n))] = value
    return found


def _one_node(job: Draft, value: float) -> Floats:
    node = int(job.rng.integers(job.machine.n_nodes))
    return np.where(job.machine.node_of == node, value, 1.0)


def fixed_straggler(job: Draft) -> None:
    """One rank has more to do in every step (longer sequences, a noisy neighbour): all others spin in the collective until
    it comes."""
    slowness = _one_rank(job, job.uniform(1.2, 1.9))
    train(
        job, Training(job.catalogue.transformer(), job.log_uniform(0.3, 6), exposed=0.03, slowness=lambda _: slowness)
    )
    job.cost_leaves = WAITS
    job.plant(*LATE)
    job.allowed |= {"communication_bound"}


def slow_clock_of_one(job: Draft) -> None:
    """One GPU runs at 55 to 80 % of the clock of all others, without a reason that anything tells: a stuck clock. The others
    wait for it. Its slow clock and their waits are two losses of one cause: its hours are not asked for."""
    clock = _one_rank(job, job.uniform(0.55, 0.8))
    train(job, Training(job.catalogue.transformer(), job.log_uniform(0.3, 6), exposed=0.02, clock=lambda _: clock))
    job.cost_leaves, job.knows_cost = WAITS, False
    job.plant("slow_clock", *LATE)
    job.allowed |= {*LATE, "communication_bound"}


def hot_gpu(job: Draft) -> None:
    """One GPU of the job is too hot and lowers its clock by itself; the others wait for it in every step."""
    gpu = int(job.rng.integers(job.n))
    clock = np.where(np.arange(job.n) == gpu, job.uniform(0.5, 0.8), 1.0)
    job.heat[gpu] = 160
    step = job.log_uniform(0.3, 6)
    train(job, Training(job.catalogue.transformer(), step, exposed=0.02, clock=lambda _: clock, reason=0x20))
    job.cost_leaves, job.knows_cost = WAITS, False
    job.plant("throttled_thermal", "slow_clock", *LATE)
    job.allowed |= {*LATE, "slow_clock", "communication_bound"}


def slow_node(job: Draft) -> None:
    """All GPUs of one node are a third slower, as those of a node with a broken switch or memory are; others spin."""
    slowness = _one_node(job, job.uniform(1.2, 1.7))
    train(
        job, Training(job.catalogue.transformer(), job.log_uniform(0.3, 6), exposed=0.03, slowness=lambda _: slowness)
    )
    job.cost_leaves = WAITS
    job.plant("slow_node", *LATE)
    job.allowed |= {*LATE, "communication_bound"}


def node_with_slow_host(job: Draft) -> None:
    """Each GPU works for itself (an ensemble); on one node the host is held up by others' jobs, and its GPUs' engines are
    idle for a third to a half of the time between pieces, while all others' work. By the tree that is imbalance."""
    share = job.uniform(0.35, 0.6)
    slow = _one_node(job, 0.0) == 0.0
    job.start()
    piece = job.log_uniform(0.3, 3)
    rest = job.length - job.timeline.seconds
    n = int(min(rest / piece, 1_500_000 // (2 * job.n)))
    work = piece * job.jitter(n, 0.05)
    work[:, slow] *= 1 - share
    stall = np.where(slow, share * piece, 0.005 * piece) * job.jitter(n, 0.3)
    wait = idle("idle.imbalance", cores=0.2)
    job.timeline.apart([job.catalogue.particles(), wait], np.stack([work, stall], axis=1), 0.9 * n * piece, wait)
    job.finish()
    job.cost_leaves = ("idle.imbalance",)
    job.plant("slow_node", *LATE, "unexplained")
    job.allowed |= {"low_use", "launch_gaps", "gaps"}


def rotating_stragglers(job: Draft) -> None:
    """Batches of uneven length: another rank is late in each step, and all others spin."""
    sigma = job.uniform(0.15, 0.35)
    train(job, Training(job.catalogue.transformer(), job.log_uniform(0.8, 10), exposed=0.02, sigma=sigma))
    job.cost_leaves = WAITS
    job.plant(*SPREAD)


def garbage_collection(job: Draft) -> None:
    """An interpreter's garbage collection stops one rank at a time for half a second to two, at no common moment: its
    GPU is idle with one core busy, and everybody else spins until it is there again."""
    step, pause = job.log_uniform(0.5, 2), job.uniform(0.5, 2.0)
    often = job.uniform(0.15, 0.6) * step / pause / job.n

    def pauses(n: int) -> list[Do | Meet]:
        return [Do(idle("idle.host", cores=1.0), np.where(job.rng.random((n, job.n)) < often, pause, 0.0))]

    train(job, Training(job.catalogue.transformer(), step, exposed=0.02, before=pauses))
    job.cost_leaves = WAITS
    job.plant(*SPREAD, "straggler")
    job.allowed |= {"pauses", "recurring_dips", "cpu_starved"}


def uneven_domains(job: Draft) -> None:
    """Domains of unequal size: each rank computes for another time, always the same one, and waits on the CPU, its GPU
    idle, for the largest."""
    uneven: Floats = 1 - job.uniform(0.25, 0.6) * job.rng.random(job.n)
    uneven[int(job.rng.integers(job.n))] = 1.0
    run_mpi(job, MpiCode(job.catalogue.stencil(), job.log_uniform(0.5, 5), uneven=lambda _: uneven))
    job.cost_leaves = WAITS
    job.plant(*LATE)


def early_ends(job: Draft) -> None:
    """An ensemble of runs in one job: a part of them is through long before the last one, and their GPUs stay held."""
    job.start()
    rest = job.length - job.timeline.seconds
    ends = rest * np.where(job.rng.random(job.n) < job.uniform(0.3, 0.8), job.rng.uniform(0.25, 0.8, job.n), 0.995)
    ends[int(job.rng.integers(job.n))] = rest
    job.need(bool((ends < 0.9 * rest).any()))
    work = job.gappy(job.catalogue.particles(), 0.04)
    job.timeline.all_do(work, ends)
    job.timeline.even_out(idle("idle.imbalance", cores=0.0))
    job.finish(1.0)
    job.cost_leaves = ("idle.imbalance",)
    job.plant("early_end", *LATE)
    job.allowed |= {"low_use", *STOPS}


def late_starts(job: Draft) -> None:
    """Runs that don't depend on each other; some get their input minutes later, and their GPUs idle while others work."""
    job.start()
    rest = job.length - job.timeline.seconds
    late = np.where(job.rng.random(job.n) < job.uniform(0.25, 0.6), job.rng.uniform(0.15, 0.5, job.n) * rest, 0.0)
    late[int(job.rng.integers(job.n))] = 0.0
    job.need(bool((late > 0).any()))
    job.timeline.all_do(idle("idle.imbalance", cores=0.05), late)
    job.timeline.all_do(job.gappy(job.catalogue.particles(), 0.04), rest - late)
    job.finish()
    job.cost_leaves = ("idle.imbalance",)
    job.plant("late_start", *LATE)
    job.allowed |= {"low_use", *STOPS}


def evaluation_on_one(job: Draft) -> None:
    """Rank 0 evaluates alone after some hundred steps; the others spin in the next barrier."""
    step, share = job.log_uniform(0.4, 4), job.uniform(0.12, 0.5)
    spin = job.catalogue.spin()
    evaluate = job.catalogue.decode()
    mine = (np.arange(job.n) == 0).astype(float)

    def after(n: int) -> list[Do | Meet]:
        count = max(3, min(20, n // 15))
        when = at_steps(n, max(2, n // (count + 1)), share * n * step / count, job.rng)
        return [Do(evaluate, when * mine), Meet(spin)]

    train(job, Training(job.catalogue.transformer(), step, exposed=0.02, after=after))
    job.cost_leaves = WAITS
    job.plant(*LATE, "communication_bound")
    job.allowed |= {"recurring_dips", "pauses", "slow_node"}


def checkpoint_by_rank_zero(job: Draft) -> None:
    """Rank 0 gathers and writes everything; its GPU idles while the network carries data out, the others spin."""
    step, share = job.log_uniform(0.4, 4), job.uniform(0.12, 0.4)
    spin, mine = job.catalogue.spin(), (np.arange(job.n) == 0).astype(float)
    write = idle("idle.input_output", cores=1.0, net_tx=job.uniform(3e8, 2e9), write=1e6)

    def after(n: int) -> list[Do | Meet]:
        count = max(3, min(15, n // 15))
        return [Do(write, at_steps(n, max(2, n // (count + 1)), share * n * step / count, job.rng) * mine), Meet(spin)]

    train(job, Training(job.catalogue.transformer(), step, exposed=0.02, after=after))
    job.cost_leaves, job.knows_cost = WAITS, False
    job.plant(*LATE, "io_wait", "communication_bound")
    job.allowed |= {"recurring_dips", "pauses", "slow_node"}


def pipeline_bubbles(job: Draft) -> None:
    """Equal stages, but few micro-batches: each stage waits at both ends of a step, its receive kernel spinning."""
    stages = int(job.rng.choice((2, 4, 8)))
    batches = int(job.rng.integers(max(2, stages // 2), 2 * stages + 1))
    pipeline(
        job, stages, batches, job.log_uniform(0.08, 1.2), np.ones(stages), job.chance(0.5), job.catalogue.transformer()
    )
    job.cost_leaves = WAITS
    job.plant(*SPREAD)


def uneven_stages(job: Draft) -> None:
    """One stage of a pipeline (embedding or head) takes half again to twice as long as the others, which wait for it."""
    stages = int(job.rng.choice((2, 4, 8)))
    weights = np.ones(stages)
    weights[int(job.rng.choice((0, stages - 1)))] = job.uniform(1.5, 2.2)
    pipeline(job, stages, 3 * stages, job.log_uniform(0.08, 0.8), weights, False, job.catalogue.transformer())
    job.cost_leaves = WAITS
    job.plant(*LATE, *SPREAD)


def naive_pipeline(job: Draft) -> None:
    """Layers spread over the GPUs of one process, one batch at a time: a GPU after the other works, the rest idle."""
    job.need(job.machine.n_nodes == 1)
    job.process_of[:] = 0
    stage = job.log_uniform(0.8, 8)
    wait, work = idle("idle.imbalance", cores=0.3), job.gappy(job.catalogue.transformer(), 0.03)

    def turns(_: int) -> Sequence[Do | Meet]:
        found: list[Do | Meet] = []
        for gpu in range(job.n):
            found += [Do(work, stage * np.eye(job.n)[gpu]), Meet(wait)]
        return found

    job.start()
    n = job.n_steps(job.n * stage, 2 * job.n)
    job.steps(turns(n), n)
    job.finish()
    job.cost_leaves = ("idle.imbalance",)
    job.plant("taking_turns", "imbalance", "low_use", *((*STOPS, *FEW_LAUNCHES) if job.interval > stage else ()))
    job.allowed |= {"rotating_stragglers", "recurring_dips"}


def _bound_by(job: Draft, collective: Work, exposed: tuple[float, float]) -> None:
    train(job, Training(job.catalogue.transformer(), job.log_uniform(0.5, 8), exposed=job.uniform(*exposed),
                        collective=collective, hidden=0.1))  # fmt: skip
    job.cost_leaves = ("communication.transferring",)
    job.plant("communication_bound")


def collectives_over_pcie(job: Draft) -> None:
    """NCCL takes PCIe where there is NVLink (a variable, a container), or there is none: links between GPUs are still, PCIe
    carries all it can both ways while the collective's kernel is all that runs."""
    job.need(job.machine.n_nodes == 1 and not job.machine.model.is_amd and not job.machine.model.has_c2c)
    rate = job.uniform(0.4, 0.7) * job.machine.model.pcie
    moved = job.catalogue.collective(0.3).on_host(link_tx=0.0, link_rx=0.0, to_gpu=rate, from_gpu=rate)
    _bound_by(job, moved, (0.2, 1.0))
    job.allowed |= {"transfer_bound"}


def slow_fabric(job: Draft) -> None:
    """Gradients go over a network between nodes that is slow for what they are: the fabric is full, and so is the part of
    the time in which only the collective's kernel runs."""
    job.need(job.machine.n_nodes > 1)
    _bound_by(
        job, over_fabric(job, job.catalogue.collective(job.uniform(0.03, 0.08)), job.uniform(0.3, 0.9)), (0.2, 1.0)
    )
    job.allowed |= {"transfer_bound"}


def experts_exchange(job: Draft) -> None:
    """A mixture of experts: two exchanges of all with all in every layer, which nothing hides."""
    _bound_by(job, over_fabric(job, job.catalogue.collective(job.uniform(0.4, 0.7)), 0.6), (0.3, 0.9))


def small_messages(job: Draft) -> None:
    """Thousands of tiny all-reduces in a step: latency is all that they cost. Kernels run, links are quiet, nobody is late:
    by the tree that is waiting, without a culprit."""
    tiny = job.catalogue.collective(0.012)
    latency = mix((Work({"communication.waiting": 1.0}, tiny.rates), 0.97), (tiny, 0.03))
    _bound_by(job, latency, (0.2, 0.8))
    job.cost_leaves = ("communication.waiting",)
    job.planted = [frozenset({"communication_bound", "small_kernels", "imbalance"})]


def tensor_parallel_over_slow_links(job: Draft) -> None:
    """Every layer is split over pairs of GPUs; its all-reduce is short, comes several times a step, and is not hidden."""
    group = split_ranks(job.n, 2)
    share, layers = job.uniform(0.25, 0.8), 4
    layer = job.log_uniform(0.1, 1)
    moved, spin, work = (
        job.catalogue.collective(0.9),
        job.catalogue.spin(),
        job.gappy(job.catalogue.transformer(), 0.02),
    )
    job.start()
    n = job.n_steps(layers * layer * (1 + share), 4 * layers)
    found: list[Do | Meet] = []
    for _ in range(layers):
        found += [Do(work, layer * job.jitter(n, 0.01)), Meet(spin, moved, share * layer, group)]
    job.steps([*found, Meet(spin, over_fabric(job, moved), 0.03 * layers * layer)], n)
    job.finish()
    job.cost_leaves = ("communication.transferring",)
    job.plant("communication_bound")


def hang_in_collective(job: Draft) -> None:
    """One rank has left the loop by another branch: all spin in a collective that never ends, until the time limit."""
    job.length *= 0.6
    job.start()
    train(job, Training(job.catalogue.transformer(), job.log_uniform(0.5, 4), exposed=0.03), wraps=False)
    tail = max(120.0, 4 * job.interval, job.uniform(0.2, 1.2) * job.timeline.seconds)
    job.timeline.all_do(job.catalogue.spin(), tail)
    job.exit = ("timeout", 124)
    job.events.append((job.timeline.seconds, "timeout", "the time limit was reached", None))
    job.cost_leaves = ("communication.waiting",)
    job.plant("hang", *(("low_power",) if job.view in ("nvml", "amd") else ()))
    job.allowed |= {"communication_bound", "imbalance", "straggler", "slow_down", "small_kernels"}


def hang_on_host(job: Draft) -> None:
    """Processes wait for each other on the host (a lock, a dead loader), GPUs idle, until the time limit: after the job's
    last work, which the tree calls its end."""
    job.length *= 0.6
    job.start()
    train(job, Training(job.catalogue.convolutions(), job.log_uniform(0.5, 3), exposed=0.03), wraps=False)
    tail = max(120.0, 4 * job.interval, job.uniform(0.25, 1.2) * job.timeline.seconds)
    job.timeline.all_do(idle("end", cores=0.01), tail)
    job.exit = ("timeout", 124)
    job.events.append((job.timeline.seconds, "timeout", "the time limit was reached", None))
    job.cost_leaves = ("end",)
    job.plant("hang", "tear_down")


def unused_gpus(job: Draft) -> None:
    """A job has asked for more GPUs than its processes use: some do nothing from the begin to the end."""
    unused = max(1, int(job.uniform(0.2, 0.8) * job.n))
    job.need(unused < job.n)
    _leave_unused(job, unused)
    plan = MpiCode(job.catalogue.particles(), job.log_uniform(0.5, 3), sigma=0.0)
    run_mpi(job, plan)
    _empty(job, unused)


def one_process_of_many(job: Draft) -> None:
    """One process, written for one GPU, in a job with a whole node: seven of eight GPUs do nothing."""
    job.process_of[:] = 0
    _leave_unused(job, job.n - 1)
    run_mpi(job, MpiCode(job.catalogue.convolutions(), job.log_uniform(0.5, 3), sigma=0.0))
    _empty(job, job.n - 1)


def _leave_unused(job: Draft, unused: int) -> None:
    job.has_context[job.n - unused :] = False
    job.memory[job.n - unused :] = 0.0
    job.cost_leaves = ("unused",)
    job.plant("gpus_unused")
    job.allowed |= {"memory_unused", "low_use", "imbalance", "straggler"}


def _empty(job: Draft, unused: int) -> None:
    """Replace what the last GPUs did by nothing."""
    used, nothing = job.n - unused, Work({"unused": 1.0}, {})
    for place, block in enumerate(job.timeline.blocks):
        seconds = np.array(block.seconds)
        seconds[:, :, used:] = 0.0
        job.timeline.blocks[place] = replace(block, seconds=seconds)
    whole = np.where(np.arange(job.n) < used, 0.0, job.timeline.seconds)
    job.timeline.all_do(nothing, whole)


def data_parallel_in_one_process(job: Draft) -> None:
    """One process drives all GPUs of a node, scatters and gathers on the first: that one has more to do, and the others
    idle while it gathers, updates and copies the model to them."""
    job.need(job.machine.n_nodes == 1)
    job.process_of[:] = 0
    step, share = job.log_uniform(0.3, 3), job.uniform(0.25, 1.0)
    first = (np.arange(job.n) == 0).astype(float)
    wait, update = idle("idle.imbalance", cores=1.0), job.gappy(job.catalogue.gather(), 0.05)
    job.memory[1:] *= 0.7
    train(job, Training(job.catalogue.convolutions(), step, exposed=0.0, hidden=0.0, wait=wait, after=lambda n: [
        Do(update, share * step * first * job.jitter(n, 0.02)), Meet(wait)]))  # fmt: skip
    job.cost_leaves = ("idle.imbalance",)
    job.plant(*LATE)
    job.allowed |= {"low_use", "transfer_bound", "communication_bound"}


def lost_gpu(job: Draft) -> None:
    """A GPU falls off the bus: an XID, no sample any more, and everybody else spins in the next collective to the end."""
    job.length *= 0.7
    job.start()
    train(job, Training(job.catalogue.transformer(), job.log_uniform(0.5, 4), exposed=0.03), wraps=False)
    lost, when = int(job.rng.integers(job.n)), job.timeline.seconds
    tail = max(90.0, 5 * job.interval, job.uniform(0.1, 0.5) * when)
    job.timeline.all_do(job.catalogue.spin(), tail)
    job.gaps.append((lost, when, when + tail + 1.0))
    job.events.append((when + 0.1, "xid", "XID 79: GPU has fallen off the bus", lost))
    job.events.append((when + 3.0, "gpu_lost", "the GPU does not answer any more", lost))
    job.exit = ("failed", 1)
    job.costs_time = job.knows_cost = False
    job.plant("gpu_errors", "gpu_lost")
    job.plant(
        "hang", *(("low_power", "gpu_lost") if job.view in ("nvml", "amd") else ("gpu_lost", "communication_bound"))
    )
    job.allowed |= {"communication_bound", "imbalance", "straggler", "early_end", "small_kernels"}
