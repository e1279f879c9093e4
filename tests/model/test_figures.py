"""The figures of a run are those that analyze prints; groups of runs add up to all of them; what is unknown is never 0."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.metrics import CLOCK_EVENT_REASONS
from gssr.model.analyze import analyze
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.fleet import fleet
from gssr.model.fleet.figures import GPU_COLUMNS, RUN_COLUMNS, GpuFigures, RunFigures, program_of, read_figures
from gssr.model.fleet.fleet import (
    BY,
    groups,
    hours_by_category,
    job_of,
    read_fleet,
    scores,
    slow_nodes,
    together,
    uneven,
    week_of,
    with_unused,
)
from gssr.store.read.recording import open_recording

HOT = "hot"
"""A training run in which heat slows down the one GPU of the second node."""
RUNS = ("train", "idle", "imbalanced", "gaps", HOT)
Recorded = Callable[[str], Path]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The recording of one of RUNS, 2 min on 9 GPUs of two nodes; never to be changed."""
    folder = tmp_path_factory.mktemp("fleet")

    def make(scenario: str) -> Path:
        path = folder / f"{scenario}.sql"
        if not path.exists():
            generate(str(path), "train" if scenario == HOT else scenario, 9, 1 / 30, 1.0, RUNS.index(scenario))
            if scenario == HOT:
                heat(path)
        return path

    return make


def heat(path: Path) -> None:
    (bit,) = (bit for bit, name, _ in CLOCK_EVENT_REASONS if name == "hw_thermal")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET label = ?", (HOT,))
        connection.execute("UPDATE samples SET clock_event_reasons = ? WHERE gpu = 8 AND rowid % 2", (bit,))
        connection.execute("DELETE FROM rollup")  # what is not rolled up is read from the samples
        connection.execute("DELETE FROM sketch")


def figures_of(path: Path, **options: bool) -> RunFigures:
    recording = open_recording(path)
    (run,) = recording.runs
    found = read_figures(run, str(path), **options)
    recording.close()
    return found


@pytest.mark.parametrize("scenario", RUNS)
def test_figures_are_those_that_analyze_prints(recorded: Recorded, scenario: str) -> None:
    own = figures_of(recorded(scenario), verdicts=True)
    analysis = analyze(open_recording(recorded(scenario)).runs[0])
    assert own.score == pytest.approx(analysis.score, abs=1e-9)
    assert own.energy_j == pytest.approx(analysis.energy_j)
    assert own.imbalance == pytest.approx(analysis.imbalance, abs=1e-9)
    assert (own.n_gpus, own.n_nodes, own.n_samples, own.n_gaps) == (
        len(analysis.gpus), analysis.n_nodes, analysis.n_samples, analysis.n_gaps,
    )  # fmt: skip
    assert own.gpu_hours == pytest.approx(analysis.gpu_hours)
    assert own.wasted_gpu_hours == pytest.approx(analysis.gpu_hours * (1 - analysis.score))
    assert list(own.verdicts) == [verdict.code for verdict in analysis.judgement.verdicts]
    for gpu, summary in zip(own.gpus, analysis.gpus, strict=True):
        assert gpu.score == pytest.approx(summary.score, abs=1e-9)
        assert gpu.sm_active == pytest.approx(summary.mean["sm_active"], abs=1e-9)
    unused = [verdict for verdict in analysis.judgement.verdicts if verdict.code == "gpus_unused"]
    assert own.unused_gpus == (len(unused[0].gpus or analysis.gpus) if unused else 0)


def test_the_columns_that_are_explained_are_the_fields() -> None:
    assert tuple(column.name for column in GPU_COLUMNS) == GpuFigures._fields
    assert tuple(column.name for column in RUN_COLUMNS) == RunFigures._fields[: len(RUN_COLUMNS)]


@pytest.mark.parametrize("by", list(BY))
def test_groups_add_up_to_all_runs(recorded: Recorded, by: str) -> None:
    runs = [figures_of(recorded(scenario)) for scenario in RUNS]
    whole, parts = together(runs), groups(runs, by)
    for field in ("gpu_hours", "idle_gpu_hours", "unused_gpu_hours", "energy_j", "throttled_gpu_hours"):
        assert sum(getattr(part, field) or 0 for part in parts) == pytest.approx(getattr(whole, field)), field
    for part in (whole, *parts):
        assert part.wasted_gpu_hours == pytest.approx(part.scored_gpu_hours * (1 - part.score))
    wasted = [part.wasted_gpu_hours for part in parts]
    assert wasted == sorted(wasted, reverse=True)


def test_hours_by_cause_add_up_to_the_breakdowns_of_the_runs(recorded: Recorded) -> None:
    runs = [figures_of(recorded(scenario), verdicts=True) for scenario in RUNS]
    breakdowns = [analyze(open_recording(recorded(scenario)).runs[0]).judgement.breakdown for scenario in RUNS]
    parts = {part.key: part for part in groups(runs, "cause")}
    hours = hours_by_category(runs)
    assert sum(part.gpu_hours for part in parts.values()) == pytest.approx(sum(run.gpu_hours for run in runs))
    assert sum(hours.values()) == pytest.approx(sum(run.gpu_hours for run in runs))
    for at, category in enumerate(CATEGORIES):
        expected = sum(own.shares[at] * run.gpu_hours for own, run in zip(breakdowns, runs, strict=True))
        assert hours[category.name] == pytest.approx(expected, rel=1e-6, abs=1e-9), category.name
        if category.is_loss and expected > 0:
            assert parts[category.name].wasted_gpu_hours == pytest.approx(expected)
    lost = sum(hours[category.name] for category in CATEGORIES if category.is_loss)
    assert sum(part.wasted_gpu_hours for part in parts.values()) == pytest.approx(lost)
    assert parts["computing"].gpu_hours > 0 and parts["computing"].wasted_gpu_hours == 0
    assert groups(runs, "verdict") == groups(runs, "cause")


def test_runs_that_were_not_judged_have_no_hours_by_cause(recorded: Recorded) -> None:
    run = figures_of(recorded(HOT))
    assert run.hours_by_category is None and hours_by_category([run]) is None and groups([run], "cause") == []


def test_what_stands_out_is_found(recorded: Recorded) -> None:
    runs = [figures_of(recorded(scenario)) for scenario in RUNS]
    assert [run.label for run in with_unused(runs)] == ["synthetic idle"]
    assert "synthetic imbalanced" in [run.label for run in uneven(runs)]
    assert sum(each.n_runs for each in scores(runs)) == len(runs)
    (slow,) = slow_nodes(runs)
    assert slow.n_slow == 1 and slow.n_runs == len(runs) and slow.throttled > 0
    assert slow_nodes([run for run in runs if run.label != HOT]) == []


def test_missing_is_never_zero(recorded: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_bytes(recorded("train").read_bytes())
    with sqlite3.connect(path) as connection:
        names = ("sm_occupancy", "energy", "power_usage", "clock_event_reasons")
        connection.execute("UPDATE samples SET " + ", ".join(f"{name} = NULL" for name in names))
        connection.execute("DELETE FROM rollup")
        connection.execute("DELETE FROM sketch")
    run = figures_of(path)
    assert (run.score, run.wasted_gpu_hours, run.energy_j, run.wasted_energy_j, run.throttled_gpu_hours) == (None,) * 5
    assert run.gpu_hours > 0 and run.idle_gpu_hours is not None
    both = together([run, figures_of(recorded("idle"))])
    assert both.gpu_hours == pytest.approx(2 * run.gpu_hours) and both.scored_gpu_hours == pytest.approx(run.gpu_hours)
    assert both.score == pytest.approx(0.0) and groups([run], "user")[0].score is None
    assert scores([run])[-1].n_runs == 1 and scores([run])[-1].low is None


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/usr/bin/python3.11 -u /home/me/train.py --lr 1", "train.py"), ("python -m torch.distributed.run x.py",
        "torch.distributed.run"), ("./bin/solver in.txt", "solver"), ("srun -n 4 --gpus=4 ./solver", "solver"),
        ("sh -c train", "sh -c"), ("env A=1 nice -n 5 python train.py", "train.py"), ("timeout 10m python", "python"),
        ("bash run.sh", "run.sh"), ("", None), ("/", "/"), ("python -m", "python"), ("env", "env"),
    ],
)  # fmt: skip
def test_runs_of_one_program_have_one_name(command: str, program: str | None) -> None:
    assert program_of(command.split()) == program


def test_weeks_and_jobs_of_strange_runs_are_unknown_or_their_own(recorded: Recorded) -> None:
    assert [week_of(time) for time in (0.0, 1_700_000_000.0)] == ["1970-W01", "2023-W46"]
    assert {week_of(time) for time in (None, float("nan"), float("inf"), 1e300, -1e300)} == {"unknown"}
    run = figures_of(recorded("train"))
    assert job_of(run) == run.run_id
    assert job_of(run._replace(job_id="7")) == "7" and job_of(run._replace(job_id="7", cluster="c")) == "c/7"
    task = run._replace(job_id="7", array_job_id="6", array_task_id="0", cluster="c")
    assert job_of(task) == "c/6_0"


def _die_at_the_third(name: str, _request: fleet.FleetRequest) -> fleet._ReadRecording:
    if name == "2":
        os._exit(1)
    return fleet._ReadRecording([], name)


def test_a_recording_that_kills_its_reader_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_read", _die_at_the_third)
    monkeypatch.setattr(fleet, "PER_PROCESS", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    told: list[float] = []
    found = read_fleet(list("01234"), progress=told.append)
    assert found.unreadable == ("0", "1", "2: the process that read it died", "3", "4")
    assert told == [share / 5 for share in range(1, 6)]


def test_several_processes_read_what_one_reads(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(recorded(scenario)) for scenario in RUNS]
    alone = read_fleet(names)
    monkeypatch.setattr(fleet, "PER_PROCESS", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert read_fleet(names) == alone
    assert [run.file for run in alone.runs] == names
    assert {gpu.node for run in alone.runs for gpu in run.gpus} == {"node0000", "node0001"}
