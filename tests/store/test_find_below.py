"""Recordings found in folders; samples below a value, as sketches count them."""

import os
from pathlib import Path

import numpy as np
import pytest

from gssr.backends.synthetic.bulk import generate
from gssr.store.read.find_recordings import recordings_in
from gssr.store.read.recording import open_recording
from gssr.store.read.whole_run import count_below, read_rows_in_pieces

IDLE = 0.02


def recorded(path: Path, scenario: str, gpus: int, hours: float, interval: float) -> Path:
    generate(str(path), scenario, gpus, hours, interval)
    return path


@pytest.mark.parametrize("scenario", ["train", "gaps", "idle"])
def test_samples_below_a_value_are_those_of_the_raw_rows_to_within_a_bin(tmp_path: Path, scenario: str) -> None:
    path = recorded(tmp_path / "a.sql", scenario, 3, 0.4, 1.0)
    (run,) = open_recording(path).runs
    found, known = count_below(run, "sm_active", IDLE)
    rows = run.samples(["sm_active"])
    values = rows.values["sm_active"]
    measured = np.isfinite(values)
    assert known.tolist() == np.bincount(rows.gpu[measured], minlength=3).tolist()
    for limit, compare in ((IDLE * (1 - 1 / 128), np.less_equal), (IDLE, np.greater_equal)):
        exact = np.bincount(rows.gpu[measured & (values < limit)], minlength=3)
        assert compare(exact, found).all()
    assert count_below(run, "c2c_tx_bytes", 1.0)[1].tolist() == [0, 0, 0]


def test_a_run_in_pieces_is_the_run(tmp_path: Path) -> None:
    (run,) = open_recording(recorded(tmp_path / "a.sql", "gaps", 3, 0.02, 0.5)).runs
    pieces = list(read_rows_in_pieces(run, ["sm_active", "energy"], 100))
    whole = run.samples(["sm_active", "energy"])
    assert max(len(piece.gpu) for piece in pieces) <= 100 < len(whole.gpu)
    assert np.concatenate([piece.gpu for piece in pieces]).tolist() == whole.gpu.tolist()
    assert np.concatenate([piece.time for piece in pieces]).tolist() == whole.time.tolist()
    for name, values in whole.values.items():
        np.testing.assert_array_equal(np.concatenate([piece.values[name] for piece in pieces]), values)


def test_recordings_are_found_once_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "a.sql", "train", 1, 0.001, 0.5)
    deep = tmp_path / "user" / "project"
    deep.mkdir(parents=True)
    (deep / "b.sql").write_bytes(recording.read_bytes())
    (deep / "c.sql.d").mkdir()
    (deep / "c.sql.d" / "node.0.run.sql").write_bytes(recording.read_bytes())
    (deep / "c.sql").write_bytes(recording.read_bytes())
    (deep / "dump.sql").write_text("CREATE TABLE runs (x);")
    (deep / "reserved.sql").touch()
    (deep / "notes.txt").touch()
    os.mkfifo(deep / "pipe.sql")
    (deep / "loop").symlink_to(tmp_path)
    names, unreadable = recordings_in([tmp_path, deep / "c.sql.d", "missing.sql"])
    assert names == [*(str(path) for path in sorted([recording, deep / "b.sql", deep / "c.sql"])), "missing.sql"]
    assert unreadable == []
