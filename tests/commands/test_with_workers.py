"""The same answers from Dask's workers and MPI's ranks as from this process alone, to the last digit."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import duckdb
import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands import with_workers
from gssr.convert.tables import EXPORTED
from gssr.model.fleet import fleet
from gssr.workers import NoWorkersError
from tests.fakes.traces.beside import Truth
from tests.waiting import until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("with_workers")
Printed = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``recordings``, one of them no recording; ``run.sql`` with ``traces`` of its ranks; never to be changed."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "recordings").mkdir()
    for number, scenario in enumerate(("train", "idle", "imbalanced", "stencil")):
        generate(str(folder / "recordings" / f"{number}.sql"), scenario, 2 + number, 0.02, 1.0, host=True)
    (folder / "recordings" / "broken.sql").write_bytes((folder / "recordings" / "0.sql").read_bytes()[:5000])
    truth = Truth(ranks=4, seconds=60)
    truth.record(folder / "run.sql")
    (folder / "traces").mkdir()
    for rank in range(4):
        truth.trace(folder / "traces" / f"rank{rank}.json", rank, 10.0, 20.0, 0.0)
    return folder


class Cluster:
    """A Dask scheduler and as many workers as are asked for, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._n_workers = 0
        about = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(about))
        until(about.exists)
        self.address: str = json.loads(about.read_text())["address"]

    def _start(self, *words: str) -> None:
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        environment = os.environ | {"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
        with (self._folder / "said.txt").open("ab") as said:
            self._processes.append(
                subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=self._folder)
            )

    def have(self, n_workers: int) -> None:
        """Wait until there are so many workers, or more."""
        from distributed import Client  # not where tests are collected: it takes a second

        if n_workers > self._n_workers:
            self._start("worker", "--nworkers", str(n_workers - self._n_workers), "--nthreads", "1", self.address)
            self._n_workers = n_workers
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(n_workers, 60)

    def end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    yield cluster
    cluster.end()


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def run(*words: object, code: int = 0) -> str:
        assert main([str(word) for word in words]) == code
        return capsys.readouterr().out

    return run


def contents(dataset: Path) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect() as connection:
        return {
            table: connection.execute(f"SELECT * FROM '{dataset}/{table}/*/*.parquet' ORDER BY ALL").fetchall()
            for table in EXPORTED
        }


@pytest.mark.parametrize("n_workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_workers_of_dask_say_what_one_process_says(
    n_workers: int, folder: Path, tmp_path: Path, cluster: Cluster, printed: Printed
) -> None:
    cluster.have(n_workers)
    dask = ("--dask", cluster.address)
    fleet = ("fleet", "--no-index", "--json", folder / "recordings", "--by", "cause")
    assert printed(*fleet, *dask) == printed(*fleet)
    for table in ("ranks", "kernels"):
        analyze = ("analyze", folder / "traces", "--csv", table)
        assert printed(*analyze, *dask) == printed(*analyze)
    window = ("analyze", "--json", folder / "traces", "--from", "1", "--to", "5")
    assert printed(*window, *dask) == printed(*window)
    for words, name in (((), "here"), (dask, "there")):
        said = printed("export", folder / "recordings", "--dataset", tmp_path / name, *words, code=1)
        assert said == f"{tmp_path / name}: 4 runs exported\n"
        shutil.copy(folder / "run.sql", tmp_path / f"{name}.sql")
        assert main(["merge", str(tmp_path / f"{name}.sql"), "--attach", str(folder / "traces")]) == 0
        assert "4 traces digested" in printed("merge", tmp_path / f"{name}.sql", "--digest", *words)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    first, second = (printed("analyze", "--json", tmp_path / f"{name}.sql") for name in ("here", "there"))
    assert first.replace("here.", "there.") == second


def killing_once(files: Sequence[str], folder: Path) -> Iterator[str]:
    for file in files:
        if file == "c" and not (folder / "c").exists():
            (folder / "c").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield file.upper()


LOST = re.compile(r"gssr: a worker was lost: (\d+) files are given out again\n")


def test_files_of_a_worker_of_dask_that_is_killed_are_read_by_another(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.have(2)
    with with_workers._dask(cluster.address) as workers:
        assert workers.is_elsewhere and workers.n_for(1) >= 2
        found = workers.map(partial(killing_once, folder=tmp_path), list("abcdef"), str, at_once=2)
        assert list(found) == list("ABCDEF") and (tmp_path / "c").exists()
    said = LOST.fullmatch(capsys.readouterr().err)
    assert said is not None and 2 <= int(said[1]) <= 6
    with with_workers._dask(cluster.address) as workers:
        found = workers.map(partial(killing_once, folder=tmp_path), list("abcdef"), str, at_once=2)
        assert list(found) == list("ABCDEF")
    assert capsys.readouterr().err == "", "what was lost before is not told again"


def test_a_process_that_is_killed_is_said_and_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fleet", "--no-index", "--json", str(folder / "recordings")]
    assert main(words) == 0
    wanted = capsys.readouterr()
    assert wanted.err == ""
    own = fleet._read

    def killed_once(name: str, request: fleet.FleetRequest) -> fleet._ReadRecording:
        if name.endswith("2.sql") and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return own(name, request)

    monkeypatch.setattr(fleet, "PER_PROCESS", 1)
    monkeypatch.setattr(fleet, "_read", killed_once)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert main(words) == 0
    found = capsys.readouterr()
    assert found.out == wanted.out and (tmp_path / "killed").exists()
    assert found.err == "gssr: a worker was lost: 5 files are given out again\n"


def test_a_scheduler_that_is_none_or_idle_is_said(
    folder: Path, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fleet", "--no-index", str(folder / "recordings"), "--dask"]
    monkeypatch.setattr(with_workers, "_PATIENCE", 0.5)
    idle = Cluster(tmp_path)
    assert main([*words, idle.address]) == 1
    idle.end()
    assert "no worker has come to this scheduler" in capsys.readouterr().err
    assert main([*words, "tcp://127.0.0.1:1"]) == 1
    assert "no scheduler answers there" in capsys.readouterr().err
    assert main([*words, cluster.address, "--mpi"]) == 2
    assert "choose one" in capsys.readouterr().err
    for other, said in (
        (("analyze", folder / "run.sql"), "--dask: is for traces"),
        (("export", folder / "run.sql", "--format", "csv", "-o", folder / "none"), "one process writes the files"),
        (
            ("export", folder / "run.sql", "--format", "perfetto", "-o", folder / "none"),
            "one process writes the file of",
        ),
        (("merge", folder / "run.sql"), "give them with --digest"),
    ):
        assert main([*map(str, other), "--dask", cluster.address]) == 2
        assert said in capsys.readouterr().err and not (folder / "none").exists()
    monkeypatch.setattr(with_workers, "__version__", "99.0")
    monkeypatch.setattr(with_workers, "_PATIENCE", 60.0)
    assert main([*words, cluster.address]) == 1
    assert "install 99.0 there" in capsys.readouterr().err


def test_workers_that_are_gone_for_long_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone:
        status = "running"

        def scheduler_info(self) -> dict[str, dict[str, object]]:
            return {"workers": {}}

    monkeypatch.setattr(with_workers, "_PATIENCE", 0.05)
    check = with_workers._presence_check(Alone(), "--dask here")
    check()
    time.sleep(0.1)
    with pytest.raises(NoWorkersError, match="all workers are gone"):
        check()


@pytest.mark.parametrize("n_ranks", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3])
def test_ranks_of_mpi_say_what_one_process_says(
    n_ranks: int, folder: Path, tmp_path: Path, requires: Callable[..., None], printed: Printed
) -> None:
    requires("mpirun", package="openmpi-bin")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def by_mpi(*words: object) -> subprocess.CompletedProcess[str]:
        command = [
            "mpirun",
            "--oversubscribe",
            "-n",
            str(n_ranks),
            sys.executable,
            "-m",
            "gssr",
            *map(str, words),
            "--mpi",
        ]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | root, timeout=60)

    fleet = ("fleet", "--no-index", "--csv", folder / "recordings")
    done = by_mpi(*fleet)
    assert (done.returncode, done.stdout) == (0, printed(*fleet)), done.stderr
    if n_ranks == 2:
        done = by_mpi("export", folder / "recordings" / "1.sql", "--dataset", tmp_path / "set")
        assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'set'}: 1 run exported\n"), done.stderr
