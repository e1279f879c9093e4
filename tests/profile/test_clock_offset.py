"""Clocks of nodes are compared where that tells something, and only what matters is said."""

import time

import pytest

from gssr.model.analyze import analyze
from gssr.profile.sampling import clock
from gssr.store.format.node_clocks import clocks_ahead
from gssr.store.format.rows import Process
from gssr.store.merge import merge
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer


@pytest.mark.parametrize("skew", [0.0, 3.25, -100.0])
def test_a_clock_that_is_set_wrong_is_measured_within_its_error(tmp_path, monkeypatch, skew):
    real = time.time
    monkeypatch.setattr(clock, "filesystem_of", lambda _path: "nfs4")
    monkeypatch.setattr(time, "time", lambda: real() + skew)
    found = clock.against_files(str(tmp_path))
    assert found is not None
    offset, error = found
    assert abs(offset - skew) <= error < 0.1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["lustre", "gpfs", "fuse.sshfs", "unknown"])
def test_where_each_host_stamps_files_by_its_own_clock_nothing_is_known(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(clock, "filesystem_of", lambda _path: kind)
    assert clock.against_files(str(tmp_path)) is None


def test_a_folder_that_can_not_be_written_to_tells_nothing(monkeypatch):
    monkeypatch.setattr(clock, "filesystem_of", lambda _path: "nfs")
    assert clock.against_files("/proc/self") is None


def process(node: str, offset: float | None, error: float = 0.01) -> Process:
    fields = dict.fromkeys(Process._fields)
    return Process(**fields | {"node": node, "clock_offset": offset, "clock_error": error})


def test_only_what_exceeds_a_sampling_interval_and_the_error_is_off():
    close = [process("a", 100.0), process("b", 100.4), process("c", 99.8), process("d", None), process("f", 100.0)]
    assert clocks_ahead(close, 0.5) == {}
    assert clocks_ahead([*close, process("e", 102.0, 3.0)], 0.5) == {}
    assert clocks_ahead([*close, process("e", 98.0)], 0.5) == {"e": (pytest.approx(-2.0), pytest.approx(0.02))}
    assert clocks_ahead([process("a", 5.0)], 0.5) == {}
    many = [*(process(f"n{n}", 0.0) for n in range(20)), *(process(f"x{n}", 9.0) for n in range(9))]
    assert len(clocks_ahead(many, 0.5)) == 9


def test_a_page_notes_it_before_and_after_a_merge(tmp_path):
    (tmp_path / "a.sql.d").mkdir()
    for rank, offset in enumerate((0.0, 0.001, 7.5)):
        writer = Writer(str(tmp_path / "a.sql.d" / f"n{rank}.{rank}.r.sql"))
        owner = {"rank": rank, "node": f"n{rank}", "state": "running", "clock_offset": offset, "clock_error": 0.005}
        writer.begin({"run_id": "r", "sampling_ms": 500.0, "state": "running"}, owner)
        assert writer.finish(1e9, 0, "completed", 1e9)
    for _ in range(2):
        (reader,) = open_recording(tmp_path / "a.sql").runs
        assert "n2 is 7.5 s ahead" in analyze(reader).notes[-1]
        if (tmp_path / "a.sql.d").exists():
            merge(str(tmp_path / "a.sql"))
