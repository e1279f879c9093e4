"""Each cause gives its verdict, from its threshold on; what was not measured is never judged; a cause hides its symptoms."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidences import GIB, HEALTHY, START, during, evidence, scaled

from gssr.model.evidence.evidence import Evidence
from gssr.model.results import Verdict
from gssr.model.traces.rules import TABLE as OF_TRACES
from gssr.model.verdicts import judge
from gssr.model.verdicts.rhythm import kendall, period
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import REGISTERED, Table
from gssr.store.format.rows import Event

N = 300


NO_COUNTERS = tuple(
    name
    for name in HEALTHY
    if name
    not in ("gpu_utilization", "memory_copy_utilization", "power_usage", "temperature", "sm_clock", "memory_used")
)
"""What NVML alone does not tell."""


def verdicts(found: Evidence, table: Table = TABLE) -> dict[str, Verdict]:
    return {verdict.code: verdict for verdict in judge(found, table).verdicts}


def gpu(position: int, value: float, n_gpus: int = 8) -> Any:
    """[n_gpus, 1]: ``value`` for one GPU, 1 for the others."""
    column = np.ones((n_gpus, 1))
    column[position] = value
    return column


def dips(every: int, length: int, low: float, n: int = N) -> Any:
    return np.where(np.arange(n) % every >= every - length, low, 1.0)


def _slow_clock(value: float) -> Evidence:
    clock = HEALTHY["sm_clock"] * np.where(np.arange(16) // 4 == 2, value, 1.0)[:, None]
    return evidence(16, sm_clock=clock, noise=0.0, **scaled(np.where(np.arange(16) // 4 == 2, 0.9, 1.0)[:, None]))


def _waits(factor: float = 0.1, first: int = 100, last: int = 160) -> dict[str, Any]:
    """All GPUs wait for a while; links included."""
    return scaled(during(N, first, last, factor))


def _rotating(seconds: int, low: float, high: float = 1.0, n_gpus: int = 8) -> dict[str, Any]:
    load = np.full((n_gpus, N), high)
    for second in range(N):
        load[second // seconds % n_gpus, second] = low
    return scaled(load)


def _in_the_wait(rate: float, elsewhere: float = 0.0) -> Any:
    """What a link carries in the wait of ``_waits``."""
    return during(N, 100, 160, rate, elsewhere)


def _turns(seconds: int, n_gpus: int = 8, first: int = 4) -> dict[str, Any]:
    """``first`` GPUs work for so many seconds, then the others."""
    odd = np.arange(N) // seconds % 2 == 1
    return scaled(np.where((np.arange(n_gpus) < first)[:, None] == odd, 1.0, 0.02))


def _errors(*errors: tuple[int, str, str]) -> Evidence:
    """(GPU, kind, what the driver says), ten seconds apart."""
    events = [Event(START + 10 * (k + 1), None, gpu, None, kind, text) for k, (gpu, kind, text) in enumerate(errors)]
    return replace(evidence(), events=tuple(events))


def _lost(*losses: tuple[int, float, float], of: Evidence | None = None) -> Evidence:
    """(GPU, lost at, back at), s after the start, infinity for never: without samples in between."""
    events, found = [], of or evidence()
    series = {name: grid.copy() for name, grid in found.series.items()}
    for gpu, gone, back in losses:
        events.append(Event(START + gone, None, gpu, None, "gpu_lost", "no longer answers"))
        if back < math.inf:
            events.append(Event(START + back, None, gpu, None, "gpu_back", "answers again"))
        for grid in series.values():
            grid[gpu, (found.times >= START + gone) & (found.times < START + back)] = np.nan
    return replace(found, events=tuple(events), series=series)


def _happened(kind: str, *ranks: int) -> Evidence:
    """Ranks of which a kind of event is recorded, ten seconds apart; each has the GPU of its number."""
    events = [Event(START + 10 * (k + 1), "n0", None, rank, kind, "what it says") for k, rank in enumerate(ranks)]
    found = evidence()
    gpus = tuple(gpu._replace(rank=place) for place, gpu in enumerate(found.gpus))
    return replace(found, events=tuple(events), gpus=gpus)


CAUSES: dict[str, list[Evidence]] = {
    "rank_lost": [_happened("rank_lost", 5), _happened("rank_lost", 4, 5, 6, 7)],
    "out_of_memory": [_happened("out_of_memory", 1), _happened("out_of_memory", 1, 2)],
    "gpu_errors": [_errors((3, "xid", "XID 79: the GPU has fallen off the bus")), _errors((0, "xid", "XID 31: a fault")),
                   _errors((0, "ecc", "2 more uncorrectable memory errors (ECC)"))],
    "gpu_lost": [_lost((5, 40, 90)), _lost((5, 40, math.inf))],
    "gpus_unused": [evidence(**scaled(gpu(3, 0.0))), evidence(**scaled(0.0))],
    "hang": [evidence(n=600, state="running", **scaled(during(600, 300, 600, 0.0))),
             evidence(n=600, state="timeout", **scaled(during(600, 300, 600, 0.0)) | {
                 "sm_active": during(600, 300, 600, 0.5, 0.8), "gr_engine_active": 0.99})],
    "start_up": [evidence(**scaled(during(N, 0, 80, 0.01)))],
    "tear_down": [evidence(**scaled(during(N, 220, N, 0.0)))],
    "late_start": [evidence(**scaled(np.where(np.arange(8) >= 4, 1, 0)[:, None] * 1.0 + np.where(
        np.arange(8) < 4, 1, 0)[:, None] * during(N, 0, 60, 0.0)))],
    "early_end": [evidence(**scaled(np.where(np.arange(8)[:, None] == 2, during(N, 240, N, 0.0), 1.0)))],
    "throttled_thermal": [evidence(flags={"hw_thermal": gpu(1, 1.0)[:, 0] * np.eye(8)[1]}),
                          evidence(flags={"sw_thermal": 0.3}), evidence(temperature=97.0),
                          evidence(without=("clock_event_reasons",), temperature=94.0,
                                   gpus={"name": "NVIDIA A100-SXM4-80GB"})],
    "throttled_power_brake": [evidence(flags={"power_brake": 0.2})],
    "throttled_hardware": [evidence(flags={"hw_slowdown": 0.2})],
    "power_capped": [evidence(flags={"sw_power_cap": 0.6})],
    "slow_node": [_slow_clock(0.7)],
    "slow_clock": [evidence(sm_clock=1980 * gpu(5, 0.6))],
    "straggler": [evidence(16, **scaled(gpu(5, 0.5, 16))), evidence(16, **scaled(0.6 * gpu(5, 1.6, 16)))],
    "imbalance": [evidence(**scaled(np.linspace(1.0, 0.5, 8)[:, None]))],
    "rotating_stragglers": [evidence(**_rotating(10, 0.2)), evidence(**_rotating(10, 1.0, 0.4))],
    "taking_turns": [evidence(**_turns(20)), evidence(2, **_turns(12, 2, 1)), evidence(**_turns(40, first=2))],
    "io_wait": [evidence(host={"read_bytes": during(N, 100, 160, 2e9, 5e6)}, **_waits()),
                evidence(host={"net_rx_bytes": 3e9}, **scaled(0.2))],
    "cpu_starved": [evidence(workload={"cpu": 1.0}, **scaled(0.35)),
                    evidence(host={"cpu_utilization": 0.98}, **scaled(0.3))],
    "unified_memory": [evidence(4, sm_active=0.93, tensor_active=0.0, fp32_active=0.01, fp16_active=0.0, dram_active=0.1,
                                pcie_rx_bytes=13e9, pcie_tx_bytes=11e9)],
    "low_occupancy": [evidence(1, gr_engine_active=0.96, sm_active=0.4, sm_occupancy=0.08, tensor_active=0.05,
                               dram_active=0.1)],
    "low_power": [evidence(without=NO_COUNTERS, gpu_utilization=1.0, power_usage=220.0, memory_copy_utilization=0.02)],
    "transfer_bound": [evidence(**_waits() | {"pcie_rx_bytes": during(N, 100, 160, 20e9, 0.5e9)}),
                       evidence(c2c_rx_bytes=30e9, c2c_tx_bytes=1e9, **scaled(0.2))],
    "communication_bound": [evidence(**_waits(0.3) | {"nvlink_tx_bytes": during(N, 100, 160, 200e9, 40e9)}),
                            evidence(**scaled(0.3) | {"nvlink_rx_bytes": 250e9, "sm_active": 0.8})],
    "recurring_dips": [evidence(**scaled(dips(30, 5, 0.1))), evidence(**scaled(dips(12, 3, 0.3)))],
    "pauses": [evidence(**_waits(0.01))],
    "slow_down": [evidence(**scaled(np.linspace(1.0, 0.6, N)))],
    "small_kernels": [evidence(**scaled(0.2) | {"gr_engine_active": 0.8})],
    "gaps": [evidence(**scaled(0.4))],
    "memory_peak": [evidence(dram_active=0.78)],
    "memory_bound": [evidence(dram_active=0.6, sm_active=0.45), evidence(dram_active=0.6, tensor_active=0.1)],
    "compute_bound": [evidence(tensor_active=0.6), evidence(fp32_active=0.7, tensor_active=0.0)],
    "fp64": [evidence(fp64_active=0.3, tensor_active=0.0)],
    "tensor_unused": [evidence(tensor_active=0.0, fp32_active=0.4)],
    "little_arithmetic": [evidence(tensor_active=0.02, fp32_active=0.03)],
    "low_use": [evidence(without=("gpu_utilization", "gr_engine_active"), sm_active=0.4)],
    "memory_full": [evidence(memory_used=78.5 * GIB, noise=0.0)],
    "memory_unused": [evidence(memory_used=10 * GIB)],
}  # fmt: skip


@pytest.mark.parametrize(("code", "number"), [(code, k) for code, found in CAUSES.items() for k in range(len(found))])
def test_each_cause_gives_its_verdict_with_evidence_and_advice(code: str, number: int) -> None:
    found = verdicts(CAUSES[code][number])
    assert code in found, list(found)
    verdict = found[code]
    assert verdict.evidence and verdict.advice and verdict.source and "{" not in verdict.title
    assert verdict.start <= verdict.end
    assert all(finding.text and finding.value == finding.value for finding in verdict.evidence)


def _waiting(engine: float, **slow: Any) -> dict[str, Any]:
    """GPU 3 works all the time; the others work for half of it and wait for it with so active an engine."""
    return scaled(0.5 + 0.5 * (np.arange(8) == 3)[:, None]) | {
        "sm_active": np.where(np.arange(8) == 3, 0.82, 0.41 + 0.5 * (engine and 0.12))[:, None],
        "gr_engine_active": np.where(np.arange(8) == 3, 0.93, 0.93 if engine else 0.465)[:, None],
    } | slow  # fmt: skip


WON: dict[str, tuple[str, Evidence, float]] = {
    "an unused GPU": ("gpus_unused", evidence(**scaled(gpu(3, 0.0))), 1 / 8),
    "a late beginning": ("start_up", evidence(**scaled(during(N, 0, 80, 0.01))), 80 / 300),
    "one that ends early": ("early_end", CAUSES["early_end"][0], 60 / 300 / 8),
    "a hang": ("hang", CAUSES["hang"][0], 0.5),
    "gaps between kernels": ("gaps", evidence(**scaled(0.4)), 1 - 0.4 * 0.93),
    "reading": ("io_wait", CAUSES["io_wait"][0], 60 / 300),
    "waits for one that has more to do, spinning": ("straggler", evidence(**_waiting(1.0)), 0.5 * 7 / 8),
    "waits for one that has more to do, idle": ("straggler", evidence(**_waiting(0.0)), 0.5 * 7 / 8),
    "waits for one with a slow clock": ("slow_clock", evidence(**_waiting(1.0, sm_clock=1980 * gpu(3, 0.5))), 0.5),
    "turns": ("taking_turns", evidence(**_turns(20)), 0.49),
    "steps that grow by half": ("slow_down", evidence(**scaled(1 / np.sqrt(1 + 1.25 * np.arange(N) / N))), 0.2),
    "kernels that are too small": ("small_kernels", CAUSES["small_kernels"][0], np.nan),
    "nobody knows how long they spin": (
        "straggler", evidence(without=("sm_active", "gr_engine_active"), **_waiting(1.0, gpu_utilization=0.6 * gpu(3, 1.6))),
        np.nan),
}  # fmt: skip


@pytest.mark.parametrize("name", WON)
def test_what_a_cure_would_win_is_the_time_that_is_lost_to_its_cause(name: str) -> None:
    code, found, share = WON[name]
    hours = verdicts(found)[code].gpu_hours
    assert (
        hours is None
        if np.isnan(share)
        else hours == pytest.approx(share * found.n_gpus * found.seconds / 3600, rel=0.1)
    )


def test_there_is_a_condition_and_a_cause_for_every_rule_and_no_other() -> None:
    codes = [rule.code for rule in TABLE.rules]
    of_traces = [rule.code for rule in OF_TRACES.rules]
    assert len(codes) == len(set(codes)) and set(codes) == set(CAUSES)
    assert sorted([*codes, *of_traces]) == sorted(REGISTERED)
    for rule in TABLE.rules:
        assert {*rule.explains, *rule.delays} <= set(codes) - {rule.code}, rule.code
        names = [threshold.name for threshold in rule.thresholds]
        assert len(names) == len(set(names)) and rule.advice and rule.source


def test_a_lost_rank_is_named_with_its_node_its_time_and_its_gpus() -> None:
    verdict = verdicts(_happened("rank_lost", 5))["rank_lost"]
    assert verdict.title == "Rank 5 on n0 was lost, 10 s after the start" and verdict.gpus == (5,)
    assert verdict.severity == "critical"
    assert verdicts(_happened("rank_lost", 4, 5))["rank_lost"].title == "2 ranks on n0 were lost, 10 s after the start"
    assert verdicts(_happened("out_of_memory", 1))["out_of_memory"].title == "Rank 1 on n0 ran out of memory"


def test_causes_come_before_what_they_explain_and_none_explains_itself() -> None:
    order = {code: place for place, code in enumerate(TABLE.causes_first())}
    assert len(order) == len(TABLE.rules)
    for rule in TABLE.rules:
        assert all(order[rule.code] < order[symptom] for symptom in (*rule.explains, *rule.delays)), rule.code


@pytest.mark.parametrize("n_gpus", [1, 2, 8, 64])
@pytest.mark.parametrize("n", [20, 300])
def test_a_healthy_job_gives_no_warning(n_gpus: int, n: int) -> None:
    assert all(verdict.severity == "info" for verdict in verdicts(evidence(n_gpus, n)).values())


EDGES: list[tuple[str, Any, float, float]] = [
    ("imbalance", lambda x: evidence(noise=0.0, **scaled(np.linspace(1, 1 - 2 * x, 8)[:, None])), 0.09, 0.11),
    ("straggler", lambda x: evidence(16, **scaled(gpu(5, x, 16))), 0.93, 0.87),
    ("slow_node", _slow_clock, 0.96, 0.94),
    ("throttled_thermal", lambda x: evidence(flags={"hw_thermal": x}), 0.049, 0.051),
    ("power_capped", lambda x: evidence(flags={"sw_power_cap": x}), 0.19, 0.21),
    ("memory_full", lambda x: evidence(memory_used=79.6 * GIB * x, noise=0.0), 0.919, 0.921),
    ("memory_unused", lambda x: evidence(memory_used=79.6 * GIB * x, noise=0.0), 0.51, 0.49),
    ("memory_peak", lambda x: evidence(dram_active=x), 0.69, 0.71),
    ("compute_bound", lambda x: evidence(tensor_active=x), 0.49, 0.51),
    ("tensor_unused", lambda x: evidence(tensor_active=x, fp32_active=0.4), 0.06, 0.04),
    ("fp64", lambda x: evidence(fp64_active=x), 0.19, 0.21),
    ("gaps", lambda x: evidence(**scaled(x)), 0.82, 0.76),
    ("small_kernels", lambda x: evidence(**scaled(0.3) | {"sm_active": x, "gr_engine_active": 0.8}), 0.26, 0.24),
    ("start_up", lambda x: evidence(**scaled(during(N, 0, int(x), 0.0))), 12, 18),
    ("tear_down", lambda x: evidence(**scaled(during(N, N - int(x), N, 0.0))), 12, 18),
    ("pauses", lambda x: evidence(**scaled(during(N, 100, 100 + int(x), 0.0))), 5, 7),
    ("slow_down", lambda x: evidence(noise=0.0, **scaled(np.linspace(1.0, 1 - x, N))), 0.14, 0.3),
    ("transfer_bound", lambda x: evidence(**_waits() | {"pcie_rx_bytes": _in_the_wait(x)}), 3.0e9, 3.4e9),
    (
        "transfer_bound",
        lambda x: evidence(gpus={"name": "unknown"}, **_waits() | {"pcie_rx_bytes": _in_the_wait(x)}),
        0.9e9,
        1.1e9,
    ),
    ("transfer_bound", lambda x: evidence(**_waits() | {"pcie_rx_bytes": _in_the_wait(x * 20e9, 20e9)}), 1.2, 1.3),
    ("transfer_bound", lambda x: evidence(gpus={"name": "unknown"}, c2c_rx_bytes=x, **scaled(0.2)), 21e9, 24e9),
    (
        "communication_bound",
        lambda x: evidence(dram_active=0.2, tensor_active=0.1, **x),
        {"sm_active": 0.68},
        {"sm_active": 0.55},
    ),
    ("communication_bound", lambda x: evidence(sm_active=0.9, tensor_active=0.1, nvlink_tx_bytes=x), 120e9, 150e9),
    ("recurring_dips", lambda x: evidence(**scaled(dips(int(x), 2, 0.1))), 7, 9),
    ("io_wait", lambda x: evidence(host={"read_bytes": during(N, 100, 160, x, 0.0)}, **_waits()), 0.45e8, 1.1e8),
    ("hang", lambda x: evidence(n=600, state="timeout", **scaled(during(600, 600 - int(x), 600, 0.0))), 40, 60),
    ("hang", lambda x: evidence(n=600, state="running", **scaled(during(600, 600 - int(x), 600, 0.0))), 110, 130),
]


@pytest.mark.parametrize(("code", "made", "below", "above"), EDGES, ids=[edge[0] for edge in EDGES])
def test_a_rule_holds_from_its_threshold_on(code: str, made: Any, below: float, above: float) -> None:
    assert code not in verdicts(made(below))
    assert code in verdicts(made(above))


@pytest.mark.parametrize("code", sorted(CAUSES))
def test_a_rule_without_what_it_needs_abstains_and_says_what_was_missing(code: str) -> None:
    rule = TABLE.rule(code)
    for group in rule.needs:
        if any(name in ("sm_active", "workload_cpu", "read_bytes") for name in group) and len(group) > 2:
            continue  # checked below, with everything of the group gone
        host = {name: None for name in group if name not in HEALTHY}
        workload = {name.removeprefix("workload_"): None for name in group if name.startswith("workload_")}
        flags = (
            ("clock_event_reasons",)
            if set(group) & {"hw_thermal", "power_brake", "hw_slowdown", "sw_power_cap"}
            else ()
        )
        judged = judge(evidence(without=(*group, *flags), host=host, workload=workload))
        reasons = {abstention.code: abstention.reason for abstention in judged.abstentions}
        assert code in reasons and "not measured" in reasons[code]
        assert code not in {verdict.code for verdict in judged.verdicts}


def test_a_job_without_any_activity_metric_is_not_judged_by_it() -> None:
    judged = judge(evidence(without=("sm_active", "gr_engine_active", "gpu_utilization")))
    abstained = {abstention.code for abstention in judged.abstentions}
    assert {
        rule.code for rule in TABLE.rules if ("sm_active", "gr_engine_active", "gpu_utilization") in rule.needs
    } <= abstained


def test_nothing_measured_at_all_gives_no_verdict_and_every_abstention() -> None:
    judged = judge(evidence(without=(*HEALTHY, "clock_event_reasons")))
    assert not judged.verdicts and {each.code for each in judged.abstentions} == {rule.code for rule in TABLE.rules}


@pytest.mark.parametrize(
    ("found", "cause", "symptoms"),
    [
        (CAUSES["gpus_unused"][0], "gpus_unused", {"imbalance", "straggler"}),
        (CAUSES["slow_node"][0], "slow_node", {"straggler", "imbalance", "slow_clock"}),
        (CAUSES["straggler"][1], "straggler", {"imbalance"}),
        (CAUSES["hang"][0], "hang", {"tear_down", "pauses"}),
        (CAUSES["io_wait"][0], "io_wait", {"pauses", "transfer_bound"}),
        (evidence(host={"read_bytes": during(N, 100, 160, 2e9, 0.0)}, workload={"cpu": 1.0}, **_waits()), "io_wait",
         {"cpu_starved"}),
        (CAUSES["transfer_bound"][0], "transfer_bound", {"pauses"}),
        (CAUSES["memory_peak"][0], "memory_peak", {"memory_bound", "little_arithmetic"}),
        (CAUSES["recurring_dips"][0], "recurring_dips", {"pauses"}),
        (CAUSES["cpu_starved"][0], "cpu_starved", {"gaps", "low_use"}),
        (CAUSES["late_start"][0], "late_start", {"imbalance", "straggler"}),
    ],
)  # fmt: skip
def test_a_cause_hides_its_symptoms(found: Evidence, cause: str, symptoms: set[str]) -> None:
    told = verdicts(found)
    assert cause in told and not symptoms & told.keys(), list(told)


def test_a_symptom_elsewhere_is_told_beside_a_cause() -> None:
    """An unused GPU explains nothing about another that is slow."""
    load = np.ones((16, 1))
    load[3], load[9] = 0.0, 0.4
    told = verdicts(evidence(16, **scaled(load)))
    assert told["gpus_unused"].gpus == (3,) and told["straggler"].gpus == (9,)


def test_the_worst_comes_first() -> None:
    load = np.ones((16, 1)) * dips(30, 5, 0.1)
    load[3] = 0.0
    severities = [verdict.severity for verdict in judge(evidence(16, **scaled(load))).verdicts]
    assert severities == sorted(severities, key=("critical", "warning", "info").index) and severities[0] == "critical"


def test_verdicts_name_the_gpus_concerned_and_when() -> None:
    late = verdicts(CAUSES["late_start"][0])["late_start"]
    assert late.gpus == (0, 1, 2, 3) and late.end - late.start == pytest.approx(60, abs=3)
    wait = verdicts(CAUSES["transfer_bound"][0])["transfer_bound"]
    assert (wait.start, wait.end) == pytest.approx((1_780_000_300.0, 1_780_000_360.0), abs=2)


@pytest.mark.parametrize(
    ("factors", "said"),
    [(np.linspace(1.0, 0.5, 8), ":3 least: "), (np.where(np.arange(64) == 40, 1.0, 0.7), ":0 most: ")],
)
def test_imbalance_names_who_does_least_or_most(factors: Any, said: str) -> None:
    alone = TABLE._replace(rules=tuple(rule for rule in TABLE.rules if rule.code == "imbalance"))
    told = verdicts(evidence(len(factors), noise=0.0, **scaled(factors[:, None])), alone)["imbalance"]
    assert said in told.title and told.title.startswith("The GPUs are not equally busy, "), told.title


def test_dips_are_told_with_their_period_and_what_is_busy_then() -> None:
    busy = np.where(dips(30, 5, 0.1) < 1, 14e9, 0.4e9)
    told = verdicts(evidence(**scaled(dips(30, 5, 0.1)) | {"pcie_tx_bytes": busy}))["recurring_dips"]
    assert told.evidence[0].value == pytest.approx(30, rel=0.02)
    assert "Every 30 s" in told.title and "5 s" in told.title and "PCIe sends 14 GB/s" in told.title


@pytest.mark.parametrize("every", [7.3, 20.0, 61.5])
@pytest.mark.parametrize("waver", [0.0, 0.04])
def test_a_period_is_found_in_noise(every: float, waver: float) -> None:
    random = np.random.default_rng(3)
    values = 0.05 * random.standard_normal(600).clip(0)
    for begin in np.arange(every, 600, every):
        at = int(begin + waver * every * random.standard_normal())
        values[at : at + max(round(every / 6), 2)] = 0.9
    lag, correlation = period(values, 3.0)
    assert lag == pytest.approx(every, rel=0.06) and correlation >= TABLE.rule("recurring_dips").at("correlation")


def test_three_pauses_have_no_rhythm_and_the_end_of_the_work_is_none() -> None:
    shape = np.ones(N)
    for first in (60, 130, 200):
        shape[first : first + 12] = 0.02
    assert "recurring_dips" not in verdicts(evidence(**scaled(shape)))
    shape[-8:] = 0.02
    told = verdicts(evidence(**scaled(shape)))
    assert "recurring_dips" not in told and "pauses" in told


def test_irregular_pauses_have_no_rhythm() -> None:
    """Two pairs of them are as far apart as each other."""
    shape = np.ones(1500)
    for first in (176, 530, 647, 744, 912, 1274):
        shape[first : first + 24] = 0.02
    told = verdicts(evidence(n=1500, **scaled(shape)))
    assert "recurring_dips" not in told and "pauses" in told


def test_low_use_is_not_told_beside_what_explains_the_waits() -> None:
    """The mean over work and waits is low, but only for the waits."""
    told = verdicts(evidence(**scaled(dips(20, 12, 0.05))))
    assert "recurring_dips" in told and "low_use" not in told


def test_no_period_is_found_where_there_is_none() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        values = random.random(600) * (random.random(600) < 0.1)
        assert period(values, 3.0)[1] < TABLE.rule("recurring_dips").at("correlation")
    assert period(np.zeros(100), 3.0) == (0.0, 0.0) == period(np.linspace(0, 1, 100), 3.0)


def test_rank_correlation_is_that_of_order_alone() -> None:
    assert kendall(np.array([3.0, 2.0, 1.0])) == -1.0 and kendall(np.array([1.0, 2.0, 9.0])) == 1.0
    assert kendall(np.array([1.0])) == 0.0


def test_a_job_that_still_runs_is_not_advised_to_end() -> None:
    """What has done nothing for a while may hang."""
    quiet = during(N, N - 60, N, 0.0, 1.0)
    for state, said in (("running", "may wait"), ("lost", "may wait"), ("completed", "Let the job end")):
        told = verdicts(replace(evidence(**scaled(quiet)), state=state))
        assert said in told["tear_down"].advice, state


def test_a_completed_job_never_hangs() -> None:
    assert "hang" not in verdicts(evidence(n=600, state="completed", **scaled(during(600, 300, 600, 0.0))))


def test_memory_that_grows_is_told_with_a_slow_down() -> None:
    found = evidence(memory_used=np.linspace(30 * GIB, 60 * GIB, N), **scaled(np.linspace(1.0, 0.6, N)))
    texts = " ".join(finding.text for finding in verdicts(found)["slow_down"].evidence)
    assert "more memory in use" in texts


@pytest.mark.parametrize(
    ("error", "severity", "advice"),
    [
        (("xid", "XID 48: uncorrectable memory error"), "critical", "--exclude=n1)"),
        (("xid", "XID 94: contained memory error"), "critical", "--exclude=n1)"),
        (("xid", "XID 31: a kernel accessed memory that is not there"), "warning", "compute-sanitizer"),
        (("xid", "XID 61: the GPU's microcontroller reports a fault"), "warning", "operators"),
        (("xid", "XID 99999: an error of the GPU"), "warning", "operators"),
        (("ecc", "12 more rows of memory remapped after uncorrectable errors"), "critical", "--exclude=n1)"),
        (("ecc", "a row of memory could not be remapped"), "critical", "--exclude=n1)"),
        (("ecc", "1 more row of memory remapped after correctable errors"), "warning", "operators"),
    ],
)
def test_errors_of_a_gpu_are_critical_where_the_gpu_is_at_fault(
    error: tuple[str, str], severity: str, advice: str
) -> None:
    verdict = verdicts(_errors((5, *error)))["gpu_errors"]
    assert (verdict.severity, verdict.gpus) == (severity, (5,)) and advice in verdict.advice
    assert error[1] in verdict.title and "n1:1" in verdict.evidence[0].text


def test_errors_of_broken_gpus_are_told_before_those_of_programs_and_those_of_other_times_are_not() -> None:
    found = _errors((0, "xid", "XID 13: a fault"), (5, "xid", "XID 79: gone"), (7, "xid", "XID 48: memory"))
    verdict = verdicts(found)["gpu_errors"]
    assert verdict.gpus == (5, 7) and "XID 79" in verdict.title and verdict.severity == "critical"
    late = replace(found, events=tuple(event._replace(time=found.end + 60) for event in found.events))
    other = replace(found, events=tuple(event._replace(kind="gpu_lost") for event in found.events))
    assert "gpu_errors" not in verdicts(late) | verdicts(other)


@pytest.mark.parametrize("idle", [gpu(3, 0.0), 0.0])
def test_unused_gpus_whose_memory_is_in_use_were_found_by_the_program(idle: Any) -> None:
    held, empty, unknown = (
        verdicts(evidence(**scaled(idle) | {"memory_used": memory}, without=without))["gpus_unused"]
        for memory, without in ((40 * GIB, ()), (0.5 * GIB, ()), (40 * GIB, ("memory_used",)))
    )
    assert "found these GPUs" in held.advice and "GiB in use on each" in held.evidence[-1].text
    assert "nvidia-smi" in empty.advice and "found these GPUs" not in empty.advice + unknown.advice


def test_the_mean_stands_beside_what_imbalance_is_made_of() -> None:
    texts = [
        finding.text
        for finding in verdicts(evidence(**scaled(np.linspace(1.0, 0.5, 8)[:, None])))["imbalance"].evidence
    ]
    assert texts[0].startswith("1 - mean/max") and texts[1].startswith("mean ")


def test_a_lost_gpu_is_named_with_since_when_and_for_how_long() -> None:
    once, good = verdicts(_lost((5, 40, 90)))["gpu_lost"], verdicts(_lost((5, 40, math.inf)))["gpu_lost"]
    assert (once.severity, once.gpus) == ("warning", (5,)) and "n1:1" in once.title and "50 s" in once.title
    assert once.evidence[0].text == "n1:1: from 40 s after the start for 50 s"
    assert "260 s" in good.title or "4.3 min" in good.title
    assert good.evidence[0].text == "n1:1: from 40 s after the start on"
    often = verdicts(_lost((5, 40, 90), (5, 100, 130), (2, 200, 210)))["gpu_lost"]
    assert often.gpus == (2, 5) and "up to 80 s" in often.title
    assert [finding.text for finding in often.evidence] == [
        "n0:2: from 3.3 min after the start for 10 s",
        "n1:1: 2 times from 40 s after the start on",
    ]
    assert "dmesg" in often.advice and "operators" in often.advice and "nvidia-smi" in often.advice
    twice = verdicts(_lost((5, 40, 90), (5, 100, math.inf)))["gpu_lost"].evidence[0].text
    assert twice == "n1:1: 2 times from 40 s after the start on, and never again from 100 s after the start"


def test_a_loss_counts_in_the_window_alone() -> None:
    whole = _lost((5, 40, 90))
    part = replace(whole, start=START + 80)
    assert "10 s" in verdicts(part)["gpu_lost"].title
    assert "gpu_lost" not in verdicts(replace(whole, start=START + 90)) | verdicts(replace(whole, end=START + 40))


def test_a_gpu_that_nobody_samples_any_more_or_that_another_rank_samples_is_not_lost() -> None:
    ended = _lost((5, 40, math.inf))
    assert "gpu_lost" not in verdicts(replace(ended, events=()))
    taken_over = _lost((5, 40, 90))
    taken_over = replace(taken_over, events=taken_over.events[:1])
    assert "for 50 s" in verdicts(taken_over)["gpu_lost"].title
    assert "gpu_lost" not in verdicts(_lost((5, 40, 40.5)))


@pytest.mark.parametrize("text", ["\x1b[31m no number", "XID 79\x1b[31m", "9 more x\n rows", "XID 1234567: z", ""])
def test_a_verdict_on_errors_quotes_nothing_that_is_not_known(text: str) -> None:
    verdict = verdicts(_errors((5, "ecc", text)))["gpu_errors"]
    told = verdict.title + verdict.evidence[0].text
    assert told.isprintable() and "error" in verdict.title
    assert verdict.severity == ("critical" if text.startswith("XID 79") else "warning")


def test_no_name_that_a_shell_would_run_is_told_to_be_typed() -> None:
    found = _errors((5, "xid", "XID 79: gone"))
    nodes = tuple(gpu._replace(node="n1; rm -rf ~") for gpu in found.gpus)
    assert "--exclude" not in verdicts(replace(found, gpus=nodes))["gpu_errors"].advice
