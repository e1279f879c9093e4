"""Windows that cut buckets and sketches: what lies at their ends is read once, or bounded without being read."""

import numpy as np
import pytest
from bounding import bounds_hold
from sample_rows import START, rows_of, write
from test_store import WINDOWS, check
from test_turns import Sorted, record

from gssr.metrics import NAMES
from gssr.store.read import window_edges
from gssr.store.read.histograms import Edge, edges_of
from gssr.store.read.recording import open_recording

TEMPERATURE = 2 + NAMES.index("temperature")
CUT = WINDOWS[1:7]


@pytest.fixture(scope="module")
def rows():
    """22 minutes; temperatures on both sides of 0."""
    found = rows_of(2700, 3, hole=range(700, 720))
    return [
        (*row[:TEMPERATURE], None if row[TEMPERATURE] is None else row[TEMPERATURE] - 0.5, *row[TEMPERATURE + 1 :])
        for row in found
    ]


@pytest.fixture(scope="module")
def path(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("edges") / "a.sql"
    write(path, rows, 3)
    return path


def test_a_window_cuts_no_sketch_or_one_or_two():
    assert edges_of(-np.inf, np.inf) == edges_of(1200, 2400) == []
    assert edges_of(1300, np.inf) == [Edge(1200, 1300, 1800)]
    assert edges_of(1300, 1500) == [Edge(1200, 1300, 1500)]
    assert edges_of(1200, 1500) == [Edge(1200, 1200, 1500)]
    assert edges_of(1300, 1900) == [Edge(1200, 1300, 1800), Edge(1800, 1800, 1900)]


def test_what_was_not_read_lies_between_its_bounds(path):
    reader = open_recording(path).runs[0]
    assert not bounds_hold(reader)
    rng = np.random.default_rng(3)
    windows = [*CUT, *(np.sort(START + 1400 * rng.random(2)) for _ in range(15))]
    for start, end in windows:
        for gpus in (None, np.array([1]), np.array([2, 0])):
            assert bounds_hold(reader, start, end, gpus)
    assert reader.damage is None and reader.recounted is None


@pytest.mark.parametrize("finish", [True, False], ids=["finished", "cut off"])
def test_gpus_that_changed_hands_are_bounded_file_by_file(tmp_path, rows, finish):
    changes = {0: START + 333.3, 1: START + 721, 2: START + 722}
    early = [row for row in rows if row[1] < changes[row[0]]]
    late = [row for row in rows if row[1] >= changes[row[0]]]
    record(tmp_path, 1, early, 3)
    record(tmp_path, 0, late, 3, finish)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    bounded = [bounds_hold(reader, *window) for window in WINDOWS]
    assert any(bounded) == finish
    for start, end in WINDOWS:
        reader.hold_ends(start, end)
        check(Sorted(reader), rows, start, end)


@pytest.mark.parametrize("at_once", [50_000, 5])
def test_ends_that_were_read_once_count_the_same(path, rows, monkeypatch, at_once):
    monkeypatch.setattr(window_edges, "_ROWS_AT_ONCE", at_once)
    reader = open_recording(path).runs[0]
    for start, end in WINDOWS:
        reader.hold_ends(start, end)
        check(reader, rows, start, end)
    start, end = START + 33.3, START + 801.7
    for held in (None, np.array([0, 2]), np.array([1])):
        reader.hold_ends(start, end, held)
        for gpus in (None, np.array([2]), np.array([0, 1])):
            found = reader.buckets(start, end, gpus=gpus)
            expected = open_recording(path).runs[0].buckets(start, end, gpus=gpus)
            one, other = (np.lexsort((own.start, own.gpu)) for own in (found, expected))
            np.testing.assert_array_equal(found.gpu[one], expected.gpu[other])
            np.testing.assert_allclose(found.vectors[one], expected.vectors[other], rtol=1e-9, atol=1e-12)


def test_ends_that_were_read_are_not_read_again(path, monkeypatch):
    reader = open_recording(path).runs[0]
    start, end = START + 33.3, START + 801.7
    reader.hold_ends(start, end)
    monkeypatch.setattr("gssr.store.read.window.uncounted", None)
    reader.buckets(start, end)
    reader.buckets(start, end, level=10, gpus=np.array([1]), names=["sm_active"])
    reader.buckets(START + 33.3, START + 597, names=["power_usage"])


def test_samples_of_all_gpus_of_a_file_are_looked_at_for_one(path):
    reader = open_recording(path).runs[0]
    assert reader.rows_between(START, START + 100) == reader.rows_between(START, START + 100, np.array([1])) == 600
