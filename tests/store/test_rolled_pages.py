"""Rollups of recordings are the same whether they come from the file's pages or through SQLite."""

import math
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from merging import json_of, record
from sample_rows import START, rows_of, write

from gssr.metrics import NAMES
from gssr.store.disk import identity_of
from gssr.store.format.buckets import Buckets
from gssr.store.format.layout import part_of
from gssr.store.format.schema import LEVELS
from gssr.store.merge import merge
from gssr.store.pages import rollup_pages as vectors
from gssr.store.pages.file import HIGHEST, LOWEST, NotPlainError, PageFile, leaves
from gssr.store.read.recording_file import RecordingFile
from gssr.store.read.rollups import RollupRows

WINDOWS = [(-math.inf, math.inf), (START + 7, START + 66.0), (START + 30, math.inf), (START + 1e6, math.inf)]


@pytest.fixture(autouse=True)
def in_small_pieces(monkeypatch):
    monkeypatch.setattr(vectors, "_AT_ONCE", 7)


def refuse(*_):
    raise NotPlainError("it is read through SQLite")


def rollups(path: Path, monkeypatch, pages: bool, keys: list[list[int] | None]) -> tuple[list[list], bool]:
    """Everything in some windows, of some GPUs, whole and in part; and whether something was damaged."""
    with monkeypatch.context() as patch:
        if not pages:
            patch.setattr(RollupRows, "_open", refuse)
        shard = RecordingFile(str(path))
        layouts = [
            shard.file.layout,
            part_of(shard.file.layout, ["flop_active", "energy", "temperature"]),
            part_of(shard.file.layout, []),
        ]
        read = [
            shard.rollups.rollups(level, own, *window, layout)
            for level in LEVELS
            for window in WINDOWS
            for own in keys
            for layout in layouts
        ]
        found = [columns_of(buckets) for buckets in read]
        assert shard.rollups._may_be_plain is pages
        damaged = shard.file.damage is not None
        shard.close()
    return found, damaged


def columns_of(buckets: Buckets) -> list[np.ndarray]:
    return [buckets.gpu, buckets.start, buckets.seconds, buckets.vectors, buckets.rowids]


def same_both_ways(path: Path, monkeypatch, keys=(None, [0], [1, 2])) -> int:
    """How many rollups there are."""
    one, other = (rollups(path, monkeypatch, pages, list(keys)) for pages in (True, False))
    assert one[1] == other[1]
    for left, right in zip(one[0], other[0], strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_array_equal(a, b)
    return sum(len(columns[0]) for columns in one[0])


def test_of_one_run_and_of_runs_one_after_the_other(tmp_path, monkeypatch):
    write(tmp_path / "a.sql", rows_of(300, 3, 1), 3, "one")
    assert same_both_ways(tmp_path / "a.sql", monkeypatch) > 400
    write(tmp_path / "a.sql", rows_of(90, 2, 2), 2, "two", append=True)
    assert same_both_ways(tmp_path / "a.sql", monkeypatch, (None, [0, 1, 2], [3, 4])) > 600


@pytest.mark.parametrize("large", [False, True])
def test_of_ranks_merged_into_pages_of_any_size(tmp_path, monkeypatch, large):
    if large:
        monkeypatch.setattr("gssr.store.write.create._MANY_BYTES", 0)
    for rank in range(4):
        record(tmp_path / "a.sql", rank, n_ticks=200)
    merge(str(tmp_path / "a.sql"))
    with closing(sqlite3.connect(tmp_path / "a.sql")) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (16384 if large else 4096,)
        keys = [key for (key,) in connection.execute("SELECT gpu FROM gpus")]
    assert same_both_ways(tmp_path / "a.sql", monkeypatch, (None, keys[:1], keys[2:5])) > 1000


def test_a_run_that_goes_on_is_read_through_sqlite(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(300, 3, 1), 3, finish=False)
    shard = RecordingFile(str(tmp_path / "a.sql"))
    assert len(shard.rollups.rollups(10, None, -math.inf, math.inf, shard.file.layout)) > 30
    assert not shard.rollups._may_be_plain
    shard.close()
    del writer


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rollup SET gpu = 'one' WHERE rowid = 9",
        "UPDATE rollup SET bucket = bucket + 0.5 WHERE rowid = 9",
        "UPDATE rollup SET first_rowid = 1e300 WHERE rowid = 9",
        "UPDATE rollup SET data = substr(data, 1, 800) WHERE rowid = 9",
        "UPDATE rollup SET data = 'a text' WHERE rowid = 9",
        "UPDATE rollup SET data = zeroblob(10000) WHERE rowid = 9",
        "DROP INDEX rollup_level_bucket_gpu",
        "ALTER TABLE rollup ADD COLUMN more INTEGER",
    ],
)
def test_what_no_writer_writes_reads_as_through_sqlite(tmp_path, monkeypatch, change):
    path = tmp_path / "a.sql"
    write(path, rows_of(300, 3, 1), 3)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    found = json_of(path, exact=False)
    monkeypatch.setattr(RollupRows, "_open", refuse)
    assert json_of(path, exact=False) == found


def test_damage_is_refused_or_read_as_sqlite_reads_it(tmp_path, monkeypatch):
    good, path = tmp_path / "good.sql", tmp_path / "bad.sql"
    write(good, rows_of(300, 3, 1), 3, measured=NAMES[:4])
    content = good.read_bytes()
    with closing(sqlite3.connect(good)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rollup'").fetchone()
    file = PageFile(str(good), identity_of(str(good)))
    places = [(page - 1) * 4096 for page in leaves(file, root, LOWEST, HIGHEST).page.tolist()]
    file.close()
    rng, n_same = random.Random(3), 0
    for _ in range(90):
        bad = bytearray(content)
        page = rng.choice(places)
        for _ in range(rng.choice([1, 1, 3])):
            head = rng.random() < 0.7  # where a page says what is on it
            bad[page + (rng.randrange(40) if head else rng.randrange(4096))] = rng.choice(
                [0, 1, 127, 128, 255, rng.randrange(256)]
            )
        path.write_bytes(bad)
        shard, other = RecordingFile(str(path)), None
        one = shard.rollups.rollups(10, None, -math.inf, math.inf, shard.file.layout)
        with monkeypatch.context() as patch:
            patch.setattr(RollupRows, "_open", refuse)
            other = RecordingFile(str(path))
            expected = other.rollups.rollups(10, None, -math.inf, math.inf, other.file.layout)
        if other.file.damage is None or "values" in other.file.damage:
            n_same += 1
            for a, b in zip(columns_of(one), columns_of(expected), strict=True):
                np.testing.assert_array_equal(a, b)
            assert (shard.file.damage is None) == (other.file.damage is None)
        shard.close()
        other.close()
    assert n_same > 20


@pytest.mark.parametrize("level", LEVELS)
def test_a_file_written_meanwhile_is_read_through_sqlite(tmp_path, level):
    path = tmp_path / "a.sql"
    write(path, rows_of(300, 3, 1), 3)
    shard = RecordingFile(str(path))
    before = shard.rollups.rollups(level, None, -math.inf, math.inf, shard.file.layout)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE runs SET label = 'changed'")
        connection.commit()
    after = shard.rollups.rollups(level, None, -math.inf, math.inf, shard.file.layout)
    assert not shard.rollups._may_be_plain
    for a, b in zip(columns_of(before), columns_of(after), strict=True):
        np.testing.assert_array_equal(a, b)
    shard.close()


def test_files_that_are_open_together_keep_no_more_than_one(tmp_path, monkeypatch):
    before, paths = RollupRows.n_kept, [tmp_path / f"{name}.sql" for name in "ab"]
    for path in paths:
        write(path, rows_of(1300, 3, 1), 3)
    shards = [RecordingFile(str(path)) for path in paths]

    def read(shard: RecordingFile) -> list:
        return columns_of(shard.rollups.rollups(LEVELS[-1], [1, 2], START, math.inf, shard.file.layout))

    alone = read(shards[0])
    n = RollupRows.n_kept - before
    assert n >= 6  # of all GPUs
    monkeypatch.setattr("gssr.store.read.rollups._MOST_KEPT", RollupRows.n_kept)
    for a, b, c in zip(alone, read(shards[1]), read(shards[0]), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert RollupRows.n_kept - before == n
    for shard in shards:
        shard.close()
    assert RollupRows.n_kept == before
