"""How many cores a rank may use: by affinity, and by quotas of made-up trees of both versions of cgroups."""

import os
from pathlib import Path

import pytest

from gssr.backends.allowed_cores import allowed_cores


@pytest.mark.parametrize("version", [1, 2])
def test_the_lowest_quota_counts_and_no_quota_is_none(tmp_path: Path, version: int) -> None:
    """A step without a quota of its own in a job that has one."""
    job = tmp_path / ("job" if version == 2 else "cpu/job")
    (job / "step").mkdir(parents=True)
    listed = tmp_path / "listed"
    listed.write_text("0::/job/step\n" if version == 2 else "4:memory:/\n5:cpu,cpuacct:/job/step\n0::/\n")
    bound = float(len(os.sched_getaffinity(0)))

    def write(folder: Path, quota: str) -> None:
        if version == 2:
            (folder / "cpu.max").write_text(f"{'max' if quota == '-1' else quota} 100000\n")
        else:
            (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
            (folder / "cpu.cfs_period_us").write_text("100000\n")

    assert allowed_cores(str(listed), str(tmp_path)) == bound
    write(job / "step", "-1")
    assert allowed_cores(str(listed), str(tmp_path)) == bound
    write(job, "75000")
    assert allowed_cores(str(listed), str(tmp_path)) == 0.75
    write(job, "nonsense")
    assert allowed_cores(str(listed), str(tmp_path)) == bound


def test_affinity_counts_without_any_cgroup(tmp_path: Path) -> None:
    whole = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(whole)})
    try:
        assert allowed_cores(str(tmp_path / "none"), str(tmp_path)) == 1.0
    finally:
        os.sched_setaffinity(0, whole)
