"""The account and the verdicts are right of simulated jobs, by the figures that the benchmark prints."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.table import Figure
from benchmarks.truth import BookedJob, Tally, shares_of
from gssr.model.verdicts import judge_window
from gssr.model.verdicts.rules import TABLE
from gssr.store.read.recording import open_recording
from tests.fakes.jobs import booked as booked_jobs
from tests.fakes.jobs import draw as drawing
from tests.fakes.jobs.booked import booked_job, comparable
from tests.fakes.unseen_jobs import unseen_job

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("truth")]  # so that it is examined once
JOBS, FEW_JOBS, GPU_SECONDS = 40, 10, 5_000
"""So many jobs, of those that are cheap to simulate."""


def _is_cheap(booked: booked_jobs.BookedJob) -> bool:
    return len(booked.job.plan.gpus) * booked.job.plan.seconds <= GPU_SECONDS


def examined(folder: Path, n: int) -> dict[str, Figure]:
    """What the benchmark prints of the first n jobs."""
    tally = Tally()
    for number, booked in enumerate(islice(filter(_is_cheap, map(booked_job, range(1, 401))), n)):
        path = folder / f"{number}.sql"
        booked.write(str(path))
        reader = open_recording(path).runs[0]
        judgement = judge_window(reader, np.arange(len(reader.gpus)))
        assert judgement.breakdown is not None
        tally.add(booked, shares_of(judgement.breakdown), judgement.verdicts, comparable)
    return {figure.what.removeprefix("truth: "): figure for figure in tally.figures("truth")}


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    return examined(tmp_path_factory.mktemp("jobs"), JOBS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "least"),
    [("top level within 0.10", 0.9), ("leaves within 0.10", 0.75), ("precision", 0.85), ("recall", 0.85)],
)
def test_account_and_verdicts_are_right(what: str, least: float, figures: dict[str, Figure]) -> None:
    assert figures["jobs"].value == JOBS
    assert figures[what].value >= least, figures


@pytest.mark.parametrize("n", [FEW_JOBS, pytest.param(JOBS, marks=pytest.mark.slow)])
def test_no_sick_job_is_met_with_silence_and_no_healthy_one_warned_about(tmp_path: Path, n: int) -> None:
    figures = examined(tmp_path, n)
    assert figures["jobs"].value == n
    assert figures["sick jobs with silence"].value == figures["healthy jobs warned about"].value == 0


@pytest.mark.parametrize("draw", [booked_job, unseen_job])
def test_books_hold_all_of_the_time_and_name_verdicts_that_there_are(draw: Callable[..., BookedJob]) -> None:
    codes = {code for rule in TABLE.rules for code in (rule.code, *rule.aliases)}
    for seed in range(12):
        job = draw(seed, healthy=seed % 2 == 1)
        assert sum(job.shares.values()) == pytest.approx(1.0) and min(job.shares.values()) > -1e-9, job.kind
        assert job.allowed.union(*job.planted) <= codes, job.kind


def test_what_makes_the_jobs_knows_nothing_of_the_rules() -> None:
    sources = {path.name: path.read_text() for path in Path(drawing.__file__).parent.glob("*.py")}
    assert "labels.py" in sources
    assert not [name for name, source in sources.items() if "gssr.model" in source]
