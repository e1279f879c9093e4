"""Databases of rocprofv3: their pages against SQLite, what is odd in them, their clock; torch.profiler on ROCm."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gssr.launch import rank_told
from gssr.profile.sampling.clock import RecordingClock
from gssr.recognise import environments_in, recognise
from gssr.store.disk import identity_of
from gssr.store.format.rows import Process as Rank
from gssr.store.pages.file import NotPlainError, PageFile
from gssr.store.pages.integers import integers
from gssr.store.pages.leaf_rows import NULL
from gssr.store.read import database
from gssr.traces.join import by_boot, join
from gssr.traces.kineto import read_kineto
from gssr.traces.open import open_traces
from gssr.traces.rocpd import read_rocpd
from gssr.traces.timeline import Category, Kind, Timeline
from tests.fakes.rocpd import bad
from tests.fakes.rocpd.files import Process, Style, Written, trained, write

GPUS = (0x8123456789ABCDEF, 0x1123456789ABCDEF)
MS = 1_000_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A file of two processes."""
    folder = tmp_path_factory.mktemp("rocpd")
    return write(folder / "a.db", [Process(trained(0), GPUS), Process(trained(1, steps=4), GPUS)])


def columns(timeline: Timeline) -> list[list[int]]:
    own = timeline.intervals
    return [np.asarray(getattr(own, name)).tolist() for name in own.__slots__]


def test_pages_and_sql_say_the_same(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    by_pages = read_rocpd(str(written.path))
    monkeypatch.setattr(database, "_plain", lambda *_: None)
    by_sql = read_rocpd(str(written.path))
    assert columns(by_pages) == columns(by_sql) and by_pages.tracks == by_sql.tracks and by_pages.names == by_sql.names
    assert len(by_pages.intervals) == sum(map(len, written.events.values()))


def decoded(path: Path, names: list[str]) -> list[list[int]]:
    """Columns of the table t from its pages."""
    with closing(sqlite3.connect(path)) as db:
        parts = list(integers(PageFile(str(path), identity_of(str(path))), db, "t", names))
    return [np.concatenate([part[at] for _, part in parts]).tolist() for at in range(len(names))]


def test_numbers_between_texts_are_read_from_pages(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g TEXT DEFAULT 'x', a INTEGER, b BLOB, c BIGINT, e TEXT)")
        rows = [(1 + 3 * i, "g" * (i % 57), None if i % 7 == 0 else i << i % 40, b"\xff" * (i % 50), -i, "{}" * (i % 90))
                for i in range(5000)]  # fmt: skip
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.commit()
    told = [[row[0] for row in rows], [NULL if row[2] is None else row[2] for row in rows], [row[4] for row in rows]]
    assert decoded(path, ["id", "a", "c"]) == told
    assert decoded(path, ["c", "id", "a"]) == [told[2], told[0], told[1]]
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE t SET b = ? WHERE id = 4", (b"1" * 70,))
        db.commit()
    assert decoded(path, ["a"]) == told[1:2]  # it is before what is long
    for changed, name in (("b = b", "c"), ("a = 'text'", "a"), ("a = 0.5", "a")):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"UPDATE t SET {changed} WHERE id = 4")
            db.commit()
        with pytest.raises(NotPlainError):
            decoded(path, [name])


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a INTEGER)",
        "CREATE TABLE t (id INTEGER, a INTEGER, PRIMARY KEY (id, a))",
        "CREATE TABLE t (id INT PRIMARY KEY, a INTEGER)",
        "CREATE TABLE t (id INTEGER, a INTEGER, PRIMARY KEY (id)) WITHOUT ROWID",
    ],
)
def test_a_key_that_is_no_rowid_is_left_to_sqlite(tmp_path: Path, table: str) -> None:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(table)
        db.execute("INSERT INTO t VALUES (5, 6)")
        db.commit()
    with pytest.raises(NotPlainError):
        decoded(path, ["id"])


def test_a_row_from_before_a_column_was_added_is_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
        db.execute("INSERT INTO t VALUES (5, 6)")
        db.execute("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 7")
        db.commit()
    assert decoded(path, ["id", "a"]) == [[5], [6]]
    with pytest.raises(NotPlainError):
        decoded(path, ["d"])


def test_marks_and_queues(tmp_path: Path) -> None:
    """Nothing on a stream: queues are told apart. A machine that runs for years."""
    written = write(tmp_path / "a.db", [Process(trained(0), GPUS)], Style(loose=True), boot_ns=10**17)
    bad.changed(
        written,
        "UPDATE `rocpd_kernel_dispatch{s}` SET stream_id = 0",
        "UPDATE `rocpd_memory_copy{s}` SET stream_id = NULL, src_agent_id = NULL, dst_agent_id = NULL",
        "INSERT INTO `rocpd_string{s}` (id, string) VALUES (900, 'MARKER_CORE_RANGE_API')".replace(
            "900", "901"
        ).replace("_RANGE", ""),
        'INSERT INTO `rocpd_event{s}` (id, category_id, stack_id, extdata) VALUES (900, 901, 900, \'{"message": "here"}\')',
        "INSERT INTO `rocpd_track{s}` (id, nid, pid, tid, name_id) VALUES (1, 1, 5000, 5000, 901)",
        f"INSERT INTO `rocpd_sample{{s}}` (track_id, timestamp, event_id) VALUES (1, {10**17 + 5 * MS}, 900)",
    )
    timeline = read_rocpd(str(written.path))
    own, names = timeline.intervals, timeline.names
    gpus = [track.name[:6] for track in timeline.tracks if track.kind == "gpu_stream"]
    assert sorted(gpus) == ["queue ", "queue ", "stream"]
    (mark,) = np.flatnonzero(own.kind == Kind.MARK).tolist()
    assert names[own.name[mark]] == "here" and (own.start[mark], own.length[mark]) == (10**17 + 5 * MS, 0)
    assert timeline.tracks[own.track[mark]].tid == 5000
    assert {names[own.name[at]] for at in np.flatnonzero(own.kind == Kind.MEMCPY)} == {"Memcpy HtoD", "Memcpy DtoH"}


def test_directions_of_copies_are_those_of_their_agents(tmp_path: Path) -> None:
    written = write(tmp_path / "a.db", [Process(trained(0, device=0), GPUS)])
    bad.changed(written, "UPDATE `rocpd_memory_copy{s}` SET src_agent_id = 2, dst_agent_id = 3 WHERE id % 2 = 0",
                "UPDATE `rocpd_memory_copy{s}` SET src_agent_id = 0, dst_agent_id = 1 WHERE id = 1")  # fmt: skip
    timeline = read_rocpd(str(written.path))
    own = timeline.intervals
    copies = {
        timeline.names[own.name[at]]: timeline.tracks[own.track[at]] for at in np.flatnonzero(own.kind == Kind.MEMCPY)
    }
    assert set(copies) == {"Memcpy HtoD", "Memcpy HtoH", "Memcpy PtoP"}
    assert copies["Memcpy PtoP"].uuid == f"GPU-{GPUS[1]:016x}" and copies["Memcpy HtoH"].kind == "other"
    assert set(own.category[own.kind == Kind.MEMCPY].tolist()) == {Category.COPY}


def test_a_file_whose_writer_was_killed_is_read_as_it_was_before(tmp_path: Path) -> None:
    written = write(tmp_path / "a.db", [Process(trained(0), GPUS)])
    with closing(sqlite3.connect(written.path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        db.execute(f"UPDATE `rocpd_kernel_dispatch{written.tables[0]}` SET end = start")
        killed = tmp_path / "killed.db"
        for suffix in ("", "-journal"):
            Path(f"{killed}{suffix}").write_bytes(Path(f"{written.path}{suffix}").read_bytes())
        db.execute("ROLLBACK")
    assert columns(read_rocpd(str(killed))) == columns(read_rocpd(str(written.path)))


def test_what_launched_it_tells_the_rank(written: Written, tmp_path: Path) -> None:
    alone = write(tmp_path / "n1" / "7_results.db", [Process(trained(5, 0), GPUS, {"SLURM_STEP_NUM_TASKS": "8"})])
    assert rank_told(environments_in(str(alone.path))) == (5, 8) and rank_told(environments_in(str(written.path))) == (
        None,
        None,
    )
    assert recognise(str(tmp_path)).kind == "rocpd"
    write(tmp_path / "n2" / "9_results.db", [Process(trained(2, 0), GPUS)])
    assert [source.rank for source in open_traces([str(tmp_path)]).sources] == [2, 5]
    (tmp_path / "broken.db").write_bytes(alone.path.read_bytes()[:5000])
    assert rank_told(environments_in(str(tmp_path / "broken.db"))) == (None, None)


def ranks(node: str, booted_at: float | None) -> list[Rank]:
    return [Rank._make(["r", 0, *(None for _ in Rank._fields[2:])])._replace(node=node, booted_at=booted_at)]


def test_times_since_boot_become_unix_times_by_the_runs_own_clock(written: Written) -> None:
    timeline = next(open_traces([str(written.path)]).timelines())
    host = timeline.sources[0].host or ""
    clock = RecordingClock()
    assert clock.booted_at == pytest.approx(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME), abs=1)
    placed = by_boot(timeline, ranks(f"{host}.cluster", clock.booted_at))
    zero = min(event.start for events in written.events.values() for event in events)
    assert placed.clock.unix_ns == pytest.approx(written.unix_ns + zero, abs=int(1e9))
    assert by_boot(timeline, ranks(host, None)).clock.unix_ns is None
    with pytest.raises(ValueError, match=f"was recorded on {host}.* the run was on elsewhere"):
        by_boot(timeline, ranks("elsewhere", 5.0))


def test_files_of_one_node_have_one_clock(tmp_path: Path) -> None:
    """Also with others' names; not those of two nodes."""
    for name, hosts, apart in (("one", ("n1", "n1"), 50 * MS), ("two", ("n1", "n2"), 0)):
        both = [
            write(
                tmp_path / name / f"{rank}.db",
                [Process(trained(rank, 0), GPUS)],
                Style(hostname=host),
                10**15 + rank * 50 * MS,
            )
            for rank, host in enumerate(hosts)
        ]
        joined = join([read_rocpd(str(each.path)) for each in both])
        first = {track.rank: min(joined.intervals.start[joined.intervals.track == at].tolist())
                 for at, track in reversed([*enumerate(joined.tracks)]) if track.kind == "cpu_thread"}  # fmt: skip
        assert first[1] - first[0] == apart and ("unknown" in str(joined.sources[1].notes)) == (name == "two")


STATS = b'"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def test_statistics_of_rocprofv3_are_named_for_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(STATS)
    found = recognise(str(tmp_path / "x"))
    assert found.kind == "rocprof-table" and "of rocprofv3" in found.problem and "_kernel_trace.csv" in found.problem


def test_a_trace_of_perfetto_is_named(tmp_path: Path) -> None:
    packets = b"".join(b"\x0a" + bytes([len(body)]) + body for body in (b"\x40\x01" * 9, b"\x50\x02", b"\x08\x05" * 40))
    (tmp_path / "x").write_bytes(packets)
    assert recognise(str(tmp_path / "x")).kind == "perfetto"
    (tmp_path / "x").write_bytes(b"\n# HELP a b\n# TYPE a gauge\na 1\n")
    assert recognise(str(tmp_path / "x")).kind != "perfetto"


def kineto(path: Path, *kinds: str) -> Timeline:
    """Ten calls from 1 ms on; ``kernel``: what they launch; ``warm``: ten kernels from 0.1 ms on."""
    events = [{"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 9, "tid": 9, "ts": 1000 + 10 * n,
               "dur": 2, "args": {"correlation": n}} for n in range(10)]  # fmt: skip
    for kind in kinds:
        begin = 100 if kind == "warm" else 1005
        events += [{"ph": "X", "cat": "kernel", "name": kind, "pid": 0, "tid": 7, "ts": begin + 10 * n, "dur": 4,
                    "args": {"device": 0, "stream": 7, "correlation": n}} for n in range(10)]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return read_kineto(str(path))


def test_a_torch_trace_without_gpu_rows_says_so(tmp_path: Path) -> None:
    (note,) = kineto(tmp_path / "none.json").sources[0].notes
    assert note.startswith("no GPU rows: HIP was used before the profiler began")
    assert not kineto(tmp_path / "some.json", "kernel").sources[0].notes


def test_kernels_of_the_profilers_warm_up_are_left_out(tmp_path: Path) -> None:
    timeline = kineto(tmp_path / "warm.json", "kernel", "warm")
    (source,) = timeline.sources
    assert source.left_out == 10 and "warming up" in source.notes[0]
    assert {timeline.names[name] for name in timeline.intervals.name} == {"hipLaunchKernel", "kernel"}
