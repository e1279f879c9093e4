"""What GSSR has exported as OpenMetrics, read back: each run is again what it was, also where several runs had a GPU one
after the other, or at the same time."""

import gzip
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.foreign.follow import is_growing
from gssr.metrics import NAMES
from gssr.store.read.recording import RunReader, open_recording

COMMAND = ["python", "train me.py", "--name", 'a "b"', "it's"]


def recorded(path: Path, number: int, later: float, scenario: str = "train", gpus: int = 3, **columns: object) -> Path:
    """A recording of GPUs of the same node as all others, ``later`` by some seconds."""
    generate(str(path), scenario, gpus, 1 / 60, 0.5)
    with sqlite3.connect(path) as connection:
        for table in ("runs", "gpus", "processes", "events", "process_gpus"):
            connection.execute(f"UPDATE {table} SET run_id = ?", (f"alps-{number}.0",))
        connection.execute("UPDATE samples SET time = time + ?", (later,))
        connection.execute("DELETE FROM rollup")
        connection.execute("DELETE FROM sketch")
        known = {"job_id": str(number), "step_id": "0", "cluster": "alps", "user": "anna", "label": f"label {number}"}
        for name, value in (known | {"command": json.dumps(COMMAND)} | columns).items():
            connection.execute(f"UPDATE runs SET {name} = ?", (value,))
        connection.execute("UPDATE gpus SET rank = gpu + ?", (number,))
    return path


def by_place(reader: RunReader) -> dict[tuple[object, ...], dict[str, list[object]]]:
    """Times and values of each metric, by GPU with its rank and model."""
    rows = reader.samples(NAMES)
    found = {}
    for position, gpu in enumerate(reader.gpus):
        own = np.flatnonzero(rows.gpu == position)
        own = own[np.argsort(rows.time[own], kind="stable")]
        values = {name: rows.values[name][own] for name in NAMES if np.isfinite(rows.values[name][own]).any()}
        table = {"time": rows.time[own].tolist()} | {
            name: [None if np.isnan(value) else value for value in column.tolist()] for name, column in values.items()
        }
        found[gpu.node, gpu.device_index, gpu.uuid, gpu.mig, gpu.rank, gpu.name] = table
    return found


def round_trip(tmp_path: Path, names: Sequence[Path], packed: bool = False) -> dict[str, RunReader]:
    """Export recordings into one file, import that, and return the runs by their id."""
    text, back = tmp_path / ("all.txt.gz" if packed else "all.txt"), tmp_path / "back.sql"
    assert main(["export", *map(str, names), "--format", "openmetrics", "-o", str(text)]) == 0
    assert main(["import", str(text), "-o", str(back)]) == 0
    return {reader.run.run_id: reader for reader in open_recording(back).runs}


@pytest.mark.parametrize("packed", [False, True])
def test_several_runs_in_a_file_come_back_as_they_were(tmp_path: Path, packed: bool) -> None:
    """One behind the other, at the same time on the same GPUs, of other metrics, and on more GPUs."""
    names = [
        recorded(tmp_path / "1.sql", 1, 0.0),
        recorded(tmp_path / "2.sql", 2, 1000.0, "idle"),
        recorded(tmp_path / "3.sql", 3, 10.25, "imbalanced"),
        recorded(tmp_path / "4.sql", 4, 61.0, "idle", gpus=9),
        recorded(tmp_path / "5.sql", 5, 15.0, label="of two\nlines", command="[]", job_id=None, user=None),
    ]
    with sqlite3.connect(names[1]) as connection:
        connection.execute("UPDATE samples SET dram_active = NULL, power_usage = NULL WHERE gpu = 1")
    back = round_trip(tmp_path, names, packed)
    assert len(back) == len(names)
    for name in names:
        reader = open_recording(name).runs[0]
        own = back[reader.run.run_id]
        assert by_place(own) == by_place(reader)
        for column in ("label", "command", "job_id", "step_id", "cluster", "user", "sampling_ms"):
            assert getattr(own.run, column) == getattr(reader.run, column)
        assert not [event for event in own.events if event.kind == "import"]


def test_what_is_looked_at_without_an_import_has_the_same_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [recorded(tmp_path / "1.sql", 1, 0.0), recorded(tmp_path / "2.sql", 2, 1000.0)]
    text = tmp_path / "all.txt"
    assert main(["export", *map(str, names), "--format", "openmetrics", "-o", str(text)]) == 0
    assert not is_growing(str(text))  # though it was written just now
    capsys.readouterr()
    assert main(["analyze", "--json", str(text)]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["run_id"], run["label"]) for run in runs] == [("alps-1.0", "label 1"), ("alps-2.0", "label 2")]


def test_a_command_that_is_too_long_for_a_label_is_unknown_and_not_half_of_one(tmp_path: Path) -> None:
    name = recorded(tmp_path / "1.sql", 1, 0.0, command=json.dumps(["python", "x" * 300]))
    (own,) = round_trip(tmp_path, [name]).values()
    assert own.run.command == ()
    assert [event.message for event in own.events if event.kind == "import"] == [
        "the command is not whole in the file, and is left out"
    ]


def test_what_is_cut_off_or_strange_is_left_out_and_said(tmp_path: Path) -> None:
    name = recorded(tmp_path / "1.sql", 1, 0.0)
    text, back = tmp_path / "all.txt", tmp_path / "back.sql"
    assert main(["export", str(name), "--format", "openmetrics", "-o", str(text)]) == 0
    lines = text.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("gssr_sm_active"))
    lines[at + 1] = "gssr_sm_active_ratio{nonsense\n"
    lines[at + 2] = lines[at + 2].rpartition(" ")[0] + "\n"
    lines.insert(at + 3, 'gssr_sm_active_ratio{node="other",gpu="0"} 0.5 1700000400.0\n')
    text.write_text("".join(lines)[:-40])
    assert main(["import", str(text), "-o", str(back)]) == 0
    (own,) = open_recording(back).runs
    told = " ".join(event.message or "" for event in own.events if event.kind == "import")
    assert "1 lines that are no samples" in told and "1 lines that have no time" in told
    assert "1 series of GPUs that no run has" in told
    assert np.isfinite(own.samples(["sm_active"]).values["sm_active"]).sum() == 3 * 120 - 2


def test_the_head_alone_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, text in enumerate(
        (
            "# TYPE gssr_run info\n# HELP gssr_run x\n# EOF\n",
            '# TYPE gssr_run info\ngssr_run_info{run="a",gpu="0"} 1 1700000000.0\n# EOF\n',
            "# TYPE gssr_run info\ngssr_run_info{nonsense} 1 x\n# TYPE gssr_x gauge\n",
        )
    ):
        path = tmp_path / f"{number}.txt.gz"
        path.write_bytes(gzip.compress(text.encode()))
        assert main(["import", str(path), "-o", str(tmp_path / "x.sql")]) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith(f"gssr: {path}: holds no ") and captured.err.count("\n") == 1
