"""A copy of a file that is being written holds what was committed at one time, and nothing else."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sample_rows import rows_of as sample_rows
from sample_rows import write

from gssr.store.merge import merge
from gssr.store.read import private_copy
from gssr.store.read.open import RecordingError, connect
from gssr.store.read.private_copy import copy_whole, is_left, private_folder

N = 1000


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
    copy_file, acts = private_copy._copy_file, [act]

    def copy(source: str, target: str) -> None:
        if os.path.basename(source) == before and acts:
            acts.pop()()
        copy_file(source, target)

    monkeypatch.setattr(private_copy, "_copy_file", copy)
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
    path, copied = str(tmp_path / "a.sql"), private_copy._copy_once

    def then_it_ends(source: str, copy: str) -> bool:
        whole = copied(source, copy)
        if unfinished.in_transaction:
            unfinished.execute("COMMIT")
        return whole

    monkeypatch.setattr(private_copy, "_copy_once", then_it_ends)
    copy_whole(path, str(tmp_path / "copy"))
    assert not (tmp_path / "copy-journal").exists() and rows_of(tmp_path / "copy") == [(2, N)]


def allocated(path: Path) -> int:
    return 512 * path.stat().st_blocks


@pytest.mark.usefixtures("unfinished")
def test_holes_stay_holes(tmp_path: Path) -> None:
    """What is beside a recording may say that it is as long as a disk: its copy takes no more than itself."""
    (tmp_path / "a.sql-wal").write_bytes(b"x" * 5000)
    os.truncate(tmp_path / "a.sql-wal", 1 << 29)
    with (tmp_path / "a.sql-wal").open("r+b") as stream:
        stream.seek(3 << 20)
        stream.write(random.Random(0).randbytes(10_000))
    copy_whole(str(tmp_path / "a.sql"), str(tmp_path / "copy"))
    copy = tmp_path / "copy-wal"
    assert copy.stat().st_size == 1 << 29 and allocated(copy) < 1 << 20 and copy.stat().st_mode & 0o777 == 0o600
    with copy.open("rb") as one, (tmp_path / "a.sql-wal").open("rb") as other:
        assert one.read(4 << 20) == other.read(4 << 20)
    copy.unlink()
    assert rows_of(tmp_path / "copy") == [(1, N)]


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_what_says_that_it_is_as_long_as_a_disk_is_refused_and_not_copied(tmp_path: Path, suffix: str) -> None:
    path, rank = tmp_path / "all.sql", tmp_path / "all.sql.d" / "n0.0.r.sql"
    rank.parent.mkdir()
    write(rank, sample_rows(20, 1), 1)
    planted = rank.with_name(rank.name + suffix)
    planted.touch()
    os.truncate(planted, 1 << 40)
    with pytest.raises(RecordingError, match=rf"n0\.0\.r\.sql{suffix} is one large hole"):
        connect(str(rank))
    outcome = merge(str(path))
    assert outcome.n_files == 0 and len(outcome.left) == 1 and "is one large hole" in outcome.left[0]
    assert rank.exists() and sum(map(allocated, rank.parent.iterdir())) < 1 << 20
    planted.unlink()
    assert merge(str(path)).n_files == 1


def test_what_a_killed_process_has_copied_is_gone_with_the_next_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import sys\nfrom gssr.store.read.private_copy import private_folder\n"
        "with private_folder() as folder:\n    open(folder + '/recording.sql', 'w').close()\n    print(folder, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with private_folder():
            assert (left / "recording.sql").exists(), "of a process that is still there"
        process.send_signal(signal.SIGKILL)
    assert (left / "recording.sql").exists()
    (tmp_path / "gssr-copy-link").symlink_to(tmp_path)
    with private_folder() as folder:
        assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(folder), "gssr-copy-link"])
