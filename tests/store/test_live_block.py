"""A live block counts exactly what is committed, stays small, and goes when its recording does."""

import os
import sqlite3
from pathlib import Path

import pytest

from gssr.backends.base import make_row
from gssr.metrics import NAMES
from gssr.store.live_block.read import BlockReader, Blocks
from gssr.store.live_block.write import COUNTED, MANY_FILES
from gssr.store.merge import merge
from gssr.store.write.writer import Writer

T0 = 1_700_000_000.0


def writer_of(folder: Path, n_gpus: int = 2, world_size: int | None = 1000) -> Writer:
    (folder / "a.sql.d").mkdir(exist_ok=True)
    writer = Writer(str(folder / "a.sql.d" / "n.3.r.sql"))
    run = {"run_id": "r", "sampling_ms": 500.0, "state": "running", "world_size": world_size}
    writer.begin(run, {"rank": 3, "node": "n", "hostname": "elsewhere", "state": "running"})
    writer.add_gpus([{"device_index": gpu, "uuid": f"u{gpu}"} for gpu in range(n_gpus)], NAMES, 0.5)
    return writer


def tick(writer: Writer, number: int, n_gpus: int = 2, value: float | None = 0.5) -> None:
    values = dict.fromkeys(NAMES, value) | {"clock_event_reasons": 4}
    writer.add([make_row(gpu, T0 + number / 2, values) for gpu in range(n_gpus)])
    writer.tick(T0 + number / 2)


def look(writer: Writer) -> Blocks:
    return BlockReader([writer.path]).look()


def committed(writer: Writer) -> int:
    with sqlite3.connect(f"file:{writer.path}?mode=ro", uri=True) as connection:
        return int(connection.execute("SELECT max(rowid) FROM samples").fetchone()[0] or 0)


def test_a_block_counts_what_is_committed_and_no_more(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for number in range(40):
        tick(writer, number, value=None if number % 4 == 3 else 0.25)
        blocks = look(writer)
        if len(blocks.gpus):
            assert blocks.gpus["key"].tolist() == [3 * 64, 3 * 64 + 1]
            assert blocks.rowid.tolist() == [blocks.gpus["n_rows"].sum()] and blocks.rowid[0] <= committed(writer)
            n = blocks.gpus["n"][:, COUNTED.index("sm_active")]
            assert (blocks.gpus["total"][:, COUNTED.index("sm_active")] == 0.25 * n).all()
    assert blocks.rowid[0] >= 76 and (n < blocks.gpus["n_rows"]).all()
    assert (blocks.gpus["held"].sum(axis=1) == blocks.gpus["n_flags"]).all()


def test_a_block_of_eight_gpus_takes_a_page(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, 8)
    tick(writer, 0, 8)
    assert 0 < os.path.getsize(f"{writer.path}.live") <= 4096


def test_what_could_not_be_written_is_not_counted(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    tick(writer, 0)
    before = look(writer)
    other = sqlite3.connect(writer.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for number in range(1, 8):
        tick(writer, number)
    assert look(writer).rowid.tolist() == before.rowid.tolist()
    other.execute("ROLLBACK")
    other.close()
    for number in range(8, 12):
        tick(writer, number)
    assert look(writer).rowid[0] >= 20


def test_a_block_goes_with_the_end_of_its_recording(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    tick(writer, 0)
    assert os.path.exists(f"{writer.path}.live")
    writer.finish(T0 + 1, 0, "completed", T0 + 1)
    assert os.listdir(tmp_path / "a.sql.d") == ["n.3.r.sql"]


def test_the_block_of_a_killed_sampler_goes_with_the_merge(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for number in range(4):
        tick(writer, number)
    writer._connection.close()  # killed
    for suffix in ("", "-wal"):
        if os.path.exists(writer.path + suffix):
            os.utime(writer.path + suffix, (T0, T0))
    merge(str(tmp_path / "a.sql"))
    assert os.listdir(tmp_path) == ["a.sql"]


@pytest.mark.parametrize(
    ("world_size", "wanted"), [(1, False), (MANY_FILES, False), (MANY_FILES + 1, True), (None, True)]
)
def test_only_ranks_among_many_have_blocks(tmp_path: Path, world_size: int | None, wanted: bool) -> None:
    writer = writer_of(tmp_path, world_size=world_size)
    tick(writer, 0)
    assert os.path.exists(f"{writer.path}.live") == wanted
