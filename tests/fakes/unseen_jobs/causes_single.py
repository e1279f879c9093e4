"""Planted causes that one process meets alone: input, host, copies, kernels, clocks, start and end.

Each function is a kind: it fills a draft in, and says in its docstring what happens in such a job and why its codes are
right.
"""

import numpy as np

from gssr.arrays import Floats
from tests.fakes.unseen_jobs.draft import Draft
from tests.fakes.unseen_jobs.programs import Loader, MpiCode, Training, at_steps, run_mpi, serve, train
from tests.fakes.unseen_jobs.timeline import Do, Meet
from tests.fakes.unseen_jobs.work import idle, mix

STOPS = ("unexplained", "pauses", "recurring_dips")
"""Codes of waits whose cause nothing shows."""
FEW_LAUNCHES = ("launch_gaps", "gaps", "low_use")


def _short_waits(job: Draft, wait_s: float) -> tuple[str, ...]:
    """Return further codes that are right where samples are longer than what they are to show: within such samples waits
    are gaps of a mixture."""
    return (*STOPS, *FEW_LAUNCHES) if job.interval > wait_s or not job.knows_host else ()


def loader_too_slow(job: Draft) -> None:
    """Workers decode images on the CPU, and are too few: after a step the GPUs wait for the next batch while every worker
    keeps a core busy."""
    step, workers = job.log_uniform(0.3, 4), int(job.rng.integers(1, 7))
    lack = job.uniform(0.15, 1.2)
    busy = {"cores": workers - 0.2, "net_rx": job.uniform(2e7, 1.5e8)}
    wait = idle("idle.host", **{**busy, "cores": workers + 0.8})
    job.n_workers = workers
    train(job, Training(job.catalogue.convolutions(), step, exposed=0.02,
                        loader=Loader(wait, (1.05 + lack) * workers, workers, 2 * workers), loading=busy))  # fmt: skip
    job.cost_leaves = ("idle.host",)
    job.plant("cpu_starved", *_short_waits(job, lack * step / 2))


def loader_in_main_process(job: Draft) -> None:
    """The loop itself reads and tokenises (no workers): one core works while the GPU waits, in every step."""
    step, share = job.log_uniform(0.3, 6), job.uniform(0.15, 1.0)
    wait = idle("idle.host", cores=1.02, net_rx=3e6)
    job.n_workers = 0
    train(job, Training(job.catalogue.transformer(), step, exposed=0.02,
                        before=lambda n: [Do(wait, share * step * job.jitter(n, 0.04))]))  # fmt: skip
    job.cost_leaves = ("idle.host",)
    job.plant("cpu_starved", *_short_waits(job, share * step / 2))


def few_cores(job: Draft) -> None:
    """The batch system gave each rank two to four cores, on which a dozen workers take turns: cores of the process are
    saturated all the time, the node is not."""
    cores, step = float(job.rng.integers(2, 5)), job.log_uniform(0.3, 3)
    lack = job.uniform(0.3, 1.5)
    job.n_workers, job.given_cores = int(job.rng.integers(8, 17)), cores
    wait = idle("idle.host", cores=cores - 0.05, net_rx=5e7)
    train(job, Training(job.catalogue.convolutions().on_host(cores=cores - 0.1), step, exposed=0.02,
                        loader=Loader(wait, (1.05 + lack) * 4, 4, 8, sigma=0.15), loading={"cores": 0.0}))  # fmt: skip
    job.cost_leaves = ("idle.host",)
    job.plant("cpu_starved", *_short_waits(job, lack * step / 2))


def slow_file_system(job: Draft) -> None:
    """Batches come from a shared file system that gives each node less than it asks for: between batches the network
    carries all it can, and hardly anything while the full queue is worked on."""
    step, rate = job.log_uniform(1.5, 12), job.uniform(2e8, 1.5e9) / job.machine.per_node
    share = job.uniform(0.15, 1.3)
    wait = idle("idle.input_output", net_rx=rate, cores=0.4)
    train(job, Training(job.catalogue.convolutions(), step, exposed=0.02,
                        before=lambda n: [Do(wait, share * step * job.step_lengths(n, 0.25) * job.jitter(n, 0.05))],
                        loading={"net_rx": 0.08 * rate}))  # fmt: skip
    job.cost_leaves = ("idle.input_output",)
    job.plant("io_wait", *_short_waits(job, share * step / 2))


def local_disk_reads(job: Draft) -> None:
    """Every chunk of an analysis is read from the node's disk before it is computed, by one thread."""
    step, rate = job.log_uniform(2, 20), job.uniform(1e9, 4e9) / job.machine.per_node
    share = job.uniform(0.2, 1.2)
    wait = idle("idle.input_output", read=rate, cores=0.35)
    train(job, Training(job.catalogue.particles(), step, exposed=0.02, before=lambda n: [
        Do(wait, share * step * job.step_lengths(n, 0.1) * job.jitter(n, 0.04))]))  # fmt: skip
    job.cost_leaves = ("idle.input_output",)
    job.plant("io_wait", *_short_waits(job, share * step / 2))


def file_system_stalls(job: Draft) -> None:
    """A file system that stands still for 8 to 60 s, at irregular times: no byte moves, no core works, and nothing that is
    measured says why. All ranks stand, since they read from the same server."""
    step = job.log_uniform(0.4, 3)

    def stalls(n: int) -> Floats:
        found = np.zeros((n, 1))
        places = job.rng.choice(n, max(3, int(job.uniform(0.12, 0.35) * n * step / 25)), replace=False)
        found[places, 0] = job.rng.uniform(8, 60, len(places))
        return found

    stand = idle("idle.unexplained", cores=0.03)
    train(job, Training(job.catalogue.convolutions(), step, exposed=0.02, before=lambda n: [Do(stand, stalls(n))]))
    job.cost_leaves = ("idle.unexplained",)
    job.plant(*STOPS, "io_wait", "low_use")


def synchronous_checkpoints(job: Draft) -> None:
    """Every rank writes its part of a checkpoint while the training waits: a short copy to the host, then the network or a
    disk carries data out."""
    step, share = job.log_uniform(0.5, 6), job.uniform(0.1, 0.4)
    rate = job.uniform(4e8, 3e9) / job.machine.per_node
    copy = idle("idle.copies", from_gpu=0.7 * job.machine.model.pcie)
    to_disk = job.chance(0.4)
    write = idle("idle.input_output", cores=1.0, **({"write": rate} if to_disk else {"net_tx": rate}))

    lengths: list[float] = []

    def after(n: int) -> list[Do | Meet]:
        count = max(4, min(25, n // 12))
        lengths.append(share * n * step / count)
        when = at_steps(n, max(2, n // (count + 1)), lengths[0], job.rng)
        return [Do(copy, 0.05 * when), Do(write, 0.95 * when)]

    train(job, Training(job.catalogue.transformer(), step, exposed=0.03, after=after))
    job.cost_leaves = ("idle.input_output",)
    job.plant("io_wait", *_short_waits(job, lengths[0] / 2))
    job.allowed |= {"recurring_dips", "pauses", "transfer_bound"}


def long_start(job: Draft) -> None:
    """Containers, imports and a copy of the data set: a sixth to a half of the job passes before its first kernel."""
    job.length = min(job.length, 2400)
    job.start(job.uniform(0.18, 0.5) * job.length)
    train(job, Training(job.catalogue.convolutions(), job.log_uniform(0.3, 2)), wraps=False)
    job.finish()
    job.cost_leaves = ("startup",)
    job.plant("start_up")
    job.allowed |= {"io_wait", "cpu_starved"}


def idle_at_end(job: Draft) -> None:
    """After the last kernel the job goes on without GPUs: statistics and plots on the CPU, an archive, a forgotten sleep."""
    job.length *= 0.75
    job.start()
    train(job, Training(job.catalogue.particles(), job.log_uniform(0.3, 2)), wraps=False)
    tail = job.uniform(0.15, 0.6) * job.timeline.seconds
    job.timeline.all_do(idle("end", cores=float(job.rng.choice((0.05, 1.0, 8.0)))), tail)
    job.cost_leaves = ("end",)
    job.plant("tear_down")
    job.allowed |= {"cpu_starved", "hang"}


def host_code(job: Draft) -> None:
    """A code of which a part was ported: each step computes on the GPU, then for longer on one core of each rank."""
    step, share = job.log_uniform(0.5, 5), job.uniform(0.5, 3)
    run_mpi(job, MpiCode(job.catalogue.double() if job.machine.model.has_strong_fp64 else job.catalogue.particles(), step,
                         on_host=share, host=idle("idle.host", cores=1.0), exchange=0.01))  # fmt: skip
    job.cost_leaves = ("idle.host",)
    job.plant("cpu_starved", "low_use", *_short_waits(job, share * step / 2))


def all_cores_in_turn(job: Draft) -> None:
    """Physics on the GPU and chemistry with OpenMP on all cores of the node, in turn."""
    step, share = job.log_uniform(1, 8), job.uniform(0.2, 1.5)
    run_mpi(job, MpiCode(job.catalogue.stencil(), step, on_host=share, host=idle("idle.host", cores=job.all_cores)))
    job.takes_all_cores = True
    job.cost_leaves = ("idle.host",)
    job.plant("cpu_starved", *_short_waits(job, share * step / 2))


def offloaded_optimizer(job: Draft) -> None:
    """Gradients go to the host, an optimizer runs there on 2 to 50 cores, and parameters come back."""
    step, share = job.log_uniform(1, 8), job.uniform(0.3, 1.2)
    cores = min(job.uniform(2, 50), job.all_cores)
    rate = 0.6 * job.machine.model.pcie
    optimize = idle("idle.host", cores=cores)
    down, up = idle("idle.copies", from_gpu=rate), idle("idle.copies", to_gpu=rate)
    train(job, Training(job.catalogue.transformer(), step, exposed=0.02, after=lambda n: [
        Do(down, 0.06 * step), Do(optimize, share * step * job.jitter(n, 0.02)), Do(up, 0.06 * step)]))  # fmt: skip
    job.host_memory = 0.7
    job.cost_leaves = ("idle.host",)
    job.plant("cpu_starved", *_short_waits(job, share * step / 2))
    job.allowed |= {"transfer_bound"}


def waits_for_copies(job: Draft) -> None:
    """Input goes to the GPU from memory that is not pinned, and results come back, each time while the GPU waits."""
    step, share = job.log_uniform(0.2, 4), job.uniform(0.2, 1.2)
    slow = job.uniform(0.25, 0.8) * job.machine.model.pcie
    up, down = idle("idle.copies", to_gpu=slow), idle("idle.copies", from_gpu=slow)
    part = job.uniform(0.3, 0.9)
    train(job, Training(job.catalogue.particles(), step, exposed=0.02, before=lambda n: [
        Do(up, part * share * step * job.jitter(n, 0.03))], after=lambda n: [
        Do(down, (1 - part) * share * step * job.jitter(n, 0.03))]))  # fmt: skip
    job.cost_leaves = ("idle.copies",)
    job.plant("transfer_bound", *(("cpu_starved", *STOPS, *FEW_LAUNCHES) if job.view == "nvml" else ()))


def states_on_host(job: Draft) -> None:
    """Layers and optimizer states of a model that is too large live in the host's memory, and are copied in and out."""
    step, share = job.log_uniform(1, 10), job.uniform(0.2, 1.5)
    rate = 0.75 * job.machine.model.pcie
    swap = idle("idle.copies", to_gpu=rate, from_gpu=0.7 * rate)
    kernels = job.catalogue.transformer()
    pieces = 4

    def layers(n: int) -> list[Do | Meet]:
        found: list[Do | Meet] = []
        for _ in range(pieces - 1):
            found += [Do(swap, share * step / pieces * job.jitter(n, 0.03)), Do(kernels, 0.4 * step)]
        return [*found, Do(swap, share * step / pieces)]

    train(job, Training(kernels, 0.4 * step, exposed=0.02, before=layers))
    job.memory[:] = job.uniform(0.92, 0.97)
    job.host_memory = 0.75
    job.cost_leaves = ("idle.copies",)
    job.plant("transfer_bound", *(("cpu_starved", *STOPS, *FEW_LAUNCHES) if job.view == "nvml" else ()))


def pages_of_unified_memory(job: Draft) -> None:
    """Managed memory larger than the GPU's: kernels run, and stand still at every page that has to come from the host. An
    engine that is active all the time while hardly anything is read from its own memory; what it costs, nobody can tell.
    Only full recordings show it: SM active near one, DRAM still, PCIe busy both ways."""
    faulty = job.catalogue.particles().on_host(fp32=0.02, integer=0.02, dram=0.05, occupancy=0.4, sm=0.92, power=0.22)
    rate = job.uniform(0.25, 0.45) * job.machine.model.pcie
    run_mpi(job, MpiCode(faulty.beside(to_gpu=rate, from_gpu=rate, cores=0.5), job.log_uniform(1, 5), between=0.02))
    job.memory[:] = 0.985
    job.costs_time = job.knows_cost = False
    job.plant("unified_memory", "transfer_bound")
    job.allowed |= {"memory_full", "memory_peak", "little_arithmetic", "low_power"}


def launch_bound(job: Draft) -> None:
    """An interpreter launches kernels of microseconds one by one; the GPU is through before the next one comes, and one core
    is busy launching. A driver that counts a busy period for each kernel shows a full utilization at a low power."""
    between = job.uniform(0.3, 0.75)
    kernels = job.catalogue.convolutions() if job.chance(0.5) else job.catalogue.particles()
    train(job, Training(kernels.on_host(cores=1.0), job.log_uniform(0.2, 2), exposed=0.01, between=between))
    job.cost_leaves = ("idle.between_kernels",)
    by_power = ("low_power",) if job.view in ("nvml", "amd") else ()
    job.plant(*FEW_LAUNCHES, "cpu_starved", "unexplained", *by_power)


def tiny_batches(job: Draft) -> None:
    """A batch of one: kernels of a few blocks, one after the other, with gaps as long as they are. Without counters of SMs
    and links several GPUs with such kernels look like GPUs in collectives, so that a single one is drawn there."""
    job.need(job.n == 1 or job.view not in ("exporter", "imported"))
    between = job.uniform(0.2, 0.6)
    train(job, Training(job.catalogue.small(), job.log_uniform(0.2, 2), exposed=0.01, hidden=0.0, between=between))
    job.cost_leaves, job.knows_cost = ("working.few_sms", "idle.between_kernels"), False
    job.memory[:] = job.uniform(0.05, 0.3)
    by_power = ("low_power",) if job.view in ("nvml", "amd") else ()
    blind = ("little_arithmetic", "low_power") if job.view in ("exporter", "imported") else ()
    job.plant("small_kernels", *FEW_LAUNCHES, *by_power, *blind)
    job.allowed |= {"memory_unused", "low_power", "cpu_starved", "tensor_unused", "low_occupancy"}


def few_sms(job: Draft) -> None:
    """Kernels of one or a dozen blocks that run all the time: the engine is active, the SMs are not."""
    run_mpi(job, MpiCode(job.catalogue.small(), job.log_uniform(0.5, 5), between=0.01, exchange=0.0))
    job.cost_leaves = ("working.few_sms",)
    blind = ("little_arithmetic", "low_power") if job.view in ("exporter", "imported", "nvml", "amd") else ()
    job.plant("small_kernels", *blind)
    job.allowed |= {"low_power", "memory_unused", "low_occupancy", "little_arithmetic"}


def low_occupancy(job: Draft) -> None:
    """Kernels that take so many registers that one warp or two fit an SM: all SMs active, occupancy of 3 to 6 %, and
    neither memory nor arithmetic is used much. The tree has it below few SMs; what it costs is not known."""
    crowded = job.catalogue.particles()
    rates = {
        "occupancy": job.uniform(0.025, 0.055),
        "sm": job.uniform(0.86, 0.95),
        "fp32": 0.08,
        "dram": 0.06,
        "power": 0.3,
    }
    kernels = mix((crowded.on_host(**rates), 1.0))
    kernels = type(kernels)({"working.few_sms": 1.0}, kernels.rates)
    run_mpi(job, MpiCode(kernels, job.log_uniform(0.5, 5), between=0.02, exchange=0.005))
    job.cost_leaves, job.knows_cost = ("working.few_sms",), False
    job.plant("low_occupancy", "small_kernels")
    job.allowed |= {"little_arithmetic", "low_power"}


def float32_products(job: Draft) -> None:
    """Matrix products in FP32 on a GPU with tensor cores: nothing waits, but a tenth of what the GPU could do is done."""
    rates = {"tensor": 0.0, "hmma": 0.0, "fp32": job.uniform(0.6, 0.85), "fp16": 0.0, "power": 0.85}
    kernels = job.catalogue.transformer().on_host(**rates)
    train(job, Training(type(kernels)({"working.other": 1.0}, kernels.rates), job.log_uniform(0.5, 5), exposed=0.02))
    job.costs_time = job.knows_cost = False
    job.plant("tensor_unused")
    job.allowed |= {"compute_bound"}


def float64_by_accident(job: Draft) -> None:
    """A literal made arrays of doubles: on GPUs with few FP64 units their pipe is all that is busy."""
    job.need(not job.machine.model.has_strong_fp64 or job.chance(0.4))
    kernels = job.catalogue.double().on_host(fp64=job.uniform(0.7, 0.95), dram=0.08, fp32=0.02)
    train(job, Training(kernels, job.log_uniform(0.5, 5), exposed=0.02))
    job.costs_time = job.knows_cost = False
    job.plant("fp64", "tensor_unused")
    job.allowed |= {"compute_bound", "low_power"}


def _slow_for(job: Draft, clock: float, reason: int, begins: float, spread: float) -> None:
    """Train with GPUs that fall to a clock after a part of the time."""

    def clocks(n: int) -> Floats:
        ramp = np.clip((np.arange(n) / n - begins) / 0.04, 0, 1)[:, None] if begins else 1.0
        own = (clock * (1 + job.rng.normal(0, spread, job.n))).clip(0.3, 0.97)
        wobble = job.rng.normal(0, 0.004, (n, job.n)).clip(-0.01, 0.01)
        return np.asarray(1 - ramp * (1 - own) + wobble * ramp).clip(0.3, 1.0)

    kernels = job.catalogue.matrices() if job.chance(0.3) else job.catalogue.transformer()
    kernels = kernels.on_host(power=0.985) if reason == 4 else kernels
    train(job, Training(kernels, job.log_uniform(0.5, 5), exposed=0.03, clock=clocks, reason=reason))
    job.cost_leaves = ("working.slowed",)


def thermal_throttling(job: Draft) -> None:
    """Too little air: after some minutes the GPUs are hot, and the driver or the hardware lowers their clocks. The
    exporter's default fields have no reasons: there only the clock and the temperature show it."""
    job.heat[:] = job.uniform(110, 150)
    _slow_for(job, job.uniform(0.5, 0.85), int(job.rng.choice((0x20, 0x48))), job.uniform(0.05, 0.3), 0.01)
    job.plant(
        "throttled_thermal", *(("slow_clock",) if job.view in ("exporter", "imported") else ("throttled_hardware",))
    )
    job.allowed |= {"slow_clock", "slow_down", "straggler", "imbalance"}


def power_brake(job: Draft) -> None:
    """A power supply asks for less: the brake halves the clocks of all GPUs of the node for a part of the run."""
    _slow_for(job, job.uniform(0.35, 0.6), 0x88, job.uniform(0.0, 0.5), 0.0)
    job.plant("throttled_power_brake", "throttled_hardware",
              *(("slow_clock", "slow_down") if job.view in ("exporter", "imported") else ()))  # fmt: skip
    job.allowed |= {"slow_clock", "slow_down"}


def power_limit_lowered(job: Draft) -> None:
    """The site has set a low power limit: dense kernels run at 60 to 80 % of the clock, at that limit all the time."""
    job.power_limit = job.uniform(0.5, 0.65) * job.machine.model.power_limit
    _slow_for(job, job.uniform(0.6, 0.82), 4, 0.0, 0.005)
    job.plant("power_capped", "slow_clock")
    job.allowed |= {"low_power"}


def clocks_set_low(job: Draft) -> None:
    """Somebody has set application clocks, or a driver starts with low ones: all GPUs run at 55 to 85 % of their maximum,
    with the reason that says so or with none at all."""
    _slow_for(job, job.uniform(0.55, 0.85), int(job.rng.choice((0, 2))), 0.0, 0.0)
    job.plant("slow_clock")
    job.allowed |= {"low_power"}


def little_traffic(job: Draft) -> None:
    """A server that a request reaches every some seconds: bursts of work, and between them nothing at all."""
    busy = job.gappy(job.catalogue.decode(), 0.05)
    serve(job, job.uniform(0.1, 0.6), job.log_uniform(1, 15), busy, idle("idle.unexplained", cores=0.05, net_rx=1e4))
    job.cost_leaves = ("idle.unexplained",)
    job.plant("low_use", *STOPS, *FEW_LAUNCHES)


def notebook(job: Draft) -> None:
    """Somebody thinks: cells of some seconds to minutes run on one GPU, between them it is held and idle."""
    busy = job.gappy(job.catalogue.convolutions(), 0.06)
    serve(job, job.uniform(0.05, 0.4), job.log_uniform(5, 60), busy, idle("idle.unexplained", cores=0.02))
    job.cost_leaves = ("idle.unexplained",)
    job.plant("low_use", *STOPS)


def synchronises_often(job: Draft) -> None:
    """A loss is read, logged and printed after each small step: the queue runs empty, one core is busy before the next
    kernel; pauses of 20 to 100 ms, too short for samples to see one."""
    step, share = job.uniform(0.06, 0.2), job.uniform(0.15, 0.6)
    pause = idle("idle.between_kernels", cores=1.0, resident=0.3)
    train(job, Training(job.gappy(job.catalogue.convolutions(), 0.02), step, exposed=0.01,
                        before=lambda n: [Do(pause, share * step * job.jitter(n, 0.1))]))  # fmt: skip
    job.cost_leaves = ("idle.between_kernels",)
    job.plant(*FEW_LAUNCHES, "cpu_starved", "unexplained", "recurring_dips")


def restarts_out_of_memory(job: Draft) -> None:
    """Every attempt grows until the GPU's memory is full and dies; a loop starts it again: imports, reading a checkpoint, a
    minute of work. Nothing of it is ahead of the first kernel but the first start."""
    job.length = min(job.length, 5400)
    attempts = int(job.rng.integers(3, 9))
    each = job.length / attempts
    step = job.log_uniform(0.3, 1.5)
    job.start(0.3 * each)
    job.sample_at_most(max(1.0, each / 20))
    imports = idle("idle.host", cores=1.1, net_rx=1e6)
    reading = idle("idle.input_output", cores=0.7, net_rx=job.uniform(3e8, 1.5e9))
    plan = Training(job.catalogue.transformer(), step, exposed=0.02)
    for attempt in range(attempts):
        train(job, plan, n_steps=max(8, int(0.65 * each / step * job.uniform(0.8, 1.2))), wraps=False)
        when = job.timeline.seconds - 0.5
        job.events.append((when, "out_of_memory", "a process was killed at the limit of its memory", None))
        if attempt + 1 < attempts:
            job.timeline.all_do(imports, 0.2 * each)
            job.timeline.all_do(reading, 0.15 * each)
    job.memory[:] = 0.965
    job.exit = ("failed", 1)
    job.cost_leaves = ("idle.host", "idle.input_output")
    job.knows_cost = False
    job.plant("cpu_starved", "io_wait", *STOPS, "memory_full", "memory_peak", "low_use")
    job.allowed |= {"start_up", "memory_full", "memory_peak", "out_of_memory"}
