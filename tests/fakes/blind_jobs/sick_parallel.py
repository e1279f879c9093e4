"""Jobs whose GPUs wait for each other, or for data of each other."""

import numpy as np

from gssr.arrays import Floats
from tests.fakes.blind_jobs.draft import GAPS, LATE, STALLS, TURNS, VIEWS, Draft, Insert, Recipe
from tests.fakes.blind_jobs.hardware import A100, H100, L40S
from tests.fakes.blind_jobs.healthy import RECIPES
from tests.fakes.blind_jobs.kinds import sick
from tests.fakes.blind_jobs.phases import GONE, HELD_UP, LOADING, UNUSED, Phase, memory_work, reading, tensor_work
from tests.fakes.blind_jobs.schedule import Block
from tests.fakes.blind_jobs.sick_input import simulation, training

WAITS = frozenset({"communication_bound", "low_power", "little_arithmetic"})
"""True of ranks that spin in collectives, to who sees no SMs: kernels run, at little power, and do little."""


def any_program(job: Draft) -> Recipe:
    """Draw a program whose ranks meet."""
    return training(job) if job.rng.random() < 0.6 else simulation(job)


def late_share(job: Draft) -> float:
    """Draw a cost that the view can show: drivers alone see who spins by a lower power, so it has to be a lot."""
    return job.uniform(0.35, 0.55) if job.view in ("nvml", "amd") else job.share(0.09, 0.45)


def late(job: Draft, recipe: Recipe, *exact: str) -> None:
    """Plant ranks that others wait for. SM counters tell waiting from work, and so does the engine where MPI blocks; to who
    sees neither, GPUs that differ, or communicate at little power, is all there is."""
    job.plant(*exact)
    if recipe.meet == "spin" and not job.counts_kernels:
        job.planted[-1] |= WAITS | {"imbalance", "straggler"}
    job.allowed |= {"communication_bound"} if recipe.meet == "spin" else GAPS


def load_of(job: Draft, which: list[int], share: float) -> Floats:
    """Return the load with which these GPUs make the others lose ``share`` of the job's GPU time."""
    others = 1 - len(which) / job.n_gpus
    return job.column(which, 1 / (1 - min(share / others, 0.75)), 1.0)


@sick(gpus=(2, 64))
def one_gpu_has_more_to_do(job: Draft) -> None:
    """A rank's domain or batch is larger, or its GPU is broken and slow: all wait for it in every step. With one GPU a
    node it is the node as well, with two GPUs uneven load."""
    recipe, share = any_program(job), late_share(job)
    job.start()
    job.run(recipe, load=load_of(job, [job.gpu()], share), waits_lost=True)
    job.finish()
    late(job, recipe, "straggler", *(("slow_node",) if job.n_gpus == job.n_nodes else ()),
         *(("imbalance",) if job.n_gpus <= 4 else ()))  # fmt: skip
    job.allowed |= LATE


@sick(gpus=(4, 64), nodes=(2, 16))
def one_node_is_slow(job: Draft) -> None:
    """All GPUs of a node take longer for the same work, for a reason that no counter has: a hypervisor, a bad BIOS
    setting."""
    recipe, share = any_program(job), late_share(job)
    node = int(job.rng.integers(job.n_nodes))
    job.start()
    which = np.flatnonzero(job.node_of == node).tolist()
    job.run(recipe, load=load_of(job, which, min(share, 0.7 * (1 - 1 / job.n_nodes))), waits_lost=True)
    job.finish()
    late(job, recipe, "slow_node", "straggler", "imbalance")
    job.allowed |= LATE


@sick(gpus=(4, 64), views=("full", "gpm"))
def another_is_late_each_step(job: Draft) -> None:
    """Now this rank is late, now another: the operating system, a network that is shared. Steps are long enough for
    samples to tell who, or else what is known is that all wait in turn in collectives."""
    recipe, share = training(job), job.share(0.09, 0.4)
    step = job.step_seconds(recipe._replace(step=(1.0, 12.0)))
    n = job.n_steps(step)
    load = np.ones((job.n_gpus, n))
    load[job.rng.integers(job.n_gpus, size=n), np.arange(n)] = 1 + share / (1 - share) * job.rng.uniform(0.7, 1.3, n)
    job.start()
    job.run(recipe, step=step, load=load, waits_lost=True)
    job.finish()
    job.plant("rotating_stragglers", "imbalance", "communication_bound")
    job.allowed |= TURNS


@sick(gpus=(4, 64))
def uneven_domains(job: Draft) -> None:
    """A decomposition that gives each rank another amount of work, the same all the time: from 50 % less to 50 % more."""
    recipe = simulation(job)
    spread = job.uniform(0.35, 0.6) if job.view in ("nvml", "amd") else job.uniform(0.2, 0.6)
    job.start()
    job.run(recipe, load=job.rng.permutation(np.linspace(1 - spread, 1 + spread, job.n_gpus))[:, None], waits_lost=True)
    job.finish()
    late(job, recipe, "imbalance", "straggler")
    job.allowed |= LATE | {"slow_node"}


@sick(gpus=(4, 64), views=("full", "gpm"))
def uneven_lengths(job: Draft) -> None:
    """Batches of texts of very different lengths: in each step another rank has the longest."""
    recipe = RECIPES["speech"]._replace(step=(0.5, 10.0))
    step = job.step_seconds(recipe)
    job.start()
    job.run(recipe, step=step, load=np.exp(job.rng.normal(0, job.uniform(0.1, 0.35), (job.n_gpus, job.n_steps(step)))),
            waits_lost=True)  # fmt: skip
    job.finish()
    job.plant("imbalance", "rotating_stragglers", "communication_bound")
    job.allowed |= TURNS


@sick(gpus=(4, 16), views=("full", "gpm"))
def pipeline_bubbles(job: Draft) -> None:
    """Stages of a pipeline with few micro-batches: of m + p - 1 slots each stage waits for p - 1, spinning to receive, early
    stages at the end of a step, late ones at its beginning."""
    stages = job.n_gpus
    micro = int(job.rng.integers(max(2, stages // 2), 4 * stages))
    recipe = RECIPES["dense_llm"]
    step = job.step_seconds(recipe)
    slot = step / (micro + stages - 1)
    stage = np.arange(float(stages))[:, None]
    job.start()
    block = Block(stages, job.n_steps(step))
    block.clock = np.broadcast_to(job.usual_clock(recipe), block.shape).copy()
    block.reasons[:] = 0x4
    block.do(job.spin(), slot * stage, lost=True)
    block.do(recipe.parts[0][0], slot * micro * np.exp(job.rng.normal(0, 0.004, block.shape)))
    block.do(job.spin(), slot * (stages - 1 - stage), lost=True)
    block.meet(job.spin(), lost=True)
    block.do(job.transfer(), 0.02 * step)
    job.blocks.append(block)
    job.finish()
    job.plant("taking_turns", "communication_bound", "imbalance", "rotating_stragglers")
    job.allowed |= TURNS


@sick(gpus=(2, 8), nodes=(1, 1))
def one_gpu_at_a_time(job: Draft) -> None:
    """A model split by layers over GPUs in one process: one works, the others have nothing to do, in turns of
    milliseconds to seconds. Shorter than samples, each GPU is just active for a part of every sample."""
    step = job.log_uniform(0.05, 8 * job.n_gpus)
    recipe = RECIPES["fine_tuning"]._replace(step=(step, step), comm=0.0, meet="", jitter=0.03)
    step = job.step_seconds(recipe, 2 * job.n_gpus)
    turn = step / job.n_gpus
    block = Block(job.n_gpus, job.n_steps(step))
    for gpu in range(job.n_gpus):
        mine = job.column([gpu], 1.0)
        length = turn * np.exp(job.rng.normal(0, 0.05, (1, block.shape[1])))
        block.do(recipe.parts[0][0], length * mine)
        block.do(GONE._replace(memory=1.0, cores=0.2), length * (1 - mine), lost=True)
    job.start()
    job.blocks.append(block)
    job.finish()
    job.memory[:] = job.uniform(0.5, 0.9)
    unclear = () if turn >= 2.5 * job.interval else ("low_use", "launch_gaps", "gaps", "unexplained", "cpu_starved")
    job.plant("taking_turns", "rotating_stragglers", "imbalance", *unclear)
    job.allowed |= TURNS | {"low_use", "straggler"}


@sick(gpus=(4, 32))
def generation_and_training_in_turns(job: Draft) -> None:
    """Reinforcement learning in two groups: while some GPUs generate, those that train have nothing to do, and the other way
    round, for 20 s to minutes each."""
    generate, train = (
        memory_work(0.62, 0.56, engine=0.95, tensor=0.08, occupancy=0.22),
        RECIPES["fine_tuning"].parts[0][0],
    )
    first = max(job.log_uniform(15, 120), 3 * job.interval)
    second = first * job.uniform(0.4, 1.4)
    n_generate = job.n_gpus // 2
    mine = job.column(range(n_generate), 1.0)
    block = Block(job.n_gpus, max(2, round(job.seconds / (first + second))))
    idle = GONE._replace(memory=1.0, cores=0.2)
    vary = np.exp(job.rng.normal(0, 0.15, (1, block.shape[1])))
    job.start()
    for phase, seconds, those in ((generate, first * vary, mine), (train, second * vary[:, ::-1], 1 - mine)):
        block.do(phase, seconds * those)
        block.do(idle, seconds * (1 - those), lost=True)
    job.blocks.append(block)
    job.finish()
    job.memory[:] = job.uniform(0.5, 0.92)
    job.plant("taking_turns")
    job.allowed |= TURNS | {"low_use", "slow_node", "recurring_dips", "pauses"}


@sick(gpus=(2, 64))
def some_begin_late(job: Draft) -> None:
    """Ranks of their own, such as tasks of a sweep; some begin late because their node or image was slow."""
    share = job.share(0.08, 0.3)
    n_late = int(job.rng.integers(1, max(2, job.n_gpus // 3)))
    delay = min(0.8, share * job.n_gpus / n_late)
    which = job.rng.choice(job.n_gpus, n_late, replace=False)
    recipe = RECIPES[str(job.rng.choice(["diffusion", "monte_carlo", "rendering"]))]
    job.start(absent=which)
    first = Block(job.n_gpus, 1)
    first.do(recipe.parts[0][0], job.column(which, 0.0, delay * job.seconds))
    first.do(GONE, job.column(which, 0.97 * delay * job.seconds), lost=True)
    first.do(LOADING._replace(leaf="idle.imbalance"), job.column(which, 0.03 * delay * job.seconds), lost=True)
    job.blocks.append(first)
    job.run(recipe, seconds=(1 - delay) * job.seconds)
    job.finish()
    job.plant("late_start")
    job.allowed |= LATE | {"slow_node"}


@sick(gpus=(2, 64))
def some_end_early(job: Draft) -> None:
    """Ranks of their own, some of which are through long before the others: the allocation waits for the last."""
    share = job.share(0.08, 0.45)
    n_early = int(job.rng.integers(max(1, job.n_gpus // 4), job.n_gpus))
    rest = min(0.8, share * job.n_gpus / n_early)
    which = job.rng.choice(job.n_gpus, n_early, replace=False)
    recipe = RECIPES[str(job.rng.choice(["diffusion", "monte_carlo", "rendering"]))]
    job.start()
    job.run(recipe, seconds=(1 - rest) * job.seconds)
    last = Block(job.n_gpus, 1)
    last.do(recipe.parts[0][0], job.column(which, 0.0, rest * job.seconds))
    last.do(GONE, job.column(which, rest * job.seconds), lost=True)
    job.blocks.append(last)
    job.finish()
    job.plant("early_end")
    job.allowed |= LATE | {"slow_node"}


@sick(gpus=(2, 64))
def gpus_never_used(job: Draft) -> None:
    """A script for one GPU, or some, was given more of them."""
    used = int(job.rng.integers(1, job.n_gpus))
    recipe = RECIPES[str(job.rng.choice(["diffusion", "fine_tuning", "monte_carlo"]))]._replace(meet="", comm=0.0)
    step = job.step_seconds(recipe)
    block = Block(job.n_gpus, job.n_steps(step))
    mine = job.column(range(used), 1.0)
    block.do(recipe.parts[0][0], step * mine * np.exp(job.rng.normal(0, 0.004, block.shape)))
    block.do(UNUSED, step * (1 - mine), lost=True)
    job.blocks.append(block)
    job.plant("gpus_unused")
    job.allowed |= LATE | {"low_use"}


@sick(gpus=(2, 64))
def hangs(job: Draft) -> None:
    """A rank has died or left the order of collectives: all others spin until the time limit ends the job."""
    recipe, share = RECIPES["dense_llm"], job.uniform(0.15, 0.7)
    job.start()
    job.run(recipe, seconds=(1 - share) * job.seconds)
    block = Block(job.n_gpus, 1)
    block.do(job.spin(), share * job.seconds, lost=True)
    job.blocks.append(block)
    job.exit = ("timeout", 143)
    job.plant("hang")
    job.allowed |= {"communication_bound", "low_power", "tear_down", "early_end"}


def exposed(job: Draft, recipe: Recipe, phase: Phase) -> None:
    """Run a recipe with a large part of the time in collectives that transfer, and plant that."""
    blind = job.view in ("nvml", "amd")
    share = job.uniform(0.6, 0.82) if blind else job.share(0.18, 0.65)
    job.start()
    job.run(recipe, comm=(1 - recipe.comm) * share / (1 - share), comm_phase=phase, comm_lost=True)
    job.finish()
    job.plant("communication_bound", *(("low_power", "recurring_dips") if blind else ()))
    if job.view in ("exporter", "imported"):
        job.planted[0] |= {"little_arithmetic", "low_use", "transfer_bound"}
    job.allowed |= WAITS


@sick(gpus=(2, 8), nodes=(1, 1), views=("full", "gpm", "nvml"), model=H100)
def collectives_over_nvlink(job: Draft) -> None:
    """Tensor parallelism with small layers: all-reduces of each layer are not overlapped, NVLink is busy. NVML shows
    GPUs that are busy at little power."""
    exposed(job, training(job)._replace(hot=False), job.transfer(job.uniform(0.6, 1.0)))


@sick(gpus=(2, 8), nodes=(1, 1), views=("full", "exporter", "nvml"), model=L40S)
def collectives_over_pcie(job: Draft) -> None:
    """Data parallelism on GPUs without NVLink: gradients go over PCIe at 10-16 GB/s."""
    exposed(job, RECIPES[str(job.rng.choice(["speech", "fine_tuning", "vision"]))], job.transfer(job.uniform(0.6, 1.0)))


@sick(gpus=(8, 64), nodes=(2, 16), views=("full", "gpm", "exporter", "nvml", "amd"))
def collectives_over_infiniband(job: Draft) -> None:
    """Sharded training across nodes, bound by the fabric, which the nodes' counters show."""
    exposed(job, training(job), job.transfer(job.uniform(0.5, 1.0)))


@sick(gpus=(4, 64), nodes=(2, 16), views=("full", "gpm", "exporter"), model=A100)
def collectives_over_ethernet(job: Draft) -> None:
    """No InfiniBand was found, so NCCL uses sockets: 1-3 GB/s a node, through the host's memory. The GPUs' links look
    quiet at so little, and that the network is busy may be read as input as well."""
    per_node = job.n_gpus / job.n_nodes
    rate = job.uniform(1.0, 3.0) * 1e9
    phase = job.transfer()._replace(nvlink=rate, pcie_rx=rate / per_node, pcie_tx=rate / per_node, fabric_rx=0.0,
                                    fabric_tx=0.0, net_rx=rate / per_node, net_tx=rate / per_node, dram=0.02)  # fmt: skip
    exposed(job, training(job), phase)


@sick(gpus=(4, 32), nodes=(2, 4), views=("full", "exporter", "nvml"), model=H100)
def two_models_of_gpus(job: Draft) -> None:
    """Half of the nodes have A100s, half H100s: each H100 waits for the A100s, which take twice as long for the same
    share."""
    recipe = RECIPES[str(job.rng.choice(["dense_llm", "speech"]))]._replace(hot=False)
    slow = job.node_of >= job.n_nodes // 2
    job.models = [A100 if is_slow else H100 for is_slow in slow]
    job.start()
    job.run(recipe, load=np.where(slow, job.uniform(1.8, 2.3), 1.0)[:, None], waits_lost=True)
    job.finish()
    late(job, recipe, "slow_node", "straggler", "imbalance")
    job.allowed |= LATE


@sick(gpus=(4, 32), views=("full", "gpm"))
def experts_are_uneven(job: Draft) -> None:
    """Mixture of experts without a balancing loss: a few GPUs have the popular experts, others wait, and the all-to-alls are
    long as well. Two causes: uneven load, and communication."""
    recipe = RECIPES["moe_llm"]
    popular = job.rng.uniform(0.55, 1.0, (job.n_gpus, 1))
    popular[job.gpu()] = 1.1
    job.start()
    job.run(recipe, load=popular, comm=job.uniform(0.25, 0.5), comm_lost=False, waits_lost=True)
    job.finish()
    job.plant("imbalance", "straggler", "slow_node")
    job.plant("communication_bound")
    job.allowed |= LATE


@sick(gpus=(2, 64), views=VIEWS)
def blocked_by_a_slow_reader(job: Draft) -> None:
    """A simulation reads boundary data on one rank every few steps; the others poll in MPI, without kernels, meanwhile."""
    recipe, share = RECIPES[str(job.rng.choice(["cfd", "climate"]))], job.share(0.1, 0.5)
    step = job.step_seconds(recipe)
    length = max(job.log_uniform(2, 20), 3 * job.interval)
    waits = job.now_and_then(step, length, length * (1 - share) / share)
    reader = reading("disk", 6e8)
    job.start()
    first = Insert(reader, waits * job.column([0], 1.0))
    beside = (job.node_of == job.node_of[0])[:, None] * job.column([0], 0.0, 1.0)
    neighbours = Insert(HELD_UP._replace(leaf="idle.input_output"), waits * beside)
    others = Insert(HELD_UP._replace(leaf="idle.host"), waits * (job.node_of != job.node_of[0])[:, None])
    job.run(recipe, [first, neighbours, others], step)
    job.finish()
    job.knows_cost = False
    job.plant("io_wait", *(STALLS | GAPS if not job.knows_host else ()), "cpu_starved")
    job.allowed |= LATE | {"recurring_dips", "pauses", "io_wait", "cpu_starved"}


@sick(gpus=(4, 16), views=("full", "gpm", "exporter", "nvml", "amd"))
def a_server_and_its_clients(job: Draft) -> None:
    """Federated rounds: clients train on GPUs of their own and stop until the slowest has sent its model, without
    kernels."""
    recipe = RECIPES["embedding"]._replace(step=(20.0, 120.0), hot=False, memory=(0.2, 0.6))
    part = tensor_work(0.4, 0.4, 0.8, engine=0.96)
    recipe = recipe._replace(parts=((part, 1.0),), meet="block")
    step = max(job.step_seconds(recipe), 6 * job.interval)
    spread = job.uniform(0.15, 0.4)
    job.start()
    job.run(recipe, step=step, load=np.exp(job.rng.normal(0, spread, (job.n_gpus, job.n_steps(step)))), waits_lost=True)
    job.finish()
    job.plant("imbalance", "rotating_stragglers", "straggler", "taking_turns")
    job.allowed |= TURNS | {"recurring_dips", "pauses"}
