"""Rows decoded from pages are, bit by bit, what SQLite reads; whatever is in the file, nothing else happens than that pages
are refused."""

import random
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.store.disk import identity_of
from gssr.store.pages.file import NotPlainError, PageFile, in_parts
from gssr.store.pages.integers import integers
from gssr.store.pages.leaf_rows import NULL
from gssr.store.pages.sample_pages import PageTable, SampleQuery

PAGE_SIZES = [512, 1024, 4096, 8192, 65536]
SPECIAL = [
    0,
    1,
    -1,
    127,
    128,
    -129,
    2**15,
    2**23,
    -(2**23) - 1,
    2**31,
    2**47,
    -(2**47) - 1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
]
SPECIAL += [0.0, -0.0, 1.0, 5e-324, 1.7e308, float("inf"), float("-inf"), 0.1, -1234.5, 1e15, 2.0**53, 1e18, 1e19]


def values_of(kind: int, n: int, rng: random.Random) -> list:
    """A column: all alike, or of one length, or anything."""
    if kind == 0:
        return [rng.choice(SPECIAL)] * n
    if kind == 1:
        return [rng.randrange(2**20, 2**31) for _ in range(n)]
    if kind == 2:
        return [rng.random() if rng.random() < 0.9 else None for _ in range(n)]
    if kind == 3:
        return [None] * n
    return [rng.choice([None, *SPECIAL, rng.random(), rng.randrange(300)]) for _ in range(n)]


def create(path, columns: list[list], page_size: int = 4096, rowids: list[int] | None = None) -> None:
    """A table of samples with these columns after gpu and time, by turns REAL and INTEGER."""
    n = len(columns[0])
    names = [f"c{index} {('REAL', 'INTEGER')[index % 2]}" for index in range(len(columns))]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute(f"CREATE TABLE samples (gpu INTEGER NOT NULL, time REAL NOT NULL, {', '.join(names)})")
        rows = zip(
            rowids or range(1, n + 1),
            [index % 3 for index in range(n)],
            [1000 + index / 4 for index in range(n)],
            *columns,
            strict=True,
        )
        listed = ", ".join(["rowid", "gpu", "time", *(name.split()[0] for name in names)])
        marks = ", ".join("?" * (3 + len(columns)))
        connection.executemany(f"INSERT INTO samples ({listed}) VALUES ({marks})", rows)
        connection.commit()


def change(path, statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(statements)


def by_sqlite(path, wanted: SampleQuery) -> list[np.ndarray]:
    keys = "" if wanted.keys is None else f" AND gpu IN ({','.join(map(str, wanted.keys))})"
    query = (
        f"SELECT {', '.join(['gpu', 'time', *wanted.names])} FROM samples WHERE rowid BETWEEN ? AND ?"
        f" AND time >= ? AND time < ?{keys}"
    )
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute(query, (wanted.first, wanted.last, wanted.start, wanted.end)).fetchall()
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 2 + len(wanted.names))
    return list(table.T)


def by_pages(path, wanted: SampleQuery, most: int = 7) -> list[np.ndarray]:
    """Raises NotPlainError."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        file = PageFile(str(path), identity_of(str(path)))
        table = PageTable(file, connection)
        try:
            found = table.leaves(wanted.first, wanted.last)
            pieces = [table.read(part, wanted) for part in in_parts(found, most)]
        finally:
            file.close()
    gpu = np.concatenate([np.empty(0), *(piece[0] for piece in pieces)])
    time = np.concatenate([np.empty(0), *(piece[1] for piece in pieces)])
    return [gpu, time, *(np.concatenate([np.empty(0), *(p[2][name] for p in pieces)]) for name in wanted.names)]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.view(np.int64), right.view(np.int64))


ALL = (None, 0, 2**60, -np.inf, np.inf)


@settings(max_examples=25)
@given(
    st.integers(0, 2**31),
    st.lists(st.integers(0, 4), min_size=1, max_size=40),
    st.integers(1, 400),
    st.sampled_from(PAGE_SIZES),
    st.sampled_from(["plain", "vacuumed", "thinned out", "vacuumed after", "grown", "gaps"]),
)
def test_random_tables_are_read_as_sqlite_reads_them(tmp_path_factory, seed, kinds, n, page_size, history):
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("table") / "a.sql"
    # Rows of more than a small page holds go on on others: refused, see below.
    columns = [values_of(kind, n, rng) for kind in kinds]
    rowids = None
    if history == "gaps":  # the lengths of rowids change where these begin
        begin = rng.choice([120, 16_380, 2_097_100, 268_435_400, 2**35 - 9, 2**49 - 5])
        rowids = sorted(rng.sample(range(begin, begin + 2 * n + 20), n))
    create(path, columns, page_size, rowids)
    if history in ("thinned out", "vacuumed after"):
        change(path, f"DELETE FROM samples WHERE rowid % {rng.choice([2, 3, 7])} = 1 AND rowid > {rng.randrange(n)}")
    if history.startswith("vacuumed"):
        change(path, "VACUUM")
    if history == "grown":
        change(path, "ALTER TABLE samples ADD COLUMN late REAL")
        change(path, f"INSERT INTO samples (gpu, time, late) VALUES (0, {2000 + n}, 0.25), (1, {2000 + n}, NULL)")
    names = [f"c{index}" for index in range(len(kinds))] + ["late"] * (history == "grown")
    asked = rng.sample(names, rng.randrange(len(names) + 1))
    low, high = sorted(rng.choices(range((rowids or [1])[0], (rowids or [n])[-1] + 2), k=2))
    for wanted in (
        SampleQuery(names, *ALL),
        SampleQuery(asked, *ALL),
        SampleQuery(asked, [0, 2], low, high, -np.inf, np.inf),
        SampleQuery(asked, None, 0, 2**60, 1000 + n / 16, 1000 + n / 5),
        SampleQuery([], [1], low, high, 1000.1, 1000 + n / 8),
        SampleQuery(names, None, high + 1, low, -np.inf, np.inf),
    ):
        same(by_pages(path, wanted, rng.choice([1, 2, 50])), by_sqlite(path, wanted))


def test_as_many_columns_as_a_head_of_one_byte_counts_are_read_and_no_more(tmp_path):
    for n_columns in (30, 31, 61, 124):
        path = tmp_path / f"{n_columns}.sql"
        create(path, [values_of(4, 50, random.Random(index)) for index in range(n_columns)])
        wanted = SampleQuery([f"c{index}" for index in range(n_columns)], *ALL)
        same(by_pages(path, wanted), by_sqlite(path, wanted))
    create(tmp_path / "wide.sql", [[1.5] * 50] * 125)
    with pytest.raises(NotPlainError):
        by_pages(tmp_path / "wide.sql", SampleQuery(["c0"], *ALL))


@pytest.mark.parametrize(
    "statements",
    [
        ["PRAGMA journal_mode=WAL"],
        ["PRAGMA auto_vacuum=FULL; VACUUM"],
        ["PRAGMA encoding='UTF-16'; CREATE TABLE samples (gpu, time, c0); INSERT INTO samples VALUES (1, 2, 3)"],
        ["CREATE TABLE samples (gpu INTEGER PRIMARY KEY, time, c0)", "INSERT INTO samples VALUES (1, 2, 3)"],
        [
            "CREATE TABLE samples (gpu, time, c0, PRIMARY KEY (gpu)) WITHOUT ROWID",
            "INSERT INTO samples VALUES (1, 2, 3)",
        ],
        ["CREATE TABLE samples (time, gpu, c0)", "INSERT INTO samples VALUES (1, 2, 3)"],
        ["CREATE VIEW samples AS SELECT 1 AS gpu, 2 AS time, 3 AS c0"],
        ["UPDATE samples SET c0 = 'text' WHERE rowid = 30"],
        ["UPDATE samples SET c0 = zeroblob(5000) WHERE rowid = 30"],
        ["UPDATE samples SET gpu = 0.5 WHERE rowid = 30"],
        ["UPDATE samples SET time = 9007199254740993 WHERE rowid = 30"],
        ["UPDATE samples SET rowid = -30 WHERE rowid = 30"],
        ["ALTER TABLE samples ADD COLUMN c1 DEFAULT 3"],
        ["DROP TABLE samples"],
    ],
    ids=lambda statements: statements[0],
)
def test_what_is_out_of_the_ordinary_is_left_to_sqlite(tmp_path, statements):
    path = tmp_path / "a.sql"
    if not any("CREATE" in statement for statement in statements):
        create(path, [[index / 2 for index in range(60)]])
        same(by_pages(path, SampleQuery(["c0"], *ALL)), by_sqlite(path, SampleQuery(["c0"], *ALL)))
    for statement in statements:
        change(path, statement)
    with pytest.raises(NotPlainError):
        by_pages(path, SampleQuery(["c0"], *ALL))


def test_rows_of_more_than_a_page_are_left_to_sqlite(tmp_path):
    create(tmp_path / "a.sql", [[index + 0.5 for index in range(20)]] * 70, page_size=512)
    with pytest.raises(NotPlainError):
        by_pages(tmp_path / "a.sql", SampleQuery(["c0"], *ALL))


def test_an_empty_table_has_no_rows(tmp_path):
    create(tmp_path / "a.sql", [[1.5]])
    change(tmp_path / "a.sql", "DELETE FROM samples")
    assert [len(column) for column in by_pages(tmp_path / "a.sql", SampleQuery(["c0"], *ALL))] == [0, 0, 0]


def test_a_file_that_is_being_written_or_was_replaced_is_left_to_sqlite(tmp_path):
    path, wanted = tmp_path / "a.sql", SampleQuery(["c0"], *ALL)
    create(path, [[index / 2 for index in range(600)]])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        file = PageFile(str(path), identity_of(str(path)))
        table = PageTable(file, connection)
        found = table.leaves(0, 2**60)
        assert len(table.read(found, wanted)[0]) == 600
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE samples SET c0 = 1")
        with pytest.raises(NotPlainError):
            table.read(found, wanted)  # its journal is there
        connection.execute("COMMIT")
        with pytest.raises(NotPlainError):
            table.read(found, wanted)  # it says that it was changed
        file.close()
        file = PageFile(str(path), identity_of(str(path)))
        table = PageTable(file, connection)
        with path.open("r+b") as stream:
            stream.truncate(8192)
        with pytest.raises(NotPlainError):
            table.read(found, wanted)
        file.close()
    create(tmp_path / "b.sql", [[1.0]])
    old = identity_of(str(tmp_path / "b.sql"))
    create(tmp_path / "c.sql", [[1.0]])
    PageFile(str(tmp_path / "b.sql"), old).close()
    (tmp_path / "c.sql").rename(tmp_path / "b.sql")
    with pytest.raises(NotPlainError):
        PageFile(str(tmp_path / "b.sql"), old)


def test_damage_is_refused_or_read_as_sqlite_reads_it(tmp_path):
    original, path = tmp_path / "good.sql", tmp_path / "bad.sql"
    rng = random.Random(7)
    create(original, [values_of(4, 900, rng) for _ in range(5)], page_size=512)
    content, wanted = original.read_bytes(), SampleQuery([f"c{index}" for index in range(5)], *ALL)
    n_pages, refused, read = len(content) // 512, 0, 0
    for number in range(400):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 2, 40])):
            page = rng.randrange(1, n_pages)
            where = number % 4
            if where == 0:  # anywhere
                damaged[page * 512 + rng.randrange(512)] = rng.randrange(256)
            elif where == 1:  # in the head and the pointers to the cells
                damaged[page * 512 + rng.randrange(24)] = rng.choice([0, 1, 5, 13, 127, 128, 255, rng.randrange(256)])
            elif where == 2:  # another page's content
                other = rng.randrange(n_pages)
                damaged[page * 512 : (page + 1) * 512] = content[other * 512 : (other + 1) * 512]
            else:  # where cells begin, and interior pages' children are
                start = page * 512 + int.from_bytes(content[page * 512 + 8 : page * 512 + 10], "big") % 512
                damaged[min(start + rng.randrange(6), len(content) - 1)] = rng.choice(
                    [0, 2, 128, 255, rng.randrange(256)]
                )
        path.write_bytes(damaged)
        try:
            found = by_pages(path, wanted, rng.choice([1, 5, 100]))
            read += 1
        except NotPlainError:
            refused += 1
            continue
        except sqlite3.DatabaseError:
            continue  # of the schema
        try:
            expected = by_sqlite(path, wanted)
        except (sqlite3.DatabaseError, OverflowError):
            continue  # of what pages don't need: free space
        same(found, expected)
    assert refused > 50 and read > 50


LENGTHS = [0, 1, -1, 127, -129, 2**15, 2**23, 2**31, -(2**47), 2**47, 2**53 + 1, 2**63 - 1, 281527925607508]


@settings(max_examples=20)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 500), st.sampled_from(PAGE_SIZES))
def test_whole_numbers_are_read_to_the_last_digit_whatever_stands_behind_them(tmp_path_factory, seed, k, n, page_size):
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("whole") / "a.sqlite"
    kinds = [rng.choice([[None, *LENGTHS], LENGTHS[5:8], [None], [1], LENGTHS]) for _ in range(k)]
    names = [f"c{index}" for index in range(k)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute(f"CREATE TABLE t ({', '.join(f'{name} INTEGER' for name in names)}, told TEXT, x REAL)")
        rows = [[*map(rng.choice, kinds), "é" * rng.choice([0, 1, 20, 80]), rng.random()] for _ in range(n)]
        connection.executemany(f"INSERT INTO t VALUES ({','.join('?' * (k + 2))})", rows)
        connection.commit()
        asked = rng.sample(names, rng.randrange(1, k + 1))
        file = PageFile(str(path), identity_of(str(path)))
        parts = list(integers(file, connection, "t", asked))
        file.close()
    assert parts[-1][0] == n
    for place, name in enumerate(asked):
        expected = [NULL if row[names.index(name)] is None else row[names.index(name)] for row in rows]
        assert np.concatenate([part[1][place] for part in parts]).tolist() == expected


@pytest.mark.parametrize("value", ["0.5", "'text'", "zeroblob(9)", "1e300"])
def test_what_is_no_whole_number_is_left_to_sqlite(tmp_path, value):
    path = str(tmp_path / "a.sqlite")
    change(path, "CREATE TABLE t (a INTEGER, b INTEGER)")
    change(path, f"INSERT INTO t VALUES (1, 2), (3, {value})")
    with closing(sqlite3.connect(path)) as connection, closing(PageFile(path, identity_of(path))) as file:
        assert [part[1][0].tolist() for part in integers(file, connection, "t", ["a"])] == [[1, 3]]
        with pytest.raises(NotPlainError):
            list(integers(file, connection, "t", ["b"]))
