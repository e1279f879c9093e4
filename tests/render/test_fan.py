"""A line and its band in Braille dots, and in ASCII."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gssr.render.cells import cell_width
from gssr.render.fan import fan
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.render.roles import Span, text_of
from gssr.render.table import rule

NAN = np.nan
SETS = pytest.mark.parametrize("glyphs", [UTF8, ASCII], ids=["utf8", "ascii"])


def drawn(line: list[float], height: int, glyphs: Glyphs, low: float = NAN, high: float = NAN) -> list[str]:
    ends = np.full(len(line), low), np.full(len(line), high)
    return [text_of(row) for row in fan(np.array(line), *ends, height, glyphs)]


@SETS
@given(
    values=st.lists(st.one_of(st.just(NAN), st.floats(-0.5, 2)), min_size=1, max_size=30),
    height=st.integers(1, 12), cursor=st.one_of(st.none(), st.integers(-3, 40)),
)  # fmt: skip
def test_a_fan_fills_its_box_with_narrow_characters(
    glyphs: Glyphs, values: list[float], height: int, cursor: int | None
) -> None:
    line = np.array(values)
    rows = fan(line, line - 0.1, line + 0.1, height, glyphs, line - 0.2, cursor)
    assert len(rows) == height
    for row in rows:
        assert len(text_of(row)) == cell_width(text_of(row)) == len(values)
        assert glyphs is UTF8 or text_of(row).isascii()
        marked = [span for span in row if span.role == "cursor"]
        assert len(marked) == (cursor is not None and 0 <= cursor < len(values))


@SETS
def test_zero_is_drawn_and_missing_is_blank(glyphs: Glyphs) -> None:
    rows = drawn([0.0, NAN, 0.0], 3, glyphs)
    assert [row[1] for row in rows] == [" ", " ", " "]
    assert rows[-1][0] != " " and rows[-1][2] != " "
    assert rows[0] == rows[1] == "   "


@SETS
def test_full_is_in_the_top_row_and_above_it_is_marked(glyphs: Glyphs) -> None:
    rows = drawn([1.0, NAN, 1.3], 4, glyphs)
    assert rows[0][0] not in " ^" and rows[0][2] == "^"


def test_the_line_goes_up_and_down_without_a_break() -> None:
    assert drawn([0.1, 0.9, 0.1], 5, ASCII) == [" o ", " ||", " ||", " ||", "o o"]


def test_the_band_lies_behind_the_line() -> None:
    assert drawn([0.5, 0.5], 5, ASCII, 0.3, 0.7) == ["  ", "..", "oo", "..", "  "]


@given(st.text(max_size=30), st.integers(1, 60), st.text("abc ", max_size=30))
def test_a_rule_fills_its_width(title: str, width: int, about: str) -> None:
    row = rule(title, width, UTF8, (Span(about),))
    assert cell_width(text_of(row)) == width
