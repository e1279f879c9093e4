"""Host and workload numbers against what really runs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from gssr.backends import host
from gssr.backends.host import HostSampler, WorkloadSampler
from gssr.store.schema import TABLES

COLUMNS = [column.name for column in TABLES["host_samples"]][3:]
TICK = 0.02
BUSY = "while True: pass"
SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def spawn() -> Iterator:
    """Starts Python code as a workload: in a process group of its own, gone after the test."""
    started = []

    def start(code: str, **options: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", code], process_group=0, stdout=subprocess.PIPE, text=True, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()


def ticks(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def wait_for_cpu(pid: int, seconds: float) -> None:
    target = ticks(pid) + seconds
    while ticks(pid) < target:
        time.sleep(0.02)


def test_host_values_stand_in_the_columns_order() -> None:
    sampler = HostSampler()
    first = dict(zip(COLUMNS, sampler.sample(100.0), strict=True))
    time.sleep(0.2)
    second = dict(zip(COLUMNS, sampler.sample(100.2), strict=True))
    rates = {"cpu_utilization", "read_bytes", "write_bytes", "net_rx_bytes", "net_tx_bytes"}
    assert {name for name, value in first.items() if value is None} == rates
    assert 0 <= second["cpu_utilization"] <= 1
    assert 0 < second["memory_used"] < second["memory_total"] == psutil.virtual_memory().total
    assert second["load1"] >= 0


def test_host_cpu_shows_a_busy_core(spawn) -> None:
    sampler = HostSampler()
    sampler.sample(0.0)
    before, process = psutil.cpu_times(), spawn(BUSY)
    wait_for_cpu(process.pid, 0.4)
    busy = sampler.sample(1.0)[0]
    after = psutil.cpu_times()
    everything = sum(after) - sum(before)
    assert busy >= 0.4 / everything - 0.05


def test_host_never_raises_and_unreadable_is_missing(monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    for name in ("cpu_times", "virtual_memory", "disk_io_counters", "net_io_counters"):
        monkeypatch.setattr(psutil, name, refuse)
    monkeypatch.setattr(os, "getloadavg", refuse)
    sampler = HostSampler()
    assert sampler.sample(1.0) == (None,) * len(COLUMNS)
    assert sampler.sample(2.0) == (None,) * len(COLUMNS)


def test_a_node_without_disks_has_no_disk_rates(monkeypatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    sampler = HostSampler()
    sampler.sample(1.0)
    values = dict(zip(COLUMNS, sampler.sample(2.0), strict=True))
    assert values["read_bytes"] is None
    assert values["memory_used"] is not None


def test_rates_skip_devices_that_came_or_went_and_counters_that_fell() -> None:
    before = {"a": (100.0, 1000.0), "gone": (5.0, 5.0), "reset": (900.0, 900.0)}
    after = {"a": (300.0, 1000.0), "new": (7e9, 7e9), "reset": (0.0, 1000.0)}
    assert host._rates(before, after, 2.0) == (100.0, 50.0)
    assert host._rates(before, after, 0.0) == (None, None)


def test_partitions_and_volumes_are_not_counted_beside_their_disks(tmp_path) -> None:
    for name in ("sda/device", "nvme0n1/device", "dm-0", "md127", "loop0"):
        (tmp_path / name).mkdir(parents=True)
    names = ("sda", "sda1", "nvme0n1", "nvme0n1p1", "dm-0", "md127", "loop0")
    assert host._devices(str(tmp_path), names) == ["sda", "nvme0n1"]
    assert host._devices(str(tmp_path), ("dm-0", "sda1")) == ["dm-0"]


def test_workload_cpu_is_what_the_process_used(spawn) -> None:
    process = spawn(BUSY)
    sampler = WorkloadSampler(process.pid)
    before = ticks(process.pid)
    assert sampler.sample(10.0)[0] is None
    begin = ticks(process.pid)
    wait_for_cpu(process.pid, 0.5)
    end = ticks(process.pid)
    cpu, rss, n = sampler.sample(12.0)
    assert end - begin - TICK <= cpu * 2.0 <= ticks(process.pid) - before + TICK
    assert n == 1
    assert rss == pytest.approx(psutil.Process(process.pid).memory_info().rss, rel=0.2)


def test_children_are_found_and_their_cpu_counts_from_their_start(spawn) -> None:
    parent = spawn(
        "import subprocess, sys\n"
        "sys.stdin.readline()\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {BUSY!r}])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()",
        stdin=subprocess.PIPE,
    )
    sampler = WorkloadSampler(parent.pid)
    before = ticks(parent.pid)
    sampler.sample(0.0)
    parent.stdin.write("\n")
    parent.stdin.flush()
    child = int(parent.stdout.readline())
    wait_for_cpu(child, 0.3)
    sampler._next_search = 0.0
    end = ticks(child)
    cpu, _, n = sampler.sample(1.0)
    assert n == 2
    assert end - TICK <= cpu <= ticks(child) + ticks(parent.pid) - before + TICK
    parent.stdin.close()


def test_processes_are_listed_only_when_one_was_started(spawn, monkeypatch) -> None:
    parent = spawn(
        f"import os\nprint(flush=True)\ninput()\nos.fork()\nprint(flush=True)\n{SLEEP}", stdin=subprocess.PIPE
    )
    parent.stdout.readline()
    searches = []
    search = WorkloadSampler._search
    monkeypatch.setattr(WorkloadSampler, "_search", lambda self: searches.append(None) or search(self))
    monkeypatch.setattr(WorkloadSampler, "_SHARE_OF_CORE", 1e9)
    monkeypatch.setattr(WorkloadSampler, "_MOST_AT_ONCE", 1 << 22)  # however many processes this machine has
    monkeypatch.setattr(host, "_newest_process", lambda: b"1")
    sampler = WorkloadSampler(parent.pid)
    assert [sampler.sample(float(second))[2] for second in range(3)] == [1, 1, 1]
    assert len(searches) == 1
    parent.stdin.write("\n")
    parent.stdin.flush()
    parent.stdout.readline()
    monkeypatch.setattr(host, "_newest_process", lambda: b"2")
    assert sampler.sample(3.0)[2] == 2
    assert len(searches) == 2


def test_double_fork_within_the_group_is_found(spawn) -> None:
    code = (
        f"import os\nif os.fork() == 0:\n  if os.fork() == 0:\n    {SLEEP}\n  os._exit(0)\nos.wait()\nprint(flush=True)"
    )
    process = spawn(code)
    process.stdout.readline()
    process.wait()  # the workload itself is gone, its orphan runs on
    sampler = WorkloadSampler(process.pid)
    found = sampler.sample(0.0)
    assert found is not None
    assert found[2] == 1


def test_members_are_found_first_on_a_crowded_node(spawn, monkeypatch) -> None:
    process = spawn(f"import os\nos.fork()\nprint(flush=True)\n{SLEEP}")
    process.stdout.readline(), process.stdout.readline()
    monkeypatch.setattr(WorkloadSampler, "_MOST_AT_ONCE", 5)
    assert WorkloadSampler(process.pid).sample(0.0)[2] == 2


def test_a_member_that_leaves_group_and_session_stays_a_member(spawn) -> None:
    code = (
        "import os\n"
        f"if os.fork() == 0:\n  os.setsid()\n  print(os.getpid(), flush=True)\n  {SLEEP}\n"
        "input()"
    )  # fmt: skip
    process = spawn(code, stdin=subprocess.PIPE)
    daemon = int(process.stdout.readline())
    try:
        sampler = WorkloadSampler(process.pid)
        assert sampler.sample(0.0)[2] == 2
        process.stdin.close()
        process.wait()
        assert sampler.sample(1.0)[2] == 1
    finally:
        os.kill(daemon, 9)


def test_vanished_workload_is_none() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "pass"], process_group=0)
    sampler = WorkloadSampler(process.pid)
    process.wait()
    assert sampler.sample(0.0) is None
    assert WorkloadSampler(process.pid).sample(0.0) is None


def test_a_zombie_is_not_a_process_any_more(spawn) -> None:
    process = spawn("pass")
    process.stdout.read()
    deadline = time.monotonic() + 10
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert WorkloadSampler(process.pid).sample(0.0) is None


def test_a_reused_pid_is_a_stranger(spawn) -> None:
    process = spawn(SLEEP)
    sampler = WorkloadSampler(process.pid)
    start, cpu = sampler._members[process.pid]
    sampler._members[process.pid] = (start - 1, cpu)
    sampler._next_search = time.monotonic() + 60
    assert sampler.sample(0.0) is None


def test_names_with_brackets_and_spaces_are_read(spawn) -> None:
    process = spawn(
        "open('/proc/self/comm', 'w').write('a) R (b c'); print(flush=True); input()", stdin=subprocess.PIPE
    )
    process.stdout.readline()
    stat = host._stat(process.pid)
    assert stat is not None
    assert stat.parent == os.getpid()
    assert stat.group == process.pid
    process.stdin.close()


def test_importing_and_sampling_the_workload_needs_no_psutil() -> None:
    code = (
        "import os, sys\n"
        "from gssr.backends.host import HostSampler, WorkloadSampler\n"
        "HostSampler()\n"
        "assert WorkloadSampler(os.getpid()).sample(1.0)\n"
        "heavy = {'psutil', 'numpy', 'logging', 'subprocess', 'dataclasses'} & set(sys.modules)\n"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
