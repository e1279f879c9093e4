"""What a workload leaves in GSSR_TRACES gets its row, and nothing that it leaves can hurt."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gssr.profile import traces as subject
from gssr.profile.sampling.plan import Plan
from gssr.profile.traces import ENVIRONMENT, TraceFolder
from gssr.profile.workload import ENDING
from gssr.store.merge import merge
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer
from tests.forked import gssr

RUN = "c-1.0"
EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1e6, "dur": 5, "args": {"stream": 7}}
QUICK = ("--backend", "synthetic:train:2", "-t", "100")


def kineto(path: Path, **head: object) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1} | head | {"traceEvents": [EVENT]}))
    return path


WORK = f"""
import json, os, stat
folder = os.environ["GSSR_TRACES"]
print(stat.filemode(os.stat(folder).st_mode), os.path.isabs(folder))
os.chdir(folder)
def put(name, text):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as file:
        file.write(text)
whole = {json.dumps({"schemaVersion": 1, "traceEvents": [EVENT]})!r}
put("good.json", whole)
put("deep/er/rank0.json", whole)
put("half.json", whole[:60])
put(".hidden.json", whole)
put("text.txt", "nothing")
put("report.nsys-rep", "NVIDIA Tegra Profiler Report" + "x" * 50)
put("scorep/traces.otf2", chr(3) + "BOTF2 anchor")
put("scorep/traces/0.evt", chr(3) + "LOTF2 events")
put("empty.json", "")
os.mkfifo("pipe.json")
os.symlink("/dev/zero", "zero.json")
os.symlink("nowhere", "dead.json")
os.symlink("/", "everything")
raise SystemExit(7)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    kept = folder / "run.traces" / "before.json"
    kept.parent.mkdir()
    kineto(kept)
    os.utime(kept, (1e9, 1e9))
    done = gssr("profile", "--no-summary", *QUICK, "-o", "run.sql", "--", sys.executable, "-c", WORK, cwd=folder)
    assert (done.returncode, done.stderr) == (7, "") and done.stdout.split()[1] == "True"
    return folder / "run.sql"


TRACED = f"""
import json, os, time
begin = time.time_ns()
time.sleep(0.3)
event = {EVENT!r} | {{"ts": 0, "dur": 2e5, "args": {{"stream": 7, "device": 0}}}}
with open(os.environ["GSSR_TRACES"] + "/rank0.json", "w") as file:
    json.dump({{"schemaVersion": 1, "baseTimeNanoseconds": begin, "traceEvents": [event]}}, file)
with open(os.environ["GSSR_TRACES"] + "/rank1.json", "w") as file:
    file.write('{{"schemaVersion": 1, "traceEvents": [{{}}]}}')
print("said")
raise SystemExit(7)
"""


def test_a_digest_is_made_at_the_end_and_nobody_notices(tmp_path: Path) -> None:
    words = ("profile", "--no-summary", "--digest", "--backend", "synthetic:train:1", "-t", "50", "-o", "run.sql", "--")
    done = gssr(*words, sys.executable, "-c", TRACED, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, "said\n", "")
    rows = {row.path: row for row in open_recording(tmp_path / "run.sql").runs[0].traces()}
    assert rows["rank1.json"].digest is None
    found = json.loads(rows["rank0.json"].digest or "")
    assert found["kernels"][0]["name"] == "k" and str(tmp_path) not in str(rows["rank0.json"].digest)
    assert sorted(os.listdir(tmp_path)) == ["run.sql", "run.traces"]


def test_digesting_ends_in_time_and_with_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = TraceFolder(plan_of(tmp_path / "run.sql", 0, 1))
    monkeypatch.setattr(subject, "DIGEST_SECONDS", 0.2)
    begun = time.monotonic()
    assert not traces.note(None, lambda _: time.sleep(60)) and time.monotonic() - begun < 30
    monkeypatch.setattr(subject, "DIGEST_SECONDS", 60)
    own, before = os.getpid(), {sig: signal.getsignal(sig) for sig in ENDING}
    try:
        assert traces.note(None, lambda _: (os.kill(own, signal.SIGTERM), time.sleep(60))[1])
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
    assert time.monotonic() - begun < 30
    assert not traces.note(None, lambda _: 1 / 0)  # type: ignore[arg-type,return-value]


def test_traces_get_rows_and_what_is_none_does_not(recorded: Path) -> None:
    (reader,) = open_recording(recorded).runs
    (process,) = reader.processes
    rows = {row.path: row for row in reader.traces()}
    assert {path: row.format for path, row in rows.items()} == {
        "good.json": "kineto", "deep/er/rank0.json": "kineto", "report.nsys-rep": "nsys-rep", "scorep/traces.otf2": "otf2",
    }  # fmt: skip
    for path, row in rows.items():
        status = (recorded.with_suffix(".traces") / path).stat()
        assert (row.run_id, row.rank, row.node) == (reader.run.run_id, 0, process.node)
        assert (row.size, row.mtime) == (status.st_size, status.st_mtime) and row.zero is None


def test_what_is_not_whole_is_an_event(recorded: Path) -> None:
    (reader,) = open_recording(recorded).runs
    said = [event.message for event in reader.events if event.kind == "trace"]
    assert len(said) == 1 and "run.traces: half.json is not whole yet" in said[0] and "gssr merge --attach" in said[0]


def test_a_folder_that_nothing_was_put_into_is_gone_and_others_stay(tmp_path: Path) -> None:
    see = "import os, stat; print(stat.filemode(os.stat(os.environ['GSSR_TRACES']).st_mode))"
    words = ("profile", "--no-summary", *QUICK, "--trace-when", "low", "-o", "a.sql", "--", sys.executable, "-c", see)
    done = gssr(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "drwx------\n", "")
    assert sorted(os.listdir(tmp_path)) == ["a.sql"]


@pytest.mark.parametrize("words", [("--redact",), ("--attach-job",)])
def test_without_a_workload_or_names_there_is_no_folder(tmp_path: Path, words: tuple[str, ...]) -> None:
    plan = plan_of(tmp_path / "a.sql", 0, 1, attached=words == ("--attach-job",))
    traces = TraceFolder(plan._replace(hidden=("me",)) if words == ("--redact",) else plan)
    assert traces.folder is None and os.listdir(tmp_path) == [] and ENVIRONMENT not in os.environ
    done = gssr("profile", *words, "--trace", "nsys", "--", *(["true"] if words == ("--redact",) else []), cwd=tmp_path)
    assert done.returncode == 2 and (f"with {words[0]}" in done.stderr or "this is no job" in done.stderr)


def record(whole: Path, rank: int, size: int) -> Path:
    """One rank's file."""
    path = Path(f"{whole}.d") / f"node{rank // 2}.{rank}.{RUN}.sql"
    path.parent.mkdir(exist_ok=True)
    writer = Writer(str(path))
    run = {"run_id": RUN, "started_at": 1e9, "sampling_ms": 500.0, "state": "running", "world_size": size}
    writer.begin(run, {"rank": rank, "node": f"node{rank // 2}", "hostname": "elsewhere", "state": "running"})
    assert writer.finish(1e9 + 9, 0, "completed", 1e9 + 9)
    return path


def plan_of(path: Path, rank: int, size: int | None, attached: bool = False) -> Plan:
    process = {"rank": rank, "node": f"node{rank // 2}", "hostname": f"host{rank // 2}"}
    return Plan(
        path=str(path), append=False, overwrite=False, run={"run_id": RUN, "world_size": size}, process=process,
        sampling_seconds=0.5, backend="", gpus="", metrics=(), visible_gpus=None, same_for_all=True,
        siblings=size != 1, host=True, summary=False, attached=attached,
    )  # fmt: skip


def test_ranks_share_the_folder_and_none_lists_what_is_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By content, by name and by process id; what tells nothing is listed once."""
    monkeypatch.setattr(subject, "LOOK_SECONDS", 60.0)
    whole = tmp_path / "run.sql"
    shards = [record(whole, rank, 4) for rank in range(4)]
    folder = tmp_path / "run.traces"
    folder.mkdir()
    for rank in range(4):
        kineto(folder / f"a{9 - rank}.json", distributedInfo={"rank": rank, "world_size": 4})
        kineto(folder / f"{rank}.json")
        kineto(folder / f"host{rank // 2}_{100 + rank}.171.pt.trace.json")
    kineto(folder / "rank7.json")  # ranks of torchrun: there are 4 of the run
    kineto(folder / "b.json", distributedInfo={"rank": 1, "world_size": 8})
    kineto(folder / "whose.json")
    for rank, shard in enumerate(shards):
        subject._note(plan_of(shard, rank, 4), str(folder), 0.0, 100 + rank)
    before = open_recording(whole).runs[0].traces()
    merge(str(whole))
    rows = open_recording(whole).runs[0].traces()
    assert rows == before
    found = {row.path: (row.rank, row.node) for row in rows}
    assert len(found) == len(rows) == len(list(folder.iterdir()))
    for rank in range(4):
        mine = (rank, f"node{rank // 2}")
        assert found[f"a{9 - rank}.json"] == mine and found[f"{rank}.json"] == mine
        assert found[f"host{rank // 2}_{100 + rank}.171.pt.trace.json"] == mine
    assert (found["rank7.json"], found["b.json"], found["whose.json"]) == ((7, None), (1, None), (None, None))


def test_the_last_to_merge_removes_an_empty_folder(tmp_path: Path) -> None:
    whole = tmp_path / "run.sql"
    for rank in range(2):
        record(whole, rank, 2)
    (tmp_path / "run.traces").mkdir()
    (tmp_path / "run.traces" / ".on-demand").touch()
    merge(str(whole))
    assert sorted(os.listdir(tmp_path)) == ["run.sql"]


@pytest.mark.parametrize("others", [False, True])
def test_an_empty_folder_stays_while_others_record_beside_it(tmp_path: Path, others: bool) -> None:
    (tmp_path / "a.traces").mkdir()
    if others:
        (tmp_path / "a.sql.d").mkdir()
    subject._note(plan_of(tmp_path / "a.sql", 0, 1), str(tmp_path / "a.traces"), 0.0, None)
    assert (tmp_path / "a.traces").exists() == others


@pytest.mark.parametrize("limit", ["MOST", "LOOK_SECONDS"])
def test_of_too_many_files_not_all_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(subject, limit, 3 if limit == "MOST" else -1.0)
    shard = record(tmp_path / "run.sql", 0, 1)
    folder = tmp_path / "run.traces"
    folder.mkdir()
    for number in range(9):
        kineto(folder / f"t{number}.json")
    subject._note(plan_of(shard, 0, 1), str(folder), 0.0, None)
    (reader,) = open_recording(tmp_path / "run.sql").runs
    assert len(reader.traces()) == (3 if limit == "MOST" else 0)
    (said,) = [event.message for event in reader.events if event.kind == "trace"]
    assert "are not looked at" in said


def test_whoever_hangs_looking_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SECONDS", 0.1)
    monkeypatch.setattr(subject, "_note", lambda *_: time.sleep(60))
    traces = TraceFolder(plan_of(tmp_path / "a.sql", 0, 1))
    assert os.environ.pop(ENVIRONMENT) == str(tmp_path / "a.traces")
    begin = time.monotonic()
    traces.note(None)
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_is_no_folder_is_left_alone(tmp_path: Path, what: str) -> None:
    place = tmp_path / "a.traces"
    place.touch() if what == "file" else place.symlink_to(tmp_path)
    assert TraceFolder(plan_of(tmp_path / "a.sql", 0, 1)).folder is None and ENVIRONMENT not in os.environ
    assert os.listdir(tmp_path) == ["a.traces"]


def test_a_bad_trace_is_one_event_and_the_others_are_kept(tmp_path: Path) -> None:
    from tests.fuzz.readers import amplify

    for name in ("virtual table", "computed column", "schema in a loop", "schema that is no text"):
        amplify.FILES[name][1](tmp_path / f"{name.replace(' ', '-')}.db")
    kineto(tmp_path / "good.json")
    words = ("profile", "--no-summary", *QUICK, "-o", "run.sql", "--", "sh", "-c")
    done = gssr(*words, 'cp *.db good.json "$GSSR_TRACES"; exit 7', cwd=tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
    (run,) = open_recording(tmp_path / "run.sql").runs
    assert {row.path for row in run.traces()} == {"good.json", "virtual-table.db", "computed-column.db"}
    (event,) = [event for event in run.events if event.kind == "trace"]
    assert event.message.startswith("of what lies in run.traces: schema-") and "and 1 more" in event.message
    page = gssr("analyze", "run.sql", cwd=tmp_path)
    said = " ".join(page.stdout.split())
    assert "rocpd_info_process is no plain table" in said and "impossible column, 'environment'" in said


def test_a_trace_that_takes_too_long_to_look_at_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path / "run.sql"))
    writer.begin({"run_id": RUN, "started_at": 1.0, "state": "running"}, {"rank": 0, "node": "node0"})
    writer.finish(2.0, 0, "completed", 2.0)
    traces = TraceFolder(plan_of(tmp_path / "run.sql", 0, 1))
    assert traces.folder is not None
    kineto(Path(traces.folder) / "b.json")
    kineto(Path(traces.folder) / "a.json")
    kind_of = subject._kind_of
    monkeypatch.setattr(
        subject, "_kind_of", lambda path, file: time.sleep(60) if path.endswith("b.json") else kind_of(path, file)
    )
    monkeypatch.setattr(subject, "LOOK_SECONDS", 0.3)
    monkeypatch.setattr(subject, "SECONDS", 20.0)
    traces.note(None)
    (run,) = open_recording(tmp_path / "run.sql").runs
    assert [row.path for row in run.traces()] == ["a.json"]
    assert any("b.json takes too long to look at" in event.message for event in run.events)
