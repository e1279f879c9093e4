"""gssr.pyz, one file for Python alone: it records, merges, marks and diagnoses where no package is installed, and says of
the rest that it needs the full install."""

import ast
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from importlib import util
from pathlib import Path

import pytest

from gssr.commands import NAMES
from gssr.commands.needed_packages import COMMANDS_OF_ONE_FILE
from tests.conftest import FakeDriver
from tests.waiting import until

ROOT = Path(__file__).parents[1]
_spec = util.spec_from_file_location("one_file", ROOT / ".ci" / "one_file.py")
assert _spec is not None and _spec.loader is not None
one_file = util.module_from_spec(_spec)
_spec.loader.exec_module(one_file)

OLDEST = ".".join(map(str, one_file.OLDEST_PYTHON))
PYTHONS = (OLDEST, "3.10", "3.11", "3.12", "3.13", "3.14")
MOST_BYTES = 600_000
ISOLATED = ("-I", "-S")
"""Without site-packages, and without what the environment adds."""

Gssr = Callable[..., "subprocess.CompletedProcess[str]"]


def interpreter(version: str) -> str | None:
    """The Python of this version that is installed here, wherever; None if there is none that works."""
    beside = [str(path) for path in Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python{version}")]
    for found in (*beside, shutil.which(f"python{version}")):
        if found and subprocess.run([found, "-c", "import sqlite3, ctypes"], capture_output=True).returncode == 0:
            return found
    return None


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "gssr.pyz"
    path.write_bytes(one_file.build(ROOT, 1_800_000_000))
    return path


@pytest.fixture(params=("own", OLDEST))
def gssr(request: pytest.FixtureRequest, pyz: Path, tmp_path: Path) -> Gssr:
    """``gssr(*words)``: what gssr.pyz does under a Python without any package: that of the tests, and the oldest."""
    python = sys.executable if request.param == "own" else interpreter(request.param)
    if python is None:
        pytest.skip(f"on this machine there is no Python {request.param} with SQLite")

    def called(*words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [python, *ISOLATED, str(pyz), *words],
            cwd=tmp_path,
            env=os.environ | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    return called


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_it_records_a_run_that_the_full_install_analyses(gssr: Gssr, tmp_path: Path) -> None:
    words = ["profile", "-o", "run.sql", "-t", "100", "--backend", "synthetic:train:2", "--", "sh", "-c"]
    done = gssr(*words, "sleep 0.6; exit 3")
    assert done.returncode == 3 and "GSSR score=" in done.stderr and "see it with: gssr analyze" in done.stderr, done
    assert rows(tmp_path / "run.sql", "SELECT state, exit_code FROM runs") == [("failed", 3)]
    analyze = [sys.executable, "-m", "gssr", "analyze", "--json", str(tmp_path / "run.sql")]
    page = subprocess.run(analyze, cwd=ROOT, capture_output=True, text=True)
    run = json.loads(page.stdout)["runs"][0]
    assert run["state"] == "failed" and len(run["gpus"]) == 2, page


def test_a_script_marks_a_moment_by_it(gssr: Gssr, pyz: Path, tmp_path: Path) -> None:
    script = f"{sys.executable} -I -S {pyz} mark half way; sleep 0.5"
    done = gssr("profile", "-o", "run.sql", "-t", "100", "--backend", "synthetic:idle:1", "--", "sh", "-c", script)
    assert done.returncode == 0, done
    assert rows(tmp_path / "run.sql", "SELECT message FROM events WHERE kind = 'mark'") == [("half way",)]


def test_ranks_are_merged_at_their_end_and_later(gssr: Gssr, tmp_path: Path) -> None:
    rank = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}
    words = ["profile", "-o", "run.sql", "-t", "100", "--backend", "synthetic:train:1", "--", "sleep", "0.3"]
    first = gssr(*words, **rank, SLURM_PROCID="0", SLURM_LOCALID="0", SLURMD_NODENAME="n0", SLURM_NODEID="0")
    second = gssr(*words, **rank, SLURM_PROCID="1", SLURM_LOCALID="0", SLURMD_NODENAME="n1", SLURM_NODEID="1")
    assert first.returncode == second.returncode == 0, (first, second)
    if (tmp_path / "run.sql.d").exists():
        merged = gssr("merge", "run.sql")
        assert merged.returncode == 0, merged
    assert rows(tmp_path / "run.sql", "SELECT count(*) FROM gpus") == [(2,)]


def test_it_looks_at_a_node_once_and_diagnoses_it(gssr: Gssr) -> None:
    table = gssr("top", "--once", "--backend", "synthetic:train:2")
    assert table.returncode == 0 and "2 GPUs (Synthetic H100), by synthetic" in table.stdout, table
    now = json.loads(gssr("top", "--json", "--gpus", "1", "--backend", "synthetic:train:2").stdout)
    assert [gpu["device_index"] for gpu in now["gpus"]] == [1] and now["gpus"][0]["sm_active"] is not None
    doctor = gssr("doctor")
    assert doctor.returncode == 0 and "backend synthetic" in doctor.stdout and not doctor.stderr, doctor


def test_it_sends_lines_for_another_gssr_and_gathers_those_of_hosts(gssr: Gssr, pyz: Path, tmp_path: Path) -> None:
    sent = gssr(
        "top", "--lines", "-t", "100", "--backend", "synthetic:train:2"
    )  # until stdin ends, which it does at once
    kinds = [json.loads(line)[0] for line in sent.stdout.splitlines()]
    assert sent.returncode == 0 and kinds[:3] == ["gssr.lines/1", "gpu", "gpu"] and kinds.count("row") >= 2, sent
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec {sys.executable} -IS {pyz} top --lines -t 100 --backend synthetic:train:2\n")
    ssh.chmod(0o755)
    path = f"{tmp_path}:{os.environ.get('PATH', os.defpath)}"
    found = json.loads(gssr("top", "--json", "--host", "n1,n2", PATH=path).stdout)
    assert [gpu["gpu"] for gpu in found["gpus"]] == ["n1:0", "n1:1", "n2:0", "n2:1"]


def test_nvidias_driver_is_asked_through_the_bundled_module(
    gssr: Gssr, fake_driver: FakeDriver, tmp_path: Path
) -> None:
    library = fake_driver.environ(gpus=2)

    def is_sampled() -> bool:
        try:
            return rows(tmp_path / "run.sql", "SELECT count(DISTINCT gpu), count(sm_active) > 4 FROM samples") == [
                (2, 1)
            ]
        except sqlite3.OperationalError:  # there are no tables yet
            return False

    def stop() -> None:
        until(is_sampled, "samples")
        (tmp_path / "stop").touch()

    watcher = threading.Thread(target=stop)
    watcher.start()
    wait = "until [ -e stop ]; do sleep 0.1; done"
    done = gssr(
        "profile", "-m", "60", "-o", "run.sql", "-t", "100", "--backend", "gpm", "--", "sh", "-c", wait, **library
    )
    watcher.join()
    assert done.returncode == 0 and "gpus=2" in done.stderr, done
    once = gssr("top", "--once", "--backend", "nvml", **library)
    assert once.returncode == 0 and "2 GPUs" in once.stdout, once


LACKING = [
    *([name] for name in NAMES if name not in COMMANDS_OF_ONE_FILE),
    ["top"],
    ["profile", "--live", "--", "true"],
    ["profile", "--digest", "--", "true"],
    ["merge", "there.sql"],
    ["there.sql"],
]


def test_what_needs_the_full_install_says_so_before_anything_is_done(gssr: Gssr, tmp_path: Path) -> None:
    (tmp_path / "there.sql").touch()
    for words in LACKING:
        done = gssr(*words)
        assert done.returncode == 2 and " needs the full install of GSSR: gssr.pyz only has " in done.stderr, done
        assert len(done.stderr.splitlines()) == 1 and not done.stdout
    assert os.listdir(tmp_path) == ["there.sql"]
    shown = gssr("--help").stdout
    assert all((f"\n    {name} " in shown) is (name in COMMANDS_OF_ONE_FILE) for name in NAMES)


def test_a_python_that_is_too_old_is_told_so(pyz: Path) -> None:
    begin = zipfile.ZipFile(pyz).read("__main__.py").decode()
    ast.parse(begin, feature_version=(3, 4))
    asked = begin.replace(str(one_file.OLDEST_PYTHON), "(9, 9)")
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("gssr: gssr.pyz needs Python 9.9 or newer, this is 3."), done


def test_what_it_holds_is_small_and_for_the_oldest_python(pyz: Path, tmp_path: Path) -> None:
    assert pyz.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(pyz) as archive:
        archive.extractall(tmp_path)
        names = archive.namelist()
    assert "pynvml.py" in names and "LICENSE" in names
    assert not [name for name in names if name.startswith(("gssr/tui", "gssr/model", "gssr/convert", "gssr/api"))]
    version = "".join(map(str, one_file.OLDEST_PYTHON))
    check = ["ruff", "check", "--isolated", f"--target-version=py{version}", "--select=E9,F,FA102", "--quiet", "gssr"]
    checked = subprocess.run([sys.executable, "-m", *check], cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    for name in names:
        if name.endswith(".py"):
            ast.parse((tmp_path / name).read_text(), feature_version=one_file.OLDEST_PYTHON)


@pytest.mark.parametrize("version", PYTHONS)
def test_each_of_its_modules_can_be_imported(version: str, pyz: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"on this machine there is no Python {version} with SQLite")
    names = [name for name in zipfile.ZipFile(pyz).namelist() if name.endswith(".py") and name != "__main__.py"]
    modules = [name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in names]
    code = f"import importlib, sys; sys.path.insert(0, {str(pyz)!r}); [importlib.import_module(m) for m in {modules}]"
    done = subprocess.run([python, *ISOLATED, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done
