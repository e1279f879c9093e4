"""Files that are small and made to be dear, or that run what they hold: each is a sentence, takes little, and costs those
beside it nothing."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gssr import guarded_sqlite
from gssr.cli import main
from gssr.foreign import json_file
from gssr.foreign.json_file import JsonElements
from gssr.foreign.series import ForeignError
from gssr.guarded_sqlite import open_guarded
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.recognise import environments_in, recognise
from gssr.traces import json_events
from gssr.traces import open as opening
from gssr.traces.open import open_traces
from gssr.traces.timeline import Timeline, TraceError, Track
from tests.fuzz.readers import amplify

SAMPLES = Path(__file__).parents[1] / "traces" / "samples"
DATABASES = ("virtual table", "computed column", "schema in a loop", "schema that is no text")


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_that_runs_what_it_holds_is_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called, make = amplify.FILES[name]
    path = tmp_path / called
    make(path)
    taken = amplify.take(["analyze", str(path)], str(tmp_path))
    assert taken.code == 1 and taken.said.startswith(f"gssr: {path}: ")
    assert taken.memory < 200 and taken.cpu < 10
    for command in ("import", "export"):
        assert main([command, "-o", str(tmp_path / command), str(path)]) == 1
        assert capsys.readouterr().err.startswith(f"gssr: {path}: ")
    assert environments_in(str(path)) == []


@pytest.mark.parametrize("name", [*DATABASES, "profile"])
def test_one_bad_file_costs_the_good_ones_beside_it_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in range(2):
        shutil.copy(SAMPLES / f"straggler-rank{rank}.json.gz", folder)
    alone = open_traces([str(folder)])
    expected = [len(timeline.intervals) for timeline in alone.timelines()]
    assert alone.problems == []
    called, make = amplify.FILES[name]
    make(folder / f"0{called}")
    traces = open_traces([str(folder)])
    assert [len(timeline.intervals) for timeline in traces.timelines()] == expected
    assert len(traces.problems) == 1 and traces.problems[0].startswith(f"{folder}/0{called}: ")
    assert main(["analyze", str(folder)]) == 1
    said = capsys.readouterr()
    assert said.err == f"gssr: {traces.problems[0]}\n" and "gpus=2" in said.out.splitlines()[-1]
    assert main(["export", "--format", "csv", "-o", str(tmp_path / "out"), str(folder)]) == 1
    assert f"gssr: {traces.problems[0]}\n" in capsys.readouterr().err and list((tmp_path / "out").rglob("*kernels*"))


def test_a_folder_with_recordings_is_theirs_whatever_else_is_in_it(tmp_path: Path) -> None:
    amplify.virtual_table(tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "b.sql")) as connection:
        connection.execute(f"PRAGMA application_id={0x47535352}")
        connection.execute("CREATE TABLE runs (run_id)")
    assert recognise(str(tmp_path)).kind == "recording"


def test_texts_that_share_their_pages_come_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 10_000,)] * 100)
    monkeypatch.setattr(guarded_sqlite, "LONGEST_VALUE", 1 << 16)
    with closing(open_guarded(str(path), [str(path)])) as connection:
        connection.bound()
        assert len(connection.execute("SELECT a FROM t").fetchall()) == 100  # no more than the file is long
        with pytest.raises(sqlite3.DatabaseError, match="more text than it is long"):
            connection.execute("SELECT x.a FROM t AS x, t AS y LIMIT 400").fetchall()
        assert len(connection.execute("SELECT a FROM t").fetchall()) == 100


# Very many GPUs


class Counted(tuple[Track, ...]):
    """Tracks that count how often all of them are gone through."""

    times = 0

    def __iter__(self) -> Iterator[Track]:
        Counted.times += 1
        return super().__iter__()


def of_gpus(tmp_path: Path, n: int) -> Timeline:
    amplify.many_gpus(tmp_path / "a.json", n)
    return open_traces([str(tmp_path / "a.json")]).timeline()


def test_all_tracks_are_gone_through_a_few_times_however_many_gpus_there_are(tmp_path: Path) -> None:
    times = []
    for n in (50, 400):
        timeline = of_gpus(tmp_path, n)
        Counted.times = 0
        found = analyze_timeline(replace(timeline, tracks=Counted(timeline.tracks)))
        assert len(found.gpus) == n
        times.append(Counted.times)
    assert times[0] == times[1] < 50


def test_more_gpus_have_fewer_columns_and_are_read(tmp_path: Path) -> None:
    found = analyze_timeline(of_gpus(tmp_path, 1100))
    assert {len(gpu.busy_over_time) for gpu in found.gpus} == {60}
    assert sum(gpu.n_kernels for gpu in found.gpus) == 1100


@pytest.mark.parametrize(
    ("name", "most", "said"),
    [("MOST_GPUS", 49, "50 GPUs"), ("MOST_TRACKS", 49, "50 threads and streams"), ("MOST_COUNTERS", 9, "10 counters")],
)
def test_a_file_that_names_more_than_any_tool_writes_is_refused(
    name: str, most: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    (amplify.many_counters if name == "MOST_COUNTERS" else amplify.many_gpus)(path, 10 if most == 9 else 50)
    assert open_traces([str(path)]).timeline()
    monkeypatch.setattr(opening, name, most)
    with pytest.raises(TraceError, match=rf"a\.json: names {said}, and no file of a trace has more than {most}"):
        open_traces([str(path)]).timeline()


def test_of_very_many_steps_and_gpus_it_is_unknown_how_busy_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amplify.gpus_and_steps(tmp_path / "a.json", 20, 30)
    timeline = open_traces([str(tmp_path / "a.json")]).timeline()
    assert {step.busy_ns is None for step in analyze_timeline(timeline).steps} == {False}
    monkeypatch.setattr("gssr.model.traces.analyze_trace.MOST_STEP_TIMES", 599)
    assert {step.busy_ns is None for step in analyze_timeline(timeline).steps} == {True}


def test_names_and_threads_of_their_own_for_each_call_make_no_table_of_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amplify.many_names(tmp_path / "a.json", 100)
    timeline = open_traces([str(tmp_path / "a.json")]).timeline()
    assert analyze_timeline(timeline).tree is not None
    monkeypatch.setattr("gssr.model.traces.call_tree._NEVER_TOO_MANY", 1000)
    assert analyze_timeline(timeline).tree is None


# What is packed


def test_an_event_takes_some_bytes_also_when_it_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json.gz"
    amplify.packed_events(path, 20_000)
    assert len(open_traces([str(path)]).timeline().intervals) == 20_000
    monkeypatch.setattr(json_events, "_NEVER_TOO_MANY", 10_000)
    with pytest.raises(TraceError, match=r"unpacks to more than 10,000 events: --max-size SIZE allows more"):
        open_traces([str(path)]).timeline()
    assert open_traces([str(path)], most_bytes=1 << 30).timeline()


def test_values_that_unpack_to_far_more_than_the_profile_are_refused(tmp_path: Path) -> None:
    amplify.profile(tmp_path / "a.cubex")
    with pytest.raises(TraceError, match="10,000 call paths on 10,000 places are more than fit into memory"):
        open_traces([str(tmp_path / "a.cubex")]).timeline()


PAIRS = [[1_700_000_000 + n, f"0.{n}"] for n in range(40)]
ANSWERS: list[Any] = [
    {"status": "success", "data": {"result": [{"metric": {"a": "é,]"}, "values": PAIRS}, {}, -15e2]}},
    {"status": "success", "data": {"result": [], "resultType": "matrix"}, "warnings": ["[a", '"result":[']},
    {"status": "error", "error": "no"},
    {"nodes": {}, "total_time": 1},
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("spaces", [None, 1])
def test_elements_are_what_the_whole_file_says(
    answer: Any, spaces: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("\ufeff" + json.dumps(answer, indent=spaces), encoding="utf-8")
    for piece in (1, 7, 1 << 20):
        monkeypatch.setattr(json_file, "_PIECE", piece)
        elements = JsonElements(str(path), "result")
        found = list(elements)
        expected = answer.get("data", {}).get("result", [])
        assert found == expected
        rest = json.loads(json.dumps(answer))
        if "data" in rest:
            rest["data"]["result"] = []
        assert elements.rest == rest


@pytest.mark.parametrize("broken", ['[{"a":1', '[{"a" 1}]}}', '["\\x"]}}', "[1,2", "[]", '[{"a":1}]}} x'])
def test_a_list_that_is_cut_or_broken_is_said_so(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"status":"success","data":{"result":' + broken)
    with pytest.raises(ForeignError, match=r"a\.json: is cut off, or no sound JSON"):
        list(JsonElements(str(path), "result"))


def test_packed_files_are_read_to_their_end_or_said_to_be_cut(tmp_path: Path) -> None:
    whole = json.dumps({"a": "x" * (5 << 20)}).encode()
    packed = gzip.compress(whole)
    (tmp_path / "two").write_bytes(gzip.compress(whole[:7]) + gzip.compress(whole[7:]) + bytes(512))
    (tmp_path / "one").write_bytes(packed)
    assert json_file.load(str(tmp_path / "two")) == json_file.load(str(tmp_path / "one")) == json.loads(whole)
    for end in (len(packed) // 2, -1):
        (tmp_path / "cut").write_bytes(packed[:end])
        with pytest.raises(ForeignError, match="is packed with gzip, and cut off"):
            json_file.load(str(tmp_path / "cut"))


def bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"metadata": {"job_id": 1}, "data": [' + b"{}," * 2_000_000 + b"{}]}"))


def much_in_little(path: Path) -> None:
    path.write_bytes(b'{"metadata": {"job_id": 1}, "data": [' + b"{}," * 2_000_000 + b"{}]}")


@pytest.mark.parametrize(
    ("make", "limit", "value", "said"),
    [
        (bomb, "MOST_UNPACKED", 1 << 20, "unpacks to more than 1 MB and 4 times its size"),
        (much_in_little, "_MOST_DECODED", 1 << 20, "would take 0.5 GB of memory, 90 times its size"),
    ],
)
def test_what_is_far_longer_unpacked_or_decoded_is_refused(
    make: Callable[[Path], None], limit: str, value: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a.json")
    monkeypatch.setattr(json_file, limit, value)
    with pytest.raises(ForeignError, match=said):
        json_file.load(str(tmp_path / "a.json"))


def test_a_log_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "MOST_UNPACKED", 1 << 20)
    amplify.packed_log(tmp_path / "a.txt.gz", 3)
    monkeypatch.chdir(tmp_path)
    assert main(["import", "a.txt.gz", "-o", "a.sql"]) == 1
