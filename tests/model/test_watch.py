"""Results of a recording that grows hold what its rows do, at every step, whatever happens to its files."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.backends.synthetic.bulk import generate
from gssr.model.live import answers
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watch import STALLED_SECONDS, Watch
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.results import Grid, over_space
from gssr.report.live.gpu_filter import passing
from gssr.store.merge import merge
from tests.fakes.clock import Clock
from tests.fakes.growing import T0, Growing, Truth

WHOLE = Query(columns=40)
LAST_MINUTE = Query("flop_active", span=60.0, columns=60)
COARSE = Query("power_usage", span=400.0, columns=20)
PAST = Query("sm_active", span=20.0, end=T0 + 40.0, columns=20)
QUERIES = (WHOLE, LAST_MINUTE, COARSE, PAST)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time passes when ``clock.seconds`` is added to."""
    clock = Clock()
    monkeypatch.setattr("gssr.model.live.watch.time", clock)
    monkeypatch.setattr("gssr.model.live.watched_recording.time", clock)
    monkeypatch.setattr("gssr.model.live.following.time", clock)
    monkeypatch.setattr("gssr.model.live.answers.time", clock)
    monkeypatch.setattr("gssr.model.live.kept_answers.time", clock)
    return clock


@pytest.fixture
def watching() -> "Callable[[object], Watch]":
    """Makes Watches, and lets go of them in the end."""
    made: list[Watch] = []

    def watch(path: object) -> Watch:
        made.append(WatchedRecording(str(path)))
        return made[-1]

    yield watch  # type: ignore[misc]
    for each in made:
        each.close()


def _same(one: Result, other: Result) -> None:
    """Two frames show the same."""
    assert (one.state, one.gpus, one.nodes, one.n_rows) == (other.state, other.gpus, other.nodes, other.n_rows)
    assert (one.first, one.last, one.query, one.following) == (other.first, other.last, other.query, other.following)
    np.testing.assert_array_equal(one.n_gaps, other.n_gaps)
    np.testing.assert_array_equal(one.last_time, other.last_time)
    assert (one.grid.metric, one.grid.start, one.grid.width) == (other.grid.metric, other.grid.start, other.grid.width)
    np.testing.assert_allclose(one.grid.values, other.grid.values, rtol=1e-9, atol=1e-12)
    for name in ("mean", "low", "high", "p05", "p50", "p95"):
        np.testing.assert_allclose(getattr(one.space, name), getattr(other.space, name), rtol=1e-9, atol=1e-12)
    for name in ("whole", "window"):
        mine, others = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(mine.n, others.n, name)
        np.testing.assert_allclose(mine.total, others.total, rtol=1e-9, atol=1e-9, err_msg=name)
    known = np.isfinite(other.latest)  # made afresh, it knows only the newest rows
    np.testing.assert_allclose(one.latest[known], other.latest[known])


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.metric}-{query.span}")
def test_a_frame_of_a_growing_run_equals_its_rows_and_a_frame_made_afresh(tmp_path, clock, watching, query):
    run = Growing(tmp_path / "a.sql")
    run.grow(5)
    watch = watching(run.path)
    for ticks in (1, 1, 1, 30, 3, 60, 1, 1, 200, 1, 1500, 1, 1, 7):
        run.grow(ticks)
        clock.seconds += 10.0
        frame = watch.look(query)
        if frame.query.end is None:
            Truth(run).agrees(frame)
        else:
            Truth(run).agrees_on_grid(frame)
        _same(frame, watching(run.path).look(query))
    run.end()
    clock.seconds += 10.0
    watch.look(query)
    frame = watch.look(query)
    assert frame.state == "ended" and frame.run.exit_code == 0
    _same(frame, watching(run.path).look(query))


def test_nodes_of_a_growing_run_are_read_again_only_where_a_query_asks_for_them(tmp_path, clock, watching, monkeypatch):
    run, reads = Growing(tmp_path / "a.sql"), list[float]()
    host_use = answers.host_use
    monkeypatch.setattr(answers, "host_use", lambda *asked: (reads.append(clock.seconds), host_use(*asked))[1])
    run.grow(60)
    watch = watching(run.path)

    def looks(query: Query) -> int:
        before = len(reads)
        for _ in range(4):
            run.grow(20)
            clock.seconds += 10.0
            watch.look(query)
        return len(reads) - before

    watch.look(LAST_MINUTE)
    assert looks(LAST_MINUTE) == 0
    assert looks(replace(LAST_MINUTE, beside=True)) == 4


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90)), min_size=1, max_size=6), st.integers(0, 99))
def test_whatever_is_looked_at_in_between_every_frame_holds_the_rows(tmp_path_factory, steps, seed):
    run = Growing(tmp_path_factory.mktemp("r") / "a.sql", n_gpus=2, seed=seed)
    run.grow(2)
    watch = WatchedRecording(str(run.path))
    for which, ticks in steps:
        run.grow(ticks)
        frame = watch.look(QUERIES[which])
        Truth(run).agrees_on_grid(frame)
        if frame.query.end is None:
            Truth(run).agrees(frame)
    watch.close()
    run.writer._connection.close()


def test_gaps_are_counted_wherever_they_lie(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    watch = watching(run.path)
    for seconds in (0.0, 1.0, 2.0, 15.0, 70.0, 700.0, 1300.0):
        run.sleep(seconds)
        run.grow(30)
        clock.seconds += 10.0
        Truth(run).agrees(watch.look(WHOLE))
        Truth(run).agrees(watching(run.path).look(WHOLE))


@pytest.mark.parametrize("query", (WHOLE, LAST_MINUTE, COARSE))
def test_closed_columns_never_change(tmp_path, clock, watching, query):
    run = Growing(tmp_path / "a.sql")
    run.grow(4)
    watch = watching(run.path)
    closed: dict[tuple[float, float], np.ndarray] = {}
    for _ in range(150):
        run.grow(3)
        clock.seconds += 1.5
        grid = watch.look(query).grid
        for k in range(grid.n):
            start = grid.start + k * grid.width
            if start + grid.width <= grid.closed:
                before = closed.setdefault((start, grid.width), grid.values[:, k])
                np.testing.assert_allclose(grid.values[:, k], before, rtol=1e-12)
    assert len(closed) > 20


def test_closed_columns_wait_for_the_rank_that_writes_last(tmp_path, clock, watching):
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    one, late = (Growing(folder / f"n{k}.{k}.r.sql", node=f"n{k}", rank=k, seed=k) for k in (0, 1))
    one.grow(10)
    late.grow(10)
    watch = watching(tmp_path / "a.sql")
    closed: dict[tuple[float, float], np.ndarray] = {}
    for step in range(60):
        one.grow(2)
        if step % 3 == 2:  # the same times, but committed 3 s later
            late.grow(6)
        clock.seconds += 1.0
        grid = watch.look(LAST_MINUTE).grid
        for k in range(grid.n):
            start = grid.start + k * grid.width
            if start + grid.width <= grid.closed:
                before = closed.setdefault((start, grid.width), grid.values[:, k])
                np.testing.assert_allclose(grid.values[:, k], before, rtol=1e-12)
    assert len(closed) > 30
    Truth(one, late).agrees(watch.look(LAST_MINUTE))


def test_a_node_that_begins_later_and_commits_later_has_no_gap(tmp_path, clock, watching):
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    one, late = (Growing(folder / f"n{k}.{k}.r.sql", 1, f"n{k}", rank=k, whole=True) for k in (0, 1))
    late.sleep(3.0)
    watch = watching(tmp_path / "a.sql")
    for step in range(90):
        one.grow(2)
        if step % 3 == 2:
            late.grow(6)
        clock.seconds += 1.0
        for query in (WHOLE, LAST_MINUTE):
            frame = watch.look(query)
            assert not frame.missing.any() and np.isfinite(frame.age).all() and not frame.n_gaps.any()


def test_rows_written_between_two_reads_are_counted_once(tmp_path, clock, watching, monkeypatch):
    run = Growing(tmp_path / "a.sql")
    run.grow(100)
    watch = watching(run.path)
    watch.look(WHOLE)
    read = WatchedRecording._read

    def write_meanwhile(self):
        if self._reader is None:
            run.grow(1)
        return read(self)

    monkeypatch.setattr(WatchedRecording, "_read", write_meanwhile)
    for query in (LAST_MINUTE, COARSE, replace(WHOLE, metric="dram_active"), WHOLE):
        watch.look(query)
        monkeypatch.setattr(WatchedRecording, "_read", read)
        clock.seconds += 10.0
        Truth(run).agrees(watch.look(query))
        monkeypatch.setattr(WatchedRecording, "_read", write_meanwhile)


def test_missing_is_never_zero(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql", n_gpus=4)
    run.grow(40)
    run._away = [0, 10**6, 0, 0]  # one GPU is gone
    watch = watching(run.path)
    for _ in range(5):
        run.grow(40)
        clock.seconds += 20.0
        frame = watch.look(LAST_MINUTE)
    lost = frame.grid.values[1, -30:]
    assert np.isnan(lost).all()
    truth = Truth(run)
    zero = truth.values["sm_active"] == 0
    assert zero.any()
    frame = watch.look(replace(LAST_MINUTE, metric="sm_active", span=60.0, columns=60))
    assert (frame.grid.values == 0).any()
    assert frame.whole.per_gpu("c2c_tx_bytes").tolist() == pytest.approx([np.nan] * 4, nan_ok=True)
    assert np.isnan(frame.space.mean[frame.grid.values.shape[1] - 1]) == np.isnan(frame.grid.values[:, -1]).all()


def test_a_window_in_the_past_of_a_growing_run_stands_still(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(300)
    watch = watching(run.path)
    before = watch.look(PAST)
    for _ in range(30):
        run.grow(5)
        clock.seconds += 2.5
        after = watch.look(PAST)
        assert after.grid.start == before.grid.start and after.last > before.last
        np.testing.assert_array_equal(after.grid.values, before.grid.values)
        for name in ("window", "recent"):
            np.testing.assert_array_equal(getattr(after, name).n, getattr(before, name).n)
        assert after.now == before.now and not after.following


def test_the_window_lags_by_no_more_than_it_says(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(400)
    watch = watching(run.path)
    for _ in range(40):
        run.grow(2)
        clock.seconds += 1.0
        frame = watch.look(LAST_MINUTE)
        assert frame.last - 6.1 <= frame.window.end <= frame.last
        n, _ = Truth(run).means("sm_active", frame.window.start, np.nextafter(frame.window.end, np.inf))
        np.testing.assert_array_equal(frame.window.n[frame.window.names.index("sm_active")], n)


def test_the_last_minute_survives_a_long_pause_of_the_reader(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(20)
    watch = watching(run.path)
    watch.look(WHOLE)
    run.grow(600)  # the screen was stopped for five minutes
    clock.seconds += 300.0
    Truth(run).agrees_on_recent(watch.look(WHOLE))


def test_a_column_of_the_cursor_holds_the_means_of_all_metrics(tmp_path, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(400)
    at = run.now - 30.0
    watch = watching(run.path)
    frame = watch.look(replace(LAST_MINUTE, cursor=at))
    column = frame.grid.column(at)
    start = frame.grid.start + column * frame.grid.width
    assert frame.moment["c2c_tx_bytes"] is None
    for name, value in frame.moment.items():
        n, total = Truth(run).means(name, start, start + frame.grid.width)
        assert value == (pytest.approx(total.sum() / n.sum()) if n.any() else None)


@given(st.integers(1, 30), st.integers(1, 8), st.floats(0, 0.9), st.integers(0, 999))
def test_percentiles_over_space_are_those_of_numpy(n_gpus, n_columns, missing, seed):
    random = np.random.default_rng(seed)
    values = random.random((n_gpus, n_columns))
    values[random.random(values.shape) < missing] = np.nan
    space = over_space(Grid("sm_active", 0.0, 1.0, values))
    for column in range(n_columns):
        known = values[np.isfinite(values[:, column]), column]
        got = [getattr(space, name)[column] for name in ("mean", "low", "high", "p05", "p50", "p95")]
        if not len(known):
            assert np.isnan(got).all()
            continue
        want = [known.mean(), known.min(), known.max(), *np.percentile(known, (5, 50, 95))]
        np.testing.assert_allclose(got, want, rtol=1e-12)


# Files


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path, watching):
    path = tmp_path / "a.sql"
    watch = watching(path)
    assert watch.look(WHOLE).state == "waiting" and watch.growing
    path.touch()
    assert watch.look(WHOLE).state == "waiting" and watch.look(WHOLE).problem is None
    path.unlink()
    run = Growing(path)
    assert watch.look(WHOLE).n_rows == 0
    run.grow(3)
    frame = watch.look(WHOLE)
    assert frame.state == "live" and frame.problem is None
    Truth(run).agrees(frame)


def test_the_first_rows_show_at_once(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    watch = watching(run.path)
    watch.look(WHOLE)
    run.grow(1)
    watch.look(WHOLE)
    clock.seconds += 0.5
    assert watch.look(WHOLE).n_rows > 0


@pytest.mark.parametrize("content", (b"no recording", b"SQLite format 3\0" + bytes(200)))
def test_what_is_no_recording_is_said_and_not_raised(tmp_path, watching, content):
    path = tmp_path / "a.sql"
    path.write_bytes(content)
    frame = watching(path).look(WHOLE)
    assert "a.sql" in frame.problem and frame.n_rows == 0


@pytest.mark.parametrize("same_inode", (False, True))
def test_a_file_that_is_replaced_is_read_from_its_beginning(tmp_path, clock, watching, monkeypatch, same_inode):
    path = tmp_path / "a.sql"
    first = Growing(path)
    first.grow(50)
    watch = watching(path)
    if same_inode:
        monkeypatch.setattr("gssr.model.live.watched_files.os", _OneInode)
    watch.look(WHOLE)
    first.writer._connection.close()
    for name in ("a.sql", "a.sql-wal", "a.sql-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    second = Growing(path, n_gpus=2, run_id="other", seed=5)
    second.grow(70)
    for _ in range(3):
        clock.seconds += 3.0
        frame = watch.look(WHOLE)
    assert frame.run.run_id == "other" and frame.problem is None
    Truth(second).agrees(frame)
    second.grow(3)
    clock.seconds += 3.0
    Truth(second).agrees(watch.look(WHOLE))


class _OneInode:
    """``os`` on a filesystem that gives every file the number of the one before."""

    @staticmethod
    def stat(name: str) -> os.stat_result:
        status = list(os.stat(name))
        status[1] = 7
        return os.stat_result(status)

    path = os.path


def test_what_was_read_of_a_removed_file_stays_on_screen(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(300)
    watch = watching(run.path)
    before = watch.look(LAST_MINUTE)
    for path in tmp_path.iterdir():
        path.unlink()
    for seconds in (1.0, 3.0, 10.0, 30.0):
        clock.seconds += seconds
        for query in (LAST_MINUTE, replace(LAST_MINUTE, metric="dram_active"), PAST):
            frame = watch.look(query)
            assert frame.n_rows == before.n_rows
        frame = watch.look(LAST_MINUTE)
        np.testing.assert_array_equal(frame.whole.n, before.whole.n)
    assert frame.state == "stalled" and "removed" in frame.problem


def test_a_removed_file_that_is_back_is_no_problem_any_more(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(100)
    watch = watching(run.path)
    watch.look(WHOLE)
    run.path.rename(tmp_path / "b.sql")
    clock.seconds += 3.0
    assert "removed" in watch.look(WHOLE).problem
    (tmp_path / "b.sql").rename(run.path)
    clock.seconds += 3.0
    watch.look(WHOLE)
    run.grow(5)
    clock.seconds += 3.0
    frame = watch.look(WHOLE)
    assert frame.problem is None
    Truth(run).agrees(frame)


def test_ranks_whose_files_appear_later_join(tmp_path, clock, watching):
    watch = watching(tmp_path / "a.sql")
    folder = tmp_path / "a.sql.d"
    folder.mkdir()
    assert watch.look(WHOLE).state == "waiting"
    runs: list[Growing] = []
    for rank in range(4):
        runs.append(Growing(folder / f"n{rank}.{rank}.r.sql", 2, f"n{rank}", rank, seed=rank))
        for run in runs:
            run.grow(20)
        clock.seconds += 3.0
        watch.look(LAST_MINUTE)
        for run in runs:
            run.grow(3)
        clock.seconds += 10.0
        frame = watch.look(LAST_MINUTE)
        assert frame.n_gpus == 2 * (rank + 1) and frame.nodes == tuple(f"n{k}" for k in range(rank + 1))
        Truth(*runs).agrees(frame)
    for exit_code, run in enumerate(runs):
        assert watch.look(WHOLE).state == "live"
        run.end(exit_code)
    clock.seconds += 3.0
    watch.look(WHOLE)
    frame = watch.look(WHOLE)
    assert frame.state == "ended" and frame.run.exit_code == 3
    Truth(*runs).agrees(frame)


_STEPS = st.tuples(st.sampled_from(("join", "grow", "end", "wait")), st.integers(0, 9), st.sampled_from(QUERIES))


@settings(max_examples=12, deadline=None)
@given(st.lists(_STEPS, min_size=2, max_size=7), st.permutations(range(8)), st.booleans())
def test_every_frame_is_of_one_moment_while_ranks_appear_and_end(tmp_path_factory, steps, nodes, merged):
    """Ranks join between, before and behind those that are known, whatever is asked of the frame just then."""
    path = tmp_path_factory.mktemp("r") / "a.sql"
    (folder := path.with_suffix(".sql.d")).mkdir()
    runs: list[Growing] = []

    def join() -> None:
        if len(runs) < len(nodes):
            node, rank = f"n{nodes[len(runs)]}", len(runs)
            runs.append(Growing(folder / f"{node}.{rank}.r.sql", 1 + rank % 3, node, rank, seed=rank))
            runs[-1].grow(20)

    def agrees(frame: Result) -> None:
        there = [run for run in runs if run.node in frame.nodes]
        assert frame.problem is None and frame.n_gpus == sum(run.n_gpus for run in there)
        Truth(*there).agrees_on_grid(frame)
        if frame.query.end is None and frame.state == "live":
            Truth(*there).agrees(frame)

    join()
    clock, ended = Clock(), 0
    with pytest.MonkeyPatch.context() as patch:
        for module in ("watch", "watched_recording", "following", "answers", "kept_answers"):
            patch.setattr(f"gssr.model.live.{module}.time", clock)
        with closing(WatchedRecording(str(path))) as watch:
            agrees(watch.look(WHOLE))
            for what, amount, query in steps:
                if what == "join":
                    join()
                elif what == "grow":
                    for run in runs[ended:]:
                        run.grow(1 + amount)
                elif what == "end" and ended < len(runs) - 1:
                    runs[ended].end()
                    ended += 1
                else:
                    clock.seconds += amount
                agrees(watch.look(query))
            for run in runs[ended:]:
                run.end()
            if merged:
                merge(str(path))
            agrees(watch.look(COARSE))
            clock.seconds += 60.0
            watch.look(WHOLE)
            assert watch.look(WHOLE).n_gpus == sum(run.n_gpus for run in runs)


def test_a_run_that_says_nothing_is_stalled_and_lives_again(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(30)
    watch = watching(run.path)
    assert watch.look(WHOLE).state == "live"
    clock.seconds += STALLED_SECONDS + 1
    frame = watch.look(WHOLE)
    assert frame.state == "stalled" and frame.silent == pytest.approx(STALLED_SECONDS + 1)
    assert frame.now == pytest.approx(frame.last + frame.silent)
    run.grow(1)
    assert watch.look(WHOLE).state == "live"


def test_a_lost_run_that_is_found_again_goes_on(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(30)
    watch = watching(run.path)
    watch.look(WHOLE)
    for path in tmp_path.iterdir():
        os.utime(path, (1e9, 1e9))
    clock.seconds += 20.0
    watch.look(WHOLE)
    frame = watch.look(WHOLE)
    assert frame.state == "lost"
    Truth(run).agrees(frame)
    run.grow(10)  # its filesystem had only been away
    clock.seconds += 3.0
    watch.look(WHOLE)
    run.grow(1)
    frame = watch.look(WHOLE)
    assert frame.state == "live"
    Truth(run).agrees(frame)


def test_a_run_that_ends_between_two_looks_is_read_to_its_last_row(tmp_path, clock, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(30)
    watch = watching(run.path)
    watch.look(LAST_MINUTE)
    run.grow(30)
    run.end(7)
    clock.seconds += 0.5
    watch.look(LAST_MINUTE)
    frame = watch.look(LAST_MINUTE)
    assert frame.state == "ended" and frame.run.exit_code == 7 and frame.silent == 0
    Truth(run).agrees(frame)
    assert not watch.growing


def test_a_quick_look_may_be_coarse_and_says_so(plants, watching, monkeypatch):
    monkeypatch.setattr("gssr.model.live.answers.QUICK_CELLS", 5000)
    watch = watching(plants["straggler"])
    query = Query("sm_active", columns=3000)
    quick = watch.look(query, quick=True)
    assert not quick.refined and quick.grid.width >= 600
    fine = watch.look(query)
    assert fine.refined and fine.grid.width < quick.grid.width
    assert watch.look(Query("sm_active", columns=60), quick=True).refined


def test_a_finished_recording_is_read_the_same_whichever_way_one_came(plants, watching):
    watch = watching(plants["gap"])
    queries = [
        Query(metric, span, end, columns)
        for metric in ("sm_active", "flop_active")
        for span, end in ((None, None), (60.0, None), (60.0, T0 + 230.0), (200.0, T0 + 300.0))
        for columns in (30, 61)
    ]
    for query in (*queries, *reversed(queries)):
        _same(watch.look(query), watching(plants["gap"]).look(query))


def test_what_is_read_in_fine_columns_is_not_read_again_for_others(plants, watching, monkeypatch):
    queries = [Query(columns=n) for n in (202, 230, 102, 42)]
    queries += [Query(span=100.0, columns=10), Query(span=60.0, end=T0 + 200.0, columns=30)]
    afresh = [watching(plants["gap"]).look(query) for query in queries]
    watch = watching(plants["gap"])
    watch.look(queries[0])
    monkeypatch.setattr("gssr.model.statistics.grid.Columns.read", None)
    for query, frame in zip(queries, afresh, strict=True):
        _same(watch.look(query), frame)


def test_a_lost_gpu_shows_as_missing_cells_and_one_gap(plants, watching):
    frame = watching(plants["gap"]).look(Query("sm_active", span=400.0, columns=200))
    assert frame.n_gaps.tolist() == [1 if gpu == 6 else 0 for gpu in range(16)]
    missing = np.isnan(frame.grid.values[:, frame.grid.column(T0 + 202) : frame.grid.column(T0 + 258)])
    assert missing[6].all() and not np.delete(missing, 6, axis=0).any()


def test_nothing_of_a_growing_file_is_held_between_two_looks(tmp_path, watching):
    run = Growing(tmp_path / "a.sql")
    run.grow(300)
    watch = watching(run.path)
    watch.look(LAST_MINUTE)
    run.grow(10)
    (busy, _, _) = run.writer._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0 and Path(f"{run.path}-wal").stat().st_size == 0


def test_hosts_are_named_without_the_domain_that_they_share(tmp_path: Path) -> None:
    """And found by either name; what tells them apart stays."""
    path = tmp_path / "a.sql"
    generate(str(path), "train", 16, 1 / 120, 0.5)
    cases = {
        "gpu{}.cluster.example.org": ("gpu0", "gpu1"),
        "10.0.0.{}": ("10.0.0.0", "10.0.0.1"),
        "host.rack{}.example.org": ("host.rack0.example.org", "host.rack1.example.org"),
    }
    for pattern, nodes in cases.items():
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE gpus SET node = replace(?, '{}', gpu / 9)", (pattern,))
        watch = WatchedRecording(str(path))
        frame = watch.look(WHOLE)
        watch.close()
        assert frame.nodes == nodes and frame.place(0) == f"{nodes[0]}:0"
        for text in (nodes[1], pattern.format(1)):
            assert passing(frame, f"{text}:*").sum() == passing(frame, text).sum() > 0
