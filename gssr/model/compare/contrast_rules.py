"""What a contrast reads as: a small table of rules, each with the numbers it looks at and where it comes from.

A reading, not a verdict: rules know metrics, not the program. Where a verdict looks at the same, its thresholds are those of
the table that verdicts are judged by, a site's changes included.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

from gssr.model.compare.contrast import Contrast
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import CSCS, DCGM, JOBSTATS, KEMPNER, NVML, Table, Threshold

What = Literal["own", "difference", "ratio"]

OURS = "our own cut-offs"


class Of(NamedTuple):
    """The threshold ``name`` of the verdict ``code``, ``times`` over."""

    code: str
    name: str
    times: float = 1.0

    def within(self, table: Table) -> Threshold:
        """As the table has it; where the verdict is turned off, as it is without a site's changes."""
        codes = (table.common.code, *(rule.code for rule in table.rules))
        rule = (table if self.code in codes else TABLE).rule(self.code)
        return next(threshold for threshold in rule.thresholds if threshold.name == self.name)


_GB, _HALF_GB, _FIFTH_GB = (Of("transfer_bound", "rate", times) for times in (1.0, 0.5, 0.2))


class Condition(NamedTuple):
    """``what`` of a metric is at least ``bound`` (``at_least``), else below it: "own": the part's mean, in the stored unit;
    "difference": own - job, in it too; "ratio": own / job, not known where the job has none. "late" as the metric is
    Contrast.late."""

    metric: str
    what: What
    at_least: bool
    bound: float | Of


class Rule(NamedTuple):
    """``reads`` applies where all conditions hold; a metric that was not measured holds none. ``differs``: it says how the
    part differs from the job, not what the part is like by itself. ``shows``: metrics that are worth knowing beside those
    of the conditions. ``verdict``: the one that looks at the same: where that is turned off, this is not read either."""

    code: str
    reads: str
    differs: bool
    conditions: tuple[Condition, ...]
    source: str
    shows: tuple[str, ...] = ()
    verdict: str = ""


def _at_least(metric: str, bound: float | Of, what: What = "own") -> Condition:
    return Condition(metric, what, True, bound)


def _below(metric: str, bound: float | Of, what: What = "own") -> Condition:
    return Condition(metric, what, False, bound)


def _held_back(flag: str, why: str, verdict: str) -> Rule:
    share = Of(verdict, "share")
    conditions = (_at_least(flag, share), _at_least(flag, share, "difference"))
    return Rule(flag, f"throttled: {why}", True, conditions, f"{NVML}, {OURS}", ("sm_clock", "temperature"), verdict)


_LESS = _below("sm_active", -0.1, "difference")

RULES: tuple[Rule, ...] = (
    Rule(
        "late", "starts late: it idles while the job works already", True,
        (_at_least("late", Of("late_start", "share")), _below("sm_active", -0.02, "difference")), OURS,
        verdict="late_start",
    ),
    Rule(
        "unused", "unused: nothing runs here", True,
        (_below("sm_active", Of("common", "idle")), _below("gr_engine_active", 0.05), _LESS), JOBSTATS,
        verdict="gpus_unused",
    ),
    _held_back("hw_thermal", "too hot, the hardware lowers its clocks", "throttled_thermal"),
    _held_back("sw_thermal", "too hot, the driver lowers its clocks", "throttled_thermal"),
    _held_back("power_brake", "an external power brake", "throttled_power_brake"),
    _held_back("hw_slowdown", "hardware slowdown: heat, power brake or power supply", "throttled_hardware"),
    _held_back("sw_power_cap", "the power limit holds its clocks down", "power_capped"),
    Rule(
        "clock", "slower clock, and no reason recorded", True,
        (_below("sm_clock", Of("slow_node", "clock"), "ratio"), _at_least("sm_active", 0.1)), OURS,
        verdict="slow_node",
    ),
    Rule(
        "host_receive", "waiting for data from the host: PCIe receives more, the SMs do less", True,
        (_at_least("pcie_rx_bytes", _GB), _at_least("pcie_rx_bytes", _HALF_GB, "difference"), _LESS),
        f"{KEMPNER}, {OURS}", verdict="transfer_bound",
    ),
    Rule(
        "host_send", "waiting for data to leave for the host (a checkpoint?): PCIe sends more, the SMs do less", True,
        (_at_least("pcie_tx_bytes", _GB), _at_least("pcie_tx_bytes", _HALF_GB, "difference"), _LESS),
        f"{KEMPNER}, {OURS}", verdict="transfer_bound",
    ),
    Rule(
        "c2c", "waiting for the CPU: the link to Grace carries more, the SMs do less", True,
        (_at_least("c2c_rx_bytes", _GB), _at_least("c2c_rx_bytes", _HALF_GB, "difference"), _LESS), OURS,
    ),
    Rule(
        "exchange", "waiting for other GPUs: NVLink carries more, the SMs do less", True,
        (_at_least("nvlink_rx_bytes", 1.25, "ratio"), _LESS), OURS,
    ),
    Rule(
        "more_memory", "memory-bound: the memory is busier, the SMs do less", True,
        (_at_least("dram_active", 0.1, "difference"), _LESS), OURS,
    ),
    Rule(
        "spinning", "spins: the SMs are as busy, the arithmetic is missing (waits inside a kernel?)", True,
        (_at_least("sm_active", 0.9, "ratio"), _below("flop_active", 0.6, "ratio")), OURS,
    ),
    Rule(
        "idle_now", "idle: nothing runs for most of this time", True,
        (_below("sm_active", 0.1), _below("gr_engine_active", 0.15), _LESS), JOBSTATS,
    ),
    Rule(
        "less_work", "less work, or waiting for others: SMs, memory and links are all down, the clock is not", True,
        (
            _below("sm_active", 0.9, "ratio"), _below("dram_active", 0.9, "ratio"),
            _below("pcie_rx_bytes", _FIFTH_GB, "difference"), _at_least("sm_clock", Of("slow_node", "clock"), "ratio"),
        ),
        OURS,
    ),
    Rule(
        "less", "does less than the job, and no rule says why", True, (_below("sm_active", 0.9, "ratio"),), OURS,
    ),
    Rule("more", "does more than the job", True, (_at_least("sm_active", 1.1, "ratio"),), OURS),
    Rule(
        "small_kernels", "small kernels: the engine is busy, few SMs are", False,
        (
            _at_least("gr_engine_active", Of("small_kernels", "gr_engine_active")),
            _below("sm_active", Of("small_kernels", "sm_active")),
        ),
        KEMPNER, verdict="small_kernels",
    ),
    Rule(
        "memory_bound", "memory-bound: the memory is busy, the SMs are not", False,
        (
            _at_least("dram_active", Of("memory_bound", "dram_active")),
            _below("sm_active", Of("memory_bound", "sm_active")),
        ),
        KEMPNER, verdict="memory_bound",
    ),
    Rule(
        "memory_peak", "memory near its practical peak", False,
        (_at_least("dram_active", Of("memory_peak", "dram_active")),), DCGM, verdict="memory_peak",
    ),
    Rule(
        "host", "waiting on host transfers", False,
        (_at_least("pcie_rx_bytes", _GB), _below("sm_active", Of("common", "low"))), KEMPNER,
        verdict="transfer_bound",
    ),
    Rule(
        "gaps", "gaps in time: host, input or synchronisation", False,
        (
            _below("gr_engine_active", Of("gaps", "gr_engine_active")), _below("sm_active", Of("gaps", "sm_active")),
            _at_least("gr_engine_active", Of("gaps", "idle")),
        ),
        DCGM, verdict="gaps",
    ),
    Rule(
        "tensor_heavy", "tensor-heavy", False,
        (
            _at_least("tensor_active", Of("compute_bound", "tensor_active")),
            _at_least("sm_active", Of("compute_bound", "sm_active")),
        ),
        KEMPNER, verdict="compute_bound",
    ),
    Rule("tensor", "uses the tensor cores", False, (_at_least("tensor_active", 0.15), _at_least("sm_active", 0.4)), KEMPNER),
    Rule(
        "fp64", "FP64 work", False,
        (_at_least("fp64_active", Of("fp64", "fp64_active")), _at_least("sm_active", Of("fp64", "sm_active"))), KEMPNER,
        verdict="fp64",
    ),
    Rule(
        "no_tensor", "tensor cores unused: would mixed precision do?", False,
        (
            _at_least("sm_active", Of("tensor_unused", "sm_active")),
            _below("tensor_active", Of("tensor_unused", "tensor_active")),
            _at_least("fp32_active", Of("tensor_unused", "fp32_active")),
        ),
        OURS, verdict="tensor_unused",
    ),
    Rule(
        "no_arithmetic", "little arithmetic for its activity", False,
        (
            _at_least("sm_active", Of("little_arithmetic", "sm_active")),
            _below("flop_active", Of("little_arithmetic", "flop_active")),
        ),
        CSCS, verdict="little_arithmetic",
    ),
)  # fmt: skip
"""In order: of those that differ, and of those that do not, the first that applies is what the part reads as."""


class Reading(NamedTuple):
    """``differs``: how the part differs from the job, None when in nothing that a rule knows; ``like``: what it is like by
    itself, None when no rule says."""

    differs: Rule | None
    like: Rule | None


@lru_cache(maxsize=8)
def rules_by(table: Table) -> tuple[Rule, ...]:
    """RULES with the numbers of a table of verdicts, and with the sources of those that a site has changed; without those
    whose verdict is turned off."""
    codes = {rule.code for rule in table.rules}
    return tuple(_with_numbers(rule, table) for rule in RULES if not rule.verdict or rule.verdict in codes)


def _with_numbers(rule: Rule, table: Table) -> Rule:
    conditions, sources = [], [rule.source]
    for condition in rule.conditions:
        if isinstance(condition.bound, Of):
            of, threshold = condition.bound, condition.bound.within(table)
            if threshold != of.within(TABLE):
                sources.append(threshold.source)
            condition = condition._replace(bound=threshold.value * of.times)
        conditions.append(condition)
    return rule._replace(conditions=tuple(conditions), source=", ".join(dict.fromkeys(sources)))


def reading(found: Contrast, table: Table = TABLE) -> Reading:
    """The first rules that apply, by the numbers of a table of verdicts."""
    rules = rules_by(table)
    differs = next((rule for rule in rules if rule.differs and _applies(rule, found)), None)
    like = next((rule for rule in rules if not rule.differs and _applies(rule, found)), None)
    return Reading(differs, like)


def _applies(rule: Rule, found: Contrast) -> bool:
    return all(_holds(condition, found) for condition in rule.conditions)


def _holds(condition: Condition, found: Contrast) -> bool:
    own, job = found.own.get(condition.metric), found.job.get(condition.metric)
    if condition.metric == "late":
        own = found.late
    if own is None or (condition.what != "own" and job is None):
        return False
    value = own
    if condition.what == "difference" and job is not None:
        value = own - job
    elif condition.what == "ratio":
        if not job:
            return False
        value = own / job
    assert not isinstance(condition.bound, Of)  # rules_by
    return value >= condition.bound if condition.at_least else value < condition.bound
