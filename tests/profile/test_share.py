"""Ranks of one node sample each of its GPUs once between them, whoever sees which and whoever ends when."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gssr.store.reader import open_recording

WITHOUT_CLAIMS = """
import sys
import gssr.profile.share as share
def no_claims(*_):
    raise OSError(28, "No space left on device")
share.Claims = no_claims
from gssr.cli import main
sys.exit(main())
"""
GSSR = ("-m", "gssr")


def start(folder: Path, rank: int, gpus: str, command: str, job: int = 1, gssr=GSSR, ms: int = 50, **more):
    """Start a rank of a step of five, with these GPUs (indices of the node). No test starts all of them, so that what each
    has recorded stays in a file of its own."""
    environ = dict(os.environ) | {
        "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NUM_TASKS": "5", "SLURMD_NODENAME": node_of(folder), "SLURM_STEP_GPUS": gpus, **more,
    }  # fmt: skip
    options = ("profile", "--backend", "synthetic", "-t", str(ms), "-o", f"{job}.sql", "--wrap", command)
    return subprocess.Popen(
        [sys.executable, *gssr, *options], cwd=folder, env=environ, stderr=subprocess.PIPE, text=True
    )


def node_of(folder: Path) -> str:
    """A node for each test, so that none sees what another one left."""
    return f"node{os.getpid()}-{folder.name}"


def finished(folder, *ranks):
    """What they said; they have left nothing behind."""
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert not Path(f"/dev/shm/gssr-{os.geteuid()}/{node_of(folder)}").exists()
    return said


def ticks_of(reader) -> list[int]:
    """How many ticks each GPU has; none of them twice."""
    samples = reader.samples([])
    for gpu in range(len(reader.gpus)):
        times = samples.time[samples.gpu == gpu]
        assert (times[1:] - times[:-1] > 0.01).all()
    return [int((samples.gpu == gpu).sum()) for gpu in range(len(reader.gpus))]


def reader_of(folder, job=1):
    (reader,) = open_recording(folder / f"{job}.sql").runs
    return reader


def sampled(folder, job=1) -> dict[int, set[int]]:
    """The GPUs (device indices) each rank has samples of."""
    found = {}
    for path in sorted((folder / f"{job}.sql.d").glob("*.sql")):
        with sqlite3.connect(path) as connection:
            query = "SELECT DISTINCT device_index FROM samples JOIN gpus USING (gpu)"
            found[int(path.name.split(".")[1])] = {index for (index,) in connection.execute(query)}
    return found


def n_host(folder, job=1) -> list[int]:
    counts = []
    for path in sorted((folder / f"{job}.sql.d").glob("*.sql")):
        with sqlite3.connect(path) as connection:
            counts += connection.execute("SELECT count(*) FROM host_samples").fetchone()
    return counts


def test_ranks_with_gpus_of_their_own_sample_those(tmp_path):
    said = finished(tmp_path, *(start(tmp_path, rank, str(rank), "sleep 1.2") for rank in range(4)))
    assert said == [""] * 4
    assert sampled(tmp_path) == {rank: {rank} for rank in range(4)}
    reader = reader_of(tmp_path)
    assert [(gpu.device_index, gpu.rank) for gpu in reader.gpus] == [(rank, rank) for rank in range(4)]
    assert 1 <= sum(n_host(tmp_path)) <= 4


@pytest.mark.parametrize("same", ["by Slurm's indices", "by what can be seen"])
def test_gpus_that_all_ranks_see_are_sampled_by_one_and_may_be_used_by_all(tmp_path, same):
    gpus, more = ("0-3", {}) if same == "by Slurm's indices" else ("", {"CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    finished(tmp_path, *(start(tmp_path, rank, gpus, "sleep 1.2", **more) for rank in range(4)))
    # One samples; when it ends a moment before another, that one may take over.
    assert sorted(map(len, sampled(tmp_path).values()))[:2] == [0, 0]
    reader = reader_of(tmp_path)
    assert [gpu.rank for gpu in reader.gpus] == [None] * 4 and len(reader.processes) == 4
    assert min(ticks_of(reader)) >= 10 and len(reader.gpus) == 4
    for path in (tmp_path / "1.sql.d").glob("*.sql"):
        with sqlite3.connect(path) as connection:
            query = "SELECT count(*), count(DISTINCT uuid) FROM process_gpus JOIN gpus USING (gpu)"
            assert connection.execute(query).fetchone() == (4, 4)


def test_gpus_that_only_some_ranks_see_are_sampled_too(tmp_path):
    finished(
        tmp_path, *(start(tmp_path, rank, gpus, "sleep 1.2") for rank, gpus in enumerate(("0,1", "1,2", "2", "1-3")))
    )
    reader = reader_of(tmp_path)
    assert [(gpu.device_index, gpu.rank) for gpu in reader.gpus] == [(0, 0), (1, None), (2, None), (3, 3)]
    assert min(ticks_of(reader)) >= 10


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_what_a_rank_sampled_is_taken_over_when_it_is_gone(tmp_path, how):
    first = start(tmp_path, 0, "0-3", "sleep 1.5" if how == "ends" else "sleep 4", ms=400)
    time.sleep(0.7)
    second = start(tmp_path, 1, "0-3", "sleep 4", ms=400)
    if how == "is killed":
        time.sleep(1.2)
        os.kill(sampler_of(first.pid), signal.SIGKILL)
    finished(tmp_path, second, first)
    assert sampled(tmp_path) == {0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}}
    reader = reader_of(tmp_path)
    samples = reader.samples([])
    assert len(reader.gpus) == 4 and sorted(set(samples.gpu)) == [0, 1, 2, 3]
    times = samples.time[samples.gpu == 2]
    assert max(times[1:] - times[:-1]) < 1.4 and times[-1] - times[0] > 3.5
    messages = [event.message for event in reader.events if event.kind == "backend"]
    assert sum("from now on" in message for message in messages) == 5  # four GPUs and the host
    assert all(n_host(tmp_path))


def sampler_of(supervisor: int) -> int:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    (sampler,) = (child for child in children if Path(f"/proc/{child}/comm").read_text() == "gssr-sampler\n")
    return int(sampler)


def test_other_runs_of_the_node_are_never_held_up(tmp_path):
    ranks = [start(tmp_path, 0, "0-3", "sleep 1", job=job) for job in (1, 2)]
    finished(tmp_path, *ranks)
    for job in (1, 2):
        assert sampled(tmp_path, job) == {0: {0, 1, 2, 3}}


def test_where_nothing_can_be_claimed_every_rank_samples_all_and_nothing_counts_twice(tmp_path):
    finished(tmp_path, *(start(tmp_path, rank, "0,1", "sleep 1.2", gssr=("-c", WITHOUT_CLAIMS)) for rank in range(2)))
    assert sampled(tmp_path) == {0: {0, 1}, 1: {0, 1}}
    reader = reader_of(tmp_path)
    assert min(ticks_of(reader)) >= 10
    said = [event.message for event in reader.events if "can't agree" in event.message]
    assert len(said) == 2 and all("No space left on device" in message for message in said)
    assert sorted(n_host(tmp_path))[0] == 0


def test_a_complaint_is_said_once_on_a_node(tmp_path):
    said = finished(
        tmp_path, *(start(tmp_path, rank, "0", "sleep 1", gssr=("-c", WITH_NO_BACKEND)) for rank in range(3))
    )
    assert sorted(map(bool, said)) == [False, False, True] and "no GPU is sampled: no driver" in "".join(said)
    events = [event for event in reader_of(tmp_path).events if event.message == "no GPU is sampled: no driver"]
    assert len(events) == 3


WITH_NO_BACKEND = """
import sys
import gssr.profile.share as share
from gssr.backends.base import BackendError
def no_backend(*_):
    raise BackendError("no driver")
share.open_backend = no_backend
from gssr.cli import main
sys.exit(main())
"""
