"""The catalogue: every metric GSSR knows, declared once.

The names here are the columns of ``samples``, the keys of ``analyze --json``, the values ``--metrics`` takes, and the
source of the labels on screen and of ``docs/metrics.md``. A new metric stands among its kind: the order is that of lists and
pages, and of the columns of new recordings. Nothing relies on it: ``PLACES`` says where a metric's value stands in a
sample's row, and a recording is read by the names of its columns.

Ratios are stored as 0-1; percent exists only on screen. Missing is ``None`` (SQL NULL), never 0.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Literal, NamedTuple

from gssr.spelling import did_you_mean_or_list, meant

Kind = Literal["gauge", "rate", "counter", "bits"]
"""gauge: a state at (or averaged up to) the sample's time; rate: per second; counter: only its differences mean
something; bits: a set of flags."""


class OnAmd(NamedTuple):
    """How a metric is measured on AMD's GPUs. ``source``: the field of the driver's ``gpu_metrics``, or the file, with
    its factor; ``differs``: what is different there, which replaces the pitfalls; "" if nothing is."""

    source: str
    differs: str = ""


class Metric(NamedTuple):
    """One metric of the catalogue.

    ``label`` and ``short``: its name on pages and in narrow columns; ``unit``: "1" for ratios. ``full_scale``: the
    value that fills an axis, in ``unit``, or the name of the column of ``gpus`` that holds it for each GPU. ``dcgm``
    and ``gpm``: the field's id there, None if there is none; a value times ``dcgm_factor`` or ``gpm_factor`` is in
    ``unit``. ``integral``: values are whole numbers. ``parts``: the metrics that a derived one is the sum of. ``amd``:
    None if AMD's GPUs do not have it.
    """

    name: str
    label: str
    short: str
    unit: str
    kind: Kind
    full_scale: float | str
    meaning: str
    pitfalls: str
    source: str
    dcgm: int | None = None
    dcgm_factor: float = 1.0
    gpm: int | None = None
    gpm_factor: float = 1.0
    integral: bool = False
    parts: tuple[str, ...] = ()
    amd: OnAmd | None = None

    @property
    def derived(self) -> bool:
        """True for a metric that is computed from others (``parts``) and never stored in ``samples``."""
        return bool(self.parts)


RATIO = "1"
_PERCENT = 0.01
_MIB = float(1 << 20)
_PROF = "NVIDIA DCGM feature overview, profiling metrics"
_FIELD = "NVIDIA DCGM field identifiers"
_NVML = "NVIDIA NVML API reference"


def _pipe(name: str, label: str, short: str, dcgm: int, gpm: int, what: str, pitfalls: str) -> Metric:
    return Metric(
        name, label, short, RATIO, "gauge", 1.0, f"Share of cycles in which {what} was active, averaged over all SMs.",
        pitfalls, _PROF, dcgm=dcgm, gpm=gpm, gpm_factor=_PERCENT,
    )  # fmt: skip


METRICS: tuple[Metric, ...] = (
    Metric(
        "gpu_utilization", "GPU utilization", "util", RATIO, "gauge", 1.0,
        "Share of time in which at least one kernel ran.",
        "Says nothing about how much of the GPU that kernel used: one thread on one SM reads 100 %. Values above 1 "
        "have been seen and are noise.",
        _NVML, dcgm=203, dcgm_factor=_PERCENT, amd=OnAmd(
            "`gfx_activity_acc` over `accumulation_counter`, `average_gfx_activity` × 0.01",
            "A queue of the GPU had work, as its firmware counts it since the row before (without its counters: on average "
            "over a time that is nowhere told). How much of the GPU that used is not known: power against its limit is the "
            "nearest to it.",
        ),
    ),
    Metric(
        "memory_copy_utilization", "Memory copy utilization", "mcopy", RATIO, "gauge", 1.0,
        "Share of time in which device memory was being read or written.",
        "A share of time, not of bandwidth: dram_active is the one to compare with the peak.",
        _NVML, dcgm=204, dcgm_factor=_PERCENT,
    ),
    Metric(
        "gr_engine_active", "Graphics engine active", "gr", RATIO, "gauge", 1.0,
        "Share of time in which the graphics or compute engine had work.",
        "Close to gpu_utilization, measured by hardware counters; a busy engine may still leave most SMs idle.",
        _PROF, dcgm=1001, gpm=1, gpm_factor=_PERCENT,
    ),
    Metric(
        "sm_active", "SM active", "sm", RATIO, "gauge", 1.0,
        "Share of cycles in which an SM had at least one warp, averaged over all SMs.",
        "0.8 is necessary, not sufficient, for effective use; below 0.5 use is likely ineffective (NVIDIA's DCGM user "
        "guide). 0.2 may be a fifth of the SMs all the time or all SMs a fifth of the time. A warp that waits for memory "
        "counts as active. Can exceed 1 on MIG instances.",
        _PROF, dcgm=1002, gpm=2, gpm_factor=_PERCENT,
    ),
    Metric(
        "sm_occupancy", "SM occupancy", "occ", RATIO, "gauge", 1.0,
        "Resident warps as a share of the most an SM can hold, averaged over all SMs and time.",
        "Higher is better only for memory-bound work; tuned matrix kernels run at low occupancy on purpose.",
        _PROF, dcgm=1003, gpm=3, gpm_factor=_PERCENT,
    ),
    _pipe(
        "tensor_active", "Tensor pipe active", "tensor", 1004, 5, "any tensor pipe",
        "About 0.93 is what NVIDIA's own load generator reaches; 0.5 is a good training step.",
    ),
    _pipe(
        "tensor_hmma_active", "Tensor HMMA active", "hmma", 1014, 7, "the FP16/BF16 tensor pipe",
        "Part of tensor_active: never add the two.",
    ),
    _pipe(
        "tensor_imma_active", "Tensor IMMA active", "imma", 1013, 9, "the integer tensor pipe",
        "Part of tensor_active: never add the two.",
    ),
    _pipe(
        "tensor_dfma_active", "Tensor DFMA active", "dfma", 1015, 6, "the FP64 tensor pipe",
        "Part of tensor_active: never add the two.",
    ),
    _pipe(
        "fp64_active", "FP64 pipe active", "fp64", 1006, 11, "the FP64 pipe (tensor cores apart)",
        "The FP64 pipe is narrow on consumer and inference GPUs: a high share there is few FLOP/s.",
    ),
    _pipe(
        "fp32_active", "FP32 pipe active", "fp32", 1007, 12, "the FP32 pipe (tensor cores apart)",
        "Counts instructions issued, not useful arithmetic.",
    ),
    _pipe(
        "fp16_active", "FP16 pipe active", "fp16", 1008, 13, "the FP16 pipe (tensor cores apart)",
        "Mixed-precision training shows in tensor_active, not here.",
    ),
    _pipe(
        "integer_active", "Integer pipe active", "int", 1016, 4, "the integer pipe",
        "Address arithmetic counts: high values beside low floating point often mean index-heavy kernels.",
    ),
    Metric(
        "dram_active", "DRAM active", "dram", RATIO, "gauge", 1.0,
        "Share of cycles in which the device memory interface was sending or receiving data.",
        "The practical peak is about 0.8, not 1.",
        _PROF, dcgm=1005, gpm=10, gpm_factor=_PERCENT, amd=OnAmd(
            "`mem_activity_acc` over `accumulation_counter`, `average_umc_activity` × 0.01",
            "MI300 and newer only: the share of the memory's bandwidth that was used. What MI200 has under this name is a "
            "share of time, and is left out.",
        ),
    ),
    Metric(
        "pcie_tx_bytes", "PCIe sent", "pcie tx", "B/s", "rate", 64e9,
        "Bytes per second the GPU sent over PCIe, headers included.",
        "The GPU's view: sent means device to host. The axis is a Gen5 x16 link.",
        _PROF, dcgm=1009, gpm=20, gpm_factor=_MIB, integral=True,
    ),
    Metric(
        "pcie_rx_bytes", "PCIe received", "pcie rx", "B/s", "rate", 64e9,
        "Bytes per second the GPU received over PCIe, headers included.",
        "The GPU's view: received means host to device. The axis is a Gen5 x16 link.",
        _PROF, dcgm=1010, gpm=21, gpm_factor=_MIB, integral=True,
    ),
    Metric(
        "nvlink_tx_bytes", "NVLink sent", "nvl tx", "B/s", "rate", 450e9,
        "Bytes per second the GPU sent over all its NVLinks.",
        "Absent without NVLink. The axis is Hopper's 18 links in one direction.",
        _PROF, dcgm=1011, gpm=61, gpm_factor=_MIB, integral=True, amd=OnAmd(
            "`xgmi_write_data_acc` of all links × 1024",
            "MI300 and newer only: over xGMI to other GPUs, as this GPU sees it.",
        ),
    ),
    Metric(
        "nvlink_rx_bytes", "NVLink received", "nvl rx", "B/s", "rate", 450e9,
        "Bytes per second the GPU received over all its NVLinks.",
        "Absent without NVLink. The axis is Hopper's 18 links in one direction.",
        _PROF, dcgm=1012, gpm=60, gpm_factor=_MIB, integral=True, amd=OnAmd(
            "`xgmi_read_data_acc` of all links × 1024",
            "MI300 and newer only: over xGMI to other GPUs, as this GPU sees it.",
        ),
    ),
    Metric(
        "c2c_tx_bytes", "C2C sent", "c2c tx", "B/s", "rate", 450e9,
        "Bytes per second the GPU sent to its Grace CPU over NVLink-C2C.",
        "Only Grace-Hopper and Grace-Blackwell have it; there it carries what PCIe carries elsewhere.",
        _PROF, dcgm=1076, gpm=100, gpm_factor=_MIB, integral=True,
    ),
    Metric(
        "c2c_rx_bytes", "C2C received", "c2c rx", "B/s", "rate", 450e9,
        "Bytes per second the GPU received from its Grace CPU over NVLink-C2C.",
        "Only Grace-Hopper and Grace-Blackwell have it; there it carries what PCIe carries elsewhere.",
        _PROF, dcgm=1078, gpm=101, gpm_factor=_MIB, integral=True,
    ),
    Metric(
        "power_usage", "Power", "power", "W", "gauge", "power_limit",
        "Power the board draws.",
        "A one-second mean on Ampere and newer (GA100 excepted): shorter bursts don't show.",
        _FIELD, dcgm=155, amd=OnAmd(
            "`curr_socket_power`, `average_socket_power`; on Cray EX `pm_counters/accel*_power`",
            "Of the whole socket: on MI250X of both dies, told of the first, unknown of the second; on MI300A with the CPU.",
        ),
    ),
    Metric(
        "energy", "Energy counter", "energy", "J", "counter", 0.0,
        "Energy the GPU has used since its driver was loaded, as the device counts it.",
        "Only differences mean something; a driver reload starts it at 0 again.",
        _FIELD, dcgm=156, dcgm_factor=0.001, amd=OnAmd(
            "`energy_accumulator` × 2^-16; on Cray EX `pm_counters/accel*_energy`", "Of the whole socket, as power is.",
        ),
    ),
    Metric(
        "temperature", "Temperature", "temp", "°C", "gauge", 100.0,
        "Temperature of the GPU die.",
        "Clocks are reduced near the limit (93 °C on A100, 95 °C on H100 and H200): see clock_event_reasons.",
        _FIELD, dcgm=150, integral=True, amd=OnAmd(
            "`temperature_hotspot`",
            "Of the hottest place of the die: clocks are reduced near 100 °C (MI210, MI300A), as clock_event_reasons tells.",
        ),
    ),
    Metric(
        "memory_temperature", "Memory temperature", "mtemp", "°C", "gauge", 100.0,
        "Temperature of the device memory.",
        "Absent on boards without the sensor.",
        _FIELD, dcgm=140, integral=True, amd=OnAmd("`temperature_mem`"),
    ),
    Metric(
        "sm_clock", "SM clock", "clock", "MHz", "gauge", "max_sm_clock",
        "Clock of the SMs.",
        "A low clock with idle SMs is power saving, not a fault.",
        _FIELD, dcgm=100, integral=True, amd=OnAmd(
            "`current_gfxclk`", "Of the compute units (gfxclk): the mean of the dies (XCDs) that have one.",
        ),
    ),
    Metric(
        "memory_used", "Memory used", "mem", "B", "gauge", "memory_total",
        "Device memory in use by all processes.",
        "Frameworks reserve memory ahead: used is not needed.",
        _FIELD, dcgm=252, dcgm_factor=_MIB, integral=True, amd=OnAmd(
            "`mem_info_vram_used`; on MI300A with `mem_info_gtt_used`",
            "On MI300A it is memory that the CPU shares.",
        ),
    ),
    Metric(
        "clock_event_reasons", "Clock event reasons", "reasons", "bits", "bits", 0.0,
        "Why the clocks are where they are: see CLOCK_EVENT_REASONS.",
        "A state at the sample's time: an event between two samples is not seen.",
        _FIELD, dcgm=112, integral=True, amd=OnAmd(
            "`ppt_`, `socket_thm_`, `hbm_thm_`, `vr_thm_`, `prochot_residency_acc`, `indep_throttle_status`",
            "On MI300 and newer all that happened since the row before: nothing is missed, and a busy GPU's power limit may "
            "show in most rows. On MI200 a state at the sample's time. There are sw_power_cap, sw_thermal and hw_thermal.",
        ),
    ),
)  # fmt: skip

FLOP_ACTIVE = Metric(
    "flop_active", "FLOP active", "flop", RATIO, "gauge", 1.0,
    "Sum of the FP64, FP32, FP16 and tensor pipes' activities: the arithmetic input of the score.",
    "Pipes run side by side, so the sum can exceed 1. Unknown when one of its parts is.",
    "published GSSR score", parts=("fp64_active", "fp32_active", "fp16_active", "tensor_active"),
)  # fmt: skip

DERIVED: tuple[Metric, ...] = (FLOP_ACTIVE,)


def _share(name: str, label: str, short: str, meaning: str) -> Metric:
    return Metric(name, label, short, RATIO, "gauge", 1.0, meaning, "", "trace")


TRACE_METRICS: tuple[Metric, ...] = (
    _share("busy", "Busy", "busy", "Share of time in which a kernel, a copy or a set ran; of threads, anything."),
    _share("compute", "Compute", "compute", "Share of time in which a kernel that computes ran."),
    _share("communication", "All communication", "comm", "Share of time in which a communicating kernel ran, alone or not."),
    _share("exposed_communication", "Exposed communication", "exp.comm", "Communication while nothing was computed."),
    _share("overlap", "Overlap", "overlap", "Share of the communication that lies under computation."),
    _share("copy", "All copies", "copy", "Share of time in which memory was copied or set."),
    _share("exposed_copy", "Exposed copies", "exp.copy", "Copies while nothing was computed or communicated."),
    _share("waiting", "Waiting", "wait", "Share of time in which a stream or a thread waited for another."),
    _share("working", "Work", "work", "Share of time in which a thread did anything but communicate and wait."),
    _share("api", "API", "api", "Share of time in calls of the GPU's interface."),
    _share("ranges", "Ranges", "ranges", "Share of time in named ranges, and in nothing within them."),
    _share("io", "I/O", "io", "Share of time in reading and writing, and in loading data."),
    _share("other", "Other", "other", "Share of time in all else."),
    _share("idle", "Idle", "idle", "Share of time in which nothing ran."),
    Metric("launches", "Launches", "launch", "1/s", "gauge", 0.0, "Calls a second that gave a GPU work.", "", "trace"),
)  # fmt: skip
"""What is computed of a trace in place of samples: shares of its time, by GPU, stream or thread, and launches."""
OF_TRACES: dict[str, Metric] = {metric.name: metric for metric in TRACE_METRICS}
OF_NAME, OF_COUNTER = "name:", "counter:"
"""How metrics begin that are the time under one name, and a counter of a trace: ``counter:unit:name``."""
OF_OWN = "own:"
"""How metrics of one's own begin (gssr.model.custom_metrics): ``own:unit:name=...``."""

OF_HOST = "host:"
"""How metrics of the nodes begin."""


def _rate(column: str, label: str, short: str, meaning: str) -> Metric:
    return Metric(OF_HOST + column, label, short, "B/s of a node", "rate", 0.0, meaning, "", "/proc and /sys")


HOST_METRICS: tuple[Metric, ...] = (
    Metric(
        "host:cpu_utilization", "Node CPU", "cpu", RATIO, "gauge", 1.0,
        "Share of all cores of the node that was busy.", "One busy core of 64 is 1.6 %.", "/proc/stat",
    ),
    Metric(
        "host:memory_used", "Node memory", "ram", RATIO, "gauge", 1.0,
        "Share of the node's memory in use.", "", "/proc/meminfo",
    ),
    _rate("read_bytes", "Disk read", "disk rd", "Read from the node's local disks."),
    _rate("write_bytes", "Disk written", "disk wr", "Written to the node's local disks."),
    _rate("net_rx_bytes", "Network received", "net rx", "Received over the node's network, loopback apart."),
    _rate("net_tx_bytes", "Network sent", "net tx", "Sent over the node's network, loopback apart."),
    _rate("fabric_rx_bytes", "Fabric received", "fab rx", "Received over InfiniBand, RoCE or Slingshot."),
    _rate("fabric_tx_bytes", "Fabric sent", "fab tx", "Sent over InfiniBand, RoCE or Slingshot."),
)  # fmt: skip
"""What nodes do, as screens show it: ``host:`` and a column of ``host_samples``; the memory as a share of what there is."""
OF_NODES: dict[str, Metric] = {metric.name: metric for metric in HOST_METRICS}

NAMES: tuple[str, ...] = tuple(metric.name for metric in METRICS)
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS + DERIVED}
FIRST_PLACE = 2
"""Where the values begin in the row of a sample: after the GPU and the time."""
PLACES: dict[str, int] = {name: place for place, name in enumerate(NAMES, FIRST_PLACE)}
"""Where in the row of a sample the value of each metric stands; in the catalogue's order."""

DETECTION_METRICS = ("sm_active", "gr_engine_active", "gpu_utilization")
"""What tells work from waiting, best first: the first one that was measured is used."""
_NEXT_BEST = ("tensor_active", "dram_active", "memory_copy_utilization", "power_usage", "memory_used")
"""What says most of a GPU's use where none of them was measured."""

SCORE_INPUTS: tuple[str, ...] = ("sm_active", "sm_occupancy", *FLOP_ACTIVE.parts)

CLOCK_EVENT_REASONS: tuple[tuple[int, str, str], ...] = (
    (0x001, "idle", "nothing to run: the GPU saves power"),
    (0x002, "setting", "an application or user clock setting"),
    (0x004, "sw_power_cap", "the power limit holds the clocks down"),
    (0x008, "hw_slowdown", "hardware slowdown: temperature, power brake or power supply"),
    (0x010, "sync_boost", "the slowest GPU of a sync-boost group"),
    (0x020, "sw_thermal", "the driver lowers clocks to keep the temperature"),
    (0x040, "hw_thermal", "hardware lowers clocks: too hot"),
    (0x080, "power_brake", "an external power brake"),
    (0x100, "display", "a display clock setting"),
)
"""(bit, name, meaning) of each flag in ``clock_event_reasons``; source: NVIDIA NVML API reference."""

THROTTLES: tuple[str, ...] = ("sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
"""Those of them that slow down a GPU that has work."""
HELD_DOWN = THROTTLES[1:]
"""Those of these that are no part of its ordinary work: the power limit holds down every busy GPU now and then."""


def best_measured(measured: Container[str], asked: Iterable[str] = ()) -> str | None:
    """Return the metric that says best how much a GPU was used, of those that are ``measured``: the best of
    DETECTION_METRICS, else the first of the ``asked`` ones, else the next best. None if nothing is measured."""
    return next(
        (name for name in (*DETECTION_METRICS, *asked, *_NEXT_BEST, *BY_NAME, *OF_NODES) if name in measured), None
    )


def metric_named(name: str) -> Metric | None:
    """Return the metric of this name, of a recording, its nodes, a trace, or a user's own definition. None if there is
    none."""
    if name.startswith(OF_NAME):
        text = name.removeprefix(OF_NAME)
        return Metric(name, text, text, RATIO, "gauge", 1.0, "Share of time under this name.", "", "trace")
    if name.startswith(OF_COUNTER):
        unit, _, text = name.removeprefix(OF_COUNTER).partition(":")
        return Metric(name, text, text, unit, "gauge", 0.0, "A counter of the trace.", "", "trace")
    if name.startswith(OF_OWN):
        unit, _, text = name.removeprefix(OF_OWN).partition(":")
        short, _, meaning = text.partition("=")
        return Metric(name, short, short, unit, "gauge", 1.0 if unit == RATIO else 0.0, meaning, "", "trace")
    return BY_NAME.get(name) or OF_TRACES.get(name) or OF_NODES.get(name)


def select(names: str) -> tuple[Metric, ...]:
    """Return the metrics in a comma-separated list, in the catalogue's order, each once. Raises ValueError, with a
    sentence that lists similar or all names, if one is unknown or none is given."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ValueError("no metric named; known: " + ", ".join(BY_NAME))
    for name in wanted:
        if name not in BY_NAME:
            raise ValueError(f"unknown metric {name!r}{did_you_mean_or_list(meant(name, BY_NAME), 'known:', BY_NAME)}")
    return tuple(metric for metric in METRICS + DERIVED if metric.name in wanted)
