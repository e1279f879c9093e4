"""The simulator of unseen jobs keeps honest books, and what its recorders read is what its timeline says."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gssr.store.read.recording import open_recording
from tests.fakes.unseen_jobs import comparable, job_of_kind
from tests.fakes.unseen_jobs.kinds import SICK, WELL
from tests.fakes.unseen_jobs.machines import VIEWS
from tests.fakes.unseen_jobs.work import LEAVES, RATES

pytestmark = pytest.mark.slow  # nothing of GSSR is tested here, but what its examinations are made with
SEED = 48  # its jobs are small
CODES = frozenset((
    "io_wait", "transfer_bound", "unified_memory", "cpu_starved", "straggler", "imbalance", "rotating_stragglers",
    "slow_node", "taking_turns", "late_start", "early_end", "communication_bound", "low_use", "launch_gaps", "gaps",
    "unexplained", "pauses", "recurring_dips", "hang", "gpus_unused", "start_up", "tear_down", "throttled_thermal",
    "throttled_power_brake", "throttled_hardware", "power_capped", "slow_clock", "slow_down", "small_kernels",
    "low_occupancy", "gpu_errors", "gpu_lost", "memory_full", "memory_unused", "memory_peak", "tensor_unused", "fp64",
    "compute_bound", "memory_bound", "little_arithmetic", "low_power", "out_of_memory",
))  # fmt: skip


@pytest.mark.parametrize("name", sorted(WELL | SICK))
def test_every_kind_can_be_drawn_and_its_books_add_up(name: str) -> None:
    job = job_of_kind(name, SEED)
    seconds = job.by_gpu.sum(axis=1)
    assert seconds == pytest.approx(np.full(job.draft.n, job.draft.timeline.seconds), rel=1e-9)
    assert (job.by_gpu > -1e-6).all()
    assert sum(job.shares.values()) == pytest.approx(1.0)
    assert tuple(job.shares) == LEAVES
    assert all(sum(work.leaves.values()) == pytest.approx(1.0) for work in job.draft.timeline.works)
    assert all(work.rates.keys() <= set(RATES) for work in job.draft.timeline.works)
    assert job.allowed.union(*job.planted) <= CODES
    assert bool(job.planted) == (name in SICK)
    assert job.planted or not job.allowed
    assert sum(comparable(job.shares, job.view).values()) == pytest.approx(1.0)
    if job.lost_gpu_hours is not None:
        assert job.lost_gpu_hours >= 0.06 * seconds.sum() / 3600 - 1e-9


@pytest.mark.parametrize("name", ["fixed_straggler", "loader_too_slow", "pipeline_bubbles", "launch_bound"])
def test_recorded_activity_is_what_the_timeline_did(name: str, tmp_path: Path) -> None:
    job = job_of_kind(name, SEED, "gpm")
    job.write(str(tmp_path / "job.sql"))
    with sqlite3.connect(tmp_path / "job.sql") as connection:
        found = dict(connection.execute("SELECT gpu, avg(sm_active) FROM samples GROUP BY gpu").fetchall())
    timeline = job.draft.timeline
    for gpu, mean in zip(range(job.draft.n), found.values(), strict=True):
        true = timeline.pieces_of(gpu).means(np.zeros(1), np.array([timeline.seconds]))[0, RATES.index("sm")]
        assert mean == pytest.approx(true, abs=0.03)


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_a_recording(view: str, tmp_path: Path) -> None:
    job = job_of_kind("uneven_domains", SEED, view)
    assert job.view == view
    path = tmp_path / "job.sql"
    job.write(str(path))
    reader = open_recording(str(path)).runs[0]
    assert len(reader.gpus) == job.draft.n
    with sqlite3.connect(path) as connection:
        hosts = connection.execute("SELECT count(DISTINCT node) FROM host_samples").fetchone()[0]
        problems = connection.execute("SELECT message FROM events WHERE kind = 'storage'").fetchall()
        times = connection.execute("SELECT time FROM samples ORDER BY rowid").fetchall()
    assert hosts == (0 if view == "imported" else job.draft.machine.n_nodes)
    assert not problems
    assert times == sorted(times)
