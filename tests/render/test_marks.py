"""Strips and bars: zero is drawn, missing is not, and too much is marked."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width
from gssr.render.columns import bar, strip
from gssr.render.glyphs import ASCII, UTF8, Glyphs, glyph_set, level
from gssr.render.roles import ROLES, text_of

SETS = [UTF8, ASCII]
fractions = st.none() | st.floats(0, 1) | st.floats(1.01, 10) | st.just(math.nan)


@pytest.mark.parametrize("marks", SETS)
def test_every_glyph_takes_one_cell(marks: Glyphs) -> None:
    for text in (
        *marks.levels,
        marks.full,
        marks.bar,
        *marks.half,
        marks.track,
        marks.band,
        marks.rule,
        marks.heavy,
        marks.bullet,
    ):
        assert len(text) == cell_width(text) == 1
    assert len(set(marks.levels)) == len(marks.levels)


def test_the_ascii_set_is_ascii() -> None:
    assert "".join(ASCII).isascii()
    assert glyph_set(True) is ASCII and glyph_set(False) is UTF8


@pytest.mark.parametrize("marks", SETS)
def test_missing_is_blank_and_zero_is_the_lowest_mark(marks: Glyphs) -> None:
    assert text_of(strip([None, math.nan, 0.0, 1.0], marks)) == f"  {marks.levels[0]}{marks.levels[-1]}"
    assert marks.levels[0] != " "


@pytest.mark.parametrize("marks", SETS)
def test_beyond_the_full_scale_is_marked_and_rounding_is_not(marks: Glyphs) -> None:
    row = strip([1.004, 1.2], marks)
    assert text_of(row) == f"{marks.levels[-1]}^"
    assert row[-1].role == "outlier"


@given(st.floats(0, 1), st.floats(0, 1))
def test_higher_values_never_get_lower_marks(a: float, b: float) -> None:
    low, high = sorted((a, b))
    for marks in SETS:
        assert marks.levels.index(level(low, marks.levels)) <= marks.levels.index(level(high, marks.levels))


@given(st.lists(fractions, max_size=120))
def test_a_strip_has_one_cell_per_value(values: list[float | None]) -> None:
    for marks in SETS:
        assert len(text_of(strip(values, marks))) == len(values)


@given(fractions, st.integers(0, 300))
def test_a_bar_fills_exactly_its_cells(fraction: float | None, width: int) -> None:
    for marks in SETS:
        assert cell_width(text_of(bar(fraction, width, marks))) == width


@pytest.mark.parametrize("marks", SETS)
def test_a_missing_bar_is_blank_and_a_bar_of_zero_is_all_track(marks: Glyphs) -> None:
    assert text_of(bar(None, 5, marks)) == text_of(bar(math.nan, 5, marks)) == "     "
    assert text_of(bar(0.0, 5, marks)) == marks.track * 5
    assert text_of(bar(1e-6, 5, marks)) != marks.track * 5
    assert text_of(bar(1.0, 5, marks)) == marks.bar * 5
    assert text_of(bar(1.5, 5, marks)) == marks.bar * 4 + "^"


def test_bars_show_halves() -> None:
    assert text_of(bar(0.5 + 1 / 8, 4, UTF8)) == "━━╸─"


def test_every_role_has_a_look_for_a_terminal_and_for_rich() -> None:
    for role, look in ROLES.items():
        assert bool(look.sgr) == bool(look.rich), role
