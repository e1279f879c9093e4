"""What a file holds is told by what is in it, whatever it is called; what is nothing is said to be in one sentence."""

import gzip
import io
import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from chrome import kernel, span, text

from gssr.cli import main
from gssr.recognise import RecognisedFile, recognise
from gssr.store.read.open import RecordingError, connect

KINETO = text([kernel("k", 1, 2)], distributedInfo={"rank": 1})
CHROME = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]})


def archive(*names: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    return packed.getvalue()


def database(path: Path, *tables: str, application: int = 0) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id={application}")
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (a)")
    return path


READ = {
    "kineto": KINETO.encode(),
    "kineto-packed": gzip.compress(KINETO.encode()),
    "kineto-list": json.dumps([span("a", 1, 2)]).encode(),
    "kineto-behind-much": (b'{"schemaVersion": 1, "x": "' + b" " * (3 << 20) + b'",' + KINETO[1:].encode()),
    "kineto-bom": b"\xef\xbb\xbf" + KINETO.encode(),
    "chrome": CHROME.encode(),
    "chrome-packed": gzip.compress(CHROME.encode()),
    "chrome-cut": CHROME.encode()[:60],
    "cube": archive("anchor.xml", "0.index", "0.data"),
    "cube-spec-first": archive("remapping.spec", "anchor.xml"),
}
UNREAD = {
    "nsys-rep": (b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal", "gssr import .*nsys export --type sqlite"),
    "rocprof-table": (b'"Name","Calls","TotalDurationNs"\n"hipMalloc",1,5\n', "_kernel_trace.csv"),
    "execution-trace": (b'{"schema": "1.0.2-chakra.0.0.4", "pid": 3, "nodes": []}', "execution trace"),
}
DMON = b"#Entity       GRACT   SMACT\nID\nGPU 0  0.1 0.2\n"
QUERY = b"timestamp, name, utilization.gpu [%]\n2024/11/23 12:23:29.950, A, 92 %\n"
PUBLISHED = b'{"metadata": {"job_id": 1}, "data": {}}'
METRIC_FILES = {
    "dcgmi-dmon": DMON,
    "dcgmi-dmon after-others": b"starting\n\n" + DMON,
    "dcgmi-dmon with-times": b"Nov 22 16:28:01 " + DMON.replace(b"\n", b"\nNov 22 16:28:01 "),
    "dcgmi-dmon utf-16": DMON.decode().encode("utf-16"),
    "dcgmi-dmon packed": gzip.compress(DMON),
    "nvidia-smi-dmon": b"# gpu    pwr  gtemp\n# Idx      W      C\n",
    "nvidia-smi-dmon with-times": b"#Date       Time        gpu   pwr\n#YYYYMMDD   HH:MM:SS    Idx     W\n",
    "nvidia-smi-query": QUERY,
    "nvidia-smi-query bom": b"\xef\xbb\xbf" + QUERY,
    "nvidia-smi-query after-others": b"Mon Nov 23 2024: started\n\n" + QUERY,
    "nvidia-smi-query without-units": b"index,utilization.gpu\n0, 3\n",
    "prometheus": b"# HELP DCGM_FI_DEV_SM_CLOCK SM clock\n# TYPE a gauge\n",
    "prometheus without-head": b'# scraped 1700000000\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 3\n',
    "prometheus-range": b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
    "gssr-0.x": PUBLISHED,
    "gssr-record": b"timestamp,gpuId,DCGM_FI_DEV_GPU_UTIL_min\n",
    "kempnerpulse": b"timestamp,gpu_id,sm_active_pct,power_w\n",
    "jobstats": b"JS1:H4sIAAAA",
    "jobstats json": b'{"nodes": {"n1": {"cpus": 4}}, "total_time": 3}',
    "jobstats sacct": b"JobIDRaw|Start|AdminComment|JobName\n1|2|JS1:None|x\n",
    "jobstats csv": b"AdminComment\nJS1:None\n",
    "jobreport": b"jobId,stepId,username,slurm_account,n_nodes,host,gpuId,powerUsageMin\n",
}
NOTHING = {
    "empty": (b"", "is empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    "resource-fork": (b"\0\5\x16\7\0\2\0\0Mac OS X", "resource fork"),
    "tar": (archive("trace.json"), "packed with tar"),
    "tar.gz": (gzip.compress(archive("trace.json")), "packed with tar"),
    "zip": (b"PK\3\4\x14", "packed with zip"),
    "zstd": (b"\x28\xb5\x2f\xfd\0", "packed with zstd"),
    "twice": (gzip.compress(gzip.compress(KINETO.encode())), "twice"),
    "damaged": (b"\x1f\x8b\x08\0" + b"\xff" * 50, "damaged"),
    "packed-empty": (gzip.compress(b""), "is empty"),
    "packed-bomb": (gzip.compress(b"{" + b" " * (70 << 20)), "no trace"),
    "packed-database": (gzip.compress(b"SQLite format 3\0"), "packed SQLite"),
    "json": (b'{"a": [1, 2]}', "is JSON, but no trace"),
    "json-list": (b'[{"a": {"ph": "X"}}]', "is JSON, but no trace"),
    "json-quoted": (json.dumps({"a": '"traceEvents": ['}).encode(), "is JSON, but no trace"),
    "utf-16": ("{}".encode("utf-16"), "UTF-16"),
    "text": (b"hello\n", "not an SQLite database"),
    "binary": (bytes(range(256)) * 4, "is not a recording"),
    "csv-of-somebody": (b"timestamp,GPU0,GPU1\n1,2,3\n", "is not a recording"),
}


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_told_by_its_content(case: str, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_bytes(READ[case])
    assert recognise(str(tmp_path / "file.txt")) == RecognisedFile(case.partition("-")[0])


@pytest.mark.parametrize("case", METRIC_FILES)
def test_metric_files_of_other_tools_are_told_by_their_content(case: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(METRIC_FILES[case])
    assert recognise(str(path)) == RecognisedFile(case.partition(" ")[0])
    with pytest.raises(RecordingError, match="gssr import"):
        connect(str(path))


@pytest.mark.parametrize("case", [*UNREAD, *NOTHING])
def test_what_is_not_read_is_named_or_said_to_be_nothing(case: str, tmp_path: Path) -> None:
    content, said = (UNREAD | NOTHING)[case]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content)
    found = recognise(str(path))
    assert found.kind == (case if case in UNREAD else "")
    with pytest.raises(RecordingError, match=said) as caught:
        connect(str(path))
    assert "\n" not in str(caught.value) and str(caught.value).startswith(f"{path}: is ")
    assert found.problem in str(caught.value) or case == "empty"


def test_databases_are_told_by_their_tables(tmp_path: Path) -> None:
    report = database(tmp_path / "a", "StringIds", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_KERNEL")
    assert recognise(str(report)).kind == "nsys"
    with pytest.raises(RecordingError, match=r"is a trace \(nsys\), not a recording"):
        connect(str(report))
    assert recognise(str(database(tmp_path / "b", "runs", application=0x47535352))).kind == "recording"
    assert recognise(str(database(tmp_path / "c", "data", "process_metadata"))).kind == "gssr-0.x"
    assert "something else" in recognise(str(database(tmp_path / "d", "StringIds"))).problem
    cut = tmp_path / "e"
    cut.write_bytes(report.read_bytes()[:200])
    assert recognise(str(cut)).kind == "damaged" and recognise(str(cut)).problem


def test_a_folder_is_what_is_in_it(tmp_path: Path) -> None:
    assert "without a recording or a trace" in recognise(str(tmp_path)).problem
    (tmp_path / "log.txt").write_text("hello")
    (tmp_path / "a.nsys-rep").write_bytes(UNREAD["nsys-rep"][0])
    assert recognise(str(tmp_path)).kind == "nsys-rep"
    (tmp_path / "rank0.json").write_text(KINETO)
    assert recognise(str(tmp_path)) == RecognisedFile("kineto")
    (tmp_path / "traces.otf2").write_bytes(b"\3BOTF2\0\3\2\2")
    assert recognise(str(tmp_path)).kind == "otf2"
    (tmp_path / "outer" / "step").mkdir(parents=True)
    (tmp_path / "outer" / "step" / "proc_0.json").write_bytes(PUBLISHED)
    assert recognise(str(tmp_path / "outer")) == RecognisedFile("gssr-0.x")


def test_what_is_no_file(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    assert recognise(str(tmp_path / "pipe")).problem == "is not a file"
    assert recognise(str(tmp_path / "none")).problem == "no such file"


@pytest.mark.parametrize("command", [[], ["analyze"]])
def test_a_trace_that_can_not_be_read_is_called_so(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    report, archive = tmp_path / "run.nsys-rep", tmp_path / "scorep"
    report.write_bytes(b"of another version")
    archive.mkdir()
    (archive / "traces.otf2").write_text("junk")
    for path, said in (
        (report, f"nsys export --type sqlite {report}"),
        (archive, "traces.otf2, its anchor file, is damaged"),
    ):
        assert main([*command, str(path)]) != 0
        assert said in capsys.readouterr().err
