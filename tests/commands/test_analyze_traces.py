"""Traces as their user meets them: ``gssr analyze``, ``gssr export`` and ``gssr.open`` of files written by hand."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gssr
from gssr.cli import main
from gssr.convert.traces import TRACE_TABLES
from gssr.model.traces.tables import ALIASES, NSYS, TABLES
from gssr.render.cells import cell_width

HOSTILE = "gem\x1b[31mm\n=1+1, \u202e"


def write(folder: Path, rank: int, name: str = HOSTILE) -> Path:
    """Three steps of a rank: a kernel, a collective that is half hidden, and a copy."""
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]

    def add(cat: str, name: str, at: int, took: int, track: int, link: int | None = None, **args: object) -> None:
        args |= {} if link is None else {"correlation": link}
        events.append({"ph": "X", "cat": cat, "name": name, "pid": rank if "stream" in args else 1, "tid": track,
                       "ts": at, "dur": took, "args": args})  # fmt: skip

    for step in range(3):
        start, link = 1000 * step, 10 * step
        add("user_annotation", f"ProfilerStep#{step + 3}", start, 990, 1)
        for number, (at, took, label, cat) in enumerate((
            (100, 300, name, "kernel"), (300, 200, "ncclDevKernel_AllGather", "kernel"),
            (600, 50, "Memcpy DtoH", "gpu_memcpy"),
        ), 1):  # fmt: skip
            add("cuda_runtime", "cudaLaunchKernel", start + at - 50, 5, 1, link + number)
            add(cat, label, start + at, took, 7 + number, link + number, device=rank, stream=7 + number)
    path = folder / f"rank{rank}.json"
    head = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "baseTimeNanoseconds": 1_767_225_600_000_000_000}
    path.write_text(json.dumps(head | {"traceEvents": events}))
    return path


def collecting(folder: Path, rank: int) -> Path:
    """A rank that computes, the first one longer, and then communicates with the others."""
    late, path = 200 if rank == 0 else 0, folder / f"rank{rank}.json"
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": 7, "ts": at, "dur": took,
         "args": {"device": rank, "stream": 7}}
        for name, at, took in (("gemm", 0, 500 + late), ("ncclDevKernel_AllReduce", 500 + late, 300 - late))
    ]  # fmt: skip
    head = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "baseTimeNanoseconds": 1_767_225_600_000_000_000}
    path.write_text(json.dumps(head | {"traceEvents": events}))
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of two ranks; never to be changed."""
    folder = tmp_path_factory.mktemp("traces")
    for rank in range(2):
        write(folder, rank)
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize("words", [[], ["-v", "high", "--ascii"], ["-v", "low", "--color", "always"]])
def test_a_page_keeps_its_width_and_runs_no_escapes_of_names(
    traces: Path, width: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, page, error = said(capsys, "analyze", traces, "--width", width, *words)
    lines = page.splitlines()
    assert code == 0 and not error and "GSSR busy=0." in lines[-1]
    assert "\x1b[31mm" not in page and "\u202e" not in page
    if "always" in words:
        return
    assert "\x1b" not in page and all(cell_width(line) <= width for line in lines[:-1])
    assert "--ascii" not in words or page.isascii()


def test_a_command_on_the_page_of_several_files_runs_as_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "of all ranks"
    folder.mkdir()
    files = [collecting(folder, rank) for rank in range(5)]
    for own in (files, files[:4]):
        page = said(capsys, "analyze", *own, "--width", 60)[1]
        command = page.partition("$ gssr")[2].partition("\n!")[0].partition("\n-")[0]
        words = shlex.split(command.replace("\\\n", ""), comments=False)
        assert words[:3] == ["analyze", "--csv", "kernels_by_rank"]
        assert words[3:] == ([str(folder)] if own is files else list(map(str, own)))
        assert said(capsys, *words)[0] == 0


def test_the_page_says_how_much_and_why(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "analyze", traces)[1]
    for text in ("compute 35.3 %", "exposed communication 11.8 %", "exposed copies 5.9 %", "idle 47.1 %",
                 "rank:1 ", "50.0 % of the communication", "AllGather", "host", "ProfilerStep#4"):  # fmt: skip
        assert text in page, (text, page)


def test_traces_of_two_runs_are_two_pages_two_objects_and_two_exported_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name, 0, f"gemm_{name}"))
    alone = [said(capsys, "analyze", path)[1].rstrip().splitlines() for path in paths]
    code, page, wrong = said(capsys, "analyze", *paths)
    assert code == 0 and not wrong
    assert page.rstrip().splitlines() == [*alone[0], "", "", *alone[1]]
    assert page.rstrip().splitlines()[-1].startswith("GSSR busy=") and page.count("\nGSSR busy=") == 2
    objects = [json.loads(said(capsys, "analyze", "--json", path)[1]) for path in paths]
    found = json.loads(said(capsys, "analyze", "--json", *paths)[1])
    assert found == {"schema": "gssr.traces/1", "runs": objects}
    assert all(each["schema"] == "gssr.trace/1" for each in objects)
    for option in (["--csv", "kernels"], ["--report", tmp_path / "r.html"]):
        code, out, wrong = said(capsys, "analyze", *option, *paths)
        assert code == 2 and not out and f"{option[0]}: is for the traces of one run" in wrong
        assert "give one of the two" in wrong
    code, out, wrong = said(capsys, "export", "-o", tmp_path / "out", *paths)
    assert code == 0 and "2 runs exported" in out
    names = {path.name for path in (tmp_path / "out" / "trace_kernels").iterdir()}
    assert len(names) == 2 and all(name.startswith("run_id=") for name in names)
    with pytest.raises(Exception, match="give one of the two"):
        gssr.open([str(path) for path in paths])


def test_who_has_read_enough_of_a_table_is_told_nothing(tmp_path: Path) -> None:
    events = [{"ph": "X", "cat": "kernel", "name": f"kernel number {n}", "pid": 0, "tid": 7, "ts": n, "dur": 1,
               "args": {"device": 0, "stream": 7}} for n in range(3_000)]  # fmt: skip
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    for words in (["--csv", "kernels"], ["--json"]):
        command = [sys.executable, "-m", "gssr", "analyze", *words, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None and run.stderr is not None
            assert run.stdout.readline()
            run.stdout.close()
            assert run.stderr.read() == ""


def test_the_object_is_the_same_numbers(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = said(capsys, "analyze", "--json", traces)
    found = json.loads(text)
    assert code == 0 and text.isascii() and found["schema"] == "gssr.trace/1"
    assert found["zero_unix_ns"] == 1_767_225_600_000_000_000 and found["window_ns"] == [0, 2_990_000]
    first = found["ranks"][0]
    assert first["compute_ns"] == 900_000 and first["exposed_communication_ns"] == 300_000 and first["overlap"] == 0.5
    assert {tuple(row["types"]) for row in found["kernel_types"]} == {
        ("compute",), ("communication",), ("compute", "communication"), ("copy",)}  # fmt: skip
    assert sum(row["share"] for row in found["kernel_types"]) == pytest.approx(1)
    assert found["kernels"][0]["name"] == HOSTILE and found["kernels"][0]["count"] == 6
    assert [step["name"] for step in found["steps"]] == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"] * 2
    keys = {"code", "aliases", "severity", "title", "evidence", "advice", "source", "start", "end", "gpus", "gpu_hours"}
    assert set(found["verdicts"][0]) == keys
    assert found["launches"]["delay_ns"] == {"mean": 45_000, "median": 45_000, "max": 45_000}


@pytest.mark.parametrize("table", [*TABLES, *NSYS, *ALIASES])
def test_every_table_is_csv_that_no_terminal_and_no_spreadsheet_runs(
    traces: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = said(capsys, "analyze", "--csv", table, traces)
    assert code == 0 and "\x1b" not in text
    heads, *rows = csv.reader(io.StringIO(text))
    assert all(len(row) == len(heads) for row in rows)
    if table in TABLES:
        assert heads == [column.name for column in TABLES[table].columns]


def test_parts_of_a_trace(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def window(*words: str) -> tuple[list[int], list[int]]:
        found = json.loads(said(capsys, "analyze", "--json", traces, *words)[1])
        return found["window_ns"], [rank["rank"] for rank in found["ranks"]]

    assert window("--steps", "4") == ([1_000_000, 1_990_000], [0, 1])
    assert window("--steps", "4-5", "--gpus", "1") == ([1_000_000, 2_990_000], [1])
    assert window("--from", "500us", "--to", "1.5ms") == ([500_000, 1_500_000], [0, 1])
    assert window("--from", "-1ms", "--gpus", "0-1") == ([1_990_000, 2_990_000], [0, 1])


def test_a_report_has_the_sections_of_the_page(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = said(capsys, "analyze", "-v", "high", "--report", str(tmp_path / "a.html"), traces)[1]
    text = (tmp_path / "a.html").read_text()
    titles = re.findall(r"^── (.*?) ─", page, re.MULTILINE)
    assert titles[-1] == "Notes"
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["Notes", *titles[:-1]], "what was found comes first"
    assert ">rank:1" in text and "<script" not in text and "\x1b" not in text
    assert set(re.findall(r"<(\w+)", text.partition("<body>")[2])) == {
        "main",
        "header",
        "p",
        "h1",
        "h2",
        "section",
        "pre",
        "span",
    }


def test_a_report_as_pdf_has_the_sections_of_the_page(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], requires: Callable[..., None]
) -> None:
    requires("pdftotext", package="poppler-utils")
    page = said(capsys, "analyze", "-v", "high", "--report", str(tmp_path / "a.pdf"), traces)[1]
    said(capsys, "analyze", "--report", str(tmp_path / "b.pdf"), traces)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    text = subprocess.run(["pdftotext", "-layout", tmp_path / "a.pdf", "-"], capture_output=True, text=True, check=True)
    headings = re.findall(r"^── (.*?) ─", page, re.MULTILINE)
    assert len(headings) > 3
    assert all(heading in text.stdout for heading in headings), text.stdout


@pytest.mark.parametrize(("words", "code", "text"), [
    (["--steps", "9"], 2, "no step from 9 to 9: there are 3 to 5"),
    (["--steps", "5-4"], 2, "names no steps"),
    (["--from", "9"], 2, "holds nothing of the trace"),
    (["--from", "tomorrow"], 2, "is not a time in a trace"),
    (["--gpus", "7"], 2, "no GPU 7: there are: rank:0, rank:1"),
    (["--csv", "kernel"], 2, "no table 'kernel'"),
    (["--report", "x.txt"], 2, "name a file that ends in .html or .pdf"),
    (["--max-size", "big"], 2, "is not a size"),
    (["--max-size", "100"], 1, "rank0.json"),
    (["--exact"], 2, "--exact: is for recordings"),
    (["--run", "1"], 2, "--run: is for recordings"),
    (["README.md"], 2, "is a trace and README.md is none"),
])  # fmt: skip
def test_what_is_wrong_is_one_sentence(
    traces: Path, words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, "analyze", traces, *words)
    assert found[0] == code and text in found[2] and found[2].count("\n") == 1 and not found[1], found


def test_options_for_traces_are_not_for_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.pftrace").touch()
    for name in ("a.sql", "empty.pftrace"):
        code, _, error = said(capsys, "analyze", tmp_path / name, "--steps", "1")
        assert code == 2 and f"--steps: is for traces: {tmp_path / name} is none" in error


def test_a_sites_rules_are_for_traces_too(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[memory_full]\nshare = 0.9\n[traces.exposed_communication]\nwarning = 0.5\n")
    assert "Communication is not hidden" in said(capsys, "analyze", traces)[1]
    assert "Communication is not hidden" not in said(capsys, "analyze", traces, "--rules", rules)[1]
    rules.write_text("[traces.exposed]\nwarning = 0.5\n")
    code, _, error = said(capsys, "analyze", traces, "--rules", rules)
    assert code == 2 and "there is no rule 'exposed'" in error


def test_an_export_has_all_tables(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert said(capsys, "export", traces, "-o", out)[0] == 0
    assert {path.name for path in out.iterdir()} == set(TRACE_TABLES)
    (file,) = (out / "trace_kernels").rglob("*.parquet")
    rows = pq.ParquetFile(file).read().to_pylist()
    assert [row["total_ns"] for row in rows] == [1_800_000, 1_200_000] and rows[0]["name"] == HOSTILE
    assert said(capsys, "export", traces, "-o", tmp_path / "c", "--format", "csv", "--tables", "trace_ranks")[0] == 0
    (own,) = (tmp_path / "c").iterdir()
    assert [row["rank"] for row in csv.DictReader(own.open())] == ["0", "1"]


def test_a_picture_is_drawn_beside_the_page(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, page, error = said(capsys, "analyze", traces, "--png", tmp_path)
    assert code == 0 and "How well used?" in page and "rank0.json.png" in error
    assert (tmp_path / "rank0.json.png").read_bytes().startswith(b"\x89PNG")
    code, _, error = said(capsys, "analyze", traces, "--png", tmp_path / "rank0.json.png")
    assert code == 1 and error.count("\n") == 1


def test_pandas_has_the_same_tables(traces: Path) -> None:
    trace = gssr.open(traces)
    split = trace.split()
    shares = split[["compute", "exposed_communication", "exposed_copy", "idle"]]
    assert shares.sum(axis=1).tolist() == pytest.approx([1, 1]) and split.index.names == ["rank", "gpu"]
    assert trace.table("kernels").total_ns.tolist() == [1_800_000, 1_200_000]
    assert all(list(trace.table(name)) == [column.name for column in TABLES[name].columns] for name in TABLES)
    both = gssr.open([traces / "rank0.json", traces / "rank1.json"]).part(steps="4", gpus="1")
    assert both.table("ranks").n_kernels.tolist() == [2]
    with pytest.raises(ValueError, match="no table 'kernel'"):
        trace.table("kernel")


def test_tables_of_all_ranks_together_can_be_had_of_each_rank(traces: Path) -> None:
    trace = gssr.open(traces)
    for name, table in TABLES.items():
        found = trace.table(name, by_rank=True)
        columns = [column.name for column in table.columns]
        assert list(found) == (columns if "rank" in columns else ["rank", *columns])
    for rank in (0, 1):
        alone = gssr.open(traces / f"rank{rank}.json")
        for name in ("kernels", "api", "idle", "launches", "ranges"):
            found = trace.table(name, by_rank=True)
            mine = found[found["rank"] == rank].drop(columns="rank").reset_index(drop=True)
            assert mine.equals(alone.table(name).astype(mine.dtypes)) and len(mine)
    one = trace.part(gpus="1").table("api", by_rank=True)
    assert set(one["rank"]) == {1} and one.total_ns.sum() == trace.part(gpus="1").table("api").total_ns.sum()


def test_values_that_belong_to_no_gpu_are_those_of_their_files_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        counted = {"ph": "C", "name": "queue", "pid": 1, "ts": 5, "args": {"items": rank}}
        work = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 7, "args": {}}
        head = {"schemaVersion": 1, "distributedInfo": {"rank": rank}}
        (tmp_path / f"{rank}.json").write_text(json.dumps(head | {"traceEvents": [work, counted]}))
    assert gssr.open(tmp_path).table("counters")["rank"].tolist() == [0, 1]


def test_a_trace_without_work_of_a_gpu_has_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cpu.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 7, "args": {}}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    code, page, _ = said(capsys, "analyze", path)
    assert code == 0 and "no GPU did anything" in page and "aten::mm" in page
    assert json.loads(said(capsys, "analyze", path, "--json")[1])["ranks"] == []
    assert gssr.open(path).split().empty
