"""The job's environment does not reach the recorder: modules on PYTHONPATH that hide Python's own, few descriptors, a Python
without SQLite. However GSSR was installed, it is found; and the command gets what it was to get."""

import os
import shlex
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gssr.module_path import reordered

ROOT = Path(__file__).parent.parent.parent
PYTHON = os.path.realpath(sys.executable)
"""Without the packages of the tests."""
PACKAGES = Path(sysconfig.get_path("purelib"))
OF_VERSION = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
BEGIN = "import sys\nfrom gssr.__main__ import run\nsys.exit(run())\n"
"""What installers write into the command ``gssr``."""

Install = Callable[[Path], Mapping[str, str]]


def entry(folder: Path, *sources: Path) -> str:
    """A folder of modules that has these."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        (folder / source.name).symlink_to(source)
    return str(folder)


def installed_by_the_user(home: Path) -> Mapping[str, str]:
    """As ``pip install --user`` does."""
    entry(home / ".local" / OF_VERSION, ROOT / "gssr")
    (home / ".local" / OF_VERSION / "packages.pth").write_text(f"{PACKAGES}\n")
    return {"PYTHONUSERBASE": str(home / ".local")}


def loaded_from_easybuild(home: Path) -> Mapping[str, str]:
    """As the module files of EasyBuild do: a bundle, and others that it needs, on PYTHONPATH."""
    return {"PYTHONPATH": f"{entry(home / 'software' / 'gssr' / OF_VERSION, ROOT / 'gssr')}:{PACKAGES}"}


def loaded_from_spack(home: Path) -> Mapping[str, str]:
    """As ``spack load`` does: each package has a folder of its own on PYTHONPATH."""
    sources = [ROOT / "gssr", *(each for each in PACKAGES.iterdir() if each.is_dir() and not each.name.startswith("_"))]
    each = [entry(home / "opt" / source.name / OF_VERSION, source) for source in sources]
    return {"PYTHONPATH": ":".join(each)}


INSTALLS: list[Install] = [installed_by_the_user, loaded_from_easybuild, loaded_from_spack]


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module in place of each of Python's own that the interpreter itself does not need to begin."""
    folder = tmp_path_factory.mktemp("hiding")
    begun = subprocess.run(
        [PYTHON, "-c", "import sys; print(*sys.modules)"], text=True, capture_output=True, check=True
    )
    for name in sys.stdlib_module_names - set(begun.stdout.split()) - set(sys.builtin_module_names):
        (folder / f"{name}.py").write_text(f"raise RuntimeError('not this {name}')\n")
    return folder


def run(home: Path, given: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    (home / "gssr").write_text(BEGIN)
    return subprocess.run(
        [PYTHON, str(home / "gssr"), *words],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **given},
        text=True,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("install", INSTALLS)
def test_modules_of_the_job_hide_none_of_pythons_own(tmp_path: Path, hiding: Path, install: Install) -> None:
    given = dict(install(tmp_path))
    given["PYTHONPATH"] = ":".join(filter(None, [str(hiding), given.get("PYTHONPATH")]))
    rank = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_TASKS": "2",
    }
    given |= rank | {"SLURM_LOCALID": "0", "SLURMD_NODENAME": "n", "SLURM_NODEID": "0"}
    words = ["profile", "--backend", "synthetic:train:1", "-t", "50", "-o", "run.sql"]
    script = "env -0 > env; sleep 0.3; exit 7"
    first = run(tmp_path, given, *words, "--", "sh", "-c", script)
    assert (first.returncode, first.stderr) == (7, "")
    second = run(tmp_path, given | {"SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, *words, "--", "sh", "-c", script)
    assert second.returncode == 7 and "GSSR score=" in second.stderr, second.stderr  # the page, by a process of its own
    assert "not this" not in second.stderr
    environment = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().split("\0") if line)
    assert environment["PYTHONPATH"] == given["PYTHONPATH"]
    page = run(tmp_path, given, "analyze", "run.sql")
    assert page.returncode == 0 and "exit code 7" in page.stdout, page.stderr
    assert "gssr" in run(tmp_path, given, "doctor").stdout


def test_modules_in_the_folder_of_the_job_hide_none_either(tmp_path: Path) -> None:
    given = loaded_from_easybuild(tmp_path / "apps")
    for name in ("random", "types", "numpy", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gssr").write_text(BEGIN)
    done = subprocess.run(
        [PYTHON, tmp_path / "bin" / "gssr", "profile", "--backend", "synthetic:train:1", "-o", "run.sql", "true"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", **given},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0 and "GSSR score=" in done.stderr and "not this" not in done.stderr, done.stderr


LIBRARY = "/usr/lib/python3.11"


@pytest.mark.parametrize(
    ("package", "wanted"),
    [
        ("/site", [LIBRARY, f"{LIBRARY}/lib-dynload", "/user", "/site", "/bin", "/job", "/apps"]),
        ("/user", [LIBRARY, f"{LIBRARY}/lib-dynload", "/user", "/site", "/bin", "/job", "/apps"]),
        ("/apps", [LIBRARY, f"{LIBRARY}/lib-dynload", "/bin", "/job", "/apps", "/user", "/site"]),
    ],
)
def test_what_is_installed_comes_before_the_jobs_own_unless_gssr_is_among_that(package: str, wanted: list[str]) -> None:
    path = ["/bin", "/job", "/apps", LIBRARY, f"{LIBRARY}/lib-dynload", "/user", "/site"]
    assert reordered(path, LIBRARY, package) == wanted
    assert reordered(wanted, LIBRARY, package) in (wanted, path)
    assert reordered(["/elsewhere"], LIBRARY, package) == ["/elsewhere"]


WORDS = ["profile", "--backend", "synthetic:train:1", "-t", "50", "-o", "run.sql"]


def limited(cwd: Path, descriptors: int, script: str) -> subprocess.CompletedProcess[str]:
    command = shlex.join([sys.executable, "-m", "gssr", *WORDS, "--", "sh", "-c", script])
    return subprocess.run(
        ["sh", "-c", f"ulimit -n {descriptors}; exec {command}"],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("descriptors", [5, 8, 12, 20, 34])
def test_with_few_descriptors_the_command_runs_unrecorded(tmp_path: Path, descriptors: int) -> None:
    done = limited(tmp_path, descriptors, "ulimit -n; trap '' TERM; kill $$; exit 7")
    assert (done.returncode, done.stdout) == (7, f"{descriptors}\n")
    assert done.stderr.count("\n") == 1 and f"only {descriptors} files may be open (ulimit -n)" in done.stderr
    assert os.listdir(tmp_path) == []
    assert limited(tmp_path, descriptors, "kill -PIPE $$").returncode == -13  # as if it alone had been started


def test_enough_descriptors_are_few(tmp_path: Path) -> None:
    done = limited(tmp_path, 48, "sleep 0.2; exit 7")
    assert done.returncode == 7 and "recorded into" in done.stderr


@pytest.mark.parametrize("options", [[], ["-a"], ["-f"]])
def test_a_python_without_sqlite_runs_the_command(tmp_path: Path, options: list[str]) -> None:
    with sqlite3.connect(tmp_path / "run.sql") as connection:
        connection.execute("PRAGMA application_id=0x47535352")
    if not options:
        os.unlink(tmp_path / "run.sql")
    begin = "import sys; sys.modules['_sqlite3'] = None; from gssr.__main__ import run; run()"
    command = [sys.executable, "-c", begin, *WORDS, *options, "--", "sh", "-c", "echo ran; exit 7"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (7, "ran\n"), done.stderr
    assert (
        done.stderr.startswith("gssr: nothing is recorded: ")
        and done.stderr.count("\n") == 1
        and "sqlite3" in done.stderr
    )
