"""Dumps of NCCL's flight recorder beside the recording of the job that hung: whoever did not come is the GPU that idles."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from gssr.cli import main
from gssr.commands.attached import wrong_attach
from gssr.recognise import FLIGHT
from tests.fakes.jobs import causes, healthy
from tests.fakes.jobs.hardware import H100
from tests.fakes.jobs.job import Plan
from tests.fakes.jobs.labels import Job
from tests.fakes.jobs.samplers import DCGM
from tests.fakes.jobs.write import START, write
from tests.fakes.traces import flight_recorder
from tests.fakes.traces.flight_recorder import absent

_STEPS = healthy.recipe("llm", np.random.default_rng(1), 1.6, healthy.RING)


def _hung(path: Path, culprit: int | None) -> Path:
    """Write the recording of a job of four ranks that hangs after a while; all wait for the rank ``culprit``."""
    cause = causes.hang(200, culprit, True, False)
    plan = Plan((H100,) * 4, 8, _STEPS, 250, 400.0, (cause,), 7).lasting()
    write(Job(7, "job", plan, DCGM), str(path))
    return path


def _dumps(folder: Path, missing: int, monkeypatch: pytest.MonkeyPatch, seconds: float = 100.0) -> list[str]:
    """Write the dumps of these four ranks, of which one did not come, begun ``seconds`` after the job's start."""
    monkeypatch.setattr(flight_recorder, "START", int((START + seconds) * 1e9))
    folder.mkdir()
    return [str(own.write(folder)) for own in absent((missing,))]


def _hang(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict, list[str]]:  # type: ignore[type-arg]
    """Return the verdict of the hang, {} without one, and the notes."""
    assert main(["analyze", "--json", *arguments]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    return next((each for each in found["verdicts"] if each["code"] == "hang"), {}), found["notes"]


def test_the_rank_that_did_not_come_is_the_gpu_that_idles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _hung(tmp_path / "run.sql", 2)
    dumps = _dumps(tmp_path / "dumps", 2, monkeypatch)
    found, _ = _hang(capsys, str(run), "--attach", *dumps)
    text = found["evidence"][-1]["text"]
    assert "ranks 0-1, 3 wait for rank 2, which did not come (gpu001:2: idle, too)" in text
    assert main(["analyze", str(run), "--attach", *dumps]) == 0
    assert "wait for rank 2, which did not come" in " ".join(capsys.readouterr().out.split())


def test_another_rank_than_the_one_that_idles_is_said_to_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _hung(tmp_path / "run.sql", 2)
    found, _ = _hang(capsys, str(run), "--attach", *_dumps(tmp_path / "dumps", 1, monkeypatch))
    assert "(gpu001:1: not idle in the samples)" in found["evidence"][-1]["text"]


def test_dumps_of_another_time_are_not_of_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _hung(tmp_path / "run.sql", 2)
    dumps = _dumps(tmp_path / "dumps", 2, monkeypatch, -3600.0)
    found, notes = _hang(capsys, str(run), "--attach", *dumps)
    assert not any("flight recorder" in each["text"] for each in found["evidence"])
    assert [note for note in notes if "is of another time than the run" in note] == [
        f"{dump}: is of another time than the run" for dump in dumps
    ]


def test_dumps_stand_beside_a_recording_on_a_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (dump, *_) = _dumps(tmp_path / "dumps", 2, monkeypatch)
    options = Namespace(attach=[dump], offset=None)
    assert wrong_attach(options).startswith(f"--attach {dump}: is a dump of PyTorch")
    assert not wrong_attach(options, (FLIGHT,))


def test_where_nothing_hangs_the_dumps_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan((H100,) * 4, 8, _STEPS, 150, 240.0, (), 7).lasting()
    write(Job(7, "job", plan, DCGM), str(tmp_path / "run.sql"))
    dumps = _dumps(tmp_path / "dumps", 2, monkeypatch)
    found, notes = _hang(capsys, str(tmp_path / "run.sql"), "--attach", *dumps)
    assert not found and any("the samples show no hang" in note for note in notes)
