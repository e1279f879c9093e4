"""The last of several ranks merges, shows the page, and holds nobody up; whatever goes wrong leaves the ranks' files."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gssr.profile import finish
from gssr.profile.sampling.plan import Plan
from gssr.store.liveness import process_start
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer
from tests.waiting import UNTIL_GO, until

ROOT = Path(__file__).parent.parent.parent
CODES = (0, 2, 1)
"""Exit codes of ranks: the first to fail has the highest, so that it is the run's however far apart they end."""


def rank_of(number: int, n_ranks: int = 3, job: int = 7) -> dict[str, str]:
    return dict(os.environ) | {
        "PYTHONPATH": str(ROOT), "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number), "SLURM_STEP_NUM_TASKS": str(n_ranks), "SLURM_STEP_NUM_NODES": "1",
        "SLURMD_NODENAME": "n1", "SLURM_STEP_GPUS": str(number), "SLURM_CLUSTER_NAME": "c",
    }  # fmt: skip


def start(
    folder: Path, number: int, *words: str, n_ranks: int = 3, job: int = 7, environ: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic", "-t", "50", *words]
    environ = environ or rank_of(number, n_ranks, job)
    return subprocess.Popen(
        command, env=environ, cwd=folder, text=True, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )


def ended(ranks: list[subprocess.Popen[str]]) -> list[str]:
    """What each said, when all have ended."""
    return [rank.communicate(timeout=60)[1] for rank in ranks]


def all_are_recording(folder: Path, n_ranks: int = 3) -> bool:
    try:
        readers = open_recording(folder / "a.sql").runs
    except RecordingError:
        return False
    return any(len(reader.gpus) == n_ranks for reader in readers)


def workload(number: int) -> tuple[str, ...]:
    """Ranks end one after the other."""
    before = f"until [ -e a.sql.d/{number - 1}.c-7.0.ended ]; do sleep 0.02; done; " if number else ""
    return ("--", "sh", "-c", f"{before}exit {CODES[number]}")


def test_the_last_rank_merges_and_shows_the_page_and_the_others_say_nothing(tmp_path):
    ranks = [start(tmp_path, number, "-o", "a.sql", *workload(number)) for number in range(3)]
    *others, last = ended(ranks)
    assert others == ["", ""] and [rank.returncode for rank in ranks] == [*CODES]
    assert f"recorded into {tmp_path}/a.sql" in last and "How well used?" in last
    assert last.splitlines()[-1].startswith("GSSR score=") and "gpus=3" in last.splitlines()[-1]
    assert os.listdir(tmp_path) == ["a.sql"]
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert (reader.state, reader.run.exit_code, len(reader.processes)) == ("failed", 2, 3)


def test_steps_at_the_same_time_add_their_runs_to_one_file_and_none_is_kept_from_its_command(tmp_path):
    (tmp_path / "here").mkdir()
    steps = []
    for step in range(4):
        environ = rank_of(0, 1) | {"SLURM_STEP_ID": str(step), "SLURM_STEP_GPUS": str(step)}
        others = f"touch here/{step}; until [ $(ls here | wc -l) = 4 ]; do sleep 0.02; done; exit {step}"
        steps.append(start(tmp_path, 0, "-a", "-o", "a.sql", "--", "sh", "-c", others, environ=environ))
    said = ended(steps)
    assert [step.returncode for step in steps] == [0, 1, 2, 3]
    for lines in said:  # as of any single rank, and nothing of the others
        result, where = lines.splitlines()
        assert result.startswith("gssr: GSSR score=") and where == (
            f"gssr: recorded into {tmp_path}/a.sql; see it with: gssr analyze {tmp_path}/a.sql"
        )
    assert sorted(os.listdir(tmp_path)) == ["a.sql", "here"]
    readers = open_recording(tmp_path / "a.sql").runs
    assert {(reader.run.step_id, reader.run.exit_code) for reader in readers} == {
        (str(step), step) for step in range(4)
    }
    assert all(reader.n_rows for reader in readers)


def test_runs_that_end_together_show_their_pages_whoever_merges_them(tmp_path):
    def task(job: int, rank: int) -> subprocess.Popen[str]:
        environ = rank_of(rank, 2, job) | {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(job)}
        return start(tmp_path, rank, "-o", "a.sql", "--wrap", UNTIL_GO, environ=environ)

    tasks = [[task(job, rank) for rank in range(2)] for job in (7, 8, 9)]
    until(lambda: len(list(tmp_path.glob("a.sql.d/n1.*.sql"))) == 6)
    (tmp_path / "go").touch()
    for ranks in tasks:
        said = "".join(ended(ranks))
        assert said.count(f"gssr: recorded into {tmp_path}/a.sql;") == said.count("\nGSSR score=") == 1, said
    assert sorted(os.listdir(tmp_path)) == ["a.sql", "go"]
    assert len(open_recording(tmp_path / "a.sql").runs) == 3


def test_without_a_summary_nothing_is_said(tmp_path):
    ranks = [start(tmp_path, number, "--no-summary", "-o", "a.sql", "--", "sleep", "0.3") for number in range(3)]
    assert ended(ranks) == [""] * 3
    assert os.listdir(tmp_path) == ["a.sql"]


def test_a_second_command_of_a_step_is_another_run_and_f_leaves_the_last(tmp_path):
    for word in ("-a", "-a", "-f"):
        ranks = [start(tmp_path, number, "--no-summary", word, "-o", "a.sql", "--", "true") for number in range(3)]
        deleted = [f"{name} is deleted: it was over when c-7.0-3 began" for name in ("c-7.0", "c-7.0-2")] * (
            word == "-f"
        )
        said = "".join(ended(ranks))
        assert all(text in said for text in deleted) and said.count("\n") == len(deleted)
        runs = [reader.run.run_id for reader in open_recording(tmp_path / "a.sql").runs]
        assert runs == {"-a": ["c-7.0", "c-7.0-2"][: len(runs)], "-f": ["c-7.0-3"]}[word]
    assert os.listdir(tmp_path) == ["a.sql"]


def test_a_rank_that_never_came_leaves_the_files_and_they_are_read(tmp_path):
    ranks = [start(tmp_path, number, "-o", "a.sql", "--", "sleep", "0.3") for number in range(2)]
    assert ended(ranks) == ["", ""]
    assert sorted(os.listdir(tmp_path / "a.sql.d")) == [
        "0.c-7.0.ended", "1.c-7.0.ended", "n1.0.c-7.0.sql", "n1.1.c-7.0.sql", "run",
    ]  # fmt: skip
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert len(reader.gpus) == 2


def test_of_jobs_that_begin_together_at_one_name_one_is_recorded_whole_and_the_other_refused_whole(tmp_path):
    jobs = {
        job: [start(tmp_path, rank, "-o", "a.sql", "--wrap", UNTIL_GO, n_ranks=2, job=job) for rank in range(2)]
        for job in (7, 8)
    }
    everyone = [rank for ranks in jobs.values() for rank in ranks]
    until(lambda: sum(rank.poll() is not None for rank in everyone) >= 2 and all_are_recording(tmp_path, 2))
    (tmp_path / "go").touch()
    said = {job: ended(ranks) for job, ranks in jobs.items()}
    codes = {job: [rank.returncode for rank in ranks] for job, ranks in jobs.items()}
    (refused,) = [job for job in jobs if codes[job] == [2, 2]]
    assert sorted(said[refused]) == ["", "gssr: -o a.sql: a.sql.d holds another run; use -a to add a run to it\n"]
    assert codes[15 - refused] == [0, 0] and sorted(os.listdir(tmp_path)) == ["a.sql", "go"]
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert reader.run.job_id == str(15 - refused) and len(reader.processes) == 2


def test_a_rank_that_can_not_find_out_what_is_decided_runs_unrecorded_and_says_so(tmp_path):
    (tmp_path / "a.sql.d").mkdir()
    (tmp_path / "a.sql.d" / "run").touch()  # somebody was killed while writing it
    (rank,) = [start(tmp_path, 0, "-o", "a.sql", "--", "sh", "-c", "exit 7", n_ranks=2)]
    (said,) = ended([rank])
    assert rank.returncode == 7 and said.count("\n") == 1
    assert said.startswith("gssr: nothing is recorded: ") and "another rank has not written" in said


def test_a_rank_whose_file_holds_nothing_yet_is_waited_for(tmp_path):
    writers = [Writer(str(tmp_path / f"n1.{rank}.c-7.0.sql")) for rank in range(2)]
    run = finish.Finishing("c-7.0", 0, 2, str(tmp_path / "a.sql"), str(tmp_path), overwrite=False, summary=False)
    assert not finish._everybody_is_through(run)
    del writers


def test_a_rank_that_was_killed_does_not_keep_the_others_from_merging(tmp_path):
    ranks = [start(tmp_path, number, "-o", "a.sql", "--wrap", UNTIL_GO) for number in range(3)]
    until(lambda: all_are_recording(tmp_path))
    children = Path(f"/proc/{ranks[0].pid}/task/{ranks[0].pid}/children").read_text().split()
    for pid in (*map(int, children), ranks[0].pid):
        os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    said = ended(ranks)
    assert "How well used?" in "".join(said) and sorted(os.listdir(tmp_path)) == ["a.sql", "go"]
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert reader.state == "lost" and len(reader.gpus) == 3


def test_a_job_that_is_cancelled_ends_at_once_and_is_readable(tmp_path):
    ranks = [start(tmp_path, number, "-o", "a.sql", "--", "sleep", "60") for number in range(3)]
    until(lambda: all_are_recording(tmp_path))
    began = time.monotonic()
    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    ended(ranks)
    assert time.monotonic() - began < finish.MERGE_SECONDS - 5
    assert [rank.returncode for rank in ranks] == [143] * 3
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert reader.state == "killed" and len(reader.gpus) == 3


def test_what_can_not_be_merged_is_said_once_and_can_be_read(tmp_path):
    ranks = [start(tmp_path, number, "-o", "a.sql", "--wrap", UNTIL_GO) for number in range(3)]
    until(lambda: all_are_recording(tmp_path))
    (tmp_path / "a.sql").write_text("somebody else's notes, which have turned up in the meantime\n" * 3)
    (tmp_path / "go").touch()
    said = "".join(ended(ranks))
    assert said.count("are not merged: ") == 1 and "Traceback" not in said
    assert (tmp_path / "a.sql").read_text().startswith("somebody")
    assert len(open_recording(tmp_path / "a.sql.d").runs[0].gpus) == 3


@pytest.fixture
def plan(tmp_path) -> Plan:
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    fields = dict.fromkeys(Plan._fields)
    fields |= {"path": str(folder / "n1.0.r.sql"), "run": {"run_id": "r", "world_size": 1_000}, "process": {"rank": 0}}
    return Plan(**fields)


def test_a_rank_that_is_not_last_goes_at_once_among_a_thousand(plan):
    for rank in range(1, 999):
        (Path(plan.path).parent / f"{rank}.r.ended").touch()
        (Path(plan.path).parent / f"n1.{rank}.r.sql").touch()
    began = time.process_time()
    finish.finish(plan, pid_that_is_gone(), False, True, False)
    assert time.process_time() - began < 0.1
    assert (Path(plan.path).parent / "0.r.ended").exists()


def test_a_filesystem_that_hangs_holds_nobody_up(plan, monkeypatch):
    monkeypatch.setattr(finish, "LOOK_SECONDS", 0.3)
    monkeypatch.setattr(finish, "_everybody_is_through", lambda _run: time.sleep(60))
    began = time.monotonic()
    finish.finish(plan, pid_that_is_gone(), False, True, False)
    assert time.monotonic() - began < 30


def test_a_machine_that_stood_still_has_not_made_anybody_wait(plan, monkeypatch):
    late = iter([0.0, 3600.0])
    real = time.monotonic
    monkeypatch.setattr(finish.time, "monotonic", lambda: real() + next(late, 3600.0))
    looked = Path(plan.path).parent / "looked"
    monkeypatch.setattr(finish, "_everybody_is_through", lambda _run: bool(time.sleep(0.2) or looked.touch()))
    finish.finish(plan, pid_that_is_gone(), False, True, False)
    assert looked.exists()


def test_a_merge_that_takes_too_long_is_given_up(plan, monkeypatch, capfd):
    monkeypatch.setattr(finish, "MERGE_SECONDS", 0.5)
    monkeypatch.setattr(finish, "_everybody_is_through", lambda _run: True)
    monkeypatch.setattr(finish, "_merge", lambda _run, _seconds, _shows: time.sleep(60))
    finish.finish(plan, pid_that_is_gone(), False, True, False)
    assert "it is finished by: gssr merge" in capfd.readouterr().err


def pid_that_is_gone() -> int:
    done = subprocess.Popen(["true"])
    done.wait()
    assert process_start(done.pid) is None
    return done.pid


def test_jobs_of_torchrun_with_one_rdzv_id_are_both_exported(tmp_path):
    def worker(job: int, rank: int) -> dict[str, str]:
        return dict(os.environ) | {
            "PYTHONPATH": str(ROOT), "SLURM_JOB_ID": str(job), "SLURM_CLUSTER_NAME": "c", "RANK": str(rank),
            "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "1",
            "TORCHELASTIC_RUN_ID": "100", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
        }  # fmt: skip

    options = ("--no-summary", "-o", "%j.sql", "--", "true")
    ranks = [start(tmp_path, rank, *options, environ=worker(job, rank)) for job in (1, 2) for rank in range(2)]
    assert ended(ranks) == [""] * 4
    export = [sys.executable, "-m", "gssr", "export", "--format", "csv", "-o", "ex", "1.sql", "2.sql"]
    done = subprocess.run(export, cwd=tmp_path, env=worker(1, 0), text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and "2 runs exported" in done.stdout + done.stderr, done


def test_a_page_that_takes_too_long_is_no_merge_that_did(tmp_path):
    slow = "import sys, time\nif 'analyze' in sys.orig_argv:\n    time.sleep(30)\n"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(slow)
    slow_page = {"PYTHONPATH": f"{tmp_path / 'own'}:{ROOT}"}
    ranks = [
        start(tmp_path, rank, "-o", "a.sql", "--", "sleep", "60", environ=rank_of(rank, 2) | slow_page)
        for rank in range(2)
    ]
    until(lambda: all_are_recording(tmp_path, 2))
    for rank in ranks:
        rank.terminate()
    said = "".join(ended(ranks))
    assert said.count("gssr: ") == 1 and f"gssr: recorded into {tmp_path}/a.sql; see it with: " in said
    assert not os.path.exists(tmp_path / "a.sql.d")
