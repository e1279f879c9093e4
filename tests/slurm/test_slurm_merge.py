"""What is left of a step of several ranks on a real cluster: one file, and one page in the log."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gssr.store.read.recording import open_recording

pytestmark = pytest.mark.xdist_group("slurm")

PROFILE = "gssr profile --backend synthetic -t 50"
RANKS = ("-N2", "--ntasks-per-node=4", "--gpus-per-task=1")


def test_a_step_leaves_one_file_and_one_page_in_the_log(slurm, tmp_path: Path) -> None:
    log = slurm.sbatch(f"srun {PROFILE} -o job.sql --status-every 1s -- sleep 4\n", *RANKS, cwd=tmp_path)
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("job.sql")) == ["job.sql"]
    assert log.count("How well used?") == 1 and log.count("recorded into") == 1
    assert log.splitlines()[-1].startswith("GSSR score=") and "gpus=8 gaps=" in log.splitlines()[-1]
    assert 1 <= log.count("elapsed=") <= 30
    with closing(sqlite3.connect(tmp_path / "job.sql")) as connection:
        gpus = connection.execute("SELECT count(*), count(DISTINCT uuid), count(DISTINCT rank) FROM gpus").fetchone()
        sampled = connection.execute("SELECT min(n) FROM (SELECT count(*) AS n FROM samples GROUP BY gpu)").fetchone()
        clocks = connection.execute("SELECT count(clock_offset) FROM processes").fetchone()
    assert gpus == (8, 8, 8) and sampled[0] >= 10 and clocks in ((0,), (2,))


def test_steps_of_a_job_add_to_its_file_and_the_last_word_is_f(slurm, tmp_path: Path) -> None:
    step = f"srun {PROFILE} --no-summary"
    script = f"{step} -l one -- true\n{step} -l two -- true\nls -d gssr_*\n{step} -f -l three -- true\nls -d gssr_*\n"
    log = slurm.sbatch(script, *RANKS, cwd=tmp_path)
    (recording,) = tmp_path.glob("gssr_*")
    names, deleted = (
        [line for line in log.splitlines() if "is deleted" not in line],
        log.count("is deleted: it was over"),
    )
    assert (names, deleted) == ([recording.name] * 2, 2)
    assert [run.run.label for run in open_recording(recording).runs] == ["three"]
