"""The workload's numbers against what really runs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from busy import BUSY, cpu_seconds, wait_for_cpu

from gssr.backends import workload_processes
from gssr.backends.workload_processes import WorkloadSampler
from tests.waiting import until_ended

ROOT = Path(__file__).parents[2]
TICK = 0.02
SLEEP = "import time; time.sleep(60)"


def test_workload_cpu_is_what_the_process_used(spawn) -> None:
    process = spawn(BUSY)
    sampler = WorkloadSampler(process.pid)
    before = cpu_seconds(process.pid)
    assert sampler.sample(10.0)[0] is None
    begin = cpu_seconds(process.pid)
    wait_for_cpu(process.pid, 0.5)
    end = cpu_seconds(process.pid)
    cpu, rss, n = sampler.sample(12.0)
    assert end - begin - TICK <= cpu * 2.0 <= cpu_seconds(process.pid) - before + TICK
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
    before = cpu_seconds(parent.pid)
    sampler.sample(0.0)
    parent.stdin.write("\n")
    parent.stdin.flush()
    child = int(parent.stdout.readline())
    wait_for_cpu(child, 0.3)
    sampler._next_search = 0.0
    end = cpu_seconds(child)
    cpu, _, n = sampler.sample(1.0)
    assert n == 2
    assert end - TICK <= cpu <= cpu_seconds(child) + cpu_seconds(parent.pid) - before + TICK
    parent.stdin.close()


def test_a_child_started_in_the_tick_of_the_last_sample_counts_from_its_start(spawn, monkeypatch) -> None:
    parent = spawn(
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {BUSY!r}])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    child = int(parent.stdout.readline())
    start = workload_processes.stat_of(child).start
    sampler = WorkloadSampler(parent.pid)
    monkeypatch.setattr(WorkloadSampler, "_search", lambda _: True)
    monkeypatch.setattr(workload_processes.time, "clock_gettime", lambda _: (start + 0.7) / os.sysconf("SC_CLK_TCK"))
    sampler.sample(0.0)
    monkeypatch.undo()
    wait_for_cpu(child, 0.3)
    sampler._next_search = 0.0
    sampler._newest = None
    assert sampler.sample(1.0).cpu >= 0.3 - TICK


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
    monkeypatch.setattr(workload_processes, "_newest_process", lambda: b"1")
    sampler = WorkloadSampler(parent.pid)
    assert [sampler.sample(float(second))[2] for second in range(3)] == [1, 1, 1]
    assert len(searches) == 1
    parent.stdin.write("\n")
    parent.stdin.flush()
    parent.stdout.readline()
    monkeypatch.setattr(workload_processes, "_newest_process", lambda: b"2")
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
    process = spawn(f"import os\nos.fork()\nprint(os.getpid(), flush=True)\n{SLEEP}")
    newest = max(int(process.stdout.readline()) for _ in range(2))
    between = [int(name) for name in os.listdir("/proc") if name.isdigit() and process.pid < int(name) <= newest]
    monkeypatch.setattr(WorkloadSampler, "_MOST_AT_ONCE", len(between))  # others may have started meanwhile
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
    until_ended(process.pid)
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
    stat = workload_processes.stat_of(process.pid)
    assert stat is not None
    assert stat.parent == os.getpid()
    assert stat.group == process.pid
    process.stdin.close()


def test_sampling_the_host_and_the_workload_loads_little() -> None:
    code = (
        "import os, sys\n"
        "from gssr.backends.host import HostSampler\n"
        "from gssr.backends.workload_processes import WorkloadSampler\n"
        "assert None not in [HostSampler().sample(1.0)[k] for k in (1, 2, 3)]\n"
        "assert WorkloadSampler(os.getpid()).sample(1.0)\n"
        "heavy = {'psutil', 'numpy', 'logging', 'subprocess', 'dataclasses'} & set(sys.modules)\n"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
