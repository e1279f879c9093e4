"""Is what was recorded plausible? Each check compares it with something known otherwise: what nvidia-smi says, what the
workload did, what the hardware can do at most."""

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.on_gpu.phases import Phase
from benchmarks.on_gpu.recorded import Recorded
from benchmarks.on_gpu.smi import Reading
from gssr.peaks import Peaks, peaks_of


class Check(NamedTuple):
    """What was checked; what was seen and what was to be seen, with units; ``passed`` is None where that is left to the
    reader."""

    what: str
    seen: str
    expected: str
    passed: bool | None

    @property
    def verdict(self) -> str:
        """PASS, FAIL, or for information."""
        return "info" if self.passed is None else "PASS" if self.passed else "FAIL"


SETTLE = 1.5
"""Seconds at the beginning of a phase that are left out: nvidia-smi's utilization is up to a second old."""
EDGE = 0.2
"""Seconds at its end that are left out."""
_MIB = 1 << 20

_SMI: tuple[tuple[str, float, str, float, float], ...] = (
    ("power_usage", 1.0, "W", 0.10, 10.0),
    ("memory_used", 1.0 / _MIB, "MiB", 0.01, 16.0),
    ("gpu_utilization", 100.0, "%", 0.0, 10.0),
    ("temperature", 1.0, "°C", 0.0, 3.0),
    ("sm_clock", 1.0, "MHz", 0.05, 50.0),
)
"""Metric, factor to its unit here, and by how much the two may differ: relative and absolute, the greater counts."""

_LINKS = (
    ("down", "pcie_rx_bytes", "PCIe received while copying to the device"),
    ("up", "pcie_tx_bytes", "PCIe sent while copying to the host"),
)
_STEADY = ("matmul", "copy", "idle")


def inside(phase: Phase) -> tuple[float, float]:
    """The stretch of a phase in which it has settled."""
    return phase.begin + min(SETTLE, phase.seconds / 3), phase.end - EDGE


def against_smi(recorded: Recorded, phases: Sequence[Phase], readings: Sequence[Reading]) -> Iterator[Check]:
    """Power, memory, utilization, temperature and clock: the median difference to nvidia-smi's readings in the phases that
    are steady, each against the mean of what was recorded while nvidia-smi ran."""
    spans = [inside(phase) for phase in phases if phase.name in _STEADY]
    steady = [each for each in readings if any(begin <= each.begin and each.end <= end for begin, end in spans)]
    for metric, factor, unit, relative, absolute in _SMI:
        pairs = []
        for reading in steady:
            ours = recorded.mean(metric, reading.begin - EDGE, reading.end + EDGE)
            theirs = getattr(reading, metric)
            if ours is not None and theirs is not None:
                pairs.append((ours * factor, theirs * factor))
        what = f"{metric} against nvidia-smi"
        if not pairs:
            yield Check(what, f"no pair in {len(steady)} readings", "readings to compare with", False)
            continue
        difference = statistics.median(abs(ours - theirs) for ours, theirs in pairs)
        ours, theirs = (statistics.fmean(column) for column in zip(*pairs, strict=True))
        allowed = max(relative * abs(theirs), absolute)
        yield Check(
            what,
            f"{ours:,.1f} against {theirs:,.1f} {unit}, median difference {difference:.2f}, {len(pairs)} readings",
            f"differ by at most {allowed:.1f} {unit}",
            difference <= allowed,
        )


def energy(recorded: Recorded) -> Check:
    """The energy counter's difference against the recorded power, integrated."""
    counter, power = recorded.values["energy"], recorded.values["power_usage"]
    both = ~np.isnan(counter) & ~np.isnan(power)
    what, expected = "energy counter against integrated power", "differ by at most 5 %"
    if both.sum() < 2:
        return Check(what, "not measured", expected, None)
    counted = float(counter[both][-1] - counter[both][0])
    middles = (power[both][1:] + power[both][:-1]) / 2
    integrated = float((middles * np.diff(recorded.time[both])).sum())
    if integrated <= 0:
        return Check(what, f"{counted:,.0f} J against {integrated:,.0f} J", expected, False)
    ratio = counted / integrated
    return Check(what, f"{counted:,.0f} J / {integrated:,.0f} J = {ratio:.3f}", expected, abs(ratio - 1) <= 0.05)


def tensor(recorded: Recorded, phases: Sequence[Phase]) -> Iterator[Check]:
    """tensor_active against the FLOP/s of the matrix products as a share of the peak. The pipe is counted in cycles of the
    clock there is and the peak is at the boost clock, so that a GPU that lowers its clock is more active than its share."""
    for phase in phases:
        if not phase.flops:
            continue
        # A training step also has work between its products.
        low, high = (0.85, 1.35) if phase.name == "matmul" else (0.80, 1.60)
        rate = phase.flops / phase.seconds
        peaks = peaks_of(recorded.gpu.name)
        clock = recorded.mean("sm_clock", *inside(phase))
        told = f"{rate / 1e12:.0f} TFLOP/s at {clock or 0:.0f} MHz"
        yield _share(recorded, phase, "tensor_active", rate, peaks, peaks.tensor if peaks else None, told, low, high)


def dram(recorded: Recorded, phases: Sequence[Phase]) -> Iterator[Check]:
    """dram_active against the bytes that were moved as a share of the peak bandwidth."""
    for phase in phases:
        if phase.memory_bytes:
            rate = phase.memory_bytes / phase.seconds
            peaks = peaks_of(recorded.gpu.name)
            peak = peaks.memory_bandwidth if peaks else None
            low, high = (0.85, 1.20) if phase.name == "copy" else (0.70, 1.30)
            yield _share(recorded, phase, "dram_active", rate, peaks, peak, f"{rate / 1e12:.2f} TB/s", low, high)


def _share(
    recorded: Recorded,
    phase: Phase,
    metric: str,
    rate: float,
    peaks: Peaks | None,
    peak: float | None,
    told: str,
    low: float,
    high: float,
) -> Check:
    # The whole phase, as its rate is: it may hold pauses.
    what, seen = f"{metric} in {phase.name}", recorded.mean(metric, phase.begin, phase.end)
    if seen is None:
        return Check(what, "not measured", told, None)
    if peaks is None or peak is None:
        return Check(what, f"{seen:.3f}", f"{told}; no peak known of {recorded.gpu.name}", None)
    share = rate / peak
    return Check(
        what,
        f"{seen:.3f} = {seen / share:.2f} times the share",
        f"{told} = {share:.3f} of {peaks.model}'s peak; {low:g} to {high:g} times",
        low <= seen / share <= high,
    )


def links(recorded: Recorded, phases: Sequence[Phase]) -> Iterator[Check]:
    """PCIe's rates against copies of known size; the counters have headers in them."""
    for name, metric, what in _LINKS:
        for phase in phases:
            if phase.name != name:
                continue
            known = (phase.down_bytes + phase.up_bytes) / phase.seconds
            seen = recorded.mean(metric, *inside(phase))
            expected = f"{known / 1e9:.2f} GB/s of data; 0.95 to 1.4 times"
            if seen is None:
                yield Check(what, "not measured", expected, None)
            else:
                ratio = seen / known
                yield Check(what, f"{seen / 1e9:.2f} GB/s = {ratio:.2f} times", expected, 0.95 <= ratio <= 1.4)


def activity(recorded: Recorded, phases: Sequence[Phase]) -> Iterator[Check]:
    """SMs busy in matrix products and idle in an idle phase; the FP64 pipe in an FP64 stencil only."""
    bounds = (
        ("matmul", "sm_active", 0.8, 1.0),
        ("idle", "sm_active", 0.0, 0.05),
        ("stencil fp64", "fp64_active", 0.002, 1.0),
        ("stencil fp32", "fp64_active", 0.0, 0.002),
        ("stencil fp32", "fp32_active", 0.002, 1.0),
        ("stencil fp64", "tensor_active", 0.0, 0.01),
    )
    for name, metric, low, high in bounds:
        for phase in phases:
            if phase.name == name:
                seen = recorded.mean(metric, *inside(phase))
                passed = None if seen is None else low <= seen <= high
                told = "not measured" if seen is None else f"{seen:.4f}"
                yield Check(f"{metric} in {name}", told, f"{low:g} to {high:g}", passed)


def spacing(recorded: Recorded) -> Check:
    """How far apart profiling values come, and how many rows are without."""
    profiled = ~np.isnan(recorded.values["sm_active"])
    asked = recorded.sampling_seconds
    what, expected = (
        "spacing of profiling values",
        f"median {1000 * asked:g} ms within 5 %, at most 2 % of rows without",
    )
    if profiled.sum() < 3:
        return Check(what, "not measured", expected, None)
    steps = np.diff(recorded.time[profiled]) * 1000
    without = 1 - profiled[1:].mean()  # the first has nothing before it
    low, middle, late, most = np.percentile(steps, (0, 50, 99, 100))
    seen = f"min {low:.1f}, median {middle:.1f}, p99 {late:.1f}, max {most:.1f} ms; {100 * without:.1f} % without"
    return Check(what, seen, expected, bool(abs(middle / 1000 / asked - 1) <= 0.05 and without <= 0.02))


def c2c(recorded: Recorded) -> Check:
    """Without a Grace CPU there is no chip-to-chip link: nothing, or zero."""
    both = np.concatenate([recorded.values["c2c_tx_bytes"], recorded.values["c2c_rx_bytes"]])
    missing, zero = int(np.isnan(both).sum()), int((both == 0).sum())
    other = len(both) - missing - zero
    seen = f"{missing} NULL, {zero} zero, {other} above" + (
        f" (up to {np.nanmax(both) / 1e9:.2f} GB/s)" if other else ""
    )
    grace = any(part in (recorded.gpu.name or "") for part in ("GH200", "GB200", "GB300"))
    return Check("C2C", seen, "traffic" if grace else "no Grace CPU: NULL or zero", None if grace else not other)
