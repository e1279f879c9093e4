"""Whether a killed command had run out of its cgroup's memory: on made-up trees of both versions, and in a real cgroup."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gssr.backends.memory_cgroup import MemoryCgroup

ROOT = Path(__file__).parent.parent.parent
GIB = 1 << 30


def _tree(tmp_path: Path, version: int) -> tuple[Path, MemoryCgroup]:
    """A step of a job: the step has the limit, the task in it none of its own."""
    step = tmp_path / ("job/step" if version == 2 else "memory/job/step")
    task = step / "task_0"
    task.mkdir(parents=True)
    limit, kills = ("memory.max", "memory.events") if version == 2 else ("memory.limit_in_bytes", "memory.oom_control")
    (step / limit).write_text(f"{4 * GIB}\n")
    (task / limit).write_text("max\n" if version == 2 else f"{(1 << 63) - 4096}\n")
    (task / kills).write_text("low 0\nhigh 3\noom 0\noom_kill 2\n" if version == 2 else "under_oom 0\noom_kill 2\n")
    listed = tmp_path / "listed"
    listed.write_text("0::/job/step/task_0\n" if version == 2 else "5:cpu,cpuacct:/\n4:memory:/job/step/task_0\n0::/\n")
    return task / kills, MemoryCgroup(str(listed), str(tmp_path))


@pytest.mark.parametrize("version", [1, 2])
def test_a_kill_is_explained_by_the_kernels_counter_or_by_memory_near_the_limit(tmp_path: Path, version: int) -> None:
    kills, cgroup = _tree(tmp_path, version)
    assert cgroup.explain_kill(2 * GIB) is None and cgroup.explain_kill(None) is None
    near = cgroup.explain_kill(int(3.9 * GIB))
    assert near == "out of memory: it was killed, last seen with 3.9 GiB in memory; its cgroup may use 4 GiB"
    kills.write_text(kills.read_text().replace("oom_kill 2", "oom_kill 3"))
    assert (cgroup.explain_kill(None) or "").startswith("out of memory: the kernel killed it; its cgroup may use 4 GiB")


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_told_of_the_cgroup_that_is_nearest_to_its_limit(tmp_path: Path, version: int) -> None:
    kills, cgroup = _tree(tmp_path, version)
    assert cgroup.read_use() is None, "a limit, and nothing about what is used"
    task, step = kills.parent, kills.parent.parent
    used, limit = (
        ("memory.current", "memory.max") if version == 2 else ("memory.usage_in_bytes", "memory.limit_in_bytes")
    )
    cached = "inactive_file" if version == 2 else "total_inactive_file"
    (step / used).write_text(f"{3 * GIB}\n")
    (step / "memory.stat").write_text(f"anon 5\n{cached} {GIB}\nactive_file 7\n")
    (task / used).write_text(f"{GIB}\n")
    assert cgroup.read_use() == (2 * GIB, 4 * GIB), "without the files that the kernel can drop"
    (step.parent / limit).write_text(f"{8 * GIB}\n")
    (step.parent / used).write_text(f"{7 * GIB}\n")
    assert cgroup.read_use() == (7 * GIB, 8 * GIB)


@pytest.mark.parametrize("listed", ["", "0::/../elsewhere\n", "nonsense", "4:memory:/gone\n"])
def test_where_nothing_can_be_read_nothing_is_explained(tmp_path: Path, listed: str) -> None:
    (tmp_path / "listed").write_text(listed)
    assert MemoryCgroup(str(tmp_path / "listed"), str(tmp_path / "nothing")).explain_kill(1 << 60) is None


@pytest.fixture
def real_cgroup() -> Iterator[Path]:
    """A cgroup of this machine that may use 150 MB."""
    own, v1 = MemoryCgroup(), Path("/sys/fs/cgroup/memory")
    folder = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / f"gssr-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")).write_text(str(150_000_000))
    except OSError as error:
        folder.rmdir() if folder.is_dir() else None
        pytest.skip(f"no cgroup can be made here: {error}, {own}")
    yield folder
    for pid in (folder / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    folder.rmdir()


def test_a_command_that_the_kernel_kills_for_memory_is_named_with_rank_node_and_memory(
    tmp_path: Path, real_cgroup: Path
) -> None:
    greedy = (
        "import time; kept = [bytearray(20_000_000)]; time.sleep(1.5)\nwhile True: kept.append(bytearray(20_000_000))"
    )
    ranks = []
    for rank, script in enumerate(("import time; time.sleep(4)", greedy)):
        environ = dict(os.environ) | {
            "PYTHONPATH": str(ROOT), "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": "node7",
        }  # fmt: skip
        profile = f"{sys.executable} -m gssr profile --backend synthetic:idle:1 -t 100 -o a.sql -- {sys.executable} -c"
        inside = f"echo $$ > {real_cgroup}/cgroup.procs; " if rank else ""
        shell = ["bash", "-c", f'{inside}exec {profile} "$0"', script]
        ranks.append(subprocess.Popen(shell, env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 137], said
    with closing(sqlite3.connect(tmp_path / "a.sql")) as connection:
        ((message, node, rank),) = connection.execute(
            "SELECT message, node, rank FROM events WHERE kind = 'out_of_memory'"
        )
        assert connection.execute("SELECT exit_code FROM runs").fetchall() == [(137,)]
    assert (node, rank) == ("node7", 1)
    seen = re.fullmatch(
        "rank 1 on node7 ran out of memory: the kernel killed it, last seen with ([0-9.]+) GiB in memory; "
        "its cgroup may use 0.14 GiB",
        message,
    )
    assert seen and 0.02 < float(seen[1]) <= 0.14, message
    page = "".join(said)
    assert "Rank 1 on node7 ran out of memory" in page and "exit code 137 (SIGKILL)" in page
