"""The scenarios: what a job asks of its GPUs, as tables. What the GPUs make of it is in ``gpu``.

A job is a steady state (``base``) and phases that replace it for a while. Phases of one scenario never overlap, so that
the energy up to any moment is a sum: that is what makes the counter exact at any time without stepping through the
time before.

The arithmetic scenarios are written in: once, for one number and for arrays alike.

Everything here and in the modules that use it is built from +, -, *, /, % 1, floor, comparison and choice, which IEEE 754
rounds exactly: evaluated on numbers (live) and on arrays (in bulk), a scenario gives the same bits. That is why there
is no sine. Functions are typed for numbers; arrays of float64 pass through the same code.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from gssr.metrics import METRICS

FOREVER = 1e9
"""Seconds: longer than any recording."""


class Ops(NamedTuple):
    """The operations that numbers and arrays spell differently."""

    floor: Callable[[float], float]
    minimum: Callable[[float, float], float]
    maximum: Callable[[float, float], float]
    where: Callable[[bool, float, float], float]
    some: Callable[[float], bool]
    """Whether any is not 0. What is left out where none is must not change a bit of an array in which some are."""


def _minimum(a: float, b: float) -> float:
    return a if a < b else b


def _maximum(a: float, b: float) -> float:
    return a if a > b else b


def _where(condition: bool, a: float, b: float) -> float:
    return a if condition else b


SCALARS = Ops(math.floor, _minimum, _maximum, _where, bool)


def wave(cycles: float) -> float:
    """A wave of period 1 between -1 and 1: two parabolas, which nobody can tell from a sine."""
    x = 2.0 * (cycles % 1.0) - 1.0
    return 4.0 * x * (1.0 - abs(x))


def white(time: float, phase: float) -> float:
    """Make a number in [0, 1) that says nothing about its neighbours in ``time`` (s) or ``phase`` (0-1, one per GPU and
    seed). For more such numbers for the same sample: ``white * n % 1.0`` for different whole numbers n."""
    x = (time * 7919.7719 + phase) % 1.0
    x = (x + 0.71) * (x + 17.17) * 5113.37 % 1.0
    return (x + 0.29) * (x + 31.13) * 9173.59 % 1.0


class Pulse(NamedTuple):
    """A phase that comes and goes: from ``start``, for ``width`` seconds, again every ``period`` seconds, with edges
    ``edge`` seconds long inside the width. ``width`` is at least twice ``edge`` and less than ``period``."""

    start: float
    width: float
    period: float = FOREVER
    edge: float = 0.1

    def _place(self, ops: Ops, time: float) -> tuple[float, float]:
        """Count how often the pulse had begun again by ``time``, and the seconds since it last began; 0 and 0 before
        the first."""
        start, _, period, _ = self
        since = ops.maximum(time - start, 0.0)
        periods = ops.floor(since / period)
        return periods, since - periods * period

    def on(self, ops: Ops, time: float) -> bool:
        """Tell whether the pulse is on at ``time``, edges included."""
        return (time >= self.start) & (self._place(ops, time)[1] < self.width)

    def weight(self, ops: Ops, time: float) -> float:
        """Compute how far the phase is on at ``time``, 0-1."""
        _, width, _, edge = self
        _, within = self._place(ops, time)
        if not ops.some(within < width):
            return 0.0
        rise = ops.minimum(within, edge)
        fall = ops.minimum(ops.maximum(within - (width - edge), 0.0), edge)
        return ops.where(within < width, (rise - fall) / edge, 0.0)

    def integral(self, ops: Ops, time: float) -> float:
        """Compute how many seconds the phase was on up to ``time``: the integral of ``weight``."""
        _, width, _, edge = self
        periods, within = self._place(ops, time)
        whole = width - edge
        if not ops.some(within < width):
            return periods * whole + whole
        falling = ops.maximum(within - whole, 0.0)
        rise, fall = ops.minimum(within, edge), ops.minimum(falling, edge)
        # Either edge ramps up over ``edge`` seconds: rise^2 / 2 edge inside it, time - edge / 2 after it.
        edges = (rise - fall) * ((rise + fall) / (2.0 * edge) - 1.0)
        return periods * whole + ops.where(within < width, edges + within - falling, whole)


def digest(text: str) -> int:
    """Hash a text to 128 bits that depend on every character and are the same in every process (FNV-1a, with a final
    mix so that texts that differ in their last character differ everywhere)."""
    mask = (1 << 128) - 1
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in text.encode():
        value = (value ^ byte) * 0x0000000001000000000000000000013B & mask
    for _ in range(2):
        value = (value ^ value >> 67) * 0x9E3779B97F4A7C15F39CC0605CEDC835 & mask
    return value ^ value >> 61


def fractions(text: str) -> tuple[float, float, float, float]:
    """Make four independent numbers in [0, 1) that depend on ``text`` alone."""
    bits = digest(text)
    a, b, c, d = ((bits >> shift & 0xFFFFFFFF) / 0x100000000 for shift in (0, 32, 64, 96))
    return a, b, c, d


_GB = 1e9


class LoadLevel(NamedTuple):
    """What a GPU does in one phase: ratios as in the catalogue, rates in bytes per second, power in W, clock in MHz.

    Pipes and occupancy stay below 0.85 of ``sm``, and ``sm`` below ``gr``, so that noise can't turn them round."""

    gr: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    integer: float = 0.0
    dram: float = 0.0
    pcie_tx: float = 0.0
    pcie_rx: float = 0.0
    nvlink: float = 0.0
    power: float = 71.0
    clock: float = 1980.0


class Hole(NamedTuple):
    """Missing data: while ``pulse`` is on, the GPUs whose position leaves ``remainder`` on division by ``modulus`` lack
    ``metrics``, or have no rows at all where ``metrics`` is empty. ``lost``: the backend reports them lost and back."""

    pulse: Pulse
    modulus: int
    remainder: int
    metrics: tuple[str, ...] = ()
    lost: bool = False


class Scenario(NamedTuple):
    """One scenario. ``phases`` are levels with the times at which they hold; ``share(position, n)`` is the work of a GPU
    among n, 1 for all of it; ``memory`` lists (s, GiB) steps of the memory in use; ``ripple`` is the (period in s,
    amplitude) of the steady state's own steps. ``stretches``: its times are for a job of LENGTH seconds and scale with the
    length of the recording where that is known."""

    description: str
    features: str
    base: LoadLevel
    phases: tuple[tuple[LoadLevel, tuple[Pulse, ...]], ...]
    memory: tuple[tuple[float, float], ...]
    share: Callable[[int, int], float]
    ripple: tuple[float, float] = (1.0, 0.0)
    holes: tuple[Hole, ...] = ()
    stretches: bool = False


LENGTH = 20.0
"""Seconds a job takes when nobody says how long: scenarios with an end have it then."""


def _all_equal(position: int, n: int) -> float:  # noqa: ARG001
    return 1.0


def _one_straggler(position: int, n: int) -> float:
    return 0.78 if n > 1 and position == n * 7 // 10 else 1.0


def _ever_less(position: int, n: int) -> float:
    return 1.0 - 0.5 * position / max(n - 1, 1)


_LOADING_LIBRARIES = LoadLevel(
    gr=0.06, sm=0.03, occupancy=0.01, fp32=0.004, integer=0.006, dram=0.02, pcie_tx=0.05 * _GB, pcie_rx=2.4 * _GB,
    power=128.0,
)  # fmt: skip
_IDLE = LoadLevel(clock=345.0)

_TRAINING_STEP = LoadLevel(
    gr=0.985, sm=0.90, occupancy=0.31, tensor=0.56, fp32=0.12, fp16=0.03, integer=0.16, dram=0.46,
    pcie_tx=0.35 * _GB, pcie_rx=1.9 * _GB, nvlink=88 * _GB, power=666.0,
)  # fmt: skip
_WAITING_FOR_DATA = LoadLevel(
    gr=0.34, sm=0.22, occupancy=0.07, tensor=0.09, fp32=0.03, fp16=0.006, integer=0.04, dram=0.11,
    pcie_tx=0.12 * _GB, pcie_rx=5.2 * _GB, nvlink=6 * _GB, power=275.0,
)  # fmt: skip
_CHECKPOINT = LoadLevel(
    gr=0.05, sm=0.02, occupancy=0.004, fp32=0.002, integer=0.003, dram=0.05, pcie_tx=13 * _GB, pcie_rx=0.2 * _GB,
    power=142.0,
)  # fmt: skip
_TRAINING_START = (_LOADING_LIBRARIES, (Pulse(-1.0, 3.9),))
_TRAINING_MEMORY = ((0.4, 0.6), (1.1, 13.4), (1.9, 27.0), (2.6, 20.5), (4.0, 7.5))
_TRAINING_PHASES = (
    _TRAINING_START,
    (_WAITING_FOR_DATA, (Pulse(4.14, 0.5, 30 / 7),)),  # out of step with samples, 42 from checkpoint to checkpoint
    (_CHECKPOINT, (Pulse(13.4, 1.9), Pulse(180.4, 3.7, 180.0))),
)

_STENCIL_SWEEP = LoadLevel(
    gr=0.99, sm=0.96, occupancy=0.71, fp64=0.21, fp32=0.06, integer=0.19, dram=0.78,
    pcie_tx=0.2 * _GB, pcie_rx=0.2 * _GB, nvlink=24 * _GB, power=468.0,
)  # fmt: skip
_STENCIL_OUTPUT = LoadLevel(
    gr=0.22, sm=0.14, occupancy=0.08, fp64=0.01, fp32=0.01, integer=0.02, dram=0.14, pcie_tx=19 * _GB,
    pcie_rx=0.3 * _GB, power=176.0,
)  # fmt: skip

_SOLVER = LoadLevel(
    gr=0.95, sm=0.84, occupancy=0.42, fp64=0.30, fp32=0.05, integer=0.14, dram=0.41,
    pcie_tx=1.1 * _GB, pcie_rx=1.1 * _GB, nvlink=31 * _GB, power=540.0,
)  # fmt: skip
_EXCHANGE = LoadLevel(
    gr=0.30, sm=0.16, occupancy=0.06, fp64=0.02, fp32=0.01, integer=0.03, dram=0.12,
    pcie_tx=4 * _GB, pcie_rx=4 * _GB, nvlink=110 * _GB, power=230.0,
)  # fmt: skip

_PROFILING = tuple(metric.name for metric in METRICS if metric.dcgm is not None and 1001 <= metric.dcgm <= 1099)

SCENARIOS: dict[str, Scenario] = {
    "train": Scenario(
        "a training run: tensor-heavy, NVLink busy, waits for data every few seconds, checkpoints, one GPU that does less",
        "start-up 3 s; a wait of 0.5 s every 4.3 s; checkpoints at 13.4 s (1.9 s long), 180 s, 360 s ... (3.7 s)",
        _TRAINING_STEP,
        _TRAINING_PHASES,
        _TRAINING_MEMORY,
        _one_straggler,
        (0.83, 0.05),
    ),
    "stencil": Scenario(
        "a memory-bound stencil code: DRAM near its practical peak, FP64, no tensor cores, high occupancy",
        "start-up 2 s; output of 0.8 s every 10 s",
        _STENCIL_SWEEP,
        ((_LOADING_LIBRARIES, (Pulse(-1.0, 3.0),)), (_STENCIL_OUTPUT, (Pulse(10.0, 0.8, 10.0),))),
        ((0.3, 0.6), (1.2, 41.0)),
        _all_equal,
        (2.3, 0.02),
    ),
    "idle": Scenario(
        "a job that holds its GPUs and does nothing with them",
        "memory is taken after 1 s; nothing else happens",
        _IDLE,
        (),
        ((1.0, 0.6),),
        _all_equal,
    ),
    "imbalanced": Scenario(
        "a solver whose GPUs get linearly less work, the last one half of the first one's",
        "start-up 2 s; an exchange of 0.6 s every 5 s",
        _SOLVER,
        ((_LOADING_LIBRARIES, (Pulse(-1.0, 3.0),)), (_EXCHANGE, (Pulse(5.0, 0.6, 5.0),))),
        ((0.3, 0.6), (1.4, 33.0)),
        _ever_less,
        (1.7, 0.03),
    ),
    "gaps": Scenario(
        "a training run with missing data, not pauses: missing rows, missing values, a GPU that is lost and comes back",
        "every 60 s: even GPUs no rows 5-6.5 s, every 4th no profiling values 8-10 s, another 4th lost 11-15 s",
        _TRAINING_STEP,
        _TRAINING_PHASES,
        _TRAINING_MEMORY,
        _one_straggler,
        (0.83, 0.05),
        (
            Hole(Pulse(-1.0, 1.25), 1, 0, _PROFILING),
            Hole(Pulse(5.0, 1.5, 60.0), 2, 0),
            Hole(Pulse(8.0, 2.0, 60.0), 4, 0, _PROFILING),
            Hole(Pulse(11.0, 4.0, 60.0), 4, 1, lost=True),
            Hole(Pulse(-1.0, FOREVER / 2), 4, 3, ("memory_temperature",)),
        ),
    ),
    "startup": Scenario(
        "a long start-up, then steady work, then a tear-down in which nothing runs",
        "of a job of 20 s, or of the whole recording in bulk: the first fifth is start-up, the last fifth tear-down",
        _SOLVER,
        ((_LOADING_LIBRARIES, (Pulse(-1.0, 5.0),)), (_IDLE, (Pulse(16.0, FOREVER / 2),))),
        ((0.4, 0.6), (2.0, 21.0), (3.5, 9.0), (16.5, -24.0), (18.0, -6.0)),
        _all_equal,
        (1.7, 0.03),
        stretches=True,
    ),
}  # fmt: skip
DEFAULT_SCENARIO = "train"
