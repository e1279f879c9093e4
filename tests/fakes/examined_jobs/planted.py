"""Jobs with a planted cause: slow input, busy CPUs, copies, waits, clocks, kernels that use little."""

from collections.abc import Callable

import numpy as np

from gssr.arrays import Floats, Ints
from tests.fakes.examined_jobs import activities as act
from tests.fakes.examined_jobs.draft import Draft, spread

TRAINING = ("llm", "vision", "gnn")
IN_STEP = ("llm", "vision", "cfd", "md", "fp64", "moe")
SEVERAL_GPUS = (2, 4, 4, 8, 8, 8, 16, 32)
MANY_GPUS = (8, 8, 16, 16, 32, 64)
REASON_HARDWARE_SLOWDOWN, REASON_SOFTWARE_THERMAL, REASON_HARDWARE_THERMAL, REASON_BRAKE = 0x8, 0x20, 0x40, 0x80
REASON_SETTING = 0x2


def _codes(*codes: str) -> frozenset[str]:
    return frozenset(codes)


def _waits_between(draft: Draft, shortest: float, longest: float) -> Floats:
    """Seconds of waits at irregular times, a twelfth of the job long together, at least."""
    rng = draft.rng
    run = draft.n_steps * draft.step
    wanted = rng.uniform(0.09, 0.3) * run
    seconds = np.zeros((1, draft.n_steps))
    while seconds.sum() < wanted:
        seconds[0, int(rng.integers(2, draft.n_steps))] += spread(rng, shortest, longest)
    return seconds


# Files and networks --------------------------------------------------------------------------------------------------


def disk_input_each_step(draft: Draft) -> None:
    """Every step waits for files of the local disk."""
    draft.choose(TRAINING, (1, 2, 4, 8), step=(0.5, 8))
    speed = spread(draft.rng, 3e8, 3e9) / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.before.append((act.READS_DISK._replace(read=speed), draft.series(0.1, 1.2, of_each_gpu=0.05), True))
    draft.waits_lost = draft.jitters = True
    if draft.rng.random() < 0.4:  # loaders read ahead: the disk is as busy while the GPUs work
        draft.work = [(kernel._replace(read=0.95 * speed), share) for kernel, share in draft.work]
    draft.planted = [_codes("io_wait")]


def disk_input_each_nth_step(draft: Draft) -> None:
    """The loader runs dry each nth step and the job waits for the disk for longer."""
    draft.choose(TRAINING, (1, 2, 4, 8), step=(0.3, 3))
    nth = int(draft.rng.integers(3, 25))
    seconds = draft.series(0.15, 0.8) * nth * (np.arange(draft.n_steps) % nth == nth - 1)
    speed = spread(draft.rng, 5e8, 3e9) / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.before.append((act.READS_DISK._replace(read=speed), seconds, True))
    draft.planted = [_codes("io_wait")]


def network_input_each_step(draft: Draft) -> None:
    """Every step waits for data that comes over the network."""
    draft.choose(TRAINING, (1, 2, 4, 8, 16), step=(0.5, 8))
    speed = spread(draft.rng, 1e8, 1.2e9) / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.before.append((act.READS_NETWORK._replace(net_rx=speed), draft.series(0.1, 1.2, of_each_gpu=0.05), True))
    draft.waits_lost = draft.jitters = True
    if draft.rng.random() < 0.4:  # loaders read ahead: the network is as busy while the GPUs work
        draft.work = [(kernel._replace(net_rx=0.95 * speed), share) for kernel, share in draft.work]
    draft.planted = [_codes("io_wait")]


def input_of_one_rank(draft: Draft) -> None:
    """One rank's files come late in every step, and all others wait for it in the collective."""
    draft.choose(TRAINING, (4, 8, 8, 16), step=(0.6, 8))
    seconds = np.zeros((draft.n_gpus, draft.n_steps))
    seconds[int(draft.rng.integers(draft.n_gpus))] = draft.series(0.1, 1.0)[0]
    disk = draft.rng.random() < 0.5
    waiting = act.READS_DISK._replace(read=9e8) if disk else act.READS_NETWORK._replace(net_rx=4e8)
    draft.before.append((waiting, seconds, True))
    draft.waits_lost = True
    draft.planted = [_codes("io_wait", "straggler")]
    draft.allowed |= {"io_wait", "straggler"}


def file_server_stalls(draft: Draft) -> None:
    """The file server hangs at irregular times: hardly anything comes through, then what was due comes in a burst."""
    draft.choose(TRAINING, (1, 4, 8, 16), step=(0.3, 4), shortest=600)
    speed = spread(draft.rng, 1e8, 4e8) / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.work = [(kernel._replace(net_rx=0.15 * speed), share) for kernel, share in draft.work]
    seconds = _waits_between(draft, 4, 50)
    draft.before.append((act.READS_NETWORK._replace(name="stall", net_rx=0.04 * speed), 0.8 * seconds, True))
    draft.before.append((act.READS_NETWORK._replace(net_rx=3 * speed), 0.2 * seconds, True))
    draft.planted = [_codes("io_wait", "pauses", "recurring_dips", "unexplained")]
    draft.allowed |= draft.planted[0]


def checkpoints_of_all(draft: Draft) -> None:
    """All ranks write checkpoints too often."""
    _frequent_checkpoints(draft, (1, 4, 8, 16, 32))


def _frequent_checkpoints(draft: Draft, gpus: tuple[int, ...]) -> None:
    draft.choose(("llm", "vision", "cfd"), gpus, step=(0.3, 6), shortest=300)
    count = int(draft.rng.integers(4, 18))
    at = np.linspace(0, draft.n_steps - 1, count + 2)[1:-1].astype(int)
    seconds = np.zeros((1, draft.n_steps))
    seconds[0, at] = draft.rng.uniform(0.08, 0.3) * draft.n_steps * draft.step / count
    speed = spread(draft.rng, 5e8, 3e9) / min(draft.n_gpus, draft.model.gpus_per_node)
    local = draft.rng.random() < 0.5
    writing = act.SAVING._replace(write=speed) if local else act.SAVING._replace(write=0.0, net_tx=speed)
    draft.after.append((writing, seconds, True))
    draft.planted = [_codes("io_wait")]
    draft.allowed |= {"pauses", "recurring_dips", "io_wait"}


def checkpoints_of_rank_0(draft: Draft) -> None:
    """Rank 0 alone writes checkpoints, and the others wait for it."""
    draft.choose(("llm", "vision", "cfd"), (2, 4, 8, 16, 32), step=(0.3, 6), shortest=300)
    count = int(draft.rng.integers(4, 18))
    at = np.linspace(0, draft.n_steps - 1, count + 2)[1:-1].astype(int)
    seconds = np.zeros((draft.n_gpus, draft.n_steps))
    seconds[0, at] = draft.rng.uniform(0.1, 0.35) * draft.n_steps * draft.step / count
    draft.after.append((act.SAVING._replace(write=spread(draft.rng, 4e8, 2e9)), seconds, True))
    draft.waits_lost = True
    draft.planted = [_codes("io_wait", "straggler")]
    draft.allowed |= {"pauses", "recurring_dips", "io_wait", "straggler"}


# The CPU -------------------------------------------------------------------------------------------------------------


def _preprocessing(draft: Draft, cores: float) -> None:
    draft.choose(TRAINING, (1, 2, 4, 8), step=(0.5, 6))
    most = draft.model.cores_per_node / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.before.append(
        (act.HOST_COMPUTES._replace(cpu=min(cores, most)), draft.series(0.12, 1.5, of_each_gpu=0.05), True)
    )
    draft.waits_lost = draft.jitters = True
    draft.planted = [_codes("cpu_starved")]


def preprocessing_on_one_core(draft: Draft) -> None:
    """One core per rank prepares the data of each step while the GPU waits."""
    _preprocessing(draft, 1.0)


def preprocessing_on_few_cores(draft: Draft) -> None:
    """A few workers per rank prepare the data of each step."""
    cores = draft.rng.uniform(2, 6)
    _preprocessing(draft, cores)
    if draft.rng.random() < 0.5:  # workers prepare the next batch while the GPU works
        draft.python_cores += cores


def preprocessing_on_all_cores(draft: Draft) -> None:
    """Loaders keep all cores of the node busy, and are still too slow."""
    _preprocessing(draft, 1e3)
    draft.python_cores = 0.9 * draft.model.cores_per_node / min(draft.n_gpus, draft.model.gpus_per_node)


def optimizer_on_cpu(draft: Draft) -> None:
    """Gradients go to the host, whose cores update the weights, which come back."""
    draft.choose(("llm",), (1, 2, 4, 8), step=(1.5, 15), models=("A100", "A100x4", "H100", "H200", "L40S", "MI300X"))
    speed = 0.75 * draft.model.pcie_speed
    draft.after.append((act.COPIES._replace(name="gradients", pcie_tx=speed), draft.series(0.015, 0.03), False))
    cores = 0.7 * draft.model.cores_per_node / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.after.append((act.HOST_COMPUTES._replace(cpu=cores), draft.series(0.12, 1.2), True))
    draft.after.append((act.COPIES._replace(name="weights", pcie_rx=speed), draft.series(0.015, 0.03), False))
    draft.planted = [_codes("cpu_starved")]
    draft.allowed |= {"transfer_bound"}


def physics_on_cpu(draft: Draft) -> None:
    """A simulation that does most of its physics on the CPU and offloads one solver."""
    draft.choose(("cfd", "md", "fp64"), (1, 2, 4, 8), step=(1.0, 12))
    per_rank = draft.model.cores_per_node / min(draft.n_gpus, draft.model.gpus_per_node)
    cores = float(draft.rng.choice((1.0, 0.25 * per_rank, 0.95 * per_rank)))
    draft.before.append((act.HOST_COMPUTES._replace(cpu=cores), draft.series(0.3, 6.0), True))
    draft.planted = [_codes("cpu_starved")]


# Copies --------------------------------------------------------------------------------------------------------------


def _copies(draft: Draft, low: float, high: float, cpu: float) -> None:
    draft.choose((*TRAINING, "cfd"), (1, 2, 4, 8), step=(0.6, 6))
    model = draft.model
    share = draft.rng.uniform(low, high)
    if model.c2c_speed:
        copying = act.COPIES._replace(
            c2c_rx=share * model.c2c_speed * 0.4, c2c_tx=share * model.c2c_speed * 0.1, cpu=cpu
        )
    else:
        copying = act.COPIES._replace(pcie_rx=share * model.pcie_speed, pcie_tx=0.2 * share * model.pcie_speed, cpu=cpu)
    draft.before.append((copying, draft.series(0.1, 1.2), True))
    draft.planted = [_codes("transfer_bound")]
    if draft.view in ("nvml", "amd"):  # no counter of PCIe there: a rank keeps its core busy, and the GPU idles
        draft.planted = [_codes("transfer_bound", "cpu_starved", "unexplained")]
    draft.allowed |= {"cpu_starved", *draft.planted[0]}


def pageable_copies(draft: Draft) -> None:
    """Copies from pageable memory: a core moves the data by way of a small buffer."""
    _copies(draft, 0.12, 0.35, 1.0)


def pinned_copies(draft: Draft) -> None:
    """Copies at the speed of the link, for which each step waits."""
    _copies(draft, 0.7, 0.92, 1.0)


def unified_memory(draft: Draft) -> None:
    """More managed memory than the GPU has: kernels wait for pages that come and go."""
    draft.choose(("cfd", "gnn", "fp64"), (1, 1, 2, 4), step=(0.5, 6))
    model = draft.model
    rate = draft.rng.uniform(0.2, 0.5) * model.pcie_speed
    if model.c2c_speed:
        faulting = act.FAULTING._replace(c2c_rx=3 * rate, c2c_tx=2.5 * rate)
    else:
        faulting = act.FAULTING._replace(pcie_rx=rate, pcie_tx=0.85 * rate)
    draft.after.append((draft.vary(faulting), draft.series(0.3, 4.0), True))
    draft.memory_share[:] = 0.985
    draft.knows_cost = False
    draft.planted = [_codes("unified_memory", "transfer_bound")]
    draft.allowed |= {"transfer_bound", "memory_full", "unified_memory"}
    if draft.view in ("nvml", "amd"):  # what is left to see there: busy at little power, and a full memory
        draft.planted = [_codes("unified_memory", "transfer_bound", "low_power", "memory_full")]
        draft.allowed |= {"low_power"}


# Between kernels and without known reason ----------------------------------------------------------------------------


def launch_bound(draft: Draft) -> None:
    """Many small kernels whose launches take longer than they do."""
    draft.choose(("md", "gnn", "cfd", "serving"), (1, 1, 2, 4))
    draft.gaps = float(draft.rng.uniform(0.2, 0.75))
    draft.gaps_lost = True
    if draft.rng.random() < 0.5:  # kernels so short that their first and last blocks leave SMs empty
        part = draft.rng.uniform(0.45, 0.75)
        draft.work = [
            (
                kernel._replace(
                    leaf="working.other",
                    sm=part * kernel.sm,
                    tensor=part * kernel.tensor,
                    dram=0.6 * part * kernel.dram,
                    fp32=part * kernel.fp32,
                    fp64=part * kernel.fp64,
                    power=0.7 * kernel.power,
                ),
                share,
            )
            for kernel, share in draft.work
        ]
    draft.planted = [_codes("launch_gaps", "low_use") if draft.gaps > 0.5 else _codes("launch_gaps")]
    if 0.4 < draft.gaps <= 0.5:
        draft.allowed |= {"low_use"}
    draft.allowed |= {"launch_gaps", "low_use"} if draft.gaps > 0.45 else {"launch_gaps"}
    if draft.view in ("nvml", "amd"):
        draft.allowed |= {"low_power"}


def pauses(draft: Draft) -> None:
    """Nothing that is measured moves now and then, at irregular times."""
    draft.choose(("llm", "cfd", "md", "vision"), (1, 2, 4, 8, 16), step=(0.2, 4), shortest=600)
    draft.before.append((act.NOTHING, _waits_between(draft, 5, 90), True))
    draft.planted = [_codes("pauses", "unexplained", "recurring_dips")]
    draft.allowed |= draft.planted[0]


def recurring_pauses(draft: Draft) -> None:
    """Nothing that is measured moves for some seconds, in a rhythm."""
    draft.choose(("llm", "cfd", "md", "vision"), (1, 2, 4, 8), step=(0.2, 2), shortest=600)
    nth = max(2, int(draft.rng.uniform(20, 60) / draft.step))
    seconds = np.zeros((1, draft.n_steps))
    seconds[0, nth - 1 :: nth] = draft.rng.uniform(0.12, 0.4) * nth * draft.step
    draft.before.append((act.NOTHING, seconds, True))
    draft.planted = [_codes("recurring_dips", "pauses", "unexplained")]
    draft.allowed |= draft.planted[0]


# Hangs and restarts --------------------------------------------------------------------------------------------------


def _hang_seconds(draft: Draft) -> Floats:
    seconds = np.zeros((1, draft.n_steps))
    seconds[0, -1] = draft.rng.uniform(0.3, 2.0) * draft.n_steps * draft.step
    return seconds


def _is_killed(draft: Draft) -> None:
    draft.end_seconds = 0.0
    draft.exit_code, draft.state = 143, "killed"


def hang_spinning(draft: Draft) -> None:
    """A collective never ends: all kernels spin until the job is killed."""
    draft.choose(("llm", "moe", "vision"), SEVERAL_GPUS, step=(0.3, 6), shortest=400)
    draft.after.append((draft.vary(act.SPIN), _hang_seconds(draft), True))
    _is_killed(draft)
    draft.planted = [_codes("hang")]


def hang_idle(draft: Draft) -> None:
    """The job stops for good, and nothing moves until it is killed."""
    draft.choose(("llm", "cfd", "fp64", "md"), (1, 2, 4, 8), step=(0.3, 6), shortest=400)
    draft.after.append((act.NOTHING, _hang_seconds(draft), True))
    _is_killed(draft)
    draft.planted = [_codes("hang", "tear_down")]
    draft.allowed |= {"tear_down"}


def hang_of_one_rank(draft: Draft) -> None:
    """One rank is gone, and the others spin for it until the job is killed."""
    draft.choose(("llm", "moe", "vision"), (4, 8, 8, 16), step=(0.3, 6), shortest=400)
    seconds = np.broadcast_to(_hang_seconds(draft), (draft.n_gpus, draft.n_steps)).copy()
    gone = int(draft.rng.integers(draft.n_gpus))
    others = seconds.copy()
    others[gone] = 0
    seconds[np.arange(draft.n_gpus) != gone] = 0
    draft.after.append((draft.vary(act.SPIN), others, True))
    draft.after.append((act.FINISHED._replace(name="gone"), seconds, True))
    if draft.rng.random() < 0.3:  # the GPU itself has fallen off the bus
        draft.vanishes = gone, float(seconds.sum())
    _is_killed(draft)
    draft.planted = [_codes("hang", "early_end", "straggler")]
    draft.allowed |= {"hang", "early_end", "straggler"}


# One late, all wait --------------------------------------------------------------------------------------------------


def _slow_gpus(draft: Draft, which: Ints, factor: float) -> None:
    draft.factor[which] *= factor
    draft.waits_lost = True


def straggler(draft: Draft) -> None:
    """One GPU takes longer for its kernels, at the same clock."""
    draft.choose(IN_STEP, (4, 8, 8, 16, 32))
    _slow_gpus(draft, draft.rng.integers(draft.n_gpus, size=1), draft.rng.uniform(1.12, 1.6))
    draft.planted = [_codes("straggler")]


def slow_node_by_clock(draft: Draft) -> None:
    """All GPUs of a node have a lower clock."""
    draft.choose(("llm", "moe", "vision", "fp64", "md"), (16, 16, 32, 64))
    node = int(draft.rng.integers(draft.n_nodes))
    draft.clock[draft.node_of == node] *= draft.rng.uniform(0.65, 0.85)
    draft.waits_lost = draft.excess_lost = True
    draft.planted = [_codes("slow_node", "slow_clock", "straggler")]
    draft.allowed |= draft.planted[0]


def slow_node_without_reason(draft: Draft) -> None:
    """All GPUs of a node take longer, at the same clock."""
    draft.choose(IN_STEP, (16, 16, 32, 64))
    node = int(draft.rng.integers(draft.n_nodes))
    _slow_gpus(draft, np.flatnonzero(draft.node_of == node), draft.rng.uniform(1.12, 1.5))
    draft.planted = [_codes("slow_node", "straggler")]
    draft.allowed |= draft.planted[0]


def thermal_throttling(draft: Draft) -> None:
    """One GPU becomes hot, and lowers its clock."""
    draft.choose(("llm", "moe", "vision", "fp64", "md"), (1, 4, 8, 8, 16))
    hot = int(draft.rng.integers(draft.n_gpus))
    begin = int(draft.rng.uniform(0.02, 0.5) * draft.n_steps)
    draft.clock[hot, begin:] *= draft.rng.uniform(0.55, 0.8)
    draft.cooling[hot] = 2.2
    by_hardware = draft.rng.random() < 0.5
    reasons = REASON_HARDWARE_THERMAL | REASON_HARDWARE_SLOWDOWN if by_hardware else REASON_SOFTWARE_THERMAL
    draft.reasons[hot, begin:] |= reasons
    draft.waits_lost = draft.excess_lost = True
    names = {"throttled_thermal", "slow_clock"}
    if by_hardware:
        names |= {"throttled_hardware"}
    if draft.n_gpus > 1:
        names |= {"straggler"}
    draft.planted = [frozenset(names)]
    draft.allowed |= names | {"slow_down"}


def power_brake(draft: Draft) -> None:
    """The power supply asks all GPUs of a node to draw less."""
    draft.choose(("llm", "moe", "vision", "fp64"), (4, 8, 8, 16))
    braked = draft.node_of == int(draft.rng.integers(draft.n_nodes))
    begin = int(draft.rng.uniform(0.02, 0.5) * draft.n_steps)
    draft.clock[braked, begin:] *= draft.rng.uniform(0.45, 0.7)
    draft.reasons[braked, begin:] |= REASON_BRAKE | REASON_HARDWARE_SLOWDOWN
    draft.waits_lost = draft.excess_lost = True
    names = {"throttled_power_brake", "throttled_hardware", "slow_clock"}
    if not braked.all():
        names |= {"slow_node", "straggler"}
    draft.planted = [frozenset(names)]
    draft.allowed |= names | {"slow_down"}


def one_at_low_clock(draft: Draft) -> None:
    """One GPU runs at 1252 MHz, 15 at 1975 MHz."""
    draft.choose(("llm", "vision", "md", "fp64", "moe"), (16,), models=("H100", "H200", "MI300X"))
    draft.normal_clock = 1975 / draft.model.max_clock
    draft.clock[:] = draft.normal_clock
    draft.clock[int(draft.rng.integers(16))] = 1252 / draft.model.max_clock
    draft.reasons[:] = 0
    draft.allowed.discard("power_capped")
    draft.waits_lost = draft.excess_lost = True
    draft.planted = [_codes("slow_clock", "straggler")]
    draft.allowed |= draft.planted[0]


def all_at_low_clock(draft: Draft) -> None:
    """All GPUs have a low clock, which somebody has set or nobody explains."""
    draft.choose(("llm", "vision", "md", "fp64"), (1, 2, 4, 8, 16))
    draft.clock *= draft.rng.uniform(0.55, 0.78) / draft.normal_clock
    draft.reasons[:] = REASON_SETTING if draft.rng.random() < 0.5 else 0
    draft.normal_clock = 1.0
    draft.allowed.discard("power_capped")
    draft.excess_lost = True
    draft.planted = [_codes("slow_clock")]


def rotating_stragglers(draft: Draft) -> None:
    """Batches are uneven: another GPU is the last one in each step."""
    draft.choose(("llm", "vision", "moe"), (4, 8, 8, 16, 32), step=(1, 10))
    late = draft.rng.integers(draft.n_gpus, size=draft.n_steps)
    draft.factor[late, np.arange(draft.n_steps)] *= draft.rng.uniform(1.2, 1.9, draft.n_steps)
    draft.waits_lost = True
    draft.planted = [_codes("rotating_stragglers", "imbalance")]
    draft.allowed |= draft.planted[0]


def imbalance(draft: Draft) -> None:
    """GPUs have got unequal shares of the work, from first to last."""
    draft.choose(IN_STEP, (4, 8, 8, 16, 32, 64))
    draft.factor *= draft.rng.permutation(np.linspace(1 - draft.rng.uniform(0.2, 0.5), 1.0, draft.n_gpus))[:, None]
    draft.waits_lost = True
    draft.planted = [_codes("imbalance")]
    draft.allowed |= {"imbalance", "straggler"} if draft.n_gpus <= 4 else {"imbalance"}  # of a few, one is well behind


def one_node_at_61_percent(draft: Draft) -> None:
    """The CPU of one of eight nodes is slow: its GPUs' engines are at 61 %, all others' spin for them, at 97 %."""
    draft.choose(("llm", "moe"), (64,), step=(1.0, 6.0), models=("A100", "H100", "H200", "MI300X"))
    slow = draft.node_of == int(draft.rng.integers(8))
    seconds = np.zeros((64, draft.n_steps))
    seconds[slow] = draft.step * draft.rng.uniform(0.53, 0.6, (1, draft.n_steps))
    draft.gaps = 0.03
    draft.before.append((act.HOST_COMPUTES, seconds, True))
    draft.waits_lost = True
    draft.planted = [_codes("slow_node", "straggler", "cpu_starved")]
    draft.allowed |= draft.planted[0]


# Collectives ---------------------------------------------------------------------------------------------------------


def _exposed(draft: Draft, gpus: tuple[int, ...], models: tuple[str, ...], link: str) -> None:
    draft.choose(("llm", "moe", "vision"), gpus, models=models)
    draft.exposed = 0.0
    draft.through_pcie = link == "pcie"
    draft.after.append((draft.transfer_activity(link), draft.series(0.08, 1.2), True))
    draft.planted = [_codes("communication_bound")]
    if draft.view in ("nvml", "amd"):
        draft.planted = [_codes("communication_bound", "low_power")]
        draft.allowed |= {"low_power"}


def exposed_nvlink(draft: Draft) -> None:
    """Collectives over NVLink that nothing overlaps."""
    _exposed(draft, (2, 4, 4, 8), ("A100", "A100x4", "H100", "H200", "V100", "MI300X"), "nvlink")


def exposed_infiniband(draft: Draft) -> None:
    """Collectives between nodes that nothing overlaps, bound by InfiniBand."""
    _exposed(draft, (16, 16, 32, 64), ("A100", "H100", "H200", "GH200", "V100", "MI300X"), "fabric")


def exposed_pcie(draft: Draft) -> None:
    """Collectives over PCIe, NVLink being absent or quiet."""
    _exposed(draft, (2, 4, 4), ("L40S", "A100x4", "V100", "H100"), "pcie")


def all_to_all(draft: Draft) -> None:
    """Experts that are popular at the moment are late, in a job that exchanges tokens between all GPUs."""
    draft.choose(("moe",), (8, 16, 32), step=(0.5, 10))
    popular = 1 + draft.rng.pareto(3.0, draft.factor.shape).clip(0, 1.2) * 0.8
    draft.factor *= popular
    draft.waits_lost = True
    draft.planted = [_codes("rotating_stragglers", "imbalance", "communication_bound")]
    draft.allowed |= draft.planted[0]


# Turns and partial use -----------------------------------------------------------------------------------------------


def taking_turns(draft: Draft) -> None:
    """Reinforcement learning: half of the GPUs roll out, then the other half learns, and so on."""
    draft.choose(("llm",), (2, 4, 8, 16), step=(6, 60), shortest=300)
    half = draft.n_gpus // 2
    first = np.ones((draft.n_gpus, draft.n_steps))
    first[half:] = 0
    turn = draft.series(0.35, 0.65)
    rollout = draft.vary(act.DECODE)
    draft.exposed = 0.0
    draft.before.append((act.PEER_WAIT, turn * (1 - first), True))
    draft.before.append((rollout._replace(duty=0.93), turn * first, False))
    draft.before.append((act.PEER_WAIT._replace(name="learners_wait"), (draft.step - turn) * first, True))
    for kernel, share in draft.work:
        draft.before.append((kernel._replace(duty=0.97), share * (draft.step - turn) * (1 - first), False))
    draft.work = []
    draft.planted = [_codes("taking_turns", "imbalance")]
    draft.allowed |= {"taking_turns", "imbalance"}


def naive_pipeline(draft: Draft) -> None:
    """Stages of a model that work one after the other, without micro-batches."""
    draft.choose(("llm",), (2, 4, 4, 8), step=(4, 20), shortest=300)
    n, stage = draft.n_gpus, draft.rng.uniform(1, 5)
    draft.exposed = 0.0
    kernels, draft.work = draft.work, []
    wait = act.PEER_WAIT
    if draft.rng.random() < 0.4:
        wait = draft.vary(act.SPIN)
    for turn in range(n):
        mine = np.zeros((n, 1))
        mine[turn] = 1
        length = stage * draft.rng.uniform(0.97, 1.03, (1, draft.n_steps))
        for kernel, share in kernels:
            draft.before.append((kernel._replace(duty=0.97), share * length * mine, False))
        draft.before.append((wait, length * (1 - mine), True))
    draft.step = n * stage
    draft.planted = [_codes("taking_turns", "imbalance")]
    draft.allowed |= {"taking_turns", "imbalance"}
    if wait.leaf == "communication.waiting":
        draft.planted = [_codes("taking_turns", "imbalance", "communication_bound", "rotating_stragglers")]
        draft.allowed |= draft.planted[0]


def pipeline_bubbles(draft: Draft) -> None:
    """A pipeline with too few micro-batches: stages spin in receives at the beginning and the end of each step."""
    draft.choose(("llm",), (4, 4, 8, 8), step=(2, 15))
    n = draft.n_gpus
    micro_batches = int(draft.rng.integers(n, 3 * n))
    slot = draft.step / (micro_batches + n - 1)
    spin = draft.vary(act.SPIN)
    position = np.arange(n)[:, None]
    draft.before.append((spin, slot * position * np.ones((1, draft.n_steps)), True))
    draft.peer_wait, draft.waits_lost = spin, True
    draft.work = [(kernel, share * micro_batches * slot / draft.step) for kernel, share in draft.work]
    draft.exposed = 0.0
    draft.planted = [_codes("imbalance", "communication_bound", "taking_turns", "rotating_stragglers")]
    draft.allowed |= draft.planted[0]
    if draft.view in ("nvml", "amd"):
        draft.allowed |= {"low_power"}


def late_starters(draft: Draft) -> None:
    """Some ranks of independent work begin late."""
    draft.choose(("diffusion", "serving", "md"), (4, 8, 8), shortest=300)
    draft.synchronous = False
    late = draft.rng.permutation(draft.n_gpus)[: int(draft.rng.integers(1, draft.n_gpus // 2 + 1))]
    draft.late_seconds[late] = draft.rng.uniform(0.2, 0.6) * draft.n_steps * draft.step
    for gpu in late:  # what it begins late with is less, so that all end together
        draft.last_step[gpu] = int(draft.n_steps - draft.late_seconds[gpu] / draft.step)
    draft.lost_extra += float(draft.late_seconds.sum())
    if draft.rng.random() < 0.3:  # the ranks themselves appear late, and nobody has sampled their GPUs before
        draft.missing = [(int(gpu), 0.0, float(draft.late_seconds[gpu])) for gpu in late]
    draft.planted = [_codes("late_start")]
    draft.allowed |= {"late_start", "imbalance", "early_end"}


def early_enders(draft: Draft) -> None:
    """Some GPUs have finished their part long before the others."""
    draft.choose(("diffusion", "md", "fp64"), (4, 8, 8, 16), shortest=300)
    draft.synchronous = False
    early = draft.rng.permutation(draft.n_gpus)[: int(draft.rng.integers(1, draft.n_gpus // 2 + 1))]
    draft.last_step[early] = (draft.rng.uniform(0.35, 0.75, len(early)) * draft.n_steps).astype(int)
    draft.lost_leaf = "idle.imbalance"
    draft.planted = [_codes("early_end")]
    draft.allowed |= {"early_end", "imbalance"}


def unused_gpus(draft: Draft) -> None:
    """The job has more GPUs than it uses."""
    draft.choose((*TRAINING, "md", "cfd"), (2, 4, 8, 8, 16))
    draft.idle_gpus = draft.rng.permutation(draft.n_gpus)[: int(draft.rng.integers(1, draft.n_gpus))]
    draft.lost_leaf = "unused"
    draft.planted = [_codes("gpus_unused")]


def unused_gpus_and_launches(draft: Draft) -> None:
    """The job leaves GPUs unused, and launches its kernels too slowly for the others."""
    draft.choose(("md", "gnn", "cfd"), (2, 4, 8))
    draft.idle_gpus = draft.rng.permutation(draft.n_gpus)[: draft.n_gpus // 2]
    draft.lost_leaf = "unused"
    draft.gaps = float(draft.rng.uniform(0.25, 0.45))
    draft.planted = [_codes("gpus_unused"), _codes("launch_gaps")]


def long_start(draft: Draft) -> None:
    """The job loads and prepares for long before its first kernel."""
    draft.choose((*TRAINING, "diffusion", "serving"), (1, 2, 4, 8))
    draft.start_seconds[:] = draft.rng.uniform(0.12, 1.0) * draft.n_steps * draft.step
    draft.lost_leaf = "startup"
    draft.planted = [_codes("start_up")]
    draft.allowed |= {"io_wait"}


def long_end(draft: Draft) -> None:
    """The job writes its results for long after its last kernel."""
    draft.choose(("md", "cfd", "fp64", "llm"), (1, 2, 4, 8))
    draft.end_seconds = draft.rng.uniform(0.12, 0.8) * draft.n_steps * draft.step
    draft.lost_leaf = "end"
    draft.planted = [_codes("tear_down")]
    draft.allowed |= {"io_wait"}


# Kernels that use little, and what grows -----------------------------------------------------------------------------


def _use_little(draft: Draft, activity: act.Activity, codes: frozenset[str]) -> None:
    draft.choose(("md", "gnn", "serving", "cfd"), (1, 1, 2, 4, 8))
    share = draft.rng.uniform(0.5, 1.0)
    draft.work = [(kernel, part * (1 - share)) for kernel, part in draft.work] + [(draft.vary(activity), share)]
    draft.work = [(kernel, part) for kernel, part in draft.work if part > 0]
    draft.has_cost = draft.knows_cost = False
    draft.exposed = 0.0
    draft.planted = [codes | {"low_power"} if draft.view in ("nvml", "amd", "exporter") else codes]
    draft.allowed |= {"small_kernels", "low_occupancy", "launch_gaps", *draft.planted[0]}


def small_kernels(draft: Draft) -> None:
    """Kernels that run on few SMs."""
    _use_little(draft, act.SMALL_KERNEL, _codes("small_kernels"))


def low_occupancy(draft: Draft) -> None:
    """Kernels on all SMs, with fewer warps than the SMs have schedulers."""
    _use_little(draft, act.LOW_OCCUPANCY, _codes("low_occupancy"))


def slowing_down(draft: Draft) -> None:
    """The host's part of each step grows, since its lists do, so that the GPUs have less and less to do."""
    draft.choose(("cfd", "md", "llm", "gnn"), (1, 2, 4, 8), step=(0.4, 4), shortest=600)
    begin = draft.rng.uniform(0, 0.4)
    position = (np.linspace(0, 1, draft.n_steps) - begin).clip(0)[None, :] / (1 - begin)
    draft.before.append((act.HOST_COMPUTES, draft.series(0.5, 1.5) * position, True))
    draft.planted = [_codes("slow_down", "cpu_starved")]
    draft.allowed |= draft.planted[0]


def out_of_memory_restarts(draft: Draft) -> None:
    """The memory fills, the job fails and a script starts it again, over and over."""
    draft.choose(("llm", "vision", "gnn"), (1, 2, 4, 8), step=(0.2, 3), shortest=400)
    every = max(4, int(draft.rng.uniform(40, 150) / draft.step))
    seconds = np.zeros((1, draft.n_steps))
    seconds[0, every::every] = draft.rng.uniform(0.15, 0.6) * every * draft.step
    reading = spread(draft.rng, 2e8, 1e9) / min(draft.n_gpus, draft.model.gpus_per_node)
    draft.before.append((act.NO_CONTEXT._replace(name="restarting", leaf="idle.host", cpu=1.0), 0.5 * seconds, True))
    draft.before.append((act.LOADING._replace(name="loading_again", read=reading), 0.5 * seconds, True))
    draft.memory_share[:] = 0.985
    draft.planted = [_codes("pauses", "recurring_dips", "memory_full", "cpu_starved", "io_wait")]
    draft.allowed |= draft.planted[0] | {"unexplained", "start_up"}


def memory_full(draft: Draft) -> None:
    """The memory is full, and the allocator frees and allocates again between kernels."""
    draft.choose(("llm", "vision", "gnn"), (1, 2, 4, 8))
    draft.memory_share[:] = draft.rng.uniform(0.982, 0.995)
    draft.gaps = draft.rng.uniform(0.09, 0.2)
    draft.gaps_lost = True
    draft.planted = [_codes("memory_full", "launch_gaps")]
    draft.allowed |= {"memory_full", "launch_gaps"}


# Two causes in one job -----------------------------------------------------------------------------------------------


def checkpoints_and_straggler(draft: Draft) -> None:
    """All ranks write checkpoints too often, and one GPU is slower than the others."""
    _frequent_checkpoints(draft, (4, 8, 16))
    draft.factor[int(draft.rng.integers(draft.n_gpus))] *= draft.rng.uniform(1.3, 1.6)
    draft.planted.append(_codes("straggler"))
    draft.allowed |= {"straggler"}


PLANTED: dict[str, Callable[[Draft], None]] = {
    function.__name__: function
    for function in (
        disk_input_each_step,
        disk_input_each_nth_step,
        network_input_each_step,
        input_of_one_rank,
        file_server_stalls,
        checkpoints_of_all,
        checkpoints_of_rank_0,
        preprocessing_on_one_core,
        preprocessing_on_few_cores,
        preprocessing_on_all_cores,
        optimizer_on_cpu,
        physics_on_cpu,
        pageable_copies,
        pinned_copies,
        unified_memory,
        launch_bound,
        pauses,
        recurring_pauses,
        hang_spinning,
        hang_idle,
        hang_of_one_rank,
        straggler,
        slow_node_by_clock,
        slow_node_without_reason,
        thermal_throttling,
        power_brake,
        one_at_low_clock,
        all_at_low_clock,
        rotating_stragglers,
        imbalance,
        one_node_at_61_percent,
        exposed_nvlink,
        exposed_infiniband,
        exposed_pcie,
        all_to_all,
        taking_turns,
        naive_pipeline,
        pipeline_bubbles,
        late_starters,
        early_enders,
        unused_gpus,
        long_start,
        long_end,
        small_kernels,
        low_occupancy,
        slowing_down,
        out_of_memory_restarts,
        memory_full,
        checkpoints_and_straggler,
        unused_gpus_and_launches,
    )
}
