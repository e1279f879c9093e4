"""The simulator of blind jobs keeps honest books, and what its recorders read is what the books say."""

import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from gssr.metrics import BY_NAME
from tests.fakes.blind_jobs import BlindJob, blind_job, comparable
from tests.fakes.blind_jobs.draft import VIEWS
from tests.fakes.blind_jobs.healthy import HEALTHY
from tests.fakes.blind_jobs.job import LEAST_COST, job_of_kind, kind_named
from tests.fakes.blind_jobs.kinds import SICK
from tests.fakes.blind_jobs.phases import LEAVES

pytestmark = pytest.mark.slow  # nothing of GSSR is tested here, but what its examinations are made with


def _rows(job: BlindJob, folder: Path, table: str = "samples ORDER BY gpu, time") -> pd.DataFrame:
    path = folder / "job.sql"
    path.unlink(missing_ok=True)
    job.write(str(path))
    connection = sqlite3.connect(path)
    rows = pd.read_sql(f"SELECT * FROM {table}", connection)
    connection.close()
    return rows


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
