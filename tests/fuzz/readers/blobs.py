"""Hostile bytes: of files, and of what is packed into the columns of a recording, given to those who unpack them."""

import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gssr.metrics import NAMES
from gssr.model.live.following import ManyFiles
from gssr.store.disk import identity_of
from gssr.store.format.layout import LAYOUT
from gssr.store.format.schema import LEVELS, LIVE_SUFFIX, SKETCHES, TABLES
from gssr.store.live_block.read import BlockReader
from gssr.store.live_block.write import CHECKED_FROM, LiveBlock
from gssr.store.pages.file import NotPlainError, PageFile, in_parts
from gssr.store.pages.rollup_pages import PageRollups
from gssr.store.pages.sample_pages import PageTable, SampleQuery
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import Window
from tests.fuzz.readers import REAL, Parser, damage
from tests.fuzz.readers.recordings import analyzed
from tests.fuzz.readers.seeds import START, record, workshop

Array = NDArray[np.float64]

_HEAD = 100
"""Bytes of the head of a database."""
_N_VECTORS, _WIDTH = 30, 10


@cache
def _plain() -> Path:
    """A small finished recording of small pages, which a rollup just fits onto."""
    path = workshop() / "plain.sql"
    record(path, "r1", n_ticks=12)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size=2048")
        connection.execute("VACUUM")
    return path


@cache
def _tables() -> Path:
    """A file of nothing but ``samples``, with values of every kind and length, and ``rollup`` with short vectors."""
    path = workshop() / "tables.sql"
    rng = random.Random(1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("CREATE TABLE samples (gpu INTEGER NOT NULL, time REAL NOT NULL, a REAL, b INTEGER, c REAL)")
        connection.execute(f"CREATE TABLE rollup ({', '.join(column.name for column in TABLES['rollup'])})")
        for row in range(200):
            values = [rng.choice((None, 0, 1, rng.random(), rng.randrange(1 << rng.randrange(60)))) for _ in "abc"]
            connection.execute("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", (row % 3, 1000 + row / 4, *values))
        for _ in range(_N_VECTORS):
            whole = [rng.randrange(1 << rng.randrange(1, 40)) for _ in range(5)]
            whole[1] = LEVELS[0]
            connection.execute("INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?)", (*whole, rng.randbytes(8 * _WIDTH)))
    return path


def _or_sound(sound: Callable[[], bytes]) -> Callable[[random.Random], bytes]:
    """Mostly damaged."""
    return lambda rng: damage(sound(), rng) if rng.random() < 0.9 else sound()


def _pages(folder: Path, data: bytes) -> None:
    """What is decoded must be what SQLite reads, where that reads anything."""
    path = folder / "a.sql"
    path.write_bytes(data)
    with closing(sqlite3.connect(f"file:{_tables()}?mode=ro", uri=True)) as sound, suppress(NotPlainError):
        file = PageFile(str(path), identity_of(str(path)))
        try:
            for decode, query in ((_samples, _SAMPLES), (_rollups, _ROLLUPS)):
                with suppress(NotPlainError):
                    _compare(decode(file, sound), path, sound, query)
        finally:
            file.close()


_SAMPLES = "SELECT gpu, time, a, b, c FROM samples WHERE rowid >= 0"
_ROLLUPS = (
    f"SELECT gpu, level, bucket, first_rowid, last_rowid, data FROM rollup WHERE rowid BETWEEN 1 AND {_N_VECTORS}"
)


def _samples(file: PageFile, sound: sqlite3.Connection) -> Array:
    table, wanted = PageTable(file, sound), SampleQuery(("a", "b", "c"), None, 0, 1 << 60, -np.inf, np.inf)
    pieces = [table.read(part, wanted) for part in in_parts(table.leaves(wanted.first, wanted.last), 5)]
    read = [np.array([gpu, time, *values.values()], np.float64) for gpu, time, values in pieces]
    return np.concatenate([np.empty((5, 0)), *read], axis=1).T


def _rollups(file: PageFile, sound: sqlite3.Connection) -> Array:
    found = PageRollups(file, sound, _WIDTH).read(np.arange(1, _N_VECTORS + 1), LEVELS[0], LAYOUT, None)
    assert found.rowids is not None
    return np.column_stack([found.gpu, found.seconds, found.start, found.rowids, found.vectors])


def _compare(decoded: Array, path: Path, sound: sqlite3.Connection, query: str) -> None:
    schema = "SELECT name, rootpage, sql FROM sqlite_master ORDER BY name"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            if connection.execute(schema).fetchall() != sound.execute(schema).fetchall():
                return  # other tables, or none
            rows = connection.execute(query).fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return
    if rows and isinstance(rows[0][-1], bytes):
        rows = [(*row[:-1], *struct.unpack(f"<{_WIDTH}d", row[-1])) for row in rows]
    if not np.array_equal(np.array(rows, np.float64).reshape(decoded.shape), decoded, equal_nan=True):
        raise AssertionError("rows that SQLite reads otherwise")


def _heads(folder: Path, data: bytes) -> None:
    sound = _plain().read_bytes()
    (folder / "run.sql").write_bytes(data[:_HEAD] + sound[len(data[:_HEAD]) :])
    _look(folder / "run.sql")


def _files(folder: Path, data: bytes) -> None:
    (folder / "run.sql").write_bytes(data)
    _look(folder / "run.sql")
    analyzed(folder / "run.sql")


def _look(path: Path) -> None:
    with suppress(RecordingError), closing(open_recording(path)) as recording:
        for run in recording.runs[:3]:
            run.samples(["sm_active"])
            run.buckets(Window(START, START + 60))
            _ = run.events, run.processes, run.tails, run.last_time, run.damage


def _in_place_of(table: str) -> Callable[[Path, bytes], None]:
    """The blob in every other row of a table."""

    def parse(folder: Path, data: bytes) -> None:
        path = folder / "run.sql"
        shutil.copyfile(_plain(), path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"UPDATE {table} SET data = ? WHERE rowid % 2 = 1", (data,))
        with suppress(RecordingError), closing(open_recording(path)) as recording:
            (run,) = recording.runs
            if table in SKETCHES.values():
                run.histograms(["sm_active", "energy"], Window(START // 60 * 60, START // 60 * 60 + 60))
                run.histograms(["sm_active", "energy"])
            for level in (None, 10) if table == "rollup" else ():
                if not np.isfinite(run.buckets(level=level).vectors[:, :4]).all():
                    raise AssertionError("a rollup without end")

    return parse


def _blob_of(table: str) -> Callable[[], bytes]:
    @cache
    def sound() -> bytes:
        with closing(sqlite3.connect(_plain())) as connection:
            (data,) = connection.execute(f"SELECT data FROM {table} ORDER BY rowid DESC LIMIT 1").fetchone()
        return bytes(data)

    return sound


@cache
def _block() -> bytes:
    path = str(workshop() / "rank.sql")
    block = LiveBlock(path)
    for gpu in range(3):
        block.add(gpu, (gpu, 1.7e9, *(0.5 for _ in NAMES)))
    block.publish(1.7e9, 10)
    return Path(path + LIVE_SUFFIX).read_bytes()


def _blocks(folder: Path, data: bytes) -> None:
    """As it is, and with a checksum that fits: what comes from somebody who knows how."""
    path = str(folder / "rank.sql")
    checksum = crc32(data[CHECKED_FROM : int.from_bytes(data[8:12], "little")])
    for block in (data, data[:12] + checksum.to_bytes(4, "little") + data[CHECKED_FROM:]):
        Path(path + LIVE_SUFFIX).write_bytes(block)
        found = BlockReader([path]).look()
        if len(found.gpus) != len(found.owner) or len(found.file) != len(found.rowid):
            raise AssertionError("a block's GPUs don't belong to it")
        ManyFiles([(path, 0, {0: 0, 1: 1})] * 2, np.zeros(2), 1.0).others()


def _drawn_block(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return damage(_block(), rng)
    changed = bytearray(_block())
    for _ in range(rng.choice((1, 3))):
        at = rng.randrange(CHECKED_FROM, len(changed) - 8)
        changed[at : at + 8] = rng.choice((struct.pack("<d", rng.choice(REAL)), rng.randbytes(8), b"\xff" * 8))
    if rng.random() < 0.3:
        del changed[rng.randrange(CHECKED_FROM, len(changed)) :]
        changed[8:12] = rng.choice((len(changed), 0, 1, 0xFFFFFFFF)).to_bytes(4, "little")
    return bytes(changed)


READERS = (
    Parser("files", _or_sound(lambda: _plain().read_bytes()), _files),
    Parser("heads", _or_sound(lambda: _plain().read_bytes()[:_HEAD]), _heads),
    Parser("pages", _or_sound(lambda: _tables().read_bytes()), _pages),
    Parser("rollups", _or_sound(_blob_of("rollup")), _in_place_of("rollup")),
    Parser("sketches", _or_sound(_blob_of("sketch")), _in_place_of("sketch")),
    Parser("packed", _or_sound(_blob_of("sketch_minute")), _in_place_of("sketch_minute")),
    Parser("live-blocks", _drawn_block, _blocks),
)
