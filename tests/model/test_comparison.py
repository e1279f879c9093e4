"""Two runs against each other: what is a difference, and what is noise."""

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.backends.synthetic import bulk
from gssr.backends.synthetic.arrays import evaluate
from gssr.metrics import NAMES
from gssr.model.analyze import analyze
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.breakdown.result import Breakdown
from gssr.model.compare.comparison import (
    OPTIONS,
    TENTHS,
    CategoryChange,
    Comparison,
    FigureChange,
    compare,
    judged,
    score_of_phases,
    turned,
)
from gssr.model.compare.pairs import pairs
from gssr.model.results import Analysis, Finding, Phase, Verdict
from gssr.render.roles import text_of
from gssr.report.comparison import closing_line, comparison_page
from gssr.report.comparison_json import document
from gssr.report.page import PageOptions
from gssr.store.read.recording import open_recording

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from analyses import activity, analysis, one_sample, rejudged, run, without_counters, without_gpus, without_samples

N_GPUS, N_BINS = 8, 200


OTHERS = tuple(name for name in NAMES if name != "sm_active")
"""Metrics that a test of SM activity over many runs does without: comparing them as well takes most of its time."""


def job(
    level: float = 0.6, seed: int = 0, noise: float = 0.02, n_gpus: int = N_GPUS, missing: tuple[str, ...] = ()
) -> Analysis:
    """A job whose GPUs differ by chance, and whose activity wobbles: no two seeds are the same run."""
    random = np.random.default_rng(seed)
    base = np.clip(
        level
        + noise * random.standard_normal((n_gpus, 1))
        + noise * random.standard_normal((1, N_BINS))
        + noise * random.standard_normal((n_gpus, N_BINS)),
        0.0, 1.0,
    )  # fmt: skip
    base[:, :20] = 0.0  # every run has a start-up
    found = analysis(n_gpus, 1, N_BINS, 300.0, base, missing)
    return replace(found, run=run(exit_code=0), gpu_hours=n_gpus * 300 / 3600)


def outcomes(found: Comparison) -> dict[str, str]:
    return {name: change.outcome for name, change in {**found.totals, **found.metrics}.items()}


def test_a_run_is_within_noise_of_itself() -> None:
    found = compare(job(), job())
    assert set(outcomes(found).values()) == {"within noise"}
    assert (found.gained, found.lost, found.notes) == ((), (), ())


def test_what_chance_does_is_noise_and_seldom_more() -> None:
    pairs_of_runs = (compare(job(seed=2 * n, missing=OTHERS), job(seed=2 * n + 1, missing=OTHERS)) for n in range(100))
    wrong = sum(found.metrics["sm_active"].outcome != "within noise" for found in pairs_of_runs)
    assert wrong <= 15  # two standard errors of few GPUs and tenths: about one in twenty, a little more


def test_a_change_beyond_noise_is_found_and_has_the_right_sign() -> None:
    up, down = compare(job(0.5), job(0.6, 1)), compare(job(0.6), job(0.5, 1))
    assert (up.metrics["sm_active"].outcome, down.metrics["sm_active"].outcome) == ("better", "worse")
    assert (up.score.outcome, down.score.outcome) == ("better", "worse")
    assert (up.metrics["power_usage"].outcome, down.metrics["power_usage"].outcome) == ("higher", "lower")


def test_a_run_whose_gpus_do_less_is_not_called_better_for_taking_less_nor_one_worse_for_doing_more() -> None:
    def of(found: Comparison) -> list[str]:
        return [found.totals[name].outcome for name in ("duration_s", "gpu_hours", "energy_j")]

    worked = replace(job(), gpu_hours=0.6, energy_j=9e5)
    idle = job(0.01)
    idle = replace(idle, window=replace(idle.window, end=idle.window.start + 200), gpu_hours=0.4, energy_j=2e5)
    fast = replace(idle, score=worked.score, metrics=worked.metrics)
    assert of(compare(worked, idle)) == ["lower"] * 3 and of(compare(idle, worked)) == ["higher"] * 3
    assert of(compare(worked, fast)) == ["better"] * 3 and of(compare(fast, worked)) == ["worse"] * 3
    assert compare(worked, idle).score.outcome == "worse"
    waits = next(each for each in CATEGORIES if each.is_loss)
    less = CategoryChange(waits, 0.5, 0.1, 0.01)
    assert [less.outcome(use) for use in (-1, 0, 1)] == ["lower", "better", "better"]
    more = CategoryChange(waits, 0.1, 0.5, 0.01)
    assert [more.outcome(use) for use in (-1, 0, 1)] == ["worse", "worse", "higher"]
    assert CategoryChange(waits, 0.5, 0.495, 0.01).outcome(-1) == "within noise"


@pytest.mark.parametrize("other", [{"command": ("another",)}, {"label": "another"}])
def test_the_score_of_another_program_is_neither_better_nor_worse(other: dict[str, Any]) -> None:
    a, b = job(0.5), job(0.7, 1)
    assert compare(a, b).score.outcome == "better"
    found = compare(a, replace(b, run=b.run._replace(**other)))
    (told,) = document(["a", "b"], [found], [])["comparisons"]
    page = "\n".join(text_of(row) for row in comparison_page(["a", "b"], [found], PageOptions(width=200)))
    (differs,) = other
    sentence = f"not the same {differs} in A and B: scores of different programs can't be compared"
    assert sentence in page and any(sentence in note for note in told["notes"])
    assert "B's score is higher" in page and "better than A" not in page
    (row,) = [line for line in page.splitlines() if line.startswith("score")]
    assert row.rstrip().endswith("higher") and told["outcome"] == told["score"]["outcome"] == "higher"
    assert closing_line("B", found).endswith("outcome=higher")


def test_a_straggler_gained_is_no_noise() -> None:
    base = np.full((N_GPUS, N_BINS), 0.6) + 0.01 * np.random.default_rng(0).standard_normal((N_GPUS, N_BINS))
    slow = base.copy()
    slow[3] *= 0.2
    a, b = (analysis(N_GPUS, 1, N_BINS, 300.0, values) for values in (base, slow))
    assert compare(a, b).metrics["sm_active"].outcome == "worse"
    assert compare(b, a).metrics["sm_active"].outcome == "better"
    assert compare(a, b).totals["imbalance"].outcome == "worse"


def test_a_start_up_that_both_have_is_no_noise() -> None:
    noise = compare(job(0.6), job(0.6, 1)).metrics["sm_active"].noise
    assert noise is not None and noise < 0.05  # the start-up alone would make it 0.12


def test_more_noise_between_gpus_hides_more() -> None:
    quiet, loud = (compare(job(0.6, 0, noise), job(0.6, 1, noise)).metrics["sm_active"].noise for noise in (0.02, 0.15))
    assert quiet is not None and loud is not None and loud > 2 * quiet


def uneven(by: float = 1.0, seed: int = 0, n_gpus: int = N_GPUS) -> Analysis:
    """A job whose last GPU has half of the first one's work, with everything scaled."""
    random = np.random.default_rng(seed)
    share = 1 - 0.5 * np.arange(n_gpus)[:, None] / (n_gpus - 1)
    wobble = 1 + 0.01 * random.standard_normal((n_gpus, 1)) + 0.02 * random.standard_normal((n_gpus, N_BINS))
    return analysis(n_gpus, 1, N_BINS, 300.0, 0.7 * by * share * wobble)


@pytest.mark.parametrize("n_gpus", [2, 4, 8])
@pytest.mark.parametrize("by", [0.85, 0.9])
def test_what_sets_the_same_gpus_apart_in_both_runs_is_no_noise(by: float, n_gpus: int) -> None:
    found = compare(uneven(n_gpus=n_gpus), uneven(by, 1, n_gpus))
    assert found.metrics["sm_active"].outcome == found.score.outcome == "worse"
    assert compare(uneven(n_gpus=n_gpus), uneven(1.0, 1, n_gpus)).score.outcome == "within noise"
    assert compare(uneven(), uneven(by, 1, 7)).score.outcome == "within noise"  # not the same GPUs


@pytest.mark.parametrize("n_gpus", [4, 5, 12])
def test_what_chance_does_to_the_same_gpus_is_noise_however_few_they_are(n_gpus: int) -> None:
    wrong = 0
    for seed in range(100):
        a, b = (
            analysis(n_gpus, 1, 10, 300.0, np.repeat(values, 10, axis=1), OTHERS)
            for values in np.random.default_rng(seed).normal(0.6, 0.04, (2, n_gpus, 1))
        )
        wrong += compare(a, b).metrics["sm_active"].outcome != "within noise"
    assert wrong <= 11  # once in 22: more has a chance of one in 300


@pytest.mark.parametrize("n_gpus", [2, 3])
def test_two_or_three_pairs_hide_nothing_that_is_found_without_pairs(n_gpus: int) -> None:
    levels = ([0.7, 0.69, 0.65], [0.45, 0.36, 0.3])  # each GPU is slower by another share
    a, b = (analysis(n_gpus, 1, N_BINS, 300.0, np.repeat(own, N_BINS).reshape(3, -1)[:n_gpus]) for own in levels)
    assert compare(a, b).metrics["sm_active"].outcome == "worse"


def test_gpus_are_paired_by_place_or_uuid_or_else_in_their_order() -> None:
    own = job(n_gpus=3).gpus
    backwards = own[::-1]
    elsewhere = tuple(replace(gpu, node="other") for gpu in own)
    others = tuple(replace(gpu, uuid=f"new-{gpu.uuid}") for gpu in elsewhere)
    nowhere = tuple(replace(gpu, node=None, device_index=None, uuid=None) for gpu in own)
    assert pairs(own, backwards) == ("place", [2, 1, 0])
    assert pairs(own, elsewhere[::-1]) == ("uuid", [2, 1, 0])
    assert pairs(own, others) == pairs(own, nowhere) == pairs(nowhere, nowhere) == ("order", [0, 1, 2])
    assert pairs(own, own[:2]) is pairs(own[:1], own[:1]) is pairs((), ()) is None


def test_a_gpu_that_one_run_knows_nothing_of_leaves_no_pairs_to_compare() -> None:
    lacking = uneven(0.85, 1)
    first = replace(lacking.gpus[0], mean=dict.fromkeys(lacking.gpus[0].mean), score=None)
    found = compare(uneven(), replace(lacking, gpus=(first, *lacking.gpus[1:])))
    assert found.metrics["sm_active"].outcome == found.score.outcome == "within noise"


@settings(max_examples=20)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_and_b_exchanged_exchange_better_and_worse(a: float, b: float, noise: float) -> None:
    turned = {"better": "worse", "worse": "better", "within noise": "within noise"}
    assert turned[judged("score", a, b, noise).outcome] == judged("score", b, a, noise).outcome


@pytest.mark.parametrize("found", [without_gpus(), without_samples(), one_sample(), without_counters()])
def test_missing_is_never_zero_and_never_better_or_worse(found: Analysis) -> None:
    for pair in ((found, job()), (job(), found), (found, found)):
        for change in {**compare(*pair).totals, **compare(*pair).metrics}.values():
            if change.a is None or change.b is None:
                assert change.difference is None and change.outcome == "unknown"
            if change.noise is None:
                assert change.outcome == "unknown"


def test_one_gpu_has_its_course_as_yardstick_and_one_sample_has_none() -> None:
    assert compare(job(n_gpus=1), job(0.9, 1, n_gpus=1)).metrics["sm_active"].outcome == "better"
    assert compare(one_sample(), one_sample()).metrics["sm_active"].outcome == "unknown"


def test_runs_that_did_not_both_end_are_not_compared_by_their_length() -> None:
    going = replace(job(), state="running", run=run(exit_code=None, ended_at=None))
    found = compare(job(), going)
    assert {found.totals[name].outcome for name in ("duration_s", "gpu_hours", "energy_j")} == {"unknown"}
    assert any("B is running" in note for note in found.notes)
    assert any("C is running" in note for note in compare(job(), going, "C").notes)


@pytest.mark.parametrize(
    ("state", "codes", "outcome"),
    [
        ("completed", (0, None), "within noise"), ("completed", (None, None), "within noise"),
        ("failed", (1, None), "unknown"), ("failed", (1, 2), "unknown"),
    ],
)  # fmt: skip
def test_an_unknown_exit_code_is_no_other_one_than_that_of_a_run_that_completed(
    state: str, codes: tuple[int | None, int | None], outcome: str
) -> None:
    found = compare(*(replace(job(), state=state, run=run(exit_code=code, state=state)) for code in codes))
    assert found.totals["duration_s"].outcome == outcome


def test_verdicts_are_gained_lost_and_kept_by_their_code() -> None:
    one, two, three = (Verdict(code, "info", code, (), "", "", 0.0, 1.0) for code in ("one", "two", "three"))
    found = compare(rejudged(job(), verdicts=(one, two)), rejudged(job(), verdicts=(two, three)))
    assert (found.gained, found.lost, found.kept) == ((three,), (one,), (two,))


def held(value: float, threshold: float) -> Finding:
    return Finding("sm_active", value, threshold, "")


@pytest.mark.parametrize(
    ("before", "now", "turn"),
    [
        ({"lost": 0.3}, {"lost": 0.1}, "milder"), ({"lost": 0.1}, {"lost": 0.3}, "worse"),
        ({"lost": 0.249, "severity": "warning"}, {"lost": 0.251, "severity": "critical"}, "same"),
        ({"evidence": (held(0.4, 0.2),)}, {"evidence": (held(0.3, 0.2),)}, "milder"),
        ({"evidence": (held(0.4, 0.5),)}, {"evidence": (held(0.3, 0.5),)}, "worse"),
        ({"evidence": (held(0.4, 0.5),)}, {"evidence": (held(0.401, 0.5),)}, "same"),
        ({"evidence": (held(0.4, 0.2),)}, {"evidence": (held(0.4, 0.3),)}, "same"),
        ({"lost": 0.3, "severity": "critical"}, {"severity": "info"}, "milder"), ({}, {"severity": "warning"}, "worse"),
        ({}, {}, "same"),
    ],
)  # fmt: skip
def test_a_verdict_of_both_is_milder_or_worse_only_beyond_rounding(
    before: dict[str, Any], now: dict[str, Any], turn: str
) -> None:
    plain = Verdict("one", "info", "One", (), "", "", 0.0, 1.0)
    a, b = (replace(plain, **changes) for changes in (before, now))
    assert turned(a, b) == turn
    found = compare(rejudged(job(), verdicts=(a,)), rejudged(job(), verdicts=(b,)))
    assert (found.kept_before, found.kept) == ((a,), (b,))


def test_phases_of_a_kind_are_taken_together() -> None:
    means = {
        "sm_active": 0.5,
        "sm_occupancy": 0.3,
        "fp64_active": 0.0,
        "fp32_active": 0.1,
        "fp16_active": 0.0,
        "tensor_active": 0.2,
    }
    steady = Phase("steady", 0.0, 10.0, 0.1, 0.4, means, "not looked at")
    later = replace(steady, start=20.0, end=50.0)
    found = compare(rejudged(job(), phases=(steady,)), rejudged(job(), phases=(steady, later)))
    (a, b) = found.phases["steady"]
    assert (a, b) == ([steady], [steady, later]) and list(found.phases) == ["steady"]
    assert score_of_phases(a) == 0.4 and score_of_phases(b) is not None


def test_differences_of_the_runs_are_noted() -> None:
    other = replace(job(n_gpus=4), backend="nvml")
    notes = compare(job(), other).notes
    assert any("number of GPUs: 8 in A, 4 in B" in note for note in notes)
    assert any("backend" in note for note in notes)


def test_a_gap_leaves_tenths_out_and_nothing_breaks() -> None:
    base = activity(4, N_BINS)
    base[:, : N_BINS * 6 // TENTHS] = np.nan
    found = compare(analysis(4, 1, N_BINS, 300.0, base), job(n_gpus=4)).metrics["sm_active"]
    assert isinstance(found, FigureChange) and found.noise is not None


def with_breakdown(found: Analysis, **shares: float) -> Analysis:
    """The analysis with these shares of the GPU time, all with this error; the rest of the time is other work."""
    by_gpu = np.zeros((len(found.gpus), len(CATEGORIES)))
    for name, share in shares.items():
        by_gpu[:, POSITIONS[name.replace("__", ".")]] = 100.0 * share
    by_gpu[:, POSITIONS["working.other"]] = 100.0 * (1 - sum(shares.values()))
    breakdown = Breakdown(
        by_gpu=by_gpu, over_time=np.tile(by_gpu.sum(axis=0) / 20, (20, 1)), nodes=("node0",),
        node_of=np.zeros(len(by_gpu), np.int64), times=5.0 * np.arange(20), width=5.0, resolution=1.0,
        error=np.full(len(CATEGORIES), 0.01), confidence=("inferred",) * len(CATEGORIES),
    )  # fmt: skip
    return rejudged(found, breakdown=breakdown)


def test_categories_that_changed_by_more_than_both_errors_are_told_the_largest_first() -> None:
    a = with_breakdown(job(), idle__imbalance=0.10, idle__copies=0.05, communication__waiting=0.20)
    b = with_breakdown(job(seed=1), idle__imbalance=0.35, idle__copies=0.065, communication__waiting=0.10)
    found = compare(a, b)
    changes = {each.category.name: each for each in found.breakdown}
    assert sum(each.change for each in found.breakdown) == pytest.approx(0, abs=1e-12)
    assert changes["idle.imbalance"].change == pytest.approx(0.25) and changes["idle.imbalance"].is_certain
    assert not changes["idle.copies"].is_certain  # 1.5 % more, with 1 % of error in each run
    page = "\n".join(text_of(row) for row in comparison_page(["a", "b"], [found], PageOptions()))
    where = [page.index(CATEGORIES[POSITIONS[name]].label) for name in ("idle.imbalance", "communication.waiting")]
    assert where == sorted(where) and CATEGORIES[POSITIONS["idle.copies"]].label not in page
    (told,) = document(["a", "b"], [found], [])["comparisons"]
    (grown,) = [own for own in told["breakdown"]["categories"] if own["name"] == "idle.imbalance"]
    assert grown["change"] == pytest.approx(grown["after"] - grown["before"]) and grown["changed"] is True


def test_runs_without_a_breakdown_are_not_compared_by_it() -> None:
    found = compare(rejudged(job(), breakdown=None), with_breakdown(job(seed=1), idle__copies=0.1))
    assert found.breakdown == ()
    assert document(["a", "b"], [found], [])["comparisons"][0]["breakdown"] is None


SHORT_RUNS = [
    ("imbalanced", 500),
    ("imbalanced", 100),
    ("train", 500),
    ("train", 100),
    ("stencil", 500),
    ("stencil", 100),
]


@pytest.mark.parametrize(("scenario", "interval_ms"), SHORT_RUNS)
def test_short_runs_of_the_same_job_seldom_differ_in_where_the_gpu_time_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, interval_ms: int
) -> None:
    n_shares = n_changed = 0
    for pair in range(5):
        runs = [short_run(tmp_path, monkeypatch, scenario, interval_ms, 2 * pair + side) for side in (0, 1)]
        changes = compare(*runs).breakdown
        n_shares += sum(max(each.before, each.after) >= 0.01 for each in changes)
        n_changed += sum(each.is_certain for each in changes)
    assert n_shares >= 20
    assert n_changed <= n_shares / 20


def short_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, interval_ms: int, number: int
) -> Analysis:
    """A run of 9 s, sampled at moments of its own: by the clock, and after the start of the job."""
    random = np.random.default_rng(number)
    path, later, interval = tmp_path / f"{number}.sql", random.uniform(0, 10), interval_ms / 1000
    shift = random.uniform(0, interval)
    with monkeypatch.context() as patched:
        patched.setattr(bulk, "START", bulk.START + later)
        patched.setattr(bulk, "evaluate", lambda job, gpus, times, stretch: evaluate(job, gpus, times + shift, stretch))
        bulk.generate(str(path), scenario, 4, 9 / 3600, interval, host=True)
    with closing(open_recording(str(path))) as recording:
        return analyze(recording.runs[-1], OPTIONS)


def test_an_uneven_load_is_found_in_a_minute(tmp_path: Path) -> None:
    runs = []
    for scenario in ("train", "imbalanced"):
        path = tmp_path / f"{scenario}.sql"
        bulk.generate(str(path), scenario, 4, 60 / 3600, 0.5)
        with closing(open_recording(str(path))) as recording:
            runs.append(analyze(recording.runs[-1], OPTIONS))
    changed = {each.category.name: each.change for each in compare(*runs).breakdown if each.is_certain}
    assert changed["idle.imbalance"] > 0.05 and changed["working.fp64"] > 0.3 and changed["working.tensor"] < -0.3


def test_shares_that_differ_in_a_few_tenths_alone_are_noise() -> None:
    """What is seen in one part of a run may be chance; what is seen in most parts is not."""
    few, most = with_breakdown(job(), idle__copies=0.1), with_breakdown(job(), idle__copies=0.1)
    for changed, n_tenths in ((few, 2), (most, 7)):
        assert changed.judgement.breakdown is not None
        over_time = changed.judgement.breakdown.over_time
        rows = slice(0, len(over_time) * n_tenths // TENTHS)
        over_time[rows, POSITIONS["idle.copies"]] *= 4
        over_time[rows, POSITIONS["working.other"]] -= over_time[rows, POSITIONS["idle.copies"]] * 3 / 4
    for changed in (few, most):
        own = changed.judgement.breakdown
        assert own is not None
        own.by_gpu[:] = own.over_time.sum(axis=0) / len(own.by_gpu)
    same = with_breakdown(job(), idle__copies=0.1)
    found = [compare(same, changed).change_of("idle.copies") for changed in (few, most)]
    assert [each and each.outcome for each in found] == ["within noise", "higher"]


def test_too_few_samples_to_know_the_noise_of_a_share_leave_it_unknown() -> None:
    pair = [with_breakdown(job(), idle__copies=share) for share in (0.1, 0.5)]
    cut = []
    for run_of_pair in pair:
        own = run_of_pair.judgement.breakdown
        assert own is not None
        cut.append(rejudged(run_of_pair, breakdown=replace(own, over_time=own.over_time[:4], times=own.times[:4])))
    found = compare(*cut).change_of("idle.copies")
    assert found is not None and found.outcome == "unknown" and found.noise is None
    (told,) = [each for each in document(["a", "b"], [compare(*cut)], [])["comparisons"][0]["breakdown"]["categories"]
               if each["name"] == "idle.copies"]  # fmt: skip
    assert told["error"] is None and told["changed"] is False
    assert comparison_page(["a", "b"], [compare(*cut)], PageOptions())


def test_a_run_of_few_samples_warns_of_no_cause_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, enough = (
        short_run(tmp_path, monkeypatch, "imbalanced", interval_ms, interval_ms) for interval_ms in (500, 100)
    )
    sentence = "another run of the same job may be given other causes"
    assert any(sentence in note for note in few.notes) and not any(sentence in note for note in enough.notes)
    assert {each.severity for each in few.judgement.verdicts} == {"info"}
    assert "warning" in {each.severity for each in enough.judgement.verdicts}
    assert few.judgement.breakdown is not None and few.judgement.breakdown.share("idle") > 0.1
    told = Verdict("transfer_bound", "info", "waits for copies", (), "", "ours", 0.0, 1.0, lost=0.1)
    kept = Verdict("memory_full", "info", "memory is full", (), "", "ours", 0.0, 1.0)
    of_few, of_enough = (
        compare(rejudged(each, verdicts=()), rejudged(each, verdicts=(told, kept))) for each in (few, enough)
    )
    assert of_few.gained == (kept,) and of_enough.gained == (told, kept)
    assert any("too few samples to compare causes" in note for note in of_few.notes)
