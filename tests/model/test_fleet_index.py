"""What the index of a fleet says is what reading anew says, whatever has happened to the recordings, or to the index."""

import multiprocessing
import os
import random
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.commands.inputs import fleet_at
from gssr.model.fleet import fleet
from gssr.model.fleet.fleet import ALL, Fleet, FleetRequest
from gssr.model.fleet.index import TABLES, digest, rows_of, runs_in_index
from gssr.store.index import Index, default_index, state
from gssr.store.read.find_recordings import recordings_in

JUDGED = FleetRequest(verdicts=True)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Three finished recordings of a few seconds."""
    folder = tmp_path_factory.mktemp("templates")
    for number, job in enumerate(("train", "idle", "gaps")):
        generate(str(folder / str(number)), job, 1 + number, 1 / 120, 2.0, number)
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def put(path: Path, content: bytes, age: float) -> None:
    """A recording that was last written so many seconds ago."""
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content)
    settle(path, age)


def settle(path: Path, age: float) -> None:
    for each in (path, Path(f"{path}-wal")):
        if each.exists():
            os.utime(each, (each.stat().st_atime, each.stat().st_mtime - age))


def looked(folder: Path, index: Index | None, request: FleetRequest = ALL) -> Fleet:
    """As the command looks at a folder."""
    return fleet_at([str(folder)], request, index)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_with_and_without_an_index_the_answers_are_equal(
    tmp_path: Path, templates: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings come, go, are replaced, changed, renamed, written to, cut, or too young."""
    chance, folder, where = random.Random(5), tmp_path / "runs", str(tmp_path / "index")
    read: list[str] = []
    really = fleet._read
    folder.mkdir()

    def counted(name: str, request: FleetRequest) -> fleet._ReadRecording:
        read.append(name)
        return really(name, request)

    monkeypatch.setattr(fleet, "_read", counted)
    age, n_read = 1e6, 0
    for step in range(18):
        path = folder / str(chance.randrange(2)) / f"{chance.randrange(2)}.sql"
        what = chance.choice(
            ("put", "put", "put", "remove", "user", "rename", "cut", "wal", "young", "ranks", "denied")
        )
        age -= 100
        if what in ("put", "young"):
            put(path, chance.choice(templates), age if what == "put" else 0.0)
        elif what == "ranks":
            put(Path(f"{path}.d") / "0.sql", chance.choice(templates), age)
        elif path.exists() and what == "remove":
            path.unlink()
        elif path.exists() and what == "rename":
            path.rename(path.with_name(f"x{step}.sql"))
        elif path.exists() and what == "cut":
            put(path, path.read_bytes()[:30_000], age)
        elif path.exists() and what == "denied":
            path.chmod(0o600 if path.stat().st_mode & 0o044 else 0o644)
        elif path.exists() and what in ("user", "wal"):
            with closing(sqlite3.connect(path)) as connection:
                try:
                    connection.execute(f"PRAGMA journal_mode={'WAL' if what == 'wal' else 'DELETE'}").fetchall()
                    connection.execute(f"UPDATE runs SET user = 'u{step}'")
                    connection.commit()
                except sqlite3.DatabaseError:
                    pass  # one that was cut
            settle(path, age)
        request = JUDGED if step % 9 in (4, 5) else ALL
        without = looked(folder, None, request)
        read.clear()
        assert looked(folder, Index(where, TABLES), request) == without, (step, what)
        n_read += len(read)
        n_before = len(read)
        read.clear()
        assert looked(folder, Index(where, TABLES), request) == without
        assert len(read) <= n_before
    assert 0 < n_read < 45  # else nothing would be kept, or all


def test_nothing_is_read_twice_nor_beside_the_recordings(tmp_path: Path, templates: list[bytes]) -> None:
    for number, content in enumerate(templates):
        put(tmp_path / "runs" / f"{number}.sql", content, 100.0)
    before = sorted(tmp_path.rglob("*"))
    where = default_index()
    assert where is not None
    command = ["fleet", str(tmp_path / "runs"), "--json"]
    assert main(command) == 0
    assert stat.S_IMODE(os.stat(where).st_mode) == 0o600 and sorted(tmp_path.rglob("*")) == before
    index = Index(where, TABLES)
    index.load([str(tmp_path)])
    names = recordings_in([tmp_path / "runs"])[0]
    assert sorted(index.known(names)) == sorted(names)
    index.load([str(tmp_path / "elsewhere")])
    assert index.known(names) == {}


def test_an_index_without_the_hours_by_category_is_read_and_completed(tmp_path: Path, templates: list[bytes]) -> None:
    folder, where = tmp_path / "runs", tmp_path / "index"
    put(folder / "0.sql", templates[0], 1e6)
    earlier = {name: columns for name, columns in TABLES.items() if name != "categories"}
    index = Index(str(where), earlier)
    path = str(folder / "0.sql")
    (run,) = looked(folder, None, JUDGED).runs
    rows = rows_of([run], digest(JUDGED.rules))
    index.keep([(path, state(path), {name: rows[name] for name in earlier})])
    index = Index(str(where), TABLES)
    assert not index.notice and looked(folder, index).runs == looked(folder, None).runs
    index = Index(str(where), TABLES)
    assert looked(folder, index, JUDGED).runs == (run,) and not index.notice
    index = Index(str(where), TABLES)
    index.load([str(folder)])
    assert runs_in_index(index, index.known([path]), digest(JUDGED.rules)) == {path: [run]}


def test_a_run_that_goes_on_is_never_kept(tmp_path: Path, templates: list[bytes]) -> None:
    path = tmp_path / "runs" / "a.sql"
    put(path, templates[0], 0.0)
    change(path, "UPDATE runs SET state = 'running'")
    settle(path, 10.0)
    index = Index(str(tmp_path / "index"), TABLES)
    looked(path.parent, index)
    index.load([str(path.parent)])
    assert not index.known([str(path)])


def spoil_types(path: Path) -> None:
    change(path, "UPDATE gpus SET gpu_hours = 'much'")


def spoil_numbers(path: Path) -> None:
    change(path, "UPDATE runs SET duration_s = 9e999")


def spoil_text(path: Path) -> None:
    change(path, "UPDATE runs SET state = CAST(x'ff' AS TEXT)")


def spoil_pages(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


def spoil_schema(path: Path) -> None:
    change(path, "CREATE TRIGGER t AFTER DELETE ON runs BEGIN DELETE FROM gpus; END")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def replace_by_text(path: Path) -> None:
    path.write_text("no index at all")


@pytest.mark.parametrize(
    "spoil", [spoil_types, spoil_numbers, spoil_text, spoil_pages, spoil_schema, cut, replace_by_text]
)
def test_a_damaged_index_is_made_anew_with_a_sentence(
    tmp_path: Path, templates: list[bytes], spoil: Callable[[Path], None]
) -> None:
    folder, where = tmp_path / "runs", tmp_path / "index"
    put(folder / "a.sql", templates[0], 100.0)
    put(folder / "b.sql", templates[1], 100.0)
    without = looked(folder, None)
    looked(folder, Index(str(where), TABLES))
    spoil(where)
    index = Index(str(where), TABLES)
    assert looked(folder, index) == without
    assert index.notice.startswith(str(where)) and "made anew" in index.notice
    index = Index(str(where), TABLES)
    assert looked(folder, index) == without and index.notice == ""
    index.load([str(folder)])
    assert len(index.known(recordings_in([folder])[0])) == 2


def test_what_somebody_names_and_is_no_index_stays_as_it_is(
    tmp_path: Path, templates: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "a.sql", templates[0], 100.0)
    with pytest.raises(ValueError, match="is no index"):
        Index(str(tmp_path / "a.sql"), TABLES, named=True)
    assert main(["fleet", str(tmp_path), "--index", str(tmp_path / "a.sql")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / "a.sql").read_bytes() == templates[0]
    (tmp_path / "link").symlink_to(tmp_path / "a.sql")
    index = Index(str(tmp_path / "link"), TABLES, named=True)
    assert "is not used" in index.notice
    assert looked(tmp_path, index) == looked(tmp_path, None)
    assert (tmp_path / "a.sql").read_bytes() == templates[0]


def _look(folder: str, where: str) -> str:
    index = Index(where, TABLES)
    found = looked(Path(folder), index)
    return f"{len(found.runs)} {index.notice}"


def test_several_looks_at_once_get_their_answers(tmp_path: Path, templates: list[bytes]) -> None:
    for number in range(12):
        put(tmp_path / "runs" / f"{number}.sql", templates[number % 3], 100.0)
        change(tmp_path / "runs" / f"{number}.sql", f"UPDATE runs SET run_id = 'r{number}'")
        settle(tmp_path / "runs" / f"{number}.sql", 100.0)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        places = [(str(tmp_path / "runs"), str(tmp_path / "index"))] * 6
        answers = pool.starmap(_look, places)
    assert answers == ["12 "] * 6
