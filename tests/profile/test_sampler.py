"""What the sampler does at its deadlines, and what it survives."""

import contextlib
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gssr.store.reader import open_recording

GSSR = [sys.executable, "-m", "gssr"]

WITH_A_BROKEN_LIBRARY = """
import sys
import gssr.profile.share as share
from gssr.backends.base import Opened
from gssr.backends.synthetic import SyntheticBackend
from gssr.profile.session import Request, profile

class Broken(SyntheticBackend):
    left = 5

    def sample(self, now):
        self.left -= 1
        if not self.left:
            raise ValueError("a library's fault")
        return super().sample(now)

share.open_backend = lambda *_: Opened(Broken("train", 2, "n"))
sys.exit(profile(Request(["sh", "-c", "sleep 1; exit 5"], output="a.sql", sampling_ms=20)))
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
    command = [*GSSR, "profile", "--backend", "synthetic:train:2", "-t", "60000", "-o", "a.sql", "--", "sleep", "60"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as supervisor:
        time.sleep(3.6)
        with sqlite3.connect(f"file:{tmp_path}/a.sql?mode=ro", uri=True) as connection:
            n_host, n_samples, n_starts = connection.execute(
                "SELECT (SELECT count(*) FROM host_samples), (SELECT count(*) FROM samples),"
                " (SELECT count(*) FROM events WHERE kind = 'start')"
            ).fetchone()
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(timeout=20) == 128 + signal.SIGTERM
    assert n_host >= 3 and n_samples == 2 and n_starts == 1


@pytest.mark.parametrize("milliseconds", ["5", "1000"])
def test_deadlines_are_kept_and_the_host_is_sampled_every_second(tmp_path, milliseconds):
    command = [
        *GSSR,
        "profile",
        "--backend",
        "synthetic:train:1",
        "-t",
        milliseconds,
        "-o",
        "a.sql",
        "--",
        "sleep",
        "3.3",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    times = reader.samples([]).time
    interval = int(milliseconds) / 1000
    late = (times - times[0]) % interval
    assert sorted(late)[len(late) // 2] < interval / 4
    with sqlite3.connect(tmp_path / "a.sql") as connection:
        host = [row[0] for row in connection.execute("SELECT time FROM host_samples")]
        cores = [row[0] for row in connection.execute("SELECT cpu FROM workload_samples")]
    assert len(host) == 4 and all(0.9 < after - before < 1.2 for before, after in itertools.pairwise(host))
    assert len(cores) == 4 and cores[0] is None and None not in cores[1:]


def test_the_sampler_holds_nothing_that_was_open_before_it(tmp_path):
    readable, writable = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{readable}")
    command = [*GSSR, "profile", "--backend", "synthetic", "-o", "a.sql", "--", "sleep", "60"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, pass_fds=[writable]) as supervisor:
        os.close(writable)
        held = {}
        while not held.keys() >= {"gssr-sampler", "sleep"}:
            time.sleep(0.05)
            children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
            held = {Path(f"/proc/{child}/comm").read_text().strip(): descriptors(child) for child in children}
        supervisor.terminate()
    os.close(readable)
    assert pipe in held["sleep"] and pipe not in held["gssr-sampler"]


def descriptors(pid: str) -> list[str]:
    """What the descriptors of a process stand for."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return links
