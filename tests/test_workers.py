"""A map over files gives the same answer whoever does the work, and whatever becomes of a worker."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from gssr.workers import HERE, Workers, is_worker

FILES = [f"file{number}" for number in range(40)]


@pytest.fixture(params=[1, 2, 4])
def n_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(request.param)))
    return int(request.param)


def in_capitals(files: Sequence[str], slow: str = "") -> Iterator[str]:
    for file in files:
        if file == slow:
            time.sleep(0.2)
        yield file.upper()


def died(file: str) -> str:
    return f"{file} died"


def test_results_come_in_the_order_of_the_files_however_slow_one_is(n_processes: int) -> None:
    own = partial(in_capitals, slow="file1")
    assert list(HERE.map(own, FILES, died, at_once=3)) == [file.upper() for file in FILES]
    assert not list(HERE.map(own, [], died)) and HERE.n_for(len(FILES)) == n_processes


def killing(files: Sequence[str], folder: Path, always: str, once: str) -> Iterator[str]:
    """Kill the worker at two files: at one of them whenever it is read."""
    for file in files:
        mark = folder / file
        if file == always or (file == once and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield file.upper()


def test_files_of_a_worker_that_dies_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    own = partial(killing, folder=tmp_path, always="file7", once="file20")
    wanted = [file.upper() if file != "file7" else "file7 died" for file in FILES]
    lost: list[int] = []
    found = Workers(lost=lost.append).map(own, FILES, died, at_once=4)
    taken = [next(found) for _ in range(4)]
    assert lost == []
    taken += [next(found)]
    (n_first,) = lost
    assert n_first % 4 == 0 and 4 <= n_first <= 24, "file7's group, and those that its pool had besides"
    assert [*taken, *found] == wanted
    assert lost[1] == 1 and len(lost) in (2, 3), "file7 alone; and the pool of file20, if that was not read with file7"
    assert sorted(os.listdir(tmp_path)) == ["file20", "file7"]


def killing_at_first(files: Sequence[str], folder: Path) -> Iterator[str]:
    """Kill the worker at two files: in the first group, and, slowly, at one of another group when it is read alone."""
    for file in files:
        if file == "file0" and len(files) > 1:
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        if file == "file5" and len(files) > 1:
            time.sleep(2)  # until the pool is gone
        if file == "file5" and not (folder / file).exists():
            (folder / file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield file.upper()


def test_a_file_is_not_blamed_for_another_ones_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its group went with the pool, and it has killed one worker by itself: it is given to a third one."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    work = partial(killing_at_first, folder=tmp_path)
    assert list(HERE.map(work, FILES[:8], died, at_once=4)) == [file.upper() for file in FILES[:8]]


def failing(files: Sequence[str]) -> Iterator[str]:
    for file in files:
        if file == "file9":
            raise ValueError(file)
        yield file


@pytest.mark.usefixtures("n_processes")
def test_what_the_work_raises_comes_after_the_results_before_it() -> None:
    found = HERE.map(failing, FILES, died, at_once=4)
    assert [next(found) for _ in range(9)] == FILES[:9]
    with pytest.raises(ValueError, match="file9"):
        next(found)


def noting(files: Sequence[str], folder: Path) -> Iterator[bool]:
    for file in files:
        (folder / file).touch()
        yield is_worker()


def test_who_stops_asking_stops_the_work(n_processes: int, tmp_path: Path) -> None:
    found = HERE.map(partial(noting, folder=tmp_path), FILES, died, at_once=1)
    assert next(found) == (n_processes > 1)
    found.close()
    assert len(os.listdir(tmp_path)) <= (1 if n_processes == 1 else 1 + 4 * n_processes)
    assert not is_worker()


def test_another_process_pays_from_so_many_files_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert [HERE.n_for(n, 25) for n in (0, 49, 50, 1000)] == [0, 1, 2, 16]
    own = partial(noting, folder=tmp_path)
    assert not any(HERE.map(own, FILES, died, per_worker=25)) and not any(HERE.map(own, FILES, died, most=1))
