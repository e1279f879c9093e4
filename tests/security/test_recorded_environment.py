"""What is recorded of a user's environment is what docs/recording.md lists, and with --redact not even that."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gssr.launch import where_am_i
from gssr.profile.request import ProfileRequest
from gssr.profile.sampling.redact import LEFT_OUT, names_to_hide, redacted, without
from gssr.store.format.schema import TABLES

ROOT = Path(__file__).parents[2]
SECRETS = (
    "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "SLURM_JWT", "SSH_AUTH_SOCK", "DATABASE_URL",
    "KRB5CCNAME", "http_proxy", "PASSWORD", "LD_PRELOAD_NOTE", "OMP_NUM_THREADS_NOTE", "PS1", "MAIL", "GSSR_ANYTHING",
    "SLURM_JOB_QOS", "SLURM_JOB_RESERVATION", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "SLURM_WORKING_CLUSTER", "OLDPWD",
    "HISTFILE", "NVIDIA_VISIBLE_NOTE", "HOME", "XDG_CONFIG_HOME", "CONDA_PREFIX", "VIRTUAL_ENV", "TORCHELASTIC_NOTE",
)  # fmt: skip
JOB = {
    "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_CLUSTER_NAME": "clustername", "SLURM_JOB_NAME": "jobname",
    "SLURM_JOB_ACCOUNT": "accountname", "SLURM_JOB_PARTITION": "partitionname",
    "SLURMD_NODENAME": "nid001234", "USER": "alovelace", "LOGNAME": "alovelace",
}  # fmt: skip


def job_of(rank: int, ranks: int) -> dict[str, str]:
    """What Slurm says to a rank."""
    return JOB | {"SLURM_PROCID": f"{rank}", "SLURM_LOCALID": f"{rank}", "SLURM_STEP_NUM_TASKS": f"{ranks}"}


def record(folder: Path, *options: str, ranks: int = 1) -> bytes:
    """Every byte that is there when a run has ended, and what its workload could see of the recording while it ran."""
    secrets = {name: f"secret-{number}-{name}" for number, name in enumerate(SECRETS)}
    wait = "for i in $(seq 600); do grep -qs 'Synthetic H100' run.sql* run.sql.d/* && break; sleep 0.05; done"
    look = "gssr mark visited node nid001234 of alovelace; cat run.sql* run.sql.d/* > during 2> /dev/null; true"
    shell = f'gssr() {{ "{sys.executable}" -m gssr "$@"; }}; {wait}; {look}'
    runs = []
    for rank in range(ranks):
        own = job_of(rank, ranks)
        command = ["profile", "-o", "run.sql", "--backend", "synthetic:train:2", "-t", "50", *options]
        words = [sys.executable, "-m", "gssr", *command, "--", "sh", "-c", shell, "theargument"]
        path = {"PYTHONPATH": str(ROOT)}
        runs.append(
            subprocess.Popen(words, cwd=folder, env=os.environ | secrets | own | path, stderr=subprocess.DEVNULL)
        )
    assert [run.wait(timeout=60) for run in runs] == [0] * ranks
    assert sorted(os.listdir(folder)) == ["during", "run.sql"]
    return (folder / "run.sql").read_bytes() + (folder / "during").read_bytes()


@pytest.mark.parametrize("ranks", [1, 2])
def test_no_variable_of_the_environment_is_recorded_but_those_listed(tmp_path: Path, ranks: int) -> None:
    data = record(tmp_path, ranks=ranks)
    assert b"theargument" in data and b"alovelace" in data and b"nid001234" in data and b"visited" in data
    assert re.findall(rb"secret-\d+-\w+", data) == []
    assert os.fsencode(tmp_path) not in data, "the working directory"


def test_every_text_recorded_of_the_user_is_one_that_is_listed(tmp_path: Path) -> None:
    record(tmp_path, "-l", "label")
    place = where_am_i(os.environ | job_of(0, 1))
    known = {
        "run_id": place.run_id, "label": "label", "job_id": "4711", "step_id": "0", "launcher": "slurm",
        "cluster": "clustername", "user": place.user, "job_name": "jobname", "account": "accountname",
        "partition": "partitionname", "node": "nid001234", "hostname": os.uname().nodename,
    }  # fmt: skip
    of_others = {"uuid", "name", "compute_capability", "driver_version", "backend", "mig", "gssr_version"}
    of_others |= {"command", "kind", "message", "state", "boot_id"}
    with closing(sqlite3.connect(tmp_path / "run.sql")) as file:
        for table, columns in TABLES.items():
            for column in columns:
                if column.type.startswith("TEXT") and column.name not in of_others:
                    found = {text for (text,) in file.execute(f"SELECT {column.name} FROM {table}")}
                    assert found <= {known.get(column.name)}, (table, column.name)
        documented = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
        for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            assert f"### {name}\n" in documented
            for column in file.execute(f"PRAGMA table_info({name})"):
                assert f"| `{column[1]}` |" in documented


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_redacted_recording_names_nobody(tmp_path: Path, ranks: int) -> None:
    data = record(tmp_path, "--redact", "-l", "kept", ranks=ranks)
    host = os.uname().nodename
    hidden = ["alovelace", "nid001234", "clustername", "jobname", "accountname", "partitionname", "theargument"]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for word in [*hidden, boot, str(tmp_path), "sh -c", "GPU-synthetic", *([host] if len(host) > 5 else [])]:
        assert word.encode() not in data, word
    assert re.findall(rb"secret-\d+-\w+", data) == []
    with closing(sqlite3.connect(tmp_path / "run.sql")) as file:
        for table in TABLES:  # numbers may hold the bytes of a short name
            for row in file.execute(f"SELECT * FROM {table}"):
                for text in row:
                    assert not (isinstance(text, str) and re.search(rf"\b{re.escape(host)}\b", text)), (table, text)
        run = file.execute(
            "SELECT label, command, user, cluster, job_id, job_name, account, state FROM runs"
        ).fetchall()
        assert run == [("kept", None, None, None, "4711", None, None, "completed")]
        (mark,) = file.execute("SELECT DISTINCT message FROM events WHERE kind = 'mark'").fetchone()
        assert mark == f"visited node {LEFT_OUT} of {LEFT_OUT}"
        nodes = file.execute("SELECT DISTINCT node FROM gpus UNION SELECT node FROM processes").fetchall()
        assert len(nodes) == 1 and re.fullmatch(r"node-[0-9a-f]{8}", nodes[0][0])
        assert file.execute("SELECT count(*), count(DISTINCT uuid) FROM gpus").fetchone() == (2, 2)


def test_ranks_agree_on_what_stands_for_a_name_and_runs_do_not(tmp_path: Path) -> None:
    def node(job: str, name: str, output: str) -> tuple[str, str | None]:
        place = where_am_i(job_of(0, 2) | {"SLURM_JOB_ID": job, "SLURMD_NODENAME": name})
        found = redacted(place, ProfileRequest(["x"], output=str(tmp_path / output)))
        return found.node, found.run_id

    assert node("1", "n1", "a.sql") == node("1", "n1", "a.sql")
    assert node("1", "n1", "a.sql")[1] == node("1", "n2", "a.sql")[1]
    assert len({node(job, name, to)[0] for job in "12" for name in ("n1", "n2") for to in ("a", "b")}) == 8


def test_names_and_paths_are_left_out_of_messages_and_words_that_hold_them_stay() -> None:
    place = where_am_i(job_of(0, 1))
    hidden = names_to_hide(place._replace(user="max", hostname="host.example.org"), {"DCGM_HOST": "gpu-host:5555"})
    told = "max on host.example.org (host) asked gpu-host:5555 for nid001234: at most maximum, /home/max/x.sql: gone"
    left = f"{LEFT_OUT} on {LEFT_OUT} ({LEFT_OUT}) asked {LEFT_OUT} for {LEFT_OUT}: at most maximum, {LEFT_OUT}: gone"
    assert without(told, hidden) == left
    assert (
        without("12 GB/s, 3/4 of 1 kB/s; backend dcgm: 4 GPUs", hidden)
        == "12 GB/s, 3/4 of 1 kB/s; backend dcgm: 4 GPUs"
    )
