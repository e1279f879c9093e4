"""gssr import, and the commands that look at other tools' files without it: what they leave, and what they say."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import published_files
import pytest

import gssr
from gssr import cli


@pytest.fixture
def published(tmp_path: Path, monkeypatch) -> list[dict]:
    """In the current folder: ``runs``, in which four ranks of the published tool left their files, two GPUs each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    ranks = published_files.ranks(4, 2, 40)
    published_files.write_json(Path("runs"), ranks)
    return ranks


def run(*words: str) -> int:
    return cli.main(["--debug", *words])


def analyzed(capsys, *names: str) -> dict:
    capsys.readouterr()
    assert run("analyze", "--json", *names) == 0
    out, err = capsys.readouterr()
    assert "temporary recording" in err or names[0].endswith(".sql")
    (found,) = json.loads(out)["runs"]
    return found


def test_a_folder_becomes_a_recording_that_says_what_the_files_say(published, capsys):
    assert run("import", "runs", "-o", "r.sql") == 0
    assert capsys.readouterr().out == "r.sql: 1 run of 320 samples written; gssr analyze reads it\n"
    assert sorted(os.listdir()) == ["r.sql", "runs", "tmp"] and os.stat("r.sql").st_mode & 0o777 == 0o600
    found = analyzed(capsys, "r.sql")
    every = [gpu["sm_active"] for rank in published for gpu in rank["data"].values()]
    assert found["metrics"]["sm_active"]["mean"] == pytest.approx(np.mean(every), rel=1e-9)
    assert found["metrics"]["sm_active"]["median"] == pytest.approx(np.median(every), rel=1e-9)
    assert (found["n_gpus"], found["n_nodes"], found["job_id"], found["backend"]) == (8, 2, "77", "import:gssr-0.x")
    assert found["state"] == "completed" and found["exit_code"] is None
    assert [gpu["mean"]["sm_active"] for gpu in found["gpus"]] == pytest.approx([np.mean(own) for own in every])


@pytest.mark.usefixtures("published")
def test_looking_without_an_import_shows_the_same_and_leaves_nothing(capsys):
    run("import", "runs", "-o", "r.sql")
    imported, looked = analyzed(capsys, "r.sql"), analyzed(capsys, "runs")
    assert imported.pop("run_id") and looked.pop("run_id") and imported == looked
    assert run("compare", "runs", "r.sql") == 0
    assert "B  r.sql" in capsys.readouterr().out
    recording = gssr.open("runs")
    assert recording.path == "runs" and len(recording[0].samples()) == 320 and os.listdir("tmp")
    del recording
    assert os.listdir("tmp") == []


@pytest.mark.usefixtures("published")
def test_folders_hold_recordings_alone_where_there_are_some_and_fleet_looks_further_only_when_told(capsys):
    assert run("fleet", "runs") == 1 and "runs: no recording is there" in capsys.readouterr().err
    run("import", "runs", "-o", "runs/r.sql")
    capsys.readouterr()
    for foreign, n in (([], 1), (["--foreign"], 2)):
        assert run("fleet", "--json", *foreign, "runs") == 0
        assert len(json.loads(capsys.readouterr().out)["runs"]) == n
    assert run("export", "--format", "csv", "--tables", "runs", "runs") == 0
    assert "temporary" not in capsys.readouterr().err
    os.unlink("runs/r.sql")
    assert run("export", "--format", "csv", "--tables", "runs", "-o", "out", "runs") == 0
    assert ",train," in Path("out/runs.csv").read_text() and os.listdir("tmp") == []


@pytest.mark.usefixtures("published")
def test_a_file_of_a_rank_that_is_empty_or_damaged_is_said_and_files_of_nothing_are_passed_over(capsys):
    files = sorted(Path("runs").rglob("*.json"))
    files[1].write_text("")
    files[2].write_text(files[2].read_text()[:500])
    files[0].with_name("notes.txt").write_text("hello")
    notes = " ".join(analyzed(capsys, "runs")["notes"])
    assert f"{files[1]}: " in notes and f"{files[2]}: " in notes and "notes.txt" not in notes


@pytest.mark.usefixtures("published")
def test_what_is_there_stays_unless_it_is_to_be_replaced(capsys):
    Path("r.sql").write_text("mine")
    assert run("import", "runs", "-o", "r.sql") == 1
    assert capsys.readouterr().err == "gssr: r.sql: already exists: -f replaces it, or choose another name with -o\n"
    assert Path("r.sql").read_text() == "mine"
    assert run("import", "runs", "-o", "r.sql", "-f") == 0 and len(gssr.open("r.sql")) == 1
    Path("x.sql-wal").write_text("left")
    assert run("import", "runs", "-o", "x.sql") == 1 and not os.path.exists("x.sql")
    assert run("import", "runs", "-o", "runs") == 2


WRONG = {
    (): ("name the files to be imported", 2),
    ("none.log",): ("none.log: no such file", 1),
    ("pointer",): ("pointer: is a pointer of Git LFS", 1),
    ("runs", "pointer"): ("pointer: is a pointer of Git LFS", 1),
    ("empty", "runs"): ("empty: is a folder without", 1),
    ("text",): ("text: is not a recording", 1),
    ("runs", "--start", "soon"): ("--start: 'soon' is neither a date", 2),
    ("runs", "--interval", "0"): ("--interval: '0' is no number of seconds", 2),
    ("runs", "--timezone", "Mars/Olympus"): ("--timezone: 'Mars/Olympus' is no zone", 2),
    ("runs", "--timezone", "../../etc/passwd"): ("--timezone: '../../etc/passwd' is no zone", 2),
    ("runs", "--metric", "speed"): ("--metric: 'speed' is no field of DCGM", 2),
    ("runs", "--columns", "index,,x"): ("--columns: 'index,,x' names nothing", 2),
    ("runs", "-o", "no/such/r.sql"): ("no/such/r.sql: can't be written: No such file or directory", 1),
}


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_is_wrong_is_one_line_and_nothing_is_left(words, capsys):
    Path("pointer").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    Path("text").write_text("hello\n")
    Path("empty").mkdir()
    before = sorted(os.listdir())
    said, code = WRONG[words]
    assert run("import", *words) == code
    err = capsys.readouterr().err
    assert err.startswith(f"gssr: {said}") and err.count("\n") == 1
    assert sorted(os.listdir()) == before


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_import_that_is_ended_leaves_no_recording_and_the_next_one_clears_up(number):
    command = [sys.executable, "-c", "import gssr.foreign.open as o, gssr.cli, time\n"
               "o.open_files = lambda *_: time.sleep(600)\ngssr.cli.main(['import', 'runs', '-o', 'r.sql'])"]  # fmt: skip
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:
        while not any(name.startswith("gssr-import-") for name in os.listdir()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        process.wait(60)
    assert not os.path.exists("r.sql")
    assert run("import", "runs", "-o", "r.sql") == 0
    assert sorted(os.listdir()) == ["r.sql", "runs", "tmp"]


PEAK = """
import sys
from gssr import cli
assert cli.main(["import", sys.argv[1], "-o", sys.argv[2]]) == 0
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_the_memory_of_an_import_does_not_grow_with_the_file(tmp_path: Path) -> None:
    looks = 10_000
    cells = ", GPU-{}, 87 %, 40 %, 65000 MiB, 81559 MiB, 55, 512.25 W, 1980 MHz, {}"
    head = "uuid, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], temperature.gpu"
    head = f"timestamp, {head}, power.draw [W], clocks.sm [MHz], name\n"
    peaks = []
    for times in (1, 3):
        path = tmp_path / f"{times}.csv"
        with path.open("w") as stream:
            stream.write(head)
            for second in range(times * looks):
                clock = f"{datetime(2026, 5, 1) + timedelta(seconds=second):%Y/%m/%d %H:%M:%S}.000"
                stream.writelines(f"{clock}{cells.format(gpu, 'NVIDIA H100 80GB HBM3')}\n" for gpu in range(16))
        words = (sys.executable, "-c", PEAK, str(path), str(tmp_path / f"{times}.sql"))
        out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        peaks.append(1024 * int(out.split()[-1]))
    assert path.stat().st_size > 40e6
    assert peaks[1] - peaks[0] < 30e6, peaks
