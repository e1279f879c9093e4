"""``gssr profile`` as its user meets it: real commands, real files, real signals."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from supervised import sampler_of

from gssr.backends.allowed_cores import allowed_cores
from gssr.metrics import NAMES
from gssr.store.format.schema import GAP_INTERVALS
from gssr.store.read.recording import open_recording
from tests.waiting import UNTIL_GO, until

GSSR = [sys.executable, "-m", "gssr"]


def gssr(*words: str, cwd: Path, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([*GSSR, *words], cwd=cwd, capture_output=True, text=True, timeout=60, **settings)


def record(cwd: Path, *words: str, backend: str = "synthetic:train:4") -> subprocess.CompletedProcess:
    return gssr("profile", "--backend", backend, "-t", "50", "-o", "a.sql", *words, cwd=cwd)


def run_of(folder: Path, index: int = 0):
    return open_recording(folder / "a.sql").runs[index]


def n_rows(path: Path, table: str = "samples") -> int:
    """How many rows a recording holds by now."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.Error:
        return 0


def wait_for_rows(path: Path, n: int, table: str = "samples") -> None:
    until(lambda: n_rows(path, table) >= n, f"{n} rows in {path}")


def test_a_run_is_recorded_and_its_exit_code_passed_on(tmp_path):
    script = f"echo out; echo err >&2; {UNTIL_GO}; exit 7"
    command = [*GSSR, "profile", "--backend", "synthetic:train:4", "-t", "50", "-o", "a.sql", "-l", "my run"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "--", "sh", "-c", script], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True
    ) as process:
        wait_for_rows(tmp_path / "a.sql", 4 * 20)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "out\n")
    assert err.startswith("err\n") and "GSSR score=" in err
    reader = run_of(tmp_path)
    run = reader.run
    facts = (run.label, run.state, run.exit_code, run.launcher, run.sampling_ms)
    assert facts == ("my run", "failed", 7, "alone", 50.0)
    assert run.command == ("sh", "-c", script)
    samples = reader.samples(["sm_active"])
    held_up = np.array([event.time for event in reader.events if event.kind == "gap"])
    for gpu in range(4):
        times = np.sort(samples.time[samples.gpu == gpu])
        steps = np.diff(times)
        assert len(times) >= 20
        assert np.median(steps) == pytest.approx(0.05, abs=0.02)
        assert len(times) <= (times[-1] - times[0]) / 0.05 + 2.001  # and one at the end
        for at in np.flatnonzero(steps[:-1] > GAP_INTERVALS * 0.05 + 0.01):  # a machine that stood still is said
            assert ((held_up > times[at]) & (held_up <= times[at + 1] + 1e-6)).any()
        assert times[-1] > run.ended_at - 0.1
    kinds = [event.kind for event in reader.events if event.kind != "gap"]
    assert kinds in (["start", "backend", "end"], ["backend", "start", "end"])
    assert sorted(os.listdir(tmp_path)) == ["a.sql", "go"]


def test_arguments_arrive_untouched(tmp_path):
    words = ["a b", "'single'", '"double"', "new\nline", "", "--label", "-x", "$HOME", "é", "--"]
    script = "import sys; sys.stdout.write(repr(sys.argv[1:]))"
    done = record(tmp_path, "--no-summary", "--", sys.executable, "-c", script, *words)
    assert done.stdout == repr(words)
    assert done.stderr == ""
    assert list(run_of(tmp_path).run.command[3:]) == words


def test_a_command_without_dashes_works_as_in_the_published_tool(tmp_path):
    done = record(tmp_path, sys.executable, "-c", "import sys; print(sys.argv[1:])", "-o", "mine", "-t", "5")
    assert done.stdout == "['-o', 'mine', '-t', '5']\n"
    assert run_of(tmp_path).run.sampling_ms == 50.0


def test_a_very_short_workload_is_recorded(tmp_path):
    for number, command in enumerate((["true"], ["sleep", "0.05"])):
        assert record(tmp_path, *(["-a"] if number else []), "--", *command).returncode == 0
        reader = run_of(tmp_path, number)
        assert (reader.state, reader.run.exit_code) == ("completed", 0)
        assert reader.n_rows >= 4


def test_the_workloads_end_is_noticed_at_once(tmp_path):
    done = gssr("profile", "--backend", "synthetic", "-t", "600000", "-o", "a.sql", "--", "sleep", "0.3", cwd=tmp_path)
    assert done.returncode == 0  # within the minute that is waited for it


def test_a_signal_to_all_processes_of_a_step_ends_no_sampler_that_was_just_forked(tmp_path):
    program = "import os, signal, sys; told = []; own = os.getpid()"
    program += "\ndef hit():"
    program += "\n    if os.getppid() == own and not told: os.kill(os.getpid(), signal.SIGUSR1)"
    program += "\n    told.append(1)"
    program += "\nos.register_at_fork(after_in_child=hit, after_in_parent=lambda: told.append(1))"
    program += "\nfrom gssr.__main__ import run; sys.exit(run())"
    words = ["profile", "--backend", "synthetic:train:4", "-t", "50", "-o", "a.sql", "--", "sleep", "0.3"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "killed by signal" in done.stderr) == (0, False), done.stderr
    assert run_of(tmp_path).state == "completed"


def test_a_stopped_sampler_leaves_a_gap_that_is_recorded(tmp_path):
    path, interval = tmp_path / "a.sql", 0.1
    command = [*GSSR, "profile", "--backend", "synthetic", "-t", "100", "-o", "a.sql", "-w", UNTIL_GO]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as supervisor:
        sampler = sampler_of(supervisor.pid)
        wait_for_rows(path, 40)
        stopped = time.time()
        os.kill(sampler, signal.SIGSTOP)
        time.sleep(0.55)
        os.kill(sampler, signal.SIGCONT)
        wait_for_rows(path, n_rows(path) + 40)
        (tmp_path / "go").touch()
        assert supervisor.wait(timeout=60) == 0
    reader = run_of(tmp_path)
    gaps = [event for event in reader.events if event.kind == "gap"]
    assert len(gaps) >= 1 and "held up" in gaps[0].message
    times = np.sort(reader.samples([]).time[reader.samples([]).gpu == 0])
    assert np.diff(times).max() > 0.4
    late = (times - times[0] + interval / 2) % interval
    before, after = np.median(late[times < stopped]), np.median(late[times > stopped + 0.5])
    assert abs(after - before) < interval / 4  # the deadlines stayed where they were


def test_max_runtime_is_recorded_as_such(tmp_path):
    assert record(tmp_path, "-m", "0.5", "--", "sleep", "60").returncode == 143
    reader = run_of(tmp_path)
    assert (reader.state, reader.run.exit_code) == ("timeout", 143)
    assert "timeout" in [event.kind for event in reader.events]


def test_an_existing_recording_is_kept_overwritten_or_added_to(tmp_path):
    assert record(tmp_path, "--", "true").returncode == 0
    first = run_of(tmp_path).run.run_id
    done = record(tmp_path, "--", "touch", "started")
    assert done.returncode == 2 and not (tmp_path / "started").exists()
    assert done.stderr == "gssr: -o a.sql: exists; use -f to overwrite it or -a to add a run to it\n"
    assert record(tmp_path, "-a", "--", "true").returncode == 0
    assert open_recording(tmp_path / "a.sql").runs[0].run.run_id == first
    assert len(open_recording(tmp_path / "a.sql").runs) == 2
    assert record(tmp_path, "-f", "--", "true").returncode == 0
    assert len(open_recording(tmp_path / "a.sql").runs) == 1


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("./a.sql", 126)])
def test_nothing_is_overwritten_for_a_command_that_can_not_be_executed(tmp_path, command, code):
    assert record(tmp_path, "--", "true").returncode == 0
    before = (tmp_path / "a.sql").read_bytes()
    done = record(tmp_path, "-f", "--", command)
    assert done.returncode == code and done.stderr.count("\n") == 1
    assert (tmp_path / "a.sql").read_bytes() == before and os.listdir(tmp_path) == ["a.sql"]


def test_ranks_overwrite_nothing_for_a_command_that_can_not_be_executed(tmp_path):
    assert record(tmp_path, "--", "true").returncode == 0
    before = (tmp_path / "a.sql").read_bytes()
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": "n"}
    command = [*GSSR, "profile", "-f", "--backend", "synthetic:idle:1", "-o", "a.sql", "--", "no-such-command"]
    ranks = [
        subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | step | {"SLURM_PROCID": rank, "SLURM_LOCALID": rank}, stderr=-1
        )
        for rank in "01"
    ]
    assert [rank.communicate(timeout=60) and rank.returncode for rank in ranks] == [127, 127]
    assert (tmp_path / "a.sql").read_bytes() == before


def test_what_is_no_recording_is_never_overwritten(tmp_path):
    (tmp_path / "a.sql").write_text("precious notes, and long enough to have a head of a hundred bytes" * 3)
    before = (tmp_path / "a.sql").read_bytes()
    for flag in ("-f", "-a"):
        done = record(tmp_path, flag, "--", "true")
        assert done.returncode == 2 and "is not a recording" in done.stderr
    assert (tmp_path / "a.sql").read_bytes() == before


def test_the_command_that_shows_a_recording_names_it_as_a_shell_takes_it(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic", "-t", "20", "-o", "my run.sql", "--", "sleep", "0.2"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60).stderr
    assert said.endswith(f"recorded into {tmp_path}/my run.sql; see it with: gssr analyze '{tmp_path}/my run.sql'\n")


def test_a_recording_that_is_being_written_is_never_overwritten_and_may_be_added_to(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic", "-t", "20", "-o", "a.sql", "--", "sleep", "60"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as supervisor:
        wait_for_rows(tmp_path / "a.sql", 20)
        done = record(tmp_path, "-f", "--", "true")
        assert done.returncode == 2 and "right now" in done.stderr
        done = record(tmp_path, "-a", "-l", "beside", "--", "sh", "-c", "exit 7")
        assert done.returncode == 7 and "see it with" in done.stderr
        found = {reader.run.label: reader.state for reader in open_recording(tmp_path / "a.sql").runs}
        assert found == {None: "running", "beside": "failed"}
        supervisor.terminate()
    assert gssr("merge", "a.sql", cwd=tmp_path).returncode == 0
    found = {reader.run.label: reader.state for reader in open_recording(tmp_path / "a.sql").runs}
    assert found == {None: "killed", "beside": "failed"} and not os.path.exists(tmp_path / "a.sql.d")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--backend", "nonsense"], "unknown backend 'nonsense'"),
        (["--backend", "synthetic:nonsense"], "unknown synthetic scenario 'nonsense'"),
        (["--backend", "synthetic:train:none"], "must be 1 to"),
        (["--backend", "replay:nowhere.sql"], "nowhere.sql"),
        (["--metrics", "sm_activ"], "did you mean sm_active"),
        (["-t", "0"], "--sampling-time"),
        (["-t", "soon"], "--sampling-time"),
        (["-m", "-1"], "--max-runtime"),
        (["-t", "nan"], "--sampling-time"),
        (["-m", "inf"], "--max-runtime"),
        (["-f", "-a"], "give one of them"),
        (["-o", "."], "is a directory"),
        (["-w", "true"], "not both"),
        (["--backend", "synthetic:train:99999999"], "must be 1 to"),
    ],
)
def test_wrong_usage_is_one_sentence_and_starts_nothing(tmp_path, words, expected):
    done = gssr("profile", *words, "--", "touch", "started", cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


def test_an_empty_wrap_is_wrong_usage(tmp_path):
    done = gssr("profile", "-w", "", cwd=tmp_path)  # an unset variable of a job script
    assert done.returncode == 2 and "--wrap" in done.stderr


def test_no_command_is_wrong_usage(tmp_path):
    done = gssr("profile", "-o", "a.sql", cwd=tmp_path)
    assert done.returncode == 2 and "no command" in done.stderr


@pytest.mark.parametrize("options", [(), ("-o", "a.sql"), ("--redact",)])
def test_the_workload_runs_in_a_folder_that_is_gone(tmp_path, options):
    words = [
        "profile",
        "--backend",
        "synthetic:train:1",
        *options,
        "--",
        sys.executable,
        "-c",
        "print(1); raise SystemExit(3)",
    ]
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    found = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", script, "-", sys.executable, "-P", "-m", "gssr", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env=found,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "1\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("gssr: nothing is recorded: ") and line.endswith(
        ": can't be written: No such file or directory"
    )


def test_an_unwritable_output_costs_one_line_and_the_workload_runs(tmp_path):
    done = gssr(
        "profile", "--backend", "synthetic", "-o", "missing/a.sql", "--", "sh", "-c", "echo ran; exit 4", cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert done.stderr.count("\n") == 1 and "nothing is recorded" in done.stderr and "missing/a.sql" in done.stderr


def test_without_a_gpu_the_host_is_recorded(tmp_path):
    command = [*GSSR, "profile", "-t", "50", "-o", "a.sql", "-w", UNTIL_GO]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as supervisor:
        wait_for_rows(tmp_path / "a.sql", 2, "host_samples")
        wait_for_rows(tmp_path / "a.sql", 2, "workload_samples")
        (tmp_path / "go").touch()
        assert "no GPU is sampled" in supervisor.communicate(timeout=60)[1] and supervisor.returncode == 0
    with sqlite3.connect(tmp_path / "a.sql") as connection:
        rows = connection.execute(
            "SELECT cpu_utilization, load1, memory_used, memory_total FROM host_samples"
        ).fetchall()
        assert len(rows) >= 2 and all(0 <= row[0] <= 1 and 0 < row[2] < row[3] for row in rows[1:])
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (0,)
        assert connection.execute("SELECT max(rss), max(n_processes) FROM workload_samples").fetchone()[1] >= 1
        assert connection.execute("SELECT n_cores FROM processes").fetchone()[0] == pytest.approx(allowed_cores())


def test_gpus_and_metrics_are_chosen(tmp_path):
    done = record(tmp_path, "--gpus", "1,3", "--metrics", "dram_active,sm_active", "--", "sleep", "0.3")
    assert done.returncode == 0, done.stderr
    reader = run_of(tmp_path)
    assert [gpu.device_index for gpu in reader.gpus] == [1, 3]
    samples = reader.samples(list(NAMES))
    assert {name for name in NAMES if not np.isnan(samples.values[name]).all()} == {"sm_active", "dram_active"}


def test_a_gpu_that_is_not_there_is_said_and_the_workload_runs(tmp_path):
    done = record(tmp_path, "--gpus", "9", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "no GPU '9'" in done.stderr


def test_the_default_name_tells_the_date_or_the_job(tmp_path):
    assert gssr("profile", "--backend", "synthetic", "--", "true", cwd=tmp_path).returncode == 0
    assert [name for name in os.listdir(tmp_path) if name.startswith("gssr_20")]
    environment = os.environ | {"SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "alps"}
    assert gssr("profile", "--backend", "synthetic", "--", "true", cwd=tmp_path, env=environment).returncode == 0
    reader = open_recording(tmp_path / "gssr_4711.sql").runs[0]
    assert reader.run.job_id == "4711" and reader.run.cluster == "alps" and reader.run.run_id.startswith("alps-4711")


def test_commands_started_in_the_same_second_get_a_name_each(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic", "--", "sh", "-c", "echo ran"]
    running = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, b"ran\n") and b"recorded into" in err
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".sql")]) == 4


def test_every_command_of_a_job_is_run_and_recorded_one_after_the_other_or_at_once(tmp_path):
    environment = os.environ | {"SLURM_JOB_ID": "4711"}
    command = [*GSSR, "profile", "--backend", "synthetic:idle:1", "--", "sh", "-c", "sleep 0.5; exit 7"]
    assert subprocess.run(command, cwd=tmp_path, env=environment, timeout=60, check=False).returncode == 7
    together = [subprocess.Popen(command, cwd=tmp_path, env=environment) for _ in range(2)]
    assert [process.wait(60) for process in together] == [7, 7]
    assert sorted(os.listdir(tmp_path)) == ["gssr_4711-2.sql", "gssr_4711-3.sql", "gssr_4711.sql"]
    page = gssr("analyze", "-ns", cwd=tmp_path, env=environment)
    assert page.stdout.count("failed, exit code 7") == 3


def test_a_step_of_many_ranks_is_recorded_beside_an_earlier_command_of_its_job(tmp_path):
    job = os.environ | {"SLURM_JOB_ID": "99", "SLURM_CLUSTER_NAME": "c"}
    step = job | {
        "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_GTIDS": "0,1",
        "SLURMD_NODENAME": "node0",
    }  # fmt: skip
    for environment in (job, step):
        done = gssr("profile", "--backend", "synthetic:idle:1", "--", "true", cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
    # The folder for traces stays, empty, until all are merged: the second rank may be about to use it.
    assert sorted(os.listdir(tmp_path)) == ["gssr_99.sql", "gssr_99.sql.d", "gssr_99.traces"]
    assert len(open_recording(tmp_path / "gssr_99.sql").runs) == 2


def test_of_commands_with_one_output_started_together_one_records_and_all_run(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic", "-o", "a.sql", "--", "sh", "-c", "echo ran; sleep 1"]
    running = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    answers = [(process, *process.communicate(timeout=60)) for process in running]
    for process, out, err in answers:
        refused = process.returncode == 2 and out == b"" and b"-o a.sql: " in err
        assert refused or (process.returncode, out) == (0, b"ran\n")
    assert sum(b"see it with" in err for _, _, err in answers) == 1
    assert open_recording(tmp_path / "a.sql").runs[0].state == "completed"


def test_of_commands_that_overwrite_together_one_records_and_all_run(tmp_path):
    assert record(tmp_path, "--", "true").returncode == 0
    command = [*GSSR, "profile", "-f", "--backend", "synthetic", "-o", "a.sql", "-w", f"echo ran; {UNTIL_GO}"]
    running = []
    for number in range(4):
        with open(tmp_path / f"{number}.err", "wb") as err:
            running.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=err))

    def said() -> list[bytes]:
        return [(tmp_path / f"{number}.err").read_bytes() for number in range(4)]

    until(lambda: all(said()), "one to say what it deletes, and the others why they don't record")
    (tmp_path / "go").touch()
    answers = [(process, process.communicate(timeout=60)[0]) for process in running]
    answers = [(process, out, err) for (process, out), err in zip(answers, said(), strict=True)]
    for process, out, err in answers:
        told = any(word in err for word in (b"right now", b"by another gssr", b"exists already", b"recorded into"))
        assert told and (process.returncode, out) in ((0, b"ran\n"), (2, b"")), answers
    assert sum(b"recorded into /" in err for _, _, err in answers) == 1
    runs = open_recording(tmp_path / "a.sql").runs
    assert len(runs) == 1 and {reader.state for reader in runs} == {"completed"}


def test_commands_that_add_together_all_run_and_whoever_says_so_is_recorded(tmp_path):
    assert record(tmp_path, "--", "true").returncode == 0
    (tmp_path / "here").mkdir()
    work = "touch here/$$; until [ $(ls here | wc -l) = 4 ]; do sleep 0.02; done"
    command = [*GSSR, "profile", "-a", "--backend", "synthetic", "-o", "a.sql", "-w", work]
    running = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    recorded = sum("see it with" in text for text in said)
    assert recorded >= 1 and recorded + sum("by another gssr" in text for text in said) == 4, said
    runs = open_recording(tmp_path / "a.sql").runs
    assert len(runs) == 1 + recorded and {reader.state for reader in runs} == {"completed"}


def test_a_recording_that_is_deleted_meanwhile_is_not_said_to_be_there(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic:train:4", "-t", "50", "-o", "a.sql", "-w"]
    process = subprocess.Popen(
        [*command, f"{UNTIL_GO}; rm a.sql*; exit 7"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    wait_for_rows(tmp_path / "a.sql", 4)
    (tmp_path / "go").touch()
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 7
    assert "a.sql: was deleted or moved" in said and "see it with" not in said


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(tmp_path, closed):
    command = [*GSSR, "profile", "--backend", "synthetic", "-o", "a.sql", "--", "sh", "-c", "touch ran; exit 7"]
    done = subprocess.run(["/bin/sh", "-c", f'"$@" {closed}', "sh", *command], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 7 and (tmp_path / "ran").exists()
    assert run_of(tmp_path).run.exit_code == 7


def test_arguments_that_are_no_utf8_are_recorded_in_escapes(tmp_path):
    done = record(tmp_path, "-l", b"caf\xe9", "--", "true", b"\xff")  # type: ignore[arg-type]
    assert done.returncode == 0 and "recorded into" in done.stderr
    assert (run_of(tmp_path).run.label, run_of(tmp_path).run.command[-1]) == ("caf\\udce9", "\\udcff")


def test_a_requeued_job_adds_a_run_to_its_own_file(tmp_path):
    for count in range(3):
        environment = os.environ | {"SLURM_JOB_ID": "4711", "SLURM_RESTART_COUNT": str(count)}
        done = gssr("profile", "--backend", "synthetic", "-o", "a.sql", "--", "true", cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
    assert len(open_recording(tmp_path / "a.sql").runs) == 3


def test_ranks_write_a_file_each_and_leave_one_run_in_one_file(tmp_path):
    ranks, codes = [], [0, 2, 2]  # the run has that of the first to fail, whichever it is
    for rank in range(3):
        environment = os.environ | {
            "SLURM_JOB_ID": "99", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
            "SLURM_STEP_NUM_TASKS": "3", "SLURM_GTIDS": "0,1,2", "SLURMD_NODENAME": f"node{rank}", "SLURM_CLUSTER_NAME": "c",
        }  # fmt: skip
        command = [
            *GSSR,
            "profile",
            "--backend",
            "synthetic:train:2",
            "-t",
            "50",
            "-o",
            "a.sql",
            "--",
            "sh",
            "-c",
            f"sleep 0.5; exit {codes[rank]}",
        ]
        ranks.append(subprocess.Popen(command, cwd=tmp_path, env=environment))
    assert [rank.wait(timeout=60) for rank in ranks] == codes
    assert os.listdir(tmp_path) == ["a.sql"]
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert (reader.state, reader.run.exit_code, len(reader.gpus)) == ("failed", 2, 6)
    assert [gpu.node for gpu in reader.gpus] == ["node0", "node0", "node1", "node1", "node2", "node2"]
    assert sorted(gpu.gpu for gpu in reader.gpus) == [0, 1, 64, 65, 128, 129]


def test_the_sampler_holds_none_of_the_jobs_pipes(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic", "-o", "a.sql", "--", "sleep", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as supervisor:
        sampler = sampler_of(supervisor.pid)
        wait_for_rows(tmp_path / "a.sql", 1)
        held = {os.readlink(f"/proc/{sampler}/fd/{fd}") for fd in ("0", "1", "2")}
        assert held == {"/dev/null"}
        supervisor.terminate()
