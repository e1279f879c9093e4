"""What a node does is told apart from what its jobs do; one number is not enough to call it slow."""

import numpy as np
import pytest

from gssr.model.fleet.bad_nodes import FEWEST_JOBS, BadNode, against_others, bad_nodes, effects
from gssr.model.fleet.figures import GpuFigures, RunFigures
from gssr.model.fleet.fleet import Fleet
from gssr.report.fleet import FleetPageOptions, fleet_page
from gssr.report.fleet_export import document
from gssr.report.terminal import to_text

BAD = "n07"


def gpu(run: str, number: int, node: str, activity: float, clock: float, watts: float, model: str) -> GpuFigures:
    return GpuFigures(
        run,
        number,
        node,
        0,
        None,
        model,
        100,
        0,
        1.0,
        0.5,
        0.5,
        0.1,
        0.0,
        3600.0 * watts,
        0.0,
        0,
        activity,
        activity,
        clock,
    )


def jobs(
    n_jobs: int, activity: float = 1.0, clock: float = 1.0, power: float = 1.0, seed: int = 3, nodes_a_job: int = 8
) -> list[tuple[str, RunFigures]]:
    """Jobs on some of 20 nodes, unlike each other, of which one node's GPUs do so much (as ratios) of what others do; in
    every third job some node is a straggler."""
    chance = np.random.default_rng(seed)
    found = []
    for number in range(n_jobs):
        nodes = [f"n{node:02d}" for node in chance.choice(20, nodes_a_job, replace=False)]
        level, watts = chance.uniform(0.3, 0.9), chance.uniform(200, 600)
        strange = int(chance.integers(nodes_a_job)) if number % 3 == 0 else -1
        gpus = []
        for at, node in enumerate(nodes):
            noise = np.exp(chance.normal(0, 0.01, 3))
            own = (activity, clock, power) if node == BAD else (1.0, 1.0, 1.0)
            late = 0.8 if at == strange else 1.0
            gpus.append(
                gpu(f"r{number}", at, node, level * own[0] * noise[0] * late, own[1] * noise[1],
                watts * own[2] * noise[2] * late, "H100"),
            )  # fmt: skip
        run = RunFigures(
            f"r{number}", f"{number}.sql", None, "train.py", str(number), f"u{number % 3}", None, "completed", 1e9, 3600.0,
            nodes_a_job, nodes_a_job, 800, 0, float(nodes_a_job), 0.5, 4.0, 0.1, 0.0, 1e6, 5e5, 0, 0.1, 0.8,
            gpus=tuple(gpus),
        )  # fmt: skip
        found.append((str(number), run))
    return found


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
def test_each_is_held_against_the_median_of_all_others(n: int) -> None:
    values = np.random.default_rng(n).integers(1, 5, n).astype(float)  # with some that are equal
    expected = [np.log(values[i]) - np.median(np.log(np.delete(values, i))) for i in range(n)]
    assert against_others(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("differs", "kind"),
    [
        ({"clock": 0.9, "activity": 1.08, "power": 0.92}, "slow_clock"),
        ({"activity": 1.09}, "busier"),
        ({"activity": 0.9, "power": 0.93}, "less_busy"),
        ({"activity": 0.9}, None),  # as a faster node is
        ({"clock": 1.1, "activity": 0.9, "power": 1.1}, None),
        ({"power": 0.9}, None),
        ({}, None),
    ],
)
def test_what_a_node_is_depends_on_its_clock_activity_and_power(differs: dict[str, float], kind: str | None) -> None:
    found = bad_nodes(jobs(60, **differs))
    assert [(each.node, each.kind) for each in found] == ([(BAD, kind)] if kind else [])
    for each in found:
        assert each.n_users == 3 and each.share > 0.8 and each.n_jobs >= 10
        assert each.activity == pytest.approx(differs.get("activity", 1.0), abs=0.02)


def test_few_jobs_small_jobs_and_other_models_tell_nothing() -> None:
    assert bad_nodes(jobs(4, clock=0.8)) == []
    assert bad_nodes(jobs(200, clock=0.8, nodes_a_job=2)) == []
    mixed = [
        (job, run._replace(gpus=tuple(own._replace(name="A100") if own.node == BAD else own for own in run.gpus)))
        for job, run in jobs(60, clock=0.8)
    ]
    assert bad_nodes(mixed) == []
    assert effects({str(node): [0.1] * FEWEST_JOBS for node in range(3)}) == {}


def test_runs_of_one_job_count_once() -> None:
    assert bad_nodes([("1", run) for _, run in jobs(60, clock=0.8)]) == []


def test_unused_gpus_and_unknown_numbers_count_not() -> None:
    idle = [
        (job, run._replace(gpus=tuple(own._replace(unused=1) if own.node == BAD else own for own in run.gpus)))
        for job, run in jobs(60, clock=0.8)
    ]
    assert bad_nodes(idle) == []
    nothing = [
        (
            job,
            run._replace(
                gpus=tuple(own._replace(relative_clock=None, sm_active=None, energy_j=None) for own in run.gpus)
            ),
        )
        for job, run in jobs(60)
    ]
    assert bad_nodes(nothing) == []


def test_the_page_and_the_object_say_what_to_do() -> None:
    runs = [run for _, run in jobs(60, clock=0.9)]
    of_bad = [own.gpu for own in runs[0].gpus if own.node == BAD] or [0]
    runs[0] = runs[0]._replace(verdicts={"slow_node": tuple(of_bad), "imbalance": ()})
    found = Fleet(tuple(runs), 60, (), ())
    page = to_text(fleet_page(["x"], found, FleetPageOptions()), False, False)
    section = page.partition("Which nodes are slow whatever runs there?")[2].partition("──\n")[2]
    assert section.splitlines()[1].split()[0] == BAD and "#SBATCH --exclude" in section
    (node,) = document(found, ["user"], "wasted", None)["bad_nodes"]
    assert (
        set(node) == set(BadNode._fields)
        and node["kind"] == "slow_clock"
        and node["clock"] == pytest.approx(0.9, abs=0.02)
    )
