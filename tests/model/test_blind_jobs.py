"""The simulator of blind jobs keeps honest books, and what its recorders read is what the books say."""

import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gssr.metrics import BY_NAME
from tests.fakes.blind_jobs import BlindJob, blind_job, comparable
from tests.fakes.blind_jobs.draft import VIEWS
from tests.fakes.blind_jobs.healthy import HEALTHY
from tests.fakes.blind_jobs.job import LEAST_COST, job_of_kind, kind_named
from tests.fakes.blind_jobs.kinds import SICK
from tests.fakes.blind_jobs.phases import LEAVES
from tests.fakes.unseen_jobs.work import LEAVES as LEAVES_OF_ANOTHER_HAND

pytestmark = pytest.mark.slow  # nothing of GSSR is tested here, but what its examinations are made with
ORDINARY = {"idle.between_kernels": 0.15, "communication": 0.10, "working.slowed": 0.18}
ORDINARY_OTHERWISE = 0.04
PROBED = ("files_now_and_then", "pageable_copies", "one_gpu_has_more_to_do", "hangs", "all_gpus_too_hot")


def _rows(job: BlindJob, folder: Path, table: str = "samples ORDER BY gpu, time") -> pd.DataFrame:
    path = folder / "job.sql"
    path.unlink(missing_ok=True)
    job.write(str(path))
    connection = sqlite3.connect(path)
    rows = pd.read_sql(f"SELECT * FROM {table}", connection)
    connection.close()
    return rows


def test_leaves_are_those_of_the_other_examination() -> None:
    assert set(LEAVES) == set(LEAVES_OF_ANOTHER_HAND)


@pytest.mark.parametrize("kind", [*HEALTHY, *SICK])
def test_every_kind_in_every_view(kind: str) -> None:
    for view in kind_named(kind).views:
        assert view in VIEWS
        job = job_of_kind(kind, 17, view)
        assert job.view == view
        assert set(job.shares) == set(LEAVES)
        assert min(job.shares.values()) >= 0
        assert sum(job.shares.values()) == pytest.approx(1, abs=1e-9)
        assert sum(comparable(job.shares, view).values()) == pytest.approx(1, abs=1e-9)
        assert bool(job.planted) == (kind in SICK) != kind.startswith("healthy_")
        assert all(job.planted) and (job.planted or not job.allowed)
        if job.lost_gpu_hours is not None:
            assert LEAST_COST <= job.lost_gpu_hours * 3600 / (job.timeline.n_gpus * job.timeline.seconds) <= 1


@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_jobs_lose_no_more_than_is_ordinary(kind: str) -> None:
    for seed in range(5):
        shares = dict(job_of_kind(kind, seed).shares)
        talks = shares.pop("communication.transferring") + shares.pop("communication.waiting")
        assert talks <= ORDINARY["communication"], seed
        for leaf, share in shares.items():
            if not leaf.startswith("working.") or leaf in ("working.slowed", "working.few_sms"):
                assert share <= ORDINARY.get(leaf, ORDINARY_OTHERWISE), (seed, leaf)


def test_a_seed_is_one_job(tmp_path: Path) -> None:
    one, other = blind_job(5), blind_job(5)
    assert one == other
    pd.testing.assert_frame_equal(_rows(one, tmp_path), _rows(other, tmp_path))
    assert not blind_job(5, healthy=True).planted
    assert blind_job(5, healthy=False).planted


@pytest.mark.parametrize("seed", range(40, 48))
def test_samples_are_what_the_books_say(seed: int, tmp_path: Path) -> None:
    job = blind_job(seed)
    rows = _rows(job, tmp_path)
    for name in rows.columns.difference(["gpu", "time"]):
        values = rows[name].dropna()
        assert (values >= 0).all(), name
        if BY_NAME[name].unit == "ratio" or BY_NAME[name].unit == "1":
            assert (values <= 1).all(), name
    assert (rows.groupby("gpu").time.diff().dropna() > 0).all()
    without = sum(share for leaf, share in job.shares.items() if leaf.startswith(("idle.", "startup", "end", "unused")))
    name = "gr_engine_active" if "gr_engine_active" in rows and rows.gr_engine_active.notna().any() else ""
    if name and not job.shares["unmeasured"]:
        active = rows.groupby("gpu")[name].mean().mean()
        assert active == pytest.approx(1 - without, abs=0.01 + 2 * job.interval_s / job.timeline.seconds)


@pytest.mark.parametrize("kind", PROBED)
def test_labels_follow_from_the_samples(kind: str, tmp_path: Path) -> None:
    job = job_of_kind(kind, 3, "full")
    rows = _rows(job, tmp_path)
    by_gpu = rows.groupby("gpu").mean(numeric_only=True)
    if kind == "files_now_and_then":
        assert {"io_wait"} <= job.planted[0]
        assert rows.gr_engine_active.quantile(0.02) < 0.7
    elif kind == "pageable_copies":
        links = by_gpu.pcie_rx_bytes + (by_gpu.c2c_rx_bytes if "c2c_rx_bytes" in by_gpu else 0)
        assert (links > 1e8).all()
    elif kind == "one_gpu_has_more_to_do":
        assert by_gpu.sm_active.max() > 1.05 * by_gpu.sm_active.median()
    elif kind == "hangs":
        last = rows[rows.time > rows.time.max() - 0.1 * job.timeline.seconds]
        assert last.sm_active.mean() < 0.25 < last.gr_engine_active.mean()
    else:
        busy = rows[rows.gr_engine_active > 0.8]
        assert busy.sm_clock.mean() < 0.9 * job.draft.model.max_clock
        assert (busy.clock_event_reasons.to_numpy().astype(np.int64) & 0x20).mean() > 0.5
