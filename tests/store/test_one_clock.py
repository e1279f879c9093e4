"""A node whose clock is off, by a known offset: what is read equals what would have been recorded with a right clock."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from merging import record
from sample_rows import START

from gssr.model.analyze import Options, analyze
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.format.host_rollups import HOST, WORKLOAD
from gssr.store.merge import merge
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import ALL_TIME, Window
from gssr.store.read.whole_run import read_rows_in_pieces, read_use_rows

NAMES = ("sm_active", "flop_active", "power_usage")
WINDOWS = (
    ALL_TIME,
    Window(START + 3.25, START + 41.5),
    Window(START + 10.0, START + 20.0),
    Window(START - 50, START + 7),
)
OFF = 7.3


def _write(path: Path, off: float, merged: bool, running: bool = False) -> Path:
    """Three nodes of two ranks, 65 s; the clock of the second is off."""
    for rank in range(6):
        node = rank // 2
        file = record(path, rank, n_gpus=1, n_ticks=130, begin=off * (node == 1), world_size=6, lost=running)
        with closing(sqlite3.connect(file)) as connection, connection:
            own = (100.0 + off * (node == 1), 0.005)
            connection.execute("UPDATE processes SET clock_offset = ?, clock_error = ?", own)
    if merged:
        merge(str(path))
    return path


@pytest.fixture(scope="module", params=["files of ranks", "merged"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReader, RunReader]:
    """The run with a right clock, and with one that is off."""
    tmp_path = tmp_path_factory.mktemp("clocks")
    (tmp_path / "right").mkdir()
    (tmp_path / "off").mkdir()
    merged = request.param == "merged"
    paths = _write(tmp_path / "right/a.sql", 0.0, merged), _write(tmp_path / "off/a.sql", OFF, merged)
    opened = [open_recording(path) for path in paths]
    request.addfinalizer(lambda: [each.close() for each in opened])
    return opened[0].runs[0], opened[1].runs[0]


def _both(pair: tuple[RunReader, RunReader], ask: Callable[[RunReader], object]) -> None:
    right, off = map(ask, pair)
    np.testing.assert_allclose(np.asarray(off, float), np.asarray(right, float), rtol=1e-9, atol=1e-5)


def test_when_the_run_began_and_ended_and_what_happened(pair: tuple[RunReader, RunReader]) -> None:
    assert not pair[0].clocks and pair[1].clocks
    _both(pair, lambda reader: (reader.first_time, reader.last_time, reader.run.started_at, reader.run.ended_at))
    _both(pair, lambda reader: [event.time for event in reader.events])
    _both(pair, lambda reader: [(each.started_at, each.ended_at) for each in reader.processes])
    _both(pair, lambda reader: reader.host_times)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("gpus", [None, np.array([0, 3, 5])])
def test_samples_statistics_and_use(pair: tuple[RunReader, RunReader], window: Window, gpus: np.ndarray | None) -> None:
    def samples(reader: RunReader) -> list[np.ndarray]:
        found = reader.samples(NAMES, gpus, window)
        order = np.lexsort((found.time, found.gpu))
        return [np.nan_to_num(each[order]) for each in (found.gpu, found.time, *found.values.values())]

    def added_up(reader: RunReader) -> np.ndarray:
        found = reader.buckets(window, gpus=gpus, names=NAMES)
        counts = [block.start for block in found.layout.blocks]
        columns = np.column_stack([found.vectors[:, at] for start in counts for at in (start, start + 1)])
        return np.array([columns[found.gpu == gpu].sum(axis=0) for gpu in range(len(reader.gpus))])

    _both(pair, lambda reader: np.concatenate(samples(reader)))
    _both(pair, added_up)
    _both(pair, lambda reader: sum(bins.sum() for bins in reader.histograms(NAMES, window, gpus).counts.values()))
    if gpus is None:
        _both(pair, lambda reader: [each.n for each in reader.host_use(window).values()])
        _both(pair, lambda reader: sorted(each["rss"].n for each in reader.workload_use(window)))
        for table in (HOST, WORKLOAD):
            bins = (START, 10.0, 32)
            _both(
                pair,
                lambda reader, table=table, bins=bins: np.nan_to_num(
                    np.concatenate(list(reader.use_over_time(table, window, bins).values()) or [[]])
                ),
            )
        _both(
            pair,
            lambda reader: np.concatenate(
                [
                    each.reshape(-1)
                    for _, each in sorted(reader.nodes_over_time(window, (START, 5.0, 64), HOST.values).items())
                ]
                or [[]]
            ),
        )
        _both(pair, lambda reader: sorted(row[:2] for rows in reader.gpu_processes(window) for row in rows))


def test_buckets_of_a_level_hold_their_samples_within_one_of_them(pair: tuple[RunReader, RunReader]) -> None:
    right, off = (reader.buckets(level=10, names=("sm_active",)) for reader in pair)
    assert right.vectors[:, 0].sum() == off.vectors[:, 0].sum()
    assert set(off.start % 10) == {0.0} and abs(off.start.min() - right.start.min()) <= 10
    assert off.start.max() <= max(right.start.max(), pair[1].last_time or 0)
    keys = list(zip(off.gpu.tolist(), off.start.tolist(), strict=True))
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("exact", [True, False])
def test_the_page_is_that_of_a_right_clock(pair: tuple[RunReader, RunReader], exact: bool) -> None:
    right, off = (analyze(reader, Options(exact=exact)) for reader in pair)
    assert off.window.duration == pytest.approx(right.window.duration)
    assert off.gpu_hours == pytest.approx(right.gpu_hours) and off.n_samples == right.n_samples
    assert off.n_gaps == right.n_gaps == 0 and off.score == pytest.approx(right.score)
    for name, own in right.metrics.items():
        assert off.metrics[name].mean == pytest.approx(own.mean, nan_ok=True) if own.n else not off.metrics[name].n
        assert (
            off.metrics[name].median == pytest.approx(own.median, abs=max(own.p_error or 0.0, 1e-9)) if own.n else True
        )
    (note,) = [note for note in off.notes if "clocks" in note]
    assert "node1 is 7.3 s ahead (within 0.01 s); their times are corrected by that" in note
    assert not [note for note in right.notes if "clocks" in note]


def test_what_is_exported_is_by_one_clock(pair: tuple[RunReader, RunReader]) -> None:
    _both(
        pair,
        lambda reader: sorted(np.concatenate([each.time for each in read_rows_in_pieces(reader, ("sm_active",), 500)])),
    )
    for table in ("host_samples", "workload_samples"):
        _both(pair, lambda reader, table=table: sorted(row[2] for rows in read_use_rows(reader, table) for row in rows))


def test_a_frame_of_a_running_job_is_by_one_clock(tmp_path: Path) -> None:
    frames = []
    for name, off in (("right", 0.0), ("off", OFF)):
        (tmp_path / name).mkdir()
        with closing(WatchedRecording(str(_write(tmp_path / f"{name}/a.sql", off, merged=False)))) as watch:
            frames.append(watch.look(Query("sm_active", columns=60)))
    right, off = frames
    assert (off.first, off.last) == pytest.approx((right.first, right.last), abs=1e-5)
    np.testing.assert_allclose(off.last_time, right.last_time, atol=1e-5)
    np.testing.assert_allclose(off.grid.values, right.grid.values, rtol=1e-6)
