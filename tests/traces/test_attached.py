"""Traces attached to a recording: attaching, and opening, which follows no link and reads nothing that has changed."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gssr.api.recording import open_recording as open_recorded
from gssr.store.format.rows import AttachedTrace
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer
from gssr.traces.attached import open_attached
from gssr.traces.timeline import Timeline
from tests.forked import gssr

BEGIN = 1.7e9
PROCESS = {"rank": 3, "node": "n7", "hostname": "n7", "state": "running"}


def kineto(path: Path, begin: float = BEGIN + 10, **head: object) -> Path:
    """A trace of half a second; ``begin``: unix s."""
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": 5.0,
         "args": {"stream": 7, "device": 2, "correlation": 1}}
        for ts in (0.0, 500_000.0)
    ]  # fmt: skip
    head = {"schemaVersion": 1, "baseTimeNanoseconds": int(begin * 1e9)} | head
    path.write_text(json.dumps(head | {"traceEvents": events}))
    return path


def record(path: Path, run_id: str = "r", begin: float = BEGIN, append: bool = False) -> None:
    writer = Writer(str(path), append)
    writer.begin({"run_id": run_id, "started_at": begin, "sampling_ms": 500.0, "state": "running"}, PROCESS)
    assert writer.finish(begin + 60, 0, "completed", begin + 60)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Path]:
    record(tmp_path / "run.sql")
    yield tmp_path / "run.sql"


def rows_of(recording: Path) -> list[AttachedTrace]:
    found = open_recording(recording)
    rows = [row for run in found.runs for row in run.traces()]
    found.close()
    return rows


def noted(recording: Path, *paths: str) -> list[AttachedTrace]:
    """Rows of what lies in the folder, or would."""
    rows = []
    for path in paths:
        try:
            status = os.stat(recording.with_suffix(".traces") / path)
            size, mtime = status.st_size, status.st_mtime
        except (OSError, ValueError):
            size, mtime = 1, BEGIN
        rows.append(AttachedTrace("r", "n7", 3, path, "kineto", size, mtime, None, None, None, None))
    return rows


def test_files_are_linked_beside_the_recording_and_noted(recording: Path, tmp_path: Path) -> None:
    file = kineto(tmp_path / "mine.json", distributedInfo={"rank": 3})
    os.makedirs(tmp_path / "more")
    kineto(tmp_path / "more" / "mine.json", BEGIN + 20)
    done = gssr("merge", "run.sql", "--attach", "mine.json", "more", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "run.sql: 2 traces attached\n", "")
    first, second = rows_of(recording)
    assert (first.path, second.path) == ("mine-2.json", "mine.json") or (first.path, second.path) == (
        "mine.json", "mine-2.json",
    )  # fmt: skip
    folder = tmp_path / "run.traces"
    assert os.path.samefile(folder / "mine.json", file) and os.stat(folder).st_mode & 0o777 == 0o700
    row = next(row for row in (first, second) if row.path == "mine.json")
    assert (row.rank, row.node, row.format, row.zero, row.clock_origin, row.gpus) == (
        3, "n7", "kineto", int((BEGIN + 10) * 1e9), "unix", "[2]",
    )  # fmt: skip
    opened = list(open_attached(str(recording), [first, second]))
    assert {track.rank for _, timeline in opened for track in timeline.tracks} == {3}
    os.unlink(file)  # what was attached stays
    assert [type(found) for _, found in open_attached(f"{recording}.d/", [first])] == [Timeline]
    # Once more, from where it is: its row is renewed, and not doubled.
    os.utime(folder / "mine.json", (BEGIN, BEGIN))
    assert "has changed since" in next(open_attached(str(recording), [row]))[1]
    done = gssr("merge", "run.sql", "--attach", "run.traces/mine.json", cwd=tmp_path)
    assert done.returncode == 0 and len(rows_of(recording)) == 2
    assert all(isinstance(found, Timeline) for _, found in open_attached(str(recording), rows_of(recording)))


def test_what_is_no_trace_or_of_another_run_is_a_sentence_and_nothing_is_made(recording: Path, tmp_path: Path) -> None:
    before = recording.read_bytes()
    kineto(tmp_path / "late.json", BEGIN + 600)
    (tmp_path / "text").write_text("hello")
    (tmp_path / "none").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    words = ["late.json", "text", "none", "missing", "run.sql", "pipe.json", "/dev/zero"]
    done = gssr("merge", "run.sql", "--attach", *words, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and done.stdout == "run.sql: 0 traces attached\n" and len(lines) == len(words)
    for name in words:
        assert any(name in line for line in lines), name
    assert any("late.json: is of another run: it was traced from 2023-11-14 22:23:20 UTC" in line for line in lines)
    assert recording.read_bytes() == before and not (tmp_path / "run.traces").exists()


def test_of_several_runs_the_one_of_its_time_gets_it_and_without_times_one_has_to_be_named(
    recording: Path, tmp_path: Path
) -> None:
    record(recording, "later", BEGIN + 100, append=True)
    kineto(tmp_path / "a.json", BEGIN + 110)
    kineto(tmp_path / "b.json", BEGIN + 50)
    events = [{"ph": "X", "name": "k", "pid": 0, "tid": 7, "ts": 10.0, "dur": 5.0}]
    (tmp_path / "c.json").write_text(json.dumps({"traceEvents": events}))
    done = gssr("merge", "run.sql", "--attach", "a.json", "b.json", "c.json", cwd=tmp_path)
    assert done.returncode == 1 and "c.json: tells no time, and the recording holds 2 runs" in done.stderr
    assert {(row.run_id, row.path) for row in rows_of(recording)} == {("later", "a.json"), ("r", "b.json")}
    done = gssr("merge", "run.sql", "--run", "later", "--attach", "c.json", cwd=tmp_path)
    assert done.returncode == 0 and "c.json: tells no time: nobody knows" in done.stderr
    assert ("later", "c.json") in {(row.run_id, row.path) for row in rows_of(recording)}
    assert gssr("merge", "run.sql", "--run", "later", cwd=tmp_path).returncode == 2


def test_an_archive_of_scorep_goes_as_a_whole(recording: Path, tmp_path: Path) -> None:
    archive = tmp_path / "scorep-1"
    (archive / "traces").mkdir(parents=True)
    for name, content in (
        ("traces.otf2", b"\3BOTF2"),
        ("traces.def", b"d"),
        ("traces/0.evt", b"\3LOTF2"),
        ("x.cfg", b""),
    ):
        (archive / name).write_bytes(content + b" " * 20)
    from gssr.traces import attach

    row = attach._put(str(recording.with_suffix(".traces")), str(archive / "traces.otf2"))
    assert row == "scorep-1/traces.otf2"
    copied = recording.with_suffix(".traces") / "scorep-1"
    assert {str(path.relative_to(copied)) for path in copied.rglob("*") if path.is_file()} == {
        "traces.otf2", "traces.def", "traces/0.evt", "x.cfg",
    }  # fmt: skip


def test_a_copy_of_what_is_there_is_no_other_trace(recording: Path, tmp_path: Path) -> None:
    from gssr.traces import attach

    folder = str(recording.with_suffix(".traces"))
    first, other = kineto(tmp_path / "rank0.json"), kineto(tmp_path / "other.json", BEGIN + 20)
    (tmp_path / "copies").mkdir()
    again = shutil.copyfile(first, tmp_path / "copies" / "rank0.json")
    renamed = shutil.copyfile(first, tmp_path / "copies" / "again.json")
    changed = shutil.copyfile(other, tmp_path / "copies" / "other.json")
    with open(changed, "r+b") as file:  # of the same size
        file.seek(-1, os.SEEK_END)
        file.write(b" ")
    names = [attach._put(folder, str(path)) for path in (first, again, renamed, other, changed)]
    assert names == ["rank0.json", "rank0.json", "rank0.json", "other.json", "other-2.json"]


def test_a_recording_without_the_table_has_no_traces_and_gets_some(recording: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(recording)) as connection:
        connection.execute("DROP TABLE traces")
    assert rows_of(recording) == []
    kineto(tmp_path / "a.json")
    assert gssr("merge", "run.sql", "--attach", "a.json", cwd=tmp_path).returncode == 0
    assert [row.path for row in rows_of(recording)] == ["a.json"]
    open_recorded(str(recording)).close()


def test_nothing_outside_of_the_folder_is_read_and_no_link_is_followed(recording: Path, tmp_path: Path) -> None:
    folder = recording.with_suffix(".traces")
    (folder / "inner").mkdir(parents=True)
    outside = kineto(tmp_path / "outside.json")
    kineto(folder / "inner" / "good.json")
    (folder / "link.json").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "dead.json").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.json")
    bad = ["../outside.json", str(outside), "link.json", "linked/outside.json", "dead.json", "pipe.json", "inner", "", ".",
           "inner/../inner/good.json", "inner//good.json", "a\0b", "nowhere.json", "\udcff.json", "x" * 5000]  # fmt: skip
    opened = list(open_attached(str(recording), noted(recording, *bad)))
    assert len(opened) == len(bad)
    for _, problem in opened:
        assert isinstance(problem, str) and str(folder) in problem, problem
    ((good, timeline),) = open_attached(str(recording), noted(recording, "inner/good.json"))
    assert isinstance(timeline, Timeline)
    # Nor is the folder itself a link to another.
    os.rename(folder, tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    ((_, refused),) = open_attached(str(recording), [good])
    assert isinstance(refused, str) and "there is a link" in refused


def test_what_changed_or_is_gone_is_said_and_a_copy_by_seconds_is_no_change(recording: Path) -> None:
    folder = recording.with_suffix(".traces")
    folder.mkdir()
    kineto(folder / "a.json")
    (row,) = noted(recording, "a.json")
    os.utime(folder / "a.json", (row.mtime, int(row.mtime)))  # as tar and scp -p keep it
    assert isinstance(next(open_attached(str(recording), [row]))[1], Timeline)
    for change in ({"size": row.size + 1}, {"mtime": row.mtime - 60}):
        ((_, changed),) = open_attached(str(recording), [row._replace(**change)])
        assert isinstance(changed, str) and "has changed since" in changed
    (folder / "a.json").write_text("{" * row.size)
    ((_, broken),) = open_attached(str(recording), noted(recording, "a.json"))
    assert isinstance(broken, str) and "a.json" in broken
    os.unlink(folder / "a.json")
    ((_, gone),) = open_attached(str(recording), [row])
    assert isinstance(gone, str) and "not there" in gone


def test_a_report_of_nsys_is_passed_over_beside_what_was_made_of_it(recording: Path) -> None:
    folder = recording.with_suffix(".traces")
    folder.mkdir()
    for name in ("a.nsys-rep", "b.nsys-rep"):
        (folder / name).write_bytes(b"NVIDIA Tegra Profiler Report" + b"x" * 80)
    rows = [row._replace(format="nsys-rep") for row in noted(recording, "a.nsys-rep", "b.nsys-rep")]
    rows.append(noted(recording, "a.sqlite")[0]._replace(format="nsys"))
    opened = list(open_attached(str(recording), rows))
    assert [row.path for row, _ in opened] == ["b.nsys-rep", "a.sqlite"]
    assert "gssr import" in opened[0][1]
