"""Which processes on the GPUs a recording holds, and which errors of GPUs: real runs on a driver that lists what it is
told."""

import os
import pwd
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from supervised import ROOT

from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.profile.sampling import gpu_processes
from gssr.store.read.recording import open_recording
from tests.waiting import UNTIL_GO, until

ME = pwd.getpwuid(os.geteuid()).pw_name
MIB = 1 << 20
ALL = """
import sys
from gssr.profile.request import ProfileRequest
from gssr.profile.session import profile
sys.exit(profile(ProfileRequest(["sh", "-c", sys.argv[1]], "a.sql", sampling_ms=100, backend="nvml", processes="all")))
"""
WORKLOAD = f"echo $$ > pid$RANK; sleep 600 & echo $! > child$RANK; {UNTIL_GO}; kill $!"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process in the test's folder, which ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(environ: Mapping[str, str], *words: str) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        variables = {"RANK": ""} | environ | {"PYTHONPATH": str(ROOT)}
        running.append(subprocess.Popen(words, cwd=tmp_path, env=variables, text=True, stdout=pipe, stderr=pipe))
        return running[-1]

    yield begin
    (tmp_path / "go").touch()
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def driver(tmp_path: Path, fake_driver) -> Callable[..., dict[str, str]]:
    """The environment of who sees these GPUs, on which ``put`` has put processes and ``report`` an error."""

    def environ(**settings: object) -> dict[str, str]:
        for name in ("procs", "xid"):
            (tmp_path / name).touch()
        own = {"gpus": 2, "processes": tmp_path / "procs", "xid": tmp_path / "xid"}
        return fake_driver.environ(**own | settings)

    return environ


def put(folder: Path, *processes: tuple[Any, ...]) -> None:
    """What is on the GPUs from now on: (GPU, pid, MiB, SM utilization in percent), -1 unknown."""
    new = folder / "procs.new"
    new.write_text("".join(f"{gpu} 0 {pid} {mib} {sm} c\n" for gpu, pid, mib, sm in processes))
    new.replace(folder / "procs")


def profiled(*options: str) -> list[str]:
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "nvml", "-t", "100", "-o", "a.sql", "--no-summary"]
    return [*command, *options, "-w", WORKLOAD]


def written(path: Path) -> int:
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else 0


def ids(folder: Path, rank: str = "") -> tuple[int, int]:
    """Process ids of the workload and of its child."""
    return tuple(until(lambda name=name: written(folder / f"{name}{rank}"), name) for name in ("pid", "child"))


def query(folder: Path, sql: str, path: str = "a.sql") -> list[tuple[Any, ...]]:
    try:
        with closing(sqlite3.connect(f"file:{folder / path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()
    except sqlite3.Error:
        return []  # not begun yet


def looks(folder: Path, gpu: int, path: str = "a.sql") -> list[list[int | None]]:
    """The ids of the processes that were on a GPU, look by look."""
    sql = f"SELECT time, pid FROM gpu_processes WHERE gpu % 64 = {gpu} ORDER BY time, pid"
    found: dict[float, list[int | None]] = {}
    for when, pid in query(folder, sql, path):
        found.setdefault(when, []).append(pid)
    return list(found.values())


def ended(folder: Path, *processes: "subprocess.Popen[str]") -> list[str]:
    (folder / "go").touch()
    return [process.communicate(timeout=60)[1] for process in processes]


def test_the_jobs_own_processes_are_recorded_as_they_come_and_go_and_nobody_elses(tmp_path, start, driver) -> None:
    stranger = start({}, "sleep", "600")
    run = start(driver(), *profiled())
    workload, child = ids(tmp_path)
    others = (0, stranger.pid, 100, 5), (1, os.getpid(), 100, 5), (1, 1, 9, 1)
    put(tmp_path, (0, workload, 1000, 40), (0, child, -1, -1), *others)
    until(lambda: [workload, child] in [sorted(look) for look in looks(tmp_path, 0)], "both processes")
    put(tmp_path, (0, workload, 1000, 40), *others)
    until(lambda: looks(tmp_path, 0)[-1] == [workload], "the end of one")
    put(tmp_path, (0, workload, 5000, 40), *others)
    until(lambda: query(tmp_path, f"SELECT 1 FROM gpu_processes WHERE memory_used = {5000 * MIB}"), "more memory")
    put(tmp_path, *others)
    until(lambda: looks(tmp_path, 0)[-1] == [None], "the end of the other")
    ended(tmp_path, run)
    rows = query(tmp_path, "SELECT pid, n_processes, name, user, memory_used, sm_utilization FROM gpu_processes")
    assert {row[0] for row in rows} == {None, workload, child}
    assert {look[0] for look in looks(tmp_path, 1)} == {None}, "what is on the other GPU is nobody's of the job"
    assert {row[2:4] for row in rows if row[0] == child} == {("sleep", ME)}
    assert {row[2] for row in rows if row[0] == workload} == {"sh"}
    assert {row[4] for row in rows if row[0] == child} == {None}
    assert {row[5] for row in rows if row[0] == workload} == {0.4}
    assert {row[1:] for row in rows if row[0] is None} == {(0, None, None, None, None)}
    assert len(looks(tmp_path, 1)) <= 1 + (time.time() - min(query(tmp_path, "SELECT min(time) FROM samples"))[0]) / 9


def test_a_monitor_sees_everybodys_each_second(tmp_path, start, driver) -> None:
    stranger = start({}, "sleep", "600")
    run = start(driver(not_supported=521), sys.executable, "-c", ALL, WORKLOAD)
    workload, _ = ids(tmp_path)
    put(tmp_path, (0, workload, 1000, 40), (0, stranger.pid, 700, 5), (1, 1, 1, 1))
    until(lambda: len([look for look in looks(tmp_path, 0) if len(look) == 2]) >= 3, "three looks")
    watch = WatchedRecording(str(tmp_path / "a.sql"))
    until(lambda: watch.look(Query()).state == "live" and watch.look(Query()).processes, "a frame")
    put(tmp_path, (0, workload, 1000, 40))

    def live() -> list[tuple[int, int | None]]:
        return [(process.gpu, process.pid) for process in watch.look(Query()).processes]

    until(lambda: live() == [(0, workload)], "that the others are gone")
    assert watch.look(Query()).without_process == {1}
    ended(tmp_path, run)
    ((moment,),) = query(tmp_path, "SELECT max(time) FROM gpu_processes WHERE n_processes = 2")
    until(lambda: watch.look(Query()).state == "ended", "the end")
    before = watch.look(Query(end=moment + 0.1)).processes
    assert {process.pid for process in before if process.gpu == 0} == {workload, stranger.pid}
    assert not watch.look(Query(end=moment - 60)).processes
    watch.close()
    pids = f"pid IN ({workload}, {stranger.pid}, 1)"
    found = set(query(tmp_path, f"SELECT pid, name, user, memory_used, sm_utilization FROM gpu_processes WHERE {pids}"))
    assert (stranger.pid, "sleep", ME, 700 * MIB, None) in found and {row[0] for row in found} == {
        workload, stranger.pid, 1
    }  # fmt: skip
    times = [row[0] for row in query(tmp_path, "SELECT DISTINCT time FROM gpu_processes WHERE gpu = 0 ORDER BY time")]
    assert all(after - before < 9 for before, after in pairwise(times))


def test_ranks_of_a_node_know_each_others_processes(tmp_path, start, driver) -> None:
    """Whichever of them looks at the GPU."""
    ranks = []
    for rank in "01":
        place = {
            "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": rank, "SLURM_LOCALID": rank, "RANK": rank,
            "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": f"n{os.getpid()}-{tmp_path.name}",
        }  # fmt: skip
        ranks.append(start(driver(node="n") | place, *profiled()))
    (first, _), (second, child) = ids(tmp_path, "0"), ids(tmp_path, "1")
    put(tmp_path, (0, first, 1000, 40), (0, child, 500, 40), (1, second, 1000, 40), (1, os.getpid(), 10, 10))

    def seen(gpu: int) -> list[list[int | None]]:
        paths = [str(path) for path in (tmp_path / "a.sql.d").glob("*.sql")]
        return [look for path in paths for look in looks(tmp_path, gpu, path)]

    until(lambda: sorted([first, child]) in seen(0) and [second] in seen(1), "all of them")
    ended(tmp_path, *ranks)
    until(lambda: not (tmp_path / "a.sql.d").exists(), "the merge")
    rows = [row for rows in open_recording(tmp_path / "a.sql").runs[0].gpu_processes() for row in rows]
    assert {row[3] for row in rows} - {None} == {first, second, child}
    assert {row[0] for row in rows if row[3] == second} == {1}


def test_beside_a_job_its_processes_are_known_by_its_number(tmp_path, start, driver) -> None:
    own = start({"SLURM_JOB_ID": "12"}, "sleep", "600")
    other = start({"SLURM_JOB_ID": "123"}, "sleep", "600")
    run = start(driver() | {"SLURM_JOB_ID": "12"}, *profiled()[:-2], "--attach-job")
    put(tmp_path, (0, own.pid, 1000, 40), (0, other.pid, 1000, 40))
    until(lambda: [own.pid] in looks(tmp_path, 0), "the job's process")
    run.terminate()
    run.communicate(timeout=60)
    assert {pid for look in looks(tmp_path, 0) for pid in look} <= {None, own.pid}


def test_a_redacted_recording_says_only_how_many_they_are_and_what_they_use(tmp_path, start, driver) -> None:
    run = start(driver(), *profiled("--redact"))
    workload, child = ids(tmp_path)
    put(tmp_path, (0, workload, 1000, 40), (0, child, 500, 20))
    until(lambda: query(tmp_path, "SELECT 1 FROM gpu_processes WHERE n_processes = 2"), "both")
    ended(tmp_path, run)
    rows = query(tmp_path, "SELECT pid, name, user, memory_used FROM gpu_processes WHERE n_processes = 2")
    assert set(rows) == {(None, None, None, 1000 * MIB), (None, None, None, 500 * MIB)}
    assert not query(tmp_path, "SELECT 1 FROM gpu_processes WHERE coalesce(pid, name, user) IS NOT NULL")


def test_where_process_ids_are_the_hosts_none_is_taken_for_the_jobs_and_that_is_said_once(
    tmp_path, start, driver
) -> None:
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *own, "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no namespace of process ids is to be had here")
    run = start(driver(), *words, *profiled())
    workload, _ = ids(tmp_path)  # in the container
    put(tmp_path, (0, workload, 1000, 40), (0, (1 << 22) - 1, 500, 20))
    until(lambda: query(tmp_path, "SELECT 1 FROM events WHERE message LIKE '%process ids are the host%'"), "a remark")
    (said,) = ended(tmp_path, run)
    assert said.count("process ids are the host's") == 1 and "not recorded" in said
    assert not query(tmp_path, "SELECT 1 FROM gpu_processes WHERE pid IS NOT NULL")


def test_who_is_hidden_from_a_monitor_in_a_container_has_neither_name_nor_user(monkeypatch) -> None:
    class Written(list):
        def add_processes(self, *look: object) -> None:
            self.append(look)

        def event(self, *event: object) -> None:
            said.append(event[-1])

    said: list[object] = []
    rows = Written()
    plan = type("Plan", (), {"processes": "all", "run": {"user": "me"}, "attached": False})()
    monkeypatch.setattr(gpu_processes, "_is_contained", lambda: True)
    taking = gpu_processes.GpuProcessLog(plan, rows, lambda: (), said.append)
    ours, theirs = (gpu_processes.Running(pid, 5, 0.5) for pid in (os.getpid(), (1 << 22) - 1))
    for now in (1.0, 2.0):
        taking.keep(gpu_processes.ProcessSnapshot(0, now, (ours, theirs)), 0, now)
    assert rows[-1] == (0, 2.0, [(os.getpid(), None, None, 5, 0.5), (theirs.pid, None, None, 5, 0.5)])
    assert len(said) == 2 and said[0] == said[1]  # the event, and the line


def test_errors_of_gpus_are_events_and_a_verdict(tmp_path, start, driver) -> None:
    run = start(driver(), *profiled())
    until(lambda: looks(tmp_path, 1), "a look at the GPUs")
    with (tmp_path / "xid").open("a") as file:
        file.write("1 79\n0 31\n0 31\n0 31\n")
    found = "SELECT gpu, message FROM events WHERE kind = 'xid' ORDER BY gpu"
    until(lambda: len(query(tmp_path, found)) == 2, "two XIDs")
    (said,) = ended(tmp_path, run)
    assert query(tmp_path, found) == [
        (0, "XID 31: a kernel accessed memory that is not there"),
        (1, "XID 79: the GPU has fallen off the bus"),
    ]
    assert "GPU 1: XID 79: the GPU has fallen off the bus" in said
    page = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", "a.sql", "--width", "200"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert "reported an error: XID 79: the GPU has fallen off the bus" in page and "--exclude=" in page


@pytest.mark.parametrize("settings", [{"not_supported": "520,521,522,523,524"}, {"not_supported": 525}, {"mig": "0:2"}])
def test_where_the_driver_tells_nothing_there_is_nothing_and_the_job_goes_on(tmp_path, start, driver, settings) -> None:
    run = start(driver(**settings), *profiled())
    workload, _ = ids(tmp_path)
    put(tmp_path, (0, workload, 1000, 40))
    until(lambda: query(tmp_path, "SELECT 1 FROM samples GROUP BY gpu HAVING max(time) - min(time) > 1.3"), "samples")
    (said,) = ended(tmp_path, run)
    assert run.returncode == 0 and "process" not in said and "error" not in said
    assert not query(tmp_path, "SELECT 1 FROM gpu_processes WHERE pid IS NOT NULL")
    assert ("mig" in settings) == bool(looks(tmp_path, 1))
