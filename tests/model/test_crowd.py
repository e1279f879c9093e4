"""A run of so many ranks that it is followed by live blocks shows what its rows say, whatever happens to the blocks."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gssr.model.analyze import analyze
from gssr.model.live import following, watched_recording
from gssr.model.live.judge import answer, asked_of
from gssr.model.live.judge_blocks import LATER, SEEN_IN_PART, TOLD
from gssr.model.live.live_result import Query, Result
from gssr.model.live.watch import Watch
from gssr.model.live.watched_recording import REREAD_SECONDS, WatchedRecording
from gssr.model.verdicts.rules import TABLE
from gssr.store.read.follow import Follower, News
from gssr.store.read.recording import open_recording
from gssr.store.write import writer
from tests.fakes.clock import Clock
from tests.fakes.growing import T0, Growing, Truth

WHOLE = Query(columns=40)
SLIDING = Query("power_usage", span=60.0, columns=30)


class Job:
    """Five ranks on as many nodes, each with its own random holes."""

    def __init__(self, folder: Path, n_ranks: int = 5) -> None:
        self.path = folder / "job.sql"
        (folder / "job.sql.d").mkdir()
        self.ranks = [
            Growing(folder / "job.sql.d" / f"n{rank}.{rank}.r.sql", 2, f"n{rank}", rank, "r", seed=rank)
            for rank in range(n_ranks)
        ]

    def grow(self, ticks: int, but: tuple[int, ...] = ()) -> None:
        for number, rank in enumerate(self.ranks):
            if number not in but:
                rank.grow(ticks)
                rank.writer.tick(rank.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("watch", "watched_recording", "answers", "kept_answers", "following"):
        monkeypatch.setattr(f"gssr.model.live.{module}.time", clock)
    return clock


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(writer, "MANY_FILES", 1)
    monkeypatch.setattr(following, "MANY_FILES", 2)
    return Job(tmp_path)


@pytest.fixture
def watch(job: Job, clock: Clock) -> Iterator[Watch]:
    assert clock.seconds  # it stands still from before the first look on
    job.grow(100)
    watch = WatchedRecording(str(job.path))
    yield watch
    watch.close()


def looked(watch: Watch, clock: Clock, query: Query = WHOLE, seconds: float = 2.0) -> Result:
    clock.seconds += seconds
    return watch.look(query)


def agrees(frame: Result, job: Job) -> None:
    """All counts are those of the rows."""
    truth = Truth(*job.ranks)
    assert (frame.n_rows, frame.first, frame.last) == (len(truth.time), truth.time.min(), truth.time.max())
    np.testing.assert_array_equal(frame.n_gaps, truth.gaps())
    np.testing.assert_array_equal(frame.last_time, truth.last_time())
    for row, name in enumerate(frame.whole.names):
        n, total = truth.means(name)
        np.testing.assert_array_equal(frame.whole.n[row], n, name)
        np.testing.assert_allclose(frame.whole.total[row], total, rtol=1e-9, atol=1e-6, err_msg=name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were asked by SQL."""
    names: list[str] = []
    poll = Follower.poll

    def noted(self: Follower, limit: int = 100_000) -> News:
        names.append(os.path.basename(self.path))
        return poll(self, limit)

    monkeypatch.setattr(Follower, "poll", noted)
    return names


@pytest.mark.parametrize("query", [WHOLE, SLIDING], ids=["whole", "sliding"])
def test_blocks_tell_what_the_rows_do_and_no_file_is_asked(job, watch, clock, asked, query):
    watch.look(query)
    for ticks in (4, 4, 2, 0, 30, 4):
        job.grow(ticks)
        frame = looked(watch, clock, query)
        agrees(frame, job)
        assert frame.state == "live" and frame.reread is not None
    assert asked == []


def test_the_first_picture_does_not_wait_for_what_only_the_files_tell(job, clock, monkeypatch):
    job.grow(100)
    opened = []

    def count(path, *others, open_it=watched_recording.open_recording):
        opened.append(path)
        return open_it(path, *others)

    monkeypatch.setattr(watched_recording, "open_recording", count)
    with closing(WatchedRecording(str(job.path))) as watch:
        assert watch.files_opened == (0, 0)
        frame = watch.look(replace(WHOLE, score_columns=8, causes=TABLE), quick=True)
        assert watch.files_opened == (4, 5)
        assert not frame.refined and frame.judgement is None and frame.score_curve is None
        assert np.isnan(frame.grid.values).all()
        agrees(frame, job)
        known = watch.look(replace(WHOLE, score_columns=8, causes=TABLE))
        assert len(opened) == 1  # the files stayed open for this look
        assert known.refined and known.judgement is not None
        assert np.isfinite(known.grid.values).any() and known.score_curve is not None
        agrees(known, job)
        clock.seconds += 2.0
        assert watch.look(replace(WHOLE, columns=30), quick=True).refined


def test_missed_blocks_lose_nothing(job, watch, clock):
    watch.look(WHOLE)
    for _ in range(50):
        job.grow(3)
    agrees(looked(watch, clock), job)


def test_columns_hold_the_means_of_their_rows(job, watch, clock):
    query = Query("sm_active", span=60.0, columns=12)
    watch.look(query)
    for _ in range(40):
        job.grow(4)
        frame = looked(watch, clock, query)
    afresh = WatchedRecording(str(job.path))
    other = afresh.look(query)
    afresh.close()
    assert (frame.grid.start, frame.grid.width) == (other.grid.start, other.grid.width) and frame.grid.width == 5.0
    both = np.isfinite(frame.grid.values) & np.isfinite(other.grid.values)
    assert both.mean() > 0.7
    assert np.abs(frame.space.mean - other.space.mean).max() < 0.12  # a span of 2 s may lie in two columns
    assert np.nanmean(frame.grid.values) == pytest.approx(np.nanmean(other.grid.values), abs=0.02)


def test_where_nothing_was_sampled_columns_stay_empty(job, watch, clock):
    query = Query("sm_active", span=120.0, columns=24)
    watch.look(query)
    for rank in job.ranks:
        rank.sleep(60.0)
    job.grow(6)
    values = looked(watch, clock, query).grid.values
    assert np.isnan(values[:, -12:-2]).all() and np.isfinite(values[:, -1]).any()


def test_a_block_that_is_half_written_is_passed_over(job, watch, clock):
    watch.look(WHOLE)
    block = Path(f"{job.ranks[1].path}.live")
    job.grow(4)
    data = block.read_bytes()
    block.write_bytes(data[:200] + b"\0" * 8 + data[208:])
    before = looked(watch, clock)
    block.write_bytes(data[:-10])
    assert looked(watch, clock).n_rows == before.n_rows
    job.grow(4)
    agrees(looked(watch, clock), job)


def test_where_there_is_no_block_the_rows_are_read(job, watch, clock, asked):
    os.unlink(f"{job.ranks[0].path}.live")
    for ticks in (4, 4, 20):
        job.grow(ticks)
        agrees(looked(watch, clock), job)
    assert set(asked) == {job.ranks[0].path.name}


def test_a_rank_that_ends_is_counted_to_its_end_and_asked_once(job, watch, clock, asked):
    watch.look(WHOLE)
    job.grow(4)
    looked(watch, clock)
    job.ranks[2].grow(3)
    job.ranks[2].end()
    assert not os.path.exists(f"{job.ranks[2].path}.live")
    for _ in range(3):
        job.grow(4, but=(2,))
        frame = looked(watch, clock)
    assert frame.state == "live" and asked == [job.ranks[2].path.name]
    agrees(frame, job)


def test_when_all_ranks_have_ended_the_run_has(job, watch, clock):
    watch.look(WHOLE)
    for rank in job.ranks:
        rank.grow(3)
        rank.end()
    looked(watch, clock)
    frame = looked(watch, clock)
    assert frame.state == "ended" and frame.run.state == "completed" and frame.reread is None
    agrees(frame, job)
    assert watch.pace == 0.0


def test_a_node_of_which_nothing_comes_is_stale_with_its_age_and_no_other(job, watch, clock):
    watch.look(WHOLE)
    for _ in range(6):
        job.grow(4, but=(3,))
        frame = looked(watch, clock)
    silent = frame.on_node(3)
    assert frame.state == "live"
    assert (frame.age[silent] > 10.0).all()
    others = np.setdiff1d(np.arange(frame.n_gpus), silent)
    away = frame.last - frame.last_time[others] > 2.0  # of the holes that every node has
    assert not frame.age[others][~away].any()


def test_a_node_whose_clock_is_slow_is_not_stale_while_its_samples_come(job, clock):
    job.ranks[1].now -= 6.0
    job.grow(100)
    watch = WatchedRecording(str(job.path))
    watch.look(WHOLE)
    job.grow(4)
    frame = looked(watch, clock)
    watch.close()
    slow = frame.on_node(1)
    slow = slow[frame.coming[slow]]
    assert len(slow) and (frame.last - frame.last_time[slow] > 5.0).all()
    assert not frame.age[slow].any()


def test_a_run_whose_recorders_are_all_gone_is_lost(job, watch, clock):
    watch.look(WHOLE)
    for rank in job.ranks:
        for name in (rank.path, Path(f"{rank.path}-wal")):
            os.utime(name, (T0, T0))
    assert looked(watch, clock, seconds=6.0).state == "stalled"
    assert looked(watch, clock, seconds=20.0).state == "lost"


def test_what_blocks_do_not_tell_is_read_again_after_a_while(job, watch, clock):
    job.ranks[0].writer.event(job.ranks[0].now, "mark", "epoch 1")
    job.grow(4)
    watch.look(WHOLE)
    job.ranks[0].writer.event(job.ranks[0].now, "mark", "epoch 2")
    job.grow(4)
    frame = looked(watch, clock, seconds=20.0)
    assert [event.message for event in frame.events] == ["epoch 1"] and frame.reread == 20.0
    frame = looked(watch, clock, seconds=REREAD_SECONDS)
    assert [event.message for event in frame.events] == ["epoch 1", "epoch 2"] and frame.reread == 0.0


def test_few_ranks_publish_no_blocks(tmp_path):
    job = Job(tmp_path)
    job.grow(10)
    assert not list((tmp_path / "job.sql.d").glob("*.live"))


def _verdicts(job: Job) -> set[str]:
    """What the page says of the job now."""
    with closing(open_recording(str(job.path))) as recording:
        return {verdict.code for verdict in analyze(recording.runs[0]).judgement.verdicts}


def test_what_blocks_tell_is_judged_while_it_runs_and_the_rest_is_known_after_it(job: Job, clock: Clock) -> None:
    asked = replace(WHOLE, causes=TABLE)
    for rank in job.ranks[:2]:
        rank.idle = True
    job.grow(100)
    with closing(WatchedRecording(str(job.path))) as watch:
        looked(watch, clock, asked)
        job.grow(60)
        for query in (asked, replace(asked, metric="power_usage", gpus=(0, 1, 6, 7)), replace(asked, span=30.0)):
            found = looked(watch, clock, query, 10.0).judgement
            assert found is not None
            known = {verdict.code for verdict in found.verdicts}
            assert "gpus_unused" in known <= set(TOLD), query
            later = {code for code, reason in found.abstentions.items() if reason == LATER}
            rest = {rule.code for rule in TABLE.rules} - set(TOLD)
            assert rest <= later <= rest | set(SEEN_IN_PART) and not later & known
        assert {verdict.code for verdict in looked(watch, clock, asked).judgement.verdicts} == _verdicts(job) & set(
            TOLD
        )
        for rank in job.ranks:
            rank.end()
        frame = looked(watch, clock, asked, 10.0)
        for _ in range(5):
            frame = frame if frame.state == "ended" else looked(watch, clock, asked, 10.0)
        wanted = asked_of(frame)
        assert frame.state == "ended" and wanted is not None
        whole = answer(wanted).judgement
        assert {verdict.code for verdict in whole.verdicts} == _verdicts(job)
        assert LATER not in whole.abstentions.values()


def test_a_run_of_many_files_is_judged_seldom_and_asked_anew_when_the_view_changes(job: Job, clock: Clock) -> None:
    job.grow(100)
    asked = replace(WHOLE, causes=TABLE)
    with closing(WatchedRecording(str(job.path))) as watch:
        first = looked(watch, clock, asked).judgement
        job.grow(4)
        assert looked(watch, clock, asked, 2.0).judgement is first
        assert looked(watch, clock, replace(asked, span=20.0), 2.0).judgement is not first
        assert looked(watch, clock, WHOLE).judgement is None
