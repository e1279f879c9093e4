"""What samples of any type, under any rowid and in columns of any spelling say is what plain sqlite3 reads of them; where it
is no sample it is left out, and the reader says so."""

import math
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sample_rows import START, rows_of, write

from gssr.store.format.limits import LATEST
from gssr.store.format.sound_arrays import GREATEST
from gssr.store.merge import merge
from gssr.store.read.follow import Follower
from gssr.store.read.guarded_file import GuardedFile
from gssr.store.read.recording import RunReader, open_recording

NAMES = ("sm_active", "sm_clock", "power_usage", "energy", "clock_event_reasons")
N_ROWS, N_GPUS = 60, 2
ODD: tuple[object, ...] = (
    None, 0, 1, -1, 1.0, 0.5, -0.0, 1e300, math.inf, -math.inf, 2**53 + 1, 2**63 - 1, -(2**63), START, "1", "1_0", " 1",
    "1 ", "1e3", "0x10", "inf", "nan", "\u0663", "", "text", "1;", b"1", b"1_0", b"", b"\xff", "+1", "1.", ".5", "1__0",
)  # fmt: skip
ROWIDS = (-(2**63) + 1, -(2**40), -1, 0, 2**40, 2**55, 2**56 + 1, 2**62 - 1, 2**62, 2**62 + 7, 2**63 - 2, 2**63 - 1)


def change(path: Path, rng: random.Random) -> None:
    """Other types of columns, spellings of their names, values and rowids."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        columns = [(row[1], row[2]) for row in connection.execute("PRAGMA table_info(samples)")]
        typed = rng.random() < 0.5
        made = ", ".join(
            f"{name.upper() if rng.random() < 0.2 else name} {kind if typed else ''}" for name, kind in columns
        )
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'samples'", (f"CREATE TABLE samples ({made})",)
        )
        connection.execute("PRAGMA schema_version = 99")
    with closing(sqlite3.connect(path)) as connection, connection:
        for _ in range(rng.choice((0, 1, 3, 20))):
            name = rng.choice(("gpu", "time", *NAMES))
            row = rng.randrange(1, N_ROWS * N_GPUS + 1)
            connection.execute(f"UPDATE samples SET {name} = ? WHERE rowid = ?", (rng.choice(ODD), row))
        for rowid in rng.sample(ROWIDS, rng.choice((0, 0, 1, 4))):
            row = rng.randrange(1, N_ROWS * N_GPUS + 1)
            connection.execute("UPDATE OR IGNORE samples SET rowid = ? WHERE rowid = ?", (rowid, row))
        if rng.random() < 0.3:
            connection.execute("DELETE FROM rollup")


def number(value: object, greatest: float) -> bool:
    return isinstance(value, int | float) and -greatest <= value <= greatest


def by_sqlite(path: Path) -> tuple[np.ndarray, bool]:
    """(GPU, time, values) of the rows that are samples, NaN for NULL and for what is none; and whether that is all."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found = connection.execute(f"SELECT gpu, time, {', '.join(NAMES)} FROM samples ORDER BY rowid").fetchall()
    placed = [row for row in found if row[0] in range(N_GPUS) and number(row[1], LATEST) and row[1] >= 0]
    values = [
        [row[0], row[1], *(value if number(value, GREATEST) else math.nan for value in row[2:])] for row in placed
    ]
    whole = len(placed) == len(found) and all(
        value is None or number(value, GREATEST) for row in placed for value in row[2:]
    )
    return np.array(values, np.float64).reshape(len(placed), 2 + len(NAMES)), whole


def by_reader(run: RunReader) -> np.ndarray:
    samples = run.samples(NAMES)
    return np.column_stack([samples.gpu, samples.time, *(samples.values[name] for name in NAMES)])


@pytest.mark.parametrize("by_pages", [True, False])
def test_samples_are_what_sqlite_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_pages: bool) -> None:
    seed = tmp_path / "seed.sql"
    write(seed, rows_of(N_ROWS, N_GPUS), N_GPUS)
    if not by_pages:
        monkeypatch.setattr(GuardedFile, "pages", lambda _: None)
    path, n_whole = tmp_path / "a.sql", 0
    for number_ in range(60):
        rng = random.Random(number_)
        path.write_bytes(seed.read_bytes())
        change(path, rng)
        expected, whole = by_sqlite(path)
        with closing(open_recording(path)) as recording:
            (run,) = recording.runs
            np.testing.assert_array_equal(by_reader(run), expected, err_msg=f"seed {number_}")
            assert (run.damage is None) == whole, f"seed {number_}: {run.damage}"
        n_whole += whole
    assert 5 < n_whole < 55


def test_a_column_is_known_by_its_name_however_that_is_spelled(tmp_path: Path) -> None:
    path = tmp_path / "all.sql"
    rank = tmp_path / "all.sql.d" / "n0.0.r.sql"
    rank.parent.mkdir()
    write(rank, rows_of(N_ROWS, N_GPUS), N_GPUS)
    before = by_reader(open_recording(path).runs[0])
    with closing(sqlite3.connect(rank)) as connection, connection:
        for table, column in (("samples", "sm_clock"), ("samples", "time"), ("gpus", "uuid"), ("rollup", "bucket")):
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO {column.upper()}_")
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column.upper()}_ TO {column.upper()}")
    run = open_recording(path).runs[0]
    np.testing.assert_array_equal(by_reader(run), before)
    assert run.damage is None and run.gpus[0].uuid is not None and run.buckets().vectors[:, 0].sum() == len(before)
    follower = Follower(str(rank), ["sm_clock"])
    assert [row[2] for row in follower.poll().rows] == [None if math.isnan(row[3]) else row[3] for row in before]
    follower.close()
    assert merge(str(path)).n_files == 1
    np.testing.assert_array_equal(by_reader(open_recording(path).runs[0]), before)
