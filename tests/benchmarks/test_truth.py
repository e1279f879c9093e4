"""The labelled jobs: the same each time, made without a look at the rules, with labels that mean something."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.truth import drawn, measure
from benchmarks.truth.jobs import HEALTHY, JOBS, Labelled
from benchmarks.truth.recording import write
from gssr.model.verdicts.rules import TABLE
from gssr.store.format.host_rollups import USE_TABLES
from gssr.store.read.recording import open_recording
from gssr.store.read.window_edges import ALL_TIME

ROOT = Path(__file__).parent.parent.parent
BY_NAME = {labelled.name: labelled for labelled in JOBS}
CODES = {rule.code for rule in TABLE.rules}
REMAINDER = "low_use"
"""Said where no other rule knows why: never the name of a cause."""
SMALL = (
    "short training", "long start-up by NVML alone", "reading at 5 Hz", "offloading", "one core for the loader",
    "memory nearly full of a single GPU", "a failing GPU",
)  # fmt: skip


def test_what_makes_the_jobs_knows_nothing_of_the_rules() -> None:
    code = (
        "import sys; import benchmarks.truth.drawn, benchmarks.truth.recording; "
        "print([name for name in sys.modules if name.startswith('gssr.model')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_labels_name_verdicts_that_there_are() -> None:
    for labelled in (*JOBS, *drawn.jobs()):
        wanted = {code for codes in labelled.must for code in codes.split("|")}
        assert wanted | labelled.may <= CODES, labelled.name


def test_every_verdict_but_the_remainder_is_asked_for_in_both_halves() -> None:
    for half in (False, True):
        jobs = [labelled for labelled in JOBS if labelled.held_out == half]
        asked = {code for labelled in jobs for codes in labelled.must for code in codes.split("|")}
        assert asked == CODES - {REMAINDER}
        assert sum(labelled in HEALTHY for labelled in jobs) >= 5


def test_the_set_is_large_and_its_names_are_all_different() -> None:
    assert len(JOBS) == len(BY_NAME) >= 100
    sizes = {labelled.nodes * labelled.per_node for labelled in JOBS}
    assert {1, 256} <= sizes and {labelled.nodes for labelled in JOBS} >= {1, 64}


def test_drawn_jobs_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    names = [[(each.name, each.hardware, each.must) for each in drawn.jobs(40, seed)] for seed in (5, 5, 6)]
    assert names[0] == names[1] != names[2]


def test_a_job_is_the_same_each_time(tmp_path: Path) -> None:
    labelled = BY_NAME["short training"]
    paths = [tmp_path / "first.sql", tmp_path / "second.sql"]
    for path in paths:
        write(str(path), labelled.name, labelled.job())
    runs = [open_recording(path).runs[0] for path in paths]
    first, second = (run.samples(run.metrics) for run in runs)
    for name in runs[0].metrics:
        np.testing.assert_array_equal(first.values[name], second.values[name])
    for table in USE_TABLES:
        uses = [run.use_over_time(table, ALL_TIME, (float(first.time[0]), 1.0, 300)) for run in runs]
        assert uses[0].keys() == uses[1].keys() and uses[0]
        assert all(np.array_equal(uses[0][name], uses[1][name], equal_nan=True) for name in uses[0])


@pytest.mark.parametrize("name", SMALL)
def test_small_jobs_are_judged_right(name: str, tmp_path: Path) -> None:
    labelled = BY_NAME[name]
    assert not labelled.held_out
    (codes,) = measure.codes_of(labelled, tmp_path, measure.as_analyzed)
    outcome = measure.judge(labelled, codes)
    assert not outcome.missed and not outcome.false


def test_a_job_of_an_hour_is_judged_as_a_shorter_one(tmp_path: Path) -> None:
    labelled = BY_NAME["reading at 5 Hz"]._replace(seconds=2400, interval=0.5)
    assert not labelled.held_out
    for codes in measure.codes_of(labelled, tmp_path, measure.as_large, measure.as_rows):
        outcome = measure.judge(labelled, codes)
        assert not outcome.missed and not outcome.false


def test_a_missed_verdict_and_a_false_alarm_are_told_apart() -> None:
    labelled: Labelled = BY_NAME["offloading"]
    outcome = measure.judge(labelled, frozenset({"gaps", "compute_bound"}))
    assert outcome.missed == {"transfer_bound"} and outcome.false == {"gaps"} and not outcome.found


def test_the_table_names_each_miss_and_ends_with_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "CACHE", tmp_path)
    jobs = [BY_NAME["launches, and validation"], BY_NAME["tiny model, 16 GPUs"]]
    monkeypatch.setattr(
        measure, "codes_of", lambda labelled, *_: [frozenset({"gaps", "hang"} if "la" in labelled.name else ())]
    )
    figures = list(measure.measure("truth", jobs))
    assert [figure.what for figure in figures if figure.unit == "missed"] == [
        "truth: 'launches, and validation' lacks recurring_dips",
        "truth: 'tiny model, 16 GPUs' lacks small_kernels",
    ]
    assert [figure.what for figure in figures if figure.unit == "false alarm"] == [
        "truth: 'launches, and validation' has hang"
    ]
    assert [(figure.what, figure.value, figure.missed) for figure in figures[-2:]] == [
        ("truth, all: precision", 0.5, True),
        ("truth, all: recall", pytest.approx(1 / 3), True),
    ]
