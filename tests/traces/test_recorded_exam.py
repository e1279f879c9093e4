"""Traces that come about while a run is recorded: with stand-ins for nsys and torch (tests/fakes/joined)."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gssr
from gssr.cli import main
from tests.fakes.joined import nsys
from tests.fakes.traces import kineto, loop

ROOT = Path(gssr.__file__).parents[1]
TORCH = Path(nsys.__file__).parent
END_S = 30


def profile(folder: Path, *words: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """``gssr profile`` of a run that is sampled synthetically, into run.sql of the folder."""
    command = [
        sys.executable,
        "-m",
        "gssr",
        "profile",
        "--no-summary",
        "--backend",
        "synthetic:train:1",
        "-t",
        "100",
        "-o",
        "run.sql",
    ]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": ":".join(paths)} | (env or {})
    return subprocess.Popen(
        [*command, *words], cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def rows(folder: Path, what: str = "* FROM traces") -> list[dict[str, Any]]:
    """Rows of the recording."""
    with closing(sqlite3.connect(folder / "run.sql")) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT {what}")]


SCRIPT = """trap 'echo got; exit 5' TERM
printf '<%s>\\n' "$@"; cat; sleep "$TIME" & : > ready; wait $!; exit 3"""
WORDS = ("two words", "", "*", "--gpus", "-o", "ü\n")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "ways",
    [("daemon", "slow=0.2", "exit=9"), ("fail",)],
    ids=["unkind", "fails"],
)
def test_a_command_under_nsys_is_as_without_it(tmp_path: Path, ways: tuple[str, ...]) -> None:
    """Arguments, stdin, stdout and exit code; with a limit to the trace that must not be one for the command."""
    env = nsys.install(tmp_path / "bin", *ways) | {"TIME": "1.3" if "daemon" in ways else "0.1"}
    words = ["--trace", "nsys:1", "--", "sh", "-c", SCRIPT, "sh", *WORDS]
    running = profile(tmp_path, *words, env=env)
    out, err = running.communicate("from stdin\n", timeout=END_S)
    meant = "".join(f"<{word}>\n" for word in WORDS) + "from stdin\n"
    assert (running.returncode, out) == (3, meant), err
    assert all(line.startswith("gssr: ") for line in err.splitlines()), err
    assert ("nsys" in err) is ("fail" in ways)
    (run,) = rows(tmp_path, "state, exit_code, command FROM runs")
    assert (run["state"], run["exit_code"], json.loads(run["command"])) == ("failed", 3, words[3:])
    formats = {row["format"] for row in rows(tmp_path)}
    assert formats == (set() if "fail" in ways else {"nsys-rep", "nsys"})


@pytest.mark.timeout(120)
def test_a_signal_reaches_the_command_though_nsys_swallows_it(tmp_path: Path) -> None:
    env = nsys.install(tmp_path / "bin", "swallow") | {"TIME": "60"}
    running = profile(tmp_path, "--trace", "nsys", "--", "sh", "-c", SCRIPT, env=env)
    assert running.stdin is not None
    running.stdin.close()
    running.stdin = None
    until = time.monotonic() + END_S
    while not (tmp_path / "ready").exists() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=END_S)
    assert (running.returncode, out) == (5, "<>\ngot\n"), err


@pytest.mark.timeout(120)
def test_without_nsys_the_command_runs_and_a_line_says_so(tmp_path: Path) -> None:
    running = profile(tmp_path, "--trace", "nsys", "--", "/bin/sh", "-c", "exit 4", env={"PATH": "/nowhere"})
    _, err = running.communicate(timeout=END_S)
    assert running.returncode == 4 and err.count("\n") == 1 and "nsys" in err
    assert not (tmp_path / "run.traces").exists()


@pytest.mark.timeout(120)
def test_what_lies_in_the_folder_is_noted_and_what_is_no_trace_is_left(tmp_path: Path) -> None:
    """Whatever a program puts there, its exit code stays."""
    ranks = loop.ail("healthy", 0, 1, 1).ranks
    kineto.write(tmp_path / "rank0.json", ranks[0], kineto.Style(layout="compact"))
    script = """test "$(stat -c %a $GSSR_TRACES)" = 700 || exit 1
    cp rank0.json "$GSSR_TRACES"; cp rank0.json "$GSSR_TRACES/name
 with a newline.json"; mkdir "$GSSR_TRACES/sub"; cp rank0.json "$GSSR_TRACES/sub/deep.json"
    mkfifo "$GSSR_TRACES/fifo.json"; ln -s "$PWD/rank0.json" "$GSSR_TRACES/link.json"; ln -s / "$GSSR_TRACES/root"
    ln -s nowhere "$GSSR_TRACES/dead.json"; echo text > "$GSSR_TRACES/notes.txt"; : > "$GSSR_TRACES/empty.json"
    head -c 3000 rank0.json > "$GSSR_TRACES/cut.json"; truncate -s 50G "$GSSR_TRACES/huge.json"
    for n in 1 2 3 4 5 6 7 8 9; do : > "$GSSR_TRACES/empty$n"; done; exit 7"""
    running = profile(tmp_path, "--", "sh", "-c", script)
    out, err = running.communicate("", timeout=END_S)
    assert (running.returncode, out) == (7, ""), err
    noted = {row["path"]: row for row in rows(tmp_path)}
    assert {"rank0.json", "sub/deep.json"} <= set(noted)
    assert set(noted) <= {"rank0.json", "sub/deep.json", "name\n with a newline.json", "cut.json"}
    assert noted["rank0.json"]["format"] == "kineto" and noted["rank0.json"]["rank"] == 0


@pytest.mark.timeout(120)
def test_a_folder_that_nobody_used_goes(tmp_path: Path) -> None:
    running = profile(tmp_path, "--", "sh", "-c", 'test -d "$GSSR_TRACES"')
    _, err = running.communicate("", timeout=END_S)
    assert running.returncode == 0, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.sql"]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stand-in, as this process's torch."""
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(TORCH))
    import torch as found

    assert found.__version__.endswith("stand.in")
    monkeypatch.setattr(found.profiler.profile, "recording", None)
    yield found
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        del sys.modules[name]


def steps_of(path: Path) -> list[str]:
    """The names of the steps in a trace."""
    return [
        event["name"]
        for event in json.loads(path.read_text())["traceEvents"]
        if event["name"].startswith("ProfilerStep")
    ]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """NAME.traces, as ``gssr profile`` makes it for rank 2 of 4."""
    path = tmp_path / "run.traces"
    path.mkdir(mode=0o700)
    for name, value in {"GSSR_TRACES": str(path), "RANK": "2", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    return path


@pytest.mark.usefixtures("torch")
def test_steps_are_traced_into_a_file_that_names_its_rank(folder: Path) -> None:
    with gssr.torch_trace(wait=2, active=3) as trace:
        for _ in range(9):
            trace.step()
    (path,) = folder.iterdir()
    assert "rank2" in path.name and len(steps_of(path)) == 3
    assert json.loads(path.read_text())["distributedInfo"]["rank"] == 2


@pytest.mark.usefixtures("torch")
def test_a_loop_that_ends_early_leaves_what_there_is_or_nothing(folder: Path) -> None:
    with gssr.torch_trace(wait=2, active=30) as trace:
        for _ in range(5):
            trace.step()
    for path in folder.iterdir():
        assert path.suffix == ".json" and steps_of(path)


@pytest.mark.usefixtures("torch")
def test_an_error_of_the_loop_is_its_own(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), gssr.torch_trace(wait=1, active=2) as trace:
        for _ in range(4):
            trace.step()
        raise ZeroDivisionError
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("trouble", ["full disk", "no folder", "own profiler"])
def test_trouble_while_tracing_is_a_warning_and_the_loop_goes_on(
    torch: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    if trouble == "full disk":
        monkeypatch.setenv("FAKE_TORCH", "fail")
    elif trouble == "no folder":
        folder.rmdir()
    else:
        monkeypatch.setattr(torch.profiler.profile, "recording", torch.profiler.profile())
    done = 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with gssr.torch_trace(wait=1, active=2) as trace:
            for _ in range(6):
                trace.step()
                done += 1
    assert done == 6
    if trouble != "no folder":  # it may be made again
        assert said and not [path for path in folder.iterdir() if path.suffix == ".json"]


def test_outside_of_a_recording_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, torch: ModuleType
) -> None:
    monkeypatch.delenv("GSSR_TRACES", raising=False)
    monkeypatch.chdir(tmp_path)
    for on_demand in (False, True):
        with gssr.torch_trace(wait=1, active=1, on_demand=on_demand) as trace:
            for _ in range(4):
                trace.step()
    assert not list(tmp_path.iterdir()) and torch.profiler.profile.recording is None


TRAIN = """import os, time, gssr, torch.profiler as profiler
rank = os.environ.pop("RANK")
write = profiler.tensorboard_trace_handler(os.environ["GSSR_TRACES"])
with profiler.profile(schedule=profiler.schedule(wait=0, warmup=1, active=2, repeat=1), on_trace_ready=write) as by_hand:
    for step in range(4):
        by_hand.step()
os.environ["RANK"] = rank
open(f"pid{rank}", "w").write(str(os.getpid()))
with gssr.torch_trace(active=2, on_demand=True) as trace:
    for step in range(1000):
        time.sleep(0.02 + 0.004 * int(rank))
        trace.step()
        if sum(".step" in name and name[0] != "." for name in os.listdir(os.environ["GSSR_TRACES"])) == 2:
            break
"""


@pytest.mark.timeout(120)
def test_ranks_trace_the_same_step_when_the_score_is_low(tmp_path: Path) -> None:
    """Two ranks of other speeds: which step it is none of them could have known beforehand. Each also writes a trace by the
    profiler's own handler, in which nothing but its process tells the rank."""
    (tmp_path / "train.py").write_text(TRAIN)
    running = []
    for rank in (0, 1):
        env = {
            "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": "node1",
            "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_STEP_GPUS": str(rank), "RANK": str(rank),
            "WORLD_SIZE": "2", "PYTHONPATH": ":".join([str(ROOT), str(TORCH), os.environ.get("PYTHONPATH", "")]),
        }  # fmt: skip
        words = ["--backend", "synthetic:idle", "--trace-when", "low:0.9:1s", "--", sys.executable, "train.py"]
        running.append(profile(tmp_path, *words, env=env))
    for one in running:
        _, err = one.communicate("", timeout=60)
        assert one.returncode == 0, err
    noted = {row["path"]: row["rank"] for row in rows(tmp_path)}
    asked = sorted((rank, path) for path, rank in noted.items() if ".step" in path)
    assert [rank for rank, _ in asked] == [0, 1], noted
    first, second = (steps_of(tmp_path / "run.traces" / path) for _, path in asked)
    assert first == second and len(first) == 2
    for rank in (0, 1):
        pid = (tmp_path / f"pid{rank}").read_text()
        (path,) = (path for path in noted if f"_{pid}." in path)
        assert noted[path] == rank, noted


def test_a_real_trace_of_torch_opens(capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks on the CPU: there is no GPU, and rank 0 loads for longer."""
    files = [str(path) for path in sorted((Path(__file__).parent / "samples").glob("torch-cpu-*"))]
    assert main(["analyze", "--json", *files]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [source["rank"] for source in said["sources"]] == [0, 1] and said["clock"] == "unix" and said["ranks"] == []
    assert sorted((row["name"], row["rank"]) for row in said["steps"]) == [
        (f"ProfilerStep#{step}", rank) for step in (3, 4) for rank in (0, 1)
    ]
    (load,) = [row for row in said["ranges"] if row["name"] == "load"]
    assert load["count"] == 4 and load["min_ns"] >= 1_000_000 and load["max_ns"] >= 3_000_000
    assert main(["analyze", *files]) == 0
    page = capsys.readouterr().out
    assert "gloo:all_reduce" in page and "nan" not in page
