"""Rounds of tests/races in a job array, whose tasks share one ``-o`` and have two nodes each."""

from itertools import count
from pathlib import Path

import pytest

from tests.races.rounds import table
from tests.races.rounds.drawn import drawn

pytestmark = pytest.mark.xdist_group("slurm")


@pytest.mark.parametrize("option", ["", "-f", "-a"])
def test_all_tasks_of_an_array_with_one_name_run_and_are_recorded(
    slurm, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "CACHE", tmp_path)
    races = (race for race in map(drawn, count()) if race.kind == "slurm-array" and race.each_has(option))
    race = next(race for race in races if not race.killed)
    ((_, verdict),) = table.verdicts([race], slurm.environ)
    assert verdict.problems == []
    assert (verdict.jobs_refused, verdict.ranks) == (0, 4 * len(race.jobs))
