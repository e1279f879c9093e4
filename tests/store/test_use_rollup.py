"""What stands beside the GPUs' samples is read from rollups where these count all of it: the same as from its rows."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.store.format.host_rollups import HOST, USE_TABLES, WORKLOAD, count_rolled_up
from gssr.store.format.schema import LEVELS, TABLES
from gssr.store.merge import merge
from gssr.store.merge.repair import repair
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import ALL_TIME, Window
from gssr.store.read.whole_run import read_use_rows
from gssr.store.write.bulk import BulkWriter
from gssr.store.write.writer import Writer

START = 1_700_000_003.0


def _record(path: Path, seconds: int, rank: int = 0, ended: bool = True, append: bool = False, seed: int = 1) -> None:
    random = np.random.default_rng(seed)
    run_id = "second" if append else "r"
    begin = START + 2 * seconds if append else START
    writer = Writer(str(path), append=append)
    writer.begin(
        {"run_id": run_id, "state": "running", "world_size": 2},
        {"rank": rank, "node": f"n{rank}", "hostname": "elsewhere", "state": "running"},
    )
    writer.add_gpus([], (), 1.0)
    for second in range(seconds):
        now = begin + second + random.uniform(0, 0.3)
        values: list[float | None] = [None if random.random() < 0.1 else float(random.random()) for _ in HOST.values]
        writer.add_host(now, values)
        if second % 3:
            writer.add_workload(now, (random.random() * 8, int(random.integers(1 << 34)), 9))
        writer.tick(now)
    if ended:
        assert writer.finish(begin + seconds, 0, "completed", begin + seconds)
    else:
        writer.commit(begin + seconds)
        writer._connection.close()
        os.utime(path, (START, START))


def _all_of(run: RunReader, start: float | None = None, end: float | None = None) -> list[float]:
    """Everything that is said of the window."""
    found: list[float | None] = []
    window = Window.between(start, end)
    for extents in (run.host_use(window), *run.workload_use(window)):
        for extent in extents.values():
            found += extent
    for table in USE_TABLES:
        for width in (10.0, 60.0, 600.0):
            begin = START // width * width
            for name, column in run.use_over_time(table, window, (begin, width, 40)).items():
                found += [table.values.index(name), *column.tolist()]
    return [np.nan if value is None else float(value) for value in found]


def _from_rows(path: Path, windows: list[tuple[float | None, float | None]]) -> list[list[float]]:
    """The same of a file of an earlier version, which had no rollups of it."""
    other = path.with_name("earlier.sql")
    other.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(other)) as connection:
        for table in USE_TABLES:
            connection.execute(f"DROP TABLE {table.rollup}")
    return [_all_of(open_recording(other).runs[-1], *window) for window in windows]


@pytest.fixture(name="read_tables")
def _(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tables that queries for numbers go to."""
    seen: list[str] = []
    everything = GuardedFile.rows

    def rows_of(shard: GuardedFile, query: str, *more):
        if "min(rowid)" not in query:
            seen.append(query.split(" FROM ")[1].split()[0])
        return everything(shard, query, *more)

    monkeypatch.setattr(GuardedFile, "rows", rows_of)
    return seen


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 1500), st.integers(0, 2**32 - 1))
def test_rollups_and_rows_say_the_same(tmp_path_factory, seconds: int, seed: int) -> None:
    path = tmp_path_factory.mktemp("use") / "r.sql"
    _record(path, seconds, seed=seed)
    edge = START // 60 * 60 + 60
    windows = [(None, None), (edge, None), (None, edge + 120), (edge + 10, edge + 70), (START + 7.5, START + 44)]
    run = open_recording(path).runs[0]
    for window, expected in zip(windows, _from_rows(path, windows), strict=True):
        np.testing.assert_allclose(_all_of(run, *window), expected, rtol=1e-12)


def test_a_window_of_many_rows_is_widened_to_whole_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gssr.store.read.host_use.MOST_ROWS", 500)
    _record(tmp_path / "r.sql", 900)
    run = open_recording(tmp_path / "r.sql").runs[0]
    edge = START // 10 * 10
    for window in ((edge + 33.3, edge + 171.0), (None, edge + 171.0), (edge + 33.3, None)):
        wide = tuple(None if one is None else edge + step for one, step in zip(window, (30, 180), strict=True))
        of_nodes = slice(3 * len(HOST.values))
        assert _all_of(run, *window)[of_nodes] == _all_of(run, *wide)[of_nodes]
        from_rows = _from_rows(tmp_path / "r.sql", [wide])[0]
        np.testing.assert_allclose(_all_of(run, *wide), from_rows, rtol=1e-12)


def test_a_whole_run_is_read_from_rollups_alone(tmp_path: Path, read_tables: list[str]) -> None:
    _record(tmp_path / "r.sql", 900)
    run = open_recording(tmp_path / "r.sql").runs[0]
    read_tables.clear()
    run.host_use()
    run.workload_use()
    run.use_over_time(HOST, ALL_TIME, (START // 60 * 60, 60.0, 20))
    run.use_over_time(WORKLOAD, Window(START // 60 * 60, START // 60 * 60 + 600), (START // 60 * 60, 60.0, 20))
    assert read_tables == ["host_rollup", "workload_rollup", "host_rollup", "workload_rollup"]
    run.use_over_time(HOST, ALL_TIME, (START, 2.0, 20))
    assert read_tables[-1] == "host_samples"


def _counted(path: Path, together: bool = False) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        sizes = {t: connection.execute(f"SELECT count(*) FROM {t.samples}").fetchone()[0] for t in USE_TABLES}
        whose = ("each", "together") if together else ("each",)
        return all(
            count_rolled_up(connection, "main", table, level, getattr(table, one)) == sizes[table]
            for table in USE_TABLES
            for level in LEVELS
            for one in whose
        )


def test_a_file_that_was_cut_off_is_read_from_its_rows(tmp_path: Path, read_tables: list[str]) -> None:
    _record(tmp_path / "r.sql", 700, ended=False)
    assert not _counted(tmp_path / "r.sql")
    with closing(sqlite3.connect(tmp_path / "r.sql")) as connection:
        for level in LEVELS:  # what was over is there all the same
            n = connection.execute(f"SELECT sum(n_rows) FROM host_rollup WHERE level = {level}").fetchone()[0]
            assert 700 - 2 * level - 10 <= (n or 0) < 700
    run = open_recording(tmp_path / "r.sql").runs[0]
    read_tables.clear()
    assert run.host_use()["load1"].n and set(read_tables) == {"host_samples"}


def test_merging_copies_rollups_and_counts_what_a_killed_sampler_did_not(tmp_path: Path) -> None:
    folder = tmp_path / "m.sql.d"
    folder.mkdir()
    _record(folder / "n0.0.r.sql", 650)
    _record(folder / "n1.1.r.sql", 700, rank=1, ended=False, seed=2)
    merge(str(tmp_path / "m.sql"))
    assert _counted(tmp_path / "m.sql", together=True)
    run = open_recording(tmp_path / "m.sql").runs[0]
    np.testing.assert_allclose(_all_of(run), _from_rows(tmp_path / "m.sql", [(None, None)])[0], rtol=1e-12)


def test_a_second_run_in_the_same_file_counts_its_own_rows(tmp_path: Path) -> None:
    _record(tmp_path / "r.sql", 130)
    _record(tmp_path / "r.sql", 200, append=True, seed=3)
    assert _counted(tmp_path / "r.sql")
    run = open_recording(tmp_path / "r.sql").runs[-1]
    assert run.host_use()["load1"].n <= 200
    np.testing.assert_allclose(_all_of(run), _from_rows(tmp_path / "r.sql", [(None, None)])[0], rtol=1e-12)


def test_a_file_of_an_earlier_version_gets_rollups_of_what_is_added(tmp_path: Path) -> None:
    path = tmp_path / "r.sql"
    _record(path, 130)
    with closing(sqlite3.connect(path)) as connection:
        for table in USE_TABLES:
            connection.execute(f"DROP TABLE {table.rollup}")
    _record(path, 200, append=True, seed=3)
    assert not _counted(path)  # so rows are read
    assert open_recording(path).runs[0].host_use()["load1"].n > 100


def _without_fabric(path: Path) -> Path:
    """The file as a version made it that had no columns of the fabric."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("host_samples", "host_rollup"):
            kept = [column for column in TABLES[table] if not column.name.startswith("fabric_")]
            names = ", ".join(column.name for column in kept)
            needed = {column.name: "NOT NULL" if column.name.endswith(("_n", "_sum")) else "" for column in kept}
            connection.execute(f"ALTER TABLE {table} RENAME TO aside")
            columns = ", ".join(f"{column.name} {column.type} {needed[column.name]}" for column in kept)
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(f"INSERT INTO {table} SELECT {names} FROM aside")
            connection.execute("DROP TABLE aside")
        connection.commit()
    return path


def test_columns_that_a_file_of_an_earlier_version_lacks_are_missing_and_its_rollups_count(
    tmp_path: Path, read_tables: list[str]
) -> None:
    _record(tmp_path / "r.sql", 130)
    whole = open_recording(tmp_path / "r.sql").runs[0].host_use()
    run = open_recording(_without_fabric(tmp_path / "r.sql")).runs[0]
    read_tables.clear()
    found = run.host_use()
    assert found == whole | dict.fromkeys(("fabric_rx_bytes", "fabric_tx_bytes"), (0, 0.0, None))
    assert run.host_use(Window(START + 7.5, START + 44))["fabric_rx_bytes"] == (0, 0.0, None)
    bins = (START // 10 * 10, 10.0, 20)
    assert set(run.use_over_time(HOST, ALL_TIME, bins)) == set(HOST.values) - {"fabric_rx_bytes", "fabric_tx_bytes"}
    assert read_tables == ["host_rollup", "host_samples", "host_rollup"]
    assert {row[-2:] for rows in read_use_rows(run, "host_samples") for row in rows} == {(None, None)}
    assert not open_recording(tmp_path / "r.sql").runs[0].damage


def test_a_run_is_added_to_a_file_that_lacks_columns_and_it_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "r.sql"
    _record(path, 130)
    _record(_without_fabric(path), 70, append=True, seed=3)
    first, second = (run.host_use() for run in open_recording(path).runs)
    assert first["load1"].n > second["load1"].n > 0
    assert (first["fabric_rx_bytes"], second["fabric_rx_bytes"].n > 50) == ((0, 0.0, None), True)
    assert _counted(path) and repair(str(path))[2] == ()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM host_rollup WHERE level = 60")
        connection.commit()
    assert repair(str(path))[2] == ("host_samples",)
    assert [run.host_use() for run in open_recording(path).runs] == [first, second]


def test_ranks_files_with_and_without_columns_become_one(tmp_path: Path) -> None:
    folder = tmp_path / "m.sql.d"
    folder.mkdir()
    _record(folder / "n0.0.r.sql", 90)
    _record(folder / "n1.1.r.sql", 130, rank=1, seed=2)
    new = open_recording(folder / "n1.1.r.sql").runs[0].host_use()["fabric_rx_bytes"]
    _without_fabric(folder / "n0.0.r.sql")
    apart = _all_of(open_recording(tmp_path / "m.sql").runs[0])
    merge(str(tmp_path / "m.sql"))
    run = open_recording(tmp_path / "m.sql").runs[0]
    assert _counted(tmp_path / "m.sql", together=True)
    assert run.host_use()["fabric_rx_bytes"] == new and run.host_use()["load1"].n > 180
    np.testing.assert_allclose(_all_of(run), apart, rtol=1e-12)
    np.testing.assert_allclose(_all_of(run), _from_rows(tmp_path / "m.sql", [(None, None)])[0], rtol=1e-12)


def test_late_rows_are_counted_once(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path / "r.sql"))
    writer.begin({"run_id": "r", "state": "running"}, {"rank": 0, "node": "n"})
    writer.add_gpus([], (), 1.0)
    for second in (*range(25), 3, 14, *range(25, 640), 600, 2):
        writer.add_host(START + second, [1.0] * len(HOST.values))
        writer.tick(START + max(second, 30))
    assert writer.finish(START + 700, 0, "completed", START + 700) and _counted(tmp_path / "r.sql")
    assert open_recording(tmp_path / "r.sql").runs[0].host_use()["load1"] == (644, 644.0, 1.0)


def test_arrays_are_rolled_up_as_well(tmp_path: Path) -> None:
    writer = BulkWriter(str(tmp_path / "b.sql"))
    writer.begin({"run_id": "r", "state": "running"}, {"rank": 0, "node": "n"})
    writer.add_gpus([], (), 1.0)
    time, random = START + np.arange(730.0), np.random.default_rng(1)
    writer.add_use(HOST, ["a", "b"], time, random.random((730, 2, len(HOST.values))))
    writer.add_use(WORKLOAD, [0, 1], time, random.random((730, 2, len(WORKLOAD.values))))
    assert writer.finish(START + 731, 0, "completed", START + 731) and _counted(tmp_path / "b.sql", together=True)
    run, edge = open_recording(tmp_path / "b.sql").runs[0], START // 60 * 60 + 60
    windows = [(None, None), (edge + 120, edge + 310)]
    for window, expected in zip(windows, _from_rows(tmp_path / "b.sql", windows), strict=True):
        np.testing.assert_allclose(_all_of(run, *window), expected, rtol=1e-12)


def test_repairing_counts_what_was_not(tmp_path: Path) -> None:
    path = tmp_path / "r.sql"
    _record(path, 700, ended=False)
    with closing(sqlite3.connect(path)) as connection:
        for table in ("runs", "processes"):
            connection.execute(f"UPDATE {table} SET state = 'killed'")
        connection.commit()
    _record(path, 650, append=True)
    expected = [_all_of(run) for run in open_recording(path).runs]
    assert repair(str(path))[2] == ("host_samples", "workload_samples") and _counted(path)
    assert repair(str(path))[2] == ()
    for run, own in zip(open_recording(path).runs, expected, strict=True):
        np.testing.assert_allclose(_all_of(run), own, rtol=1e-12)
