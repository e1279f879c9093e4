"""Remarks that are not about lost time: from their thresholds on, and never of what was not measured."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidences import GIB, HEALTHY, START, evidence, scaled

from gssr.model.evidence.evidence import Evidence
from gssr.model.results import Verdict
from gssr.model.traces.trace_rules import TABLE as OF_TRACES
from gssr.model.verdicts import judge
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import REGISTERED, RuleTable
from gssr.store.format.rows import Event

NO_COUNTERS = tuple(
    name
    for name in HEALTHY
    if name
    not in ("gpu_utilization", "memory_copy_utilization", "power_usage", "temperature", "sm_clock", "memory_used")
)
"""What NVML alone does not tell."""


def verdicts(found: Evidence, table: RuleTable = TABLE) -> dict[str, Verdict]:
    return {verdict.code: verdict for verdict in judge(found, table).verdicts}


def gpu(position: int, value: float, n_gpus: int = 8) -> Any:
    """[n_gpus, 1]: ``value`` for one GPU, 1 for the others."""
    column = np.ones((n_gpus, 1))
    column[position] = value
    return column


def _errors(*errors: tuple[int, str, str]) -> Evidence:
    """(GPU, kind, what the driver says), ten seconds apart."""
    events = [Event(START + 10 * (k + 1), None, gpu, None, kind, text) for k, (gpu, kind, text) in enumerate(errors)]
    return replace(evidence(), events=tuple(events))


def _lost(*losses: tuple[int, float, float]) -> Evidence:
    """(GPU, lost at, back at), s after the start, infinity for never: without samples in between."""
    events, found = [], evidence()
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
    "throttled_thermal": [evidence(flags={"hw_thermal": gpu(1, 1.0)[:, 0] * np.eye(8)[1]}),
                          evidence(flags={"sw_thermal": 0.3}), evidence(temperature=97.0),
                          evidence(without=("clock_event_reasons",), temperature=94.0,
                                   gpus={"name": "NVIDIA A100-SXM4-80GB"})],
    "throttled_power_brake": [evidence(flags={"power_brake": 0.2})],
    "throttled_hardware": [evidence(flags={"hw_slowdown": 0.2})],
    "power_capped": [evidence(flags={"sw_power_cap": 0.6}, sm_clock=1780.0),
                     evidence(flags={"sw_power_cap": 0.6}, without=("sm_clock",))],
    "unified_memory": [evidence(4, sm_active=0.93, tensor_active=0.0, fp32_active=0.01, fp16_active=0.0, dram_active=0.1,
                                pcie_rx_bytes=13e9, pcie_tx_bytes=11e9)],
    "low_power": [evidence(without=NO_COUNTERS, gpu_utilization=1.0, power_usage=220.0, memory_copy_utilization=0.02)],
    "memory_peak": [evidence(dram_active=0.78)],
    "memory_bound": [evidence(dram_active=0.6, sm_active=0.45), evidence(dram_active=0.6, tensor_active=0.1)],
    "compute_bound": [evidence(tensor_active=0.6), evidence(fp64_active=0.7, tensor_active=0.0)],
    "fp64": [evidence(fp64_active=0.3, tensor_active=0.0)],
    "tensor_unused": [evidence(tensor_active=0.0, fp32_active=0.4)],
    "little_arithmetic": [evidence(tensor_active=0.02, fp32_active=0.03)],
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


def test_every_rule_has_a_code_of_its_own_and_says_where_its_numbers_come_from() -> None:
    codes = [rule.code for rule in TABLE.rules]
    assert sorted([*codes, *(rule.code for rule in OF_TRACES.rules)]) == sorted(REGISTERED)
    for rule in TABLE.rules:
        names = [threshold.name for threshold in rule.thresholds]
        assert len(names) == len(set(names)) and rule.advice and rule.source


def test_a_lost_rank_is_named_with_its_node_its_time_and_its_gpus() -> None:
    verdict = verdicts(_happened("rank_lost", 5))["rank_lost"]
    assert verdict.title == "Rank 5 on n0 was lost, 10 s after the start" and verdict.gpus == (5,)
    assert verdict.severity == "critical"
    assert verdicts(_happened("rank_lost", 4, 5))["rank_lost"].title == "2 ranks on n0 were lost, 10 s after the start"
    assert verdicts(_happened("out_of_memory", 1))["out_of_memory"].title == "Rank 1 on n0 ran out of memory"


EDGES: list[tuple[str, Any, float, float]] = [
    ("throttled_thermal", lambda x: evidence(flags={"hw_thermal": x}), 0.049, 0.051),
    ("power_capped", lambda x: evidence(flags={"sw_power_cap": x}, sm_clock=1780.0), 0.19, 0.21),
    ("memory_full", lambda x: evidence(memory_used=79.6 * GIB * x, noise=0.0), 0.919, 0.921),
    ("memory_unused", lambda x: evidence(memory_used=79.6 * GIB * x, noise=0.0), 0.51, 0.49),
    ("memory_peak", lambda x: evidence(dram_active=x), 0.69, 0.71),
    ("compute_bound", lambda x: evidence(tensor_active=x), 0.49, 0.51),
    ("tensor_unused", lambda x: evidence(tensor_active=x, fp32_active=0.4), 0.06, 0.04),
    ("fp64", lambda x: evidence(fp64_active=x), 0.19, 0.21),
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
        reasons = judged.abstentions
        assert code in reasons and "not measured" in reasons[code]
        assert code not in {verdict.code for verdict in judged.verdicts}


def test_nothing_measured_at_all_gives_no_verdict_and_every_abstention() -> None:
    judged = judge(evidence(without=(*HEALTHY, "clock_event_reasons")))
    assert not judged.verdicts and set(judged.abstentions) == {rule.code for rule in TABLE.rules}


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
    assert "found these GPUs" in held.advice and "at the peak" in held.evidence[-1].text
    assert "nvidia-smi" in empty.advice and "found these GPUs" not in empty.advice + unknown.advice


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


def test_a_limit_is_told_as_exactly_as_it_is() -> None:
    """It once said "FLOP active 12 % while the GPUs work (reported below 12 %)"."""
    told = verdicts(evidence(tensor_active=0.04, fp32_active=0.03))["little_arithmetic"]
    assert any(each.text.endswith("while the GPUs work (reported below 12.5 %)") for each in told.evidence)
