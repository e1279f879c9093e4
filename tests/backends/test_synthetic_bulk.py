"""Generated recordings: the samples of live sampling in the file a live run leaves."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gssr.backends.synthetic import SCENARIOS, SyntheticBackend, device
from gssr.backends.synthetic.__main__ import main
from gssr.backends.synthetic.bulk import GPUS_PER_NODE, START, generate
from gssr.backends.synthetic.gpu import traits
from gssr.metrics import NAMES
from gssr.model.analyze import analyze
from gssr.store.read.recording import open_recording

HOUR = 3600.0


def rows_of(path: Path, columns: str = "time, " + ", ".join(NAMES)) -> dict[tuple[str, int], list[tuple]]:
    """Rows by node and index of the GPU."""
    connection = sqlite3.connect(path)
    places = {key: (node, index) for key, node, index in connection.execute("SELECT gpu, node, device_index FROM gpus")}
    rows: dict[tuple[str, int], list[tuple]] = {place: [] for place in places.values()}
    for key, *row in connection.execute(f"SELECT gpu, {columns} FROM samples ORDER BY rowid"):
        rows[places[key]].append(tuple(row))
    connection.close()
    return rows


def live(scenario: str, gpus: int, ticks: int, interval: float, seed: int) -> list[list[tuple]]:
    """What a live backend gives the GPUs of a generated run."""
    backend = SyntheticBackend(scenario, gpus, "", start=START)
    uuids = [device(f"node{i // GPUS_PER_NODE:04d}", i % GPUS_PER_NODE).uuid for i in range(gpus)]
    backend._traits = [traits(SCENARIOS[scenario], i, gpus, uuid, seed) for i, uuid in enumerate(uuids)]
    rows: list[list[tuple]] = [[] for _ in range(gpus)]
    for tick in range(ticks):
        for row in backend.sample(START + tick * interval):
            rows[row[0]].append(row[1:])
    return rows


@pytest.mark.parametrize("scenario", ["train", "gaps", "idle"])
def test_samples_are_those_of_live_sampling(tmp_path: Path, scenario: str) -> None:
    n = generate(str(tmp_path / "a.sql"), scenario, 10, 30 / HOUR, 0.1, seed=3)
    written = rows_of(tmp_path / "a.sql")
    expected = live(scenario, 10, 300, 0.1, 3)
    assert n == sum(map(len, expected))
    for position, rows in enumerate(expected):
        assert written[f"node{position // 8:04d}", position % 8] == rows


def test_the_run_is_complete(tmp_path: Path) -> None:
    generate(str(tmp_path / "a.sql"), "train", 20, 30 / HOUR, 0.5)
    recording = open_recording(tmp_path / "a.sql")
    (run,) = recording.runs
    assert (run.state, run.run.exit_code, run.run.world_size, run.run.n_nodes) == ("completed", 0, 3, 3)
    assert run.run.ended_at == START + 30
    assert run.run.sampling_ms == 500
    assert [process.state for process in run.processes] == ["completed"] * 3
    assert len({gpu.uuid for gpu in run.gpus}) == 20
    assert [(gpu.node, gpu.rank) for gpu in run.gpus] == [(f"node{i // 8:04d}", i // 8) for i in range(20)]
    assert run.n_rows == 20 * 60
    recording.close()
    connection = sqlite3.connect(tmp_path / "a.sql")
    wrong = "SELECT count(*) FROM process_gpus p JOIN gpus g USING (gpu) WHERE p.rank != g.rank"
    assert connection.execute(wrong).fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM process_gpus").fetchone() == (20,)


def test_lost_gpus_are_events_of_their_nodes(tmp_path: Path) -> None:
    generate(str(tmp_path / "a.sql"), "gaps", 12, 20 / HOUR, 0.1)
    connection = sqlite3.connect(tmp_path / "a.sql")
    events = connection.execute(
        "SELECT e.time, e.kind, e.node, e.rank, g.device_index FROM events e JOIN gpus g USING (gpu) "
        "ORDER BY e.time, e.gpu"
    ).fetchall()
    lost = [(START + 11, "gpu_lost", "node0000", 0, 1), (START + 11, "gpu_lost", "node0000", 0, 5),
            (START + 11, "gpu_lost", "node0001", 1, 1)]  # fmt: skip
    assert events == lost + [(START + 15, "gpu_back", *event[2:]) for event in lost]


def test_a_job_with_an_end_fills_the_recording(tmp_path: Path) -> None:
    generate(str(tmp_path / "a.sql"), "startup", 1, 600 / HOUR, 1.0)
    (rows,) = rows_of(tmp_path / "a.sql", "sm_active").values()
    sm = [value for (value,) in rows]
    assert max(sm[:115]) < 0.1
    assert min(sm[130:470]) > 0.7
    assert max(sm[485:]) == 0


def test_odd_intervals_keep_every_tick(tmp_path: Path) -> None:
    n = generate(str(tmp_path / "a.sql"), "train", 2, 100 / HOUR, 0.7)
    (run,) = open_recording(tmp_path / "a.sql").runs
    assert n == run.n_rows == 2 * round(100 / 0.7)
    assert generate(str(tmp_path / "b.sql"), "train", 2, 100 / HOUR, 25.0) == 2 * 4


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.sql")
    arguments = ["stencil", "--gpus", "2", "--hours", "0.005", "-t", "100", "-o", path]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"{path}: 360 samples of 2 GPUs\n"
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert f"{path}: exists already; -f overwrites it" in capsys.readouterr().err
    assert main([*arguments, "-f", "--seed", "4"]) == 0


@pytest.mark.parametrize("wrong", [["--gpus", "0"], ["--hours", "nan"], ["-t", "-5"], ["--gpus", "many"]])
def test_nonsense_is_a_usage_error(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "-o", "x.sql", *wrong])
    assert caught.value.code == 2
    assert "number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("place", [".", "nowhere/a.sql"])
def test_unwritable_output_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["train", "-f", "--hours", "0.001", "-o", place]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert place in message


def test_what_is_no_recording_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("precious")
    assert main(["train", "-f", "--hours", "0.001", "-o", str(notes)]) == 1
    assert "is not a recording" in capsys.readouterr().err and notes.read_text() == "precious"


def test_nothing_is_left_when_it_fails(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(share: float) -> None:
        if share > 0.3:
            raise StoppedError

    with pytest.raises(StoppedError):
        generate(str(tmp_path / "a.sql"), "train", 4, 60 / HOUR, 0.1, progress=stop)
    assert os.listdir(tmp_path) == []


def test_runs_as_a_module(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "gssr.backends.synthetic",
        "idle",
        "--hours",
        "0.001",
        "-o",
        str(tmp_path / "a.sql"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_nodes_and_processes_have_a_row_a_second_where_asked_for(tmp_path: Path) -> None:
    generate(str(tmp_path / "a.sql"), "train", 2 * GPUS_PER_NODE, 130 / HOUR, 0.5, host=True)
    run = open_recording(tmp_path / "a.sql").runs[0]
    uses = [run.host_use(), *run.workload_use()]
    assert len(uses) == 3 and {extent.n for extent in uses[0].values()} == {2 * 130}
    assert {extent.n for use in uses[1:] for extent in use.values()} == {130}
    found = analyze(run)
    assert found.host is not None and 0 < (found.host.cpu_utilization or 0) < 0.5
    waits = {"io_wait", "cpu_starved"}
    assert not waits & {verdict.code for verdict in found.judgement.verdicts}, "what its host does holds no GPU up"


@pytest.mark.parametrize("every_ms", [100, 490, 500, 1000])
def test_training_is_the_same_at_any_sampling_interval(every_ms: int, tmp_path: Path) -> None:
    """Its waits are out of step with samples, so that none of them sees too much or too little of them."""
    generate(str(tmp_path / "a.sql"), "train", 1, 0.1, every_ms / 1e3)
    found = analyze(open_recording(tmp_path / "a.sql").runs[0])
    assert found.judgement.breakdown is not None
    assert found.judgement.breakdown.share("idle.copies") == pytest.approx(0.083, abs=0.01)
