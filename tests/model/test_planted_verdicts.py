"""Every cause that was planted gives its verdict from the recording alone, and nothing else that calls for action."""

from collections.abc import Callable

import numpy as np
import pytest

from gssr.model.analyze import Options, analyze
from gssr.model.evidence.gather import gather
from gssr.model.results import Verdict
from gssr.model.verdicts import judge
from gssr.store.read.recording import RunReader, open_recording
from tests.fakes import planted

EXPECTED = {
    "healthy": set(),
    "straggler": set(),  # the others go on without it: 1.5 % of the GPU time is lost
    "late_start": {"late_start"},
    "slow_node": {"throttled_thermal"},
    "rotating": {"rotating_stragglers"},  # 6.2 % of the time is lost
    "io_dip": set(),  # 3.7 % of the time: told as an info
    "idle_gpus": {"gpus_unused"},
    "gap": {"gpu_lost"},
    "checkpoint": {"transfer_bound"},
    "before": {"unexplained"},  # 21 % of the GPU time: waits of seconds, which are no gaps between kernels
    "after": set(),  # the same for 15 %, as healthy jobs have it
}
"""Verdicts of severity warning and critical."""


@pytest.fixture(scope="module")
def recorded(plants: dict[str, str]) -> Callable[[str], RunReader]:
    return lambda name: open_recording(plants[name]).runs[0]


def _serious(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {verdict.code for verdict in verdicts if verdict.severity != "info"}


@pytest.mark.parametrize("plant", planted.PLANTS, ids=lambda plant: plant.name)
def test_a_planted_cause_gives_its_verdict_and_no_other(
    plant: planted.Plant, recorded: Callable[[str], RunReader]
) -> None:
    found = analyze(recorded(plant.name)).judgement
    assert _serious(found.verdicts) == EXPECTED[plant.name], [verdict.title for verdict in found.verdicts]


@pytest.mark.parametrize("name", ["straggler", "slow_node", "checkpoint", "idle_gpus", "late_start", "healthy"])
def test_rollups_give_the_verdicts_of_raw_rows(
    name: str, recorded: Callable[[str], RunReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = recorded(name)
    exact = _serious(judge(gather(reader, np.arange(len(reader.gpus)))).verdicts)
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    rolled = gather(reader, np.arange(len(reader.gpus)))
    assert rolled.width >= 10
    assert _serious(judge(rolled).verdicts) == exact


def test_a_selection_and_a_window_are_judged_for_themselves(recorded: Callable[[str], RunReader]) -> None:
    reader = recorded("straggler")
    assert _serious(analyze(reader, Options(gpus=("nid000001",))).judgement.verdicts) == set()
    late = recorded("late_start")
    assert _serious(analyze(late, Options(start="150")).judgement.verdicts) == set()


def test_means_of_rollups_are_those_of_raw_rows(
    recorded: Callable[[str], RunReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = recorded("slow_node")
    positions = np.arange(len(reader.gpus))[4:12]
    exact = gather(reader, positions)
    monkeypatch.setattr("gssr.model.evidence.gather.MOST_ROWS", 0)
    rolled = gather(reader, positions)
    assert exact.means.names == rolled.means.names
    np.testing.assert_array_equal(exact.means.n, rolled.means.n)
    np.testing.assert_allclose(exact.means.total, rolled.means.total, rtol=1e-9)
    np.testing.assert_array_equal(exact.greatest["temperature"], rolled.greatest["temperature"])
    np.testing.assert_array_equal(exact.n_rows, rolled.n_rows)
