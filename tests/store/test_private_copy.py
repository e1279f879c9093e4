"""A copy of a file that is being written holds what was committed at one time, and nothing else."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gssr.store import private_copy
from gssr.store.private_copy import copy_whole, is_left

N = 1000

Copying = Callable[..., object]


@pytest.fixture
def unfinished(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """N rows were committed; all have been changed since, in a transaction that is half on the disk."""
    connection = sqlite3.connect(tmp_path / "a.sql", isolation_level=None)
    with closing(connection):
        connection.execute("CREATE TABLE t (x, y)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (1, ?)", [("y" * 200,)] * N)
        connection.execute("COMMIT")
        connection.execute("PRAGMA cache_size=5")
        connection.execute("BEGIN")
        connection.execute("UPDATE t SET x = 2")
        assert is_left(str(tmp_path / "a.sql"))
        yield connection


def rows_of(path: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT x, count(*) FROM t GROUP BY x").fetchall()


def meanwhile(monkeypatch: pytest.MonkeyPatch, before: str, act: Callable[[], object]) -> None:
    """Once, before the file of this name is copied."""
    copyfile, acts = shutil.copyfile, [act]

    def copy(source: str, target: str) -> None:
        if os.path.basename(source) == before and acts:
            acts.pop()()
        copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    monkeypatch.setattr(private_copy, "_PAUSE", 0.0)


@pytest.mark.usefixtures("unfinished")
def test_what_was_not_committed_is_not_in_it(tmp_path: Path) -> None:
    copy_whole(str(tmp_path / "a.sql"), str(tmp_path / "copy"))
    assert rows_of(tmp_path / "copy") == [(1, N)]


@pytest.mark.parametrize("before", ["a.sql", "a.sql-journal"])
@pytest.mark.parametrize(("end", "x"), [("COMMIT", 2), ("ROLLBACK", 1)])
def test_a_transaction_that_ends_meanwhile(
    unfinished: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, end: str, x: int
) -> None:
    meanwhile(monkeypatch, before, lambda: unfinished.execute(end))
    copy_whole(str(tmp_path / "a.sql"), str(tmp_path / "copy"))
    assert rows_of(tmp_path / "copy") == [(x, N)]


def test_a_journal_that_is_seen_for_a_while_after_it_is_gone(
    unfinished: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.sql")
    unfinished.execute("COMMIT")
    seen, exists = [True] * 3, os.path.exists
    monkeypatch.setattr(
        os.path, "exists", lambda name: bool(name == f"{path}-journal" and seen and seen.pop()) or exists(name)
    )
    meanwhile(monkeypatch, "", lambda: None)
    copy_whole(path, str(tmp_path / "copy"))
    assert not seen and rows_of(tmp_path / "copy") == [(2, N)]


def test_a_journal_of_a_try_before_is_not_left(
    unfinished: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copied = str(tmp_path / "a.sql"), private_copy._copied

    def then_it_ends(source: str, copy: str) -> bool:
        whole = copied(source, copy)
        if unfinished.in_transaction:
            unfinished.execute("COMMIT")
        return whole

    monkeypatch.setattr(private_copy, "_copied", then_it_ends)
    copy_whole(path, str(tmp_path / "copy"))
    assert not (tmp_path / "copy-journal").exists() and rows_of(tmp_path / "copy") == [(2, N)]
