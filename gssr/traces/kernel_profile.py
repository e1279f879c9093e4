"""Launches of kernels as Nsight Compute has measured them, whichever of its files they are from.

A file names the same figure in two ways: by its metric (``sm__throughput.avg.pct_of_peak_sustained_elapsed``) in reports and
on the page "raw", by its label (``Compute (SM) Throughput``) on the page "details". Metric names here are either; a label
whose unit is % ends in " %", as "Memory Throughput" is both a share and a rate.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

Dim3 = tuple[int, int, int]
Values = Mapping[str, float]
"""By metric or label, in %, s, bytes, Hz and their quotients."""
AdviceKind = Literal["optimization", "warning", "error", "information"]

MOST_LAUNCHES = 100_000
"""Of a file. Each takes minutes of replaying on the GPU per thousand: nobody profiles as many."""
_MOST_SIDE = 1 << 31
"""Blocks or threads along one side: CUDA's limit."""


class RuleAdvice(NamedTuple):
    """What a rule of Nsight Compute says of a launch. ``speedup``: what it estimates to be won, % of the launch's duration
    if ``speedup_is_global``, else of the part that the rule is about; None where it estimates nothing."""

    rule: str
    kind: AdviceKind
    text: str
    speedup: float | None = None
    speedup_is_global: bool = False


class Work(NamedTuple):
    """Floating-point operations of one precision on the ordinary cores; those of tensor cores are not in it. ``rate``:
    FLOP/s, ``peak``: of the GPU, None if unknown."""

    precision: str
    rate: float
    peak: float | None


@dataclass(frozen=True)
class ProfiledLaunch:
    """A launch of a kernel, or ``launches`` of it in the mean. ``number`` is the file's own. None is unknown.

    ``duration_ns``; throughputs and occupancies in % of the GPU's peak; ``dram_rate``, ``dram_peak``: bytes/s. ``stalls``
    by falling share, empty unless all reasons were measured together.
    """

    path: str
    number: str
    name: str
    device: str
    grid: Dim3 | None
    block: Dim3 | None
    launches: int
    duration_ns: float | None
    sm_throughput: float | None
    memory_throughput: float | None
    dram_throughput: float | None
    achieved_occupancy: float | None
    theoretical_occupancy: float | None
    registers: float | None
    waves: float | None
    dram_rate: float | None
    dram_peak: float | None
    work: tuple[Work, ...]
    stalls: Mapping[str, float]
    advice: tuple[RuleAdvice, ...]


_FIGURES: dict[str, tuple[str, ...]] = {
    "duration": ("gpu__time_duration.sum", "Duration"),
    "sm": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput %", "SM [%] %", "SOL SM %"),
    "memory": (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory Throughput %", "Memory [%] %", "SOL Memory %",
    ),
    "dram": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "DRAM Throughput %",
    ),
    "achieved": ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy %"),
    "theoretical": ("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy %"),
    "registers": ("launch__registers_per_thread", "Registers Per Thread"),
    "waves": ("launch__waves_per_multiprocessor", "Waves Per SM"),
    "dram rate": ("dram__bytes.sum.per_second", "DRAM Bandwidth"),
    "dram bytes": ("dram__bytes.sum",),
    "dram read": ("dram__bytes_read.sum",),
    "dram written": ("dram__bytes_write.sum",),
    "dram peak": ("dram__bytes.sum.peak_sustained", "Theoretical DRAM Bytes Accessible"),
    "dram clock": ("dram__cycles_elapsed.avg.per_second", "DRAM Frequency"),
    "clock": ("smsp__cycles_elapsed.avg.per_second",),
    "peak clock": ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second"),
    "grid x": ("launch__grid_dim_x",), "grid y": ("launch__grid_dim_y",), "grid z": ("launch__grid_dim_z",),
    "block x": ("launch__block_dim_x",), "block y": ("launch__block_dim_y",), "block z": ("launch__block_dim_z",),
}  # fmt: skip
"""What each figure is called: the first of these names that a file has counts."""
_PRECISIONS = (("FP32", "f", "Single"), ("FP64", "d", "Double"), ("FP16", "h", "Half"))
"""Its name, the letter in names of instructions, and its name in labels."""


def _work_names(letter: str, title: str) -> dict[str, tuple[str, ...]]:
    """Name what the roofline of a precision is made of: rates per cycle, sums, and the peak per cycle; ``fma`` counts
    instructions, ``fma2`` operations, of which each does two."""
    upper, found = letter.upper(), dict[str, tuple[str, ...]]()
    for name in ("add", "mul", "fma"):
        metric = f"sass_thread_inst_executed_op_{letter}{name}_pred_on"
        label = f"Predicated-On {upper}{name.upper()} Thread Instructions Executed Per Cycle"
        found[f"{name} rate"] = (f"smsp__{metric}.sum.per_cycle_elapsed", label)
        found[f"{name} sum"] = (f"smsp__{metric}.sum", f"sm__{metric}.sum")
    own = f"sass_thread_inst_executed_op_{letter}fma_pred_on"
    found["fma2 rate"] = (f"derived__smsp__{own}_x2", f"Predicated-On {upper}FMA Operations Per Cycle")
    found["peak2"] = (f"derived__sm__{own}_x2", f"Theoretical Predicated-On {upper}FMA Operations")
    found["peak"] = (
        f"sm__{own}.sum.peak_sustained",
        f"Theoretical Predicated-On {upper}FMA Thread Instructions Executed",
    )
    found["clock"] = (f"{title} Precision Achieved Value: SM Frequency", *_FIGURES["clock"])
    found["peak clock"] = (f"{title} Precision Roofline: SM Frequency", *_FIGURES["peak clock"])
    return found


_WORK = {name: _work_names(letter, title) for name, letter, title in _PRECISIONS}
_STALLS = (
    re.compile(r"smsp__average_warps_issue_stalled_(\w{1,40})_per_issue_active\.ratio"),
    re.compile(r"smsp__average_warp_latency_issue_stalled_(\w{1,40})\.ratio"),
    re.compile(r"smsp__pcsamp_warps_issue_stalled_(?!\w{1,40}_not_issued$)(\w{1,40})"),
    re.compile(r"Stall ([\w /]{1,40})|(Selected)"),
)
"""Ways to say for how long warps were in each state: cycles for an instruction, samples, labels. Of the first that a file
has, the sum of all states is what a share is of."""
_ISSUED = "selected"
"""The state in which a warp issues. Where it was measured, all others were as well, as they are one group of metrics."""
_KNOWN = frozenset(name for table in (_FIGURES, *_WORK.values()) for names in table.values() for name in names)
_WITH_UNIT = frozenset(
    name for key, names in _FIGURES.items() if key == "duration" or "dram " in key or "clock" in key for name in names
)
_UNIT = re.compile(
    r"([numkKMGTP]?)(bytes?|seconds?|s|hz|cycles?)(?:/(?:cycles?|([num]?)(?:seconds?|s)))?", re.IGNORECASE
)
_SIZES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_NUMBER = re.compile(
    r"(-?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?)(?: \(.*)?", re.DOTALL
)
_LINK = re.compile(r"@(?:url:([^@:]*)|\w{1,20}:(?:[^@:]*:){1,2}([^@]*))(?::[^@]*)?@")
"""A link in the text of a rule: what it is shown as is before the address, or at the end."""


@lru_cache(maxsize=4096)
def is_known(metric: str) -> bool:
    """Tell whether a metric is one that a launch's figures are made of."""
    return metric in _KNOWN or any(pattern.fullmatch(metric) for pattern in _STALLS)


def measured(metric: str, value: float, unit: str) -> tuple[str, float] | None:
    """Convert a figure that a file names to a key and value for Values: a metric or label as it is, but a label in %
    with " %" added; the value in base units (seconds, bytes, Hz), or in %. None if no figure of a launch is made of it,
    or its unit does not tell how much it is."""
    key = f"{metric} %" if unit == "%" and " " in metric else metric
    if not is_known(key):
        return None
    found = _UNIT.fullmatch(unit)
    if found is None:
        return None if key in _WITH_UNIT else (key, value)
    prefix = found[1] if found[1] in _SIZES else found[1].lower()
    return key, value * _SIZES[prefix] / _SIZES[(found[3] or "").lower()]


def number_of(text: str) -> float | None:
    """Read a number as Nsight Compute writes it, such as 1,205.00, or with those of its instances in brackets behind it.
    None for anything else: n/a, nan, or a comma before other than three digits."""
    found = _NUMBER.fullmatch(text.strip())
    value = float(found[1].replace(",", "")) if found else math.nan
    return value if math.isfinite(value) else None


def plain_advice(text: str) -> str:
    """Return the text of a rule without the markup of its links."""
    return " ".join(_LINK.sub(lambda link: link[1] or link[2] or "", text).split())


def dim3(sides: Iterable[float | None]) -> Dim3 | None:
    """Return the sides of a grid or block as whole numbers; None if one is unknown or can't be."""
    found = [int(side) for side in sides if side is not None and 1 <= side <= _MOST_SIDE]
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def make_launch(
    path: str, number: str, name: str, device: str, values: Values, advice: Iterable[RuleAdvice] = (),
    grid: Dim3 | None = None, block: Dim3 | None = None, launches: int = 1,
) -> ProfiledLaunch:  # fmt: skip
    """Make a launch of what was measured of it.

    Args:
        path, number, name, device: As in ProfiledLaunch.
        values: By key, as ``measured`` gives them; figures that are not there are None in the launch.
        advice: What rules say of it.
        grid, block: Those that stand beside the metrics; None: they are looked for in ``values``.
        launches: How many launches ``values`` are the mean of.
    """

    def figure(key: str) -> float | None:
        return _first(values, _FIGURES[key])

    seconds = figure("duration")
    moved = (figure("dram bytes"), figure("dram read"), figure("dram written"))
    return ProfiledLaunch(
        path=path, number=number, name=name, device=device,
        grid=grid or dim3(figure(f"grid {side}") for side in "xyz"),
        block=block or dim3(figure(f"block {side}") for side in "xyz"),
        launches=launches, duration_ns=None if seconds is None else round(seconds * 1e9, 3),
        sm_throughput=figure("sm"), memory_throughput=figure("memory"), dram_throughput=figure("dram"),
        achieved_occupancy=figure("achieved"), theoretical_occupancy=figure("theoretical"),
        registers=figure("registers"), waves=figure("waves"), dram_rate=_dram_rate(figure("dram rate"), *moved, seconds),
        dram_peak=_product(figure("dram peak"), figure("dram clock")),
        work=tuple(work for precision in _WORK if (work := _work_of(precision, values, seconds)) is not None),
        stalls=_stalls(values), advice=tuple(advice),
    )  # fmt: skip


def _first(values: Values, names: Iterable[str]) -> float | None:
    return next((values[name] for name in names if name in values), None)


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _dram_rate(
    rate: float | None, moved: float | None, read: float | None, written: float | None, seconds: float | None
) -> float | None:
    """Return the bytes/s of device memory: ``rate`` as measured, else the bytes that were ``moved``, or read and
    written, by the duration (``seconds``). None if neither is known."""
    if moved is None and read is not None and written is not None:
        moved = read + written
    return rate if rate is not None else moved / seconds if moved is not None and seconds else None


def _work_of(precision: str, values: Values, seconds: float | None) -> Work | None:
    """Compute the floating-point operations per second of a precision: the operations per cycle by the clock, else
    their sum by the duration (``seconds``). None unless additions, multiplications and fused ones were all counted."""
    names = _WORK[precision]

    def figure(key: str) -> float | None:
        return _first(values, names[key])

    def doubled(key: str, twice: str) -> float | None:
        own = figure(twice)
        return own if own is not None else _product(2.0, figure(key))

    rates = [figure("add rate"), figure("mul rate"), doubled("fma rate", "fma2 rate")]
    sums = [figure("add sum"), figure("mul sum"), _product(2.0, figure("fma sum"))]
    peak = _product(doubled("peak", "peak2"), figure("peak clock"))
    clock = figure("clock")
    if None not in rates and clock is not None:
        return Work(precision, sum(each or 0.0 for each in rates) * clock, peak)
    if None not in sums and seconds:
        return Work(precision, sum(each or 0.0 for each in sums) / seconds, peak)
    return None


def _stalls(values: Values) -> dict[str, float]:
    """Return the reasons for which warps did not issue, each with its share (0-1) of the cycles that warps were active, the
    most frequent first; {} unless all reasons were measured."""
    for pattern in _STALLS:
        found = {
            told[told.lastindex or 0].lower().replace("_", " "): value
            for name, value in values.items()
            if (told := pattern.fullmatch(name)) and value >= 0
        }
        total = sum(found.values())
        if _ISSUED in found and total > 0:
            stalls = ((reason, value / total) for reason, value in found.items() if reason != _ISSUED and value > 0)
            return dict(sorted(stalls, key=lambda stall: (-stall[1], stall[0])))
    return {}
