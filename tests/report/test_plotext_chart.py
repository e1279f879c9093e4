"""The plotext adapter: charts as rows, with nothing of plotext left behind."""

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import plotext
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gssr.report.plotext_chart as chart_module
from gssr.render.clock import Tick
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import Row, text_of
from gssr.report.plotext_chart import band_chart, histogram_chart

LABELS = ["0", "50 %", "100 %"]


def _chart(width: int, marks: Glyphs) -> list[Row]:
    n = width - 7
    x = np.arange(n)
    mean = 0.6 + 0.2 * np.sin(x / 6)
    mean[: n // 20] = 0.0
    mean[n // 2 : n // 2 + 4] = np.nan
    mean[-6] = np.nan
    low, high = np.clip(mean - 0.2, 0, 1), np.clip(mean + 0.1, 0, 1)
    return band_chart(mean, low, high, LABELS, [Tick(0, "0 s"), Tick(n // 2, "2:30")], 6, 11, marks)


@pytest.mark.parametrize(("kind", "marks"), [("utf8", UTF8), ("ascii", ASCII)])
def test_charts_look_as_somebody_last_saw_them(kind: str, marks: Glyphs, golden: Callable[[str, str], None]) -> None:
    golden(f"chart_{kind}_60.txt", "".join(text_of(row).rstrip() + "\n" for row in _chart(60, marks)))


@pytest.mark.parametrize("marks", [UTF8, ASCII])
@pytest.mark.parametrize("width", [20, 80, 300])
def test_a_chart_fills_exactly_its_box(width: int, marks: Glyphs) -> None:
    rows = _chart(width, marks)
    assert len(rows) == 13 and {len(text_of(row)) for row in rows} == {width}
    assert marks is UTF8 or all(text_of(row).isascii() for row in rows)


@pytest.mark.parametrize("marks", [UTF8, ASCII])
def test_no_line_crosses_a_gap(marks: Glyphs) -> None:
    mean = np.full(40, 0.5)
    mean[10:13] = np.nan
    canvas = [text_of(row)[7:] for row in band_chart(mean, mean, mean, LABELS, [Tick(0, "0")], 6, 11, marks)[:11]]
    filled = [any(line[column] != " " for line in canvas) for column in range(40)]
    assert [column for column in range(40) if not filled[column]] == [10, 11, 12]


def test_zero_is_drawn_and_missing_is_not() -> None:
    nothing = np.full(40, np.nan)
    zero = np.zeros(40)
    empty = [text_of(row)[7:] for row in band_chart(nothing, nothing, nothing, LABELS, [], 6, 11, UTF8)[:11]]
    bottom = [text_of(row)[7:] for row in band_chart(zero, zero, zero, LABELS, [], 6, 11, UTF8)[:11]]
    assert not "".join(empty).strip()
    assert "".join(bottom[:10]).strip() == "" and " " not in bottom[10]


def test_a_single_value_between_gaps_is_drawn() -> None:
    mean = np.full(40, np.nan)
    mean[20] = 0.5
    canvas = [text_of(row)[7:] for row in band_chart(mean, mean, mean, LABELS, [], 6, 11, UTF8)[:11]]
    assert canvas[5][20] != " " and "".join(canvas).count(" ") == 11 * 40 - 1


def test_values_beyond_the_scale_stay_on_the_canvas() -> None:
    mean = np.full(40, 1.7)
    rows = band_chart(mean, mean - 3, mean, LABELS, [], 6, 11, UTF8)
    assert " " not in text_of(rows[0])[7:] and len(rows) == 12


@pytest.mark.parametrize("marks", [UTF8, ASCII])
@pytest.mark.parametrize("height", range(2, 26))
def test_a_line_is_drawn_beside_its_label_and_labels_are_equally_far_apart(height: int, marks: Glyphs) -> None:
    labels = ["0", "25", "50", "75", "100"]

    def rows_of(value: float) -> list[str]:
        line, no_band = np.full(40, value), np.full(40, np.nan)
        return [
            text_of(row)
            for row in band_chart(line, no_band, no_band, labels, [Tick(0, "0")], 6, height, marks)[:height]
        ]

    at = {text[:6].strip(): row for row, text in enumerate(rows_of(0.5)) if text[:6].strip()}
    assert at["0"] == height - 1 and at["100"] == 0
    places = sorted(at.values())
    assert len({after - before for before, after in pairwise(places)}) == 1
    for label, row in at.items():
        (drawn,) = (y for y, text in enumerate(rows_of(int(label) / 100)) if text[7:].strip())
        assert drawn == row
    for value in np.linspace(0.013, 0.987, 29):
        (drawn,) = (y for y, text in enumerate(rows_of(value)) if text[7:].strip())
        assert abs(height - 1 - drawn - value * (height - 1)) <= 0.51


def test_each_chart_is_drawn_on_a_clean_figure() -> None:
    first = _chart(80, UTF8)
    plotext.figure.draw(plotext.figure.signal([0, 1], [5, 900]))
    plotext.figure.title("left over")
    assert _chart(80, UTF8) == first
    assert plotext.figure.build().string(colorless=True).strip(" \n│┌┐└┘─┤┬") == ""


def test_a_canvas_too_narrow_is_left_out() -> None:
    few = np.full(7, 0.5)
    assert band_chart(few, few, few, LABELS, [], 6, 11, UTF8) == []


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 4000), min_size=1, max_size=10), st.integers(8, 300))
def test_a_histogram_has_a_line_for_each_bin_and_fills_exactly_its_box(counts: list[int], columns: int) -> None:
    labels = [f"{10 * i:>3} - {10 * i + 10:>3}" for i in range(len(counts))]
    for marks in (UTF8, ASCII):
        lines = [text_of(row) for row in histogram_chart(labels, counts, columns, marks)]
        assert len(lines) == len(counts) and {len(line) for line in lines} == {10 + columns}
        assert [line.startswith(label) for line, label in zip(lines, labels, strict=True)] == [True] * len(counts)
        drawn = [len(line[10:].rstrip()) for line in lines]
        assert [n > 0 for n in drawn] == [n > 0 for n in counts]
        assert not max(counts) or max(drawn) == columns == drawn[counts.index(max(counts))]


def test_a_bar_of_a_histogram_is_as_long_as_its_count() -> None:
    first, none, last = (text_of(row)[2:].rstrip() for row in histogram_chart(["a", "b", "c"], [4, 0, 1], 40, ASCII))
    assert (len(first), len(none), len(last)) == (40, 0, 10)


def test_the_manual_of_plotext_is_not_built_until_somebody_imports_it() -> None:
    code = f"""
import sys
import gssr.report.plotext_chart as chart
print([name for name in sys.modules if name.startswith("plotext._doc")])
import {chart_module.MANUAL}
print({chart_module.MANUAL}.docs is not None)
"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.split("\n")[:2] == ["[]", "True"]
