"""``gssr fleet --db``: what is in the database is what the page says; everything else of that name is left as it is."""

import importlib
import json
import os
import resource
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands.inputs import open_index
from gssr.convert.fleet_database import APPLICATION_ID, INDEXES, KEYS, TABLES, VIEWS, update_database
from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.fleet.allocations import Allocation, join
from gssr.model.fleet.figures import RunFigures
from gssr.model.fleet.fleet import Fleet, FleetRequest, groups, read_fleet

ROOT = Path(__file__).parents[2]
METADATA = ROOT / "packaging" / "datasette" / "metadata.json"
ROUNDED = 0.00051
"""A view has three decimals."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of two users; never to be changed."""
    folder = tmp_path_factory.mktemp("runs")
    for number, (user, job) in enumerate((("ada", "train"), ("ada", "idle"), ("bob", "imbalanced"))):
        path = folder / f"{job}.sql"
        generate(str(path), job, 9, 1 / 60, 1.0, number)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE runs SET user = ?, job_id = ?, cluster = 'c'", (user, str(number)))
    return folder


@pytest.fixture(scope="module")
def found(runs: Path) -> Fleet:
    return read_fleet(sorted(map(str, runs.iterdir())), FleetRequest(verdicts=True))


def rows(path: Path, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def test_its_views_say_what_the_page_says(tmp_path: Path, found: Fleet) -> None:
    path = tmp_path / "fleet.db"
    assert update_database(str(path), found) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for view, by in (("by_user", "user"), ("by_state", "state"), ("by_week", "week"), ("by_account", "account")):
        expected = {group.key: group for group in groups(found.runs, by)}
        got = rows(path, f"SELECT * FROM {view}")
        assert len(got) == len(expected)
        for row in got:
            group = expected[row[by] or "unknown"]
            assert row["runs"] == group.n_runs
            for name in ("gpu_hours", "wasted_gpu_hours", "idle_gpu_hours", "score"):
                assert row[name] == pytest.approx(getattr(group, name), abs=ROUNDED)
    causes = {row["cause"]: row for row in rows(path, "SELECT * FROM by_cause")}
    assert set(causes) == {group.key for group in groups(found.runs, "cause")}
    for group in groups(found.runs, "cause"):
        assert causes[group.key]["gpu_hours"] == pytest.approx(group.gpu_hours, abs=ROUNDED)
        assert causes[group.key]["is_loss"] == bool(group.wasted_gpu_hours)
        assert causes[group.key]["runs"] == group.n_runs
    (sums,) = rows(path, "SELECT sum(gpu_hours) AS nodes, (SELECT sum(gpu_hours) FROM causes) AS causes FROM nodes")
    assert sums == pytest.approx({"nodes": sum(run.gpu_hours for run in found.runs), "causes": sums["nodes"]})
    assert {row["node"] for row in rows(path, "SELECT node FROM nodes")} == {"node0000", "node0001"}
    assert [row["job"] for row in rows(path, "SELECT job FROM never_used_gpus")] == ["c/1"]
    assert [row["job"] for row in rows(path, "SELECT job FROM badly_balanced")] == ["c/2"]
    assert next(row["job"] for row in rows(path, "SELECT job FROM waste_most")) == "c/1"
    for view in VIEWS:
        rows(path, f"SELECT * FROM {view}")
    assert [row["name"] for row in rows(path, "PRAGMA table_info(runs)")] == [column.name for column in TABLES["runs"]]
    indexes = rows(path, "SELECT tbl_name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    assert len(indexes) == len(INDEXES)


def test_a_run_counts_in_a_cause_from_the_same_share_on_as_on_the_page(tmp_path: Path, found: Fleet) -> None:
    path, (first, second, third) = tmp_path / "fleet.db", found.runs
    at, works = POSITIONS["idle.host"], POSITIONS["working.other"]

    def booked(run: RunFigures, share: float) -> RunFigures:
        hours = [0.0] * len(CATEGORIES)
        hours[at], hours[works] = share * run.gpu_hours, (1 - share) * run.gpu_hours
        return run._replace(hours_by_category=tuple(hours))

    few = found._replace(runs=(booked(first, 0.0049), booked(second, 0.005), booked(third, 0.3)))
    update_database(str(path), few)
    expected = {group.key: group.n_runs for group in groups(few.runs, "cause")}
    assert {row["cause"]: row["runs"] for row in rows(path, "SELECT * FROM by_cause")} == expected
    assert expected["idle.host"] == 2


def test_the_jobs_that_lost_most_come_first_with_what_for(tmp_path: Path, found: Fleet) -> None:
    """Two runs of one job count together, and what most of its GPU-hours are lost to is not what one of the runs lost most
    to."""
    path = tmp_path / "fleet.db"

    def booked(run: RunFigures, **lost: float) -> RunFigures:
        hours = [0.0] * len(CATEGORIES)
        for short, own in lost.items():
            hours[POSITIONS[f"idle.{short}"]] = own
        return run._replace(gpu_hours=10.0, hours_by_category=tuple(hours))

    first, second, third = found.runs
    runs = (
        booked(first, host=3.0, copies=2.0),
        booked(second, host=7.4),
        booked(third, copies=2.5)._replace(job_id=first.job_id),
    )
    update_database(str(path), found._replace(runs=runs))
    got = rows(path, "SELECT * FROM lost_most")
    assert [(row["job"], row["user"], row["gpu_hours"], row["lost_gpu_hours"]) for row in got] == [
        ("c/1", "ada", 20.0, 7.5), ("c/2", "bob", 10.0, 7.4),
    ]  # fmt: skip
    assert [(row["main_cause"], row["main_cause_gpu_hours"]) for row in got] == [
        ("waits for copies to or from the host", 4.5), ("waits for the CPU", 7.4),
    ]  # fmt: skip
    assert got[1]["name"] == "synthetic imbalanced"


def test_datasette_is_told_what_every_table_view_and_column_is(
    tmp_path: Path, found: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(METADATA.parent))
    metadata = json.loads(METADATA.read_text())
    assert metadata == importlib.import_module("make_metadata").metadata(), "run packaging/datasette/make_metadata.py"
    path = tmp_path / "fleet.db"
    update_database(str(path), found)
    described = metadata["databases"][path.stem]["tables"]
    there = [row["name"] for row in rows(path, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    assert set(described) == set(there)
    for name in there:
        columns = [row["name"] for row in rows(path, f"PRAGMA table_info({name})")]
        assert list(described[name]["columns"]) == columns
        assert described[name]["title"] and described[name]["description"] and all(described[name]["columns"].values())


def test_a_second_look_replaces_what_changed_and_keeps_all_else(tmp_path: Path, found: Fleet) -> None:
    path = tmp_path / "fleet.db"
    first, second, third = found.runs
    growing = first._replace(state="running", gpu_hours=0.1, hours_by_category=third.hours_by_category)
    assert update_database(str(path), found._replace(runs=(growing, second))) == 2
    path.chmod(0o640)
    with closing(sqlite3.connect(path)) as connection, connection:  # what a site adds stays
        connection.execute("CREATE TABLE notes (node TEXT)")
        connection.execute("CREATE VIEW ours AS SELECT * FROM notes")
        connection.execute("ALTER TABLE runs DROP COLUMN verdicts")  # as an earlier version would have made it
    assert update_database(str(path), found._replace(runs=(first, third))) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    fresh = tmp_path / "fresh.db"
    update_database(str(fresh), found)
    for table, key in KEYS.items():
        columns = ", ".join(column.name for column in TABLES[table] if column.name != "verdicts")
        query = f"SELECT {columns} FROM {table} ORDER BY {', '.join(key)}"
        assert rows(path, query) == rows(fresh, query)
    assert rows(path, "SELECT count(verdicts) AS n FROM runs") == [{"n": 2}]
    assert rows(path, "SELECT * FROM ours") == []


def test_what_was_allocated_is_in_it(tmp_path: Path, found: Fleet) -> None:
    run = found.runs[0]
    job = Allocation(
        run.job_id or "", "5_1", "c", "ada", "g", "p", "name", "failed", run.began - 60, run.began + 120, 9
    )
    lost = job._replace(job_id="77", shown="77")
    allocated, told = join(found.runs, [job, lost])
    update_database(str(tmp_path / "a.db"), found._replace(runs=told, allocated=allocated))
    got = rows(tmp_path / "a.db", "SELECT job, n_runs, unrecorded_gpu_hours FROM not_recorded")
    assert [(row["job"], row["n_runs"]) for row in got] == [("c/77", 0), ("c/5_1", 1)]
    assert got[0]["unrecorded_gpu_hours"] == pytest.approx(9 * 0.05)
    assert rows(tmp_path / "a.db", f"SELECT name FROM runs WHERE run_id = '{run.run_id}'")[0]["name"] == run.label


def test_what_is_not_its_own_is_refused_and_left_as_it_is(
    tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording, an index, a text, a database of something else, a folder, a pipe, a link to nothing, one with a later
    version's mark, and forged ones: with our mark, and something that would run, or be another table's."""
    recording = (runs / "train.sql").read_bytes()
    (tmp_path / "a.sql").write_bytes(recording)
    (tmp_path / "text").write_text("SELECT 1")
    open_index(str(tmp_path / "index")).keep((), [b"/gone"])
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE runs (run TEXT)")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    forged = {
        "later": f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version=99",
        "trigger": f"PRAGMA application_id={APPLICATION_ID}; CREATE TABLE runs (run TEXT PRIMARY KEY); CREATE TABLE t (x);"
        "CREATE TRIGGER own AFTER INSERT ON runs BEGIN DELETE FROM t; END; INSERT INTO t VALUES (1)",
        "view": f"PRAGMA application_id={APPLICATION_ID}; CREATE TABLE t (x); CREATE VIEW runs AS SELECT * FROM t",
        "virtual": f"PRAGMA application_id={APPLICATION_ID}; CREATE VIRTUAL TABLE nodes USING fts5(x)",
        "computed": f"PRAGMA application_id={APPLICATION_ID}; CREATE TABLE jobs (a, b AS (abs(a)))",
        "table": f"PRAGMA application_id={APPLICATION_ID}; CREATE TABLE by_user (a)",
    }
    for name, script in forged.items():
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.executescript(script)
    names = ["a.sql", "text", "index", "other.db", *forged]
    before = {name: (tmp_path / name).read_bytes() for name in names}
    capsys.readouterr()
    for name in [*names, "folder", "pipe", "link", "none/deeper.db"]:
        assert main(["fleet", str(runs), "--no-index", "--db", str(tmp_path / name)]) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith(f"gssr: --db: {tmp_path / name}: ") and captured.err.count("\n") == 1
        assert captured.out.splitlines()[-1].startswith("GSSR fleet runs=3 ")  # the page is there all the same
    assert before == {name: (tmp_path / name).read_bytes() for name in names}
    assert not list(tmp_path.glob("*-journal")) and not (tmp_path / "nothing").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a file of another user")
def test_another_users_database_is_refused(tmp_path: Path, found: Fleet) -> None:
    from gssr.convert.tables import ExportError

    update_database(str(tmp_path / "a.db"), found)
    os.chown(tmp_path / "a.db", 65534, 65534)
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(ExportError, match="is another user's"):
        update_database(str(tmp_path / "a.db"), found)
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_full_disk_is_a_sentence_and_nothing_is_lost(tmp_path: Path, runs: Path, found: Fleet) -> None:
    """A limit on the length of files stands for it: SQLite meets both where it writes."""
    path, more = tmp_path / "fleet.db", tmp_path / "more"
    update_database(str(path), found._replace(runs=found.runs[:1]))
    before = rows(path, "SELECT * FROM runs"), rows(path, "SELECT * FROM causes"), rows(path, "SELECT * FROM nodes")
    more.mkdir()
    for number in range(12):
        copy = more / f"{number}.sql"
        copy.write_bytes((runs / "idle.sql").read_bytes())
        with closing(sqlite3.connect(copy)) as connection, connection:
            for table in ("runs", "gpus"):
                connection.execute(f"UPDATE {table} SET run_id = ?", (f"run-{number}",))
            connection.execute("UPDATE runs SET label = ?", ("x" * 4000,))

    def look(db: Path, most: int) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "gssr", "fleet", str(more), "--no-index", "--db", str(db)],
            capture_output=True, text=True, cwd=ROOT, timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )  # fmt: skip

    for db, most in ((path, path.stat().st_size + 4096), (tmp_path / "new.db", 8192)):
        done = look(db, most)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert f"{db}: can't be written: " in done.stderr
        assert done.stdout.splitlines()[-1].startswith("GSSR fleet runs=12 ")
    after = rows(path, "SELECT * FROM runs"), rows(path, "SELECT * FROM causes"), rows(path, "SELECT * FROM nodes")
    assert before == after and rows(path, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fleet.db", "more"]
    assert look(path, 1 << 30).returncode == 0
    assert rows(path, "SELECT count(*) AS n FROM runs") == [{"n": 13}]


def test_the_command_says_what_is_new_and_prints_its_page(
    tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "fleet.db")
    for n_new in (3, 0):
        assert main(["fleet", str(runs), "--no-index", "--db", db, "--json"]) == 0
        captured = capsys.readouterr()
        n_updated = 3 - n_new
        assert captured.err == f"gssr: {db}: {n_new} new runs added, {n_updated} runs updated\n"
        assert json.loads(captured.out)["totals"]["hours_by_category"]
