"""All samples as OpenMetrics, and a run as a trace for Perfetto: read back they are what was recorded."""

import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gssr.arrays import Floats
from gssr.backends.synthetic import MEASURES
from gssr.backends.synthetic.bulk import generate
from gssr.cli import main
from gssr.convert import openmetrics, perfetto
from gssr.metrics import BY_NAME, NAMES
from gssr.model.statistics.balance import has_balance
from gssr.prometheus import FAMILIES, RUN_END, RUN_INFO, labels
from gssr.store.read.recording import RunReader, open_recording
from gssr.traces.kineto import read_kineto

N_SERIES = 9 * len(MEASURES)
"""Of the recording, one for each metric of each GPU."""
HOSTILE = 'a\\b"c\nd{e="f"} # EOF ünï ☃'
_SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} (\S+) (\S+)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Series = dict[tuple[str, str, int], list[tuple[float, float]]]


def run_of(path: Path) -> RunReader:
    return open_recording(path).runs[0]


def read_back(text: str) -> tuple[Series, list[str]]:
    """Values and times by sample name, node and GPU, and the names of the families; as strict as the format is."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    families: list[str] = []
    series: Series = {}
    last = None
    for line in lines[:-2]:
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            if word == "TYPE":
                families.append(name)
            assert name == families[-1] and (word != "UNIT" or name.endswith(f"_{rest}"))
            continue
        found = _SAMPLE.fullmatch(line)
        assert found and re.sub("_(total|info)$", "", found[1]) == families[-1], line
        if found[1] == RUN_INFO.sample:
            assert found[3] == "1"
            continue
        if found[1] == RUN_END.sample:
            assert found[3] == found[4]
            continue
        own = dict(_LABEL.findall(found[2]))
        key = (found[1], own["node"], int(own["gpu"]))
        assert key == last or key not in series, "a series goes on after another"
        last = key
        series.setdefault(key, []).append((float(found[3]), float(found[4])))
    assert len(set(families)) == len(families)
    return series, families


def expected(reader: RunReader) -> Series:
    rows, found = reader.samples(NAMES), dict[tuple[str, str, int], list[tuple[float, float]]]()
    order = np.lexsort((rows.time, rows.gpu))
    for name in NAMES:
        values = rows.values[name][order] * FAMILIES[name].factor
        for position, time, value in zip(rows.gpu[order], rows.time[order], values, strict=True):
            if np.isfinite(value):
                gpu = reader.gpus[position]
                key = (FAMILIES[name].sample, str(gpu.node), int(gpu.device_index or 0))
                found.setdefault(key, []).append((float(value), float(time)))
    return found


@pytest.fixture(scope="module")
def text(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "all.txt"
    assert main(["export", str(recording), "--format", "openmetrics", "-o", str(path)]) == 0
    return path


def test_openmetrics_has_every_sample_and_nothing_for_what_is_missing(recording: Path, text: Path) -> None:
    found, families = read_back(text.read_text(encoding="utf-8"))
    assert found == expected(run_of(recording))
    assert families[:2] == [RUN_INFO.name, RUN_END.name] and len(families) == 2 + len(MEASURES)
    assert "gssr_energy_joules" in families and ("gssr_energy_joules_total", "node0001", 0) in found


def test_little_of_a_recording_is_in_memory_at_once(
    recording: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both few GPUs at a time, and one in pieces of time."""
    begin = "# TYPE gssr_power_usage_watts gauge"
    of_run, _, rest = text.read_text(encoding="utf-8").partition("# TYPE gssr_gpu")
    whole = of_run + begin + rest.partition(begin)[2].partition("# TYPE")[0] + "# EOF\n"
    monkeypatch.setattr(openmetrics, "METRICS", (BY_NAME["power_usage"],))
    read: list[int] = []
    samples = RunReader.samples

    def watched(*arguments: Any) -> Any:
        found = samples(*arguments)
        read.append(len(found.gpu))
        return found

    monkeypatch.setattr(RunReader, "samples", watched)
    for rows in (500, 100):
        read.clear()
        monkeypatch.setattr(openmetrics, "ROWS", rows)
        path = tmp_path / f"{rows}.txt"
        assert main(["export", str(recording), "--format", "openmetrics", "-o", str(path)]) == 0
        assert max(read) <= rows
        assert path.read_text(encoding="utf-8") == whole


def last_runs(*names: Path, to: Path) -> dict[tuple[str, str, str, str], float]:
    """What ``--format prometheus`` writes, by metric, node, GPU and category ("" for none)."""
    assert main(["export", *map(str, names), "--format", "prometheus", "-o", str(to)]) == 0
    found: dict[tuple[str, str, str, str], float] = {}
    for line in to.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            own = dict(_LABEL.findall(rest))
            key = (name.removeprefix("gssr_last_run"), own["node"], own["gpu"], own.get("category", ""))
            assert key not in found
            found[key] = float(rest.rpartition(" ")[2])
    return found


def test_what_a_run_came_to_is_what_analyze_prints_of_it(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = last_runs(recording, to=tmp_path / "run.prom")
    capsys.readouterr()
    assert main(["analyze", "--json", str(recording)]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    for gpu in run["gpus"]:
        key = (gpu["node"], gpu["place"].rpartition(":")[2])
        assert found.get(("_score", *key, "")) == gpu["score"]
        for name, family in FAMILIES.items():
            mean = gpu["mean"].get(name) if family.type == "gauge" else None
            written = found.get((f"_mean_{family.name.removeprefix('gssr_')}", *key, ""))
            assert written == pytest.approx(mean * family.factor) if mean is not None else written is None
    of_time = {key: value for key, value in found.items() if key[0] == "_gpu_time_seconds"}
    assert sum(of_time.values()) == pytest.approx(run["breakdown"]["gpu_seconds"])


def test_of_several_runs_on_a_gpu_the_last_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of them had a GPU more, which no later run had."""
    names = [tmp_path / "late.sql", tmp_path / "early.sql"]
    for number, (name, gpus) in enumerate(zip(names, (2, 3), strict=True)):
        generate(str(name), ("train", "idle")[number], gpus, 1 / 60, 1.0)
        with sqlite3.connect(name) as connection:
            for table in ("runs", "gpus", "processes", "events", "process_gpus"):
                connection.execute(f"UPDATE {table} SET run_id = ?", (name.stem,))
            connection.execute("UPDATE samples SET time = time + ?", (0 if number else 3600,))
    both = last_runs(*names, to=tmp_path / "both.prom")
    alone = [last_runs(name, to=tmp_path / f"{name.stem}.prom") for name in names]
    scores = {key[2]: value for key, value in both.items() if key[0] == "_score"}
    expected = [alone[0]["_score", "node0000", "0", ""], alone[0]["_score", "node0000", "1", ""]]
    assert [scores["0"], scores["1"], scores["2"]] == [*expected, alone[1]["_score", "node0000", "2", ""]]
    with sqlite3.connect(names[1]) as connection:
        connection.execute("DELETE FROM gpus WHERE device_index = 2")
        connection.execute("DELETE FROM samples WHERE gpu = 2")
    capsys.readouterr()
    assert set(last_runs(*names, to=tmp_path / "two.prom")) == set(alone[0])
    assert "left out: 1 without samples, or whose GPUs all had later runs" in capsys.readouterr().err


def test_prometheus_takes_it_in_and_gives_it_back(
    requires: Any, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two recordings, one of them with names that have to be escaped."""
    requires("promtool", package="prometheus")
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.sql"
    generate(str(other), "idle", 2, 1 / 360, 0.5)
    with sqlite3.connect(other) as connection:
        for table in ("runs", "gpus", "processes", "events", "process_gpus"):
            connection.execute(f"UPDATE {table} SET run_id = ?", (HOSTILE,))
        connection.execute("UPDATE gpus SET mig = '1g.10gb'")
    assert main(["export", str(recording), str(other), "--format", "openmetrics"]) == 0
    done = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "gssr_export.txt", "db"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "db" / "wal").mkdir()  # a server makes it
    words = ["promtool", "tsdb", "dump", "--match", '{__name__=~"gssr_power_usage_watts|gssr_run_info"}', "db"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    for path, run_id in ((recording, run_of(recording).run.run_id), (other, HOSTILE)):
        reader = run_of(path)
        power = reader.samples(["power_usage"])
        quoted = json.dumps(run_id, ensure_ascii=False)
        instance = 'mig="1g.10gb"'
        of_gpus = [line for line in lines if (instance in line) == (path is other)]
        own = [line.rsplit(" ", 2)[1:] for line in of_gpus if "power_usage" in line]
        assert sorted((float(value), int(time)) for value, time in own) == sorted(
            zip(power.values["power_usage"].tolist(), np.rint(power.time * 1000).astype(int).tolist(), strict=True)
        )
        of_run = [line for line in of_gpus if "gssr_run_info" in line]
        assert of_run and all(f"run={quoted}" in line for line in of_run)


def test_series_are_as_many_as_gpus_and_metrics_however_many_runs_and_ranks_there_were(tmp_path: Path) -> None:
    """Twenty runs of one node: only the info metric gets more series with them."""
    names = []
    for number in range(20):
        names.append(str(tmp_path / f"{number}.sql"))
        generate(names[-1], "idle", 2, 1 / 360, 0.5)
        with sqlite3.connect(names[-1]) as connection:
            for table in ("runs", "gpus", "processes", "events", "process_gpus"):
                connection.execute(f"UPDATE {table} SET run_id = ?", (f"run-{number}",))
            connection.execute("UPDATE gpus SET rank = gpu + ?", (number,))
            connection.execute("UPDATE samples SET time = time + ?", (3600 * number,))
    path = tmp_path / "all.txt"
    assert main(["export", *names, "--format", "openmetrics", "-o", str(path)]) == 0
    lines = path.read_text().splitlines()
    series = {line.partition("}")[0] for line in lines if line.startswith("gssr_")}
    of_run = {each for each in series if each.startswith(RUN_INFO.sample)}
    assert len(of_run) == 20 * 2 and len(series - of_run) == 2 * (1 + len(MEASURES))
    written = [each.partition("{")[2] for each in series - of_run]
    assert not any(word in each for each in written for word in ("run", "rank=", "label=", "command="))
    read_back(path.read_text())  # each series in one piece, though it is of many runs


def test_labels_end_no_line_and_no_text() -> None:
    assert labels({"a": 'x\\y"z\n\0\x1b[31m', "b": None, "c": 0}) == '{a="x\\\\y\\"z\\n��[31m",c="0"}'
    assert labels({}) == "{}" and len(labels({"a": "x" * 10**6})) < 300


def trace_of(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def counters(path: Path) -> Iterator[tuple[str, Floats, Floats]]:
    """As the reader of traces sees them: names, unix times and values."""
    timeline = read_kineto(str(path))
    assert timeline.clock.unix_ns is not None
    for counter in timeline.counters:
        yield counter.name, (counter.time + timeline.clock.unix_ns) / 1e9, counter.value


def test_a_trace_for_perfetto_has_the_samples_at_their_times(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    assert main(["export", str(recording), "--format", "perfetto", "-o", str(path)]) == 0
    reader, seen = run_of(recording), set[tuple[str, int]]()
    rows = reader.samples(NAMES)
    for name, times, values in counters(path):
        place, _, rest = name.partition(" ")
        (metric,) = (each for each in NAMES if rest.rpartition(" (")[0] == BY_NAME[each].label)
        node, _, index = place.partition(":")
        position = next(at for at, gpu in enumerate(reader.gpus) if (gpu.node, str(gpu.device_index)) == (node, index))
        own = (rows.gpu == position) & np.isfinite(rows.values[metric])
        order = np.argsort(rows.time[own])
        np.testing.assert_allclose(times, rows.time[own][order], atol=1e-6)  # so few samples that each is a bin's
        np.testing.assert_array_equal(values, rows.values[metric][own][order])
        seen.add((metric, position))
    known = [name for name in NAMES if has_balance(BY_NAME[name])]
    assert seen == {(name, int(gpu)) for name in known for gpu in np.unique(rows.gpu[np.isfinite(rows.values[name])])}


def test_a_trace_for_perfetto_tells_nodes_gpus_events_and_gaps(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sql"
    path.write_bytes(recording.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO events (run_id, node, time, kind, message) SELECT run_id, 'node0001', started_at + 7.25, 'mark',"
            " 'epoch \"1\"' FROM runs"
        )
        connection.execute("DELETE FROM samples WHERE gpu = 1 AND time >= 1700000430 AND time < 1700000450")
    assert main(["export", str(path), "--format", "perfetto", "-o", str(tmp_path / "a.json")]) == 0
    trace, reader = trace_of(tmp_path / "a.json"), run_of(path)
    base = trace["baseTimeNanoseconds"]
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]}
    threads = {e["args"]["name"].split()[0]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert len(set(threads.values()) | {e["pid"] for e in events}) == 9 + 2  # no id stands for two things
    assert set(names.values()) >= {"node0001", "node0001:0 Synthetic H100"}
    assert all(type(e["pid"]) is type(e["tid"]) is int and min(e["pid"], e["tid"]) >= 1 << 22 for e in events)
    instants = [e for e in events if e["ph"] == "i"]
    (mark,) = (e for e in instants if e["cat"] == "mark")
    assert mark["name"] == 'epoch "1"' and base / 1e9 + mark["ts"] / 1e6 == (reader.run.started_at or 0) + 7.25
    assert names[mark["pid"], mark["tid"]] == "node0001"
    assert {e["name"] for e in instants} >= {event.message for event in reader.events}
    gaps = [e for e in instants if e["name"] == "no samples for 20 s" and e["tid"] == threads["node0000:1"]]
    assert [base / 1e9 + e["ts"] / 1e6 for e in gaps] == [1700000430.0]
    assert all(type(value) is float for e in events if e["ph"] == "C" for value in e["args"].values())


def test_points_are_as_few_as_asked_for_and_means(recording: Path, tmp_path: Path) -> None:
    reader = run_of(recording)
    for points in (2 * N_SERIES, 9 * N_SERIES):
        path = tmp_path / f"{points}.json"
        words = ["--format", "perfetto", "--points", str(points), "-o", str(path)]
        assert main(["export", str(recording), *words]) == 0
        n = sum(e["ph"] == "C" for e in trace_of(path)["traceEvents"])
        assert points / 8 < n <= points
    power = reader.samples(["power_usage"])
    for name, times, values in counters(path):
        if name == "node0001:0 Power (W)":
            edges = np.append(times, np.inf)
            own = power.gpu == 8
            mean = [
                power.values["power_usage"][own & (power.time >= a) & (power.time < b)].mean()
                for a, b in pairwise(edges)
            ]
            np.testing.assert_allclose(values, mean)
            break
    else:
        pytest.fail("no power")


def test_a_trace_of_torch_profiler_lies_under_it(recording: Path, tmp_path: Path) -> None:
    """Events of both in one file, as viewers do it: the same clock. Bases that torch.profiler has written."""
    for base in (1711964646, 1743521598, 1751410836, 1759300074, 1767189312):
        assert base % perfetto.QUARTER == 0
    path, when = tmp_path / "run.json", 1_700_000_460.0
    assert main(["export", str(recording), "--format", "perfetto", "-o", str(path), "--points", "6000"]) == 0
    trace = trace_of(path)
    base = int(when) // perfetto.QUARTER * perfetto.QUARTER
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": (when - base) * 1e6, "dur": 5.0}
    kernel |= {"args": {"device": 0, "stream": 7}}
    assert trace["baseTimeNanoseconds"] == base * 10**9
    trace["traceEvents"].append(kernel)
    both = tmp_path / "both.json"
    both.write_text(json.dumps(trace))
    timeline = read_kineto(str(both))
    assert timeline.clock.unix_ns is not None
    (start,) = timeline.intervals.start[timeline.intervals.length > 0]
    assert (timeline.clock.unix_ns + start) / 1e9 == when
    times = timeline.counters[0].time + timeline.clock.unix_ns
    assert 0 in np.abs(times / 1e9 - when).round(6)


def test_a_single_trace_is_exported_as_tables_and_as_nothing_else(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    assert main(["export", str(recording), "--format", "perfetto", "-o", str(path), "--points", str(2 * N_SERIES)]) == 0
    assert main(["export", str(path), "--format", "csv", "-o", str(tmp_path / "csv")]) == 0
    assert "run.json,node0000:0 GPU utilization" in (tmp_path / "csv" / "trace_counters.csv").read_text()
    capsys.readouterr()
    assert main(["export", str(path), "--format", "openmetrics", "-o", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.endswith("is a trace: --format openmetrics is for recordings\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--format", "openmetrics", "--tables", "runs"], 2, "--tables: a file of --format openmetrics has none"),
        (["--format", "csv", "--points", "5"], 2, "--points 5: goes with --format perfetto"),
        (["--format", "perfetto", "--points", "0"], 2, "--points 0"),
        (["--format", "perfetto", "--points", "10"], 1, f"too few for {N_SERIES} series"),
        (["--format", "perfetto", "-o", "."], 2, "is a folder: name a file in it"),
        (["--format", "perfetto", "-o", "there"], 1, "-o there: exists; -f replaces it"),
        (["--format", "perfetto", "-o", "no/such"], 1, "can't be written: No such file or directory"),
        (["--format", "openmetrics", "-o", "/dev/full"], 1, "/dev/full: can't be written: No space left on device"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_leaves_nothing(
    recording: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").write_text("somebody's")
    assert main(["export", str(recording), *words]) == code
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert [path.name for path in tmp_path.iterdir()] == ["there"] and Path("there").read_text() == "somebody's"


@pytest.mark.parametrize("output", ["/dev/stdout", "-"])
def test_into_a_pipe_it_is_all_there_and_nothing_else(recording: Path, text: Path, tmp_path: Path, output: str) -> None:
    words = [sys.executable, "-m", "gssr", "export", str(recording), "--format", "openmetrics", "-o", output]
    environ = os.environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run(words, capture_output=True, check=True, cwd=tmp_path, env=environ)
    assert done.stdout == text.read_bytes() and not done.stderr and not os.listdir(tmp_path)
    with (tmp_path / "file").open("wb") as file:  # a job's log: what is in it stays, and more follows
        subprocess.run(["echo", "before"], stdout=file, check=True)
        subprocess.run(words, stdout=file, check=True, cwd=tmp_path, env=environ)
        subprocess.run(["echo", "after"], stdout=file, check=True)
    assert (tmp_path / "file").read_bytes() == b"before\n" + text.read_bytes() + b"after\n"
