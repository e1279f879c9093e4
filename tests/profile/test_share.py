"""Ranks of one node sample each of its GPUs once between them, whoever sees which and whoever ends when."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from supervised import sampler_of

from gssr.store.read.recording import open_recording
from tests.waiting import UNTIL_GO, until

WITHOUT_CLAIMS = """
import sys
import gssr.profile.sampling.share as share
def no_claims(*_):
    raise OSError(28, "No space left on device")
share.Claims = no_claims
from gssr.cli import main
sys.exit(main())
"""
GSSR = ("-m", "gssr")


def start(folder: Path, rank: int, gpus: str, job: int = 1, gssr=GSSR, ms: int = 50, go: str = "go", **more):
    """Start a rank of a step of five, with these GPUs (indices of the node); it runs until there is a file ``go``. No test
    starts all of them, so that what each has recorded stays in a file of its own."""
    command = UNTIL_GO.replace("-e go", f"-e {go}")
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


def finished(folder, *ranks, once=lambda: True):
    """Let them end ``once`` this is true; what they said. They have left nothing behind."""
    until(once, "the ranks")
    (folder / "go").touch()
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


def reader_of(folder):
    (reader,) = open_recording(folder / "1.sql").runs
    return reader


def asked(folder, query, job=1) -> dict[int, list[tuple]]:
    """What each rank's file answers by now; a rank whose file is not made yet is left out."""
    found = {}
    for path in sorted((folder / f"{job}.sql.d").glob("*.sql")):
        try:
            with closing(sqlite3.connect(path)) as connection:
                found[int(path.name.split(".")[1])] = connection.execute(query).fetchall()
        except sqlite3.Error:
            pass
    return found


def sampled(folder, job=1, n_ticks=1) -> dict[int, set[int]]:
    """The GPUs (device indices) of which each rank has so many samples."""
    query = f"SELECT device_index FROM samples JOIN gpus USING (gpu) GROUP BY gpu HAVING count(*) >= {n_ticks}"
    return {rank: {index for (index,) in rows} for rank, rows in asked(folder, query, job).items()}


def n_host(folder) -> list[int]:
    return [n for ((n,),) in asked(folder, "SELECT count(*) FROM host_samples", 1).values()]


def n_begun(folder) -> int:
    """How many ranks know by now which GPUs there are, and whether they sample the host."""
    return len([rows for rows in asked(folder, "SELECT 1 FROM gpus").values() if rows])


def test_ranks_with_gpus_of_their_own_sample_those(tmp_path):
    ranks = [start(tmp_path, rank, str(rank)) for rank in range(4)]
    own = {rank: {rank} for rank in range(4)}
    until(lambda: sampled(tmp_path) == own and sum(n_host(tmp_path)) > 1, "samples of all GPUs and of the host")
    assert sorted(n_host(tmp_path))[:3] == [0, 0, 0]
    assert finished(tmp_path, *ranks) == [""] * 4
    assert sampled(tmp_path) == own
    assert [(gpu.device_index, gpu.rank) for gpu in reader_of(tmp_path).gpus] == [(rank, rank) for rank in range(4)]


@pytest.mark.parametrize("same", ["by Slurm's indices", "by what can be seen"])
def test_gpus_that_all_ranks_see_are_sampled_by_one_and_may_be_used_by_all(tmp_path, same):
    gpus, more = ("0-3", {}) if same == "by Slurm's indices" else ("", {"CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    ranks = [start(tmp_path, rank, gpus, **more) for rank in range(4)]
    until(lambda: n_begun(tmp_path) == 4 and any(sampled(tmp_path, n_ticks=12).values()), "all ranks and samples")
    assert sorted(map(len, sampled(tmp_path).values())) == [0, 0, 0, 4]
    finished(tmp_path, *ranks)  # when the one ends a moment before another, that one may take over
    reader = reader_of(tmp_path)
    assert [gpu.rank for gpu in reader.gpus] == [None] * 4 and len(reader.processes) == 4
    assert min(ticks_of(reader)) >= 10 and len(reader.gpus) == 4
    query = "SELECT count(*), count(DISTINCT uuid) FROM process_gpus JOIN gpus USING (gpu)"
    assert list(asked(tmp_path, query).values()) == [[(4, 4)]] * 4


def test_gpus_that_only_some_ranks_see_are_sampled_too(tmp_path):
    ranks = [start(tmp_path, rank, gpus) for rank, gpus in enumerate(("0,1", "1,2", "2", "1-3"))]
    finished(tmp_path, *ranks, once=lambda: set().union(*sampled(tmp_path, n_ticks=12).values()) == {0, 1, 2, 3})
    reader = reader_of(tmp_path)
    assert [(gpu.device_index, gpu.rank) for gpu in reader.gpus] == [(0, 0), (1, None), (2, None), (3, 3)]
    assert min(ticks_of(reader)) >= 10


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_what_a_rank_sampled_is_taken_over_when_it_is_gone(tmp_path, how):
    first = start(tmp_path, 0, "0-3", ms=400, go="end" if how == "ends" else "go")
    until(lambda: any(sampled(tmp_path).values()) and any(n_host(tmp_path)), "the first rank's samples")
    second = start(tmp_path, 1, "0-3", ms=400)
    until(lambda: n_begun(tmp_path) == 2, "the second rank")
    assert sampled(tmp_path) == {0: {0, 1, 2, 3}, 1: set()}
    if how == "ends":
        (tmp_path / "end").touch()
    else:
        os.kill(sampler_of(first.pid), signal.SIGKILL)
    until(lambda: len(sampled(tmp_path, n_ticks=4)[1]) == 4 and all(n_host(tmp_path)), "the second rank's samples")
    told = time.time()
    finished(tmp_path, second, first)
    assert sampled(tmp_path) == {0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}}
    reader = reader_of(tmp_path)
    samples = reader.samples([])
    assert len(reader.gpus) == 4 and sorted(set(samples.gpu)) == [0, 1, 2, 3]
    times = samples.time[samples.gpu == 2]
    assert max(times[1:] - times[:-1]) < 20 and times[-1] > told - 0.4
    messages = [event.message for event in reader.events if event.kind == "backend"]
    assert sum("from now on" in message for message in messages) == 5  # four GPUs and the host


def test_other_runs_of_the_node_are_never_held_up(tmp_path):
    ranks = [start(tmp_path, 0, "0-3", job=job) for job in (1, 2)]
    finished(tmp_path, *ranks, once=lambda: all(sampled(tmp_path, job) == {0: {0, 1, 2, 3}} for job in (1, 2)))


def test_where_nothing_can_be_claimed_every_rank_samples_all_and_nothing_counts_twice(tmp_path):
    ranks = [start(tmp_path, rank, "0,1", gssr=("-c", WITHOUT_CLAIMS)) for rank in range(2)]
    finished(tmp_path, *ranks, once=lambda: sampled(tmp_path, n_ticks=12) == {0: {0, 1}, 1: {0, 1}})
    reader = reader_of(tmp_path)
    assert min(ticks_of(reader)) >= 10
    said = [event.message for event in reader.events if "can't agree" in event.message]
    assert len(said) == 2 and all("No space left on device" in message for message in said)
    assert sorted(n_host(tmp_path))[0] == 0


def test_a_complaint_is_said_once_on_a_node(tmp_path):
    message = "no GPU is sampled: no driver"
    ranks = [start(tmp_path, rank, "0", gssr=("-c", WITH_NO_BACKEND)) for rank in range(3)]
    query = f"SELECT 1 FROM events WHERE message = '{message}'"
    said = finished(tmp_path, *ranks, once=lambda: list(asked(tmp_path, query).values()) == [[(1,)]] * 3)
    assert sorted(map(bool, said)) == [False, False, True] and message in "".join(said)


WITH_NO_BACKEND = """
import sys
import gssr.profile.sampling.share as share
from gssr.backends.base import BackendError
def no_backend(*_):
    raise BackendError("no driver")
share.open_backend = no_backend
from gssr.cli import main
sys.exit(main())
"""
