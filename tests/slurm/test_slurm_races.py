"""A round of ``python -m benchmarks races`` in a job array, whose tasks share one ``-o`` and have two nodes each."""

from pathlib import Path

import pytest

from benchmarks.races import table
from benchmarks.races.drawn import drawn

pytestmark = pytest.mark.xdist_group("slurm")


def test_of_an_array_with_one_name_one_task_is_recorded_and_the_other_refused_whole(
    slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "CACHE", tmp_path)
    race = drawn(309)
    assert (race.kind, race.nodes, [job.option for job in race.jobs]) == ("slurm-array", 2, ["", ""])
    ((_, verdict),) = table.verdicts([race], slurm.environ)
    assert verdict.problems == []
    assert (verdict.jobs_refused, verdict.ranks) == (1, 4)
