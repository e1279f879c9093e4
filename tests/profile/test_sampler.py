"""What the sampler does at its deadlines, and what it survives."""

import contextlib
import itertools
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gssr.store.read.recording import open_recording
from tests.waiting import UNTIL_GO, until

GSSR = [sys.executable, "-m", "gssr"]

WITH_A_BROKEN_LIBRARY = """
import sys
import gssr.profile.sampling.share as share
from gssr.backends.base import OpenedBackend
from gssr.backends.synthetic import SyntheticBackend
from gssr.profile.session import ProfileRequest, profile

class Broken(SyntheticBackend):
    left = 5

    def sample(self, now):
        self.left -= 1
        if not self.left:
            open("broken", "w").close()
            raise ValueError("a library's fault")
        return super().sample(now)

share.open_backend = lambda *_: OpenedBackend(Broken("train", 2, "n"))
wait = "until [ -e broken ]; do sleep 0.02; done; sleep 0.2; exit 5"
sys.exit(profile(ProfileRequest(["sh", "-c", wait], output="a.sql", sampling_ms=20)))
"""


def test_a_fault_in_a_backend_ends_its_samples_but_not_the_recording(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_BROKEN_LIBRARY], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 5 and "a library's fault" in done.stderr and "Traceback" not in done.stderr
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert (reader.state, reader.run.exit_code, reader.n_rows) == ("failed", 5, 8)
    assert "backend_lost" in [event.kind for event in reader.events]


def test_a_long_interval_holds_back_neither_the_host_nor_what_was_sampled(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic:train:2", "-t", "600000", "-o", "a.sql", "--", "sleep", "60"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as supervisor:
        until(lambda: counted(tmp_path / "a.sql", "host_samples") >= 3, "the host's samples")
        until(lambda: counted(tmp_path / "a.sql", "events WHERE kind = 'start'") == 1, "the start")
        assert counted(tmp_path / "a.sql", "samples") == 2
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(timeout=60) == 128 + signal.SIGTERM


def counted(path: Path, rows: str) -> int:
    """How many of these rows a recording holds by now."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.parametrize("milliseconds", [5, 1000])
def test_deadlines_are_kept_and_the_host_is_sampled_every_second(tmp_path, milliseconds):
    command = [*GSSR, "profile", "--backend", "synthetic:train:1", "-t", str(milliseconds), "-o", "a.sql", "--wrap"]
    with subprocess.Popen([*command, UNTIL_GO], cwd=tmp_path, stderr=subprocess.DEVNULL) as supervisor:
        until(lambda: seconds_kept(tmp_path / "a.sql") >= 3, "the host's samples a second apart")
        (tmp_path / "go").touch()
        assert supervisor.wait(timeout=60) == 0
    (reader,) = open_recording(tmp_path / "a.sql").runs
    times = reader.samples([]).time
    interval = milliseconds / 1000
    late = (times - times[0]) % interval
    assert (late < interval / 4).mean() > 0.4  # by chance it would be a quarter of them
    with contextlib.closing(sqlite3.connect(tmp_path / "a.sql")) as connection:
        cores = [row[0] for row in connection.execute("SELECT cpu FROM workload_samples")]
        n_host, span = connection.execute("SELECT count(*), max(time) - min(time) FROM host_samples").fetchone()
    assert 4 <= n_host <= span + 2
    assert len(cores) >= 4 and cores[0] is None and None not in cores[1:]


def seconds_kept(path: Path) -> int:
    """How often the host was sampled a second after it was sampled before; a machine that stands still has others, too."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            times = [when for (when,) in connection.execute("SELECT time FROM host_samples ORDER BY time")]
    except sqlite3.Error:
        return 0
    return sum(0.9 < after - before < 1.2 for before, after in itertools.pairwise(times))


def test_samples_are_half_an_interval_apart_at_least_however_late_they_come(tmp_path):
    command = [*GSSR, "profile", "--backend", "synthetic:train:1", "-t", "200", "-o", "a.sql", "--wrap", UNTIL_GO]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as supervisor:
        until(lambda: counted(tmp_path / "a.sql", "samples") >= 2, "samples")
        (reader,) = open_recording(tmp_path / "a.sql").runs
        (process,), begin = reader.processes, reader.samples([]).time[0]
        for _ in range(4):
            due = begin + 0.2 * math.ceil((time.time() + 0.05 - begin) / 0.2)
            time.sleep(max(0.0, due - 0.05 - time.time()))
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(max(0.0, due + 0.11 - time.time()))  # then it waits for the 0.05 s that were left
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.3)
        (tmp_path / "go").touch()
        assert supervisor.wait(timeout=60) == 0
    (reader,) = open_recording(tmp_path / "a.sql").runs
    times = reader.samples([]).time
    assert min(after - before for before, after in itertools.pairwise(times)) > 0.09


def test_the_sampler_holds_nothing_that_was_open_before_it(tmp_path):
    readable, writable = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{readable}")
    command = [*GSSR, "profile", "--backend", "synthetic", "-o", "a.sql", "--", "sleep", "60"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, pass_fds=[writable]) as supervisor:
        os.close(writable)
        held = {}

        def is_held_by_the_workload_alone() -> bool:
            children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
            held.update({Path(f"/proc/{child}/comm").read_text().strip(): descriptors(child) for child in children})
            return pipe in held.get("sleep", []) and pipe not in held.get("gssr-sampler", [pipe])

        until(is_held_by_the_workload_alone, f"{pipe} to be held by the workload alone, not as in {held}")
        supervisor.terminate()
    os.close(readable)


def descriptors(pid: str) -> list[str]:
    """What the descriptors of a process stand for."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return links


def test_a_log_that_a_reader_keeps_beside_the_recording_is_named_and_merge_takes_it_in(tmp_path):
    path = tmp_path / "a.sql"
    command = [
        *GSSR,
        "profile",
        "--backend",
        "synthetic:train:2",
        "-t",
        "50",
        "-o",
        "a.sql",
        "--",
        "sh",
        "-c",
        UNTIL_GO,
    ]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as supervisor:
        until(lambda: counted(path, "samples") >= 4, "samples")
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM samples").fetchone()[0] >= 4
            (tmp_path / "go").touch()
            told = supervisor.communicate(timeout=60)[1]
            assert "a.sql-wal beside it is part of the recording" in told and f": gssr merge {path}\n" in told
            done = subprocess.run([*GSSR, "merge", path], capture_output=True, text=True, timeout=60)
            assert "a reader has it open, so a.sql-wal stays beside it" in done.stderr and not done.returncode
    done = subprocess.run([*GSSR, "merge", path], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{path}: what was in a.sql-wal is in the file now\n"
    assert sorted(os.listdir(tmp_path)) == ["a.sql", "go"]
    assert open_recording(path).runs[0].state == "completed"
