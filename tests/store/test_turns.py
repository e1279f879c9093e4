"""Ranks that share GPUs sample them in turns, each into its own file: together they are one recording, and nothing counts
twice."""

import numpy as np
import pytest
from sample_rows import START, STEP, rows_of, write
from test_store import WINDOWS, check

from gssr.metrics import NAMES
from gssr.store.read.gpu_spans import choose_disjoint
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import ALL_TIME


def record(folder, rank, rows, n_gpus, finish=True):
    """A rank's file, which lists all GPUs, whatever it samples."""
    (folder / "a.sql.d").mkdir(exist_ok=True)
    path = folder / "a.sql.d" / f"n1.{rank}.r.sql"
    if rows:
        return write(path, rows, n_gpus, finish=finish, rank=rank)
    writer = write(path, rows_of(1, n_gpus), n_gpus, finish=False, rank=rank)
    writer._connection.execute("DELETE FROM samples")
    assert writer.finish(START, 0, "completed", START)
    return writer


@pytest.mark.parametrize("finish", [True, False], ids=["finished", "cut off"])
def test_every_window_counts_every_row_of_a_gpu_that_changed_hands_once(tmp_path, finish):
    rows = rows_of(2700, 3)
    changes = {0: START + 333.3, 1: START + 721, 2: START + 722}
    early = [row for row in rows if row[1] < changes[row[0]]]
    late = [row for row in rows if row[1] >= changes[row[0]]]
    record(tmp_path, 1, early, 3)
    record(tmp_path, 0, late, 3, finish)  # whose file is read first
    record(tmp_path, 2, [], 3)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert [gpu.rank for gpu in reader.gpus] == [None] * 3 and reader.n_rows == len(rows)
    for start, end in WINDOWS:
        check(Sorted(reader), rows, start, end)


class Sorted:
    """A reader whose rows come by time and GPU, as those of ``rows_of``."""

    def __init__(self, reader):
        self._reader = reader

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def samples(self, names, gpus=None, window=ALL_TIME):
        samples = self._reader.samples(names, gpus, window)
        order = np.lexsort((samples.gpu, samples.time))
        values = {name: column[order] for name, column in samples.values.items()}
        return type(samples)(samples.gpu[order], samples.time[order], values)


def test_where_ranks_sampled_the_same_at_once_one_counts(tmp_path):
    rows = rows_of(600, 2)
    for rank in range(3):
        record(tmp_path, rank, rows[: len(rows) - 100 * rank], 2)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    check(Sorted(reader), rows)
    check(Sorted(reader), rows, START + 33.3, START + 171.1)


def test_a_change_of_hands_is_a_gap_only_when_it_took_long(tmp_path):
    rows = rows_of(100, 1)
    record(tmp_path, 0, rows[:40], 1)
    record(tmp_path, 1, rows[41:60], 1)
    record(tmp_path, 2, rows[70:], 1)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    (bucket,) = reader.buckets(level=600).vectors
    assert bucket[0] == 89 and bucket[1] == 1
    first, last = (rows[index][2 + NAMES.index("energy")] for index in (0, -1))
    energy = next(block for block in reader.buckets().layout.blocks if block.metric.name == "energy")
    if None not in (first, last):
        assert bucket[energy.start + 3] == pytest.approx(last - first)


def test_events_of_a_shared_gpu_name_the_gpu_whoever_recorded_them(tmp_path):
    rows = rows_of(40, 2)
    record(tmp_path, 0, rows[:40], 2)
    writer = record(tmp_path, 1, rows[40:], 2, finish=False)
    writer.event(START + 15, "gpu_lost", "gone", 1)
    assert writer.finish(START + 20, 0, "completed", START + 20)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert [event.gpu for event in reader.events] == [reader.gpus[1].gpu]


def test_of_spans_that_overlap_the_longest_counts():
    def chosen(*spans):
        return choose_disjoint(spans, STEP)

    assert chosen((0, 10), (10.4, 20), (20.5, 21)) == [0, 1, 2]
    assert chosen((10.4, 20), (0, 10)) == [1, 0]
    assert chosen((0, 10), (0, 10), (0, 10.1)) == [2]
    assert chosen((0, 10), (9, 30)) == [0, 1]  # a clock that is a little off
    assert chosen((0, 10), (5, 30)) == [1]
    assert chosen((0, 10), (3, 3.1), (12, 12), (12, 12)) == [0, 2]
    assert chosen((0, 0), (0, 0)) == [0]
    assert chosen() == []
