"""Recordings whose samples are thinned tell the same as those that keep them all, whoever reads, whenever."""

import math
import os
import random
import signal
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pytest
from merging import merge

from gssr.api.recording import open_recording as open_run
from gssr.backends.base import BackendError
from gssr.backends.replay import ReplayBackend
from gssr.metrics import NAMES
from gssr.model.analyze import Options, analyze
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.format.rollup import Rollups
from gssr.store.format.schema import SKETCHES, YOUNG_SECONDS
from gssr.store.read.open import RecordingError
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.read.time_window import Window
from gssr.store.write.thinning import KEEPS
from gssr.store.write.writer import Writer

START, STEP = 1_700_000_003.0, 1.0
GPUS = 2
MEASURED = ("sm_active", "power_usage", "energy", "clock_event_reasons", "memory_used")
TICK, OTHER = NAMES.index("power_usage"), NAMES.index("sm_active")
THINNED = KEEPS[1:]
MINUTE = 60
PART = 20 * MINUTE
"""A recording is looked at after each of these: longer than samples are young."""


def row(gpu: int, tick: int) -> tuple:
    """``power_usage`` counts the ticks, so that what is counted twice or left out shows in a sum."""
    values: list = [None] * len(NAMES)
    values[TICK] = float(tick)
    rng = random.Random(tick * 7 + gpu)
    values[OTHER] = None if rng.random() < 0.1 else rng.random()
    values[NAMES.index("energy")] = 100.0 * tick
    values[NAMES.index("clock_event_reasons")] = rng.choice([0, 4])
    values[NAMES.index("memory_used")] = 1 << (20 + gpu)
    return (gpu, START + tick * STEP + gpu * 0.01, *values)


def begun(path, keep: str, rank: int = 0, run_id: str = "r", append: bool = False) -> Writer:
    writer = Writer(str(path), append=append, keep=keep)
    run = {"run_id": run_id, "started_at": START, "sampling_ms": STEP * 1000, "state": "running", "world_size": 3}
    writer.begin(run, {"rank": rank, "node": f"n{rank}", "hostname": "elsewhere", "state": "running"})
    writer.add_gpus([{"device_index": gpu, "uuid": f"GPU-{rank}-{gpu}"} for gpu in range(GPUS)], MEASURED, STEP)
    return writer


def go_on(writer: Writer, first: int, last: int) -> None:
    for tick in range(first, last):
        writer.add([row(gpu, tick) for gpu in range(GPUS)])
        writer.tick(START + tick * STEP)


def record(path, keep: str, ticks: int, rank: int = 0, run_id: str = "r", append: bool = False) -> None:
    writer = begun(path, keep, rank, run_id, append)
    first = 10_000 if append else 0
    go_on(writer, first, first + ticks)
    end = START + (first + ticks) * STEP
    assert writer.finish(end, 0, "completed", end)


def the_run(path) -> RunReader:
    return open_recording(path).runs[-1]


def n_samples(path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM samples").fetchone()[0]


def holds_each_tick_once(reader: RunReader) -> int:
    """How many ticks of each GPU are counted: all from the first to the last, each once."""
    buckets = reader.buckets(names=["power_usage"])
    at = buckets.layout.blocks[0].start
    found = set()
    for gpu in range(len(reader.gpus)):
        vectors = buckets.vectors[buckets.gpu == gpu]
        n, total = int(vectors[:, at].sum()), vectors[:, at + 1].sum()
        assert total == n * (n - 1) / 2
        assert vectors[:, 0].sum() == n
        found.add(n)
    assert max(found) - min(found) <= 1
    histogram = reader.histograms(["power_usage"]).counts["power_usage"]
    assert histogram.sum() == sum(int(vectors_n) for vectors_n in buckets.vectors[:, at])
    return max(found)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same 27 minutes, kept in each way."""
    folder = tmp_path_factory.mktemp("thinned")
    for keep in KEEPS:
        record(folder / f"{keep}.sql", keep, 27 * MINUTE)
    return {keep: the_run(folder / f"{keep}.sql") for keep in KEEPS}


@pytest.mark.parametrize("keep", THINNED)
@pytest.mark.parametrize(
    "window", [(None, None), ("63", "1511.5"), ("5m", "5m12s"), (None, "-9:30"), ("1:01", "26:59")]
)
def test_every_window_counts_all_samples_and_says_how_sure_its_percentiles_are(runs, keep, window):
    thinned = analyze(runs[keep], Options(start=window[0], end=window[1]))
    own = thinned.window
    whole = (None, None) if own.whole else (own.start, own.end)
    raw = analyze(runs["raw"], Options(start=whole[0], end=whole[1], exact=True))
    assert window[0] is None or own.start % 10 == 0
    assert window[1] is None or own.end % 10 == 0
    assert (thinned.n_samples, thinned.n_gaps, thinned.energy_j) == (raw.n_samples, raw.n_gaps, raw.energy_j)
    assert thinned.clock_event_reasons == raw.clock_event_reasons
    for name in ("sm_active", "power_usage", "memory_used"):
        one, other = thinned.metrics[name], raw.metrics[name]
        assert (one.n, one.min, one.max) == (other.n, other.min, other.max)
        assert (one.mean, one.std) == (pytest.approx(other.mean), pytest.approx(other.std))
        for share in ("p05", "median", "p95"):
            assert abs(getattr(one, share) - getattr(other, share)) <= one.p_error
    assert [gpu.mean["power_usage"] for gpu in thinned.gpus] == [gpu.mean["power_usage"] for gpu in raw.gpus]
    assert any(f"--keep {keep}" in note for note in thinned.notes)
    assert not any("--keep" in note for note in raw.notes)


@pytest.mark.parametrize("keep", THINNED)
def test_what_a_window_says_of_its_percentiles_holds_for_any_window(runs, keep):
    rng = random.Random(5)
    for _ in range(6):
        start = START + 10 * rng.randrange(150) - 3
        end = min(start + 10 * rng.randrange(1, 120), START + 27 * MINUTE)
        one = analyze(runs[keep], Options(metrics=("sm_active",), start=start, end=end)).metrics["sm_active"]
        other = analyze(runs["raw"], Options(metrics=("sm_active",), start=start, end=end)).metrics["sm_active"]
        assert one.n == other.n
        assert max(abs(one.p05 - other.p05), abs(one.median - other.median), abs(one.p95 - other.p95)) <= one.p_error


def test_what_is_kept_is_one_row_of_means_for_each_gpu_and_10_s_or_nothing(runs):
    raw = runs["raw"].samples(["sm_active", "power_usage", "energy", "clock_event_reasons", "temperature"])
    means = runs["10s"].samples(["sm_active", "power_usage", "energy", "clock_event_reasons", "temperature"])
    assert len(runs["none"].samples(["sm_active"]).time) == 0
    bucket = np.floor(raw.time / 10).astype(int)
    assert len(means.time) == len({*zip(raw.gpu, bucket, strict=True)})
    for at in (0, 1, len(means.time) // 2, len(means.time) - 1):
        own = (raw.gpu == means.gpu[at]) & (bucket == math.floor(means.time[at] / 10))
        times = raw.time[own]
        assert means.time[at] == pytest.approx((times[0] + times[-1]) / 2, abs=1e-6)
        assert means.values["sm_active"][at] == pytest.approx(np.nanmean(raw.values["sm_active"][own]))
        assert means.values["energy"][at] == raw.values["energy"][own][-1]
        flags = np.bitwise_or.reduce(raw.values["clock_event_reasons"][own].astype(int))
        assert means.values["clock_event_reasons"][at] == flags
    assert np.isnan(means.values["temperature"]).all()  # missing is never zero


@pytest.mark.parametrize("keep", THINNED)
def test_a_long_recording_grows_by_its_statistics_alone(tmp_path, keep):
    writer = begun(tmp_path / "a.sql", keep)
    sizes, logs, rows = [], [], []
    for part in range(1, 4):
        go_on(writer, (part - 1) * PART, part * PART)
        sizes.append((tmp_path / "a.sql").stat().st_size)
        logs.append((tmp_path / "a.sql-wal").stat().st_size)
        rows.append(n_samples(tmp_path / "a.sql"))
    means = GPUS * PART // 10 if keep == "10s" else 0
    young = GPUS * (YOUNG_SECONDS + 20) / STEP
    assert all(n <= young + means * part for part, n in enumerate(rows, 1))
    assert sizes[2] - sizes[1] == pytest.approx(sizes[1] - sizes[0], rel=0.1)
    assert max(logs) < 8 << 20
    end = START + 3 * PART
    assert writer.finish(end, 0, "completed", end)
    assert n_samples(tmp_path / "a.sql") <= 3 * means + GPUS
    assert (tmp_path / "a.sql").stat().st_size < sizes[2]  # what young samples took is given back
    with closing(sqlite3.connect(tmp_path / "a.sql")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert holds_each_tick_once(the_run(tmp_path / "a.sql")) == 3 * PART


@pytest.mark.parametrize("keep", THINNED)
def test_readers_of_a_recording_that_is_thinned_find_each_sample_once(tmp_path, keep):
    writer_id = os.fork()
    if writer_id == 0:
        try:
            record(tmp_path / "a.sql", keep, 30 * MINUTE)
        finally:
            os._exit(0)
    seen = []
    while os.waitpid(writer_id, os.WNOHANG)[0] == 0:
        try:
            recording = open_recording(tmp_path / "a.sql")
        except RecordingError:
            continue  # there is nothing yet, or it is just being sealed
        if recording.runs[0].gpus:
            seen.append(holds_each_tick_once(recording.runs[0]))
        recording.close()
    assert seen == sorted(seen)
    assert holds_each_tick_once(the_run(tmp_path / "a.sql")) == 30 * MINUTE


def test_where_there_are_no_snapshots_a_reader_is_told_to_read_again_what_went_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "TRUNCATE")
    writer = begun(tmp_path / "a.sql", "none")
    go_on(writer, 0, 15 * MINUTE)
    early = the_run(tmp_path / "a.sql")
    go_on(writer, 15 * MINUTE, 15 * MINUTE + 30)
    assert early.buckets().vectors[:, 0].sum() >= GPUS * 15 * MINUTE  # what went was counted
    assert len(early.samples(["power_usage"], window=Window(START + 14 * MINUTE)).time) > 0
    at_the_end = the_run(tmp_path / "a.sql")
    end = START + 15 * MINUTE + 30
    assert writer.finish(end, 0, "completed", end)
    with pytest.raises(RecordingError, match="read it again"):
        at_the_end.buckets()
    assert holds_each_tick_once(the_run(tmp_path / "a.sql")) == 15 * MINUTE + 30


@pytest.mark.parametrize("keep", THINNED)
@pytest.mark.parametrize("ticks", [700, 1234, 2000])
def test_a_sampler_that_is_killed_while_it_thins_loses_what_was_not_committed_and_no_more(tmp_path, keep, ticks):
    writer_id = os.fork()
    if writer_id == 0:
        writer = begun(tmp_path / "a.sql", keep)
        go_on(writer, 0, ticks)
        real = writer._thinner._connection
        writer._thinner._connection = _DiesWithin(real)
        writer.tick(START + ticks * STEP + 10)
        os._exit(0)
    assert os.waitpid(writer_id, 0)[1] == signal.SIGKILL
    reader = the_run(tmp_path / "a.sql")
    assert holds_each_tick_once(reader) == ticks
    analysis = analyze(reader)
    assert analysis.n_samples == GPUS * ticks
    assert analysis.metrics["power_usage"].mean == pytest.approx((ticks - 1) / 2)


class _DiesWithin:
    """A connection whose process is killed in the middle of the next transaction."""

    def __init__(self, connection) -> None:
        self._connection = connection

    def execute(self, statement, *parameters):
        if statement.startswith("UPDATE thinned"):
            os.kill(os.getpid(), signal.SIGKILL)
        return self._connection.execute(statement, *parameters)

    def executemany(self, *arguments):
        return self._connection.executemany(*arguments)


@pytest.mark.parametrize("keep", THINNED)
def test_who_watches_a_thinned_run_counts_all_of_it_however_late_it_looks(tmp_path, keep):
    writer = begun(tmp_path / "a.sql", keep)
    go_on(writer, 0, 100)
    watch = WatchedRecording(str(tmp_path / "a.sql"))
    counts = [watch.look(Query(metric="power_usage")).n_rows]
    for first, last in ((100, 200), (200, 2400), (2400, 2450)):  # in between it was asleep for half an hour
        go_on(writer, first, last)
        for _ in range(100):
            watch._looked = -math.inf  # it looks for files only every other second
            frame = watch.look(Query(metric="power_usage", columns=60))
            if frame.n_rows == GPUS * last:
                break
        counts.append(frame.n_rows)
    assert counts == [GPUS * ticks for ticks in (100, 200, 2400, 2450)]
    assert frame.grid.width >= 10
    close = watch.look(Query(metric="power_usage", span=60.0, columns=20))
    assert close.grid.width < 10  # young samples are all there
    assert np.isfinite(close.space.mean[-15:-1]).all()
    end = START + 2450 * STEP
    assert writer.finish(end, 0, "completed", end)
    for _ in range(100):
        watch._looked = -math.inf
        frame = watch.look(Query(metric="power_usage", span=60.0, columns=20))
        if frame.state == "ended":
            break
    assert (frame.state, frame.n_rows, frame.grid.width) == ("ended", GPUS * 2450, 10.0)
    assert frame.thinned >= frame.last
    assert np.isfinite(frame.latest).all()
    watch.close()


def test_ranks_that_keep_differently_merge_into_one_recording_that_tells_the_same(tmp_path):
    target = tmp_path / "a.sql"
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    for rank, keep in enumerate(KEEPS):
        record(folder / f"n{rank}.{rank}.r.sql", keep, 15 * MINUTE, rank)
    apart = analyze(the_run(target))
    outcome = merge(str(target))
    assert (outcome.n_files, outcome.left) == (3, ())
    reader = the_run(target)
    together = analyze(reader)
    assert reader.keep == "none"
    assert holds_each_tick_once(reader) == 15 * MINUTE
    assert together.metrics == apart.metrics
    assert together.gpus == apart.gpus
    assert (together.window, together.n_samples) == (apart.window, 3 * GPUS * 15 * MINUTE)
    rows = reader.samples(["power_usage"])
    assert [int((rows.gpu // GPUS == rank).sum()) for rank in range(3)] == [GPUS * 900, GPUS * 91, 0]


def test_a_run_that_is_added_to_a_thinned_one_leaves_it_as_it_was(tmp_path):
    record(tmp_path / "a.sql", "none", 15 * MINUTE)
    before = analyze(the_run(tmp_path / "a.sql"))
    record(tmp_path / "a.sql", "10s", 15 * MINUTE, run_id="s", append=True)
    record_of_both = open_recording(tmp_path / "a.sql")
    assert [run.keep for run in record_of_both.runs] == ["none", "10s"]
    after = analyze(record_of_both.runs[0])
    assert (after.metrics, after.n_samples, after.window) == (before.metrics, before.n_samples, before.window)
    second = analyze(record_of_both.runs[1])
    assert second.n_samples == GPUS * 15 * MINUTE
    assert second.metrics["power_usage"].mean == 10_000 + (15 * MINUTE - 1) / 2


def test_python_hands_out_what_there_is_and_warns_that_it_is_not_all(runs):
    for keep in KEEPS:
        run = open_run(runs[keep].tails[0][0])[-1]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = run.samples("power_usage")
        assert [f"--keep {keep}" in str(warning.message) for warning in caught] == ([True] if keep != "raw" else [])
        assert (len(rows) == 0) == (keep == "none")
        assert run.metadata["keep"] == keep
        averages = run.space_average("power_usage", start=63, end=123)
        assert len(averages) > 5
        assert averages["mean"].notna().all()


def test_replaying_what_was_not_kept_says_why_there_is_nothing(runs):
    with pytest.raises(BackendError, match="--keep none"):
        ReplayBackend(runs["none"].tails[0][0])
    backend = ReplayBackend(runs["10s"].tails[0][0])
    backend.sample(0.0)
    assert len(backend.sample(25.0)) > 0
    backend.close()


def test_reading_every_sample_of_a_thinned_run_is_refused(runs):
    with pytest.raises(ValueError, match="--keep none"):
        analyze(runs["none"], Options(exact=True))


def test_each_sketch_counts_the_samples_of_its_time_however_fast_they_come():
    rollups = Rollups(1.0, NAMES)
    for number in range(610 * 20):
        rollups.add(number + 1, 0, (0, 1_700_000_400.0 - 5 + number / 20, *[0.5] * len(NAMES)))
    rollups.close_all()
    closed, sketches = rollups.take()
    rows = {(row.seconds, row.start): row.vector[0] for row in closed if row.seconds in SKETCHES}
    assert {(row.seconds, row.bucket): row.histograms[0].total() for row in sketches} == rows
