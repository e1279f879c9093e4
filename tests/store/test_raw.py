"""Samples of recordings are the same whether they come from the file's pages or through SQLite."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from merging import record
from sample_rows import START, rows_of, write

from gssr.metrics import NAMES
from gssr.store.disk import identity_of
from gssr.store.merge import merge
from gssr.store.pages.file import PageFile
from gssr.store.pages.sample_pages import PageTable
from gssr.store.read import samples as raw
from gssr.store.read.recording import open_recording
from gssr.store.read.samples import SampleRows, run_in_threads
from gssr.store.read.time_window import Window
from gssr.store.read.whole_run import look_at_chunks

WINDOWS = [(None, None), (START + 3, START + 17.2), (None, START + 11.25), (START + 28.5, None)]


def everything(path, monkeypatch, pages: bool, gpus=None) -> list[list]:
    """What the runs' samples are in some windows, raw and chunk by chunk; and what was damaged."""
    with monkeypatch.context() as patch:
        patch.setattr(raw, "_PAGES", 3)
        patch.setattr(raw, "_ROWS", 50)
        if not pages:
            patch.setattr(SampleRows, "_open", lambda _: None)
        recording = open_recording(path)
        found = []
        for reader in recording.runs:
            for window in (Window.between(*ends) for ends in WINDOWS):
                samples = reader.samples([*NAMES, "flop_active"], gpus, window)
                found.append([samples.gpu, samples.time, *samples.values.values()])
                chunks = list(look_at_chunks(reader, lambda samples: samples, ["flop_active"], gpus, window))
                found.append([np.concatenate([np.empty(0), *(chunk.time for chunk in chunks)])])
                found.append([np.concatenate([np.empty(0), *(chunk.values["flop_active"] for chunk in chunks)])])
        for shard in recording._shards:
            assert (shard.samples._open() is not None) is pages
        found.append([np.array([recording.damage is not None])])
        recording.close()
    return found


def same_both_ways(path, monkeypatch, gpus=None) -> None:
    one, other = everything(path, monkeypatch, True, gpus), everything(path, monkeypatch, False, gpus)
    assert sum(len(columns[0]) for columns in one) > 100
    for left, right in zip(one, other, strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_array_equal(a, b)


def test_of_one_run_and_of_runs_one_after_the_other(tmp_path, monkeypatch):
    write(tmp_path / "a.sql", rows_of(120, 3, 1), 3, "one")
    same_both_ways(tmp_path / "a.sql", monkeypatch)
    same_both_ways(tmp_path / "a.sql", monkeypatch, np.array([0, 2]))
    write(tmp_path / "a.sql", rows_of(90, 2, 2), 2, "two", append=True)
    write(tmp_path / "a.sql", rows_of(15, 1, 3), 1, "three", append=True)
    same_both_ways(tmp_path / "a.sql", monkeypatch)


def test_of_ranks_apart_and_merged(tmp_path, monkeypatch):
    for rank in range(3):
        record(tmp_path / "a.sql", rank, sampled={0: (0, 30), 1: (10 * rank, 60)})
    same_both_ways(tmp_path / "a.sql", monkeypatch)
    merge(str(tmp_path / "a.sql"))
    same_both_ways(tmp_path / "a.sql", monkeypatch, np.array([1, 2, 5]))


def test_a_run_that_goes_on_is_read_through_sqlite(tmp_path):
    writer = write(tmp_path / "a.sql", rows_of(120, 3, 1), 3, finish=False)
    recording = open_recording(tmp_path / "a.sql")
    assert recording._shards[0].samples._open() is None and len(recording.runs[0].samples([]).time) == 360
    del writer


@pytest.mark.parametrize("damage", ["text", "page"])
def test_of_a_file_with_damage(tmp_path, monkeypatch, damage):
    path = tmp_path / "a.sql"
    write(path, rows_of(120, 3, 1), 3)
    with closing(sqlite3.connect(path)) as connection:
        if damage == "text":
            connection.execute("UPDATE samples SET sm_active = 'much', temperature = 1e300 WHERE rowid = 200")
            connection.commit()
        file = PageFile(str(path), identity_of(str(path)))
        table = PageTable(file, connection)
        pages = table.leaves(1, 2**50).page
        file.close()
    if damage != "text":
        with path.open("r+b") as stream:
            stream.seek((int(pages[len(pages) // 2]) - 1) * 4096)
            stream.write(b"\xff" * 4096)
    recording = open_recording(path)
    found = recording.runs[0].samples(["sm_active", "temperature"])
    assert recording.damage is not None
    shutil.copy(path, tmp_path / "b.sql")
    monkeypatch.setattr(SampleRows, "_open", lambda _: None)
    expected = open_recording(tmp_path / "b.sql").runs[0].samples(["sm_active", "temperature"])
    n = len(expected.time)
    assert len(found.time) >= n > 0  # what comes behind the damage may be found as well
    for name, column in expected.values.items():
        np.testing.assert_array_equal(found.values[name][:n], column)


def test_what_threads_do_comes_in_order_and_their_errors_come_out():
    def task(number):
        def do():
            if number == 30:
                raise ValueError("thirty")
            return number

        return do

    assert list(run_in_threads(task(number) for number in range(25))) == list(range(25))
    with pytest.raises(ValueError, match="thirty"):
        list(run_in_threads(task(number) for number in range(60)))
