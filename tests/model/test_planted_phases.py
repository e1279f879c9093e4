"""The phases of every planted recording are those that were planted, from raw rows and from rollups."""

import numpy as np
import pytest
from evidences import during, evidence, scaled

from gssr.model.evidence.gather import gather
from gssr.model.findings.phases import phases
from gssr.model.results import Phase
from gssr.model.verdicts.engine import judge_phases
from gssr.model.verdicts.rules import TABLE
from gssr.store.read.recording import open_recording
from tests.fakes import planted

EXPECTED: dict[str, list[tuple[str, float]]] = {
    "io_dip": [("steady", 250), ("idle", 272), ("steady", 600)],
    "checkpoint": [("recurring", 600)],
    "before": [("start-up", 40), ("recurring", 480)],
    "after": [("start-up", 10), ("recurring", 400)],
}
"""The kind of each phase and where it ends (s); of all others one steady phase."""
PERIODS = {"checkpoint": 90.0, "before": 12.0, "after": 24.0}


def _found(path: str) -> tuple[Phase, ...]:
    reader = open_recording(path).runs[0]
    return phases(gather(reader, np.arange(len(reader.gpus))))


@pytest.mark.parametrize("plant", planted.PLANTS, ids=lambda plant: plant.name)
def test_the_phases_planted_are_found(plant: planted.Plant, plants: dict[str, str]) -> None:
    found = _found(plants[plant.name])
    expected = EXPECTED.get(plant.name, [("steady", plant.seconds)])
    assert [phase.kind for phase in found] == [kind for kind, _ in expected]
    ends = [phase.end - found[0].start for phase in found]
    assert ends == pytest.approx([end for _, end in expected], abs=2.0)
    if plant.name in PERIODS:
        cycle = found[-1].cycle
        assert cycle is not None and cycle.period == pytest.approx(PERIODS[plant.name], rel=0.02)


@pytest.mark.parametrize("name", ["healthy", "straggler", "rotating", "io_dip", "checkpoint"])
def test_rollups_give_the_phases_of_raw_rows(
    name: str, plants: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = _found(plants[name])
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    rolled = _found(plants[name])
    assert [phase.kind for phase in rolled] == [phase.kind for phase in exact]
    assert [phase.end for phase in rolled] == pytest.approx([phase.end for phase in exact], abs=20.0)
    for one, other in zip(rolled, exact, strict=True):
        assert one.score == pytest.approx(other.score, abs=0.1)


def test_a_phase_before_the_first_work_says_nothing_that_the_whole_does_not() -> None:
    """All cores are busy while the job starts, and GPUs do very little: the run's account books that as start-up, and so
    does that of its phase, in which by itself the little would be work."""
    use = during(300, 0, 60, 0.06)
    use[:20] = 0.0
    made = evidence(host={"cpu_utilization": 0.99}, **scaled(use))
    parts = phases(made)
    assert parts[0].kind == "start-up"
    judged = judge_phases(parts, made, (), TABLE)
    assert not judged[0].verdicts
