"""Windows that cut buckets and sketches: what lies at their ends is read once, or bounded without being read."""

import shutil
import sqlite3
from contextlib import closing

import merging
import numpy as np
import pytest
from bounding import METRICS, bounds_hold
from sample_rows import START, rows_of, write
from test_store import WINDOWS, check
from test_turns import Sorted, record

from gssr.metrics import NAMES
from gssr.model.analyze import Options, analyze
from gssr.model.statistics import sources
from gssr.store.format.schema import SKETCH_SECONDS
from gssr.store.merge import merge
from gssr.store.read import window_edges
from gssr.store.read.recording import open_recording
from gssr.store.read.time_window import Window

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
    assert Window(-np.inf, np.inf).cut_off(SKETCH_SECONDS) == Window(1200, 2400).cut_off(SKETCH_SECONDS) == []
    assert Window(1300, np.inf).cut_off(SKETCH_SECONDS) == [Window(1300, 1800)]
    assert Window(1300, 1500).cut_off(SKETCH_SECONDS) == [Window(1300, 1500)]
    assert Window(1200, 1500).cut_off(SKETCH_SECONDS) == [Window(1200, 1500)]
    assert Window(1300, 1900).cut_off(SKETCH_SECONDS) == [Window(1300, 1800), Window(1800, 1900)]


def test_what_was_not_read_lies_between_its_bounds(path):
    reader = open_recording(path).runs[0]
    assert not bounds_hold(reader)
    rng = np.random.default_rng(3)
    windows = [*CUT, *(np.sort(START + 1400 * rng.random(2)) for _ in range(6))]
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
        reader.hold_ends(Window.between(start, end))
        check(Sorted(reader), rows, start, end)


@pytest.mark.parametrize("at_once", [50_000, 5])
def test_ends_that_were_read_once_count_the_same(path, rows, monkeypatch, at_once):
    monkeypatch.setattr(window_edges, "_ROWS_AT_ONCE", at_once)
    reader = open_recording(path).runs[0]
    for start, end in WINDOWS:
        reader.hold_ends(Window.between(start, end))
        check(reader, rows, start, end)
    window = Window(START + 33.3, START + 801.7)
    for held in (None, np.array([0, 2]), np.array([1])):
        reader.hold_ends(window, held)
        for gpus in (None, np.array([2]), np.array([0, 1])):
            found = reader.buckets(window, gpus=gpus)
            expected = open_recording(path).runs[0].buckets(window, gpus=gpus)
            one, other = (np.lexsort((own.start, own.gpu)) for own in (found, expected))
            np.testing.assert_array_equal(found.gpu[one], expected.gpu[other])
            np.testing.assert_allclose(found.vectors[one], expected.vectors[other], rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def others(path, tmp_path_factory):
    """Recordings whose sketches come from different versions of the tool, by what they are."""
    folder = tmp_path_factory.mktemp("others")
    found = {what: folder / f"{what}.sql" for what in ("earlier", "both", "merged")}
    for what in ("earlier", "both"):
        shutil.copyfile(path, found[what])
        with closing(sqlite3.connect(found[what])) as connection:
            connection.execute("DROP TABLE sketch_minute")
    write(found["both"], rows_of(1500, 2, seed=4), 2, run_id="later", append=True)
    for rank in range(3):
        merging.record(found["merged"], rank, n_ticks=2400, begin=rank / 7, world_size=3)
    merge(str(found["merged"]))
    return found


@pytest.mark.parametrize("what", ["earlier", "both", "merged"])
def test_of_any_recording_percentiles_are_as_sure_as_is_said(others, what, monkeypatch):
    monkeypatch.setattr(sources, "MOST_AT_AN_END", 0)
    monkeypatch.setattr(sources, "is_sure", lambda _: True)
    rng = np.random.default_rng(7)
    for reader in open_recording(others[what]).runs:
        first, last = reader.first_time, reader.last_time
        for step in (0.001, 1.0, 10.0, 60.0):
            start, end = (np.sort(first + (last - first) * rng.random(2)) // step * step).tolist()
            assert bounds_hold(reader, start, end + step) or step == 60 or what == "earlier"
            told, true = (
                analyze(reader, Options(start=start, end=end + step, exact=exact, causes=False))
                for exact in (False, True)
            )
            for name, own in told.metrics.items():
                other = true.metrics[name]
                assert (own.n, own.min, own.max) == (other.n, other.min, other.max)
                for share in ("p05", "median", "p95") if own.p_error is not None else ():
                    assert abs(getattr(own, share) - getattr(other, share)) <= own.p_error
        assert reader.damage is None and reader.recounted is None


def test_full_minutes_are_known_without_reading_a_sample(path, others):
    reader = open_recording(path).runs[0]
    begin = START // 60 * 60
    window = Window(begin + 120, begin + 420)
    assert reader.histograms(METRICS, window, most_rows=0).least is None
    assert reader.cut_seconds(window) == 0
    earlier = open_recording(others["earlier"]).runs[0]
    assert earlier.histograms(METRICS, window, most_rows=0).readable
    assert earlier.cut_seconds(window) == 300


def test_ends_that_were_read_are_not_read_again(path, monkeypatch):
    reader = open_recording(path).runs[0]
    window = Window(START + 33.3, START + 801.7)
    reader.hold_ends(window)
    monkeypatch.setattr("gssr.store.read.window.read_uncounted", None)
    reader.buckets(window)
    reader.buckets(window, level=10, gpus=np.array([1]), names=["sm_active"])
    reader.buckets(Window(START + 33.3, START + 597), names=["power_usage"])


def test_samples_of_all_gpus_of_a_file_are_looked_at_for_one(path):
    reader = open_recording(path).runs[0]
    window = Window(START, START + 100)
    assert reader.rows_between(window) == reader.rows_between(window, np.array([1])) == 600
