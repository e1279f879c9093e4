"""Kernels that Nsight Compute has measured: every layout of its CSV, and its reports, say the same of the same launches;
plain pandas over the same file has the same numbers."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from gssr.cli import main
from gssr.model.traces.profiled_kernels import ProfiledKernel, profiled_kernels, roofline_of
from gssr.recognise import NCU_CSV, NCU_REPORT, recognise
from gssr.render.function_names import short_name
from gssr.render.verdicts import command_rows
from gssr.report.kernel_profiles import first_launch, profile_command
from gssr.traces.kernel_profile import ProfiledLaunch, measured, number_of, plain_advice
from gssr.traces.launch_shapes import KernelShape, Totals
from gssr.traces.ncu_csv import read_ncu_csv
from gssr.traces.ncu_report import read_ncu_report
from gssr.traces.timeline import TraceError
from tests.fakes.traces import ncu
from tests.fakes.traces.ncu import CLOCK, COPY, GEMM, LAUNCHES, MEMORY_CLOCK, PEAK_BYTES, PEAK_FLOP, STALLS

LAYOUTS = {"details": ncu.details, "raw": ncu.raw, "listed": ncu.listed}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ncu.installed(tmp_path / "package")), *sys.path])


def _read(folder: Path, layout: str) -> list[ProfiledLaunch]:
    if layout == "report":
        (folder / "a").write_bytes(ncu.report())
        assert recognise(str(folder / "a")).kind == NCU_REPORT
        return read_ncu_report(str(folder / "a"))
    (folder / "a").write_text(LAYOUTS[layout]())
    assert recognise(str(folder / "a")) == (NCU_CSV, "")
    return read_ncu_csv(str(folder / "a"))


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("layout", [*LAYOUTS, "report"])
def test_each_layout_says_the_same(layout: str, tmp_path: Path) -> None:
    found = _read(tmp_path, layout)
    assert [(own.name, own.grid, own.block, own.number, own.launches) for own in found] == [
        (own.name, own.grid, (256, 1, 1), str(at), 1) for at, own in enumerate(LAUNCHES)
    ]
    for own, told in zip(found, LAUNCHES, strict=True):
        assert own.duration_ns == told.ns and own.registers == 128
        assert (own.sm_throughput, own.memory_throughput) == (told.sm, told.memory)
        assert (own.achieved_occupancy, own.theoretical_occupancy) == told.occupancy
        assert own.dram_rate == pytest.approx(told.dram) and own.dram_peak == pytest.approx(PEAK_BYTES * MEMORY_CLOCK)
        (work,) = own.work
        assert (work.precision, work.peak) == ("FP32", pytest.approx(PEAK_FLOP * CLOCK))
        assert work.rate == pytest.approx(sum(told.flop) * CLOCK)
        total = sum(STALLS.values())
        stalls = {reason.replace(" ", "_"): share for reason, share in own.stalls.items()}
        assert stalls == pytest.approx({name: each / total for name, each in STALLS.items() if name != "selected"})
        assert next(iter(own.stalls)) == "long scoreboard"
    if layout in ("details", "report"):
        informed, advised = found[0].advice
        assert (informed.kind, informed.speedup) == ("information", None)
        assert (advised.rule, advised.kind, advised.speedup) == ("TheoreticalOccupancy", "optimization", 12.5)
        assert advised.speedup_is_global and advised.text.startswith('Limited by "registers".')


def test_a_summary_has_means_and_how_many_launches(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(ncu.summary())
    gemm, copied = read_ncu_csv(str(tmp_path / "a"))
    assert (gemm.launches, gemm.duration_ns, copied.launches) == (2, 377_500.0, 1)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_powershell_and_pandas_make_of_it_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(ncu.details().replace("\n", "\r\n"), encoding=encoding)
    assert recognise(str(tmp_path / "a")).kind == NCU_CSV
    assert [own.duration_ns for own in read_ncu_csv(str(tmp_path / "a"))] == [own.ns for own in LAUNCHES]
    table = ncu.raw()[ncu.raw().index('"ID"') :]
    pd.read_csv(io.StringIO(table), dtype=str).to_csv(tmp_path / "b", index=False)
    assert recognise(str(tmp_path / "b")).kind == NCU_CSV
    assert [own.duration_ns for own in read_ncu_csv(str(tmp_path / "b"))] == [own.ns for own in LAUNCHES]


def test_pandas_finds_the_same_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(ncu.details())
    lines = [line for line in (tmp_path / "a").read_text().splitlines() if line.startswith('"')]
    frame = pd.read_csv(io.StringIO("\n".join(lines)), thousands=",")
    frame = frame[frame["Metric Unit"].eq("%")].assign(value=lambda own: own["Metric Value"].astype(float))
    wanted = frame.pivot_table(index="ID", columns="Metric Name", values="value", aggfunc="first")
    found = read_ncu_csv(str(tmp_path / "a"))
    assert [own.memory_throughput for own in found] == wanted["Memory Throughput"].tolist()
    assert [own.achieved_occupancy for own in found] == wanted["Achieved Occupancy"].tolist()


def test_the_roofline_says_which_side_and_how_much_of_it(tmp_path: Path) -> None:
    gemm, copied, _ = _read(tmp_path, "raw")
    roof = roofline_of(gemm)
    assert roof is not None and roof.limit == "compute" and roofline_of(copied) is None
    assert roof.intensity == pytest.approx(sum(GEMM.flop) * CLOCK / GEMM.dram)
    assert roof.ridge == pytest.approx(PEAK_FLOP * CLOCK / (PEAK_BYTES * MEMORY_CLOCK))
    assert roof.share == pytest.approx(sum(GEMM.flop) / PEAK_FLOP)
    (tmp_path / "a").write_text(ncu.raw([GEMM._replace(flop=(0.0, 0.0, 100.0))]))
    bound = roofline_of(read_ncu_csv(str(tmp_path / "a"))[0])
    assert bound is not None and bound.limit == "memory"
    assert bound.share == pytest.approx(GEMM.dram / (PEAK_BYTES * MEMORY_CLOCK))


def test_numbers_are_read_as_they_are_written_and_units_are_never_guessed() -> None:
    assert [number_of(each) for each in ("1,205.00", "12", "1e3", "3 (1; 2; 3)", "n/a", "nan", "12,5", "", "1,20,5")] == [
        1205.0, 12.0, 1000.0, 3.0, None, None, None, None, None,
    ]  # fmt: skip
    for unit, seconds in (("ns", 1e-9), ("nsecond", 1e-9), ("us", 1e-6), ("msecond", 1e-3), ("s", 1.0)):
        assert measured("Duration", 1.0, unit) == ("Duration", pytest.approx(seconds))
    assert measured("Duration", 1.0, "") is None and measured("Elapsed Cycles", 1.0, "cycle") is None
    text = "See the @url:Guide:https://a.b/c#d@ and @section:LaunchStats:Launch Statistics@ (@source:a.cu:12:line 12@)."
    assert plain_advice(text) == "See the Guide and Launch Statistics (line 12)."


def test_stalls_have_no_shares_unless_all_reasons_were_measured(tmp_path: Path) -> None:
    lines = [line for line in ncu.listed().splitlines() if "stalled_selected" not in line]
    (tmp_path / "a").write_text("\n".join(lines))
    assert all(own.stalls == {} for own in read_ncu_csv(str(tmp_path / "a")))


ELSEWHERE = KernelShape("ns::gemm<float, 64>", (9, 9, 9), (256, 1, 1))
TRACE: Totals = {
    KernelShape("void ns::gemm<float, (int)128>(float *, const float *, int)", GEMM.grid, (256, 1, 1)): (8, 3_000_000),
    KernelShape("copy_kernel", (2, 1, 1), (256, 1, 1)): (10, 1_000_000),
    ELSEWHERE: (1, 500_000),
    KernelShape("ncclDevKernel_AllReduce", (24, 1, 1), (512, 1, 1)): (4, 5_500_000),
}


def _joined(folder: Path, trace: Totals) -> list[ProfiledKernel]:
    return profiled_kernels(_read(folder, "details"), trace, short_name)


def test_launches_are_found_in_a_trace_by_function_and_shape(tmp_path: Path) -> None:
    longest, gemm, copied = _joined(tmp_path, TRACE)
    assert (longest.launch.duration_ns, copied.launch.name) == (380_000.0, "copy_kernel")
    assert gemm.in_trace == (8, 3_000_000, 0.3, True) and copied.in_trace is None  # it has another grid there
    two = TRACE | {KernelShape("other::gemm<double, 128>(int)", GEMM.grid, (256, 1, 1)): (1, 1)}
    assert _joined(tmp_path, two)[0].in_trace == (8, 3_000_000, pytest.approx(0.3), True)
    without = {KernelShape("copy_kernel", None, None): (10, 100)}
    assert [own.in_trace for own in _joined(tmp_path, without)] == [None, None, (10, 100, 1.0, False)]
    unlike = {KernelShape(f"gemm<{n}>", GEMM.grid, (256, 1, 1)): (1, 1) for n in (1, 2)}
    assert _joined(tmp_path, unlike)[0].in_trace is None


def _events(folder: Path) -> Path:
    events = [
        {"ph": "X", "cat": "kernel", "name": shape.name, "pid": 0, "tid": 7, "ts": 10 * at, "dur": total / n / 1000,
         "args": {"device": 0, "stream": 7, "grid": shape.grid, "block": shape.block}}
        for at, (shape, (n, total)) in enumerate(TRACE.items()) for _ in range(n)
    ]  # fmt: skip
    path = folder / "rank0.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_the_page_joins_a_trace_and_says_which_kernel_to_measure_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _read(tmp_path, "details")
    names = [str(_events(tmp_path)), str(tmp_path / "a")]
    assert main(["analyze", "--json", *names]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "gssr.kernels/1" and told["next"] is None  # what is left only communicates
    assert [own["trace_share"] for own in told["kernels"]] == [0.3, 0.3, None]
    (tmp_path / "a").write_text(ncu.details([COPY]))
    assert main(["analyze", *names, "--width", "100"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "has the most time in the trace, 30.0 % of that of all kernels" in page
    assert "ncu --set full -k gemm -c 1 -o kernel PROGRAM" in page
    assert page.endswith("GSSR launches=1 kernels=1 longest_ns=12500")


def test_tables_hold_what_the_object_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _read(tmp_path, "details")
    assert main(["analyze", "--json", str(tmp_path / "a")]) == 0
    told = json.loads(capsys.readouterr().out)["kernels"]
    rows = {}
    for table in ("kernels", "stalls", "advice"):
        assert main(["analyze", "--csv", table, str(tmp_path / "a")]) == 0
        rows[table] = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["duration_ns"]) for row in rows["kernels"]] == [own["duration_ns"] for own in told]
    assert len(rows["stalls"]) == sum(len(own["stalls"]) for own in told)
    assert [row["text"] for row in rows["advice"]] == [each["text"] for own in told for each in own["advice"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("==PROF== Connected to process 1\nvoid gemm()\n", "holds no table of Nsight Compute"),
        (ncu.details([]), "holds no launch that was profiled"),
        (ncu.raw([GEMM]).replace("float *,", "\n" * 300), "is damaged: a row of it is longer than any"),
    ],
)
def test_what_holds_no_launch_is_refused_in_a_sentence(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text(text)
    assert main(["analyze", str(tmp_path / "a")]) == 1
    assert capsys.readouterr().err.startswith(f"gssr: {tmp_path / 'a'}: {why}")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("os.abort()", "ncu-report crashed on it"),
        ("[0] * (1 << 30)", "ncu-report says MemoryError"),
        ("while True: pass", "ncu-report (crashed on it, or it takes too much memory or time|got no further in 4 s)"),
        ("raise ValueError('a\\nb')", "ncu-report says ValueError"),
        ("told['launches'][1]['name'] = None", "it is cut off behind 1 launch"),
        ("told['launches'][0]['metrics']['gpu__time_duration.sum'] = ('', 1)", "ncu-report says MemoryError"),
        ("told['launches'] = []", "holds no launch that was profiled"),
    ],
)
def test_a_report_that_harms_the_package_is_refused_in_a_sentence(
    do: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gssr.traces.ncu_report._SECONDS", 2)
    (tmp_path / "a").write_bytes(ncu.report(do=do))
    with pytest.raises(TraceError, match=why) as refused:
        read_ncu_report(str(tmp_path / "a"))
    assert "\n" not in str(refused.value)


def test_without_the_package_a_report_is_refused_with_what_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    (tmp_path / "a").write_bytes(ncu.report())
    assert main(["analyze", str(tmp_path / "a")]) == 2
    assert "gssr analyze NCU-REP needs the package ncu-report: pip install 'ncu-report" in capsys.readouterr().err


def test_it_is_analyzed_with_traces_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _read(tmp_path, "details")
    (tmp_path / "b").write_text("nothing")
    assert main(["analyze", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "is none of its kind" in capsys.readouterr().err
    assert main(["analyze", str(tmp_path / "a"), "--steps", "1-2"]) == 2
    assert "--steps: is for recordings and traces" in capsys.readouterr().err
    assert recognise(str(tmp_path / "a")).no_recording == (
        "is of Nsight Compute, neither a recording nor a trace: gssr analyze shows it"
    )


def test_a_command_is_for_functions_alone() -> None:
    assert profile_command("void at::native::(anonymous namespace)::scan<float>(int)") == (
        "ncu --set full -k scan -c 1 -o kernel PROGRAM"
    )
    assert profile_command("CUDA graph 5") is None and profile_command("$(rm -r x)") is None


def test_a_command_with_a_long_name_fits_into_a_line_and_matches_that_kernel_alone() -> None:
    tiles = [
        f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{size}x128x64_warpgroupsize1x1x1_cublas"
        for size in (64, 128)
    ]
    named = [f"void {tile}<float>(int)" for tile in tiles]
    for kernel, tile, other in zip(named, tiles, reversed(tiles), strict=True):
        command = profile_command(kernel, [*named, "gemm(int)"])
        assert (
            command is not None
            and len(command) <= 80
            and [each.text for (each,) in command_rows(command, 80)] == [command]
        )
        (pattern,) = re.findall(r"-k regex:(\w+) -c 1 ", command)
        assert re.search(pattern, tile) and not re.search(pattern, other)
    assert first_launch(named[0], named[1:]) == "the first launch of its function"
    assert (
        first_launch("f<1>(int)", ["f<2>(int)", "f", "g"]) == "the first launch of its function, which 3 kernels are of"
    )
    within = profile_command(named[0], [*named, f"{tiles[0]}_2(int)"])
    assert within == f"ncu --set full -k {tiles[0]} -c 1 -o kernel PROGRAM"  # no part of it is its own
    lines = [each.text for (each,) in command_rows(within, 60)]
    assert all(line.endswith("\\") for line in lines[:-1]) and max(map(len, lines)) <= 60 < len(within)
    assert (
        subprocess.run(["sh", "-c", "\n".join(["echo \\", *lines])], capture_output=True, text=True).stdout
        == f"{within}\n"
    )


@pytest.mark.parametrize("page", ["details", "raw"])
def test_a_text_that_ends_within_a_row_says_so(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (ncu.details(LAUNCHES) if page == "details" else ncu.raw(LAUNCHES)).split("==PROF== Disconnected")[0]
    last = len(whole.rstrip().rsplit("\n", 1)[0]) + 1  # where the last row begins
    for end in (last, last + 3, last + 30, len(whole) - 4):
        (tmp_path / "a").write_text(whole[:end])
        code = main(["analyze", str(tmp_path / "a")])
        said = capsys.readouterr()
        is_cut = end > last
        assert code == is_cut and ("ends in the middle of a row" in said.err) == is_cut
        assert said.out.startswith("GSSR  a")
    (tmp_path / "a").write_text(whole.rstrip())
    assert main(["analyze", str(tmp_path / "a")]) == 0  # without the last line's end
