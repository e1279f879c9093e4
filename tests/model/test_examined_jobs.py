"""The simulator of examined jobs keeps honest books, and its samples are what its books say."""

import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gssr.metrics import BY_NAME
from tests.fakes.examined_jobs import ExaminedJob, comparable, examined_job
from tests.fakes.examined_jobs.activities import LEAVES
from tests.fakes.examined_jobs.draft import Draft
from tests.fakes.examined_jobs.healthy import HEALTHY
from tests.fakes.examined_jobs.planted import PLANTED

SEEDS = range(24)
WITHOUT_KERNELS = ("unused", "startup", "end", "idle")


def _rows(job: ExaminedJob, folder: Path) -> pd.DataFrame:
    path = folder / "job.sql"
    job.write(str(path))
    with sqlite3.connect(path) as connection:
        rows = pd.read_sql("SELECT * FROM samples ORDER BY gpu, time", connection)
    connection.close()
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_books_add_up(seed: int) -> None:
    job = examined_job(seed)
    assert set(job.shares) == set(LEAVES)
    assert min(job.shares.values()) >= -1e-12
    assert sum(job.shares.values()) == pytest.approx(1, abs=1e-9)
    assert sum(comparable(job.shares, job.view).values()) == pytest.approx(1, abs=1e-9)
    assert bool(job.planted) != job.kind.startswith("healthy")
    if job.lost_gpu_hours is not None:
        share = job.lost_gpu_hours * 3600 / (job.timeline.n_gpus * job.timeline.seconds)
        assert 0.05 <= share <= 1


def test_a_seed_is_one_job(tmp_path: Path) -> None:
    one, other = examined_job(12), examined_job(12)
    assert one == other
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    pd.testing.assert_frame_equal(_rows(one, tmp_path / "a"), _rows(other, tmp_path / "b"))
    assert not examined_job(12, healthy=True).planted
    assert examined_job(12, healthy=False).planted


@pytest.mark.parametrize("seed", range(100, 110))
def test_samples_are_what_the_books_say(seed: int, tmp_path: Path) -> None:
    job = examined_job(seed)
    rows = _rows(job, tmp_path)
    for name in rows.columns.difference(["gpu", "time"]):
        known = rows[name].dropna()
        assert (known >= 0).all(), name
        if BY_NAME[name].unit == "ratio":
            assert (known <= 1).all(), name
    assert (rows.power_usage.dropna() <= 1.06 * job.setting.model.power_limit).all()
    for _, own in rows.groupby("gpu"):
        spacing = own.time.diff()
        assert (spacing.dropna() > 0).all()
        if own.power_usage.notna().sum() < 50 or job.shares["unmeasured"] or job.interval_s > 1:
            continue
        used = own.energy.iloc[-1] - own.energy.iloc[0]
        drawn = float((own.power_usage * spacing).sum())
        assert drawn == pytest.approx(used, rel=0.08)
    if "gr_engine_active" in rows and rows.gr_engine_active.notna().any() and not job.shares["unmeasured"]:
        idle = sum(share for leaf, share in job.shares.items() if leaf.startswith(WITHOUT_KERNELS))
        engine = rows.groupby("gpu").gr_engine_active.mean().mean()
        edge = 1.5 * job.interval_s / job.timeline.seconds  # before the first sample and after the last
        assert engine == pytest.approx(1 - idle, abs=0.01 + edge)


@pytest.mark.parametrize("kind", [*HEALTHY, *PLANTED])
def test_every_kind_runs(kind: str) -> None:
    draft = Draft(np.random.default_rng(5), "full")
    {**HEALTHY, **PLANTED}[kind](draft)
    assert draft.script().columns
    assert bool(draft.planted) == (kind in PLANTED)
