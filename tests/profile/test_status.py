"""A status line says what all ranks have recorded so far, and costs the job nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gssr.metrics import NAMES
from gssr.model.analyze import analyze
from gssr.profile.request import UsageError
from gssr.profile.sampling.plan import Plan
from gssr.profile.status import Progress, seconds_of
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer
from tests.waiting import UNTIL_GO, until

ROOT = Path(__file__).parent.parent.parent
START, STEP = 1_700_000_400.0, 1.0


def plan_of(path: Path) -> Plan:
    fields = dict.fromkeys(Plan._fields) | {"path": str(path), "run": {"run_id": "r"}, "sampling_seconds": STEP}
    return Plan(**fields)


class Rank:
    def __init__(self, folder: Path, number: int) -> None:
        self.writer = Writer(str(folder / f"n.{number}.r.sql"))
        self.number = number
        self.writer.begin(
            {"run_id": "r", "sampling_ms": 1000 * STEP, "state": "running"}, {"rank": number, "node": "n"}
        )
        self.writer.add_gpus(
            [{"uuid": f"GPU-{number}-{place}", "device_index": place} for place in range(2)], NAMES, STEP
        )

    def sample(self, first: int, last: int) -> None:
        for tick in range(first, last):
            for gpu in range(2):
                level = ((tick // 100 + self.number) % 5) / 5
                self.writer.add([(gpu, START + tick, *[level] * len(NAMES))])
            if tick % 20 == 0:
                self.writer.tick(START + tick)


def test_the_line_is_that_of_the_page_at_any_time_and_reads_what_is_old_only_once(tmp_path):
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    ranks = [Rank(folder, number) for number in range(2)]
    progress = Progress(plan_of(folder / "n.0.r.sql"))
    for rank in ranks:
        rank.writer.commit(START)
    assert progress.line(0).startswith("GSSR score=unknown imbalance=unknown gpus=4 gaps=0")
    done = 0
    for last in (30, 700, 1500, 1530, 4000, 7205):
        for rank in ranks:
            rank.sample(done, last)
            rank.writer.commit(START + last)
        done = last
        line = progress.line(last)
    for rank in ranks:
        rank.sample(done + 40, done + 45)
        rank.writer.finish(START + done + 45, 0, "completed", START + done + 45)
    line = progress.line(done + 45)
    analysis = analyze(open_recording(tmp_path / "a.sql").runs[0])
    assert (
        line == f"GSSR score={analysis.score:.3f} imbalance={analysis.imbalance:.3f} gpus=4 gaps=4 elapsed={done + 45}"
    )
    assert min(progress._until.values()) >= START + 4800
    assert Progress(plan_of(folder / "n.0.r.sql")).line(done + 45) == line


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("30s", 30), ("10m", 600), ("2h", 7200), ("1.5m", 90)])
def test_a_length_of_time_is_understood(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "ten", "0", "-5", "nan", "3d", "1e9"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(UsageError, match="--status-every"):
        seconds_of(text)


def test_lines_come_from_rank_0_alone_and_end_with_the_run(tmp_path):
    said = []
    for rank in ("1", "0"):
        environ = dict(os.environ) | {
            "PYTHONPATH": str(ROOT), "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": rank,
            "SLURM_LOCALID": rank, "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": "n",
        }  # fmt: skip
        command = [
            sys.executable,
            "-m",
            "gssr",
            "profile",
            "--no-summary",
            "--backend",
            "synthetic:idle:2",
            "-o",
            "a.sql",
        ]
        script = "sleep 1.5; exit 5" if rank == "1" else f"{UNTIL_GO}; exit 5"
        with open(tmp_path / rank, "w+") as stderr:
            process = subprocess.Popen(
                [*command, "--status-every", "1s", "--", "sh", "-c", script], env=environ, cwd=tmp_path, stderr=stderr
            )
            if rank == "0":
                until(lambda: (tmp_path / "0").read_text().count("\n") >= 2, "two lines")
                (tmp_path / "go").touch()
            assert process.wait(timeout=60) == 5
        said.append((tmp_path / rank).read_text().splitlines())
    assert said[0] == [] and 2 <= len(said[1]) < 30
    told, *lines = said[1]  # rank 1 had failed before
    assert told.startswith("gssr: rank 1 on n ended at ") and told.endswith(" with exit code 5")
    assert all(line.startswith("gssr: GSSR score=") and line.endswith(" failed=1") for line in lines)
    assert all(" elapsed=" in line for line in lines)


def test_a_supervisor_that_is_killed_takes_the_lines_with_it(tmp_path):
    command = [
        sys.executable,
        "-m",
        "gssr",
        "profile",
        "--backend",
        "synthetic:idle:1",
        "--status-every",
        "1",
        "-o",
        "a.sql",
    ]
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [*command, "--", "sleep", "6"], env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    process.kill()
    said = process.communicate(timeout=60)[1]  # the end of stderr: the workload's
    assert "elapsed=" in first and len(said.splitlines()) <= 2
