"""Pictures: real files for every kind of run, and nothing of matplotlib's state touched."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import pytest
from analyses import analysis, one_sample, without_counters, without_gpus, without_samples

from gssr.model.analysis import Analysis
from gssr.report.heat_map import short_place
from gssr.report.png import load_balancing_png, time_series_png

RUNS: dict[str, Callable[[], Analysis]] = {
    "16_gpus": analysis,
    "4_gpus": lambda: analysis(4, 1),
    "200_gpus": lambda: analysis(200, 50),
    "no_gpus": without_gpus,
    "no_samples": without_samples,
    "one_sample": one_sample,
    "no_counters": without_counters,
    "no_series": lambda: analysis(series={}, gpu_series={}),
}


def _size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", RUNS)
def test_every_run_can_be_drawn(name: str, tmp_path: Path) -> None:
    for draw in (time_series_png, load_balancing_png):
        draw(RUNS[name](), tmp_path / "x.png")
        width, height = _size(tmp_path / "x.png")
        assert width == 1300 and 200 < height < 2000


def test_the_same_analysis_gives_the_same_bytes(tmp_path: Path) -> None:
    for draw in (time_series_png, load_balancing_png):
        draw(analysis(8, 2), tmp_path / "a.png")
        draw(analysis(8, 2), tmp_path / "b.png")
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_settings_of_the_caller_are_neither_used_nor_changed(tmp_path: Path) -> None:
    time_series_png(analysis(4, 1), tmp_path / "a.png")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        time_series_png(analysis(4, 1), tmp_path / "b.png")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_no_window_system_is_loaded() -> None:
    code = (
        "import sys, gssr.report.png as p\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import pathlib, tempfile; sys.path.insert(0, sys.argv[1]); from analyses import analysis\n"
        "p.load_balancing_png(analysis(4, 1), pathlib.Path(tempfile.mkdtemp()) / 'x.png')\n"
        "print([name for name in ('matplotlib.pyplot', 'tkinter', 'PyQt5', 'PyQt6') if name in sys.modules])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], stdout=subprocess.PIPE, check=True, text=True
    )
    assert found.stdout == "[]\n"


def test_an_unwritable_path_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        time_series_png(analysis(4, 1), tmp_path / "missing" / "x.png")


def test_a_name_that_is_too_long_loses_its_domain_first_and_then_its_beginning() -> None:
    assert short_place("nid000001.example.org:3", 40) == "nid000001.example.org:3"
    assert short_place("gpu17.cluster.example.org:3", 20) == "gpu17:3"
    assert short_place("a-long-name-of-node0031.example.org:7", 12) == "…-node0031:7"
