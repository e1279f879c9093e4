"""What a frame says beyond its columns: throttling, columns as wide as asked for, and where the work begins."""

from pathlib import Path

import numpy as np
import pytest

from gssr.metrics import METRICS, THROTTLES
from gssr.model.live import watched_recording as watching
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.store.write.writer import Writer

START = 1_700_000_400.0


def _begun(path: Path) -> Writer:
    writer = Writer(str(path))
    writer.begin(
        {"run_id": "r", "state": "running", "started_at": START, "sampling_ms": 1000.0}, {"rank": 0, "node": "n"}
    )
    writer.add_gpus(
        [{"device_index": index, "uuid": f"GPU-{index}"} for index in range(2)],
        ("sm_active", "clock_event_reasons"),
        1.0,
    )
    return writer


def _sample(writer: Writer, seconds: range) -> None:
    """Both work from 40 s on; heat slows the first in odd seconds, and of the second no reasons are known."""
    for second in seconds:
        for gpu in range(2):
            known = {"sm_active": 0.0 if second < 40 else 0.8}
            if gpu == 0:
                known["clock_event_reasons"] = 0x41 if second % 2 else 0x1
            writer.add([(gpu, START + second, *(known.get(metric.name) for metric in METRICS))])
        writer.tick(START + second)
    writer.commit(START + seconds.stop)


def test_throttling_is_the_share_of_samples_also_while_a_recording_grows(tmp_path):
    writer = _begun(tmp_path / "a.sql")
    _sample(writer, range(50))
    watch = WatchedRecording(str(tmp_path / "a.sql"))
    assert watch.look(Query()).whole.per_gpu("hw_thermal")[0] == 0.5
    _sample(writer, range(50, 101))
    grown = watch.look(Query()).whole
    watch.close()
    writer.finish(START + 101, 0, "completed", START + 101)
    for whole in (grown, WatchedRecording(str(tmp_path / "a.sql")).look(Query()).whole):
        assert whole.per_gpu("hw_thermal")[0] == pytest.approx(50 / 101)
        assert whole.per_gpu("sw_power_cap")[0] == 0.0
        assert all(np.isnan(whole.per_gpu(name)[1]) for name in THROTTLES)


def test_columns_are_as_wide_as_asked_for(tmp_path):
    writer = _begun(tmp_path / "a.sql")
    _sample(writer, range(120))
    grid = (
        WatchedRecording(str(tmp_path / "a.sql"))
        .look(Query(columns=30, span=600.0, end=START + 600.0, width=20.0))
        .grid
    )
    assert (grid.start, grid.width, grid.n) == (START, 20.0, 30)
    assert np.isfinite(grid.values[0, :6]).all() and np.isnan(grid.values[0, 6:]).all()


def test_where_the_work_begins_is_looked_for_when_asked(tmp_path):
    writer = _begun(tmp_path / "a.sql")
    _sample(writer, range(200))
    watch = WatchedRecording(str(tmp_path / "a.sql"))
    assert watch.look(Query()).active_from is None
    found = watch.look(Query(activity=True)).active_from
    assert found is not None and abs(found - START - 40) <= 2


def test_rows_that_come_while_a_growing_recording_is_read_leave_no_hole_in_its_columns(tmp_path, monkeypatch):
    writer = _begun(tmp_path / "a.sql")
    _sample(writer, range(50))
    written = [50]

    def opened(path, progress, open_it=watching.open_recording):
        recording = open_it(path, progress)
        _sample(writer, range(written[0], written[0] + 1))
        writer.event(START + written[0], "mark", "then events are read anew")
        written[0] += 1
        return recording

    monkeypatch.setattr(watching, "open_recording", opened)
    monkeypatch.setattr(watching, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(watching, "OPEN_COSTS", 0)
    watch = WatchedRecording(str(tmp_path / "a.sql"))
    for width in (1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25):
        before = written[0]
        values = watch.look(Query(columns=1000, width=width)).grid.values[0, :: round(1 / width)]
        known = np.flatnonzero(np.isfinite(values))
        assert known.tolist() == list(range(len(known)))
        assert len(known) >= before - 2
    watch.close()
