"""Rollups and sketches that are missing or damaged are counted anew from the samples: what is read of an ended run is the
same as before the damage, and the reader says so."""

import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from bounding import bounds_hold
from merging import rollups_are_those_of_the_rows
from sample_rows import START, rows_of, write

from gssr.store.format.buckets import merge as merged
from gssr.store.format.layout import LAYOUT
from gssr.store.format.rollup import pack_sketch, unpack_sketch
from gssr.store.format.schema import SKETCHES as TABLES
from gssr.store.merge.repair import repair
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import ALL_TIME, Window

N_GPUS = 2
METRICS = ("sm_active", "flop_active", "pcie_tx_bytes")
WINDOWS = [ALL_TIME, Window(START + 33.3, START + 801.7)]
BLOCK = {block.metric.name: block.start for block in LAYOUT.blocks}

Damage = Callable[[sqlite3.Connection], None]


def change(table: str, where: str, new: Callable[[bytes], bytes]) -> Damage:
    """Change the blobs of a table's rows that are chosen."""

    def damage(connection: sqlite3.Connection) -> None:
        rows = connection.execute(f"SELECT rowid, data FROM {table} WHERE {where}").fetchall()
        assert rows
        connection.executemany(
            f"UPDATE {table} SET data = ? WHERE rowid = ?", [(new(data), rowid) for rowid, data in rows]
        )

    return damage


def run(statement: str) -> Damage:
    """Run a statement that changes something."""

    def damage(connection: sqlite3.Connection) -> None:
        assert connection.execute(statement).rowcount > 0

    return damage


def number(place: int, value: float | Callable[[float], float]) -> Callable[[bytes], bytes]:
    """A rollup with another number at a place of its vector."""

    def change_it(data: bytes) -> bytes:
        (old,) = struct.unpack_from("<d", data, 8 * place)
        made = bytearray(data)
        struct.pack_into("<d", made, 8 * place, value(old) if callable(value) else value)
        return bytes(made)

    return change_it


ONE = "gpu = 1 AND bucket = (SELECT bucket FROM rollup WHERE gpu = 1 ORDER BY bucket LIMIT 1 OFFSET 40)"
SOME = "gpu = 1 AND bucket % 1200 < 600"
LAST = "bucket = (SELECT max(bucket) FROM rollup WHERE level = 10)"
SM = BLOCK["sm_active"]

ROLLUPS: dict[str, Damage] = {
    "all are gone": run("DELETE FROM rollup"),
    "those of 60 s are gone": run("DELETE FROM rollup WHERE level = 60"),
    "some of 10 s are gone": run(f"DELETE FROM rollup WHERE level = 10 AND {SOME}"),
    "some of 600 s are gone": run(f"DELETE FROM rollup WHERE level = 600 AND {SOME}"),
    "one is gone": run(f"DELETE FROM rollup WHERE level = 10 AND {ONE}"),
    "the last is gone": run(f"DELETE FROM rollup WHERE level = 10 AND {LAST}"),
    "all of a GPU's stretch are gone": run(f"DELETE FROM rollup WHERE {SOME}"),
    "cut short": change("rollup", SOME, lambda data: data[:200]),
    "cut within a number": change("rollup", SOME, lambda data: data[:203]),
    "cut where a metric ends": change("rollup", ONE, lambda data: data[: 8 * SM]),
    "too long": change("rollup", SOME, lambda data: data + bytes(8)),
    "empty": change("rollup", SOME, lambda _: b""),
    "no rows": change("rollup", SOME, number(0, float("nan"))),
    "fewer rows": change("rollup", SOME, number(0, lambda n: n - 1)),
    "more rows": change("rollup", SOME, number(0, lambda n: n + 1)),
    "another time": change("rollup", SOME, number(3, lambda time: time + 1e4)),
    "a count is not known": change("rollup", SOME, number(SM, float("nan"))),
    "more values than rows": change("rollup", SOME, number(SM, 1e6)),
    "a sum that can't be": change("rollup", SOME, number(SM + 1, lambda total: total * 50)),
    "a sum is not known": change("rollup", SOME, number(SM + 1, float("nan"))),
    "a spread that can't be": change("rollup", SOME, number(SM + 2, -1.0)),
    "least above greatest": change("rollup", SOME, number(SM + 3, 3.0)),
    "another start": run(f"UPDATE rollup SET bucket = bucket + 1 WHERE level = 60 AND {SOME}"),
    "rowids of nothing": run(f"UPDATE rollup SET first_rowid = last_rowid WHERE {SOME}"),
    "rowids that are none": run(f"UPDATE rollup SET last_rowid = -7 WHERE {SOME}"),
}
SKETCHES: dict[str, Damage] = {"sketches are gone": run("DELETE FROM sketch")} | {
    f"{what} of {seconds} s": damage
    for seconds, table in TABLES.items()
    for what, damage in {
        "some sketches are gone": run(f"DELETE FROM {table} WHERE {SOME}"),
        "sketches cut short": change(table, SOME, lambda data: data[:-5]),
        "sketches too long": change(table, SOME, lambda data: data + b"\0"),
        "sketches with other counts": change(
            table, SOME, lambda data, s=seconds: pack_sketch([h + h for h in unpack_sketch(data, s)], s)
        ),
        "sketches with fewer bins": change(table, SOME, lambda _, s=seconds: pack_sketch([], s)),
        "sketches of what is too long": change(table, SOME, lambda _: zlib.compress(bytes(1 << 20))),
        "sketches that are none": change(table, SOME, lambda _: b"?"),
    }.items()
    if seconds == max(TABLES) or what in ("some sketches are gone", "sketches cut short", "sketches with other counts")
}


class Sound(NamedTuple):
    """A recording, and what is told of it."""

    path: Path
    told: list[np.ndarray]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """Of 20 minutes."""
    path = tmp_path_factory.mktemp("sound") / "a.sql"
    write(path, rows_of(2400, N_GPUS, hole=range(700, 720)), N_GPUS)
    reader = open_recording(path).runs[0]
    found = told(reader)
    assert reader.recounted is None and reader.damage is None
    return Sound(path, found)


def damaged(sound: Sound, folder: Path, *damages: Damage) -> Path:
    path = folder / "b.sql"
    shutil.copyfile(sound.path, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        for damage in damages:
            damage(connection)
    return path


def told(reader: RunReader, held: bool = False) -> list[np.ndarray]:
    """What rollups and sketches tell of each window, whose ends are ``held``."""
    found: list[np.ndarray] = []
    for window in WINDOWS:
        if held:
            reader.hold_ends(window)
        for level in (None, 10, 60, 600):
            buckets = reader.buckets(window, level=level)
            if level is None:
                found.append(merged(buckets.vectors, buckets.gpu, N_GPUS, reader.gap_seconds))
            else:
                order = np.lexsort((buckets.start, buckets.gpu))
                found += [buckets.gpu[order], buckets.start[order], buckets.vectors[order]]
        found += list(reader.histograms(METRICS, window).counts.values())
        rows = reader.samples(METRICS, None, window)
        found += [rows.gpu, rows.time, *rows.values.values()]
    return found


def same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*ROLLUPS, *SKETCHES])
def test_what_is_damaged_is_counted_anew(sound: Sound, tmp_path: Path, name: str) -> None:
    path = damaged(sound, tmp_path, (ROLLUPS | SKETCHES)[name])
    before = path.read_bytes()
    other = open_recording(path).runs[0]
    same(sound.told, told(other))
    same(sound.told, told(other, held=True))
    bounds_hold(other, *WINDOWS[1])
    assert other.damage is None and other.recounted is not None and "counted anew" in other.recounted
    assert path.read_bytes() == before, "a reader wrote to the file"
    n_repaired, n_thinned, _ = repair(str(path))
    assert n_repaired and not n_thinned
    again = open_recording(path).runs[0]
    same(sound.told, told(again))
    assert again.recounted is None
    rollups_are_those_of_the_rows(path)
    assert repair(str(path)) == (0, 0, ())


@pytest.mark.parametrize("time", ["NULL", "'soon'", "1e300"])
def test_rows_without_a_time_hide_no_others_from_being_counted_anew(sound: Sound, tmp_path: Path, time: str) -> None:
    path = tmp_path / "b.sql"
    shutil.copyfile(sound.path, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(samples)"))
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(f"UPDATE sqlite_master SET sql = 'CREATE TABLE samples ({names})' WHERE name = 'samples'")
        connection.execute("PRAGMA schema_version = 99")
    low, high = window = WINDOWS[1]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE samples SET time = {time} WHERE rowid % 7 = 0 OR rowid % 1024 < 3")
        connection.execute("DELETE FROM rollup WHERE rowid % 3 = 0")
        query = f"SELECT count(*) FROM samples WHERE time BETWEEN {low} AND {high}"
        (n,) = connection.execute(query).fetchone()
    reader = open_recording(path).runs[0]
    assert len(reader.samples(["sm_active"], None, window).time) == n
    assert reader.buckets(window).vectors[:, 0].sum() >= n


@pytest.mark.parametrize("shown", [-9, 0, 1])
def test_a_damaged_page_whose_rows_have_other_numbers_does_not_hold_up_a_search(
    sound: Sound, monkeypatch: pytest.MonkeyPatch, shown: int
) -> None:
    """SQLite then gives rows below those that it was asked for."""
    (part,) = open_recording(sound.path).runs[0]._parts
    monkeypatch.setattr(GuardedFile, "all", lambda *_: [(shown, 0.0)])
    assert part._first_from(1, 4000, START, at_least=True) == 4001
    assert list(part.shard.samples.stretches(1, 100, 40, 40)) == [(1, 40), (41, 80), (81, 100)]
