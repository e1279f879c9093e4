"""Rounds in which jobs race for one name, by Slurm, Open MPI, hydra, torchrun or Kubernetes, with and without ``-f`` and
``-a``; some ranks are killed or late. Some rounds always, ``--rounds`` of them from ``--seed`` on where tests may be slow.

A job is torn whose ranks neither all ran once, with their workload's exit code, nor all ended with 2 and ran nothing.
``-a``, the default name, job arrays and jobs on several nodes refuse nobody; else, without ``-f``, a recording that
exists, or began half a second earlier, refuses a job, and of several jobs one is let in. A rank is lost that after
``gssr merge`` has no samples, or isn't in exactly one run with its own job.
"""

import contextlib
from pathlib import Path

import pytest

from tests.faults.tried import NotHereError
from tests.races.rounds import started, table
from tests.races.rounds.drawn import IN_SLURM, RANKS, Job, Race, Rank, drawn
from tests.races.rounds.judged import Held, Verdict, judged
from tests.races.rounds.started import Attempt, Outcome

CODES = ((10, 11, 12, 13), (20, 21, 22, 23))


def race(*options: str, earlier: bool = False) -> Race:
    """Two jobs with these options."""
    codes = zip(options, CODES[: len(options)], strict=True)
    jobs = [Job(option, tuple(Rank(0.0, (1.0,), code) for code in own)) for option, own in codes]
    return Race(7, "openmpi", True, earlier, True, 1, True, tuple(jobs), None, 0.0, False)


def ran(job: int, start: float = 0.0) -> dict[tuple[int, int], list[Attempt]]:
    """All ranks of a job ran for a second."""
    return {
        (job, rank): [Attempt(start, start + 1.3, CODES[job][rank], (start + 0.1,), (start + 1.1,), "")]
        for rank in range(RANKS)
    }


def refused(job: int) -> dict[tuple[int, int], list[Attempt]]:
    """None of the ranks of a job began."""
    return {(job, rank): [Attempt(0.0, 0.2, 2, (), (), "gssr: -o race.sql: exists\n")] for rank in range(RANKS)}


def recorded(*jobs: int) -> Held:
    """The recording holds these jobs, whole."""
    return Held(
        [(f"7-{job}", f"run{job}", rank, CODES[job][rank]) for job in jobs for rank in range(RANKS)],
        [(f"7-{job}", f"run{job}", rank, "n", job * RANKS + rank, 9) for job in jobs for rank in range(RANKS)],
        [],
    )


def verdict(race: Race, ranks: dict[tuple[int, int], list[Attempt]], held: Held, missing: int | None = None) -> Verdict:
    """Of a round whose page shows what SQLite finds, and says that so many ranks are missing."""
    pages: dict[str, list[dict[str, object]]] = {}
    for label, run, *_ in held.processes:
        gpus = [{"rank": rank, "n_samples": n} for of, _, rank, _, _, n in held.gpus if of == label]
        told = {} if missing is None else {"world_size": RANKS, "ranks_missing": missing}
        pages[label] = [{"run_id": run, "gpus": gpus, **told}]
    return judged(race, Outcome(ranks, False), [], held, pages)


def test_a_job_of_which_some_ranks_are_refused_is_torn() -> None:
    ranks = ran(0) | refused(1) | {(1, 2): ran(1)[1, 2]}
    assert len(verdict(race("", ""), ranks, recorded(0)).torn) == 1


@pytest.mark.parametrize(
    "attempt",
    [
        Attempt(0.0, 1.0, 0, (0.1,), (0.9,), ""),
        Attempt(0.0, None, None, (0.1,), (), ""),
        Attempt(0.0, 1.0, 11, (0.1, 0.2), (0.9, 0.9), ""),
        Attempt(0.0, 1.0, 2, (0.1,), (), ""),
    ],
    ids=["another code", "never ended", "ran twice", "refused after its start"],
)
def test_a_rank_that_does_not_end_as_its_workload_did_is_noticed(attempt: Attempt) -> None:
    found = verdict(race("", ""), ran(0) | refused(1) | {(0, 1): [attempt]}, recorded(0))
    assert len(found.torn) == 1
    found = verdict(race("", ""), ran(0) | refused(1) | {(1, 1): []}, recorded(0))
    assert len(found.torn) == 1  # never begun


def test_who_is_refused_or_let_in_against_the_rules() -> None:
    assert verdict(race("", "-a"), ran(0) | refused(1), recorded(0)).wrongly
    assert verdict(race("", ""), ran(0) | ran(1), recorded(0, 1)).wrongly
    assert verdict(race("", ""), refused(0) | refused(1), recorded()).wrongly
    assert verdict(race("-a", ""), ran(0) | ran(1, 0.7), recorded(0, 1)).wrongly
    assert not verdict(race("-a", ""), ran(0) | ran(1, 0.3), recorded(0, 1)).wrongly
    assert not verdict(race("-f", "-a"), ran(0) | ran(1, 0.7), recorded(0, 1)).wrongly


def test_a_workload_that_does_not_print_what_is_its_own_is_noticed() -> None:
    ranks = ran(0) | refused(1)
    ranks[0, 2] = [ranks[0, 2][0]._replace(is_output_whole=False)]
    assert len(verdict(race("", ""), ranks, recorded(0)).torn) == 1


def test_a_rank_is_lost_that_lacks_in_any_place() -> None:
    whole = recorded(0, 1)
    both = ran(0) | ran(1)
    assert verdict(race("-a", "-a"), both, whole).problems == []
    without = whole._replace(processes=whole.processes[:-1])
    assert len(verdict(race("-a", "-a"), both, without, missing=1).lost) == 1
    without = whole._replace(gpus=whole.gpus[:-1])
    assert len(verdict(race("-a", "-a"), both, without).lost) == 1
    assert len(verdict(race("-a", "-a"), both, recorded(0)).lost) == 4


def test_a_run_may_be_replaced_whole_by_one_with_f_that_began_after_it() -> None:
    found = verdict(race("-a", "-f"), ran(0) | ran(1, 1.2), recorded(1))
    assert (found.problems, found.replaced) == ([], 1)
    assert verdict(race("-f", "-f"), ran(0) | ran(1, 1.2), recorded()).lost  # but not by one that is gone as well
    assert verdict(race("-a", "-f"), ran(0, 0.5) | ran(1), recorded(1)).lost  # nor one that goes on after it
    assert verdict(race("-a", "-f"), ran(0) | ran(1, 0.5), recorded(1)).lost  # nor one that was going on when it began
    array = race("-a", "-f")._replace(kind="slurm-array")
    assert verdict(array, ran(0) | ran(1, 1.2), recorded(1)).lost  # nor a task of its own array
    part = Held(recorded(0, 1).processes[3:], recorded(0, 1).gpus[3:], [])
    assert len(verdict(race("-a", "-f"), ran(0) | ran(1, 1.2), part, missing=3).lost) == 3  # nor in part
    assert verdict(race("-f", "-a", earlier=True), ran(0) | ran(1), recorded(0, 1)).replaced == 1
    assert verdict(race("-a", "-a", earlier=True), ran(0) | ran(1), recorded(0, 1)).lost


def test_runs_that_are_mixed_or_apart_are_noticed() -> None:
    whole = recorded(0, 1)
    both = ran(0) | ran(1)
    mixed = whole._replace(processes=[("7-0", "run0", rank, code) for _, _, rank, code in whole.processes])
    assert verdict(race("-a", "-a"), both, mixed).lost
    apart = whole._replace(processes=[("7-0", f"run0{rank}", rank, code) for _, _, rank, code in whole.processes[:4]])
    assert any("4 runs" in problem for problem in verdict(race("-a", "-a"), both, apart).lost)


SEED = 58
"""Of a round with Slurm's variables; pods, Open MPI and killed ranks are among the slow rounds."""


def _possible(races: list[Race]) -> list[Race]:
    """Without those of pods where only root could start them."""
    return [one for one in races if one.kind != "kubernetes" or started.pods_are_possible()]


def _problems(found: list[tuple[Race, Verdict]]) -> list[str]:
    return [f"--seed {one.seed} ({one}): {problem}" for one, verdict in found for problem in verdict.problems]


@pytest.mark.timeout(900)
def test_jobs_that_race_are_recorded_whole_or_refused_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CACHE", tmp_path)
    one = drawn(SEED)
    assert one.kind == "step" and [job.option for job in one.jobs] == ["", ""]
    found = list(table.verdicts([one]))
    assert not _problems(found), "\n".join(_problems(found))
    assert len(found) == 1
    unrecorded, ranks = found[0][1].unrecorded, found[0][1].ranks
    assert unrecorded <= 2, f"{unrecorded} of {ranks} ranks went on unrecorded"


LONGER = 2.0
"""Seconds that a rank may take longer than where each job has a name of its own."""


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_jobs_that_race_again_and_again_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr(table, "CACHE", tmp_path)
    first, n = pytestconfig.getoption("seed"), pytestconfig.getoption("rounds")
    races = _possible([drawn(seed) for seed in range(first, first + n)])
    with contextlib.ExitStack() as stack:
        environment = started.ENVIRONMENT
        try:
            environment = stack.enter_context(started.slurm())
        except NotHereError:
            races = [one for one in races if one.kind not in IN_SLURM]
        usual, found = 0.0, []
        for at in range(0, len(races), 10):  # as often one is done with a name for each job, which tells what is usual
            some = races[at : at + 10]
            usual = max(usual, table.usual(some[0], environment))
            found += list(table.verdicts(some, environment))
    assert not _problems(found), "\n".join(_problems(found))
    assert len(found) == len(races)
    assert [one.seed for one, verdict in found if max(verdict.beyond, default=0.0) > usual + LONGER] == []
    ranks = sum(verdict.ranks for _, verdict in found)
    assert sum(verdict.unrecorded for _, verdict in found) <= max(1, ranks // 100)
