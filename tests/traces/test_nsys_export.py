"""Exports of Nsight Systems in columns say what the .sqlite export of the same report says."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gssr.cli import main
from gssr.recognise import recognise, traces_in
from gssr.traces.nsys import details_at, read_nsys
from gssr.traces.open import open_traces
from gssr.traces.timeline import Kind, TraceError
from tests.fakes.traces.nsys_columns import in_columns

pa = pytest.importorskip("pyarrow")
SAMPLES = Path(__file__).parent / "samples"
REPORTS = ("straggler-2025.6.sqlite", "pageable-2022.2.sqlite")


def _told(path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["analyze", "--json", str(path)]) == 0
    told = json.loads(capsys.readouterr().out)
    for source in told["sources"]:
        del source["path"]
    return told


@pytest.mark.parametrize("ending", ["parquet", "arrow", "stream"])
@pytest.mark.parametrize("report", REPORTS)
def test_everything_is_as_in_the_database(
    report: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = in_columns(SAMPLES / report, tmp_path / "report_dir", ending)
    assert recognise(str(folder)) == ("nsys", "") and traces_in(str(tmp_path)) == [(str(folder), "nsys")]
    found, wanted = _told(folder, capsys), _told(SAMPLES / report, capsys)
    assert found == wanted and len(found["kernels"]) > 1


def test_details_of_a_kernel_are_read_of_columns(tmp_path: Path) -> None:
    folder = in_columns(SAMPLES / REPORTS[0], tmp_path / "columns", "parquet")
    timeline = read_nsys(str(folder))
    at = int((timeline.intervals.kind == Kind.KERNEL).argmax())
    start = int(timeline.intervals.start[at])
    when = (Kind.KERNEL, start, start + int(timeline.intervals.length[at]))
    assert details_at(str(folder), *when) == details_at(str(SAMPLES / REPORTS[0]), *when) != {}


def test_a_damaged_table_is_named_and_the_others_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_columns(SAMPLES / REPORTS[0], tmp_path / "columns", "parquet")
    with (folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet").open("r+b") as file:
        file.truncate(100)
    assert main(["analyze", str(folder)]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "CUPTI_ACTIVITY_KIND_MEMCPY can't be read" in page and "kernels" in page


def test_more_rows_than_bytes_are_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = in_columns(SAMPLES / REPORTS[0], tmp_path / "columns", "parquet")
    alike = pa.array([5] * 3_000_000)
    pq.write_table(pa.table({"start": alike, "end": alike}), folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    timeline = read_nsys(str(folder))
    assert not (timeline.intervals.kind == Kind.KERNEL).any()
    assert "CUPTI_ACTIVITY_KIND_KERNEL can't be read" in str(timeline.sources[0].notes)


def test_a_table_alone_is_told_what_to_name(tmp_path: Path) -> None:
    folder = in_columns(SAMPLES / REPORTS[0], tmp_path / "columns", "parquet")
    with pytest.raises(TraceError, match="name the folder"):
        open_traces([str(folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")])


def test_a_process_that_writes_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = in_columns(SAMPLES / REPORTS[0], tmp_path / "columns", "parquet")
    monkeypatch.setattr("gssr.traces.nsys_export._MEMORY", 30 << 20)
    monkeypatch.setattr("gssr.traces.nsys_export._MEMORY_BY_SIZE", 0)
    with pytest.raises(TraceError, match=r"pyarrow crashed on it|needs the package"):
        read_nsys(str(folder))


def test_without_pyarrow_the_package_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_columns(SAMPLES / REPORTS[0], tmp_path / "columns", "arrow")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in (tmp_path, tmp_path / "columns"):
        assert main(["analyze", str(name)]) == 2
        assert "gssr analyze NSYS-COLUMNS needs the package pyarrow" in capsys.readouterr().err
