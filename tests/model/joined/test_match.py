"""A trace laid over the recording of the same run: by which clock, and over which GPUs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gssr.model.joined.compare_clocks import Pair, compare, find
from gssr.model.joined.match import Match, matched
from gssr.model.joined.together import together
from gssr.model.traces.segments import Segments
from gssr.store.read.recording import RunReader, open_recording
from gssr.store.write.bulk import BulkWriter
from gssr.traces.open import open_traces
from tests.fakes.traces import kineto
from tests.fakes.traces.beside import NS, START, Truth

TRUTH = Truth(ranks=4)
STEADY = Truth(seed=2, period=0.7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings: ``run.sql`` of TRUTH, ``steady.sql`` of STEADY."""
    found = tmp_path_factory.mktemp("beside")
    TRUTH.record(found / "run.sql")
    STEADY.record(found / "steady.sql")
    return found


@contextmanager
def run_of(path: Path) -> Iterator[RunReader]:
    with closing(open_recording(path)) as recording:
        yield recording.runs[0]


def laid(recording: Path, trace: Path, offset: float | None = None) -> Match:
    with run_of(recording) as reader:
        return matched(reader, next(open_traces([str(trace)]).timelines()), offset)


@pytest.mark.parametrize("off", [0.0, 0.04, 5.0, -5.0, 1.3, -0.42])
def test_a_clock_that_is_off_is_found_to_an_interval(folder: Path, tmp_path: Path, off: float) -> None:
    found = laid(folder / "run.sql", TRUTH.trace(tmp_path / "t.json", 1, off=off))
    assert abs(found.offset + off) <= TRUTH.interval
    assert (found.check, found.clock) == (
        ("agrees", "unix") if abs(off) <= TRUTH.interval else ("elsewhere", "by comparison")
    )
    assert (found.start, found.end) == pytest.approx((START + 20, START + 40), abs=TRUTH.interval + 0.2)
    assert list(found.gpus.values()) == [1] and found.rank == 1


@pytest.mark.parametrize("off", [0.0, 0.7, 2.1])
def test_steps_that_are_all_alike_tell_nothing(folder: Path, tmp_path: Path, off: float) -> None:
    found = laid(folder / "steady.sql", STEADY.trace(tmp_path / "t.json", off=off))
    assert (found.check, found.clock, found.offset) == ("several", "unix", 0.0)
    assert "700 ms" in found.said[-1]


def test_another_job_at_the_same_time_is_refused(folder: Path, tmp_path: Path) -> None:
    other = Truth(seed=9, ranks=4)
    with pytest.raises(ValueError, match="other work than the samples"):
        laid(folder / "run.sql", other.trace(tmp_path / "t.json"))
    assert laid(folder / "run.sql", tmp_path / "t.json", 0.0).clock == "--offset"
    begin = TRUTH.busy(1)[10, 0] / NS - 0.1
    found = laid(folder / "run.sql", TRUTH.report(tmp_path / "r.sqlite", 1, begin, begin + 0.6))
    assert (found.check, found.clock, found.offset) == ("too few", "unix", 0.0)  # the GPU is told by its UUID


def test_a_trace_without_unix_time_is_laid_where_it_fits(folder: Path, tmp_path: Path) -> None:
    trace = TRUTH.trace(tmp_path / "t.json", 2, clock="boot")
    found = laid(folder / "run.sql", trace)
    assert found.clock == "by comparison" and abs(found.start - START - 20) <= TRUTH.interval + 0.2
    with pytest.raises(ValueError, match="--offset S"):
        laid(folder / "steady.sql", STEADY.trace(tmp_path / "s.json", clock="boot"))
    told = laid(folder / "steady.sql", tmp_path / "s.json", 20.0)
    assert told.clock == "--offset" and abs(told.start - START - 20) < 0.2


def test_a_trace_of_another_time_or_rank_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lies outside of the run: it was recorded .* after it"):
        laid(folder / "run.sql", TRUTH.trace(tmp_path / "late.json", off=3600.0))
    with pytest.raises(ValueError, match="rank 3, which is not in the recording"):
        laid(folder / "steady.sql", TRUTH.trace(tmp_path / "other.json", 3))


def test_gpus_are_known_by_uuid_first(folder: Path, tmp_path: Path) -> None:
    found = laid(folder / "run.sql", TRUTH.report(tmp_path / "r.sqlite", 2))
    assert list(found.gpus.values()) == [2] and found.check == "agrees"
    TRUTH.reports(tmp_path / "all.sqlite", range(4))
    found = laid(folder / "run.sql", tmp_path / "all.sqlite")
    assert sorted(found.gpus.values()) == [0, 1, 2, 3] and found.rank is None and found.check == "agrees"
    found = laid(folder / "run.sql", TRUTH.reports(tmp_path / "late.sqlite", range(4), off=4.2))
    assert sorted(found.gpus.values()) == [0, 1, 2, 3] and abs(found.offset + 4.2) <= TRUTH.interval
    with pytest.raises(ValueError, match="neither rank nor UUID"):
        laid(folder / "run.sql", TRUTH.trace(tmp_path / "none.json", 1, with_rank=False))
    with pytest.raises(ValueError, match="not of this run's GPUs"):
        laid(folder / "steady.sql", tmp_path / "r.sqlite")


@pytest.mark.parametrize("device", [0, 1, 7])
def test_a_rank_with_one_gpu_has_that_one_whatever_its_number(folder: Path, tmp_path: Path, device: int) -> None:
    found = laid(folder / "run.sql", TRUTH.trace(tmp_path / "t.json", 3, device=device))
    assert list(found.gpus.values()) == [3] and found.check == "agrees"


@pytest.mark.parametrize("off", [0.0, -5.0, 3.4])
def test_a_trace_without_gpus_is_compared_with_the_processes_cpu_time(folder: Path, tmp_path: Path, off: float) -> None:
    found = laid(folder / "run.sql", TRUTH.trace(tmp_path / "t.json", 2, 10, 50, off, gpus=False))
    assert abs(found.offset + off) <= 1.0 and found.check == ("elsewhere" if off else "agrees")
    assert not found.gpus and found.beside == (2,) and found.rank == 2


def test_cuda_visible_devices_renumbers(tmp_path: Path) -> None:
    truth = Truth(seed=4, per_rank=2, first_index=2)  # CUDA_VISIBLE_DEVICES=2,3
    recording = truth.record(tmp_path / "a.sql")
    found = laid(recording, truth.trace(tmp_path / "t.json", device=0))
    assert sorted(found.gpus.values()) == [0, 1] and found.check == "agrees"
    assert {track.device for track in found.gpus} == {2, 3}  # called as in the recording
    turned = truth.content(0, 20, 40, device=0)
    swapped = [e._replace(device=1 - e.device) if e.device is not None else e for e in turned.events]
    kineto.write(tmp_path / "s.json", turned._replace(events=tuple(swapped)))  # =3,2
    found = laid(recording, tmp_path / "s.json")
    assert {track.device: at for track, at in found.gpus.items()} == {2: 0, 3: 1}
    assert any("told apart by comparing" in text for text in found.said) and found.check == "agrees"


def test_of_gpus_that_all_do_the_same_none_is_taken(tmp_path: Path) -> None:
    truth = replace(STEADY, per_rank=2)
    recording, trace = truth.record(tmp_path / "a.sql"), truth.trace(tmp_path / "t.json", device=0)
    found = laid(recording, trace)
    assert not found.gpus and found.beside == (0, 1) and found.rank == 0
    assert any("which of the 2 GPUs of rank 0 is which is not told" in text for text in found.said)
    assert all(track.node is None for track in found.timeline.tracks if track.kind == "gpu_stream")
    assert not laid(recording, trace, 0.0).gpus


def test_where_every_rank_may_use_all_gpus_its_local_one_is_taken_unless_the_samples_say_otherwise(
    tmp_path: Path,
) -> None:
    for truth, device, is_said in (
        (replace(STEADY, ranks=3), 1, False),
        (Truth(ranks=3), 1, False),
        (Truth(ranks=3), 2, True),
    ):
        recording = truth.record(tmp_path / f"{truth.period}{device}.sql")
        with closing(sqlite3.connect(recording)) as db, db:
            db.execute("INSERT OR IGNORE INTO process_gpus SELECT p.run_id, p.rank, g.gpu FROM processes p JOIN gpus g")
        found = laid(recording, truth.trace(tmp_path / "t.json", 1, device=device))
        assert list(found.gpus.values()) == [1]
        assert any("told apart by comparing" in text for text in found.said) is is_said


def test_a_node_of_another_name_is_taken_where_the_samples_agree(folder: Path, tmp_path: Path) -> None:
    for recording, truth in ((folder / "run.sql", TRUTH), (folder / "steady.sql", STEADY)):
        timeline = next(open_traces([str(truth.trace(tmp_path / "t.json"))]).timelines())
        timeline = replace(timeline, tracks=tuple(track._replace(node="other") for track in timeline.tracks))
        with run_of(recording) as reader:
            if truth is TRUTH:
                assert any("was recorded on other" in text for text in matched(reader, timeline).said)
            else:
                with pytest.raises(ValueError, match="was recorded on other, and rank 0 of the run was on nid"):
                    matched(reader, timeline)


@pytest.mark.parametrize(("off", "nvml"), [(0.76, False), (-1.0, True), (0.6, True), (4.2, True)])
def test_a_clock_that_is_off_by_little_more_than_an_interval_is_not_said_to_be_right(
    tmp_path: Path, off: float, nvml: bool
) -> None:
    truth = Truth(seed=3, seconds=100, interval=0.5, nvml=nvml)
    found = laid(truth.record(tmp_path / "a.sql"), truth.trace(tmp_path / "t.json", 0, 30, 52, off))
    assert found.check == "elsewhere" and abs(found.offset + off) <= truth.interval


def test_a_gpu_that_is_always_busy_tells_nothing_and_that_is_said(tmp_path: Path) -> None:
    truth = replace(STEADY, duty=1.0)
    found = laid(truth.record(tmp_path / "a.sql", noise=0.0), truth.trace(tmp_path / "t.json"))
    assert (found.check, found.clock, found.offset) == ("too few", "unix", 0.0) and found.said


@pytest.mark.parametrize("off", [0.0, -4.2])
def test_processes_of_an_archive_are_told_by_their_names(tmp_path: Path, folder: Path, off: float) -> None:
    pytest.importorskip("otf2")
    found = laid(folder / "run.sql", TRUTH.archive(tmp_path / "scorep", off=off))
    assert sorted(found.gpus.values()) == [0, 1, 2, 3] and abs(found.offset + off) <= TRUTH.interval


def test_where_a_run_has_one_process_its_gpus_tell_the_ranks(tmp_path: Path) -> None:
    recording = TRUTH.record(tmp_path / "a.sql")  # as what is imported
    with closing(sqlite3.connect(recording)) as db, db:
        db.execute("DELETE FROM processes WHERE rank > 0")
    found = laid(recording, TRUTH.trace(tmp_path / "t.json", 2))
    assert list(found.gpus.values()) == [2] and found.check == "agrees"


def test_a_node_whose_clock_is_off_has_samples_by_the_same_clock(tmp_path: Path) -> None:
    recording = TRUTH.record(tmp_path / "a.sql")
    with closing(sqlite3.connect(recording)) as db, db:
        db.execute("UPDATE processes SET clock_offset = 3.0, clock_error = 0.001 WHERE rank = 1")
    found = laid(recording, TRUTH.trace(tmp_path / "t.json", 1))
    assert (found.check, found.offset) == ("agrees", 0.0)


def test_a_trace_longer_than_the_run_is_laid_over_it(folder: Path, tmp_path: Path) -> None:
    found = laid(folder / "run.sql", TRUTH.trace(tmp_path / "t.json", 0, begin=-10, end=90))
    assert found.check == "agrees" and found.start < START and found.end > START + 60


def test_nothing_is_compared_with_too_little() -> None:
    busy = (Segments(np.array([0]), np.array([NS])),)
    few = Pair(busy, np.arange(1, 5) * NS, np.array([1.0, 0.0, 0.0, 1.0]))
    assert compare([few], (0, 5 * NS), NS).check == "too few" == find([few], (0, 5 * NS), NS).check
    nothing = (Segments(np.zeros(0, np.int64), np.zeros(0, np.int64)),)
    values = np.random.default_rng(0).random(49)
    lazy = Pair(nothing, np.arange(1, 50) * NS, values)
    assert compare([lazy], (0, 50 * NS), NS).check == "too few" == find([lazy], (0, 50 * NS), NS).check
    seconds = np.arange(47)  # the GPU is busy for about 0.9 of each, a little as the samples are 2 s later
    hardly = Segments(seconds * NS, seconds * NS + np.rint((0.9 + 0.01 * values[2:]) * NS).astype(np.int64))
    assert compare([Pair((hardly,), np.arange(1, 50) * NS, values)], (5 * NS, 40 * NS), NS).is_flat
    same = Pair(busy, np.arange(1, 50) * NS, np.ones(49))
    assert all(compare([each], (0, 50 * NS), NS).is_flat for each in (lazy, same))
    assert not compare([few], (0, 5 * NS), NS).is_flat and find([lazy], (0, 20 * NS), NS).is_flat
    assert compare([same], (0, 50 * NS), NS).check == "too few" == compare([], (0, NS), NS).check


def test_traces_are_laid_over_a_run_without_gpus(tmp_path: Path) -> None:
    writer = BulkWriter(str(tmp_path / "host.sql"))
    run = {"run_id": "host", "started_at": START, "sampling_ms": 500, "world_size": 1, "n_nodes": 1, "state": "running"}
    process = {"rank": 0, "local_rank": 0, "node": "n0", "hostname": "n0", "started_at": START, "ended_at": START + 60}
    writer.begin(run, {**process, "exit_code": 0, "state": "completed"})
    writer.add_gpus([], (), 0.5)
    assert writer.finish(START + 60, 0, "completed", START + 60), writer.problem
    trace = TRUTH.trace(tmp_path / "t.json", 0, gpus=False)
    with run_of(tmp_path / "host.sql") as reader:
        found = together(reader, [matched(reader, next(open_traces([str(trace)]).timelines()))])
    assert found.refused == () and found.timeline is not None
    assert found.traced[0].share_of_run == pytest.approx(20 / 60, abs=0.02)
    assert found.traced[0].split == {} and found.traced[0].idle == ()
