"""What is added to a recording whose sampler died."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gssr.profile import recorder
from gssr.profile.recorder import MOST, Afterword
from gssr.store.read.recording import open_recording

BEGIN = """
import os, signal, sys
from gssr.store.write.writer import Writer
writer = Writer(sys.argv[1])
writer.begin({"run_id": "mine", "state": "running", "started_at": 1e9, "sampling_ms": 100.0}, {"rank": 2})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording with the run ``mine``, left as a killed sampler leaves it."""
    monkeypatch.setattr(recorder, "PATIENCE", 60.0)
    path = tmp_path / "a b?%#.sql"
    environ = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    assert subprocess.run([sys.executable, "-c", BEGIN, path], env=environ, timeout=30).returncode == -signal.SIGKILL
    return path


def events(path: Path) -> list[tuple]:
    return [(event.kind, event.rank, event.node, event.message) for event in open_recording(path).runs[0].events]


def test_events_are_added_beside_what_is_there(path):
    words = Afterword(str(path), "mine", 2, "node1")
    words.add("backend_lost", "it crashed")
    words.add("end", "the command ended")
    words.finish()
    assert events(path) == [("backend_lost", 2, "node1", "it crashed"), ("end", 2, "node1", "the command ended")]


def test_they_are_few(path):
    words = Afterword(str(path), "mine", 0, "node1")
    for number in range(MOST + 5):
        words.add("signal", str(number))
    words.finish()
    assert len(events(path)) == MOST


def test_no_other_run_and_no_other_file_is_touched(path, tmp_path):
    (tmp_path / "text.sql").write_bytes(b"not a database")
    for name in ("missing.sql", "text.sql", path.name):
        words = Afterword(str(tmp_path / name), "another", 0, "node1")
        words.add("end", "over")
        words.finish()
    assert (tmp_path / "text.sql").read_bytes() == b"not a database" and not (tmp_path / "missing.sql").exists()
    assert events(path) == []
