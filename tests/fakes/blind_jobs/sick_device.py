"""Jobs whose kernels are too few, too small or too slow, and jobs that fail, wait or begin again."""

import numpy as np

from gssr.arrays import Floats
from tests.fakes.blind_jobs.draft import (
    BRAKE,
    GAPS,
    HARDWARE,
    HW_THERMAL,
    LATE,
    POWER_CAP,
    SETTING,
    STALLS,
    SW_THERMAL,
    TURNS,
    Draft,
    Insert,
    Recipe,
)
from tests.fakes.blind_jobs.hardware import H100
from tests.fakes.blind_jobs.healthy import RECIPES
from tests.fakes.blind_jobs.kinds import sick
from tests.fakes.blind_jobs.phases import (
    AFTER,
    BEFORE,
    ON_ONE_CORE,
    PAUSE,
    Phase,
    memory_work,
    other_work,
    reading,
    tensor_work,
)
from tests.fakes.blind_jobs.schedule import Block
from tests.fakes.blind_jobs.sick_input import training
from tests.fakes.blind_jobs.sick_parallel import any_program

DRIVER = ("nvml", "amd")


@sick(gpus=(1, 16))
def kernels_shorter_than_launches(job: Draft) -> None:
    """Kernels of some microseconds, each launched by Python: 20-75 % of the time lies between kernels, a core is busy with
    launching, and what runs is small. Gaps, little use and the busy core all name it."""
    engine = job.uniform(0.25, 0.78)
    part = memory_work(0.3, 0.35, engine=engine, sm=0.62, occupancy=0.3, tensor=0.08, fp32=0.08, cores=1.0)
    recipe = Recipe("", ((part._replace(leaf="working.other"), 1.0),), (0.05, 0.5), 0.02, "spin", (0.1, 0.6))
    job.start()
    job.run(recipe)
    job.finish()
    job.extra_leaf = "idle.between_kernels"
    job.plant(GAPS, "cpu_starved", *(("unexplained", "low_power") if job.view in DRIVER else ()))
    job.allowed |= {"small_kernels", "low_power", "unexplained"}


@sick(gpus=(1, 16))
def waits_for_each_result(job: Draft) -> None:
    """``.item()`` in a loop: the queue of kernels runs dry some hundred times a second, 20-55 % of the time."""
    engine = job.uniform(0.45, 0.78)
    part = tensor_work(0.42, 0.4, 0.85, engine=engine, cores=1.0, pcie_tx=2e6)
    recipe = Recipe("", ((part, 1.0),), (0.1, 1.0), 0.02, "spin", (0.2, 0.8))
    job.start()
    job.run(recipe)
    job.finish()
    job.extra_leaf = "idle.between_kernels"
    job.plant(GAPS, "cpu_starved", *(("unexplained",) if job.view in DRIVER else ()))
    job.allowed |= {"low_power", "unexplained"}


@sick(gpus=(1, 4))
def decodes_one_request(job: Draft) -> None:
    """Generation for one request without graphs of kernels: weights are streamed for each token, and the host's launching
    leaves 30-60 % of the time between."""
    part = memory_work(0.6, 0.5, engine=job.uniform(0.4, 0.7), tensor=0.02, occupancy=0.18, cores=1.0)
    recipe = Recipe("", ((part, 1.0),), (0.5, 4.0), 0.0, "", (0.2, 0.8), 0.02)
    job.start()
    job.run(recipe)
    job.finish()
    job.extra_leaf = "idle.between_kernels"
    job.plant(GAPS, "cpu_starved", *(("unexplained",) if job.view in DRIVER else ()))
    job.allowed |= {"low_power", "unexplained"}


@sick(gpus=(1, 8), views=("full", "gpm", "exporter", "nvml", "amd"))
def kernels_of_few_blocks(job: Draft) -> None:
    """Kernels run all the time, with 8-40 blocks on a GPU of more than a hundred SMs. Without SM counters power and idle
    memory are what tells."""
    sm = job.uniform(0.05, 0.33)
    part = other_work(0.25 * sm, 0.15 * sm, 0.06 + 0.45 * sm, engine=0.97, sm=sm, occupancy=0.3 * sm, integer=0.15 * sm)
    recipe = Recipe("", ((part._replace(leaf="working.few_sms"), 1.0),), (0.5, 5.0), 0.0, "", (0.02, 0.3))
    job.start()
    job.run(recipe)
    job.finish()
    job.extra_leaf = "working.few_sms"
    job.plant("small_kernels", *(() if job.counts_kernels else ("low_power", "little_arithmetic", "low_use")))
    job.allowed |= {"low_occupancy", "low_use", "low_power", "little_arithmetic"}


@sick(gpus=(1, 8), views=("full", "gpm", "nvml"))
def blocks_of_few_warps(job: Draft) -> None:
    """All SMs have a block, but each of one or two warps that wait for memory and each other: occupancy 3-6 %, no pipe is
    busy."""
    part = other_work(0.05, 0.08, 0.26, engine=0.98, sm=0.95, occupancy=job.uniform(0.025, 0.06), integer=0.04)
    recipe = Recipe("", ((part._replace(leaf="working.few_sms"), 1.0),), (0.5, 5.0), 0.0, "", (0.05, 0.5))
    job.start()
    job.run(recipe)
    job.finish()
    job.extra_leaf = "working.few_sms"
    job.plant("low_occupancy", *(("low_power",) if job.view == "nvml" else ()))
    job.allowed |= {"small_kernels", "little_arithmetic", "low_power"}


@sick(views=("full", "gpm"), gpus=(1, 32))
def trains_in_single_precision(job: Draft) -> None:
    """Training in FP32 without TF32: the FP32 pipes are busy and tensor cores are not. What that costs nobody knows from
    samples."""
    part = other_work(0.62, 0.35, 0.88, engine=0.985, sm=0.93, occupancy=0.25, integer=0.08)
    job.start()
    job.run(Recipe("", ((part, 1.0),), (0.5, 5.0), 0.03, "spin", (0.4, 0.9)))
    job.finish()
    job.costs_time = False
    job.plant("tensor_unused")


def slow_clocks(job: Draft, recipe: Recipe, clock: Floats, reasons: int) -> None:
    """Run a recipe at these clocks, float64[GPU, 1 or step]."""
    job.start()
    waits = bool(clock.min() < 0.95 < clock.max())
    job.run(recipe._replace(hot=False), clock=clock, reasons=reasons, step=job.step_seconds(recipe), waits_lost=waits)
    job.finish()
    job.extra_leaf = "working.slowed"


def lower(job: Draft) -> float:
    """Draw a clock, as a share of the usual one."""
    return job.uniform(0.45, 0.85)


@sick(views=("full", "gpm", "nvml", "exporter"))
def all_gpus_too_hot(job: Draft) -> None:
    """The room or the node is hot: GPUs near their limit lower their clocks. An exporter tells no reasons: clock and
    heat."""
    slow_clocks(job, any_program(job), job.column(range(job.n_gpus), lower(job)) + 0.0, SW_THERMAL)
    job.hotter[:] = 1
    job.plant("throttled_thermal", "slow_clock", *(("power_capped",) if job.view == "exporter" else ()))
    job.allowed |= {"slow_down", "throttled_hardware"}


@sick(gpus=(2, 64), views=("full", "gpm", "nvml", "exporter"))
def one_gpu_too_hot(job: Draft) -> None:
    """One GPU's cooling has failed: its clock falls, all others wait for it."""
    one = job.gpu()
    slow_clocks(
        job, any_program(job), job.column([one], job.uniform(0.4, 0.75), 1.0), SW_THERMAL | HARDWARE | HW_THERMAL
    )
    job.hotter[one] = 1
    job.knows_cost = False
    job.plant("throttled_thermal", "throttled_hardware", "slow_clock", "straggler", "slow_node")
    job.allowed |= LATE | {"communication_bound", "slow_down"} | GAPS


@sick(gpus=(2, 64), views=("full", "gpm", "nvml"))
def a_node_is_braked(job: Draft) -> None:
    """A power supply of a node has failed: the brake halves the clocks of all its GPUs."""
    node = int(job.rng.integers(job.n_nodes))
    which = np.flatnonzero(job.node_of == node)
    slow_clocks(job, any_program(job), job.column(which, job.uniform(0.35, 0.6), 1.0), HARDWARE | BRAKE)
    job.knows_cost = False
    job.plant("throttled_power_brake", "throttled_hardware", "slow_clock", "slow_node")
    job.allowed |= LATE | {"communication_bound"} | GAPS


@sick(views=("full", "gpm", "nvml", "exporter"), model=H100)
def a_low_power_limit(job: Draft) -> None:
    """The operator limits GPUs of 700 W to 350-450 W: a program that would use all runs at 55-80 % of the clock."""
    recipe = RECIPES["dense_llm"]
    clock = job.uniform(0.55, 0.8)
    job.models = [job.model._replace(power_limit=round(250 + 260 * clock))] * job.n_gpus
    slow_clocks(job, recipe, job.column(range(job.n_gpus), clock), POWER_CAP)
    job.plant("power_capped", "slow_clock")
    job.allowed.add("throttled_power_brake")


@sick()
def a_low_fixed_clock(job: Draft) -> None:
    """Somebody fixed the application clock for an experiment and did not undo it. AMD and exporters tell no reason."""
    slow_clocks(job, any_program(job), job.column(range(job.n_gpus), lower(job)), SETTING)
    job.plant("slow_clock", *(("power_capped",) if job.view in ("amd", "exporter", "imported") else ()))


@sick(views=("full", "gpm", "nvml", "exporter"))
def gets_hotter_and_slower(job: Draft) -> None:
    """Clocks go down for the whole run, to 50-70 %, as the cooling water warms up."""
    recipe = any_program(job)
    step = job.step_seconds(recipe)
    clock = np.linspace(1.0, job.uniform(0.45, 0.65), job.n_steps(step))[None, :] ** 1.3
    job.start()
    job.run(recipe._replace(hot=False), step=step, clock=clock, reasons=SW_THERMAL)
    job.finish()
    job.hotter[:] = 1
    job.extra_leaf = "working.slowed"
    job.plant("throttled_thermal", "slow_down", "slow_clock", *(("power_capped",) if job.view == "exporter" else ()))


@sick()
def pauses_that_grow(job: Draft) -> None:
    """A list that is searched in each step gets longer: the pauses on one core grow from nothing to most of a step."""
    recipe, share = training(job), job.share(0.12, 0.45)
    step = job.step_seconds(recipe)
    pauses = 2 * step * share / (1 - share) * np.linspace(0, 1, job.n_steps(step))[None, :]
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE, pauses)], step)
    job.finish()
    job.plant("cpu_starved", "slow_down", GAPS, "unexplained", *(() if job.knows_host else STALLS))


@sick()
def memory_is_full(job: Draft) -> None:
    """The allocator finds no block, frees its cache and asks the driver anew, in many steps: waits of a tenth of a second to
    seconds with one core in the driver, at 97-99 % of the memory. The waits themselves may be named as well."""
    recipe, share = training(job), job.share(0.08, 0.35)
    step = job.step_seconds(recipe)
    length = job.log_uniform(0.15, 2.0)
    waits = job.now_and_then(step, length, length * (1 - share) / share, 1.0)
    job.start()
    job.run(recipe, [Insert(ON_ONE_CORE, waits, "middle")], step)
    job.finish()
    job.memory[:] = job.rng.uniform(0.972, 0.993, job.n_gpus)
    job.plant("memory_full", "memory_peak", "cpu_starved", STALLS, GAPS)


@sick()
def fails_and_begins_again(job: Draft) -> None:
    """The job runs out of memory and is begun anew by its script, again and again: memory climbs, work stops, Python imports
    on one core, and the state is loaded from files."""
    recipe = RECIPES["fine_tuning"]._replace(meet="", comm=0.0)
    rounds = int(job.rng.integers(3, 7))
    share = job.share(0.12, 0.5)
    per_round = job.seconds / rounds
    job.start()
    for number in range(rounds):
        for level in (0.7, 0.8, 0.9, 1.0):
            part = recipe.parts[0][0]._replace(memory=level)
            job.run(recipe._replace(parts=((part, 1.0),)), seconds=(1 - share) * per_round / 4)
        if number < rounds - 1:
            block = Block(job.n_gpus, 1)
            vary = job.uniform(0.8, 1.2) * share * per_round
            block.do(PAUSE._replace(memory=0.0, cores=0.1), 0.15 * vary, lost=True)
            block.do(BEFORE._replace(leaf="idle.host", cores=1.0), 0.35 * vary, lost=True)
            block.do(reading("network", 9e8)._replace(memory=0.4, pcie_rx=5e8), 0.5 * vary, lost=True)
            job.blocks.append(block)
    job.memory[:] = 0.985
    job.knows_cost = False
    job.exit = ("failed", 1)
    job.plant("memory_full", "memory_peak", "io_wait", "cpu_starved", STALLS)
    job.allowed |= {"recurring_dips", "pauses", "unexplained", "low_use"}


@sick(gpus=(2, 32), views=("full", "gpm", "nvml"))
def an_error_stops_a_rank(job: Draft) -> None:
    """The driver reports an error of one GPU, its rank dies, and the others spin until their watchdog ends the job."""
    recipe, share = RECIPES["dense_llm"], job.uniform(0.1, 0.4)
    one = job.gpu()
    job.run(recipe, seconds=(1 - share) * job.seconds)
    block = Block(job.n_gpus, 1)
    block.do(job.spin(), job.column([one], 0.0, share * job.seconds), lost=True)
    block.do(Phase("idle.imbalance", cores=0.0, memory=0.0), job.column([one], share * job.seconds), lost=True)
    job.blocks.append(block)
    code, what = [(48, "uncorrectable memory error"), (74, "NVLink error"), (94, "contained memory error"),
                  (31, "a kernel accessed memory that is not there")][int(job.rng.integers(4))]  # fmt: skip
    job.events.append((-share * job.seconds, "xid", f"XID {code}: {what}", one))
    job.exit, job.knows_cost = ("failed", 134), False
    job.plant("gpu_errors")
    job.plant("hang", "early_end", "communication_bound", "straggler", "imbalance")
    job.allowed |= LATE | {"low_power", "tear_down", "early_end", "hang"}


@sick(gpus=(2, 32), views=("full", "gpm", "nvml", "amd"))
def a_gpu_is_lost(job: Draft) -> None:
    """A GPU falls off the bus: it has no more samples, and the others spin to the end."""
    recipe, share = RECIPES["dense_llm"], job.uniform(0.1, 0.5)
    one = job.gpu()
    job.start()
    job.run(recipe, seconds=(1 - share) * job.seconds)
    block = Block(job.n_gpus, 1)
    block.do(job.spin(), share * job.seconds, lost=True)
    job.blocks.append(block)
    job.gaps.append((one, -share * job.seconds, 1.0))
    if job.view != "amd":
        job.events.append((-share * job.seconds, "xid", "XID 79: the GPU has fallen off the bus", one))
    job.events.append((-share * job.seconds + 0.7, "gpu_lost", "no longer answers: GPU is lost", one))
    job.exit, job.knows_cost = ("failed", 1), False
    job.plant("gpu_lost", *(() if job.view == "amd" else ("gpu_errors",)))
    job.plant("hang", "communication_bound", *(("low_power",) if not job.counts_kernels else ()))
    job.allowed |= {"low_power", "early_end", "tear_down", "gpu_errors"} | LATE


@sick()
def takes_long_to_begin(job: Draft) -> None:
    """Containers, imports and compilation take as long as much of the run: nothing of it is a warning by itself."""
    job.start(job.share(0.1, 0.5) * job.seconds)
    job.run(any_program(job))
    job.finish()
    job.extra_leaf = "startup"
    job.plant("start_up")


@sick()
def ends_long_before_it_ends(job: Draft) -> None:
    """The work is done, and the script goes on: results are packed, a shell stays open."""
    share = job.share(0.08, 0.6)
    job.start()
    job.run(any_program(job))
    block = Block(job.n_gpus, 1)
    block.do(AFTER._replace(cores=float(job.rng.choice([0.02, 1.0]))), share / (1 - share) * job.seconds)
    job.blocks.append(block)
    job.extra_leaf = "end"
    job.plant("tear_down")


@sick(gpus=(1, 8))
def a_service_without_requests(job: Draft) -> None:
    """A model waits for requests, which come a few a minute: seconds of decoding between long pauses that nothing
    explains."""
    share = job.uniform(0.3, 0.85)
    length = job.log_uniform(4, 15)
    part = memory_work(0.55, 0.5, engine=0.95, tensor=0.06, occupancy=0.2)
    recipe = Recipe("", ((part, 1.0),), (length, length), 0.0, "", (0.75, 0.945), 0.5)
    step = job.step_seconds(recipe)
    pauses = step * share / (1 - share) * job.rng.exponential(1.0, (job.n_gpus, job.n_steps(step)))
    job.start()
    job.run(recipe, [Insert(PAUSE, pauses)], step)
    job.finish()
    job.plant(
        STALLS, "low_use", *(("imbalance", "rotating_stragglers", "launch_gaps", "gaps") if job.n_gpus > 1 else ())
    )
    job.allowed |= TURNS | {"low_use", "launch_gaps", "gaps", "low_power"}


@sick(gpus=(1, 2), nodes=(1, 1))
def somebody_types(job: Draft) -> None:
    """A notebook: cells compute for seconds to minutes, and then somebody reads and types."""
    share = job.uniform(0.4, 0.8)
    n_cells = max(3, int(job.rng.integers(4, 12)))
    job.start()
    for _ in range(n_cells):
        weight = float(job.rng.lognormal(0, 0.5))
        job.run(RECIPES["diffusion"], seconds=weight * (1 - share) * job.seconds / n_cells)
        block = Block(job.n_gpus, 1)
        block.do(PAUSE._replace(cores=0.02), job.rng.lognormal(-0.1, 0.6) * share * job.seconds / n_cells, lost=True)
        job.blocks.append(block)
    job.run(RECIPES["diffusion"], seconds=0.02 * job.seconds)
    job.plant(STALLS, "low_use")
    job.allowed |= {"low_use", "low_power"}
