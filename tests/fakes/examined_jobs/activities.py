"""Activities: what a GPU, its links and its rank do during one stretch of time, and where the books put that time."""

from typing import NamedTuple

LEAVES = (
    "unmeasured",
    "unused",
    "startup",
    "end",
    "idle.input_output",
    "idle.copies",
    "idle.host",
    "idle.imbalance",
    "idle.between_kernels",
    "idle.unexplained",
    "communication.transferring",
    "communication.waiting",
    "working.slowed",
    "working.few_sms",
    "working.memory",
    "working.tensor",
    "working.fp64",
    "working.other",
)


class Activity(NamedTuple):
    """What a GPU does for some time.

    ``duty`` is the share of the time in which kernels run; what is left of an activity with kernels are gaps between them.
    Pipes, SMs and memory are ratios while a kernel runs, traffic is bytes per second over the whole stretch, ``power`` is a
    share of the range between idle power and limit, ``cpu`` the busy cores of the rank. ``heavy`` kernels are those whose
    clock the power limit lowers; ``clock_bound`` says how much longer they take at a lower clock."""

    name: str
    leaf: str
    duty: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    double_tensor: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    integer: float = 0.0
    dram: float = 0.0
    memory_busy: float = 0.0
    pcie_tx: float = 0.0
    pcie_rx: float = 0.0
    nvlink: float = 0.0
    c2c_tx: float = 0.0
    c2c_rx: float = 0.0
    power: float = 0.0
    cpu: float = 1.0
    read: float = 0.0
    write: float = 0.0
    net_rx: float = 0.0
    net_tx: float = 0.0
    fabric: float = 0.0
    heavy: bool = False
    clock_bound: float = 1.0
    context: bool = True


MATMUL = Activity(
    "matmul",
    "working.tensor",
    1,
    0.96,
    0.18,
    0.66,
    integer=0.18,
    fp32=0.04,
    dram=0.28,
    memory_busy=0.45,
    power=0.97,
    heavy=True,
)
ATTENTION = Activity(
    "attention",
    "working.tensor",
    1,
    0.93,
    0.22,
    0.42,
    integer=0.24,
    fp32=0.22,
    dram=0.16,
    memory_busy=0.3,
    power=0.9,
    heavy=True,
)
ELEMENTWISE = Activity(
    "elementwise",
    "working.memory",
    1,
    0.95,
    0.72,
    integer=0.18,
    fp32=0.13,
    dram=0.74,
    memory_busy=0.93,
    power=0.7,
    clock_bound=0.3,
)
OPTIMIZER = Activity(
    "optimizer",
    "working.memory",
    1,
    0.97,
    0.6,
    integer=0.1,
    fp32=0.1,
    dram=0.81,
    memory_busy=0.98,
    power=0.66,
    clock_bound=0.2,
)
CONVOLUTION = Activity(
    "convolution",
    "working.tensor",
    1,
    0.9,
    0.24,
    0.43,
    integer=0.2,
    fp32=0.06,
    dram=0.42,
    memory_busy=0.6,
    power=0.8,
    heavy=True,
)
NORMALISATION = Activity(
    "normalisation",
    "working.memory",
    1,
    0.93,
    0.66,
    integer=0.2,
    fp32=0.17,
    dram=0.7,
    memory_busy=0.9,
    power=0.64,
    clock_bound=0.3,
)
STENCIL = Activity(
    "stencil",
    "working.memory",
    1,
    0.97,
    0.46,
    integer=0.21,
    fp64=0.27,
    dram=0.79,
    memory_busy=0.97,
    power=0.68,
    clock_bound=0.3,
)
FORCES = Activity(
    "forces", "working.other", 1, 0.94, 0.44, integer=0.3, fp32=0.52, dram=0.12, memory_busy=0.22, power=0.72
)
MESH = Activity(
    "mesh",
    "working.memory",
    1,
    0.86,
    0.5,
    integer=0.25,
    fp32=0.2,
    dram=0.6,
    memory_busy=0.8,
    power=0.55,
    clock_bound=0.4,
)
DOUBLE_MATMUL = Activity(
    "double_matmul",
    "working.fp64",
    1,
    0.97,
    0.16,
    0.68,
    0.68,
    fp64=0.05,
    integer=0.12,
    dram=0.25,
    memory_busy=0.42,
    power=0.95,
    heavy=True,
)
DOUBLE_VECTOR = Activity(
    "double_vector",
    "working.fp64",
    1,
    0.96,
    0.34,
    fp64=0.76,
    integer=0.14,
    dram=0.3,
    memory_busy=0.5,
    power=0.85,
    heavy=True,
)
SPARSE = Activity(
    "sparse",
    "working.memory",
    1,
    0.94,
    0.62,
    integer=0.3,
    fp64=0.1,
    dram=0.71,
    memory_busy=0.92,
    power=0.58,
    clock_bound=0.3,
)
DECODE = Activity(
    "decode",
    "working.memory",
    0.95,
    0.88,
    0.26,
    0.13,
    integer=0.2,
    fp32=0.07,
    dram=0.68,
    memory_busy=0.86,
    power=0.6,
    clock_bound=0.3,
)
GATHER = Activity(
    "gather",
    "working.memory",
    1,
    0.86,
    0.55,
    integer=0.4,
    fp32=0.1,
    dram=0.63,
    memory_busy=0.85,
    power=0.5,
    clock_bound=0.4,
)
SMALL_DENSE = Activity(
    "small_dense", "working.other", 1, 0.7, 0.34, 0.12, integer=0.2, fp32=0.28, dram=0.25, memory_busy=0.4, power=0.5
)
SMALL_KERNEL = Activity(
    "small_kernel",
    "working.few_sms",
    0.97,
    0.11,
    0.05,
    integer=0.03,
    fp32=0.04,
    dram=0.03,
    memory_busy=0.12,
    power=0.16,
)
LOW_OCCUPANCY = Activity(
    "low_occupancy", "working.few_sms", 1, 0.93, 0.035, integer=0.05, fp32=0.06, dram=0.07, memory_busy=0.25, power=0.26
)
FAULTING = Activity(
    "faulting",
    "working.memory",
    1,
    0.97,
    0.5,
    integer=0.04,
    fp32=0.02,
    dram=0.06,
    memory_busy=0.2,
    power=0.2,
    clock_bound=0.0,
)
SPIN = Activity(
    "spin",
    "communication.waiting",
    1,
    0.14,
    0.045,
    integer=0.02,
    dram=0.004,
    memory_busy=0.03,
    power=0.19,
    clock_bound=0.0,
)
TRANSFER = Activity(
    "transfer",
    "communication.transferring",
    1,
    0.17,
    0.055,
    integer=0.04,
    dram=0.17,
    memory_busy=0.45,
    power=0.3,
    clock_bound=0.0,
)

NO_CONTEXT = Activity("no_context", "idle.unexplained", cpu=0.4, context=False)
LOADING = Activity("loading", "idle.input_output", cpu=1.2, read=1.1e9, context=False)
SETTING_UP = Activity("setting_up", "idle.host", cpu=1.6)
SAVING = Activity("saving", "idle.input_output", cpu=1.05, write=1.3e9)
FINISHED = Activity("finished", "idle.imbalance", cpu=0.02, context=False)
PEER_WAIT = Activity("peer_wait", "idle.imbalance", cpu=1.0)
NOTHING = Activity("nothing", "idle.unexplained", cpu=0.02)
HOST_COMPUTES = Activity("host_computes", "idle.host", cpu=1.0)
READS_DISK = Activity("reads_disk", "idle.input_output", cpu=0.25)
READS_NETWORK = Activity("reads_network", "idle.input_output", cpu=0.25)
COPIES = Activity("copies", "idle.copies", cpu=1.0)
