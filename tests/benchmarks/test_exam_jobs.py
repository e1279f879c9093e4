"""The simulated jobs that examine the diagnosis: time, bytes and energy add up, and labels are what causes cost."""

import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.jobs import causes, healthy
from tests.fakes.jobs.draw import CLASSES, SEED_VARIABLE, draw, half
from tests.fakes.jobs.exam import analyzed, examine, mark
from tests.fakes.jobs.hardware import H100, L40S
from tests.fakes.jobs.job import IDLE, Cause, Plan, Recipe
from tests.fakes.jobs.labels import UNDECIDABLE, Job
from tests.fakes.jobs.phases import Kind
from tests.fakes.jobs.samplers import DCGM, GPM, HELD, NVML, SAMPLINGS, TEN, THIRTY, Samples, Sampling, sample
from tests.fakes.jobs.write import write

pytestmark = pytest.mark.slow  # nothing of GSSR is tested here, but what its examinations are made with
BUSY = Kind(engine=1.0, sm=0.8, occupancy=0.4, tensor=0.5, dram=0.4, host_rx=0.25, fabric=0.1)


def _job(
    *found: Cause, sampling: Sampling = DCGM, recipe: Recipe | None = None, n: int = 8, seconds: float = 300
) -> Job:
    step = recipe or Recipe("plain", ((BUSY, 0.91), (IDLE, 0.39)), jitter=0.0)
    plan = Plan((H100,) * n, 8, step, round(seconds / step.step), seconds, tuple(found), 7).lasting()
    return Job(7, found[0].name if found else "plain", plan, sampling)


def _training(seconds: float = 1.6) -> Recipe:
    return healthy.recipe("llm", np.random.default_rng(1), seconds, healthy.RING)


def _sampled(job: Job) -> Samples:
    return sample(job.draft, job.timeline, job.sampling, job.seed)


@pytest.mark.parametrize("name", CLASSES)
def test_every_moment_of_every_rank_is_spent_in_one_phase(name: str) -> None:
    job = draw(3, name=name)
    timeline = job.timeline
    times = np.linspace(0, timeline.duration, 9)
    assert timeline.spent(times).sum(axis=2) == pytest.approx(np.broadcast_to(times[:, None], (9, job.draft.n)))
    now = timeline.now(times[1:-1] + 1e-4)
    spent = timeline.spent(times[1:-1] + 2e-4) - timeline.spent(times[1:-1])
    assert (np.take_along_axis(spent, now[:, :, None], axis=2) > 0).all()  # what it is in is what it spends time in
    assert all(saved >= 0 for saved in job.seconds_saved.values())
    assert job.seconds_saved.keys() <= {cause.name for cause in job.plan.causes}


@pytest.mark.parametrize("sampling", [GPM, DCGM, HELD, TEN, THIRTY])
def test_means_of_every_sampling_are_those_of_the_closed_form(sampling: Sampling) -> None:
    columns = _sampled(_job(sampling=sampling)).columns
    for name, per_busy in (("gr_engine_active", 1.0), ("sm_active", 0.8), ("tensor_active", 0.5), ("dram_active", 0.4)):
        assert np.nanmean(columns[name]) == pytest.approx(0.7 * per_busy, rel=0.02)
    nic = 0.1 * H100.nic
    assert np.nanmean(columns["pcie_rx_bytes"]) == pytest.approx(1.03 * 0.7 * (0.25 * H100.pcie + nic), rel=0.02)
    assert np.nanmean(columns["pcie_tx_bytes"]) == pytest.approx(1.03 * 0.7 * nic, rel=0.02)


def test_energy_is_power_over_time() -> None:
    columns = _sampled(_job()).columns
    watts = np.diff(columns["energy"], axis=0)
    assert columns["power_usage"][1:].sum() == pytest.approx(watts.sum(), rel=0.01)
    assert watts.mean() == pytest.approx(
        H100.idle_power + 0.7 * BUSY.load * (H100.power_limit - H100.idle_power), rel=0.01
    )


def test_a_profiling_field_is_held_until_its_window_is_over() -> None:
    job = _job(sampling=HELD, recipe=Recipe("slow", ((BUSY, 2.3), (IDLE, 1.9)), jitter=0.0))
    samples = _sampled(job)
    sm = samples.columns["gr_engine_active"]
    assert np.isnan(sm[:4]).all() and not np.isnan(sm[4:]).any()  # blank until the first is there
    for start in range(4, 104, 5):
        held = sm[start : start + 5]
        share = job.timeline.shares(samples.times[[start], 0], 1.0) @ np.array(
            [kind.engine for kind in job.timeline.kinds]
        )
        assert held == pytest.approx(np.broadcast_to(share, held.shape), abs=0.06)


def test_nvml_alone_has_whole_percents_and_no_profiling() -> None:
    columns = _sampled(_job(sampling=NVML)).columns
    assert not {"sm_active", "tensor_active", "dram_active", "pcie_rx_bytes"} & columns.keys()
    percents = 100 * columns["gpu_utilization"]
    assert percents == pytest.approx(np.rint(percents), abs=1e-9)
    assert percents.min() < 45 and percents.max() > 95


def test_missing_values_and_rows_are_as_many_as_said() -> None:
    samples = _sampled(_job(sampling=DCGM._replace(nulls=0.4, lost_rows=0.05)))
    assert np.isnan(samples.columns["sm_active"]).mean() == pytest.approx(0.4, abs=0.03)
    assert samples.rows.mean() == pytest.approx(0.95, abs=0.02)


def test_gpus_without_a_link_have_no_traffic_on_it() -> None:
    job = draw(1, name="copies")
    plan = Plan((L40S,) * 4, 4, job.plan.recipe, 50, 60.0, (), 1).lasting()
    assert "nvlink_tx_bytes" not in _sampled(Job(1, "plain", plan, DCGM)).columns


def test_a_cause_costs_what_it_was_given_to_cost() -> None:
    recipe = _training()
    share = lambda cause: (job := _job(cause, recipe=recipe)).seconds_saved[cause.name] / job.timeline.duration  # noqa: E731
    assert share(causes.communication(0.4, healthy.RING, 1.0, 1.6)) == pytest.approx(0.4, abs=0.01)
    assert share(causes.copies(0.3, False)) == pytest.approx(0.3, abs=0.01)
    assert share(causes.starved(0.5, True, 128)) == pytest.approx(0.5, abs=0.01)
    assert share(causes.launches(0.5)) == pytest.approx(0.5, abs=0.02)
    assert share(causes.rotating(1.8, 1)) == pytest.approx(0.8 / 1.8, abs=0.02)
    assert share(causes.slow_down(1.0)) == pytest.approx(1 / 3, abs=0.01)
    assert share(causes.uneven(np.array([1.0] * 7 + [1.5]), "straggler", True)) == pytest.approx(1 - 8.5 / 12, abs=0.02)
    assert share(causes.slow_clock((3,), 0.5, 0, 0.0, "slow_clock")) == pytest.approx(0.9 / 1.9, abs=0.02)


def test_what_costs_little_may_be_said_and_what_costs_nothing_must_not() -> None:
    jobs = [
        _job(causes.communication(share, healthy.RING, 0.001, 1.6), recipe=_training()) for share in (0.2, 0.03, 0.01)
    ]
    assert [bool(job.must) for job in jobs] == [True, False, False]
    assert ["communication_bound" in job.may for job in jobs] == [True, True, False]
    assert [job.healthy for job in jobs] == [False, False, True]


def test_a_step_is_as_long_as_was_simulated() -> None:
    assert _job().step_seconds == pytest.approx(1.3, rel=0.002)
    slower = _job(causes.slow_down(1.0), recipe=_training())
    assert slower.step_change == pytest.approx((1 + 0.9) / (1 + 0.1) - 1, abs=0.05)
    assert _job(causes.hang(300, None, True, True)).step_seconds is None


def test_a_culprit_is_the_one_that_differs() -> None:
    job = _job(causes.hang(150, 5, True, False))
    samples = _sampled(job)
    assert job.culprits == (5,) and job.must == {"hang"} and job.draft.state != "completed"
    busy = np.nanmean(samples.columns["gr_engine_active"][-100:], axis=0) > 0.9
    assert np.flatnonzero(~busy).tolist() == [5]
    assert job.gpu_hours_saved["hang"] == pytest.approx(150 * 8 / 3600, rel=0.01)


def test_the_same_seed_is_the_same_job(tmp_path: Path) -> None:
    rows = []
    for name in ("one", "two"):
        job = draw(26)
        write(job, str(tmp_path / name))
        with sqlite3.connect(tmp_path / name) as connection:
            rows.append(connection.execute("SELECT * FROM samples").fetchall())
            nodes = connection.execute("SELECT count(DISTINCT node), count(*) FROM gpus").fetchone()
            hosts = connection.execute("SELECT count(*), count(cpu_utilization) FROM host_samples").fetchone()
        assert nodes == (max(job.plan.nodes) + 1, job.draft.n)
        assert hosts[0] == hosts[1] > 0
    assert rows[0] == rows[1] and len(rows[0]) > 100


def test_jobs_are_drawn_over_all_classes_sizes_and_samplings() -> None:
    jobs = [draw(seed) for seed in half(1, 160)]
    sizes = Counter(len(job.plan.gpus) for job in jobs)
    assert min(sizes) == 8 and max(sizes) == 256
    assert {job.sampling.name for job in jobs} == {sampling.name for sampling in SAMPLINGS}
    kinds = {job.name for job in jobs if job.name.startswith("healthy_")}
    assert len(kinds) >= 10
    assert all(job.healthy for job in jobs if job.name.startswith("healthy_"))
    assert len({job.name for job in jobs} - kinds) > 20
    assert max(job.timeline.duration for job in jobs) > 3600 > 60 > min(job.timeline.duration for job in jobs)


def test_few_combinations_are_undecidable() -> None:
    names = {draw(3, name=name).name for name in CLASSES} | {name for name, _, _ in UNDECIDABLE}
    samplings = {(sampling.name, "dcgm" if sampling.profiling else "nvml") for sampling in SAMPLINGS}
    assert {(sampling, backend) for _, sampling, backend in UNDECIDABLE} <= samplings
    assert len(UNDECIDABLE) <= 0.3 * len(names) * len(samplings)


def test_the_second_half_is_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    with pytest.raises(ValueError, match=SEED_VARIABLE):
        half(2, 3)
    monkeypatch.setenv(SEED_VARIABLE, "5")
    assert half(2, 3) == half(2, 3) != half(1, 3)


def test_answers_are_marked_by_what_had_to_be_said() -> None:
    job = _job(causes.pauses(30, 6), recipe=_training())
    right = mark(job, {("pauses", "warning"), ("gaps", "warning"), ("compute_bound", "info")})
    assert right.right and right.found == {"pauses"}
    wrong = mark(job, {("hang", "critical"), ("memory_full", "info"), ("fp64", "info")})
    assert wrong.false == {"hang", "memory_full", "fp64"} and wrong.missed == {"pauses"}


@pytest.mark.parametrize(
    "cause",
    [causes.slow_input(0.3, 4, False, False), causes.slow_clock((3,), 0.6, 0, 0.0, "slow_clock"),
     causes.communication(0.5, healthy.RING, 1.0, 1.6), causes.rotating(2.0, 8)],
    ids=lambda cause: cause.name,
)  # fmt: skip
def test_what_is_said_to_be_won_is_what_the_simulation_without_the_cause_saves(cause: Cause) -> None:
    result = examine([_job(cause, recipe=_training())])
    assert set(result.savings()) & set(cause.says.split("|")), list(result.lines())
    assert all(given == near for given, near in result.savings().values()), list(result.lines())


def test_an_examination_counts_who_knows_all_and_who_knows_nothing() -> None:
    jobs = [draw(seed, least_gpus=8) for seed in (3, 7, 8)]
    truth = {str(job.seed): {(code.split("|")[0], "warning") for code in job.must} for job in jobs}
    assert (result := examine(jobs, lambda path: truth[Path(path).stem])).precision() == result.recall() == 1
    assert examine(jobs, lambda _: set()).recall() == 0
    said = examine(jobs, lambda _: {("hang", "critical")})
    assert said.precision() == 0 and said.healthy_blamed() == (1, 1)
    assert any("hang(c)" in line for line in said.lines())


def test_the_tool_is_asked_as_a_user_asks_it(tmp_path: Path) -> None:
    write(_job(causes.unused((2,)), recipe=_training(), seconds=90), str(tmp_path / "job.sql"))
    assert {severity for _, severity in analyzed(str(tmp_path / "job.sql"))} <= {"info", "warning", "critical"}
