"""Recording through DCGM: real runs of ``gssr profile`` on the stand-in's hostengine."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from dcgm_bench import bindings_folder

from gssr.metrics import BY_NAME
from tests.waiting import UNTIL_GO, until


def start(folder, engine, *arguments, environ=None):
    command = [sys.executable, "-m", "gssr", "profile", "-o", "run.sql", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=os.environ | engine.environ | (environ or {}), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def query(folder, sql):
    connection = sqlite3.connect(folder / "run.sql")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def n_rows(folder, since=0.0):
    """How many profiled samples there are by now, taken after ``since``."""
    try:
        ((n,),) = query(folder, f"SELECT count(sm_active) FROM samples WHERE time > {since}")
        return n
    except sqlite3.Error:
        return 0


def test_a_recording_holds_what_the_engine_sampled(tmp_path, engine):
    engine.start(gpus=["GPU-a", "GPU-b"], late=0.02)
    run = start(tmp_path, engine, "--backend", "dcgm", "-t", "100", "-w", UNTIL_GO)
    until(lambda: n_rows(tmp_path) >= 40)
    (tmp_path / "go").touch()
    out, err = run.communicate(timeout=60)
    assert out == ""
    logged = engine.logged()
    for uuid in ("GPU-a", "GPU-b"):
        rows = query(
            tmp_path, f"SELECT time, sm_active, power_usage FROM gpu_samples WHERE uuid = '{uuid}' ORDER BY time"
        )
        assert len(rows) >= 10
        blank = min(stamp for name, field, stamp, _, _ in logged if (name, field) == (uuid, BY_NAME["sm_active"].dcgm))
        beside = [row[1] for row in rows if abs(row[0] - blank / 1e6) < 0.05]  # none where it was before the recording
        assert beside in ([], [None]), "the first profiling sample is missing, not zero"
        for column, metric in ((1, "sm_active"), (2, "power_usage")):
            mine = [row[column] for row in rows if row[column] is not None]
            field = BY_NAME[metric].dcgm
            theirs = [
                value for name, known, _, value, _ in logged if name == uuid and known == field and value is not None
            ]
            places = [theirs.index(value) for value in mine]
            assert all(before < after for before, after in pairwise(places)), "each its own, and nothing twice"
            assert len(mine) > (places[-1] - places[0]) / 2, "what is read late on a busy machine is missing"
    assert query(tmp_path, "SELECT DISTINCT backend FROM gpus") == [("dcgm",)]
    assert "recorded into" in err


def test_an_interval_that_is_too_short_is_recorded_as_it_was(tmp_path, engine):
    engine.start()
    _, err = start(tmp_path, engine, "--backend", "dcgm", "-t", "20", "--", "sleep", "1.5").communicate(timeout=60)
    assert "every 100 ms, not every 20 ms" in err
    assert query(tmp_path, "SELECT sampling_ms FROM runs") == [(100.0,)]
    shown = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", "--json", "run.sql"], cwd=tmp_path, capture_output=True
    )
    assert json.loads(shown.stdout)["runs"][0]["n_gaps"] < 5, "every step would be one at 20 ms"


def test_a_killed_engine_is_a_gap_an_event_and_then_data_again(tmp_path, engine):
    engine.start(gpus=["GPU-a", "GPU-b"])
    run = start(tmp_path, engine, "--backend", "dcgm", "-t", "100", "-w", UNTIL_GO)
    until(lambda: n_rows(tmp_path) >= 10)
    engine.signal(signal.SIGKILL)
    killed = time.time()
    time.sleep(1.0)
    engine.start(gpus=["GPU-b", "GPU-a"])
    until(lambda: n_rows(tmp_path, killed + 1.5) > 10)
    (tmp_path / "go").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0
    kinds = [kind for (kind,) in query(tmp_path, "SELECT kind FROM events WHERE kind LIKE 'backend_%' ORDER BY time")]
    assert kinds == ["backend_lost", "backend_back"]
    assert "answers again" in err
    theirs = {(uuid, value) for uuid, field, _, value, _ in engine.logged() if field == 1002}
    rows = query(tmp_path, "SELECT uuid, sm_active, time FROM gpu_samples WHERE sm_active IS NOT NULL")
    assert {(uuid, value) for uuid, value, _ in rows} <= theirs, "each GPU's own data"
    times = sorted(time for uuid, _, time in rows if uuid == "GPU-a")
    assert max(after - before for before, after in pairwise(times)) > 1.0


@pytest.mark.parametrize("capability", [8, 9])
def test_whoever_only_looks_takes_no_counters_before_hopper(tmp_path, engine, capability):
    engine.start(gpus=["GPU-a"], capability=capability)
    command = [sys.executable, "-m", "gssr", "top", "--json", "-t", "200"]
    variables = os.environ | engine.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    (gpu,) = json.loads(done.stdout)["gpus"]
    watched = {field for _, field, _, _, _ in engine.logged()}
    assert gpu["uuid"] == "GPU-a" and gpu["power_usage"] > 0
    assert any(field > 1000 for field in watched) == (gpu["sm_active"] is not None) == (capability == 9)
    assert ("would take the counters" in done.stderr) == (capability == 8)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_an_engine_that_is_gone_at_the_end_does_not_touch_the_workload_and_is_a_gap(tmp_path, engine, how):
    engine.start(gpus=["GPU-a", "GPU-b"])
    run = start(tmp_path, engine, "--backend", "dcgm", "-t", "100", "-w", f"{UNTIL_GO}; echo done; exit 7")
    until(lambda: n_rows(tmp_path) > 0)
    engine.signal(how)
    time.sleep(1.0)
    (tmp_path / "go").touch()
    out, err = run.communicate(timeout=30)
    assert (out, run.returncode) == ("done\n", 7)
    assert query(tmp_path, "SELECT count(*) FROM events WHERE kind = 'backend_lost'") == [(1,)]
    assert "the run" in err or "tried again" in err or "(-21)" in err
    shown = subprocess.run(
        [sys.executable, "-m", "gssr", "analyze", "--json", "run.sql"], cwd=tmp_path, capture_output=True
    )
    assert json.loads(shown.stdout)["runs"][0]["n_gaps"] >= 2, "one of each GPU, up to the end"


def test_refused_profiling_is_one_line_and_the_rest_is_recorded(tmp_path, engine):
    engine.start(profiling=-33)
    _, err = start(tmp_path, engine, "--backend", "dcgm", "--", "sleep", "2").communicate(timeout=60)
    assert sum("datacenter-gpu-manager-4-proprietary" in line for line in err.splitlines()) == 1
    columns = [row[1] for row in query(tmp_path, "PRAGMA table_info(samples)")]
    assert "power_usage" in columns
    assert query(tmp_path, "SELECT count(power_usage) > 0, count(sm_active) FROM samples") == [(1, 0)]


def test_without_an_engine_the_workload_runs_unprofiled(tmp_path, engine):
    run = start(tmp_path, engine, "--backend", "dcgm", "--", "sh", "-c", "echo fine; exit 3")
    out, err = run.communicate(timeout=60)
    assert (out, run.returncode) == ("fine\n", 3)
    assert "no GPU is sampled: no hostengine answers on unix://" in err and "Traceback" not in err


def test_an_engine_of_dcgm_3_is_recorded_with_its_bindings(tmp_path, engine):
    engine.start(major=3)
    run = start(
        tmp_path, engine, "--backend", "dcgm", "--", "sleep", "2", environ={"DCGM_BINDINGS": bindings_folder(3)}
    )
    run.communicate(timeout=60)
    assert query(tmp_path, "SELECT count(sm_active) > 0 FROM samples") == [(1,)]


def test_a_dry_run_does_not_make_the_engine_sample(tmp_path, engine):
    engine.start(gpus=["GPU-a", "GPU-b"])
    out, err = start(tmp_path, engine, "--dry-run", "--backend", "dcgm", "--", "true").communicate(timeout=60)
    assert err == ""
    assert "backend    dcgm" in out and "2 GPUs at the hostengine" in out and "a GPU's hour" in out
    assert not engine.log.exists()  # of what it sampled
    assert not (tmp_path / "run.sql").exists()
