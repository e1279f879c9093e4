"""Whatever a recording holds, analyzing it ends with a sentence, or with numbers that are finite and fit together: the
columns hold anything, the times are of any kind, and bytes of the file are changed."""

import sqlite3
import struct
import zlib
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gssr.metrics import NAMES
from gssr.store.format.layout import layout_of
from gssr.store.format.schema import APPLICATION_ID, LEVELS, SCHEMA_VERSION, TABLES
from tests.fuzz.readers.recordings import analyzed
from tests.fuzz.readers.seeds import START, record, workshop

RUNS, NODES = ("r1", "r2", "r3"), ("n1", "", "n\x1b[2J")
QUICK = settings(
    max_examples=15,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ODD = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from((0, 1, -1, 1 << 24, 1 << 53, 1e30, -1e30, 1.1e30, 1e308, -1e308, 5e-324, -0.0)),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=40),
)
WIDTH = layout_of(NAMES).width


def usually(sound: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Something sound three times out of four."""
    return st.integers(0, 3).flatmap(lambda chance: ODD if chance == 0 else sound)


TIMES = st.one_of(
    st.integers(0, 2000).map(lambda step: START + step / 2),
    st.just(START),
    st.sampled_from((0.0, -5.0, 1e11, 9e10, START - 1e9, START * 2)),
)
KEYS = st.integers(0, 3)
RATIO = st.floats(0, 1)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "run_id": st.sampled_from(RUNS),
    "node": st.sampled_from(NODES),
    "gpu": KEYS,
    "rank": KEYS,
    "time": TIMES,
    "started_at": TIMES,
    "ended_at": TIMES,
    "end_time": TIMES,
    "sampling_ms": st.sampled_from((500.0, 1e-3, 1e10)),
    "state": st.sampled_from(("running", "completed", "lost", "?")),
    "command": st.sampled_from(('["a", "b"]', "{}", "[" * 3000)),
    "kind": st.sampled_from(("gap", "mark", "start")),
    "level": st.sampled_from(LEVELS),
    "bucket": st.integers(0, 4).map(lambda number: int(START // 600 + number) * 600),
    "first_rowid": st.integers(1, 60),
    "last_rowid": st.integers(1, 60),
    "clock_event_reasons": st.integers(0, 1 << 9),
}
VECTORS = st.lists(st.floats() | st.sampled_from((0.0, 1.0, 20.0, START)), min_size=12, max_size=12).map(
    lambda numbers: struct.pack(f"<{WIDTH}d", *[numbers[place % len(numbers)] for place in range(WIDTH)])
)
BINARY = st.binary(max_size=300)
BLOBS = {"rollup": VECTORS, "sketch": BINARY, "sketch_minute": BINARY | BINARY.map(zlib.compress)}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of every table."""
    made = {}
    for table, columns in TABLES.items():
        own = [usually(BLOBS[table] if c.name == "data" else COLUMNS.get(c.name, RATIO)) for c in columns]
        most = 60 if table == "samples" else 6
        if table == "samples" and draw(st.booleans()):  # many that are much alike
            row = draw(st.tuples(*own))
            n, step = draw(st.integers(1, 400)), draw(st.sampled_from((0.0, 0.5, -0.5, 7.0, 1e6)))
            made[table] = [(draw(KEYS), START + step * tick, *row[2:]) for tick in range(min(n, 30))]
            made[table] += [(tick % 4, START + step * tick, *row[2:]) for tick in range(n)]
        else:
            made[table] = draw(st.lists(st.tuples(*own), max_size=most))
    made["runs"].insert(0, ("r1", *(None,) * (len(TABLES["runs"]) - 1)))
    if draw(st.integers(0, 3)):
        nothing = (None,) * (len(TABLES["gpus"]) - 6)
        made["gpus"] += [(key, "r1", "n1", 0, key, f"GPU-{key}", *nothing) for key in range(4)]
    return made


def write(path: Path, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {table} ({', '.join(column.name for column in columns)})")
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows[table])


@QUICK
@given(tables())
def test_columns_may_hold_anything(tmp_path: Path, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    write(tmp_path / "a.sql", rows)
    analyzed(tmp_path / "a.sql")


@cache
def sound() -> bytes:
    path = workshop() / "sound.sql"
    record(path, "r1", n_ticks=80)
    return path.read_bytes()


EDITS = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=16), st.integers(0, 1)), min_size=1, max_size=12
)


@QUICK
@given(EDITS, st.none() | st.integers(0, 1 << 20))
def test_bytes_may_be_changed_and_the_end_cut_off(
    tmp_path: Path, edits: list[tuple[int, bytes, int]], end: int | None
) -> None:
    data = bytearray(sound())
    for at, new, in_a_head in edits:
        place = at % len(data)
        if in_a_head:
            place = place // 4096 * 4096 + place % 64
        data[place : place + len(new)] = new[: len(data) - place]
    (tmp_path / "a.sql").write_bytes(data if end is None else data[: end % len(data)])
    analyzed(tmp_path / "a.sql")


@pytest.mark.parametrize("n_columns", [150, 1900])
def test_very_many_columns_are_read_or_refused(tmp_path: Path, n_columns: int) -> None:
    path = tmp_path / "a.sql"
    path.write_bytes(sound())
    with closing(sqlite3.connect(path)) as connection, connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(samples)")]
        more = ", ".join(f"extra{number}" for number in range(n_columns))
        connection.execute("DROP VIEW gpu_samples")
        connection.execute(f"CREATE TABLE wide ({', '.join(names)}, {more})")
        connection.execute(f"INSERT INTO wide ({', '.join(names)}) SELECT * FROM samples")
        connection.execute("DROP TABLE samples")
        connection.execute("ALTER TABLE wide RENAME TO samples")
    analyzed(path)
