"""What is done to a sound recording: bytes of its files, values, rows, blobs and the schema, what lies in its folder."""

import os
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from gssr.store.format.schema import SKETCHES
from tests.fuzz.readers import SMALL, damage, value

_NEVER = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c"


def _some(folder: Path, rng: random.Random) -> Path:
    files = sorted(path for path in folder.rglob("run.sql*") if path.is_file())
    return rng.choice(files or sorted(path for path in folder.rglob("*") if path.is_file()))


def _bytes(folder: Path, rng: random.Random) -> None:
    path = _some(folder, rng)
    path.write_bytes(damage(path.read_bytes(), rng))


def _pages(folder: Path, rng: random.Random) -> None:
    """Pages that are other pages, empty, or cut off; numbers in their heads."""
    path = _some(folder, rng)
    data = bytearray(path.read_bytes())
    size = 4096
    for _ in range(rng.choice((1, 2, 5))):
        if len(data) < 2 * size:
            break
        at, other = (rng.randrange(len(data) // size) * size for _ in range(2))
        how = rng.randrange(4)
        if how == 0:
            data[at : at + size] = data[other : other + size]
        elif how == 1:
            del data[at:]
        elif how == 2:
            where = at + rng.randrange(100 if at == 0 else 40)
            data[where : where + 2] = struct.pack(">H", rng.choice((0, 1, 2, 5, 10, 13, 0xFFFF, rng.randrange(65536))))
        else:
            where = at + rng.randrange(size - 4)
            data[where : where + 4] = struct.pack(">I", rng.choice((0, 1, rng.randrange(200), 0xFFFFFFFF)))
    path.write_bytes(data)


def _with_sql(change: Callable[[sqlite3.Connection, random.Random], None]) -> Callable[[Path, random.Random], None]:
    def apply(folder: Path, rng: random.Random) -> None:
        files = sorted(path for path in folder.rglob("*.sql") if path.is_file())
        if not files:
            return
        with closing(sqlite3.connect(rng.choice(files), isolation_level=None)) as connection, suppress(sqlite3.Error):
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA writable_schema=ON")
            connection.execute("BEGIN")
            with suppress(sqlite3.Error, OverflowError):
                change(connection, rng)
            connection.execute("COMMIT")

    return apply


def _table(connection: sqlite3.Connection, rng: random.Random) -> tuple[str, list[str]]:
    """One of the file's tables, and its columns."""
    names = sorted(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    table = rng.choice(names)
    return table, [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]


def _values(connection: sqlite3.Connection, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 3, 10))):
        table, names = _table(connection, rng)
        column = rng.choice(names)
        where = rng.choice(("1", "rowid % 7 = 0", "rowid = 1", "rowid = (SELECT max(rowid) FROM {t})")).format(t=table)
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}", (value(rng),))


def _untyped(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Columns without types, keys or conditions, so that they hold anything; then values."""
    table, names = _table(connection, rng)
    made = f"CREATE TABLE {table} ({', '.join(names)})"
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ? AND type = 'table'", (made, table))
    connection.execute("DELETE FROM sqlite_master WHERE tbl_name = ? AND type = 'index'", (table,))
    connection.execute(f"PRAGMA schema_version = {rng.randrange(1 << 20)}")
    for _ in range(rng.choice((1, 3, 10))):
        column = rng.choice(names)
        rows = rng.choice(("1", "rowid % 5 = 0", "rowid = 1"))
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", (value(rng),))


def _rows(connection: sqlite3.Connection, rng: random.Random) -> None:
    table, names = _table(connection, rng)
    how = rng.randrange(4)
    if how == 0:
        connection.execute(f"DELETE FROM {table} WHERE rowid % {rng.choice((1, 2, 3))} = 0")
    elif how == 1:
        changed = rng.choice(names)
        own = ", ".join("?" if name == changed else name for name in names)
        connection.execute(f"INSERT OR IGNORE INTO {table} SELECT {own} FROM {table}", (value(rng),))
    elif how == 2:
        marks = ", ".join("?" * len(names))
        rows = [[value(rng) for _ in names] for _ in range(20)]
        connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)
    else:
        shift = rng.choice((1e3, -1.7e9, 1e9, 9e10, 0.0))
        connection.execute(f"UPDATE samples SET time = time * {rng.choice((-1, 0, 1))} + ?", (shift,))


def _blobs(connection: sqlite3.Connection, rng: random.Random) -> None:
    table = rng.choice(("rollup", *SKETCHES.values()))
    found = connection.execute(f"SELECT rowid, data FROM {table}").fetchall()
    for rowid, data in rng.sample(found, min(len(found), rng.choice((1, 5, 100)))):
        blob = bytearray(data if isinstance(data, bytes) else b"")
        how = rng.randrange(4)
        if how == 0 or len(blob) < 8:
            blob = bytearray(damage(bytes(blob), rng))
        elif how == 1:
            at = 8 * rng.randrange(len(blob) // 8)
            number = rng.choice((float("nan"), float("inf"), -1.0, 1e308, -1e308, 0.5, 1e18, 5e-324))
            blob[at : at + 8] = struct.pack("<d", number)
        elif how == 2:
            blob[:2] = struct.pack("<H", rng.choice((0, 1, 65535)))
        else:
            blob[2 : 2 + 2 * rng.randrange(1, 40)] = b"\xff\xff" * rng.randrange(1, 40)
        connection.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (bytes(blob), rowid))


def _schema(connection: sqlite3.Connection, rng: random.Random) -> None:
    table, names = _table(connection, rng)
    wide = ", ".join(f"0 AS c{number}" for number in range(1900))
    never = ", ".join(f"x AS {name}" for name in names)
    statements = {
        0: [f"DROP TABLE {table}"],
        1: [f"ALTER TABLE {table} RENAME COLUMN {rng.choice(names)} TO {rng.choice(('gpu', 'rowid', '[a b]', 'x'))}"],
        2: [f"ALTER TABLE {table} RENAME TO old", f"CREATE VIEW {table} AS {_NEVER.format(never)}"],
        3: [f"ALTER TABLE {table} RENAME TO old", f"CREATE VIRTUAL TABLE {table} USING fts4({', '.join(names)})"],
        4: [f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM samples; UPDATE runs SET run_id = 'x'; END"],
        5: [f"ALTER TABLE {table} ADD COLUMN g AS (hex(zeroblob(1000))) VIRTUAL"],
        6: [f"ALTER TABLE {table} ADD COLUMN {rng.choice(('c', '[c d]', '[a, (SELECT 1)]', 'é'))} {rng.choice(('', 'X'))}"],
        7: ["CREATE TABLE w (a, b)", *(f"CREATE TABLE w{number} (a, b)" for number in range(rng.choice((3, 300))))],
        8: ["ANALYZE"],
        9: [f"CREATE INDEX i ON {table} (hex({names[0]}))"],
        10: [f"ALTER TABLE {table} RENAME TO old", f"CREATE TABLE {table} ({', '.join(reversed(names))})",
             f"INSERT INTO {table} SELECT * FROM old"],
        11: [f"PRAGMA user_version = {rng.choice(SMALL[:8])}"],
        12: ["DROP VIEW gpu_samples", f"CREATE TABLE wide AS SELECT *, {wide} FROM samples",
             "DROP TABLE samples", "ALTER TABLE wide RENAME TO samples"],
    }  # fmt: skip
    for statement in statements[rng.randrange(len(statements))]:
        connection.execute(statement)


def _runs(connection: sqlite3.Connection, rng: random.Random) -> None:
    n = rng.choice((3, 30, 300))
    connection.executemany(
        "INSERT OR IGNORE INTO runs (run_id, state, started_at, sampling_ms) VALUES (?, ?, ?, ?)",
        [(f"x{number}", rng.choice(("running", "completed")), value(rng), value(rng)) for number in range(n)],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO gpus (gpu, run_id, node, uuid) VALUES (?, ?, ?, ?)",
        [(rng.choice((number + 9, 1 << 40, -number)), f"x{number}", "n", None) for number in range(n)],
    )


def _rowids(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Samples whose rowids lie far apart, or at an end of what there can be."""
    how = rng.randrange(3)
    if how == 0:
        step = 1 << rng.choice((8, 20, 32, 48))
        connection.execute(f"UPDATE samples SET rowid = -rowid * {step}")
        if rng.random() < 0.8:
            connection.execute("UPDATE samples SET rowid = -rowid")
        if rng.random() < 0.5:
            connection.execute(
                f"UPDATE rollup SET first_rowid = first_rowid * {step}, last_rowid = last_rowid * {step}"
            )
    else:
        for rowid in rng.sample((-1, 0, 1 << 40, 1 << 56, 1 << 62, (1 << 63) - 1, -(1 << 63)), rng.choice((1, 3))):
            row = "(SELECT {}(rowid) FROM samples)".format(rng.choice(("min", "max")))
            connection.execute(f"UPDATE OR IGNORE samples SET rowid = ? WHERE rowid = {row}", (rowid,))
    if how == 2:
        connection.execute("DELETE FROM rollup")


def _spelling(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Names of columns in other letters, which are the same for SQLite."""
    table, names = _table(connection, rng)
    for name in rng.sample(names, rng.choice((1, 2))):
        for old, new in ((name, "renamed"), ("renamed", rng.choice((str.upper, str.title))(name))):
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


def _hole(folder: Path, rng: random.Random) -> None:
    """Something beside a file that says it is as long as a disk."""
    file = _some(folder, rng)
    where = file.with_name(file.name + rng.choice(("-wal", "-journal", "-shm")))
    if not where.exists():
        where.write_bytes(rng.choice((b"", bytes.fromhex("d9d505f920a163d7"), b"\x37\x7f\x06\x82")))
        os.truncate(where, rng.choice((1 << 28, 1 << 34, 1 << 40)))


def _folder(folder: Path, rng: random.Random) -> None:
    ranks = folder / "run.sql.d"
    ranks.mkdir(exist_ok=True)
    name = rng.choice(
        ("n9.9.r1.sql", "n0.0.r1.sql.live", "run", "merge.lock", "n0.0.r1.sql-journal", "n0.0.r1.sql-wal")
    )
    where = rng.choice((ranks / name, folder / "run.sql-journal", folder / "run.sql-wal", folder / "run.sql-shm"))
    if where.is_dir() and not where.is_symlink():
        where.rmdir()
    where.unlink(missing_ok=True)
    how = rng.randrange(6)
    if how == 0:
        os.mkfifo(where)
    elif how == 1:
        where.mkdir()
    elif how == 2:
        where.symlink_to(where.name)
    elif how == 3:
        where.symlink_to(rng.choice(("/dev/zero", "/dev/full", "/proc/self/mem", "..", str(folder / "run.sql"))))
    elif how == 4:
        where.write_bytes(rng.randbytes(rng.choice((0, 1, 100, 5000))))
    else:
        where.write_bytes(b"d9d505f920a163d7" + rng.randbytes(600))


CHANGES: tuple[Callable[[Path, random.Random], None], ...] = (
    _with_sql(_values),
    _with_sql(_untyped),
    _with_sql(_rows),
    _with_sql(_blobs),
    _with_sql(_schema),
    _with_sql(_runs),
    _with_sql(_rowids),
    _with_sql(_spelling),
    _bytes,
    _pages,
    _hole,
    _folder,
)
"""In the order in which several are done: SQLite would wait for a pipe that lies in its way."""


def corrupt(folder: Path, rng: random.Random) -> None:
    """Do one or several of these to the recording in the folder."""
    for number in sorted(rng.choices(range(len(CHANGES)), k=rng.choice((1, 1, 1, 2, 3)))):
        with suppress(FileNotFoundError, IndexError):
            CHANGES[number](folder, rng)
