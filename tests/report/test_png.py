"""Pictures: real files for every kind of run, and nothing of matplotlib's state touched."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import matplotlib
import numpy as np
import pytest
from analyses import START, analysis, one_sample, without_counters, without_gpus, without_samples
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from gssr.metrics import BY_NAME
from gssr.model.results import Analysis, Phase
from gssr.model.statistics.roofline import place_under_roofline
from gssr.peaks import peaks_of
from gssr.report.load_balancing import outliers_of
from gssr.report.over_time import short_place
from gssr.report.phases import drawn_roofs
from gssr.report.png.figure import ORANGE, NothingToDrawError, figure_style
from gssr.report.png.png import (
    histogram_of_means,
    lines,
    load_balancing_png,
    means_in_order,
    roofline,
    time_series_png,
)
from gssr.report.png.png_over_time import gpu_map

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


NOTHING = {
    "no_gpus": "no GPU",
    "no_samples": "no samples",
    "no_series": "none of these metrics was measured",
}
"""Of which runs there is nothing to draw along time, and what is said."""


def _drawn(draw: Callable[[Analysis, BinaryIO], None], found: Analysis) -> bytes:
    file = io.BytesIO()
    draw(found, file)
    return file.getvalue()


def _size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", RUNS)
def test_every_run_is_drawn_or_there_is_nothing_to_draw_and_nothing_is_written(name: str) -> None:
    for draw in (time_series_png, load_balancing_png):
        if name in NOTHING and not (draw is load_balancing_png and name == "no_series"):
            file = io.BytesIO()
            with pytest.raises(NothingToDrawError, match=NOTHING[name]):
                draw(RUNS[name](), file)
            assert not file.getvalue()
            continue
        width, height = _size(_drawn(draw, RUNS[name]()))
        assert width == 1300 and 200 < height < 2000


@pytest.mark.parametrize("draw", [time_series_png, load_balancing_png])
def test_the_same_analysis_gives_the_same_bytes_whatever_the_caller_has_set(
    draw: Callable[[Analysis, BinaryIO], None],
) -> None:
    first = _drawn(draw, analysis(4, 1))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        assert _drawn(draw, analysis(4, 1)) == first
        assert dict(matplotlib.rcParams) == before


def test_no_window_system_is_loaded() -> None:
    code = (
        "import sys, gssr.report.png.png as p\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import io; sys.path.insert(0, sys.argv[1]); from analyses import analysis\n"
        "p.load_balancing_png(analysis(4, 1), io.BytesIO())\n"
        "print([name for name in ('matplotlib.pyplot', 'tkinter', 'PyQt5', 'PyQt6') if name in sys.modules])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], stdout=subprocess.PIPE, check=True, text=True
    )
    assert found.stdout == "[]\n"


def test_a_name_that_is_too_long_loses_its_domain_first_and_then_its_beginning() -> None:
    assert short_place("nid000001.example.org:3", 40) == "nid000001.example.org:3"
    assert short_place("gpu17.cluster.example.org:3", 20) == "gpu17:3"
    assert short_place("a-long-name-of-node0031.example.org:7", 12) == "…-node0031:7"


@pytest.mark.parametrize("n_gpus", [4, 16, 200, 4200])
def test_a_straggler_has_its_colour_in_every_picture_and_no_legend_lies_over_data(n_gpus: int) -> None:
    base = np.full((n_gpus, 60), 0.7)
    base[1] = 0.05
    found = analysis(n_gpus, max(n_gpus // 4, 1), 60, base=base)
    metric = BY_NAME["sm_active"]
    outliers = outliers_of(found, metric)
    assert 1 in outliers
    drawers: list[Callable[[Axes], object]] = [
        lambda panel: means_in_order(panel, found, metric),
        lambda panel: gpu_map(panel.figure, panel, found, metric) if n_gpus > 4 else lines(panel, found, metric),
    ]
    if n_gpus > 4:
        drawers.append(lambda panel: histogram_of_means(panel, found, metric))
    for draw in drawers:
        with figure_style():
            figure = Figure(figsize=(6, 3))
            FigureCanvasAgg(figure)
            panel = figure.add_subplot()
            draw(panel)
            figure.draw_without_rendering()
            own = [*panel.patches, *panel.lines, *panel.get_yticklabels()]
            colours = {to_hex(item.get_facecolor() if item in panel.patches else item.get_color()) for item in own}
            assert ORANGE in colours or (draw == drawers[0] and n_gpus > 4096)  # then it is one shape
            legend = panel.get_legend()
            assert legend is None or legend.get_window_extent().y0 >= panel.get_window_extent().y1 - 1
            names = [label.get_text() for label in panel.get_yticklabels()]
            assert all(name.startswith("! ") for name, label in zip(names, panel.get_yticklabels(), strict=True)
                       if to_hex(label.get_color()) == ORANGE)  # fmt: skip


def test_a_roofline_has_its_legend_where_no_place_can_be() -> None:
    peaks = peaks_of("NVIDIA H100 80GB HBM3")
    assert peaks is not None
    means = {name: statistics.mean for name, statistics in analysis().metrics.items()}
    under = place_under_roofline(means, peaks)
    phases = tuple(Phase("steady", START + 10 * k, START + 10 * k + 10, 0.1, 0.5, means, under) for k in range(8))
    with figure_style():
        figure = Figure(figsize=(10, 5.2))
        FigureCanvasAgg(figure)
        panel = figure.add_subplot()
        roofline(panel, analysis(peaks=peaks, place=under, phases=phases))
        figure.draw_without_rendering()
        box = panel.get_legend().get_window_extent()
        intensity, flops = panel.transData.inverted().transform((box.x1, box.y0))
        assert flops > min(
            intensity * peaks.memory_bandwidth, *(peak for _, peak in drawn_roofs(peaks, analysis())[:1])
        )
