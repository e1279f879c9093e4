"""Which of DCGM and GPM is taken, and what doctor says of both: real commands on the stand-ins for engine and driver."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from dcgm_bench import FAKE, bindings_folder

from tests.waiting import UNTIL_GO, until

GSSR = [sys.executable, "-m", "gssr"]
UUIDS = [f"GPU-fa4e0000-0000-4000-8000-{number:012d}" for number in (1, 2)]
"""Those that the stand-in for the driver has."""


def diagnosis(folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """Doctor's lines about the backends, by their names."""
    done = subprocess.run([*GSSR, "doctor"], cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.replace("\n     ", " ").splitlines()]
    return {
        line.split()[2]: line.replace(" ".join(line.split()[1:3]) + " ", "") for line in lines if " backend " in line
    }


def query(path: Path, sql: str) -> list[tuple]:
    try:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(sql).fetchall()
    except sqlite3.Error:
        return []  # not begun yet


def recorded(folder: Path, environ: dict[str, str]) -> tuple[str, str]:
    """Record for a moment as ``auto`` does; which backend was taken, and the event that says why."""
    command = [*GSSR, "profile", "-t", "100", "-o", "a.sql", "-w", "until [ -e go ]; do sleep 0.02; done"]
    with subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True) as run:
        until(lambda: query(folder / "a.sql", "SELECT 1 FROM gpus"), "the GPUs")
        (folder / "go").touch()
        run.communicate(timeout=60)
    ((backend,),) = query(folder / "a.sql", "SELECT DISTINCT backend FROM gpus")
    ((message,),) = query(folder / "a.sql", "SELECT message FROM events WHERE message LIKE '%: 2 GPUs%'")
    return backend, message


@pytest.mark.parametrize("of_driver", ["gpm", "no gpm", "forbidden"])
def test_an_engine_that_samples_nothing_is_left_alone_where_gpm_measures_the_same(
    tmp_path, engine, fake_driver, of_driver
):
    settings = {"gpm": {}, "no gpm": {"gpm": 0, "arch": 7}, "forbidden": {"no_permission": 1}}[of_driver]
    engine.start(gpus=UUIDS, capability=8 if of_driver == "no gpm" else 9)
    environ = fake_driver.environ(gpus=2, **settings) | engine.environ
    lines = diagnosis(tmp_path, environ)
    if engine.log.exists():
        engine.log.unlink()  # what doctor has tried, and on a busy machine with so long a time between two samples
    engine.stop()  # that they look like those of a watch that goes on
    engine.start(gpus=UUIDS, capability=8 if of_driver == "no gpm" else 9)
    backend, message = recorded(tmp_path, environ)
    if of_driver == "gpm":
        assert backend == "gpm" and "dcgm not used: its engine would only begin to sample" in message
        assert "1.3 % of a core and 5 to 6 % in its engine with dcgm, 0.6 % with gpm" in message
        assert not engine.log.exists(), "nothing was sampled by the engine"
        assert "; here: gpm; dcgm not used: its engine would only begin" in lines["auto"]
    else:
        assert backend == "dcgm" and "gpm not used: gpm: " in message
        assert lines["auto"].endswith("; here: dcgm")
        assert any(field == 1002 for _, field, *_ in engine.logged())


def test_an_engine_that_samples_already_comes_before_gpm(tmp_path, engine, fake_driver):
    engine.start(gpus=UUIDS)
    environ = fake_driver.environ(gpus=2) | engine.environ
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    command = [*GSSR, "profile", "--backend", "dcgm", "-o", "b.sql", "-w", UNTIL_GO]
    with subprocess.Popen(command, cwd=theirs, env=environ, stderr=subprocess.DEVNULL) as other:
        until(lambda: query(theirs / "b.sql", "SELECT 1 FROM samples WHERE sm_active > 0"), "the other one's samples")
        lines = diagnosis(tmp_path, environ)
        backend, message = recorded(tmp_path, environ)
        (theirs / "go").touch()
        other.wait(60)
    assert backend == "dcgm" and "gpm not used: the hostengine samples profiling metrics already" in message
    assert "; here: dcgm; gpm not used: the hostengine samples profiling metrics already" in lines["auto"]
    assert "which samples profiling metrics already" in lines["dcgm"]
    page = subprocess.run([*GSSR, "analyze", "-mtd", "a.sql"], cwd=tmp_path, capture_output=True, text=True)
    assert "gpm not used: the hostengine samples profiling metrics already" in " ".join(page.stdout.split())


@pytest.mark.parametrize("major", [3, 4])
def test_doctor_names_the_engine_its_version_and_the_bindings(tmp_path, engine, fake_driver, major):
    engine.start(gpus=UUIDS, major=major)
    folder = bindings_folder(major)
    environ = fake_driver.environ(gpus=2) | engine.environ | {"DCGM_BINDINGS": folder}
    version = {3: "3.3.9", 4: "4.6.0"}[major]
    assert diagnosis(tmp_path, environ)["dcgm"] == (
        f"ok 2 GPUs at the hostengine on unix://{engine.socket} (DCGM {version}, bindings of {version} in {folder})"
    )


@pytest.mark.parametrize(
    ("knobs", "why", "cure"),
    [
        ({"profiling": -33, "capability": 8}, "no score: its profiling module is not loaded", "4-proprietary"),
        ({"profiling": -37, "capability": 8}, "no score: the counters are taken", "end the other profiler"),
        ({"profiling": -36}, "no score: these GPUs have none in DCGM", "from Volta on"),
        ({"without_gpm": {UUIDS[1]: -33}}, "no profiling metrics of GPU 1, so no score", "4-proprietary"),
        ({"hidden": True}, "no score: the values stay blank", "started by root"),
        ({"groups": 62}, "would lack metrics: DCGM's hostengine has no room for another group", "dcgmi group --list"),
        ({"field_groups": 60}, "would lack metrics: DCGM's hostengine has no room for another field group", "restart"),
    ],
)
def test_doctor_does_not_call_an_engine_ok_that_can_not_profile(tmp_path, engine, fake_driver, knobs, why, cure):
    engine.start(gpus=UUIDS, **knobs)
    found = diagnosis(tmp_path, fake_driver.environ(gpus=2) | engine.environ)["dcgm"]
    assert found.startswith("note 2 GPUs at the hostengine") and why in found and cure in found.partition(" -> ")[2]
    if knobs.get("capability") == 8 and engine.log.exists():
        assert not [field for _, field, *_ in engine.logged() if field > 1000], "no counters are taken to find out"


def test_a_library_that_can_not_be_loaded_is_not_called_missing(tmp_path, fake_driver):
    bindings = tmp_path / "share" / "bindings" / "python3"
    shutil.copytree(bindings_folder(4), bindings)
    for name in ("fakedcgm", "library"):
        (bindings.parent / name).symlink_to(FAKE / name)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdcgm.so.4").write_text("made for another machine")
    environ = fake_driver.environ(gpus=2) | {"DCGM_BINDINGS": str(bindings), "FAKEDCGM_NO_LIBRARY": "1"}
    found = diagnosis(tmp_path, environ)["dcgm"]
    assert (
        "their library can't be loaded: " in found
        and f"{tmp_path}/lib/libdcgm.so.4" in found
        and "missing" not in (found.partition(" -> ")[0])
    )


def test_doctor_names_the_packages_that_bring_the_bindings(tmp_path, fake_driver):
    environ = {name: value for name, value in fake_driver.environ(gpus=2).items() if name != "DCGM_BINDINGS"}
    found = diagnosis(tmp_path, environ)["dcgm"]
    if os.path.exists("/usr/share/datacenter-gpu-manager-4") or os.path.exists("/usr/local/dcgm"):
        pytest.skip("DCGM is installed here")
    assert "(pydcgm)" in found and "datacenter-gpu-manager-4-core, of DCGM 3 datacenter-gpu-manager" in found
    assert "pip has no package of them" in found
