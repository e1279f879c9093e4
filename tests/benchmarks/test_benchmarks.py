"""The benchmarks run, in the smallest settings, and say what they measured: no verdict on figures here."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as entry
from benchmarks import (
    analyze,
    busy,
    driver,
    imports,
    large,
    live,
    merge,
    processes,
    rank,
    sampler,
    scale,
    start,
    table,
    write,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (analyze, driver, entry, large, live, merge, processes, rank, sampler, scale, start, write):
        monkeypatch.setattr(module, "CACHE", tmp_path)


def test_the_sampler_is_found_and_watched() -> None:
    figures = list(sampler.measure(gpus=(2,), hertz=(20.0,), seconds=0.5, windows=2, warm_up=0.5))
    waking, *of_sampler = figures
    assert waking.what == "sampler, only waking, 20 Hz: CPU" and 0 < waking.value < 100
    value = {figure.what.rpartition(": ")[2]: figure.value for figure in of_sampler}
    assert 0 < value["CPU"] < 100 and 0 < value["CPU that --textfile adds"] < 5
    assert 0 <= value["meanwhile, stolen by the machine's host"] <= 100 * (os.cpu_count() or 1)
    assert 5 < value["resident memory"] < 100
    assert 0 <= value["lateness of a tick, p50"] <= value["lateness of a tick, p99"]


def test_the_sampler_on_the_stand_in_for_the_driver_is_watched(requires: Callable[..., None]) -> None:
    requires("gcc", package="gcc libc6-dev")
    figures = list(driver.measure(seconds=0.5, windows=1, warm_up=0.5, restarts=1, down=0.2))
    value = {figure.what.rpartition(": ")[2]: figure.value for figure in figures}
    assert 0 < value["CPU"] < 100
    assert 5 < value["resident memory"] < 100
    assert figures[-1].what.endswith("longest of 1") and 0 < figures[-1].value < 60


def test_the_sampler_is_watched_beside_busy_processes() -> None:
    figures = list(busy.measure(seconds=0.5, windows=1, warm_up=0.5))
    assert [figure.limit for figure in figures if figure.limit is not None] == [busy.LIMIT_MS]


@pytest.mark.parametrize("which", ["gpm", "nvml"])
def test_what_asking_the_stand_in_costs_is_measured(which: str, tmp_path: Path, requires: Callable[..., None]) -> None:
    requires("gcc", package="gcc libc6-dev")
    driver.build(tmp_path)
    environment = processes.ENVIRONMENT | {"LD_LIBRARY_PATH": str(tmp_path), "FAKENVML_GPUS": "2"}
    processes.run((processes.PYTHON, "-m", "benchmarks.collector", which, "3"), tmp_path / "said", environment)
    assert float((tmp_path / "said").read_text()) > 0


def test_lateness_is_what_ticks_are_behind_their_deadlines(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.sql")
    connection.execute("CREATE TABLE samples (gpu, time)")
    times = [100.0, 100.101, 100.2, 100.305, 100.5, 100.6, 100.63]  # the fifth was left out; the last is the end
    connection.executemany("INSERT INTO samples VALUES (0, ?)", [(time,) for time in times])
    connection.commit()
    connection.close()
    late, missed = sampler._lateness(tmp_path / "a.sql", 0.1, 0.05)
    assert late == pytest.approx([0.0, 0.0, 0.0, 0.001, 0.005], abs=1e-6)
    assert missed == 1


def test_a_rank_that_samples_nothing_costs_something() -> None:
    cpu, memory = rank.measure(repeats=1, warm_up=0.5)
    assert 0 < cpu.value < 1000 and 1 < memory.value < 100


def test_starting_costs_more_than_nothing() -> None:
    figures = list(start.measure(repeats=5))
    assert [figure.value > 0 for figure in figures] == [True] * 4


def test_writing_is_measured_for_each_case() -> None:
    cpu, rollups, size = write.measure(cases=((2, 10),), repeats=1)
    assert cpu.value > rollups.value > 0
    assert size.value > 100


def test_cost_over_work_is_measured_and_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    figures = list(scale.measure(gpus=(1, 3), repeats=1))
    assert all(figure.value > 0 for figure in figures)
    size = {figure.what: figure.value for figure in figures}
    assert size["scale, 3 GPUs: recording"] > 1.5 * size["scale, 1 GPUs: recording"]
    drawn = capsys.readouterr().out
    assert drawn.count("┌") == 2 and drawn.count("o") > 4


def test_a_large_recording_is_analysed_beside_only_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSSR_BENCHMARK_BIG", str(analyze.recording(2, 0.01, 500)))
    monkeypatch.setattr(large, "WINDOWS", {"of a part": ("--from", "3", "--to", "0:31", "--gpus", "1")})
    value = {figure.what.partition(": ")[2]: figure.value for figure in large.measure(repeats=1)}
    assert value["recording"] > 0 and value["gssr analyze --exact: wall clock"] > 0
    assert value["rollups, bytes"] > 0 and value["gssr analyze of a part: CPU"] > 0


def test_merging_is_measured_and_gives_the_same_content() -> None:
    figures = list(merge.measure(ranks=3, minutes=0.5, repeats=1, kills=2))
    assert all(figure.value > 0 for figure in figures)
    assert [figure.value for figure in figures if figure.unit == "times"] == [2]


def test_a_missed_limit_is_marked_and_tells_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    met, missed = table.Figure("a", 1.0, "ms", 2.0), table.Figure("b", 3.0, "ms", 2.0)
    monkeypatch.setitem(entry.BENCHMARKS, "start", entry.Benchmark(lambda: iter([met, missed])))
    assert entry.main(["start"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "! 2" not in lines[-2] and "! 2" in lines[-1]
    monkeypatch.setitem(entry.BENCHMARKS, "start", entry.Benchmark(lambda: iter([met])))
    assert entry.main(["start"]) == 0


def test_the_live_screen_is_watched_in_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LEAST_UPDATES", 1)
    with live.growing(tmp_path, 2) as path:
        figures = list(live.frames(path, 2, (80, 24), 1.0, 0.5))
    assert len(figures) == 6 * len(live.SCREENS)
    value = {figure.what.partition("screen 1: ")[2]: figure.value for figure in figures}
    assert 0 < value["drawing a frame, CPU"] < 1000
    assert 0 < value["reading, CPU"] < 100
    assert 80 < value["a tick"] < value["a full frame"] < 50_000


def test_where_other_programs_cannot_be_installed_ours_is_measured_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "install", lambda: "no way")
    monkeypatch.setattr(live, "SIZES", ((80, 24),))
    figures = list(live.beside_others(1.0, 0.5))
    assert {figure.what.split(", ")[1] for figure in figures} == {"gssr tui"}
    assert capsys.readouterr().out == "live: no way\n"


@pytest.mark.parametrize("kind", imports.KINDS)
def test_what_imports_are_measured_with_is_read_whole(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "made")
    imports.main(["make", kind, path, "300"])
    with pytest.raises(SystemExit) as ended:
        imports.main(["ours", kind, path])
    assert ended.value.code == 0 and float(capsys.readouterr().out) > 0
