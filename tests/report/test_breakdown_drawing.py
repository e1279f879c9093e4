"""Where the GPU time went, as pictures: they hold all of the time, in the colours of the categories, and say each share."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from analyses import START, analysis, rejudged, without_gpus, without_samples
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from gssr.model.breakdown.categories import CATEGORIES, POSITIONS
from gssr.model.results import Analysis, AnalysisWindow
from gssr.render.breakdown import LOOKS
from gssr.render.roles import ROLES
from gssr.render.scale import percent
from gssr.report.breakdown_drawing import BreakdownDrawing, DrawnCategory, breakdown_drawing
from gssr.report.content import BINS
from gssr.report.html.html_document import html_report
from gssr.report.pdf.pdf import written
from gssr.report.png.figure import NothingToDrawError, figure_style
from gssr.report.png.png_breakdown import breakdown_png, draw_bar, draw_legend, draw_shares_over_time
from tests.html_page import Page

NAME_OF = {look.colour: name for name, look in LOOKS.items()}


def _drawing(found: Analysis) -> BreakdownDrawing:
    drawing = breakdown_drawing(found)
    assert drawing is not None
    return drawing


def _booked(n_bins: int, **stalls: tuple[int, int]) -> Analysis:
    """An analysis of one GPU in bins of a second: it works, but for the bins [first, last) of a category."""
    found = analysis(1, 1, n_bins, float(n_bins), np.full((1, n_bins), 0.9))
    assert found.judgement.breakdown is not None
    over_time = np.zeros((n_bins, len(CATEGORIES)))
    over_time[:, POSITIONS["working.tensor"]] = 1.0
    for name, (first, last) in stalls.items():
        over_time[first:last] = 0.0
        if name != "nothing":
            over_time[first:last, POSITIONS[name.replace("__", ".")]] = 1.0
    by_gpu = over_time.sum(axis=0, keepdims=True)
    return rejudged(found, breakdown=replace(found.judgement.breakdown, by_gpu=by_gpu, over_time=over_time))


@pytest.mark.parametrize(
    "found", [analysis(), analysis(4, 1), analysis(1, 1, 1, 0.5, np.array([[0.62]])), _booked(5000)]
)
def test_bar_and_columns_hold_all_of_the_time_one_category_after_the_other(found: Analysis) -> None:
    drawing = _drawing(found)
    assert drawing.categories[0].start == 0 and drawing.categories[-1].end == pytest.approx(1, abs=1e-9)
    assert [NAME_OF[each.colour] for each in drawing.categories] == [
        name
        for name in POSITIONS
        if found.judgement.breakdown is not None and found.judgement.breakdown.share(name) > 0
    ]
    below: DrawnCategory | None = None
    for each in drawing.categories:
        assert each.end - each.start == pytest.approx(each.share)
        assert len(each.bottom) == len(each.top) == len(drawing.edges) - 1 <= BINS
        assert each.start == pytest.approx(below.end if below else 0)
        assert each.bottom == pytest.approx(below.top if below else 0 * each.top)
        below = each
    assert below is not None and below.top == pytest.approx(1)
    assert drawing.edges[0] == found.window.start and drawing.edges[-1] == pytest.approx(found.window.end)


def test_columns_of_many_bins_hold_what_their_bins_hold() -> None:
    drawing = _drawing(_booked(5000, idle__copies=(1000, 2000)))
    copies = next(each for each in drawing.categories if NAME_OF[each.colour] == "idle.copies")
    widths = np.diff(drawing.edges)
    assert float((copies.top - copies.bottom) @ widths / widths.sum()) == pytest.approx(0.2, abs=1e-9)
    assert copies.share == pytest.approx(0.2)


def test_what_fills_a_moment_is_named_however_rare_and_what_nobody_sees_is_not() -> None:
    found = _booked(400, idle__copies=(200, 201))
    assert found.judgement.breakdown is not None
    found.judgement.breakdown.by_gpu[0, POSITIONS["working.fp64"]] = 0.4
    drawing = _drawing(found)
    named = {NAME_OF[each.colour]: each.share for each in drawing.named}
    assert named.keys() == {"working.tensor", "idle.copies"} and named["idle.copies"] < 0.005
    assert "working.fp64" in {NAME_OF[each.colour] for each in drawing.categories}


def test_a_column_in_which_no_time_was_allocated_is_blank() -> None:
    (works,) = _drawing(_booked(100, nothing=(40, 60))).categories
    assert np.isnan(works.top[40:60]).all() and np.isfinite(works.top[:40]).all()


def test_gpus_that_were_never_sampled_are_in_the_bar_and_in_every_column() -> None:
    found = analysis(4, 1)
    assert found.judgement.breakdown is not None
    whole = found.judgement.breakdown.with_unmeasured_gpus(np.array([0, 1, 2, 3]), 8, 300.0)
    bar = _drawing(rejudged(found, breakdown=whole)).categories[-1]
    assert NAME_OF[bar.colour] == "unmeasured" and bar.share == pytest.approx(
        whole.over_time[:, POSITIONS["unmeasured"]].sum() / whole.over_time.sum()
    )
    assert (bar.top - bar.bottom >= 0.5 - 1e-9).all()


def test_the_columns_end_where_the_part_that_is_looked_at_ends() -> None:
    part = replace(analysis(), window=AnalysisWindow(START + 0.4, START + 299.5, 0.0, 0.0, False))
    edges = _drawing(part).edges
    assert (edges[0], edges[-1]) == (START + 0.4, START + 299.5) and (np.diff(edges) > 0).all()


def test_neither_two_marks_nor_two_colours_are_alike() -> None:
    looks = list(LOOKS.values())
    for found in ([look.mark for look in looks], [look.ascii_mark for look in looks], [look.colour for look in looks],
                  [ROLES[look.role].sgr for look in looks]):  # fmt: skip
        assert len(set(found)) == len(LOOKS)
    assert all(len(look.mark) == 1 and look.ascii_mark.isascii() for look in looks)


@pytest.mark.parametrize("name", LOOKS)
def test_percentages_can_be_read_on_the_colour_of_their_part(name: str) -> None:
    (part,) = [each for each in _drawing(_booked(9, **{name.replace(".", "__"): (0, 9)})).categories if each.share > 0]

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(part.colour), luminance(part.text_colour)))
    assert (high + 0.05) / (low + 0.05) >= 4.5, "WCAG 2.2, 1.4.3"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "found", [analysis(), analysis(1, 1, 1, 0.5, np.array([[0.62]])), analysis(series={}, gpu_series={})]
)
def test_the_picture_is_drawn_and_the_same_analysis_gives_the_same_bytes(found: Analysis) -> None:
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        breakdown_png(found, file)
    assert files[0].getvalue().startswith(b"\x89PNG") and files[0].getvalue() == files[1].getvalue()


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (without_gpus(), "no GPU"), (without_samples(), "no samples"),
        (analysis(breakdown=None), "the GPU time was not accounted for"),
    ],
)  # fmt: skip
def test_why_there_is_no_picture_is_said(found: Analysis, why: str) -> None:
    file = io.BytesIO()
    with pytest.raises(NothingToDrawError, match=why):
        breakdown_png(found, file)
    assert not file.getvalue()


def test_the_picture_has_the_colours_of_the_table_and_the_legend_each_share() -> None:
    found, drawing = analysis(), _drawing(analysis())
    colours = {each.colour for each in drawing.categories}
    with figure_style():
        bar, legend, stack = Figure().subplots(3)
        draw_bar(bar, drawing)
        draw_legend(legend, drawing, 9.0, ["a remark"])
        draw_shares_over_time(stack, found, drawing)
    assert {to_hex(patch.get_facecolor()) for patch in bar.patches} == colours
    assert {to_hex(patch.get_facecolor()) for patch in stack.patches} == colours
    assert sum(patch.get_width() for patch in bar.patches) == pytest.approx(1)
    words = [text.get_text() for text in legend.texts]
    for each in drawing.named:
        assert percent(each.share) in words and each.label in words and each.about in words
    assert "a remark" in words


def test_the_longest_label_with_its_share_and_its_time_has_room_in_its_column() -> None:
    from gssr.report.pdf.sheet import MARGIN, WIDE

    drawing = _drawing(_booked(9000, **{each.name.replace(".", "__"): (500 * at, 500 * at + 499)
                                        for at, each in enumerate(CATEGORIES)}))  # fmt: skip
    longest = [each._replace(gpu_seconds=3600 * 23 + 60 * 59, known_by="measured") for each in drawing.categories]
    with figure_style():
        figure = Figure(figsize=(WIDE - 2 * MARGIN, 2), dpi=200)
        panel = figure.add_axes((0, 0, 1, 1))
        draw_legend(panel, drawing._replace(categories=tuple(longest)), 7.0, [])
        figure.draw_without_rendering()
        ends = [text.get_window_extent().x1 for text in panel.texts]
    half = len(ends) // 2
    assert max(ends[:half]) <= figure.bbox.width / 2 and max(ends[half:]) <= figure.bbox.width


def test_the_report_begins_with_the_bar_and_says_each_share_in_words() -> None:
    found, drawing = analysis(), _drawing(analysis())
    text = html_report([found])
    page = Page(text)
    words = page.text.split("\n")
    assert words.index("Where does the GPU time go?") < words.index("How well were the GPUs used?")
    assert drawing.headline in words
    bar = text[text.index('class="bar"') :]
    bar = bar[: bar.index("</figure>")]
    widths = [float(width) for width in re.findall(r'<svg x="[\d.]+%" width="([\d.]+)%"', bar)]
    assert sum(widths) == pytest.approx(100, abs=0.1) and len(widths) == len(drawing.categories)
    for each in drawing.categories:
        assert text.count(f'fill="{each.colour}"') == 2 + each.is_named, "in the bar, along time and in the legend"
        assert f"{each.text} ({each.about})" in words, "where one points at the bar"
    label = next(a["aria-label"] for name, a in page.elements if a.get("class") == "bar") or ""
    for each in drawing.named:
        assert each.text in label and each.label in words and percent(each.share) in words


def test_a_report_without_an_account_has_no_place_for_it() -> None:
    assert "Where does the GPU time go?" not in Page(html_report([without_samples()])).text


def test_the_first_page_of_the_pdf_has_the_bar_the_shares_and_their_course() -> None:
    found, drawing = analysis(), _drawing(analysis())
    with figure_style():
        first = written(found).figures[0]
    colours = [{to_hex(patch.get_facecolor()) for patch in panel.patches} for panel in first.axes]
    assert colours.count({each.colour for each in drawing.categories}) == 2, "in the bar and along time"
    words = [text.get_text() for part in (first, *first.axes) for text in part.texts]
    for each in drawing.named:
        assert percent(each.share) in words and each.label in words
    assert words.index("Where does the GPU time go?") < words.index("How well were the GPUs used?")
    assert drawing.headline in words
