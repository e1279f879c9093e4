"""Recordings that lack metrics: screens, page and reports begin with the best of those that there are, and nowhere is a row
of nothing but unknowns."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from looking import SIZES, drawn, terminal_of

from gssr.api.writing import from_pandas
from gssr.metrics import BY_NAME, DETECTION_METRICS, best_measured
from gssr.model.compare.alignment import aligned, shares_columns
from gssr.model.live.frame import Query
from gssr.model.live.watch import Watch
from gssr.tui.moves import MOVES, measured
from gssr.tui.view import ScreenName, View

LOOKED_AT: tuple[ScreenName, ...] = ("job", "gpus", "map", "time", "balance", "why")
UNKNOWN = re.compile(r"unknown|(?<=\s)-(?=\s|$)")


@pytest.fixture(scope="session")
def older(fake_driver, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real recording of two GPUs of which NVML alone tells, as it does before Hopper."""
    path = tmp_path_factory.mktemp("older") / "a.sql"
    # PCIe at 2 GB/s: of what is below a hundredth of the link, as it may be for a moment otherwise, no ratio is shown.
    environ = fake_driver.environ(gpus=2, gpm=0, arch=8, set="20:2000,21:2000")
    for seconds in ("2.5", "5", "10", "20"):
        words = ["profile", "--backend", "nvml", "-t", "100", "-f", "-o", str(path), "--", "sleep", seconds]
        subprocess.run([sys.executable, "-m", "gssr", *words], env=environ, check=True, timeout=60)
        with closing(sqlite3.connect(path)) as connection:
            # PCIe is measured when there is time to spare, which a busy machine may not have at once.
            counted = "SELECT gpu FROM samples GROUP BY gpu HAVING count(pcie_tx_bytes) AND count(pcie_rx_bytes)"
            if len(connection.execute(counted).fetchall()) == 2:
                break
    return str(path)


def written(path: Path, **metrics: float) -> str:
    """A recording of two GPUs with these metrics."""
    rows = [(gpu, 1.7e9 + second, *metrics.values()) for second in range(30) for gpu in range(2)]
    from_pandas(pd.DataFrame(rows, columns=["gpu", "time", *metrics]), path)
    return str(path)


def analyzed(*words: str) -> str:
    command = [sys.executable, "-m", "gssr", "analyze", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_the_best_is_the_first_that_was_measured() -> None:
    assert best_measured(BY_NAME) == "sm_active" and best_measured(()) is None
    for at, name in enumerate(DETECTION_METRICS):
        assert best_measured({*DETECTION_METRICS[at:], "power_usage"}) == name
    assert best_measured(("temperature", "power_usage")) == "power_usage"
    assert best_measured(("temperature", "power_usage"), asked=("temperature",)) == "temperature"


@pytest.mark.parametrize("screen", LOOKED_AT)
def test_no_screen_of_a_recording_by_nvml_has_a_row_of_unknowns(older: str, screen: ScreenName) -> None:
    for width, height in (*SIZES[1:], (200, 60)):
        view = View(screen=screen)
        scene = terminal_of(older, view, width, height)
        assert scene.frame.grid.metric == "gpu_utilization" and np.isfinite(scene.frame.grid.values).any()
        for line in drawn(older, view, width, height):
            assert not UNKNOWN.search(line.replace("score unknown", "")), line


def test_job_says_what_is_missing_and_what_it_takes(older: str) -> None:
    lines = drawn(older, View())
    at = next(y for y, line in enumerate(lines) if line.startswith(" util"))
    assert at <= 3 and "score unknown: SM activity needs DCGM, or Hopper or newer" in lines[at + 1]
    bars = "".join(lines)
    assert all(f" {BY_NAME[name].short}" in bars for name in ("power_usage", "memory_used", "memory_copy_utilization"))


def test_the_key_for_the_next_metric_begins_there(older: str) -> None:
    after = MOVES["next_metric"](terminal_of(older, View()))
    assert after.metric == "memory_copy_utilization"
    assert MOVES["next_metric"](
        terminal_of(older, replace(after, metric=measured(terminal_of(older, after))[-1]))
    ).metric == ("gpu_utilization")


def test_a_metric_that_was_chosen_is_kept_and_said_to_be_unknown(older: str) -> None:
    view = View(screen="gpus", metric="sm_active")
    assert "SM active: mean unknown" in "\n".join(drawn(older, view))


@pytest.mark.parametrize("metrics", [{"power_usage": 200.0, "temperature": 50.0}, {"temperature": np.nan}])
def test_whatever_was_measured_every_screen_is_drawn(tmp_path: Path, metrics: dict[str, float]) -> None:
    path = written(tmp_path / "a.sql", **metrics)
    measured = not any(np.isnan(value) for value in metrics.values())
    for screen in LOOKED_AT:
        lines = drawn(path, View(screen=screen))
        assert len(lines) == 24 and (not measured or any("Power" in line for line in lines)), screen


def test_two_runs_are_compared_by_the_best_that_both_have(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / "a.sql", sm_active=0.5, gpu_utilization=0.9, power_usage=300.0),
        written(tmp_path / "b.sql", gpu_utilization=0.8, power_usage=250.0),
    ]
    one = two = None
    with closing(Watch(paths[0])) as first, closing(Watch(paths[1])) as second:
        for metric, expected in (
            ("", "gpu_utilization"),
            ("power_usage", "power_usage"),
            ("sm_active", "gpu_utilization"),
        ):
            for _ in range(2):
                queries = aligned(replace(Query(), metric=metric), "start", one, two)
                one, two = first.look(queries[0]), second.look(queries[1])
            assert shares_columns(one, two) and one.grid.metric == expected


def test_the_page_and_the_report_begin_with_what_was_measured(older: str, tmp_path: Path) -> None:
    report = tmp_path / "a.html"
    page = analyzed("--terminal", "--report", str(report), "--png", str(tmp_path), older)
    lines = page.splitlines()
    assert lines[lines.index(next(line for line in lines if "How well used?" in line)) + 1].startswith("util ")
    assert "SM activity needs DCGM, or Hopper or newer (gssr doctor)" in " ".join(page.split())
    assert not re.search(r"^SM active|^DRAM|- +not measured|score unknown to", page, re.MULTILINE)
    assert re.search(r"^Memory copy utilization", page, re.MULTILINE)
    tiles = re.findall(r"<dt>([^<]*)</dt><dd class=\"big\">([^<]*)</dd>", report.read_text(encoding="utf-8"))
    assert [name for name, _ in tiles][:2] == ["GPU utilization", "Power"]
    assert [name for name, text in tiles if text == "unknown"] == ["Score"]
