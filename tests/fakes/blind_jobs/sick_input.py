"""Jobs that wait for files, copies or the host."""

import numpy as np

from tests.fakes.blind_jobs.draft import GAPS, LATE, STALLS, Draft, Insert, Recipe
from tests.fakes.blind_jobs.healthy import RECIPES
from tests.fakes.blind_jobs.kinds import sick
from tests.fakes.blind_jobs.phases import HELD_UP, ON_ONE_CORE, Phase, memory_work, reading, tensor_work, writing

SOURCES = ("disk", "network", "fabric")
PROFILED = ("full", "exporter", "imported", "gpm")
UNWATCHED = STALLS | GAPS
"""True of a pause whose cause the view does not record."""


def training(job: Draft) -> Recipe:
    """Draw a program that trains."""
    return RECIPES[str(job.rng.choice(["vision", "speech", "dense_llm", "fine_tuning", "protein_folding"]))]


def simulation(job: Draft) -> Recipe:
    """Draw a program that simulates."""
    return RECIPES[str(job.rng.choice(["cfd", "climate", "stencil", "lattice_qcd", "particle_in_cell"]))]


def source(job: Draft) -> str:
    """Draw where files come from: GPUs' nodes without InfiniBand read over the network."""
    return str(job.rng.choice(SOURCES))


def stalls(job: Draft, own: str, seconds: float) -> None:
    """Plant waits of this length with the code ``own``, if the view has what tells them from others: samples as long as the
    waits average them with the work around, and without rows of the nodes a pause is a pause."""
    if not job.knows_host:
        job.plant(own, UNWATCHED)
    elif not job.resolves(seconds):
        job.plant(own, GAPS, "unexplained")
    else:
        job.plant(own)


@sick()
def files_every_step(job: Draft) -> None:
    """Each step waits for its batch: the loader's reads take longer than the step. Where steps are shorter than samples the
    GPUs are merely partly active, and the reads are as steady as the work."""
    recipe, share = training(job), job.share()
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    waits = wait * np.exp(job.rng.normal(0, 0.25, (1, job.n_steps(step))))
    job.start()
    job.run(recipe, [Insert(reading(source(job), job.log_uniform(2.5e8, 2e9)), waits)], step)
    job.finish()
    stalls(job, "io_wait", wait)


@sick()
def files_now_and_then(job: Draft) -> None:
    """A shared filesystem is slow at times: waits of seconds to half a minute, at no rhythm, all ranks at once."""
    recipe, share = training(job), job.share(0.08, 0.45)
    step = job.step_seconds(recipe)
    length = job.log_uniform(4, 30) * max(1, job.interval / 5)
    waits = job.now_and_then(step, length, length * (1 - share) / share, 1.0)
    job.start()
    job.run(recipe, [Insert(reading(source(job), job.log_uniform(2e8, 1.5e9)), waits)], step)
    job.finish()
    stalls(job, "io_wait", length)


@sick(gpus=(2, 64), views=("full", "gpm", "exporter"))
def files_of_one_rank(job: Draft) -> None:
    """One rank's part of the data is far away: it waits for files in every step, the others wait for it in collectives. The
    expert says who is late; that it is for files is right as well."""
    recipe, share = training(job), job.share(0.1, 0.5)
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share) * np.exp(job.rng.normal(0, 0.15, (1, job.n_steps(step))))
    rows = job.column([job.gpu()], 1.0)
    job.start()
    job.run(recipe, [Insert(reading(source(job), 8e8), wait * rows)], step, waits_lost=True)
    job.finish()
    job.knows_cost = False
    job.plant("straggler", "io_wait", "slow_node" if job.n_gpus == job.n_nodes else "straggler")
    if job.view == "exporter":
        job.planted[0] |= {"imbalance", "communication_bound"}
    job.allowed |= LATE


@sick(gpus=(4, 64), nodes=(2, 16), views=("full", "gpm", "exporter"))
def files_of_one_node(job: Draft) -> None:
    """One node's disk is broken or its cache cold: its ranks are late together."""
    recipe, share = training(job), job.share(0.1, 0.5)
    step = job.step_seconds(recipe)
    node = int(job.rng.integers(job.n_nodes))
    wait = step * share / (1 - share) * np.exp(job.rng.normal(0, 0.15, (1, job.n_steps(step))))
    rows = job.column(np.flatnonzero(job.node_of == node), 1.0)
    job.start()
    job.run(recipe, [Insert(reading("disk", 3e8), wait * rows)], step, waits_lost=True)
    job.finish()
    job.knows_cost = False
    job.plant("slow_node", "straggler", "imbalance", "io_wait")
    if job.view == "exporter":
        job.planted[0] |= {"communication_bound"}


@sick()
def many_small_files(job: Draft) -> None:
    """A million small files: each open costs a round trip to the metadata server, so little is read, a few MB/s. Only
    the low rates hint at files: a pause without a reason is what the samples show."""
    recipe, share = training(job), job.share()
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    waits = wait * np.exp(job.rng.normal(0, 0.4, (1, job.n_steps(step))))
    job.start()
    job.run(recipe, [Insert(reading("network", job.log_uniform(4e6, 3e7), 0.2), waits)], step)
    job.finish()
    job.plant("io_wait", UNWATCHED)


@sick()
def epochs_begin_with_reading(job: Draft) -> None:
    """At each epoch workers are started anew and the first batches are read: half a minute to minutes without work."""
    recipe, share = training(job), job.share(0.08, 0.4)
    step = job.step_seconds(recipe)
    length = max(share * job.seconds / job.uniform(3, 8), 3 * job.interval)
    waits = job.now_and_then(step, length, length * (1 - share) / share)
    job.start()
    job.run(recipe, [Insert(reading(source(job), job.log_uniform(3e8, 3e9), 2.5), waits)], step)
    job.finish()
    stalls(job, "io_wait", length)


@sick()
def frequent_checkpoints(job: Draft) -> None:
    """The state is written every few minutes, and training waits: a rhythm of writes."""
    recipe, share = training(job), job.share(0.08, 0.4)
    step = job.step_seconds(recipe)
    length = max(job.log_uniform(5, 60), 3 * job.interval)
    waits = job.now_and_then(step, length, length * (1 - share) / share)
    job.start()
    job.run(recipe, [Insert(writing(source(job), job.log_uniform(3e8, 2e9)), waits, "end")], step)
    job.finish()
    stalls(job, "io_wait", length)
    job.allowed.add("recurring_dips")


@sick(gpus=(2, 64), views=("full", "gpm", "exporter", "nvml", "amd"))
def one_rank_writes(job: Draft) -> None:
    """Rank 0 gathers and writes the state, the others spin in the next barrier. An expert names the writing, or the rank the
    others wait for; NVML shows others that are busy at little power."""
    recipe, share = training(job), job.share(0.12, 0.5)
    step = job.step_seconds(recipe)
    length = max(job.log_uniform(8, 90), 3 * job.interval)
    waits = job.now_and_then(step, length, length * (1 - share) / share)
    job.start()
    save = Insert(writing(source(job), job.log_uniform(3e8, 2e9)), waits * job.column([0], 1.0))
    job.run(recipe, [save], step, waits_lost=True)
    job.finish()
    job.knows_cost = False
    job.plant("io_wait", "straggler", "imbalance", "slow_node" if job.n_gpus == job.n_nodes else "io_wait")
    if not job.counts_kernels:
        job.planted[0] |= {"communication_bound", "low_power", "pauses", "recurring_dips"}
    job.allowed |= LATE | {"recurring_dips", "communication_bound"}


@sick()
def snapshots(job: Draft) -> None:
    """A simulation writes fields for later pictures every so many steps, and stands still meanwhile."""
    recipe, share = simulation(job), job.share(0.08, 0.6)
    step = job.step_seconds(recipe)
    length = job.log_uniform(0.8, 20)
    waits = job.now_and_then(step, length, length * (1 - share) / share)
    job.start()
    job.run(recipe, [Insert(writing(source(job), job.log_uniform(2e8, 3e9)), waits, "end")], step)
    job.finish()
    stalls(job, "io_wait", length)
    job.allowed.add("recurring_dips")


def copies(job: Draft, seconds: float) -> None:
    """Plant copies between host and GPU: drivers alone do not count them, and there the busy core is true."""
    if job.view not in PROFILED:
        job.plant("transfer_bound", "cpu_starved", UNWATCHED)
    elif not job.resolves(seconds, False):
        job.plant("transfer_bound", GAPS)
    else:
        job.plant("transfer_bound")


@sick()
def pageable_copies(job: Draft) -> None:
    """Batches lie in pageable memory: a copy at 3-7 GB/s by one busy core, and the step begins only then."""
    recipe, share = training(job), job.share()
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    job.start()
    copy = Phase("idle.copies", pcie_rx=job.uniform(3e9, 7e9), cores=1.0)
    job.run(recipe, [Insert(copy, wait)], step)
    job.finish()
    copies(job, wait)


@sick()
def results_copied_back(job: Draft) -> None:
    """All fields are copied to the host after every few steps and analysed there: long copies at 10-20 GB/s."""
    recipe, share = simulation(job), job.share(0.08, 0.5)
    step = job.step_seconds(recipe)
    length = job.log_uniform(0.3, 6)
    waits = job.now_and_then(step, length, length * (1 - share) / share)
    job.start()
    job.run(recipe, [Insert(Phase("idle.copies", pcie_tx=job.uniform(8e9, 19e9), cores=1.0), waits, "end")], step)
    job.finish()
    copies(job, length)


@sick(views=("full", "gpm", "exporter"))
def optimizer_on_the_host(job: Draft) -> None:
    """An optimizer offloaded to the host: gradients over PCIe, Adam on all cores, parameters back. Two causes: the
    copies and the cores."""
    recipe, share = RECIPES["fine_tuning"], job.share(0.2, 0.6)
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    cores = job.model.cores / (job.n_gpus / job.n_nodes)
    job.fills_node = True
    job.start()
    inserts = [
        Insert(Phase("idle.copies", pcie_tx=job.uniform(8e9, 18e9), cores=1.0), 0.25 * wait, "end"),
        Insert(Phase("idle.host", cores=0.97 * cores), 0.5 * wait, "end", lost=False),
        Insert(Phase("idle.copies", pcie_rx=job.uniform(8e9, 18e9), cores=1.0), 0.25 * wait, "end"),
    ]
    job.run(recipe, inserts, step)
    job.finish()
    for own, length in (("transfer_bound", 0.25 * wait), ("cpu_starved", 0.5 * wait)):
        job.plant(own, *(() if job.resolves(length) else (GAPS, "transfer_bound", "cpu_starved", "unexplained")))


@sick(gpus=(4, 64), nodes=(2, 16), views=("full", "gpm", "exporter"))
def halos_through_the_host(job: Draft) -> None:
    """MPI is not aware of GPUs: halos are copied to the host, sent, and copied back, in every step, without any kernel.
    It is right to speak of copies, of communication, and, as steps are short, of gaps."""
    recipe, share = RECIPES["cfd"], job.share(0.15, 0.6)
    step = job.step_seconds(recipe)
    copy = Phase("idle.copies", pcie_tx=5e9, pcie_rx=5e9, fabric_rx=3e9, fabric_tx=3e9, cores=1.0)
    job.start()
    job.run(recipe, [Insert(copy, step * share / (1 - share), "end")], step)
    job.finish()
    job.plant("transfer_bound", "communication_bound", "io_wait", GAPS)


def host(job: Draft, seconds: float, visible: bool = True) -> None:
    """Plant a busy host; where its cores are not seen to be saturated, pauses and gaps are what there is to see."""
    if job.knows_host and visible:
        job.plant("cpu_starved", *(() if job.resolves(seconds) else (GAPS, "unexplained")))
    else:
        job.plant("cpu_starved", UNWATCHED)


@sick()
def one_core_prepares(job: Draft) -> None:
    """The main process tokenizes or collates each batch on one core, and the GPU waits."""
    recipe, share = training(job), job.share()
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE._replace(cores=1.02), wait)], step)
    job.finish()
    host(job, wait)


@sick()
def few_cores_prepare(job: Draft) -> None:
    """The job was given 3-8 cores for each GPU and its workers use them up, also while the GPU works; the node has more.
    Only who knows the cgroup sees that they are all: pauses are right as well."""
    recipe, share = RECIPES["vision"], job.share()
    step = job.step_seconds(recipe)
    wait, cores = step * share / (1 - share), float(job.rng.integers(3, 9))
    job.bound_to = cores
    recipe = recipe._replace(parts=((recipe.parts[0][0]._replace(cores=cores, net_rx=3e7), 1.0),))
    job.start()
    job.run(recipe, [Insert(Phase("idle.host", cores=cores, net_rx=3e7), wait)], step)
    job.finish()
    host(job, wait, visible=False)


@sick()
def all_cores_prepare(job: Draft) -> None:
    """Decoding and augmenting of images keeps all the node's cores busy, all the time, and still is too slow."""
    recipe, share = RECIPES["vision"], job.share()
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    cores = 0.975 * job.model.cores / (job.n_gpus / job.n_nodes)
    job.fills_node = True
    recipe = recipe._replace(parts=((recipe.parts[0][0]._replace(cores=cores, net_rx=5e7), 1.0),))
    job.start()
    job.run(recipe, [Insert(Phase("idle.host", cores=cores, net_rx=5e7), wait)], step)
    job.finish()
    host(job, wait)


@sick()
def mostly_on_the_cpu(job: Draft) -> None:
    """A code of which a solver alone was ported: half or more of each step runs on the node's cores, with OpenMP."""
    share = job.uniform(0.35, 0.8)
    part = memory_work(0.5, 0.5, engine=0.93, fp64=0.1)
    recipe = Recipe("", ((part, 1.0),), (0.3, 6), 0.0, "block", (0.05, 0.4), 0.01)
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    cores = job.uniform(0.93, 0.99) * job.model.cores / (job.n_gpus / job.n_nodes)
    job.fills_node = True
    job.start()
    job.run(recipe, [Insert(Phase("idle.host", cores=cores), wait)], step)
    job.finish()
    host(job, wait)


@sick()
def collects_garbage(job: Draft) -> None:
    """Python collects garbage or writes logs at no rhythm: seconds on one core."""
    recipe, share = training(job), job.share(0.08, 0.3)
    step = job.step_seconds(recipe)
    length = job.log_uniform(3, 15) * max(1, job.interval / 4)
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE, job.now_and_then(step, length, length * (1 - share) / share, 1.0))], step)
    job.finish()
    host(job, length)


@sick()
def evaluates_on_one_core(job: Draft) -> None:
    """Metrics of a validation are computed on one core, in a rhythm, for half a minute and more."""
    recipe, share = training(job), job.share(0.08, 0.4)
    step = job.step_seconds(recipe)
    length = max(job.log_uniform(10, 120), 3 * job.interval)
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE, job.now_and_then(step, length, length * (1 - share) / share))], step)
    job.finish()
    host(job, length)
    job.allowed.add("recurring_dips")


@sick(gpus=(1, 8))
def steps_an_environment(job: Draft) -> None:
    """Reinforcement learning whose environment is stepped by one Python process for tens of ms, then a small network is
    asked: the GPU is active now and then, its kernels small. Gaps, a busy core and little use are all true."""
    share = job.uniform(0.4, 0.85)
    part = tensor_work(0.05, 0.12, 0.25, engine=0.8, sm=0.4, occupancy=0.1)._replace(leaf="working.few_sms")
    recipe = Recipe("", ((part, 1.0),), (0.01, 0.06), 0.0, "", (0.03, 0.2), 0.2)
    step = job.step_seconds(recipe)
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE, step * share / (1 - share))], step)
    job.finish()
    job.plant("cpu_starved", "low_use", GAPS, "unexplained")
    job.allowed |= {"small_kernels", "low_power"}


@sick(gpus=(2, 16), views=("full", "gpm", "exporter"))
def files_and_one_late_rank(job: Draft) -> None:
    """Two causes: all ranks wait for files now and then, and one has more to do than the others (20 % of the time is lost to
    that)."""
    recipe, share = training(job), job.share(0.12, 0.35)
    step = job.step_seconds(recipe)
    length = max(job.log_uniform(4, 20), 3 * job.interval)
    waits = job.now_and_then(step, length, length * (1 - share) / share, 0.6)
    load = job.column([job.gpu()], 1.35, 1.0)
    job.start()
    job.run(recipe, [Insert(reading(source(job), 8e8), waits)], step, load=load)
    job.finish()
    stalls(job, "io_wait", length)
    more = frozenset({"communication_bound"}) if not job.counts_kernels else frozenset()
    job.plant("straggler", "imbalance", more, "slow_node" if job.n_gpus == job.n_nodes else "straggler")


@sick(gpus=(2, 8), views=("full", "gpm", "exporter", "nvml"))
def held_up_by_one_core(job: Draft) -> None:
    """In an MPI code the root rank computes a global part on one core while the others poll in MPI without kernels: it is a
    busy core on the root, and idle time of the others that none of them could use."""
    recipe, share = RECIPES["climate"], job.share(0.1, 0.5)
    step = job.step_seconds(recipe)
    wait = step * share / (1 - share)
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE, wait * job.column([0], 1.0)),
                     Insert(HELD_UP._replace(leaf="idle.host"), wait * job.column([0], 0.0, 1.0))], step)  # fmt: skip
    job.finish()
    job.knows_cost = False
    host(job, wait)
    job.planted[0] |= {"imbalance", "straggler"}
