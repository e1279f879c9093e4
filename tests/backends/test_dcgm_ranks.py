"""Ranks that see one GPU each, at one hostengine: one of them samples the GPUs of all, whoever comes and ends when."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from gssr.backends.dcgm import open_dcgm
from gssr.store.read.recording import RunReader, open_recording
from tests.waiting import until

UUIDS = [f"GPU-fa4e0000-0000-4000-8000-{number:012d}" for number in (1, 2, 3, 4)]
"""Those that the stand-in for the driver has."""


@pytest.fixture
def start(tmp_path, engine, fake_driver) -> Iterator:
    """Starts a rank of a step of five with a GPU of its own, as srun --gpus-per-task=1 does; it runs until there is a file
    of the name ``go``. No test starts all five, so that what each records stays in a file of its own."""
    started = []
    node = f"node{os.getpid()}-{tmp_path.name}"

    def start_(rank: int, *options: str, go: str = "go", **more: str) -> subprocess.Popen:
        environ = fake_driver.environ(gpus=4, node="", processes=tmp_path / "processes") | engine.environ
        environ |= {
            "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
            "SLURM_STEP_NUM_TASKS": "5", "SLURMD_NODENAME": node, "CUDA_VISIBLE_DEVICES": UUIDS[rank], **more,
        }  # fmt: skip
        until_go = f"until [ -e {go} ] || [ $((n += 1)) -gt 4000 ]; do sleep 0.02; done"
        words = ("profile", "--backend", "dcgm", "-t", "100", "-o", "1.sql", *options, "--wrap", until_go)
        command = [sys.executable, "-m", "gssr", *words]
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start_
    for process in started:
        process.kill()
        process.communicate()


def ended(folder: Path, *ranks: subprocess.Popen) -> list[str]:
    """Let the ranks end; what they have said."""
    (folder / "go").touch()
    return [rank.communicate(timeout=60)[1] for rank in ranks]


def asked(folder: Path, sql: str) -> dict[int, list[tuple]]:
    """What each rank's file answers by now; a file that is not made yet is left out."""
    found = {}
    for path in sorted((folder / "1.sql.d").glob("*.sql")):
        try:
            with closing(sqlite3.connect(path)) as connection:
                found[int(path.name.split(".")[1])] = connection.execute(sql).fetchall()
        except sqlite3.Error:
            pass
    return found


def sampled(folder: Path, since: float = 0.0, n_ticks: int = 5) -> dict[int, set[int]]:
    """By the rank whose file they are in, the GPUs (places in UUIDS) that have so many profiled samples."""
    sql = (
        "SELECT uuid FROM samples JOIN gpus USING (gpu) "
        f"WHERE sm_active IS NOT NULL AND time > {since} GROUP BY gpu HAVING count(*) >= {n_ticks}"
    )
    return {rank: {UUIDS.index(uuid) for (uuid,) in rows} for rank, rows in asked(folder, sql).items() if rows}


def reader_of(folder: Path) -> RunReader:
    (reader,) = open_recording(folder / "1.sql").runs
    return reader


def times_of(reader: RunReader) -> list[list[float]]:
    """By GPU when it was sampled; never twice within less than an interval."""
    samples = reader.samples([])
    found = [sorted(samples.time[samples.gpu == gpu]) for gpu in range(len(reader.gpus))]
    for times in found:
        assert min(after - before for before, after in pairwise(times)) > 0.04
    return found


def test_one_rank_samples_the_gpus_of_all_with_one_connection(tmp_path, engine, start):
    # There is room for the groups of one connection, and for those of the one that takes its place when ranks come late.
    engine.start(gpus=UUIDS, groups=60, field_groups=57)
    ranks = [start(rank, go=f"go{rank}") for rank in range(4)]
    until(lambda: list(sampled(tmp_path).values()) == [{0, 1, 2, 3}], "samples of all GPUs by one rank")
    for rank in ranks:
        pid = rank.pid
        (tmp_path / "processes").open("a").write(f"{ranks.index(rank)} 0 {pid} 100 50 c\n")
    (sampler,) = sampled(tmp_path)
    for number in sorted(range(4), key=lambda rank: rank == sampler):  # last, or another would say that it goes on
        (tmp_path / f"go{number}").touch()
        assert ranks[number].communicate(timeout=60)[1] == ""
    reader = reader_of(tmp_path)
    assert [(gpu.uuid, gpu.rank) for gpu in reader.gpus] == [(uuid, rank) for rank, uuid in enumerate(UUIDS)]
    assert reader.gpus_of_ranks == {rank: (rank,) for rank in range(4)}
    assert min(map(len, times_of(reader))) >= 5
    logged = {(uuid, value) for uuid, field, _, value, _ in engine.logged() if field == 1002}
    rows = asked(tmp_path, "SELECT uuid, sm_active FROM samples JOIN gpus USING (gpu) WHERE sm_active IS NOT NULL")
    assert {row for found in rows.values() for row in found} <= logged, "each GPU has its own values"
    merged = subprocess.run([sys.executable, "-m", "gssr", "merge", "1.sql"], cwd=tmp_path, capture_output=True)
    assert merged.returncode == 0, merged.stderr
    reader = reader_of(tmp_path)
    assert [gpu.rank for gpu in reader.gpus] == [0, 1, 2, 3]
    assert reader.gpus_of_ranks == {rank: (rank,) for rank in range(4)}


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_another_rank_goes_on_when_the_one_that_samples_is_gone(tmp_path, engine, start, how):
    engine.start(gpus=UUIDS[:2])
    first = start(0, go="end")
    until(lambda: sampled(tmp_path) == {0: {0}}, "the first rank's samples")
    second = start(1)
    until(lambda: sampled(tmp_path) == {0: {0, 1}}, "the second rank's GPU, sampled by the first")
    if how == "ends":
        (tmp_path / "end").touch()
        first.wait(60)
    else:
        children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        comms = {int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
        os.kill(next(pid for pid, name in comms.items() if name == "gssr-sampler"), signal.SIGKILL)
    gone = time.time()
    until(lambda: 1 in sampled(tmp_path, gone + 1.0).get(1, ()), "the second rank's own samples")
    (tmp_path / "end").touch()
    ended(tmp_path, first, second)
    assert sampled(tmp_path, gone + 1.0, 1) == {1: {1}}, "the GPU of the rank that is gone is sampled no more"
    reader = reader_of(tmp_path)
    assert [gpu.rank for gpu in reader.gpus] == [0, 1]
    times_of(reader)
    assert (
        sum("sampled by this rank from now on" in event.message for event in reader.events) == 2
    )  # GPUs, and the host


def test_ranks_that_come_late_are_sampled_too_and_ranks_that_end_early_no_more(tmp_path, engine, start):
    engine.start(gpus=UUIDS[:3])
    first = start(0)
    until(lambda: sampled(tmp_path) == {0: {0}}, "the first rank's samples")
    second, third = start(1, go="early"), start(2)
    until(lambda: sampled(tmp_path) == {0: {0, 1, 2}}, "samples of all three")
    (tmp_path / "early").touch()
    second.wait(60)
    left = time.time()
    until(lambda: sampled(tmp_path, left + 1.0, 10) == {0: {0, 2}}, "samples of the two that are left")
    ended(tmp_path, first, second, third)
    reader = reader_of(tmp_path)
    _, of_second, _ = times_of(reader)
    assert left - 1.0 < of_second[-1] < left + 1.0, "up to its end, as far as the machine's load lets it be known"


def test_an_engine_that_is_full_is_said_by_each_rank_that_loses_by_it(tmp_path, engine, start):
    engine.start(gpus=UUIDS[:2], groups=62)
    ranks = [start(rank) for rank in range(2)]
    query = "SELECT 1 FROM events WHERE message LIKE '%no room%'"
    until(lambda: list(map(len, asked(tmp_path, query).values())) == [1, 1], "both ranks")
    said = ended(tmp_path, *ranks)
    assert sum(text.count("no GPU is sampled") for text in said) == 1 and "no room for another group" in "".join(said)


def test_an_instance_is_known_by_its_place_where_its_uuid_can_not_be_seen(engine, monkeypatch):
    """A rank sees the UUIDs of its own MIG instances only, and asks for another rank's by what the engine calls it."""
    engine.start(gpus=["GPU-a"], mig={"GPU-a": [(1, 0), (2, 0)]})
    for name, value in engine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", list(sys.path))
    from gssr.backends.base import Device

    theirs = Device(0, "MIG-known-to-its-rank")
    backend = open_dcgm("dcgm", None, 0.1, {"MIG-GPU-a/2/0": theirs})
    rows = []
    until(lambda: rows.extend(backend.sample(time.time())) or len(rows) > 3, "rows")
    backend.close()
    assert list(backend.gpus) == [theirs] and {row[0] for row in rows} == {0}
