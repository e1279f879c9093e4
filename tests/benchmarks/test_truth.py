"""The verdicts are right of sixty simulated jobs, and the table of the benchmark counts what was missed and wrong."""

from itertools import islice
from pathlib import Path

import pytest

from benchmarks import truth
from gssr.model.verdicts.rules import TABLE
from tests.fakes.jobs import draw as drawing
from tests.fakes.jobs.draw import draw
from tests.fakes.jobs.exam import Result, examine, mark
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.write import write

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("truth")]  # so that it is examined once
JOBS, GPU_SECONDS = 60, 7_000
"""The first so many jobs of the public half that are cheap to simulate."""


def _cheap(job: Job) -> bool:
    return len(job.plan.gpus) * job.plan.seconds <= GPU_SECONDS


@pytest.fixture(scope="module")
def examined() -> Result:
    return examine(islice(filter(_cheap, map(draw, drawing.half(1, 1_000))), JOBS))


def test_verdicts_are_right(examined: Result) -> None:
    report = "\n".join(examined.lines())
    assert len(examined.answers) == JOBS
    assert examined.precision() >= 0.93, report
    assert examined.recall() >= 0.85, report
    assert examined.healthy_blamed()[0] <= 1, report


def test_labels_name_verdicts_that_there_are(examined: Result) -> None:
    wanted = {code for each in examined.answers for must in each.job.must for code in must.split("|")}
    assert wanted | {code for each in examined.answers for code in each.job.may} <= {rule.code for rule in TABLE.rules}
    assert len(wanted) >= 15


def test_what_makes_the_jobs_knows_nothing_of_the_rules() -> None:
    sources = {path.name: path.read_text() for path in Path(drawing.__file__).parent.glob("*.py")}
    assert "labels.py" in sources
    assert not [name for name, source in sources.items() if "gssr.model" in source]


def test_a_job_of_an_hour_is_judged_as_a_shorter_one(tmp_path: Path) -> None:
    job = truth.stretched(draw(108, name="slow_input"), 2400)
    path = str(tmp_path / "job.sql")
    write(job, path)
    for way in (truth.as_large, truth.as_rows):
        assert mark(job, way(path)).right, way


def test_little_power_is_an_answer_where_nvml_is_all_there_is() -> None:
    for sampling, accepted in ((drawing.NVML, True), (drawing.DCGM, False)):
        drawn = draw(1, name="one_sm")
        job = Job(1, "one_sm", drawn.plan, sampling)
        assert mark(job, {("low_power", "warning")}).right == accepted


def test_the_table_names_each_miss_and_ends_with_all() -> None:
    jobs = [draw(seed) for seed in (8, 7, 5)]
    said = [{("hang", "critical")}, {("low_occupancy", "warning")}, {("gaps", "warning")}]
    answers = [mark(job, codes) for job, codes in zip(jobs, said, strict=True)]
    figures = list(truth.figures("truth", Result(answers, 0.0, 0.0)))
    assert [each.what for each in figures if each.unit in ("missed", "false alarm")] == [
        "truth: 8 memory_full nvml-1s lacks memory_full",
        "truth: 8 memory_full nvml-1s has hang",
    ]
    assert [(each.what, each.value, each.missed) for each in figures[-2:]] == [
        ("truth, all: precision", pytest.approx(2 / 3), True),
        ("truth, all: recall", pytest.approx(2 / 3), True),
    ]
