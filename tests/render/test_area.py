"""Areas, difference strips and stand-ins keep to their cells."""

import math

from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width, clean
from gssr.render.columns import area, difference_strip
from gssr.render.glyphs import ASCII, UTF8, drawable
from gssr.render.roles import Span, text_of

FRACTIONS = st.lists(st.one_of(st.floats(0, 2), st.just(math.nan)), max_size=30)


@given(FRACTIONS, st.integers(1, 12), st.sampled_from([UTF8, ASCII]))
def test_an_area_fills_its_box_and_no_more(fractions, height, glyphs):
    rows = area(fractions, height, glyphs)
    assert len(rows) == height
    assert all(len(text_of(row)) == len(fractions) for row in rows)


def test_zero_is_the_lowest_mark_missing_is_blank_and_too_much_is_an_arrow():
    rows = [text_of(row) for row in area([0.0, math.nan, 1.0, 1.5, 0.5], 2, UTF8)]
    assert rows == ["  █^ ", "▁ ███"]


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 8))
def test_more_is_never_drawn_lower(low, high, height):
    low, high = sorted((low, high))
    marks = " " + UTF8.levels
    for row in area([low, high], height, UTF8):
        text = text_of(row)
        assert marks.index(text[0]) <= marks.index(text[1])


def test_differences_within_two_points_are_none():
    assert text_of(difference_strip([0.0, 0.02, -0.02, 0.03, -0.03, math.nan, 1.0])) == "===+- +"


@given(st.text(max_size=20))
def test_ascii_stand_ins_take_as_many_cells(text):
    span = Span(text)
    before = cell_width(clean(text))
    after = text_of(drawable((span,), ASCII))
    assert after.isascii() and after.isprintable() and len(after) == before
    assert drawable((span,), UTF8) == (Span(clean(text)),)
