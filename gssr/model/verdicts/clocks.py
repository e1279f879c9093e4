"""Rules about clocks: who is slowed down, and by what."""

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.makers import AMD, maker_of
from gssr.metrics import THROTTLES
from gssr.model.results import Finding
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job, group, median, medians, positions, whole
from gssr.model.verdicts.table import KEMPNER, LEAD, NVML, Found, Rule, Threshold, Unknown, finding, rule, told

_REASONS = {
    "hw_thermal": "too hot, the hardware lowers its clocks",
    "sw_thermal": "too hot, the driver lowers its clocks",
    "power_brake": "the power brake",
    "hw_slowdown": "a hardware slowdown",
    "sw_power_cap": "the power limit",
}
"""In the order of telling."""
_TELL = " the operators: every other GPU of a synchronous job waits for it."
_WAITED_FOR = (
    "taking_turns",
    "late_start",
    "early_end",
    "slow_down",
    "imbalance",
    "rotating_stragglers",
    "communication_bound",
    "cpu_starved",
    "recurring_dips",
    "pauses",
    "low_power",
    "low_occupancy",
    "small_kernels",
)
"""What shows where GPUs wait, step by step, for those that are slow."""


@rule(
    "warning", "{some} {were} slowed down by heat",
    (
        Threshold("share", 0.05, "heat lowers the clock (by hardware or driver) in at least this share of samples,"),
        Threshold("celsius", 95.0, "or the GPU is this hot in at least that share of the time,", KEMPNER),
        Threshold("celsius_a100", 93.0, "or, if it is an A100, this hot", KEMPNER),
        Threshold("celsius_amd", 100.0, "or, on AMD, this hot at its hotspot: MI210 and MI300A slow down there"),
        Threshold("critical", 0.5, "from this share on it is critical"),
    ),
    "Tell the operators which node it is (cooling, dust, a failed fan), and leave it out until then.",
    needs=(("hw_thermal", "sw_thermal", "temperature"),),
    explains=("throttled_hardware", "slow_clock", "straggler", "power_capped"),
    delays=_WAITED_FOR,
)  # fmt: skip
def throttled_thermal(job: Job, rule: Rule) -> Found | None:
    """Too hot: as the flags say, or the temperature itself."""
    peaks, evidence = job.evidence.peaks, job.evidence
    is_a100, is_amd = peaks is not None and peaks.model.startswith("A100"), maker_of(evidence.gpus) == AMD
    limit = rule.at("celsius_a100" if is_a100 else "celsius_amd" if is_amd else "celsius")
    hot = np.full(evidence.n_gpus, np.nan)
    if "temperature" in evidence.series:
        celsius = evidence.series["temperature"]
        n = np.isfinite(celsius).sum(axis=1)
        hot = np.divide((celsius >= limit).sum(axis=1), n, out=hot, where=n > 0)
    return _held_down(job, rule, ("hw_thermal", "sw_thermal"), hot)


@rule(
    "critical", "{some} {were} slowed down by the power brake",
    (Threshold("share", 0.05, "the external power brake is on in at least this share of samples", NVML),),
    "Tell the operators: the node's power supply asks the GPUs to slow down.",
    needs=(("power_brake",),), explains=("throttled_hardware", "slow_clock", "straggler"),
    delays=_WAITED_FOR,
)  # fmt: skip
def throttled_power_brake(job: Job, rule: Rule) -> Found | None:
    """The external power brake."""
    return _held_down(job, rule, ("power_brake",))


@rule(
    "critical", "{some} {were} slowed down by their hardware",
    (Threshold("share", 0.05, "the hardware lowers the clock in at least this share of samples", NVML),),
    "Tell the operators: heat, the power brake or the power supply; nvidia-smi -q -d PERFORMANCE says which.",
    needs=(("hw_slowdown",),), explains=("slow_clock", "straggler"), delays=_WAITED_FOR,
)  # fmt: skip
def throttled_hardware(job: Job, rule: Rule) -> Found | None:
    """The hardware, for one of several reasons."""
    return _held_down(job, rule, ("hw_slowdown",))


@rule(
    "info", "{some} {were} held down by the power limit",
    (
        Threshold("share", 0.2, "the power limit holds the clock down in at least this share of samples"),
        Threshold("clock", 0.7, "it is a warning where the SM clock is below this share of the highest"),
    ),
    "A busy GPU at its limit is doing what it can. If the limit is lower than its model's, ask whether that is meant.",
    needs=(("sw_power_cap",),), explains=("slow_clock",),
)  # fmt: skip
def power_capped(job: Job, rule: Rule) -> Found | None:
    """The power limit: usual for a busy GPU, unless it holds them far down."""
    found = _held_down(job, rule, ("sw_power_cap",))
    if found is None:
        return None
    clock = _relative_clock(job, found.gpus)
    if np.isfinite(clock):
        if clock < rule.at("clock"):
            found = found._replace(severity="warning", lost=None)
        text = f"SM clock at {words.percent(clock)} of the highest"
        found = found._replace(findings=(*found.findings, told("sm_clock", clock, text, rule.at("clock"))))
    return found


def _held_down(job: Job, rule: Rule, flags: tuple[str, ...], hot: Floats | None = None) -> Found | None:
    shares = np.fmax.reduce([job.evidence.means.per_gpu(flag) for flag in flags])
    what = f"of the samples say so ({' or '.join(flags)})"
    if hot is not None and np.nan_to_num(hot).max(initial=0.0) > np.nan_to_num(shares).max(initial=0.0):
        shares, what = hot, "of the time too hot"
    which = positions(np.nan_to_num(shares) >= rule.at("share"))
    if not which:
        return None
    share = float(np.mean(shares[list(which)]))
    evidence = [finding("share", share, what, rule, "share")]
    hottest = job.evidence.greatest.get("temperature")
    if "thermal" in rule.code and hottest is not None and np.isfinite(hottest[list(which)]).any():
        celsius = float(np.nanmax(hottest[list(which)]))
        evidence.append(told("temperature", celsius, f"up to {celsius:.0f} °C"))
    lost = job.lost_to(which)
    return Found(group(job, which), tuple(evidence), rule.graded(share), whole(job), which, lost=lost)


def _relative_clock(job: Job, gpus: tuple[int, ...]) -> float:
    """The mean SM clock at work as a share of the highest; NaN when unknown."""
    clocks = job.per_gpu("sm_clock", job.working)
    shares = [clocks[gpu] / limit for gpu in gpus if (limit := job.evidence.gpus[gpu].max_sm_clock)]
    return median(np.array(shares, np.float64))


@rule(
    "warning", "{node} is slower than the others: {why}",
    (
        Threshold("clock", 0.95, "the SM clock of a node, at work, is below this share of the median node's"),
        Threshold("hotter", 8.0, "the cause is heat if the temperature is above the median node's by this many °C"),
        Threshold("flag", 0.05, "or a clock event reason if it holds in this share of samples more than on the others"),
        Threshold("critical", 0.2, "from this loss of clock on it is critical"),
    ),
    f"Leave the node out (#SBATCH --exclude) and tell{_TELL}",
    needs=(("sm_clock",), LEAD), explains=("slow_clock", "straggler"), delays=_WAITED_FOR,
)  # fmt: skip
def slow_node(job: Job, rule: Rule) -> Found | None:
    """All GPUs of one node run at a slower clock than the other nodes'."""
    evidence = job.evidence
    if len(evidence.nodes) <= 1:
        return None
    clocks, pace = _clocks(job)
    paces = _per_node(job, pace)
    slow = np.flatnonzero(paces < rule.at("clock") * median(paces))
    if not len(slow) or len(slow) * 2 > np.isfinite(paces).sum():
        return None
    node = int(slow[np.argmin(paces[slow])])
    others = np.setdiff1d(np.arange(len(paces)), slow)
    loss = 1 - float(paces[node]) / median(paces)
    clock = float(_per_node(job, clocks)[node])
    text = f"SM clock {clock:,.0f} MHz, the median node {clock / (1 - loss):,.0f} MHz{_of_its_model(job)}"
    findings = [told("sm_clock", clock, text, rule.at("clock") * clock / (1 - loss))]
    why = []
    for flag in _REASONS:
        shares = _per_node(job, evidence.means.per_gpu(flag))
        more = float(shares[node]) - median(shares[others])
        if more >= rule.at("flag"):
            why.append(_REASONS[flag])
            findings.append(
                told(
                    flag,
                    float(shares[node]),
                    f"{_REASONS[flag]}, in {words.percent(float(shares[node]))} of its samples",
                )
            )
    heat = _per_node(job, job.per_gpu("temperature", job.working))
    hotter = float(heat[node]) - median(heat[others])
    if hotter >= rule.at("hotter"):
        findings.append(
            told("temperature", float(heat[node]), f"{heat[node]:.0f} °C, {hotter:.0f} more than the others")
        )
        why = why or ["it is hotter"]
    lower = _lower_limit(job, node, others)
    if lower is not None:
        why = why or ["its power limit is lower"]
        findings.append(lower)
    name = evidence.nodes[node] if len(slow) == 1 else f"{len(slow)} nodes ({evidence.nodes[node]} most): each"
    words_ = {"node": name, "why": why[0] if why else "its clock is; no reason was recorded"}
    which = positions(np.isin(evidence.node_of, slow))
    names = ",".join(evidence.nodes[each] for each in slow)
    advice = f"Leave the node out (#SBATCH --exclude={names}) and tell{_TELL}"
    return Found(words_, tuple(findings), rule.graded(loss), job.span, which, advice=advice, lost=job.lost_to(which))


def _clocks(job: Job) -> tuple[Floats, Floats]:
    """[n_gpus] each: the SM clock of each used GPU while it works, MHz, and as a share of the median GPU's of the same
    model: what another model does at its clock can't be compared."""
    busy = job.comparable & (job.activity >= job.common("working") * job.gpu_levels[:, None])
    busy &= job.evidence.series["sm_clock"] > 0
    clocks = medians(np.where(busy, job.evidence.series["sm_clock"], np.nan).T)
    models = [gpu.name for gpu in job.evidence.gpus]
    usual = {model: median(clocks[[model == each for each in models]]) for model in dict.fromkeys(models)}
    return clocks, clocks / np.array([usual[model] for model in models])


def _of_its_model(job: Job) -> str:
    return " of its model" if len({gpu.name for gpu in job.evidence.gpus}) > 1 else ""


def _lower_limit(job: Job, node: int, others: Ints) -> Finding | None:
    models = [gpu.name for gpu in job.evidence.gpus]
    limits = np.array([gpu.power_limit or np.nan for gpu in job.evidence.gpus], np.float64)
    alike = [model == models[int(np.argmax(job.evidence.node_of == node))] for model in models]
    per_node = _per_node(job, np.where(alike, limits, np.nan))
    if not per_node[node] < 0.98 * median(per_node[others]):
        return None
    return told("power_limit", float(per_node[node]), f"power limit {per_node[node]:.0f} W")


def _per_node(job: Job, values: Floats) -> Floats:
    """[n_nodes]: the median of each node's GPUs, NaN without any."""
    return np.array([median(values[job.evidence.node_of == node]) for node in range(len(job.evidence.nodes))])


@rule(
    "warning", "{some} ran at a slower clock; no reason was recorded",
    (Threshold("clock", 0.9, "the SM clock, at work, is below this share of the median GPU's"),),
    "Compare nvidia-smi -q -d CLOCK on this node with another: application clocks may have been left set.",
    needs=(("sm_clock",), LEAD), explains=("straggler",), delays=_WAITED_FOR,
)  # fmt: skip
def slow_clock(job: Job, rule: Rule) -> Found | None:
    """GPUs at a slower clock without a reason."""
    clocks, pace = _clocks(job)
    if np.isfinite(clocks).sum() <= 2:
        return None
    slow = pace < rule.at("clock")
    which = positions(slow)
    if not which or 2 * len(which) > np.isfinite(clocks).sum():
        return None
    if not any(job.evidence.has(flag) for flag in THROTTLES):
        raise Unknown("the clock event reasons were not measured")
    own = float(clocks[slow].mean())
    middle = own / float(pace[slow].mean())
    text = f"SM clock {own:,.0f} MHz, the median GPU {middle:,.0f} MHz{_of_its_model(job)}"
    evidence = (told("sm_clock", own, text, rule.at("clock") * middle),)
    return Found(group(job, which), evidence, rule.severity, job.span, which, lost=job.lost_to(which))
