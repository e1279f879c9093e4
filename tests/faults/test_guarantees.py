"""What docs/reliability.md promises: every test that it names exists, and what no other test says."""

import ast
import runpy
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gssr.store.write import create
from gssr.store.write.writer import CHECKPOINT_SECONDS, COMMIT_SECONDS, Writer
from tests.faults.tried import processes, table
from tests.faults.tried.job import MOST_LOST
from tests.faults.tried.table import FAULTS, kept_in

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
UPDATE = "pytest -m slow tests/faults --update-docs --rounds 20"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_reliability.py"))


def names_in(path: Path) -> set[str]:
    """Names of the functions of a file, also of those in classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_is_held_by_tests_that_exist(made: dict[str, Any]) -> None:
    faults = {fault.name for fault in FAULTS}
    for guarantee in (*made["LOST"], *made["NEVER"]):
        known = names_in(TESTS / guarantee.file)
        assert guarantee.tests, guarantee.sentence
        for test in guarantee.tests:
            name, _, fault = test.rstrip("]").partition("[")
            assert name in known, f"{guarantee.file} has no {name}"
            assert not fault or fault in faults, f"no fault {fault}"


def test_the_page_is_made_of_the_promises_and_the_results(made: dict[str, Any]) -> None:
    assert (DOCS / "reliability.md").read_text(encoding="utf-8") == made["page"](), "run docs/make_reliability.py"


def test_the_results_are_of_faults_there_are_and_no_promise_was_broken() -> None:
    rows = kept_in(DOCS / "reliability.json")
    sentences = {fault.name: fault.sentence for fault in FAULTS}
    for row in rows:
        assert sentences.get(row.name) == row.sentence, UPDATE
        assert row.rounds > 0 and not row.problems
    ours = {row.name: row for row in rows if row.name in {fault.name for fault in processes.FAULTS}}
    assert len(ours) == len(processes.FAULTS), UPDATE
    assert max(row.lost_seconds or 0.0 for row in ours.values()) <= MOST_LOST


@pytest.mark.parametrize(("mode", "found"), [("WAL", "wal"), ("TRUNCATE", "truncate")])
def test_what_a_loss_of_power_costs_is_what_the_pragmas_give(
    mode: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "journal_mode", lambda _path: mode)
    with closing(create.create(str(tmp_path / "a.sql"))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (found,)
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL
    assert COMMIT_SECONDS <= 0.5 and CHECKPOINT_SECONDS <= 10.0


def test_the_file_without_its_log_lacks_ten_seconds_at_most(tmp_path: Path) -> None:
    path, alone = tmp_path / "a.sql", tmp_path / "alone.sql"
    writer = Writer(str(path))
    writer.begin({"run_id": "r", "started_at": 0.0, "state": "running"}, {"rank": 0, "node": "n", "state": "running"})
    for second in range(45):
        writer.add_host(float(second), [0.5] * 10)
        writer.tick(float(second))
        shutil.copyfile(path, alone)
        with closing(sqlite3.connect(alone)) as connection:
            (last,) = connection.execute("SELECT max(time) FROM host_samples").fetchone()
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert last is not None and second - last <= CHECKPOINT_SECONDS + 1.0
    writer.finish(45.0, 0, "completed", 45.0)


def test_a_log_that_grew_beside_a_stopped_reader_is_cut_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create, "journal_mode", lambda _path: "WAL")
    path, log = tmp_path / "a.sql", tmp_path / "a.sql-wal"
    writer = Writer(str(path))
    writer.begin({"run_id": "r", "started_at": 0.0, "state": "running"}, {"rank": 0, "node": "n", "state": "running"})
    second = 0

    def record(seconds: int) -> None:
        nonlocal second
        for _ in range(seconds):
            second += 1
            for _ in range(200):
                writer.add_host(float(second), [0.5] * 10)
            writer.tick(float(second))

    record(2)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        while log.stat().st_size < 6_000_000:
            record(30)
            assert second < 10_000
    record(30)
    assert log.stat().st_size <= 4_100_000
    assert writer.finish(float(second), 0, "completed", float(second))


def test_a_broken_promise_is_told_with_its_seed(tmp_path: Path) -> None:
    seen = iter([table.Seen(0.2, "a"), table.Seen(0.5, "a", "wrong"), table.Seen(None, "")])
    fault = table.Fault("x", "something happens", lambda _folder, _rng: next(seen))
    row = table.rounds_of(fault, 3, 7, tmp_path)
    assert (row.lost_seconds, row.said, row.problems) == (0.5, ["a"], ["--seed 8: wrong"])
    assert table.line(row) == "| something happens | 3 | 0.50 s | a |"
