"""The JSON object: keys are a contract, numbers are plain, what is not known is null."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from analyses import START, analysis, judged, one_sample, run, without_counters, without_gpus, without_samples

from gssr.metrics import METRICS
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.results import Analysis
from gssr.report.json_document import document, to_json

RUN = {
    "run_id", "label", "job_id", "command", "state", "exit_code", "started_at", "duration_s", "n_nodes", "n_gpus",
    "n_samples", "n_gaps", "sampling_ms", "backend", "score", "metrics", "gpus", "balance", "verdicts", "energy_j",
    "gpu_hours",
}  # fmt: skip
ADDED = {
    "array_job_id",
    "array_task_id",
    "world_size",
    "ranks_missing",
    "ranks_stopped",
    "gpu_hours_unmeasured",
    "window",
    "clock_event_reasons",
    "host",
    "notes",
    "traces",
    "events",
    "abstentions",
    "phases",
    "step",
    "history",
    "load_balancing",
    "roofline",
    "why_no_score",
    "breakdown",
}
BREAKDOWN = {"gpu_seconds", "resolution_s", "categories", "efficiency", "by_gpu", "by_node"}
CATEGORY = {
    "name", "label", "gpu_seconds", "share", "error", "confidence", "is_loss", "ordinary", "gpus", "spans"
}  # fmt: skip
VERDICT = {"code", "severity", "title", "evidence", "advice", "source", "start", "end", "gpus", "gpu_hours", "aliases"}
ALL = [analysis(), judged(), without_gpus(), without_samples(), one_sample(), without_counters()]


def _run(found: Analysis) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(to_json([found]))["runs"][0]
    return parsed


@pytest.mark.parametrize("found", ALL)
def test_keys_are_those_of_the_contract(found: Analysis) -> None:
    parsed = json.loads(to_json([found]))
    assert set(parsed) == {"schema", "runs"} and parsed["schema"] == "gssr.analyze/1"
    (only,) = parsed["runs"]
    assert set(only) == RUN | ADDED
    assert set(only["window"]) == {"start", "end", "leading_s", "trailing_s"}
    for statistics in only["metrics"].values():
        assert set(statistics) == {"mean", "median", "min", "max", "std", "p05", "p95", "n", "p_error"}
    for gpu in only["gpus"]:
        assert set(gpu) == {"gpu", "node", "rank", "uuid", "place", "mig", "score", "n_samples", "mean"}
    for balance in only["balance"].values():
        assert set(balance) == {"imbalance", "lowest", "highest"}
        for end in (balance["lowest"], balance["highest"]):
            assert end is None or set(end) == {"gpu", "node", "rank", "mean"}
    told = only["breakdown"]
    assert (told is None) == (found.judgement.breakdown is None)
    if told is not None:
        assert set(told) == BREAKDOWN
        assert all(set(category) == CATEGORY for category in told["categories"])
        assert set(told["efficiency"]) == {"load_balance", "communication", "orchestration", "parallel"}
        assert set(told["by_gpu"]) == {"gpus", "shares"} and set(told["by_node"]) == {"nodes", "shares"}
    for verdict in only["verdicts"]:
        assert set(verdict) == VERDICT
        assert all(set(number) == {"metric", "value", "threshold", "text"} for number in verdict["evidence"])


def test_the_breakdown_names_every_category_and_its_shares_add_up() -> None:
    found = analysis()
    told, breakdown = _run(found)["breakdown"], found.judgement.breakdown
    assert breakdown is not None
    assert [category["name"] for category in told["categories"]] == [category.name for category in CATEGORIES]
    assert sum(category["share"] for category in told["categories"]) == pytest.approx(1, abs=1e-9)
    assert sum(category["gpu_seconds"] for category in told["categories"]) == pytest.approx(told["gpu_seconds"])
    assert told["gpu_seconds"] == pytest.approx(16 * 300)
    assert told["by_gpu"]["gpus"] == list(range(16)) and told["by_node"]["nodes"][0] == "nid000001"
    for shares in (*told["by_gpu"]["shares"], *told["by_node"]["shares"]):
        assert len(shares) == len(CATEGORIES) and sum(shares) == pytest.approx(1, abs=1e-4)
    efficiency = told["efficiency"]
    product = efficiency["load_balance"] * efficiency["communication"] * efficiency["orchestration"]
    assert efficiency["parallel"] == pytest.approx(product)
    imbalance = next(category for category in told["categories"] if category["name"] == "idle.imbalance")
    assert all(START <= begin < end <= START + 300 for begin, end in imbalance["spans"]) and imbalance["spans"]


def test_every_metric_is_there_measured_or_not() -> None:
    names = [metric.name for metric in METRICS if metric.kind != "bits"] + ["flop_active"]
    assert list(_run(analysis())["metrics"]) == names
    assert _run(analysis())["metrics"]["c2c_tx_bytes"] == {
        "mean": None, "median": None, "min": None, "max": None, "std": None, "p05": None, "p95": None, "n": 0,
        "p_error": None,
    }  # fmt: skip


def test_numbers_are_those_of_the_analysis_to_the_last_digit() -> None:
    found = analysis()
    parsed = _run(found)
    assert parsed["metrics"]["sm_active"]["mean"] == found.metrics["sm_active"].mean
    assert parsed["score"] == found.score and parsed["n_samples"] == found.n_samples
    lowest = parsed["balance"]["sm_active"]["lowest"]
    assert lowest == {"gpu": 320, "node": "nid000002", "rank": 5, "mean": found.gpus[5].mean["sm_active"]}
    assert [gpu["gpu"] for gpu in parsed["gpus"]] == [gpu.gpu for gpu in found.gpus]


def test_ranks_that_are_missing_are_listed_and_null_when_nobody_knows() -> None:
    found = analysis(ranks_missing=(1, 3), run=run(world_size=4))
    assert (_run(found)["world_size"], _run(found)["ranks_missing"]) == (4, [1, 3])
    assert _run(analysis(ranks_missing=()))["ranks_missing"] == [] and _run(analysis())["ranks_missing"] is None


def test_the_command_keeps_its_arguments() -> None:
    assert _run(analysis(run=run(command=("sh", "-c", 'echo "a\nb"'))))["command"] == ["sh", "-c", 'echo "a\nb"']


def test_reasons_are_shares_or_null_when_not_measured() -> None:
    assert _run(analysis())["clock_event_reasons"]["sw_power_cap"] == 0.123
    assert _run(analysis(clock_event_reasons={}))["clock_event_reasons"] is None


def test_nan_and_infinity_become_null_and_numpy_numbers_plain() -> None:
    found = analysis()
    broken = replace(found.metrics["sm_active"], mean=math.nan, max=math.inf, min=np.float32(0.5), n=np.int64(3))  # type: ignore[arg-type]
    parsed = _run(replace(found, metrics={"sm_active": broken}, score=np.float64(0.5), energy_j=math.nan))
    assert parsed["metrics"]["sm_active"]["mean"] is None and parsed["metrics"]["sm_active"]["max"] is None
    assert parsed["metrics"]["sm_active"]["min"] == 0.5 and parsed["metrics"]["sm_active"]["n"] == 3
    assert parsed["score"] == 0.5 and parsed["energy_j"] is None


@pytest.mark.parametrize("found", ALL)
def test_the_text_is_ascii_ends_with_a_newline_and_is_always_the_same(found: Analysis) -> None:
    text = to_json([found])
    assert text.isascii() and text.endswith("}\n") and text == to_json([found])


def test_runs_keep_their_order_and_none_is_an_empty_list() -> None:
    assert [one["run_id"] for one in document([one_sample(), analysis()])["runs"]] == [
        "laptop-20231114-221320",
        "alps-4711.0",
    ]
    assert document([]) == {"schema": "gssr.analyze/1", "runs": []}


def test_verdicts_are_all_there_with_plain_numbers() -> None:
    found = judged()
    verdicts = _run(found)["verdicts"]
    assert [verdict["code"] for verdict in verdicts] == [verdict.code for verdict in found.judgement.verdicts]
    assert verdicts[0]["evidence"][0] == {
        "metric": "sm_active", "value": 0.1, "threshold": 0.5, "text": "SM active 10 % (below 50 %)",
    }  # fmt: skip
    assert verdicts[0]["evidence"][1]["threshold"] is None and verdicts[0]["gpus"] == [1]
    assert _run(found)["abstentions"][0] == {"code": "io_wait", "reason": "disk reads were not measured"}


def test_piece_by_piece_it_is_the_same_text() -> None:
    for analyses in ([], [analysis()], [one_sample(), without_gpus(), analysis()]):
        assert to_json(iter(analyses)) == json.dumps(document(analyses), indent=1, allow_nan=False) + "\n"
