"""What a recording says of ranks that were lost or failed while others went on: of its ranks' files, merged, and live."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from merging import RUN, record
from sample_rows import START, STEP

from gssr.model.analyze import analyze
from gssr.model.fleet.figures import read_figures
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.profile.recorder import Afterword
from gssr.store.format.rank_ends import RankEnd
from gssr.store.format.rows import first_failure
from gssr.store.format.schema import RECORDING_STOPPED
from gssr.store.merge import merge
from gssr.store.read.recording import open_recording
from tests.waiting import until

END = START + 60 * STEP


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([(5.0, 0), (3.0, 0)], 0),
        ([(5.0, 0), (3.0, 7), (2.0, 0), (4.0, 137)], 7),
        ([(3.0, 1), (None, 9)], 1),
        ([(3.0, 1), (3.0, 137), (3.0, 0)], 137),
        ([(3.0, 0), (None, None)], None),  # lost, or still running
        ([(3.0, 2), (None, None)], 2),
        ([], None),
    ],
)
def test_the_exit_code_of_a_run_is_that_of_the_rank_that_failed_first(
    ends: list[tuple[float | None, int | None]], code: int | None
) -> None:
    assert first_failure(ends) == first_failure(reversed(ends)) == code


@pytest.mark.parametrize("merged", [False, True])
def test_of_many_ranks_the_first_to_fail_gives_the_exit_code_however_they_are_merged(
    tmp_path: Path, merged: bool
) -> None:
    recording = tmp_path / "run.sql"
    for rank, (code, begin) in enumerate([(0, 9.0), (3, 2.0), (1, 4.0), (9, 6.0)]):  # they end as they begin
        record(recording, rank, code=code, begin=begin)
    if merged:
        merge(str(recording))
    with closing(open_recording(recording)) as found:
        (reader,) = found.runs
        assert (reader.state, reader.run.exit_code) == ("failed", 3)
        assert [(end.rank, end.node, end.how, end.exit_code) for end in reader.stopped_ranks] == [
            (1, "node0", "failed", 3), (2, "node1", "failed", 1), (3, "node1", "failed", 9),
        ]  # fmt: skip
        (sentence,) = [note for note in analyze(reader).notes if "rank" in note]
        assert sentence.startswith("rank 1 on node0 failed at ")
        assert sentence.endswith(" with exit code 3; 2 more failed after it")


@pytest.mark.parametrize("merged", [False, True])
def test_a_lost_rank_is_named_and_its_gpus_are_unmeasured_from_then_on(tmp_path: Path, merged: bool) -> None:
    recording = tmp_path / "run.sql"
    for rank in range(3):
        record(recording, rank, n_ticks=120, world_size=4)
    record(recording, 3, n_ticks=60, world_size=4, lost=True)
    if merged:
        merge(str(recording))
    with closing(open_recording(recording)) as found:
        (reader,) = found.runs
        assert (reader.state, reader.run.exit_code) == ("lost", None)
        (lost,) = reader.stopped_ranks
        assert lost == RankEnd(3, "node1", pytest.approx(END, abs=STEP), "lost", None)
        (event,) = [event for event in reader.events if event.kind == "rank_lost"]
        assert (event.rank, event.node, event.time) == (3, "node1", lost.time)
        analysis = analyze(reader)
        of_fleet = read_figures(reader, "run.sql")
    assert of_fleet.score is not None
    unused = 0.5 / 60 * 2 + (of_fleet.gpu_hours - 0.5 / 60 * 2) * (1 - of_fleet.score)
    assert of_fleet.wasted_gpu_hours == pytest.approx(unused, rel=0.02)
    assert analysis.gpu_hours == pytest.approx(8 * 60 / 3600, rel=0.02)
    assert analysis.gpu_hours_unmeasured == pytest.approx(2 * 30 / 3600, rel=0.05)
    assert [verdict.code for verdict in analysis.judgement.verdicts][:1] == ["rank_lost"]
    assert any(note.startswith("rank 3 on node1 was lost at ") for note in analysis.notes)
    assert not any("its sampler is gone" in note for note in analysis.notes)


@pytest.mark.parametrize("merged", [False, True])
def test_a_lost_recorder_that_is_beside_a_job_was_heard_of_as_long_as_its_node_was_sampled(
    tmp_path: Path, merged: bool
) -> None:
    recording = tmp_path / "run.sql"
    for rank in range(2):
        path = record(recording, rank, n_ticks=60, node=f"node{rank}", world_size=2, lost=rank == 1)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DELETE FROM workload_samples")
        for file in path.parent.glob(f"{path.name}*"):
            os.utime(file, (START, START))
    if merged:
        merge(str(recording))
    with closing(open_recording(recording)) as found:
        (lost,) = found.runs[0].stopped_ranks
    assert lost == RankEnd(1, "node1", pytest.approx(END, abs=STEP), "lost", None)


def test_a_loss_is_on_the_next_frame_while_the_others_go_on(tmp_path: Path) -> None:
    recording = tmp_path / "run.sql"
    for rank in range(2):
        record(recording, rank, world_size=2, lost=True)
    folder = tmp_path / "run.sql.d"
    for path in folder.iterdir():
        os.utime(path)  # just written
    with closing(WatchedRecording(str(recording))) as watch:
        frame = watch.look(Query())
        assert frame.state == "live" and frame.ranks_stopped == ()
        for path in folder.glob("node0.1.*"):
            os.utime(path, (START, START))
        watch.look(Query())
        watch._looked = 0.0  # as after LOOK_AGAIN
        for path in folder.glob("node0.0.*"):
            os.utime(path)
        frame = watch.look(Query())
    assert frame.state in ("live", "stalled")
    assert [(end.rank, end.node, end.how) for end in frame.ranks_stopped] == [(1, "node0", "lost")]
    assert [event.rank for event in frame.events if event.kind == "rank_lost"] == [1]


def test_a_rank_whose_supervisor_has_seen_its_sampler_die_is_lost_at_once(tmp_path: Path) -> None:
    recording = tmp_path / "run.sql"
    record(recording, 0, world_size=2)
    path = record(recording, 1, world_size=2, lost=True)
    os.utime(path)  # written just now
    with closing(open_recording(recording)) as found:
        assert found.runs[0].state == "running"
    Afterword(str(path), RUN, 1, "node0").add("backend_lost", f"{RECORDING_STOPPED}was killed by signal 9")
    until(lambda: _state(recording) == "lost", "the loss")


def _state(recording: Path) -> str:
    with closing(open_recording(recording)) as found:
        return found.runs[0].state
