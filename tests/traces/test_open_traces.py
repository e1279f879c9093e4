"""Several files are ranks of one run: told by the files, else by their names, else by their order."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from chrome import kernel, span, spans, text

from gssr.traces.open import TraceSet, open_runs, open_traces
from gssr.traces.timeline import TraceError


def wrote(folder: Path, name: str, *, rank: int | None = None, behind: bool = False, ts: float = 5, **keys: Any) -> str:
    if rank is not None:
        keys["distributedInfo"] = {"backend": "nccl", "rank": rank}
    content = text([kernel(f"of {name}", ts, 2, correlation=1), span("op", ts + 1, 2)], behind, **keys).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(folder / name)


def ranks(traces: TraceSet) -> list[tuple[str, int | None]]:
    before = [(Path(source.path).name, source.rank) for source in traces.sources]
    assert before == [(Path(t.sources[0].path).name, t.sources[0].rank) for t in traces.timelines()]
    assert all(track.rank == t.sources[0].rank for t in traces.timelines() for track in t.tracks)
    return before


@pytest.mark.parametrize("end", ["json", "json.gz"])
def test_ranks_are_told_by_the_files(end: str, tmp_path: Path) -> None:
    for name, rank, behind in (("a", 2, False), ("b", 0, True), ("rank9", 1, True)):
        wrote(tmp_path, f"{name}.{end}", rank=rank, behind=behind)
    found = open_traces([str(tmp_path)])
    assert ranks(found) == [(f"b.{end}", 0), (f"rank9.{end}", 1), (f"a.{end}", 2)]
    assert [source.notes for source in found.sources] == [(), (), ()]


def test_then_by_their_names_and_then_by_their_order(tmp_path: Path) -> None:
    for name in ("x2.json", "x10.json", "job-rank_1.json", "RANK-003.json"):
        wrote(tmp_path, name)
    found = open_traces([str(tmp_path)])
    assert ranks(found) == [("x2.json", 0), ("job-rank_1.json", 1), ("x10.json", 2), ("RANK-003.json", 3)]
    assert "by its place among the files" in found.sources[0].notes[0]
    assert found.sources[3].notes == ("rank 3 by the name of the file",)
    assert found.timeline().sources[0].notes == found.sources[0].notes


def test_one_file_alone_may_have_no_rank(tmp_path: Path) -> None:
    assert ranks(open_traces([wrote(tmp_path, "x.json")])) == [("x.json", None)]
    assert ranks(open_traces([wrote(tmp_path, "y.json", rank=4, behind=True)])) == [("y.json", 4)]
    late = wrote(tmp_path, "z-rank7.json.gz", rank=3, behind=True)
    (timeline,) = open_traces([late]).timelines()
    assert timeline.sources[0].rank == 3 and timeline.sources[0].notes == ()


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    one, other = wrote(tmp_path, "a.json", rank=1), wrote(tmp_path, "b_rank1.json")
    with pytest.raises(TraceError, match=r"b_rank1\.json: is of rank 1, as .*a\.json is: give one of the two"):
        open_traces([one, other])


BASE = 1_760_000_000 * 10**9
DAY = 86_400 * 10**9
H100, A100 = ({"deviceProperties": [{"id": 0, "name": name}]} for name in ("NVIDIA H100", "NVIDIA A100"))


def runs(*paths: object) -> list[list[str]]:
    found = open_runs([str(path) for path in paths])
    if len(found) > 1:
        with pytest.raises(TraceError, match=r"give one of the two|is of another run than .*; open one of them"):
            open_traces([str(path) for path in paths])
    return [[Path(source.path).name for source in run.sources] for run in found]


@pytest.mark.parametrize(("one", "other", "n"), [
    ({}, {}, 1),
    ({"host_name": "n1"}, {"host_name": "n2"}, 2),
    ({"host_name": "n1"}, {"host_name": "n1.cluster"}, 1),
    ({"host_name": "n1", "rank": 0}, {"host_name": "n2", "rank": 1}, 1),  # of several nodes
    ({"rank": 0}, {"rank": 0}, 2),
    (H100, A100, 2),
    ({**H100, "rank": 0}, {**A100, "rank": 1}, 2),
    ({"baseTimeNanoseconds": BASE}, {"baseTimeNanoseconds": BASE + DAY // 18}, 2),  # 80 minutes
    ({"baseTimeNanoseconds": BASE}, {"baseTimeNanoseconds": BASE + 60 * 10**9}, 2),  # a minute, and each takes some µs
    ({"baseTimeNanoseconds": BASE}, {"baseTimeNanoseconds": BASE + 1000}, 1),
    ({"baseTimeNanoseconds": BASE, "rank": 0}, {"baseTimeNanoseconds": BASE + DAY // 18, "rank": 1}, 1),
    ({"baseTimeNanoseconds": BASE, "rank": 0}, {"baseTimeNanoseconds": BASE + 2 * DAY, "rank": 1}, 2),
])  # fmt: skip
@pytest.mark.parametrize("behind", [False, True])
def test_what_sets_runs_apart(one: dict[str, Any], other: dict[str, Any], n: int, behind: bool, tmp_path: Path) -> None:
    paths = [wrote(tmp_path, name, behind=behind, **keys) for name, keys in (("b.json", one), ("a.json", other))]
    assert len(runs(*paths)) == n


def test_files_of_two_runs_come_together_by_folder_or_by_their_order(tmp_path: Path) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
        for rank in range(2):
            wrote(tmp_path / folder, f"{folder}-{rank}.json", rank=rank)
    (before, before1), (after, after1) = (sorted((tmp_path / name).iterdir()) for name in ("before", "after"))
    expected = [["before-0.json", "before-1.json"], ["after-0.json", "after-1.json"]]
    assert runs(tmp_path / "before", tmp_path / "after") == runs(before, after, after1, before1) == expected
    assert runs(before, after, before1, after1) == runs(before, before1, after1, after) == expected
    for rank, seconds in ((1, 0), (1, 600), (0, 600), (0, 0)):  # two moments of one run
        wrote(tmp_path, f"{rank}-{seconds}.json", rank=rank, baseTimeNanoseconds=BASE + seconds * 10**9)
    named = [tmp_path / name for name in ("1-0.json", "1-600.json", "0-600.json", "0-0.json")]
    assert runs(*named) == [["0-0.json", "1-0.json"], ["0-600.json", "1-600.json"]]
    assert [run.name for run in open_runs([str(tmp_path)])] == [
        str(tmp_path / "0-0.json"),
        str(tmp_path / "0-600.json"),
    ]
    assert [run.name for run in open_runs([str(tmp_path / "before"), str(after1)])] == [
        str(tmp_path / "before"), str(after1)]  # fmt: skip


def test_what_is_no_trace_is_passed_over_in_a_folder_and_refused_alone(tmp_path: Path) -> None:
    wrote(tmp_path, "a.json", rank=0)
    (tmp_path / "log.txt").write_text("hello")
    (tmp_path / "._a.json").write_bytes(b"\0\5\x16\7")
    assert ranks(open_traces([str(tmp_path)])) == [("a.json", 0)]
    for path, said in ((tmp_path / "log.txt", "no known trace"), (tmp_path / "none", "no such file")):
        with pytest.raises(TraceError, match=f"{path}: .*{said}"):
            open_traces([str(tmp_path), str(path)])
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="without a recording or a trace"):
        open_traces([str(tmp_path / "empty")])


def test_reports_and_traces_in_one_folder_are_not_mixed(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    wrote(tmp_path, "a.json")
    with closing(sqlite3.connect(tmp_path / "report.sqlite")) as connection:
        connection.execute("CREATE TABLE TARGET_INFO_GPU (id)")
    with pytest.raises(TraceError, match="name the files of one kind"):
        open_traces([str(tmp_path)])


def test_one_file_is_held_at_a_time_and_each_begins_at_zero(tmp_path: Path) -> None:
    paths = [
        wrote(tmp_path, f"rank{n}.json", ts=100.0 + n, baseTimeNanoseconds=1_760_000_000 * 10**9) for n in range(3)
    ]
    found = open_traces(paths)
    for number, timeline in enumerate(found.timelines()):
        assert timeline.intervals.start.tolist() == [0, 1000]
        assert timeline.clock.unix_ns == 1_760_000_000 * 10**9 + 100_000 + 1000 * number
    joined = found.timeline()
    assert [(name, start) for name, start, _ in spans(joined)] == [
        ("of rank0.json", 0), ("op", 1000), ("of rank1.json", 1000), ("op", 2000), ("of rank2.json", 2000), ("op", 3000),
    ]  # fmt: skip
    linked = joined.intervals.link[joined.intervals.link >= 0]
    assert len(linked) == 3 == len(set(linked.tolist()))


def test_a_file_may_be_made_to_unpack_to_more(tmp_path: Path) -> None:
    path = wrote(tmp_path, "a.json.gz")
    with pytest.raises(TraceError, match="--max-size"):
        list(open_traces([path], most_bytes=100).timelines())
